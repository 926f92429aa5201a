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
        "SELECT commit, at, operation, added, removed, duplicates, first_date, last_date, files, digests, undoes, cannot_undo \
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
        let (names, digests) = (text("files").unwrap_or_default(), text("digests").unwrap_or_default());
        let (names, digests): (Vec<&str>, Vec<&str>) = (names.split(", ").collect(), digests.split(", ").collect());
        let files = match names.len() == digests.len() {
            true => of_files(&names.iter().copied().zip(digests).collect::<Vec<_>>()),
            // A name has a comma.
            false => of_files(&[(&names.join(", "), "")]),
        };
        let from = text("undoes").map_or(files, |undone| format!("commit {undone}"));
        commits.push(ListedCommit {
            commit: text("commit").unwrap_or_default(),
            at: text("at").unwrap_or_default(),
            operation: text("operation").unwrap_or_default(),
            added: number("added"),
            removed: number("removed"),
            duplicates: number("duplicates"),
            dates,
            from,
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

/// Files by their names, with the first digits of their digests.
fn of_files(files: &[(&str, &str)]) -> String {
    let file = |(name, digest): &(&str, &str)| match digest.get(..8).unwrap_or(digest) {
        "" => (*name).to_owned(),
        digest => format!("{name} ({digest})"),
    };
    match files {
        [first, others @ ..] if others.len() >= DATES_SHOWN => format!("{} and {} more", file(first), others.len()),
        files => files.iter().map(file).collect::<Vec<_>>().join(", "),
    }
}

fn stored_commit(commit: &CommitReport) -> ListedCommit {
    let mut dates: Vec<String> = commit.dates.iter().map(|date| splay_store::date(*date).to_string()).collect();
    if dates.len() > DATES_SHOWN {
        dates = vec![format!("{} to {}, {}", dates[0], dates[dates.len() - 1], Thousands(dates.len() as u64))];
    }
    let files: Vec<(&str, &str)> =
        commit.sources.iter().map(|source| (source.name.as_str(), source.digest.as_str())).collect();
    let from = commit.undoes.map_or_else(|| of_files(&files), |undone| format!("commit {undone}"));
    ListedCommit {
        commit: commit.commit.to_string(),
        at: DateTime::from_timestamp_nanos(commit.at).to_rfc3339_opts(SecondsFormat::Secs, true),
        operation: commit.operation.to_owned(),
        added: commit.added,
        removed: commit.removed,
        duplicates: commit.duplicates,
        dates: dates.join(", "),
        from,
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
    let table = of_name(&database, &arguments.table)?;
    let columns_before = if database.has_table(table.name())? { Some(columns(&table)?) } else { None };
    let report = table.undo(arguments.commit)?;
    if report.partitions == 0 && report.rows + report.removed == 0 {
        let outcome = match columns_before {
            None => "the table is back, which has no rows".to_owned(),
            Some(before) => columns_back(&before, &columns(&table)?),
        };
        say!("commit {} undone by commit {}: {outcome}", arguments.commit, report.epoch)?;
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

/// Names of a table's columns.
fn columns(table: &Table) -> Result<Vec<String>> {
    Ok(table.snapshot()?.spec().columns.iter().map(|column| column.name.clone()).collect())
}

/// What an undo that changed no rows has brought back, by the columns before it and after it.
fn columns_back(before: &[String], after: &[String]) -> String {
    let returned: Vec<&str> = after.iter().filter(|name| !before.contains(name)).map(String::as_str).collect();
    match returned.as_slice() {
        [] => "no row came back, and none went".to_owned(),
        [column] => format!("column {column} is back"),
        columns => format!("columns {} are back", columns.join(", ")),
    }
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
        let (first, last) = (date(first)?, date(last)?);
        if last < first {
            bail!("--date {dates} ends before it begins: write {last}..{first}");
        }
        conditions.push(format!("date BETWEEN DATE '{first}' AND DATE '{last}'"));
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
    let views = refresh_views(&database, arguments)?;
    let mut refused: u64 = 0;
    for name in names {
        let table = database.table(&name)?;
        let is_read = views.iter().any(|view| view.materialized.as_deref() == Some(table.name()));
        refused += u64::from(!maintain_table(&table, arguments, !is_read)?);
    }
    match (views.len() as u64, refused) {
        (0, 0) => Ok(()),
        (0, refused) => bail!("not published: {}", Counted(refused, "table")),
        (views, 0) => bail!("not refreshed: {}", Counted(views, "view")),
        (views, refused) => {
            bail!("not refreshed: {}; not published: {}", Counted(views, "view"), Counted(refused, "table"))
        }
    }
}

/// Keeps the rows of the materialized views whose tables have changed; gives those that can't be refreshed, and says why.
fn refresh_views(database: &Database, arguments: &MaintainArguments) -> Result<Vec<View>> {
    let mut failed = Vec::new();
    let views = database.views()?;
    let session = Session::new(database.clone(), SessionSettings::default())?;
    let is_of_table = |view: &&View| match (&view.materialized, &arguments.table) {
        (Some(of), Some(table)) => of.eq_ignore_ascii_case(table),
        (of, _) => of.is_some(),
    };
    for view in views.iter().filter(is_of_table) {
        let name = &view.name;
        let refreshed = if arguments.dry_run {
            session.refresh_due(name, Stop::NEVER).map(|(parts, rows)| {
                format!("{} of {} would be refreshed", Counted(parts as u64, "part"), Counted(rows, "row"))
            })
        } else {
            let refreshed = session.refresh(name, Stop::NEVER);
            refreshed.map(|done| format!("{} of {} refreshed", Counted(done.written, "row"), Thousands(done.read)))
        };
        match refreshed {
            Ok(done) => say!("{name}: {done}")?,
            Err(error) => {
                say!("{name}: not refreshed, so rows of its table aren't removed: {error}")?;
                failed.push(view.clone());
            }
        }
    }
    Ok(failed)
}

/// Does the upkeep of a table, and says whether others see it if they are to. What its retention removes goes only if it `may_expire`.
fn maintain_table(table: &Table, arguments: &MaintainArguments, may_expire: bool) -> Result<bool> {
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
    if !retention.is_unbounded() && may_expire {
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
