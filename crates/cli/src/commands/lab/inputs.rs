//! The tables that are measured: files, or tables of a database. Levels of a book are a column each, as in CSV files, which all formats and
//! schemes hold.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use arrow::array::RecordBatch;
use splay_import::{ImportSettings, OpenedFiles, expand};
use splay_lab::formats::{Columns, Table};
use splay_store::{Database, FilesInPlace, csv_batch, csv_schema, days};

use crate::lab_args::InputArguments;

/// The tables that the arguments name.
pub fn tables(arguments: &InputArguments) -> Result<Vec<Table>> {
    match &arguments.database {
        Some(database) => {
            let database = Database::open(database)?;
            arguments.tables.iter().map(|table| stored(&database, table, arguments)).collect()
        }
        None => files(arguments),
    }
}

fn stored(database: &Database, name: &str, arguments: &InputArguments) -> Result<Table> {
    let table = database.table(name)?;
    let snapshot = table.snapshot()?;
    let all: Vec<usize> = (0..snapshot.spec().shown_columns().len()).collect();
    let mut rows = Rows::up_to(arguments.rows);
    let first_date = arguments.date.map(|date| snapshot.spec().partition.first(days(date)));
    for partition in
        snapshot.partitions().iter().filter(|partition| first_date.is_none_or(|first| partition.date == first))
    {
        for segment in partition.segments.iter() {
            if rows.remaining > 0 {
                rows.add(csv_batch(&segment.read_all(snapshot.spec(), &all)?)?);
            }
        }
    }
    if rows.batches.is_empty() {
        bail!("{name} has no rows{}", arguments.date.map(|date| format!(" on {date}")).unwrap_or_default());
    }
    // Mapped bytes that the device can't give read as zeros.
    snapshot.watch().check()?;
    let schema = Arc::new(csv_schema(&snapshot.spec().shown_arrow()));
    Ok(Table { name: table.name().to_owned(), schema, batches: rows.batches })
}

/// Most rows of a batch that is read.
const BATCH_ROWS: usize = 1 << 15;

/// One table of each pattern or file that was named.
fn files(arguments: &InputArguments) -> Result<Vec<Table>> {
    let mut tables: Vec<Table> = Vec::new();
    for pattern in &arguments.files {
        let settings = ImportSettings { threads: 1, ..ImportSettings::default() };
        let files = OpenedFiles::open(expand(std::slice::from_ref(pattern))?, &settings, None)?;
        let all: Vec<usize> = (0..files.schema().fields().len()).collect();
        let mut rows = Rows::up_to(arguments.rows);
        for part in files.parts(1, &|_| true).iter().flatten() {
            if rows.remaining > 0 {
                let mut failed = None;
                let mut add = |batch: RecordBatch| match csv_batch(&batch) {
                    Ok(batch) => rows.add(batch),
                    Err(error) => {
                        failed = Some(error);
                        false
                    }
                };
                files.read(part, &all, BATCH_ROWS, &mut add).map_err(|error| anyhow!(error))?;
                failed.map_or(Ok(()), Err)?;
            }
        }
        let schema = Arc::new(csv_schema(files.schema()));
        let name = name_of(pattern, &Columns::of(&schema), &tables);
        tables.push(Table { name, schema, batches: rows.batches });
    }
    Ok(tables)
}

/// `trade` or `quote` for the first table of that kind, otherwise the file's name.
fn name_of(pattern: &str, columns: &Columns, before: &[Table]) -> String {
    let is_free = |name: &str| before.iter().all(|table| table.name != name);
    let stem = Path::new(pattern).file_name().and_then(|name| name.to_str()).unwrap_or("data");
    let stem = stem.split('.').next().unwrap_or("data").replace(|c: char| !c.is_alphanumeric(), "_");
    let kinds = [(columns.is_quote(), "quote"), (columns.is_trade(), "trade")];
    let kind = kinds.into_iter().find(|(is_it, name)| *is_it && is_free(name)).map(|(_, name)| name.to_owned());
    let name = kind.unwrap_or(stem);
    if is_free(&name) { name } else { format!("{name}_{}", before.len() + 1) }
}

/// Rows up to a number.
struct Rows {
    batches: Vec<RecordBatch>,
    remaining: usize,
}

impl Rows {
    fn up_to(remaining: usize) -> Rows {
        Rows { batches: Vec::new(), remaining }
    }

    /// Whether more are wanted.
    fn add(&mut self, batch: RecordBatch) -> bool {
        let rows = batch.num_rows().min(self.remaining);
        if rows > 0 {
            self.remaining -= rows;
            self.batches.push(batch.slice(0, rows));
        }
        self.remaining > 0
    }
}

/// The columns of a table, or those of these names.
pub fn only(table: &Table, names: &[String]) -> Result<Table> {
    if names.is_empty() {
        return Ok(table.clone());
    }
    let place = |name: &String| {
        let position = table.schema.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
        position.ok_or_else(|| anyhow!("{} has no column {name:?}", table.name))
    };
    let places = names.iter().map(place).collect::<Result<Vec<_>>>()?;
    let batches = table.batches.iter().map(|batch| batch.project(&places)).collect::<Result<_, _>>()?;
    Ok(Table { name: table.name.clone(), schema: Arc::new(table.schema.project(&places)?), batches })
}
