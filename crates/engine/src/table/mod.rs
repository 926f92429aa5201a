//! Tables as the engine reads them: runs of rows of one symbol in ascending time, cut exactly to a scan's bounds.

mod blocks;
mod count;
mod cover;
mod deal;
mod ends;
mod find;
mod joined_pieces;
mod prefetch;
mod symbols;

pub(crate) use blocks::narrow;
pub(crate) use count::count;
pub(crate) use cover::{Cover, CoverColumns, PickedColumns, RowBlock, Span, instants, times_of};
pub(crate) use deal::deal;
pub(crate) use ends::{TimeEnds, distance, find_by_time, time_at_end};
pub(crate) use find::{TableEnd, find, find_end, rows_of_symbol};
pub(crate) use joined_pieces::{JoinedPieces, PIECE_ROWS, is_short};
pub(crate) use prefetch::{Prefetch, PrefetchPart};
pub(crate) use symbols::{SegmentSymbols, SymbolCondition};

use splay_store::{Bounds, TableSnapshot};

/// The rows that a plan reads, exactly: nothing of this has to be evaluated again.
#[derive(Debug, Clone, Default)]
pub struct RowSelection {
    /// Bounds of the date.
    pub dates: Bounds<i32>,
    /// Bounds of the time, in nanoseconds since the epoch.
    pub times: Bounds<i64>,
    /// Symbols, sorted and without doubles; `None` for all rows, also those without a symbol.
    pub symbols: Option<Vec<String>>,
    /// The condition on the symbol, or on its absence; it is evaluated on the symbols of a segment before its rows are read.
    pub(crate) condition: Option<SymbolCondition>,
}

/// Position of the virtual date among the columns: behind the stored ones.
pub(crate) fn date_position(snapshot: &TableSnapshot) -> usize {
    snapshot.spec().columns.len()
}
