//! `splay journal`: what the journal holds and has lost.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use splay_capture::{Capture, CaptureSettings, JournalReport, RecoveredBatch, RecoveryStatus};
use splay_store::Database;

use crate::args::{DatabaseArguments, JournalInspectArguments, JournalRecoverArguments, StatusFormat};
use crate::output::columns;
use crate::print::{self, say};
use crate::size::{Counted, HumanBytes, Thousands};

pub fn inspect(arguments: &JournalInspectArguments) -> Result<()> {
    let report = JournalReport::of(&Database::open(&arguments.database)?)?;
    let mut out = print::stdout();
    match arguments.format {
        StatusFormat::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        StatusFormat::Table => show(&mut out, &report)?,
    }
    out.flush().context("write the report")
}

pub fn accept(arguments: &DatabaseArguments) -> Result<()> {
    let database = Database::open(&arguments.database)?;
    let accepted = JournalReport::accept(&database)
        .context("losses are accepted while nothing captures: stop the server first")?;
    for loss in &accepted {
        say!("{loss}")?;
    }
    say!("accepted {}", Counted(accepted.len() as u64, "loss"))?;
    Ok(())
}

/// Reads a file that was set aside.
pub fn recover(arguments: &JournalRecoverArguments) -> Result<()> {
    let database = Database::open(&arguments.database)?;
    let inside = database.path().join(".journal").join(&arguments.from);
    let file = if arguments.from.exists() { &arguments.from } else { &inside };
    if arguments.store {
        return store(database.clone(), file);
    }
    let batches = JournalReport::recover(&database, file)?;
    let line = |batch: &RecoveredBatch| {
        vec![
            batch.sequence.to_string(),
            chrono::DateTime::from_timestamp_nanos(batch.received).format("%Y-%m-%d %H:%M:%S%.6f").to_string(),
            batch.spec.name.clone(),
            Thousands(batch.rows.num_rows() as u64).to_string(),
            if batch.producer.0.is_empty() {
                String::new()
            } else {
                format!("{:?} {}", batch.producer.0, batch.producer.1)
            },
            if batch.is_in_journal { "yes" } else { "no" }.to_owned(),
        ]
    };
    let lines: Vec<Vec<String>> = batches.iter().map(line).collect();
    if !lines.is_empty() {
        say!("{}", columns(&["batch", "received", "table", "rows", "producer", "in the journal"], &lines))?;
    }
    say!("{} whole batches", batches.len())?;
    match &arguments.to {
        Some(folder) => write_tables(folder, batches.iter().filter(|batch| !batch.is_in_journal)),
        None => Ok(()),
    }
}

/// Stores what a file has that was set aside.
fn store(database: Database, file: &Path) -> Result<()> {
    let settings = CaptureSettings { automatic: false, disk_reserve_bytes: 0, ..CaptureSettings::default() };
    let (capture, recovered) = Capture::open(database, settings)
        .context("batches are stored while nothing captures: stop the server first")?;
    if recovered != RecoveryStatus::default() {
        say!("{recovered}")?;
    }
    let done = capture.store_set_aside(file)?;
    capture.close()?;
    let (rows, stored) = (Counted(done.rows, "row"), Counted(done.stored, "batch"));
    let in_journal = Thousands(done.in_journal);
    say!("stored {rows} of {stored}; the journal has {in_journal} others")?;
    for left_out in &done.left_out {
        say!("left out: {left_out}")?;
    }
    if !done.left_out.is_empty() {
        say!("compare what was left out with the tables, and load what isn't there with --to")?;
    }
    Ok(())
}

/// Writes batches to a file for each table, and for each state of its columns.
fn write_tables<'a>(folder: &Path, batches: impl Iterator<Item = &'a RecoveredBatch>) -> Result<()> {
    let mut tables: Vec<Vec<&RecoveredBatch>> = Vec::new();
    for batch in batches {
        match tables.iter_mut().find(|table| table[0].spec == batch.spec) {
            Some(table) => table.push(batch),
            None => tables.push(vec![batch]),
        }
    }
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    for (number, table) in tables.iter().enumerate() {
        let name = format!("{}.{}.arrow", table[0].spec.name, number + 1);
        let path = folder.join(name);
        let file = std::fs::File::create_new(&path).with_context(|| format!("create {}", path.display()))?;
        let batches = table.iter().map(|batch| Ok(batch.rows.clone()));
        crate::arrow_file::write(file, table[0].rows.schema_ref(), batches)?;
        let rows: usize = table.iter().map(|batch| batch.rows.num_rows()).sum();
        say!("wrote {} of {} to {}", Counted(rows as u64, "row"), table[0].spec.name, path.display())?;
    }
    Ok(())
}

/// Checks the journal for `splay verify`. Gives how much is wrong.
pub fn verify(database: &Database) -> Result<usize> {
    let report = JournalReport::of(database)?;
    let losses: Vec<_> = report.losses.iter().chain(&report.losses_found).collect();
    for loss in &losses {
        say!("journal: {loss}")?;
    }
    if losses.is_empty() && !report.files.is_empty() {
        let bytes = report.files.iter().map(|file| file.bytes).sum();
        say!("journal: {}, {}: sound", Counted(report.files.len() as u64, "file"), HumanBytes(bytes))?;
    }
    Ok(losses.len())
}

fn show(out: &mut impl Write, report: &JournalReport) -> Result<()> {
    let state = if report.is_written { "a process captures: the end may be under way" } else { "nothing captures" };
    let catalog = if report.has_catalog { "sound" } else { "none: the next start makes one" };
    writeln!(out, "state     {state}\ncatalog   {catalog}")?;
    if report.torn_bytes > 0 && !report.is_written {
        writeln!(out, "torn      {} behind the last whole frame", HumanBytes(report.torn_bytes))?;
    }
    let rows: Vec<Vec<String>> = report.files.iter().flat_map(of_file).collect();
    if !rows.is_empty() {
        writeln!(
            out,
            "\n{}",
            columns(&["file", "bytes", "first batch", "last batch", "table", "batches", "rows"], &rows)
        )?;
    }
    for (title, losses) in [("lost", &report.losses), ("lost, and not listed yet", &report.losses_found)] {
        if !losses.is_empty() {
            writeln!(out, "\n{title}")?;
            losses.iter().try_for_each(|loss| writeln!(out, "{loss}"))?;
        }
    }
    if !report.set_aside.is_empty() {
        writeln!(out, "\nset aside")?;
        report.set_aside.iter().try_for_each(|(file, bytes)| writeln!(out, "{file}  {}", HumanBytes(*bytes)))?;
    }
    Ok(())
}

/// A file's line, with its first table, and one for each other table.
fn of_file(file: &splay_capture::JournalFileReport) -> Vec<Vec<String>> {
    let last = if file.last_sequence < file.first_sequence {
        String::new()
    } else {
        Thousands(file.last_sequence).to_string()
    };
    let own =
        vec![file.file.clone(), HumanBytes(file.bytes).to_string(), Thousands(file.first_sequence).to_string(), last];
    let mut lines: Vec<Vec<String>> = file
        .tables
        .iter()
        .enumerate()
        .map(|(place, table)| {
            let before = if place == 0 { own.clone() } else { vec![String::new(); own.len()] };
            let counts = [table.table.clone(), Thousands(table.batches).to_string(), Thousands(table.rows).to_string()];
            [before, counts.to_vec()].concat()
        })
        .collect();
    if lines.is_empty() {
        lines.push([own, vec![String::new(); 3]].concat());
    }
    lines
}
