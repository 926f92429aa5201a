//! Incoming rows with a column `date`, for tables that derive `date` from the time: the values are compared with that
//! date, and dropped.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Date32Type, TimestampNanosecondType};
use chrono::DateTime;

use crate::error::{Error, Result};
use crate::partition::date;
use crate::schema::{ColumnSpec, ColumnType, DATE_COLUMN, TableSpec};

impl TableSpec {
    /// Whether a column of rows is the table's `date`, which it doesn't keep.
    #[must_use]
    pub fn is_virtual_date(&self, column: &str) -> bool {
        self.has_virtual_date() && column.eq_ignore_ascii_case(DATE_COLUMN)
    }

    /// This table without its own column `date`, if the time could determine it; `None` if it has no such column.
    #[must_use]
    pub fn without_date(&self) -> Option<TableSpec> {
        let place = self.position(DATE_COLUMN)?;
        let is_own = self.reference.is_some() || place == self.time_position() || Some(place) == self.symbol_position();
        if is_own || self.columns[place].column_type != ColumnType::Date {
            return None;
        }
        let mut other = self.clone();
        other.columns.remove(place);
        Some(other)
    }

    /// The table as rows come for it that may have its `date` behind their other columns.
    #[must_use]
    pub fn with_virtual_date(&self) -> TableSpec {
        let mut other = self.clone();
        other.columns.push(ColumnSpec::new(DATE_COLUMN, ColumnType::Date));
        other
    }

    /// Rows of [`TableSpec::with_virtual_date`] as those of the table.
    ///
    /// # Errors
    /// As [`TableSpec::check_dates`].
    pub fn take_dates(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let place = self.columns.len();
        self.check_dates(rows.column(self.time_position()).as_ref(), rows.column(place).as_ref())?;
        Ok(rows.project(&(0..place).collect::<Vec<_>>())?)
    }

    /// Looks whether dates are those of the times beside them. Rows without a date or a time are passed over.
    ///
    /// # Errors
    /// [`Error::Row`] for the first that isn't; [`Error::Schema`] if they aren't a table's dates and times.
    pub fn check_dates(&self, times: &dyn Array, dates: &dyn Array) -> Result<()> {
        let times = times.as_primitive_opt::<TimestampNanosecondType>();
        let values = dates.as_primitive_opt::<Date32Type>();
        let (Some(times), Some(values)) = (times, values) else {
            return Err(self.error(format!(
                "its column {DATE_COLUMN} is {}, and a date follows from the time",
                dates.data_type()
            )));
        };
        if values.null_count() == values.len() {
            return Ok(());
        }
        let mut own = self.dates()?;
        for (row, (time, value)) in times.iter().zip(values).enumerate() {
            let (Some(time), Some(value)) = (time, value) else { continue };
            let of_time = own.of(time);
            if of_time != value {
                let reason = format!(
                    "has the date {}, and its time {} is of {}, in {}: a table's date follows from its time; give the column another name",
                    date(value),
                    DateTime::from_timestamp_nanos(time).format("%Y-%m-%dT%H:%M:%S%.fZ"),
                    date(of_time),
                    self.dates_in(),
                );
                return Err(Error::Row { table: self.name.clone(), row: row as u64, reason });
            }
        }
        Ok(())
    }

    /// Whether each row has a date, and that of its time.
    ///
    /// # Errors
    /// [`Error::Schema`] for a zone that isn't there.
    pub fn are_dates(&self, times: &dyn Array, dates: &dyn Array) -> Result<bool> {
        if *dates.data_type() != DataType::Date32 || dates.logical_null_count() > 0 {
            return Ok(false);
        }
        match self.check_dates(times, dates) {
            Ok(()) => Ok(true),
            Err(Error::Row { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Date32Array, TimestampNanosecondArray};

    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn table(zone: &str) -> TableSpec {
        let columns = vec![
            ColumnSpec::new("time", ColumnType::Timestamp),
            ColumnSpec::new("Date", ColumnType::Date),
            ColumnSpec::new("size", ColumnType::Int64),
        ];
        TableSpec::new("trade", columns, "time", None).with_time_zone(zone)
    }

    fn columns(hours: &[Option<i64>], dates: &[Option<i32>]) -> (ArrayRef, ArrayRef) {
        let times: TimestampNanosecondArray = hours.iter().map(|hour| hour.map(|hour| hour * HOUR)).collect();
        (Arc::new(times.with_timezone("UTC")), Arc::new(Date32Array::from(dates.to_vec())))
    }

    #[test]
    fn dates_are_those_of_the_tables_zone() {
        let utc = table("UTC").without_date().unwrap();
        assert_eq!(utc.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), ["time", "size"]);
        assert!(utc.without_date().is_none() && utc.is_virtual_date("DATE") && !table("UTC").is_virtual_date("date"));
        let (times, dates) = columns(&[Some(1), Some(23), Some(24)], &[Some(0), Some(0), Some(1)]);
        assert!(utc.are_dates(&times, &dates).unwrap());
        let tokyo = table("Asia/Tokyo").without_date().unwrap();
        assert!(!tokyo.are_dates(&times, &dates).unwrap());
        let error = tokyo.check_dates(&times, &dates).unwrap_err().to_string();
        assert!(
            error.contains(
                "row 1 of the batch has the date 1970-01-01, and its time 1970-01-01T23:00:00Z is of 1970-01-02"
            ),
            "{error}"
        );
    }

    #[test]
    fn rows_without_a_date_agree_with_each_but_decide_nothing() {
        let utc = table("UTC").without_date().unwrap();
        let (times, dates) = columns(&[Some(1), None], &[None, Some(7)]);
        utc.check_dates(&times, &dates).unwrap();
        assert!(!utc.are_dates(&times, &dates).unwrap());
        let (times, dates) = columns(&[], &[]);
        assert!(utc.are_dates(&times, &dates).unwrap());
        assert!(utc.check_dates(&dates, &times).is_err());
    }

    #[test]
    fn a_date_that_is_the_time_or_a_text_stays() {
        let mut of_dates = table("UTC");
        of_dates.time = "Date".to_owned();
        assert!(of_dates.without_date().is_none());
        let mut texts = table("UTC");
        texts.columns[1].column_type = ColumnType::Text;
        assert!(texts.without_date().is_none());
    }
}
