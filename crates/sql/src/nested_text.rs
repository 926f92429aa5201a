//! Columns of lists, structs and maps as text, for formats of plain fields such as CSV.
//!
//! The text is JSON but for its numbers, which are those of plain fields: `[1.0, NaN, null]`, `{"price": 1.5, "venue": "X"}`. Lists of
//! numbers look as DuckDB's do. A null in the place of a whole list is null, as in other columns.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

type Outcome<T = ()> = Result<T, ArrowError>;

/// The rows with lists, structs and maps as text. `grow` gets the total bytes of text as they grow, and may refuse.
///
/// # Errors
/// Those of `grow`, and those of Arrow: more than 2 GiB of text in a column, values that have no text.
pub fn nested_as_text(batch: &RecordBatch, grow: &mut dyn FnMut(usize) -> Outcome) -> Outcome<RecordBatch> {
    let schema = batch.schema();
    if !schema.fields().iter().any(|field| has_text(field.data_type())) {
        return Ok(batch.clone());
    }
    let (mut fields, mut columns, mut bytes) = (Vec::new(), Vec::<ArrayRef>::new(), 0);
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if !has_text(field.data_type()) {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
            continue;
        }
        let text = text_of(column.as_ref(), &mut |more| grow(bytes + more))?;
        bytes += text.value_data().len();
        fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
        columns.push(Arc::new(text));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
}

fn has_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(_, _)
            | DataType::Struct(_)
            | DataType::Map(_, _)
    )
}

fn text_of(column: &dyn Array, grow: &mut dyn FnMut(usize) -> Outcome) -> Outcome<StringArray> {
    let options = FormatOptions::default();
    let values = Values::of(column, &options)?;
    let mut text = Text { text: String::new(), counted: 0, grow };
    let mut lengths = Vec::with_capacity(column.len());
    for row in 0..column.len() {
        let before = text.text.len();
        if !column.is_null(row) {
            values.write(row, &mut text)?;
        }
        lengths.push(text.text.len() - before);
    }
    if i32::try_from(text.text.len()).is_err() {
        return Err(ArrowError::InvalidArgumentError("a column has more than 2 GiB of text".to_owned()));
    }
    StringArray::try_new(OffsetBuffer::from_lengths(lengths), text.text.into_bytes().into(), column.nulls().cloned())
}

/// Text whose size is reported as it grows.
struct Text<'a> {
    text: String,
    counted: usize,
    grow: &'a mut dyn FnMut(usize) -> Outcome,
}

impl Text<'_> {
    fn push(&mut self, part: &str) -> Outcome {
        self.text.push_str(part);
        if self.text.capacity() > self.counted {
            self.counted = self.text.capacity();
            (self.grow)(self.counted)?;
        }
        Ok(())
    }

    /// A JSON string.
    fn push_quoted(&mut self, part: &str) -> Outcome {
        self.push("\"")?;
        let mut from = 0;
        for (at, special) in part.char_indices().filter(|(_, special)| matches!(special, '"' | '\\' | '\0'..='\x1f')) {
            self.push(&part[from..at])?;
            from = at + 1;
            match special {
                '\n' => self.push("\\n")?,
                '\r' => self.push("\\r")?,
                '\t' => self.push("\\t")?,
                '"' => self.push("\\\"")?,
                '\\' => self.push("\\\\")?,
                other => self.push(&format!("\\u{:04x}", u32::from(other)))?,
            }
        }
        self.push(&part[from..])?;
        self.push("\"")
    }
}

/// Values that are written one by one.
struct Values<'a> {
    nulls: Option<NullBuffer>,
    kind: Kind<'a>,
}

enum Kind<'a> {
    List(Box<dyn Fn(usize) -> Range<usize> + 'a>, Box<Values<'a>>),
    Struct(Vec<(&'a str, Values<'a>)>),
    Map(Box<dyn Fn(usize) -> Range<usize> + 'a>, Box<[Values<'a>; 2]>),
    /// Numbers and booleans; other values are in quotes.
    Plain(ArrayFormatter<'a>, bool),
}

impl<'a> Values<'a> {
    fn of(array: &'a dyn Array, options: &FormatOptions<'a>) -> Outcome<Values<'a>> {
        let boxed = |values: &'a ArrayRef| Values::of(values.as_ref(), options).map(Box::new);
        let kind = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Kind::List(
                    spans(list.value_offsets(), |offset| usize::try_from(offset).unwrap_or(0)),
                    boxed(list.values())?,
                )
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Kind::List(
                    spans(list.value_offsets(), |offset| usize::try_from(offset).unwrap_or(0)),
                    boxed(list.values())?,
                )
            }
            DataType::FixedSizeList(_, _) => {
                let list = array.as_fixed_size_list();
                let size = usize::try_from(list.value_length()).unwrap_or(0);
                Kind::List(Box::new(move |row| row * size..(row + 1) * size), boxed(list.values())?)
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                let entries = [Values::of(map.keys().as_ref(), options)?, Values::of(map.values().as_ref(), options)?];
                Kind::Map(spans(map.value_offsets(), |offset| usize::try_from(offset).unwrap_or(0)), Box::new(entries))
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let members =
                    columns.map(|(field, column)| Ok((field.name().as_str(), Values::of(column.as_ref(), options)?)));
                Kind::Struct(members.collect::<Outcome<_>>()?)
            }
            other => Kind::Plain(ArrayFormatter::try_new(array, options)?, is_bare(other)),
        };
        Ok(Values { nulls: array.logical_nulls(), kind })
    }

    fn write(&self, row: usize, text: &mut Text<'_>) -> Outcome {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return text.push("null");
        }
        match &self.kind {
            Kind::List(span, items) => {
                text.push("[")?;
                for (place, item) in span(row).enumerate() {
                    text.push(if place == 0 { "" } else { ", " })?;
                    items.write(item, text)?;
                }
                text.push("]")
            }
            Kind::Struct(members) => {
                text.push("{")?;
                for (place, (name, member)) in members.iter().enumerate() {
                    text.push(if place == 0 { "" } else { ", " })?;
                    text.push_quoted(name)?;
                    text.push(": ")?;
                    member.write(row, text)?;
                }
                text.push("}")
            }
            Kind::Map(span, entries) => {
                text.push("{")?;
                for (place, entry) in span(row).enumerate() {
                    text.push(if place == 0 { "" } else { ", " })?;
                    entries[0].write_key(entry, text)?;
                    text.push(": ")?;
                    entries[1].write(entry, text)?;
                }
                text.push("}")
            }
            Kind::Plain(formatter, true) => text.push(&formatter.value(row).try_to_string()?),
            Kind::Plain(formatter, false) => text.push_quoted(&formatter.value(row).try_to_string()?),
        }
    }

    /// A key in JSON is always in quotes.
    fn write_key(&self, row: usize, text: &mut Text<'_>) -> Outcome {
        match &self.kind {
            Kind::Plain(formatter, _) => text.push_quoted(&formatter.value(row).try_to_string()?),
            _ => self.write(row, text),
        }
    }
}

/// The range of each row's values.
fn spans<'a, O: Copy>(offsets: &'a [O], place: impl Fn(O) -> usize + 'a) -> Box<dyn Fn(usize) -> Range<usize> + 'a> {
    Box::new(move |row| place(offsets[row])..place(offsets[row + 1]))
}

fn is_bare(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_bare(values),
        other => other.is_numeric() || *other == DataType::Boolean,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{
        Date32Array, FixedSizeListArray, Float64Array, Int32Array, ListArray, MapBuilder, StringBuilder, StructArray,
    };
    use arrow::datatypes::{Float64Type, Int32Type};

    use super::*;

    fn texts(column: ArrayRef) -> Vec<Option<String>> {
        let batch = RecordBatch::try_from_iter([
            ("n", Arc::new(Int32Array::from(vec![7; column.len()])) as ArrayRef),
            ("x", column),
        ]);
        let written = nested_as_text(&batch.unwrap(), &mut |_| Ok(())).unwrap();
        assert_eq!(written.schema().field(0).data_type(), &DataType::Int32);
        assert_eq!(written.schema().field(1), &Field::new("x", DataType::Utf8, true));
        written.column(1).as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn lists_of_numbers_are_written_with_their_nulls() {
        let rows = vec![Some(vec![Some(1.0), None, Some(f64::NAN)]), None, Some(vec![]), Some(vec![Some(-2.5)])];
        let lists = ListArray::from_iter_primitive::<Float64Type, _, _>(rows);
        let expected = [some("[1.0, null, NaN]"), None, some("[]"), some("[-2.5]")];
        assert_eq!(texts(Arc::new(lists.clone())), expected);
        assert_eq!(texts(Arc::new(lists.slice(1, 3))), expected[1..]);
        let levels = vec![Some(vec![Some(1), Some(2)]), None, Some(vec![None, Some(4)])];
        let levels = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(levels, 2);
        assert_eq!(texts(Arc::new(levels.slice(1, 2))), [None, some("[null, 4]")]);
    }

    #[test]
    fn structs_and_maps_are_json() {
        let inner: ArrayRef = Arc::new(StringArray::from(vec![Some("a\"b\\\n\u{1}é"), None]));
        let day: ArrayRef = Arc::new(Date32Array::from(vec![19_724, 0]));
        let price: ArrayRef = Arc::new(Float64Array::from(vec![1.5, f64::INFINITY]));
        let both = StructArray::try_from(vec![("note", inner), ("day", day), ("price", price)]).unwrap();
        let expected = [
            some(r#"{"note": "a\"b\\\n\u0001é", "day": "2024-01-02", "price": 1.5}"#),
            some(r#"{"note": null, "day": "1970-01-01", "price": inf}"#),
        ];
        assert_eq!(texts(Arc::new(both)), expected);
        let mut map = MapBuilder::new(None, StringBuilder::new(), arrow::array::Int32Builder::new());
        map.keys().append_value("x");
        map.values().append_value(1);
        map.append(true).unwrap();
        map.append(false).unwrap();
        assert_eq!(texts(Arc::new(map.finish())), [some(r#"{"x": 1}"#), None]);
    }

    #[test]
    fn text_is_counted_and_refused_as_it_grows() {
        let long = ListArray::from_iter_primitive::<Float64Type, _, _>([Some(vec![Some(0.5); 100_000])]);
        let batch = RecordBatch::try_from_iter([("x", Arc::new(long) as ArrayRef)]).unwrap();
        let mut most = 0;
        let refused = nested_as_text(&batch, &mut |bytes| {
            most = bytes;
            if bytes > 1000 { Err(ArrowError::MemoryError("no more".to_owned())) } else { Ok(()) }
        });
        assert!(refused.is_err());
        assert!(most < 5000, "{most}");
    }
}
