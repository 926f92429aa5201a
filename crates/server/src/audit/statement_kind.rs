//! The kind and subject of a statement, from its first words.

use splay_sql::statements::without_blanks;

/// Words that are looked at.
const WORDS_MAX: usize = 12;

/// The first words, names in quotes among them, without what stands between.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    let next = move || {
        rest = without_blanks(rest);
        let quoted = rest.strip_prefix('"').and_then(|name| Some(name.find('"')? + 2));
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '$');
        let plain = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let end = quoted.unwrap_or(plain).max(rest.chars().next()?.len_utf8());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        Some(word)
    };
    std::iter::from_fn(next).take(WORDS_MAX)
}

fn is(word: Option<&str>, of: &[&str]) -> bool {
    word.is_some_and(|word| of.iter().any(|other| word.eq_ignore_ascii_case(other)))
}

/// Whether a statement is about users, roles, tokens or rights.
pub(super) fn is_about_users(text: &str) -> bool {
    let mut words = words(text);
    let first = words.next();
    is(first, &["grant", "revoke"])
        || is(first, &["create", "alter", "drop"]) && is(words.next(), &["user", "role", "group", "token", "policy"])
}

/// The table, view, role or token that a changing statement names first; empty if there is none.
pub(super) fn object(text: &str) -> &str {
    const BEFORE_NAMES: [&str; 15] = [
        "or",
        "replace",
        "materialized",
        "if",
        "not",
        "exists",
        "table",
        "view",
        "user",
        "role",
        "group",
        "token",
        "policy",
        "only",
        "into",
    ];
    let mut words = words(text);
    let first = words.next();
    if is(first, &["grant", "revoke"]) {
        words.by_ref().find(|word| word.eq_ignore_ascii_case("on"));
    } else if is(first, &["delete"]) {
        words.by_ref().find(|word| word.eq_ignore_ascii_case("from"));
    } else if !is(first, &["create", "alter", "drop", "truncate", "insert", "update", "copy", "refresh", "undo"]) {
        return "";
    }
    let name = words.find(|word| !is(Some(word), &BEFORE_NAMES)).unwrap_or_default();
    let name = name.trim_matches('"');
    if name.starts_with(|c: char| c.is_alphanumeric() || c == '_') { name } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_of_a_statement_is_found_by_its_words() {
        for (text, expected) in [
            ("insert into trade values (1)", "trade"),
            ("INSERT OR REPLACE INTO \"My Trade\" select 1", "My Trade"),
            ("-- why\ndelete from trade where x = 1", "trade"),
            ("update trade set x = 1", "trade"),
            ("truncate table trade", "trade"),
            ("create table if not exists public.trade (a int)", "public.trade"),
            ("create or replace materialized view bars as select 1", "bars"),
            ("drop /* all */ view bars cascade", "bars"),
            ("alter user ann password 'x'", "ann"),
            ("create token one for ann", "one"),
            ("grant select (a, b) on table trade to ann", "trade"),
            ("copy trade from stdin", "trade"),
            ("copy (select 1) to stdout", ""),
            ("grant desk to ann", ""),
            ("select * from trade", ""),
            ("", ""),
            ("insert", ""),
            ("create table é", "é"),
            ("drop \"", ""),
        ] {
            assert_eq!(object(text), expected, "{text}");
        }
    }

    #[test]
    fn statements_about_users_are_told_by_their_words() {
        for text in [
            "create user ann",
            "ALTER ROLE x",
            "drop token t",
            "grant a to b",
            "revoke all on t from b",
            "create policy p on t",
        ] {
            assert!(is_about_users(text), "{text}");
        }
        for text in ["create table user (a int)", "select 1", "", "alter table role add x int"] {
            assert!(!is_about_users(text), "{text}");
        }
    }
}
