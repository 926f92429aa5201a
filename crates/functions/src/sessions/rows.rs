//! Calendars as rows: what the table functions give, and `splay.calendar` of Python.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Int32Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use chrono::NaiveDate;
use datafusion::common::{Result, plan_datafusion_err};
use splay_calendar::{Calendar, TradingDay};
use splay_store::days;

/// The columns of [`trading_days`].
pub(super) fn trading_days_schema() -> SchemaRef {
    schema([
        ("date", DataType::Date32, false),
        ("open", time(), false),
        ("close", time(), false),
        ("early_close", DataType::Boolean, false),
        ("late_open", DataType::Boolean, false),
        ("kind", DataType::Utf8, false),
        ("note", DataType::Utf8, true),
    ])
}

/// The trading days from one date to another, both included: date, opening and close in UTC, and how they differ from the usual.
///
/// # Errors
/// If the calendar doesn't cover the dates.
pub fn trading_days(calendar: &Calendar, from: NaiveDate, to: NaiveDate) -> Result<RecordBatch> {
    let days = calendar.days(from, to).map_err(refused)?;
    batch(
        trading_days_schema(),
        vec![
            dates(days.iter().map(|day| day.date)),
            times(days.iter().map(|day| day.open)),
            times(days.iter().map(|day| day.close)),
            Arc::new(days.iter().map(|day| Some(day.early_close)).collect::<BooleanArray>()),
            Arc::new(days.iter().map(|day| Some(day.late_open)).collect::<BooleanArray>()),
            Arc::new(days.iter().map(|day| Some(kind(day))).collect::<StringArray>()),
            Arc::new(days.iter().map(|day| day.note.as_deref()).collect::<StringArray>()),
        ],
    )
}

fn kind(day: &TradingDay) -> &'static str {
    match (day.early_close, day.late_open) {
        (true, _) => "early close",
        (_, true) => "late open",
        _ => "regular",
    }
}

/// The columns of [`trading_sessions`].
pub(super) fn trading_sessions_schema() -> SchemaRef {
    schema([
        ("date", DataType::Date32, false),
        ("session", DataType::Int32, false),
        ("open", time(), false),
        ("close", time(), false),
    ])
}

/// The sessions of these trading days: one row for each stretch without a break, numbered within its date from 1.
///
/// # Errors
/// If the calendar doesn't cover the dates.
pub fn trading_sessions(calendar: &Calendar, from: NaiveDate, to: NaiveDate) -> Result<RecordBatch> {
    let days = calendar.days(from, to).map_err(refused)?;
    let numbered: Vec<_> = days.iter().flat_map(|day| (1..).zip(calendar.sessions(day))).collect();
    batch(
        trading_sessions_schema(),
        vec![
            dates(numbered.iter().map(|(_, session)| session.date)),
            Arc::new(numbered.iter().map(|(number, _)| Some(*number)).collect::<Int32Array>()),
            times(numbered.iter().map(|(_, session)| session.open)),
            times(numbered.iter().map(|(_, session)| session.close)),
        ],
    )
}

/// The columns of [`special_days`].
pub(super) fn special_days_schema() -> SchemaRef {
    schema([("date", DataType::Date32, false), ("name", DataType::Utf8, false), ("kind", DataType::Utf8, false)])
}

/// The holidays and the days of other hours from one date to another, both included.
///
/// # Errors
/// If the calendar doesn't cover the dates.
pub fn special_days(calendar: &Calendar, from: NaiveDate, to: NaiveDate) -> Result<RecordBatch> {
    let days = calendar.special_days(from, to).map_err(refused)?;
    batch(
        special_days_schema(),
        vec![
            dates(days.iter().map(|day| day.date)),
            Arc::new(days.iter().map(|day| Some(day.name.as_ref())).collect::<StringArray>()),
            Arc::new(days.iter().map(|day| Some(day.kind.text())).collect::<StringArray>()),
        ],
    )
}

/// The columns of [`calendars`].
pub(super) fn calendars_schema() -> SchemaRef {
    schema([
        ("name", DataType::Utf8, false),
        ("aliases", DataType::Utf8, false),
        ("market", DataType::Utf8, false),
        ("time_zone", DataType::Utf8, false),
        ("first", DataType::Date32, false),
        ("last", DataType::Date32, false),
    ])
}

/// All calendars, and the dates that their rules hold for.
///
/// # Errors
/// None that is known.
pub fn calendars() -> Result<RecordBatch> {
    let all: Vec<_> = Calendar::names().into_iter().filter_map(|name| Calendar::named(name).ok()).collect();
    let text = |of: &dyn Fn(&Calendar) -> String| {
        Arc::new(all.iter().map(|calendar| Some(of(calendar))).collect::<StringArray>()) as ArrayRef
    };
    batch(
        calendars_schema(),
        vec![
            text(&|calendar| calendar.name().to_owned()),
            text(&|calendar| calendar.aliases().join(", ")),
            text(&|calendar| calendar.title().to_owned()),
            text(&|calendar| calendar.zone().to_string()),
            dates(all.iter().map(|calendar| *calendar.covered().start())),
            dates(all.iter().map(|calendar| *calendar.covered().end())),
        ],
    )
}

fn time() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

fn schema<const N: usize>(columns: [(&str, DataType, bool); N]) -> SchemaRef {
    let fields = columns.map(|(name, data_type, nullable)| Field::new(name, data_type, nullable));
    Arc::new(Schema::new(fields.to_vec()))
}

fn dates(dates: impl Iterator<Item = NaiveDate>) -> ArrayRef {
    Arc::new(dates.map(|date| Some(days(date))).collect::<Date32Array>())
}

fn times(times: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC"))
}

fn batch(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// An error of a calendar as an error for DataFusion.
pub(super) fn refused(error: splay_calendar::Error) -> datafusion::error::DataFusionError {
    plan_datafusion_err!("{error}")
}
