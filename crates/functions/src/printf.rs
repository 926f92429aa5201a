//! `printf(format, x, …)` and `format(format, x, …)`: values as text, by the directives of C and by those of Python.
//!
//! | | Directive | Specification |
//! | --- | --- | --- |
//! | `printf` | `%[-+ 0#,][width][.precision]type`, `%%` | types `d i u x X o c`, `f F e E g G`, `s` |
//! | `format` | `{[number][:spec]}`, `{{`, `}}` | `[[fill]<>^][+ -][#][0][width][,][.precision][type]`, types `d x X o b c`, `f F e E g G`, `s` |
//!
//! Null in any argument gives null. The format is a constant. A type that doesn't fit its value is an error.
//!
//! Source: <https://duckdb.org/docs/stable/sql/functions/text>, which has them of the library fmt.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::arguments::is_text;

/// Largest width and precision.
const WIDTH_MAX: usize = 256;

/// The scalar functions `printf` and `format`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct FormatFunction {
    name: &'static str,
    signature: Signature,
}

impl FormatFunction {
    pub(super) fn all() -> [FormatFunction; 2] {
        ["printf", "format"]
            .map(|name| FormatFunction { name, signature: Signature::user_defined(Volatility::Immutable) })
    }
}

/// Text, or a value by a specification.
#[derive(Debug, PartialEq)]
enum FormatPart {
    Text(String),
    Value(usize, Spec),
}

#[derive(Debug, Clone, PartialEq)]
struct Spec {
    fill: char,
    /// `<`, `>` or `^`; none for the side of the type.
    align: Option<char>,
    /// The character before a number that isn't negative.
    sign: Option<char>,
    has_base: bool,
    is_padded_by_zeros: bool,
    width: usize,
    is_grouped: bool,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            fill: ' ',
            align: None,
            sign: None,
            has_base: false,
            is_padded_by_zeros: false,
            width: 0,
            is_grouped: false,
            precision: None,
            kind: None,
        }
    }
}

impl ScalarUDFImpl for FormatFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [format, values @ ..] = arg_types else { return plan_err!("{} takes a format and values", self.name) };
        if !is_text(format) && !format.is_null() {
            return plan_err!("{} takes a format in quotes, and then values", self.name);
        }
        let as_value = |value: &DataType| match value {
            value if value.is_integer() => DataType::Int64,
            value if value.is_floating() || value.is_decimal() => DataType::Float64,
            _ => DataType::Utf8,
        };
        Ok(std::iter::once(DataType::Utf8).chain(values.iter().map(as_value)).collect())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [format, values @ ..] = args.args.as_slice() else { return exec_err!("{} takes a format", self.name) };
        let ColumnarValue::Scalar(ScalarValue::Utf8(format)) = format else {
            return exec_err!("the format of {} is a constant", self.name);
        };
        let Some(format) = format else { return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None))) };
        let pieces = if self.name == "printf" { pieces_of_c(format)? } else { pieces_of_python(format)? };
        let is_scalar = values.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { rows };
        let values = values.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        for piece in &pieces {
            if let FormatPart::Value(number, _) = piece
                && *number >= values.len()
            {
                return exec_err!("{}: the format '{format}' asks for more values than there are", self.name);
            }
        }
        let mut written = StringBuilder::with_capacity(rows, rows * format.len());
        for row in 0..rows {
            if values.iter().any(|value| value.is_null(row)) {
                written.append_null();
                continue;
            }
            for piece in &pieces {
                let piece = match piece {
                    FormatPart::Text(text) => written.write_str(text),
                    FormatPart::Value(number, spec) => written.write_str(&value_of(&values[*number], row, spec)?),
                };
                if piece.is_err() {
                    return exec_err!("{} can't be written", self.name);
                }
            }
            written.append_value("");
        }
        let written: StringArray = written.finish();
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&written, 0)?),
            false => ColumnarValue::Array(Arc::new(written)),
        })
    }
}

fn value_of(values: &ArrayRef, row: usize, spec: &Spec) -> Result<String> {
    match values.data_type() {
        DataType::Int64 => whole(values.as_primitive::<Int64Type>().value(row), spec),
        DataType::Float64 => float(values.as_primitive::<Float64Type>().value(row), spec),
        _ => text(values.as_string::<i32>().value(row), spec),
    }
}

fn misfit<T>(spec: &Spec, of: &str) -> Result<T> {
    exec_err!("the type '{}' of a format doesn't fit {of}", spec.kind.unwrap_or(' '))
}

fn text(value: &str, spec: &Spec) -> Result<String> {
    if !matches!(spec.kind, None | Some('s')) {
        return misfit(spec, "a text");
    }
    let cut: String = match spec.precision {
        Some(precision) => value.chars().take(precision).collect(),
        None => value.to_owned(),
    };
    Ok(padded("", &cut, spec, '<'))
}

fn whole(value: i64, spec: &Spec) -> Result<String> {
    let size = value.unsigned_abs();
    let (base, digits) = match spec.kind {
        None | Some('d' | 'i' | 'u') => ("", size.to_string()),
        Some('x') => ("0x", format!("{size:x}")),
        Some('X') => ("0X", format!("{size:X}")),
        Some('o') => ("0", format!("{size:o}")),
        Some('b') => ("0b", format!("{size:b}")),
        Some('c') => match u32::try_from(value).ok().and_then(char::from_u32) {
            Some(character) => return Ok(padded("", &character.to_string(), spec, '<')),
            None => return exec_err!("{value} is no character"),
        },
        _ => return misfit(spec, "a whole number"),
    };
    let digits = if spec.is_grouped { grouped(&digits) } else { digits };
    let base = if spec.has_base { base } else { "" };
    Ok(padded(&format!("{}{base}", sign(value < 0, spec)), &digits, spec, '>'))
}

fn float(value: f64, spec: &Spec) -> Result<String> {
    let size = value.abs();
    let before = sign(value.is_sign_negative() && !value.is_nan(), spec);
    if !value.is_finite() {
        let word = if value.is_nan() { "nan" } else { "inf" };
        return Ok(padded(&before, word, &Spec { is_padded_by_zeros: false, ..spec.clone() }, '>'));
    }
    let precision = spec.precision.unwrap_or(6);
    let digits = match spec.kind {
        Some('f' | 'F') => format!("{size:.precision$}"),
        Some('e') => scientific(size, precision),
        Some('E') => scientific(size, precision).to_uppercase(),
        Some('g') => general(size, precision),
        Some('G') => general(size, precision).to_uppercase(),
        None if spec.precision.is_some() => general(size, precision),
        None => shortest(size),
        _ => return misfit(spec, "a float"),
    };
    let digits = if spec.is_grouped { grouped(&digits) } else { digits };
    Ok(padded(&before, &digits, spec, '>'))
}

fn sign(is_negative: bool, spec: &Spec) -> String {
    if is_negative {
        "-".to_owned()
    } else {
        spec.sign.filter(|sign| *sign != '-').map(String::from).unwrap_or_default()
    }
}

/// A comma between every three digits before the point.
fn grouped(digits: &str) -> String {
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    let (whole, rest) = digits.split_at(end);
    let mut written = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            written.push(',');
        }
        written.push(digit);
    }
    written + rest
}

fn scientific(size: f64, precision: usize) -> String {
    with_long_exponent(&format!("{size:.precision$e}"))
}

/// `1.5e7` as `1.5e+07`.
fn with_long_exponent(written: &str) -> String {
    let Some((mantissa, exponent)) = written.split_once('e') else { return written.to_owned() };
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

fn exponent_of(written: &str) -> i32 {
    written.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// A number with this many digits, without zeros at the end.
fn general(size: f64, precision: usize) -> String {
    let digits = precision.max(1);
    let rounded = format!("{size:.*e}", digits - 1);
    let exponent = exponent_of(&rounded);
    let is_plain = exponent >= -4 && i64::from(exponent) < i64::try_from(digits).unwrap_or(i64::MAX);
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if is_plain {
        let places = usize::try_from(i64::try_from(digits).unwrap_or(0) - 1 - i64::from(exponent)).unwrap_or(0);
        return without_zeros(&format!("{size:.places$}"));
    }
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    with_long_exponent(&format!("{}e{exponent}", without_zeros(mantissa)))
}

/// The fewest digits that are this number's alone.
fn shortest(size: f64) -> String {
    let written = format!("{size:e}");
    match exponent_of(&written) {
        -4..16 => format!("{size:?}"),
        _ => with_long_exponent(&written),
    }
}

fn padded(before: &str, digits: &str, spec: &Spec, side: char) -> String {
    let width = before.chars().count() + digits.chars().count();
    let missing = spec.width.saturating_sub(width);
    if spec.is_padded_by_zeros && spec.align.is_none() && side == '>' {
        return format!("{before}{}{digits}", "0".repeat(missing));
    }
    let left_padding = match spec.align.unwrap_or(side) {
        '<' => 0,
        '^' => missing / 2,
        _ => missing,
    };
    let fill = |number: usize| std::iter::repeat_n(spec.fill, number).collect::<String>();
    format!("{}{before}{digits}{}", fill(left_padding), fill(missing - left_padding))
}

/// A number that a specification gives.
fn number(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<usize>> {
    let mut value: Option<usize> = None;
    while let Some(digit) = characters.peek().and_then(|character| character.to_digit(10)) {
        characters.next();
        value = Some(value.unwrap_or(0) * 10 + digit as usize);
        if value > Some(WIDTH_MAX) {
            return exec_err!("a width or precision of a format is at most {WIDTH_MAX}");
        }
    }
    Ok(value)
}

fn precision(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<usize>> {
    match characters.next_if_eq(&'.') {
        Some(_) => Ok(Some(number(characters)?.unwrap_or(0))),
        None => Ok(None),
    }
}

fn pieces_of_c(format: &str) -> Result<Vec<FormatPart>> {
    let (mut pieces, mut plain) = (Vec::new(), String::new());
    let mut next = 0;
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '%' {
            plain.push(character);
            continue;
        }
        if characters.next_if_eq(&'%').is_some() {
            plain.push('%');
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = characters.next_if(|character| "-+ 0#,".contains(*character)) {
            match flag {
                '-' => spec.align = Some('<'),
                '+' | ' ' => spec.sign = Some(flag),
                '0' => spec.is_padded_by_zeros = true,
                '#' => spec.has_base = true,
                _ => spec.is_grouped = true,
            }
        }
        spec.width = number(&mut characters)?.unwrap_or(0);
        spec.precision = precision(&mut characters)?;
        while characters.next_if(|character| "hlLzjt".contains(*character)).is_some() {}
        spec.kind = characters.next().filter(|kind| "diuxXocfFeEgGs".contains(*kind));
        if spec.kind.is_none() {
            return exec_err!("the format '{format}' has a % without a type: write %% for a %");
        }
        // A text stands at the right of its width in C.
        if spec.kind == Some('s') && spec.align.is_none() {
            spec.align = Some('>');
        }
        pieces.push(FormatPart::Text(std::mem::take(&mut plain)));
        pieces.push(FormatPart::Value(next, spec));
        next += 1;
    }
    pieces.push(FormatPart::Text(plain));
    Ok(pieces)
}

fn pieces_of_python(format: &str) -> Result<Vec<FormatPart>> {
    let (mut pieces, mut plain) = (Vec::new(), String::new());
    let mut next = 0;
    let mut characters = format.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '{' if characters.next_if_eq(&'{').is_some() => plain.push('{'),
            '}' if characters.next_if_eq(&'}').is_some() => plain.push('}'),
            '{' => {
                let place = match number(&mut characters)? {
                    Some(index) => index,
                    None => {
                        next += 1;
                        next - 1
                    }
                };
                let spec = match characters.next_if_eq(&':') {
                    Some(_) => spec_of_python(&mut characters)?,
                    None => Spec::default(),
                };
                if characters.next() != Some('}') {
                    return exec_err!("the format '{format}' has braces that aren't understood: write {{{{ for a {{");
                }
                pieces.push(FormatPart::Text(std::mem::take(&mut plain)));
                pieces.push(FormatPart::Value(place, spec));
            }
            '}' => return exec_err!("the format '{format}' has a }} without a {{: write }}}}"),
            other => plain.push(other),
        }
    }
    pieces.push(FormatPart::Text(plain));
    Ok(pieces)
}

fn spec_of_python(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Spec> {
    let mut spec = Spec::default();
    let mut ahead = characters.clone();
    let is_align = |character: Option<char>| character.filter(|character| "<>^".contains(*character));
    if let (Some(fill), Some(align)) = (ahead.next(), is_align(ahead.next()))
        && fill != '}'
    {
        (spec.fill, spec.align) = (fill, Some(align));
        *characters = ahead;
    } else if let Some(align) = characters.next_if(|character| "<>^".contains(*character)) {
        spec.align = Some(align);
    }
    spec.sign = characters.next_if(|character| "+- ".contains(*character));
    spec.has_base = characters.next_if_eq(&'#').is_some();
    spec.is_padded_by_zeros = characters.next_if_eq(&'0').is_some();
    spec.width = number(characters)?.unwrap_or(0);
    spec.is_grouped = characters.next_if_eq(&',').is_some();
    spec.precision = precision(characters)?;
    spec.kind = characters.next_if(|character| "dxXobcfFeEgGs".contains(*character));
    Ok(spec)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Spec {
        spec_of_python(&mut text.chars().peekable()).unwrap()
    }

    #[test]
    fn floats_are_written_as_c_writes_them() {
        for (value, written, expected) in [
            (12345.678, "e", "1.234568e+04"),
            (0.0001, "g", "0.0001"),
            (0.00001, "g", "1e-05"),
            (100_000.0, "g", "100000"),
            (1_000_000.0, "g", "1e+06"),
            (1_234_567.891, ",.2f", "1,234,567.89"),
            (3.14159, "08.3f", "0003.142"),
            (-2.5, "+.1f", "-2.5"),
            (1.0, "", "1.0"),
            (1e20, "", "1e+20"),
            (0.0, "g", "0"),
        ] {
            assert_eq!(float(value, &spec(written)).unwrap(), expected, "{value} {written}");
        }
    }

    #[test]
    fn formats_that_are_wrong_are_refused() {
        for wrong in ["{", "{:", "{0", "}", "{:999}", "{:q}"] {
            assert!(pieces_of_python(wrong).is_err(), "{wrong}");
        }
        for wrong in ["%", "%5", "%q", "%999d"] {
            assert!(pieces_of_c(wrong).is_err(), "{wrong}");
        }
    }
}
