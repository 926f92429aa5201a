//! Answers in the formats that people and tools read.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::json::{ArrayWriter, LineDelimitedWriter};
use arrow::util::display::FormatOptions;
use arrow::util::pretty::pretty_format_batches_with_options;
use parquet::arrow::ArrowWriter;
use splay_sql::Answer;

use crate::args::OutputFormat;
use crate::size::Thousands;

/// Writes an answer to a file or to standard output. A file appears under its name only when it is whole.
pub fn write(answer: &mut Answer, format: OutputFormat, path: Option<&Path>, rows_shown: usize) -> Result<()> {
    let Some(path) = path else { return write_to(answer, format, std::io::stdout(), rows_shown) };
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let file = File::create(&part).with_context(|| format!("create {}", part.display()))?;
    let written = write_to(answer, format, file, rows_shown);
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
        return written;
    }
    std::fs::rename(&part, path).with_context(|| format!("rename {}", part.display()))
}

fn write_to(answer: &mut Answer, format: OutputFormat, sink: impl Write + Send, rows_shown: usize) -> Result<()> {
    let mut sink = BufWriter::with_capacity(1 << 18, sink);
    match format {
        OutputFormat::Table => table(answer, &mut sink, rows_shown)?,
        OutputFormat::Csv => {
            let mut writer = arrow::csv::WriterBuilder::new().with_header(true).build(&mut sink);
            let mut any = false;
            for batch in answer.by_ref() {
                writer.write(&batch?)?;
                any = true;
            }
            if !any {
                writer.write(&RecordBatch::new_empty(answer.schema()))?;
            }
        }
        OutputFormat::Json => {
            let mut writer = ArrayWriter::new(&mut sink);
            for batch in answer.by_ref() {
                writer.write(&batch?)?;
            }
            writer.finish()?;
            writeln!(sink)?;
        }
        OutputFormat::Ndjson => {
            let mut writer = LineDelimitedWriter::new(&mut sink);
            for batch in answer.by_ref() {
                writer.write(&batch?)?;
            }
            writer.finish()?;
        }
        OutputFormat::Arrow => {
            let schema = answer.schema();
            crate::arrow_file::write(&mut sink, &schema, answer.by_ref().map(|batch| Ok(batch?)))?;
        }
        OutputFormat::Parquet => {
            let mut writer = ArrowWriter::try_new(&mut sink, answer.schema(), None)?;
            for batch in answer.by_ref() {
                writer.write(&batch?)?;
            }
            writer.close()?;
        }
    }
    sink.flush()?;
    Ok(())
}

/// The first rows as a table, and how many there are.
fn table(answer: &mut Answer, sink: &mut dyn Write, rows_shown: usize) -> Result<()> {
    let shown = if rows_shown == 0 { usize::MAX } else { rows_shown };
    let (mut kept, mut kept_rows, mut rows) = (Vec::new(), 0, 0u64);
    for batch in answer.by_ref() {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        let wanted = batch.num_rows().min(shown - kept_rows);
        if wanted > 0 {
            kept.push(batch.slice(0, wanted));
            kept_rows += wanted;
        }
    }
    if is_plan(&answer.schema()) {
        return plan(&kept, sink);
    }
    if kept.is_empty() {
        kept.push(RecordBatch::new_empty(answer.schema()));
    }
    writeln!(sink, "{}", pretty(&answer.schema(), &kept)?)?;
    let rest = rows - kept_rows as u64;
    let more = if rest > 0 { format!(", {} not shown (--rows 0 shows all)", Thousands(rest)) } else { String::new() };
    writeln!(sink, "{} rows{more}", Thousands(rows))?;
    Ok(())
}

/// Whether an answer is that of EXPLAIN.
fn is_plan(schema: &SchemaRef) -> bool {
    schema.fields().iter().map(|field| field.name().as_str()).eq(["plan_type", "plan"])
}

/// Plans as indented text, which a frame around them would only widen.
fn plan(batches: &[RecordBatch], sink: &mut dyn Write) -> Result<()> {
    for batch in batches {
        let (kinds, plans) = (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
        for (kind, plan) in kinds.iter().zip(plans) {
            writeln!(sink, "-- {}\n{}", kind.unwrap_or_default(), plan.unwrap_or_default().trim_end())?;
        }
    }
    Ok(())
}

fn pretty(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<String> {
    let options = FormatOptions::default().with_null("").with_display_error(true);
    debug_assert!(batches.iter().all(|batch| batch.schema_ref() == schema));
    Ok(pretty_format_batches_with_options(batches, &options)?.to_string())
}

/// Rows of text under a heading, columns aligned.
pub fn columns(heading: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let body = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(line(heading.to_vec())).chain(body).collect::<Vec<_>>().join("\n")
}
