//! Tables for people: no wider than the terminal, or a line for each value.

use std::sync::Arc;

use anyhow::Result;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::ArrayFormatter;

use super::options;

/// What stands in the place of columns that are left out.
const DOTS: &str = "…";

/// Characters that a column's frame takes: `| ` before it and a blank behind.
const FRAME: usize = 3;

/// Rows with at most as many columns as have room.
pub struct FittedTable {
    pub batches: Vec<RecordBatch>,
    pub left_out: usize,
}

/// Leaves columns in the middle out until the table is at most `width` characters wide. The first and the last stay.
pub fn fit(schema: &SchemaRef, batches: &[RecordBatch], width: Option<usize>) -> Result<FittedTable> {
    let whole = || Ok(FittedTable { batches: batches.to_vec(), left_out: 0 });
    let Some(width) = width else { return whole() };
    let widths = widths(schema, batches)?;
    let (front, back) = columns_that_fit(&widths, width);
    let left_out = widths.len() - front - back;
    if left_out == 0 {
        return whole();
    }
    let places: Vec<usize> = (0..front).chain(widths.len() - back..widths.len()).collect();
    let dots = Arc::new(Field::new(DOTS, DataType::Utf8, false));
    let mut fields: Vec<Arc<Field>> = schema.project(&places)?.fields().to_vec();
    fields.insert(front, dots);
    let schema = Arc::new(Schema::new(fields));
    let with_dots = |batch: &RecordBatch| {
        let mut columns: Vec<ArrayRef> = places.iter().map(|place| Arc::clone(batch.column(*place))).collect();
        columns.insert(front, Arc::new(StringArray::from(vec![DOTS; batch.num_rows()])));
        Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
    };
    Ok(FittedTable { batches: batches.iter().map(with_dots).collect::<Result<_>>()?, left_out })
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
mod tests {
    use super::*;

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
