//! Completes a parsed statement where DataFusion's planner would give it another meaning than SQL.
//!
//! - A named window becomes its definition wherever it is used. The planner looks for names in the select list alone, and leaves out what a
//!   window inherits: <https://www.postgresql.org/docs/current/sql-select.html#SQL-WINDOW> has the rules.
//! - `FROM t` without a select list selects all columns, as in DuckDB.
//! - `ANY`, `ALL`, `(a, b) IN` and `IN (VALUES …)` of a query become what is planned without a comparison of each row with each (`row_comparisons.rs`).
//! - Columns of a select list that would have one name get different ones: the planner refuses `x, x`, and `x, cast(x AS int)`, since it leaves a
//!   cast out of a name. Those of a statement's own select list are called in the answer as they were. Casts within calls and keys that would
//!   have one name are named as they are written (`casts.rs`).
//! - `arg_max(x, y)` is `first(x ORDER BY y DESC)` of the rows in which neither is null, and `strftime` is `to_char`; other names of functions are
//!   in `calls.rs`, `names_of_calls.rs` and `templates.rs`. Patterns of `to_char` may be PostgreSQL's (`time_patterns.rs`).
//! - `ARRAY(SELECT …)` is a call of a query as a value (`array_queries.rs`).
//! - Types in casts may have the names of DuckDB and PostgreSQL (`type_names.rs`).
//! - `unnest` in `FROM` has PostgreSQL's names, and `WITH ORDINALITY` (`unnest.rs`).
//! - Differences with another sign, slices, intervals in other words: `forms.rs`. Tables of `WITH` that hide others: `hidden_tables.rs`, before all else.
//! - `FETCH FIRST n ROWS ONLY` is `LIMIT n`, `ORDER BY ALL` the order by all columns, `SEMI JOIN` and `ANTI JOIN` those of the left side, and
//!   `QUALIFY` may read no window where the select list does (`clauses.rs`).
//! - `ROLLUP` and `CUBE` are written out as sets (`grouping_sets.rs`).
//! - `0.06 + 0.01` is 0.07 (`exact_numbers.rs`).
//! - `ORDER BY t.x` is that column, also where an alias is called `x` (`order_keys.rs`).
//! - Relations with the name of a column of a sub-query that reads them get another: `outer_relations.rs`, where planning failed without it.
//! - The `ORDER BY` of a call over a window, and offsets of its frame that aren't literals, go where `over_frames.rs` of `functions` finds them.
//! - A number of more digits than a float has keeps them beside a comparison and in a cast to a decimal (`long_numbers.rs`).
//! - `a IS [NOT] DISTINCT FROM b AND c` is `(a IS … b) AND c`. The parser takes all that follows for the second operand.

mod calls;
mod casts;
mod clauses;
mod exact_numbers;
mod forms;
mod grouping_sets;
mod hidden_tables;
mod names_of_calls;
mod order_keys;
mod outer_relations;
mod row_comparisons;
mod templates;
mod time_patterns;
mod type_names;
mod unnest;
mod value_parameters;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, ExcludeSelectItem, Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select,
    SelectFlavor, SelectItem, SetExpr, UnaryOperator, VisitorMut, WildcardAdditionalOptions, WindowSpec, WindowType,
};

pub(crate) use self::hidden_tables::name_apart as name_hidden_tables_apart;
pub(crate) use self::outer_relations::{FieldPlanner, name_apart as name_outer_relations_apart};
use self::row_comparisons::Comparisons;
use crate::array_queries;
use crate::error::{Error, Result};
use crate::long_numbers;
use crate::names::{SAME_NAME, is_title};
use crate::walk::{change_expressions, visit_mut};

/// Completes a statement.
///
/// # Errors
/// [`Error::Statement`] for a window that isn't defined, or that can't be the base of another.
pub(crate) fn resolve(statement: &mut Statement, state: &SessionState) -> Result<()> {
    match statement {
        Statement::Statement(statement) => {
            match visit_mut(statement, &mut Resolver { scopes: Vec::new(), compared: Comparisons { state, number: 0 } })
            {
                ControlFlow::Break(error) => Err(error),
                ControlFlow::Continue(()) => Ok(()),
            }
        }
        Statement::Explain(explain) => resolve(&mut explain.statement, state),
        _ => Ok(()),
    }
}

/// Definitions of one select by folded name.
type Windows = HashMap<String, WindowSpec>;

struct Resolver<'a> {
    /// The windows of each query and select around the visited place. A query has those of its select, for its `ORDER BY`.
    scopes: Vec<Windows>,
    compared: Comparisons<'a>,
}

impl Resolver<'_> {
    fn enter(&mut self, definitions: &[NamedWindowDefinition]) -> ControlFlow<Error> {
        match define(definitions) {
            Ok(windows) => {
                self.scopes.push(windows);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn leave(&mut self) -> ControlFlow<Error> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Resolver<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        clauses::complete_query(query);
        value_parameters::mark(&mut query.body);
        order_keys::name_apart(query);
        let order = query.order_by.as_mut().map(|order| &mut order.kind);
        if let (SetExpr::Select(select), Some(ast::OrderByKind::Expressions(keys))) = (query.body.as_mut(), order) {
            order_keys::name_repeated(select, keys);
            order_keys::write_places_out(select, keys, self.compared.state);
            casts::name_apart(select, keys);
        }
        match &*query.body {
            SetExpr::Select(select) => self.enter(&select.named_window),
            _ => self.enter(&[]),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.leave()
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            select.projection.push(SelectItem::Wildcard(WildcardAdditionalOptions::default()));
        }
        flow(unnest::complete(select))?;
        clauses::complete_joins(select);
        clauses::complete_qualify(select);
        clauses::complete_group(select, self.compared.state);
        grouping_sets::write_out(select);
        clauses::name_relations(select);
        casts::name_apart(select, &mut []);
        for column in &mut select.projection {
            calls::name_as_written(column);
            forms::keep_nulls(column);
            fold_exclusions(column);
        }
        if let Some(condition) = &mut select.selection {
            flow(self.compared.of_condition(condition))?;
        }
        self.enter(&select.named_window)
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        // Only its own query is around the select of a statement.
        name_apart(&mut select.projection, self.scopes.len() == 2);
        self.leave()
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Error> {
        let Expr::Function(ast::Function { over: Some(over), .. }) = expression else {
            return ControlFlow::Continue(());
        };
        let none = Windows::new();
        match resolve_window(over, self.scopes.last().unwrap_or(&none)) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(window)) => {
                *over = WindowType::WindowSpec(window);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Error> {
        bind_by_precedence(expression);
        flow(type_names::complete(expression))?;
        exact_numbers::compute(expression);
        long_numbers::keep_digits(expression);
        templates::other_operator(expression);
        templates::complete_zone(expression);
        forms::complete(expression);
        array_queries::mark(expression);
        flow(templates::rewrite_extract(expression))?;
        if let Expr::Function(call) = expression {
            let spelt = match names_of_calls::spelt_out(call) {
                Ok(None) => calls::spell_out(call).map(|()| None),
                other => other,
            };
            match spelt {
                Ok(Some(other)) => *expression = other,
                Ok(None) => {}
                Err(error) => return ControlFlow::Break(error),
            }
        }
        flow(self.compared.write_out(expression))
    }
}

fn flow(done: Result<()>) -> ControlFlow<Error> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// Folds the columns that `*` leaves out, like all names of a statement.
fn fold_exclusions(column: &mut SelectItem) {
    let (SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options)) = column else { return };
    let mut fold = |name: &mut Ident| name.value = name.value.to_lowercase();
    let parts = |name: &mut ast::ObjectName, fold: &mut dyn FnMut(&mut Ident)| {
        for part in &mut name.0 {
            if let ast::ObjectNamePart::Identifier(name) = part {
                fold(name);
            }
        }
    };
    match &mut options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => parts(name, &mut fold),
        Some(ExcludeSelectItem::Multiple(names)) => names.iter_mut().for_each(|name| parts(name, &mut fold)),
        None => {}
    }
    if let Some(except) = &mut options.opt_except {
        std::iter::once(&mut except.first_element).chain(&mut except.additional_elements).for_each(&mut fold);
    }
    for replaced in options.opt_replace.iter_mut().flat_map(|replace| &mut replace.items) {
        fold(&mut replaced.column_name);
    }
}

/// Gives columns with a duplicate name a name of their own: without an alias the text of the expression, otherwise the name and a number. The number
/// is removed from the answer of the statement's own select.
fn name_apart(columns: &mut [SelectItem], is_outermost: bool) {
    let mut names: HashSet<String> = HashSet::new();
    let mut of_relations: HashSet<String> = HashSet::new();
    let has_all = columns.iter().any(|column| match column {
        SelectItem::Wildcard(options) => *options == WildcardAdditionalOptions::default(),
        _ => false,
    });
    for column in columns {
        let (expression, alias_text) = match column {
            SelectItem::UnnamedExpr(expression) => (expression, None),
            // A title, or in the answer any alias.
            SelectItem::ExprWithAlias { expr, alias } if is_outermost || is_title(alias) => {
                (expr, Some(alias.value.to_lowercase()))
            }
            _ => continue,
        };
        let is_named = alias_text.is_some();
        // In lower case, as names of a statement are folded.
        let title = alias_text.or_else(|| title_of_query(expression).map(|title| title.to_lowercase()));
        let text = title.clone().unwrap_or_else(|| expression.to_string().to_lowercase());
        let name = title.unwrap_or_else(|| name_of(expression).to_lowercase());
        // DataFusion distinguishes `t.x` from `q.x`, but neither from an `x` without a relation.
        let last_part = match (&*expression, is_named) {
            (Expr::CompoundIdentifier(parts), false) => parts.last().map(|part| part.value.to_lowercase()),
            _ => None,
        };
        let is_in_all = has_all && matches!(without_casts(expression), Expr::Identifier(_)) && text == name;
        let is_taken = match &last_part {
            Some(part) => names.contains(part),
            None => of_relations.contains(&name),
        };
        if !is_in_all && !is_taken && names.insert(name.clone()) {
            of_relations.extend(last_part);
            continue;
        }
        // In the answer a column of a relation has its name without the relation.
        let (name, text) = match last_part {
            Some(part) => (part.clone(), part),
            None => (name, text),
        };
        let mark = if is_outermost { SAME_NAME } else { '_' };
        let numbered = (1..).map(|number| format!("{name}{mark}{number}"));
        let written = (text != name).then_some(text);
        let Some(free) = written.into_iter().chain(numbered).find(|name| names.insert(name.clone())) else {
            continue;
        };
        let expr = std::mem::replace(expression, nothing());
        *column = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', free) };
    }
}

/// The name of a column that is a query's value: that of the query's column.
fn title_of_query(expression: &Expr) -> Option<String> {
    let query = match expression {
        Expr::Nested(inner) => return title_of_query(inner),
        Expr::Subquery(query) => query,
        _ => return None,
    };
    match query.body.as_select()?.projection.as_slice() {
        [SelectItem::ExprWithAlias { alias, .. }] => Some(alias.value.clone()),
        [SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts))] => parts.last().map(|part| part.value.clone()),
        [SelectItem::UnnamedExpr(column)] => Some(title_of_query(column).unwrap_or_else(|| name_of(column))),
        _ => None,
    }
}

/// The name that the planner gives a column: the expression without its casts, and without what its queries read.
fn name_of(expression: &Expr) -> String {
    let mut named = expression.clone();
    change_expressions(&mut named, |inner| {
        *inner = match without_casts(inner) {
            Expr::TypedString(text) => Expr::Value(text.value.clone()),
            Expr::Identifier(name) => Expr::Identifier(Ident::new(name.value.clone())),
            Expr::CompoundIdentifier(parts) => {
                Expr::CompoundIdentifier(parts.iter().map(|part| Ident::new(part.value.clone())).collect())
            }
            Expr::Subquery(_) => Expr::Identifier(Ident::new("(<subquery>)")),
            Expr::Exists { negated, .. } => {
                Expr::Identifier(Ident::new(if *negated { "NOT EXISTS" } else { "EXISTS" }))
            }
            other => other.clone(),
        }
    });
    match named {
        Expr::Identifier(name) => name.value,
        other => other.to_string(),
    }
}

fn without_casts(expression: &Expr) -> &Expr {
    match expression {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => without_casts(expr),
        // A cast to the type of times in the zone.
        Expr::AtTimeZone { timestamp, .. } => without_casts(timestamp),
        other => other,
    }
}

/// The full window of a call, if it refers to a named one.
fn resolve_window(over: &WindowType, windows: &Windows) -> Result<Option<WindowSpec>> {
    match over {
        WindowType::NamedWindow(name) => find(name, windows).cloned().map(Some),
        WindowType::WindowSpec(window) if window.window_name.is_some() => inherit_window(window, windows).map(Some),
        WindowType::WindowSpec(_) => Ok(None),
    }
}

/// The definitions of a `WINDOW` clause. Each may refer to those before it.
fn define(definitions: &[NamedWindowDefinition]) -> Result<Windows> {
    let mut windows = Windows::new();
    for NamedWindowDefinition(name, definition) in definitions {
        let window = match definition {
            NamedWindowExpr::NamedWindow(other) => find(other, &windows)?.clone(),
            NamedWindowExpr::WindowSpec(window) => inherit_window(window, &windows)?,
        };
        if windows.insert(name.value.to_lowercase(), window).is_some() {
            return Err(Error::Statement { message: format!("the window {name} is defined twice") });
        }
    }
    Ok(windows)
}

fn find<'a>(name: &Ident, windows: &'a Windows) -> Result<&'a WindowSpec> {
    let missing = || Error::Statement { message: format!("the window {name} is not defined here") };
    windows.get(&name.value.to_lowercase()).ok_or_else(missing)
}

/// A window with the parts that it inherits from the window that it names.
fn inherit_window(window: &WindowSpec, windows: &Windows) -> Result<WindowSpec> {
    let Some(name) = &window.window_name else { return Ok(window.clone()) };
    let base = find(name, windows)?;
    let faults = [
        (!window.partition_by.iter().all(calls::is_marker), "can't be given another PARTITION BY"),
        (!window.order_by.is_empty() && !base.order_by.is_empty(), "has an ORDER BY already"),
        (base.window_frame.is_some(), "has a frame, so that only OVER without brackets can name it"),
    ];
    if let Some((_, fault)) = faults.iter().find(|(is_there, _)| *is_there) {
        return Err(Error::Statement { message: format!("the window {name} {fault}") });
    }
    let order_by = if window.order_by.is_empty() { &base.order_by } else { &window.order_by };
    Ok(WindowSpec {
        window_name: None,
        partition_by: base.partition_by.iter().chain(&window.partition_by).cloned().collect(),
        order_by: order_by.clone(),
        window_frame: window.window_frame.clone(),
    })
}

/// Moves `AND`, `OR` and a leading `NOT` above the `IS DISTINCT FROM` that captured them. The operands are already in order.
fn bind_by_precedence(expression: &mut Expr) {
    let swallows = match &*expression {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => logical(right).is_some(),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => logical(expr).is_some(),
        Expr::BinaryOp { right, .. } => logical(expression).zip(logical(right)).is_some_and(|(op, below)| below < op),
        _ => false,
    };
    if !swallows {
        return;
    }
    let mut chain = Chain::default();
    match std::mem::replace(expression, nothing()) {
        Expr::IsDistinctFrom(left, right) => {
            chain.take(*right);
            chain.wrap_first(|first| Expr::IsDistinctFrom(left, Box::new(first)));
        }
        Expr::IsNotDistinctFrom(left, right) => {
            chain.take(*right);
            chain.wrap_first(|first| Expr::IsNotDistinctFrom(left, Box::new(first)));
        }
        Expr::UnaryOp { op, expr } => {
            chain.take(*expr);
            chain.wrap_first(|first| Expr::UnaryOp { op, expr: Box::new(first) });
        }
        other => chain.take(other),
    }
    *expression = chain.bound();
}

/// The precedence of an `OR` or `AND` without brackets around it.
fn logical(expression: &Expr) -> Option<u8> {
    match expression {
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => Some(0),
        Expr::BinaryOp { op: BinaryOperator::And, .. } => Some(1),
        _ => None,
    }
}

fn nothing() -> Expr {
    Expr::Identifier(Ident::new(""))
}

/// Operands of `AND` and `OR` in the order of the text, and the operator behind each but the last.
#[derive(Default)]
struct Chain {
    operands: Vec<Expr>,
    operators: Vec<BinaryOperator>,
}

impl Chain {
    fn take(&mut self, expression: Expr) {
        match expression {
            Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
                self.take(*left);
                self.operators.push(op);
                self.take(*right);
            }
            other => self.operands.push(other),
        }
    }

    fn wrap_first(&mut self, wrap: impl FnOnce(Expr) -> Expr) {
        if let Some(first) = self.operands.first_mut() {
            *first = wrap(std::mem::replace(first, nothing()));
        }
    }

    /// The operands of each `AND` first, then those of `OR`.
    fn bound(self) -> Expr {
        let join = |left, op, right| Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) };
        let mut operands = self.operands.into_iter();
        let mut below = operands.next().unwrap_or_else(nothing);
        let mut above: Option<Expr> = None;
        for (op, operand) in self.operators.into_iter().zip(operands) {
            if op == BinaryOperator::And {
                below = join(below, op, operand);
            } else {
                let done = std::mem::replace(&mut below, operand);
                above = Some(match above {
                    Some(above) => join(above, op, done),
                    None => done,
                });
            }
        }
        match above {
            Some(above) => join(above, BinaryOperator::Or, below),
            None => below,
        }
    }
}
