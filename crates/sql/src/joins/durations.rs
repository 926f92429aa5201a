//! Durations in the text of a statement: `5s`, `-500ms`, `interval '1 minute'`.

use arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
use datafusion::sql::sqlparser::tokenizer::{Token, Whitespace};

const DAY_NANOSECONDS: i64 = 24 * 3600 * 1_000_000_000;

/// Units and their nanoseconds.
const UNITS: [(&str, i64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3600 * 1_000_000_000),
    ("d", DAY_NANOSECONDS),
];

/// Reads a number with its unit. Returns the nanoseconds, and the position after the unit.
pub(super) fn literal(tokens: &[Token], at: usize) -> Option<(i64, usize)> {
    let (sign, at) = if tokens.get(at) == Some(&Token::Minus) { (-1, at + 1) } else { (1, at) };
    let (Token::Number(digits, false), Token::Word(unit)) = (tokens.get(at)?, tokens.get(at + 1)?) else { return None };
    let (_, nanoseconds) = UNITS.into_iter().find(|(name, _)| unit.value.eq_ignore_ascii_case(name))?;
    let value = digits.parse::<i64>().ok()?.checked_mul(nanoseconds)?;
    Some((sign * value, at + 2))
}

/// `INTERVAL '…'` of days and less: the nanoseconds, and the position behind it.
pub(super) fn interval_literal(tokens: &[Token], at: usize) -> Option<(i64, usize)> {
    let (sign, mut at) = if tokens.get(at) == Some(&Token::Minus) { (-1, at + 1) } else { (1, at) };
    let Some(Token::Word(word)) = tokens.get(at) else { return None };
    if !word.value.eq_ignore_ascii_case("interval") {
        return None;
    }
    at += 1;
    while matches!(tokens.get(at), Some(Token::Whitespace(Whitespace::Space | Whitespace::Newline | Whitespace::Tab))) {
        at += 1;
    }
    let Some(Token::SingleQuotedString(text)) = tokens.get(at) else { return None };
    let interval = parse_interval_month_day_nano(text).ok().filter(|interval| interval.months == 0)?;
    let days = i64::from(interval.days).checked_mul(DAY_NANOSECONDS)?;
    Some((sign * days.checked_add(interval.nanoseconds)?, at + 1))
}

/// The SQL literal of a duration.
pub(super) fn interval(nanoseconds: i64) -> String {
    format!("INTERVAL '{nanoseconds} nanoseconds'")
}
