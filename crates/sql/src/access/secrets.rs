//! Removes secrets from statements, for logs and histories.

use std::borrow::Cow;

/// A statement, cut after the keyword before a password; unchanged if it sets none.
///
/// Only words are examined, so that a text that can't be parsed is cut as well. It is cut too early if a comment or a name before has the keyword.
#[must_use]
pub fn without_secrets(text: &str) -> Cow<'_, str> {
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
}
