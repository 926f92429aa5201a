//! Short pieces of a segment's columns, concatenated: one copy costs less than a slice per piece and column.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, UInt32Array};
use splay_store::{RowList, Segment, TableSnapshot};

use super::cover::Cover;
use super::date_position;
use crate::error::Result;
use crate::expr::InputColumns;
use crate::filter_mask::FilterMask;
use crate::value::Value;

/// Pieces from which on copying them together pays.
const PIECES_MIN: usize = 4;

/// Rows of a piece, on average, up to which it does.
pub(crate) const PIECE_ROWS: usize = 1_024;

/// Rows that are copied together, at most.
const PIECES_ROWS_MAX: usize = 65_536;

/// Columns that nothing has read yet are read row by row if at most one of this many rows passes.
const FILTER_SHARE: usize = 8;

/// Whether a cover consists of short pieces.
pub(crate) fn is_short(cover: &Cover) -> bool {
    let gaps = cover.spans.windows(2).filter(|pair| pair[0].rows.end != pair[1].rows.start).count();
    cover.selected_rows() <= PIECES_ROWS_MAX.min((gaps + 1) * PIECE_ROWS)
}

/// The rows of several covers of a segment, behind each other.
pub(crate) struct JoinedPieces<'a> {
    snapshot: &'a TableSnapshot,
    segment: &'a Arc<Segment>,
    date: i32,
    ranges: Vec<Range<usize>>,
    rows: usize,
    /// How many covers they are of.
    pub covers: usize,
    /// Columns that were read before.
    read: RefCell<Vec<Option<ArrayRef>>>,
}

impl<'a> JoinedPieces<'a> {
    pub fn new(snapshot: &'a TableSnapshot, cover: &'a Cover) -> JoinedPieces<'a> {
        let read = RefCell::new(vec![None; date_position(snapshot)]);
        let (segment, date) = (&cover.segment, cover.date);
        let mut pieces = JoinedPieces { snapshot, segment, date, ranges: Vec::new(), rows: 0, covers: 0, read };
        pieces.add(cover);
        pieces
    }

    /// Whether another cover can be added: of the same segment, and not too large.
    pub fn has_room(&self, cover: &Cover) -> bool {
        Arc::ptr_eq(self.segment, &cover.segment) && self.rows + cover.selected_rows() <= PIECES_ROWS_MAX
    }

    /// Whether there are enough pieces for one copy of all to pay.
    pub fn are_many(&self) -> bool {
        self.ranges.len() >= PIECES_MIN
    }

    pub fn add(&mut self, cover: &Cover) {
        for span in &cover.spans {
            match self.ranges.last_mut().filter(|last| last.end == span.rows.start) {
                Some(last) => last.end = span.rows.end,
                None => self.ranges.push(span.rows.clone()),
            }
        }
        self.rows += cover.selected_rows();
        self.covers += 1;
    }

    /// The rows of the segment that a mask keeps.
    fn row_list(&self, mask: &FilterMask) -> RowList {
        let mut ranges = self.ranges.iter();
        let (mut range, mut start) = (0..0, 0);
        let place = |row: usize| {
            while row >= start + range.len() {
                start += range.len();
                range = ranges.next()?.clone();
            }
            u32::try_from(range.start + row - start).ok()
        };
        RowList::from(mask.mask().values().set_indices().map(place).collect::<UInt32Array>())
    }
}

impl InputColumns for JoinedPieces<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&self, position: usize) -> Result<Value> {
        if position == date_position(self.snapshot) {
            return Ok(Value::Scalar(Arc::new(Date32Array::from(vec![self.date]))));
        }
        if let Some(column) = &self.read.borrow()[position] {
            return Ok(Value::Array(Arc::clone(column)));
        }
        let column = self.segment.column(self.snapshot.spec(), position)?.read_pieces(&self.ranges)?;
        self.read.borrow_mut()[position] = Some(Arc::clone(&column));
        Ok(Value::Array(column))
    }

    fn filter_column(&self, position: usize, mask: &FilterMask) -> Result<Value> {
        let is_read = self.read.borrow().get(position).is_none_or(Option::is_some);
        // Between rows that are taken one by one all are read.
        let ends = self.ranges.first().zip(self.ranges.last());
        let between = ends.map_or(0, |(first, last)| last.end.saturating_sub(first.start));
        let are_near = between / FILTER_SHARE <= self.rows;
        if is_read || !are_near || mask.rows().saturating_mul(FILTER_SHARE) > self.rows {
            return mask.filter_value(self.column(position)?);
        }
        let column = self.segment.column(self.snapshot.spec(), position)?;
        Ok(Value::Array(column.take(&self.row_list(mask))?))
    }
}
