//! `splay sql`: statements, one answer after the other.

use std::io::Read;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, bail};

use splay_sql::{NamedStatements, ResolvedStatement, copy_to, is_change};

use super::place::{create_for, source};
use super::shell::ShellSettings;
use crate::args::{OutputFormat, SqlArguments};
use crate::copy::copied;
use crate::output::{self, DisplayOptions};
use crate::print::{note, say};
use crate::progress::StatementLine;
use crate::rows::parameters;
use crate::size::Counted;
use splay_sql::statements::{is_blank, split};

pub fn run(arguments: SqlArguments) -> Result<()> {
    let text = match (&arguments.statement, &arguments.file) {
        (Some(statement), _) => statement.clone(),
        (None, Some(path)) if path.as_os_str() == "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("read the statement from standard input")?;
            text
        }
        (None, Some(path)) => std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?,
        (None, None) => bail!("no statement"),
    };
    let (mut statements, rest) = split(&text);
    if !is_blank(rest) {
        statements.push(rest.trim());
    }
    if statements.is_empty() {
        bail!("no statement");
    }
    let path = arguments.output.as_deref().filter(|path| !output::is_standard_output(path));
    let format = match (arguments.format, path) {
        (Some(format), _) => Some(format),
        (None, Some(path)) => {
            output::format_named(path).map_err(|error| anyhow!("{error}; --format names one for any file"))?
        }
        (None, None) => None,
    };
    let format = format.unwrap_or(OutputFormat::Table);
    if statements.len() > 1 && (path.is_some() || !format.is_for_people()) {
        bail!("{} statements: more than one can be shown as tables or charts only", statements.len());
    }
    create_for(&arguments.ask.place, statements[0])?;
    let (values, source) = (parameters(&arguments.params)?, source(&arguments.ask, arguments.stats)?);
    let (rows, size, is_ascii) = (arguments.ask.rows, output::terminal_size(), arguments.ask.ascii);
    let shown = DisplayOptions { rows, size, is_vertical: false, is_ascii, all_rows: "--rows 0" };
    let (never, mut named) = (AtomicBool::new(false), NamedStatements::default());
    // `SET TIME ZONE` holds for the statements behind it, as in the shell.
    let mut settings = ShellSettings::new(rows, arguments.ask.time_zone.clone(), is_ascii);
    for statement in statements {
        if let Some(message) = settings.set_by(statement)? {
            if !message.is_empty() {
                say!("{message}")?;
            }
            continue;
        }
        let resolved = match source.resolve(&mut named, statement, &never)? {
            ResolvedStatement::Statement(statement) => statement,
            ResolvedStatement::Done => continue,
        };
        let statement = &*resolved;
        if path.is_some() && copy_to(statement)?.is_some() {
            bail!("COPY names its file: leave --output out");
        }
        if let Some(rows) = copied(&source, statement, &values, &never, settings.time_zone.as_deref())? {
            note!("{}", Counted(rows, "row"));
            continue;
        }
        // The outcome of a change is printed as a table or text, never as a chart.
        let format = if format == OutputFormat::Chart && is_change(statement) { OutputFormat::Table } else { format };
        let line = StatementLine::of(&source);
        let mut started = source.start(statement, &values, &never, line.progress())?;
        let rows = started.rows().in_zone(settings.time_zone.as_deref())?;
        output::write(line.over(rows, output::line_end(format, path)), format, path, shown)?;
        if arguments.stats {
            note!("{}", started.costs(&source, statement, &values));
        }
    }
    Ok(())
}
