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
use crate::error::{Error, Result, only};
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
            return only(self.change_query(text, stop), |error| error.is_of_name() || error.is_of_syntax());
        }
        let count = statements::placeholders(text);
        let checked = self.describe_until(&with_types(text, types), stop).map(drop);
        match checked {
            Err(error) if count > 0 && error.is_of_syntax() => {
                let values = vec![LITERAL.to_owned(); count];
                only(self.describe_until(&with_values(text, &values), stop), Error::is_of_syntax)
            }
            Err(error) if count > 0 && !error.is_of_name() => Ok(()),
            checked => checked,
        }
    }
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
