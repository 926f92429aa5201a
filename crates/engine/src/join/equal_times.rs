//! Joins of rows in memory with all rows of a table that have the same time, symbol and further keys.
//!
//! The rows of one time are a window that begins and ends at this time, so they are found as in window joins: by
//! galloping along the table's order, without a hash table for either side.

use super::chain::RightKeys;
use super::windows::WindowList;
use super::{AsofJoin, AsofJoiner, LeftSymbols, chain_of, row_bytes, runs_of, with_unmatched};
use crate::asof::WindowRule;
use crate::error::Result;
use crate::frame::Frame;
use crate::gather::NOTHING;
use crate::row_count::RowCount;
use crate::table::{instants, times_of};

/// Counts the pairs of a join against `bytes`. A pair holds the number of the left row and the values of the right one.
pub(super) fn pairs_of(join: &AsofJoin, bytes: usize) -> RowCount {
    RowCount::new(row_bytes(join) + 2 * size_of::<u64>(), bytes)
}

impl AsofJoiner<'_> {
    /// The left rows, repeated once for each match, and the positions of the matching right rows, in the order of both
    /// sides.
    pub(super) fn pairs_of(&mut self, left: &Frame) -> Result<(Vec<u32>, Vec<u64>)> {
        let evaluate = |expr: &crate::expr::Expr| expr.evaluate(left, self.constants)?.into_array(left.len());
        let times = instants(&evaluate(&self.join.time)?)?;
        let is_valid = |row: usize| times.nulls().is_none_or(|nulls| nulls.is_valid(row));
        let of_time = |(row, time): (usize, &i64)| is_valid(row).then_some((*time, *time));
        let bounds: Vec<Option<(i64, i64)>> = times_of(&times)?.iter().enumerate().map(of_time).collect();
        let keys = self.numbers.of_left(left, self.constants)?;
        let symbols = LeftSymbols::of(self.join.symbol.as_ref(), left, self.constants)?;
        let mut pairs: Vec<(u32, u64)> = Vec::with_capacity(left.len());
        for (rows, symbol) in runs_of(symbols.as_ref(), left.len(), self.right)? {
            let chain = chain_of(&mut self.chains, self.right, symbol)?;
            // The right rows with some further keys ascend in time too, so that they are as rows of a symbol of their own.
            let rows = keys.rows_by_keys(rows);
            let mut keyed = RightKeys { right: self.right, keys: &keys, numbers: &mut self.numbers };
            for rows in rows {
                let mut list = WindowList::new(rows, &bounds, WindowRule { prevailing: false });
                for number in 0..chain.len() {
                    list.look_into(chain, number, &mut keyed)?;
                }
                for (part, windows) in &list.found {
                    for window in windows {
                        self.pairs.add(window.end - window.start)?;
                        pairs.extend((window.start..window.end).map(|place| (window.group, part.position(place))));
                    }
                }
            }
        }
        // The sort is stable, so the matches of a row stay in the order of the table.
        pairs.sort_by_key(|(row, _)| *row);
        let (places, positions): (Vec<u32>, Vec<u64>) = pairs.into_iter().unzip();
        Ok(match self.join.inner {
            true => (places, positions),
            false => with_unmatched(&places, &positions, left.len(), NOTHING),
        })
    }
}
