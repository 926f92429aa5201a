//! The names of types in casts: those of DuckDB, PostgreSQL and SplayDB beside those that DataFusion 55.2 plans.
//!
//! | Type | Names |
//! | --- | --- |
//! | whole numbers | `int1`, `int16`, `short`, `int32`, `signed`, `integral`, `int64`, `long`, `oid` |
//! | whole numbers from 0 on | `utinyint`, `uint8`, `usmallint`, `uint16`, `uinteger`, `uint32`, `unsigned`, `ubigint`, `uint64` |
//! | floats, decimals | `float32`, `float64`, `dec` |
//! | booleans | `logical` |
//! | texts | `bpchar`, `nvarchar`, `character`, `character varying`, `clob`, `name`, `symbol` |
//! | bytes | `blob`, `binary`, `varbinary`, `bytes` |
//! | times | `datetime`, `timestamp_s`, `timestamp_ms`, `timestamp_us`, `timestamp_ns` |
//!
//! In a cast `int8` has eight bytes, as in both of these systems. Types that SplayDB doesn't have are refused by name, with the type to use.
//!
//! - <https://duckdb.org/docs/stable/sql/data_types/overview>
//! - <https://www.postgresql.org/docs/current/datatype.html>

use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, Expr, TimezoneInfo};

use crate::error::{Error, Result};

/// Writes the type of a cast by a name that the planner knows.
///
/// # Errors
/// [`Error::Statement`] for a type that isn't here.
pub(super) fn complete(expression: &mut Expr) -> Result<()> {
    match expression {
        Expr::Cast { data_type, .. } => settle(data_type),
        Expr::TypedString(text) => settle(&mut text.data_type),
        _ => Ok(()),
    }
}

fn settle(data_type: &mut DataType) -> Result<()> {
    match data_type {
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(item, _)
            | ArrayElemTypeDef::AngleBracket(item)
            | ArrayElemTypeDef::Parenthesis(item),
        ) => return settle(item),
        DataType::Struct(fields, _) => return fields.iter_mut().try_for_each(|field| settle(&mut field.field_type)),
        // With its digits.
        DataType::Dec(digits) => {
            *data_type = DataType::Decimal(*digits);
            return Ok(());
        }
        _ => {}
    }
    let written = data_type.to_string().to_lowercase();
    // A length has no effect, as in DuckDB.
    let name = written.split('(').next().unwrap_or_default().trim();
    if let Some(known) = known(name) {
        *data_type = known;
        return Ok(());
    }
    match instead(name) {
        Some(instead) => Err(Error::Statement { message: format!("there is no type {name}: {instead}") }),
        None => Ok(()),
    }
}

/// The type by another name.
fn known(name: &str) -> Option<DataType> {
    let time = |digits| Some(DataType::Timestamp(digits, TimezoneInfo::None));
    Some(match name {
        "int1" => DataType::TinyInt(None),
        "int16" | "short" => DataType::SmallInt(None),
        "int32" | "signed" | "signed integer" | "integral" => DataType::Integer(None),
        "int64" | "long" | "oid" => DataType::BigInt(None),
        "utinyint" | "uint8" => DataType::TinyIntUnsigned(None),
        "usmallint" | "uint16" => DataType::SmallIntUnsigned(None),
        "uinteger" | "uint32" | "unsigned" | "unsigned integer" => DataType::IntegerUnsigned(None),
        "ubigint" | "uint64" => DataType::BigIntUnsigned(None),
        "float32" => DataType::Real,
        "float64" => DataType::DoublePrecision,
        "logical" => DataType::Boolean,
        "bpchar"
        | "nvarchar"
        | "character"
        | "character varying"
        | "char varying"
        | "character large object"
        | "char large object"
        | "clob"
        | "name"
        | "symbol" => DataType::Text,
        "blob" | "binary" | "varbinary" | "bytes" => DataType::Bytea,
        "datetime" | "timestamp_ns" => return time(None),
        "timestamp_us" => return time(Some(6)),
        "timestamp_ms" => return time(Some(3)),
        "timestamp_s" => return time(Some(0)),
        _ => return None,
    })
}

/// What to write in place of a type that isn't here.
fn instead(name: &str) -> Option<&'static str> {
    Some(match name {
        "hugeint" | "uhugeint" | "int128" | "uint128" | "int256" | "uint256" => {
            "whole numbers of more than 64 bits are decimal(38, 0)"
        }
        "timetz" | "time with time zone" => "a time of day has no zone, write time",
        "uuid" | "guid" | "json" | "jsonb" | "xml" => "write text",
        "money" => "write decimal(18, 2)",
        "bit" | "bit varying" | "varbit" => "write bytea, or a whole number",
        _ => return None,
    })
}
