//! Reference tables as trading calendars.
//!
//! A table is one if it has the columns `date`, `open` and `close`; `kind` and `note` describe special dates, and
//! further columns are ignored. It is read at its commit when a statement is planned, and its calendar is cached
//! until the next commit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, TimestampNanosecondType};
use chrono::{NaiveDate, TimeDelta};
use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use splay_calendar::{Calendar, Row};
use splay_functions::CalendarSource;
use splay_store::{ColumnType, TableSnapshot, TableSpec};

use crate::error::external;
use crate::tick_schema::TickSchema;

/// Most rows of a calendar: two sessions a day for more than a century.
const ROWS_MAX: u64 = 100_000;

/// Most calendars in the cache.
const CALENDARS_MAX: usize = 64;

/// The columns that a calendar must have, as errors name them.
const COLUMNS: &str =
    "a calendar has the columns date (date), open and close (timestamp), and may have kind and note (text or symbol)";

/// The tables of a session, as calendars.
#[derive(Debug)]
pub(crate) struct CalendarTables {
    tables: Arc<TickSchema>,
    /// By name in lower case, with the folder and the commit of the table.
    cache: Mutex<HashMap<String, (Arc<str>, u64, Arc<Calendar>)>>,
}

impl CalendarTables {
    pub(crate) fn new(tables: Arc<TickSchema>) -> CalendarTables {
        CalendarTables { tables, cache: Mutex::default() }
    }

    fn no_such_calendar<T>(&self, name: &str) -> Result<T> {
        let names_shipped = Calendar::names();
        let shipped = names_shipped.iter().map(|name| (*name).to_owned());
        let near = |other: &String| levenshtein(&name.to_lowercase(), &other.to_lowercase());
        let is_calendar = |other: &String| {
            let table = self.tables.whole(other);
            table.is_ok_and(|table| table.is_some_and(|table| columns(table.spec()).is_ok()))
        };
        // If there are many tables, only those with a similar name are opened.
        let is_like = |other: &String| near(other) <= name.len() / 4;
        let tables = self.tables.names_of_tables().into_iter().filter(|other| is_like(other) && is_calendar(other));
        let similar = shipped.filter(is_like).chain(tables).min_by_key(near);
        let hint = similar.map_or_else(|| "; there".to_owned(), |similar| format!("; did you mean {similar:?}? There"));
        plan_err!(
            "there is no calendar {name:?}{hint} are {}, and the reference tables of this database that are calendars",
            names_shipped.join(", ")
        )
    }
}

impl CalendarSource for CalendarTables {
    fn calendar(&self, name: &str) -> Result<Arc<Calendar>> {
        let Some(table) = self.tables.whole(name)? else {
            return match self.tables.views().iter().any(|view| view.name.eq_ignore_ascii_case(name)) {
                true => plan_err!("{name} is a view; a calendar is a reference table"),
                false => self.no_such_calendar(name),
            };
        };
        let key = name.to_lowercase();
        let cached = |cached: &HashMap<_, (Arc<str>, u64, Arc<Calendar>)>| {
            let (folder, epoch, calendar) = cached.get(&key)?;
            (folder == table.folder() && *epoch == table.epoch()).then(|| Arc::clone(calendar))
        };
        if let Some(calendar) = cached(&self.cache.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(calendar);
        }
        let rows = rows(&table)?;
        let calendar = Calendar::of_rows(&table.spec().name, rows).map_err(|error| plan_datafusion_err!("{error}"))?;
        let calendar = Arc::new(calendar);
        let mut cached = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= CALENDARS_MAX {
            cached.clear();
        }
        cached.insert(key, (Arc::clone(table.folder()), table.epoch(), Arc::clone(&calendar)));
        Ok(calendar)
    }
}

/// Positions of date, opening and close, and of kind and note if the table has them.
fn columns(spec: &TableSpec) -> Result<([usize; 3], [Option<usize>; 2])> {
    let name = &spec.name;
    if spec.reference.is_none() {
        return plan_err!("the table {name} is no calendar: it isn't a reference table, which has a key and no time");
    }
    let column = |column: &str, fits: &[ColumnType]| {
        let shown = spec.shown_columns();
        let Some(place) = shown.iter().position(|shown| shown.name.eq_ignore_ascii_case(column)) else {
            return Ok(None);
        };
        match fits.contains(&shown[place].column_type) {
            true => Ok(Some(place)),
            false => {
                plan_err!(
                    "the table {name} is no calendar: its column {column} is of the type {}; {COLUMNS}",
                    shown[place].column_type
                )
            }
        }
    };
    let needed = |name_of: &str, fits: &[ColumnType]| {
        let place = column(name_of, fits)?;
        place.ok_or_else(|| {
            plan_datafusion_err!("the table {name} is no calendar: it has no column {name_of}; {COLUMNS}")
        })
    };
    let times = [ColumnType::Timestamp, ColumnType::Date];
    let texts = [ColumnType::Text, ColumnType::Symbol];
    let needed = [needed("date", &[ColumnType::Date])?, needed("open", &times)?, needed("close", &times)?];
    Ok((needed, [column("kind", &texts)?, column("note", &texts)?]))
}

fn rows(table: &TableSnapshot) -> Result<Vec<Row>> {
    let (needed, texts) = columns(table.spec())?;
    if table.rows() > ROWS_MAX {
        let (name, rows) = (&table.spec().name, table.rows());
        return plan_err!("the table {name} is no calendar: it has {rows} rows, and a calendar at most {ROWS_MAX}");
    }
    let read: Vec<usize> = needed.into_iter().chain(texts.into_iter().flatten()).collect();
    let mut rows = Vec::new();
    let time = ColumnType::Timestamp.arrow();
    for segment in table.partitions().iter().flat_map(|partition| partition.segments.iter()) {
        let batch = segment.read_all(table.spec(), &read).map_err(external)?;
        let dates = batch.column(0).as_primitive::<Date32Type>();
        // A file whose openings are all at midnight in UTC, as in Tokyo, loads them as dates.
        let (opens, closes) = (cast(batch.column(1), &time)?, cast(batch.column(2), &time)?);
        if opens.null_count() > batch.column(1).null_count() || closes.null_count() > batch.column(2).null_count() {
            return plan_err!("the table {} is no calendar: it has a time outside of 1677 to 2262", table.spec().name);
        }
        let opens = opens.as_primitive::<TimestampNanosecondType>();
        let closes = closes.as_primitive::<TimestampNanosecondType>();
        let mut others = batch.columns()[3..].iter();
        let mut column = |is_there: bool| -> Result<Option<ArrayRef>> {
            let column = if is_there { others.next() } else { None };
            column.map(|column| Ok(cast(column, &DataType::Utf8)?)).transpose()
        };
        let (kinds, notes) = (column(texts[0].is_some())?, column(texts[1].is_some())?);
        let text = |column: &Option<ArrayRef>, row: usize| {
            let column = column.as_ref()?.as_string::<i32>();
            column.is_valid(row).then(|| column.value(row).to_owned())
        };
        for row in 0..batch.num_rows() {
            rows.push(Row {
                date: date(dates.is_valid(row).then(|| dates.value(row)), &table.spec().name)?,
                open: opens.is_valid(row).then(|| opens.value(row)),
                close: closes.is_valid(row).then(|| closes.value(row)),
                kind: text(&kinds, row),
                note: text(&notes, row),
            });
        }
    }
    table.watch().check().map_err(external)?;
    Ok(rows)
}

fn date(days: Option<i32>, table: &str) -> Result<NaiveDate> {
    let days = days.ok_or_else(|| plan_datafusion_err!("the table {table} is no calendar: a row of it has no date"))?;
    let date = NaiveDate::default().checked_add_signed(TimeDelta::days(i64::from(days)));
    date.ok_or_else(|| {
        plan_datafusion_err!("the table {table} is no calendar: a date {days} days after 1970-01-01 is none")
    })
}
