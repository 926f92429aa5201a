//! Rows that are compared without their order, floats to a part in 10^9.

use arrow::array::Array;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Text(String),
    Float(f64),
}

impl Cell {
    /// By what rows are sorted: few digits, so that sums formed in another order sort alike.
    fn key(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Float(value) => format!("{value:.5e}"),
        }
    }

    fn equals(&self, other: &Cell) -> bool {
        match (self, other) {
            (Cell::Float(one), Cell::Float(other)) => {
                one == other
                    || one.is_nan() && other.is_nan()
                    || (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1e-3)
            }
            (one, other) => one == other,
        }
    }
}

type Row = Vec<Cell>;

fn rows(batches: &[RecordBatch]) -> Vec<Row> {
    let options = FormatOptions::default().with_null("∅");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cell = |(number, column): (usize, &ArrayFormatter<'_>)| {
                let text = column.value(row).to_string();
                match batch.column(number).data_type().is_floating() && !batch.column(number).is_null(row) {
                    true => Cell::Float(text.parse().unwrap()),
                    false => Cell::Text(text),
                }
            };
            rows.push(columns.iter().enumerate().map(cell).collect());
        }
    }
    rows
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_cached_key(|row| row.iter().map(Cell::key).collect::<Vec<_>>());
    rows
}

fn equal(one: &[Row], other: &[Row]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(one, other)| one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.equals(other)))
}

/// The difference of two answers, if there is one. If the statement orders its rows so that none tie, their order counts.
pub fn difference(expected: &[RecordBatch], actual: &[RecordBatch], is_ordered: bool) -> Option<String> {
    let (expected, actual) = (rows(expected), rows(actual));
    if is_ordered && !equal(&expected, &actual) {
        return Some(format!("in order: {} rows and {}", expected.len(), actual.len()));
    }
    let (expected, actual) = (sorted(expected), sorted(actual));
    if equal(&expected, &actual) {
        return None;
    }
    let pair = expected.iter().zip(&actual).find(|(one, other)| !equal(&[one.to_vec()], &[other.to_vec()]));
    Some(format!("{} rows and {}; first: {pair:?}", expected.len(), actual.len()))
}

pub fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}
