//! The state of `first` and `last` with an `ORDER BY`: per group the best row so far, its key and its value.
//!
//! Invariants:
//! - a row takes the place of an earlier one only if it sorts before it (`first`) or not before it (`last`),
//! - a batch is first reduced to one row per group, so a value is copied at most once per group and batch,
//! - a partial state is the value and the key bytes; a null key is a group without rows.

use std::cmp::Ordering;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, new_empty_array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::order_keys::OrderKeys;

/// Which of two rows wins.
#[derive(Debug, Clone, Copy)]
pub(super) struct PickRule {
    pub last: bool,
    pub ignore_nulls: bool,
}

impl PickRule {
    /// Whether a row that compares so with the one held, and arrived after it, takes its place.
    pub(super) fn replaces(self, later: Ordering) -> bool {
        if self.last { later.is_ge() } else { later.is_lt() }
    }
}

/// The row held for one group.
#[derive(Debug, Clone)]
struct GroupPick<K> {
    key: K,
    value: ScalarValue,
}

/// All groups at once. Each batch is first reduced to one row per group, so values are copied once per group and batch.
#[derive(Debug)]
pub(super) struct PickGroups<O: OrderKeys> {
    pick: PickRule,
    of: DataType,
    keys: O,
    picks: Vec<Option<GroupPick<O::Key>>>,
    /// Bytes of keys and values on the heap.
    heap_size: usize,
    /// The best row of each group in the current batch, `usize::MAX` for none; kept to be used again.
    best: Vec<usize>,
}

impl<O: OrderKeys> PickGroups<O> {
    pub(super) fn new(pick: PickRule, of: DataType, keys: O) -> Self {
        Self { pick, of, keys, picks: Vec::new(), heap_size: 0, best: Vec::new() }
    }

    /// The groups that occur in a batch, with the best row of each left in `self.best`.
    fn reduce(
        &mut self,
        batch: &O::Batch,
        group_indices: &[usize],
        takes_part: impl Fn(usize) -> bool,
        total_num_groups: usize,
    ) -> Vec<usize> {
        self.picks.resize(total_num_groups, None);
        self.best.resize(total_num_groups, usize::MAX);
        let mut touched = Vec::new();
        for (row, &group) in group_indices.iter().enumerate() {
            if !takes_part(row) {
                continue;
            }
            let best = &mut self.best[group];
            if *best == usize::MAX {
                touched.push(group);
                *best = row;
            } else if self.pick.replaces(O::compare(batch, row, *best)) {
                *best = row;
            }
        }
        touched
    }

    fn offer(&mut self, group: usize, key: O::Key, values: &ArrayRef, row: usize) -> Result<()> {
        if let Some(current) = &self.picks[group] {
            if !self.pick.replaces(key.cmp(&current.key)) {
                return Ok(());
            }
            self.heap_size -= O::heap_size(&current.key) + current.value.size();
        }
        let mut value = ScalarValue::try_from_array(values, row)?;
        value.compact();
        self.heap_size += O::heap_size(&key) + value.size();
        self.picks[group] = Some(GroupPick { key, value });
        Ok(())
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Option<GroupPick<O::Key>>> {
        let emitted = emit_to.take_needed(&mut self.picks);
        self.best.truncate(self.picks.len());
        let sizes = emitted.iter().flatten().map(|pick| O::heap_size(&pick.key) + pick.value.size());
        self.heap_size -= sizes.sum::<usize>();
        emitted
    }

    fn values(&self, emitted: &[Option<GroupPick<O::Key>>]) -> Result<ArrayRef> {
        if emitted.is_empty() {
            return Ok(new_empty_array(&self.of));
        }
        let null = ScalarValue::try_new_null(&self.of)?;
        ScalarValue::iter_to_array(emitted.iter().map(|pick| pick.as_ref().map_or(&null, |pick| &pick.value).clone()))
    }
}

impl<O: OrderKeys> GroupsAccumulator for PickGroups<O> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let [x, order @ ..] = values else { return exec_err!("first and last have a value column") };
        let batch = self.keys.batch(order)?;
        let skip_nulls = self.pick.ignore_nulls;
        let takes_part = |row: usize| {
            opt_filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) && !(skip_nulls && x.is_null(row))
        };
        for group in self.reduce(&batch, group_indices, takes_part, total_num_groups) {
            let row = std::mem::replace(&mut self.best[group], usize::MAX);
            self.offer(group, O::key(&batch, row), x, row)?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let emitted = self.take(emit_to);
        self.values(&emitted)
    }

    /// The value and the key bytes; a group without rows has a null key.
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let emitted = self.take(emit_to);
        let keys: BinaryArray = emitted.iter().map(|pick| pick.as_ref().map(|pick| O::to_bytes(&pick.key))).collect();
        Ok(vec![self.values(&emitted)?, Arc::new(keys)])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        let [x, keys] = values else { return exec_err!("first and last have two state columns") };
        self.picks.resize(total_num_groups, None);
        for (row, (&group, key)) in group_indices.iter().zip(keys.as_binary::<i32>()).enumerate() {
            if let Some(key) = key {
                self.offer(group, O::from_bytes(key)?, x, row)?;
            }
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let [x, order @ ..] = values else { return exec_err!("first and last have a value column") };
        let batch = self.keys.batch(order)?;
        let keys: BinaryArray = (0..x.len())
            .map(|row| {
                let takes_part = opt_filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
                    && !(self.pick.ignore_nulls && x.is_null(row));
                takes_part.then(|| O::to_bytes(&O::key(&batch, row)))
            })
            .collect();
        Ok(vec![Arc::clone(x), Arc::new(keys)])
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.picks.capacity() * size_of::<Option<GroupPick<O::Key>>>()
            + self.best.capacity() * size_of::<usize>()
            + self.heap_size
    }
}

/// A query without GROUP BY, as one group.
#[derive(Debug)]
pub(super) struct SinglePick<O: OrderKeys> {
    groups: PickGroups<O>,
}

impl<O: OrderKeys> SinglePick<O> {
    pub(super) fn new(groups: PickGroups<O>) -> Self {
        Self { groups }
    }

    /// Makes the one group exist even if no row came.
    fn touch(&mut self) {
        self.groups.picks.resize_with(1, || None);
    }
}

impl<O: OrderKeys> Accumulator for SinglePick<O> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |column| column.len());
        self.groups.update_batch(values, &vec![0; rows], None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.touch();
        ScalarValue::try_from_array(&self.groups.evaluate(EmitTo::All)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.groups.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.touch();
        let columns = self.groups.state(EmitTo::All)?;
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |column| column.len());
        self.groups.merge_batch(states, &vec![0; rows], 1)
    }
}
