//! Tick plans of several inputs: joins with the filters above them, joins to a list of values or a small table, unions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, JoinType, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::logical_plan::{Filter, Join, Union};
use datafusion::logical_expr::utils::{
    check_all_columns_from_schema, conjunction, split_conjunction, split_conjunction_owned,
};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use splay_engine::{BinaryOp, Expr as TickExpr, LookupTable, Plan, ValueList};

use super::asof::as_text;
use super::convert::{Unknown, unknown};
use super::recognise::{Recogniser, Side, Stage, reads_symbol_alone, types};
use crate::joins::asof_parts;

/// Most rows of a list of values.
const LIST_ROWS_MAX: usize = 10_000;

/// Most rows of the side of a join that is read first.
pub(super) const SIDE_ROWS_MAX: usize = 1 << 20;

fn said(error: DataFusionError) -> Unknown {
    Unknown(error.to_string())
}

impl Recogniser<'_> {
    /// A filter over a join. What it says of the left alone is asked of the left's rows.
    pub(super) fn filtered_join(&mut self, predicate: &Expr, join: &Join) -> Result<Stage, Unknown> {
        let (mut of_left, mut kept) = (Vec::new(), Vec::new());
        for condition in split_conjunction_owned(predicate.clone()) {
            let columns = condition.column_refs();
            let is_left =
                !columns.is_empty() && check_all_columns_from_schema(&columns, join.left.schema()).map_err(said)?;
            if is_left { of_left.push(condition) } else { kept.push(condition) }
        }
        let left = match conjunction(of_left) {
            Some(filter) => {
                Arc::new(LogicalPlan::Filter(Filter::try_new(filter, Arc::clone(&join.left)).map_err(said)?))
            }
            None => Arc::clone(&join.left),
        };
        if join.on.is_empty() && join.filter.is_none() {
            // An equality of both sides: pairs that it doesn't hold for needn't be made.
            for condition in &kept {
                let columns = condition.column_refs();
                if !check_all_columns_from_schema(&columns, join.right.schema()).map_err(said)? {
                    return unknown("a condition on both sides of a cross join");
                }
            }
        }
        let stage = self.join(join, &left)?;
        let Some(kept) = conjunction(kept) else { return Ok(stage) };
        Ok(match stage {
            Stage::Frame(input) => Stage::Frame(filtered(input, self.convert(&kept, &join.schema)?)),
            Stage::Table { mut scan, columns } => {
                for condition in split_conjunction(&kept) {
                    let condition = self.convert(condition, &join.schema)?.substitute(&columns);
                    self.require(&mut scan, condition);
                }
                Stage::Table { scan, columns }
            }
        })
    }

    /// A join, over a left side that may be narrower than its own.
    pub(super) fn join(&mut self, join: &Join, left: &LogicalPlan) -> Result<Stage, Unknown> {
        match asof_parts(join).map_err(said)? {
            Some(parts) => self.asof(join, &parts, left),
            None => self.lookup(join, left),
        }
    }

    /// A join to a list of values, or to a small table or grouping, each of whose keys is there once.
    fn lookup(&mut self, join: &Join, left: &LogicalPlan) -> Result<Stage, Unknown> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return unknown(format!("a {} join", join.join_type));
        }
        let listed = listed(&join.right)?;
        if join.on.is_empty() && join.filter.is_none() && join.join_type == JoinType::Inner {
            let Some(columns) = listed else { return unknown("a cross join to more than a list of values") };
            if columns.first().is_none_or(|column| column.is_empty()) {
                return unknown("a join to a list of no values");
            }
            let input = Box::new(self.stage(left)?.into_plan(left.schema()));
            return Ok(Stage::Frame(Plan::Cross { input, columns }));
        }
        let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
        let Some(pairs) = equalities(join)? else {
            return unknown("a join by more than equalities");
        };
        let mut left_keys = Vec::with_capacity(pairs.len());
        let mut right_keys = Vec::with_capacity(pairs.len());
        for (left_key, right_key) in &pairs {
            let (left_key, right_key) = (as_text(left_key, left_schema), as_text(right_key, right_schema));
            let key_type = |expr: &Expr, schema: &DFSchema| expr.get_type(schema).map_err(said);
            let (left_type, right_type) = (key_type(left_key, left_schema)?, key_type(right_key, right_schema)?);
            if !LookupTable::takes(&left_type, &right_type) {
                return unknown(format!("a join by a {left_type}"));
            }
            let Expr::Column(right_key) = right_key else {
                return unknown("a join by something computed of the right");
            };
            left_keys.push(left_key);
            right_keys.push(right_schema.index_of_column(right_key).map_err(said)?);
        }
        let columns: Vec<usize> = match listed {
            Some(columns) => {
                let keys: Vec<ArrayRef> = right_keys.iter().map(|key| Arc::clone(&columns[*key])).collect();
                if !LookupTable::are_unique(&keys) {
                    return unknown("a join to a list with equal keys");
                }
                columns.into_iter().map(|column| self.constants.column(column)).collect()
            }
            None => self.side(&join.right, &right_keys)?,
        };
        let of_keys: Vec<usize> = right_keys.iter().map(|key| columns[*key]).collect();
        let keys = left_keys.iter().map(|key| self.convert(key, left_schema)).collect::<Result<Vec<_>, _>>()?;
        let stage = self.stage(left)?;
        let looked_up = LookedUp { of_keys, columns, is_inner: join.join_type == JoinType::Inner };
        match keys.as_slice() {
            [key] => Ok(self.by_key(stage, looked_up, key)),
            _ => self.by_several(stage, looked_up, keys, left_schema),
        }
    }

    /// The rows of the left and what they find by one key.
    fn by_key(&mut self, stage: Stage, looked_up: LookedUp, key: &TickExpr) -> Stage {
        let LookedUp { of_keys, columns: found, is_inner } = looked_up;
        let width = found.len();
        let table = Arc::new(LookupTable::new(of_keys, found));
        // Columns that nobody asks for aren't looked up.
        self.lookups.push(Arc::clone(&table));
        let looked_up = |key: &TickExpr, column| TickExpr::Lookup(Arc::clone(&table), column, Box::new(key.clone()));
        match stage {
            Stage::Table { mut scan, mut columns } => {
                let key = key.substitute(&columns);
                columns.extend((0..width).map(|column| looked_up(&key, Some(column))));
                if is_inner {
                    self.require(&mut scan, looked_up(&key, None));
                }
                Stage::Table { scan, columns }
            }
            Stage::Frame(mut input) => {
                let left_columns = input.width();
                if is_inner {
                    input = filtered(input, looked_up(key, None));
                }
                let left_columns = (0..left_columns).map(TickExpr::Column);
                let outputs = left_columns.chain((0..width).map(|column| looked_up(key, Some(column)))).collect();
                Stage::Frame(Plan::Project { input: Box::new(input), outputs })
            }
        }
    }

    /// The same by several keys: the number of the row that they find is a column of its own, so that each column of the right takes it from there.
    fn by_several(
        &mut self,
        mut stage: Stage,
        looked_up: LookedUp,
        keys: Vec<TickExpr>,
        left_schema: &DFSchema,
    ) -> Result<Stage, Unknown> {
        let LookedUp { of_keys, columns: found, is_inner } = looked_up;
        if let (Stage::Table { scan, columns }, true) = (&mut stage, is_inner) {
            let spec = self.spec(scan);
            // Symbols that the right doesn't have aren't read.
            for (key, of_key) in keys.iter().zip(&of_keys) {
                let key = key.substitute(columns);
                if reads_symbol_alone(&key, &spec) {
                    self.require(scan, TickExpr::In(Box::new(key), Arc::new(ValueList::new(*of_key))));
                }
            }
        }
        let (width, number) = (found.len(), TickExpr::Column(left_schema.fields().len()));
        let input = Box::new(stage.into_plan(left_schema));
        let left_columns = || (0..left_schema.fields().len()).map(TickExpr::Column);
        let finding = Arc::new(LookupTable::new(of_keys, Vec::new()));
        self.lookups.push(Arc::clone(&finding));
        let find = TickExpr::Find(finding, keys);
        let mut input = Plan::Project { input, outputs: left_columns().chain([find]).collect() };
        if is_inner {
            let predicate = TickExpr::IsNotNull(Box::new(number.clone()));
            input = Plan::Filter { input: Box::new(input), predicate };
        }
        let table = Arc::new(LookupTable::by_number(found));
        let column = |column| TickExpr::Lookup(Arc::clone(&table), Some(column), Box::new(number.clone()));
        let outputs = left_columns().chain((0..width).map(column)).collect();
        Ok(Stage::Frame(Plan::Project { input: Box::new(input), outputs }))
    }

    /// The constants that hold the columns of the right side of a join, which each run reads before all else.
    fn side(&mut self, right: &LogicalPlan, keys: &[usize]) -> Result<Vec<usize>, Unknown> {
        let stage = self.stage(right)?;
        match &stage {
            Stage::Table { scan, .. } if self.snapshot(scan).rows() > SIDE_ROWS_MAX as u64 => {
                return unknown("a join with rows of a large table, and not by time");
            }
            Stage::Frame(plan) if !groups_by(plan, keys) => {
                return unknown("a join that isn't by time, to a list, to a small table, or to groups by its keys");
            }
            _ => {}
        }
        let fields = right.schema().fields();
        let is_needed = |column: &usize| keys.contains(column) || self.names.contains(fields[*column].name());
        let needed: Vec<usize> = (0..fields.len()).filter(is_needed).collect();
        let outputs = needed.iter().map(|column| TickExpr::Column(*column)).collect();
        let schema = right.schema().as_arrow().project(&needed).map_err(|error| Unknown(error.to_string()))?;
        let plan = Plan::Project { input: Box::new(stage.into_plan(right.schema())), outputs };
        self.sides.push(Side { plan, schema: Arc::new(schema) });
        let side = self.sides.len() - 1;
        // In the place of a column that nobody names stands a key.
        let place = |column| needed.iter().position(|one| *one == column);
        let key = keys.first().and_then(|key| place(*key)).unwrap_or(0);
        Ok((0..fields.len()).map(|column| self.constants.side(side, place(column).unwrap_or(key))).collect())
    }

    pub(super) fn union(&mut self, union: &Union) -> Result<Stage, Unknown> {
        let wanted = types(&union.schema);
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            if types(input.schema()) != wanted {
                return unknown("a union of different types");
            }
            inputs.push(self.stage(input)?.into_plan(input.schema()));
        }
        Ok(Stage::Frame(Plan::Union { inputs }))
    }
}

/// What rows are looked up in.
struct LookedUp {
    /// Numbers of the constants that hold the columns of the key.
    of_keys: Vec<usize>,
    /// Those of all columns.
    columns: Vec<usize>,
    /// Whether rows that find nothing are left out.
    is_inner: bool,
}

/// Whether rows are those of groups by some of these columns alone, so that their values together are there once.
pub(super) fn groups_by(plan: &Plan, columns: &[usize]) -> bool {
    match plan {
        Plan::AggregateTable { keys, .. } => (0..keys.len()).all(|key| columns.contains(&key)),
        Plan::Aggregate { keys, .. } => (0..keys.len()).all(|key| columns.contains(&key)),
        Plan::Project { input, outputs } => {
            let below = |column: &usize| match outputs.get(*column) {
                Some(TickExpr::Column(of)) => Some(*of),
                _ => None,
            };
            groups_by(input, &columns.iter().filter_map(below).collect::<Vec<_>>())
        }
        Plan::Filter { input, .. } | Plan::Sort { input, .. } | Plan::Limit { input, .. } => groups_by(input, columns),
        _ => false,
    }
}

/// A filter over rows in memory, as near to where they come from as it may be.
pub(super) fn filtered(input: Plan, predicate: TickExpr) -> Plan {
    match input {
        Plan::Union { inputs } => {
            Plan::Union { inputs: inputs.into_iter().map(|input| filtered(input, predicate.clone())).collect() }
        }
        Plan::Project { input, outputs } if reads_plain(&predicate, &outputs) => {
            let predicate = predicate.substitute(&outputs);
            Plan::Project { input: Box::new(filtered(*input, predicate)), outputs }
        }
        Plan::Window { input, mut calls } => {
            if let ([call], Some((column, op, constant))) = (calls.as_mut_slice(), compared(&predicate))
                && column == input.width()
                && call.numbers_rows()
            {
                call.first = Some((op, constant));
            }
            Plan::Filter { input: Box::new(Plan::Window { input, calls }), predicate }
        }
        input => Plan::Filter { input: Box::new(input), predicate },
    }
}

/// Whether all that a condition reads are columns that are passed on as they are.
fn reads_plain(predicate: &TickExpr, outputs: &[TickExpr]) -> bool {
    let mut plain = true;
    predicate.visit_columns(&mut |column| plain &= matches!(outputs[column], TickExpr::Column(_)));
    plain
}

/// The column that a condition compares with a constant, maybe as another number, and how.
fn compared(predicate: &TickExpr) -> Option<(usize, BinaryOp, usize)> {
    let TickExpr::Binary(op, left, right) = predicate else { return None };
    let left = match left.as_ref() {
        TickExpr::Cast(inner, DataType::Decimal128(_, 0)) => inner,
        TickExpr::Cast(inner, data_type) if data_type.is_integer() => inner,
        other => other,
    };
    match (left, right.as_ref()) {
        (TickExpr::Column(column), TickExpr::Constant(constant)) => Some((*column, *op, *constant)),
        _ => None,
    }
}

/// The equalities that are all of a join's condition, each as what it says of the left and of the right.
fn equalities(join: &Join) -> Result<Option<Vec<(Expr, Expr)>>, Unknown> {
    let mut pairs = join.on.clone();
    for condition in join.filter.iter().flat_map(split_conjunction) {
        let Expr::BinaryExpr(binary) = condition else { return Ok(None) };
        if binary.op != Operator::Eq {
            return Ok(None);
        }
        let is_of = |expr: &Expr, schema: &DFSchema| {
            let columns = expr.column_refs();
            Ok(!columns.is_empty() && check_all_columns_from_schema(&columns, schema).map_err(said)?)
        };
        let (left, right) = (binary.left.as_ref().clone(), binary.right.as_ref().clone());
        if is_of(&left, join.left.schema())? && is_of(&right, join.right.schema())? {
            pairs.push((left, right));
        } else if is_of(&right, join.left.schema())? && is_of(&left, join.right.schema())? {
            pairs.push((right, left));
        } else {
            return Ok(None);
        }
    }
    Ok((!pairs.is_empty()).then_some(pairs))
}

/// The value of a literal, cast to what a list makes of it; `None` for one that was lifted, which would be another one in the
/// next run, and for other expressions.
fn constant(expr: &Expr) -> Result<Option<ScalarValue>, Unknown> {
    match expr {
        Expr::Literal(value, None) => Ok(Some(value.clone())),
        Expr::Cast(cast) => {
            let value = constant(&cast.expr)?;
            value.map(|value| value.cast_to(cast.field.data_type()).map_err(said)).transpose()
        }
        _ => Ok(None),
    }
}

/// The columns of a list of values; `None` for anything else.
fn listed(plan: &LogicalPlan) -> Result<Option<Vec<ArrayRef>>, Unknown> {
    Ok(match plan {
        LogicalPlan::SubqueryAlias(alias) => listed(&alias.input)?,
        LogicalPlan::Projection(projection) => {
            let Some(columns) = listed(&projection.input)? else { return Ok(None) };
            let mut chosen: Vec<ArrayRef> = Vec::with_capacity(projection.expr.len());
            for expr in &projection.expr {
                let Expr::Column(column) = expr.clone().unalias() else { return Ok(None) };
                let position = projection.input.schema().index_of_column(&column).map_err(said)?;
                chosen.push(Arc::clone(&columns[position]));
            }
            Some(chosen)
        }
        LogicalPlan::Values(values) if values.values.len() <= LIST_ROWS_MAX => {
            let mut columns = Vec::with_capacity(values.schema.fields().len());
            for (position, field) in values.schema.fields().iter().enumerate() {
                let mut column = Vec::with_capacity(values.values.len());
                for row in &values.values {
                    let Some(value) = constant(&row[position])? else { return Ok(None) };
                    column.push(value.cast_to(field.data_type()).map_err(said)?);
                }
                let array = ScalarValue::iter_to_array(column).map_err(said)?;
                if array.data_type() != field.data_type() {
                    return Ok(None);
                }
                columns.push(array);
            }
            Some(columns)
        }
        _ => None,
    })
}
