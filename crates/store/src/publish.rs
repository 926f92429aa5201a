//! The forms in which other engines can read a table's Parquet segments, and the types that columns have in them.

use arrow::datatypes::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

/// The form in which others are to read a table's Parquet segments.
///
/// Floats stay floats, unsigned numbers become wider signed ones, and times of day whole numbers of nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Publish {
    /// Delta table with timestamps. Delta has microseconds: segments with parts of one are refused.
    Delta,
    /// Delta table whose timestamps are whole numbers: nanoseconds since 1970-01-01 UTC.
    DeltaNanos,
}

impl std::str::FromStr for Publish {
    type Err = String;

    fn from_str(text: &str) -> Result<Publish, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "delta" => Ok(Publish::Delta),
            "delta-nanos" => Ok(Publish::DeltaNanos),
            _ => Err(format!("{text:?} is no form to publish a table in; there are delta and delta-nanos")),
        }
    }
}

impl std::fmt::Display for Publish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Publish::Delta => "delta",
            Publish::DeltaNanos => "delta-nanos",
        })
    }
}

impl Publish {
    /// The type that a column of a table has in its files.
    pub(crate) fn stored_type(self, of_table: &DataType) -> DataType {
        match of_table {
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => match self {
                Publish::Delta => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
                Publish::DeltaNanos => DataType::Int64,
            },
            DataType::Time64(_) | DataType::UInt32 => DataType::Int64,
            DataType::UInt8 => DataType::Int16,
            DataType::UInt16 => DataType::Int32,
            DataType::UInt64 => DataType::Decimal128(20, 0),
            other => other.clone(),
        }
    }
}
