//! The right rows of one symbol over all segments, in ascending time, and the search for the match of a left row in
//! them.
//!
//! Idea: segments that don't overlap in time form a chain of parts, so nothing is merged; only overlapping segments
//! have their times merged, once per symbol. Within a part the search gallops from the previous match (`search.rs`).
//! Further keys are compared at the rows next to the one that the time gives, up to `SCANNED_ROWS`.
//!
//! Invariant: the parts of a chain ascend in time, and rows of equal time keep their order of arrival, so "last row
//! not after t" is unique.
//!
//! Cost: the logarithm of the distance to the previous match. Once the scans for further keys have read `SCANS` times
//! a part's rows, the part's rows are partitioned by key, once, and later searches are binary searches within a key.
//! Copies count against `copied_bytes_max`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, Date32Array, UInt32Array, new_empty_array};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, TimestampNanosecondType};
use hashbrown::HashMap;
use splay_store::{RowList, Segment, TableSnapshot};

use super::keys::{KeyNumbers, LeftKeys, RowsByNumber, first_equal, last_equal};
use crate::asof::{Direction, MatchRule, before, match_rows, up_to};
use crate::error::{Error, Result};
use crate::expr::codes::condition;
use crate::expr::{EvaluatedColumns, Expr};
use crate::gather::{Gather, position};
use crate::reads::column_bytes;
use crate::scan::Scan;
use crate::table::{RowSelection, date_position, rows_of_symbol};
use crate::value::Value;

/// Rows next to the one found by time that are compared first by further keys.
const SCANNED_ROWS: usize = 256;

/// A part's rows are indexed by further keys once this many times as many rows as it has were compared in vain. Indexing a row costs about as many
/// comparisons.
const SCANS: usize = 8;

/// Rows whose copies take as much memory as keys with a list of rows do beside those.
const KEYS_ROWS: usize = 16;

/// Rows whose copies take as much memory as the number of a key, and as the cached result of a search.
const NUMBER_ROWS: usize = 4;
const FOUND_ROWS: usize = 4;

/// The right table of a join.
pub(super) struct RightTable<'a> {
    snapshot: &'a TableSnapshot,
    /// `None` if no row is wanted.
    selection: Option<RowSelection>,
    predicate: Option<&'a Expr>,
    constants: &'a [ArrayRef],
    /// Segments in the order of the table's rows.
    sources: Vec<SymbolSource<'a>>,
    /// Whether no segment begins before the one before it has ended.
    in_sequence: bool,
    /// Bytes that may be copied, and those that were.
    copied_bytes_max: usize,
    copied_bytes: AtomicUsize,
}

struct SymbolSource<'a> {
    segment: &'a Arc<Segment>,
    date: i32,
}

impl<'a> RightTable<'a> {
    pub fn new(
        snapshot: &'a TableSnapshot,
        scan: &'a Scan,
        constants: &'a [ArrayRef],
        copied_bytes_max: usize,
    ) -> Result<RightTable<'a>> {
        let selection = scan.selection(constants)?;
        let mut sources = Vec::new();
        for partition in snapshot.partitions() {
            if selection.as_ref().is_some_and(|selection| selection.dates.contains(partition.date)) {
                let rows = partition.segments.iter().filter(|segment| segment.rows() > 0);
                sources.extend(rows.map(|segment| SymbolSource { segment, date: partition.date }));
            }
        }
        if sources.iter().any(|source| source.segment.rows() > u64::from(u32::MAX)) {
            return Err(Error::Unsupported("a segment of so many rows".to_owned()));
        }
        let entries = sources.windows(2).map(|pair| (pair[0].segment.entry(), pair[1].segment.entry()));
        let in_sequence = entries.into_iter().all(|(one, next)| one.time_max <= next.time_min);
        let predicate = scan.predicate.as_ref();
        Ok(RightTable {
            snapshot,
            selection,
            predicate,
            constants,
            sources,
            in_sequence,
            copied_bytes_max,
            copied_bytes: AtomicUsize::new(0),
        })
    }

    /// Columns of the table, with the date.
    pub fn width(&self) -> usize {
        date_position(self.snapshot) + 1
    }

    /// The symbol whose rows are all that can match; `None` for a table without symbols.
    pub fn only_symbol(&self) -> Result<Option<&str>> {
        if self.snapshot.spec().symbol.is_none() {
            return Ok(None);
        }
        match self.selection.as_ref().and_then(|selection| selection.symbols.as_deref()) {
            Some([one]) => Ok(Some(one)),
            _ if self.selection.is_none() => Ok(None),
            _ => Err(Error::Unsupported("a join of several symbols by time alone".to_owned())),
        }
    }

    /// Values of some rows of a source, null where the row is null.
    pub fn take(&self, source: u32, column: usize, rows: &RowList) -> Result<ArrayRef> {
        let source = &self.sources[source as usize];
        if column == date_position(self.snapshot) {
            let date = |row: Option<u32>| row.map(|_| source.date);
            return Ok(Arc::new(rows.rows().iter().map(date).collect::<Date32Array>()));
        }
        Ok(source.segment.column(self.snapshot.spec(), column)?.take(rows)?)
    }

    /// Values of rows of a part, in their order.
    pub fn column(&self, part: &PartRows, column: usize) -> Result<ArrayRef> {
        match part {
            PartRows::From { source, first, rows } if column != date_position(self.snapshot) => {
                let reader = self.sources[*source as usize].segment.column(self.snapshot.spec(), column)?;
                Ok(reader.read(*first..*first + *rows)?)
            }
            PartRows::From { source, first, rows } => {
                let rows = UInt32Array::from_iter_values((*first..*first + *rows).map(number));
                self.take(*source, column, &rows.into())
            }
            PartRows::Listed(positions) => {
                Gather::new(positions).stored(&self.data_type(column), |source, rows| self.take(source, column, rows))
            }
        }
    }

    /// Values of some rows of a part, by their numbers in it.
    pub fn column_at(&self, part: &PartRows, column: usize, rows: &RowList) -> Result<ArrayRef> {
        let positions: Vec<u64> = rows.rows().values().iter().map(|row| part.position(*row as usize)).collect();
        Gather::new(&positions).stored(&self.data_type(column), |source, rows| self.take(source, column, rows))
    }

    /// A column of no rows.
    pub fn none(&self, column: usize) -> Result<ArrayRef> {
        Ok(new_empty_array(&self.data_type(column)))
    }

    fn data_type(&self, column: usize) -> DataType {
        let stored = self.snapshot.spec().columns.get(column);
        stored.map_or(DataType::Date32, |column| column.column_type.arrow())
    }

    /// Bytes that a value of a column takes.
    pub fn column_bytes(&self, column: usize) -> u64 {
        column_bytes(self.snapshot, column)
    }

    /// The rows of a symbol. If segments don't overlap, none is looked into before a row may be there.
    pub fn chain(&self, symbol: Option<&str>) -> Result<SymbolChain> {
        let is_selected = self.selection.as_ref().is_some_and(|selection| match (&selection.symbols, symbol) {
            (Some(symbols), Some(symbol)) => symbols.binary_search_by(|one| one.as_str().cmp(symbol)).is_ok(),
            _ => true,
        });
        let mut chain =
            SymbolChain { symbol: symbol.map(str::to_owned), links: Vec::new(), found: MatchesByKeys::default() };
        if !is_selected {
            return Ok(chain);
        }
        if self.in_sequence {
            chain.links.extend(self.sources.iter().enumerate().map(|(number, source)| {
                let entry = source.segment.entry();
                SegmentLink { earliest: entry.time_min, latest: entry.time_max, rows: LinkRows::Unread(number) }
            }));
            return Ok(chain);
        }
        let mut parts = Vec::new();
        for number in 0..self.sources.len() {
            parts.extend(self.part(number, symbol)?);
        }
        // Segments of one load overlap in time, though not in the times of a symbol.
        let follows = |pair: &[SymbolRows]| pair[0].times.last() <= pair[1].times.first();
        let parts = if parts.windows(2).all(follows) { parts } else { self.merged(parts)?.into_iter().collect() };
        chain.links.extend(parts.into_iter().map(|part| {
            let (earliest, latest) = (part.times.first().copied(), part.times.last().copied());
            let (earliest, latest) = (earliest.unwrap_or(i64::MIN), latest.unwrap_or(i64::MAX));
            SegmentLink { earliest, latest, rows: LinkRows::Read(Some(part)) }
        }));
        Ok(chain)
    }

    /// The wanted rows of a symbol in a source.
    fn part(&self, source: usize, symbol: Option<&str>) -> Result<Option<SymbolRows>> {
        let Some(selection) = &self.selection else { return Ok(None) };
        let range = rows_of_symbol(self.snapshot, self.sources[source].segment, symbol, selection)?;
        let source = number(source);
        if range.is_empty() {
            return Ok(None);
        }
        let rows = PartRows::From { source, first: range.start, rows: range.len() };
        let time = self.snapshot.spec().time_position();
        let Some(predicate) = self.predicate else {
            let times = self.column(&rows, time)?;
            return SymbolRows::new(rows, &times).map(Some);
        };
        let mut columns = vec![None; self.width()];
        let mut failed = None;
        predicate.visit_columns(&mut |position| match self.column(&rows, position) {
            Ok(values) => columns[position] = Some(Value::Array(values)),
            Err(error) => failed = Some(error),
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let mask = condition(predicate, &EvaluatedColumns { columns, rows: range.len() }, self.constants)?;
        if mask.true_count() == range.len() {
            let times = self.column(&rows, time)?;
            return SymbolRows::new(rows, &times).map(Some);
        }
        let passing = mask.values().set_indices().map(|row| position(source, range.start + row));
        let passing: Vec<u64> = passing.collect();
        if passing.is_empty() {
            return Ok(None);
        }
        self.count_copied(passing.len())?;
        let times = arrow::compute::filter(&self.column(&rows, time)?, &mask)?;
        SymbolRows::new(PartRows::Listed(passing.into()), &times).map(Some)
    }

    /// Counts the memory of copied rows, two words each, which the join keeps until its end.
    fn count_copied(&self, rows: usize) -> Result<()> {
        let bytes = rows.saturating_mul(2 * size_of::<u64>());
        // Relaxed: nothing but the sum matters.
        let needed = self.copied_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let limit = self.copied_bytes_max;
        if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
    }

    /// Merges several parts into one, by time. Rows of equal times stay in the order of the table.
    fn merged(&self, mut parts: Vec<SymbolRows>) -> Result<Option<SymbolRows>> {
        if parts.len() <= 1 {
            return Ok(parts.pop());
        }
        let rows = parts.iter().map(|part| part.times.len()).sum();
        self.count_copied(rows)?;
        let mut merged: Vec<(i64, u64)> = Vec::with_capacity(rows);
        for part in &parts {
            merged.extend(part.times.iter().enumerate().map(|(row, time)| (*time, part.rows.position(row))));
        }
        // Each part is in order, which this sort makes use of.
        merged.sort();
        let (times, positions): (Vec<i64>, Vec<u64>) = merged.into_iter().unzip();
        Ok(Some(SymbolRows {
            times: times.into(),
            rows: PartRows::Listed(positions.into()),
            hint: 0,
            numbers: None,
            scanned: 0,
            split: None,
            of_keys: HashMap::new(),
        }))
    }
}

/// Where the rows of a part stand.
#[derive(Clone)]
pub(super) enum PartRows {
    /// Consecutive rows, from this one on.
    From {
        source: u32,
        first: usize,
        rows: usize,
    },
    Listed(Arc<[u64]>),
}

impl PartRows {
    /// Some of them.
    pub fn slice(&self, range: Range<usize>) -> PartRows {
        match self {
            PartRows::From { source, first, .. } => {
                PartRows::From { source: *source, first: first + range.start, rows: range.len() }
            }
            PartRows::Listed(positions) => PartRows::Listed(positions[range].into()),
        }
    }

    /// Where one of them stands.
    pub fn position(&self, row: usize) -> u64 {
        match self {
            PartRows::From { source, first, .. } => position(*source, first + row),
            PartRows::Listed(positions) => positions[row],
        }
    }
}

/// The rows of a symbol that are searched together, in ascending time.
struct SymbolRows {
    times: ScalarBuffer<i64>,
    rows: PartRows,
    /// Where the last search ended.
    hint: usize,
    /// The numbers of the further keys of its rows.
    numbers: Option<Vec<u32>>,
    /// Rows that were compared by further keys in vain.
    scanned: usize,
    split: Option<RowsByNumber>,
    /// Times and positions of the rows with some further keys, cached at the first search for these keys.
    of_keys: HashMap<u32, (ScalarBuffer<i64>, PartRows)>,
}

impl SymbolRows {
    fn new(rows: PartRows, times: &ArrayRef) -> Result<SymbolRows> {
        let times = match times.as_primitive_opt::<TimestampNanosecondType>() {
            Some(times) => times.values().clone(),
            None => return Err(Error::Unsupported(format!("a time column of type {}", times.data_type()))),
        };
        Ok(SymbolRows { times, rows, hint: 0, numbers: None, scanned: 0, split: None, of_keys: HashMap::new() })
    }
}

/// The rows of a symbol.
pub(super) struct SymbolChain {
    symbol: Option<String>,
    links: Vec<SegmentLink>,
    found: MatchesByKeys,
}

/// What one segment has of a chain.
struct SegmentLink {
    /// Bounds of the times in it.
    earliest: i64,
    latest: i64,
    rows: LinkRows,
}

enum LinkRows {
    /// The rows of a source that hasn't been read yet.
    Unread(usize),
    Read(Option<SymbolRows>),
}

/// What is searched for in one chain.
pub(super) struct ChainSearch<'a, 'b> {
    pub rule: MatchRule,
    pub keyed: RightKeys<'a, 'b>,
}

impl ChainSearch<'_, '_> {
    /// Whether an instant is later than another by more than the tolerance, so that rows there no longer match.
    fn is_too_far(&self, later: i64, earlier: i64) -> bool {
        earlier < later && self.rule.tolerance.is_some_and(|most| later.abs_diff(earlier) > most)
    }
}

/// A row that was found, with its time.
type MatchedRow = Option<(i64, u64)>;

/// What searches found beyond the part in which they began, by the number of the further keys: each left row with these keys finds the same.
#[derive(Default)]
struct MatchesByKeys {
    /// The last match in the first parts, with how many parts were searched for it.
    earlier: HashMap<u32, (usize, MatchedRow)>,
    /// From which part on the first match is known, and that.
    later: HashMap<u32, (usize, MatchedRow)>,
}

impl MatchesByKeys {
    /// The last match among the first `parts` parts, if it is known.
    fn before(&self, keys: u32, parts: usize) -> Option<MatchedRow> {
        let (parts_searched, found) = *self.earlier.get(&keys)?;
        // What some parts lack, fewer of them lack too.
        (parts_searched == parts || (parts_searched > parts && found.is_none())).then_some(found)
    }

    /// The first match from a part on, if it is known.
    fn from(&self, keys: u32, part: usize) -> Option<MatchedRow> {
        let (first_searched, found) = *self.later.get(&keys)?;
        (first_searched == part || (first_searched < part && found.is_none())).then_some(found)
    }
}

/// The right table, and what of its columns must equal further keys of left rows.
pub(super) struct RightKeys<'a, 'b> {
    pub right: &'a RightTable<'a>,
    /// Further keys of the left rows.
    pub keys: &'b LeftKeys,
    /// Numbers of the keys of both sides.
    pub numbers: &'b mut KeyNumbers,
}

impl SymbolChain {
    /// Parts, in the order of their times.
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Bounds of the times of a part.
    pub fn times(&self, number: usize) -> (i64, i64) {
        (self.links[number].earliest, self.links[number].latest)
    }

    /// The times of a part, and where its rows stand; `None` if it has none.
    pub fn rows(&mut self, number: usize, right: &RightTable<'_>) -> Result<Option<(ScalarBuffer<i64>, PartRows)>> {
        Ok(self.part(number, right)?.map(|part| (part.times.clone(), part.rows.clone())))
    }

    /// As [`Self::rows`], restricted to rows whose further keys equal those of a left row; with `last_alone` at most the last such row.
    pub fn rows_of_keys(
        &mut self,
        number: usize,
        keyed: &mut RightKeys<'_, '_>,
        left_row: usize,
        last_alone: bool,
    ) -> Result<Option<(ScalarBuffer<i64>, PartRows)>> {
        let (Some(part), Some(target)) = (self.part(number, keyed.right)?, keyed.keys.number(left_row)) else {
            return Ok(None);
        };
        if last_alone {
            let last = part.last_equal(part.times.len(), keyed, target)?;
            return Ok(
                last.map(|row| (vec![part.times[row]].into(), PartRows::Listed([part.rows.position(row)].into())))
            );
        }
        if let Some(cached) = part.of_keys.get(&target) {
            return Ok(Some(cached.clone()));
        }
        let list = part.split(keyed)?.list(target);
        if list.is_empty() {
            return Ok(None);
        }
        keyed.right.count_copied(list.len() + KEYS_ROWS)?;
        let times = list.iter().map(|row| part.times[*row]).collect();
        let positions = list.iter().map(|row| part.rows.position(*row)).collect();
        let rows = (times, PartRows::Listed(positions));
        part.of_keys.insert(target, rows.clone());
        Ok(Some(rows))
    }

    /// Where the match of a left row stands.
    pub fn find(&mut self, searched: &mut ChainSearch<'_, '_>, time: i64, left_row: usize) -> Result<Option<u64>> {
        let MatchRule { direction, inclusive, tolerance } = searched.rule;
        let found = match direction {
            Direction::Backward => self.behind(searched, time, inclusive, left_row)?,
            Direction::Forward => self.ahead(searched, time, inclusive, left_row)?,
            Direction::Nearest => {
                let behind = self.behind(searched, time, inclusive, left_row)?;
                let ahead = self.ahead(searched, time, false, left_row)?;
                match (behind, ahead) {
                    (Some(behind), Some(ahead)) if time.abs_diff(ahead.0) < time.abs_diff(behind.0) => Some(ahead),
                    (None, ahead) => ahead,
                    (behind, _) => behind,
                }
            }
        };
        let near = |found: &(i64, u64)| tolerance.is_none_or(|most| time.abs_diff(found.0) <= most);
        Ok(found.filter(near).map(|(_, position)| position))
    }

    /// Finds the matches of many left rows at once, where no further key matters, and no second part or one looks backward; false
    /// otherwise.
    pub fn find_all(
        &mut self,
        searched: &mut ChainSearch<'_, '_>,
        times: &[i64],
        mut put: impl FnMut(usize, u64),
    ) -> Result<bool> {
        let is_simple = self.links.len() == 1 || searched.rule.direction == Direction::Backward;
        if !is_simple || !searched.keyed.numbers.are_none() {
            return Ok(false);
        }
        if self.links.is_empty() {
            return Ok(true);
        }
        let inclusive = searched.rule.inclusive;
        let mut first = 0;
        let mut missed = Vec::new();
        while first < times.len() {
            let (number, count) = self.looked_into(&times[first..], inclusive);
            match self.part(number, searched.keyed.right)? {
                Some(part) => {
                    let mut left_row = first;
                    match_rows(searched.rule, &times[first..first + count], &part.times, |row| {
                        match row {
                            Some(row) => put(left_row, part.rows.position(row)),
                            None => missed.push(left_row),
                        }
                        left_row += 1;
                    });
                }
                None => missed.extend(first..first + count),
            }
            first += count;
        }
        // A part may begin before the symbol does there; then an earlier one has the match.
        if self.links.len() > 1 {
            for left_row in missed {
                if let Some(position) = self.find(searched, times[left_row], left_row)? {
                    put(left_row, position);
                }
            }
        }
        Ok(true)
    }

    /// The last part that begins early enough for the first of some times, and how many times it is the last one for.
    fn looked_into(&self, times: &[i64], inclusive: bool) -> (usize, usize) {
        let (1.., [time, ..]) = (self.links.len() - 1, times) else { return (0, times.len()) };
        let is_early =
            |link: &SegmentLink, time: i64| if inclusive { link.earliest <= time } else { link.earliest < time };
        let number = self.links.partition_point(|link| is_early(link, *time)).saturating_sub(1);
        let (own, next) = (&self.links[number], self.links.get(number + 1));
        let is_here =
            |time: &&i64| (number == 0 || is_early(own, **time)) && !next.is_some_and(|next| is_early(next, **time));
        (number, times.iter().take_while(is_here).count().max(1))
    }

    /// The last row at or before a time, with its time.
    fn behind(
        &mut self,
        searched: &mut ChainSearch<'_, '_>,
        time: i64,
        inclusive: bool,
        left_row: usize,
    ) -> Result<Option<(i64, u64)>> {
        let is_early = |earliest: i64| if inclusive { earliest <= time } else { earliest < time };
        let Some(last) = self.links.partition_point(|link| is_early(link.earliest)).checked_sub(1) else {
            return Ok(None);
        };
        if searched.is_too_far(time, self.links[last].latest) {
            return Ok(None);
        }
        let Some(keys) = searched.keyed.keys.number(left_row) else { return Ok(None) };
        if self.found.before(keys, last + 1) == Some(None) {
            return Ok(None);
        }
        let lacks = match self.part(last, searched.keyed.right)? {
            Some(part) => {
                let rows =
                    if inclusive { up_to(&part.times, part.hint, time) } else { before(&part.times, part.hint, time) };
                part.hint = rows;
                if let Some(row) = part.last_equal(rows, &mut searched.keyed, keys)? {
                    return Ok(Some((part.times[row], part.rows.position(row))));
                }
                !part.may_have(keys)
            }
            None => true,
        };
        // All rows of earlier parts are before the time, so that each left row with these keys finds the same one among them.
        let mut found = None;
        for number in (0..last).rev() {
            if let Some(cached) = self.found.before(keys, number + 1) {
                found = cached;
                break;
            }
            if searched.is_too_far(time, self.links[number].latest) {
                return Ok(None);
            }
            let Some(part) = self.part(number, searched.keyed.right)? else { continue };
            if let Some(row) = part.last_equal(part.times.len(), &mut searched.keyed, keys)? {
                found = Some((part.times[row], part.rows.position(row)));
                break;
            }
        }
        let cached = (last + usize::from(lacks && found.is_none()), found);
        if self.found.earlier.insert(keys, cached).is_none() {
            searched.keyed.right.count_copied(FOUND_ROWS)?;
        }
        Ok(found)
    }

    /// The first row at or after a time, with its time.
    fn ahead(
        &mut self,
        searched: &mut ChainSearch<'_, '_>,
        time: i64,
        inclusive: bool,
        left_row: usize,
    ) -> Result<Option<(i64, u64)>> {
        let is_late = |latest: i64| if inclusive { latest >= time } else { latest > time };
        let first = self.links.partition_point(|link| !is_late(link.latest));
        if first == self.links.len() || searched.is_too_far(self.links[first].earliest, time) {
            return Ok(None);
        }
        let Some(keys) = searched.keyed.keys.number(left_row) else { return Ok(None) };
        if self.found.from(keys, first) == Some(None) {
            return Ok(None);
        }
        let lacks = match self.part(first, searched.keyed.right)? {
            Some(part) => {
                let rows =
                    if inclusive { before(&part.times, part.hint, time) } else { up_to(&part.times, part.hint, time) };
                part.hint = rows;
                if let Some(row) = part.first_equal(rows, &mut searched.keyed, keys)? {
                    return Ok(Some((part.times[row], part.rows.position(row))));
                }
                !part.may_have(keys)
            }
            None => true,
        };
        // All rows of later parts are after the time.
        let mut found = None;
        for number in first + 1..self.links.len() {
            if let Some(cached) = self.found.from(keys, number) {
                found = cached;
                break;
            }
            if searched.is_too_far(self.links[number].earliest, time) {
                return Ok(None);
            }
            let Some(part) = self.part(number, searched.keyed.right)? else { continue };
            if let Some(row) = part.first_equal(0, &mut searched.keyed, keys)? {
                found = Some((part.times[row], part.rows.position(row)));
                break;
            }
        }
        let cached = (first + usize::from(!lacks || found.is_some()), found);
        if self.found.later.insert(keys, cached).is_none() {
            searched.keyed.right.count_copied(FOUND_ROWS)?;
        }
        Ok(found)
    }

    fn part(&mut self, number: usize, right: &RightTable<'_>) -> Result<Option<&mut SymbolRows>> {
        let link = &mut self.links[number];
        if let LinkRows::Unread(source) = link.rows {
            link.rows = LinkRows::Read(right.part(source, self.symbol.as_deref())?);
        }
        Ok(match &mut link.rows {
            LinkRows::Read(part) => part.as_mut(),
            LinkRows::Unread(_) => None,
        })
    }
}

impl SymbolRows {
    /// The last of the first `rows` rows that has further keys of a number.
    fn last_equal(&mut self, rows: usize, keyed: &mut RightKeys<'_, '_>, target: u32) -> Result<Option<usize>> {
        if keyed.numbers.are_none() {
            return Ok(rows.checked_sub(1));
        }
        if let Some(split) = &self.split {
            return Ok(split.last_before(target, rows));
        }
        let numbers = numbers(&mut self.numbers, &self.rows, self.times.len(), keyed)?;
        let (mut end, mut step) = (rows, SCANNED_ROWS);
        while end > 0 {
            let from = end.saturating_sub(step);
            if let Some(row) = last_equal(numbers, target, from..end) {
                return Ok(Some(row));
            }
            self.scanned += end - from;
            if self.scanned > SCANS * self.times.len() {
                return Ok(self.split(keyed)?.last_before(target, from));
            }
            (end, step) = (from, 2 * step);
        }
        Ok(None)
    }

    /// The first row from `first` on that has further keys of a number.
    fn first_equal(&mut self, first: usize, keyed: &mut RightKeys<'_, '_>, target: u32) -> Result<Option<usize>> {
        if keyed.numbers.are_none() {
            return Ok(Some(first).filter(|row| *row < self.times.len()));
        }
        if let Some(split) = &self.split {
            return Ok(split.first_from(target, first));
        }
        let numbers = numbers(&mut self.numbers, &self.rows, self.times.len(), keyed)?;
        let (mut start, mut step) = (first, SCANNED_ROWS);
        while start < self.times.len() {
            let end = self.times.len().min(start + step);
            if let Some(row) = first_equal(numbers, target, start..end) {
                return Ok(Some(row));
            }
            self.scanned += end - start;
            if self.scanned > SCANS * self.times.len() {
                return Ok(self.split(keyed)?.first_from(target, end));
            }
            (start, step) = (end, 2 * step);
        }
        Ok(None)
    }

    /// False if no row has further keys of a number; true may be wrong.
    fn may_have(&self, target: u32) -> bool {
        self.split.as_ref().is_none_or(|split| split.has(target))
    }

    /// The rows by their keys, dealt out once.
    fn split(&mut self, keyed: &mut RightKeys<'_, '_>) -> Result<&RowsByNumber> {
        if self.split.is_none() {
            let numbers = numbers(&mut self.numbers, &self.rows, self.times.len(), keyed)?;
            keyed.right.count_copied(numbers.len().div_ceil(2))?;
            self.split = Some(RowsByNumber::new(numbers));
        }
        self.split.as_ref().ok_or_else(|| Error::Unsupported("rows that weren't dealt out".to_owned()))
    }
}

/// The numbers of the keys of a part's rows, read once.
fn numbers<'n>(
    cached: &'n mut Option<Vec<u32>>,
    rows: &PartRows,
    count: usize,
    keyed: &mut RightKeys<'_, '_>,
) -> Result<&'n [u32]> {
    match cached {
        Some(cached) => Ok(cached),
        None => {
            keyed.right.count_copied(count.div_ceil(4))?;
            let numbers = keyed.numbers.of_right(|column| keyed.right.column(rows, column))?;
            // Includes the numbers that left rows have added meanwhile.
            keyed.right.count_copied(NUMBER_ROWS * keyed.numbers.take_new())?;
            Ok(cached.insert(numbers))
        }
    }
}

/// The number of a segment, or of a row of one; there are no more (see [`RightTable::new`]).
fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
