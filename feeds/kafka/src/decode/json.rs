//! JSON: an object for each record, which is a row.
//!
//! Values are taken as they are written and made into the column's type from there, so that no number goes through a float that isn't one.

use std::borrow::Cow;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;

use super::Layout;
use super::fields::Fields;
use crate::columns::Cell;
use crate::settings::Fields as Unknown;

/// Levels of a book, and no more.
const ITEMS_MAX: usize = 1024;

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Fills the cells of the columns that a record has.
pub(super) fn decode<'a>(layout: &Layout, payload: &'a [u8], cells: &mut [Cell<'a>]) -> Result<(), String> {
    object(&layout.fields, layout.unknown, payload, cells).map_err(|error| error.to_string())
}

fn object<'a>(
    fields: &Fields,
    unknown: Unknown,
    bytes: &'a [u8],
    cells: &mut [Cell<'a>],
) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    deserializer.deserialize_map(Object { fields, unknown, cells })?;
    deserializer.end()
}

struct Object<'f, 'c, 'a> {
    fields: &'f Fields,
    unknown: Unknown,
    cells: &'c mut [Cell<'a>],
}

impl<'de> Visitor<'de> for Object<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut next = 0;
        let mut seen = vec![false; self.fields.len()];
        while let Some(Text(name)) = map.next_key()? {
            let Some((place, field)) = self.fields.find(&name, &mut next) else {
                if self.unknown == Unknown::Refuse {
                    return Err(A::Error::custom(format!("no column takes the field {name:?}")));
                }
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if std::mem::replace(&mut seen[place], true) {
                return Err(A::Error::custom(format!("the field {name:?} is there twice")));
            }
            let raw = map.next_value::<&'de RawValue>()?.get();
            if !field.inner.is_empty() && raw.starts_with('{') {
                object(&field.inner, self.unknown, raw.as_bytes(), self.cells).map_err(A::Error::custom)?;
            }
            for column in &field.columns {
                self.cells[*column] = cell(raw).map_err(A::Error::custom)?;
            }
        }
        Ok(())
    }
}

fn cell(raw: &str) -> Result<Cell<'_>, serde_json::Error> {
    Ok(match raw.as_bytes().first() {
        Some(b'"') => Cell::Text(serde_json::from_str::<Text<'_>>(raw)?.0),
        Some(b't') => Cell::Bool(true),
        Some(b'f') => Cell::Bool(false),
        Some(b'n') => Cell::Null,
        Some(b'[') => items(raw)?,
        Some(b'{') => Cell::Other("an object"),
        _ => Cell::Number(raw),
    })
}

/// Numbers of an array, which may be written as texts.
fn items(raw: &str) -> Result<Cell<'_>, serde_json::Error> {
    let Ok(items) = serde_json::from_str::<Vec<Option<&RawValue>>>(raw) else { return Ok(Cell::Other("an array")) };
    if items.len() > ITEMS_MAX {
        return Ok(Cell::Other("an array of more than 1024 items"));
    }
    let mut numbers = Vec::with_capacity(items.len());
    for item in items {
        let number = match item.map(|item| cell(item.get())).transpose()? {
            None | Some(Cell::Null) => Some(None),
            Some(Cell::Number(text)) => text.parse().ok().map(Some),
            Some(Cell::Text(text)) => text.parse().ok().map(Some),
            Some(_) => None,
        };
        let Some(number) = number else { return Ok(Cell::Other("an array with items that are no numbers")) };
        numbers.push(number);
    }
    Ok(Cell::Floats(numbers))
}
