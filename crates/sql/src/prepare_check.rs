//! Errors in a statement of `PREPARE`: reported at once, unless they depend on the values of `EXECUTE`.
//!
//! | Statement | Faults |
//! | --- | --- |
//! | reads, without placeholders | all of its plan |
//! | reads, with placeholders | names that aren't there; syntax, unless a value would mend it, as in `interval $1` |
//! | changes something | a table or column that isn't there, syntax |

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use splay_engine::Stop;

use crate::change::{copy_to, is_change};
use crate::error::{Error, Result};
use crate::named_statements::NamedStatement;
use crate::session::Session;
use crate::statements;

/// A literal that replaces a placeholder while a statement is checked, where only a literal is allowed.
const LITERAL: &str = "'1 minute'";

impl Session {
    /// Plans the statement of a `PREPARE`, so that its errors are reported before the first `EXECUTE`.
    ///
    /// # Errors
    /// [`Error::Statement`] and [`Error::Store`] for a statement that is faulty whatever its values are.
    pub fn check_named(&self, statement: &NamedStatement, stop: Stop<'_>) -> Result<()> {
        let NamedStatement::Prepare { types, text, .. } = statement else { return Ok(()) };
        if matches!(copy_to(text), Ok(Some(_))) {
            return Ok(());
        }
        if is_change(text) {
            return only(self.check_change(text, stop), |error| is_of_name(error) || is_of_syntax(error));
        }
        let count = statements::placeholders(text);
        let checked = self.describe_until(&with_types(text, types), stop).map(drop);
        match checked {
            Err(error) if count > 0 && is_of_syntax(&error) => {
                let values = vec![LITERAL.to_owned(); count];
                only(self.describe_until(&with_values(text, &values), stop).map(drop), is_of_syntax)
            }
            Err(error) if count > 0 && !is_of_name(&error) => Ok(()),
            checked => checked,
        }
    }
}

/// Passes on only the errors for which `is_final` holds.
fn only(checked: Result<()>, is_final: impl Fn(&Error) -> bool) -> Result<()> {
    match checked {
        Err(error) if is_final(&error) => Err(error),
        _ => Ok(()),
    }
}

fn is_of_name(error: &Error) -> bool {
    match error {
        Error::Store(splay_store::Error::NoSuchTable { .. } | splay_store::Error::NoSuchColumn { .. }) => true,
        Error::Statement { message } => {
            let has = |part: &str| message.contains(part);
            has("No field named")
                || has("has no column")
                || has("Invalid function")
                || has("is a window function")
                || has("not found")
        }
        _ => false,
    }
}

fn is_of_syntax(error: &Error) -> bool {
    matches!(error, Error::Statement { message } if message.contains("sql parser error") || message.contains("expected"))
}

/// The statement with placeholders cast to the types of `PREPARE`.
fn with_types(text: &str, types: &[String]) -> String {
    let typed = types.iter().enumerate().map(|(at, of)| format!("CAST(${} AS {of})", at + 1));
    with_values(text, &typed.collect::<Vec<_>>())
}

/// The statement with values in place of its first placeholders.
fn with_values(text: &str, values: &[String]) -> String {
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize() else {
        return text.to_owned();
    };
    let value = |token: &Token| match token {
        Token::Placeholder(name) => values.get(name[1..].parse::<usize>().ok()?.checked_sub(1)?),
        _ => None,
    };
    tokens.iter().map(|token| value(token).cloned().unwrap_or_else(|| token.to_string())).collect()
}
