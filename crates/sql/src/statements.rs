//! Splits a text into statements, and finds the names in them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use datafusion::sql::sqlparser::keywords::{
    Keyword, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_IDENTIFIER, RESERVED_FOR_TABLE_ALIAS, RESERVED_FOR_TABLE_FACTOR,
};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Words that have another meaning where the name of a new column could be.
const BEFORE_COLUMNS: [&str; 5] = ["primary", "unique", "constraint", "check", "foreign"];

/// The statements of a text without their semicolons, and the text after the last semicolon. Semicolons in quotes, dollar quotes and
/// comments don't count; statements that contain only blanks and comments are omitted.
#[must_use]
pub fn split(text: &str) -> (Vec<&str>, &str) {
    let bytes = text.as_bytes();
    let (mut statements, mut start, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'\'' | b'"') => at = end_of_quote(bytes, at, quote),
            b'-' if bytes.get(at + 1) == Some(&b'-') => at = end_of_line(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = end_of_comment(bytes, at),
            b'$' => at = end_of_dollar_quote(text, at).unwrap_or(at + 1),
            b';' => {
                let statement = text[start..at].trim();
                if !is_blank(statement) {
                    statements.push(statement);
                }
                at += 1;
                start = at;
            }
            _ => at += 1,
        }
    }
    (statements, &text[start..])
}

/// A name in double quotes, as statements write it.
#[must_use]
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Lists of words that are no plain names.
const RESERVED: [&[Keyword]; 4] =
    [RESERVED_FOR_TABLE_ALIAS, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_TABLE_FACTOR, RESERVED_FOR_IDENTIFIER];

/// All words that are no plain names, in lower case and in order.
pub(crate) fn reserved_words() -> BTreeSet<String> {
    let listed = RESERVED.iter().copied().flatten().map(|keyword| format!("{keyword:?}").to_lowercase());
    listed.chain(BEFORE_COLUMNS.map(str::to_owned)).collect()
}

/// A name as statements write it, in quotes only if needed.
pub(crate) fn as_name(name: &str) -> Cow<'_, str> {
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let is_plain = begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let keyword = match Token::make_keyword(name) {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let is_reserved = RESERVED.iter().any(|words| words.contains(&keyword))
        || BEFORE_COLUMNS.iter().any(|word| word.eq_ignore_ascii_case(name));
    if is_plain && !is_reserved { Cow::Borrowed(name) } else { Cow::Owned(quoted(name)) }
}

/// Whether a text has only blanks and comments.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    without_blanks(text).is_empty()
}

/// A text without the blanks and comments at its beginning.
#[must_use]
pub fn without_blanks(text: &str) -> &str {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'-' if bytes.get(at + 1) == Some(&b'-') => at = end_of_line(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = end_of_comment(bytes, at),
            byte if byte.is_ascii_whitespace() => at += 1,
            _ => break,
        }
    }
    &text[at..]
}

/// A text with blanks in the place of texts in single quotes and dollar quotes, and of comments: what is left stands where it stood.
#[must_use]
pub fn without_texts(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
    while at < bytes.len() {
        let (end, is_shown) = match bytes[at] {
            b'\'' => (end_of_quote(bytes, at, b'\''), false),
            b'"' => (end_of_quote(bytes, at, b'"'), true),
            b'-' if bytes.get(at + 1) == Some(&b'-') => (end_of_line(bytes, at), false),
            b'/' if bytes.get(at + 1) == Some(&b'*') => (end_of_comment(bytes, at), false),
            b'$' => end_of_dollar_quote(text, at).map_or((at + 1, true), |end| (end, false)),
            _ => (text.ceil_char_boundary(at + 1), true),
        };
        match is_shown {
            true => shown.push_str(&text[at..end]),
            false => shown.extend(std::iter::repeat_n(' ', end - at)),
        }
        at = end;
    }
    shown
}

/// The largest number of a placeholder, such as 2 for `$1 + $2`; those in quotes and comments don't count.
#[must_use]
pub fn placeholders(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut largest, mut at) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'\'' | b'"') => at = end_of_quote(bytes, at, quote),
            b'-' if bytes.get(at + 1) == Some(&b'-') => at = end_of_line(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = end_of_comment(bytes, at),
            b'$' if let Some(end) = end_of_dollar_quote(text, at) => at = end,
            b'$' => {
                let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                largest = largest.max(text[at + 1..at + 1 + digits].parse().unwrap_or(0));
                at += 1 + digits;
            }
            _ => at += 1,
        }
    }
    largest
}

/// The position behind the closing quote; a doubled quote doesn't close.
pub(crate) fn end_of_quote(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match (bytes[at] == quote, bytes.get(at + 1) == Some(&quote)) {
            (true, true) => at += 2,
            (true, false) => return at + 1,
            (false, _) => at += 1,
        }
    }
    at
}

/// The position behind a text in dollar quotes, `$$…$$` or `$tag$…$tag$`, or the end of the text if they aren't closed. `None` if none begins
/// here, as at a placeholder or within a name.
fn end_of_dollar_quote(text: &str, start: usize) -> Option<usize> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    if text[..start].ends_with(is_part) {
        return None;
    }
    let length = text[start + 1..].find('$')? + 2;
    let opening = &text[start..start + length];
    let tag = &opening[1..length - 1];
    if !tag.chars().all(is_part) || tag.starts_with(char::is_numeric) {
        return None;
    }
    let inner = start + length;
    Some(text[inner..].find(opening).map_or(text.len(), |at| inner + at + length))
}

fn end_of_line(bytes: &[u8], start: usize) -> usize {
    bytes[start..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| start + length + 1)
}

/// The end of a comment, which may contain other comments.
fn end_of_comment(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" if depth == 1 => return at + 2,
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    at
}

/// Words with which such statements begin.
pub(crate) const FIRST_WORDS: [&str; 11] =
    ["insert", "delete", "update", "truncate", "create", "drop", "alter", "copy", "refresh", "grant", "revoke"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_in_quotes_and_comments_end_nothing() {
        let text = "select ';', \"a;b\" -- not; here\n, '''; '; /* ; /* ; */ ; */ select 2;; -- ;\n ; select 3";
        let (statements, rest) = split(text);
        assert_eq!(
            statements,
            ["select ';', \"a;b\" -- not; here\n, '''; '", "/* ; /* ; */ ; */ select 2"],
            "{statements:?}"
        );
        assert_eq!(rest, " select 3");
        assert_eq!(split("select 'é;"), (Vec::new(), "select 'é;"));
        assert_eq!(split(""), (Vec::new(), ""));
        assert_eq!(without_texts("a 'é' \"b\" /* c */ é -- d\n e"), "a      \"b\"         é       e");
        assert_eq!(placeholders("select $2, '$9', \"$8\" -- $7\n /* $6 */ where x = $10 and y = $z"), 10);
        assert!(is_blank(" -- x\n /* y */ ") && is_blank("") && !is_blank("/* */ select"));
    }

    #[test]
    fn dollar_quotes_hold_texts_and_placeholders_dont_begin_them() {
        let text = "select $$a;b$$, $t$;$$;$t$; select $1; select a$b; select $1 || $2; select $é$;";
        let (statements, rest) = split(text);
        assert_eq!(
            statements,
            ["select $$a;b$$, $t$;$$;$t$", "select $1", "select a$b", "select $1 || $2"],
            "{statements:?}"
        );
        assert_eq!(rest, " select $é$;");
        assert_eq!(without_texts("a $$é$$ $1 $t$b$t$"), "a        $1        ");
        assert_eq!(placeholders("$$ $9 $$, $t$ $8 $t$, $2, $name"), 2);
    }
}
