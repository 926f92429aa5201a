//! Whether two answers are the same.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::Result;

/// How far floats may differ, by their size: sums depend on the order of rows.
const TOLERANCE: f64 = 1e-9;

/// The rows of an answer as texts, in order.
pub fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    let options = FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
        rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|c| c.value(row).to_string()).collect()));
    }
    rows.sort_unstable();
    Ok(rows)
}

/// How two answers differ, if they do, but for rounding.
pub fn difference(one: &[Vec<String>], other: &[Vec<String>]) -> Option<String> {
    if one.len() != other.len() {
        return Some(format!("{} rows instead of {}", other.len(), one.len()));
    }
    let (one, other) = one.iter().zip(other).find(|(one, other)| !is_same_row(one, other))?;
    Some(format!("({}) instead of ({})", other.join(", "), one.join(", ")))
}

fn is_same_row(one: &[String], other: &[String]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one == other || is_near(one, other))
}

fn is_near(one: &str, other: &str) -> bool {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => (one - other).abs() <= TOLERANCE * one.abs().max(other.abs()).max(1.0),
        // Times and texts that a file format spells otherwise, such as 14:30:00Z and 14:30:00.
        _ => one.trim_end_matches('Z') == other.trim_end_matches('Z'),
    }
}
