//! `trade AT COMMIT 7` and `trade AT TIME '2024-03-04 09:30'`: a table as it was.
//!
//! Written as a quoted name that no table can have, under the table's own name: `"trade@commit 7" AS trade`.

use datafusion::sql::sqlparser::tokenizer::{Token, Word};
use splay_store::{Database, TableSnapshot};

use super::{has_alias, is_word, solid};
use crate::error::{Result, fault};
use crate::times::full_time;

/// Rewrites `AT` at a position, if it is between a table and a commit or a time.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for a commit that is no number.
pub(super) fn rewrite(tokens: &mut Vec<Token>, at: usize) -> Result<bool> {
    let Some(table) = tokens[..at].iter().rposition(|token| !matches!(token, Token::Whitespace(_))) else {
        return Ok(false);
    };
    let Token::Word(name) = &tokens[table] else { return Ok(false) };
    let kind = solid(tokens, at + 1);
    let value = solid(tokens, kind + 1);
    let (Some(kind), Some(value_token)) = (tokens.get(kind), tokens.get(value)) else { return Ok(false) };
    let state = match (kind, value_token) {
        (kind, Token::Number(number, _)) if is_word(kind, "commit") => format!("commit {number}"),
        (kind, Token::SingleQuotedString(time)) if is_word(kind, "time") => format!("time {time}"),
        (kind, other) if is_word(kind, "commit") => {
            return fault(format!("AT COMMIT is followed by a number, not by {other}"));
        }
        _ => return Ok(false),
    };
    let alias = name.value.clone();
    let quoted = |text: String| Token::Word(Word { value: text, quote_style: Some('"'), keyword: name.keyword });
    let mut written = vec![quoted(format!("{alias}@{state}"))];
    if !has_alias(tokens, value + 1) {
        let space = || Token::Whitespace(datafusion::sql::sqlparser::tokenizer::Whitespace::Space);
        written.extend([space(), Token::make_keyword("AS"), space(), quoted(alias.to_lowercase())]);
    }
    tokens.splice(table..=value, written);
    Ok(true)
}

/// A table by its name in a statement, which may ask for an earlier commit.
///
/// # Errors
/// [`NoSuchTable`](splay_store::Error::NoSuchTable), [`NoSuchCommit`](splay_store::Error::NoSuchCommit).
pub(crate) fn snapshot_of(database: &Database, name: &str) -> splay_store::Result<TableSnapshot> {
    let Some((table, state)) = name.split_once('@') else { return database.table(name)?.snapshot() };
    let refused = |reason: String| splay_store::Error::Refused { reason };
    let table = database.table(table)?;
    match state.split_once(' ') {
        Some(("commit", number)) => {
            table.at_commit(number.parse().map_err(|_| refused(format!("{number:?} is no number of a commit")))?)
        }
        Some(("time", text)) => {
            let text = full_time(text);
            let at = arrow::compute::kernels::cast_utils::string_to_timestamp_nanos(&text);
            table.at_commit(table.commit_at(at.map_err(|error| refused(error.to_string()))?)?)
        }
        _ => Err(refused(format!("{name:?} is no name of a table"))),
    }
}
