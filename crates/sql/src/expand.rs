//! Expands forms of a select that depend on the columns of its `FROM`.
//!
//! | Form | File |
//! | --- | --- |
//! | `COLUMNS('regex')`, `COLUMNS(*)`, `* RENAME`, `* ILIKE` and their kin | `stars.rs` over `column_selection.rs` |
//! | an alias of the select list in `WHERE`, `QUALIFY`, keys and later items | `aliases.rs` |
//! | keys of joins `USING` and `NATURAL` | `using.rs` |
//! | `SAMPLE BY` | `sample_by.rs` over `fills.rs` |
//!
//! The parsed statement is walked, sub-queries and common table expressions first. Where a select needs columns, the walk ends with the question
//! `SELECT * FROM …`; then the walk begins anew, with the answer. Tables answer it by their schemas (`tables.rs`), other relations are planned
//! (`relation.rs`). A statement without such a form asks nothing.

mod aliases;
mod column_selection;
mod fills;
mod relation;
mod sample_by;
mod stars;
mod tables;
mod using;

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::{Column, DFSchema};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, OrderByKind, Query, Select, SelectItem, SetExpr, TableWithJoins, VisitorMut, With,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use self::relation::Relation;
use self::sample_by::SampleClause;
use crate::dialect::BoundedDialect;
use crate::error::{Error, Result, fault};
use crate::limits::PARSER_DEPTH_MAX;
use crate::walk::visit_mut;

/// Expands these forms, and returns whether there were any.
///
/// # Errors
/// [`Error::Statement`], wrapped, for a form that names what isn't there.
pub(crate) async fn expand(statement: &mut Statement, state: &SessionState, has_joins: bool) -> DataFusionResult<bool> {
    let inner = match statement {
        Statement::Statement(inner) => inner,
        Statement::Explain(explain) => return Box::pin(expand(&mut explain.statement, state, has_joins)).await,
        _ => return Ok(false),
    };
    let mut relations = HashMap::new();
    loop {
        let mut tried = inner.clone();
        let mut expander = Expander::new(&relations, state);
        let walked = visit_mut(&mut tried, &mut expander);
        let is_expanded = expander.is_expanded;
        match walked {
            ControlFlow::Continue(()) => {
                *inner = tried;
                return Ok(is_expanded);
            }
            ControlFlow::Break(Halt::Ask(query)) => {
                let from_text = query.to_string();
                let answer = Relation::of(*query, state, has_joins).await;
                relations.insert(from_text, answer.map_err(|error| error.strip_backtrace()));
            }
            ControlFlow::Break(Halt::Fail(error)) => return Err(DataFusionError::External(Box::new(error))),
        }
    }
}

/// If an expression is a call of `COLUMNS`, the columns of a schema that it selects, and their names.
///
/// # Errors
/// [`Error::Statement`], wrapped, for columns that aren't there.
pub(crate) fn columns_of(expression: &Expr, schema: &DFSchema) -> DataFusionResult<Option<Vec<(Column, String)>>> {
    let listed = stars::places(expression, &Relation::of_schema(schema));
    let places = listed.map_err(|error| DataFusionError::External(Box::new(error)))?;
    let all = schema.columns();
    Ok(places.map(|places| places.into_iter().map(|place| (all[place].clone(), all[place].name.clone())).collect()))
}

/// The reason why a walk ends early.
enum Halt {
    /// The columns of this query aren't known yet.
    Ask(Box<Query>),
    Fail(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Fail(error)
    }
}

type HaltResult<T> = std::result::Result<T, Halt>;

/// A query that is being visited.
#[derive(Default)]
struct Scope {
    /// Its common table expressions, once they are expanded.
    with: Option<With>,
    /// The number of tables in scope before it.
    tables_before: usize,
    /// The `SAMPLE BY` of its select.
    sampled: Option<SampleClause>,
    /// The expressions for which names of its select stand.
    names: Vec<(String, Expr)>,
}

struct Expander<'a> {
    relations: &'a HashMap<String, Result<Relation, String>>,
    state: &'a SessionState,
    /// Common table expressions in scope, expanded.
    tables: Vec<Cte>,
    scopes: Vec<Scope>,
    is_expanded: bool,
}

impl<'a> Expander<'a> {
    fn new(relations: &'a HashMap<String, Result<Relation, String>>, state: &'a SessionState) -> Expander<'a> {
        Expander { relations, state, tables: Vec::new(), scopes: Vec::new(), is_expanded: false }
    }

    /// The columns of a select's `FROM`; `None` if it can't be planned and isn't needed.
    fn relation(&self, select: &Select, is_needed: bool) -> HaltResult<Option<&'a Relation>> {
        if select.from.is_empty() {
            return Ok(Some(&relation::EMPTY));
        }
        let query = self.question(select)?;
        match self.relations.get(&query.to_string()) {
            Some(Ok(relation)) => Ok(Some(relation)),
            Some(Err(message)) if is_needed => Err(Halt::Fail(Error::Statement { message: message.clone() })),
            Some(Err(_)) => Ok(None),
            None => Err(Halt::Ask(Box::new(query))),
        }
    }

    /// `SELECT * FROM …`.
    fn question(&self, select: &Select) -> HaltResult<Query> {
        let parsed = Parser::new(&GenericDialect {}).try_with_sql("SELECT *");
        let Ok(mut query) = parsed.and_then(|mut parser| parser.parse_query()) else {
            return Err(Halt::Fail(Error::Internal { message: "SELECT * isn't parsed".to_owned() }));
        };
        if let SetExpr::Select(all) = query.body.as_mut() {
            all.from.clone_from(&select.from);
        }
        if let (false, Ok(mut with)) = (self.tables.is_empty(), with_of("a AS (SELECT 1)")) {
            with.cte_tables.clone_from(&self.tables);
            query.with = Some(with);
        }
        Ok(*query)
    }

    fn enter(&mut self, query: &mut Query) -> HaltResult<()> {
        let mut scope = Scope { tables_before: self.tables.len(), ..Scope::default() };
        if let Some(mut with) = query.with.take() {
            let is_recursive = with.recursive;
            for table in &mut with.cte_tables {
                if is_recursive && let Some(begin) = begin_of_recursion(table) {
                    self.tables.push(begin);
                    from_flow(visit_mut(table.query.as_mut(), self))?;
                    self.tables.pop();
                } else {
                    from_flow(visit_mut(table.query.as_mut(), self))?;
                }
                self.tables.push(table.clone());
            }
            scope.with = Some(with);
        }
        self.scopes.push(scope);
        Ok(())
    }

    fn leave(&mut self, query: &mut Query) -> HaltResult<()> {
        let Some(scope) = self.scopes.pop() else { return Ok(()) };
        self.tables.truncate(scope.tables_before);
        query.with = scope.with;
        if let Some(sampled) = scope.sampled {
            sampled.order(query, self.scopes.is_empty());
        }
        Ok(())
    }

    fn expand_order(&mut self, query: &mut Query) -> HaltResult<()> {
        let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
        if let Some(order) = &mut query.order_by
            && stars::is_in_order(order)
            && let Some(relation) = self.relation(select, true)?
        {
            stars::expand_order(order, relation)?;
            self.is_expanded = true;
        }
        Ok(())
    }

    /// Merges the keys of joins of a select.
    fn merge_keys(&mut self, select: &mut Select) -> HaltResult<()> {
        let is_starred =
            stars::is_in_select(select) || select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
        if !using::is_in(select, is_starred) {
            return Ok(());
        }
        let mut columns = Vec::new();
        for relation in using::relations(select) {
            using::check(relation)?;
            let mut of_one = select.clone();
            of_one.from = vec![TableWithJoins { relation: relation.clone(), joins: Vec::new() }];
            let Some(columns_of_one) = self.relation(&of_one, false)? else { return Ok(()) };
            let columns_of_one: Vec<using::Column> = columns_of_one.columns.iter().map(using::Column::of).collect();
            using::check_names(select, &columns_of_one)?;
            columns.push(columns_of_one);
        }
        let Some(joined) = using::merge(select, columns) else { return Ok(()) };
        if stars::is_in_select(select) {
            stars::expand(select, &joined.relation)?;
        }
        stars::write_out(select, &joined.relation)?;
        using::put_names(select, &joined.names);
        if let Some(scope) = self.scopes.last_mut() {
            scope.names = joined.names;
        }
        self.is_expanded = true;
        Ok(())
    }

    /// Replaces names of the select in the query's `ORDER BY` by their expressions.
    fn put_names_in_order(&self, query: &mut Query) {
        let (SetExpr::Select(select), Some(scope)) = (query.body.as_ref(), self.scopes.last()) else { return };
        if let Some(OrderByKind::Expressions(keys)) = query.order_by.as_mut().map(|order| &mut order.kind) {
            keys.iter_mut().for_each(|key| using::put_names_in_key(&mut key.expr, &select.projection, &scope.names));
        }
    }

    fn expand_select(&mut self, select: &mut Select) -> HaltResult<()> {
        self.merge_keys(select)?;
        if stars::is_in_select(select)
            && let Some(relation) = self.relation(select, true)?
        {
            stars::expand(select, relation)?;
            self.is_expanded = true;
        }
        let mut used = aliases::used(select);
        if !used.is_empty()
            && let Some(relation) = self.relation(select, false)?
        {
            used.retain(|name| !relation.has(name));
            if !used.is_empty() {
                aliases::substitute(select, &used, self.state)?;
                self.is_expanded = true;
            }
        }
        let used = aliases::used_in_having(select);
        if !used.is_empty() {
            aliases::substitute_in_having(select, &used, self.state)?;
            self.is_expanded = true;
        }
        if sample_by::is_sampled(select)
            && let Some(relation) = self.relation(select, true)?
        {
            let sampled = sample_by::write_out(select, relation, self.state)?;
            if let Some(scope) = self.scopes.last_mut() {
                scope.sampled = Some(sampled);
            }
            self.is_expanded = true;
        }
        Ok(())
    }
}

impl VisitorMut for Expander<'_> {
    type Break = Halt;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Halt> {
        flow(self.enter(query))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Halt> {
        self.put_names_in_order(query);
        let expanded = self.expand_order(query);
        flow(expanded)?;
        flow(self.leave(query))
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Halt> {
        flow(self.expand_select(select))
    }
}

fn flow(done: HaltResult<()>) -> ControlFlow<Halt> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(halt) => ControlFlow::Break(halt),
    }
}

fn from_flow(flow: ControlFlow<Halt>) -> HaltResult<()> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(halt) => Err(halt),
    }
}

/// A recursive table as its own query sees it: with the columns of its first rows.
fn begin_of_recursion(table: &Cte) -> Option<Cte> {
    let SetExpr::SetOperation { left, .. } = table.query.body.as_ref() else { return None };
    let mut begin = table.clone();
    *begin.query.body = left.as_ref().clone();
    begin.query.order_by = None;
    begin.query.limit_clause = None;
    Some(begin)
}

fn with_of(text: &str) -> Result<With> {
    let query = format!("WITH {text} SELECT 1");
    let dialect = BoundedDialect::of_statement(&query);
    let parsed = Parser::new(&dialect).with_recursion_limit(PARSER_DEPTH_MAX).try_with_sql(&query);
    match parsed.and_then(|mut parser| parser.parse_query()).map(|query| query.with) {
        Ok(Some(with)) => Ok(with),
        _ => fault(format!("{text} isn't a table of WITH")),
    }
}

/// An expression by its text.
///
/// # Errors
/// [`Error::Statement`] for a text that isn't one.
fn expression_of(text: &str) -> Result<Expr> {
    let dialect = BoundedDialect::of_statement(text);
    let parsed = Parser::new(&dialect).with_recursion_limit(PARSER_DEPTH_MAX).try_with_sql(text);
    match parsed.and_then(|mut parser| parser.parse_expr()) {
        Ok(expression) => Ok(expression),
        Err(error) => fault(error.to_string()),
    }
}
