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
    cache: Mutex<CompletionNames>,
}

#[derive(Debug, Default)]
struct CompletionNames {
    tables: BTreeSet<String>,
    columns: BTreeSet<String>,
    functions: Option<BTreeSet<String>>,
}

impl Names {
    fn cache(&self) -> MutexGuard<'_, CompletionNames> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns the tables and their columns, and the functions once. A server that doesn't answer leaves them unknown.
    pub fn learn(&self, source: &Source) {
        let names = texts(
            source,
            "select table_name, column_name from information_schema.columns where table_schema = 'public'",
        );
        if let Some([tables, columns]) = names.as_deref() {
            let mut cache = self.cache();
            cache.tables = tables.iter().cloned().collect();
            cache.columns = columns.iter().cloned().collect();
        }
        self.functions(source);
    }

    /// Names of functions.
    pub fn functions(&self, source: &Source) -> BTreeSet<String> {
        if let Some(functions) = &self.cache().functions {
            return functions.clone();
        }
        let names = texts(source, "select distinct routine_name from information_schema.routines");
        let functions: BTreeSet<String> = names.into_iter().flatten().flatten().collect();
        self.cache().functions = Some(functions.clone());
        functions
    }

    /// Names that begin as a word does, without regard to case; the word's own case for keywords.
    pub fn completions(&self, word: &str) -> Vec<String> {
        let mut names = self.tables(word);
        let cache = self.cache();
        let begins = |name: &&String| begins(name, word);
        names.extend(cache.columns.iter().filter(begins).map(|name| spelt(name)));
        let upper = word.chars().any(char::is_uppercase) && word == word.to_uppercase();
        let keywords = KEYWORDS.iter().filter(|name| name.starts_with(&word.to_lowercase()));
        names.extend(keywords.map(|name| if upper { name.to_uppercase() } else { (*name).to_owned() }));
        let functions = cache.functions.iter().flatten().filter(begins);
        names.extend(functions.map(|name| format!("{name}(")));
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// Tables whose names begin as a word does.
    pub fn tables(&self, word: &str) -> Vec<String> {
        self.cache().tables.iter().filter(|name| begins(name, word)).map(|name| spelt(name)).collect()
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
        *names.cache() = CompletionNames {
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
