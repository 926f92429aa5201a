//! Rewrites a select over a table to one over a view of the table's groups.
//!
//! - Keys and conditions are expressions of the view's keys. Time buckets may be coarser, and bounds of the time must
//!   be bucket limits.
//! - An aggregate is merged from the view's over the groups of each output group: sums and counts are added, `first`
//!   is that of the earliest bucket. If each output group is one group of the view, every column of the view can be
//!   used.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectFlavor, SelectItem, TableWithJoins,
    VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use splay_functions::LOCAL_DATE;
use splay_store::DATE_COLUMN;

use super::ViewCoverage;
use super::grouped_view::{GroupedView, aggregates, expression_of, keys_of};
use super::scope::{Scope, conjuncts, instant, unnested};
use crate::function_calls::{is_aggregate, name_of};
use crate::statements::quoted;
use crate::walk::visit_mut;

/// The view in the rewritten select, which no name of a statement is.
const RELATION: &str = "__view";

/// The select and its order over a view; `None` if the view can't answer it. Of rows before `since` the view may have others than the table.
pub(super) fn over_view(
    (select, order): (&Select, Option<&OrderBy>),
    grouped: &GroupedView,
    since: ViewCoverage,
    state: &SessionState,
    names: &[String],
) -> Option<(Select, Option<OrderBy>)> {
    if !is_plain(select) || order.is_some_and(|order| order.interpolate.is_some()) {
        return None;
    }
    let scope = Scope::of(select, &grouped.table, &grouped.columns, &grouped.time)?;
    let keys = keys_of(select, &scope, state)?;
    let is_grouped = !keys.is_empty()
        || matches!(select.distinct, Some(Distinct::Distinct))
        || select.projection.iter().filter_map(expression_of).any(|item| aggregates(item, state));
    if !is_grouped {
        return None;
    }
    let spellings: HashSet<String> = keys.iter().map(|key| scope.spelling(key)).collect();
    let aliases = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.to_lowercase()),
        _ => None,
    });
    let mut over = SelectOverView {
        grouped,
        scope: &scope,
        state,
        since,
        keys: spellings,
        aliases: aliases.collect(),
        used: BTreeSet::new(),
    };
    let mut written = select.clone();
    written.selection = over.conditions(select.selection.as_ref())?;
    for (place, item) in written.projection.iter_mut().enumerate() {
        *item = over.item(item, names.get(place))?;
    }
    if let GroupByExpr::Expressions(written, _) = &mut written.group_by {
        *written = keys.iter().map(|key| over.expression(key, Role::Key)).collect::<Option<_>>()?;
    }
    for condition in written.having.iter_mut().chain(&mut written.qualify) {
        *condition = over.expression(condition, Role::Result)?;
    }
    let mut ordered = order.cloned();
    if let Some(OrderBy { kind: OrderByKind::Expressions(sorted), .. }) = &mut ordered {
        for OrderByExpr { expr, .. } in sorted {
            *expr = over.expression(expr, Role::Result)?;
        }
    }
    written.from = over.relation()?;
    Some((written, ordered))
}

/// Whether a select has only clauses that are handled here.
fn is_plain(select: &Select) -> bool {
    !matches!(select.distinct, Some(Distinct::On(_)))
        && select.optimizer_hints.is_empty()
        && select.select_modifiers.is_none()
        && select.top.is_none()
        && select.exclude.is_none()
        && select.into.is_none()
        && select.lateral_views.is_empty()
        && select.prewhere.is_none()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.named_window.is_empty()
        && select.value_table_mode.is_none()
        && select.flavor == SelectFlavor::Standard
}

/// The clause in which an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Condition,
    Key,
    Item,
    /// In `HAVING`, `QUALIFY` or `ORDER BY`, where the alias of an item goes before a column.
    Result,
}

/// A select that is being written over a view.
struct SelectOverView<'a> {
    grouped: &'a GroupedView,
    scope: &'a Scope<'a>,
    state: &'a SessionState,
    since: ViewCoverage,
    /// The group keys of the select, as written.
    keys: HashSet<String>,
    aliases: HashSet<String>,
    /// Columns of the view that it reads.
    used: BTreeSet<usize>,
}

impl SelectOverView<'_> {
    /// The condition over the view, without what holds for all of its rows.
    fn conditions(&mut self, condition: Option<&Expr>) -> Option<Option<Expr>> {
        let own = &self.grouped.conditions;
        let conjuncts = condition.into_iter().flat_map(conjuncts);
        let (met, others): (Vec<_>, Vec<_>) =
            conjuncts.map(|one| (self.scope.spelling(one), one)).partition(|(spelling, _)| own.contains(spelling));
        if !own.iter().all(|condition| met.iter().any(|(spelling, _)| spelling == condition)) {
            return None;
        }
        let mut texts = Vec::new();
        for (_, conjunct) in others {
            texts.push(format!("({})", self.expression(conjunct, Role::Condition)?));
        }
        if self.since.bound != i64::MIN {
            let (place, _) = self.grouped.bucket.as_ref()?;
            texts.push(format!("{} >= {}", self.column(*place), super::super::instant(self.since.bound)));
        }
        if texts.is_empty() { Some(None) } else { expression(&texts.join(" AND ")).map(Some) }
    }

    /// An item with a name that doesn't depend on how it is written.
    fn item(&mut self, item: &SelectItem, name: Option<&String>) -> Option<SelectItem> {
        let (expr, alias) = match item {
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
            SelectItem::UnnamedExpr(expr) => {
                let name = name.cloned().or_else(|| self.scope.column(expr))?;
                (expr, Ident::with_quote('"', name.replace('"', "\"\"")))
            }
            _ => return None,
        };
        Some(SelectItem::ExprWithAlias { expr: self.expression(expr, Role::Item)?, alias })
    }

    fn expression(&mut self, expr: &Expr, role: Role) -> Option<Expr> {
        let mut written = expr.clone();
        let mut visitor = SelectRewrite { over: self, role, within: 0 };
        visit_mut(&mut written, &mut visitor).is_continue().then_some(written)
    }

    /// `FROM` with the columns that are read, under names that no other name is.
    fn relation(&self) -> Option<Vec<TableWithJoins>> {
        let columns =
            self.used.iter().map(|place| format!("{} AS {}", quoted(&self.grouped.names[*place]), inner(*place)));
        let columns = columns.collect::<Vec<_>>().join(", ");
        if columns.is_empty() {
            return None;
        }
        let text = format!("SELECT 1 FROM (SELECT {columns} FROM {}) AS \"{RELATION}\"", quoted(&self.grouped.view));
        let query = Parser::new(&GenericDialect {}).try_with_sql(&text).ok()?.parse_query().ok()?;
        query.body.as_select().map(|select| select.from.clone())
    }

    /// A column of the view.
    fn column(&mut self, place: usize) -> String {
        self.used.insert(place);
        format!("\"{RELATION}\".{}", inner(place))
    }

    /// The replacement of an expression; `None` if its operands are to be replaced instead. Breaks if the view lacks it.
    fn replacement(&mut self, expr: &Expr, role: Role) -> ControlFlow<(), Option<Expr>> {
        let spelling = self.scope.spelling(expr);
        let is_alias =
            |expr: &Expr| matches!(expr, Expr::Identifier(name) if self.aliases.contains(&name.value.to_lowercase()));
        if role == Role::Result && is_alias(expr) {
            return ControlFlow::Continue(None);
        }
        if let Some(place) = self.grouped.keys.get(&spelling) {
            return replaced_by(&self.column(*place));
        }
        if role != Role::Condition
            && self.has_same_groups()
            && let Some(place) = self.grouped.values.get(&spelling)
        {
            // The only row of its group.
            let order = self.grouped.keys.values().next().copied().unwrap_or_default();
            return replaced_by(&format!("first({} ORDER BY {})", self.column(*place), self.column(order)));
        }
        match expr {
            Expr::Function(call) if call.over.is_none() && is_aggregate(call, self.state) => {
                let text =
                    if role == Role::Condition || role == Role::Key { None } else { self.aggregate(call, &spelling) };
                text.map_or(ControlFlow::Break(()), |text| replaced_by(&text))
            }
            Expr::Function(_) => match self.bucket(expr) {
                Some(coarser) => ControlFlow::Continue(Some(coarser)),
                None => ControlFlow::Continue(None),
            },
            Expr::BinaryOp { .. } | Expr::Between { .. } if role == Role::Condition => {
                ControlFlow::Continue(self.bound(expr).and_then(|text| expression(&text)))
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => match self.scope.column(expr) {
                Some(column) if column == DATE_COLUMN => {
                    self.date().map_or(ControlFlow::Break(()), |text| replaced_by(&text))
                }
                None if role != Role::Condition && is_alias(expr) => ControlFlow::Continue(None),
                _ => ControlFlow::Break(()),
            },
            Expr::GroupingSets(_)
            | Expr::Cube(_)
            | Expr::Rollup(_)
            | Expr::CompoundFieldAccess { .. }
            | Expr::Wildcard(_)
            | Expr::QualifiedWildcard(..)
            | Expr::Lambda(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(None),
        }
    }

    /// Whether each group of the select is one of the view's.
    fn has_same_groups(&self) -> bool {
        self.grouped.keys.keys().all(|key| self.keys.contains(key))
    }

    /// The date of the table's rows, if that of their bucket is the same.
    fn date(&mut self) -> Option<String> {
        let place = self.grouped.has_dates(self.since.earliest)?;
        let start = self.grouped.day_start.as_ref().map_or_else(String::new, |start| format!(", '{start}'"));
        Some(format!("{LOCAL_DATE}({}, '{}'{start})", self.column(place), self.grouped.zone.name()))
    }

    /// A bucket of the time that is made of whole buckets of the view.
    fn bucket(&mut self, expr: &Expr) -> Option<Expr> {
        let timeline = self.scope.timeline(expr, self.state)?;
        let (place, finer) = self.grouped.bucket.as_ref()?;
        if !timeline.is_made_of(finer, self.since.earliest) {
            return None;
        }
        let column = expression(&self.column(*place))?;
        let mut coarser = unnested(expr).clone();
        let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut coarser else { return None };
        let time = list.args.get_mut(1)?;
        *time = FunctionArg::Unnamed(FunctionArgExpr::Expr(column));
        Some(coarser)
    }

    /// A bound of the time at which a bucket begins, as one of the buckets.
    fn bound(&mut self, expr: &Expr) -> Option<String> {
        use BinaryOperator::{Gt, GtEq, Lt, LtEq};
        let (place, finer) = self.grouped.bucket.as_ref()?;
        let begins = |bound: &Expr, is_behind: bool| {
            let instant = instant(bound, self.state)?.checked_add(i64::from(is_behind))?;
            finer.begins_at(instant).then_some(())
        };
        match expr {
            Expr::BinaryOp { left, op, right } => {
                let (bound, op) = if self.scope.is_time(left) {
                    (right, op.clone())
                } else if self.scope.is_time(right) {
                    let turned = match op {
                        Gt => Lt,
                        GtEq => LtEq,
                        Lt => Gt,
                        LtEq => GtEq,
                        _ => return None,
                    };
                    (left, turned)
                } else {
                    return None;
                };
                match op {
                    GtEq | Lt => begins(bound, false)?,
                    Gt | LtEq => begins(bound, true)?,
                    _ => return None,
                }
                Some(format!("{} {op} {bound}", self.column(*place)))
            }
            Expr::Between { expr, negated: false, low, high } if self.scope.is_time(expr) => {
                begins(low, false)?;
                begins(high, true)?;
                Some(format!("{} BETWEEN {low} AND {high}", self.column(*place)))
            }
            _ => None,
        }
    }

    /// An aggregate over the values of the view's groups.
    fn aggregate(&mut self, call: &Function, spelling: &str) -> Option<String> {
        let name = name_of(call);
        let FunctionArguments::List(list) = &call.args else { return None };
        if list.duplicate_treatment.is_some() || call.null_treatment.is_some() || !call.within_group.is_empty() {
            return None;
        }
        let place = self.grouped.values.get(spelling).copied();
        match (name.as_str(), list.clauses.as_slice()) {
            ("sum" | "min" | "max" | "bool_and" | "bool_or", []) => Some(format!("{name}({})", self.column(place?))),
            ("count", []) => Some(format!("coalesce(sum({}), 0)", self.column(place?))),
            ("avg" | "mean", []) => {
                let other = |name: &str| {
                    let mut other = call.clone();
                    other.name = vec![Ident::new(name)].into();
                    self.grouped.values.get(&self.scope.spelling(&Expr::Function(other))).copied()
                };
                let (sum, count) = (other("sum")?, other("count")?);
                let (sum, count) = (self.column(sum), self.column(count));
                Some(format!("CAST(sum({sum}) AS DOUBLE) / CAST(sum({count}) AS DOUBLE)"))
            }
            ("first" | "last", clauses) if call.filter.is_none() => {
                let (bucket, _) = *self.grouped.bucket.as_ref()?;
                let is_by_time = match clauses {
                    [] => self.grouped.symbol.as_ref().is_none_or(|symbol| self.keys.contains(symbol)),
                    [FunctionArgumentClause::OrderBy(by)] => self.is_time_ascending(by),
                    _ => false,
                };
                let others = self.grouped.keys.iter().filter(|(_, place)| **place != bucket);
                if !is_by_time || !others.into_iter().all(|(key, _)| self.keys.contains(key)) {
                    return None;
                }
                let value = self.column(place?);
                Some(format!("{name}({value} ORDER BY {})", self.column(bucket)))
            }
            _ => None,
        }
    }

    fn is_time_ascending(&self, by: &[OrderByExpr]) -> bool {
        let [OrderByExpr { expr, options, with_fill: None }] = by else { return false };
        self.scope.is_time(expr) && options.asc != Some(false) && options.nulls_first.is_none()
    }
}

struct SelectRewrite<'a, 'b> {
    over: &'a mut SelectOverView<'b>,
    role: Role,
    /// Expressions that are open within one that was replaced, that one among them.
    within: usize,
}

impl VisitorMut for SelectRewrite<'_, '_> {
    type Break = ();

    /// A query within sees the columns of the table.
    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.within > 0 {
            self.within += 1;
            return ControlFlow::Continue(());
        }
        if let Some(other) = self.over.replacement(expr, self.role)? {
            *expr = other;
            self.within = 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<()> {
        self.within = self.within.saturating_sub(1);
        ControlFlow::Continue(())
    }
}

/// Name of a column of the view in the rewritten select.
fn inner(place: usize) -> String {
    format!("\"__{place}\"")
}

fn replaced_by(text: &str) -> ControlFlow<(), Option<Expr>> {
    match expression(text) {
        Some(expr) => ControlFlow::Continue(Some(Expr::Nested(Box::new(expr)))),
        None => ControlFlow::Break(()),
    }
}

fn expression(text: &str) -> Option<Expr> {
    Parser::new(&GenericDialect {}).try_with_sql(text).ok()?.parse_expr().ok()
}
