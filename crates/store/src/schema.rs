//! The schema of a table: its columns, its time column, its symbol column and the time zone of its dates.
//!
//! - Rows of a partition are ordered by (symbol, time, arrival); arrival is the order in which rows came in.
//! - Names are kept as written and matched without regard to case; two columns may not differ in case alone.
//! - The time column holds no nulls; every other column may.

pub(crate) mod reference;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::dates::Dates;
use crate::error::{Error, Result};
use crate::folder_layout;
use crate::partition::{DayStart, Period};
use crate::publish::Publish;
use crate::tier::Tier;

pub use reference::{REFERENCE_ROWS_MAX, Reference};

/// Name of the virtual column that holds a row's partition.
pub const DATE_COLUMN: &str = "date";

/// Longest table or column name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// Most columns of a table.
pub const COLUMNS_MAX: usize = 4096;

/// Type of a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// True or false.
    Bool,
    /// Signed integers of 8, 16, 32 and 64 bits.
    Int8,
    /// See [`ColumnType::Int8`].
    Int16,
    /// See [`ColumnType::Int8`].
    Int32,
    /// See [`ColumnType::Int8`].
    Int64,
    /// Unsigned integers of 8, 16, 32 and 64 bits.
    UInt8,
    /// See [`ColumnType::UInt8`].
    UInt16,
    /// See [`ColumnType::UInt8`].
    UInt32,
    /// See [`ColumnType::UInt8`].
    UInt64,
    /// IEEE 754 floats of 32 and 64 bits; prices and sizes unless the schema asks for decimal.
    Float32,
    /// See [`ColumnType::Float32`].
    Float64,
    /// Exact decimal with `precision` digits (at most 38), `scale` of them after the point.
    Decimal {
        /// All digits, 1 to 38.
        precision: u8,
        /// Digits after the point, 0 to `precision`.
        scale: i8,
    },
    /// Calendar day.
    Date,
    /// Time of day in nanoseconds since midnight.
    Time,
    /// Instant in nanoseconds since 1970-01-01T00:00:00Z.
    Timestamp,
    /// Text of few distinct values (a dictionary): symbols, venues, conditions.
    Symbol,
    /// Free text.
    Text,
    /// List of a fixed number of floats, for book levels.
    Levels {
        /// Items of each list.
        size: i32,
    },
}

impl ColumnType {
    /// The Arrow type in which the column is stored and queried.
    #[must_use]
    pub fn arrow(&self) -> DataType {
        match self {
            ColumnType::Bool => DataType::Boolean,
            ColumnType::Int8 => DataType::Int8,
            ColumnType::Int16 => DataType::Int16,
            ColumnType::Int32 => DataType::Int32,
            ColumnType::Int64 => DataType::Int64,
            ColumnType::UInt8 => DataType::UInt8,
            ColumnType::UInt16 => DataType::UInt16,
            ColumnType::UInt32 => DataType::UInt32,
            ColumnType::UInt64 => DataType::UInt64,
            ColumnType::Float32 => DataType::Float32,
            ColumnType::Float64 => DataType::Float64,
            ColumnType::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale),
            ColumnType::Date => DataType::Date32,
            ColumnType::Time => DataType::Time64(TimeUnit::Nanosecond),
            ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            ColumnType::Symbol => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            ColumnType::Text => DataType::Utf8,
            ColumnType::Levels { size } => {
                DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float64, true)), *size)
            }
        }
    }

    /// The column type that keeps values of an Arrow type without loss, or `None` where there is none.
    /// Text becomes [`ColumnType::Text`], dictionaries of text [`ColumnType::Symbol`], timestamps of any unit
    /// [`ColumnType::Timestamp`].
    #[must_use]
    pub fn from_arrow(data_type: &DataType) -> Option<ColumnType> {
        Some(match data_type {
            DataType::Boolean => ColumnType::Bool,
            DataType::Int8 => ColumnType::Int8,
            DataType::Int16 => ColumnType::Int16,
            DataType::Int32 => ColumnType::Int32,
            DataType::Int64 => ColumnType::Int64,
            DataType::UInt8 => ColumnType::UInt8,
            DataType::UInt16 => ColumnType::UInt16,
            DataType::UInt32 => ColumnType::UInt32,
            DataType::UInt64 => ColumnType::UInt64,
            DataType::Float16 | DataType::Float32 => ColumnType::Float32,
            DataType::Float64 => ColumnType::Float64,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale) => ColumnType::Decimal { precision: *precision, scale: *scale },
            DataType::Date32 | DataType::Date64 => ColumnType::Date,
            DataType::Time32(_) | DataType::Time64(_) => ColumnType::Time,
            DataType::Timestamp(_, _) => ColumnType::Timestamp,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Text,
            DataType::Dictionary(_, values)
                if matches!(values.as_ref(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) =>
            {
                ColumnType::Symbol
            }
            DataType::FixedSizeList(item, size) if item.data_type().is_numeric() => ColumnType::Levels { size: *size },
            _ => return None,
        })
    }

    /// The name of an Arrow type as people read it: that of the column type that takes such values, or Arrow's if there is none.
    #[must_use]
    pub fn name_of(data_type: &DataType) -> String {
        ColumnType::from_arrow(data_type).map_or_else(|| data_type.to_string(), |own| own.to_string())
    }

    /// Whether every value of `self` is also a value of `wider`, so that a column may be widened to it.
    #[must_use]
    pub fn widens_to(&self, wider: &ColumnType) -> bool {
        use ColumnType::{Float32, Float64, Int8, Int16, Int32, Int64, Symbol, Text, UInt8, UInt16, UInt32, UInt64};
        match (self, wider) {
            (Int8, Int16 | Int32 | Int64 | Float32 | Float64)
            | (Int16, Int32 | Int64 | Float32 | Float64)
            | (Int32, Int64 | Float64)
            | (UInt8, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64 | Float32 | Float64)
            | (UInt16, UInt32 | UInt64 | Int32 | Int64 | Float32 | Float64)
            | (UInt32, UInt64 | Int64 | Float64)
            | (Float32, Float64)
            | (Symbol, Text) => true,
            (
                ColumnType::Decimal { precision: p, scale: s },
                ColumnType::Decimal { precision: wider_p, scale: wider_s },
            ) => {
                (p, s) != (wider_p, wider_s)
                    && wider_s >= s
                    && i16::from(*wider_p) - i16::from(*wider_s) >= i16::from(*p) - i16::from(*s)
            }
            _ => false,
        }
    }

    /// Whether the index keeps extremes and sums of the column.
    #[must_use]
    pub fn is_summarised(&self) -> bool {
        use ColumnType::{
            Date, Float32, Float64, Int8, Int16, Int32, Int64, Time, Timestamp, UInt8, UInt16, UInt32, UInt64,
        };
        matches!(
            self,
            Int8 | Int16
                | Int32
                | Int64
                | UInt8
                | UInt16
                | UInt32
                | UInt64
                | Float32
                | Float64
                | Date
                | Time
                | Timestamp
        )
    }
}

impl std::fmt::Display for ColumnType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ColumnType::Bool => write!(f, "bool"),
            ColumnType::Int8 => write!(f, "int8"),
            ColumnType::Int16 => write!(f, "int16"),
            ColumnType::Int32 => write!(f, "int32"),
            ColumnType::Int64 => write!(f, "int64"),
            ColumnType::UInt8 => write!(f, "uint8"),
            ColumnType::UInt16 => write!(f, "uint16"),
            ColumnType::UInt32 => write!(f, "uint32"),
            ColumnType::UInt64 => write!(f, "uint64"),
            ColumnType::Float32 => write!(f, "float32"),
            ColumnType::Float64 => write!(f, "float64"),
            ColumnType::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            ColumnType::Date => write!(f, "date"),
            ColumnType::Time => write!(f, "time"),
            ColumnType::Timestamp => write!(f, "timestamp"),
            ColumnType::Symbol => write!(f, "symbol"),
            ColumnType::Text => write!(f, "text"),
            ColumnType::Levels { size } => write!(f, "levels({size})"),
        }
    }
}

impl std::str::FromStr for ColumnType {
    type Err = String;

    /// Reads what [`Display`](std::fmt::Display) writes, without regard to case.
    fn from_str(text: &str) -> Result<ColumnType, String> {
        let lower = text.trim().to_ascii_lowercase();
        let arguments = |prefix: &str| -> Option<Vec<i32>> {
            let inner = lower.strip_prefix(prefix)?.trim().strip_prefix('(')?.strip_suffix(')')?;
            inner.split(',').map(|n| n.trim().parse().ok()).collect()
        };
        Ok(match lower.as_str() {
            "bool" => ColumnType::Bool,
            "int8" => ColumnType::Int8,
            "int16" => ColumnType::Int16,
            "int32" => ColumnType::Int32,
            "int64" => ColumnType::Int64,
            "uint8" => ColumnType::UInt8,
            "uint16" => ColumnType::UInt16,
            "uint32" => ColumnType::UInt32,
            "uint64" => ColumnType::UInt64,
            "float32" => ColumnType::Float32,
            "float64" => ColumnType::Float64,
            "date" => ColumnType::Date,
            "time" => ColumnType::Time,
            "timestamp" => ColumnType::Timestamp,
            "symbol" => ColumnType::Symbol,
            "text" => ColumnType::Text,
            _ => match (arguments("decimal").as_deref(), arguments("levels").as_deref()) {
                (Some(&[precision @ 1..=38, scale]), _) if (0..=precision).contains(&scale) => ColumnType::Decimal {
                    precision: u8::try_from(precision).map_err(|e| e.to_string())?,
                    scale: i8::try_from(scale).map_err(|e| e.to_string())?,
                },
                (_, Some(&[size @ 1..=1024])) => ColumnType::Levels { size },
                _ => {
                    return Err(format!(
                        "{text:?} is not a column type; there are bool, int8, int16, int32, int64, uint8, uint16, uint32, \
                         uint64, float32, float64, decimal(P,S), date, time, timestamp, symbol, text, levels(N) with N up to 1024"
                    ));
                }
            },
        })
    }
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSpec {
    /// Name as written; matched without regard to case.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    pub column_type: ColumnType,
    /// Names that it had before, by which older files have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub formerly: Vec<String>,
}

impl ColumnSpec {
    /// A column.
    pub fn new(name: impl Into<String>, column_type: ColumnType) -> ColumnSpec {
        ColumnSpec { name: name.into(), column_type, formerly: Vec::new() }
    }

    /// Its position in a file that was written under its name or an earlier one.
    pub(crate) fn position_in(&self, stored: &Schema) -> Option<usize> {
        let of = |name: &String| stored.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
        of(&self.name).or_else(|| self.formerly.iter().find_map(of))
    }
}

/// The definition of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSpec {
    /// Name of the table.
    pub name: String,
    /// Columns in the order in which `select *` gives them.
    pub columns: Vec<ColumnSpec>,
    /// Name of the time column, of type [`ColumnType::Timestamp`].
    pub time: String,
    /// Name of the column by which rows are ordered before time, of type [`ColumnType::Symbol`]; none for a table of one series.
    pub symbol: Option<String>,
    /// IANA time zone in which a row's date is taken. Default `UTC`.
    pub time_zone: String,
    /// The period that a partition spans. Default: a date.
    #[serde(default, skip_serializing_if = "Period::is_day")]
    pub partition: Period,
    /// When a date begins, by the clock of that zone. Default: at midnight.
    #[serde(default, skip_serializing_if = "DayStart::is_midnight")]
    pub day_start: DayStart,
    /// How long rows are retained. Default: for ever.
    #[serde(default, skip_serializing_if = "Retention::is_unbounded")]
    pub retention: Retention,
    /// The tiers of rows by the age of their date; ages ascending. Default: the tier in which they are loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierRule>,
    /// The form in which other engines are to read its Parquet segments. Default none, with the smallest segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<Publish>,
    /// Of the rows of a materialized view: whether statements over the table of the view read them. Default: as [`View::query_rewrite`](crate::View) says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_rewrite: Option<bool>,
    /// Names of columns that were dropped. Older files have them still, so that no other column may get such a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// The key and effective dates of a reference table. Default: none, which makes it a table of rows over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
}

/// The tier of rows from an age on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierRule {
    /// Days that a date is older than the table's newest.
    pub after: u32,
    /// The tier from then on.
    pub tier: Tier,
}

/// How long a table keeps its rows. Older rows are removed by whole dates; the newest date is always kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Days that the table has, the newest date's among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// Bytes of segments and indexes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl Retention {
    /// Whether rows stay for ever.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        self.days.is_none() && self.bytes.is_none()
    }
}

/// The lifecycle of rows: how long they are retained, in which tiers, and for which readers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// How long rows stay.
    pub retention: Retention,
    /// How rows are kept, by the age of their date, in any order. Of two rules for an age the later one counts.
    pub tiers: Vec<TierRule>,
    /// The form in which others are to read its Parquet segments, if they are.
    pub publish: Option<Publish>,
    /// As [`TableSpec::query_rewrite`].
    pub query_rewrite: Option<bool>,
}

impl TableSpec {
    /// The table's [`Lifecycle`].
    #[must_use]
    pub fn lifecycle(&self) -> Lifecycle {
        Lifecycle {
            retention: self.retention,
            tiers: self.tiers.clone(),
            publish: self.publish,
            query_rewrite: self.query_rewrite,
        }
    }

    /// Gives the table another one. Rules of tiers that say nothing new are left out.
    pub fn set_lifecycle(&mut self, lifecycle: Lifecycle) {
        let by_age: BTreeMap<u32, TierRule> = lifecycle.tiers.into_iter().map(|rule| (rule.after, rule)).collect();
        self.retention = lifecycle.retention;
        self.publish = lifecycle.publish;
        self.query_rewrite = lifecycle.query_rewrite;
        self.tiers = by_age.into_values().collect();
        self.tiers.dedup_by_key(|rule| rule.tier);
    }

    /// The tier of a partition by the age of its last date, if the table has one for it. Partitions are given by their first dates.
    #[must_use]
    pub fn tier_of(&self, partition: i32, newest: i32) -> Option<Tier> {
        let age = newest.saturating_sub(self.partition.last(partition)).max(0).unsigned_abs();
        self.tiers.iter().rev().find(|rule| rule.after <= age).map(|rule| rule.tier)
    }

    /// Sets the tier from an age on. Rules that say nothing new are left out.
    pub fn set_tier(&mut self, rule: TierRule) {
        let mut lifecycle = self.lifecycle();
        lifecycle.tiers.push(rule);
        self.set_lifecycle(lifecycle);
    }

    /// A table with dates in UTC. Call [`TableSpec::validate`] before use; every store call does.
    pub fn new(
        name: impl Into<String>,
        columns: Vec<ColumnSpec>,
        time: impl Into<String>,
        symbol: Option<&str>,
    ) -> TableSpec {
        TableSpec {
            name: name.into(),
            columns,
            time: time.into(),
            symbol: symbol.map(str::to_owned),
            time_zone: "UTC".to_owned(),
            partition: Period::Day,
            day_start: DayStart::default(),
            retention: Retention::default(),
            tiers: Vec::new(),
            publish: None,
            query_rewrite: None,
            dropped: Vec::new(),
            reference: None,
        }
    }

    /// This table with its dates in another time zone.
    #[must_use]
    pub fn with_time_zone(mut self, time_zone: impl Into<String>) -> TableSpec {
        self.time_zone = time_zone.into();
        self
    }

    /// This table with partitions of another period.
    #[must_use]
    pub fn with_partition(mut self, partition: Period) -> TableSpec {
        self.partition = partition;
        self
    }

    /// Finds the partitions of instants: the first date of each.
    ///
    /// # Errors
    /// As [`TableSpec::zone`].
    pub fn partitions(&self) -> Result<Dates> {
        Ok(self.dates()?.by(self.partition))
    }

    /// This table with dates that begin at another time of day.
    #[must_use]
    pub fn with_day_start(mut self, day_start: DayStart) -> TableSpec {
        self.day_start = day_start;
        self
    }

    /// Finds the dates of instants.
    ///
    /// # Errors
    /// As [`TableSpec::zone`].
    pub fn dates(&self) -> Result<Dates> {
        Ok(Dates::new(self.zone()?).starting_at(self.day_start))
    }

    /// In which zone its dates are, and when they begin if that isn't midnight: `America/Chicago from 17:00 of the day before`.
    #[must_use]
    pub fn dates_in(&self) -> String {
        match self.day_start.is_midnight() {
            true => self.time_zone.clone(),
            false => format!("{} from {} of the day before", self.time_zone, self.day_start),
        }
    }

    /// Position of a column, matched without regard to case.
    #[must_use]
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name.eq_ignore_ascii_case(column))
    }

    /// Position of the time column.
    #[must_use]
    pub fn time_position(&self) -> usize {
        self.position(&self.time).unwrap_or(0)
    }

    /// Position of the symbol column.
    #[must_use]
    pub fn symbol_position(&self) -> Option<usize> {
        self.symbol.as_deref().and_then(|symbol| self.position(symbol))
    }

    /// Whether SQL shows the virtual column `date`: it does unless the table has a column of that name, or no dates.
    #[must_use]
    pub fn has_virtual_date(&self) -> bool {
        self.reference.is_none() && self.position(DATE_COLUMN).is_none()
    }

    /// The stored columns as an Arrow schema, without the virtual column `date`.
    #[must_use]
    pub fn arrow(&self) -> SchemaRef {
        let required = self.required();
        let fields = self.columns.iter().enumerate();
        Arc::new(Schema::new(
            fields.map(|(i, c)| Field::new(&c.name, c.column_type.arrow(), !required.contains(&i))).collect::<Vec<_>>(),
        ))
    }

    /// The time zone in which dates are taken.
    ///
    /// # Errors
    /// [`Error::Schema`] for a name that the time zone database doesn't have.
    pub fn zone(&self) -> Result<chrono_tz::Tz> {
        self.time_zone.parse().map_err(|_| self.error(format!("{:?} is not an IANA time zone", self.time_zone)))
    }

    /// Checks names, types and roles.
    ///
    /// # Errors
    /// [`Error::Name`] for a name that can't be stored, [`Error::Schema`] for all else.
    pub fn validate(&self) -> Result<()> {
        validate_name("table", &self.name)?;
        if self.columns.is_empty() || self.columns.len() > COLUMNS_MAX {
            return Err(self.error(format!("a table has 1 to {COLUMNS_MAX} columns, not {}", self.columns.len())));
        }
        let mut seen = std::collections::HashSet::new();
        for column in &self.columns {
            validate_column_name(&column.name)?;
            if column.column_type.to_string().parse().as_ref() != Ok(&column.column_type) {
                return Err(
                    self.error(format!("{:?} has the type {}, which doesn't exist", column.name, column.column_type))
                );
            }
            let is_taken = |name: &String| name.eq_ignore_ascii_case(&column.name);
            let others = self.columns.iter().filter(|other| !std::ptr::eq(*other, column));
            if self.dropped.iter().any(is_taken) || others.flat_map(|other| &other.formerly).any(is_taken) {
                return Err(self.error(format!(
                    "{:?} was the name of a column that was dropped or renamed, and older files still have that column: choose another name",
                    column.name
                )));
            }
            if !seen.insert(column.name.to_ascii_lowercase()) {
                return Err(self.error(format!(
                    "two columns are named {:?}; names that differ only in case are equal",
                    column.name
                )));
            }
        }
        if let Some(of_reference) = &self.reference {
            reference::validate(self, of_reference)?;
        }
        match self.position(&self.time).map(|i| &self.columns[i].column_type) {
            Some(ColumnType::Timestamp) => {}
            Some(other) => {
                return Err(self.error(format!("the time column {:?} is {other}, not timestamp", self.time)));
            }
            None => return Err(self.error(format!("the time column {:?} is not among the columns", self.time))),
        }
        if let Some(symbol) = &self.symbol {
            match self.position(symbol).map(|i| &self.columns[i].column_type) {
                Some(ColumnType::Symbol) => {}
                Some(other) => return Err(self.error(format!("the symbol column {symbol:?} is {other}, not symbol"))),
                None => return Err(self.error(format!("the symbol column {symbol:?} is not among the columns"))),
            }
        }
        self.zone().map(|_| ())
    }

    pub(crate) fn error(&self, reason: String) -> Error {
        Error::Schema { table: self.name.clone(), reason }
    }
}

/// Checks a table name: 1 to [`NAME_BYTES_MAX`] of `A-Z a-z 0-9 _ . -`, not beginning with a dot, so that it is safe as a folder.
///
/// # Errors
/// [`Error::Name`].
pub fn validate_name(what: &'static str, name: &str) -> Result<()> {
    let wrong = |reason| Err(Error::Name { what, name: name.to_owned(), reason });
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return wrong("it must have 1 to 128 bytes");
    }
    if name.starts_with('.') {
        return wrong("it may not begin with a dot");
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')) {
        return wrong("only A-Z, a-z, 0-9, _, . and - are allowed");
    }
    if folder_layout::FILES.iter().any(|file| name.eq_ignore_ascii_case(file)) {
        return wrong("a file of the database has this name");
    }
    Ok(())
}

/// The suffix of a quarantine's name behind its table's. Capture makes these tables, for rows too far ahead of the clock.
pub const QUARANTINE: &str = "_quarantine";

/// Names of symbol columns, the likeliest first: a column of texts that has one is the symbol column of a new table.
pub const SYMBOL_NAMES: [&str; 10] =
    ["sym", "symbol", "ticker", "instrument", "instrument_name", "pair", "product", "product_id", "code", "security"];

/// Refuses a new table or view with a name that is reserved for a quarantine: it would get rows that other senders
/// quarantine.
///
/// # Errors
/// [`Error::Name`].
pub fn refuse_quarantine_name(what: &'static str, name: &str) -> Result<()> {
    if !name.to_ascii_lowercase().ends_with(QUARANTINE) {
        return Ok(());
    }
    let reason = "names that end in _quarantine are reserved for rows too far ahead of the clock, for which capture makes tables";
    Err(Error::Name { what, name: name.to_owned(), reason })
}

fn validate_column_name(name: &str) -> Result<()> {
    let wrong = |reason| Err(Error::Name { what: "column", name: name.to_owned(), reason });
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return wrong("it must have 1 to 128 bytes");
    }
    if name.chars().any(|c| c.is_control() || c == '"') {
        return wrong("control characters and double quotes are not allowed");
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn trade() -> TableSpec {
        TableSpec::new(
            "trade",
            vec![
                ColumnSpec::new("time", ColumnType::Timestamp),
                ColumnSpec::new("sym", ColumnType::Symbol),
                ColumnSpec::new("price", ColumnType::Float64),
            ],
            "time",
            Some("sym"),
        )
    }

    #[test]
    fn a_sound_spec_is_accepted() {
        trade().validate().unwrap();
        assert_eq!(trade().position("PRICE"), Some(2));
    }

    #[test]
    fn bad_specs_are_refused() {
        let mut names = trade();
        names.columns.push(ColumnSpec::new("Price", ColumnType::Int64));
        assert!(names.validate().unwrap_err().to_string().contains("differ only in case"));

        let mut zone = trade();
        zone.time_zone = "Mars/Base".to_owned();
        assert!(zone.validate().unwrap_err().to_string().contains("IANA"));

        let mut time = trade();
        time.time = "price".to_owned();
        assert!(time.validate().unwrap_err().to_string().contains("not timestamp"));

        let mut name = trade();
        name.name = "../etc".to_owned();
        assert!(name.validate().is_err());
    }

    #[test]
    fn the_last_rule_of_an_age_counts_and_equal_neighbours_are_one() {
        let rule = |after, tier| TierRule { after, tier };
        let mut spec = trade();
        let tiers = [(90, Tier::Small), (10, Tier::Small), (50, Tier::Mapped), (50, Tier::Fast), (0, Tier::Fast)];
        let tiers = tiers.map(|(after, tier)| rule(after, tier)).to_vec();
        spec.set_lifecycle(Lifecycle { tiers, ..Lifecycle::default() });
        let expected = [rule(0, Tier::Fast), rule(10, Tier::Small), rule(50, Tier::Fast), rule(90, Tier::Small)];
        assert_eq!(spec.tiers, expected);
        spec.set_tier(rule(50, Tier::Small));
        assert_eq!(spec.tiers, expected[..2]);
    }

    #[test]
    fn every_type_is_read_back_from_its_name() {
        let types = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 decimal(18,4) date time \
                     timestamp symbol text levels(20)";
        for name in types.split_whitespace() {
            let column_type: ColumnType = name.parse().unwrap();
            assert_eq!(column_type.to_string(), name);
            assert_eq!(ColumnType::from_arrow(&column_type.arrow()), Some(column_type));
        }
        assert!("decimal(40,2)".parse::<ColumnType>().is_err());
        assert!("decimal(4,5)".parse::<ColumnType>().is_err());
        assert!("varchar".parse::<ColumnType>().is_err());
    }
}
