//! `splay lab formats`: file formats and tiers on tables.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use arrow::array::RecordBatch;
use splay_lab::compression::{BufferCodec, Column};
use splay_lab::formats::{
    Columns, FileFormat, FormatResult, Role, Settings, Statement, Table, TableLocation, Target, compare, files,
    seed_statements, to_batch,
};
use splay_sql::{Parameters, Session, SessionSettings};
use splay_store::Database;

use super::compression::session;
use super::{inputs, tiers};
use crate::lab_args::FormatsArguments;
use crate::output::{self, DisplayOptions};
use crate::print::say;
use crate::progress;
use crate::rows::Rows;

/// The symbol whose rows are selected, if there is one.
const SYMBOL: &str = "AAPL";

pub fn run(arguments: &FormatsArguments) -> Result<()> {
    let tables = inputs::tables(&arguments.input)?;
    if tables.is_empty() {
        bail!("nothing to compare: name files, or --database and --table");
    }
    let mut settings = Settings { times: arguments.times, ..Settings::default() };
    settings.folder = arguments.folder.clone().unwrap_or(settings.folder);
    let folder = tempfile::Builder::new().prefix("splay-lab-").tempdir_in(&settings.folder)?;
    let targets: Vec<Box<dyn Target>> = files()
        .into_iter()
        .map(|format| Box::new(format) as Box<dyn Target>)
        .chain(tiers::all(&sources(&tables, folder.path())?))
        .collect();
    let statements = statements(arguments, &tables)?;
    let mut sessions = Sessions { files: session(&folder.path().join("database"))?, databases: HashMap::new() };
    let bar = progress::tests(targets.len());
    let mut runner =
        |place: &TableLocation, text: &str| sessions.run(place, text).map_err(|error| format!("{error:#}"));
    let mut observer = |number: usize, name: &str| {
        bar.set_position(number as u64);
        bar.set_message(name.to_owned());
    };
    let results = compare(&targets, &tables, &statements, &settings, &mut runner, &mut observer)?;
    bar.finish_and_clear();
    show(&tables, &results, arguments)
}

/// An uncompressed Arrow file of each table, from which tiers are loaded.
fn sources(tables: &[Table], folder: &Path) -> Result<Vec<PathBuf>> {
    let source = |table: &Table| {
        let path = folder.join(format!("{}.arrow", table.name));
        FileFormat::Feather(BufferCodec::None).write_file(table, &path)?;
        Ok(path)
    };
    tables.iter().map(source).collect()
}

fn statements(arguments: &FormatsArguments, tables: &[Table]) -> Result<Vec<Statement>> {
    if !arguments.statements.is_empty() {
        let own = arguments.statements.iter().cloned();
        return Ok(own.map(|(name, text)| Statement { name, text }).collect());
    }
    let named: Vec<(String, Columns)> =
        tables.iter().map(|table| (table.name.clone(), Columns::of(&table.schema))).collect();
    let symbol = match &arguments.symbol {
        Some(symbol) => symbol.clone(),
        None => symbol(tables, &named)?,
    };
    let (statements, missing) = seed_statements(&named, &symbol);
    for reason in missing {
        say!("no query {reason}")?;
    }
    Ok(statements)
}

/// AAPL, or the first symbol of trades.
fn symbol(tables: &[Table], named: &[(String, Columns)]) -> Result<String> {
    let trades = tables.iter().zip(named).find(|(_, (_, columns))| columns.is_trade());
    let Some((table, (_, columns))) = trades else { return Ok(SYMBOL.to_owned()) };
    let name = columns.name(Role::Symbol).unwrap_or_default();
    let only = inputs::only(table, &[name.to_owned()])?;
    let column = Column::all(&only.schema, &only.batches)?;
    let Some(column) = column.first() else { return Ok(SYMBOL.to_owned()) };
    let symbols = arrow::compute::cast(column.values(), &arrow::datatypes::DataType::Utf8)?;
    let symbols = arrow::array::AsArray::as_string::<i32>(&symbols);
    let is_there = symbols.iter().flatten().any(|symbol| symbol == SYMBOL);
    let first = symbols.iter().flatten().next().unwrap_or(SYMBOL);
    Ok(if is_there { SYMBOL } else { first }.to_owned())
}

/// Sessions over files and over the databases of tiers.
struct Sessions {
    files: Session,
    databases: HashMap<PathBuf, Session>,
}

impl Sessions {
    fn run(&mut self, place: &TableLocation, text: &str) -> Result<(Duration, Vec<RecordBatch>)> {
        let session = match place {
            TableLocation::Files(_) => &self.files,
            TableLocation::Database(folder) => {
                if !self.databases.contains_key(folder) {
                    let session = Session::new(Database::open(folder)?, SessionSettings::default())?;
                    self.databases.insert(folder.clone(), session);
                }
                &self.databases[folder]
            }
        };
        let start = Instant::now();
        let answer = session.sql(text, Parameters::None)?.batches()?;
        Ok((start.elapsed(), answer))
    }
}

fn show(tables: &[Table], results: &[FormatResult], arguments: &FormatsArguments) -> Result<()> {
    for table in tables {
        say!("{}: {} rows, {} columns", table.name, table.rows(), table.schema.fields().len())?;
    }
    let batch = to_batch(results)?;
    let rows = || Rows { schema: batch.schema(), batches: Box::new(std::iter::once(Ok(batch.clone()))) };
    output::write(rows(), crate::args::OutputFormat::Table, None, DisplayOptions::ALL)?;
    for result in results {
        if let Some(reason) = &result.reason {
            say!("{}: {reason}", result.format)?;
        }
    }
    if let Some(path) = &arguments.output {
        let Some(format) = output::format_of(path) else { bail!("{} is neither CSV nor Parquet", path.display()) };
        output::write(rows(), format, Some(path), DisplayOptions::ALL)?;
    }
    Ok(())
}
