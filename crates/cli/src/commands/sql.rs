//! `splay sql`: statements, one answer after the other.

use std::io::{IsTerminal, Read};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};

use splay_sql::{NamedStatements, Resolved, copy_to};

use super::place::source;
use crate::args::{OutputFormat, SqlArguments};
use crate::copy::copied;
use crate::output::{self, Shown};
use crate::print::note;
use crate::rows::parameters;
use crate::size::Thousands;
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
    let named = arguments.output.as_deref().and_then(output::format_of);
    let format = arguments.format.or(named).unwrap_or(OutputFormat::Table);
    if statements.len() > 1 && (arguments.output.is_some() || format != OutputFormat::Table) {
        bail!("{} statements: more than one can be shown as tables only", statements.len());
    }
    let (values, source) = (parameters(&arguments.params)?, source(&arguments.ask, arguments.stats)?);
    let width = std::io::stdout().is_terminal().then(|| usize::from(console::Term::stdout().size().1));
    let shown = Shown { rows: arguments.ask.rows, width, is_vertical: false };
    let (never, mut named) = (AtomicBool::new(false), NamedStatements::default());
    for statement in statements {
        let resolved = match named.resolve(statement)? {
            Resolved::Statement(statement) => statement,
            Resolved::Done => continue,
        };
        let statement = &*resolved;
        if arguments.output.is_some() && copy_to(statement)?.is_some() {
            bail!("COPY names its file: leave --output out");
        }
        if let Some(rows) = copied(&source, statement, &values, &never, arguments.ask.time_zone.as_deref())? {
            note!("{} rows", Thousands(rows));
            continue;
        }
        let mut started = source.start(statement, &values, &never)?;
        let rows = started.rows().in_zone(arguments.ask.time_zone.as_deref())?;
        output::write(rows, format, arguments.output.as_deref(), shown)?;
        if arguments.stats {
            note!("{}", started.costs(&source, statement, &values));
        }
    }
    Ok(())
}
