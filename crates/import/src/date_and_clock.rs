//! Date and time of day in two columns of typed rows, as frames, Parquet and Arrow files have them: together they are the time.
//!
//! Which columns these are is decided by the rules for text files (`roles.rs`). Here a time of day may be a text, too, and a date a timestamp at midnight,
//! as pandas makes it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, TimestampNanosecondArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Date32Type, Field, Schema, SchemaRef, Time64NanosecondType, TimeUnit};
use arrow::util::display::array_value_to_string;
use splay_store::{ColumnSpec, ColumnType, TableSpec};

use crate::column_names::{CLOCK_NAMES, DATE_NAMES, TIME_NAMES, same_name};
use crate::exact::natural_type;
use crate::roles;

const DAY_NS: i64 = 86_400_000_000_000;

/// The columns of a date and a time of day that are the time of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateAndClock {
    date: String,
    clock: String,
    /// Whether the table has the date as a column of its own.
    keeps_date: bool,
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
        let is_named = |name: &str, names: &[&str]| names.iter().any(|other| same_name(other, name));
        let fields = schema.fields().iter().filter(|field| !is_typed(field.name()));
        let typed: Vec<(&str, ColumnType)> = fields
            .filter_map(|field| {
                let name = field.name().as_str();
                let is_clock = is_named(name, &CLOCK_NAMES) || is_named(name, &TIME_NAMES);
                Some(match natural_type(field.data_type())? {
                    ColumnType::Text | ColumnType::Symbol if is_clock => (name, ColumnType::Time),
                    ColumnType::Timestamp if is_named(name, &DATE_NAMES) => (name, ColumnType::Date),
                    other => (name, other),
                })
            })
            .collect();
        let columns: Vec<(&str, &ColumnType)> = typed.iter().map(|(name, of)| (*name, of)).collect();
        let (date, clock) = roles::date_and_clock(&columns, time)?;
        let keeps_date = existing.is_some_and(|table| table.position(date).is_some());
        Some(DateAndClock { date: date.to_owned(), clock: clock.to_owned(), keeps_date })
    }

    /// What was found, in words.
    #[must_use]
    pub fn note(&self) -> String {
        format!("{} is the time of day on the {} of its row", self.clock, self.date)
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
        let times = times(column(&self.date)?, column(&self.clock)?, &self.clock)?;
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
}

fn times(dates: &ArrayRef, clocks: &ArrayRef, name: &str) -> Result<ArrayRef, String> {
    let days = as_type(dates, &DataType::Date32, "date")?;
    if matches!(dates.data_type(), DataType::Timestamp(..)) {
        let midnights = as_type(&days, dates.data_type(), "date")?;
        if let Some(row) =
            (0..dates.len()).find(|row| dates.is_valid(*row) && midnights.slice(*row, 1) != dates.slice(*row, 1))
        {
            return Err(format!("{} has a time of day, beside the column {name:?}", shown(dates, row)));
        }
    }
    let clocks = as_type(clocks, &DataType::Time64(TimeUnit::Nanosecond), "time of day")?;
    let (days, clocks) = (days.as_primitive::<Date32Type>(), clocks.as_primitive::<Time64NanosecondType>());
    let time = |(day, clock): (Option<i32>, Option<i64>)| match (day, clock) {
        (Some(day), Some(clock)) => {
            let time = i64::from(day).checked_mul(DAY_NS).and_then(|day| day.checked_add(clock));
            time.map(Some).ok_or_else(|| format!("the day {day} after 1970-01-01 is out of the range of times"))
        }
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
        Some(row) => Err(format!("{:?} is no {what}", shown(values, row))),
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
