//! Tick plans of several inputs: joins with the filters above them, joins to a list of values or a small table,
//! unions.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::logical_plan::builder::build_join_schema;
use datafusion::logical_expr::logical_plan::{Filter, Join, Projection, Subquery, Union};
use datafusion::logical_expr::utils::{
    check_all_columns_from_schema, conjunction, disjunction, split_binary, split_conjunction, split_conjunction_owned,
};
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, Operator};
use splay_engine::{BinaryOp, Expr as TickExpr, Key, KeyJoin, LookupTable, Plan, ValueList};

use super::asof::as_text;
use super::convert::{UnsupportedExpr, unknown};
use super::join_order::in_better_order;
use super::keys_of_rows::{asks_for_each_row, with_groups_of_keys, with_narrowed_queries};
use super::narrow::distinguishes_equal_floats;
use super::outer_joins::{with_inner_joins, with_narrowed_right, with_sides_swapped};
use super::recognise::{LookupSource, Recogniser, Stage, reads_symbol_alone, types};
use super::sizes::Size;
use crate::joins::asof_parts;
use crate::null_safe_keys::null_safe_pairs;

/// Most rows of a list of values.
const LIST_ROWS_MAX: usize = 10_000;

pub(super) fn unsupported(error: DataFusionError) -> UnsupportedExpr {
    UnsupportedExpr(error.to_string())
}

impl Recogniser<'_> {
    /// A filter over a join. Conditions that read only the left side filter its rows before the join.
    pub(super) fn filtered_join(&mut self, predicate: &Expr, join: &Join) -> Result<Stage, UnsupportedExpr> {
        let inner = with_inner_joins(join, &split_conjunction_owned(predicate.clone()))?;
        let join = inner.as_ref().unwrap_or(join);
        if join.join_type == JoinType::Right {
            return self.stage(&with_sides_swapped(join, Some(predicate))?);
        }
        if let Some(plan) = in_better_order(join, Some(predicate))? {
            return self.stage(&plan);
        }
        if is_plain(join, JoinType::Inner)? || is_cross(join)? {
            if let Some(stage) = self.asked_of_few(join, predicate)? {
                return Ok(stage);
            }
            let (mut join, remaining) = narrowed_sides(join, Some(predicate))?;
            // Pairs that fail the rest of the condition needn't be built.
            let (of_pairs, remaining): (Vec<_>, Vec<_>) = remaining.into_iter().partition(is_of_pairs);
            join.filter = conjunction(join.filter.into_iter().chain(of_pairs));
            let stage = self.lookup(&join, &join.left)?;
            return self.kept_of_join(stage, remaining, &join);
        }
        let (mut of_left, mut remaining) = (Vec::new(), Vec::new());
        for condition in split_conjunction_owned(predicate.clone()) {
            // A full join has rows with nulls on the left side.
            let is_left = join.join_type != JoinType::Full && is_of(&condition, join.left.schema())?;
            if is_left { of_left.push(condition) } else { remaining.push(condition) }
        }
        if join.null_equality == NullEquality::NullEqualsNull {
            return self.filtered_set_operation(of_left, remaining, join);
        }
        let narrowed;
        let join = match is_plain(join, JoinType::Left)? {
            // Right rows without such a key match no row that is kept.
            true => {
                let keys = same_keys(join)?;
                let of_keys = || keys.iter().map(|(left, right)| (left, right));
                let of_right = of_other_side(&of_left, join.left.schema(), &of_keys)?;
                narrowed = Join { right: with_filter(of_right, &join.right)?, ..join.clone() };
                &narrowed
            }
            false => join,
        };
        let left = with_filter(of_left, &join.left)?;
        let stage = self.join(join, &left)?;
        self.kept_of_join(stage, remaining, join)
    }

    /// The rows of an inner join that pass conditions, some of which ask queries for each row: if these rows are expected to be few, they are read first, and
    /// the queries are narrowed to their keys.
    fn asked_of_few(&mut self, join: &Join, predicate: &Expr) -> Result<Option<Stage>, UnsupportedExpr> {
        if !asks_for_each_row(predicate)? {
            return Ok(None);
        }
        let (mut asking, mut others) = (Vec::new(), Vec::new());
        for condition in split_conjunction_owned(predicate.clone()) {
            if asks_for_each_row(&condition)? { asking.push(condition) } else { others.push(condition) }
        }
        let (Some(asking), Some(others)) = (conjunction(asking), conjunction(others)) else { return Ok(None) };
        let (join, remaining) = narrowed_sides(join, Some(&others))?;
        let rows = with_filter(remaining, &Arc::new(LogicalPlan::Join(join)))?;
        let Some(narrowed) = with_narrowed_queries(&asking, &rows, true)? else { return Ok(None) };
        let stage = self.stage(&rows)?;
        let (columns, _) = self.side(stage, &rows, &[])?;
        let values = Plan::Values { columns, unique: 0 };
        self.repeated.push((rows.as_ref().clone(), Some(values.clone())));
        Ok(Some(Stage::Frame(filtered(values, self.convert(&narrowed, rows.schema())?))))
    }

    /// `INTERSECT` or `EXCEPT` of the rows that pass conditions. Those of the right that don't pass equal no row that does.
    fn filtered_set_operation(
        &mut self,
        conditions: Vec<Expr>,
        others: Vec<Expr>,
        join: &Join,
    ) -> Result<Stage, UnsupportedExpr> {
        let LogicalPlan::Distinct(Distinct::All(rows)) = join.left.as_ref() else {
            return unknown("a condition above a join by IS NOT DISTINCT FROM");
        };
        let keys = || join.on.iter().map(|(left, right)| (left, right));
        let of_right = of_other_side(&conditions, join.left.schema(), &keys)?;
        let left = Arc::new(LogicalPlan::Distinct(Distinct::All(with_filter(conditions, rows)?)));
        let join = Join { left, right: with_filter(of_right, &join.right)?, ..join.clone() };
        let stage = self.join(&join, &join.left)?;
        self.kept_of_join(stage, others, &join)
    }

    /// The rows of a join that pass conditions over columns of both sides.
    fn kept_of_join(&mut self, stage: Stage, conditions: Vec<Expr>, join: &Join) -> Result<Stage, UnsupportedExpr> {
        let Some(mut conditions) = conjunction(conditions) else { return Ok(stage) };
        if asks_for_each_row(&conditions)?
            && let Some(narrowed) = with_narrowed_queries(&conditions, &LogicalPlan::Join(join.clone()), false)?
        {
            conditions = narrowed;
        }
        Ok(match stage {
            Stage::Frame(input) => Stage::Frame(filtered(input, self.convert(&conditions, &join.schema)?)),
            Stage::Table { mut scan, columns } => {
                for condition in split_conjunction(&conditions) {
                    let condition = self.convert(condition, &join.schema)?.substitute(&columns);
                    self.require(&mut scan, condition);
                }
                Stage::Table { scan, columns }
            }
        })
    }

    /// A join. The left side may have fewer columns than that of the plan.
    pub(super) fn join(&mut self, join: &Join, left: &LogicalPlan) -> Result<Stage, UnsupportedExpr> {
        if std::ptr::eq(left, join.left.as_ref())
            && let Some(plan) = in_better_order(join, None)?
        {
            return self.stage(&plan);
        }
        match asof_parts(join).map_err(unsupported)? {
            Some(parts) => self.asof(join, &parts, left),
            None if is_plain(join, JoinType::Inner)? => {
                let (join, _) = narrowed_sides(join, None)?;
                self.lookup(&join, &join.left)
            }
            None => match join.join_type {
                JoinType::Left => self.lookup(&with_narrowed_right(join)?, left),
                JoinType::Right => self.stage(&with_sides_swapped(join, None)?),
                JoinType::Full => self.full(join),
                JoinType::LeftSemi | JoinType::LeftAnti => self.with_or_without(join, left),
                _ => self.lookup(join, left),
            },
        }
    }

    /// A join by equal keys, with a list of values or with a side that is read first.
    pub(super) fn lookup(&mut self, join: &Join, left: &LogicalPlan) -> Result<Stage, UnsupportedExpr> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return unknown(format!("a {} join", join.join_type));
        }
        let listed = literal_columns(&join.right)?;
        if join.on.is_empty()
            && join.filter.is_none()
            && join.join_type == JoinType::Inner
            && let Some(columns) = listed
        {
            if columns.first().is_none_or(|column| column.is_empty()) {
                return unknown("a join to an empty list of VALUES");
            }
            let input = Box::new(self.stage(left)?.into_plan(left.schema()));
            return Ok(Stage::Frame(Plan::Cross { input, columns }));
        }
        let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
        let (pairs, rest) = equalities(join)?;
        let is_inner = join.join_type == JoinType::Inner;
        if pairs.is_empty() {
            for condition in &rest {
                // DataFusion has a key for it.
                if let Some((Operator::IsNotDistinctFrom, _, _)) = of_both_sides(condition, join)? {
                    return unknown(format!("a join by {condition}"));
                }
            }
            return self.with_every_row(join, left, listed, rest);
        }
        let narrowed = match is_inner {
            true => {
                let swapped: Vec<(Expr, Expr)> =
                    pairs.iter().map(|(one, other)| (other.clone(), one.clone())).collect();
                with_groups_of_keys(&join.right, left, &swapped)?
            }
            false => None,
        };
        let left = narrowed.as_ref().unwrap_or(left);
        if pairs.iter().any(|(_, key)| !matches!(as_text(key, right_schema), Expr::Column(_))) {
            return self.by_computed_keys(join, left, &pairs, rest);
        }
        let rest = conjunction(rest).map(|rest| self.convert(&rest, &join.schema)).transpose()?;
        let mut left_keys = Vec::with_capacity(pairs.len());
        let mut right_keys = Vec::with_capacity(pairs.len());
        for (left_key, right_key) in &pairs {
            let (left_key, right_key) = (as_text(left_key, left_schema), as_text(right_key, right_schema));
            let key_type = |expr: &Expr, schema: &DFSchema| expr.get_type(schema).map_err(unsupported);
            let (left_type, right_type) = (key_type(left_key, left_schema)?, key_type(right_key, right_schema)?);
            if !LookupTable::takes(&left_type, &right_type) || !ValueList::takes(&right_type) {
                return unknown(format!("a join by a key of type {left_type}"));
            }
            let Expr::Column(right_key) = right_key else {
                return unknown("a join by a key that is computed from the right side");
            };
            left_keys.push(left_key);
            right_keys.push(right_schema.index_of_column(right_key).map_err(unsupported)?);
        }
        if listed.is_none()
            && (is_inner || rest.is_none())
            && let Some(stage) = self.by_time(join, left, &pairs, rest.as_ref())?
        {
            return Ok(stage);
        }
        let mut repeats = self.keys_repeat;
        let (of_left, of_right) = (Size::of(left), Size::of(&join.right));
        let (columns, is_unique) = match listed {
            Some(columns) => {
                let keys: Vec<ArrayRef> = right_keys.iter().map(|key| Arc::clone(&columns[*key])).collect();
                let is_unique = LookupTable::are_unique(&keys);
                repeats |= !is_unique;
                (columns.into_iter().map(|column| self.constants.column(column)).collect(), is_unique)
            }
            None if !is_inner && of_right.is_large() && !of_left.is_large() => {
                (self.narrowed_side(join, left, (&left_keys, &right_keys))?, false)
            }
            None => {
                let narrowed = with_groups_of_keys(left, &join.right, &pairs)?;
                let right = narrowed.as_ref().unwrap_or(&join.right);
                let stage = self.stage(right)?;
                self.side(stage, right, &right_keys)?
            }
        };
        let keys = left_keys.iter().map(|key| self.convert(key, left_schema)).collect::<Result<Vec<_>, _>>()?;
        let stage = self.stage(left)?;
        if !is_unique && repeats || !is_inner && rest.is_some() {
            let side = KeyedSide { keys: &right_keys, columns, is_inner, condition: rest };
            return Ok(Stage::Frame(self.with_all(stage, keys, side, left_schema)));
        }
        self.assumes_unique |= !is_unique;
        let of_keys: Vec<usize> = right_keys.iter().map(|key| columns[*key]).collect();
        let looked_up = LookupSide { of_keys, columns, is_inner };
        let stage = match keys.as_slice() {
            [key] => self.by_key(stage, looked_up, key),
            _ => self.by_several(stage, looked_up, keys, left_schema)?,
        };
        Ok(match (stage, rest) {
            (stage, None) => stage,
            (Stage::Frame(input), Some(rest)) => Stage::Frame(filtered(input, rest)),
            (Stage::Table { mut scan, columns }, Some(rest)) => {
                self.require(&mut scan, rest.substitute(&columns));
                Stage::Table { scan, columns }
            }
        })
    }

    /// A look-up by keys that are computed on the right side: they become further columns of it, which aren't part of the join's output.
    fn by_computed_keys(
        &mut self,
        join: &Join,
        left: &LogicalPlan,
        pairs: &[(Expr, Expr)],
        rest: Vec<Expr>,
    ) -> Result<Stage, UnsupportedExpr> {
        let columns = join.right.schema().columns();
        let mut outputs: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
        let mut on = Vec::with_capacity(pairs.len());
        for (number, (own, key)) in pairs.iter().enumerate() {
            let key = match as_text(key, join.right.schema()) {
                column @ Expr::Column(_) => column.clone(),
                computed => {
                    let name = format!("__key_{number}");
                    outputs.push(computed.clone().alias(&name));
                    Expr::Column(Column::from_name(name))
                }
            };
            on.push((own.clone(), key));
        }
        let right = Projection::try_new(outputs, Arc::clone(&join.right)).map_err(unsupported)?;
        let right = Arc::new(LogicalPlan::Projection(right));
        let schema = build_join_schema(join.left.schema(), right.schema(), &join.join_type).map_err(unsupported)?;
        let width = join.schema.fields().len();
        let join = Join { right, on, filter: conjunction(rest), schema: Arc::new(schema), ..join.clone() };
        let joined = self.lookup(&join, left)?.into_plan(&join.schema);
        let outputs = (0..width).map(TickExpr::Column).collect();
        Ok(Stage::Frame(Plan::Project { input: Box::new(joined), outputs }))
    }

    /// The rows of a stage, joined with all rows of a side that have the same keys. The keys are over the columns of the stage.
    pub(super) fn with_all(
        &mut self,
        mut stage: Stage,
        keys: Vec<TickExpr>,
        side: KeyedSide<'_>,
        schema: &DFSchema,
    ) -> Plan {
        let of_keys: Vec<usize> = match side.keys {
            [] => side.columns.first().copied().into_iter().collect(),
            of_keys => of_keys.iter().map(|key| side.columns[*key]).collect(),
        };
        if let (Stage::Table { scan, columns }, true) = (&mut stage, side.is_inner) {
            // Symbols and blocks that the side doesn't have aren't read.
            for (key, of_key) in keys.iter().zip(&of_keys) {
                self.require(scan, among(key.substitute(columns), *of_key));
            }
        }
        let join = KeyJoin::new(keys, of_keys, side.columns, side.is_inner);
        let join = match side.condition {
            Some(condition) => join.with_condition(condition),
            None => join,
        };
        Plan::Join { input: Box::new(stage.into_plan(schema)), join: Box::new(join) }
    }

    /// The columns of a large right side, of which only the rows with keys of the left are read. The keys of the left are read first.
    fn narrowed_side(
        &mut self,
        join: &Join,
        left: &LogicalPlan,
        (left_keys, right_keys): (&[&Expr], &[usize]),
    ) -> Result<Vec<usize>, UnsupportedExpr> {
        let left_schema = join.left.schema();
        let (mut outputs, mut fields) = (Vec::with_capacity(left_keys.len()), Vec::with_capacity(left_keys.len()));
        for key in left_keys {
            outputs.push(self.convert(key, left_schema)?);
            fields.push(Field::new("key", key.get_type(left_schema).map_err(unsupported)?, true));
        }
        let input = Box::new(self.stage(left)?.into_plan(left_schema));
        let schema = Arc::new(Schema::new(fields));
        self.sides.push(LookupSource { plan: Plan::Project { input, outputs }, schema });
        let side = self.sides.len() - 1;
        let Stage::Table { mut scan, columns } = self.stage(&join.right)? else {
            return unknown("an outer join whose large side is a query, not a table");
        };
        for (number, key) in right_keys.iter().enumerate() {
            let keys = self.constants.side(side, number);
            self.require(&mut scan, among(columns[*key].clone(), keys));
        }
        Ok(self.side(Stage::Table { scan, columns }, &join.right, right_keys)?.0)
    }

    /// The left rows with the columns that one key finds.
    fn by_key(&mut self, stage: Stage, looked_up: LookupSide, key: &TickExpr) -> Stage {
        let LookupSide { of_keys, columns: value_columns, is_inner } = looked_up;
        let (width, list) = (value_columns.len(), of_keys.first().copied());
        let table = Arc::new(LookupTable::new(of_keys, value_columns));
        // Columns that the statement doesn't use aren't looked up.
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
                    if let (TickExpr::Column(column), Some(list)) = (key, list) {
                        self.narrow_rows_of_groups(&mut input, *column, list);
                    }
                    input = filtered(input, looked_up(key, None));
                }
                let left_columns = (0..left_columns).map(TickExpr::Column);
                let outputs = left_columns.chain((0..width).map(|column| looked_up(key, Some(column)))).collect();
                Stage::Frame(Plan::Project { input: Box::new(input), outputs })
            }
        }
    }

    /// Of groups of a table, if a column of the plan is one of their keys, only those whose key is in a list are needed: the others may miss rows, or
    /// all of them. Keys that are computed would be so twice, and those of the time are answered by the table's order.
    fn narrow_rows_of_groups(&self, plan: &mut Plan, column: usize, list: usize) {
        match plan {
            Plan::Project { input, outputs } => {
                if let Some(TickExpr::Column(below)) = outputs.get(column) {
                    self.narrow_rows_of_groups(input, *below, list);
                }
            }
            Plan::Filter { input, .. } => self.narrow_rows_of_groups(input, column, list),
            Plan::AggregateTable { scan, keys, key_types, .. } => {
                let spec = self.spec(scan);
                let key = match keys.get(column) {
                    Some(Key::Value(TickExpr::Column(key))) if *key != spec.time_position() => Some(*key),
                    Some(Key::Symbol) => spec.symbol.as_ref().and_then(|symbol| spec.position(symbol)),
                    _ => None,
                };
                if let Some(key) = key.filter(|_| ValueList::takes(&key_types[column])) {
                    self.require(scan, among(TickExpr::Column(key), list));
                }
            }
            _ => {}
        }
    }

    /// A look-up by several keys: it gives the number of the matching row, by which each column of the right is taken.
    fn by_several(
        &mut self,
        mut stage: Stage,
        looked_up: LookupSide,
        keys: Vec<TickExpr>,
        left_schema: &DFSchema,
    ) -> Result<Stage, UnsupportedExpr> {
        let LookupSide { of_keys, columns: value_columns, is_inner } = looked_up;
        if let (Stage::Table { scan, columns }, true) = (&mut stage, is_inner) {
            let spec = self.spec(scan);
            // Symbols that the right side doesn't have aren't read.
            for (key, of_key) in keys.iter().zip(&of_keys) {
                let key = key.substitute(columns);
                if reads_symbol_alone(&key, &spec) {
                    self.require(scan, among(key, *of_key));
                }
            }
        }
        let (width, number) = (value_columns.len(), TickExpr::Column(left_schema.fields().len()));
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
        let table = Arc::new(LookupTable::by_number(value_columns));
        let column = |column| TickExpr::Lookup(Arc::clone(&table), Some(column), Box::new(number.clone()));
        let outputs = left_columns().chain((0..width).map(column)).collect();
        Ok(Stage::Frame(Plan::Project { input: Box::new(input), outputs }))
    }

    /// The constants that hold the columns of a join's side, which each run reads before all else; and whether its keys are certainly unique.
    pub(super) fn side(
        &mut self,
        stage: Stage,
        right: &LogicalPlan,
        keys: &[usize],
    ) -> Result<(Vec<usize>, bool), UnsupportedExpr> {
        let is_unique = match &stage {
            Stage::Table { scan, columns } => {
                let spec = self.spec(scan);
                let is_key = |name: &String| {
                    keys.iter()
                        .any(|key| matches!(columns[*key], TickExpr::Column(at) if spec.position(name) == Some(at)))
                };
                spec.reference.as_ref().is_some_and(|of| !of.key.is_empty() && of.key.iter().all(is_key))
            }
            Stage::Frame(plan) => groups_by(plan, keys),
        };
        let fields = right.schema().fields();
        let is_needed = |column: &usize| keys.contains(column) || self.names.contains(fields[*column].name());
        let mut needed: Vec<usize> = (0..fields.len()).filter(is_needed).collect();
        if needed.is_empty() {
            // One column is needed even if none is read, because it gives the number of rows.
            needed.push(0);
        }
        let outputs = needed.iter().map(|column| TickExpr::Column(*column)).collect();
        let schema = right.schema().as_arrow().project(&needed).map_err(|error| UnsupportedExpr(error.to_string()))?;
        let plan = Plan::Project { input: Box::new(stage.into_plan(right.schema())), outputs };
        self.sides.push(LookupSource { plan, schema: Arc::new(schema) });
        let side = self.sides.len() - 1;
        // A key takes the place of a column that isn't used.
        let place = |column| needed.iter().position(|one| *one == column);
        let key = keys.first().and_then(|key| place(*key)).unwrap_or(0);
        let columns = (0..fields.len()).map(|column| self.constants.side(side, place(column).unwrap_or(key)));
        Ok((columns.collect(), is_unique))
    }

    pub(super) fn union(&mut self, union: &Union) -> Result<Stage, UnsupportedExpr> {
        let expected = types(&union.schema);
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            if types(input.schema()) != expected {
                return unknown("a UNION of columns of different types");
            }
            inputs.push(self.stage(input)?.into_plan(input.schema()));
        }
        Ok(Stage::Frame(Plan::Union { inputs }))
    }
}

/// Whether a join is a cross join, other than with a list of values.
fn is_cross(join: &Join) -> Result<bool, UnsupportedExpr> {
    let has_condition = !join.on.is_empty() || join.filter.is_some();
    Ok(join.join_type == JoinType::Inner && !has_condition && literal_columns(&join.right)?.is_none())
}

/// What follows from a condition for the rows of one side: of an `OR` whose alternatives all have conditions on that side alone.
pub(super) fn implied(condition: &Expr, schema: &DFSchema) -> Result<Option<Expr>, UnsupportedExpr> {
    if !matches!(condition, Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. })) || !is_of_pairs(condition) {
        return Ok(None);
    }
    let mut alternatives = Vec::new();
    for alternative in split_binary(condition, Operator::Or) {
        let mut own = Vec::new();
        for condition in split_conjunction(alternative) {
            if is_of(condition, schema)? {
                own.push(condition.clone());
            }
        }
        let Some(own) = conjunction(own) else { return Ok(None) };
        alternatives.push(own);
    }
    Ok(disjunction(alternatives))
}

/// Whether a condition may be evaluated on the pairs of a join as they are built.
fn is_of_pairs(condition: &Expr) -> bool {
    !condition.is_volatile() && !condition.exists(|expr| Ok(expr.contains_outer() || is_query(expr))).unwrap_or(true)
}

/// Whether a join is by keys, not by time, and not with a list: then conditions may be pushed to its sides.
fn is_plain(join: &Join, kind: JoinType) -> Result<bool, UnsupportedExpr> {
    let has_keys = !join.on.is_empty() || join.filter.is_some();
    let is_plain = join.join_type == kind && has_keys && asof_parts(join).map_err(unsupported)?.is_none();
    Ok(is_plain && literal_columns(&join.right)?.is_none())
}

/// An inner join whose own conditions, and those of a filter above it, are pushed to the side that they read; conditions on a key are pushed to both
/// sides. Also returns the rest of the filter.
fn narrowed_sides(join: &Join, predicate: Option<&Expr>) -> Result<(Join, Vec<Expr>), UnsupportedExpr> {
    let keys = same_keys(join)?;
    let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
    let mut part = |conditions: Vec<Expr>| -> Result<Vec<Expr>, UnsupportedExpr> {
        let mut rest = Vec::new();
        for condition in conditions {
            if is_of(&condition, join.left.schema())? {
                let from_left = || keys.iter().map(|(left, right)| (left, right));
                of_right.extend(of_other_side(std::slice::from_ref(&condition), join.left.schema(), &from_left)?);
                of_left.push(condition);
            } else if is_of(&condition, join.right.schema())? {
                let from_right = || keys.iter().map(|(left, right)| (right, left));
                of_left.extend(of_other_side(std::slice::from_ref(&condition), join.right.schema(), &from_right)?);
                of_right.push(condition);
            } else {
                of_left.extend(implied(&condition, join.left.schema())?);
                of_right.extend(implied(&condition, join.right.schema())?);
                rest.push(condition);
            }
        }
        Ok(rest)
    };
    let split = |condition: &Expr| split_conjunction_owned(condition.clone());
    let remaining = part(predicate.map(split).unwrap_or_default())?;
    let filter = conjunction(part(join.filter.as_ref().map(split).unwrap_or_default())?);
    let (left, right) = (with_filter(of_left, &join.left)?, with_filter(of_right, &join.right)?);
    Ok((Join { left, right, filter, ..join.clone() }, remaining))
}

/// Keys of one type. Equal instants are shown in the zone of their type; equal floats may be zeros of two signs, which [`of_other_side`] heeds.
fn same_keys(join: &Join) -> Result<Vec<(Expr, Expr)>, UnsupportedExpr> {
    let mut keys = equalities(join)?.0;
    keys.retain(|(left, right)| match (left.get_type(join.left.schema()), right.get_type(join.right.schema())) {
        (Ok(left), Ok(right)) => left == right,
        _ => false,
    });
    Ok(keys)
}

/// Those of the conditions on keys of one side, of this schema, that hold for the equal keys of the other side as well, rewritten to these. Others read
/// more columns, or could differ for equal values.
fn of_other_side<'a, I: Iterator<Item = (&'a Expr, &'a Expr)>>(
    conditions: &[Expr],
    schema: &DFSchema,
    keys: &dyn Fn() -> I,
) -> Result<Vec<Expr>, UnsupportedExpr> {
    let mut of_other = Vec::new();
    for condition in conditions {
        let columns: Vec<&Column> = condition.column_refs().into_iter().collect();
        let [column] = columns[..] else { continue };
        let other = keys().find_map(|(one, other)| match (one, other) {
            (Expr::Column(one), Expr::Column(other)) if one == column => Some(other.clone()),
            _ => None,
        });
        let Some(other) = other else { continue };
        if !is_of_pairs(condition) || distinguishes_equal_floats(condition, schema).map_err(unsupported)? {
            continue;
        }
        let replaced = condition.clone().transform(|expr| match expr {
            Expr::Column(_) => Ok(Transformed::yes(Expr::Column(other.clone()))),
            expr => Ok(Transformed::no(expr)),
        });
        of_other.push(replaced.map_err(unsupported)?.data);
    }
    Ok(of_other)
}

fn is_query(expr: &Expr) -> bool {
    query_of(expr).is_some()
}

/// Whether a condition reads columns, and all of them are columns of a side.
pub(super) fn is_of(condition: &Expr, schema: &DFSchema) -> Result<bool, UnsupportedExpr> {
    let columns = columns_of(condition)?;
    Ok(!columns.is_empty() && check_all_columns_from_schema(&columns, schema).map_err(unsupported)?)
}

/// The columns that a condition reads, and those that queries within it refer to around them.
pub(super) fn columns_of(condition: &Expr) -> Result<HashSet<&Column>, UnsupportedExpr> {
    let mut columns = condition.column_refs();
    let visited = condition.apply(|expr| {
        let outer = query_of(expr).into_iter().flat_map(|query| &query.outer_ref_columns);
        columns.extend(outer.filter_map(|expr| match expr {
            Expr::OuterReferenceColumn(_, column) => Some(column),
            _ => None,
        }));
        Ok(TreeNodeRecursion::Continue)
    });
    visited.map_err(unsupported)?;
    Ok(columns)
}

/// The query of an expression.
fn query_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(query) => Some(query),
        Expr::InSubquery(of) => Some(&of.subquery),
        Expr::Exists(of) => Some(&of.subquery),
        Expr::SetComparison(of) => Some(&of.subquery),
        _ => None,
    }
}

/// A side of a join with a filter above it, if there is one.
pub(super) fn with_filter(conditions: Vec<Expr>, side: &Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>, UnsupportedExpr> {
    match conjunction(conditions) {
        Some(filter) => {
            Ok(Arc::new(LogicalPlan::Filter(Filter::try_new(filter, Arc::clone(side)).map_err(unsupported)?)))
        }
        None => Ok(Arc::clone(side)),
    }
}

/// Whether a value is in a column of constants.
fn among(value: TickExpr, list: usize) -> TickExpr {
    TickExpr::In(Box::new(value), Arc::new(ValueList::hint(list)))
}

/// The side of a join by keys that may repeat: each row is joined with all rows that have its keys.
pub(super) struct KeyedSide<'a> {
    /// The positions of its key columns.
    pub keys: &'a [usize],
    /// Numbers of the constants that hold its columns.
    pub columns: Vec<usize>,
    pub is_inner: bool,
    /// Further conditions, over the columns of the rows followed by those of the side.
    pub condition: Option<TickExpr>,
}

/// The side of a join in which rows are looked up.
struct LookupSide {
    /// Numbers of the constants that hold the columns of the key.
    of_keys: Vec<usize>,
    /// Numbers of the constants that hold the columns.
    columns: Vec<usize>,
    /// Whether rows without a match are dropped.
    is_inner: bool,
}

/// Whether rows are groups by some of these columns only, so that the combination of their values is unique.
pub(super) fn groups_by(plan: &Plan, columns: &[usize]) -> bool {
    match plan {
        Plan::AggregateTable { keys, .. } => (0..keys.len()).all(|key| columns.contains(&key)),
        Plan::Aggregate { keys, .. } => (0..keys.len()).all(|key| columns.contains(&key)),
        Plan::Values { unique, .. } => *unique > 0 && (0..*unique).all(|key| columns.contains(&key)),
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

/// Whether rows come from a join by keys, possibly with other columns.
pub(super) fn joins_by_keys(plan: &Plan) -> bool {
    match plan {
        Plan::Join { .. } => true,
        Plan::Asof { asof, .. } => asof.all_of_time,
        Plan::Project { input, .. } | Plan::Filter { input, .. } => joins_by_keys(input),
        _ => false,
    }
}

/// A filter over rows in memory, pushed down as far as possible.
pub(super) fn filtered(input: Plan, predicate: TickExpr) -> Plan {
    match input {
        Plan::Union { inputs } => {
            Plan::Union { inputs: inputs.into_iter().map(|input| filtered(input, predicate.clone())).collect() }
        }
        Plan::Project { input, outputs } if reads_plain(&predicate, &outputs) => {
            let predicate = predicate.substitute(&outputs);
            Plan::Project { input: Box::new(filtered(*input, predicate)), outputs }
        }
        mut input => {
            bound_numbers(&mut input, &predicate);
            Plan::Filter { input: Box::new(input), predicate }
        }
    }
}

/// Gives a window function that numbers rows an upper bound, if a condition on the number has one.
fn bound_numbers(plan: &mut Plan, predicate: &TickExpr) {
    match plan {
        Plan::Filter { input, .. } => bound_numbers(input, predicate),
        Plan::Window { input, calls } => {
            if let [call] = calls.as_mut_slice()
                && call.numbers_rows()
                && call.first.is_none()
            {
                call.first = bound_of(predicate, input.width());
            }
        }
        _ => {}
    }
}

/// The upper bound that a part of a condition sets for a column, if it sets one.
fn bound_of(predicate: &TickExpr, column: usize) -> Option<(BinaryOp, usize)> {
    match predicate {
        TickExpr::Binary(BinaryOp::And, left, right) => bound_of(left, column).or_else(|| bound_of(right, column)),
        one => {
            let (of, op, constant) = column_comparison(one)?;
            let is_bound = matches!(op, BinaryOp::Equal | BinaryOp::Less | BinaryOp::LessOrEqual);
            (is_bound && of == column).then_some((op, constant))
        }
    }
}

/// Whether a condition reads only columns that are passed on unchanged.
fn reads_plain(predicate: &TickExpr, outputs: &[TickExpr]) -> bool {
    let mut plain = true;
    predicate.visit_columns(&mut |column| plain &= matches!(outputs[column], TickExpr::Column(_)));
    plain
}

/// If a condition compares a column, possibly widened, with a constant: the column, the operator and the constant.
fn column_comparison(predicate: &TickExpr) -> Option<(usize, BinaryOp, usize)> {
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

/// The equalities of a join's condition, each as a left and a right expression, and the rest of the condition. Values that are equal where both are null
/// are two equalities.
pub(super) fn equalities(join: &Join) -> Result<(Vec<(Expr, Expr)>, Vec<Expr>), UnsupportedExpr> {
    let (mut pairs, mut rest) = (join.on.clone(), Vec::new());
    for condition in join.filter.iter().flat_map(split_conjunction) {
        match of_both_sides(condition, join)? {
            Some((Operator::Eq, left, right)) => pairs.push((left.clone(), right.clone())),
            Some((Operator::IsNotDistinctFrom, left, right))
                if join.null_equality == NullEquality::NullEqualsNothing =>
            {
                let sides = ((left, join.left.schema().as_ref()), (right, join.right.schema().as_ref()));
                match null_safe_pairs(sides.0, sides.1).map_err(unsupported)? {
                    Some(null_safe) => pairs.extend(null_safe),
                    None => rest.push(condition.clone()),
                }
            }
            _ => rest.push(condition.clone()),
        }
    }
    Ok((pairs, rest))
}

/// The operator of a condition that has a value of the left on one side and one of the right on the other, with these values, the left's first.
fn of_both_sides<'e>(
    condition: &'e Expr,
    join: &Join,
) -> Result<Option<(Operator, &'e Expr, &'e Expr)>, UnsupportedExpr> {
    let Expr::BinaryExpr(binary) = condition else { return Ok(None) };
    if !matches!(binary.op, Operator::Eq | Operator::IsNotDistinctFrom) {
        return Ok(None);
    }
    let (one, other) = (binary.left.as_ref(), binary.right.as_ref());
    let is_pair =
        |left: &Expr, right: &Expr| Ok(is_of(left, join.left.schema())? && is_of(right, join.right.schema())?);
    Ok(match (is_pair(one, other)?, is_pair(other, one)?) {
        (true, _) => Some((binary.op, one, other)),
        (false, true) => Some((binary.op, other, one)),
        (false, false) => None,
    })
}

/// The value of a literal with its casts; `None` for a lifted literal, whose value differs between runs, and for other expressions.
fn constant(expr: &Expr) -> Result<Option<ScalarValue>, UnsupportedExpr> {
    match expr {
        Expr::Literal(value, None) => Ok(Some(value.clone())),
        Expr::Alias(alias) => constant(&alias.expr),
        Expr::Cast(cast) => {
            let value = constant(&cast.expr)?;
            value.map(|value| value.cast_to(cast.field.data_type()).map_err(unsupported)).transpose()
        }
        _ => Ok(None),
    }
}

/// The columns of a list of values; `None` for anything else.
pub(super) fn literal_columns(plan: &LogicalPlan) -> Result<Option<Vec<ArrayRef>>, UnsupportedExpr> {
    Ok(match plan {
        LogicalPlan::SubqueryAlias(alias) => literal_columns(&alias.input)?,
        LogicalPlan::Projection(projection) => {
            let Some(columns) = literal_columns(&projection.input)? else { return Ok(None) };
            let mut chosen: Vec<ArrayRef> = Vec::with_capacity(projection.expr.len());
            for expr in &projection.expr {
                let Expr::Column(column) = expr.clone().unalias() else { return Ok(None) };
                let position = projection.input.schema().index_of_column(&column).map_err(unsupported)?;
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
                    column.push(value.cast_to(field.data_type()).map_err(unsupported)?);
                }
                let array = ScalarValue::iter_to_array(column).map_err(unsupported)?;
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
