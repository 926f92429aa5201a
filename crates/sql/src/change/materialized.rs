//! `CREATE MATERIALIZED VIEW`, `REFRESH MATERIALIZED VIEW` and `ALTER MATERIALIZED VIEW`.
//!
//! - A refresh computes the stale parts of a view and stores them, some at a time, each in one commit. Parts with
//!   live rows are left to the next refresh.
//! - Rows are stored only if the table hasn't committed between the check of its parts and the plan of their query.
//!   Otherwise the check is repeated.

use splay_engine::Stop;
use splay_store::{Database, Table, TableSpec, View, ViewPart};

use super::ChangeOutcome;
use super::fit::fitted_rows;
use super::run::{change_lifecycle, refuse_repeated};
use super::statement::{Statement, begins};
use crate::error::{Error, Result, fault, of_store};
use crate::lock_retry::patiently;
use crate::materialized::{Fit, Query, ViewState, wider_columns};
use crate::parameters::Parameters;
use crate::session::Session;
use crate::table_options::{self, LIFECYCLE, Options, QUERY_REWRITE, option};
use crate::table_spec::{period_of, spec};
use crate::token_reader::TokenReader;

/// Rows of the table that one commit of a refresh covers, unless one part has more.
const ROWS_MAX: u64 = 50_000_000;

/// Parts that one commit of a refresh covers.
const PARTS_MAX: usize = 400;

/// Looks at a view whose tables change meanwhile.
const LOOKS_MAX: usize = 50;

/// What a refresh did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefreshOutcome {
    /// Rows of the table that were read.
    pub read: u64,
    /// Rows of the view that were written.
    pub written: u64,
    /// The last commit, if there was one.
    pub commit: Option<u64>,
}

/// A materialized view as a statement describes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Creation {
    view: View,
    if_absent: bool,
    options: Options,
    with_data: bool,
}

/// Reads the statement from the word after `CREATE MATERIALIZED VIEW`.
pub(super) fn creation(words: &mut TokenReader<'_>) -> Result<Statement> {
    let if_absent = words.take(&["if", "not", "exists"]);
    let name = words.table()?;
    let columns = if words.peek_bracket() { words.names()? } else { Vec::new() };
    let options = table_options::of_creation(words)?;
    if !words.take(&["as"]) {
        return fault("CREATE MATERIALIZED VIEW needs AS and a query");
    }
    let with_data = words.without_end(&["with", "no", "data"]).is_none();
    let _ = words.without_end(&["with", "data"]);
    let query = words.take_rest();
    if query.is_empty() || begins(&query) {
        return fault("CREATE MATERIALIZED VIEW needs a query behind AS");
    }
    let view = View::new(name, columns, query);
    Ok(Statement::CreateMaterialized(Creation { view, if_absent, options, with_data }))
}

/// Creates a view, and keeps its rows unless it is to have none yet.
pub(super) fn create(session: &Session, creation: Creation, stop: Stop<'_>) -> Result<ChangeOutcome> {
    let (what, database) = ("CREATE MATERIALIZED VIEW", session.database());
    let Creation { mut view, if_absent, options, with_data } = creation;
    if if_absent && database.view(&view.name)?.is_some() {
        return Ok(ChangeOutcome { what, rows: 0, commit: None });
    }
    let query = session.query_of_view(&view, stop)?;
    view.materialized = Some(query.table().to_owned());
    view.query_rewrite = option(&options, QUERY_REWRITE).map_or(Ok(false), table_options::query_rewrite)?;
    refuse_repeated(query.names())?;
    let source = database.table(query.table())?.snapshot()?.spec().clone();
    let spec = rows_spec(&view, &query, &source, &options)?;
    patiently(stop, || database.create_view(view.clone(), false))?;
    let are_chosen = options.iter().any(|(name, _)| name != QUERY_REWRITE);
    match fill(session, &view, &spec, are_chosen, with_data, stop) {
        Ok(refreshed) => Ok(ChangeOutcome { what, rows: refreshed.written, commit: refreshed.commit }),
        Err(error) => {
            // As if nothing had been said.
            patiently(Stop::NEVER, || database.drop_materialized(&view, |_| false))?;
            Err(error)
        }
    }
}

/// Stores the first rows of a view. Afterwards its table exists, with or without rows. Its partitions suit the first
/// rows, unless they `are_chosen`.
fn fill(
    session: &Session,
    view: &View,
    spec: &TableSpec,
    are_chosen: bool,
    with_data: bool,
    stop: Stop<'_>,
) -> Result<RefreshOutcome> {
    let make_table = || -> Result<()> {
        let empty = patiently(stop, || session.database().keep_view(view, spec, None, &[]))?;
        empty.map_or(Ok(()), |load| load.commit().map(drop)).map_err(of_store)
    };
    if are_chosen || !with_data {
        make_table()?;
    }
    if !with_data {
        return Ok(RefreshOutcome::default());
    }
    let refreshed = refresh(session, &view.name, stop)?;
    if refreshed.commit.is_none() && !are_chosen {
        make_table()?;
    }
    Ok(refreshed)
}

/// The table that keeps the rows of a view.
fn rows_spec(view: &View, query: &Query, source: &TableSpec, options: &[(String, String)]) -> Result<TableSpec> {
    let supported = [&["symbol", "partition", QUERY_REWRITE][..], &LIFECYCLE].concat();
    refuse_unknown(options, &supported, "of a materialized view; there is")?;
    let mut all = vec![("time".to_owned(), query.time().to_owned())];
    let is_of_rows = |name: &str| name == "symbol" || LIFECYCLE.contains(&name);
    all.extend(options.iter().filter(|(name, _)| is_of_rows(name)).cloned());
    let name = view.rows_table().unwrap_or_default();
    let mut spec = spec(&name, query.columns().to_vec(), splay_store::Reference::default(), &all)?
        .with_time_zone(&source.time_zone)
        .with_day_start(source.day_start)
        .with_partition(source.partition);
    if let Some(period) = option(options, "partition") {
        spec = spec.with_partition(period_of(period)?);
    }
    Ok(spec)
}

fn refuse_unknown(options: &[(String, String)], supported: &[&str], of: &str) -> Result<()> {
    match options.iter().find(|(name, _)| !supported.contains(&name.as_str())) {
        Some((name, _)) => fault(format!("{name} is no option {of} {}", supported.join(", "))),
        None => Ok(()),
    }
}

/// Changes the options of an existing view, by one commit of the table that stores its rows.
pub(super) fn set_options(
    database: &Database,
    name: &str,
    options: &[(String, String)],
    stop: Stop<'_>,
) -> Result<ChangeOutcome> {
    let supported = [&[QUERY_REWRITE][..], &LIFECYCLE].concat();
    refuse_unknown(options, &supported, "that ALTER MATERIALIZED VIEW changes; there are")?;
    let view = view_named(database, name)?;
    let of_rows = table_options::of_lifecycle(options)?;
    let commit = change_lifecycle(&rows_of(database, &view)?, &of_rows, stop)?;
    Ok(ChangeOutcome { what: "ALTER MATERIALIZED VIEW", rows: 0, commit: Some(commit) })
}

/// The table that keeps the rows of a view.
fn rows_of(database: &Database, view: &View) -> Result<Table> {
    match database.table(&view.rows_table().unwrap_or_default()) {
        Err(splay_store::Error::NoSuchTable { .. }) => {
            fault(format!("no rows of {:?} are kept yet: REFRESH MATERIALIZED VIEW keeps them", view.name))
        }
        found => Ok(found?),
    }
}

/// A materialized view by its name.
fn view_named(database: &Database, name: &str) -> Result<View> {
    match database.view(name)? {
        Some(view) if view.materialized.is_some() => Ok(view),
        Some(view) => fault(format!("{:?} is a view whose rows aren't kept", view.name)),
        None => fault(format!("no materialized view {name:?}")),
    }
}

/// Keeps the rows of all parts of a view that are stale and not live.
pub(super) fn refresh(session: &Session, name: &str, stop: Stop<'_>) -> Result<RefreshOutcome> {
    let view = view_named(session.database(), name)?;
    let mut done = RefreshOutcome::default();
    let mut looks = 0;
    loop {
        let state = session.state_of_view(&view, stop)?;
        match (state.fit, &state.stored) {
            (Fit::Same, _) | (Fit::Wider, None) => {}
            (Fit::Wider, Some(stored)) => {
                for (_, column) in wider_columns(stored, state.query().columns()) {
                    let wider = || column.column_type.clone();
                    patiently(stop, || session.database().widen_view(&view, &column.name, wider()))?;
                }
                continue;
            }
            (Fit::Different, _) => {
                return fault(format!(
                    "the query of {name:?} gives other columns than when its rows were stored: drop and create the view"
                ));
            }
        }
        let parts = due(&state.parts);
        if parts.is_empty() {
            return Ok(done);
        }
        match keep(session, &view, &state, &parts, stop)? {
            Some(kept) => {
                looks = 0;
                done.read += kept.read;
                done.written += kept.written;
                done.commit = kept.commit;
            }
            None if looks == LOOKS_MAX => {
                let message = format!("the tables of {name:?} change all the time; try again");
                return Err(Error::Execution { message });
            }
            None => looks += 1,
        }
    }
}

/// The first parts that can be kept and aren't, as many as one commit covers.
fn due(parts: &[ViewPart]) -> Vec<ViewPart> {
    let (mut due, mut rows): (Vec<ViewPart>, u64) = (Vec::new(), 0);
    for part in parts.iter().filter(|part| part.is_due()) {
        if due.len() == PARTS_MAX || !due.is_empty() && rows + part.rows > ROWS_MAX {
            break;
        }
        rows += part.rows;
        due.push(part.clone());
    }
    due
}

/// Keeps the rows of some parts; `None` if the tables have changed meanwhile.
fn keep(
    session: &Session,
    view: &View,
    state: &ViewState,
    parts: &[ViewPart],
    stop: Stop<'_>,
) -> Result<Option<RefreshOutcome>> {
    let mut answer = session.sql_until(&state.query_of(parts), Parameters::None, stop)?;
    let Some(snapshots) = state.snapshots(session.database()) else { return Ok(None) };
    let spec = match &state.stored {
        Some(kept) => kept.clone(),
        None => rows_spec(view, state.query(), state.source(), &[])?,
    };
    let all: Vec<usize> = (0..spec.columns.len()).collect();
    // The first rows are waited for before others are kept from writing.
    let first = answer.by_ref().next().transpose()?;
    let kept = snapshots.stored.as_ref();
    let Some(mut load) = patiently(stop, || session.database().keep_view(view, &spec, kept, parts))? else {
        return Ok(None);
    };
    for batch in first.map(Ok).into_iter().chain(answer.by_ref()) {
        load.append(&fitted_rows(&spec, &all, &batch?)?).map_err(of_store)?;
    }
    let report = load.commit().map_err(of_store)?;
    let read = parts.iter().map(|part| part.rows).sum();
    Ok(Some(RefreshOutcome { read, written: report.rows, commit: Some(report.epoch) }))
}

impl Session {
    /// Computes and stores the stale parts of a materialized view, except parts for which the table has live rows.
    /// Statements that read the view give the same rows before and after.
    ///
    /// # Errors
    /// [`Error::Statement`] if there is no such view; those of its query and of a load. The rows stored before stay.
    pub fn refresh(&self, view: &str, stop: Stop<'_>) -> Result<RefreshOutcome> {
        refresh(self, view, stop)
    }

    /// What a refresh of a materialized view would compute: parts, and rows of the table in them.
    ///
    /// # Errors
    /// As [`Session::refresh`].
    pub fn refresh_due(&self, view: &str, stop: Stop<'_>) -> Result<(usize, u64)> {
        let view = view_named(self.database(), view)?;
        let state = self.state_of_view(&view, stop)?;
        let due: Vec<u64> = state.parts.iter().filter(|part| part.is_due()).map(|part| part.rows).collect();
        Ok((due.len(), due.iter().sum()))
    }
}
