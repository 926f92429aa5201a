//! `SAMPLE BY 5m FROM … TO … FILL(…) ALIGN TO …`, read as `GROUP BY __sample_by(…)`, which `expand/sample_by.rs` writes out.
//!
//! Arguments of the call, each of which may be `NULL`: the width as an interval, the column of time, the zone, the offset, the start, the finish,
//! `'calendar'` or `'first'`, then pairs of a kind of fill and its value.
//!
//! Source: <https://questdb.com/docs/query/sql/sample-by/>.

use datafusion::sql::sqlparser::tokenizer::{Token, Whitespace};

use super::{ENDS, behind, is_word, solid};
use crate::error::{Result, fault};

/// Name of the call.
pub(crate) const SAMPLE: &str = "__sample_by";

/// Units, and their names in intervals. Case matters.
const UNITS: [(&str, &str); 10] = [
    ("n", "nanoseconds"),
    ("U", "microseconds"),
    ("T", "milliseconds"),
    ("s", "seconds"),
    ("m", "minutes"),
    ("h", "hours"),
    ("d", "days"),
    ("w", "weeks"),
    ("M", "months"),
    ("y", "years"),
];

/// The clause, as texts.
struct Clause {
    width: String,
    time: Option<String>,
    zone: Option<String>,
    offset: Option<String>,
    start: Option<String>,
    finish: Option<String>,
    is_first: bool,
    fills: Vec<(&'static str, String)>,
}

/// Rewrites the clause that begins at a position, if one does.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for a clause that isn't complete.
pub(super) fn rewrite(tokens: &mut Vec<Token>, at: usize) -> Result<bool> {
    let Some(place) = behind(tokens, at + 1, &["by"]) else { return Ok(false) };
    let Some((width, mut end)) = width(tokens, solid(tokens, place)) else {
        return fault("SAMPLE BY takes a number and a unit: n, U, T, s, m, h, d, w, M or y, as in SAMPLE BY 5m");
    };
    let mut clause = Clause {
        width,
        time: None,
        zone: None,
        offset: None,
        start: None,
        finish: None,
        is_first: false,
        fills: Vec::new(),
    };
    loop {
        let place = solid(tokens, end);
        end = if let Some(place) = behind(tokens, place, &["from"]) {
            take(tokens, place, &mut clause.start, "FROM")?
        } else if let Some(place) = behind(tokens, place, &["to"]) {
            take(tokens, place, &mut clause.finish, "TO")?
        } else if let Some(place) = behind(tokens, place, &["fill"]) {
            fills(tokens, place, &mut clause)?
        } else if let Some(place) = behind(tokens, place, &["align", "to"]) {
            alignment(tokens, place, &mut clause)?
        } else {
            break;
        };
    }
    let last = solid(tokens, end);
    if let Some(token) = tokens.get(last)
        && !matches!(token, Token::RParen | Token::SemiColon)
        && !ENDS.iter().chain(&["having"]).any(|word| is_word(token, word))
    {
        return fault(format!("SAMPLE BY: expected FROM, TO, FILL, ALIGN TO or the end of the query, and not {token}"));
    }
    if clause.is_first && (clause.start.is_some() || clause.finish.is_some()) {
        return fault("SAMPLE BY … ALIGN TO FIRST OBSERVATION takes no FROM and TO");
    }
    let text = clause.call();
    tokens.splice(at..end, [Token::make_word(&text, None), Token::make_word(" ", None)]);
    designate(tokens, at)?;
    Ok(true)
}

impl Clause {
    fn call(&self) -> String {
        let or_null = |bound: &Option<String>| bound.clone().unwrap_or_else(|| "NULL".to_owned());
        let mut args = vec![self.width.clone()];
        args.extend([&self.time, &self.zone, &self.offset, &self.start, &self.finish].map(or_null));
        args.push(if self.is_first { "'first'" } else { "'calendar'" }.to_owned());
        for (kind, value) in &self.fills {
            args.extend([format!("'{kind}'"), value.clone()]);
        }
        format!("GROUP BY {SAMPLE}({})", args.join(", "))
    }
}

/// The width as an interval, and the position behind it.
fn width(tokens: &[Token], at: usize) -> Option<(String, usize)> {
    let (number, place) = match tokens.get(at)? {
        Token::Number(number, false) => (number.parse::<u32>().ok().filter(|number| *number > 0)?, at + 1),
        _ => (1, at),
    };
    let Token::Word(word) = tokens.get(place)? else { return None };
    let (_, unit) = UNITS.iter().find(|(unit, _)| word.quote_style.is_none() && *unit == word.value)?;
    Some((format!("INTERVAL '{number} {unit}'"), place + 1))
}

/// Reads an expression up to the next word of the clause.
fn take(tokens: &[Token], from: usize, into: &mut Option<String>, what: &str) -> Result<usize> {
    let mut depth = 0usize;
    let mut end = from;
    while let Some(token) = tokens.get(end) {
        match token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => break,
            Token::RParen => depth -= 1,
            Token::SemiColon => break,
            token
                if depth == 0
                    && ["to", "fill", "align", "having"].iter().chain(&ENDS).any(|word| is_word(token, word)) =>
            {
                break;
            }
            _ => {}
        }
        end += 1;
    }
    let written = text(&tokens[from..end]);
    if written.is_empty() || into.is_some() {
        return fault(format!("SAMPLE BY takes {what} and a time once"));
    }
    *into = Some(written);
    Ok(end)
}

fn text(tokens: &[Token]) -> String {
    tokens.iter().map(ToString::to_string).collect::<String>().trim().to_owned()
}

fn fills(tokens: &[Token], from: usize, clause: &mut Clause) -> Result<usize> {
    let open = solid(tokens, from);
    let mut depth = 0usize;
    let mut part = open + 1;
    if tokens.get(open) != Some(&Token::LParen) || !clause.fills.is_empty() {
        return fault("SAMPLE BY takes FILL once, with a list in brackets");
    }
    for (place, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let is_end = depth == 0;
        if is_end || (depth == 1 && *token == Token::Comma) {
            clause.fills.push(fill(&tokens[part..place])?);
            part = place + 1;
        }
        if is_end {
            return Ok(place + 1);
        }
    }
    fault("SAMPLE BY: FILL( lacks its bracket")
}

/// A kind of fill, and its value.
fn fill(tokens: &[Token]) -> Result<(&'static str, String)> {
    let none = || "NULL".to_owned();
    let first = solid(tokens, 0);
    let rest = solid(tokens, first + 1);
    Ok(match (tokens.get(first), tokens.get(rest)) {
        (None, _) => return fault("SAMPLE BY: FILL takes NONE, NULL, PREV, LINEAR or constants"),
        (Some(word), None) if is_word(word, "none") => ("none", none()),
        (Some(word), None) if is_word(word, "null") => ("null", none()),
        (Some(word), None) if is_word(word, "prev") => ("prev", none()),
        (Some(word), None) if is_word(word, "linear") => ("linear", none()),
        (Some(word), Some(Token::LParen)) if is_word(word, "prev") => ("prev_of", text(&tokens[rest..])),
        _ => ("value", text(tokens)),
    })
}

fn alignment(tokens: &[Token], at: usize, clause: &mut Clause) -> Result<usize> {
    if let Some(end) = behind(tokens, at, &["first", "observation"]) {
        clause.is_first = true;
        return Ok(end);
    }
    let Some(mut end) = behind(tokens, at, &["calendar"]) else {
        return fault("SAMPLE BY … ALIGN TO takes CALENDAR or FIRST OBSERVATION");
    };
    if let Some(place) = behind(tokens, end, &["time", "zone"]) {
        (clause.zone, end) = quoted_text(tokens, place, "TIME ZONE")?;
    }
    if let Some(place) = behind(tokens, end, &["with", "offset"]) {
        (clause.offset, end) = quoted_text(tokens, place, "WITH OFFSET")?;
    }
    Ok(end)
}

fn quoted_text(tokens: &[Token], at: usize, what: &str) -> Result<(Option<String>, usize)> {
    let place = solid(tokens, at);
    match tokens.get(place) {
        Some(token @ Token::SingleQuotedString(_)) => Ok((Some(token.to_string()), place + 1)),
        _ => fault(format!("SAMPLE BY: {what} takes a text in quotes")),
    }
}

/// Moves a `TIMESTAMP(column)` from the `FROM` before a position into the call there.
fn designate(tokens: &mut [Token], at: usize) -> Result<()> {
    let mut depth = 0usize;
    let mut named = None;
    for place in (0..at).rev() {
        match &tokens[place] {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => break,
            Token::LParen => depth -= 1,
            token if depth == 0 && is_word(token, "select") => break,
            token if depth == 0 && is_word(token, "group") => {
                return fault("SAMPLE BY beside GROUP BY isn't supported: its keys are the columns of the select list");
            }
            token if depth == 0 && is_word(token, "from") => {
                if super::before(tokens, place).is_some_and(|token| is_word(token, "distinct")) {
                    continue;
                }
                named = timestamp(tokens, place + 1, at);
                break;
            }
            _ => {}
        }
    }
    let Some((from, to, column)) = named else { return Ok(()) };
    if let Token::Word(word) = &mut tokens[at] {
        word.value = word.value.replacen("NULL", &column, 1);
    }
    tokens[from..to].fill(Token::Whitespace(Whitespace::Space));
    Ok(())
}

/// Finds a `TIMESTAMP(column)` after a relation.
fn timestamp(tokens: &[Token], from: usize, to: usize) -> Option<(usize, usize, String)> {
    let mut depth = 0usize;
    let mut before: Option<&Token> = None;
    for place in from..to {
        match &tokens[place] {
            Token::Whitespace(_) => continue,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            token if depth == 0 && is_word(token, "where") => return None,
            token if depth == 0 && is_word(token, "timestamp") => {
                let open = solid(tokens, place + 1);
                let name = solid(tokens, open + 1);
                let close = solid(tokens, name + 1);
                if matches!(before, Some(Token::RParen | Token::Word(_)))
                    && let (Some(Token::LParen), Some(column @ Token::Word(_)), Some(Token::RParen)) =
                        (tokens.get(open), tokens.get(name), tokens.get(close))
                {
                    return Some((place, close + 1, column.to_string()));
                }
            }
            _ => {}
        }
        before = Some(&tokens[place]);
    }
    None
}
