//! Aggregates whose state is a fold of rows that can be joined with that of others: of all rows and of groups. Those of moving frames are in
//! `frame_fold.rs`.

use std::fmt::Debug;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// What rows make together; the default is that of no rows.
pub(super) trait Fold: Copy + Default + Debug + Send + Sync + 'static {
    /// Joins that of the rows behind.
    fn join(&mut self, behind: &Self);
}

/// A fold that is stored as `N` numbers between the steps of an aggregation.
pub(super) trait StoredFold<const N: usize>: Fold {
    fn store(&self) -> [f64; N];
    fn load(numbers: [f64; N]) -> Self;
}

/// How an aggregate folds rows.
pub(super) trait FoldRule: Debug + Send + Sync + 'static {
    /// What it folds them to.
    type Fold: Fold;

    /// Gives `each` the fold of each row, which is the default for one that doesn't count.
    fn fold_each(&self, values: &[ArrayRef], each: impl FnMut(Self::Fold)) -> Result<()>;

    /// The aggregate's result.
    fn answer(&self, fold: &Self::Fold) -> Option<f64>;
}

/// The columns of a stored fold.
pub(super) fn state_fields<const N: usize>(aggregate: &str, names: [&str; N]) -> Vec<FieldRef> {
    names
        .map(|name| Arc::new(Field::new(format_state_name(aggregate, name), DataType::Float64, false)) as FieldRef)
        .into()
}

fn columns<const N: usize, F: StoredFold<N>>(folds: &[F]) -> Vec<ArrayRef> {
    let column = |place: usize| folds.iter().map(|fold| fold.store()[place]).collect::<Float64Array>();
    (0..N).map(|place| Arc::new(column(place)) as ArrayRef).collect()
}

fn folds<const N: usize, F: StoredFold<N>>(columns: &[ArrayRef]) -> Result<impl Iterator<Item = F>> {
    let Ok(columns) = <&[ArrayRef; N]>::try_from(columns) else { return exec_err!("this state has {N} columns") };
    let columns = columns.each_ref().map(|column| column.as_primitive::<Float64Type>().values());
    Ok((0..columns.first().map_or(0, |column| column.len())).map(move |row| F::load(columns.map(|column| column[row]))))
}

/// All rows.
#[derive(Debug)]
pub(super) struct RowsFold<const N: usize, R: FoldRule> {
    rule: R,
    fold: R::Fold,
}

impl<const N: usize, R: FoldRule> RowsFold<N, R> {
    pub(super) fn new(rule: R) -> Self {
        Self { rule, fold: R::Fold::default() }
    }
}

impl<const N: usize, R: FoldRule<Fold: StoredFold<N>>> Accumulator for RowsFold<N, R> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rule.fold_each(values, |fold| self.fold.join(&fold))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.rule.answer(&self.fold)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.fold.store().map(ScalarValue::from).into())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        folds(states)?.for_each(|fold| self.fold.join(&fold));
        Ok(())
    }
}

/// All groups at once.
#[derive(Debug)]
pub(super) struct GroupsFold<const N: usize, R: FoldRule> {
    rule: R,
    folds: Vec<R::Fold>,
}

impl<const N: usize, R: FoldRule> GroupsFold<N, R> {
    pub(super) fn new(rule: R) -> Self {
        Self { rule, folds: Vec::new() }
    }
}

impl<const N: usize, R: FoldRule<Fold: StoredFold<N>>> GroupsAccumulator for GroupsFold<N, R> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.folds.resize(total_num_groups, R::Fold::default());
        let mut row = 0;
        self.rule.fold_each(values, |fold| {
            if opt_filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) {
                self.folds[group_indices[row]].join(&fold);
            }
            row += 1;
        })
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let folds = emit_to.take_needed(&mut self.folds);
        Ok(Arc::new(folds.iter().map(|fold| self.rule.answer(fold)).collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(columns(&emit_to.take_needed(&mut self.folds)))
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.folds.resize(total_num_groups, R::Fold::default());
        for (group, fold) in group_indices.iter().zip(folds(values)?) {
            self.folds[*group].join(&fold);
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut folds = Vec::with_capacity(values.first().map_or(0, |column| column.len()));
        self.rule.fold_each(values, |fold| {
            let counts = opt_filter.is_none_or(|filter| filter.is_valid(folds.len()) && filter.value(folds.len()));
            folds.push(if counts { fold } else { R::Fold::default() });
        })?;
        Ok(columns(&folds))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.folds.capacity() * size_of::<R::Fold>()
    }
}
