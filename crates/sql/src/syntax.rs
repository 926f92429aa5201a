//! Rewrites clauses that the SQL parser doesn't read into forms that it reads.
//!
//! | Written | Read as |
//! | --- | --- |
//! | `OVER (… EXCLUDE TIES)` | `OVER (PARTITION BY __frame('ties', NULL, NULL), …)`, which `over_frames.rs` of `functions` plans |
//! | `1_000_000` | `1000000`; the parser takes `_000_000` for an alias |
//! | `LATEST ON time PARTITION BY a, b` | `QUALIFY row_number() OVER (PARTITION BY a, b ORDER BY time DESC NULLS LAST) = 1` |
//! | `SAMPLE BY 5m …` | `GROUP BY __sample_by(…)` (`sample_by.rs`) |
//! | `UNPIVOT t ON a, b` | `SELECT * FROM t UNPIVOT (value FOR name IN (a, b))` (`unpivot.rs`) |
//! | `trade AT COMMIT 7` | `"trade@commit 7" AS trade` (`time_travel.rs`) |
//! | `WITH t AS MATERIALIZED (…)`, `AS NOT MATERIALIZED (…)` | `WITH t AS (…)`: each is planned where it is read |
//! | `count(*) FILTER (c)` | `count(*) FILTER (WHERE c)` |
//! | `* LIKE 'p%'`, `f(*COLUMNS(…))` | `__star('like', 'p%')`, `f(__unpacked_columns(…))`, which `expand/stars.rs` writes out |
//!
//! Words are looked for among the tokens, so that texts and comments stay as they are. `EXCLUDE` of a select list isn't followed by a bracket
//! that closes.

mod sample_by;
mod time_travel;
mod unpivot;

use datafusion::sql::sqlparser::keywords::RESERVED_FOR_TABLE_ALIAS;
use datafusion::sql::sqlparser::tokenizer::{Token, Whitespace};
use splay_functions::FRAME_MARKER;

pub(crate) use self::sample_by::SAMPLE;
pub(crate) use self::time_travel::snapshot_of;
use crate::error::{Result, fault};

/// The function that stands for a `*` of the columns whose names match a pattern.
pub(crate) const STAR: &str = "__star";

/// The function that stands for several columns in place of one argument.
pub(crate) const UNPACKED: &str = "__unpacked_columns";

/// The words that may follow `EXCLUDE` in a frame.
const EXCLUSIONS: [(&[&str], &str); 4] =
    [(&["current", "row"], "current row"), (&["group"], "group"), (&["ties"], "ties"), (&["no", "others"], "")];

/// Rewrites these clauses, and returns whether there were any.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for a clause that isn't complete.
pub(crate) fn rewrite(tokens: &mut Vec<Token>) -> Result<bool> {
    let mut rewritten = false;
    // Backwards, so that earlier positions stay valid.
    for at in (0..tokens.len()).rev() {
        if let (Token::Number(_, false), Some(Token::Word(_))) = (&tokens[at], tokens.get(at + 1)) {
            rewritten |= join_digit_groups(tokens, at);
        } else if is_word(&tokens[at], "exclude") {
            rewritten |= exclusion(tokens, at);
        } else if is_word(&tokens[at], "latest") {
            rewritten |= latest(tokens, at);
        } else if is_word(&tokens[at], "sample") {
            rewritten |= sample_by::rewrite(tokens, at)?;
        } else if is_word(&tokens[at], "at") {
            rewritten |= time_travel::rewrite(tokens, at)?;
        } else if is_word(&tokens[at], "unpivot") {
            rewritten |= unpivot::rewrite(tokens, at)?;
        } else if is_word(&tokens[at], "materialized") {
            rewritten |= hint_of_table(tokens, at);
        } else if is_word(&tokens[at], "filter") {
            rewritten |= complete_filter(tokens, at);
        } else if tokens[at] == Token::Mul {
            if tokens.get(at + 1) == Some(&Token::Mul) {
                return fault("there is no operator **: write power(x, y)");
            }
            rewritten |= mark_unpacked(tokens, at) || rewrite_pattern(tokens, at);
        }
    }
    Ok(rewritten)
}

/// Whether a token is a word, without regard to case. A quoted one is a name.
pub(crate) fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(token_word) if token_word.quote_style.is_none() && token_word.value.eq_ignore_ascii_case(word))
}

/// The place of the next token that isn't white space.
pub(crate) fn solid(tokens: &[Token], mut at: usize) -> usize {
    while matches!(tokens.get(at), Some(Token::Whitespace(_))) {
        at += 1;
    }
    at
}

/// Whether an alias follows a table that ends before a place.
pub(crate) fn has_alias(tokens: &[Token], behind: usize) -> bool {
    let next = solid(tokens, behind);
    match tokens.get(next) {
        Some(Token::Word(word)) => {
            is_word(&tokens[next], "as")
                || word.quote_style.is_some()
                || !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
        }
        _ => false,
    }
}

/// The position behind some words, if they come next.
fn behind(tokens: &[Token], mut at: usize, words: &[&str]) -> Option<usize> {
    for word in words {
        at = solid(tokens, at);
        is_word(tokens.get(at)?, word).then_some(())?;
        at += 1;
    }
    Some(at)
}

/// Joins a number with the digits behind its underscore. A word directly behind a number can't be an alias.
fn join_digit_groups(tokens: &mut Vec<Token>, at: usize) -> bool {
    let (Token::Number(number, false), Some(Token::Word(word))) = (&tokens[at], tokens.get(at + 1)) else {
        return false;
    };
    let is_group = |group: &str| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit());
    let groups = word.value.strip_prefix('_').filter(|_| word.quote_style.is_none());
    if !groups.is_some_and(|groups| groups.split('_').all(is_group)) || !number.ends_with(|c: char| c.is_ascii_digit())
    {
        return false;
    }
    let whole = format!("{number}{}", word.value.replace('_', ""));
    tokens.splice(at..at + 2, [Token::Number(whole, false)]);
    true
}

/// The last token before a position that isn't white space.
pub(crate) fn before(tokens: &[Token], at: usize) -> Option<&Token> {
    tokens[..at].iter().rev().find(|token| !matches!(token, Token::Whitespace(_)))
}

/// Drops `MATERIALIZED` and `NOT MATERIALIZED` behind the `AS` of a table of `WITH`.
fn hint_of_table(tokens: &mut [Token], at: usize) -> bool {
    let words: Vec<usize> =
        (0..at).rev().filter(|place| !matches!(tokens[*place], Token::Whitespace(_))).take(2).collect();
    let is = |place: Option<&usize>, word: &str| place.is_some_and(|place| is_word(&tokens[*place], word));
    let start = match words.as_slice() {
        [not, r#as] if is(Some(not), "not") && is(Some(r#as), "as") => *not,
        [r#as, ..] if is(Some(r#as), "as") => at,
        _ => return false,
    };
    let is_query = tokens.get(solid(tokens, at + 1)) == Some(&Token::LParen);
    if is_query {
        // Earlier positions stay valid.
        for place in [start, at] {
            tokens[place] = Token::Whitespace(Whitespace::Space);
        }
    }
    is_query
}

/// `FILTER (c)` behind a call is `FILTER (WHERE c)`.
fn complete_filter(tokens: &mut Vec<Token>, at: usize) -> bool {
    let bracket = solid(tokens, at + 1);
    let is_clause = before(tokens, at) == Some(&Token::RParen) && tokens.get(bracket) == Some(&Token::LParen);
    if !is_clause || tokens.get(solid(tokens, bracket + 1)).is_none_or(|token| is_word(token, "where")) {
        return false;
    }
    tokens.insert(bracket + 1, Token::make_word("WHERE ", None));
    true
}

fn mark_unpacked(tokens: &mut Vec<Token>, at: usize) -> bool {
    let Some(bracket) = behind(tokens, at + 1, &["columns"]) else { return false };
    let is_argument = matches!(before(tokens, at), Some(Token::LParen | Token::Comma));
    if !is_argument || tokens.get(solid(tokens, bracket)) != Some(&Token::LParen) {
        return false;
    }
    tokens.splice(at..bracket, [Token::make_word(UNPACKED, None)]);
    true
}

fn rewrite_pattern(tokens: &mut Vec<Token>, at: usize) -> bool {
    let is_item = before(tokens, at).is_some_and(|token| {
        *token == Token::Comma || ["select", "distinct", "all"].iter().any(|word| is_word(token, word))
    });
    let kinds: [&[&str]; 6] =
        [&["like"], &["ilike"], &["similar", "to"], &["not", "like"], &["not", "ilike"], &["not", "similar", "to"]];
    let Some((kind, end)) = kinds.iter().find_map(|kind| Some((kind.join(" "), behind(tokens, at + 1, kind)?))) else {
        return false;
    };
    let pattern = solid(tokens, end);
    let Some(text @ Token::SingleQuotedString(_)) = tokens.get(pattern).filter(|_| is_item) else { return false };
    let call = format!("{STAR}('{kind}', {text})");
    tokens.splice(at..=pattern, [Token::make_word(&call, None)]);
    true
}

fn exclusion(tokens: &mut Vec<Token>, at: usize) -> bool {
    let mode_and_end = EXCLUSIONS.iter().find_map(|(words, mode)| {
        let end = behind(tokens, at + 1, words)?;
        (tokens.get(solid(tokens, end)) == Some(&Token::RParen)).then_some((end, *mode))
    });
    let Some((end, mode)) = mode_and_end else { return false };
    let Some(bracket) = opening(tokens, at) else { return false };
    tokens.drain(at..end);
    if mode.is_empty() {
        return true;
    }
    let marker = format!("{FRAME_MARKER}('{mode}', NULL, NULL)");
    let keywords = ["partition", "order", "rows", "range", "groups"];
    let mut place = solid(tokens, bracket + 1);
    if !tokens.get(place).is_some_and(|token| keywords.iter().any(|keyword| is_word(token, keyword))) {
        // Behind the name of a window.
        place = solid(tokens, place + 1);
    }
    let (place, text) = match behind(tokens, place, &["partition", "by"]) {
        Some(keys) => (keys, format!(" {marker}, ")),
        None => (place, format!("PARTITION BY {marker} ")),
    };
    tokens.insert(place, Token::make_word(&text, None));
    true
}

/// The opening bracket around a position.
fn opening(tokens: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for place in (0..at).rev() {
        match tokens[place] {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return Some(place),
            Token::LParen => depth -= 1,
            _ => {}
        }
    }
    None
}

fn latest(tokens: &mut Vec<Token>, at: usize) -> bool {
    let Some(time) = behind(tokens, at + 1, &["on"]) else { return false };
    let mut place = time;
    // The time is a name.
    while tokens.get(place).is_some_and(|token| {
        matches!(token, Token::Whitespace(_) | Token::Period)
            || matches!(token, Token::Word(_)) && !is_word(token, "partition")
    }) {
        place += 1;
    }
    let Some(keys) = behind(tokens, place, &["partition", "by"]) else { return false };
    let mut end = keys;
    let mut depth = 0usize;
    while let Some(token) = tokens.get(end) {
        match token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => break,
            Token::RParen => depth -= 1,
            Token::SemiColon => break,
            token if depth == 0 && ENDS.iter().any(|word| is_word(token, word)) => break,
            _ => {}
        }
        end += 1;
    }
    let text = |tokens: &[Token]| tokens.iter().map(ToString::to_string).collect::<String>().trim().to_owned();
    let (time, keys) = (text(&tokens[time..place]), text(&tokens[keys..end]));
    let text = format!("QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {time} DESC NULLS LAST) = 1 ");
    tokens.splice(at..end, [Token::make_word(&text, None)]);
    true
}

/// Keywords of clauses that may follow `LATEST ON`.
const ENDS: [&str; 8] = ["order", "limit", "offset", "fetch", "union", "intersect", "except", "qualify"];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn rewritten(text: &str) -> String {
        let mut tokens = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize().unwrap();
        rewrite(&mut tokens).unwrap();
        let text: String = tokens.iter().map(ToString::to_string).collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn exclusions_move_to_the_keys_of_the_partition() {
        for (text, expected) in [
            (
                "sum(x) over (order by t rows 1 preceding exclude ties)",
                "sum(x) over (PARTITION BY __frame('ties', NULL, NULL) order by t rows 1 preceding )",
            ),
            (
                "sum(x) over (w PARTITION  by f(a), b rows 1 preceding EXCLUDE current row ) + 1",
                "sum(x) over (w PARTITION by __frame('current row', NULL, NULL), f(a), b rows 1 preceding ) + 1",
            ),
            (
                "sum(x) over (w rows 1 preceding exclude group)",
                "sum(x) over (w PARTITION BY __frame('group', NULL, NULL) rows 1 preceding )",
            ),
            ("sum(x) over (rows 1 preceding exclude no others)", "sum(x) over (rows 1 preceding )"),
            ("select * exclude (ties) from t", "select * exclude (ties) from t"),
            ("select ' exclude ties)' from t", "select ' exclude ties)' from t"),
        ] {
            assert_eq!(rewritten(text), expected);
        }
    }

    #[test]
    fn digits_may_be_grouped() {
        assert_eq!(
            rewritten("select 1_000, 1_000_000.5, 2 _000, 1_0a, x_1"),
            "select 1000, 1000000.5, 2 _000, 1_0a, x_1"
        );
    }

    #[test]
    fn latest_rows_are_first_of_their_group() {
        assert_eq!(
            rewritten("select * from t where x > 1 latest on ts partition by a, b order by a"),
            "select * from t where x > 1 QUALIFY row_number() OVER (PARTITION BY a, b ORDER BY ts DESC NULLS LAST) = 1 order by a"
        );
        assert_eq!(
            rewritten("select max(p) from (t latest on ts partition by a)"),
            "select max(p) from (t QUALIFY row_number() OVER (PARTITION BY a ORDER BY ts DESC NULLS LAST) = 1 )"
        );
        assert_eq!(rewritten("select latest from t"), "select latest from t");
    }

    #[test]
    fn samples_are_groups() {
        assert_eq!(
            rewritten(
                "select ts, avg(p) from t where x > 1 SAMPLE BY 5m FILL(PREV, 0) ALIGN TO CALENDAR TIME ZONE 'Europe/Berlin' order by 1"
            ),
            "select ts, avg(p) from t where x > 1 GROUP BY __sample_by(INTERVAL '5 minutes', NULL, 'Europe/Berlin', NULL, NULL, NULL, 'calendar', \
             'prev', NULL, 'value', 0) order by 1"
        );
        assert_eq!(
            rewritten(
                "select * from (select max(p) from (select 1) timestamp(ts) sample by M from '2024-01-01' to now() fill(none))"
            ),
            "select * from (select max(p) from (select 1) GROUP BY __sample_by(INTERVAL '1 months', ts, NULL, NULL, '2024-01-01', now(), 'calendar', \
             'none', NULL) )"
        );
        assert_eq!(rewritten("select sample from t"), "select sample from t");
    }

    #[test]
    fn a_statement_of_unpivot_is_a_select() {
        assert_eq!(
            rewritten("unpivot t on a, b as 'x' into name n value v order by n;"),
            "SELECT * FROM t UNPIVOT (v FOR n IN (a, b as 'x')) order by n;"
        );
        assert_eq!(
            rewritten("select * from (unpivot (from t) include nulls on columns(* exclude (k)))"),
            "select * from (SELECT * FROM (from t) UNPIVOT INCLUDE NULLS (value FOR name IN (columns(* exclude (k)))) )"
        );
        assert_eq!(rewritten("from t unpivot (v for n in (a))"), "from t unpivot (v for n in (a))");
    }

    #[test]
    fn columns_by_patterns_are_calls() {
        assert_eq!(rewritten("select * not like 'p%', a from t"), "select __star('not like', 'p%'), a from t");
        assert_eq!(
            rewritten("select f(*columns('x')), 2 * columns('y')"),
            "select f(__unpacked_columns('x')), 2 * columns('y')"
        );
    }
}
