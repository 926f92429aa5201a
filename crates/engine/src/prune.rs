//! Removes unused columns, aggregates and window functions from a plan.

use std::collections::BTreeSet;

use arrow::datatypes::DataType;

use crate::aggregate::Aggregate;
use crate::expr::Expr;
use crate::frame::SortKey;
use crate::join::AsofJoin;
use crate::plan::Plan;

impl Plan {
    /// Replaces unused columns by nulls; `null` is the number of a null constant. All columns of the plan's own answer are used.
    pub fn prune(&mut self, null: usize) {
        let all = (0..self.width()).collect();
        self.keep(&all, null);
    }

    /// Columns of the step's output.
    #[must_use]
    pub fn width(&self) -> usize {
        match self {
            Plan::Rows { outputs, .. } | Plan::Project { outputs, .. } => outputs.len(),
            Plan::Files(scan) => scan.columns.len(),
            Plan::Values { columns, .. } => columns.len(),
            Plan::AggregateTable { keys, aggregates, .. } => keys.len() + columns_in(aggregates),
            Plan::Aggregate { keys, aggregates, .. } => keys.len() + columns_in(aggregates),
            Plan::Window { input, calls } => input.width() + calls.len(),
            Plan::Cross { input, columns } => input.width() + columns.len(),
            Plan::Asof { input, asof } => input.width() + asof.outputs.len(),
            Plan::WindowJoin { input, join } => input.width() + join.aggregates.len(),
            Plan::Join { input, join } => input.width() + join.columns.len(),
            Plan::Union { inputs } => inputs.first().map_or(0, Plan::width),
            Plan::Unnest { input, .. }
            | Plan::Filter { input, .. }
            | Plan::Sort { input, .. }
            | Plan::Limit { input, .. } => input.width(),
        }
    }

    /// Replaces the plan's output columns.
    fn project(&mut self, outputs: Vec<Expr>) {
        *self = Plan::Project { input: Box::new(take_plan(self)), outputs };
    }

    fn keep(&mut self, used: &BTreeSet<usize>, null: usize) {
        match self {
            // Nothing is read for them.
            Plan::Values { .. } => {}
            Plan::Files(scan) => {
                for (position, (column, data_type)) in scan.columns.iter_mut().zip(&mut scan.types).enumerate() {
                    if !used.contains(&position) {
                        (*column, *data_type) = (None, DataType::Null);
                    }
                }
            }
            Plan::AggregateTable { keys, aggregates, .. } => {
                if let Some(outputs) = without_unused(keys.len(), aggregates, used, null) {
                    self.project(outputs);
                }
            }
            Plan::Rows { outputs, types, .. } => {
                for (position, (output, data_type)) in outputs.iter_mut().zip(types).enumerate() {
                    if !used.contains(&position) {
                        (*output, *data_type) = (Expr::Constant(null), DataType::Null);
                    }
                }
            }
            Plan::Project { input, outputs } => {
                for (position, output) in outputs.iter_mut().enumerate() {
                    if !used.contains(&position) {
                        *output = Expr::Constant(null);
                    }
                }
                input.keep(&columns_of(outputs.iter()), null);
            }
            Plan::Aggregate { input, keys, aggregates, .. } => {
                let outputs = without_unused(keys.len(), aggregates, used, null);
                let arguments = aggregates.iter().flat_map(|one| one.arguments.iter().chain(&one.filter));
                input.keep(&columns_of(keys.iter().chain(arguments)), null);
                if let Some(outputs) = outputs {
                    self.project(outputs);
                }
            }
            Plan::Window { input, calls } => {
                let width = input.width();
                let is_used = |call: usize| used.contains(&(width + call));
                if !(0..calls.len()).all(is_used) {
                    let mut outputs: Vec<Expr> = (0..width).map(Expr::Column).collect();
                    outputs.extend(places(width, (0..calls.len()).map(is_used), null));
                    let mut places = 0..;
                    calls.retain(|_| places.next().is_some_and(is_used));
                    if calls.is_empty() {
                        *self = take_plan(input);
                    }
                    self.project(outputs);
                    return self.keep(used, null);
                }
                let mut below: BTreeSet<usize> = used.iter().copied().filter(|position| *position < width).collect();
                for call in calls {
                    below.extend(columns_of(call.arguments.iter().chain(&call.partition_by)));
                    below.extend(columns_of(exprs(&call.order_by)));
                }
                input.keep(&below, null);
            }
            Plan::Cross { input, .. } => {
                let width = input.width();
                let below = used.iter().copied().filter(|position| *position < width).collect();
                input.keep(&below, null);
            }
            Plan::Asof { input, asof } => {
                let width = input.width();
                let mut below: BTreeSet<usize> = used.iter().copied().filter(|position| *position < width).collect();
                let keys = asof.keys.iter().map(|(key, _)| key);
                below.extend(columns_of(std::iter::once(&asof.time).chain(&asof.symbol).chain(keys)));
                let AsofJoin { outputs, types, .. } = &mut **asof;
                for (position, (output, data_type)) in outputs.iter_mut().zip(types).enumerate() {
                    if !used.contains(&(width + position)) {
                        (*output, *data_type) = (Expr::Constant(null), DataType::Null);
                    }
                }
                input.keep(&below, null);
            }
            Plan::WindowJoin { input, join } => {
                let width = input.width();
                let mut below: BTreeSet<usize> = used.iter().copied().filter(|position| *position < width).collect();
                let keys = join.keys.iter().map(|(key, _)| key);
                below.extend(columns_of([&join.begin.0, &join.end.0].into_iter().chain(&join.symbol).chain(keys)));
                input.keep(&below, null);
            }
            Plan::Join { input, join } => {
                let width = input.width();
                let mut below: BTreeSet<usize> = used.iter().copied().filter(|position| *position < width).collect();
                let read = columns_of(join.condition.iter());
                below.extend(columns_of(join.keys.iter()));
                below.extend(read.iter().filter(|position| **position < width));
                for (position, column) in join.columns.iter_mut().enumerate() {
                    let place = width + position;
                    *column = column.filter(|_| used.contains(&place) || read.contains(&place));
                }
                input.keep(&below, null);
            }
            Plan::Unnest { input, columns } => {
                // Each list determines how often its row is repeated.
                let below = used.iter().chain(columns.iter()).copied().collect();
                input.keep(&below, null);
            }
            Plan::Filter { input, predicate } => {
                let below = used | &columns_of(std::iter::once(&*predicate));
                input.keep(&below, null);
            }
            Plan::Sort { input, keys, .. } => {
                let below = used | &columns_of(exprs(keys));
                input.keep(&below, null);
            }
            Plan::Limit { input, .. } => input.keep(used, null),
            Plan::Union { inputs } => inputs.iter_mut().for_each(|input| input.keep(used, null)),
        }
    }
}

/// Removes unused aggregates, but keeps the last one if there are no keys. Returns the columns as expressions over the remaining ones, if any
/// were removed.
fn without_unused(
    keys: usize,
    aggregates: &mut Vec<Aggregate>,
    used: &BTreeSet<usize>,
    null: usize,
) -> Option<Vec<Expr>> {
    let mut firsts = Vec::with_capacity(aggregates.len());
    let mut next = keys;
    for aggregate in aggregates.iter() {
        firsts.push(next..next + aggregate.width());
        next += aggregate.width();
    }
    let mut is_used: Vec<bool> = firsts.iter().map(|own| used.range(own.clone()).next().is_some()).collect();
    if keys == 0
        && !is_used.contains(&true)
        && let Some(last) = is_used.last_mut()
    {
        // A frame without columns would lose the row itself.
        *last = true;
    }
    if !is_used.contains(&false) {
        return None;
    }
    let columns = firsts.into_iter().zip(&is_used).flat_map(|(own, is_used)| own.map(|_| *is_used));
    let outputs = (0..keys).map(Expr::Column).chain(places(keys, columns, null)).collect();
    let mut is_used = is_used.into_iter();
    aggregates.retain(|_| is_used.next().unwrap_or(true));
    Some(outputs)
}

/// The new positions of columns from `first` on; columns that were removed are null.
fn places(first: usize, is_used: impl Iterator<Item = bool>, null: usize) -> Vec<Expr> {
    let mut next = first;
    let mut columns = Vec::new();
    for is_used in is_used {
        columns.push(if is_used { Expr::Column(next) } else { Expr::Constant(null) });
        next += usize::from(is_used);
    }
    columns
}

/// Takes a plan, and leaves an empty one in its place.
fn take_plan(plan: &mut Plan) -> Plan {
    std::mem::replace(plan, Plan::Union { inputs: Vec::new() })
}

fn columns_in(aggregates: &[Aggregate]) -> usize {
    aggregates.iter().map(Aggregate::width).sum()
}

fn exprs(keys: &[SortKey]) -> impl Iterator<Item = &Expr> {
    keys.iter().map(|key| &key.expr)
}

fn columns_of<'a>(exprs: impl Iterator<Item = &'a Expr>) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    exprs.for_each(|expr| expr.visit_columns(&mut |position| _ = columns.insert(position)));
    columns
}
