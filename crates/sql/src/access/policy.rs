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

use crate::change::filtered_scan;
use crate::session::logical_plan;
use crate::statements::quoted;
use crate::syntax::is_word;
use crate::views;

/// The conditions of a policy that a row of a table must pass, as expressions over its columns. `state` is that of a session that sees everything,
/// and `user` the value of `current_user`.
///
/// # Errors
/// A plan error for a condition that doesn't depend on the row alone: with a query, or a function whose value changes.
pub(super) async fn planned(
    state: &SessionState,
    table: &str,
    condition: &str,
    user: Option<&str>,
) -> DataFusionResult<Vec<Expr>> {
    let condition = user.map_or_else(|| condition.to_owned(), |user| for_user(condition, user));
    // The condition stands on a line of its own, because it may end with a comment.
    let text = format!("SELECT true AS passes FROM {} WHERE ({condition}\n)", quoted(table));
    let planned = logical_plan(state, &text, usize::MAX).await;
    let (plan, _, has_joins) = planned.map_err(|error| DataFusionError::External(Box::new(error)))?;
    if has_joins {
        return Err(unsupported("a join"));
    }
    plan.walk_steps(|node| {
        node.walk_expressions(|expr| {
            expr.apply(|inner| {
                check(inner)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    let plan: LogicalPlan = state.optimize(&plan)?;
    let Some((_, filters)) = filtered_scan(&plan)? else { return Ok(vec![lit(false)]) };
    Ok(filters.into_iter().map(unnormalize_col).collect())
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
        "{what} can't stand in the condition of a policy, which follows from the columns of a row alone"
    ))
}

fn check(expr: &Expr) -> DataFusionResult<()> {
    match expr {
        Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => {
            Err(unsupported("a query"))
        }
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => Err(unsupported("an aggregate")),
        Expr::Placeholder(_) => Err(unsupported("a parameter")),
        Expr::ScalarFunction(call) if let Some(calendar) = own_calendar(&call.func) => {
            Err(unsupported(&format!("the calendar {}, which is a table,", calendar.name())))
        }
        Expr::ScalarFunction(call) if call.func.signature().volatility != Volatility::Immutable => {
            Err(unsupported(&format!("{}, whose value changes,", call.func.name())))
        }
        _ => Ok(()),
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
