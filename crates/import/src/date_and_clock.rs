//! Date and time of day in two columns of typed rows, as frames, Parquet and Arrow files have them: together they are the time.
//!
//! Which columns these are is decided by the rules for text files (`roles.rs`). Here a date may also be a timestamp at midnight, as pandas makes it, and
//! both may be texts or numbers of digits, which are read as those of text files.

use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, RecordBatch, RecordBatchOptions, StringArray, Time64NanosecondArray,
    TimestampNanosecondArray,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Date32Type, Field, Int64Type, Schema, SchemaRef, Time64NanosecondType, TimeUnit};
use arrow::util::display::array_value_to_string;
use splay_store::{ColumnSpec, ColumnType, TableSpec};

use crate::column_names::{DATE_NAMES, ends_as_clock, is_clock_name, is_date_name, same_name};
use crate::csv::columns;
use crate::csv::compact_clock::CompactClocks;
use crate::csv::times::{self, EpochUnit, TimeSpelling};
use crate::evidence::ValueFormats;
use crate::exact::natural_type;
use crate::roles;
use crate::sniff::Sample;
use crate::typed_times::is_whole;

/// The columns of a date and a time of day that are the time of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateAndClock {
    date: String,
    clock: String,
    /// Whether the table has the date as a column of its own.
    keeps_date: bool,
    /// Whether the table has the time.
    is_existing: bool,
    /// Patterns of texts.
    formats: Vec<String>,
    /// How texts and numbers are read as times of day: as the first of them are.
    spelling: OnceLock<TimeSpelling>,
}

impl DateAndClock {
    /// These columns of a schema, if the time that a table has or gets is made of them: `time` is the column that was asked for, or that the table has.
    /// A column whose name `is_typed` tells is what it is.
    #[must_use]
    pub fn of(
        schema: &Schema,
        time: Option<&str>,
        existing: Option<&TableSpec>,
        is_typed: &dyn Fn(&str) -> bool,
    ) -> Option<DateAndClock> {
        let time = existing.map(|table| table.time.as_str()).or(time);
        let of_name = |name: &str, own: &ColumnType| {
            let is_clock = match own {
                ColumnType::Text | ColumnType::Symbol => is_clock_name(name) || ends_as_clock(name),
                _ => roles::may_be_digits_of_clock(name, time),
            };
            match () {
                () if is_clock => Some(ColumnType::Time),
                () if is_date_name(name) => Some(ColumnType::Date),
                () => None,
            }
        };
        DateAndClock::found(schema, time, existing, is_typed, &of_name).filter(|found| found.is_sure(schema, time))
    }

    /// These columns of a file, of whose texts and numbers a sample was taken by the formats that the caller gave.
    pub(crate) fn of_sample(
        schema: &Schema,
        time: Option<&str>,
        existing: Option<&TableSpec>,
        is_typed: &dyn Fn(&str) -> bool,
        sample: &Sample,
    ) -> Option<DateAndClock> {
        let time = existing.map(|table| table.time.as_str()).or(time);
        let of_values = |name: &str, own: &ColumnType| {
            let evidence = sample.evidence(name)?;
            let is_digits = || roles::may_be_digits_of_clock(name, time) && evidence.compact_clock().is_some();
            match evidence.column_type(name, sample.rows, &sample.writing).0 {
                ColumnType::Time => Some(ColumnType::Time),
                ColumnType::Timestamp if !is_whole(own) => Some(ColumnType::Timestamp),
                _ if is_digits() => Some(ColumnType::Time),
                _ if is_date_name(name) && evidence.is_of_dates() => Some(ColumnType::Date),
                ColumnType::Date if is_date_name(name) => Some(ColumnType::Date),
                _ => None,
            }
        };
        let found = DateAndClock::found(schema, time, existing, is_typed, &of_values)?;
        let is_text = |data_type| matches!(natural_type(data_type), Some(ColumnType::Text | ColumnType::Symbol));
        let is_read = schema.field_with_name(&found.clock).is_ok_and(|field| is_text(field.data_type()));
        if !is_read && !found.is_sure(schema, time) {
            return None;
        }
        if let Some(evidence) = sample.evidence(&found.clock) {
            let spelling = match evidence.compact_clock() {
                Some(form) if sample.writing.formats.is_empty() => TimeSpelling::Compact(form),
                _ => clock_spelling(&sample.writing),
            };
            found.spelling.set(spelling).unwrap_or_default();
        }
        Some(DateAndClock { formats: sample.writing.formats.clone(), ..found })
    }

    /// Looks for them, where `by_digits` says what a column of texts or numbers is besides these.
    fn found(
        schema: &Schema,
        time: Option<&str>,
        existing: Option<&TableSpec>,
        is_typed: &dyn Fn(&str) -> bool,
        by_digits: &dyn Fn(&str, &ColumnType) -> Option<ColumnType>,
    ) -> Option<DateAndClock> {
        let fields = schema.fields().iter().filter(|field| !is_typed(field.name()));
        let typed: Vec<(&str, ColumnType)> = fields
            .filter_map(|field| {
                let (name, own) = (field.name().as_str(), natural_type(field.data_type())?);
                let is_midnight = own == ColumnType::Timestamp && DATE_NAMES.iter().any(|usual| same_name(usual, name));
                let other = match own {
                    _ if is_midnight => Some(ColumnType::Date),
                    _ if may_hold_digits(&own) => by_digits(name, &own),
                    _ => None,
                };
                Some((name, other.unwrap_or(own)))
            })
            .collect();
        let columns: Vec<(&str, &ColumnType)> = typed.iter().map(|(name, of)| (*name, of)).collect();
        let (date, clock) = roles::date_and_clock(&columns, time)?;
        let keeps_date = existing.is_some_and(|table| table.position(date).is_some());
        Some(DateAndClock {
            date: date.to_owned(),
            clock: clock.to_owned(),
            keeps_date,
            is_existing: existing.is_some(),
            formats: Vec::new(),
            spelling: OnceLock::new(),
        })
    }

    /// Whether the names alone say that texts or numbers are times of day.
    fn is_sure(&self, schema: &Schema, time: Option<&str>) -> bool {
        let own = schema.field_with_name(&self.clock).ok().and_then(|field| natural_type(field.data_type()));
        !own.is_some_and(|own| may_hold_digits(&own)) || roles::is_surely_clock(&self.clock, &self.date, time)
    }

    /// What was found, in words.
    #[must_use]
    pub fn note(&self) -> String {
        roles::joined(&self.date, &self.clock, self.spelling.get().unwrap_or(&TimeSpelling::ClockText))
    }

    /// Columns of a table with the time in the place of the time of day.
    pub(crate) fn join_columns(&self, columns: &mut Vec<ColumnSpec>) {
        columns.retain(|column| self.keeps_date || column.name != self.date);
        let clocks = columns.iter_mut().filter(|column| column.name == self.clock);
        clocks.for_each(|column| column.column_type = ColumnType::Timestamp);
    }

    /// The schema of rows with the time in the place of the time of day.
    #[must_use]
    pub fn schema(&self, schema: &Schema) -> SchemaRef {
        let fields =
            schema.fields().iter().filter(|field| self.stays(field)).map(|field| match field.name() == &self.clock {
                true => Arc::new(Field::new(&self.clock, DataType::Timestamp(TimeUnit::Nanosecond, None), true)),
                false => Arc::clone(field),
            });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn stays(&self, field: &Field) -> bool {
        self.keeps_date || field.name() != &self.date
    }

    /// Rows with the time in the place of the time of day.
    ///
    /// # Errors
    /// A text for the first row whose date or time of day isn't one.
    pub fn join(&self, rows: &RecordBatch) -> Result<RecordBatch, String> {
        let column = |name: &str| rows.column_by_name(name).ok_or_else(|| format!("there is no column {name:?}"));
        let times = self.times(column(&self.date)?, column(&self.clock)?)?;
        let own = rows.schema();
        let stay = own.fields().iter().zip(rows.columns()).filter(|(field, _)| self.stays(field));
        let columns = stay.map(|(field, values)| match field.name() == &self.clock {
            true => Arc::clone(&times),
            false => Arc::clone(values),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let joined = RecordBatch::try_new_with_options(self.schema(&own), columns.collect(), &options);
        joined.map_err(|error| error.to_string())
    }

    fn times(&self, dates: &ArrayRef, clocks: &ArrayRef) -> Result<ArrayRef, String> {
        if let Some(instants) = self.instants(clocks) {
            return Ok(instants);
        }
        let days = match natural_type(dates.data_type()) {
            Some(own) if may_hold_digits(&own) => self.days(&texts(dates)?)?,
            _ => days(dates, &self.clock)?,
        };
        let clocks = match natural_type(clocks.data_type()) {
            Some(own) if may_hold_digits(&own) => self.times_of_day(&texts(clocks)?)?,
            _ => as_type(clocks, &DataType::Time64(TimeUnit::Nanosecond), "time of day")?,
        };
        at_days(&days, &clocks)
    }

    /// Instants that a table has instead of times of day: as nanoseconds from 1970.
    fn instants(&self, clocks: &ArrayRef) -> Option<ArrayRef> {
        let is_nanos = |number: i64| EpochUnit::guess(i128::from(number)) == Some(EpochUnit::Nanos);
        let numbers = clocks.as_primitive_opt::<Int64Type>().filter(|_| self.is_existing)?;
        let is_all = numbers.iter().flatten().all(is_nanos) && numbers.null_count() < numbers.len();
        is_all.then(|| cast(clocks, &DataType::Timestamp(TimeUnit::Nanosecond, None)).ok())?
    }

    fn days(&self, texts: &StringArray) -> Result<ArrayRef, String> {
        let day =
            |text: &str| columns::date(text.trim().as_bytes(), &self.formats).or_else(|| times::date(text.as_bytes()));
        let days = texts.iter().map(|text| text.map(|text| day(text).ok_or_else(|| no(text, "date"))).transpose());
        Ok(Arc::new(days.collect::<Result<Date32Array, String>>()?))
    }

    fn times_of_day(&self, texts: &StringArray) -> Result<ArrayRef, String> {
        let values = || texts.iter().flatten().map(str::trim);
        let spelling = match self.spelling.get() {
            Some(spelling) => spelling,
            None if texts.null_count() == texts.len() => &TimeSpelling::ClockText,
            None => self.spelling.get_or_init(|| {
                let mut compact = CompactClocks::default();
                values().for_each(|text| compact.add(text.as_bytes()));
                compact.form().map_or(TimeSpelling::ClockText, TimeSpelling::Compact)
            }),
        };
        let nanos =
            |text: &str| times::time_of_day(text.trim().as_bytes(), spelling).ok_or_else(|| self.no_clock(text));
        let clocks = texts.iter().map(|text| text.map(nanos).transpose());
        Ok(Arc::new(clocks.collect::<Result<Time64NanosecondArray, String>>()?))
    }

    fn no_clock(&self, text: &str) -> String {
        let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let remark = if is_digits { " for sure; make times of day of the column first" } else { "" };
        no(text, "time of day") + remark
    }
}

/// How texts are read as times of day.
fn clock_spelling(writing: &ValueFormats) -> TimeSpelling {
    match writing.formats.as_slice() {
        [] => TimeSpelling::ClockText,
        formats => TimeSpelling::ClockPatterns(formats.to_vec()),
    }
}

/// Whether dates and times of day may be written in a column of this type.
pub(crate) fn may_hold_digits(own: &ColumnType) -> bool {
    matches!(own, ColumnType::Text | ColumnType::Symbol | ColumnType::Float64 | ColumnType::Float32) || is_whole(own)
}

fn no(text: &str, what: &str) -> String {
    format!("{text:?} is no {what}")
}

/// Values as they are written.
fn texts(values: &ArrayRef) -> Result<StringArray, String> {
    let texts = cast(values, &DataType::Utf8).map_err(|error| error.to_string())?;
    Ok(texts.as_string::<i32>().clone())
}

fn days(dates: &ArrayRef, name: &str) -> Result<ArrayRef, String> {
    let days = as_type(dates, &DataType::Date32, "date")?;
    if matches!(dates.data_type(), DataType::Timestamp(..)) {
        let midnights = as_type(&days, dates.data_type(), "date")?;
        if let Some(row) =
            (0..dates.len()).find(|row| dates.is_valid(*row) && midnights.slice(*row, 1) != dates.slice(*row, 1))
        {
            return Err(format!("{} has a time of day, beside the column {name:?}", shown(dates, row)));
        }
    }
    Ok(days)
}

/// Times of day on days.
fn at_days(days: &ArrayRef, clocks: &ArrayRef) -> Result<ArrayRef, String> {
    let (days, clocks) = (days.as_primitive::<Date32Type>(), clocks.as_primitive::<Time64NanosecondType>());
    let time = |(day, clock): (Option<i32>, Option<i64>)| match (day, clock) {
        (Some(day), Some(clock)) => times::local(day, clock)
            .map(Some)
            .ok_or_else(|| format!("the day {day} after 1970-01-01 is out of the range of times")),
        _ => Ok(None),
    };
    let times: Result<TimestampNanosecondArray, String> = days.iter().zip(clocks).map(time).collect();
    Ok(Arc::new(times?))
}

/// Values in another type, each of which has to be one of it.
fn as_type(values: &ArrayRef, to: &DataType, what: &str) -> Result<ArrayRef, String> {
    let cast = cast_with_options(values, to, &CastOptions { safe: true, ..CastOptions::default() });
    let cast = cast.map_err(|error| error.to_string())?;
    match (0..values.len()).find(|row| values.is_valid(*row) && cast.is_null(*row)) {
        Some(row) => Err(no(&shown(values, row), what)),
        None => Ok(cast),
    }
}

fn shown(values: &ArrayRef, row: usize) -> String {
    array_value_to_string(values, row).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray};

    use super::*;

    const DAY_NS: i64 = 86_400_000_000_000;

    fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, values)| (name, values, true)))
            .unwrap()
    }

    fn found(rows: &RecordBatch) -> Option<DateAndClock> {
        DateAndClock::of(&rows.schema(), None, None, &|_| false)
    }

    fn dates() -> ArrayRef {
        Arc::new(Date32Array::from(vec![Some(1), None, Some(2)]))
    }

    #[test]
    fn a_time_of_day_and_a_date_are_a_time() {
        let micros: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![Some(5), Some(6), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["00:00:00.000005", "23:59", "09:30:00"]));
        for (clock, last) in [(micros, None), (texts, Some(2 * DAY_NS + 34_200_000_000_000))] {
            let rows = rows(vec![("Date", dates()), ("time", clock), ("price", dates())]);
            let joined = found(&rows).unwrap().join(&rows).unwrap();
            let names: Vec<_> = joined.schema().fields().iter().map(|field| field.name().clone()).collect();
            assert_eq!(names, ["time", "price"]);
            let times = joined.column(0).as_primitive::<arrow::datatypes::TimestampNanosecondType>();
            assert_eq!(times.iter().collect::<Vec<_>>(), [Some(DAY_NS + 5_000), None, last]);
        }
    }

    #[test]
    fn a_date_may_be_a_timestamp_at_midnight() {
        let clock: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![7]));
        let of = |micros| {
            rows(vec![("date", Arc::new(TimestampMicrosecondArray::from(vec![micros]))), ("time", Arc::clone(&clock))])
        };
        let midnight = of(86_400_000_000);
        let joined = found(&midnight).unwrap().join(&midnight).unwrap();
        assert_eq!(
            joined.column(0).as_primitive::<arrow::datatypes::TimestampNanosecondType>().value(0),
            DAY_NS + 7_000
        );
        let noon = of(43_200_000_000);
        assert!(found(&noon).unwrap().join(&noon).unwrap_err().contains("has a time of day"));
    }

    #[test]
    fn what_is_no_time_of_day_is_named() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["09:30", "25 o'clock", "x"]));
        let rows = rows(vec![("date", dates()), ("time", texts)]);
        let all = rows.slice(0, 3);
        assert_eq!(found(&rows).unwrap().join(&all).unwrap_err(), "\"25 o'clock\" is no time of day");
    }

    #[test]
    fn a_timestamp_is_the_time_by_itself() {
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1, 2, 3]));
        let clock: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![1, 2, 3]));
        assert_eq!(found(&rows(vec![("date", dates()), ("time", clock), ("received", times)])), None);
        assert_eq!(found(&rows(vec![("date", dates()), ("price", dates())])), None);
    }
}
