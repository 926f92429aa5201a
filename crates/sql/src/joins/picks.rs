//! Rows taken of many batches, to be put together as columns of the answer.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::error::DataFusionError;

use super::right_side::slice_bytes;

/// Batches that an unfinished batch of the answer takes rows of, before those rows are copied together.
const SOURCES_MAX: usize = 64;

/// A row of one of the sources.
pub(super) type PickedRow = Option<(u32, u32)>;

/// The right rows of a batch of the answer, in its order.
#[derive(Default)]
pub(super) struct PickedRows {
    pub(super) rows: Vec<PickedRow>,
    /// Visible columns of the batches that rows were taken of, with their numbers.
    sources: Vec<(u64, Vec<ArrayRef>)>,
    /// Bytes of the sources.
    pub(super) bytes: usize,
}

impl PickedRows {
    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.sources.clear();
        self.bytes = 0;
    }

    /// Takes a row of a batch, which is known by its number.
    pub(super) fn push(&mut self, number: u64, batch: &RecordBatch, visible: &[usize], row: usize) -> Result<()> {
        if self.sources.last().is_none_or(|(last, _)| *last != number) {
            // Looking for the nearest may return to the batch before.
            match self.sources.iter().rposition(|(other, _)| *other == number) {
                Some(place) => return self.push_of(place, row),
                None => {
                    if self.sources.len() >= SOURCES_MAX {
                        self.copy_together()?;
                    }
                    self.bytes += slice_bytes(batch);
                    let columns = visible.iter().map(|column| Arc::clone(batch.column(*column))).collect();
                    self.sources.push((number, columns));
                }
            }
        }
        self.push_of(self.sources.len() - 1, row)
    }

    fn push_of(&mut self, source: usize, row: usize) -> Result<()> {
        let narrow = |value: usize| u32::try_from(value).map_err(|error| DataFusionError::External(Box::new(error)));
        self.rows.push(Some((narrow(source)?, narrow(row)?)));
        Ok(())
    }

    /// Replaces the sources by one that holds the rows taken so far.
    fn copy_together(&mut self) -> Result<()> {
        let columns = self.sources.first().map_or(0, |(_, columns)| columns.len());
        let picked: Vec<PickedRow> = self.rows.iter().copied().filter(Option::is_some).collect();
        let mut copied = Vec::with_capacity(columns);
        for column in 0..columns {
            let data_type = self.sources[0].1[column].data_type().clone();
            copied.push(self.column(column, &data_type, &picked)?);
        }
        for (row, next) in self.rows.iter_mut().flatten().zip(0..) {
            *row = (0, next);
        }
        self.bytes = copied.iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or_default()).sum();
        // Batches are numbered from one.
        self.sources = vec![(0, copied)];
        Ok(())
    }

    /// The values of a column in the given rows; null for a left row without a match.
    pub(super) fn column(&self, column: usize, data_type: &DataType, rows: &[PickedRow]) -> Result<ArrayRef> {
        match self.sources.as_slice() {
            [] => Ok(new_null_array(data_type, rows.len())),
            [(_, columns)] => {
                let indices: UInt32Array = rows.iter().map(|row| row.map(|(_, row)| row)).collect();
                Ok(take(&columns[column], &indices, None)?)
            }
            sources => {
                let nothing = new_null_array(data_type, 1);
                let mut arrays: Vec<&dyn Array> = sources.iter().map(|(_, columns)| columns[column].as_ref()).collect();
                arrays.push(nothing.as_ref());
                let missing = (sources.len(), 0);
                let indices: Vec<(usize, usize)> = rows
                    .iter()
                    .map(|row| row.map_or(missing, |(source, row)| (source as usize, row as usize)))
                    .collect();
                Ok(interleave(&arrays, &indices)?)
            }
        }
    }
}
