//! `splay tick status`: what a server, or a database at rest, holds and has done.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::Value;
use splay_capture::{Report, latency_bounds};
use splay_store::Database;

use crate::args::{StatusFormat, TickStatusArguments};
use crate::commands::place;
use crate::output::columns;
use crate::print;
use crate::size::{Counted, HumanBytes, Thousands};

/// Rows of a list that are shown.
const SHOWN_MAX: usize = 20;

pub fn run(arguments: &TickStatusArguments) -> Result<()> {
    let status = match place::client(&arguments.place)? {
        Some(client) => place::json(&place::runtime()?.block_on(client.get("/status"))?)?,
        None => serde_json::to_value(Report::of_files(&Database::open(&arguments.place.place)?)?)?,
    };
    let mut out = print::stdout();
    match arguments.format {
        StatusFormat::Json => writeln!(out, "{}", serde_json::to_string_pretty(&status)?)?,
        StatusFormat::Table => show(&mut out, &status)?,
    }
    out.flush().context("write the status")
}

/// Room on the disk, where the system tells of it.
fn show_disk(out: &mut impl Write, disk: &Value) -> Result<()> {
    if disk["free_bytes"].is_u64() {
        let [free, least, reserve] =
            ["free_bytes", "free_bytes_min", "reserve_bytes"].map(|key| HumanBytes(number(&disk[key])));
        let state = if disk["is_refusing"] == true { "ROWS ARE REFUSED" } else { "rows are refused" };
        writeln!(out, "disk      {free} free, {state} below {least}; reserve {reserve}")?;
    }
    Ok(())
}

/// What the database is among its copies, if it has any.
fn show_replication(out: &mut impl Write, status: &Value) -> Result<()> {
    let epoch = number(&status["epoch"]);
    match status["role"].as_str() {
        Some("follower") => {
            let behind = status["lag_ns"]
                .as_u64()
                .map_or("not caught up yet".to_owned(), |ns| format!("{} ms behind", ns / 1_000_000));
            writeln!(out, "follows   {}, {behind}; epoch {epoch}", status["leader"].as_str().unwrap_or_default())?;
            if let Some(error) = status["error"].as_str() {
                writeln!(out, "STALE     {error}")?;
            }
        }
        Some(_) if status["fenced"].is_u64() => {
            writeln!(out, "FENCED    epoch {} began elsewhere: nothing is taken here", number(&status["fenced"]))?;
        }
        Some(_) => {
            let connected = list(&status["followers"]).filter(|follower| follower["is_connected"] == true).count();
            writeln!(out, "copies    {connected} followers connected; epoch {epoch}")?;
        }
        None => {}
    }
    Ok(())
}

/// What the clock did, if it did anything.
fn show_clock(out: &mut impl Write, clock: &Value) -> Result<()> {
    let [back, ahead, lead] = ["steps_back", "steps_ahead", "ahead_ns"].map(|key| number(&clock[key]));
    if back + ahead + lead > 0 {
        let seconds = lead / 1_000_000_000;
        writeln!(out, "clock     {back} steps back, {ahead} ahead; receive times are {seconds} s ahead of it")?;
    }
    Ok(())
}

fn show(out: &mut impl Write, status: &Value) -> Result<()> {
    let capture = &status["capture"];
    writeln!(out, "state     {}", state(status["state"].as_str().unwrap_or_default()))?;
    show_replication(out, &status["replication"])?;
    if let Some(failed) = capture["failed"].as_str() {
        writeln!(out, "FAILED    {failed}")?;
    }
    if let Some(damage) = status["journal_damage"].as_str() {
        writeln!(out, "journal   {damage}")?;
    }
    let losses = list(&capture["journal_losses"]).count();
    if losses > 0 {
        writeln!(out, "LOST      {} of the journal: see splay journal inspect", Counted(losses as u64, "loss"))?;
    }
    let follows = status["replication"]["role"] == "follower";
    let sequence = if follows { &status["replication"]["sequence"] } else { &capture["sequence"] };
    writeln!(out, "sequence  {}", count(sequence))?;
    writeln!(out, "journal   {}", HumanBytes(number(&capture["journal_bytes"])))?;
    if status["state"] == "running" {
        let counted = |name: &str, noun: &'static str| Counted(number(&capture[name]), noun);
        let (rows, batches) = (counted("rows", "row"), counted("batches", "batch"));
        writeln!(out, "taken     {rows} in {batches}, passed over {}", counted("duplicates", "repeat"))?;
        let (quarantined, refused) = (counted("quarantined", "row"), counted("rejected", "refusal"));
        writeln!(out, "aside     {quarantined} in quarantine, {refused}")?;
        let (done, failed) = (count(&capture["write_downs"]), count(&capture["write_downs_failed"]));
        writeln!(out, "written   {done} write-downs, {failed} failed")?;
        show_disk(out, &capture["disk"])?;
        show_clock(out, &capture["clock"])?;
    }
    section(out, "tables", TABLES, tables(status))?;
    section(
        out,
        "time to receive, visible, durable: median and 99th percentile, upper bounds",
        LATENCIES,
        latencies(capture),
    )?;
    section(out, "quality of feeds", QUALITY, quality(capture))?;
    section(out, "duplicates", DUPLICATES, duplicates(capture))?;
    let producers = list(&capture["producers_latest"])
        .map(|producer| vec![text(&producer["name"]), count(&producer["sequence"]), time(&producer["at"])]);
    section(
        out,
        &format!("producers ({})", count(&capture["producers"])),
        &["name", "last number", "at"],
        producers.collect(),
    )?;
    let lags = list(&capture["subscriber_lags"]).map(|lag| {
        let lost = if lag["is_lost"] == true { "too slow" } else { "" };
        vec![
            text(&lag["table"]),
            count(&lag["batches"]),
            HumanBytes(number(&lag["bytes"])).to_string(),
            lost.to_owned(),
        ]
    });
    section(out, "subscribers", &["table", "batches behind", "bytes behind", ""], lags.collect())?;
    let refusals = list(&status["rejected_latest"]).rev();
    let refusals = refusals.map(|refusal| vec![time(&refusal["at"]), text(&refusal["way"]), text(&refusal["reason"])]);
    section(out, "refused last", &["at", "way", "reason"], refusals.collect())
}

fn state(state: &str) -> &str {
    match state {
        "running" => "running, and takes rows",
        "read_only" => "running, and takes no rows",
        "elsewhere" => "a process captures into it; ask that by its address for what it has in memory",
        "at_rest" => "at rest: nothing captures into it",
        other => other,
    }
}

/// A list under its heading, if it has anything.
fn section(out: &mut impl Write, title: &str, heading: &[&str], mut rows: Vec<Vec<String>>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let more = rows.len().saturating_sub(SHOWN_MAX);
    rows.truncate(SHOWN_MAX);
    writeln!(out, "\n{title}\n{}", columns(heading, &rows))?;
    if more > 0 {
        writeln!(out, "and {more} more (--format json shows more)")?;
    }
    Ok(())
}

const TABLES: &[&str] =
    &["table", "rows in files", "size", "dates", "rows live", "last batch", "written to", "written at", "rolled at"];

fn tables(status: &Value) -> Vec<Vec<String>> {
    let live = |name: &Value| list(&status["capture"]["tables"]).find(|table| table["table"] == *name);
    let row = |table: &Value| {
        if let Some(error) = table["error"].as_str() {
            let mut row = vec![text(&table["table"]), error.to_owned()];
            row.resize(TABLES.len(), String::new());
            return row;
        }
        let live = live(&table["table"]).unwrap_or(&Value::Null);
        let dates = match (table["first_date"].as_str(), table["last_date"].as_str()) {
            (Some(first), Some(last)) if first == last => first.to_owned(),
            (Some(first), Some(last)) => format!("{first} to {last}"),
            _ => String::new(),
        };
        vec![
            text(&table["table"]),
            count(&table["stored_rows"]),
            HumanBytes(number(&table["stored_bytes"])).to_string(),
            dates,
            count(&live["live_rows"]),
            count(&live["last_sequence"]),
            count(&live["written_sequence"]),
            time(&live["written_at"]),
            time(&live["rolled_at"]),
        ]
    };
    list(&status["tables"]).map(row).collect()
}

const LATENCIES: &[&str] = &["table", "receive 50%", "99%", "visible 50%", "99%", "durable 50%", "99%"];

fn latencies(capture: &Value) -> Vec<Vec<String>> {
    let measured = list(&capture["tables"]).filter(|table| rows(&table["latencies"]["visible"]) > 0);
    let row = |table: &Value| {
        let of = &table["latencies"];
        let all = ["received", "visible", "durable"]
            .iter()
            .flat_map(|what| [quantile(&of[what], 0.5), quantile(&of[what], 0.99)]);
        std::iter::once(text(&table["table"])).chain(all).collect()
    };
    measured.map(row).collect()
}

fn rows(latency: &Value) -> u64 {
    list(&latency["counts"]).map(number).sum()
}

/// The bound below which a part of the rows lies, as people read it.
fn quantile(latency: &Value, part: f64) -> String {
    let counts = list(&latency["counts"]).map(number).collect();
    let latency = splay_capture::Latency { counts, sum_seconds: 0.0 };
    match latency.quantile(part) {
        _ if latency.rows() == 0 => String::new(),
        None => format!("over {:.0} s", latency_bounds().last().unwrap_or_default()),
        Some(seconds) if seconds < 1e-3 => format!("{:.0} us", seconds * 1e6),
        Some(seconds) if seconds < 1.0 => format!("{:.2} ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.1} s"),
    }
}

const QUALITY: &[&str] =
    &["table", "symbol", "venue", "gaps", "missing", "duplicates", "out of order", "crossed", "late", "late days"];

/// Each table's totals, and under them its worst series.
fn quality(capture: &Value) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for table in list(&capture["tables"]) {
        let quality = &table["quality"];
        let counts = |of: &Value| {
            let what = ["gaps", "missing", "duplicates", "out_of_order", "crossed", "late_rows", "late_day_rows"];
            what.map(|what| count(&of[what]))
        };
        if number(&quality["rows"]) == 0 {
            continue;
        }
        let series = format!("all {}", count(&quality["series"]));
        all.push([vec![text(&table["table"]), series, String::new()], counts(quality).to_vec()].concat());
        for worst in list(&quality["worst"]) {
            let names = vec![String::new(), text(&worst["symbol"]), text(&worst["venue"])];
            all.push([names, counts(worst).to_vec()].concat());
        }
    }
    all
}

const DUPLICATES: &[&str] = &["table", "left out", "too old to be compared", "keys", "compared from", ""];

/// Tables whose duplicates are left out.
fn duplicates(capture: &Value) -> Vec<Vec<String>> {
    let row = |table: &Value| {
        let of = &table["dedupe"];
        let limited = if of["is_limited"] == true { "TOO MANY KEYS FOR THE WINDOW" } else { "" };
        let counts = ["duplicate_rows", "uncompared_rows", "keys"].map(|what| count(&of[what]));
        let [left_out, uncompared, keys] = counts;
        vec![text(&table["table"]), left_out, uncompared, keys, time(&of["from"]), limited.to_owned()]
    };
    list(&capture["tables"]).filter(|table| table["dedupe"].is_object()).map(row).collect()
}

fn list(value: &Value) -> std::slice::Iter<'_, Value> {
    value.as_array().map(|all| all.iter()).unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn count(value: &Value) -> String {
    value.as_u64().map(|count| Thousands(count).to_string()).unwrap_or_default()
}

/// A text from outside, without characters that would move a terminal's cursor.
fn text(value: &Value) -> String {
    let shown = value.as_str().unwrap_or_default().chars().take(120);
    shown.map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn time(value: &Value) -> String {
    let at = value.as_i64().map(chrono::DateTime::from_timestamp_nanos);
    at.map(|at| at.format("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}
