//! Just enough of PostgreSQL's protocol to ask one question, so that the crate needs no client.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The first column of the first row that the server on `port` answers; empty when there is none.
/// What the server refuses is an error with its words.
pub fn ask(port: u16, query: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let protocol_3 = 0x0003_0000_u32.to_be_bytes();
    let parameters = b"user\0postgres\0database\0postgres\0\0";
    stream.write_all(&framed(&[&protocol_3[..], parameters].concat()))?;
    until_ready(&mut stream)?;
    stream.write_all(b"Q")?;
    stream.write_all(&framed(format!("{query}\0").as_bytes()))?;
    until_ready(&mut stream)
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&length.to_be_bytes()[..], body].concat()
}

/// Reads messages until the server waits for the next query.
fn until_ready(stream: &mut TcpStream) -> io::Result<String> {
    let mut value = String::new();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap());
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        stream.read_exact(&mut body)?;
        match head[0] {
            b'Z' => return Ok(value),
            b'E' => return Err(io::Error::other(String::from_utf8_lossy(&body).into_owned())),
            // A row: the number of columns, then the length and the bytes of each.
            b'D' => {
                let length = u32::from_be_bytes(body[2..6].try_into().unwrap());
                let bytes = &body[6..6 + usize::try_from(length).unwrap()];
                value = String::from_utf8(bytes.to_vec()).unwrap();
            }
            _ => {}
        }
    }
}
