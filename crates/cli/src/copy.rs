//! `COPY … TO`: the answer of a query, as a file where the command runs.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use splay_sql::{ScalarValue, copy_to};

use crate::args::OutputFormat;
use crate::output::{self, DisplayOptions};
use crate::progress::{LineEnd, StatementLine};
use crate::rows::{Rows, Source};

/// Writes the file of a `COPY … TO`, and gives the number of its rows; `None` for another statement.
pub fn copied(
    source: &Source,
    statement: &str,
    values: &HashMap<String, ScalarValue>,
    stopped: &AtomicBool,
    zone: Option<&str>,
) -> Result<Option<u64>> {
    let Some(copy) = copy_to(statement)? else { return Ok(None) };
    let path = Path::new(&copy.path);
    let format = match &copy.format {
        Some(name) => OutputFormat::from_str(name, true)
            .map_err(|_| anyhow!("{name:?} isn't a file format; there are csv, json, ndjson, arrow, parquet"))?,
        None => output::format_of(path)
            .with_context(|| format!("{}: name a format, as in COPY … TO 'file' (FORMAT parquet)", copy.path))?,
    };
    if format.is_for_people() {
        bail!("tables and charts aren't file formats; there are csv, json, ndjson, arrow, parquet");
    }
    if path
        .extension()
        .is_some_and(|end| ["gz", "zst", "bz2", "xz", "zip"].iter().any(|one| end.eq_ignore_ascii_case(one)))
    {
        bail!("{}: COPY compresses no files; splay export does", copy.path);
    }
    let line = StatementLine::of(source);
    let mut started = source.start(&copy.query, values, stopped, line.progress())?;
    let Rows { schema, batches } = line.over(started.rows().in_zone(zone)?, LineEnd::LastRows);
    let count = Cell::new(0);
    let batches =
        batches.inspect(|batch| count.set(count.get() + batch.as_ref().map_or(0, |batch| batch.num_rows() as u64)));
    output::write(Rows { schema, batches: Box::new(batches) }, format, Some(path), DisplayOptions::ALL)?;
    Ok(Some(count.get()))
}
