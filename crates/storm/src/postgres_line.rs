//! As much of the protocol of PostgreSQL as tells where a server says that it has committed.
//!
//! A message is a letter, a length and that many bytes. A transaction ends with `COMMIT`; a
//! statement outside of one has ended when the server says that it is idle.

/// The start of a body that is needed to tell.
const HEAD_BYTES: usize = 8;

/// What a server says, message by message, however it is cut into chunks.
#[derive(Debug, Default)]
pub struct Messages {
    /// Letter, length and the first bytes of the body.
    head: Vec<u8>,
    /// Bytes of the current message that have not come.
    left: usize,
    /// A statement was done that nothing has committed yet.
    wrote: bool,
}

impl Messages {
    /// How many commits a chunk tells of.
    pub fn commits(&mut self, chunk: &[u8]) -> usize {
        let mut commits = 0;
        let mut rest = chunk;
        while let Some((byte, tail)) = rest.split_first() {
            if self.head.len() < 5 {
                self.head.push(*byte);
                rest = tail;
                if self.head.len() == 5 {
                    self.left = self.body_bytes();
                }
            } else {
                let taken = self.left.min(rest.len());
                let wanted = (5 + HEAD_BYTES - self.head.len()).min(taken);
                self.head.extend(&rest[..wanted]);
                self.left -= taken;
                rest = &rest[taken..];
            }
            if self.head.len() >= 5 && self.left == 0 {
                commits += usize::from(self.ends_transaction());
                self.head.clear();
            }
        }
        commits
    }

    fn body_bytes(&self) -> usize {
        let length: [u8; 4] = self.head[1..5].try_into().expect("four bytes");
        usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX).saturating_sub(4)
    }

    fn ends_transaction(&mut self) -> bool {
        let body = &self.head[5..];
        match self.head[0] {
            b'C' if body.starts_with(b"COMMIT") => {
                self.wrote = false;
                true
            }
            b'C' => {
                let tags: [&[u8]; 4] = [b"INSERT", b"UPDATE", b"DELETE", b"SELECT"];
                self.wrote = tags.iter().any(|tag| body.starts_with(tag));
                false
            }
            b'Z' => body == b"I" && std::mem::take(&mut self.wrote),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(letter: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("it is short");
        [&[letter][..], &length.to_be_bytes(), body].concat()
    }

    #[test]
    fn a_commit_is_found_however_it_is_cut() {
        let said = [
            message(b'C', b"INSERT 0 1\0"),
            message(b'Z', b"T"),
            message(b'C', b"COMMIT\0"),
            message(b'Z', b"I"),
        ]
        .concat();
        for size in 1..said.len() {
            let mut messages = Messages::default();
            let found: usize = said.chunks(size).map(|chunk| messages.commits(chunk)).sum();
            assert_eq!(found, 1, "in chunks of {size}");
        }
    }

    #[test]
    fn a_statement_on_its_own_commits_when_the_server_is_idle() {
        let said = [message(b'C', b"UPDATE 1\0"), message(b'Z', b"I")].concat();
        assert_eq!(Messages::default().commits(&said), 1);
        let fails = [message(b'E', b"..."), message(b'Z', b"I")].concat();
        assert_eq!(Messages::default().commits(&fails), 0);
    }
}
