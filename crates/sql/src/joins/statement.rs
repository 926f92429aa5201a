//! Adapts the rest of a parsed statement to the markers.
//!
//! - A marker, the join before it and everything before that become one nested join, which the relation planner sees
//!   as a whole (`relation.rs`).
//! - `*` over `USING` would return the right relation's columns if its name sorts first; it is expanded, so that the
//!   left's are returned.
//! - An unqualified column that an equality in `ON` gives to both sides is that of the first relation.
//! - A select over a window join is grouped by left row.

use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
    VisitorMut, WildcardAdditionalOptions,
};

use super::syntax::{ASOF_MARKER, WINDOW_MARKER};
use crate::walk::visit_mut;

/// Name of the column that numbers the left rows of a window join.
pub(super) const LEFT_ROW: &str = "__left_row";

/// Rearranges a statement whose joins were rewritten by [`super::syntax::rewrite`].
///
/// # Errors
/// If a select can't be what a join of ours needs.
pub(crate) fn arrange(statement: &mut Statement) -> Result<()> {
    match statement {
        Statement::Statement(statement) => match visit_mut(statement, &mut Selects) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        },
        Statement::Explain(explain) => arrange(&mut explain.statement),
        _ => Ok(()),
    }
}

/// Which marker a relation is, if it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinMarker {
    Asof,
    Window,
}

/// Whether a relation is a marker.
pub(super) fn marker(relation: &TableFactor) -> Option<JoinMarker> {
    let TableFactor::Table { name, args: Some(_), .. } = relation else { return None };
    match name.0.as_slice() {
        [part] => match part.as_ident()?.value.as_str() {
            ASOF_MARKER => Some(JoinMarker::Asof),
            WINDOW_MARKER => Some(JoinMarker::Window),
            _ => None,
        },
        _ => None,
    }
}

struct Selects;

impl VisitorMut for Selects {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        if let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by)
            && let (Some((relation, mut columns)), OrderByKind::Expressions(keys)) =
                (equal_columns(select), &mut order.kind)
        {
            columns.retain(|column| !select.projection.iter().any(|item| is_called(item, column)));
            keys.iter_mut().for_each(|key| qualify(&mut key.expr, &relation, &columns));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<DataFusionError> {
        match arrange_select(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn arrange_select(select: &mut Select) -> Result<()> {
    let has = |marker_kind| select.from.iter().any(|from| has_marker(from, marker_kind));
    let (asof, window) = (has(JoinMarker::Asof), has(JoinMarker::Window));
    if asof || window {
        spell_wildcards(select)?;
        qualify_where(select);
        qualify_equal(select);
    }
    if window {
        group_by_left_row(select)?;
    }
    for from in &mut select.from {
        nest(from);
    }
    Ok(())
}

/// Whether a join in a rewritten FROM is one by time.
pub(crate) fn is_by_time(from: &TableWithJoins) -> bool {
    has_marker(from, JoinMarker::Asof) || has_marker(from, JoinMarker::Window)
}

fn has_marker(from: &TableWithJoins, marker_kind: JoinMarker) -> bool {
    let relations = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    relations.into_iter().any(|relation| match relation {
        TableFactor::NestedJoin { table_with_joins, .. } => has_marker(table_with_joins, marker_kind),
        relation => marker(relation) == Some(marker_kind),
    })
}

/// Puts each marker, the join before it, and what that joins, into one nested join.
fn nest(from: &mut TableWithJoins) {
    nest_within(&mut from.relation);
    let mut joins: Vec<Join> = Vec::with_capacity(from.joins.len());
    for mut join in std::mem::take(&mut from.joins) {
        nest_within(&mut join.relation);
        if marker(&join.relation).is_none() {
            joins.push(join);
            continue;
        }
        let Some(marked) = joins.pop() else {
            // A marker that someone wrote by hand; planning will refuse it.
            joins.push(join);
            continue;
        };
        let left = TableWithJoins { relation: from.relation.clone(), joins: std::mem::take(&mut joins) };
        let left = if left.joins.is_empty() { left.relation } else { nested(left) };
        from.relation = nested(TableWithJoins { relation: left, joins: vec![marked, join] });
    }
    from.joins = joins;
}

fn nest_within(relation: &mut TableFactor) {
    if let TableFactor::NestedJoin { table_with_joins, .. } = relation {
        nest(table_with_joins);
    }
}

fn nested(table_with_joins: TableWithJoins) -> TableFactor {
    TableFactor::NestedJoin { table_with_joins: Box::new(table_with_joins), alias: None }
}

/// `*` as `a.*, b.* EXCLUDE (…)`, where a join of ours says `USING`.
fn spell_wildcards(select: &mut Select) -> Result<()> {
    let mut relations = Vec::new();
    let mut is_using = false;
    for from in &select.from {
        is_using |= list_relations(from, &mut relations);
    }
    if !is_using {
        return Ok(());
    }
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        let SelectItem::Wildcard(options) = item else {
            projection.push(item);
            continue;
        };
        if options.opt_exclude.is_some() || options.opt_except.is_some() || options.opt_replace.is_some() {
            return plan_err!(
                "* with exceptions over a join with USING isn't supported: name the columns, or write a.*"
            );
        }
        for (relation, hidden) in &relations {
            let Some(name) = relation else {
                return plan_err!("* over a join with USING needs an alias for every relation");
            };
            let exclude = (!hidden.is_empty()).then(|| ExcludeSelectItem::Multiple(hidden.clone()));
            projection.push(SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name.clone()),
                WildcardAdditionalOptions { opt_exclude: exclude, ..WildcardAdditionalOptions::default() },
            ));
        }
    }
    select.projection = projection;
    Ok(())
}

/// In a `WHERE`, DataFusion finds a column of `USING` ambiguous. Where all joins before it say `USING` too, or there are
/// none, it is one of the first relation.
fn qualify_where(select: &mut Select) {
    let ([from], Some(selection)) = (select.from.as_slice(), &mut select.selection) else { return };
    let mut first = Vec::new();
    add_relation(&from.relation, &[], &mut first);
    let [(Some(relation), _)] = first.as_slice() else { return };
    let mut columns: Option<Vec<String>> = None;
    for join in from.joins.iter().filter(|join| marker(&join.relation).is_none()) {
        let using: Vec<String> = using_columns(&join.join_operator).iter().map(ToString::to_string).collect();
        columns = Some(match columns {
            None => using,
            Some(columns) => columns.into_iter().filter(|column| using.contains(column)).collect(),
        });
    }
    let mut qualifier = Qualifier { relation, columns: columns.unwrap_or_default(), depth: 0 };
    let _ = visit_mut(selection, &mut qualifier);
}

/// Whether an item of a select list gives a column of a name.
fn is_called(item: &SelectItem, name: &str) -> bool {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => alias.value.eq_ignore_ascii_case(name),
        SelectItem::UnnamedExpr(Expr::Identifier(column)) => column.value.eq_ignore_ascii_case(name),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            parts.last().is_some_and(|column| column.value.eq_ignore_ascii_case(name))
        }
        _ => false,
    }
}

/// The first relation of a select over a join by time, and the columns that equalities in `ON` give every relation under one name.
fn equal_columns(select: &Select) -> Option<(ObjectName, Vec<String>)> {
    let [from] = select.from.as_slice() else { return None };
    if !is_by_time(from) {
        return None;
    }
    let mut first = Vec::new();
    add_relation(&from.relation, &[], &mut first);
    let [(Some(relation), _)] = first.as_slice() else { return None };
    let mut columns: Option<Vec<String>> = None;
    for join in from.joins.iter().filter(|join| marker(&join.relation).is_none()) {
        let mut equal: Vec<String> = using_columns(&join.join_operator).iter().map(ToString::to_string).collect();
        if let JoinOperator::Join(JoinConstraint::On(on))
        | JoinOperator::Inner(JoinConstraint::On(on))
        | JoinOperator::Left(JoinConstraint::On(on))
        | JoinOperator::LeftOuter(JoinConstraint::On(on)) = &join.join_operator
        {
            add_equal(on, &mut equal);
        }
        columns = Some(match columns {
            None => equal,
            Some(columns) => columns.into_iter().filter(|column| equal.contains(column)).collect(),
        });
    }
    columns.filter(|columns| !columns.is_empty()).map(|columns| (relation.clone(), columns))
}

/// The names of columns that a condition says to be equal in two relations.
fn add_equal(on: &Expr, columns: &mut Vec<String>) {
    match on {
        Expr::Nested(inner) => add_equal(inner, columns),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            add_equal(left, columns);
            add_equal(right, columns);
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            if let (Expr::CompoundIdentifier(left), Expr::CompoundIdentifier(right)) = (left.as_ref(), right.as_ref())
                && let ([.., of_left], [.., of_right]) = (left.as_slice(), right.as_slice())
                && of_left.value.eq_ignore_ascii_case(&of_right.value)
                && left != right
            {
                columns.push(of_left.value.to_lowercase());
            }
        }
        _ => {}
    }
}

fn qualify_equal(select: &mut Select) {
    let Some((relation, columns)) = equal_columns(select) else { return };
    let mut qualify = |expr: &mut Expr| qualify(expr, &relation, &columns);
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            qualify(expr);
        }
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.iter_mut().for_each(&mut qualify);
    }
    select.selection.iter_mut().chain(&mut select.having).chain(&mut select.qualify).for_each(&mut qualify);
}

fn qualify(expr: &mut Expr, relation: &ObjectName, columns: &[String]) {
    let mut qualifier = Qualifier { relation, columns: columns.to_vec(), depth: 0 };
    let _ = visit_mut(expr, &mut qualifier);
}

/// Puts the name of a relation before some columns, but for those of sub-queries.
struct Qualifier<'a> {
    relation: &'a ObjectName,
    columns: Vec<String>,
    depth: usize,
}

impl VisitorMut for Qualifier<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(ident) = expr
            && self.depth == 0
            && self.columns.contains(&ident.value.to_lowercase())
        {
            let parts = self.relation.0.iter().filter_map(|part| part.as_ident()).cloned();
            *expr = Expr::CompoundIdentifier(parts.chain([ident.clone()]).collect());
        }
        ControlFlow::Continue(())
    }
}

/// The relations of a from clause by name, and the columns that `USING` takes from the left of each; whether a join of
/// ours says `USING`.
fn list_relations(from: &TableWithJoins, relations: &mut Vec<(Option<ObjectName>, Vec<ObjectName>)>) -> bool {
    let mut is_using = add_relation(&from.relation, &[], relations);
    for (position, join) in from.joins.iter().enumerate() {
        if marker(&join.relation).is_some() {
            continue;
        }
        let using = using_columns(&join.join_operator);
        let next = from.joins.get(position + 1).filter(|next| marker(&next.relation).is_some());
        is_using |= next.is_some() && !using.is_empty();
        if next.is_some_and(|next| gives_left_alone(&next.relation)) {
            continue;
        }
        is_using |= add_relation(&join.relation, &using, relations);
    }
    is_using
}

/// Whether the join before a marker gives no column of its right relation.
fn gives_left_alone(marker: &TableFactor) -> bool {
    let TableFactor::Table { args: Some(args), .. } = marker else { return false };
    args.args.first().is_some_and(|kind| matches!(kind.to_string().as_str(), "'semi'" | "'anti'"))
}

fn add_relation(
    relation: &TableFactor,
    hidden: &[ObjectName],
    relations: &mut Vec<(Option<ObjectName>, Vec<ObjectName>)>,
) -> bool {
    let (name, alias) = match relation {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            return list_relations(table_with_joins, relations);
        }
        TableFactor::Table { name, alias, args: None, .. } => (Some(name.clone()), alias),
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::NestedJoin { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::Function { alias, .. } => (None, alias),
        _ => (None, &None),
    };
    let name = alias.as_ref().map(|alias| ObjectName::from(vec![alias.name.clone()])).or(name);
    relations.push((name, hidden.to_vec()));
    false
}

fn using_columns(operator: &JoinOperator) -> Vec<ObjectName> {
    match operator {
        JoinOperator::Join(JoinConstraint::Using(columns))
        | JoinOperator::Inner(JoinConstraint::Using(columns))
        | JoinOperator::Left(JoinConstraint::Using(columns))
        | JoinOperator::LeftOuter(JoinConstraint::Using(columns)) => columns.iter().map(folded).collect(),
        _ => Vec::new(),
    }
}

/// `EXCLUDE` takes names as they are in the plan.
fn folded(name: &ObjectName) -> ObjectName {
    let parts = name.0.iter().filter_map(|part| part.as_ident());
    ObjectName::from(parts.map(|ident| Ident::new(ident.value.to_lowercase())).collect::<Vec<_>>())
}

fn group_by_left_row(select: &mut Select) -> Result<()> {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(expressions, modifiers) => !expressions.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    if is_grouped {
        return plan_err!(
            "a select over a WINDOW JOIN is grouped by left row already; group its answer in a select around it"
        );
    }
    let windows: usize = select.from.iter().map(count_windows).sum();
    if windows > 1 {
        return plan_err!("a select takes one WINDOW JOIN; put the other one in a sub-query");
    }
    let last_is_window = select
        .from
        .last()
        .and_then(|from| from.joins.last())
        .is_some_and(|join| marker(&join.relation) == Some(JoinMarker::Window));
    if select.from.len() != 1 || !last_is_window {
        return plan_err!("a WINDOW JOIN must be the last join of its select; put it in a sub-query");
    }
    select.group_by = GroupByExpr::Expressions(vec![Expr::Identifier(Ident::new(LEFT_ROW))], Vec::new());
    Ok(())
}

fn count_windows(from: &TableWithJoins) -> usize {
    let relations = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    relations
        .map(|relation| match relation {
            TableFactor::NestedJoin { table_with_joins, .. } => count_windows(table_with_joins),
            relation => usize::from(marker(relation) == Some(JoinMarker::Window)),
        })
        .sum()
}
