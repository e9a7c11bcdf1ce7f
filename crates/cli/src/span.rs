//! Lengths of time and moments, as people write and read them.

use std::time::Duration;

use ff_core::Millis;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A length of time: `12 ms`, `1.25 s`, `3m 20s`, `2h 5m`, `3d 4h`.
pub fn length(ms: u64) -> String {
    match ms {
        0..SECOND => format!("{ms} ms"),
        SECOND..10_000 => format!("{}.{:02} s", ms / SECOND, ms % SECOND / 10),
        10_000..MINUTE => format!("{}.{} s", ms / SECOND, ms % SECOND / 100),
        MINUTE..HOUR => both((ms / MINUTE, "m"), (ms % MINUTE / SECOND, "s")),
        HOUR..DAY => both((ms / HOUR, "h"), (ms % HOUR / MINUTE, "m")),
        DAY.. => both((ms / DAY, "d"), (ms % DAY / HOUR, "h")),
    }
}

fn both((large, unit): (u64, &str), (small, part): (u64, &str)) -> String {
    if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit} {small}{part}") }
}

/// How long ago, roughly: `7s`, `3m`, `2h`, `5d`.
pub fn age(ms: u64) -> String {
    match ms {
        0..MINUTE => format!("{}s", ms / SECOND),
        MINUTE..HOUR => format!("{}m", ms / MINUTE),
        HOUR..DAY => format!("{}h", ms / HOUR),
        DAY.. => format!("{}d", ms / DAY),
    }
}

/// Where on an axis: whole units where that is exact.
pub fn tick(ms: u64) -> String {
    let units = [(DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, " s")];
    match units.iter().find(|(unit, _)| ms >= *unit && ms.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None if ms > SECOND && ms.is_multiple_of(100) => {
            format!("{}.{} s", ms / SECOND, ms % SECOND / 100)
        }
        None if ms == 0 => "0".to_owned(),
        None => format!("{ms} ms"),
    }
}

/// A moment, by the calendar: `2026-01-31 09:30:00 UTC`.
pub fn moment(at: Millis) -> String {
    let seconds = at.0.div_euclid(1_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second % 3_600 / 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The date so many days after 1970-01-01, in eras of 400 years that begin in March.
fn civil(days: i64) -> (i64, i64, i64) {
    let since = days + 719_468;
    let (era, of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Reads a length of time: `250ms`, `90s`, `5m`, `1h30m`, `2d`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let refuse = || "say it as 250ms, 90s, 5m, 1h30m or 2d".to_owned();
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return Err(refuse());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(refuse)?;
        let number: u64 = rest[..digits].parse().map_err(|_| refuse())?;
        let tail = &rest[digits..];
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let unit = match tail[..end].trim() {
            "ms" => 1,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            "d" => DAY,
            _ => return Err(refuse()),
        };
        let part = number.checked_mul(unit).ok_or_else(refuse)?;
        total = total.checked_add(part).ok_or_else(refuse)?;
        rest = &tail[end..];
    }
    Ok(Duration::from_millis(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_as_they_are_read() {
        for (text, ms) in [
            ("250ms", 250),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "m", "5 weeks", "-5m", "1.5h", "99999999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_fit_their_size() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_259, "1.25 s"),
            (12_345, "12.3 s"),
            (60_000, "1m"),
            (200_000, "3m 20s"),
            (7_500_000, "2h 5m"),
            (273_600_000, "3d 4h"),
        ] {
            assert_eq!(length(ms), text);
        }
        for (ms, text) in [(0, "0"), (500, "500 ms"), (1_500, "1.5 s"), (60_000, "1m")] {
            assert_eq!(tick(ms), text);
        }
    }

    #[test]
    fn moments_are_dates() {
        for (at, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_798_761_599_999, "2026-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(moment(Millis(at)), text);
        }
    }
}
