//! `glob(text, pattern)`: whether the whole of a text matches a pattern, as `like` of kdb+ does.
//!
//! `?` is one character, `*` any run of characters or none, `[abc]` and `[a-z]` one character of a set, `[^…]` one
//! character outside it. There is no escape: a special character stands for itself inside brackets (`[*]`), and `]`
//! does as the first of its set. Case counts. Null in either argument gives null.
//!
//! A dictionary column is matched once per dictionary entry, not per row.
//!
//! Source: code.kx.com/q/basics/regex.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::arguments::is_text;

/// The scalar function `glob`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Glob {
    signature: Signature,
}

impl Glob {
    pub(super) fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Glob {
    fn name(&self) -> &str {
        "glob"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [text, pattern] if (is_text(text) || text.is_null()) && (is_text(pattern) || pattern.is_null()) => {
                Ok(vec![if text.is_null() { DataType::Utf8 } else { text.clone() }, DataType::Utf8])
            }
            _ => plan_err!("glob takes (text, pattern)"),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text, pattern] = args.args.as_slice() else { return exec_err!("glob takes (text, pattern)") };
        let all_constant = matches!((text, pattern), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if all_constant { 1 } else { args.number_rows };
        let text = text.to_array(rows)?;
        let matches: BooleanArray = match pattern {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(pattern))) => {
                match_constant(&text, &Pattern::parse(pattern)?)?
            }
            ColumnarValue::Scalar(_) => return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None))),
            ColumnarValue::Array(patterns) => match_rows(&text, patterns)?,
        };
        if all_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&matches, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(matches)))
    }
}

fn match_constant(text: &ArrayRef, pattern: &Pattern) -> Result<BooleanArray> {
    let test = |text: Option<&str>| text.map(|text| pattern.matches(text));
    Ok(match text.data_type() {
        DataType::Dictionary(_, _) => {
            let dictionary = text.as_any_dictionary();
            let entries = match_constant(dictionary.values(), pattern)?;
            take(&entries, dictionary.keys(), None)?.as_boolean().clone()
        }
        DataType::LargeUtf8 => text.as_string::<i64>().iter().map(test).collect(),
        DataType::Utf8View => text.as_string_view().iter().map(test).collect(),
        _ => text.as_string::<i32>().iter().map(test).collect(),
    })
}

fn match_rows(text: &ArrayRef, patterns: &ArrayRef) -> Result<BooleanArray> {
    let text = cast(text, &DataType::Utf8)?;
    let text: &StringArray = text.as_string();
    text.iter()
        .zip(patterns.as_string::<i32>())
        .map(|pair| match pair {
            (Some(text), Some(pattern)) => Ok(Some(Pattern::parse(pattern)?.matches(text))),
            _ => Ok(None),
        })
        .collect()
}

/// A pattern read once. The common shapes have a form of their own, searched without a table of positions.
#[derive(Debug, PartialEq)]
enum Pattern {
    Whole(String),
    Starts(String),
    Ends(String),
    Contains(String),
    General(Vec<GlobToken>),
}

#[derive(Debug, Clone, PartialEq)]
enum GlobToken {
    Char(char),
    AnyChar,
    AnyRun,
    Set { negated: bool, ranges: Vec<(char, char)> },
}

impl Pattern {
    fn parse(pattern: &str) -> Result<Self> {
        let tokens = tokenize(pattern)?;
        let (leading, rest) = strip(&tokens, tokens.first());
        let (trailing, middle) = if rest.is_empty() { (leading, rest) } else { strip_end(rest) };
        let literal: Option<String> = middle
            .iter()
            .map(|token| match token {
                GlobToken::Char(c) => Some(*c),
                _ => None,
            })
            .collect();
        Ok(match (literal, leading, trailing) {
            (Some(text), false, false) => Self::Whole(text),
            (Some(text), false, true) => Self::Starts(text),
            (Some(text), true, false) => Self::Ends(text),
            (Some(text), true, true) => Self::Contains(text),
            (None, _, _) => Self::General(tokens),
        })
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Whole(part) => text == part,
            Self::Starts(part) => text.starts_with(part.as_str()),
            Self::Ends(part) => text.ends_with(part.as_str()),
            Self::Contains(part) => text.contains(part.as_str()),
            Self::General(tokens) => matches_tokens(tokens, text),
        }
    }
}

fn strip<'a>(tokens: &'a [GlobToken], first: Option<&GlobToken>) -> (bool, &'a [GlobToken]) {
    match first {
        Some(GlobToken::AnyRun) => (true, &tokens[1..]),
        _ => (false, tokens),
    }
}

fn strip_end(tokens: &[GlobToken]) -> (bool, &[GlobToken]) {
    match tokens.split_last() {
        Some((GlobToken::AnyRun, rest)) => (true, rest),
        _ => (false, tokens),
    }
}

fn tokenize(pattern: &str) -> Result<Vec<GlobToken>> {
    let mut chars = pattern.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(c) = chars.next() {
        let token = match c {
            '?' => GlobToken::AnyChar,
            // Two stars in a row mean what one does.
            '*' if tokens.last() == Some(&GlobToken::AnyRun) => continue,
            '*' => GlobToken::AnyRun,
            '[' => {
                let mut set = Vec::new();
                let negated = chars.next_if_eq(&'^').is_some();
                loop {
                    match chars.next() {
                        Some(']') if !set.is_empty() => break,
                        Some(c) => set.push(c),
                        None => return exec_err!("the pattern '{pattern}' has a [ without its ]"),
                    }
                }
                GlobToken::Set { negated, ranges: ranges(&set) }
            }
            c => GlobToken::Char(c),
        };
        tokens.push(token);
    }
    Ok(tokens)
}

/// Reads `a-z` as a range and a hyphen at either end as itself.
fn ranges(set: &[char]) -> Vec<(char, char)> {
    let mut ranges = Vec::new();
    let mut rest = set;
    while let [first, tail @ ..] = rest {
        rest = match tail {
            ['-', last, tail @ ..] => {
                ranges.push((*first, *last));
                tail
            }
            _ => {
                ranges.push((*first, *first));
                tail
            }
        };
    }
    ranges
}

/// Greedy match with one place to come back to: linear for patterns with one run, never exponential.
fn matches_tokens(tokens: &[GlobToken], text: &str) -> bool {
    let (mut position, mut rest) = (0, text.chars());
    let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        if tokens.get(position) == Some(&GlobToken::AnyRun) {
            position += 1;
            retry = Some((position, rest.clone()));
            continue;
        }
        let mut ahead = rest.clone();
        let matched = match (tokens.get(position), ahead.next()) {
            (None, None) => return true,
            (Some(token), Some(c)) => token.accepts(c),
            _ => false,
        };
        if matched {
            position += 1;
            rest = ahead;
            continue;
        }
        // Let the last run take one more character and try again from there.
        let Some((after, from)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        position = *after;
        rest = from.clone();
    }
}

impl GlobToken {
    fn accepts(&self, c: char) -> bool {
        match self {
            Self::Char(expected) => *expected == c,
            Self::AnyChar => true,
            Self::AnyRun => false,
            Self::Set { negated, ranges } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated,
        }
    }
}
