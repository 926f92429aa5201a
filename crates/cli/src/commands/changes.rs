//! `splay loads`, `splay undo`, `splay delete`, `splay maintain`: the life of rows.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use chrono::{DateTime, SecondsFormat};
use splay_server::client::Client;
use splay_sql::{Session, SessionSettings, Stop};
use splay_store::{CommitReport, CompactOptions, Database, Retention, Table, View};

use super::place;
use crate::args::{DeleteArguments, LoadsArguments, MaintainArguments, UndoArguments};
use crate::output;
use crate::print::say;
use crate::progress::{LineEnd, StatementLine};
use crate::rows::Source;
use crate::size::{Counted, HumanBytes, Thousands};

/// Dates that a line names one by one.
const DATES_SHOWN: usize = 3;

/// Where the duplicates are listed that loads left out, if there are any.
const DUPLICATES_AT: usize = 4;

/// A database whose rows can be changed: those that only its journal has are written to the tables' files first. Where a server captures, rows
/// that only it has can't be changed, which the store says.
pub fn changeable(path: &Path) -> Result<Database> {
    let database = Database::open(path)?;
    settle(&database)?;
    Ok(database)
}

/// The same, of a database that is open.
pub fn settle(database: &Database) -> Result<()> {
    splay_capture::settle(database).context("read the rows that only the journal has")
}

/// A commit as `splay loads` lists it.
struct ListedCommit {
    commit: String,
    at: String,
    operation: String,
    added: u64,
    removed: u64,
    duplicates: u64,
    dates: String,
    from: String,
    cannot_undo: Option<String>,
}

impl ListedCommit {
    /// Captures, compactions and changes of columns are routine. A commit of the schema that can be undone has dropped a column.
    fn is_routine(&self) -> bool {
        let routine = ["capture", "compact", "schema", "forget", "snapshot"];
        routine.contains(&self.operation.as_str()) && self.cannot_undo.is_some()
    }

    fn line(&self) -> Vec<String> {
        vec![
            self.commit.clone(),
            self.at.clone(),
            self.operation.clone(),
            of_rows(self.added),
            of_rows(self.removed),
            self.dates.clone(),
            self.from.clone(),
            self.cannot_undo.as_ref().map_or_else(|| "yes".to_owned(), |reason| format!("no: {reason}")),
        ]
    }
}

pub fn loads(arguments: &LoadsArguments) -> Result<()> {
    let commits = match place::client(&arguments.place)? {
        Some(client) => served_commits(client, &arguments.table)?,
        None => {
            let read = if arguments.all { arguments.count } else { usize::MAX };
            let table = of_name(&Database::open(Path::new(&arguments.place.place))?, &arguments.table)?;
            table.commits(read)?.iter().map(stored_commit).collect()
        }
    };
    let shown = commits.into_iter().filter(|commit| arguments.all || !commit.is_routine());
    let commits: Vec<ListedCommit> = shown.take(arguments.count).collect();
    let mut rows: Vec<Vec<String>> = commits.iter().map(ListedCommit::line).collect();
    let mut titles = vec!["commit", "at (UTC)", "what", "added", "removed", "dates", "from", "undo"];
    if commits.iter().any(|commit| commit.duplicates > 0) {
        titles.insert(DUPLICATES_AT, "duplicates");
        rows.iter_mut().zip(&commits).for_each(|(row, commit)| row.insert(DUPLICATES_AT, of_rows(commit.duplicates)));
    }
    say!("{}", output::columns(&titles, &rows))?;
    Ok(())
}

/// The commits of a server's table, the newest first.
fn served_commits(client: Client, table: &str) -> Result<Vec<ListedCommit>> {
    let statement = format!(
        "SELECT commit, at, operation, added, removed, duplicates, first_date, last_date, files, undoes, cannot_undo \
         FROM information_schema.commits WHERE lower(table_name) = lower('{}') ORDER BY commit DESC",
        table.replace('\'', "''")
    );
    let mut commits = Vec::new();
    for row in Source::Server(client).texts(&statement)? {
        let text = |column: &str| row.get(column).cloned();
        let number = |column: &str| text(column).and_then(|number| number.parse().ok()).unwrap_or(0);
        let dates = match (text("first_date"), text("last_date")) {
            (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
            (first, _) => first.unwrap_or_default(),
        };
        let from = text("undoes").map(|undone| format!("commit {undone}")).or_else(|| text("files"));
        commits.push(ListedCommit {
            commit: text("commit").unwrap_or_default(),
            at: text("at").unwrap_or_default(),
            operation: text("operation").unwrap_or_default(),
            added: number("added"),
            removed: number("removed"),
            duplicates: number("duplicates"),
            dates,
            from: from.unwrap_or_default(),
            cannot_undo: text("cannot_undo"),
        });
    }
    if commits.is_empty() {
        bail!("the server has no table {table:?} all of which you may read");
    }
    Ok(commits)
}

/// A table, or one that was dropped.
fn of_name(database: &Database, name: &str) -> Result<Table> {
    match database.table(name) {
        Err(splay_store::Error::NoSuchTable { .. }) => Ok(database.dropped_table(name)?),
        result => Ok(result?),
    }
}

fn of_rows(rows: u64) -> String {
    if rows == 0 { String::new() } else { Thousands(rows).to_string() }
}

fn stored_commit(commit: &CommitReport) -> ListedCommit {
    let mut dates: Vec<String> = commit.dates.iter().map(|date| splay_store::date(*date).to_string()).collect();
    if dates.len() > DATES_SHOWN {
        dates = vec![format!("{} to {}, {}", dates[0], dates[dates.len() - 1], Thousands(dates.len() as u64))];
    }
    let mut from: Vec<String> = commit
        .sources
        .iter()
        .map(|source| format!("{} ({})", source.name, &source.digest[..source.digest.len().min(8)]))
        .collect();
    if from.len() > DATES_SHOWN {
        from = vec![format!("{} and {} more", from[0], from.len() - 1)];
    }
    if let Some(undoes) = commit.undoes {
        from = vec![format!("commit {undoes}")];
    }
    ListedCommit {
        commit: commit.commit.to_string(),
        at: DateTime::from_timestamp_nanos(commit.at).to_rfc3339_opts(SecondsFormat::Secs, true),
        operation: commit.operation.to_owned(),
        added: commit.added,
        removed: commit.removed,
        duplicates: commit.duplicates,
        dates: dates.join(", "),
        from: from.join(", "),
        cannot_undo: commit.cannot_undo.clone(),
    }
}

pub fn undo(arguments: &UndoArguments) -> Result<()> {
    if let Some(client) = place::client(&arguments.place)? {
        let statement = format!("ALTER TABLE {} UNDO COMMIT {}", quoted(&arguments.table), arguments.commit);
        let rows = Source::Server(client).texts(&statement)?;
        let of = |column: &str| rows.first().and_then(|row| row.get(column)).context("read the server's answer");
        let count = Counted(of("rows")?.parse()?, "row");
        say!("commit {} undone by commit {}: {count} came back or went", arguments.commit, of("commit")?)?;
        return Ok(());
    }
    let database = changeable(Path::new(&arguments.place.place))?;
    let report = of_name(&database, &arguments.table)?.undo(arguments.commit)?;
    if report.partitions == 0 && report.rows + report.removed == 0 {
        say!("commit {} undone by commit {}: the column that it dropped is back", arguments.commit, report.epoch)?;
        return Ok(());
    }
    say!(
        "commit {} undone by commit {}: {} came back, {} went, on {}",
        arguments.commit,
        report.epoch,
        Counted(report.rows, "row"),
        Thousands(report.removed),
        Counted(report.partitions as u64, "date")
    )?;
    Ok(())
}

/// A remark on symbols that no row has.
const CASE: &str = " (ibm and IBM are two symbols)";

pub fn delete(arguments: &DeleteArguments) -> Result<()> {
    let database = changeable(&arguments.database)?;
    let table = database.table(&arguments.table)?;
    let mut conditions = Vec::new();
    if let Some(dates) = &arguments.date {
        if table.snapshot()?.spec().reference.is_some() {
            bail!("{} is a reference table, which has no dates: name rows by --where", table.name());
        }
        let (first, last) = dates.split_once("..").unwrap_or((dates, dates));
        let date = |text: &str| -> Result<chrono::NaiveDate> {
            text.trim().parse().with_context(|| format!("{text:?} is not a date such as 2019-10-07"))
        };
        conditions.push(format!("date BETWEEN DATE '{}' AND DATE '{}'", date(first)?, date(last)?));
    }
    if !arguments.symbols.is_empty() {
        let Some(symbol) = table.snapshot()?.spec().symbol.clone() else { bail!("the table has no symbol column") };
        let symbols: Vec<String> = arguments.symbols.iter().map(|s| format!("'{}'", s.replace('\'', "''"))).collect();
        conditions.push(format!("{} IN ({})", quoted(&symbol), symbols.join(", ")));
    }
    conditions.extend(arguments.condition.iter().map(|condition| format!("({condition})")));
    if conditions.is_empty() && !arguments.all {
        bail!("which rows? Give --date, --symbols or --where, or --all for all of the table");
    }
    let condition = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    let what = if arguments.dry_run { "SELECT count(*) AS rows FROM" } else { "DELETE FROM" };
    let source = Source::Local(Session::new(database.clone(), SessionSettings::default())?);
    let never = AtomicBool::new(false);
    let statement = format!("{what} {}{condition}", quoted(table.name()));
    {
        let line = StatementLine::of(&source);
        let mut started = source.start(&statement, &HashMap::new(), &never, line.progress())?;
        let batches = line.over(started.rows(), LineEnd::LastRows).batches.collect::<Result<Vec<_>>>()?;
        let number = |name: &str| {
            let column = batches.first()?.column_by_name(name)?;
            arrow::util::display::array_value_to_string(column, 0).ok()?.parse::<u64>().ok()
        };
        let rows = Counted(number("rows").unwrap_or(0), "row");
        match number("commit") {
            _ if arguments.dry_run => say!("{rows} would be deleted")?,
            Some(commit) => say!(
                "deleted {rows} by commit {commit}; undo it by: splay undo {} {} {commit}",
                arguments.database.display(),
                table.name()
            )?,
            None => {
                say!("no row matches; nothing has changed{}", if arguments.symbols.is_empty() { "" } else { CASE })?
            }
        }
    }
    Ok(())
}

pub fn maintain(arguments: &MaintainArguments) -> Result<()> {
    let database = changeable(&arguments.database)?;
    if arguments.take_over_objects {
        database.take_over_objects()?;
        say!("this database writes to {} from now on", database.objects()?.url())?;
    }
    let names = match &arguments.table {
        Some(name) => vec![name.clone()],
        None => database.tables()?,
    };
    // First: views keep what expires as it was when they were refreshed.
    refresh_views(&database, arguments)?;
    let mut refused = 0;
    for name in names {
        refused += usize::from(!maintain_table(&database.table(&name)?, arguments)?);
    }
    if refused > 0 {
        bail!("not published: {}", Counted(refused as u64, "table"));
    }
    Ok(())
}

/// Keeps the rows of the materialized views whose tables have changed.
fn refresh_views(database: &Database, arguments: &MaintainArguments) -> Result<()> {
    let views = database.views()?;
    let session = Session::new(database.clone(), SessionSettings::default())?;
    let is_of_table = |view: &&View| match (&view.materialized, &arguments.table) {
        (Some(of), Some(table)) => of.eq_ignore_ascii_case(table),
        (of, _) => of.is_some(),
    };
    for view in views.iter().filter(is_of_table) {
        let name = &view.name;
        if arguments.dry_run {
            let (parts, rows) = session.refresh_due(name, Stop::NEVER)?;
            say!("{name}: {} of {} would be refreshed", Counted(parts as u64, "part"), Counted(rows, "row"))?;
        } else {
            let refreshed = session.refresh(name, Stop::NEVER)?;
            say!("{name}: {} of {} refreshed", Counted(refreshed.written, "row"), Thousands(refreshed.read))?;
        }
    }
    Ok(())
}

/// Does the upkeep of a table, and says whether others see it if they are to.
fn maintain_table(table: &Table, arguments: &MaintainArguments) -> Result<bool> {
    for (date, tier) in table.stored()?.due_moves() {
        if arguments.dry_run {
            say!("{}: {} would move to {}", table.name(), splay_store::date(date), tier.name())?;
            continue;
        }
        let options = CompactOptions { date: Some(date), ..CompactOptions::default() };
        let (before, after) = table.compact(&options, &mut |_| ControlFlow::Continue(()))?.bytes;
        let (before, after) = (HumanBytes(before), HumanBytes(after));
        say!("{}: {} moved to {}, {before} before, {after} after", table.name(), splay_store::date(date), tier.name())?;
    }
    let retention = table.stored()?.spec().retention;
    let would = if arguments.dry_run { "would go" } else { "went" };
    if !retention.is_unbounded() {
        let report = table.expire(retention, arguments.dry_run)?;
        let dates = match (report.dates.first(), report.dates.last()) {
            (Some(first), Some(last)) => format!("{} to {}", splay_store::date(*first), splay_store::date(*last)),
            _ => "no dates".to_owned(),
        };
        say!("{}: {dates} {would}, {}, {}", table.name(), Counted(report.rows, "row"), HumanBytes(report.bytes))?;
    }
    // Before files go that others may read still. What is refused doesn't keep the rest from being done.
    let mut is_seen = true;
    if !arguments.dry_run
        && table.stored()?.spec().publish.is_some()
        && let Err(error) = super::upkeep::publish_table(table)
    {
        say!("{}: not published: {error}", table.name())?;
        is_seen = false;
    }
    let undo_bytes: u64 = table.stored()?.undo_files().map(|entry| entry.bytes + entry.index_bytes).sum();
    if arguments.dry_run {
        say!("{}: {} are kept for undo", table.name(), HumanBytes(undo_bytes))?;
    } else {
        let forgotten_bytes = table.forget(arguments.forget)?;
        say!(
            "{}: {} that were kept for undo {would}, {} are kept",
            table.name(),
            HumanBytes(forgotten_bytes),
            HumanBytes(undo_bytes - forgotten_bytes)
        )?;
    }
    Ok(is_seen)
}

/// Sets how long rows of a table stay.
pub fn retain(table: &Table, days: Option<u32>, bytes: Option<u64>) -> Result<()> {
    table.set_retention(Retention { days, bytes })?;
    Ok(())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
