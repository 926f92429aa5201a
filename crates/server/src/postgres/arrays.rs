//! Arrays as placeholder values, text or binary: one-dimensional lists, whose items are decoded like single values.

use arrow::datatypes::DataType;
use splay_sql::ScalarValue;

use super::refusal::Refusal;
use super::types;
use super::values;

/// Items of an array.
const ITEMS_MAX: usize = 1 << 16;

/// The value of a placeholder that is an array of items with the number `item`.
///
/// # Errors
/// A refusal of a value that isn't an array, has several dimensions, or has an item of another type.
pub(super) fn value(
    at: usize,
    item: u32,
    data_type: &DataType,
    format: i16,
    bytes: &[u8],
) -> Result<ScalarValue, Refusal> {
    let items = match format {
        0 => of_text(at, bytes)?.into_iter().map(|text| values::value(at, item, 0, text.as_deref())).collect(),
        _ => of_binary(at, bytes)?.into_iter().map(|(of, item)| values::value(at, of, 1, item)).collect(),
    };
    let (items, data_type) = match item {
        types::NUMERIC => numbers(at, items?)?,
        _ => (items_of_type(at, data_type, items)?, data_type.clone()),
    };
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&items, &data_type)))
}

fn items_of_type(
    at: usize,
    data_type: &DataType,
    items: Result<Vec<ScalarValue>, Refusal>,
) -> Result<Vec<ScalarValue>, Refusal> {
    let items = items?;
    match items.iter().find(|item| item.data_type() != *data_type) {
        None => Ok(items),
        Some(item) => {
            let text =
                format!("the array ${at} has an item of the type {} where {data_type} was announced", item.data_type());
            Err(Refusal::new("22P03", text))
        }
    }
}

/// Decimal numbers with as many digits behind the point as the one with the most; floats if one is none, such as `NaN`.
fn numbers(at: usize, items: Vec<ScalarValue>) -> Result<(Vec<ScalarValue>, DataType), Refusal> {
    let refused = |item: &ScalarValue| {
        Refusal::new(
            "22003",
            format!("the array ${at} has numbers that have no common type of 38 digits, {item} among them"),
        )
    };
    let is_float = items.iter().any(|item| matches!(item, ScalarValue::Float64(_)));
    let scales = items.iter().filter_map(|item| match item {
        ScalarValue::Decimal128(Some(_), _, scale) => Some(*scale),
        _ => None,
    });
    let data_type = match is_float {
        true => DataType::Float64,
        false => DataType::Decimal128(38, scales.max().unwrap_or(0)),
    };
    let converted = items.into_iter().map(|item| match item.is_null() {
        true => ScalarValue::try_from(&data_type).map_err(|_| refused(&item)),
        false => item.cast_to(&data_type).map_err(|_| refused(&item)),
    });
    Ok((converted.collect::<Result<_, _>>()?, data_type))
}

fn too_many(at: usize) -> Refusal {
    Refusal::new("54000", format!("the array ${at} has more than {ITEMS_MAX} items"))
}

/// The items of `{1,2,NULL,"a, b"}`.
fn of_text(at: usize, bytes: &[u8]) -> Result<Vec<Option<Vec<u8>>>, Refusal> {
    let malformed = || Refusal::new("22P02", format!("the value of ${at} is no array such as {{1,2}}"));
    let several =
        || Refusal::unsupported(format!("an array of several dimensions for ${at}, or one that doesn't begin at 1:"));
    let body = bytes.trim_ascii();
    if body.first() == Some(&b'[') {
        return Err(several());
    }
    let body = body.strip_prefix(b"{").and_then(|body| body.strip_suffix(b"}")).ok_or_else(malformed)?;
    if body.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let (mut items, mut rest) = (Vec::new(), body);
    loop {
        if items.len() >= ITEMS_MAX {
            return Err(too_many(at));
        }
        rest = rest.trim_ascii_start();
        let (mut item, is_quoted) = (Vec::new(), rest.first() == Some(&b'"'));
        rest = &rest[usize::from(is_quoted)..];
        loop {
            match (rest, is_quoted) {
                ([b'\\', byte, tail @ ..], _) => {
                    item.push(*byte);
                    rest = tail;
                }
                ([b'"', tail @ ..], true) => {
                    rest = tail.trim_ascii_start();
                    break;
                }
                ([], true) | ([b'\\'], _) | ([b'"' | b'}', ..], false) => return Err(malformed()),
                ([b'{', ..], false) => return Err(several()),
                ([] | [b',', ..], false) => break,
                ([byte, tail @ ..], _) => {
                    item.push(*byte);
                    rest = tail;
                }
            }
        }
        items.push(match is_quoted {
            true => Some(item),
            false => match item.trim_ascii() {
                [] => return Err(malformed()),
                word if word.eq_ignore_ascii_case(b"null") => None,
                word => Some(word.to_vec()),
            },
        });
        match rest {
            [] => return Ok(items),
            [b',', tail @ ..] => rest = tail,
            _ => return Err(malformed()),
        }
    }
}

/// The items of PostgreSQL's binary form, each with the number of its type.
fn of_binary(at: usize, bytes: &[u8]) -> Result<Vec<(u32, Option<&[u8]>)>, Refusal> {
    let malformed = || Refusal::new("22P03", format!("the value of ${at} is no array"));
    let mut rest = bytes;
    let mut number = || -> Result<i32, Refusal> {
        let (four, tail) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
        rest = tail;
        Ok(i32::from_be_bytes(*four))
    };
    let (dimensions, _nulls, of) = (number()?, number()?, number()?.cast_unsigned());
    match dimensions {
        0 => return Ok(Vec::new()),
        1 => {}
        _ => return Err(Refusal::unsupported(format!("an array of several dimensions for ${at}:"))),
    }
    let (count, _first) = (number()?, number()?);
    let count = usize::try_from(count).map_err(|_| malformed())?;
    if count > ITEMS_MAX {
        return Err(too_many(at));
    }
    let mut items = Vec::new();
    for _ in 0..count {
        let (four, tail) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
        let item = match i32::from_be_bytes(*four) {
            -1 => {
                rest = tail;
                None
            }
            length => {
                let length = usize::try_from(length).map_err(|_| malformed())?;
                let (item, tail) = tail.split_at_checked(length).ok_or_else(malformed)?;
                rest = tail;
                Some(item)
            }
        };
        items.push((of, item));
    }
    if rest.is_empty() { Ok(items) } else { Err(malformed()) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn texts(text: &str) -> Result<Vec<Option<String>>, &'static str> {
        let items = of_text(1, text.as_bytes()).map_err(|refusal| refusal.code)?;
        Ok(items.into_iter().map(|item| item.map(|bytes| String::from_utf8(bytes).unwrap())).collect())
    }

    #[test]
    fn items_are_told_apart() {
        let some = |texts: &[&str]| Ok(texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>());
        assert_eq!(texts("{}"), some(&[]));
        assert_eq!(texts(" { 1 , 2} "), some(&["1", "2"]));
        assert_eq!(texts(r#"{"a, b","","\"}\\",a\,b}"#), some(&["a, b", "", "\"}\\", "a,b"]));
        assert_eq!(texts(r#"{null,NULL,"null"}"#), Ok(vec![None, None, Some("null".to_owned())]));
        for wrong in ["", "1", "{", "{1", "{1,}", "{,}", "{\"a}", "{\"a\"b}", "{a\"b\"}", "{1}2}", "{\\", "{a\\}"] {
            assert_eq!(texts(wrong), Err("22P02"), "{wrong}");
        }
        for several in ["{{1},{2}}", "[0:1]={1,2}"] {
            assert_eq!(texts(several), Err("0A000"), "{several}");
        }
        assert_eq!(texts(&format!("{{1{}}}", ",1".repeat(ITEMS_MAX))), Err("54000"));
    }

    fn binary(words: &[i32], rest: &[u8]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).chain(rest.iter().copied()).collect()
    }

    #[test]
    fn binary_arrays_are_lists() {
        let text = i32::try_from(types::TEXT).unwrap();
        let bytes = binary(&[1, 1, text, 2, 1, -1, 3], b"IBM");
        let list = value(1, types::TEXT, &DataType::Utf8, 1, &bytes).unwrap();
        let expected = [ScalarValue::Utf8(None), ScalarValue::from("IBM")];
        assert_eq!(list, ScalarValue::List(ScalarValue::new_list_nullable(&expected, &DataType::Utf8)));
        assert_eq!(value(1, types::INT8, &DataType::Int64, 0, b"{3,4}").unwrap().data_type(), list_of(DataType::Int64));
        for wrong in [
            binary(&[1, 0, text, 1, 1], b""),
            binary(&[1, 0, text, 1, 1, 9], b"IBM"),
            binary(&[1, 0, text, -1, 1], b""),
            binary(&[1, 0, text, 1, 1, -2], b""),
            binary(&[1, 0, text, 1, 1, -1], b"x"),
            binary(&[1, 0, text, i32::MAX, 1], b""),
            binary(&[2, 0, text, 1, 1, 1, 1], b""),
            binary(&[1, 0], b""),
            // Items of another type than the array's.
            binary(&[1, 0, 20, 1, 1, 8], &[0; 8]),
        ] {
            assert!(value(1, types::TEXT, &DataType::Utf8, 1, &wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn decimal_numbers_have_a_common_type() {
        let array = |text: &str| value(1, types::NUMERIC, &DataType::Decimal128(38, 10), 0, text.as_bytes());
        let of = |number: i128| ScalarValue::Decimal128(Some(number), 38, 2);
        let expected = [of(150), ScalarValue::Decimal128(None, 38, 2), of(-1225)];
        let list = ScalarValue::List(ScalarValue::new_list_nullable(&expected, &DataType::Decimal128(38, 2)));
        assert_eq!(array("{1.5,null,-12.25}").unwrap(), list);
        assert_eq!(array("{}").unwrap().data_type(), list_of(DataType::Decimal128(38, 0)));
        assert_eq!(array("{1.5,NaN}").unwrap().data_type(), list_of(DataType::Float64));
        assert_eq!(array("{1e37,0.01}").unwrap_err().code, "22003");
    }

    fn list_of(data_type: DataType) -> DataType {
        ScalarValue::List(ScalarValue::new_list_nullable(&[], &data_type)).data_type()
    }
}
