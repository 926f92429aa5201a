//! `splay journal`: what the journal holds and has lost.

use std::io::Write;

use anyhow::{Context, Result};
use splay_capture::JournalReport;
use splay_store::Database;

use crate::args::{DatabaseArguments, JournalInspectArguments, StatusFormat};
use crate::output::columns;
use crate::size::{Human, Thousands};

pub fn inspect(arguments: &JournalInspectArguments) -> Result<()> {
    let report = JournalReport::of(&Database::open(&arguments.database)?)?;
    let mut out = std::io::stdout().lock();
    match arguments.format {
        StatusFormat::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        StatusFormat::Table => show(&mut out, &report)?,
    }
    out.flush().context("write the report")
}

pub fn accept(arguments: &DatabaseArguments) -> Result<()> {
    let database = Database::open(&arguments.database)?;
    let accepted =
        JournalReport::accept(&database).context("losses are accepted while nothing captures: stop the server first")?;
    for loss in &accepted {
        println!("{loss}");
    }
    println!("accepted {} losses", accepted.len());
    Ok(())
}

/// Checks the journal for `splay verify`. Gives how much is wrong.
pub fn verify(database: &Database) -> Result<usize> {
    let report = JournalReport::of(database)?;
    let losses: Vec<_> = report.losses.iter().chain(&report.losses_found).collect();
    for loss in &losses {
        println!("journal: {loss}");
    }
    if losses.is_empty() && !report.files.is_empty() {
        let bytes = report.files.iter().map(|file| file.bytes).sum();
        println!("journal: {} files, {}: sound", report.files.len(), Human(bytes));
    }
    Ok(losses.len())
}

fn show(out: &mut impl Write, report: &JournalReport) -> Result<()> {
    let state = if report.is_written { "a process captures: the end may be under way" } else { "nothing captures" };
    let catalog = if report.has_catalog { "sound" } else { "none: the next start makes one" };
    writeln!(out, "state     {state}\ncatalog   {catalog}")?;
    if report.torn_bytes > 0 && !report.is_written {
        writeln!(out, "torn      {} behind the last whole frame", Human(report.torn_bytes))?;
    }
    let rows: Vec<Vec<String>> = report.files.iter().flat_map(of_file).collect();
    if !rows.is_empty() {
        writeln!(out, "\n{}", columns(&["file", "bytes", "first batch", "last batch", "table", "batches", "rows"], &rows))?;
    }
    for (title, losses) in [("lost", &report.losses), ("lost, and not listed yet", &report.losses_found)] {
        if !losses.is_empty() {
            writeln!(out, "\n{title}")?;
            losses.iter().try_for_each(|loss| writeln!(out, "{loss}"))?;
        }
    }
    if !report.set_aside.is_empty() {
        writeln!(out, "\nset aside")?;
        report.set_aside.iter().try_for_each(|(file, bytes)| writeln!(out, "{file}  {}", Human(*bytes)))?;
    }
    Ok(())
}

/// A file's line, with its first table, and one for each other table.
fn of_file(file: &splay_capture::JournalFileReport) -> Vec<Vec<String>> {
    let last = if file.last_sequence < file.first_sequence { String::new() } else { Thousands(file.last_sequence).to_string() };
    let own = vec![file.file.clone(), Human(file.bytes).to_string(), Thousands(file.first_sequence).to_string(), last];
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
