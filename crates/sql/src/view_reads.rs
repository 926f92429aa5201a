//! Views as statements read them: their queries in the statement's `WITH`, materialized views as they stand, and statements over tables that
//! materialized views answer (`materialized/`).

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::tokenizer::Token;
use splay_engine::Stop;
use splay_store::{TableSnapshot, View};

use crate::error::{Result, fault};
use crate::materialized::{Candidate, Definition, Query, Snapshots, ViewReads, ViewState, written_over};
use crate::parameters::Parameters;
use crate::placeholders;
use crate::postgres;
use crate::session::{Description, Session};
use crate::{limits, syntax, views};

/// Statements longer than this aren't looked into for tables that a view may replace.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Times that the query of a view is planned while its tables get other columns.
const PLANNED_ANEW_MAX: usize = 3;

impl Session {
    /// The views of the database that may be read, except those with the name of a table of PostgreSQL's catalogue. If the list of views is damaged,
    /// statements that read an unknown name report it.
    pub(crate) fn views(&self) -> Arc<[View]> {
        let views = self.database().views().unwrap_or_default();
        let is_hidden = |view: &View| {
            self.is_with_catalogue() && postgres::is_in_catalogue(&view.name) || !self.caller().reads_view(view)
        };
        match views.iter().any(is_hidden) {
            false => views,
            true => views.iter().filter(|view| !is_hidden(view)).cloned().collect(),
        }
    }

    /// A statement with the queries of its views, and the materialized views that it reads.
    pub(crate) fn with_views<'t>(
        &self,
        views: &[View],
        text: &'t str,
        stop: Stop<'_>,
    ) -> Result<(Cow<'t, str>, ViewReads)> {
        let mut reads = ViewReads::default();
        let text = views::with_views(views, text, &mut |view| match view.materialized {
            Some(_) if self.caller().veil().is_none() => {
                let state = self.state_of_view(view, stop)?;
                let text = state.text().to_owned();
                reads.add(state);
                Ok(text)
            }
            _ => views::as_written(view),
        })?;
        Ok((text, reads))
    }

    /// Plans a statement on the session's threads until `stop` says so, and returns what `take` makes of its logical plan.
    pub(crate) fn planned<T: Send + 'static>(
        &self,
        text: String,
        parameters: Parameters,
        stop: Stop<'_>,
        take: impl FnOnce(&SessionState, LogicalPlan) -> Result<T, DataFusionError> + Send + 'static,
    ) -> Result<T> {
        let text = placeholders::number_placeholders(&text)?;
        let text = self.with_views(&self.views(), &text, stop)?.0.into_owned();
        self.plan_expanded(text, parameters, stop, take)
    }

    /// Describes a query: the columns of its answer and the values that it takes.
    fn describe_query(&self, text: &str, stop: Stop<'_>) -> Result<Description> {
        limits::check_text(text)?;
        let text = self.prepare_text(text)?;
        let text = self.with_views(&self.views(), &text, stop)?.0.into_owned();
        self.describe_expanded(text, stop)
    }

    /// How a materialized view stands.
    pub(crate) fn state_of_view(&self, view: &View, stop: Stop<'_>) -> Result<Arc<ViewState>> {
        if let Some(planned) = self.materialized().planned(view) {
            let snapshots = Snapshots::of(self.database(), view, planned.query())?;
            if planned.is_of(&snapshots) {
                return planned.state(snapshots);
            }
        }
        let mut query = self.query_of_view(view, stop)?;
        let mut snapshots = Snapshots::of(self.database(), view, &query)?;
        // Planned over the tables as they are, and not as one of them was.
        for _ in 0..PLANNED_ANEW_MAX {
            let before = snapshots;
            query = self.query_of_view(view, stop)?;
            snapshots = Snapshots::of(self.database(), view, &query)?;
            if before.have_specs_of(&snapshots) {
                break;
            }
        }
        self.materialized().add(view, query, &snapshots).state(snapshots)
    }

    /// The query of a materialized view.
    ///
    /// # Errors
    /// [`Error::Statement`](crate::Error::Statement) for one whose rows can't be kept.
    pub(crate) fn query_of_view(&self, view: &View, stop: Stop<'_>) -> Result<Query> {
        // The rows of a view within the query may change although no table changes.
        let views = self.database().views()?;
        views::with_views(&views, &view.query, &mut |within| {
            fault(format!("a materialized view reads tables, and {} is a view", within.name))
        })?;
        let definition =
            self.planned(view.query.clone(), Parameters::None, stop, |state, plan| Definition::of(state, &plan))?;
        let others = definition.others.iter().map(|other| &other.table);
        for table in std::iter::once(&definition.table).chain(others) {
            self.database().refuse_of_view(table)?;
        }
        if view.materialized.as_ref().is_some_and(|table| *table != definition.table) {
            return fault(format!(
                "the view {:?} goes through {:?} by now: drop and create it",
                view.name, definition.table
            ));
        }
        let schema = self.describe_query(&view.query, stop)?.schema;
        let query = Query::new(self.database(), view, definition, &schema)?;
        // Describes the query in the form in which it is read.
        self.describe_query(&query.over_an_instant(), stop)?;
        Ok(query)
    }

    /// A statement with materialized views in place of the tables, where they can answer it. Only callers who see all rows get stored rows.
    pub(crate) fn rewritten<'t>(&self, views: &[View], text: &'t str, stop: Stop<'_>) -> Cow<'t, str> {
        let has_none = views.iter().all(|view| view.materialized.is_none());
        if self.caller().veil().is_some() || text.len() > TEXT_BYTES_MAX || has_none {
            return Cow::Borrowed(text);
        }
        let Some(tokens) = views::tokens(text) else { return Cow::Borrowed(text) };
        let may_answer = |view: &&View| {
            let is_read = view.materialized.as_deref().is_some_and(|table| {
                let mut named = (0..tokens.len()).filter(|at| views::is_name(&tokens[*at], table)).peekable();
                named.peek().is_some() && !named.any(|at| views::is_defined(&tokens, at))
            });
            is_read
                && self
                    .database()
                    .rows_of_view(view)
                    .is_ok_and(|rows| view.is_query_rewrite(rows.as_ref().map(TableSnapshot::spec)))
        };
        let state = self.shared_state();
        let candidate = |view: &View| Candidate::of(&*self.state_of_view(view, stop).ok()?, &state);
        let mut candidates: Vec<Candidate> = views.iter().filter(may_answer).filter_map(candidate).collect();
        if candidates.is_empty() {
            return Cow::Borrowed(text);
        }
        candidates.sort_by_key(|candidate| candidate.size);
        let rewrites = self.materialized().rewrites();
        let rewrite = match rewrites.find(text, &candidates) {
            Some(rewrite) => rewrite,
            None => {
                // A faulty statement reports its own error when it runs.
                let Ok(rewrite) = self.over_views(tokens, &candidates, stop) else { return Cow::Borrowed(text) };
                rewrites.add(text, candidates, rewrite.as_deref());
                rewrite.map(Arc::from)
            }
        };
        rewrite.map_or(Cow::Borrowed(text), |rewrite| Cow::Owned(rewrite.to_string()))
    }

    /// The statement over the views, if it can be one and its answer has the same columns.
    fn over_views(&self, mut tokens: Vec<Token>, candidates: &[Candidate], stop: Stop<'_>) -> Result<Option<String>> {
        let original = views::written(&tokens);
        // Clauses of ours stand for what only the planner sees.
        if syntax::rewrite(&mut tokens)? {
            return Ok(None);
        }
        let Some(at) = views::begin_of_query(&tokens) else { return Ok(None) };
        let (before, query) = (views::written(&tokens[..at]), views::written(&tokens[at..]));
        let schema = self.describe_query(&query, stop)?.schema;
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let candidates = candidates.to_vec();
        let write = move |state: Arc<SessionState>| written_over(&state, &query, &candidates, &names);
        let Some(query) = self.on_own_threads(stop, write)? else { return Ok(None) };
        let text = format!("{before}{query}");
        if limits::check_text(&text).is_err() || text == original {
            return Ok(None);
        }
        let other = self.describe_query(&query, stop);
        Ok(other.is_ok_and(|other| are_alike(&schema, &other.schema)).then_some(text))
    }
}

fn are_alike(a: &Schema, b: &Schema) -> bool {
    let columns = |schema: &Schema| -> Vec<_> {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    columns(a) == columns(b)
}
