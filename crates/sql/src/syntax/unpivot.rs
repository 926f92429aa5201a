//! `UNPIVOT source ON a, b [INTO NAME n VALUE v]` where a query begins, as in DuckDB, read as `SELECT * FROM source UNPIVOT (v FOR n IN (a, b))`.
//!
//! `INCLUDE NULLS` follows the source or the names. Without names the columns are called `name` and `value`.
//!
//! Source: <https://duckdb.org/docs/stable/sql/statements/unpivot>.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::{ENDS, before, behind, is_word, solid};
use crate::error::{Result, fault};

/// Rewrites the statement that begins at a position, if one does.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for one that isn't complete.
pub(super) fn rewrite(tokens: &mut Vec<Token>, at: usize) -> Result<bool> {
    let begins = match before(tokens, at) {
        None | Some(Token::LParen) => true,
        Some(token) => ["explain", "analyze", "verbose", "describe", "union", "all", "except", "intersect"]
            .iter()
            .any(|word| is_word(token, word)),
    };
    if !begins {
        return Ok(false);
    }
    let Some(on) = find(tokens, at + 1, &["on"]) else { return fault("UNPIVOT needs ON and columns") };
    let (source, mut nulls) = with_nulls(tokens, at + 1, on);
    let end = find(tokens, on + 1, &["into", "include"]).or_else(|| find(tokens, on + 1, &ENDS));
    let mut end = end.unwrap_or_else(|| end_of(tokens, on + 1));
    let columns = text(&tokens[on + 1..end]);
    let (mut name, mut value) = ("name".to_owned(), "value".to_owned());
    if let Some(place) = behind(tokens, end, &["into", "name"]) {
        (name, end) = word(tokens, place)?;
        let Some(place) = behind(tokens, end, &["value"]) else {
            return fault("UNPIVOT … INTO NAME n needs VALUE v");
        };
        (value, end) = word(tokens, place)?;
        if tokens.get(solid(tokens, end)) == Some(&Token::Comma) {
            return fault("UNPIVOT of several values at once isn't supported");
        }
    }
    if let Some(place) = behind(tokens, end, &["include", "nulls"]) {
        nulls = "INCLUDE NULLS";
        end = place;
    }
    let rewritten = format!("SELECT * FROM {source} UNPIVOT {nulls} ({value} FOR {name} IN ({columns})) ");
    tokens.splice(at..end, [Token::make_word(&rewritten, None)]);
    Ok(true)
}

/// The position of the first of some words outside of brackets.
fn find(tokens: &[Token], from: usize, words: &[&str]) -> Option<usize> {
    let end = end_of(tokens, from);
    let mut depth = 0usize;
    (from..end).find(|place| {
        match &tokens[*place] {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && words.iter().any(|word| is_word(&tokens[*place], word))
    })
}

/// The position where the query around a token ends.
fn end_of(tokens: &[Token], from: usize) -> usize {
    let mut depth = 0usize;
    for (place, token) in tokens.iter().enumerate().skip(from) {
        match token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return place,
            Token::RParen => depth -= 1,
            Token::SemiColon => return place,
            _ => {}
        }
    }
    tokens.len()
}

/// The source, with or without rows of nulls.
fn with_nulls(tokens: &[Token], from: usize, on: usize) -> (String, &'static str) {
    match find(&tokens[..on], from, &["include"]) {
        Some(place) if behind(tokens, place, &["include", "nulls"]).is_some() => {
            (text(&tokens[from..place]), "INCLUDE NULLS")
        }
        _ => (text(&tokens[from..on]), ""),
    }
}

fn word(tokens: &[Token], at: usize) -> Result<(String, usize)> {
    let place = solid(tokens, at);
    match tokens.get(place) {
        Some(name @ Token::Word(_)) => Ok((name.to_string(), place + 1)),
        _ => fault("UNPIVOT … INTO NAME n VALUE v takes names"),
    }
}

fn text(tokens: &[Token]) -> String {
    tokens.iter().map(ToString::to_string).collect::<String>().trim().to_owned()
}
