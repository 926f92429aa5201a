//! `splay sql`: one statement, one answer.

use std::collections::HashMap;
use std::io::Read;

use anyhow::{Context, Result, anyhow};
use splay_sql::{Parameters, RunBy, ScalarValue, Session, SessionSettings, StatementStats};
use splay_store::Kept;

use super::place::open_to_read;
use crate::args::SqlArguments;
use crate::output;
use crate::size::{Human, Thousands};

pub fn run(arguments: SqlArguments) -> Result<()> {
    let text = match (&arguments.statement, &arguments.file) {
        (Some(statement), _) => statement.clone(),
        (None, Some(path)) if path.as_os_str() == "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("read the statement from standard input")?;
            text
        }
        (None, Some(path)) => std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?,
        (None, None) => return Err(anyhow!("no statement")),
    };
    let mut settings = SessionSettings { memory_bytes: arguments.memory.0, ..SessionSettings::default() };
    settings.threads = arguments.threads.unwrap_or(settings.threads).max(1);
    settings.measure_memory = arguments.stats;
    settings.files = true;
    let session = Session::new(open_to_read(&arguments.database, &arguments.journal)?, settings)?;
    let (text, parameters) = (text.trim().trim_end_matches(';'), parameters(&arguments.params)?);
    let mut answer = session.sql(text, parameters.clone())?;
    output::write(&mut answer, arguments.format, arguments.output.as_deref(), arguments.rows)?;
    if arguments.stats {
        let stats = answer.stats();
        eprintln!("{}", stats_line(&stats));
        let reason = answer.refusal().map(str::to_owned).or_else(|| session.why_no_tick_plan(text, &parameters));
        eprintln!("{}", run_by(&stats, reason.as_deref()));
    }
    Ok(())
}

fn parameters(given: &[String]) -> Result<Parameters> {
    if given.is_empty() {
        return Ok(Parameters::None);
    }
    let mut named = HashMap::new();
    for parameter in given {
        let (name, value) = parameter.split_once('=').ok_or_else(|| anyhow!("{parameter:?} is not NAME=VALUE"))?;
        named.insert(name.trim_start_matches('$').to_owned(), value_of(value));
    }
    Ok(Parameters::Named(named))
}

/// A value by its looks: quotes make it a text whatever it looks like.
fn value_of(text: &str) -> ScalarValue {
    if let Some(quoted) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return ScalarValue::from(quoted);
    }
    if let Ok(number) = text.parse::<i64>() {
        return ScalarValue::from(number);
    }
    if let Ok(number) = text.parse::<f64>() {
        return ScalarValue::from(number);
    }
    match text {
        "true" => ScalarValue::from(true),
        "false" => ScalarValue::from(false),
        _ => ScalarValue::from(text),
    }
}

/// What a statement cost, in one line.
pub fn stats_line(stats: &StatementStats) -> String {
    let kept = |kept: Kept| format!("{}/{}", Thousands(kept.kept), Thousands(kept.total));
    format!(
        "{:.3} ms ({:.3} planning, {:.3} execution) | {} rows | scanned {}, {} | kept: partitions {}, symbols {}, blocks {} | \
         peak {} in operators, {} in the process",
        (stats.planning + stats.execution).as_secs_f64() * 1e3,
        stats.planning.as_secs_f64() * 1e3,
        stats.execution.as_secs_f64() * 1e3,
        Thousands(stats.rows_returned),
        Thousands(stats.rows_scanned),
        Human(stats.bytes_scanned),
        kept(stats.selection.partitions),
        kept(stats.selection.symbols),
        kept(stats.selection.blocks),
        Human(stats.peak_memory_bytes),
        Human(peak_process_bytes()),
    )
}

/// What ran a statement, and why that wasn't a tick plan, in one line.
fn run_by(stats: &StatementStats, reason: Option<&str>) -> String {
    let by = match stats.run_by {
        RunBy::TickPlan => return "run as a tick plan".to_owned(),
        RunBy::TickParts => "run by DataFusion, groupings in it as tick plans",
        RunBy::DataFusion => "run by DataFusion",
    };
    reason.map_or_else(|| by.to_owned(), |reason| format!("{by}; no tick plan because of {reason}"))
}

/// Most memory that the process held, mapped files that were touched among it.
fn peak_process_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
