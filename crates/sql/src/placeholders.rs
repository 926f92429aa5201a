//! Placeholders as JDBC and Python's DB-API write them: each `?` takes the next value.

use std::borrow::Cow;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::error::{Error, Result};

/// The statement with `$1`, `$2` and so on for its question marks. Those in quotes and comments are text.
///
/// # Errors
/// [`Error::Statement`] for a statement that has both kinds.
pub(crate) fn number_placeholders(text: &str) -> Result<Cow<'_, str>> {
    if !text.contains('?') {
        return Ok(Cow::Borrowed(text));
    }
    // The parser will say what is wrong with text that has no tokens.
    let Ok(mut tokens) = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize() else {
        return Ok(Cow::Borrowed(text));
    };
    let (mut marks, mut others) = (0, false);
    for token in &mut tokens {
        match token {
            Token::Placeholder(name) if name == "?" => {
                marks += 1;
                *name = format!("${marks}");
            }
            Token::Placeholder(_) => others = true,
            _ => {}
        }
    }
    match (marks, others) {
        (0, _) => Ok(Cow::Borrowed(text)),
        (_, true) => Err(Error::Statement { message: "placeholders are either all ? or all $1, $2, $name".to_owned() }),
        _ => Ok(Cow::Owned(tokens.iter().map(ToString::to_string).collect())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn question_marks_are_numbered_where_they_stand_for_values() {
        for (text, expected) in [
            ("select 1", "select 1"),
            ("select ? + ?, x from t where s = ?", "select $1 + $2, x from t where s = $3"),
            ("select '?', \"a?\" from t -- ?\n where x = ?", "select '?', \"a?\" from t -- ?\n where x = $1"),
            ("select 'it''s ?' /* ? */", "select 'it''s ?' /* ? */"),
            ("select 'open ?", "select 'open ?"),
        ] {
            assert_eq!(number_placeholders(text).unwrap(), expected);
        }
        assert!(number_placeholders("select ? + $1").is_err());
        assert!(number_placeholders("select ? where x = $name").is_err());
    }
}
