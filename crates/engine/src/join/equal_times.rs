//! Joins of rows in memory with all rows of a table that have their time, and their symbol and further keys.
//!
//! The rows of a time are the window that begins and ends with it, so that they are found as those of window joins are: by galloping along the
//! table's order, without a hash table of either side.

use super::chain::{Keyed, Rows};
use super::keys::LeftKey;
use super::windows::List;
use super::{AsofJoin, Joiner, Symbols, row_bytes, runs_of};
use crate::asof::WindowRule;
use crate::error::{Error, Result};
use crate::frame::Frame;
use crate::gather::NOTHING;
use crate::table::{instants, times_of};

/// Most pairs of rows that fit so many bytes: of each the number of the left row is held beside what is taken of the right one.
pub(super) fn pairs_max(join: &AsofJoin, bytes: usize) -> usize {
    bytes / (row_bytes(join) + 2 * size_of::<u64>())
}

/// Pairs of a left row and where a right one of the same time stands.
struct Pairs {
    all: Vec<(u32, u64)>,
    /// How many more there may be.
    left: usize,
    max: usize,
}

impl Pairs {
    /// Takes in a left row with some of a part's rows.
    fn add(&mut self, row: u32, part: &Rows, of_time: std::ops::Range<usize>) -> Result<()> {
        let Some(left) = self.left.checked_sub(of_time.len()) else {
            let pair = size_of::<(u32, u64)>();
            let needed = (self.max + of_time.len() - self.left).saturating_mul(pair);
            return Err(Error::Memory { needed, limit: self.max.saturating_mul(pair) });
        };
        self.left = left;
        self.all.extend(of_time.map(|place| (row, part.position(place))));
        Ok(())
    }
}

impl Joiner<'_> {
    /// The left rows, each as often as it is joined, and where the right rows stand, in the order of both sides.
    pub(super) fn pairs_of(&mut self, left: &Frame) -> Result<(Vec<u32>, Vec<u64>)> {
        let evaluate = |expr: &crate::expr::Expr| expr.evaluate(left, self.constants)?.into_array(left.len());
        let times = instants(&evaluate(&self.join.time)?)?;
        let is_valid = |row: usize| times.nulls().is_none_or(|nulls| nulls.is_valid(row));
        let of_time = |(row, time): (usize, &i64)| is_valid(row).then_some((*time, *time));
        let bounds: Vec<Option<(i64, i64)>> = times_of(&times)?.iter().enumerate().map(of_time).collect();
        let mut keys = Vec::with_capacity(self.join.keys.len());
        for (key, column) in &self.join.keys {
            keys.push(LeftKey::new(&evaluate(key)?, *column)?);
        }
        let symbols = Symbols::of(self.join.symbol.as_ref(), left, self.constants)?;
        let mut pairs =
            Pairs { all: Vec::with_capacity(left.len()), left: self.pairs_max - self.pairs, max: self.pairs_max };
        for (rows, symbol) in runs_of(symbols.as_ref(), left.len(), self.right)? {
            let name = symbol.unwrap_or_default();
            let chain = match self.chains.get_mut(name) {
                Some(chain) => chain,
                None => self.chains.entry(name.to_owned()).or_insert(self.right.chain(symbol)?),
            };
            // The right rows with some further keys ascend in time too, so that they are as rows of a symbol of their own.
            let rows = if keys.is_empty() { vec![rows.collect()] } else { LeftKey::rows_by_keys(&keys, rows) };
            let mut keyed = Keyed { right: self.right, keys: &mut keys, wanted: Vec::new() };
            for rows in rows {
                let mut list = List::new(rows, &bounds, WindowRule { prevailing: false });
                for number in 0..chain.len() {
                    list.look_into(chain, number, &mut keyed)?;
                }
                for (part, windows) in &list.found {
                    for window in windows {
                        pairs.add(window.group, part, window.start..window.end)?;
                    }
                }
            }
        }
        let Pairs { mut all, left: more, .. } = pairs;
        self.pairs = self.pairs_max - more;
        // Those of a row stay in the order of the table.
        all.sort_by_key(|(row, _)| *row);
        Ok(if self.join.inner { all.into_iter().unzip() } else { with_others(&all, left.len()) })
    }
}

/// Pairs with those rows between that have none.
fn with_others(pairs: &[(u32, u64)], rows: usize) -> (Vec<u32>, Vec<u64>) {
    let (mut left, mut right) = (Vec::with_capacity(pairs.len().max(rows)), Vec::with_capacity(pairs.len().max(rows)));
    let mut rest = pairs;
    for row in (0u32..).take(rows) {
        let (own, others) = rest.split_at(rest.iter().take_while(|(of, _)| *of == row).count());
        rest = others;
        if own.is_empty() {
            right.push(NOTHING);
        }
        right.extend(own.iter().map(|(_, position)| *position));
        left.resize(right.len(), row);
    }
    (left, right)
}
