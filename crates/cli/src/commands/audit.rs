//! `splay audit`: whether the audit log of a server is as it was written, and what it tells.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use splay_store::audit::{self, AuditFilter, AuditKey, Verification};
use splay_store::storage::{LocalStorage, refuse_address};

use crate::args::{AuditShowArguments, AuditVerifyArguments, StatusFormat};
use crate::print::{self, say};
use crate::size::{Counted, Thousands};

/// The variable that has the key of the log.
const KEY: &str = "SPLAY_AUDIT_KEY";

/// The key of the environment, if it has one.
pub fn key_of_environment() -> Result<Option<AuditKey>> {
    match std::env::var(KEY) {
        Ok(text) if !text.is_empty() => AuditKey::of(&text).map(Some).context(KEY),
        Ok(_) | Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(error).context(KEY),
    }
}

fn key(file: Option<&Path>) -> Result<Option<AuditKey>> {
    let Some(file) = file else { return key_of_environment() };
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    AuditKey::of(&text).map(Some).with_context(|| file.display().to_string())
}

/// The files of a log, which has to be there.
fn log(database: &Path) -> Result<LocalStorage> {
    refuse_address(database)?;
    let folder = audit::folder_of(database);
    if !folder.is_dir() {
        bail!("{} has no audit log: set audit.log in the settings of its server", database.display());
    }
    Ok(LocalStorage::new(folder))
}

pub fn verify(arguments: &AuditVerifyArguments) -> Result<()> {
    let storage = log(&arguments.database)?;
    let key = key(arguments.key_file.as_deref())?;
    let verification = audit::verify(&storage, key.as_ref(), arguments.head.as_ref())?;
    match arguments.format {
        StatusFormat::Json => say!("{}", serde_json::to_string_pretty(&verification)?)?,
        StatusFormat::Table => report(&verification)?,
    }
    if verification.problem_count > 0 {
        bail!("the audit log was changed or damaged: {} problems", verification.problem_count);
    }
    if verification.unchecked > 0 {
        bail!(
            "{} records are sealed with a key: name it with --key-file or {KEY} to check them",
            verification.unchecked
        );
    }
    if verification.records == 0 {
        bail!("the audit log has no records");
    }
    Ok(())
}

fn report(verification: &Verification) -> Result<()> {
    for problem in &verification.problems {
        match problem.line {
            0 => say!("{}: {}", problem.file, problem.what)?,
            line => say!("{}, line {line}: {}", problem.file, problem.what)?,
        }
    }
    let listed = verification.problems.len() as u64;
    if verification.problem_count > listed {
        say!("{} problems more", Thousands(verification.problem_count - listed))?;
    }
    if let Some(through) = verification.removed_through {
        say!("records 1 to {through} were removed because of their age")?;
    }
    if verification.keyed > 0 && verification.keyed < verification.records {
        say!("{} records from before there was a key", Thousands(verification.records - verification.keyed))?;
    }
    if verification.torn_bytes > 0 {
        say!("{} bytes behind the last record: one is being written, or a crash has cut it", verification.torn_bytes)?;
    }
    let Some(last) = &verification.last else { return Ok(()) };
    let sealed = if verification.keyed > 0 { "sealed with a key" } else { "without a key" };
    let (records, files) = (Counted(verification.records, "record"), Counted(verification.files, "file"));
    if verification.is_sound() {
        say!("{records} in {files}, {} to {}, {sealed}: sound", verification.first, last.n)?;
    }
    if let Some(head) = verification.head.filter(|head| *head < last.n) {
        say!(
            "{} records behind the head: they were written since, and an end of them that is cut off isn't told",
            last.n - head
        )?;
    }
    say!("head {}:{}", last.n, last.digest)
}

pub fn show(arguments: &AuditShowArguments) -> Result<()> {
    let storage = log(&arguments.database)?;
    let filter = AuditFilter {
        since: arguments.since,
        until: arguments.until,
        user: arguments.user.clone(),
        kind: arguments.kind.clone(),
    };
    let mut out = std::io::BufWriter::new(print::stdout());
    if matches!(arguments.format, StatusFormat::Table) {
        writeln!(
            out,
            "{}",
            line(["n", "time", "user", "role", "wire", "from", "kind", "outcome", "rows", "ms", "what"])
        )?;
    }
    let others = audit::read::<anyhow::Error>(&storage, &filter, &mut |text, record| {
        match arguments.format {
            StatusFormat::Json => writeln!(out, "{text}")?,
            StatusFormat::Table => writeln!(out, "{}", row(record))?,
        }
        Ok(())
    })?;
    out.flush().context("write the records")?;
    if others > 0 {
        bail!("{others} lines aren't records; splay audit verify names them");
    }
    Ok(())
}

/// A line of the table. Records are printed as they are read, before the widths of later ones are known.
fn line(cells: [&str; 11]) -> String {
    let widths = [7, 26, 12, 9, 9, 21, 14, 12, 9, 9, 0];
    let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
    padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

fn row(record: &Value) -> String {
    let text = |name: &str| match &record[name] {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        other => other.to_string(),
    };
    // Microseconds tell enough.
    let time = text("time");
    let time = time.get(..26).unwrap_or(&time).replacen('T', " ", 1);
    let of = record["of"].as_u64().map(|of| format!("of {of}")).unwrap_or_default();
    let statement = text("statement");
    let object = if statement.is_empty() { text("object") } else { String::new() };
    let messages = record["messages"].as_u64().map(|messages| format!("{messages} messages")).unwrap_or_default();
    let refused = record["refused"].as_u64().map(|refused| format!("{refused} refused")).unwrap_or_default();
    let what = [statement, object, messages, refused, of, text("about")];
    let what = what.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let named = ["n", "user", "role", "wire", "from", "kind", "outcome", "rows", "milliseconds"].map(text);
    let [n, user, role, wire, from, kind, outcome, rows, milliseconds] = named.each_ref().map(String::as_str);
    line([n, &time, user, role, wire, from, kind, outcome, rows, milliseconds, &what])
}

/// A text on one line, without what would move the cursor of a terminal.
fn plain(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(visible).collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}
