//! Plans a nested join that ends in a marker (`statement.rs`).
//!
//! Conditions are taken apart here: which expressions are equal, which are compared, which side each belongs to. What
//! doesn't fit is refused with what would.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{
    Column, DFSchema, JoinConstraint, JoinType, NullEquality, Result, ScalarValue, internal_err, not_impl_err, plan_err,
};
use datafusion::error::DataFusionError;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::logical_plan::{Filter, Join};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::utils::{check_all_columns_from_schema, conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, lit, when};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr, JoinOperator, TableFactor, TableWithJoins};
use splay_engine::asof::Direction;
use splay_functions::RowOrder;

use super::marker::AsofCall;
use super::statement::{self, JoinMarker};

/// Plans what the markers mark.
#[derive(Debug)]
pub(super) struct MarkedJoinPlanner {
    /// What knows the order of the tables' rows.
    pub(super) tables: Arc<dyn RowOrder>,
}

impl RelationPlanner for MarkedJoinPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::NestedJoin { table_with_joins, alias: None } = &relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let [joined, mark] = table_with_joins.joins.as_slice() else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = match statement::marker(&mark.relation) {
            None => return Ok(RelationPlanning::Original(Box::new(relation))),
            Some(JoinMarker::Asof) => plan_asof(Parts::plan(table_with_joins, joined, mark, context)?, context)?,
            Some(JoinMarker::Window) => {
                let parts = Parts::plan(table_with_joins, joined, mark, context)?;
                super::window_relation::plan(parts, self.tables.as_ref(), context)?
            }
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// Both relations of a join, its constraint and the arguments of its marker.
pub(super) struct Parts {
    pub(super) left: LogicalPlan,
    pub(super) right: LogicalPlan,
    pub(super) constraint: ast::JoinConstraint,
    pub(super) args: Vec<ast::Expr>,
}

impl Parts {
    fn plan(
        whole: &TableWithJoins,
        joined: &ast::Join,
        mark: &ast::Join,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Parts> {
        if let TableFactor::Derived { lateral: true, .. } | TableFactor::Function { lateral: true, .. } =
            &joined.relation
        {
            return not_impl_err!("the right side of this join can't be LATERAL");
        }
        let left = context.plan(whole.relation.clone())?;
        let right = context.plan(joined.relation.clone())?;
        let JoinOperator::Left(constraint) = &joined.join_operator else {
            return internal_err!("a marker behind {:?}", joined.join_operator);
        };
        let TableFactor::Table { args: Some(args), .. } = &mark.relation else {
            return internal_err!("a marker without arguments");
        };
        let args = args.args.iter().map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr.clone()),
            other => plan_err!("unexpected {other} in the condition of a join"),
        });
        Ok(Parts { left, right, constraint: constraint.clone(), args: args.collect::<Result<_>>()? })
    }

    fn word(&self, position: usize) -> Option<&str> {
        match self.args.get(position)? {
            ast::Expr::Value(value) => match &value.value {
                ast::Value::SingleQuotedString(text) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the marker's first argument is `word`.
    pub(super) fn says(&self, word: &str) -> bool {
        self.word(0) == Some(word)
    }
}

/// The side of a join that an expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// The side whose columns alone `expr` reads; `None` if it reads none, or both.
pub(super) fn side_of(expr: &Expr, left: &DFSchema, right: &DFSchema) -> Result<Option<Side>> {
    let columns = expr.column_refs();
    if columns.is_empty() || expr.contains_outer() {
        return Ok(None);
    }
    // A name that both sides know was refused when the expression was planned.
    Ok(match (check_all_columns_from_schema(&columns, left)?, check_all_columns_from_schema(&columns, right)?) {
        (true, false) => Some(Side::Left),
        (false, true) => Some(Side::Right),
        _ => None,
    })
}

/// A comparison of something of the left with something of the right, turned so that the left comes first.
pub(super) fn compared(expr: &Expr, left: &DFSchema, right: &DFSchema) -> Result<Option<(Expr, Operator, Expr)>> {
    let Expr::BinaryExpr(BinaryExpr { left: first, op, right: second }) = expr else { return Ok(None) };
    Ok(match (side_of(first, left, right)?, side_of(second, left, right)?) {
        (Some(Side::Left), Some(Side::Right)) => Some((first.as_ref().clone(), *op, second.as_ref().clone())),
        (Some(Side::Right), Some(Side::Left)) => {
            op.swap().map(|op| (second.as_ref().clone(), op, first.as_ref().clone()))
        }
        _ => None,
    })
}

/// Leaves of `right` only the rows that pass `filters`.
pub(super) fn filtered(right: LogicalPlan, filters: Vec<Expr>) -> Result<LogicalPlan> {
    Ok(match conjunction(filters) {
        Some(filter) => LogicalPlan::Filter(Filter::try_new(filter, Arc::new(right))?),
        None => right,
    })
}

const CONDITIONS: &str = "an ASOF JOIN takes equalities between both sides, one comparison of times by >=, >, <= or <, and \
                          conditions on one side alone";

/// A column of the right side that marks the rows of the join that have a match.
const MATCHED: &str = "__matched";

fn plan_asof(parts: Parts, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let (Some(flavour), Some(kind)) = (parts.word(0), parts.word(2)) else { return internal_err!("an unknown marker") };
    let (is_semi, is_anti) = (flavour == "semi", flavour == "anti");
    let join_type = if flavour == "left" || is_anti { JoinType::Left } else { JoinType::Inner };
    let schema = parts.left.schema().join(parts.right.schema())?;
    let mut condition = Condition::default();
    let is_nearest = kind == "nearest";
    match kind {
        "compare" => {
            let compare = context.sql_to_expr(parts.args[3].clone(), &schema)?;
            condition.compare(compare, parts.left.schema(), parts.right.schema())?;
        }
        "nearest" => {
            let left = context.sql_to_expr(parts.args[3].clone(), parts.left.schema())?;
            let right = context.sql_to_expr(parts.args[4].clone(), parts.right.schema())?;
            condition.times = Some((left, Operator::GtEq, right));
        }
        _ => {}
    }
    let tolerance = context.sql_to_expr(parts.args[1].clone(), &DFSchema::empty())?;
    let offset = parts.args.get(if is_nearest { 5 } else { 4 });
    let offset = offset.map(|offset| context.sql_to_expr(offset.clone(), parts.left.schema())).transpose()?;
    let names = match &parts.constraint {
        ast::JoinConstraint::On(on) => {
            let on = context.sql_to_expr(on.clone(), &schema)?;
            condition.add(on, parts.left.schema(), parts.right.schema())?;
            Vec::new()
        }
        ast::JoinConstraint::Using(names) => condition.use_columns(names, &parts.left, &parts.right, context)?,
        ast::JoinConstraint::None => Vec::new(),
        ast::JoinConstraint::Natural => return plan_err!("an ASOF JOIN can't be NATURAL; write USING (…)"),
    };
    let Some((mut left_time, op, right_time)) = condition.times else {
        return plan_err!("an ASOF JOIN needs a comparison of times, as in a.ts >= b.ts; {CONDITIONS}");
    };
    let (direction, inclusive) = match op {
        _ if is_nearest => (Direction::Nearest, true),
        Operator::GtEq => (Direction::Backward, true),
        Operator::Gt => (Direction::Backward, false),
        Operator::LtEq => (Direction::Forward, true),
        Operator::Lt => (Direction::Forward, false),
        other => return plan_err!("an ASOF JOIN compares times by >=, >, <= or <, not by {other}"),
    };
    if let Some(offset) = offset {
        left_time = left_time + offset;
    }
    // A row that a condition on the left alone doesn't hold of matches nothing, as one without a time.
    if let Some(of_left) = conjunction(condition.of_left) {
        left_time = when(of_left, left_time).end()?;
    }
    let mut args = vec![left_time, right_time, tolerance];
    args.extend(condition.keys.into_iter().flat_map(|(left, right)| [left, right]));
    let constraint = if names.is_empty() { JoinConstraint::On } else { JoinConstraint::Using };
    let mut right = filtered(parts.right, condition.filters)?;
    if is_anti {
        let columns: Vec<Expr> = right.schema().columns().into_iter().map(Expr::Column).collect();
        right =
            LogicalPlanBuilder::from(right).project(columns.into_iter().chain([lit(true).alias(MATCHED)]))?.build()?;
    }
    let of_left: Vec<Expr> = parts.left.schema().columns().into_iter().map(Expr::Column).collect();
    let filter = Some(AsofCall::new(direction, inclusive).filter(args));
    let equality = NullEquality::NullEqualsNothing;
    let join =
        Join::try_new(Arc::new(parts.left), Arc::new(right), names, filter, join_type, constraint, equality, false)?;
    let join = LogicalPlan::Join(join);
    if is_anti {
        let unmatched = Expr::Column(Column::from_name(MATCHED)).is_null();
        return LogicalPlanBuilder::from(join).filter(unmatched)?.project(of_left)?.build();
    }
    if is_semi { LogicalPlanBuilder::from(join).project(of_left)?.build() } else { Ok(join) }
}

/// A condition taken apart.
#[derive(Default)]
struct Condition {
    keys: Vec<(Expr, Expr)>,
    times: Option<(Expr, Operator, Expr)>,
    filters: Vec<Expr>,
    /// Conditions on the left side alone, and those that read neither.
    of_left: Vec<Expr>,
}

/// Two keys that are equal where both are null, or both are the same.
fn null_safe(left: Expr, right: Expr, schema: &DFSchema) -> Result<[(Expr, Expr); 2]> {
    // Any value will do for null: the other key tells it from itself.
    let some =
        |key: &Expr| Ok::<_, DataFusionError>(Expr::Literal(ScalarValue::new_default(&key.get_type(schema)?)?, None));
    let (for_left, for_right) = (some(&left)?, some(&right)?);
    let values = (coalesce(vec![left.clone(), for_left]), coalesce(vec![right.clone(), for_right]));
    Ok([(left.is_null(), right.is_null()), values])
}

impl Condition {
    fn compare(&mut self, expr: Expr, left: &DFSchema, right: &DFSchema) -> Result<()> {
        if self.times.is_some() {
            return plan_err!("two comparisons of times; {CONDITIONS}");
        }
        match compared(&expr, left, right)? {
            Some(times) => self.times = Some(times),
            None => {
                return plan_err!("{expr} doesn't compare a time of the left side with one of the right; {CONDITIONS}");
            }
        }
        Ok(())
    }

    fn add(&mut self, on: Expr, left: &DFSchema, right: &DFSchema) -> Result<()> {
        for expr in split_conjunction_owned(on) {
            match side_of(&expr, left, right)? {
                Some(Side::Right) => {
                    self.filters.push(expr);
                    continue;
                }
                Some(Side::Left) => {
                    self.of_left.push(expr);
                    continue;
                }
                None if expr.column_refs().is_empty() && !expr.contains_outer() => {
                    self.of_left.push(expr);
                    continue;
                }
                None => {}
            }
            match compared(&expr, left, right)? {
                Some((left, Operator::Eq, right)) => self.keys.push((left, right)),
                Some((of_left, Operator::IsNotDistinctFrom, of_right)) => {
                    self.keys.extend(null_safe(of_left, of_right, &left.join(right)?)?);
                }
                Some((_, Operator::GtEq | Operator::Gt | Operator::LtEq | Operator::Lt, _)) => {
                    self.compare(expr, left, right)?;
                }
                _ => return plan_err!("{expr} can't be a condition here; {CONDITIONS}"),
            }
        }
        Ok(())
    }

    /// Resolves the names of `USING` to pairs of columns.
    fn use_columns(
        &mut self,
        names: &[ast::ObjectName],
        left: &LogicalPlan,
        right: &LogicalPlan,
        context: &dyn RelationPlannerContext,
    ) -> Result<Vec<(Expr, Expr)>> {
        let (left_using, right_using) = (left.using_columns()?, right.using_columns()?);
        let mut pairs = Vec::new();
        let time = if self.times.is_none() { names.len().checked_sub(1) } else { None };
        for (position, name) in names.iter().enumerate() {
            let [part] = name.0.as_slice() else { return plan_err!("USING takes plain names, not {name}") };
            let Some(ident) = part.as_ident() else { return plan_err!("USING takes plain names, not {name}") };
            let name = context.normalize_ident(ident.clone());
            let of = |plan: &LogicalPlan, using: &[HashSet<Column>]| {
                let column = Column::from_name(name.clone());
                column.normalize_with_schemas_and_ambiguity_check(&[&[plan.schema()]], using)
            };
            let (of_left, of_right) = (of(left, &left_using)?, of(right, &right_using)?);
            let pair = (Expr::Column(of_left.clone()), Expr::Column(of_right.clone()));
            if time == Some(position) {
                self.times = Some((pair.0.clone(), Operator::GtEq, pair.1.clone()));
            } else {
                self.keys.push(pair.clone());
            }
            // What an earlier USING has bound to the left column goes by the same name now.
            let bound = left_using.iter().filter(|set| set.contains(&of_left)).flatten();
            let bound: HashSet<&Column> = bound.filter(|other| other.name == name && **other != of_left).collect();
            pairs.push(pair);
            pairs.extend(bound.into_iter().map(|other| (Expr::Column(other.clone()), Expr::Column(of_right.clone()))));
        }
        Ok(pairs)
    }
}
