//! Answers in the formats that people and tools read.

mod chart;
mod fitted_table;
mod target;

use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::json::{ArrayWriter, LineDelimitedWriter};
use arrow::util::display::FormatOptions;
use arrow::util::pretty::pretty_format_batches_with_options;
use parquet::arrow::ArrowWriter;
use splay_sql::nested_as_text;
use splay_store::{csv_batch, csv_schema, write_csv_names, write_csv_rows};

use crate::args::OutputFormat;
use crate::print;
use crate::progress::LineEnd;
use crate::rows::Rows;
use crate::size::{Counted, Thousands};
use chart::{CharacterStyle, ChartOptions, Drawing};
use fitted_table::{fit, vertical};
use target::Target;
pub use target::is_standard_output;

/// How much of an answer a table shows.
#[derive(Debug, Clone, Copy)]
pub struct DisplayOptions {
    /// Rows; 0 for all.
    pub rows: usize,
    /// Characters of a line, and lines. Columns in the middle are left out where a table is wider.
    pub size: Option<(usize, usize)>,
    /// Whether each row is shown as lines of name and value.
    pub is_vertical: bool,
    /// Whether charts have ASCII characters only.
    pub is_ascii: bool,
    /// How all rows are asked for, for the note that some aren't shown.
    pub all_rows: &'static str,
}

impl DisplayOptions {
    /// All of it, on no terminal.
    pub const ALL: DisplayOptions =
        DisplayOptions { rows: 0, size: None, is_vertical: false, is_ascii: false, all_rows: "" };
}

/// Characters of a line and lines of standard output, if that is a terminal.
pub fn terminal_size() -> Option<(usize, usize)> {
    let (lines, width) = std::io::stdout().is_terminal().then(|| console::Term::stdout().size())?;
    Some((usize::from(width), usize::from(lines)))
}

/// When the line of a statement's progress goes whose answer is written so.
pub fn line_end(format: OutputFormat, path: Option<&Path>) -> LineEnd {
    let is_beside = path.is_none() && !format.is_for_people() && std::io::stdout().is_terminal();
    if is_beside { LineEnd::FirstRows } else { LineEnd::LastRows }
}

/// Writes rows to a file or to standard output. A file appears under its name only when it is whole.
pub fn write(rows: Rows<'_>, format: OutputFormat, path: Option<&Path>, shown: DisplayOptions) -> Result<()> {
    let Some(path) = path.filter(|path| !is_standard_output(path)) else {
        let written = write_to(rows, format, print::stdout(), shown);
        // Whatever the writers of formats made of it.
        return if print::is_closed() { Err(std::io::Error::from(ErrorKind::BrokenPipe).into()) } else { written };
    };
    let target = Target::open(path)?;
    let written = write_to(rows, format, target.file(), DisplayOptions { rows: 0, size: None, ..shown });
    target.finish(written)
}

/// Formats with the endings of names that stand for them.
const ENDINGS: [(OutputFormat, &[&str]); 6] = [
    (OutputFormat::Csv, &["csv"]),
    (OutputFormat::Json, &["json"]),
    (OutputFormat::Ndjson, &["ndjson", "jsonl"]),
    (OutputFormat::Arrow, &["arrow", "arrows", "feather", "ipc"]),
    (OutputFormat::Parquet, &["parquet", "pq"]),
    (OutputFormat::Table, &["txt"]),
];

/// The format that a file's name stands for.
pub fn format_of(path: &Path) -> Option<OutputFormat> {
    let end = path.extension()?.to_str()?;
    let ending = ENDINGS.iter().find(|(_, ends)| ends.iter().any(|one| one.eq_ignore_ascii_case(end)));
    ending.map(|(format, _)| *format)
}

/// The format that a file's name stands for; `None` for a name without an ending. Other endings are refused.
pub fn format_named(path: &Path) -> Result<Option<OutputFormat>> {
    let output_format = format_of(path);
    if output_format.is_none() && path.extension().is_some() {
        let ends: Vec<&str> = ENDINGS.iter().flat_map(|(_, ends)| ends.iter().copied()).collect();
        bail!("{}: no format has this ending; there are {}", path.display(), ends.join(", "));
    }
    Ok(output_format)
}

/// Writes rows.
pub fn write_to(rows: Rows<'_>, format: OutputFormat, sink: impl Write + Send, shown: DisplayOptions) -> Result<()> {
    let mut sink = BufWriter::with_capacity(1 << 18, sink);
    let Rows { schema, batches } = rows;
    match format {
        OutputFormat::Table => table(&schema, batches, &mut sink, shown)?,
        OutputFormat::Chart => chart(&schema, batches, &mut sink, shown)?,
        OutputFormat::Csv => {
            write_csv_names(&csv_schema(&schema), &mut sink)?;
            for batch in batches {
                write_csv_rows(&as_text(&batch?)?, &mut sink)?;
            }
        }
        OutputFormat::Json => {
            let mut writer = ArrayWriter::new(&mut sink);
            for batch in batches {
                writer.write(&batch?)?;
            }
            writer.finish()?;
            writeln!(sink)?;
        }
        OutputFormat::Ndjson => {
            let mut writer = LineDelimitedWriter::new(&mut sink);
            for batch in batches {
                writer.write(&batch?)?;
            }
            writer.finish()?;
        }
        OutputFormat::Arrow => crate::arrow_file::write(&mut sink, &schema, batches)?,
        OutputFormat::Parquet => {
            let mut writer = ArrowWriter::try_new(&mut sink, schema, None)?;
            for batch in batches {
                writer.write(&batch?)?;
            }
            writer.close()?;
        }
    }
    sink.flush()?;
    Ok(())
}

/// Rows as CSV has them.
pub fn as_text(batch: &RecordBatch) -> Result<RecordBatch> {
    Ok(nested_as_text(&csv_batch(batch)?, &mut |_| Ok(()))?)
}

/// The first rows as a table, and how many there are.
fn table(
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    sink: &mut dyn Write,
    shown: DisplayOptions,
) -> Result<()> {
    let most = if shown.rows == 0 { usize::MAX } else { shown.rows };
    let (mut shown_batches, mut shown_rows, mut rows) = (Vec::new(), 0, 0u64);
    for batch in batches {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        let row_count = batch.num_rows().min(most - shown_rows);
        if row_count > 0 {
            shown_batches.push(batch.slice(0, row_count));
            shown_rows += row_count;
        }
    }
    if is_plan(schema) {
        return plan(&shown_batches, sink);
    }
    if shown_batches.is_empty() {
        shown_batches.push(RecordBatch::new_empty(Arc::clone(schema)));
    }
    let mut notes = vec![Counted(rows, "row").to_string()];
    let rest = rows - shown_rows as u64;
    if rest > 0 {
        notes.push(format!("{} not shown ({} shows all)", Thousands(rest), shown.all_rows));
    }
    if shown.is_vertical {
        write!(sink, "{}", vertical(schema, &shown_batches)?)?;
    } else {
        let fitted = fit(schema, &shown_batches, shown.size.map(|(width, _)| width))?;
        if fitted.left_out > 0 {
            notes.push(format!("{} of {} columns not shown", fitted.left_out, schema.fields().len()));
        }
        if fitted.is_cut {
            notes.push("long values cut".to_owned());
        }
        writeln!(sink, "{}", pretty_format_batches_with_options(&fitted.batches, &options())?)?;
    }
    writeln!(sink, "{}", notes.join(", "))?;
    Ok(())
}

/// The rows as a chart; as a table if they can't be drawn.
fn chart(
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    sink: &mut dyn Write,
    shown: DisplayOptions,
) -> Result<()> {
    let Some(drawing) = Drawing::of(schema) else {
        table(schema, batches, sink, shown)?;
        if !is_plan(schema) {
            writeln!(sink, "not drawn, since no column is a number")?;
        }
        return Ok(());
    };
    let look =
        CharacterStyle { is_ascii: shown.is_ascii, has_colors: shown.size.is_some() && console::colors_enabled() };
    // The line of the statement, or that of the next prompt, stays in view.
    let size = shown.size.map_or(chart::SIZE, |(width, lines)| (width, lines.saturating_sub(2)));
    let frame = ChartOptions { size, look, bars_max: shown.rows };
    write!(sink, "{}", chart::draw(&drawing, schema, batches, frame)?)?;
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

fn options() -> FormatOptions<'static> {
    FormatOptions::default().with_null("").with_display_error(true)
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
