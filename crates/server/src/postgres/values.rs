//! Values for placeholders, text or binary, by the type that the client gives them.

use arrow::array::Array;
use arrow::array::StringArray;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};
use splay_sql::ScalarValue;

use super::arrays;
use super::refusal::Refusal;
use super::times::{DAYS_TO_2000, MICROS_A_DAY};
use super::types;

/// The value of a placeholder. Integers are 64 bits wide and floats too, as literals are.
///
/// # Errors
/// A type that placeholders can't have here, by its number; a value that doesn't fit.
pub(super) fn value(at: usize, oid: u32, format: i16, bytes: Option<&[u8]>) -> Result<ScalarValue, Refusal> {
    let Some(bytes) = bytes else { return null(at, oid) };
    if let Some(item) = types::item_of(oid).filter(|_| matches!(format, 0 | 1)) {
        return arrays::value(at, item, &arrow(at, item)?, format, bytes);
    }
    match format {
        0 => {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Refusal::new("22021", format!("the value of ${at} is not UTF-8")))?;
            refuse_zero(at, text)?;
            of_text(at, oid, text)
        }
        1 => of_binary(at, oid, bytes),
        other => Err(Refusal::new("22023", format!("{other} is not a format; there are 0 for text and 1 for binary"))),
    }
}

/// Texts end with a zero byte where they are read again.
fn refuse_zero(at: usize, text: &str) -> Result<(), Refusal> {
    match text.bytes().any(|byte| byte == 0) {
        true => Err(Refusal::new("22021", format!("the value of ${at} has a byte that is zero"))),
        false => Ok(()),
    }
}

/// The Arrow type of values of a type.
fn arrow(at: usize, oid: u32) -> Result<DataType, Refusal> {
    if let Some(item) = types::item_of(oid) {
        return Ok(DataType::new_list(arrow(at, item)?, true));
    }
    Ok(match oid {
        types::BOOL => DataType::Boolean,
        types::INT2 | types::INT4 | types::INT8 | types::OID => DataType::Int64,
        types::FLOAT4 | types::FLOAT8 => DataType::Float64,
        types::DATE => DataType::Date32,
        types::TIME => DataType::Time64(TimeUnit::Nanosecond),
        types::TIMESTAMP => DataType::Timestamp(TimeUnit::Nanosecond, None),
        types::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        0 | types::TEXT | types::VARCHAR | types::BPCHAR | types::NAME | types::UNKNOWN => DataType::Utf8,
        types::NUMERIC => DataType::Decimal128(38, 10),
        other => {
            return Err(Refusal::unsupported(format!(
                "a value of the type with the number {other} for ${at}; give it as text, with a cast in the statement: that"
            )));
        }
    })
}

fn null(at: usize, oid: u32) -> Result<ScalarValue, Refusal> {
    if oid == 0 || oid == types::UNKNOWN {
        return Ok(ScalarValue::Null);
    }
    let data_type = arrow(at, oid)?;
    ScalarValue::try_from(&data_type).map_err(|error| Refusal::new("22023", error.to_string()))
}

fn wrong(at: usize, text: &str, what: &str) -> Refusal {
    let shown: String = text.chars().take(80).collect();
    Refusal::new("22P02", format!("the value of ${at} is not {what}: {shown:?}"))
}

fn of_text(at: usize, oid: u32, text: &str) -> Result<ScalarValue, Refusal> {
    let trimmed = text.trim();
    match oid {
        types::BOOL => match trimmed.to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Ok(ScalarValue::from(true)),
            "f" | "false" | "n" | "no" | "off" | "0" => Ok(ScalarValue::from(false)),
            _ => Err(wrong(at, text, "true or false")),
        },
        types::INT2 | types::INT4 | types::INT8 | types::OID => {
            trimmed.parse::<i64>().map(ScalarValue::from).map_err(|_| wrong(at, text, "an integer of 64 bits"))
        }
        types::FLOAT4 => trimmed
            .parse::<f32>()
            .map(|value| ScalarValue::from(f64::from(value)))
            .map_err(|_| wrong(at, text, "a float")),
        types::FLOAT8 => trimmed.parse::<f64>().map(ScalarValue::from).map_err(|_| wrong(at, text, "a float")),
        types::NUMERIC => decimal(trimmed).ok_or_else(|| wrong(at, text, "a number of at most 38 digits")),
        0 | types::TEXT | types::VARCHAR | types::BPCHAR | types::NAME | types::UNKNOWN => Ok(ScalarValue::from(text)),
        _ => {
            let data_type = arrow(at, oid)?;
            let texts = StringArray::from(vec![trimmed]);
            let options = CastOptions { safe: false, ..CastOptions::default() };
            let cast =
                cast_with_options(&texts, &data_type, &options).map_err(|_| wrong(at, text, "a date or time"))?;
            if cast.is_null(0) {
                return Err(wrong(at, text, "a date or time"));
            }
            ScalarValue::try_from_array(&cast, 0).map_err(|error| Refusal::new("22P02", error.to_string()))
        }
    }
}

/// A number with exactly its digits; `NaN` and infinities are floats.
fn decimal(text: &str) -> Option<ScalarValue> {
    if matches!(text.to_ascii_lowercase().as_str(), "nan" | "infinity" | "-infinity" | "inf" | "-inf") {
        return text.parse::<f64>().ok().map(ScalarValue::from);
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent = exponent.parse::<i32>().ok().filter(|exponent| exponent.abs() <= 1000)?;
    let (negative, digits) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + part.len() == 0 || whole.len() + part.len() > 200 {
        return None;
    }
    let mut number = 0i128;
    for digit in whole.bytes().chain(part.bytes()) {
        let digit = digit.is_ascii_digit().then(|| i128::from(digit - b'0'))?;
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    let mut scale = i32::try_from(part.len()).ok()?.checked_sub(exponent)?;
    while scale < 0 {
        (number, scale) = (number.checked_mul(10)?, scale + 1);
    }
    while scale > 38 && number % 10 == 0 {
        (number, scale) = (number / 10, scale - 1);
    }
    let scale = i8::try_from(scale).ok().filter(|scale| *scale <= 38)?;
    let digits = number.unsigned_abs().checked_ilog10().map_or(1, |digits| digits + 1);
    let precision = u8::try_from(digits).ok()?.max(scale.unsigned_abs());
    (precision <= 38).then_some(ScalarValue::Decimal128(
        Some(if negative { -number } else { number }),
        precision,
        scale,
    ))
}

fn of_binary(at: usize, oid: u32, bytes: &[u8]) -> Result<ScalarValue, Refusal> {
    let length =
        || Refusal::new("22P03", format!("the value of ${at} has {} bytes, which its type doesn't", bytes.len()));
    let two = || bytes.try_into().map(i16::from_be_bytes).map_err(|_| length());
    let four = || bytes.try_into().map(i32::from_be_bytes).map_err(|_| length());
    let eight = || bytes.try_into().map(i64::from_be_bytes).map_err(|_| length());
    let range =
        || Refusal::new("22008", format!("the value of ${at} is out of the range of nanoseconds, 1677 to 2262"));
    let nanos = |micros: i64| {
        micros.checked_add(DAYS_TO_2000 * MICROS_A_DAY).and_then(|micros| micros.checked_mul(1000)).ok_or_else(range)
    };
    Ok(match oid {
        types::BOOL => match bytes {
            [value] => ScalarValue::from(*value != 0),
            _ => return Err(length()),
        },
        types::INT2 => ScalarValue::from(i64::from(two()?)),
        types::INT4 => ScalarValue::from(i64::from(four()?)),
        types::OID => ScalarValue::from(i64::from(four()?.cast_unsigned())),
        types::INT8 => ScalarValue::from(eight()?),
        types::FLOAT4 => ScalarValue::from(f64::from(f32::from_bits(four()?.cast_unsigned()))),
        types::FLOAT8 => ScalarValue::from(f64::from_bits(eight()?.cast_unsigned())),
        types::DATE => {
            // The ends stand for infinities.
            let days = Some(four()?).filter(|days| !matches!(*days, i32::MIN | i32::MAX)).ok_or_else(range)?;
            let days = i64::from(days) + DAYS_TO_2000;
            ScalarValue::Date32(Some(i32::try_from(days).map_err(|_| range())?))
        }
        types::TIME => {
            let micros = Some(eight()?)
                .filter(|micros| (0..MICROS_A_DAY).contains(micros))
                .ok_or_else(|| Refusal::new("22008", format!("the value of ${at} is no time of day")))?;
            ScalarValue::Time64Nanosecond(Some(micros * 1000))
        }
        types::TIMESTAMP => ScalarValue::TimestampNanosecond(Some(nanos(eight()?)?), None),
        types::TIMESTAMPTZ => ScalarValue::TimestampNanosecond(Some(nanos(eight()?)?), Some("UTC".into())),
        types::NUMERIC => {
            let text = numeric(bytes).ok_or_else(length)?;
            of_text(at, types::NUMERIC, &text)?
        }
        _ => match std::str::from_utf8(bytes) {
            Ok(text) if matches!(arrow(at, oid)?, DataType::Utf8) => {
                refuse_zero(at, text)?;
                ScalarValue::from(text)
            }
            Ok(_) => return Err(Refusal::unsupported(format!("the type with the number {oid} in binary for ${at}"))),
            Err(_) => return Err(Refusal::new("22021", format!("the value of ${at} is not UTF-8"))),
        },
    })
}

/// A number of PostgreSQL's binary form, as text.
fn numeric(bytes: &[u8]) -> Option<String> {
    let words: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let [count, weight, sign, scale, groups @ ..] = words.as_slice() else { return None };
    if usize::from(*count) != groups.len() || !bytes.len().is_multiple_of(2) || *scale > 1000 || groups.len() > 100 {
        return None;
    }
    match sign {
        0xc000 => return Some("NaN".to_owned()),
        0xd000 => return Some("Infinity".to_owned()),
        0xf000 => return Some("-Infinity".to_owned()),
        0 | 0x4000 if groups.iter().all(|group| *group <= 9999) => {}
        _ => return None,
    }
    let digits: String = groups.iter().map(|group| format!("{group:04}")).collect();
    let mut exponent = (i64::from(weight.cast_signed()) + 1 - groups.len() as i64) * 4;
    // The last group is filled up with zeros.
    let mut digits = digits.as_str();
    while let Some(shorter) = digits.strip_suffix('0').filter(|_| exponent < 0) {
        (digits, exponent) = (shorter, exponent + 1);
    }
    let sign = if *sign == 0x4000 { "-" } else { "" };
    match digits.trim_start_matches('0') {
        "" => Some("0".to_owned()),
        digits => Some(format!("{sign}{digits}e{exponent}")),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn decimal(number: i128, precision: u8, scale: i8) -> ScalarValue {
        ScalarValue::Decimal128(Some(number), precision, scale)
    }

    #[test]
    fn values_are_read_in_both_formats() {
        let zone = Some("UTC".into());
        for (oid, text, expected) in [
            (types::INT2, "-5", ScalarValue::from(-5i64)),
            (types::FLOAT8, "1e3", ScalarValue::from(1000.0)),
            (types::BOOL, "t", ScalarValue::from(true)),
            (types::TEXT, " a ", ScalarValue::from(" a ")),
            (0, "IBM", ScalarValue::from("IBM")),
            (types::NUMERIC, "-12.50", decimal(-1250, 4, 2)),
            (types::NUMERIC, "1e3", decimal(1000, 4, 0)),
            (types::NUMERIC, "0.001", decimal(1, 3, 3)),
            (types::DATE, "2000-01-02", ScalarValue::Date32(Some(10_958))),
            (
                types::TIMESTAMP,
                "2000-01-01 00:00:01",
                ScalarValue::TimestampNanosecond(Some(946_684_801_000_000_000), None),
            ),
            (
                types::TIMESTAMPTZ,
                "2000-01-01 02:00:01+02",
                ScalarValue::TimestampNanosecond(Some(946_684_801_000_000_000), zone.clone()),
            ),
            (
                types::TIMESTAMPTZ,
                "2000-01-01T00:00:01Z",
                ScalarValue::TimestampNanosecond(Some(946_684_801_000_000_000), zone.clone()),
            ),
        ] {
            assert_eq!(value(1, oid, 0, Some(text.as_bytes())).unwrap(), expected, "{text}");
        }
        let groups = |words: &[i16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        for (oid, bytes, expected) in [
            (types::INT4, (-5i32).to_be_bytes().to_vec(), ScalarValue::from(-5i64)),
            (
                types::TIMESTAMPTZ,
                1i64.to_be_bytes().to_vec(),
                ScalarValue::TimestampNanosecond(Some(946_684_800_000_001_000), zone),
            ),
            (types::NUMERIC, groups(&[2, 0, 0, 2, 1, 2500]), decimal(125, 3, 2)),
            (types::NUMERIC, groups(&[1, -1, 0x4000, 4, 5]), decimal(-5, 4, 4)),
            (
                types::NUMERIC,
                groups(&[10, 8, 0, 2, 123, 4567, 8901, 2345, 6789, 123, 4567, 8901, 2345, 6700]),
                decimal(1_234_567_890_123_456_789_012_345_678_901_234_567, 37, 2),
            ),
            (types::NUMERIC, groups(&[1, 1, 0, 0, 1]), decimal(10_000, 5, 0)),
        ] {
            assert_eq!(value(1, oid, 1, Some(&bytes)).unwrap(), expected, "{oid} {bytes:?}");
        }
        assert_eq!(value(1, 0, 0, None).unwrap(), ScalarValue::Null);
        assert_eq!(value(1, types::INT8, 0, None).unwrap(), ScalarValue::Int64(None));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (oid, format, bytes) in [
            (types::INT8, 0, &b"9223372036854775808"[..]),
            (types::INT8, 0, b"1.5"),
            (types::INT4, 1, b"\0\0\0"),
            (types::BOOL, 0, b"maybe"),
            (types::TEXT, 0, b"\xff"),
            (types::TEXT, 1, b"\xff"),
            (types::NUMERIC, 0, b"1e99"),
            (types::NUMERIC, 0, b"1.2.3"),
            (types::NUMERIC, 1, b"\0\x02\0\0\0\0\0\0\0\x01"),
            (types::TIMESTAMPTZ, 1, b"\x7f\xff\xff\xff\xff\xff\xff\xff"),
            (types::TIMESTAMP, 0, b"yesterday"),
            (types::DATE, 0, b"infinity"),
            (types::DATE, 1, b"\x80\0\0\0"),
            (types::TIME, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
            (types::NUMERIC, 1, b"\0\x01\0\0\x12\x34\0\0\0\x01"),
            (types::NUMERIC, 1, b"\0\x01\0\0\0\0\0\0\xff\xff"),
            (types::TEXT, 0, b"a\0"),
            (types::TEXT, 1, b"a\0"),
            (3802, 0, b"{}"),
            (types::INT8, 2, b"1"),
        ] {
            assert!(value(1, oid, format, Some(bytes)).is_err(), "{oid} {}", bytes.escape_ascii());
        }
    }
}
