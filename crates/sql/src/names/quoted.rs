//! Text in double quotes where another language would have a string. In SQL it is a name.

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// A hint on how to write text, if the unknown column is a word in double quotes.
pub(crate) fn text_in_double_quotes(statement: &str, error: &DataFusionError) -> Option<String> {
    let DataFusionError::SchemaError(unknown, _) = error.find_root() else { return None };
    let SchemaError::FieldNotFound { field, .. } = unknown.as_ref() else { return None };
    let word = field.relation.is_none().then(|| quoted(statement, &field.name)).flatten()?;
    Some(format!("\"{word}\" in double quotes is a name; text is in single quotes: '{}'", word.replace('\'', "''")))
}

/// The word in double quotes that folds to `name` and isn't a part of a longer name.
fn quoted(statement: &str, name: &str) -> Option<String> {
    let tokens = Tokenizer::new(&GenericDialect {}, statement).with_unescape(false).tokenize().ok()?;
    let tokens: Vec<&Token> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    tokens.iter().enumerate().find_map(|(place, token)| {
        let is_part = tokens.get(place + 1).is_some_and(|next| **next == Token::Period);
        let Token::Word(word) = token else { return None };
        (word.quote_style == Some('"') && !is_part && word.value.to_lowercase() == name).then(|| word.value.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_names_in_double_quotes_are_found() {
        assert_eq!(quoted("select * from t where sym = \"AbC\" and x = 1", "abc"), Some("AbC".to_owned()));
        assert_eq!(quoted("select * from t where sym = AbC", "abc"), None);
        assert_eq!(quoted("select \"abc\".x from t where abc = 'AbC'", "abc"), None);
        assert_eq!(quoted("select \"abc", "abc"), None);
    }
}
