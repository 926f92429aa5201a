//! `strptime(text, format)`: the time that a text says, and `try_strptime`, which gives null where it says none.
//!
//! Formats are those of C, with `%f` for microseconds, `%g` for milliseconds and `%n` for nanoseconds. What a format leaves out is 1900-01-01 and
//! midnight. With `%z` the time is that of the offset, in UTC. A list of formats is tried in its order.
//!
//! Source: <https://duckdb.org/docs/stable/sql/functions/dateformat>.

use std::sync::Arc;

use arrow::array::{Array, AsArray, TimestampNanosecondArray};
use arrow::datatypes::{DataType, TimeUnit};
use chrono::format::{Item, Parsed, StrftimeItems, parse};
use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::arguments::is_text;

/// The scalar functions `strptime` and `try_strptime`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Strptime {
    is_strict: bool,
    signature: Signature,
}

impl Strptime {
    pub(super) fn all() -> [Strptime; 2] {
        [true, false].map(|is_strict| Strptime { is_strict, signature: Signature::user_defined(Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for Strptime {
    fn name(&self) -> &str {
        if self.is_strict { "strptime" } else { "try_strptime" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text_or_null = |data_type: &DataType| is_text(data_type) || data_type.is_null();
        match arg_types {
            [text, format] if is_text_or_null(text) && is_text_or_null(format) => {
                Ok(vec![DataType::Utf8, DataType::Utf8])
            }
            [text, DataType::List(item)] if is_text_or_null(text) && is_text(item.data_type()) => {
                Ok(vec![DataType::Utf8, DataType::new_list(DataType::Utf8, true)])
            }
            _ => plan_err!("{} takes (text, format), as in strptime('04.03.2024', '%d.%m.%Y')", self.name()),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Nanosecond, None))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text, format] = args.args.as_slice() else { return exec_err!("{} takes (text, format)", self.name()) };
        let formats: Vec<String> = match format {
            ColumnarValue::Scalar(ScalarValue::Utf8(format)) => format.iter().cloned().collect(),
            ColumnarValue::Scalar(ScalarValue::List(list)) if !list.is_null(0) => {
                list.value(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect()
            }
            ColumnarValue::Scalar(_) => Vec::new(),
            ColumnarValue::Array(_) => return exec_err!("the format of {} is a constant", self.name()),
        };
        let chrono = formats.iter().map(|format| items(format)).collect::<Result<Vec<_>>>()?;
        let is_scalar = matches!(text, ColumnarValue::Scalar(_));
        let texts = text.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let texts = texts.as_string::<i32>();
        let times = texts.iter().map(|text| {
            let Some(text) = text.filter(|_| !chrono.is_empty()) else { return Ok(None) };
            match chrono.iter().find_map(|items| time_of(text, items)) {
                Some(time) => Ok(Some(time)),
                None if !self.is_strict => Ok(None),
                None => exec_err!("the text '{text}' isn't a time by the format '{}'", formats.join("', '")),
            }
        });
        let times = times.collect::<Result<TimestampNanosecondArray>>()?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&times, 0)?),
            false => ColumnarValue::Array(Arc::new(times)),
        })
    }
}

/// A format in the words of chrono, whose `%f`, `%g` and `%n` are others.
pub fn in_words_of_chrono(format: &str, is_read: bool) -> String {
    let mut written = String::with_capacity(format.len() + 4);
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            written.push(character);
            continue;
        }
        match characters.next() {
            // Any number of digits behind a point may be read.
            Some('f' | 'g' | 'n') if is_read && written.ends_with('.') => {
                written.pop();
                written.push_str("%.f");
            }
            Some('f') => written.push_str("%6f"),
            Some('g') => written.push_str("%3f"),
            Some('n') => written.push_str("%9f"),
            Some(other) => written.extend(['%', other]),
            None => written.push('%'),
        }
    }
    written
}

fn items(format: &str) -> Result<Vec<Item<'static>>> {
    let format_of_chrono = in_words_of_chrono(format, true);
    match StrftimeItems::new(&format_of_chrono).parse_to_owned() {
        Ok(items) => Ok(items),
        Err(_) => exec_err!("'{format}' isn't a format of times"),
    }
}

/// Nanoseconds since 1970, if the text is a time that they hold.
fn time_of(text: &str, items: &[Item<'_>]) -> Option<i64> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text, items.iter()).ok()?;
    let date = match parsed.to_naive_date() {
        Ok(date) => date,
        Err(error) if error.kind() == chrono::format::ParseErrorKind::NotEnough => {
            let year = parsed.year().unwrap_or(1900);
            let (month, day) = (parsed.month().unwrap_or(1), parsed.day().unwrap_or(1));
            NaiveDate::from_ymd_opt(year, month, day)?
        }
        Err(_) => return None,
    };
    let has_time = parsed.hour_mod_12().is_some() || parsed.hour_div_12().is_some();
    if parsed.minute().is_none() && has_time {
        parsed.set_minute(0).ok()?;
    }
    if parsed.hour_div_12().is_none() && has_time {
        parsed.set_ampm(false).ok()?;
    }
    let time = match (has_time, parsed.timestamp()) {
        (_, Some(seconds)) => return seconds.checked_mul(1_000_000_000),
        (false, None) => NaiveTime::MIN,
        (true, None) => parsed.to_naive_time().ok()?,
    };
    let offset = parsed.offset().unwrap_or(0);
    let time = NaiveDateTime::new(date, time).and_utc().timestamp_nanos_opt()?;
    time.checked_sub(i64::from(offset).checked_mul(1_000_000_000)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_by_chrono() {
        assert_eq!(in_words_of_chrono("%H:%M:%S.%f %% %n", true), "%H:%M:%S%.f %% %9f");
        assert_eq!(in_words_of_chrono("%S.%g%", false), "%S.%3f%");
    }

    #[test]
    fn what_a_format_leaves_out_is_the_begin() {
        let read = |text: &str, format: &str| time_of(text, &items(format).unwrap());
        let day = 86_400_000_000_000;
        assert_eq!(read("1970", "%Y"), Some(0));
        assert_eq!(read("2.1.1970 10", "%d.%m.%Y %H"), Some(day + 10 * day / 24));
        assert_eq!(read("1970-01-01 10:00 +02:00", "%Y-%m-%d %H:%M %z"), Some(8 * day / 24));
        assert_eq!(read("1970-01-01 00:00:00.5", "%Y-%m-%d %H:%M:%S.%f"), Some(500_000_000));
        assert_eq!(read("1970-02-30", "%Y-%m-%d"), None);
        assert_eq!(read("1970-01-01 x", "%Y-%m-%d"), None);
        assert!(items("%Q").is_err());
    }
}
