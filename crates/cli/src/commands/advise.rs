//! `splay advise`: which tiers suit a table, measured on its own rows.

use std::sync::Arc;

use anyhow::{Result, bail};
use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use splay_store::{Advice, AdviseSettings, ColumnAdvice, Database, Error, PartAdvice, Table, TierRule};

use crate::args::{AdviceFormat, AdviseArguments, OutputFormat};
use crate::output::{self, DisplayOptions};
use crate::print::say;
use crate::rows::Rows;
use crate::size::{Counted, HumanBytes};

/// What isn't a column.
const BESIDE: &str = "(beside columns)";
const INDEX: &str = "(indexes)";
const TOTAL: &str = "(table)";

pub fn run(arguments: &AdviseArguments) -> Result<()> {
    let database = Database::open(&arguments.database)?;
    let table = table(&database, &arguments.table)?;
    let machine = || splay_server::memory_of_machine().map(|bytes| bytes as u64);
    let settings = AdviseSettings {
        goal: arguments.goal,
        budget: arguments.budget.0,
        memory_bytes: arguments.memory.as_ref().map(|bytes| bytes.0 as u64).or_else(machine),
        ..AdviseSettings::default()
    };
    let advice = table.advise(&settings)?;
    if arguments.apply {
        table.apply(&advice)?;
    }
    match arguments.format {
        AdviceFormat::Table => show(arguments, &advice),
        AdviceFormat::Json => Ok(say!("{:#}", advice.to_json())?),
        AdviceFormat::Csv => csv(&advice),
    }
}

fn table(database: &Database, name: &str) -> Result<Table> {
    match (database.table(name), database.view(name)) {
        (Err(Error::NoSuchTable { .. }), Ok(Some(view))) => match view.rows_table() {
            Some(rows) => bail!("the rows of {} are in the table {rows}: name that table", view.name),
            None => bail!("{} is a view, which keeps no rows: name a table that it reads", view.name),
        },
        (result, _) => Ok(result?),
    }
}

fn show(arguments: &AdviseArguments, advice: &Advice) -> Result<()> {
    say!(
        "{}: {} in {}, {} with indexes; measured: {} of {}",
        advice.table,
        Counted(advice.rows, "row"),
        Counted(advice.segments as u64, "segment"),
        HumanBytes(advice.bytes),
        Counted(advice.rows_sampled, "row"),
        Counted(advice.segments_sampled as u64, "segment")
    )?;
    if advice.rules.is_empty() {
        for reason in &advice.reasons {
            say!("{reason}")?;
        }
        return Ok(());
    }
    say!("\nbytes a row, and GB of values that a core reads in a second from memory:")?;
    let tiers = ["mapped", "fast", "small", "dense"];
    let titles = [&["column", "type", "now"][..], &tiers, &tiers, &["kept as"]].concat();
    let beside = [(BESIDE, &advice.beside), (INDEX, &advice.index)].map(|(name, part)| part_line(name, part));
    let mut lines: Vec<Vec<String>> = advice.columns.iter().map(column_line).collect();
    lines.extend(beside);
    lines.push(part_line(TOTAL, &total(advice)));
    say!("{}", output::columns(&titles, &lines))?;
    say!("\nwhy:")?;
    let reasons: Vec<Vec<String>> =
        advice.columns.iter().map(|column| vec![column.column.clone(), column.reason.clone()]).collect();
    say!("{}", output::columns(&["column", "what makes it so"], &reasons))?;
    say!("\nthe whole table:")?;
    say!("{}", output::columns(&["tier", "size", "of mapped", "all values read by a core"], &tier_lines(advice)))?;
    say!("\nadvice for {}: {}: {}", advice.goal.name(), rules(&advice.rules), HumanBytes(advice.bytes_advised))?;
    for reason in &advice.reasons {
        say!("- {reason}")?;
    }
    let database = arguments.database.display();
    if arguments.apply {
        say!("set; dates move by: splay maintain {database}")?;
    } else {
        let goal = advice.goal.name();
        say!("set it by: splay advise {database} {} --goal {goal} --apply", advice.table)?;
    }
    Ok(())
}

fn column_line(column: &ColumnAdvice) -> Vec<String> {
    let [_, fast, small, dense] = &column.tiers;
    let mut line = vec![column.column.clone(), column.column_type.clone(), figure(column.now)];
    line.extend(column.tiers.iter().map(|tier| figure(tier.bytes)));
    line.extend(column.tiers.iter().map(|tier| tier.gb_per_second.map(figure).unwrap_or_default()));
    let parquet = match small.encoding.strip_prefix(fast.encoding.as_str()) {
        Some("") => fast.encoding.clone(),
        Some(more) => format!("{} (small:{})", fast.encoding, more.trim_start_matches(',')),
        None => format!("fast: {}; small: {}", fast.encoding, small.encoding),
    };
    line.push(format!("{parquet}; dense: {}", dense.encoding));
    line
}

fn part_line(name: &str, part: &PartAdvice) -> Vec<String> {
    let mut line = vec![name.to_owned(), String::new(), figure(part.now)];
    line.extend(part.tiers.map(figure));
    line.resize(12, String::new());
    line
}

/// Bytes a row of all, as the table has it now by its manifest.
fn total(advice: &Advice) -> PartAdvice {
    let rows = advice.rows.max(1) as f64;
    let mut tiers = [0.0; 4];
    for (bytes, tier) in tiers.iter_mut().zip(&advice.tiers) {
        *bytes = tier.bytes as f64 / rows;
    }
    PartAdvice { now: advice.bytes as f64 / rows, tiers }
}

fn tier_lines(advice: &Advice) -> Vec<Vec<String>> {
    let mapped = advice.tiers.first().map_or(1, |tier| tier.bytes).max(1) as f64;
    let line = |tier: &splay_store::TierAdvice| {
        let time = tier.read_seconds.map_or_else(|| "too few rows to tell".to_owned(), |time| format!("{time:.3} s"));
        let share = format!("{:.0} %", 100.0 * tier.bytes as f64 / mapped);
        vec![tier.tier.name().to_owned(), HumanBytes(tier.bytes).to_string(), share, time]
    };
    advice.tiers.iter().map(line).collect()
}

/// "mapped, fast from 7 days on".
fn rules(rules: &[TierRule]) -> String {
    let one = |rule: &TierRule| match rule.after {
        0 => rule.tier.name().to_owned(),
        days => format!("{} from {days} days on", rule.tier.name()),
    };
    rules.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Three digits that count.
fn figure(value: f64) -> String {
    match value {
        _ if value == 0.0 => "0".to_owned(),
        _ if value < 0.995 => format!("{value:.3}"),
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn csv(advice: &Advice) -> Result<()> {
    let beside = [(BESIDE, advice.beside), (INDEX, advice.index), (TOTAL, total(advice))];
    let columns = &advice.columns;
    let texts = |of: &dyn Fn(&ColumnAdvice) -> String, others: &dyn Fn(&str) -> String| {
        let all = columns.iter().map(of).chain(beside.iter().map(|(name, _)| others(name)));
        Arc::new(all.collect::<Vec<_>>().into_iter().map(Some).collect::<StringArray>()) as ArrayRef
    };
    let numbers = |of: &dyn Fn(&ColumnAdvice) -> Option<f64>, others: &dyn Fn(&PartAdvice) -> Option<f64>| {
        let all = columns.iter().map(of).chain(beside.iter().map(|(_, part)| others(part)));
        Arc::new(all.collect::<Float64Array>()) as ArrayRef
    };
    let nothing = |_: &str| String::new();
    let mut cells = vec![
        ("column", texts(&|column| column.column.clone(), &|name| name.to_owned())),
        ("type", texts(&|column| column.column_type.clone(), &nothing)),
        ("now", numbers(&|column| Some(column.now), &|part| Some(part.now))),
    ];
    for (at, name) in ["mapped", "fast", "small", "dense"].into_iter().enumerate() {
        cells.push((name, numbers(&|column| Some(column.tiers[at].bytes), &|part| Some(part.tiers[at]))));
    }
    let speeds = ["mapped_gb_per_second", "fast_gb_per_second", "small_gb_per_second", "dense_gb_per_second"];
    for (at, name) in speeds.into_iter().enumerate() {
        cells.push((name, numbers(&|column| column.tiers[at].gb_per_second, &|_| None)));
    }
    for (at, name) in [(1, "fast_kept"), (2, "small_kept"), (3, "dense_kept")] {
        cells.push((name, texts(&|column| column.tiers[at].encoding.clone(), &nothing)));
    }
    cells.push(("reason", texts(&|column| column.reason.clone(), &nothing)));
    let batch = RecordBatch::try_from_iter_with_nullable(cells.into_iter().map(|(name, cells)| (name, cells, true)))?;
    let rows = Rows { schema: batch.schema(), batches: Box::new(std::iter::once(Ok(batch))) };
    output::write(rows, OutputFormat::Csv, None, DisplayOptions::ALL)
}
