//! Patterns of `to_char` as PostgreSQL writes them, `YYYY-MM-DD HH24:MI:SS`, in the words of `strftime`, `%Y-%m-%d %H:%M:%S`.
//!
//! Source: <https://www.postgresql.org/docs/current/functions-formatting.html>, tables 9.27 and 9.28. A pattern has either spelling: one without `%` is
//! PostgreSQL's. Parts that have no counterpart are refused by name, so that no text of the pattern stands for a time.

use crate::error::{Result, fault};

/// Parts of patterns and their words. Those in capitals are also read in small letters, unless these are a part of their own behind them.
const PARTS: [(&str, &str); 34] = [
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("HH", "%I"),
    ("IYYY", "%G"),
    ("IW", "%V"),
    ("ID", "%u"),
    ("YYYY", "%Y"),
    ("YY", "%y"),
    ("MI", "%M"),
    ("MM", "%m"),
    ("MS", "%3f"),
    ("DDD", "%j"),
    ("DD", "%d"),
    ("SS", "%S"),
    ("US", "%6f"),
    ("FF3", "%3f"),
    ("FF6", "%6f"),
    ("TZH:TZM", "%:z"),
    ("FMMonth", "%B"),
    ("FMDay", "%A"),
    ("FMHH24", "%-H"),
    ("FMHH12", "%-I"),
    ("FMHH", "%-I"),
    ("FMDDD", "%-j"),
    ("FMDD", "%-d"),
    ("FMMM", "%-m"),
    ("FMMI", "%-M"),
    ("FMSS", "%-S"),
    ("Mon", "%b"),
    ("Dy", "%a"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("am", "%P"),
    ("pm", "%P"),
];

/// A letter between date and time, as in ISO 8601.
const BETWEEN: &str = "T";

/// The pattern in the words of `strftime`, if it is PostgreSQL's; `None` for one that has these words already.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for a part that has no counterpart.
pub(super) fn in_words_of_strftime(pattern: &str) -> Result<Option<String>> {
    if pattern.contains('%') {
        return Ok(None);
    }
    let (mut words, mut rest) = (String::new(), pattern);
    while let Some(letter) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, behind) = quoted.split_once('"').unwrap_or((quoted, ""));
            words.push_str(text);
            rest = behind;
        } else if let Some((part, word)) = part_of(rest) {
            words.push_str(word);
            rest = &rest[part.len()..];
        } else if letter.is_alphabetic() && !is_between(rest) {
            let part: String = rest.chars().take_while(|letter| letter.is_alphabetic()).collect();
            return fault(format!(
                "to_char doesn't know {part:?} in the pattern '{pattern}': write a text in double quotes, or the words of strftime, such as '%Y-%m-%d %H:%M:%S'"
            ));
        } else {
            words.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    Ok(Some(words))
}

/// Whether a pattern goes on with a `T` between date and time. Behind a number `TH` would be its ending.
fn is_between(rest: &str) -> bool {
    rest.strip_prefix(BETWEEN).is_some_and(|behind| part_of(behind).is_some())
}

/// The part that a pattern begins with, the longest of those that do, and its word.
fn part_of(rest: &str) -> Option<(&'static str, &'static str)> {
    let begins = |part: &str| {
        let is_of_capitals = part.bytes().all(|byte| !byte.is_ascii_lowercase());
        let small = || rest.get(..part.len()).is_some_and(|begin| begin == part.to_ascii_lowercase());
        rest.starts_with(part) || is_of_capitals && small()
    };
    let longest = PARTS.into_iter().filter(|(part, _)| begins(part)).max_by_key(|(part, _)| part.len());
    longest.filter(|(part, _)| !rest[part.len()..].starts_with("TH") || is_between(&rest[part.len()..]))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_postgresql_become_words_of_strftime() {
        for (pattern, words) in [
            ("YYYY-MM-DD", "%Y-%m-%d"),
            ("yyyy-mm-dd hh24:mi:ss.us", "%Y-%m-%d %H:%M:%S.%6f"),
            ("YYYYMMDD\"T\"HH24MISS", "%Y%m%dT%H%M%S"),
            ("YYYY-MM-DDTHH24:MI", "%Y-%m-%dT%H:%M"),
            ("FMDD FMMonth YYYY, Dy", "%-d %B %Y, %a"),
            ("HH12:MI AM", "%I:%M %p"),
            ("HH:MI pm", "%I:%M %P"),
            ("IYYY-\"W\"IW-ID", "%G-W%V-%u"),
            ("SS.MS", "%S.%3f"),
            ("", ""),
        ] {
            assert_eq!(in_words_of_strftime(pattern).unwrap().as_deref(), Some(words), "{pattern}");
        }
        assert_eq!(in_words_of_strftime("%Y YYYY").unwrap(), None);
        for pattern in ["Day", "Month YYYY", "J", "YYYY-MM-DDTH", "Q", "WW", "hello"] {
            let error = in_words_of_strftime(pattern).unwrap_err().to_string();
            assert!(error.contains("write a text in double quotes"), "{pattern}: {error}");
        }
    }
}
