//! The values of an aggregate over the frames of a partition.
//!
//! - What depends on the order of the values in a frame is found by their ranks (`frame_ranks.rs`).
//! - Lists and texts are made for all frames at once (`frame_lists.rs`).
//! - Of all else a frame that is that of the row before costs nothing, one that has grown costs its new rows. Any other is put together of states of
//!   blocks of rows where these are a few numbers (`frame_blocks.rs`), and costs all of its rows where they aren't. A window that would look at more
//!   than [`STEPS_MAX`] rows is an error.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, PartitionEvaluator};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;

use crate::frame_blocks::{Blocks, ROWS_MIN};
use crate::frame_call::FrameCall;
use crate::frame_lists::{FrameLists, ListResult};
use crate::frame_ranks::{RankStatistic, picked};
use crate::frame_rows::{Exclusion, FrameEdge, Frames, by_value};
use crate::percentile::{constant, constant_share};

/// Most rows that the frames of one partition may have together, each counted as often as it is looked at: some ten seconds.
const STEPS_MAX: u64 = 1_000_000_000;

/// Most bytes that the lists and texts of one partition's results may take.
const RESULT_BYTES_MAX: usize = 512 << 20;

/// Evaluates an aggregate over each frame.
#[derive(Debug)]
pub(super) struct FrameEvaluator {
    pub call: FrameCall,
    /// Types of the aggregate's arguments, and the arguments.
    pub fields: Vec<FieldRef>,
    pub exprs: Vec<Arc<dyn PhysicalExpr>>,
    pub result: FieldRef,
}

impl FrameEvaluator {
    pub fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        let fields: Vec<Field> = self.fields.iter().map(|field| field.as_ref().clone()).collect();
        self.call.aggregate.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.result),
            schema: &Schema::new(fields),
            ignore_nulls: self.call.ignores_nulls,
            order_bys: &[],
            is_reversed: false,
            name: self.call.aggregate.name(),
            // Which the evaluator sees to.
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.fields,
        })
    }

    /// Adds bytes of a result.
    fn count_bytes(&self, bytes: &mut usize, of_result: usize) -> Result<()> {
        *bytes = bytes.saturating_add(of_result);
        if *bytes > RESULT_BYTES_MAX {
            return exec_err!(
                "the results of {} over frames take more than {RESULT_BYTES_MAX} bytes",
                self.call.aggregate.name()
            );
        }
        Ok(())
    }

    /// Adds the rows of a frame.
    fn count_steps(&self, steps: &mut u64, rows: &[Range<usize>]) -> Result<()> {
        *steps += rows.iter().map(|part| part.len() as u64).sum::<u64>();
        if *steps > STEPS_MAX {
            return exec_err!(
                "{} would look at more than {STEPS_MAX} rows: its frames are too large for DISTINCT, ORDER BY, EXCLUDE or computed \
                 offsets",
                self.call.aggregate.name()
            );
        }
        Ok(())
    }

    /// The values of the first or last rows of frames by the order of the call; `None` for other aggregates.
    fn picked(&self, visible: &VisibleRows, frames: &Frames, rows: usize) -> Result<Option<ArrayRef>> {
        let call = &self.call;
        let picks_last = match call.aggregate.name() {
            "first" => false,
            "last" => true,
            _ => return Ok(None),
        };
        let (Some(places), [values]) = (&visible.order, visible.arguments.as_slice()) else { return Ok(None) };
        if call.exclusion != Exclusion::Nothing || call.is_distinct {
            return Ok(None);
        }
        let nulls = values.logical_nulls().filter(|_| call.ignores_nulls);
        let counts = |row: usize| visible.passes(row) && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let frames = (0..rows).map(|row| {
            let [rows, ..] = frames.rows(row, Exclusion::Nothing);
            rows
        });
        picked(values, places, counts, picks_last, frames).map(Some)
    }

    /// The list or text that the aggregate makes of all rows of a frame, if it does.
    fn gathered(&self) -> Option<ListResult> {
        let gathered = match (self.call.aggregate.name(), self.result.data_type()) {
            ("array_agg", DataType::List(item)) => ListResult::List(Arc::clone(item)),
            ("string_agg", _) => match constant(self.exprs.get(1)?)? {
                ScalarValue::Utf8(Some(separator)) | ScalarValue::LargeUtf8(Some(separator)) => {
                    ListResult::Text(separator)
                }
                _ => return None,
            },
            _ => return None,
        };
        gathered.gives(self.fields.first()?.data_type(), self.result.data_type()).then_some(gathered)
    }

    /// Whether the state of the accumulator is a few numbers, whatever the order of the rows.
    fn has_small_states(&self) -> Result<bool> {
        let aggregate = &self.call.aggregate;
        if !is_free_of_order(aggregate.name()) {
            return Ok(false);
        }
        let fields = aggregate.state_fields(StateFieldsArgs {
            name: aggregate.name(),
            input_fields: &self.fields,
            return_field: Arc::clone(&self.result),
            ordering_fields: &[],
            is_distinct: false,
        })?;
        let is_small = |field: &FieldRef| field.data_type().is_primitive() || *field.data_type() == DataType::Boolean;
        Ok(fields.iter().all(is_small))
    }

    /// The states of blocks of the partition.
    fn blocks(&self, visible: &VisibleRows, rows: usize) -> Result<Blocks> {
        let take_in = |rows: Range<usize>, state: &mut dyn Accumulator| {
            visible.take_in(rows, &mut AccumulatedRows::default(), state)
        };
        Blocks::new(rows, || self.accumulator(), take_in)
    }

    /// Lists or texts of all rows of each frame.
    fn lists(&self, gathered: ListResult, visible: &VisibleRows, frames: &Frames, rows: usize) -> Result<ArrayRef> {
        let Some(values) = visible.arguments.first() else { return exec_err!("a list of nothing") };
        let are_left_out = self.call.ignores_nulls || matches!(gathered, ListResult::Text(_));
        let nulls = values.logical_nulls().filter(|_| are_left_out);
        let (mut lists, mut seen, mut steps, mut bytes) = (FrameLists::default(), AccumulatedRows::default(), 0, 0);
        for row in 0..rows {
            let parts = frames.rows(row, self.call.exclusion);
            self.count_steps(&mut steps, &parts)?;
            seen.begin();
            let own = visible.seen(parts.into_iter().flatten(), &mut seen).into_iter();
            let own = own.filter(|row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row as usize)));
            self.count_bytes(&mut bytes, lists.add(&gathered, values, own))?;
        }
        lists.finish(gathered, values, self.result.data_type())
    }

    /// The statistic of ranks that gives the aggregate's result, if there is one.
    fn ranked(&self) -> Option<RankStatistic> {
        let call = &self.call;
        let share = || self.exprs.get(1).and_then(constant_share);
        let ranked = match (call.aggregate.name(), self.fields.len()) {
            _ if call.exclusion != Exclusion::Nothing => return None,
            ("count", 1) if call.is_distinct => return Some(RankStatistic::CountDistinct),
            _ if call.is_distinct => return None,
            ("median", 1) => RankStatistic::Median,
            ("mode", 1) => RankStatistic::Mode,
            ("percentile_cont", 2) => RankStatistic::Continuous(share()?),
            ("quantile_disc", 2) => RankStatistic::Discrete(share()?),
            _ => return None,
        };
        (self.fields[0].data_type() == self.result.data_type()).then_some(ranked)
    }

    fn frames(&self, values: &[ArrayRef], rows: usize) -> Result<Frames> {
        let call = &self.call;
        let [_, _, keys, offsets] = call.places();
        let mut offset_columns = offsets.map(|place| Arc::clone(&values[place]));
        let mut bound = |side: usize| -> Result<FrameEdge> {
            let offset = if call.offsets[side] { offset_columns.next() } else { None };
            FrameEdge::new(&call.bounds[side], offset, rows)
        };
        let bounds = [bound(0)?, bound(1)?];
        let keys: Vec<ArrayRef> = keys.map(|place| Arc::clone(&values[place])).collect();
        Frames::new(call.units, bounds, &keys, &call.keys, rows)
    }
}

/// What a result takes beside its own place.
fn bytes_of(result: &ScalarValue) -> usize {
    result.size().saturating_sub(size_of::<ScalarValue>())
}

/// The rows of a partition that an aggregate may see, and in which order.
struct VisibleRows {
    arguments: Vec<ArrayRef>,
    passes: Option<arrow::array::BooleanArray>,
    /// A number for each row, the same for the same arguments.
    distinct: Option<Vec<u32>>,
    /// The place of each row in the order of the call.
    order: Option<Vec<u32>>,
}

impl VisibleRows {
    fn new(call: &FrameCall, values: &[ArrayRef]) -> Result<VisibleRows> {
        let [filter, order, _, _] = call.places();
        let arguments = values[..call.arguments].to_vec();
        let distinct = match call.is_distinct && !arguments.is_empty() {
            true => {
                let rows = by_value(&arguments, None)?;
                let mut numbers = HashMap::new();
                let number = |row| {
                    let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                    *numbers.entry(row).or_insert(next)
                };
                Some(rows.iter().map(number).collect())
            }
            false => None,
        };
        let order = match order.is_empty() {
            true => None,
            false => {
                let rows = by_value(&values[order], Some(&call.order))?;
                let mut sorted: Vec<u32> = (0u32..).take(rows.num_rows()).collect();
                sorted.sort_by(|one, other| rows.row(*one as usize).cmp(&rows.row(*other as usize)));
                let mut places = vec![0; sorted.len()];
                for (place, row) in (0u32..).zip(&sorted) {
                    places[*row as usize] = place;
                }
                Some(places)
            }
        };
        Ok(VisibleRows {
            arguments,
            passes: values[filter].first().map(|filter| filter.as_boolean().clone()),
            distinct,
            order,
        })
    }

    /// Whether a row passes the filter.
    fn passes(&self, row: usize) -> bool {
        self.passes.as_ref().is_none_or(|passes| passes.is_valid(row) && passes.value(row))
    }

    /// The rows among some that the aggregate takes, in their order.
    fn seen(&self, rows: impl Iterator<Item = usize>, seen: &mut AccumulatedRows) -> Vec<u32> {
        let mut rows: Vec<u32> =
            rows.filter(|row| self.passes(*row)).filter_map(|row| u32::try_from(row).ok()).collect();
        if let Some(places) = &self.order {
            rows.sort_by_key(|row| places[*row as usize]);
        }
        if let Some(numbers) = &self.distinct {
            rows.retain(|row| seen.is_new(numbers[*row as usize]));
        }
        rows
    }

    /// Has an accumulator take in rows.
    fn take_in(
        &self,
        rows: impl Iterator<Item = usize>,
        seen: &mut AccumulatedRows,
        state: &mut dyn Accumulator,
    ) -> Result<()> {
        let rows = UInt32Array::from(self.seen(rows, seen));
        let arguments = self.arguments.iter().map(|array| take(array, &rows, None)).collect::<Result<Vec<_>, _>>()?;
        if rows.is_empty() { Ok(()) } else { state.update_batch(&arguments) }
    }
}

/// Values that an accumulator has taken in.
#[derive(Default)]
struct AccumulatedRows {
    /// For each value the number of the frame that it was last seen in.
    last: Vec<u32>,
    frame: u32,
}

impl AccumulatedRows {
    fn begin(&mut self) {
        self.frame += 1;
    }

    fn is_new(&mut self, value: u32) -> bool {
        let value = value as usize;
        if self.last.len() <= value {
            self.last.resize(value + 1, 0);
        }
        std::mem::replace(&mut self.last[value], self.frame) != self.frame
    }
}

/// Whether an aggregate gives the same for rows in any order. DataFusion knows it of few.
fn is_free_of_order(name: &str) -> bool {
    let is_listed = matches!(
        name,
        "count"
            | "sum"
            | "avg"
            | "min"
            | "max"
            | "bool_and"
            | "bool_or"
            | "bit_and"
            | "bit_or"
            | "bit_xor"
            | "product"
            | "geomean"
            | "vwap"
            | "wavg"
            | "wsum"
            | "corr"
    );
    is_listed || ["var", "stddev", "covar", "regr_"].iter().any(|family| name.starts_with(family))
}

/// Whether an accumulator of this name may be asked for its value before it has all rows.
fn goes_on(name: &str) -> bool {
    matches!(
        name,
        "count" | "sum" | "avg" | "min" | "max" | "bool_and" | "bool_or" | "first" | "last" | "vwap" | "wavg" | "wsum"
    )
}

impl PartitionEvaluator for FrameEvaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], num_rows: usize) -> Result<ArrayRef> {
        let frames = self.frames(values, num_rows)?;
        if let (Some(ranked), Some(of)) = (self.ranked(), values.first())
            && ranked.takes(of.data_type())
        {
            let [filter, ..] = self.call.places();
            let passes = values[filter].first().map(|filter| filter.as_boolean());
            let rows = (0..num_rows).map(|row| {
                let [rows, ..] = frames.rows(row, Exclusion::Nothing);
                rows
            });
            return ranked.over(of, passes, rows);
        }
        let visible = VisibleRows::new(&self.call, values)?;
        if let Some(picked) = self.picked(&visible, &frames, num_rows)? {
            return Ok(picked);
        }
        if let Some(gathered) = self.gathered() {
            return self.lists(gathered, &visible, &frames, num_rows);
        }
        let may_grow = visible.order.is_none() && goes_on(self.call.aggregate.name());
        let mut blocks = None;
        let has_blocks = self.has_small_states()? && visible.order.is_none() && visible.distinct.is_none();
        let (mut seen, mut steps, mut bytes) = (AccumulatedRows::default(), 0u64, 0usize);
        let mut state = self.accumulator()?;
        let mut before: Option<([Range<usize>; 3], ScalarValue)> = None;
        let mut results = Vec::with_capacity(num_rows);
        for row in 0..num_rows {
            let parts = frames.rows(row, self.call.exclusion);
            if let Some((same, result)) = &before
                && *same == parts
            {
                self.count_bytes(&mut bytes, bytes_of(result))?;
                results.push(result.clone());
                continue;
            }
            let grown = before.as_ref().and_then(|([before, empty, empty_too], _)| {
                let [now, others @ ..] = &parts;
                let is_one = [empty, empty_too].into_iter().chain(others).all(|part| part.is_empty());
                let grows =
                    may_grow && is_one && !before.is_empty() && now.start == before.start && now.end >= before.end;
                grows.then_some(before.end..now.end)
            });
            let new: Vec<Range<usize>> = match grown {
                Some(new) => vec![new],
                None => {
                    state = self.accumulator()?;
                    seen.begin();
                    match has_blocks && parts.iter().any(|part| part.len() >= ROWS_MIN) {
                        true => {
                            let blocks = match &mut blocks {
                                Some(blocks) => blocks,
                                none => none.insert(self.blocks(&visible, num_rows)?),
                            };
                            let merged = parts.iter().map(|part| blocks.merge_into(state.as_mut(), part.clone()));
                            merged.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()
                        }
                        false => parts.to_vec(),
                    }
                }
            };
            self.count_steps(&mut steps, &new)?;
            visible.take_in(new.into_iter().flatten(), &mut seen, state.as_mut())?;
            let result = state.evaluate()?;
            self.count_bytes(&mut bytes, bytes_of(&result))?;
            results.push(result.clone());
            before = Some((parts, result));
        }
        if results.is_empty() {
            return Ok(arrow::array::new_empty_array(self.result.data_type()));
        }
        ScalarValue::iter_to_array(results)
    }
}
