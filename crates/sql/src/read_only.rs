//! Nothing passes that changes a table, a setting or a file.
//!
//! The parsed statement decides, before it is planned: what is to be changed may not exist, or may not fit, and the answer is
//! the same. What reads is listed, so that a statement that the parser learns later is refused.

use std::ops::ControlFlow;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Select, Visit, Visitor};

use crate::error::Error;
use crate::joins;

/// The plan of a statement that only reads; of one whose joins were rewritten if `has_joins`.
///
/// # Errors
/// [`Error::ReadOnly`], wrapped, for any other; those of DataFusion.
pub(crate) async fn plan(state: &SessionState, text: &str, has_joins: bool) -> Result<LogicalPlan> {
    let dialect = state.config().options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(text, &dialect)?;
    if let ControlFlow::Break(keyword) = changes(&statement) {
        return Err(refusal(keyword));
    }
    if has_joins {
        joins::arrange(&mut statement)?;
    }
    let plan = state.statement_to_plan(statement).await?;
    // The list of what reads is ours; this one is DataFusion's.
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    options.verify_plan(&plan).map_err(|_| refusal("a statement within the statement".to_owned()))?;
    Ok(plan)
}

fn refusal(statement: String) -> DataFusionError {
    DataFusionError::External(Box::new(Error::ReadOnly { statement }))
}

/// Breaks with the first keyword of a statement that changes something, also of one within another.
fn changes(statement: &Statement) -> ControlFlow<String> {
    match statement {
        Statement::Statement(statement) => statement.visit(&mut Changes),
        Statement::Explain(explain) => changes(&explain.statement),
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => {
            ControlFlow::Break(keyword(&statement.to_string()))
        }
    }
}

struct Changes;

impl Visitor for Changes {
    type Break = String;

    fn pre_visit_statement(&mut self, statement: &ast::Statement) -> ControlFlow<String> {
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
            other => ControlFlow::Break(keyword(&other.to_string())),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<String> {
        if select.into.is_some() { ControlFlow::Break("SELECT INTO".to_owned()) } else { ControlFlow::Continue(()) }
    }
}

fn keyword(statement: &str) -> String {
    statement.split_whitespace().next().unwrap_or_default().to_uppercase()
}
