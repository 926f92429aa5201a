//! Removes secrets from statements, for logs and histories.
//!
//! - Behind the keyword of a password nothing is shown.
//! - Keywords may be mistyped. So quoted texts are shown only of statements that are certainly about rows, tables and views: `'…'` stands for them in
//!   statements about users, in those of no known kind, and in those that mention users and can't be parsed.

use std::borrow::Cow;

use crate::dialect::can_read;
use crate::statements::{end_of_quote, is_blank, split, without_blanks};

/// First words of statements that read, or change rows.
const OF_ROWS: [&str; 21] = [
    "select",
    "with",
    "from",
    "values",
    "table",
    "explain",
    "describe",
    "desc",
    "show",
    "summarize",
    "pivot",
    "unpivot",
    "insert",
    "update",
    "delete",
    "truncate",
    "copy",
    "refresh",
    "prepare",
    "execute",
    "undo",
];

/// First words of statements that define something, and the words that say what if it isn't a user.
const DEFINING: [&str; 3] = ["create", "alter", "drop"];
const DEFINED: [&str; 5] = ["table", "view", "policy", "index", "schema"];
const BEFORE_DEFINED: [&str; 7] = ["or", "replace", "materialized", "external", "temporary", "temp", "unique"];

/// First words of statements about rights, whose names may be in double quotes.
const OF_RIGHTS: [&str; 3] = ["grant", "revoke", "drop"];

/// Parts of words by which a statement that can't be parsed may be about users.
const MENTIONS: [&str; 3] = ["user", "role", "password"];

/// A statement without the secrets that it may have; unchanged if it has none.
///
/// Only words are examined, so that secrets of a text that can't be parsed are removed as well. It is cut too early if a comment or a name before has
/// the keyword.
#[must_use]
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let (statements, rest) = split(text);
    let mut statements = statements.into_iter().chain((!is_blank(rest)).then_some(rest));
    if statements.all(shows_texts) {
        return cut_at_password(text);
    }
    match cut_at_password(text) {
        Cow::Borrowed(text) => without_texts(text),
        Cow::Owned(text) => Cow::Owned(without_texts(&text).into_owned()),
    }
}

/// The text before the keyword of a password; unchanged without one.
fn cut_at_password(text: &str) -> Cow<'_, str> {
    let first_of = |words: &[&str]| words.iter().filter_map(|word| find(text, word)).min();
    let (Some(act), Some(role)) = (first_of(&["create", "alter"]), first_of(&["user", "role", "group"])) else {
        return Cow::Borrowed(text);
    };
    let from = act.max(role);
    // The search is for ASCII letters, so the text may be cut there.
    match find(&text[from..], "password") {
        Some(at) => Cow::Owned(format!("{}PASSWORD …", &text[..from + at])),
        None => Cow::Borrowed(text),
    }
}

/// Whether a statement is certainly none about users, so that its texts may be shown.
fn shows_texts(statement: &str) -> bool {
    let mut words = words(statement);
    let first = words.next().unwrap_or_default();
    let is_of_data = if is_one_of(first, &DEFINING) {
        words.find(|word| !is_one_of(word, &BEFORE_DEFINED)).is_some_and(|word| is_one_of(word, &DEFINED))
    } else {
        is_one_of(first, &OF_ROWS) || statement.trim_start().starts_with('(')
    };
    is_of_data && (!MENTIONS.iter().any(|word| find(statement, word).is_some()) || can_read(statement))
}

/// The words at the beginning of a statement.
fn words(statement: &str) -> impl Iterator<Item = &str> {
    let mut rest = statement;
    std::iter::from_fn(move || {
        rest = without_blanks(rest);
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        (!word.is_empty()).then_some(word)
    })
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|other| word.eq_ignore_ascii_case(other))
}

/// The text with `…` in the place of what is in quotes. Names in double quotes stay where no secret can stand in their place: in statements about rights,
/// and where the first one is the user's.
fn without_texts(text: &str) -> Cow<'_, str> {
    let is_of_rights = words(text).next().is_some_and(|word| is_one_of(word, &OF_RIGHTS));
    let (mut shown, mut from, mut at) = (String::new(), 0, 0);
    let mut names = 0;
    while let Some(found) = text[at..].find(['\'', '"', '`', '$', '‘', '“']) {
        let start = at + found;
        let Some((opening, end)) = quoted_part(text, start) else {
            at = start + 1;
            continue;
        };
        at = end;
        let is_name = opening == "\"" && (is_of_rights || names == 0 && is_behind_role(&text[..start]));
        if is_name {
            names += 1;
            continue;
        }
        shown.push_str(&text[from..start + opening.len()]);
        shown.push('…');
        from = end.saturating_sub(closing(opening).len()).max(start + opening.len());
        // A quote that isn't closed ends with the text.
        if text.get(from..end) != Some(closing(opening).as_str()) {
            from = end;
        }
    }
    if shown.is_empty() {
        return Cow::Borrowed(text);
    }
    shown.push_str(&text[from..]);
    Cow::Owned(shown)
}

/// Whether a text ends with the word behind which a user's name stands.
fn is_behind_role(text: &str) -> bool {
    let last = text.trim_end().rsplit(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    is_one_of(last, &["user", "role", "group", "token"])
}

/// The opening quote at a place, and the place behind its closing one; `None` if it opens nothing.
fn quoted_part(text: &str, start: usize) -> Option<(&str, usize)> {
    let rest = &text[start..];
    let first = rest.chars().next()?;
    if first == '$' {
        let tag = rest[1..].find('$')? + 2;
        let is_tag = rest[1..tag - 1].chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        let opening = rest.get(..tag).filter(|_| is_tag)?;
        let end = rest[tag..].find(opening).map_or(text.len(), |at| start + tag + at + tag);
        return Some((opening, end));
    }
    let opening = &rest[..first.len_utf8()];
    let has_escapes = first == '\'' && text[..start].ends_with(['e', 'E']);
    let end = match first {
        '\'' if has_escapes => end_of_escaped(text.as_bytes(), start),
        '\'' | '"' => end_of_quote(text.as_bytes(), start, text.as_bytes()[start]),
        _ => rest[opening.len()..]
            .find(closing(opening).as_str())
            .map_or(text.len(), |at| start + opening.len() + at + closing(opening).len()),
    };
    Some((opening, end))
}

/// The position behind the closing quote of a text in which a backslash escapes the next byte.
fn end_of_escaped(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'\\', _) | (b'\'', Some(b'\'')) => at += 2,
            (b'\'', _) => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The quote that closes what another opens.
fn closing(opening: &str) -> String {
    match opening {
        "‘" => "’".to_owned(),
        "“" => "”".to_owned(),
        other => other.to_owned(),
    }
}

/// The first position of a word of ASCII letters, without regard to case.
fn find(text: &str, word: &str) -> Option<usize> {
    text.as_bytes().windows(word.len()).position(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_behind_the_word_is_shown() {
        for text in [
            "CREATE USER ann PASSWORD 'open sesame'",
            "create user ann superuser password 'open sesame' valid until '2030-01-01'",
            "-- a comment\nalter role ann with encrypted PassWord 'open sesame",
            "select 1; create role ann password $$open sesame$$",
            "alter user é password open sesame",
            "create group gg login password 'open sesame'",
            "/* password */ create user ann password 'open sesame'",
            "select password from t; alter user ann password 'open sesame'",
        ] {
            let shown = without_secrets(text);
            assert!(!shown.contains("sesame") && shown.ends_with("PASSWORD …"), "{shown}");
        }
        for text in ["select password from login", "create user ann", "", "create table t (a int)"] {
            assert_eq!(without_secrets(text), text);
        }
    }

    /// Regression: the audit log had the password if its keyword was mistyped.
    #[test]
    fn texts_are_shown_only_of_statements_about_rows() {
        for text in [
            "alter user ann pasword 'open sesame'",
            "create user ann passwd 'open sesame'",
            "alter user ann identified by 'open sesame'",
            "alter user ann pass word 'open ''a'' sesame'",
            "alter user ann pasword \"open sesame\"",
            "alter user ann pasword $x$open sesame$x$",
            "alter user ann pasword e'open \\' sesame'",
            "alter user ann pasword ‘open sesame’",
            "alter user ann pasword 'open sesame",
            "alter usr ann pasword 'open sesame'",
            "atler user ann pasword 'open sesame'",
            "create token t for ann as 'open sesame'",
            "/* why */ ALTER\n ROLE ann pasword 'open sesame'",
            "select 1; alter user ann pasword 'open sesame'",
            "grant desk to ann identified by 'open sesame'",
            "set pasword = 'open sesame'",
            "explain alter user ann pasword 'open sesame'",
            "select set user ann pasword 'open sesame'",
            "with x as (select 1) alter role ann pasword 'open sesame'",
            "passwd 'open sesame'",
        ] {
            let shown = without_secrets(text);
            assert!(!shown.contains("sesame") && shown.contains('…'), "{text}: {shown}");
        }
        for (text, expected) in [
            ("alter user \"Ann\" pasword 'x' valid until 'y'", "alter user \"Ann\" pasword '…' valid until '…'"),
            ("create user ann valid until '2030-01-01'", "create user ann valid until '…'"),
            ("grant select on \"My Trade\" to \"Ann\"", "grant select on \"My Trade\" to \"Ann\""),
            ("alter user ann pasword 'x", "alter user ann pasword '…"),
        ] {
            assert_eq!(without_secrets(text), expected);
        }
        for text in [
            "select * from trade where sym = 'IBM'",
            "select \"user\", 'x' from login where role = 'desk'",
            "insert into login values ('a user', 'his role')",
            "-- users\nselect 'x'",
            "(select 'x')",
            "create policy p on trade using (sym = 'IBM')",
            "alter table trade set (tier = 'fast')",
            "create or replace materialized view v as select 'x' as a",
            "copy trade from '/a.csv'",
        ] {
            assert_eq!(without_secrets(text), text);
        }
    }
}
