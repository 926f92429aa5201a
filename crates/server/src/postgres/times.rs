//! Dates, times and intervals as PostgreSQL writes them, in its style ISO.

use std::io::{Result, Write};

use splay_store::CivilDate;

pub(super) const MICROS_A_DAY: i64 = 86_400_000_000;

/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL begins to count.
pub(super) const DAYS_TO_2000: i64 = 10_957;

/// `2026-01-02`, or `0044-03-15 BC`.
pub(super) fn write_date(out: &mut impl Write, days: i64) -> Result<()> {
    let CivilDate { year, month, day } = CivilDate::of(days);
    match year {
        1.. => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "{:04}-{month:02}-{day:02} BC", 1 - year),
    }
}

/// `14:30:00.123456`, without zeros at its end.
pub(super) fn write_time(out: &mut impl Write, micros: i64) -> Result<()> {
    let (seconds, part) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    write_part(out, part)
}

fn write_part(out: &mut impl Write, micros: i64) -> Result<()> {
    if micros == 0 {
        return Ok(());
    }
    let (mut digits, mut part) = (6, micros);
    while part % 10 == 0 {
        (digits, part) = (digits - 1, part / 10);
    }
    write!(out, ".{part:0digits$}")
}

/// `2026-01-02 14:30:00.123456`.
pub(super) fn write_timestamp(out: &mut impl Write, micros: i64) -> Result<()> {
    write_date(out, micros.div_euclid(MICROS_A_DAY))?;
    out.write_all(b" ")?;
    write_time(out, micros.rem_euclid(MICROS_A_DAY))
}

/// `1 year 2 mons -3 days 04:05:06.5`.
pub(super) fn write_interval(out: &mut impl Write, months: i32, days: i64, micros: i64) -> Result<()> {
    let mut is_first = true;
    for (count, unit) in [(i64::from(months / 12), "year"), (i64::from(months % 12), "mon"), (days, "day")] {
        if count != 0 {
            let (space, plural) = (if is_first { "" } else { " " }, if count == 1 { "" } else { "s" });
            write!(out, "{space}{count} {unit}{plural}")?;
            is_first = false;
        }
    }
    if micros == 0 && !is_first {
        return Ok(());
    }
    let (space, sign) = (if is_first { "" } else { " " }, if micros < 0 { "-" } else { "" });
    let micros = micros.unsigned_abs();
    let (seconds, part) = (micros / 1_000_000, micros % 1_000_000);
    write!(out, "{space}{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
    write_part(out, i64::try_from(part).unwrap_or(0))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_written_as_postgresql_does() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (DAYS_TO_2000 + 59, "2000-02-29"),
            (DAYS_TO_2000, "2000-01-01"),
            (-719_163, "0001-12-31 BC"),
            (2_932_897, "10000-01-01"),
        ] {
            assert_eq!(written(|out| write_date(out, days)), expected);
        }
        assert_eq!(written(|out| write_timestamp(out, -1)), "1969-12-31 23:59:59.999999");
        assert_eq!(written(|out| write_timestamp(out, 1_767_364_200_123_400)), "2026-01-02 14:30:00.1234");
        for ((months, days, micros), expected) in [
            ((0, 0, 0), "00:00:00"),
            ((14, -3, 4_500_000), "1 year 2 mons -3 days 00:00:04.5"),
            ((0, 1, 0), "1 day"),
            ((-1, 0, -1), "-1 mons -00:00:00.000001"),
            ((0, 0, 360_000_000_000), "100:00:00"),
        ] {
            assert_eq!(written(|out| write_interval(out, months, days, micros)), expected);
        }
    }
}
