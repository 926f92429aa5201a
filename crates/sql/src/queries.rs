//! Statements that read, from their text to their answer or its description: `SHOW`, `SUMMARIZE`, `PIVOT` and `EXPLAIN` of changes, the queries of views, then the session's plan.

mod sliced;

use std::time::Instant;

use splay_engine::Stop;

pub use self::sliced::LeafRows;
use crate::access::ShowStatement;
use crate::answer::Answer;
use crate::change::ExplainedChange;
use crate::error::Result;
use crate::limits;
use crate::parameters::Parameters;
use crate::pivot_statement::{self, PivotStatement};
use crate::placeholders;
use crate::session::{Description, Session, with_rows};
use crate::show_create::ShowCreate;
use crate::summary::Summary;
use crate::views;

/// Attempts to plan a statement with stored rows of materialized views whose tables change meanwhile.
const PLANNED_ANEW_MAX: usize = 3;

impl Session {
    /// Plans a statement and starts it.
    ///
    /// # Errors
    /// [`Error::Statement`](crate::Error::Statement) for text that can't be planned, [`Error::ReadOnly`](crate::Error::ReadOnly) for a statement that
    /// would change something.
    /// Errors of the execution come out of the [`Answer`].
    pub fn sql(&self, text: &str, parameters: Parameters) -> Result<Answer> {
        self.sql_until(text, parameters, Stop::NEVER)
    }

    /// As [`Session::sql`], but stops when `stop` says so. A statement with a tick plan does its work within this call.
    /// For other statements the call waits for the answer; dropping the answer stops them.
    ///
    /// # Errors
    /// Those of [`Session::sql`], and [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn sql_until(&self, text: &str, parameters: Parameters, stop: Stop<'_>) -> Result<Answer> {
        limits::check_text(text)?;
        if let Some(explained) = ExplainedChange::of(text)? {
            return self.explain_change(&explained, parameters, stop);
        }
        let text = &*self.prepare_text(text)?;
        if let Some(shown) = ShowStatement::of(text) {
            return Ok(self.answer_of(vec![shown.rows(self.database(), self.caller())?], Instant::now()));
        }
        if let Some(shown) = ShowCreate::of(text)? {
            return Ok(self.answer_of(vec![shown.row(self.database(), self.caller())?], Instant::now()));
        }
        if let Some(summary) = Summary::of(text) {
            return self.summarize(&summary, &parameters, stop);
        }
        let spelt = match PivotStatement::of(text)? {
            None => None,
            Some(statement) => Some(self.with_values(&statement, &parameters, stop)?),
        };
        let text = spelt.as_deref().unwrap_or(text);
        for _ in 0..PLANNED_ANEW_MAX {
            let views = self.views();
            let rewritten = self.rewritten(&views, text, stop);
            let (expanded, reads) = self.with_views(&views, &rewritten, stop)?;
            if reads.is_empty() {
                return self.run_expanded(&expanded, parameters, stop);
            }
            let answer = self.run_expanded(&expanded, parameters.clone(), stop)?;
            if reads.hold(self.database()) {
                return Ok(answer);
            }
        }
        // The tables change faster than the statement can be planned: plan it without the stored rows.
        let text = &*views::with_views(&self.views(), text, &mut views::as_written)?;
        self.run_expanded(text, parameters, stop)
    }

    /// A `PIVOT` statement as a select. If it doesn't list the values of its key, they are read first.
    fn with_values(&self, pivot: &PivotStatement, parameters: &Parameters, stop: Stop<'_>) -> Result<String> {
        let values = pivot.queries_of_values().into_iter().map(|query| match query {
            None => Ok(Vec::new()),
            Some(query) => pivot_statement::values(&self.sql_until(&query, parameters.clone(), stop)?.batches()?),
        });
        pivot.select(&values.collect::<Result<Vec<_>>>()?)
    }

    /// The rows of `SUMMARIZE`, computed by one statement over all columns.
    fn summarize(&self, summary: &Summary, parameters: &Parameters, stop: Stop<'_>) -> Result<Answer> {
        let start = Instant::now();
        let columns = self.describe_until(&summary.source(), stop)?.schema;
        let planning = start.elapsed();
        let mut answer = self.sql_until(&summary.select(&columns), parameters.clone(), stop)?;
        answer.planning += planning;
        answer.read_with_checks();
        let rows = summary.rows(&columns, &answer.batches()?)?;
        Ok(with_rows(answer, rows.schema(), vec![rows]))
    }

    /// Describes a statement without running it: the columns of its answer and the values that it takes.
    ///
    /// # Errors
    /// [`Error::Statement`](crate::Error::Statement) for text that can't be planned, [`Error::ReadOnly`](crate::Error::ReadOnly) for a statement that
    /// would change something.
    pub fn describe(&self, text: &str) -> Result<Description> {
        self.describe_until(text, Stop::NEVER)
    }

    /// Like [`Session::describe`], but ends early when `stop` is set.
    ///
    /// # Errors
    /// Those of [`Session::describe`], and [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn describe_until(&self, text: &str, stop: Stop<'_>) -> Result<Description> {
        limits::check_text(text)?;
        if let Some(explained) = ExplainedChange::of(text)? {
            return self.describe_explained(&explained, stop);
        }
        let mut text = self.prepare_text(text)?.into_owned();
        if let Some(shown) = ShowStatement::of(&text) {
            return Ok(Description { schema: shown.schema()?, parameters: Vec::new() });
        }
        if ShowCreate::of(&text)?.is_some() {
            return Ok(Description { schema: ShowCreate::schema(), parameters: Vec::new() });
        }
        if let Some(summary) = Summary::of(&text) {
            let Description { parameters, .. } = self.describe_until(&summary.source(), stop)?;
            return Ok(Description { schema: Summary::schema(), parameters });
        }
        if let Some(statement) = PivotStatement::of(&text)? {
            text = self.with_values(&statement, &Parameters::None, stop)?;
        }
        let text = self.with_views(&self.views(), &text, stop)?.0.into_owned();
        self.describe_expanded(text, stop)
    }

    /// The reason why a statement that ran isn't a tick plan, as text; `None` if it is. Nothing is planned.
    #[must_use]
    pub fn why_no_tick_plan(&self, text: &str, parameters: &Parameters) -> Option<String> {
        if !self.runs_tick_plans() {
            return Some("tick plans are turned off".to_owned());
        }
        let text = placeholders::number_placeholders(text).ok()?;
        let views = self.views();
        let text = self.rewritten(&views, &text, Stop::NEVER);
        let (text, _) = self.with_views(&views, &text, Stop::NEVER).ok()?;
        let described = self.describe_known(&text, parameters, None)?;
        described.strip_prefix("none, because of ").map(str::to_owned)
    }
}
