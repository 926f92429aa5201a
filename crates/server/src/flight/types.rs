//! Type numbers of columns for ODBC and JDBC.

use std::sync::LazyLock;

use arrow::array::RecordBatch;
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder};
use arrow_flight::sql::{CommandGetXdbcTypeInfo, Nullable, Searchable, XdbcDataType as Xdbc};

use super::metadata::cant_write;
use crate::problem::Outcome;

/// Name, number, size in digits or letters, whether it is a number without a sign, whether it is quoted.
const TYPES: [(&str, Xdbc, Option<i32>, Option<bool>, bool); 18] = [
    ("bool", Xdbc::XdbcBit, Some(1), None, false),
    ("int8", Xdbc::XdbcTinyint, Some(3), Some(false), false),
    ("int16", Xdbc::XdbcSmallint, Some(5), Some(false), false),
    ("int32", Xdbc::XdbcInteger, Some(10), Some(false), false),
    ("int64", Xdbc::XdbcBigint, Some(19), Some(false), false),
    ("uint8", Xdbc::XdbcTinyint, Some(3), Some(true), false),
    ("uint16", Xdbc::XdbcSmallint, Some(5), Some(true), false),
    ("uint32", Xdbc::XdbcInteger, Some(10), Some(true), false),
    ("uint64", Xdbc::XdbcBigint, Some(20), Some(true), false),
    ("float32", Xdbc::XdbcReal, Some(7), Some(false), false),
    ("float64", Xdbc::XdbcDouble, Some(15), Some(false), false),
    ("decimal", Xdbc::XdbcDecimal, Some(38), Some(false), false),
    ("date", Xdbc::XdbcDate, Some(10), None, true),
    ("time", Xdbc::XdbcTime, Some(18), None, true),
    ("timestamp", Xdbc::XdbcTimestamp, Some(29), None, true),
    ("symbol", Xdbc::XdbcVarchar, None, None, true),
    ("text", Xdbc::XdbcVarchar, None, None, true),
    ("levels", Xdbc::XdbcUnknownType, Some(1024), None, false),
];

static DATA: LazyLock<Result<XdbcTypeInfoData, String>> = LazyLock::new(|| {
    let mut builder = XdbcTypeInfoDataBuilder::new();
    for (name, number, size, unsigned, is_quoted) in TYPES {
        let quote = is_quoted.then(|| "'".to_owned());
        let is_number = unsigned.is_some();
        builder.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type: number,
            column_size: size,
            literal_prefix: quote.clone(),
            literal_suffix: quote,
            create_params: (name == "decimal").then(|| vec!["precision".to_owned(), "scale".to_owned()]),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: is_quoted,
            searchable: Searchable::Full,
            unsigned_attribute: unsigned,
            fixed_prec_scale: false,
            auto_increment: is_number.then_some(false),
            local_type_name: Some(name.to_owned()),
            minimum_scale: (name == "decimal").then_some(0),
            maximum_scale: (name == "decimal").then_some(38),
            sql_data_type: number,
            datetime_subcode: None,
            num_prec_radix: is_number.then_some(10),
            interval_precision: None,
        });
    }
    builder.build().map_err(|error: FlightError| error.to_string())
});

/// All types, or those of a number.
pub(super) fn types(command: CommandGetXdbcTypeInfo) -> Outcome<RecordBatch> {
    DATA.as_ref().map_err(cant_write)?.record_batch(command.data_type).map_err(cant_write)
}
