//! `COPY`: loads a file into a table, or writes a table or a query to a file.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::statement::begins;
use crate::error::{Result, fault};
use crate::statements::without_blanks;
use crate::token_reader::TokenReader;

/// `COPY table TO 'file'` or `COPY (query) TO 'file'`.
#[derive(Debug, PartialEq, Eq)]
pub struct CopyTo {
    /// What gives the rows.
    pub query: String,
    /// The file.
    pub path: String,
    /// Its format in lower case, if the statement names one.
    pub format: Option<String>,
}

/// Either direction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Copy {
    From { table: String, columns: Option<Vec<String>>, path: String },
    To(CopyTo),
}

/// What a statement copies into a file; `None` for another statement.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for what is incomplete or not supported.
pub fn copy_to(statement: &str) -> Result<Option<CopyTo>> {
    let Some(tokens) = tokens_of_copy(statement) else { return Ok(None) };
    let mut words = TokenReader::of(&tokens);
    words.take(&["copy"]);
    let copy = copy(&mut words)?;
    words.end()?;
    Ok(match copy {
        Copy::To(copy) => Some(copy),
        Copy::From { .. } => None,
    })
}

/// The tokens of a statement that begins with `COPY`. Others, which may be long, are told by their first letters.
pub(super) fn tokens_of_copy(statement: &str) -> Option<Vec<Token>> {
    let first = without_blanks(statement).get(.."copy".len())?;
    if !first.eq_ignore_ascii_case("copy") {
        return None;
    }
    let tokens = Tokenizer::new(&GenericDialect {}, statement).with_unescape(false).tokenize().ok()?;
    TokenReader::of(&tokens).take(&["copy"]).then_some(tokens)
}

/// Where `COPY` takes rows from, or puts them.
pub(super) struct Source {
    /// The table and its columns, if it isn't a query.
    pub(super) table: Option<(String, Option<Vec<String>>)>,
    /// What gives the rows.
    pub(super) query: String,
}

/// The source of a `COPY`: a query in brackets, or a table with or without a list of columns.
pub(super) fn source(words: &mut TokenReader<'_>) -> Result<Source> {
    if words.peek_bracket() {
        let query = words.within_brackets()?;
        if begins(&query) {
            return fault("COPY writes the rows of a query, and what stands in its brackets changes something");
        }
        return Ok(Source { table: None, query });
    }
    let begin = words.at();
    let table = words.table()?;
    let (named, begin) = (words.text_from(begin), words.at());
    let columns = if words.peek_bracket() { Some(words.names()?) } else { None };
    let listed = words.text_from(begin);
    let listed = if columns.is_some() { listed.trim_matches(['(', ')']) } else { "*" };
    Ok(Source { query: format!("SELECT {listed} FROM {named}"), table: Some((table, columns)) })
}

/// Reads a `COPY` from the word after it.
pub(super) fn copy(words: &mut TokenReader<'_>) -> Result<Copy> {
    let Source { table, query } = source(words)?;
    if words.take(&["to"]) {
        let (path, format) = file(words)?;
        return Ok(Copy::To(CopyTo { query, path, format }));
    }
    let Some((table, columns)) = table else { return fault("COPY with a query needs TO and a file") };
    if !words.take(&["from"]) {
        return fault("COPY needs FROM or TO, and a file");
    }
    let (path, format) = file(words)?;
    if let Some(format) = format
        && !is_of(&path, &format)
    {
        return fault(format!(
            "{path:?} isn't named as {format}: leave FORMAT out, COPY FROM finds the format by the file's content"
        ));
    }
    Ok(Copy::From { table, columns, path })
}

/// A file and its format.
fn file(words: &mut TokenReader<'_>) -> Result<(String, Option<String>)> {
    let path = match words.peek() {
        Some(Token::SingleQuotedString(path)) => path.replace("''", "'"),
        Some(Token::Word(word)) if ["STDIN", "STDOUT", "PROGRAM"].contains(&word.value.to_uppercase().as_str()) => {
            return fault(format!("COPY with {} is not supported: name a file", word.value.to_uppercase()));
        }
        _ => return fault("COPY needs a file in single quotes"),
    };
    words.step();
    let with = words.take(&["with"]);
    if words.peek() != Some(&Token::LParen) {
        return if with { fault("WITH needs options in brackets") } else { Ok((path, None)) };
    }
    let mut format = None;
    for option in words.within_brackets()?.split(',') {
        let mut parts = option.split_whitespace();
        let (name, value) = (parts.next().unwrap_or_default().to_lowercase(), parts.next());
        let value = value.map(|value| value.trim_matches(['\'', '"']).to_lowercase());
        match (name.as_str(), value.as_deref(), parts.next()) {
            ("format", Some(value), None) => format = Some(value.to_owned()),
            ("header", None | Some("true" | "on" | "1"), None) => {}
            _ => return fault(format!("COPY with {} is not supported; there are FORMAT and HEADER", option.trim())),
        }
    }
    Ok((path, format))
}

/// Whether a file has the name of one of a format, compressed or not.
fn is_of(path: &str, format: &str) -> bool {
    let path = path.to_lowercase();
    let path = [".gz", ".zst", ".bz2", ".xz"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(&path);
    let ends: &[&str] = match format {
        "json" | "ndjson" => &["json", "jsonl", "ndjson"],
        "arrow" => &["arrow", "arrows", "feather", "ipc"],
        "parquet" => &["parquet", "pq"],
        other => &[other],
    };
    ends.iter().any(|end| path.ends_with(&format!(".{end}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn copies_into_files_are_taken_apart() {
        let of = |text: &str| copy_to(text).unwrap().map(|copy| (copy.query, copy.path, copy.format));
        let taken = |query: &str, path: &str, format: Option<&str>| {
            Some((query.to_owned(), path.to_owned(), format.map(str::to_owned)))
        };
        assert_eq!(of("copy trade to 'a.parquet'"), taken("SELECT * FROM trade", "a.parquet", None));
        assert_eq!(
            of("COPY \"my T\" (a, \"b c\") TO 'it''s.txt' WITH (FORMAT CSV, HEADER)"),
            taken("SELECT a, \"b c\" FROM \"my T\"", "it's.txt", Some("csv"))
        );
        assert_eq!(
            of("copy (select ')', (1) from t) to 'x' (format 'arrow', header true)"),
            taken("select ')', (1) from t", "x", Some("arrow"))
        );
        assert_eq!(of("-- why\n/* and how */ copy t to 'a.csv';"), taken("SELECT * FROM t", "a.csv", None));
        assert_eq!(of("copy t from 'a.csv'"), None);
        assert_eq!(of("select 1"), None);
        for (text, part) in [
            ("copy t to stdout", "STDOUT"),
            ("copy t to program 'ls'", "PROGRAM"),
            ("copy t to 'a' (delimiter '|')", "delimiter"),
            ("copy t to 'a' (header false)", "header false"),
            ("copy t to 'a' with csv", "brackets"),
            ("copy t to a", "single quotes"),
            ("copy t", "FROM or TO"),
            ("copy (select 1", "bracket"),
            ("copy (delete from t) to 'a.csv'", "changes something"),
            ("copy ( /* c */ drop table t) to 'a.csv'", "changes something"),
            ("copy (copy t from 'b.csv') to 'a.csv'", "changes something"),
            ("copy (select 1) from 'a'", "TO"),
            ("copy t to 'a' b", "not expected"),
            ("copy t from 'a.csv' (format parquet)", "isn't named as parquet"),
        ] {
            let message = copy_to(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
