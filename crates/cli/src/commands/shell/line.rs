//! Editing of a line: completion, and whether it is whole.

use std::sync::Arc;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper, Result};

use super::backslash;
use super::names::Names;
use super::settings::MODES;
use splay_sql::statements::{is_blank, split};

pub struct LineHelper {
    names: Arc<Names>,
    files: FilenameCompleter,
}

impl LineHelper {
    pub fn new(names: Arc<Names>) -> LineHelper {
        LineHelper { names, files: FilenameCompleter::new() }
    }
}

impl Completer for LineHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, context: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let before = &line[..position];
        let pair = |name: String| Pair { display: name.clone(), replacement: name };
        let among = |names: Vec<&'static str>, word: &str| {
            names
                .into_iter()
                .filter(|name| name.starts_with(word))
                .map(|name| pair(name.to_owned()))
                .collect::<Vec<Pair>>()
        };
        if before.starts_with('\\') && !before.contains(char::is_whitespace) {
            return Ok((0, among(backslash::names(), before)));
        }
        if let Some(mode) = before.strip_prefix("\\mode ") {
            return Ok((position - mode.len(), among(MODES.map(|(name, _)| name).to_vec(), mode)));
        }
        if before.starts_with("\\i ") || before.starts_with("\\o ") || is_in_quotes(before) {
            return self.files.complete(line, position, context);
        }
        let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + width_at(before, at));
        let word = &before[start..];
        if word.is_empty() {
            return Ok((position, Vec::new()));
        }
        let tables = if is_of_table(&before[..start]) { self.names.tables(word) } else { Vec::new() };
        let names = if tables.is_empty() { self.names.completions(word) } else { tables };
        Ok((start, names.into_iter().map(pair).collect()))
    }
}

/// Whether a line ends with a word behind which a table stands.
fn is_of_table(line: &str) -> bool {
    let last = line.trim_end().rsplit(char::is_whitespace).next().unwrap_or_default();
    ["from", "join", "into", "update", "table", "describe", "\\d"].iter().any(|word| word.eq_ignore_ascii_case(last))
}

fn width_at(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

/// Whether a line ends within a text, which may be the name of a file.
fn is_in_quotes(line: &str) -> bool {
    line.matches('\'').count() % 2 == 1
}

impl Validator for LineHelper {}

/// Whether nothing is missing: a command, blanks, or statements of which the last ends with a semicolon.
pub fn is_whole(input: &str) -> bool {
    input.trim_start().starts_with('\\') || is_blank(split(input).1) || backslash::without_backslash(input).is_some()
}

impl Hinter for LineHelper {
    type Hint = String;
}

impl Highlighter for LineHelper {}

impl Helper for LineHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_whole_with_its_semicolon() {
        for whole in ["", "  ", "select 1;", "select 1; -- done", "\\d", " \\timing", "select ';';", "exit", " Help "] {
            assert!(is_whole(whole), "{whole:?}");
        }
        for open in ["select 1", "exit now", "select ';", "select 1; select", "select 1 /* ;"] {
            assert!(!is_whole(open), "{open:?}");
        }
    }

    #[test]
    fn commands_and_modes_are_completed() {
        let helper = LineHelper::new(Arc::new(Names::default()));
        let history = rustyline::history::MemHistory::new();
        let completed = |line: &str| {
            let (start, pairs) = helper.complete(line, line.len(), &Context::new(&history)).unwrap();
            (start, pairs.into_iter().map(|pair| pair.replacement).collect::<Vec<_>>())
        };
        assert_eq!(completed("\\mo"), (0, vec!["\\mode".to_owned()]));
        assert_eq!(completed("\\st"), (0, vec!["\\stats".to_owned()]));
        assert_eq!(completed("\\mode v"), (6, vec!["vertical".to_owned()]));
        assert_eq!(completed("\\mode ").1.len(), MODES.len());
    }
}
