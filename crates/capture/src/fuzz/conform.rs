//! Rows of any columns for a table of any columns: refused, or every value as it was sent.

use arrow::array::RecordBatch;
use splay_mutate::Bytes;
use splay_store::TableSpec;

use super::batches;
use super::cells::{OracleCell, cell};
use crate::table_options::TableOptions;
use crate::{codec, size_estimate};

/// The target.
pub fn conform(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let spec = batches::table(&mut bytes);
    let rows = batches::any_rows(&mut bytes);
    if let Ok(derived) = TableOptions::default().table_for("t", &rows)
        && derived.validate().is_ok()
    {
        check(&derived, &rows);
    }
    check(&spec, &rows);
}

fn check(spec: &TableSpec, rows: &RecordBatch) {
    let least = size_estimate::bytes(spec, rows);
    drop(crate::conform::new_columns(spec, rows));
    let Ok(fitted) = crate::conform::conform(spec, rows) else { return };
    assert_eq!((fitted.schema(), fitted.num_rows()), (spec.arrow(), rows.num_rows()));
    for (position, column) in spec.columns.iter().enumerate() {
        let sent = rows.schema_ref().fields().iter().position(|f| f.name().eq_ignore_ascii_case(&column.name));
        for row in 0..rows.num_rows() {
            let expected = sent.map_or(OracleCell::Null, |sent| cell(rows.column(sent), row));
            let fitted_cell = cell(fitted.column(position), row);
            assert!(fitted_cell.is(&expected), "{} of row {row} was {expected:?} and is {fitted_cell:?}", column.name);
        }
    }
    let bytes = size_estimate::of_rows(&fitted);
    assert!(least <= bytes, "{least} bytes were said for {bytes}");
    let mut encoded = Vec::new();
    codec::encode(&codec::compact(&fitted), &mut encoded);
}

#[cfg(test)]
mod tests {
    use splay_mutate::{Random, Run};

    #[test]
    fn any_rows_are_refused_or_keep_their_values() {
        let mut random = Random::new(3);
        let samples: Vec<Vec<u8>> = (0..64).map(|_| (0..200).map(|_| random.byte()).collect()).collect();
        Run { inputs: 20_000, bytes_max: 1 << 10, memory: super::super::MEMORY, ..Run::default() }
            .feed(&samples, super::conform);
    }
}
