//! Equality joins of rows in memory with all matching rows of a smaller side.
//!
//! The smaller side belongs to the run's constants. A [`LookupTable`] gives the first of its rows with the keys of a
//! left row, and a list the following ones. Left rows keep their order, and so do the matches of each.
//!
//! Without keys each left row is paired with all rows of the smaller side.
//!
//! A further condition is evaluated over a bounded number of pairs at a time, with only the columns that it reads, so
//! pairs that fail take no memory beyond that. If the condition bounds a column of the smaller side, a binary search
//! among the rows of a key finds those within (`key_range.rs`).

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt32Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::key_range::{KeyBounds, KeyRange, numbers};
use super::{evaluate_over, with_unmatched};
use crate::error::{Error, Result};
use crate::execution_context::{ExecutionContext, check_memory};
use crate::expr::Expr;
use crate::filter_mask::FilterMask;
use crate::frame::{Frame, in_pieces};
use crate::frame_steps::in_blocks;
use crate::lookup::{LookupTable, numbered};
use crate::operators::holds;
use crate::parallel;
use crate::per_run::PerRun;
use crate::rows_by_word::MISSING;

/// Pairs over which a condition is evaluated at once.
const PAIRS_TOGETHER: usize = 16_384;

/// Left rows of a piece of work where a condition is evaluated.
const ROWS_OF_PIECE: usize = 4_096;

/// What each left row is joined with.
#[derive(Debug, Clone)]
pub struct KeyJoin {
    /// Values of the left row, one for each key of the smaller side. Without any each row is joined with all.
    pub(crate) keys: Vec<Expr>,
    /// The smaller side's rows by key.
    table: Arc<LookupTable>,
    /// Numbers of the constants that hold the smaller side's columns; none of a column that nobody looks at.
    pub(crate) columns: Vec<Option<usize>>,
    /// Whether left rows without a match are left out.
    pub(crate) inner: bool,
    /// What else must hold of a pair, over the left's columns and, behind them, the smaller side's.
    pub(crate) condition: Option<Expr>,
    followers: Arc<PerRun<Option<Followers>>>,
}

/// The rows of each key that several rows have.
#[derive(Debug)]
struct Followers {
    /// Where those of each row that is the first of its key begin among `rows`, and where the last one's end.
    starts: Vec<u32>,
    rows: Vec<u32>,
    /// Numbers of the rows by which those of a key ascend, where these are searched.
    numbers: Option<Vec<i128>>,
}

impl KeyJoin {
    /// A join by `keys`, which must equal the constants with the numbers `of_keys`, to the `columns` with these numbers. Without keys there is one
    /// such number, of a constant that is as long as the columns.
    #[must_use]
    pub fn new(keys: Vec<Expr>, of_keys: Vec<usize>, columns: Vec<usize>, inner: bool) -> KeyJoin {
        let table = Arc::new(LookupTable::of_first(of_keys));
        let columns = columns.into_iter().map(Some).collect();
        KeyJoin { keys, table, columns, inner, condition: None, followers: Arc::default() }
    }

    /// Only pairs that fulfil a condition, over the left's columns followed by those of the join.
    #[must_use]
    pub fn with_condition(self, condition: Expr) -> KeyJoin {
        KeyJoin { condition: Some(condition), ..self }
    }

    /// The rows of each key, in the order of a range that is searched; `None` if each key has one and none is. Builds the
    /// lookup table, too.
    fn followers(&self, range: Option<&KeyRange>, context: &ExecutionContext<'_>) -> Result<Arc<Option<Followers>>> {
        let constants = context.constants;
        let of = self.table.key_columns(constants);
        let Some(first) = of.first() else { return Ok(Arc::new(None)) };
        let column = range.and_then(|range| self.columns[range.column]);
        self.followers.prepare(first, || {
            let firsts = match self.keys.is_empty() {
                true => Some(vec![0; first.len()]),
                false => self.table.first_of_each(constants, context.threads)?,
            };
            Ok(match (column.and_then(|column| numbers(&constants[column])), firsts) {
                (Some(numbers), Some(firsts)) => Some(Followers::in_order(&firsts, &numbers)),
                (_, firsts) => firsts.and_then(|firsts| Followers::of(&firsts)),
            })
        })
    }

    /// The first row with the keys of each left row, or [`MISSING`].
    fn first_rows(&self, left: &Frame, constants: &[ArrayRef]) -> Result<Vec<u32>> {
        if self.keys.is_empty() {
            let has_rows = self.table.key_columns(constants).first().is_some_and(|column| !column.is_empty());
            return Ok(vec![if has_rows { 0 } else { MISSING }; left.len()]);
        }
        let keys = self.keys.iter().map(|key| key.evaluate(left, constants)?.into_array(left.len()));
        self.table.first_rows(&keys.collect::<Result<Vec<_>>>()?, constants)
    }

    fn joined(
        &self,
        left: &Frame,
        firsts: &[u32],
        followers: Option<&Followers>,
        context: &ExecutionContext<'_>,
    ) -> Result<Frame> {
        let constants = context.constants;
        let (mut joined, rows) = match followers {
            followers if self.condition.is_some() => {
                let (places, rows) = self.passing(left, firsts, followers, context)?;
                let (places, rows) = match self.inner {
                    true => (places, rows),
                    false => with_unmatched(&places, &rows, left.len(), MISSING),
                };
                (left.take(&places.into())?, numbered(rows))
            }
            None if self.inner => {
                let matched = BooleanBuffer::collect_bool(firsts.len(), |row| firsts[row] != MISSING);
                let filter = FilterMask::new(BooleanArray::new(matched, None));
                let rows = firsts.iter().copied().filter(|first| *first != MISSING).collect::<Vec<u32>>();
                (left.filter_mask(filter)?, UInt32Array::from(rows))
            }
            None => (left.clone(), numbered(firsts.to_vec())),
            Some(followers) => {
                let (places, rows) = followers.pairs(firsts, self.inner);
                (left.take(&places.into())?, numbered(rows))
            }
        };
        for column in &self.columns {
            joined.push(match column {
                Some(column) => take(&constants[*column], &rows, None)?,
                None => new_null_array(&DataType::Null, rows.len()),
            });
        }
        Ok(joined)
    }
}

impl KeyJoin {
    /// The pairs for which the condition holds.
    fn passing(
        &self,
        left: &Frame,
        firsts: &[u32],
        followers: Option<&Followers>,
        context: &ExecutionContext<'_>,
    ) -> Result<(Vec<u32>, Vec<u32>)> {
        let (mut places, mut rows) = (Vec::new(), Vec::new());
        let (mut passed_places, mut passed_rows) = (Vec::new(), Vec::new());
        let limit = context.memory_bytes / 2 / context.threads.max(1);
        let range = self
            .condition
            .as_ref()
            .and_then(|condition| KeyRange::of(condition, left.columns().len(), context.constants));
        let column = range.as_ref().and_then(|range| self.columns[range.column]);
        let bounds = match (&range, column, followers.and_then(|followers| followers.numbers.as_ref())) {
            (Some(range), Some(column), Some(_)) => {
                range.bounds(left, context.constants[column].data_type(), context.constants)?
            }
            _ => KeyBounds::default(),
        };
        let mut pass = |places: &mut Vec<u32>, rows: &mut Vec<u32>| {
            context.stop.check()?;
            if bounds.are_exact {
                passed_places.append(places);
                passed_rows.append(rows);
            } else {
                let mask = self.holds_for(left, places, rows, context.constants)?;
                passed_places.extend(mask.values().set_indices().map(|pair| places[pair]));
                passed_rows.extend(mask.values().set_indices().map(|pair| rows[pair]));
                places.clear();
                rows.clear();
            }
            self.check_pairs(passed_rows.len(), context.constants, limit)
        };
        for (first, place) in firsts.iter().zip(0..) {
            let alone = std::slice::from_ref(first);
            let of_key = match followers {
                Some(followers) => followers.within(*first, bounds.of_rows.get(place as usize)),
                None if *first == MISSING => &[],
                None => alone,
            };
            for some in of_key.chunks(PAIRS_TOGETHER) {
                if rows.len() + some.len() > PAIRS_TOGETHER {
                    pass(&mut places, &mut rows)?;
                }
                rows.extend_from_slice(some);
                places.resize(rows.len(), place);
            }
        }
        pass(&mut places, &mut rows)?;
        Ok((passed_places, passed_rows))
    }

    /// For which pairs the condition holds.
    fn holds_for(&self, left: &Frame, places: &[u32], rows: &[u32], constants: &[ArrayRef]) -> Result<BooleanArray> {
        let Some(condition) = &self.condition else { return Ok(BooleanArray::from(vec![true; rows.len()])) };
        let width = left.columns().len();
        let (of_left, of_side) = (UInt32Array::from(places.to_vec()), UInt32Array::from(rows.to_vec()));
        let read = |position: usize| match left.columns().get(position) {
            Some(column) => Ok(take(&column.values()?, &of_left, None)?),
            None => {
                let column = self.columns.get(position - width).copied().flatten();
                let column = column.ok_or_else(|| Error::Unsupported("a column that was left out".to_owned()))?;
                Ok(take(&constants[column], &of_side, None)?)
            }
        };
        let passes = evaluate_over(condition, width + self.columns.len(), rows.len(), constants, read)?;
        holds(&passes)
    }

    /// Fails if the pairs would take too much memory. A pair holds the numbers of both rows, and the values of the right one.
    fn check_pairs(&self, pairs: usize, constants: &[ArrayRef], limit: usize) -> Result<()> {
        let types = self.columns.iter().flatten().map(|column| constants[*column].data_type());
        check_memory(pairs, types.chain([&DataType::UInt64]), limit)
    }
}

impl Followers {
    /// `firsts` says of each row which one is the first with the same key.
    fn of(firsts: &[u32]) -> Option<Followers> {
        if firsts.iter().zip(0..).all(|(first, row)| *first == row || *first == MISSING) {
            return None;
        }
        let mut starts = vec![0u32; firsts.len() + 1];
        let keyed = || firsts.iter().zip(0u32..).filter(|(first, _)| **first != MISSING);
        keyed().for_each(|(first, _)| starts[*first as usize + 1] += 1);
        for row in 0..firsts.len() {
            starts[row + 1] += starts[row];
        }
        let (mut next, mut rows) = (starts.clone(), vec![0; starts[firsts.len()] as usize]);
        for (first, row) in keyed() {
            let place = &mut next[*first as usize];
            rows[*place as usize] = row;
            *place += 1;
        }
        Some(Followers { starts, rows, numbers: None })
    }

    /// The rows with the key of one, itself among them.
    fn of_key(&self, first: u32) -> &[u32] {
        match first {
            MISSING => &[],
            first => &self.rows[self.starts[first as usize] as usize..self.starts[first as usize + 1] as usize],
        }
    }

    /// As [`Followers`] in the order of a number, without the rows whose number is null.
    fn in_order(firsts: &[u32], numbers: &[Option<i128>]) -> Followers {
        let keyed = firsts.iter().zip(numbers).zip(0u32..).filter(|((first, _), _)| **first != MISSING);
        let mut all: Vec<(u32, i128, u32)> =
            keyed.filter_map(|((first, number), row)| Some((*first, (*number)?, row))).collect();
        all.sort_unstable();
        let mut starts = vec![0u32; firsts.len() + 1];
        all.iter().for_each(|(first, _, _)| starts[*first as usize + 1] += 1);
        for row in 0..firsts.len() {
            starts[row + 1] += starts[row];
        }
        let rows = all.iter().map(|(_, _, row)| *row).collect();
        Followers { starts, rows, numbers: Some(all.into_iter().map(|(_, number, _)| number).collect()) }
    }

    /// The rows with the key of one whose numbers are within bounds.
    fn within(&self, first: u32, bounds: Option<&(i128, i128)>) -> &[u32] {
        let (Some((least, greatest)), Some(numbers)) = (bounds, &self.numbers) else { return self.of_key(first) };
        let rows = self.of_key(first);
        let Some(start) = self.starts.get(first as usize).map(|start| *start as usize) else { return &[] };
        let numbers = &numbers[start..start + rows.len()];
        let from = numbers.partition_point(|number| number < least);
        let until = from + numbers[from..].partition_point(|number| number <= greatest);
        &rows[from..until]
    }

    /// The places of left rows and the rows that each is joined with; without `inner` also those that are joined with none.
    fn pairs(&self, firsts: &[u32], inner: bool) -> (Vec<u32>, Vec<u32>) {
        let (mut places, mut rows) = (Vec::with_capacity(firsts.len()), Vec::with_capacity(firsts.len()));
        for (first, place) in firsts.iter().zip(0..) {
            let own = self.of_key(*first);
            rows.extend_from_slice(own);
            if own.is_empty() && !inner {
                rows.push(MISSING);
            }
            places.resize(rows.len(), place);
        }
        (places, rows)
    }
}

/// Left rows in their order with those that they are joined with.
pub(crate) fn join_by_keys(input: Vec<Frame>, join: &KeyJoin, context: &ExecutionContext<'_>) -> Result<Vec<Frame>> {
    let constants = context.constants;
    let width = input.first().map_or(0, |frame| frame.columns().len());
    let range = join.condition.as_ref().and_then(|condition| KeyRange::of(condition, width, constants));
    let followers = join.followers(range.as_ref(), context)?;
    // A row may be of many pairs.
    let input = if join.condition.is_some() { in_pieces(&input, ROWS_OF_PIECE) } else { in_blocks(&input) };
    let rows: usize = input.iter().map(Frame::len).sum();
    let threads = parallel::threads_for(rows, 0, context.threads);
    let found = parallel::each(input.len(), threads, |number| {
        context.stop.check()?;
        join.first_rows(&input[number], constants)
    })?;
    let pairs = |first: &u32| match followers.as_ref() {
        Some(followers) => followers.of_key(*first).len().max(usize::from(!join.inner)),
        None => usize::from(*first != MISSING || !join.inner),
    };
    let pairs: usize = found.iter().flatten().map(pairs).fold(0, usize::saturating_add);
    if join.condition.is_none() {
        join.check_pairs(pairs, constants, context.memory_bytes / 2)?;
    }
    let threads = parallel::threads_for(pairs.max(rows), 0, context.threads);
    parallel::each_of(input.into_iter().zip(found), threads, |(left, firsts)| {
        context.stop.check()?;
        join.joined(&left, &firsts, followers.as_ref().as_ref(), context)
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Float64Array, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    use super::*;
    use crate::binary_op::BinaryOp;
    use crate::reads::Reads;
    use crate::stop::Stop;

    /// The pairs of numbers of rows whose keys are equal, and not null, by looking at each.
    fn naive(left: &[Vec<Option<i64>>], right: &[Vec<Option<i64>>], inner: bool) -> Vec<(i64, Option<i64>)> {
        let mut pairs = Vec::new();
        for (place, keys) in (0..).zip(left) {
            let of_row = right.iter().zip(0..).filter(|(other, _)| *other == keys && keys.iter().all(Option::is_some));
            let before = pairs.len();
            pairs.extend(of_row.map(|(_, row)| (place, Some(row))));
            if pairs.len() == before && !inner {
                pairs.push((place, None));
            }
        }
        pairs
    }

    fn column(rows: &[Vec<Option<i64>>], key: usize) -> ArrayRef {
        // Every other key is a text.
        let values = rows.iter().map(|keys| keys[key]);
        match key % 2 {
            0 => Arc::new(values.collect::<Int64Array>()),
            _ => Arc::new(values.map(|value| value.map(|value| value.to_string())).collect::<StringArray>()),
        }
    }

    fn places(rows: usize) -> ArrayRef {
        Arc::new((0..i64::try_from(rows).unwrap()).map(Some).collect::<Int64Array>())
    }

    fn context(constants: &[ArrayRef], memory_bytes: usize) -> ExecutionContext<'_> {
        ExecutionContext {
            tables: &[],
            files: &[],
            constants,
            threads: 2,
            memory_bytes,
            stop: Stop::NEVER,
            reads: Reads::default(),
        }
    }

    /// The pairs of a join: what two of its columns of whole numbers say of each.
    fn pairs_of(
        frames: Vec<Frame>,
        join: &KeyJoin,
        constants: &[ArrayRef],
        columns: [usize; 2],
    ) -> Vec<(i64, Option<i64>)> {
        let mut pairs = Vec::new();
        for frame in join_by_keys(frames, join, &context(constants, 1 << 24)).unwrap() {
            let values = frame.into_columns().unwrap();
            let [places, rows] = columns.map(|column| values[column].as_primitive::<Int64Type>());
            pairs.extend(places.values().iter().copied().zip(rows.iter()));
        }
        pairs
    }

    fn check(left: &[Vec<Option<i64>>], right: &[Vec<Option<i64>>], keys: usize, inner: bool) {
        let mut constants: Vec<ArrayRef> = (0..keys).map(|key| column(right, key)).collect();
        constants.push(places(right.len()));
        let mut frame = Frame::new((0..keys).map(|key| column(left, key)).collect(), left.len());
        frame.push(places(left.len()));
        let cut = left.len() / 3;
        let frames = vec![frame.slice(0, cut), frame.slice(cut, left.len() - cut)];
        let of_left = (0..keys).map(Expr::Column).collect();
        let join = KeyJoin::new(of_left, (0..keys).collect(), vec![keys], inner);
        let found = pairs_of(frames, &join, &constants, [keys, keys + 1]);
        assert_eq!(found, naive(left, right, inner), "{left:?} {right:?}");
    }

    fn rows(keys: usize) -> impl Strategy<Value = Vec<Vec<Option<i64>>>> {
        prop::collection::vec(prop::collection::vec(prop::option::weighted(0.9, -3i64..9), keys), 0..40)
    }

    proptest! {
        #[test]
        fn each_row_is_joined_with_all_that_have_its_keys(
            (left, right, keys) in (1usize..4).prop_flat_map(|keys| (rows(keys), rows(keys), Just(keys))),
            inner in any::<bool>(),
        ) {
            check(&left, &right, keys, inner);
        }
    }

    #[test]
    fn pairs_for_which_something_else_holds() {
        // Equal numbers on both sides: more pairs than are evaluated together.
        let rows: Vec<Vec<Option<i64>>> = (0..400).map(|row| vec![Some(row % 2)]).collect();
        let once: Vec<Vec<Option<i64>>> = (0..2).map(|row| vec![Some(row)]).collect();
        for (right, by_range) in [(&rows, false), (&once, false), (&rows, true), (&once, true)] {
            let constants = [column(right, 0), places(right.len())];
            let mut frame = Frame::new(vec![column(&rows, 0)], rows.len());
            frame.push(places(rows.len()));
            let (side, own) = (|| Box::new(Expr::Column(3)), || Box::new(Expr::Column(1)));
            let less = Expr::Binary(BinaryOp::Less, side(), own());
            // By a range, and by what is none.
            let condition = match by_range {
                true => less,
                false => Expr::Not(Box::new(Expr::Not(Box::new(less)))),
            };
            let join = KeyJoin::new(vec![Expr::Column(0)], vec![0], vec![0, 1], true).with_condition(condition);
            let mut found = pairs_of(vec![frame], &join, &constants, [1, 3]);
            found.sort_unstable();
            let mut expected = naive(&rows, right, true);
            expected.retain(|(place, row)| row.is_some_and(|row| row < *place));
            assert_eq!(found, expected);
        }
    }

    /// Whatever the keys, a left row of which no pair passes is there once.
    #[test]
    fn rows_without_a_pair_that_passes_stay_in_outer_joins() {
        let rows: Vec<Vec<Option<i64>>> = (0..300).map(|row| vec![(row % 11 > 0).then_some(row % 3)]).collect();
        for (keys, right) in [(1, &rows[..]), (1, &rows[..2]), (1, &[]), (0, &rows[..]), (0, &rows[..1]), (0, &[])] {
            for inner in [false, true] {
                let constants = [column(right, 0), places(right.len())];
                let mut frame = Frame::new(vec![column(&rows, 0)], rows.len());
                frame.push(places(rows.len()));
                let less = Expr::Binary(BinaryOp::Less, Box::new(Expr::Column(1)), Box::new(Expr::Column(3)));
                let own: Vec<Expr> = (0..keys).map(Expr::Column).collect();
                let join = KeyJoin::new(own, vec![0], vec![0, 1], inner).with_condition(less);
                let mut found = pairs_of(vec![frame], &join, &constants, [1, 3]);
                found.sort_unstable();
                let mut expected = Vec::new();
                for (place, of_row) in (0i64..).zip(&rows) {
                    let is_pair = |(row, other): &(i64, &Vec<Option<i64>>)| {
                        place < *row && (keys == 0 || *other == of_row && of_row[0].is_some())
                    };
                    let own = (0i64..).zip(right).filter(is_pair).map(|(row, _)| (place, Some(row)));
                    let before = expected.len();
                    expected.extend(own);
                    if expected.len() == before && !inner {
                        expected.push((place, None));
                    }
                }
                assert_eq!(found, expected, "{keys} keys, {} rows, inner: {inner}", right.len());
            }
        }
    }

    #[test]
    fn keys_that_are_there_once_need_no_list() {
        let once: Vec<Vec<Option<i64>>> = (0..20).map(|row| vec![Some(row * 1_000_003)]).collect();
        let left: Vec<Vec<Option<i64>>> =
            (0..50).map(|row| vec![(row % 7 > 0).then_some(row * 1_000_003 / 2)]).collect();
        for inner in [false, true] {
            check(&left, &once, 1, inner);
            check(&once, &[], 1, inner);
            check(&[], &once, 1, inner);
        }
        assert!(Followers::of(&[0, MISSING, 2]).is_none());
        assert_eq!(Followers::of(&[0, MISSING, 0]).unwrap().of_key(0), [0, 2]);
    }

    proptest! {
        /// Floats with NaN, both zeros and nulls, between two values of the left.
        #[test]
        fn rows_within_a_range_are_those_that_a_look_at_all_finds(
            left in prop::collection::vec((0i64..3, value(), value()), 0..30),
            right in prop::collection::vec((0i64..3, value()), 0..60),
            strict in any::<bool>(),
            is_moved in any::<bool>(),
        ) {
            let floats = |values: Vec<Option<f64>>| Arc::new(Float64Array::from(values)) as ArrayRef;
            let keys = |keys: Vec<i64>| Arc::new(Int64Array::from(keys)) as ArrayRef;
            let frame = Frame::new(vec![
                keys(left.iter().map(|row| row.0).collect()),
                floats(left.iter().map(|row| row.1).collect()),
                floats(left.iter().map(|row| row.2).collect()),
                places(left.len()),
            ], left.len());
            let constants = [
                keys(right.iter().map(|row| row.0).collect()),
                floats(right.iter().map(|row| row.1).collect()),
                places(right.len()),
                keys(vec![2]),
            ];
            let compared = |op, of: usize| Expr::Binary(op, Box::new(Expr::Column(of)), Box::new(Expr::Column(5)));
            let (below, above) = match strict {
                true => (BinaryOp::Less, BinaryOp::Greater),
                false => (BinaryOp::LessOrEqual, BinaryOp::GreaterOrEqual),
            };
            let both = Expr::Binary(BinaryOp::And, Box::new(compared(below, 1)), Box::new(compared(above, 2)));
            // And of whole numbers of which one is moved.
            let moved = Expr::Binary(BinaryOp::Subtract, Box::new(Expr::Column(6)), Box::new(Expr::Constant(3)));
            let moved = Expr::Binary(below, Box::new(moved), Box::new(Expr::Column(3)));
            let both = match is_moved {
                true => Expr::Binary(BinaryOp::And, Box::new(moved), Box::new(compared(above, 2))),
                false => both,
            };
            let searched = KeyJoin::new(vec![Expr::Column(0)], vec![0], vec![0, 1, 2], true).with_condition(both.clone());
            let looked_at = KeyJoin::new(vec![Expr::Column(0)], vec![0], vec![0, 1, 2], true)
                .with_condition(Expr::Not(Box::new(Expr::Not(Box::new(both)))));
            let pairs = |join: &KeyJoin| {
                let mut pairs = pairs_of(vec![frame.clone()], join, &constants, [3, 6]);
                pairs.sort_unstable();
                pairs
            };
            assert_eq!(pairs(&searched), pairs(&looked_at));
        }
    }

    fn value() -> impl Strategy<Value = Option<f64>> {
        prop_oneof![
            Just(None),
            Just(Some(0.0)),
            Just(Some(-0.0)),
            Just(Some(f64::NAN)),
            Just(Some(f64::NEG_INFINITY)),
            (-4i32..5).prop_map(|value| Some(f64::from(value) / 2.0)),
        ]
    }

    #[test]
    fn more_pairs_than_memory_holds_are_refused() {
        let same: ArrayRef = Arc::new(Int64Array::from(vec![1; 2_000]));
        let frame = Frame::new(vec![Arc::clone(&same)], same.len());
        let join = KeyJoin::new(vec![Expr::Column(0)], vec![0], vec![0], true);
        let constants = [same];
        let joined = join_by_keys(vec![frame], &join, &context(&constants, 1 << 20));
        assert!(matches!(joined, Err(crate::Error::Memory { .. })));
    }
}
