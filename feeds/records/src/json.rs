//! JSON: from an object or an array to the values that columns take.
//!
//! Values are taken as they are written and made into the column's type from there, so that no number goes through a float that isn't one.

use std::borrow::Cow;

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;

use crate::columns::{Cell, float_of};
use crate::fields::Fields;
use crate::settings::UnknownFields;

/// Levels of a book, and no more.
const ITEMS_MAX: usize = 1024;

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Takes a value, by its column and as it is written.
type TakeValue<'t, 'a> = &'t mut dyn FnMut(usize, &'a str) -> Result<(), serde_json::Error>;

/// Fills the cells of the columns that an object has.
///
/// # Errors
/// Bytes that are no object, fields that are there twice, and those that no column takes if these are refused.
pub fn decode<'a>(
    fields: &Fields,
    unknown: UnknownFields,
    payload: &'a [u8],
    cells: &mut [Cell<'a>],
) -> Result<(), String> {
    let mut take = |column: usize, raw: &'a str| {
        cells[column] = cell(raw)?;
        Ok(())
    };
    walk(fields, (unknown, false), payload, &mut take).map_err(|error| error.to_string())
}

/// Gives each value that `fields` names of an object or an array, as it is written. Those of an array are named by their places: `0`, `1`.
///
/// # Errors
/// Bytes that are neither, fields that are there twice.
pub fn values<'a>(fields: &Fields, bytes: &'a [u8], mut take: impl FnMut(usize, &'a str)) -> Result<(), String> {
    let mut take = |column: usize, raw: &'a str| {
        take(column, raw);
        Ok(())
    };
    walk(fields, (UnknownFields::Ignore, true), bytes, &mut take).map_err(|error| error.to_string())
}

/// The items of an array, each as it is written.
///
/// # Errors
/// Text that is no array.
pub fn items(raw: &str) -> Result<Vec<&str>, String> {
    let items: Vec<&RawValue> = serde_json::from_str(raw).map_err(|error| error.to_string())?;
    Ok(items.into_iter().map(RawValue::get).collect())
}

fn walk<'a>(
    fields: &Fields,
    (unknown, is_array_taken): (UnknownFields, bool),
    bytes: &'a [u8],
    take: TakeValue<'_, 'a>,
) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    deserializer.deserialize_any(ValueVisitor { fields, unknown, is_array_taken, take })?;
    deserializer.end()
}

struct ValueVisitor<'f, 't, 'a> {
    fields: &'f Fields,
    unknown: UnknownFields,
    is_array_taken: bool,
    take: TakeValue<'t, 'a>,
}

impl<'a> ValueVisitor<'_, '_, 'a> {
    /// Takes a value, or those within it.
    fn enter(&mut self, place: usize, raw: &'a str) -> Result<(), serde_json::Error> {
        let field = self.fields.at(place);
        if !field.inner.is_empty() && raw.starts_with(['{', '[']) {
            walk(&field.inner, (self.unknown, true), raw.as_bytes(), self.take)?;
        }
        field.columns.iter().try_for_each(|column| (self.take)(*column, raw))
    }
}

impl<'de> Visitor<'de> for ValueVisitor<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_array_taken { "an object or an array" } else { "an object" })
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut next = 0;
        let mut seen = vec![false; self.fields.len()];
        while let Some(Text(name)) = map.next_key()? {
            let Some((place, _)) = self.fields.find(&name, &mut next) else {
                if self.unknown == UnknownFields::Refuse {
                    return Err(A::Error::custom(format!("no column takes the field {name:?}")));
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if std::mem::replace(&mut seen[place], true) {
                return Err(A::Error::custom(format!("the field {name:?} is there twice")));
            }
            let raw = map.next_value::<&'de RawValue>()?.get();
            self.enter(place, raw).map_err(A::Error::custom)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        if !self.is_array_taken {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        let (mut next, mut index) = (0, 0_usize);
        loop {
            let field = if index < ITEMS_MAX { self.fields.find(&index.to_string(), &mut next) } else { None };
            match field.map(|(place, _)| place) {
                None if items.next_element::<IgnoredAny>()?.is_none() => return Ok(()),
                None => {}
                Some(place) => match items.next_element::<&'de RawValue>()? {
                    None => return Ok(()),
                    Some(raw) => self.enter(place, raw.get()).map_err(A::Error::custom)?,
                },
            }
            index += 1;
        }
    }
}

/// A value as a cell.
///
/// # Errors
/// A text with an escape that is none.
pub fn cell(raw: &str) -> Result<Cell<'_>, serde_json::Error> {
    Ok(match raw.as_bytes().first() {
        Some(b'"') => Cell::Text(serde_json::from_str::<Text<'_>>(raw)?.0),
        Some(b't') => Cell::Bool(true),
        Some(b'f') => Cell::Bool(false),
        Some(b'n') => Cell::Null,
        Some(b'[') => numbers(raw)?,
        Some(b'{') => Cell::Other("an object"),
        _ => Cell::Number(raw),
    })
}

/// Numbers of an array, which may be written as texts.
fn numbers(raw: &str) -> Result<Cell<'_>, serde_json::Error> {
    let Ok(items) = serde_json::from_str::<Vec<Option<&RawValue>>>(raw) else { return Ok(Cell::Other("an array")) };
    if items.len() > ITEMS_MAX {
        return Ok(Cell::Other("an array of more than 1024 items"));
    }
    let mut numbers = Vec::with_capacity(items.len());
    for item in items {
        // An array within it is none of numbers, however deep it is.
        let number = match item.map(RawValue::get).filter(|raw| !raw.starts_with('[')).map(cell).transpose()? {
            None if item.is_some() => None,
            None | Some(Cell::Null) => Some(None),
            Some(Cell::Number(text)) => float_of::<f64>(text).map(Some),
            Some(Cell::Text(text)) => float_of::<f64>(&text).map(Some),
            Some(_) => None,
        };
        let Some(number) = number else { return Ok(Cell::Other("an array with items that are no numbers")) };
        numbers.push(number);
    }
    Ok(Cell::Floats(numbers))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn values_at(paths: &[&str], text: &str) -> Result<Vec<Option<String>>, String> {
        let mut fields = Fields::default();
        paths.iter().enumerate().for_each(|(place, path)| fields.add(path, place).unwrap());
        let mut values_at = vec![None; paths.len()];
        values(&fields, text.as_bytes(), |place, raw| values_at[place] = Some(raw.to_owned()))?;
        Ok(values_at)
    }

    #[test]
    fn values_of_objects_and_arrays_are_found_by_their_paths() {
        let text = r#"[9, {"a": {"b": [1.50, "x"]}}, null]"#;
        let paths = ["1.a.b.1", "0", "1.a", "2", "7", "1.z"].to_vec();
        let some = |text: &str| Some(text.to_owned());
        let expected = vec![some("\"x\""), some("9"), some("{\"b\": [1.50, \"x\"]}"), some("null"), None, None];
        assert_eq!(values_at(&paths, text).unwrap(), expected);
        assert!(values_at(&["a"], "{\"a\": 1, \"a\": 2}").unwrap_err().contains("twice"));
        for text in ["", "7", "[1", "[1] x", "{\"a\": }"] {
            assert!(values_at(&["0"], text).is_err(), "{text}");
        }
    }

    #[test]
    fn arrays_hold_numbers_within_the_range_of_a_float() {
        assert_eq!(cell("[1, \"2.5\", null]").unwrap(), Cell::Floats(vec![Some(1.0), Some(2.5), None]));
        for text in ["[1e400]", "[\"-1e400\"]", "[true]", "[[1]]"] {
            assert_eq!(cell(text).unwrap(), Cell::Other("an array with items that are no numbers"), "{text}");
        }
    }

    #[test]
    fn depth_takes_no_stack() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(values_at(&["0"], &deep).unwrap()[0].as_ref().unwrap().len(), deep.len() - 2);
        assert_eq!(cell(&deep).unwrap(), Cell::Other("an array with items that are no numbers"));
        assert!(cell(&deep[..150_000]).is_ok_and(|cell| cell == Cell::Other("an array")));
    }
}
