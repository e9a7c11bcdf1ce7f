//! Cursors: places in the feed, opaque to readers, who keep them and send them back.
//!
//! A store hands out cursors of one kind and refuses the other, because it could only misread
//! them. With one writer at a time a number is a place: what is numbered later is seen later.
//! With many, an event may become visible after one with a higher number, so a place is a
//! [`Window`] between two snapshots.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::error::{Code, Rejection};
use crate::limits::CURSOR_BYTES_MAX;

/// A place in the feed. Opaque to readers, who keep it and send it back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cursor {
    /// Before the first event.
    Start,
    /// After the event with this number; for stores with a single writer.
    Seq(u64),
    /// A window between two snapshots; for stores with many writers.
    Window(Box<Window>),
}

/// What became visible between two snapshots, read up to some event.
///
/// Everything visible in `base` was dealt with, and of what became visible between `base` and
/// `upto` everything up to number `after`.
///
/// A snapshot is asked only about events up to the number beside it: after a crash the server gives
/// the numbers of aborted transactions again, and a snapshot from before takes those for ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Everything it sees was dealt with.
    pub base: Horizon,
    /// What it sees beyond `base` is being read.
    pub upto: Horizon,
    /// The number of the last event read; at least that of `upto` when the window is exhausted.
    pub after: u64,
}

/// A snapshot of the store, and the highest number of an event that it sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Horizon {
    /// The text of a Postgres `pg_snapshot`: `xmin:xmax:xip_list`.
    pub snapshot: String,
    /// The highest number of an event; 0 when there was none. What is numbered above it is new
    /// whatever the snapshot says of its transaction.
    pub seq: u64,
}

/// Which cursors a store hands out and takes back, besides [`Cursor::Start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CursorKind {
    /// Those of a store with a single writer.
    Seq,
    /// Those of a store with many writers.
    Window,
}

impl CursorKind {
    /// Refuses a cursor of another kind of store.
    pub fn check(self, cursor: &Cursor) -> Result<(), Rejection> {
        match (self, cursor) {
            (_, Cursor::Start)
            | (Self::Seq, Cursor::Seq(_))
            | (Self::Window, Cursor::Window(_)) => Ok(()),
            (Self::Seq, Cursor::Window(_)) | (Self::Window, Cursor::Seq(_)) => Err(unknown(cursor)),
        }
    }
}

impl Cursor {
    /// The number of the last event seen.
    pub fn seq(&self) -> u64 {
        match self {
            Self::Start => 0,
            Self::Seq(seq) => *seq,
            Self::Window(window) => window.after,
        }
    }

    /// The number of the newest event that there was to see.
    pub fn upto_seq(&self) -> u64 {
        match self {
            Self::Start => 0,
            Self::Seq(seq) => *seq,
            Self::Window(window) => window.upto.seq,
        }
    }

    /// Whether it cannot have come from a feed whose newest place is `tail`.
    pub fn is_beyond(&self, tail: &Self) -> bool {
        match (self, tail) {
            (Self::Start, _) => false,
            (Self::Seq(_), Self::Start | Self::Seq(_)) => self.seq() > tail.seq(),
            // A tail also counts what was removed since as read. What somebody read beyond the end
            // of its own window counts for nothing.
            (Self::Window(own), Self::Window(tail)) => own.upto.seq > tail.upto.seq.max(tail.after),
            // Of another kind of store, or of one that has seen more than an empty one.
            (Self::Seq(_), Self::Window(_)) | (Self::Window(_), Self::Start | Self::Seq(_)) => true,
        }
    }

    /// Whether numbers were passed on the way here from `earlier`. A new snapshot alone is no
    /// progress: it differs on every read, also when nothing happened.
    pub fn has_passed(&self, earlier: &Self) -> bool {
        self.seq() > earlier.seq() || self.upto_seq() > earlier.upto_seq()
    }

    /// Bytes it carries, for bounding queues.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Start | Self::Seq(_) => 0,
            Self::Window(window) => window.base.snapshot.len() + window.upto.snapshot.len(),
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::Seq(seq) => write!(f, "seq:{seq}"),
            Self::Window(window) => {
                write!(f, "window:{}/{}/{}", window.base, window.upto, window.after)
            }
        }
    }
}

impl fmt::Display for Horizon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.snapshot, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = Rejection;

    fn from_str(text: &str) -> Result<Self, Rejection> {
        if text.len() > CURSOR_BYTES_MAX {
            let why = format!("is {} bytes long; at most {CURSOR_BYTES_MAX} fit", text.len());
            return Err(Rejection::invalid(Code::InvalidInput, "cursor", text, why));
        }
        let cursor = match text.split_once(':') {
            None => (text == "start").then_some(Self::Start),
            Some(("seq", number)) => event_number(number).map(Self::Seq),
            Some(("window", window)) => {
                parse_window(window).map(|window| Self::Window(Box::new(window)))
            }
            Some(_) => None,
        };
        cursor.ok_or_else(|| unknown(text))
    }
}

impl Serialize for Cursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn unknown(cursor: impl fmt::Display) -> Rejection {
    let why = "is not a cursor of this store; use one it returned, or \"start\"";
    Rejection::invalid(Code::InvalidInput, "cursor", cursor, why)
}

fn parse_window(text: &str) -> Option<Window> {
    let mut parts = text.split('/');
    let base = parse_horizon(parts.next()?)?;
    let upto = parse_horizon(parts.next()?)?;
    let after = event_number(parts.next()?)?;
    parts.next().is_none().then_some(Window { base, upto, after })
}

fn parse_horizon(text: &str) -> Option<Horizon> {
    let (snapshot, seq) = text.split_once('@')?;
    let seq = event_number(seq)?;
    is_snapshot(snapshot).then(|| Horizon { snapshot: snapshot.to_owned(), seq })
}

/// Whether Postgres would read the text as a `pg_snapshot` and write the same one.
fn is_snapshot(text: &str) -> bool {
    let mut parts = text.split(':');
    let (xmin, xmax) = (parts.next().and_then(number), parts.next().and_then(number));
    let (Some(xmin), Some(xmax), Some(list), None) = (xmin, xmax, parts.next(), parts.next())
    else {
        return false;
    };
    // Numbers of transactions in progress, ascending: each is at least `low`.
    let mut low = xmin;
    let in_progress = list.is_empty()
        || list.split(',').all(|xid| {
            let fits = number(xid).filter(|xid| (low..xmax).contains(xid));
            low = fits.map_or(low, |xid| xid + 1);
            fits.is_some()
        });
    1 <= xmin && xmin <= xmax && in_progress
}

/// The store keeps the numbers of events as signed 64-bit integers.
fn event_number(text: &str) -> Option<u64> {
    number(text).filter(|n| i64::try_from(*n).is_ok())
}

/// A number as it is written: no sign, no leading zeros.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n: &u64| n.to_string() == text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn horizon(snapshot: &str, seq: u64) -> Horizon {
        Horizon { snapshot: snapshot.to_owned(), seq }
    }

    /// Between snapshots that see numbers up to `base` and `upto`.
    fn window(base: u64, upto: u64, after: u64) -> Cursor {
        let (base, upto) = (horizon("738:740:739", base), horizon("740:740:", upto));
        Cursor::Window(Box::new(Window { base, upto, after }))
    }

    #[test]
    fn cursors_survive_as_text() {
        let busy = horizon("1:18446744073709551615:1,2,18446744073709551614", u64::MAX / 2);
        let (base, upto) = (horizon("1:1:", 0), busy);
        let widest = Cursor::Window(Box::new(Window { base, upto, after: u64::MAX / 2 }));
        for (cursor, text) in [
            (Cursor::Start, "start"),
            (Cursor::Seq(0), "seq:0"),
            (Cursor::Seq(7), "seq:7"),
            (window(0, 0, 0), "window:738:740:739@0/740:740:@0/0"),
            (window(3, 12, 7), "window:738:740:739@3/740:740:@12/7"),
            (
                widest,
                "window:1:1:@0/1:18446744073709551615:1,2,18446744073709551614\
                 @9223372036854775807/9223372036854775807",
            ),
        ] {
            assert_eq!(cursor.to_string(), text);
            assert_eq!(text.parse(), Ok(cursor));
        }
    }

    #[test]
    fn a_malformed_cursor_is_refused_and_shown() {
        for text in ["", "start ", "Start", "7", "seq", "seq:", "seq:+7", "seq:07", "seq:-1"] {
            let refused = text.parse::<Cursor>().unwrap_err();
            assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("cursor")));
            assert_eq!(refused.value.as_deref(), Some(text));
        }
        assert!("seq:9223372036854775807".parse::<Cursor>().is_ok());
        assert!("seq:9223372036854775808".parse::<Cursor>().is_err());
    }

    #[test]
    fn a_window_has_exactly_its_parts() {
        for text in [
            "window",
            "window:",
            "window:5:5:@1",
            "window:5:5:@1/6:6:@2",
            "window:5:5:@1/6:6:@2/",
            "window:5:5:@1/6:6:@2/2/",
            "window:5:5:@1/6:6:@2/2/2",
            "window:5:5:@1/6:6:@2/+2",
            "window:5:5:@1/6:6:@2/02",
            "window:5:5:@1/6:6:@2/9223372036854775808",
            "window:5:5:@1/6:6:@9223372036854775808/2",
            "window:5:5:@9223372036854775808/6:6:@2/2",
            "window:5:5:@/6:6:@2/2",
            "window:5:5:/6:6:@2/2",
            "window:5:5:@1@1/6:6:@2/2",
            "window: 5:5:@1/6:6:@2/2",
            "Window:5:5:@1/6:6:@2/2",
        ] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_snapshot_is_one_that_postgres_would_write() {
        let both = |snapshot: &str| {
            let base = format!("window:{snapshot}@1/6:6:@2/2").parse::<Cursor>();
            let upto = format!("window:6:6:@1/{snapshot}@2/2").parse::<Cursor>();
            assert_eq!(base.is_ok(), upto.is_ok(), "{snapshot}");
            base.is_ok()
        };
        for snapshot in ["1:1:", "5:9:", "5:9:5", "5:9:5,6,8", "5:18446744073709551615:"] {
            assert!(both(snapshot), "{snapshot}");
        }
        for snapshot in [
            "",
            ":",
            "::",
            "5:9",
            "5:9:5:",
            "0:9:",
            "0:0:",
            "9:5:",
            "5:9:4",
            "5:9:9",
            "5:5:5",
            "5:9:6,6",
            "5:9:7,6",
            "5:9:,",
            "5:9:5,",
            "5:9:,5",
            "5:9:5, 6",
            "05:9:",
            "+5:9:",
            "-5:9:",
            "5:18446744073709551616:",
            "a:9:",
        ] {
            assert!(!both(snapshot), "{snapshot}");
        }
    }

    #[test]
    fn a_cursor_has_a_bound() {
        let list: Vec<_> = (10_001..=19_000).map(|xid: u64| xid.to_string()).collect();
        let text = format!("window:10000:20000:{}@1/20000:20000:@2/2", list.join(","));
        assert!(text.len() < CURSOR_BYTES_MAX);
        let cursor: Cursor = text.parse().unwrap();
        assert!(cursor.bytes() > 50_000);
        let list = format!("{},{}", list.join(","), list.join(","));
        let refused = format!("window:1:2:{list}@1/1:1:@2/2").parse::<Cursor>().unwrap_err();
        assert!(refused.message.contains("at most 65536"), "{refused}");
    }

    #[test]
    fn nothing_lies_beyond_the_tail_but_what_is_newer_or_foreign() {
        let (start, seq) = (Cursor::Start, Cursor::Seq);
        for tail in [start.clone(), seq(5), window(5, 5, 5)] {
            assert!(!start.is_beyond(&tail));
            assert!(!tail.is_beyond(&tail));
        }
        for (cursor, tail, beyond) in [
            (seq(0), start.clone(), false),
            (seq(1), start.clone(), true),
            (seq(4), seq(5), false),
            (seq(6), seq(5), true),
            (window(0, 3, 1), window(5, 5, 5), false),
            (window(0, 6, 1), window(5, 5, 5), true),
            (window(0, 3, 6), window(5, 5, 5), false),
            // The events up to 8 were removed.
            (window(0, 8, 8), window(0, 5, 8), false),
            (window(0, 9, 8), window(0, 5, 8), true),
            (window(0, 0, 0), start, true),
            (window(0, 3, 1), seq(5), true),
            (seq(1), window(5, 5, 5), true),
        ] {
            assert_eq!(cursor.is_beyond(&tail), beyond, "{cursor} and the tail {tail}");
        }
    }

    #[test]
    fn a_new_snapshot_alone_is_no_progress() {
        for (from, to, passed) in [
            (Cursor::Start, Cursor::Start, false),
            (Cursor::Start, Cursor::Seq(1), true),
            (Cursor::Seq(5), Cursor::Seq(5), false),
            (Cursor::Start, window(0, 0, 0), false),
            (Cursor::Start, window(0, 3, 3), true),
            (window(2, 5, 5), window(5, 5, 5), false),
            (window(2, 5, 5), window(5, 6, 6), true),
            // The rest of a window that was read in part.
            (window(2, 5, 3), window(5, 5, 5), true),
        ] {
            assert_eq!(to.has_passed(&from), passed, "from {from} to {to}");
        }
    }

    #[test]
    fn a_store_takes_its_own_kind_and_the_start() {
        let (seq, window) = (Cursor::Seq(4), window(2, 5, 3));
        for (kind, own, foreign) in
            [(CursorKind::Seq, &seq, &window), (CursorKind::Window, &window, &seq)]
        {
            assert_eq!(kind.check(&Cursor::Start), Ok(()));
            assert_eq!(kind.check(own), Ok(()));
            let refused = kind.check(foreign).unwrap_err();
            assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("cursor")));
            assert_eq!(refused.value, Some(foreign.to_string()));
        }
    }
}
