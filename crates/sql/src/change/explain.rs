//! `EXPLAIN` of a statement that changes rows: the plan of the query that gives or finds them. It only reads, so it runs on every path where
//! other reads do; as in PostgreSQL it takes the rights of the statement itself.

use std::time::Instant;

use arrow::datatypes::SchemaRef;
use splay_engine::Stop;
use splay_store::Reference;

use super::changed_rows::ChangedRows;
use super::run::{already_there, check_conflict, fill_positions, given_positions, inserted};
use super::statement::{Statement, begins};
use super::table_to_change;
use crate::answer::Answer;
use crate::error::{Error, Result, fault, only};
use crate::parameters::Parameters;
use crate::placeholders;
use crate::session::{Description, Session, explained_rows, with_rows};
use crate::statements::{self, without_blanks};
use crate::table_spec::{self, columns_of, positions};

/// An `EXPLAIN` of a statement that changes something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExplainedChange<'a> {
    statement: &'a str,
    is_verbose: bool,
}

/// What a statement that changes rows does, and the query that gives or finds these rows.
pub(crate) struct ChangeQuery {
    /// In words.
    what: String,
    /// `None` where no query runs.
    query: Option<String>,
}

impl<'a> ExplainedChange<'a> {
    /// # Errors
    /// [`Error::Statement`] for `ANALYZE` and options.
    pub(crate) fn of(text: &'a str) -> Result<Option<ExplainedChange<'a>>> {
        let Some(mut rest) = behind_word(text, "explain") else { return Ok(None) };
        let (mut is_verbose, mut has_options) = (false, false);
        loop {
            if let Some(behind) = behind_word(rest, "verbose") {
                (rest, is_verbose) = (behind, true);
            } else if let Some(behind) = behind_word(rest, "analyze") {
                (rest, has_options) = (behind, true);
            } else if let Some((_, behind)) =
                without_blanks(rest).strip_prefix('(').and_then(|options| options.split_once(')'))
            {
                (rest, has_options) = (behind, true);
            } else if !begins(rest) {
                return Ok(None);
            } else if has_options {
                return fault(
                    "EXPLAIN of a statement that changes something shows its plan: it takes VERBOSE, but neither ANALYZE, which would run it, nor options",
                );
            } else {
                return Ok(Some(ExplainedChange { statement: rest, is_verbose }));
            }
        }
    }
}

/// What stands behind a word, if a text begins with it.
fn behind_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (begin, rest) = without_blanks(text).split_at_checked(word.len())?;
    let goes_on = rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    (begin.eq_ignore_ascii_case(word) && !goes_on).then_some(rest)
}

impl Session {
    /// The answer of `EXPLAIN`: a row that says what the statement does, then those of its query's plan.
    ///
    /// # Errors
    /// [`Error::Statement`] for statements without a query; those that the statement itself reports before it reads rows.
    pub(crate) fn explain_change(
        &self,
        explained: &ExplainedChange<'_>,
        parameters: Parameters,
        stop: Stop<'_>,
    ) -> Result<Answer> {
        let start = Instant::now();
        let text = placeholders::number_placeholders(explained.statement)?;
        let found = self.change_query(&text, stop).map_err(|error| self.redact(error))?;
        let Some(ChangeQuery { what, query }) = found else { return fault(without_query(&text)) };
        let mut batches = vec![explained_rows(&[("change", &what)])?];
        let Some(query) = query else { return Ok(self.answer_of(batches, start)) };
        let verbose = if explained.is_verbose { "VERBOSE " } else { "" };
        let mut answer = self.sql_until(&format!("EXPLAIN {verbose}{query}"), parameters, stop)?;
        answer.read_with_checks();
        batches.extend(answer.batches()?);
        Ok(with_rows(answer, batches[0].schema(), batches))
    }

    /// Describes that answer, and the values that the statement takes.
    ///
    /// # Errors
    /// As [`Session::explain_change`].
    pub(crate) fn describe_explained(&self, explained: &ExplainedChange<'_>, stop: Stop<'_>) -> Result<Description> {
        let text = placeholders::number_placeholders(explained.statement)?;
        let parameters = self.describe_change(&text, stop)?.parameters;
        let parameters = parameters.into_iter().map(|(name, data_type)| (name, Some(data_type))).collect();
        let Description { schema, .. } = self.describe_until("EXPLAIN SELECT 1", stop)?;
        Ok(Description { schema, parameters })
    }

    /// The query of a statement that changes rows; `None` for statements without one. Reports the faults that show before rows are read, such as
    /// names that aren't there.
    ///
    /// # Errors
    /// Those of [`Session::change`].
    pub(crate) fn change_query(&self, text: &str, stop: Stop<'_>) -> Result<Option<ChangeQuery>> {
        // Checks rights, the table and RETURNING, too.
        self.describe_change(text, stop)?;
        let spec = |table: &str| Ok::<_, Error>(table_to_change(self.database(), table)?.snapshot()?.spec().clone());
        let (what, query) = match Statement::of(text)? {
            Some(Statement::Insert { into, columns, query, conflict, .. }) => {
                let spec = spec(&into.table)?;
                check_conflict(&spec, conflict.as_ref())?;
                columns.as_deref().map_or(Ok(()), |columns| given_positions(&spec, columns).map(drop))?;
                let query = inserted(&spec, columns.as_deref(), &query).into_owned();
                if let Some(schema) = self.schema_of(&query, stop)? {
                    fill_positions(&spec, columns.as_deref(), &schema)?;
                }
                (format!("Insert the rows of this query into {}", spec.name), Some(query))
            }
            Some(Statement::Create { table, if_absent, key, effective, query: Some(query), options, .. }) => {
                let is_there = self.database().has_table(&table)?;
                if is_there && !if_absent {
                    return already_there(&table);
                }
                if let Some(schema) = self.schema_of(&query, stop)? {
                    table_spec::spec(&table, columns_of(&schema, &options)?, Reference { key, effective }, &options)?;
                }
                match is_there {
                    true => (format!("Nothing: there is a table {table} already"), None),
                    false => (format!("Create table {table} with the rows of this query"), Some(query)),
                }
            }
            Some(Statement::Update { rows, set, .. }) => {
                let spec = spec(&rows.table)?;
                let (columns, values): (Vec<String>, Vec<String>) = set.into_iter().unzip();
                positions(&spec, &columns)?;
                let values = values.iter().enumerate().map(|(at, value)| format!("({value}) AS \"__{at}\""));
                let items: Vec<String> = std::iter::once(all_of(&rows)).chain(values).collect();
                let query = rows.select(&items.join(", "));
                self.schema_of(&query, stop)?;
                (format!("Update the rows of {} that this query finds", spec.name), Some(query))
            }
            Some(Statement::Delete { rows, .. }) => {
                let spec = spec(&rows.table)?;
                if rows.condition.is_none() && rows.from.is_none() {
                    (format!("Delete all rows of {}", spec.name), None)
                } else {
                    let query = rows.select(&all_of(&rows));
                    self.schema_of(&query, stop)?;
                    (format!("Delete the rows of {} that this query finds", spec.name), Some(query))
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(ChangeQuery { what, query }))
    }

    /// The columns of a query; `None` if they depend on values of placeholders.
    ///
    /// # Errors
    /// [`Error::Statement`] for a query that can't be planned, whatever the values are.
    fn schema_of(&self, query: &str, stop: Stop<'_>) -> Result<Option<SchemaRef>> {
        let described = self.describe_until(query, stop);
        match statements::placeholders(query) {
            0 => Ok(Some(described?.schema)),
            _ => only(described, |error| error.is_of_name() || error.is_of_syntax()).map(|()| None),
        }
    }
}

fn without_query(text: &str) -> String {
    let has_object = ["create", "drop", "alter"].iter().any(|word| behind_word(text, word).is_some());
    let words: Vec<&str> = text.split_ascii_whitespace().take(1 + usize::from(has_object)).collect();
    format!(
        "EXPLAIN shows how a query runs, and {} has none; it is for SELECT, INSERT, UPDATE, DELETE and CREATE TABLE AS",
        words.join(" ").to_uppercase()
    )
}

fn all_of(rows: &ChangedRows) -> String {
    format!("{}.*", rows.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_behind_explain_are_explained() {
        let of = |text| {
            ExplainedChange::of(text).unwrap().map(|explained| (explained.statement.trim(), explained.is_verbose))
        };
        assert_eq!(of("explain delete from t"), Some(("delete from t", false)));
        assert_eq!(of(" -- x\n EXPLAIN /* y */ Verbose\nUPDATE t set a = 1"), Some(("UPDATE t set a = 1", true)));
        for text in ["explain analyze insert into t values (1)", "explain (costs off) delete from t"] {
            assert!(ExplainedChange::of(text).is_err(), "{text}");
        }
        for text in [
            "explain select 1",
            "explain analyze select 1",
            "explain (select 1)",
            "explain",
            "explained delete from t",
            "delete from t",
            "explain (delete from t",
            "explain explain delete from t",
            "éxplain",
            "",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
