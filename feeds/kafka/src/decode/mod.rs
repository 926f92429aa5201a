//! From the bytes of a record to rows of the table.

mod avro;
mod stream;

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::RecordBatch;

use splay_records::decode::Decode;
use splay_records::json;

use crate::columns::{Cell, Column, Rows, Value};
use crate::registry::Schemas;
use crate::settings::{Format, Source, TopicSettings, UnknownFields};

pub use avro::{Plan, PlanError};
pub use splay_records::decode::{DecodeFailure, Record};
pub use splay_records::fields::Fields;

/// A column whose value comes from the record's metadata.
#[derive(Debug, Clone)]
struct FromRecord {
    column: usize,
    source: Source,
}

/// The columns of the rows, and the sources of their values.
#[derive(Debug)]
pub struct Layout {
    columns: Vec<Column>,
    from_record: Vec<FromRecord>,
    fields: Fields,
    unknown: UnknownFields,
    topic: String,
    partition: i32,
}

impl Layout {
    /// The columns that a topic's settings ask for, of those that the table has.
    ///
    /// # Errors
    /// Columns that the table lacks, a time that comes from nowhere.
    pub fn new(settings: &TopicSettings, table: &[Column], partition: i32) -> Result<Layout, String> {
        let mut layout = Layout {
            columns: Vec::new(),
            from_record: Vec::new(),
            fields: Fields::default(),
            unknown: settings.unknown_fields,
            topic: settings.name.clone(),
            partition,
        };
        let find = |name: &str| table.iter().find(|column| column.name.eq_ignore_ascii_case(name));
        for (name, source) in &settings.columns {
            let Some(column) = find(name) else {
                let names: Vec<&str> = table.iter().map(|column| column.name.as_str()).collect();
                return Err(format!("table {:?} has no column {name:?}; it has {}", settings.table, names.join(", ")));
            };
            layout.add(settings, column, source)?;
        }
        if settings.columns.is_empty() {
            for column in table {
                layout.add(settings, column, &Source::Field(column.name.clone()))?;
            }
            layout.fields.fold_case();
        }
        if !layout.columns.iter().any(|column| column.is_time) {
            let time = table.iter().find(|column| column.is_time).map_or("", |column| column.name.as_str());
            return Err(format!("nothing is given for the time {time:?} of table {:?}", settings.table));
        }
        Ok(layout)
    }

    fn add(&mut self, settings: &TopicSettings, column: &Column, source: &Source) -> Result<(), String> {
        let unit = settings.units.get(&column.name).copied().or(settings.time_unit);
        let place = self.columns.len();
        if self.columns.iter().any(|other| other.name == column.name) {
            return Err(format!("column {:?} is given twice", column.name));
        }
        self.columns.push(Column { unit, ..column.clone() });
        match source {
            Source::Field(path) => self.fields.add(path, place)?,
            other => self.from_record.push(FromRecord { column: place, source: other.clone() }),
        }
        Ok(())
    }

    /// Columns of the rows.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The value of a column that comes from the record's metadata.
    fn of_record<'a>(&'a self, source: &Source, record: &Record<'a>) -> Result<Cell<'a>, String> {
        Ok(match source {
            Source::Key => match record.key {
                None => Cell::Null,
                Some(key) => Cell::Text(Cow::Borrowed(std::str::from_utf8(key).map_err(|_| "the key is no text")?)),
            },
            Source::RecordTime => record.time_ns.map_or(Cell::Null, Cell::Instant),
            Source::Offset => Cell::Whole(record.offset.into()),
            Source::Partition => Cell::Whole(self.partition.into()),
            Source::Topic => Cell::Text(Cow::Borrowed(&self.topic)),
            Source::Field(_) => Cell::Null,
        })
    }

    fn fill_from_record<'a>(&'a self, record: &Record<'a>, cells: &mut [Cell<'a>]) -> Result<(), String> {
        for from in &self.from_record {
            cells[from.column] = self.of_record(&from.source, record)?;
        }
        Ok(())
    }

    fn values<'a>(&self, cells: Vec<Cell<'a>>) -> Result<Vec<Value<'a>>, String> {
        self.columns.iter().zip(cells).map(|(column, cell)| column.value(cell)).collect()
    }
}

/// Rows of records that wait to be sent.
#[derive(Debug)]
enum PendingRows {
    /// Rows that are built value by value.
    Built(Rows),
    /// Arrow batches of one schema, as they were received.
    Batches(Vec<RecordBatch>),
}

/// Makes rows of a partition's records.
#[derive(Debug)]
pub struct Decoder {
    layout: Layout,
    format: Format,
    avro: Option<avro::Decoder>,
    waiting: PendingRows,
    rows: usize,
    /// Bytes that waiting Arrow batches have unpacked to.
    bytes: usize,
}

impl Decoder {
    /// A decoder of a topic's format; Avro needs the registry.
    ///
    /// # Errors
    /// As [`Layout::new`], and Avro without a registry.
    pub fn new(
        settings: &TopicSettings,
        table: &[Column],
        partition: i32,
        schemas: Option<Arc<dyn Schemas>>,
    ) -> Result<Decoder, String> {
        let layout = Layout::new(settings, table, partition)?;
        let avro = match (settings.format, schemas) {
            (Format::Avro, Some(schemas)) => Some(avro::Decoder::new(schemas)),
            (Format::Avro, None) => return Err("Avro needs a [registry]".to_owned()),
            _ => None,
        };
        let waiting = match settings.format {
            Format::Arrow => PendingRows::Batches(Vec::new()),
            Format::Json | Format::Avro => PendingRows::Built(Rows::new(layout.columns())),
        };
        Ok(Decoder { layout, format: settings.format, avro, waiting, rows: 0, bytes: 0 })
    }
}

impl Decode for Decoder {
    fn add(&mut self, record: &Record<'_>) -> Result<usize, DecodeFailure> {
        let Some(payload) = record.payload else { return Ok(0) };
        let Decoder { layout, format, avro, waiting, bytes, .. } = self;
        let rows = match (waiting, format) {
            (PendingRows::Batches(batches), _) => {
                let (rows, unpacked) = stream::add(layout, record, payload, batches)?;
                *bytes += unpacked;
                rows
            }
            (PendingRows::Built(rows), Format::Avro) => {
                let avro = avro.as_mut().ok_or_else(|| "Avro needs a registry".to_owned())?;
                let mut cells = vec![Cell::Null; layout.columns.len()];
                avro.decode(layout, payload, &mut cells)?;
                layout.fill_from_record(record, &mut cells)?;
                rows.push(&layout.values(cells)?);
                1
            }
            (PendingRows::Built(rows), _) => {
                let mut cells = vec![Cell::Null; layout.columns.len()];
                json::decode(&layout.fields, layout.unknown, payload, &mut cells)?;
                layout.fill_from_record(record, &mut cells)?;
                rows.push(&layout.values(cells)?);
                1
            }
        };
        self.rows += rows;
        Ok(rows)
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn take(&mut self) -> Result<RecordBatch, String> {
        (self.rows, self.bytes) = (0, 0);
        match &mut self.waiting {
            PendingRows::Built(rows) => rows.take().map_err(|error| error.to_string()),
            PendingRows::Batches(batches) => match std::mem::take(batches).as_slice() {
                [] => Ok(RecordBatch::new_empty(crate::columns::schema(self.layout.columns()))),
                batches => {
                    arrow::compute::concat_batches(&batches[0].schema(), batches).map_err(|error| error.to_string())
                }
            },
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
