//! Materialized views: queries with stored rows that always equal the query's result.
//!
//! - A statement that reads one gets, in its `WITH`, the stored rows of fresh parts, and the query over the table's
//!   rows of the others (`views.rs`). So it never sees stale rows; a refresh changes only the cost of statements.
//! - The store decides by digests of the table's files which parts are fresh ([`ViewPartitions`]), again after each
//!   commit.
//! - If a table commits while a statement is planned, the statement would see two states: [`ViewReads`] detects this,
//!   and the statement is planned again.

mod definition;
mod rewrite;

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::datatypes::{Field, SchemaRef};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;
use splay_store::{ColumnSpec, Database, TableSnapshot, TableSpec, View, ViewPart, ViewPartitions};

pub(crate) use self::definition::Definition;
use self::rewrite::GroupedView;
pub(crate) use self::rewrite::{Candidate, Rewrites, written_over};
use crate::error::{Error, Result, fault};
use crate::statements::quoted;
use crate::syntax::{before, has_alias, is_word, solid};
use crate::table_spec::columns_of;
use crate::views::{self, written};

/// Runs of stale parts that a statement reads one by one. If there are more, it reads what lies between them from the table as well.
const RUNS_MAX: usize = 16;

/// The materialized views as the sessions of a database cache them.
#[derive(Debug, Default)]
pub(crate) struct MaterializedViews {
    planned: Mutex<HashMap<String, Arc<PlannedView>>>,
    rewrites: Rewrites,
}

/// A view over a table, as long as neither is changed.
#[derive(Debug)]
pub(crate) struct PlannedView {
    view: View,
    /// The tables that its rows follow from, the one that it goes through first.
    tables: Vec<TableSpec>,
    query: Query,
    cuts: Mutex<Cuts>,
    last: Mutex<Option<Arc<ViewState>>>,
    /// The view as groups, for statements that it may answer; determined at the first use.
    grouped: OnceLock<Option<GroupedView>>,
}

/// Instants at which parts may begin, by the dates of the table, which determine them.
#[derive(Debug, Default)]
struct Cuts {
    /// Where the bucket begins that the date begins in.
    of_dates: HashMap<i32, Option<i64>>,
    /// Where the first bucket begins that begins in the date.
    within_dates: HashMap<i32, Option<i64>>,
}

/// Adds the dates to `known` that it lacks, with what `find` gives for their starts.
fn complete(
    known: &mut HashMap<i32, Option<i64>>,
    starts: impl Iterator<Item = (i32, i64)>,
    find: impl FnOnce(&[i64]) -> datafusion::common::Result<Vec<Option<i64>>>,
) -> Result<()> {
    let (dates, instants): (Vec<i32>, Vec<i64>) = starts.filter(|(date, _)| !known.contains_key(date)).unzip();
    if !dates.is_empty() {
        let found = find(&instants).map_err(|error| Error::from_datafusion(error, usize::MAX))?;
        known.extend(dates.into_iter().zip(found));
    }
    Ok(())
}

/// A view at one state of its tables. Holds no snapshot: sessions keep states, and the files of a snapshot can't be removed.
#[derive(Debug)]
pub(crate) struct ViewState {
    key: Key,
    pub(crate) parts: Vec<ViewPart>,
    /// The query of its rows.
    text: String,
    planned: Arc<PlannedView>,
    /// The table with the kept rows, if there is one.
    pub(crate) stored: Option<TableSpec>,
    /// Whether the stored rows have the columns of the query.
    pub(crate) fit: Fit,
    /// Rows that are kept.
    stored_rows: u64,
    /// Whether the view's own retention has removed some.
    has_expired: bool,
}

/// How the columns of stored rows and those of a view's query, whose tables may have changed since, compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    Same,
    /// Some are of wider types in the query. Readers cast, and a refresh widens what is stored.
    Wider,
    Different,
}

impl Fit {
    fn of(stored: &TableSpec, query: &[ColumnSpec]) -> Fit {
        let is_same_name = |(stored, current): (&ColumnSpec, &ColumnSpec)| stored.name == current.name;
        if stored.columns.len() != query.len() || !stored.columns.iter().zip(query).all(is_same_name) {
            return Fit::Different;
        }
        let mut wider = wider_columns(stored, query);
        match wider.next() {
            None => Fit::Same,
            Some(first) => {
                let may_widen = |(at, column): (usize, &ColumnSpec)| stored.may_widen(at, &column.column_type);
                if std::iter::once(first).chain(wider).all(may_widen) { Fit::Wider } else { Fit::Different }
            }
        }
    }
}

/// The columns that have another type in a view's query than in its stored rows, with their positions.
pub(crate) fn wider_columns<'a>(
    stored: &TableSpec,
    query: &'a [ColumnSpec],
) -> impl Iterator<Item = (usize, &'a ColumnSpec)> {
    let of_query = stored.columns.iter().zip(query).enumerate();
    of_query
        .filter(|(_, (stored, current))| stored.column_type != current.column_type)
        .map(|(at, (_, current))| (at, current))
}

/// Identifies a state of a view.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    /// The folder of each table, its commit, and its dates with live rows.
    tables: Vec<(Arc<str>, u64, Vec<i32>)>,
    stored_epoch: Option<u64>,
}

/// The materialized views that a statement reads, each as it stood.
#[derive(Debug, Default)]
pub(crate) struct ViewReads(Vec<Arc<ViewState>>);

/// The query of a view, in parts around the table that it reads.
#[derive(Debug)]
pub(crate) struct Query {
    definition: Definition,
    /// Columns of its answer, under the view's names.
    schema: SchemaRef,
    before: String,
    behind: String,
    /// The columns of the rows that are kept.
    columns: Vec<ColumnSpec>,
}

impl ViewReads {
    /// Whether any view was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of them are unchanged.
    pub(crate) fn hold(&self, database: &Database) -> bool {
        self.0.iter().all(|state| state.snapshots(database).is_some())
    }

    /// Adds a view that was read.
    pub(crate) fn add(&mut self, state: Arc<ViewState>) {
        self.0.push(state);
    }
}

/// The tables of a view.
pub(crate) struct Snapshots {
    /// The one that it goes through first.
    tables: Vec<TableSnapshot>,
    pub(crate) stored: Option<TableSnapshot>,
}

impl Snapshots {
    pub(crate) fn of(database: &Database, view: &View, query: &Query) -> Result<Snapshots> {
        let others = query.definition.others.iter().map(|other| other.table.as_str());
        let tables = std::iter::once(query.table()).chain(others);
        let tables = tables.map(|table| database.table(table)?.snapshot()).collect::<splay_store::Result<_>>()?;
        let rows = view.rows_table().unwrap_or_default();
        let stored = match database.table(&rows).and_then(|table| table.snapshot()) {
            Ok(stored) => Some(stored),
            Err(splay_store::Error::NoSuchTable { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Snapshots { tables, stored })
    }

    /// Whether the tables have the columns and options that they have in other snapshots.
    pub(crate) fn have_specs_of(&self, other: &Snapshots) -> bool {
        self.tables.iter().map(TableSnapshot::spec).eq(other.tables.iter().map(TableSnapshot::spec))
    }

    fn key(&self) -> Key {
        let tables = self.tables.iter().map(|table| (Arc::clone(table.folder()), table.epoch(), table.live_dates()));
        Key { tables: tables.collect(), stored_epoch: self.stored.as_ref().map(TableSnapshot::epoch) }
    }
}

impl MaterializedViews {
    /// The plan of a view, if it is the same view.
    pub(crate) fn planned(&self, view: &View) -> Option<Arc<PlannedView>> {
        let planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner).get(&view.name).cloned();
        planned.filter(|planned| planned.view == *view)
    }

    /// Keeps the plan of a view over tables as they are in snapshots.
    pub(crate) fn add(&self, view: &View, query: Query, snapshots: &Snapshots) -> Arc<PlannedView> {
        let tables = snapshots.tables.iter().map(|table| table.spec().clone()).collect();
        let (cuts, last, grouped) = (Mutex::default(), Mutex::default(), OnceLock::new());
        let planned = Arc::new(PlannedView { view: view.clone(), tables, query, cuts, last, grouped });
        self.planned.lock().unwrap_or_else(PoisonError::into_inner).insert(view.name.clone(), Arc::clone(&planned));
        planned
    }

    /// Statements that views answer.
    pub(crate) fn rewrites(&self) -> &Rewrites {
        &self.rewrites
    }
}

impl PlannedView {
    /// The view's query.
    pub(crate) fn query(&self) -> &Query {
        &self.query
    }

    /// Whether the tables are what they were.
    pub(crate) fn is_of(&self, snapshots: &Snapshots) -> bool {
        snapshots.tables.iter().map(TableSnapshot::spec).eq(&self.tables)
    }

    /// The view at the state of its tables in snapshots.
    pub(crate) fn state(self: &Arc<PlannedView>, snapshots: Snapshots) -> Result<Arc<ViewState>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let key = snapshots.key();
        if let Some(state) = last.as_ref().filter(|state| state.key == key) {
            return Ok(Arc::clone(state));
        }
        let state = Arc::new(ViewState::new(self, key, snapshots)?);
        *last = Some(Arc::clone(&state));
        Ok(state)
    }

    /// The instants at which parts may begin, one for each date that has one. A date in whose first bucket retention has removed rows has the
    /// one behind that bucket.
    fn cuts(&self, partitions: &ViewPartitions<'_>) -> Result<HashMap<i32, i64>> {
        let definition = &self.query.definition;
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        let Cuts { of_dates, within_dates } = &mut *cuts;
        let starts = partitions.starts()?;
        let known = starts.iter().filter_map(|(date, start)| Some((*date, (*start)?)));
        complete(of_dates, known, |instants| definition.cuts(instants))?;
        let mut all: HashMap<i32, i64> =
            starts.iter().filter_map(|(date, _)| Some((*date, (*of_dates.get(date)?)?))).collect();
        let removed = partitions.cut_by_removal(&all)?;
        complete(within_dates, removed.iter().copied(), |instants| definition.next_cuts(instants))?;
        for (date, _) in removed {
            match within_dates.get(&date).copied().flatten() {
                Some(cut) => all.insert(date, cut),
                None => all.remove(&date),
            };
        }
        Ok(all)
    }
}

impl ViewState {
    fn new(planned: &Arc<PlannedView>, key: Key, snapshots: Snapshots) -> Result<ViewState> {
        let Snapshots { tables, stored } = snapshots;
        let fit = stored.as_ref().map_or(Fit::Same, |stored| Fit::of(stored.spec(), &planned.query.columns));
        let usable = fit != Fit::Different;
        let (source, others) =
            tables.split_first().ok_or_else(|| Error::Internal { message: "a view of no table".to_owned() })?;
        let only_before = planned.query.definition.others.iter().map(|other| other.only_before);
        let others = others.iter().zip(only_before).collect();
        let partitions = ViewPartitions::of(source, others, stored.as_ref().filter(|_| usable))?;
        let cuts = planned.cuts(&partitions)?;
        let parts = partitions.parts(&planned.view, &cuts)?;
        let stored_rows = stored.as_ref().map_or(0, TableSnapshot::rows);
        let has_expired = stored.as_ref().is_some_and(TableSnapshot::has_expired);
        let stored = stored.map(|stored| stored.spec().clone());
        let text = text(planned, stored.as_ref().filter(|_| usable), &parts);
        Ok(ViewState { key, text, parts, planned: Arc::clone(planned), stored, fit, stored_rows, has_expired })
    }

    /// The query of all its rows.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The query of the rows of some parts.
    pub(crate) fn query_of(&self, parts: &[ViewPart]) -> String {
        self.planned.query.over(&runs(parts.iter()))
    }

    /// The view's query.
    pub(crate) fn query(&self) -> &Query {
        &self.planned.query
    }

    /// The tables of the view, if it stands as it did.
    pub(crate) fn snapshots(&self, database: &Database) -> Option<Snapshots> {
        let snapshots = Snapshots::of(database, &self.planned.view, &self.planned.query).ok()?;
        (self.planned.is_of(&snapshots) && snapshots.key() == self.key).then_some(snapshots)
    }

    /// The table that the view goes through.
    pub(crate) fn source(&self) -> &TableSpec {
        &self.planned.tables[0]
    }
}

/// The query of all rows of a view.
fn text(planned: &PlannedView, stored: Option<&TableSpec>, parts: &[ViewPart]) -> String {
    let query = &planned.query;
    let (Some(stored), true) = (stored, parts.iter().any(|part| part.is_fresh)) else { return query.over(&[]) };
    let mut stale = runs(parts.iter().filter(|part| !part.is_fresh));
    // What lies between them can't be read from the table where retention has removed rows.
    if stale.len() > RUNS_MAX && !parts.iter().any(|part| part.is_expired) {
        stale = vec![*stale[0].start()..=*stale[stale.len() - 1].end()];
    }
    let types = query.stored_types();
    let columns = stored.arrow();
    let columns = columns.fields().iter().zip(types.fields()).map(|(stored, current)| read_as(stored, current));
    let columns: Vec<String> = columns.collect();
    let mut text = format!("SELECT {} FROM {}", columns.join(", "), quoted(&stored.name));
    if stale.is_empty() {
        return text;
    }
    let fresh: Vec<String> = stale.iter().map(|times| format!("NOT ({})", within(&stored.time, times))).collect();
    let fresh = match stale.as_slice() {
        // In this form partitions and blocks can be pruned by it.
        [times] if *times.end() == i64::MAX => format!("{} < {}", quoted(&stored.time), instant(*times.start())),
        _ => fresh.join(" AND "),
    };
    // The query stands on a line of its own, because it may end with a comment.
    let _ = write!(text, " WHERE {fresh} UNION ALL ({}\n)", query.over(&stale));
    text
}

/// Times of parts, those that follow each other as one.
fn runs<'a>(parts: impl Iterator<Item = &'a ViewPart>) -> Vec<RangeInclusive<i64>> {
    let mut runs: Vec<RangeInclusive<i64>> = Vec::new();
    for part in parts {
        match runs.last_mut() {
            Some(run) if run.end().saturating_add(1) == *part.times.start() => *run = *run.start()..=*part.times.end(),
            _ => runs.push(part.times.clone()),
        }
    }
    runs
}

/// A condition for times within a range.
fn within(time: &str, times: &RangeInclusive<i64>) -> String {
    let time = quoted(time);
    let from = (*times.start() != i64::MIN).then(|| format!("{time} >= {}", instant(*times.start())));
    let to = (*times.end() != i64::MAX).then(|| format!("{time} <= {}", instant(*times.end())));
    let bounds: Vec<String> = from.into_iter().chain(to).collect();
    if bounds.is_empty() { "true".to_owned() } else { bounds.join(" AND ") }
}

fn instant(ns: i64) -> String {
    let time = chrono::DateTime::from_timestamp_nanos(ns).naive_utc();
    format!("TIMESTAMP '{}'", time.format("%Y-%m-%dT%H:%M:%S%.9f"))
}

impl Query {
    /// The query of a view whose answer has a schema.
    ///
    /// # Errors
    /// [`Error::Statement`] for one whose rows can't be kept.
    pub(crate) fn new(database: &Database, view: &View, definition: Definition, schema: &SchemaRef) -> Result<Query> {
        let schema = rename_columns(schema, &names_of(database, view, schema.fields().len())?)?;
        let columns = columns_of(&schema, &[])?;
        let (before, behind) = around_table(&view.query, &definition.table)?;
        Ok(Query { definition, schema, before, behind, columns })
    }

    /// The query over the rows of one instant: in the form in which it is read.
    pub(crate) fn over_an_instant(&self) -> String {
        self.over(&[0..=0])
    }

    /// The table that it reads.
    pub(crate) fn table(&self) -> &str {
        &self.definition.table
    }

    /// Names of the columns.
    pub(crate) fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// The columns of its rows.
    pub(crate) fn columns(&self) -> &[ColumnSpec] {
        &self.columns
    }

    /// The column that is the time of its rows.
    pub(crate) fn time(&self) -> &str {
        &self.columns[self.definition.time].name
    }

    /// Its columns as they are stored.
    fn stored_types(&self) -> SchemaRef {
        TableSpec::new("rows", self.columns.clone(), self.time(), None).arrow()
    }

    /// The query over rows of the table with some times, all if there are none given; in the types in which its rows are kept.
    fn over(&self, times: &[RangeInclusive<i64>]) -> String {
        let Definition { table, table_time, .. } = &self.definition;
        let conditions: Vec<String> = times.iter().map(|times| format!("({})", within(table_time, times))).collect();
        let (before, behind) = (&self.before, &self.behind);
        let rows = match conditions.is_empty() {
            true => quoted(table),
            false => format!("(SELECT * FROM {} WHERE {})", quoted(table), conditions.join(" OR ")),
        };
        let query = format!("{before}{rows}{behind}");
        let stored = self.stored_types();
        let fields = || self.schema.fields().iter().zip(stored.fields());
        if fields().all(|(current, stored_field)| current.data_type() == stored_field.data_type()) {
            return query;
        }
        let items = fields().map(|(current, stored_field)| read_as(current, stored_field));
        let names: Vec<String> = self.schema.fields().iter().map(|field| quoted(field.name())).collect();
        let items = items.collect::<Vec<_>>().join(", ");
        format!("SELECT {items} FROM ({query}\n) AS \"__query\" ({})", names.join(", "))
    }
}

/// A column in the type of another field.
fn read_as(column: &Field, wanted: &Field) -> String {
    let name = quoted(column.name());
    match column.data_type() == wanted.data_type() {
        true => name,
        false => format!("arrow_cast({name}, '{}') AS {name}", wanted.data_type()),
    }
}

/// The names that a view gives its columns, by place. Without a list of its own these are those of its stored rows, since an expression may have had
/// another title when these were stored.
fn names_of(database: &Database, view: &View, columns: usize) -> Result<Vec<String>> {
    if !view.columns.is_empty() {
        return Ok(view.columns.clone());
    }
    let rows = database.rows_of_view(view)?;
    let names = rows.map(|rows| rows.spec().columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>());
    Ok(names.filter(|names| names.len() == columns).unwrap_or_default())
}

fn rename_columns(schema: &SchemaRef, names: &[String]) -> Result<SchemaRef> {
    if names.is_empty() {
        return Ok(Arc::clone(schema));
    }
    if names.len() != schema.fields().len() {
        return fault(format!("the view names {} columns, and its query gives {}", names.len(), schema.fields().len()));
    }
    let fields = schema.fields().iter().zip(names).map(|(field, name)| field.as_ref().clone().with_name(name));
    Ok(Arc::new(arrow::datatypes::Schema::new(fields.collect::<Vec<_>>())))
}

/// A query before and behind the table that it reads, which has an alias then.
fn around_table(query: &str, table: &str) -> Result<(String, String)> {
    let Some(tokens) = views::tokens(query) else { return fault("the query of the view can't be read") };
    refuse_implicit_columns(&tokens)?;
    if (0..tokens.len()).any(|at| views::is_name(&tokens[at], table) && views::is_defined(&tokens, at)) {
        return fault(format!("a query of a WITH has the name of the table {table}"));
    }
    let is_table = |at: &usize| views::is_name(&tokens[*at], table);
    let places = (0..tokens.len()).filter(is_table).filter_map(|at| views::relation(&tokens, at));
    let places: Vec<_> = places.collect();
    let [place] = places.as_slice() else {
        return fault(format!(
            "the query of a materialized view names the table that it goes through once, as in FROM {table}"
        ));
    };
    let alias =
        if has_alias(&tokens, place.end) { String::new() } else { format!(" AS {}", quoted(&table.to_lowercase())) };
    Ok((written(&tokens[..place.start]), format!("{alias}{}", written(&tokens[place.end..]))))
}

/// Refuses columns that aren't named: tables may have others tomorrow.
fn refuse_implicit_columns(tokens: &[Token]) -> Result<()> {
    let is_selected = |at: usize| {
        before(tokens, at).is_some_and(|before| {
            matches!(before, Token::Comma | Token::Period)
                || ["select", "distinct", "all"].iter().any(|word| is_word(before, word))
        })
    };
    let is_star = |at: usize| tokens[at] == Token::Mul && is_selected(at) || is_word(&tokens[at], "columns");
    let has_select = tokens.iter().any(|token| is_word(token, "select"));
    if !has_select || (0..tokens.len()).any(is_star) {
        return fault("a materialized view names its columns: write them in the place of *");
    }
    for word in ["natural", "table", "intersect", "except"] {
        if tokens.iter().any(|token| is_word(token, word)) {
            return fault(format!("a materialized view names its columns: {} isn't kept", word.to_uppercase()));
        }
    }
    let has_list = |at: usize| {
        let is_name = matches!(&tokens[at], Token::Word(word) if word.keyword == Keyword::NoKeyword);
        let is_table = |place: &Range<usize>| {
            let begins = |token: &Token| ["from", "join"].iter().any(|word| is_word(token, word));
            before(tokens, place.start).is_some_and(|before| begins(before) || *before == Token::Comma && is_name)
        };
        let place = views::relation(tokens, at).filter(is_table).filter(|place| has_alias(tokens, place.end));
        place.is_some_and(|place| {
            let next = solid(tokens, place.end);
            let alias = if is_word(&tokens[next], "as") { solid(tokens, next + 1) } else { next };
            tokens.get(solid(tokens, alias + 1)) == Some(&Token::LParen)
        })
    };
    match (0..tokens.len()).any(|at| matches!(tokens[at], Token::Word(_)) && has_list(at)) {
        true => fault("a materialized view names columns as its tables do: an alias with a list of columns isn't kept"),
        false => Ok(()),
    }
}
