//! A range of a segment's rows whose columns are read once, for all spans in it.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Date32Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, TimeUnit, TimestampNanosecondType};
use splay_store::{ColumnType, Segment, TableSnapshot};

use super::joined_pieces::PIECE_ROWS;
use crate::error::{Error, Result};
use crate::expr::InputColumns;
use crate::expr::codes::TextResults;
use crate::value::Value;

/// A range of a segment with the selected rows in it.
#[derive(Debug, Clone)]
pub(crate) struct Cover {
    pub segment: Arc<Segment>,
    pub date: i32,
    /// From the first selected row to the last.
    pub rows: Range<usize>,
    /// Selected rows, ascending and disjoint.
    pub spans: Vec<Span>,
}

/// Consecutive selected rows: of one symbol, if the plan depends on the symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Rows of the segment.
    pub rows: Range<usize>,
    /// Number of the symbol's run in the segment's directory; `None` if the span may hold several.
    pub run: Option<usize>,
}

/// Spans whose rows are evaluated as one block.
#[derive(Debug)]
pub(crate) struct RowBlock {
    /// Rows of the segment, from the first selected one to the last.
    pub rows: Range<usize>,
    /// Spans, cut to the block.
    pub spans: Vec<Span>,
}

impl RowBlock {
    /// The number of rows in the spans.
    pub fn selected_rows(&self) -> usize {
        self.spans.iter().map(|span| span.rows.len()).sum()
    }

    /// The selected rows, counted from row `from` of the segment; `None` if they are all of [`RowBlock::rows`].
    pub fn picked(&self, from: usize) -> Option<UInt32Array> {
        let place = |row: usize| u32::try_from(row - from).unwrap_or(u32::MAX);
        let rows = || self.spans.iter().flat_map(|span| span.rows.clone().map(place));
        (self.selected_rows() < self.rows.len()).then(|| UInt32Array::from_iter_values(rows()))
    }
}

impl Cover {
    /// The number of selected rows.
    pub fn selected_rows(&self) -> usize {
        self.spans.iter().map(|span| span.rows.len()).sum()
    }

    /// A block of this cover, as a cover of its own.
    pub fn part(&self, block: &RowBlock) -> Cover {
        let (segment, rows, spans) = (Arc::clone(&self.segment), block.rows.clone(), block.spans.clone());
        Cover { segment, date: self.date, rows, spans }
    }

    /// Its first selected rows.
    pub fn first(&self, rows: usize) -> Cover {
        let mut remaining = rows;
        let mut spans = Vec::new();
        for span in &self.spans {
            if remaining == 0 {
                break;
            }
            let end = span.rows.end.min(span.rows.start.saturating_add(remaining));
            remaining -= end - span.rows.start;
            spans.push(Span { rows: span.rows.start..end, run: span.run });
        }
        let end = spans.last().map_or(self.rows.start, |span| span.rows.end);
        Cover { segment: Arc::clone(&self.segment), date: self.date, rows: self.rows.start..end, spans }
    }

    /// The spans in blocks of at most `rows_max` selected rows. Short spans share a block even with gaps between them.
    pub fn blocks_with_gaps(&self, rows_max: usize) -> Vec<RowBlock> {
        let mut blocks: Vec<RowBlock> = Vec::new();
        let (mut selected, mut are_short) = (0, false);
        for block in self.blocks(rows_max) {
            let (rows, is_short) = (block.rows.len(), block.rows.len() <= PIECE_ROWS);
            match blocks.last_mut().filter(|_| are_short && is_short && selected + rows <= rows_max) {
                Some(last) => {
                    last.rows.end = block.rows.end;
                    last.spans.extend(block.spans);
                    selected += rows;
                }
                None => {
                    blocks.push(block);
                    (selected, are_short) = (rows, is_short);
                }
            }
        }
        blocks
    }

    /// The spans in blocks of at most `rows_max` adjacent rows.
    pub fn blocks(&self, rows_max: usize) -> Vec<RowBlock> {
        Cover::blocks_of(&self.spans, rows_max)
    }

    pub fn blocks_of(spans: &[Span], rows_max: usize) -> Vec<RowBlock> {
        let mut blocks: Vec<RowBlock> = Vec::new();
        for span in spans {
            let mut start = span.rows.start;
            while start < span.rows.end {
                let room = match blocks.last() {
                    Some(last) if last.rows.end == start => rows_max.saturating_sub(last.rows.len()),
                    _ => 0,
                };
                let end = span.rows.end.min(start + if room == 0 { rows_max } else { room });
                let part = Span { rows: start..end, run: span.run };
                match blocks.last_mut().filter(|_| room > 0) {
                    Some(last) => {
                        last.rows.end = end;
                        last.spans.push(part);
                    }
                    None => blocks.push(RowBlock { rows: start..end, spans: vec![part] }),
                }
                start = end;
            }
        }
        blocks
    }
}

/// The columns of a cover, read at their first use.
pub(crate) struct CoverColumns<'a> {
    snapshot: &'a TableSnapshot,
    cover: &'a Cover,
    columns: Vec<OnceCell<ArrayRef>>,
    text_results: TextResults,
}

impl<'a> CoverColumns<'a> {
    pub fn new(snapshot: &'a TableSnapshot, cover: &'a Cover) -> CoverColumns<'a> {
        let columns = (0..snapshot.spec().columns.len()).map(|_| OnceCell::new()).collect();
        CoverColumns { snapshot, cover, columns, text_results: TextResults::new(cover.selected_rows()) }
    }

    pub fn cover(&self) -> &'a Cover {
        self.cover
    }

    /// A stored column over the rows of the cover.
    pub fn column(&self, position: usize) -> Result<&ArrayRef> {
        let cell = &self.columns[position];
        if let Some(column) = cell.get() {
            return Ok(column);
        }
        let column = self.cover.segment.column(self.snapshot.spec(), position)?.read(self.cover.rows.clone())?;
        Ok(cell.get_or_init(|| column))
    }

    /// Whether a column holds codes of a dictionary.
    pub fn may_be_coded(&self, position: usize) -> bool {
        let column = self.snapshot.spec().columns.get(position);
        column.is_some_and(|column| column.column_type == ColumnType::Symbol)
    }

    /// Cached results of expressions over the dictionaries of the columns.
    pub fn text_results(&self) -> &TextResults {
        &self.text_results
    }

    /// Whether a stored column was read before.
    pub fn has_read(&self, position: usize) -> bool {
        self.columns[position].get().is_some()
    }

    /// Times of the cover's rows.
    pub fn times(&self) -> Result<&[i64]> {
        let column = self.column(self.snapshot.spec().time_position())?;
        times_of(column)
    }

    /// The position of the virtual date among the columns.
    pub fn date_position(&self) -> usize {
        self.columns.len()
    }

    /// The date, as an array of one value.
    pub fn date(&self) -> ArrayRef {
        Arc::new(Date32Array::from(vec![self.cover.date]))
    }
}

/// The columns of single rows of a cover.
pub(crate) struct PickedColumns<'a> {
    pub columns: &'a CoverColumns<'a>,
    /// Rows of the cover.
    pub rows: &'a UInt32Array,
}

impl InputColumns for PickedColumns<'_> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn column(&self, position: usize) -> Result<Value> {
        if position == self.columns.date_position() {
            return Ok(Value::Scalar(self.columns.date()));
        }
        Ok(Value::Array(take(self.columns.column(position)?, self.rows, None)?))
    }
}

/// The instants of a time column.
pub(crate) fn times_of(column: &ArrayRef) -> Result<&[i64]> {
    match column.as_primitive_opt::<TimestampNanosecondType>() {
        Some(times) => Ok(times.values()),
        None => Err(Error::Unsupported(format!("a time column of type {}", column.data_type()))),
    }
}

/// Times of any zone as instants without one, in nanoseconds.
pub(crate) fn instants(times: &ArrayRef) -> Result<ArrayRef> {
    match times.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Ok(Arc::clone(times)),
        other => Err(Error::Unsupported(format!("a time of type {other}"))),
    }
}
