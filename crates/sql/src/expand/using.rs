//! Joins `USING` and `NATURAL`: which of two keys with the same name is the column of the join.
//!
//! - It is the left key of an inner or left join, the right key of a right join, and the first of both that isn't null
//!   of a full join.
//! - `*` contains it once, at the place of the left key. DataFusion 55.2 uses the key of the relation whose name sorts
//!   first, which may be the side without a row.
//! - If it isn't the left key, `USING` is rewritten to `ON`, and the unqualified name to an expression, wherever the
//!   select and its `ORDER BY` use it. The same happens if DataFusion 55.2 calls the key ambiguous: in `WHERE`, and if
//!   several joins have the same key. Sub-queries have to qualify the name.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, Query, Select, SelectItem, TableFactor,
    TableWithJoins, VisitorMut,
};

use super::relation::{FromColumn, Relation};
use crate::error::{Error, Result, fault};
use crate::function_calls::call;
use crate::joins;
use crate::names::last_part;
use crate::walk::{any_expression_outside_queries, visit_mut};

/// The columns of a `FROM` with such joins.
pub(super) struct JoinColumns {
    pub relation: Relation,
    /// Unqualified names, folded, and their expressions, if the rewritten joins don't define them.
    pub names: Vec<(String, Expr)>,
}

/// Whether a select has such joins and depends on their columns, for example by a `*`.
pub(super) fn is_in(select: &Select, is_starred: bool) -> bool {
    if select.from.iter().any(joins::is_by_time) {
        return false;
    }
    needs_names(select) || (is_starred && select.from.iter().flat_map(|from| &from.joins).any(is_by_name))
}

/// Whether the name of a key stands for an expression.
fn needs_names(select: &Select) -> bool {
    let needs = |from: &TableWithJoins| {
        from.joins.iter().any(|join| is_of_right(&join.join_operator)) || repeats_key(&from.joins)
    };
    select.from.iter().any(needs) || has_key_in_condition(select)
}

/// Whether `WHERE` has a key by its name alone.
fn has_key_in_condition(select: &Select) -> bool {
    let Some(condition) = &select.selection else { return false };
    let joins = select.from.iter().flat_map(|from| &from.joins);
    let constraints: Vec<JoinConstraint> = joins.filter_map(|join| constraint(&join.join_operator)).collect();
    let is_key = |name: &Ident| {
        constraints.iter().any(|constraint| match constraint {
            JoinConstraint::Using(names) => {
                names.iter().any(|key| last_part(key).is_some_and(|key| key == folded(name)))
            }
            // Its keys are known by its columns only.
            JoinConstraint::Natural => true,
            JoinConstraint::On(_) | JoinConstraint::None => false,
        })
    };
    any_expression_outside_queries(condition, |expr| matches!(expr, Expr::Identifier(name) if is_key(name)))
}

fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// Whether several joins have a key of one name.
fn repeats_key(joins: &[Join]) -> bool {
    let (mut keys, mut joined, mut is_natural) = (HashSet::new(), 0, false);
    for join in joins {
        match constraint(&join.join_operator) {
            Some(JoinConstraint::Using(names)) => {
                if !names.iter().all(|name| keys.insert(last_part(name))) {
                    return true;
                }
            }
            Some(JoinConstraint::Natural) => is_natural = true,
            _ => continue,
        }
        joined += 1;
    }
    // Keys of a natural join are known by its columns only.
    is_natural && joined > 1
}

fn is_by_name(join: &Join) -> bool {
    constraint(&join.join_operator)
        .is_some_and(|constraint| matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural))
}

fn constraint(operator: &JoinOperator) -> Option<JoinConstraint> {
    constraint_mut(&mut operator.clone()).cloned()
}

fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// Whether the right side may have rows without a match, whose keys then come from the right.
fn is_of_right(operator: &JoinOperator) -> bool {
    matches!(
        operator,
        JoinOperator::Right(JoinConstraint::Using(_) | JoinConstraint::Natural)
            | JoinOperator::RightOuter(JoinConstraint::Using(_) | JoinConstraint::Natural)
            | JoinOperator::FullOuter(JoinConstraint::Using(_) | JoinConstraint::Natural)
    )
}

/// The relations whose columns the joins depend on.
pub(super) fn relations(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)))
}

/// Refuses a relation with a JOIN … USING within brackets, whose columns can't be determined from outside.
///
/// # Errors
/// [`Error::Statement`] for an outer one.
pub(super) fn check(relation: &TableFactor) -> Result<()> {
    let TableFactor::NestedJoin { table_with_joins, .. } = relation else { return Ok(()) };
    let TableWithJoins { relation, joins } = table_with_joins.as_ref();
    let is_outer = |join: &&Join| {
        is_by_name(join) && !matches!(join.join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_))
    };
    if joins.iter().any(|join| is_outer(&join)) {
        return fault(
            "USING and NATURAL of an outer join in parentheses aren't supported beside others: say the keys by ON",
        );
    }
    std::iter::once(relation).chain(joins.iter().map(|join| &join.relation)).try_for_each(check)
}

/// Refuses relations without a name where a key is that of the right side or of both.
///
/// # Errors
/// [`Error::Statement`] for such a relation.
pub(super) fn check_names(select: &Select, columns: &[Column]) -> Result<()> {
    let mut joins = select.from.iter().flat_map(|from| &from.joins);
    match joins.any(|join| is_of_right(&join.join_operator)) && columns.iter().any(|column| !column.is_named) {
        true => fault("a right or full join by USING or NATURAL needs relations with names: add an alias"),
        false => Ok(()),
    }
}

/// Merges the columns of the joins, and writes keys as `ON` if a name means an expression. `None` if a name isn't that of exactly one column on
/// each side, which the planner refuses, or if the columns aren't known.
pub(super) fn merge(select: &mut Select, columns: Vec<Vec<Column>>) -> Option<JoinColumns> {
    let needs_names = needs_names(select);
    let (mut all, mut names) = (Vec::new(), Vec::new());
    let mut columns = columns.into_iter();
    let mut from = select.from.clone();
    for TableWithJoins { joins, .. } in &mut from {
        let mut left = columns.next()?;
        for join in joins {
            let right = columns.next()?;
            match &join.join_operator {
                JoinOperator::LeftSemi(_)
                | JoinOperator::LeftAnti(_)
                | JoinOperator::Semi(_)
                | JoinOperator::Anti(_) => {}
                JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_) => left = right,
                JoinOperator::CrossJoin(_) => left.extend(right),
                other if constraint(other).is_some() => {
                    left = merge_columns(left, right, &mut join.join_operator, needs_names, &mut names)?;
                }
                _ => return None,
            }
        }
        all.extend(left);
    }
    if needs_names {
        select.from = from;
    }
    let relation = Relation { columns: all.into_iter().map(|column| column.column).collect(), time: None };
    Some(JoinColumns { relation, names: if needs_names { names } else { Vec::new() } })
}

/// A column, and whether it is one of a relation with a name.
pub(super) struct Column {
    column: FromColumn,
    is_named: bool,
}

impl Column {
    /// A column of a relation that stands by itself in a `FROM`.
    pub(super) fn of(column: &FromColumn) -> Column {
        let qualified = column.qualified();
        let is_named = qualified.is_some();
        Column { column: column.standing_for(qualified.unwrap_or_else(|| column.expression())), is_named }
    }
}

fn merge_columns(
    mut left: Vec<Column>,
    mut right: Vec<Column>,
    operator: &mut JoinOperator,
    needs_names: bool,
    names: &mut Vec<(String, Expr)>,
) -> Option<Vec<Column>> {
    let is_full = matches!(operator, JoinOperator::FullOuter(_));
    let is_of_right = is_of_right(operator);
    let constraint = constraint_mut(operator)?;
    let keys: Vec<String> = match constraint {
        JoinConstraint::Using(names) => names.iter().map(last_part).collect::<Option<_>>()?,
        JoinConstraint::Natural => {
            let is_common = |column: &&Column| right.iter().any(|other| other.column.name == column.column.name);
            left.iter().filter(is_common).map(|column| column.column.name.clone()).collect()
        }
        JoinConstraint::On(_) | JoinConstraint::None => Vec::new(),
    };
    let mut conditions = Vec::with_capacity(keys.len());
    for key in keys {
        let (one, other) = (only(&left, &key)?, only(&right, &key)?);
        let (own, theirs) = (left[one].column.expression(), right.remove(other).column.expression());
        conditions.push(Expr::BinaryOp {
            left: Box::new(own.clone()),
            op: BinaryOperator::Eq,
            right: Box::new(theirs.clone()),
        });
        let column = match (is_full, is_of_right) {
            (true, _) => call("coalesce", vec![own, theirs]),
            (false, true) => theirs,
            (false, false) => own,
        };
        left[one].column = left[one].column.standing_for(column.clone());
        names.retain(|(name, _)| *name != key);
        names.push((key, column));
    }
    let all = |left, right| Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) };
    if needs_names && let Some(condition) = conditions.into_iter().reduce(all) {
        *constraint = JoinConstraint::On(condition);
    }
    left.extend(right);
    Some(left)
}

/// The position of the only column of a name.
fn only(columns: &[Column], name: &str) -> Option<usize> {
    let mut matches = columns.iter().enumerate().filter(|(_, column)| column.column.name == name);
    match (matches.next(), matches.next()) {
        (Some((place, column)), None) if column.is_named => Some(place),
        _ => None,
    }
}

/// Replaces names by their expressions, and gives columns of the select list their old names.
pub(super) fn put_names(select: &mut Select, names: &[(String, Expr)]) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
            && stands_for(name, names).is_some()
        {
            let (expr, alias) = (Expr::Identifier(name.clone()), name.clone());
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let _ = visit_mut(select, &mut Names { names, queries: 0 });
}

/// Like [`put_names`], within a key of ORDER BY that may name columns of the select list.
pub(super) fn put_names_in_key(key: &mut Expr, list: &[SelectItem], names: &[(String, Expr)]) {
    let is_column = |name: &Ident| {
        list.iter().any(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.value.eq_ignore_ascii_case(&name.value),
            _ => false,
        })
    };
    if !matches!(key, Expr::Identifier(name) if is_column(name)) {
        let _ = visit_mut(key, &mut Names { names, queries: 0 });
    }
}

fn stands_for<'a>(name: &Ident, names: &'a [(String, Expr)]) -> Option<&'a Expr> {
    let name = folded(name);
    names.iter().find(|(key_name, _)| *key_name == name).map(|(_, expr)| expr)
}

struct Names<'a> {
    names: &'a [(String, Expr)],
    /// Depth of sub-queries around the visited place; these have names of their own.
    queries: usize,
}

impl VisitorMut for Names<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Error> {
        if self.queries == 0
            && let Expr::Identifier(name) = expression
            && let Some(expr) = stands_for(name, self.names)
        {
            *expression = expr.clone();
        }
        ControlFlow::Continue(())
    }
}
