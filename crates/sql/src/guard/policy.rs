//! Conditions of row policies, evaluated by a table's scan.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility, lit};
use datafusion::sql::sqlparser::tokenizer::Token;
use splay_functions::own_calendar;
use splay_functions::walk::WalkPlan;
use splay_store::USER_WORDS;

use crate::filtered_scan::filtered_scan;
use crate::logical_plan::logical_plan;
use crate::statements::quoted;
use crate::syntax::is_word;
use crate::views;

/// Functions of the time at which a statement begins.
const OF_THE_CLOCK: [&str; 4] = ["now", "current_date", "current_time", "today"];

/// The conditions of a policy that a row of a table must pass.
pub(super) struct PlannedPolicy {
    /// Expressions over the table's columns.
    pub conditions: Vec<Expr>,
    /// Whether they hold for statements that begin at this time alone, since `now()` or its kin is among them.
    pub is_of_the_clock: bool,
}

/// Plans the condition of a policy. `state` is that of a statement that begins now and sees everything, and `user` the value of `current_user`.
///
/// # Errors
/// A plan error for a condition that doesn't depend on the row and the time alone: with a query, or a function whose value changes otherwise.
pub(super) async fn planned(
    state: &SessionState,
    table: &str,
    condition: &str,
    user: Option<&str>,
) -> DataFusionResult<PlannedPolicy> {
    let condition = user.map_or_else(|| condition.to_owned(), |user| for_user(condition, user));
    // The condition stands on a line of its own, because it may end with a comment.
    let text = format!("SELECT true AS passes FROM {} WHERE ({condition}\n)", quoted(table));
    let planned = logical_plan(state, &text, usize::MAX).await;
    let (plan, _, has_joins) = planned.map_err(|error| DataFusionError::External(Box::new(error)))?;
    if has_joins {
        return Err(unsupported("a join"));
    }
    let mut is_of_the_clock = false;
    plan.walk_steps(|node| {
        node.walk_expressions(|expr| {
            expr.apply(|inner| {
                is_of_the_clock |= check(inner)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    let plan: LogicalPlan = state.optimize(&plan)?;
    let conditions = match filtered_scan(&plan).map_err(unsupported)? {
        Some((_, filters)) => filters.into_iter().map(unnormalize_col).collect(),
        None => vec![lit(false)],
    };
    // The time has become a constant.
    if conditions.iter().any(|condition| matches!(condition.exists(check), Ok(true) | Err(_))) {
        return Err(unsupported("a time that isn't that of the statement"));
    }
    Ok(PlannedPolicy { conditions, is_of_the_clock })
}

/// Refuses a condition that can't be applied to a table.
///
/// # Errors
/// A plan error that says why.
pub(crate) async fn check_condition(state: &SessionState, table: &str, condition: &str) -> DataFusionResult<()> {
    planned(state, table, condition, Some("somebody")).await.map(drop)
}

/// A condition in which `current_user` and its synonyms are replaced by the name of a user.
fn for_user(condition: &str, user: &str) -> String {
    let Some(mut tokens) = views::tokens(condition) else { return condition.to_owned() };
    for token in &mut tokens {
        let stands = |token: &Token| matches!(token, Token::Word(word) if word.quote_style.is_none());
        if stands(token) && USER_WORDS.iter().any(|word| is_word(token, word)) {
            *token = Token::SingleQuotedString(user.replace('\'', "''"));
        }
    }
    views::written(&tokens)
}

fn unsupported(what: &str) -> DataFusionError {
    DataFusionError::Plan(format!(
        "{what} can't stand in the condition of a policy, which follows from the columns of a row and the time of the statement alone"
    ))
}

/// Whether a part of a condition is the time of the statement.
fn check(expr: &Expr) -> DataFusionResult<bool> {
    match expr {
        Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => {
            Err(unsupported("a query"))
        }
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => Err(unsupported("an aggregate")),
        Expr::Placeholder(_) => Err(unsupported("a parameter")),
        Expr::ScalarFunction(call) if let Some(calendar) = own_calendar(&call.func) => {
            Err(unsupported(&format!("the calendar {}, which is a table,", calendar.name())))
        }
        Expr::ScalarFunction(call) if OF_THE_CLOCK.contains(&call.func.name()) => Ok(true),
        Expr::ScalarFunction(call) if call.func.signature().volatility != Volatility::Immutable => {
            Err(unsupported(&format!("{}, whose value changes,", call.func.name())))
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_stands_for_words_and_not_for_texts() {
        let condition =
            "trader = CURRENT_USER and note <> 'current_user' or \"current_user\" = session_user -- current_role";
        let expected = "trader = 'o''neil' and note <> 'current_user' or \"current_user\" = 'o''neil' -- current_role";
        assert_eq!(for_user(condition, "o'neil"), expected);
        assert_eq!(for_user("trader = 'cut", "ann"), "trader = 'cut");
    }
}
