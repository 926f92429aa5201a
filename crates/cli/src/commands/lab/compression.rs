//! `splay lab compression`: schemes on columns.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use arrow::array::RecordBatch;
use arrow::ipc::writer::FileWriter;
use splay_import::FileOpener;
use splay_lab::compression::{
    Column, Dataset, Limits, List, Measurement, Metric, Outcome, SchemeSet, Settings, best, choose, extremes, front,
    load, run as measure, schemes, totals,
};
use splay_sql::{Parameters, Session, SessionSettings};
use splay_store::Database;

use super::inputs;
use crate::allocator;
use crate::lab_args::{ChoiceArguments, CompressionArguments, SchemesArgument};
use crate::output::columns;
use crate::print::say;
use crate::progress;
use crate::size::{HumanBytes, Thousands};

pub fn run(arguments: &CompressionArguments) -> Result<()> {
    let data = data(arguments)?;
    if data.is_empty() {
        let Some(path) = &arguments.results else {
            bail!("nothing to measure: name files, --database and --table, or --generate");
        };
        return show(&load(path)?, arguments);
    }
    let outcome = measured(&data, arguments)?;
    for skipped in skipped_of(&outcome) {
        say!("{skipped}")?;
    }
    if outcome.remaining > 0 {
        say!("{} tests were left when the budget was over", Thousands(outcome.remaining as u64))?;
    }
    show(&outcome.rows, arguments)
}

/// The data that the arguments name, or none.
fn data(arguments: &CompressionArguments) -> Result<Vec<Dataset>> {
    if let Some(kind) = arguments.generate {
        let list = List { kind, count: arguments.count, order: arguments.order, seed: arguments.seed };
        let lists = (0..arguments.lists).map(|number| List { seed: list.seed.wrapping_add(number), ..list }.column());
        return Ok(vec![Dataset { name: list.name(), lists: lists.collect::<splay_lab::Result<_>>()? }]);
    }
    let mut data = Vec::new();
    for table in inputs::tables(&arguments.input)? {
        let table = inputs::only(&table, &arguments.columns)?;
        data.extend(Column::all(&table.schema, &table.batches)?.into_iter().map(Dataset::from));
    }
    Ok(data)
}

fn measured(data: &[Dataset], arguments: &CompressionArguments) -> Result<Outcome> {
    let set = match arguments.schemes {
        SchemesArgument::All => SchemeSet::All,
        SchemesArgument::Q => SchemeSet::Q,
        SchemesArgument::Today => SchemeSet::Today,
    };
    let schemes = schemes(set, &arguments.codecs, arguments.scheme.as_deref());
    if schemes.is_empty() {
        bail!("no scheme has these codecs and this name");
    }
    let mut settings = Settings {
        times: arguments.times,
        budget: arguments.budget.map(|budget| budget.0),
        results: arguments.results.clone(),
        seed: arguments.seed,
        release_memory: allocator::give_back_now,
        ..Settings::default()
    };
    settings.folder = arguments.folder.clone().unwrap_or(settings.folder);
    let bar = progress::tests(data.len() * schemes.len());
    let mut observer = |progress: splay_lab::compression::Progress<'_>| {
        bar.set_position(progress.done as u64);
        let time_remaining = progress
            .time_remaining
            .map(|time_remaining| format!("{:.0} s left", time_remaining.as_secs_f64()))
            .unwrap_or_default();
        bar.set_message(format!("{time_remaining}  {}: {}", progress.data, progress.scheme));
        ControlFlow::Continue(())
    };
    let outcome = match &arguments.statement {
        None => measure(data, &schemes, &settings, None, &mut observer),
        Some(statement) => {
            let folder = tempfile::Builder::new().prefix("splay-lab-").tempdir_in(&settings.folder)?;
            let session = session(&folder.path().join("database"))?;
            let rows = folder.path().join("data.arrow");
            let mut runner =
                |batch: &RecordBatch| timed(&session, &rows, batch, statement).map_err(|error| format!("{error:#}"));
            measure(data, &schemes, &settings, Some(&mut runner), &mut observer)
        }
    };
    bar.finish_and_clear();
    Ok(outcome?)
}

/// A session over a database without tables, for statements over files.
pub fn session(folder: &Path) -> Result<Session> {
    Ok(Session::new(
        Database::create(folder)?,
        SessionSettings { files: Some(Arc::new(FileOpener)), ..SessionSettings::default() },
    )?)
}

/// The time of a statement over rows, which it reads from an uncompressed file in the page cache.
fn timed(session: &Session, path: &Path, batch: &RecordBatch, statement: &str) -> Result<Duration> {
    let mut writer = FileWriter::try_new(std::fs::File::create(path)?, &batch.schema())?;
    writer.write(batch)?;
    writer.finish()?;
    let text = statement.replace("{data}", &format!("'{}'", path.display().to_string().replace('\'', "''")));
    let start = Instant::now();
    session.sql(&text, Parameters::None)?.batches()?;
    Ok(start.elapsed())
}

/// How many schemes were skipped, by reason.
fn skipped_of(outcome: &Outcome) -> Vec<String> {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for skipped in &outcome.skipped {
        match reasons.iter_mut().find(|(reason, _)| *reason == skipped.reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((&skipped.reason, 1)),
        }
    }
    let line = |(reason, count): (&str, usize)| format!("{} tests left out: {reason}", Thousands(count as u64));
    reasons.into_iter().map(line).collect()
}

/// The smallest scheme of each column, if there are several.
fn show_columns(rows: &[Measurement], arguments: &CompressionArguments) -> Result<()> {
    let mut smallest: Vec<&Measurement> = Vec::new();
    for row in rows {
        match smallest.iter_mut().find(|other| other.data == row.data) {
            Some(other) if row.bytes < other.bytes => *other = row,
            Some(_) => {}
            None => smallest.push(row),
        }
    }
    if smallest.len() < 2 {
        return Ok(());
    }
    let bytes: i64 = smallest.iter().map(|row| row.bytes).sum();
    say!("smallest of each column, {} together", HumanBytes(bytes.unsigned_abs()))?;
    let line = |row: &&Measurement| {
        let bytes = HumanBytes(row.bytes.unsigned_abs()).to_string();
        vec![
            row.data.clone(),
            bytes,
            number(row.comp_factor),
            number(row.write_time),
            number(row.read_time),
            row.scheme.clone(),
        ]
    };
    let lines: Vec<Vec<String>> = smallest.iter().take(arguments.show.max(100)).map(line).collect();
    let heading = ["column", "bytes", "compFactor", "writeTime", "readTime", "scheme"];
    say!("{}\n", columns(&heading, &lines))
}

/// The smallest scheme of each column, extremes, the best by each metric, the choice, and the front.
fn show(rows: &[Measurement], arguments: &CompressionArguments) -> Result<()> {
    show_columns(rows, arguments)?;
    let rows = &totals(rows);
    let Some(first) = rows.first() else { bail!("there are no results that all columns have") };
    let cold = if first.is_cold { "read from the device" } else { "read from the page cache" };
    let (count, bytes) = (first.data_count.unsigned_abs(), first.plain_bytes.unsigned_abs());
    say!("{}: {} values, {}, {cold}\n", first.data, Thousands(count), HumanBytes(bytes))?;
    let lines: Vec<Vec<String>> = extremes(rows)
        .iter()
        .map(|e| vec![e.metric.column().to_owned(), number(e.maximum), number(e.minimum), number(e.average)])
        .collect();
    say!("{}\n", columns(&["metric", "maximum", "minimum", "average"], &lines))?;
    for metric in Metric::ALL.into_iter().filter(|metric| rows.iter().any(|row| metric.of(row).is_some())) {
        say!("best {}", metric.column())?;
        say!("{}\n", table(&best(rows, metric), arguments.show))?;
    }
    let limits = limits(&arguments.choice);
    if limits != Limits::default() || arguments.choice.order_by.is_some() {
        let chosen = choose(rows, &limits, arguments.choice.order_by.unwrap_or(Metric::Factor));
        say!("within the limits: {} of {}", chosen.len(), rows.len())?;
        say!("{}\n", table(&chosen, arguments.show))?;
    }
    let front_rows = front(rows, &arguments.choice.front);
    let names: Vec<&str> = arguments.choice.front.iter().map(|metric| metric.column()).collect();
    say!("Pareto front by {}: {} of {}", names.join(", "), front_rows.len(), rows.len())?;
    say!("{}", table(&front_rows, arguments.show))?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "bytes to compare")]
fn limits(choice: &ChoiceArguments) -> Limits {
    Limits {
        min_factor: choice.min_factor,
        max_write_ms: choice.max_write_ms,
        max_read_ms: choice.max_read_ms,
        max_block_us: choice.max_block_us,
        max_memory: choice.max_memory.map(|bytes| bytes.0 as f64),
        max_query_ms: choice.max_query_ms,
    }
}

fn table(rows: &[&Measurement], most: usize) -> String {
    let shown = |value: Option<f64>| value.map(number).unwrap_or_default();
    let line = |row: &&Measurement| {
        vec![
            number(row.comp_factor),
            number(row.write_time),
            number(row.read_time),
            shown(row.block_time),
            row.memory.map(|bytes| HumanBytes(bytes.unsigned_abs()).to_string()).unwrap_or_default(),
            shown(row.query_time),
            row.scheme.clone(),
        ]
    };
    let lines: Vec<Vec<String>> = rows.iter().take(most).map(line).collect();
    let heading = ["compFactor", "writeTime", "readTime", "blockTime", "memory", "queryTime", "scheme"];
    let rest = rows.len().saturating_sub(most);
    let note = if rest > 0 { format!("\n… and {rest} more (--show {})", rows.len()) } else { String::new() };
    columns(&heading, &lines) + &note
}

/// Four digits, or all before the point.
fn number(value: f64) -> String {
    match value.abs() {
        1_000.0.. => format!("{value:.0}"),
        100.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
