//! Names that a shell completes.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use splay_sql::Progress;

use crate::rows::Source;

/// Words of statements.
const KEYWORDS: [&str; 63] = [
    "all",
    "and",
    "as",
    "asc",
    "asof",
    "between",
    "by",
    "case",
    "cast",
    "cross",
    "date",
    "desc",
    "describe",
    "distinct",
    "else",
    "end",
    "except",
    "exclude",
    "exists",
    "explain",
    "analyze",
    "filter",
    "from",
    "full",
    "group",
    "having",
    "in",
    "inner",
    "intersect",
    "interval",
    "is",
    "join",
    "last",
    "left",
    "like",
    "limit",
    "match",
    "not",
    "null",
    "nulls",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "over",
    "partition",
    "pivot",
    "qualify",
    "range",
    "right",
    "rows",
    "sample",
    "select",
    "semi",
    "then",
    "timestamp",
    "union",
    "unpivot",
    "using",
    "when",
    "where",
    "with",
];

/// Tables, columns and functions, as far as they were asked for.
#[derive(Debug, Default)]
pub struct Names {
    known: Mutex<CompletionNames>,
}

#[derive(Debug, Default)]
struct CompletionNames {
    tables: BTreeSet<String>,
    columns: BTreeSet<String>,
    functions: Option<BTreeSet<String>>,
}

impl Names {
    fn known(&self) -> MutexGuard<'_, CompletionNames> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns the tables and their columns, and the functions once. A server that doesn't answer leaves them unknown.
    pub fn learn(&self, source: &Source) {
        let found = texts(
            source,
            "select table_name, column_name from information_schema.columns where table_schema = 'public'",
        );
        if let Some([tables, columns]) = found.as_deref() {
            let mut known = self.known();
            known.tables = tables.iter().cloned().collect();
            known.columns = columns.iter().cloned().collect();
        }
        self.functions(source);
    }

    /// Names of functions.
    pub fn functions(&self, source: &Source) -> BTreeSet<String> {
        if let Some(functions) = &self.known().functions {
            return functions.clone();
        }
        let found = texts(source, "select distinct routine_name from information_schema.routines");
        let functions: BTreeSet<String> = found.into_iter().flatten().flatten().collect();
        self.known().functions = Some(functions.clone());
        functions
    }

    /// Names that begin as a word does, without regard to case; the word's own case for keywords.
    pub fn completions(&self, word: &str) -> Vec<String> {
        let mut found = self.tables(word);
        let known = self.known();
        let begins = |name: &&String| begins(name, word);
        found.extend(known.columns.iter().filter(begins).map(|name| spelt(name)));
        let upper = word.chars().any(char::is_uppercase) && word == word.to_uppercase();
        let keywords = KEYWORDS.iter().filter(|name| name.starts_with(&word.to_lowercase()));
        found.extend(keywords.map(|name| if upper { name.to_uppercase() } else { (*name).to_owned() }));
        let functions = known.functions.iter().flatten().filter(begins);
        found.extend(functions.map(|name| format!("{name}(")));
        let mut seen = BTreeSet::new();
        found.retain(|name| seen.insert(name.clone()));
        found
    }

    /// Tables whose names begin as a word does.
    pub fn tables(&self, word: &str) -> Vec<String> {
        self.known().tables.iter().filter(|name| begins(name, word)).map(|name| spelt(name)).collect()
    }
}

fn begins(name: &str, word: &str) -> bool {
    name.to_lowercase().starts_with(&word.to_lowercase())
}

/// A name as a statement has it: they are matched without regard to case, but blanks and signs want quotes.
fn spelt(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain { name.to_owned() } else { format!("\"{name}\"") }
}

/// The columns of a statement's answer as texts.
fn texts(source: &Source, statement: &str) -> Option<Vec<Vec<String>>> {
    let never = AtomicBool::new(false);
    let progress = Progress::default();
    let mut started = source.start(statement, &HashMap::new(), &never, &progress).ok()?;
    let rows = started.rows();
    let mut columns = vec![Vec::new(); rows.schema.fields().len()];
    for batch in rows.batches {
        for (column, texts) in batch.ok()?.columns().iter().zip(&mut columns) {
            let column = cast(column, &DataType::Utf8).ok()?;
            texts.extend(column.as_string::<i32>().iter().flatten().map(str::to_owned));
        }
    }
    Some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_complete_a_word_and_keywords_keep_its_case() {
        let names = Names::default();
        *names.known() = CompletionNames {
            tables: ["trade".to_owned()].into(),
            columns: ["Trade_Price".to_owned(), "odd name".to_owned()].into(),
            functions: Some(["twap".to_owned()].into()),
        };
        assert_eq!(names.completions("tra"), ["trade", "Trade_Price"]);
        assert_eq!(names.tables("tra"), ["trade"]);
        assert_eq!(names.completions("SEL"), ["SELECT"]);
        assert_eq!(names.completions("sel"), ["select"]);
        assert_eq!(names.completions("tw"), ["twap("]);
        assert_eq!(names.completions("odd"), ["\"odd name\""]);
        assert!(names.completions("zzz").is_empty());
    }
}
