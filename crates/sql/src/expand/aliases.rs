//! Aliases of the select list in the rest of their select, as in DuckDB: `SELECT size * price AS amount, amount / 2 AS half … WHERE amount > 5`.
//!
//! - An alias means its expression in `WHERE`, `QUALIFY`, within keys of `GROUP BY`, and in later items. A column of `FROM` with the same
//!   name has precedence. Of two equal aliases the first counts.
//! - In `HAVING` an alias has precedence over a column. `GROUP BY alias` and `ORDER BY` are left to DataFusion's planner, which knows aliases there.
//! - A volatile expression, such as `random()`, can't be named so: it would be evaluated several times.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Volatility;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, OneOrManyWithParens, Query, Select, SelectItem, VisitorMut,
};

use crate::error::{Result, fault};
use crate::syntax::SAMPLE;
use crate::walk::{any_expression, any_expression_outside_queries, each_expression, visit_mut};

/// Most nodes that all replacements of aliases may add.
const NODES_MAX: usize = 10_000;

/// Names of aliases that are used where a column of that name would be.
pub(super) fn used(select: &Select) -> HashSet<String> {
    let mut defined = HashSet::new();
    let mut used = HashSet::new();
    let aliases: HashSet<String> = select.projection.iter().filter_map(alias_of).collect();
    if aliases.is_empty() {
        return used;
    }
    for item in &select.projection {
        if !defined.is_empty()
            && let Some(expression) = expression_of(item)
        {
            collect(expression, &defined, &mut used);
        }
        defined.extend(alias_of(item));
    }
    for expression in select.selection.iter().chain(&select.qualify) {
        collect(expression, &aliases, &mut used);
    }
    if let GroupByExpr::Expressions(keys, _) = &select.group_by {
        keys.iter().filter(|key| is_key_of_ours(key)).for_each(|key| collect(key, &aliases, &mut used));
    }
    used
}

/// Names of aliases that `HAVING` reads.
pub(super) fn used_in_having(select: &Select) -> HashSet<String> {
    let mut used = HashSet::new();
    if let Some(having) = &select.having {
        let aliases: HashSet<String> = select.projection.iter().filter_map(alias_of).collect();
        collect(having, &aliases, &mut used);
    }
    used
}

/// Replaces aliases in `HAVING` by their expressions.
///
/// # Errors
/// As [`substitute`].
pub(super) fn substitute_in_having(select: &mut Select, names: &HashSet<String>, state: &SessionState) -> Result<()> {
    let mut meanings = AliasExpressions { of: HashMap::new(), nodes: 0 };
    for item in &select.projection {
        if let (Some(alias), Some(expression)) = (alias_of(item), expression_of(item))
            && names.contains(&alias)
            && !meanings.of.contains_key(&alias)
        {
            meanings.define(alias, expression, state);
        }
    }
    select.having.iter_mut().try_for_each(|having| meanings.put(having).map(|_| ()))
}

/// The alias of an item, unless the item is a column of that name.
fn alias_of(item: &SelectItem) -> Option<String> {
    let SelectItem::ExprWithAlias { alias, expr } = item else { return None };
    let column = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    let alias = alias.value.to_lowercase();
    column.is_none_or(|column| column.value.to_lowercase() != alias).then_some(alias)
}

fn expression_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Whether a key may have aliases that the planner doesn't know. The arguments of `SAMPLE BY` aren't expressions.
fn is_key_of_ours(key: &Expr) -> bool {
    match key {
        Expr::Identifier(_) => false,
        Expr::Function(call) => call.name.to_string() != SAMPLE,
        _ => true,
    }
}

/// Adds the names that an expression reads, outside of its queries.
fn collect(expression: &Expr, of: &HashSet<String>, used: &mut HashSet<String>) {
    any_expression_outside_queries(expression, |inner| {
        if let Expr::Identifier(name) = inner {
            used.extend(of.get(&name.value.to_lowercase()).cloned());
        }
        false
    });
}

/// Replaces the aliases of these names by their expressions.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for an expression whose value differs at each evaluation, and for expressions that grow too large.
pub(super) fn substitute(select: &mut Select, names: &HashSet<String>, state: &SessionState) -> Result<()> {
    let mut meanings = AliasExpressions { of: HashMap::new(), nodes: 0 };
    for item in &mut select.projection {
        let alias = alias_of(item);
        let expression = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr,
            _ => continue,
        };
        let written = expression.to_string().to_lowercase();
        let is_changed = meanings.put(expression)?;
        match alias {
            Some(alias) if names.contains(&alias) && !meanings.of.contains_key(&alias) => {
                meanings.define(alias, expression, state);
            }
            None if is_changed => {
                let expr = std::mem::replace(expression, Expr::Identifier(Ident::new("")));
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', written) };
            }
            _ => {}
        }
    }
    for expression in select.selection.iter_mut().chain(&mut select.qualify) {
        meanings.put(expression)?;
    }
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        for key in keys.iter_mut().filter(|key| is_key_of_ours(key)) {
            meanings.put(key)?;
        }
    }
    Ok(())
}

/// The expressions of aliases.
struct AliasExpressions {
    of: HashMap<String, AliasExpression>,
    /// Nodes that were added so far.
    nodes: usize,
}

struct AliasExpression {
    expression: Expr,
    nodes: usize,
    is_volatile: bool,
}

impl AliasExpressions {
    fn define(&mut self, alias: String, expression: &Expr, state: &SessionState) {
        let mut nodes = 0;
        each_expression(expression, |_| nodes += 1);
        let is_volatile = any_expression(expression, |inner| match inner {
            Expr::Function(call) => {
                let name = call.name.to_string().to_lowercase();
                let function = state.scalar_functions().get(&name);
                function.is_some_and(|function| function.signature().volatility == Volatility::Volatile)
            }
            _ => false,
        });
        self.of.insert(alias, AliasExpression { expression: expression.clone(), nodes, is_volatile });
    }

    /// Replaces aliases by their expressions, and returns whether there were any.
    fn put(&mut self, expression: &mut Expr) -> Result<bool> {
        if self.of.is_empty() {
            return Ok(false);
        }
        let mut hidden = HashSet::new();
        each_expression(expression, |inner| {
            if let Expr::Lambda(lambda) = inner {
                match &lambda.params {
                    OneOrManyWithParens::One(parameter) => drop(hidden.insert(parameter.name.value.to_lowercase())),
                    OneOrManyWithParens::Many(parameters) => {
                        hidden.extend(parameters.iter().map(|parameter| parameter.name.value.to_lowercase()));
                    }
                }
            }
        });
        let mut change =
            AliasSubstitution { of: &self.of, hidden, depth: 0, nodes: 0, volatile: None, is_changed: false };
        let _ = visit_mut(expression, &mut change);
        let AliasSubstitution { nodes, volatile, is_changed, .. } = change;
        if let Some(name) = volatile {
            return fault(format!(
                "the alias {name} has another value each time it is read: name it in a sub-query, and read it around that"
            ));
        }
        self.nodes += nodes;
        if self.nodes > NODES_MAX {
            return fault("the statement is too large: aliases that stand for others have too many parts");
        }
        Ok(is_changed)
    }
}

struct AliasSubstitution<'a> {
    of: &'a HashMap<String, AliasExpression>,
    /// Parameters of enclosing lambda functions, which take precedence over aliases.
    hidden: HashSet<String>,
    depth: usize,
    nodes: usize,
    volatile: Option<String>,
    is_changed: bool,
}

impl VisitorMut for AliasSubstitution<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let Expr::Identifier(name) = &*expression else { return ControlFlow::Continue(()) };
        let name = name.value.to_lowercase();
        if self.depth == 0
            && !self.hidden.contains(&name)
            && let Some(meaning) = self.of.get(&name)
        {
            self.nodes += meaning.nodes;
            self.is_changed = true;
            if meaning.is_volatile {
                self.volatile = Some(name);
            }
            if self.nodes > NODES_MAX || self.volatile.is_some() {
                return ControlFlow::Break(());
            }
            *expression = Expr::Nested(Box::new(meaning.expression.clone()));
        }
        ControlFlow::Continue(())
    }
}
