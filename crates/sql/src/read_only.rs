//! Refuses statements that change a table, a setting or a file, that are too large to be planned, or that no operator executes.
//!
//! The parsed statement decides, before it is planned: the result is the same whether the object of a change exists
//! or not. The statements that read are listed, so a statement that a later parser learns is refused.

use std::ops::ControlFlow;

use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Select, Visitor};
use splay_functions::with_own_calendars;

use crate::array_queries;
use crate::dialect;
use crate::error::{Error, reason_of_session};
use crate::expand::expand;
use crate::hints;
use crate::joins;
use crate::limits::{self, StatementLimits};
use crate::names::QueryColumns;
use crate::resolve::{name_hidden_tables_apart, name_outer_relations_apart, resolve};
use crate::statements::FIRST_WORDS;
use crate::unnest_joins;
use crate::unsupported;
use crate::walk::visit;

/// Plans a statement that only reads, and returns its spelling of columns. `has_joins` says whether its joins were rewritten.
///
/// # Errors
/// [`Error::ReadOnly`], wrapped, for any other; those of DataFusion.
pub(crate) async fn plan(
    state: &SessionState,
    text: &str,
    has_joins: bool,
) -> DataFusionResult<(LogicalPlan, QueryColumns)> {
    let mut statement = dialect::parse(text, state)?;
    describe_columns(&mut statement);
    if is_show_tables(&statement) {
        statement = dialect::parse(TABLES_AND_VIEWS, state)?;
    }
    if let ControlFlow::Break(error) = check(&statement, state) {
        return Err(to_datafusion(error));
    }
    let written = QueryColumns::of(&statement);
    name_hidden_tables_apart(&mut statement);
    if expand(&mut statement, state, has_joins).await?
        && let ControlFlow::Break(error) = check(&statement, state)
    {
        return Err(to_datafusion(error));
    }
    resolve(&mut statement, state).map_err(to_datafusion)?;
    if has_joins {
        joins::arrange(&mut statement)?;
    }
    let plan = unoptimized(state, statement).await?;
    let plan = unnest_joins::without_joins(plan)?;
    let plan = array_queries::as_aggregates(plan)?;
    limits::check_plan(&plan)?;
    let plan = with_own_calendars(plan, state.config())?;
    // Our own list of reading statements was checked; this check is DataFusion's.
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    options.verify_plan(&plan).map_err(|_| to_datafusion(refusal("a statement within the statement")))?;
    Ok((plan, written))
}

/// The statement that `SHOW TABLES` is: what the database has, without the tables of schemas that describe it. Those with the rows of materialized
/// views come last.
const TABLES_AND_VIEWS: &str = "SELECT * FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name LIKE '%.rows', table_name";

/// Whether a statement is `SHOW TABLES` alone.
fn is_show_tables(statement: &Statement) -> bool {
    let Statement::Statement(shown) = statement else { return false };
    let ast::Statement::ShowTables { terse, history, extended, full, external, show_options } = shown.as_ref() else {
        return false;
    };
    let is_plain = !(*terse || *history || *extended || *full || *external);
    is_plain
        && matches!(
            show_options,
            ast::ShowStatementOptions {
                show_in: None,
                starts_with: None,
                limit: None,
                limit_from: None,
                filter_position: None
            }
        )
}

/// DataFusion's plan of a statement.
async fn unoptimized(state: &SessionState, statement: Statement) -> DataFusionResult<LogicalPlan> {
    let otherwise = name_outer_relations_apart(&statement);
    match (state.statement_to_plan(statement).await, otherwise) {
        (Err(error), Some(otherwise)) => state.statement_to_plan(otherwise).await.map_err(|_| error),
        (planned, _) => planned,
    }
}

fn refusal(statement: &str) -> Error {
    Error::ReadOnly { statement: statement.to_owned() }
}

fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Breaks with the reason if the statement, or one within it, changes something or is too large.
fn check(statement: &Statement, state: &SessionState) -> ControlFlow<Error> {
    match statement {
        Statement::Statement(statement) => visit(statement, &mut Check { state, limits: StatementLimits::default() }),
        Statement::Explain(explain) => check(&explain.statement, state),
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => {
            ControlFlow::Break(not_read(&statement.to_string()))
        }
    }
}

struct Check<'a> {
    state: &'a SessionState,
    limits: StatementLimits,
}

/// Continues after a check that passed.
fn flow(checked: Result<(), Error>) -> ControlFlow<Error> {
    match checked {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl Visitor for Check<'_> {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &ast::Statement) -> ControlFlow<Error> {
        use ast::Statement as S;
        match statement {
            S::Query(_)
            | S::Explain { .. }
            | S::ExplainTable { .. }
            | S::ShowColumns { .. }
            | S::ShowCreate { .. }
            | S::ShowFunctions { .. }
            | S::ShowTables { .. }
            | S::ShowVariable { .. }
            | S::ShowVariables { .. } => ControlFlow::Continue(()),
            other => ControlFlow::Break(not_read(&other.to_string())),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        if select.into.is_some() {
            return ControlFlow::Break(refusal("SELECT INTO"));
        }
        flow(unsupported::check_select(select))
    }

    fn pre_visit_expr(&mut self, expression: &ast::Expr) -> ControlFlow<Error> {
        if let ast::Expr::Function(call) = expression {
            flow(unsupported::check_call(call, self.state))?;
        }
        self.limits.expression(expression)
    }

    fn post_visit_expr(&mut self, expression: &ast::Expr) -> ControlFlow<Error> {
        self.limits.end_expression(expression);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<Error> {
        refuse_change_behind_with(query)?;
        self.limits.begin_query(query);
        flow(unsupported::check_query(query))
    }

    fn post_visit_query(&mut self, query: &ast::Query) -> ControlFlow<Error> {
        self.limits.end_query(query)
    }

    fn pre_visit_table_factor(&mut self, relation: &ast::TableFactor) -> ControlFlow<Error> {
        flow(unsupported::check_relation(relation))?;
        self.limits.relation(relation)
    }
}

/// Refuses `WITH … DELETE` by a name of its own: without the `WITH` the statement may be one that runs.
fn refuse_change_behind_with(query: &ast::Query) -> ControlFlow<Error> {
    let (word, form) = match query.body.as_ref() {
        ast::SetExpr::Insert(_) => ("INSERT", "INSERT INTO … WITH … SELECT"),
        ast::SetExpr::Update(_) => ("UPDATE", "UPDATE … FROM (SELECT …) AS x WHERE"),
        ast::SetExpr::Delete(_) => ("DELETE", "DELETE FROM … USING (SELECT …) AS x WHERE"),
        _ => return ControlFlow::Continue(()),
    };
    let message = format!("WITH before {word} isn't supported: write the query within the statement, as in {form}");
    ControlFlow::Break(Error::Statement { message })
}

/// The error for a statement that doesn't read: it may be one that changes something or belongs to a session, or it isn't one of this database.
fn not_read(statement: &str) -> Error {
    let words: Vec<String> = statement.split_whitespace().take(2).map(str::to_uppercase).collect();
    let first = words.first().map_or("", String::as_str);
    let is_change = FIRST_WORDS.iter().any(|word| word.eq_ignore_ascii_case(first));
    if is_change || reason_of_session(first).is_some() {
        return refusal(first);
    }
    let name = if first == "SHOW" { words.join(" ") } else { first.to_owned() };
    let message = match hints::of_statement(&name) {
        Some(hint) => format!("{name} isn't supported: {hint}"),
        None => format!("{name} isn't supported"),
    };
    Error::Statement { message }
}

/// `SHOW COLUMNS FROM t` as `DESCRIBE t`, which names types as tables are made with them.
fn describe_columns(statement: &mut Statement) {
    let Statement::Statement(shown) = statement else { return };
    let ast::Statement::ShowColumns { extended: false, full: false, show_options } = shown.as_ref() else { return };
    let ast::ShowStatementOptions {
        show_in: Some(ast::ShowStatementIn { clause: _, parent_type: None, parent_name: Some(table) }),
        starts_with: None,
        limit: None,
        limit_from: None,
        filter_position: None,
    } = show_options
    else {
        return;
    };
    let table_name = table.clone();
    **shown = ast::Statement::ExplainTable {
        describe_alias: ast::DescribeAlias::Describe,
        hive_format: None,
        has_table_keyword: false,
        table_name,
    };
}
