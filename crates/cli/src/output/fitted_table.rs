//! Tables for people: no wider than the terminal, or a line for each value.

use std::sync::Arc;

use anyhow::Result;
use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::ArrayFormatter;

use super::options;

/// What stands in the place of columns that are left out.
const DOTS: &str = "…";

/// Characters that a column's frame takes: `| ` before it and a blank behind.
const FRAME: usize = 3;

/// Characters that a value keeps at least where long ones are cut.
const CELL_MIN: usize = 20;

/// Rows with at most as many columns as have room.
pub struct FittedTable {
    pub batches: Vec<RecordBatch>,
    pub left_out: usize,
    /// Whether values or names of columns end in dots.
    pub is_cut: bool,
}

/// Cuts long values, and leaves columns in the middle out, until the table is at most `width` characters wide. The first and the last column stay.
pub fn fit(schema: &SchemaRef, batches: &[RecordBatch], width: Option<usize>) -> Result<FittedTable> {
    let whole = FittedTable { batches: batches.to_vec(), left_out: 0, is_cut: false };
    let Some(width) = width else { return Ok(whole) };
    let widths = widths(schema, batches)?;
    let may_be_cut: Vec<bool> = schema.fields().iter().map(|field| is_text(field.data_type())).collect();
    let most = cell_width(&widths, &may_be_cut, width);
    let is_cut = |place: usize| may_be_cut[place] && widths[place] > most;
    let cut: Vec<usize> = (0..widths.len()).map(|place| if is_cut(place) { most } else { widths[place] }).collect();
    let (front, back) = columns_that_fit(&cut, width);
    let left_out = widths.len() - front - back;
    if left_out == 0 && cut == widths {
        return Ok(whole);
    }
    let mut places: Vec<Option<usize>> = (0..front).map(Some).collect();
    places.extend((left_out > 0).then_some(None));
    places.extend((widths.len() - back..widths.len()).map(Some));
    let column = |batch: &RecordBatch, place: usize| match is_cut(place) {
        true => cut_values(batch.column(place), most),
        false => Ok(Arc::clone(batch.column(place))),
    };
    let fields = places.iter().map(|place| match place {
        None => Field::new(DOTS, DataType::Utf8, false),
        Some(place) if is_cut(*place) => Field::new(cut_text(schema.field(*place).name(), most), DataType::Utf8, true),
        Some(place) => schema.field(*place).clone(),
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let fitted = |batch: &RecordBatch| {
        let columns = places.iter().map(|place| match place {
            None => Ok(Arc::new(StringArray::from(vec![DOTS; batch.num_rows()])) as ArrayRef),
            Some(place) => column(batch, *place),
        });
        Ok(RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<_>>()?)?)
    };
    let is_cut = places.iter().flatten().any(|place| is_cut(*place));
    Ok(FittedTable { batches: batches.iter().map(fitted).collect::<Result<_>>()?, left_out, is_cut })
}

/// Whether the values of a type are texts, or made of several values; others are never cut.
fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_string() || other.is_binary() || other.is_nested(),
    }
}

/// Most characters of a value with which all columns have room, where some columns may be cut; not less than [`CELL_MIN`].
fn cell_width(widths: &[usize], may_be_cut: &[bool], width: usize) -> usize {
    let shown = |most: usize| {
        let of_column = |(column, may_be_cut): (&usize, &bool)| if *may_be_cut { *column.min(&most) } else { *column };
        widths.iter().zip(may_be_cut).map(of_column).map(|column| column + FRAME).sum::<usize>() + 1
    };
    let longest = widths.iter().copied().max().unwrap_or(0);
    if shown(longest) <= width {
        return longest;
    }
    (CELL_MIN..longest).rev().find(|most| shown(*most) <= width).unwrap_or(CELL_MIN)
}

/// The values of a column as texts of at most so many characters.
fn cut_values(column: &ArrayRef, most: usize) -> Result<ArrayRef> {
    let options = options();
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
    let value = |row: usize| column.is_valid(row).then(|| cut_text(&formatter.value(row).to_string(), most));
    Ok(Arc::new((0..column.len()).map(value).collect::<StringArray>()))
}

/// Each line of a text, with dots in the place of what is beyond so many characters.
fn cut_text(text: &str, most: usize) -> String {
    let line = |line: &str| match line.char_indices().nth(most) {
        None => line.to_owned(),
        Some(_) => line.chars().take(most - 1).chain(DOTS.chars()).collect(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// How many columns of the front and of the back have room, with the dots between them.
fn columns_that_fit(widths: &[usize], width: usize) -> (usize, usize) {
    let all = widths.iter().map(|column| column + FRAME).sum::<usize>() + 1;
    if all <= width || widths.len() <= 2 {
        return (widths.len(), 0);
    }
    let mut used = 1 + FRAME + DOTS.chars().count();
    let (mut front, mut back) = (0, 0);
    loop {
        // In turns, the front first.
        let is_front = front <= back;
        let next = if is_front { widths[front] } else { widths[widths.len() - 1 - back] };
        let is_needed = front == 0 || back == 0;
        if front + back + 1 >= widths.len() || (used + next + FRAME > width && !is_needed) {
            return (front, back);
        }
        used += next + FRAME;
        if is_front { front += 1 } else { back += 1 }
    }
}

fn widths(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<usize>> {
    let mut widths: Vec<usize> = schema.fields().iter().map(|field| field.name().chars().count()).collect();
    for batch in batches {
        for (column, width) in batch.columns().iter().zip(&mut widths) {
            let options = options();
            let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
            for row in 0..batch.num_rows() {
                let cell = formatter.value(row).to_string();
                // A value may have several lines.
                let longest = cell.lines().map(|line| line.chars().count()).max();
                *width = longest.unwrap_or(0).max(*width);
            }
        }
    }
    Ok(widths)
}

/// Each row as lines of name and value.
pub fn vertical(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<String> {
    let width = schema.fields().iter().map(|field| field.name().chars().count()).max().unwrap_or(0);
    let options = options();
    let (mut text, mut number) = (String::new(), 0u64);
    for batch in batches {
        let formatters = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            number += 1;
            text += &format!("-- row {number}\n");
            for (field, formatter) in schema.fields().iter().zip(&formatters) {
                text += format!("{:width$}  {}", field.name(), formatter.value(row)).trim_end();
                text.push('\n');
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_before_columns_go() {
        let all = [true; 9];
        assert_eq!(cell_width(&[300, 1, 200], &all[..3], 80), 34, "34 and 1 and 34 take 79");
        assert_eq!(cell_width(&[30, 10], &all[..2], 80), 30);
        assert_eq!(cell_width(&[300; 9], &all, 80), CELL_MIN);
        assert_eq!(cell_width(&[300, 30], &[true, false], 80), 43, "a time is shown whole");
        assert_eq!(
            (cut_text("abcdef", 4), cut_text("abcd", 4), cut_text("äöüß\nx", 3)),
            ("abc…".into(), "abcd".into(), "äö…\nx".into())
        );
        let schema = Arc::new(Schema::new(["x", "y", "z"].map(|name| Field::new(name, DataType::Utf8, true)).to_vec()));
        let texts = |text: &str| Arc::new(StringArray::from(vec![Some(text.to_owned()), None])) as ArrayRef;
        let columns = vec![texts(&"long text ".repeat(30)), texts("1"), texts(&"z".repeat(200))];
        let fitted = fit(&schema, &[RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()], Some(80)).unwrap();
        let shown = arrow::util::pretty::pretty_format_batches(&fitted.batches).unwrap().to_string();
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert_eq!((fitted.left_out, fitted.is_cut), (0, true));
    }

    #[test]
    fn columns_of_the_middle_go_first() {
        assert_eq!(columns_that_fit(&[3, 3, 3], 19), (3, 0), "3 columns of 3 take 19");
        assert_eq!(columns_that_fit(&[3, 3, 3], 18), (1, 1));
        assert_eq!(columns_that_fit(&[10; 9], 60), (2, 2));
        assert_eq!(columns_that_fit(&[10; 9], 70), (3, 2));
        assert_eq!(columns_that_fit(&[100, 100, 100], 80), (1, 1), "the first and the last stay");
        assert_eq!(
            (columns_that_fit(&[200], 80), columns_that_fit(&[200, 200], 80), columns_that_fit(&[], 80)),
            ((1, 0), (2, 0), (0, 0))
        );
    }
}
