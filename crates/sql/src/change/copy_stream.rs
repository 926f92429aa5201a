//! `COPY … FROM STDIN` and `COPY … TO STDOUT`: rows between a table and the client of a connection, in PostgreSQL's formats.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::copy::{source, tokens_of_copy};
use crate::error::{Result, fault};
use crate::token_reader::TokenReader;

/// Rows that a client sends or is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyStream {
    /// `COPY table [(column, …)] FROM STDIN`.
    In {
        /// The table.
        table: String,
        /// Columns in the order in which they come; all of the table if there are none.
        columns: Option<Vec<String>>,
        /// How rows are written.
        format: StreamFormat,
    },
    /// `COPY table [(column, …)] | (query) TO STDOUT`.
    Out {
        /// The table, if it is all of its columns that are copied.
        table: Option<String>,
        /// What gives the rows.
        query: String,
        /// How rows are written.
        format: StreamFormat,
    },
}

/// How rows are written, as PostgreSQL's `COPY` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamFormat {
    /// Text, CSV or binary.
    pub kind: StreamKind,
    /// The byte between columns.
    pub delimiter: u8,
    /// The text of a null.
    pub null: String,
    /// Whether the first line has the names of the columns.
    pub has_header: bool,
    /// What stands around values with a delimiter in them, and doubled for itself.
    pub quote: u8,
}

/// A format of `COPY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Values with backslashes before what has a meaning.
    Text,
    /// Values in quotes where that is needed.
    Csv,
    /// Values as in binary results.
    Binary,
}

/// What `COPY` with `STDIN` or `STDOUT` says; `None` for other statements.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for what is incomplete or not supported.
pub fn copy_stream(statement: &str) -> Result<Option<CopyStream>> {
    let Some(tokens) = tokens_of_copy(statement) else { return Ok(None) };
    let mut words = TokenReader::of(&tokens);
    words.take(&["copy"]);
    let source = source(&mut words)?;
    let copy = if words.take(&["from", "stdin"]) {
        let Some((table, columns)) = source.table else { return fault("COPY FROM needs a table, not a query") };
        CopyStream::In { table, columns, format: format(&mut words)? }
    } else if words.take(&["to", "stdout"]) {
        let table = source.table.filter(|(_, columns)| columns.is_none()).map(|(table, _)| table);
        CopyStream::Out { table, query: source.query, format: format(&mut words)? }
    } else {
        return Ok(None);
    };
    words.end()?;
    Ok(Some(copy))
}

/// Options as they are written, with their values.
type Options = Vec<(String, Option<String>)>;

fn format(words: &mut TokenReader<'_>) -> Result<StreamFormat> {
    words.take(&["with"]);
    let options = if words.peek_bracket() { in_brackets(words)? } else { in_a_row(words)? };
    let named = |name: &str| options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_deref());
    if let Some((twice, _)) = options
        .iter()
        .enumerate()
        .find_map(|(at, option)| options[..at].iter().any(|(name, _)| *name == option.0).then_some(option))
    {
        return fault(format!("COPY: {twice} is said twice"));
    }
    let kind = match named("format").flatten().map(str::to_lowercase).as_deref() {
        None | Some("text") => StreamKind::Text,
        Some("csv") => StreamKind::Csv,
        Some("binary") => StreamKind::Binary,
        Some(other) => return fault(format!("COPY format {other:?} not recognized; there are text, csv and binary")),
    };
    let is_csv = kind == StreamKind::Csv;
    let byte = |name: &str, default: u8| match named(name) {
        None => Ok(default),
        Some(Some(value)) if value.len() == 1 => Ok(value.as_bytes()[0]),
        Some(_) => fault(format!("COPY {name} must be a single one-byte character")),
    };
    let format = StreamFormat {
        kind,
        delimiter: byte("delimiter", if is_csv { b',' } else { b'\t' })?,
        null: named("null").flatten().unwrap_or(if is_csv { "" } else { "\\N" }).to_owned(),
        has_header: match named("header") {
            None => false,
            Some(value) => is_on("header", value)?,
        },
        quote: byte("quote", b'"')?,
    };
    check(&format, &options, byte("escape", format.quote)?)?;
    Ok(format)
}

fn is_on(name: &str, value: Option<&str>) -> Result<bool> {
    match value.map(str::to_lowercase).as_deref() {
        None | Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        Some(other) => fault(format!("COPY with {name} {other} is not supported")),
    }
}

fn check(format: &StreamFormat, options: &Options, escape: u8) -> Result<()> {
    let known = ["format", "delimiter", "null", "header", "quote", "escape", "encoding"];
    if let Some((other, _)) = options.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return fault(format!(
            "COPY with {} is not supported; there are {}",
            other.to_uppercase(),
            known.join(", ").to_uppercase()
        ));
    }
    let has = |name: &str| options.iter().any(|(known, _)| known == name);
    let of_csv = format.kind == StreamKind::Csv;
    if let Some(name) = ["quote", "escape"].iter().find(|name| has(name) && !of_csv) {
        return fault(format!("COPY {name} requires CSV mode"));
    }
    if let Some(name) =
        ["delimiter", "null", "header"].iter().find(|name| has(name) && format.kind == StreamKind::Binary)
    {
        return fault(format!("cannot specify {} in BINARY mode", name.to_uppercase()));
    }
    if escape != format.quote {
        return fault("COPY with an ESCAPE other than the QUOTE is not supported");
    }
    let encoding = options.iter().find(|(name, _)| name == "encoding").and_then(|(_, value)| value.as_deref());
    if encoding.is_some_and(|encoding| !["utf8", "utf-8"].contains(&encoding.to_lowercase().as_str())) {
        return fault("COPY is in UTF8");
    }
    let null = format.null.as_bytes();
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    if null.contains(&format.delimiter) || null.iter().any(is_line_end) || of_csv && null.contains(&format.quote) {
        return fault("COPY null has a delimiter, a quote or the end of a line in it");
    }
    let has_meaning = |byte: u8| {
        is_line_end(&byte)
            || byte == b'\\'
            || byte >= 0x80
            || format.kind == StreamKind::Text && byte.is_ascii_alphanumeric()
    };
    if has_meaning(format.delimiter) || of_csv && (format.delimiter == format.quote || is_line_end(&format.quote)) {
        return fault("COPY delimiter or quote cannot be that character");
    }
    Ok(())
}

/// `(FORMAT csv, HEADER, NULL '-')`.
fn in_brackets(words: &mut TokenReader<'_>) -> Result<Options> {
    words.step();
    let mut options = Vec::new();
    loop {
        let name = words.name("an option")?.to_lowercase();
        let value = match words.peek() {
            Some(Token::Comma | Token::RParen) => None,
            _ => Some(value(words)?),
        };
        options.push((name, value));
        match words.peek() {
            Some(Token::Comma) => words.step(),
            _ => break,
        }
    }
    words.expect(&Token::RParen, ") behind the options")?;
    Ok(options)
}

/// `CSV HEADER DELIMITER AS '|'`, as before PostgreSQL 9.
fn in_a_row(words: &mut TokenReader<'_>) -> Result<Options> {
    let mut options = Vec::new();
    while !words.is_at_end() {
        let name = words.name("an option")?.to_lowercase();
        match name.as_str() {
            "csv" | "binary" => options.push(("format".to_owned(), Some(name))),
            "header" => options.push((name, None)),
            "delimiter" | "null" | "quote" | "escape" | "encoding" => {
                words.take(&["as"]);
                options.push((name, Some(value(words)?)));
            }
            other => return fault(format!("COPY with {} is not supported", other.to_uppercase())),
        }
    }
    Ok(options)
}

/// A value: a word, a number, or a text, `E'\t'` among them.
fn value(words: &mut TokenReader<'_>) -> Result<String> {
    let value = match words.peek() {
        Some(Token::EscapedStringLiteral(text)) => text.clone(),
        Some(Token::Number(number, _)) => number.clone(),
        _ => return words.name("a value"),
    };
    words.step();
    Ok(value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(text: &str) -> StreamFormat {
        match copy_stream(text).unwrap().unwrap() {
            CopyStream::In { format, .. } | CopyStream::Out { format, .. } => format,
        }
    }

    #[test]
    fn copies_of_streams_are_taken_apart() {
        let text = StreamFormat {
            kind: StreamKind::Text,
            delimiter: b'\t',
            null: "\\N".to_owned(),
            has_header: false,
            quote: b'"',
        };
        let csv = StreamFormat { kind: StreamKind::Csv, delimiter: b',', null: String::new(), ..text.clone() };
        assert_eq!(
            copy_stream("COPY \"my T\" (a, \"b c\") FROM STDIN").unwrap().unwrap(),
            CopyStream::In {
                table: "my T".to_owned(),
                columns: Some(vec!["a".to_owned(), "b c".to_owned()]),
                format: text.clone()
            }
        );
        assert_eq!(
            copy_stream("copy (select ')' from t) to stdout (format csv, header)").unwrap().unwrap(),
            CopyStream::Out {
                table: None,
                query: "select ')' from t".to_owned(),
                format: StreamFormat { has_header: true, ..csv.clone() }
            }
        );
        let CopyStream::Out { table: None, query, .. } = copy_stream("copy t (a, b) to stdout").unwrap().unwrap()
        else {
            panic!()
        };
        assert_eq!(query, "SELECT a, b FROM t");
        assert_eq!(of("copy t from stdin with csv"), csv);
        assert_eq!(
            of("copy t from stdin csv header delimiter as '|' null '-'"),
            StreamFormat { delimiter: b'|', null: "-".to_owned(), has_header: true, ..csv }
        );
        assert_eq!(of("copy t to stdout with (format binary)").kind, StreamKind::Binary);
        assert_eq!(of("copy t to stdout binary").kind, StreamKind::Binary);
        assert_eq!(of("copy t from stdin (delimiter E'\\t', encoding 'utf-8', header false)"), text);
        for other in ["copy t from 'a.csv'", "copy t to 'a.csv'", "select 1", "copy t to program 'x'"] {
            assert_eq!(copy_stream(other).unwrap(), None, "{other}");
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (text, part) in [
            ("copy (select 1) from stdin", "needs a table"),
            ("copy (delete from t) to stdout", "changes something"),
            ("copy t from stdin (format xml)", "\"xml\" not recognized"),
            ("copy t from stdin (freeze)", "FREEZE"),
            ("copy t from stdin (header, header)", "twice"),
            ("copy t from stdin (header match)", "match"),
            ("copy t from stdin (quote '|')", "CSV mode"),
            ("copy t from stdin (format csv, escape '\\')", "ESCAPE"),
            ("copy t from stdin (format binary, header)", "HEADER in BINARY"),
            ("copy t from stdin (delimiter '||')", "one-byte"),
            ("copy t from stdin (delimiter 'a')", "cannot be"),
            ("copy t from stdin (format csv, null '\"')", "null has"),
            ("copy t from stdin (encoding 'latin1')", "UTF8"),
            ("copy t from stdin csv force quote a", "FORCE"),
            ("copy t from stdin (format csv", "behind the options"),
            ("copy t from stdin where a > 1", "WHERE"),
        ] {
            let message = copy_stream(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
