//! `PREPARE`, `EXECUTE` and `DEALLOCATE`: a session's named statements.
//!
//! `EXECUTE` runs the statement with its values as literals, cast to the types of `PREPARE`. Tick plans are cached by
//! the text without literals, so this costs as much as a cached statement.

use std::borrow::Cow;
use std::collections::HashMap;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use splay_store::Counted;

use crate::error::{Result, fault};
use crate::limits::TEXT_BYTES_MAX;
use crate::placeholders;
use crate::statements;
use crate::token_reader::TokenReader;

/// Most bytes of the texts that a session stores.
const STATEMENTS_BYTES_MAX: usize = 16 << 20;

/// First words of such statements.
const FIRST_WORDS: [&str; 4] = ["prepare", "execute", "deallocate", "explain"];

/// A statement about named statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedStatement {
    /// `PREPARE name [(type, …)] AS statement`.
    Prepare {
        /// The name.
        name: String,
        /// Types of the placeholders, as they are written.
        types: Vec<String>,
        /// The statement, with numbered placeholders.
        text: String,
    },
    /// `[EXPLAIN [ANALYZE]] EXECUTE name [(value, …)]`.
    Execute {
        /// The words before `EXECUTE`: none, `EXPLAIN` or `EXPLAIN ANALYZE`.
        before: String,
        /// The name.
        name: String,
        /// The values, as they are written.
        values: Vec<String>,
    },
    /// `DEALLOCATE [PREPARE] name | ALL`.
    Deallocate {
        /// The name; `None` for all.
        name: Option<String>,
    },
}

/// The named statements of a session.
#[derive(Debug, Default)]
pub struct NamedStatements {
    statements: HashMap<String, StoredStatement>,
}

#[derive(Debug)]
struct StoredStatement {
    types: Vec<String>,
    text: String,
}

/// A statement as a session has to run it.
#[derive(Debug, PartialEq, Eq)]
pub enum ResolvedStatement<'a> {
    /// A statement to run: the text itself, or the statement that `EXECUTE` names.
    Statement(Cow<'a, str>),
    /// `PREPARE` or `DEALLOCATE`, which was carried out.
    Done,
}

impl NamedStatement {
    /// Parses such a statement; `None` for any other.
    ///
    /// # Errors
    /// [`Error::Statement`](crate::Error::Statement) for one that isn't complete.
    pub fn of(text: &str) -> Result<Option<NamedStatement>> {
        let start = statements::without_blanks(text);
        let is_first = |word: &&str| start.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
        if start.len() > TEXT_BYTES_MAX || !FIRST_WORDS.iter().any(is_first) {
            return Ok(None);
        }
        let Ok(tokens) = Tokenizer::new(&GenericDialect {}, start).with_unescape(false).tokenize() else {
            return Ok(None);
        };
        let mut words = TokenReader::of(&tokens);
        let statement = if words.take(&["prepare"]) {
            prepare(&mut words)?
        } else if words.take(&["deallocate"]) {
            // PREPARE may be the name.
            let name = name_of(&mut words)?;
            let name = if name == "prepare" && !words.is_at_end() { name_of(&mut words)? } else { name };
            NamedStatement::Deallocate { name: (name != "all").then_some(name) }
        } else {
            words.take(&["explain"]);
            words.take(&["analyze"]);
            words.take(&["verbose"]);
            let before = words.text_from(0);
            if !words.take(&["execute"]) {
                return Ok(None);
            }
            let name = name_of(&mut words)?;
            let values = if words.peek_bracket() { words.items()? } else { Vec::new() };
            NamedStatement::Execute { before, name, values }
        };
        words.end()?;
        Ok(Some(statement))
    }
}

/// A name, without regard to case.
fn name_of(words: &mut TokenReader<'_>) -> Result<String> {
    Ok(words.name("a statement")?.to_lowercase())
}

fn prepare(words: &mut TokenReader<'_>) -> Result<NamedStatement> {
    let name = name_of(words)?;
    let types = if words.peek_bracket() { words.items()? } else { Vec::new() };
    if !words.take(&["as"]) {
        return fault("PREPARE needs AS and a statement behind the name");
    }
    let text = words.take_rest();
    if text.is_empty() {
        return fault("PREPARE needs a statement behind AS");
    }
    let text = placeholders::number_placeholders(&text)?.into_owned();
    if matches!(NamedStatement::of(&text), Err(_) | Ok(Some(_))) {
        return fault("PREPARE keeps statements that are run, not PREPARE, EXECUTE or DEALLOCATE");
    }
    Ok(NamedStatement::Prepare { name, types, text })
}

impl NamedStatements {
    /// Resolves a statement: `EXECUTE` gives the prepared text with its values. `PREPARE` and `DEALLOCATE` are carried out.
    ///
    /// # Errors
    /// [`Error::Statement`](crate::Error::Statement) for an unknown name or one in use, for a wrong number of values, and for more text than a
    /// session stores.
    pub fn resolve<'a>(&mut self, text: &'a str) -> Result<ResolvedStatement<'a>> {
        match NamedStatement::of(text)? {
            None => Ok(ResolvedStatement::Statement(Cow::Borrowed(text))),
            Some(statement) => Ok(match self.run(statement)? {
                Some(text) => ResolvedStatement::Statement(Cow::Owned(text)),
                None => ResolvedStatement::Done,
            }),
        }
    }

    /// Carries out `PREPARE` and `DEALLOCATE`; returns the statement that `EXECUTE` names.
    ///
    /// # Errors
    /// As [`NamedStatements::resolve`].
    pub fn run(&mut self, statement: NamedStatement) -> Result<Option<String>> {
        match statement {
            NamedStatement::Prepare { name, types, text } => self.keep(name, types, text)?,
            NamedStatement::Execute { before, name, values } => {
                let text = self.execute(&name, &values)?;
                return Ok(Some(if before.is_empty() { text } else { format!("{before} {text}") }));
            }
            NamedStatement::Deallocate { name: None } => self.statements.clear(),
            NamedStatement::Deallocate { name: Some(name) } => {
                if self.statements.remove(&name).is_none() {
                    return fault(missing(&name));
                }
            }
        }
        Ok(None)
    }

    /// Whether there is a statement of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.statements.contains_key(name)
    }

    fn keep(&mut self, name: String, types: Vec<String>, text: String) -> Result<()> {
        if self.has(&name) {
            return fault(format!("prepared statement {name:?} already exists"));
        }
        let bytes = |name: &str, stored: &StoredStatement| {
            name.len() + stored.text.len() + stored.types.iter().map(String::len).sum::<usize>()
        };
        let new = StoredStatement { types, text };
        let all: usize = self.statements.iter().map(|(name, stored)| bytes(name, stored)).sum();
        if all + bytes(&name, &new) > STATEMENTS_BYTES_MAX {
            return fault(format!(
                "a session keeps {} MiB of prepared statements: DEALLOCATE some",
                STATEMENTS_BYTES_MAX >> 20
            ));
        }
        self.statements.insert(name, new);
        Ok(())
    }

    /// The text of a statement with values.
    fn execute(&self, name: &str, values: &[String]) -> Result<String> {
        let Some(StoredStatement { types, text }) = self.statements.get(name) else { return fault(missing(name)) };
        let count = statements::placeholders(text);
        if values.len() != count {
            let (has, gives) = (Counted(count as u64, "placeholder"), Counted(values.len() as u64, "value"));
            return fault(format!("{name:?} has {has}, and EXECUTE gives {gives}"));
        }
        let values: Vec<String> =
            values.iter().enumerate().map(|(at, value)| value_text(value, types.get(at))).collect();
        let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize() else {
            return Ok(text.clone());
        };
        let mut filled = String::with_capacity(text.len());
        for token in tokens {
            match &token {
                Token::Placeholder(name) => match name.trim_start_matches('$').parse::<usize>() {
                    Ok(at @ 1..) if at <= count => filled.push_str(&values[at - 1]),
                    _ => return fault(format!("PREPARE takes placeholders by number, $1, and not {name}")),
                },
                token => filled.push_str(&token.to_string()),
            }
            if filled.len() > TEXT_BYTES_MAX {
                return fault(format!("with its values the statement has more than {TEXT_BYTES_MAX} bytes"));
            }
        }
        Ok(filled)
    }
}

/// A value as it is inserted into the statement.
fn value_text(value: &str, of: Option<&String>) -> String {
    let is_literal = value.bytes().all(|byte| byte.is_ascii_digit())
        || value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).is_some_and(|text| !text.contains('\''));
    match of {
        Some(of) => format!("CAST(({value}\n) AS {of})"),
        None if is_literal => value.to_owned(),
        None => format!("({value}\n)"),
    }
}

fn missing(name: &str) -> String {
    format!("prepared statement {name:?} does not exist")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn resolved(session: &mut NamedStatements, text: &str) -> String {
        match session.resolve(text) {
            Ok(ResolvedStatement::Statement(text)) => text.into_owned(),
            Ok(ResolvedStatement::Done) => "done".to_owned(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn values_come_in_the_places_of_placeholders() {
        let mut session = NamedStatements::default();
        for (text, expected) in [
            ("select 1", "select 1"),
            ("PREPARE last AS select last(price) - $2 from trade where sym = $1 -- $3\n", "done"),
            ("execute last('it''s', -1)", "select last(price) - (-1\n) from trade where sym = ('it''s'\n)"),
            ("/* x */ Execute last('IBM', 2);", "select last(price) - 2 from trade where sym = 'IBM'"),
            (
                "explain analyze execute LAST('IBM', f(1, (2)))",
                "explain analyze select last(price) - (f(1, (2))\n) from trade where sym = 'IBM'",
            ),
            ("prepare t (timestamp, decimal(9, 2)) as select ?, ?", "done"),
            ("execute t('2024-01-02', 1)", "select CAST(('2024-01-02'\n) AS timestamp), CAST((1\n) AS decimal(9, 2))"),
            ("explain select 1", "explain select 1"),
            ("deallocate prepare last", "done"),
            ("deallocate all", "done"),
        ] {
            assert_eq!(resolved(&mut session, text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let mut session = NamedStatements::default();
        assert_eq!(resolved(&mut session, "prepare p as select $1, $x"), "done");
        for (text, expected) in [
            ("prepare p as select 1", "already exists"),
            ("prepare q select 1", "needs AS"),
            ("prepare q as", "needs a statement"),
            ("prepare q as execute p", "not PREPARE"),
            ("execute q", "\"q\" does not exist"),
            ("execute p", "has 1 placeholder, and EXECUTE gives 0 values"),
            ("execute p(1)", "and not $x"),
            ("execute p(1", "is not closed"),
            ("execute p(1) x", "not expected"),
            ("deallocate q", "does not exist"),
            ("deallocate", "expected a statement"),
        ] {
            let message = resolved(&mut session, text);
            assert!(message.starts_with("error") && message.contains(expected), "{text}: {message}");
        }
        let long = format!("prepare long as select {}", "$1, ".repeat(100_000));
        assert_eq!(resolved(&mut session, &long), "done");
        assert!(resolved(&mut session, &format!("execute long('{}')", "x".repeat(1000))).contains("more than"));
    }
}
