//! From the text of a statement to its logical plan.

use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;

use crate::error::{Error, Result};
use crate::hints::with_hints;
use crate::joins;
use crate::names::{Spellings, text_in_double_quotes};
use crate::read_only;

/// The logical plan of a statement, the spelling of its names, and whether its joins were rewritten.
pub(crate) async fn logical_plan(
    state: &SessionState,
    text: &str,
    memory_bytes: usize,
) -> Result<(LogicalPlan, Spellings, bool)> {
    let (folded, mut spellings) = Spellings::fold(text)?;
    let rewritten = joins::rewrite(&folded).map_err(|message| Error::Statement { message })?;
    let parsed = rewritten.as_deref().unwrap_or(&folded);
    let plan = read_only::plan(state, parsed, rewritten.is_some()).await;
    let (plan, written) = plan.map_err(|error| {
        let hint = text_in_double_quotes(text, &error);
        with_hints(Error::from_datafusion(error, memory_bytes).with_hint(hint), parsed, state)
    })?;
    spellings.add_statement(written);
    Ok((plan, spellings, rewritten.is_some()))
}
