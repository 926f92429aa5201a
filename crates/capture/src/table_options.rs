//! A sender's options for the table of its rows: how to create it, or which schema the sender expects.

use arrow::array::{Array, RecordBatch};
use splay_store::{ColumnSpec, ColumnType, DATE_COLUMN, DayStart, SYMBOL_NAMES, TableSpec};

use crate::conform::conform;
use crate::error::{Error, Result};

/// A sender's options for the table of its rows. A missing option has its default for a new table, and is not checked
/// for an existing one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// Time column. Default: the first of timestamps.
    pub time: Option<String>,
    /// Symbol column; an empty name for none. Default: the first of symbols, else a column of texts with a usual name (`sym`, `symbol` and others).
    pub symbol: Option<String>,
    /// Time zone of its dates. Default UTC.
    pub time_zone: Option<String>,
    /// When its dates begin by the clock of that zone. Default midnight.
    pub day_start: Option<DayStart>,
    /// Types of columns by name.
    pub types: Vec<(String, ColumnType)>,
}

impl TableOptions {
    /// A table for the columns whose types are named.
    ///
    /// # Errors
    /// [`Error::Rejected`] if no column can be the time, or a wish names none.
    pub fn table(&self, name: &str) -> Result<TableSpec> {
        let columns =
            self.types.iter().map(|(column, column_type)| ColumnSpec::new(column.clone(), column_type.clone()));
        self.of_columns(name, columns.collect())
    }

    /// A table for rows. If the rows have a column `date` that is the date of each row's time, it isn't one of the table's columns.
    ///
    /// # Errors
    /// As [`TableOptions::table`], and for columns that a table can't hold.
    pub fn table_for(&self, name: &str, rows: &RecordBatch) -> Result<TableSpec> {
        let column = |field: &arrow::datatypes::FieldRef| -> Result<ColumnSpec> {
            let option = self.types.iter().find(|(column, _)| column.eq_ignore_ascii_case(field.name()));
            let column_type = option
                .map(|(_, column_type)| column_type.clone())
                .or_else(|| ColumnType::from_arrow(field.data_type()));
            let column_type = column_type.ok_or_else(|| {
                Error::rejected(
                    name,
                    format!("column {:?} is {}, which a table can't hold", field.name(), field.data_type()),
                )
            })?;
            Ok(ColumnSpec::new(field.name().clone(), column_type))
        };
        let spec = self.of_columns(name, rows.schema_ref().fields().iter().map(column).collect::<Result<_>>()?)?;
        let is_wished = self.types.iter().any(|(column, _)| column.eq_ignore_ascii_case(DATE_COLUMN));
        let other = spec.without_date().filter(|other| !is_wished && has_its_dates(other, rows));
        Ok(other.unwrap_or(spec))
    }

    fn of_columns(&self, name: &str, mut columns: Vec<ColumnSpec>) -> Result<TableSpec> {
        let place = |columns: &[ColumnSpec], column: &str| {
            let position = columns.iter().position(|column_spec| column_spec.name.eq_ignore_ascii_case(column));
            position.ok_or_else(|| Error::rejected(name, format!("there is no column {column:?}")))
        };
        let first = |columns: &[ColumnSpec], column_type: &ColumnType| {
            columns.iter().position(|c| c.column_type == *column_type)
        };
        let time = match &self.time {
            Some(time) => place(&columns, time)?,
            None => first(&columns, &ColumnType::Timestamp)
                .ok_or_else(|| {
                    let named = columns.iter().map(|column| format!("{} {}", column.name, column.column_type));
                    let named: Vec<String> = named.collect();
                    let there = if named.is_empty() { "no types are given".to_owned() } else { named.join(", ") };
                    Error::rejected(
                        name,
                        format!(
                            "rows for a new table need a column of timestamps ({there}); of lines of text the types have to be given, such as \
                             time=timestamp (--type, types)"
                        ),
                    )
                })?,
        };
        if !matches!(columns[time].column_type, ColumnType::Timestamp | ColumnType::Int64 | ColumnType::Date) {
            let (column, column_type) = (&columns[time].name, &columns[time].column_type);
            return Err(Error::rejected(name, format!("the time column {column:?} is {column_type}, not a timestamp")));
        }
        // Whole numbers are taken for nanoseconds.
        columns[time].column_type = ColumnType::Timestamp;
        let symbol = match self.symbol.as_deref() {
            Some("") => None,
            Some(symbol) => Some(place(&columns, symbol)?),
            None => first(&columns, &ColumnType::Symbol).or_else(|| self.named_symbol(&columns)),
        };
        if let Some(symbol) = symbol {
            if !matches!(columns[symbol].column_type, ColumnType::Symbol | ColumnType::Text) {
                let (column, column_type) = (&columns[symbol].name, &columns[symbol].column_type);
                return Err(Error::rejected(name, format!("the symbol column {column:?} is {column_type}, not text")));
            }
            columns[symbol].column_type = ColumnType::Symbol;
        }
        let (time, symbol) = (columns[time].name.clone(), symbol.map(|symbol| columns[symbol].name.clone()));
        let spec = TableSpec::new(name, columns, time, symbol.as_deref());
        let spec = spec.with_time_zone(self.time_zone.as_deref().unwrap_or("UTC"));
        let spec = spec.with_day_start(self.day_start.unwrap_or_default());
        spec.validate()?;
        Ok(spec)
    }

    /// The column of texts that has the name of a symbol column. A text that was asked for stays one.
    fn named_symbol(&self, columns: &[ColumnSpec]) -> Option<usize> {
        let has_type = |name: &str| self.types.iter().any(|(column, _)| column.eq_ignore_ascii_case(name));
        let is_found = |column: &ColumnSpec, name: &str| {
            column.name.eq_ignore_ascii_case(name) && column.column_type == ColumnType::Text && !has_type(name)
        };
        SYMBOL_NAMES.iter().find_map(|name| columns.iter().position(|column| is_found(column, name)))
    }

    /// Checks that an existing table has these options. Types may name further columns.
    ///
    /// # Errors
    /// [`Error::Rejected`] that names what is otherwise.
    pub fn check(&self, spec: &TableSpec) -> Result<()> {
        let otherwise = |what: &str, is: &str, expected: &str| {
            Err(Error::rejected(&spec.name, format!("its {what} is {is:?}, not {expected:?}")))
        };
        if let Some(time) = self.time.as_deref().filter(|time| !time.eq_ignore_ascii_case(&spec.time)) {
            return otherwise("time column", &spec.time, time);
        }
        let symbol = spec.symbol.as_deref().unwrap_or_default();
        if let Some(expected) = self.symbol.as_deref().filter(|expected| !expected.eq_ignore_ascii_case(symbol)) {
            return otherwise("symbol column", symbol, expected);
        }
        if let Some(zone) = self.time_zone.as_deref().filter(|zone| *zone != spec.time_zone) {
            return otherwise("time zone", &spec.time_zone, zone);
        }
        if let Some(start) = self.day_start.filter(|start| *start != spec.day_start) {
            return otherwise("start of a day", &spec.day_start.to_string(), &start.to_string());
        }
        for (column, expected) in &self.types {
            let column_type = spec.position(column).map(|place| &spec.columns[place].column_type);
            if let Some(column_type) = column_type.filter(|column_type| *column_type != expected) {
                return otherwise(&format!("column {column:?}"), &column_type.to_string(), &expected.to_string());
            }
        }
        Ok(())
    }

    /// Columns that a table shall be given.
    #[must_use]
    pub fn more(&self, spec: &TableSpec) -> Vec<ColumnSpec> {
        let new = self.types.iter().filter(|(column, _)| spec.position(column).is_none());
        new.map(|(column, column_type)| ColumnSpec::new(column.clone(), column_type.clone())).collect()
    }
}

/// Whether each row has a date, and that of its time in a table.
fn has_its_dates(spec: &TableSpec, rows: &RecordBatch) -> bool {
    let dates = rows.schema_ref().fields().iter().position(|field| spec.is_virtual_date(field.name()));
    dates.is_some_and(|place| rows.column(place).logical_null_count() == 0) && conform(spec, rows).is_ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray, TimestampNanosecondArray};

    use super::*;

    fn table_options(time: Option<&str>, symbol: Option<&str>, types: &[(&str, ColumnType)]) -> TableOptions {
        TableOptions {
            time: time.map(str::to_owned),
            symbol: symbol.map(str::to_owned),
            time_zone: Some("America/New_York".to_owned()),
            day_start: Some("17:00".parse().unwrap()),
            types: types.iter().map(|(name, column_type)| ((*name).to_owned(), column_type.clone())).collect(),
        }
    }

    #[test]
    fn a_table_is_made_as_wished_or_not_at_all() {
        let types = [
            ("at", ColumnType::Int64),
            ("t", ColumnType::Timestamp),
            ("s", ColumnType::Text),
            ("v", ColumnType::Symbol),
        ];
        let made = |time, symbol| table_options(time, symbol, &types).table("x");
        let spec = made(None, None).unwrap();
        assert_eq!(
            (spec.time.as_str(), spec.symbol.as_deref(), spec.dates_in().as_str()),
            ("t", Some("v"), "America/New_York from 17:00 of the day before")
        );
        let spec = made(Some("AT"), Some("S")).unwrap();
        assert_eq!((spec.time.as_str(), spec.symbol.as_deref()), ("at", Some("s")));
        assert_eq!(spec.columns[2].column_type, ColumnType::Symbol);
        assert_eq!(made(None, Some("")).unwrap().symbol, None);
        for (time, symbol) in [(Some("other"), None), (Some("s"), None), (None, Some("other")), (None, Some("at"))] {
            assert!(matches!(made(time, symbol), Err(Error::Rejected { .. })), "{time:?} {symbol:?}");
        }
        assert!(table_options(None, None, &types[2..]).table("x").is_err(), "no timestamps");
    }

    #[test]
    fn what_is_there_is_not_taken_for_something_else() {
        let types = [("t", ColumnType::Timestamp), ("s", ColumnType::Symbol)];
        let spec = table_options(None, None, &types).table("x").unwrap();
        let check = |time, symbol, types: &[(&str, ColumnType)]| table_options(time, symbol, types).check(&spec);
        assert!(check(Some("T"), Some("S"), &types).is_ok());
        assert!(check(None, None, &[("new", ColumnType::Date)]).is_ok());
        assert!(check(Some("s"), None, &[]).is_err());
        assert!(check(None, Some(""), &[]).is_err());
        assert!(check(None, None, &[("s", ColumnType::Text)]).is_err());
        assert!(TableOptions { time_zone: Some("UTC".to_owned()), ..TableOptions::default() }.check(&spec).is_err());
        for (start, fits) in [("17:00", true), ("18:00", false), ("00:00", false)] {
            let table_options = TableOptions { day_start: Some(start.parse().unwrap()), ..TableOptions::default() };
            assert_eq!(table_options.check(&spec).is_ok(), fits, "{start}");
        }
        assert_eq!(
            table_options(None, None, &[("s", ColumnType::Symbol), ("new", ColumnType::Date)]).more(&spec).len(),
            1
        );
    }

    fn rows(symbol: &str) -> RecordBatch {
        let columns: [(&str, ArrayRef); 3] = [
            ("time", Arc::new(TimestampNanosecondArray::from(vec![1]))),
            ("note", Arc::new(StringArray::from(vec!["x"]))),
            (symbol, Arc::new(StringArray::from(vec!["A"]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn a_text_with_the_name_of_a_symbol_is_the_symbol() {
        let default = TableOptions::default();
        for name in ["sym", "Symbol", "ticker"] {
            let spec = default.table_for("t", &rows(name)).unwrap();
            assert_eq!(spec.symbol.as_deref(), Some(name));
            assert_eq!(spec.columns[1].column_type, ColumnType::Text, "others stay texts");
            default.check(&spec).unwrap();
        }
        assert_eq!(default.table_for("t", &rows("venue")).unwrap().symbol, None);
        let none = TableOptions { symbol: Some(String::new()), ..TableOptions::default() };
        assert_eq!(none.table_for("t", &rows("sym")).unwrap().symbol, None);
        let text = TableOptions { types: vec![("sym".to_owned(), ColumnType::Text)], ..TableOptions::default() };
        let spec = text.table_for("t", &rows("sym")).unwrap();
        assert_eq!(spec.symbol, None);
        text.check(&spec).unwrap();
    }

    #[test]
    fn a_table_without_a_time_says_what_to_give() {
        let refused = TableOptions::default().table("t").unwrap_err().to_string();
        assert!(refused.contains("no types are given") && refused.contains("--type"), "{refused}");
    }
}
