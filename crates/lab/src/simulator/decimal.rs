//! Numbers and times as text, from integers only: no float is ever formatted.

/// Powers of ten up to 10^15.
const POWERS: [u64; 16] = {
    let mut powers = [1; 16];
    let mut exponent = 1;
    while exponent < 16 {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Writes a whole number.
pub(crate) fn push_whole(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes a number below 10^`digits` with leading zeros; `digits` is at most 15.
pub(crate) fn push_padded(out: &mut Vec<u8>, value: u64, digits: usize) {
    // The added power of ten keeps the leading zeros; its own digit is dropped.
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(&buffer.format(value + POWERS[digits]).as_bytes()[1..]);
}

/// Writes `units` of 10^-`decimals` with all its decimals: `12.50`.
pub(crate) fn push_fixed(out: &mut Vec<u8>, units: u64, decimals: usize) {
    push_whole(out, units / POWERS[decimals]);
    out.push(b'.');
    push_padded(out, units % POWERS[decimals], decimals);
}

/// Writes `units` of 10^-`decimals` in the shortest way that still shows a decimal: `12.5`, `3.0`.
pub(crate) fn push_short(out: &mut Vec<u8>, units: u64, decimals: usize) {
    push_fixed(out, units, decimals);
    let length_min = out.len() - (decimals - 1);
    while out.len() > length_min && out.last() == Some(&b'0') {
        out.pop();
    }
}

/// The double nearest to `units` of 10^-`decimals`: what a correct parser makes of [`push_short`]'s text.
///
/// Both numbers are exact as doubles (`units` is below 2^53), so the division rounds once.
pub(crate) fn to_double(units: u64, decimals: usize) -> f64 {
    units as f64 / POWERS[decimals] as f64
}

/// Writes nanoseconds since midnight as `HHMMSSnnnnnnnnn`.
pub(crate) fn push_taq_time(out: &mut Vec<u8>, nanoseconds: u64) {
    let (hours, minutes, seconds) = hours_minutes_seconds(nanoseconds / SECOND_NS);
    let clock = hours * 10_000 + minutes * 100 + seconds;
    push_padded(out, clock * SECOND_NS + nanoseconds % SECOND_NS, 15);
}

/// Writes microseconds since midnight as `HH:MM:SS.mmmmmmZ`.
pub(crate) fn push_utc_time(out: &mut Vec<u8>, microseconds: u64) {
    let (hours, minutes, seconds) = hours_minutes_seconds(microseconds / 1_000_000);
    push_padded(out, hours, 2);
    out.push(b':');
    push_padded(out, minutes, 2);
    out.push(b':');
    push_padded(out, seconds, 2);
    out.push(b'.');
    push_padded(out, microseconds % 1_000_000, 6);
    out.push(b'Z');
}

fn hours_minutes_seconds(seconds: u64) -> (u64, u64, u64) {
    (seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_written_as_decimals() {
        assert_eq!(text(|out| push_fixed(out, 22_706, 2)), "227.06");
        assert_eq!(text(|out| push_fixed(out, 5, 2)), "0.05");
        assert_eq!(text(|out| push_short(out, 22_700, 2)), "227.0");
        assert_eq!(text(|out| push_short(out, 120_000_000, 8)), "1.2");
        assert_eq!(text(|out| push_short(out, 1, 8)), "0.00000001");
        assert_eq!(text(|out| push_short(out, 0, 4)), "0.0");
    }

    #[test]
    fn text_and_double_agree() {
        for units in [1, 3, 2_045_017, 99_899, 123_456_789, 900_719_925_474_099] {
            for decimals in [2, 4, 5, 8] {
                let parsed: f64 = text(|out| push_short(out, units, decimals)).parse().unwrap();
                assert_eq!(parsed.to_bits(), to_double(units, decimals).to_bits());
            }
        }
    }

    #[test]
    fn times_are_written_with_leading_zeros() {
        let nine_thirty = (9 * 3_600 + 30 * 60) * SECOND_NS + 398;
        assert_eq!(text(|out| push_taq_time(out, nine_thirty)), "093000000000398");
        assert_eq!(text(|out| push_utc_time(out, 123_456)), "00:00:00.123456Z");
        assert_eq!(text(|out| push_utc_time(out, 86_399_000_001)), "23:59:59.000001Z");
    }
}
