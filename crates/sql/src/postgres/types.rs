//! Types of columns as PostgreSQL names them, by the numbers that clients know.
#![allow(missing_docs, reason = "the numbers have the names of the types")]

use arrow::datatypes::DataType;

pub const BOOL: u32 = 16;
pub const BYTEA: u32 = 17;
pub const INT8: u32 = 20;
pub const INT2: u32 = 21;
pub const INT4: u32 = 23;
pub const TEXT: u32 = 25;
pub const OID: u32 = 26;
pub const FLOAT4: u32 = 700;
pub const FLOAT8: u32 = 701;
pub const UNKNOWN: u32 = 705;
pub const BPCHAR: u32 = 1042;
pub const VARCHAR: u32 = 1043;
pub const NAME: u32 = 19;
pub const DATE: u32 = 1082;
pub const TIME: u32 = 1083;
pub const TIMESTAMP: u32 = 1114;
pub const TIMESTAMPTZ: u32 = 1184;
pub const INTERVAL: u32 = 1186;
pub const NUMERIC: u32 = 1700;

/// A type of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type {
    pub oid: u32,
    /// Bytes of a value; -1 if they differ.
    pub size: i16,
    /// Digits of a numeric; -1 for none.
    pub modifier: i32,
}

impl Type {
    pub const TEXT: Type = Type { oid: TEXT, size: -1, modifier: -1 };

    /// The type in which columns of an Arrow type are sent.
    #[must_use]
    pub fn of(data_type: &DataType) -> Type {
        let (oid, size) = match data_type {
            DataType::Boolean => (BOOL, 1),
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => (INT2, 2),
            DataType::UInt16 | DataType::Int32 => (INT4, 4),
            DataType::UInt32 | DataType::Int64 => (INT8, 8),
            DataType::Float16 | DataType::Float32 => (FLOAT4, 4),
            DataType::Float64 => (FLOAT8, 8),
            DataType::UInt64 => (NUMERIC, -1),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => {
                let digits = |scale| ((i32::from(*precision) << 16) | i32::from(scale)) + 4;
                return Type { oid: NUMERIC, size: -1, modifier: u8::try_from(*scale).map_or(-1, digits) };
            }
            DataType::Date32 | DataType::Date64 => (DATE, 4),
            DataType::Time32(_) | DataType::Time64(_) => (TIME, 8),
            DataType::Timestamp(_, None) => (TIMESTAMP, 8),
            DataType::Timestamp(_, Some(_)) => (TIMESTAMPTZ, 8),
            DataType::Interval(_) | DataType::Duration(_) => (INTERVAL, 16),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                (BYTEA, -1)
            }
            DataType::Dictionary(_, values) => return Type::of(values),
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                (array(Type::of(item.data_type()).oid, item.data_type()), -1)
            }
            _ => (TEXT, -1),
        };
        Type { oid, size, modifier: -1 }
    }
}

/// The type of lists of a type; text for types without one.
fn array(item: u32, data_type: &DataType) -> u32 {
    if data_type.is_nested() {
        return TEXT;
    }
    match item {
        BOOL => 1000,
        BYTEA => 1001,
        INT2 => 1005,
        INT4 => 1007,
        TEXT => 1009,
        INT8 => 1016,
        FLOAT4 => 1021,
        FLOAT8 => 1022,
        TIMESTAMP => 1115,
        DATE => 1182,
        TIME => 1183,
        TIMESTAMPTZ => 1185,
        INTERVAL => 1187,
        NUMERIC => 1231,
        _ => TEXT,
    }
}

/// The type of a list's items, if it is sent as an array.
#[must_use]
pub fn item(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            (Type::of(data_type).oid != TEXT).then(|| item.data_type())
        }
        _ => None,
    }
}

/// The number of an array's item type by that of the array.
#[must_use]
pub fn item_of(array: u32) -> Option<u32> {
    LISTED.iter().find(|listed| listed.array == array && array != 0).map(|listed| listed.oid)
}

/// A type that `pg_type` lists.
pub(crate) struct CatalogueType {
    pub(crate) oid: u32,
    pub(crate) name: &'static str,
    /// The name that `format_type` gives.
    pub(crate) shown: &'static str,
    pub(crate) length: i64,
    pub(crate) category: &'static str,
    pub(crate) array: u32,
}

const fn catalogue_type(
    oid: u32,
    name: &'static str,
    shown: &'static str,
    length: i64,
    category: &'static str,
    array: u32,
) -> CatalogueType {
    CatalogueType { oid, name, shown, length, category, array }
}

/// The types that columns and placeholders can have. Arrays are listed by their items.
pub(crate) const LISTED: [CatalogueType; 18] = [
    catalogue_type(BOOL, "bool", "boolean", 1, "B", 1000),
    catalogue_type(BYTEA, "bytea", "bytea", -1, "U", 1001),
    catalogue_type(NAME, "name", "name", 64, "S", 1003),
    catalogue_type(INT8, "int8", "bigint", 8, "N", 1016),
    catalogue_type(INT2, "int2", "smallint", 2, "N", 1005),
    catalogue_type(INT4, "int4", "integer", 4, "N", 1007),
    catalogue_type(TEXT, "text", "text", -1, "S", 1009),
    catalogue_type(OID, "oid", "oid", 4, "N", 1028),
    catalogue_type(FLOAT4, "float4", "real", 4, "N", 1021),
    catalogue_type(FLOAT8, "float8", "double precision", 8, "N", 1022),
    catalogue_type(BPCHAR, "bpchar", "character", -1, "S", 1014),
    catalogue_type(VARCHAR, "varchar", "character varying", -1, "S", 1015),
    catalogue_type(DATE, "date", "date", 4, "D", 1182),
    catalogue_type(TIME, "time", "time without time zone", 8, "D", 1183),
    catalogue_type(TIMESTAMP, "timestamp", "timestamp without time zone", 8, "D", 1115),
    catalogue_type(TIMESTAMPTZ, "timestamptz", "timestamp with time zone", 8, "D", 1185),
    catalogue_type(INTERVAL, "interval", "interval", 16, "T", 1187),
    catalogue_type(NUMERIC, "numeric", "numeric", -1, "N", 1231),
];

/// The name of a type as `format_type` returns it.
pub(crate) fn shown(oid: i64, modifier: Option<i64>) -> String {
    if let Some(array) = LISTED.iter().find(|listed| i64::from(listed.array) == oid) {
        return format!("{}[]", array.shown);
    }
    match LISTED.iter().find(|listed| i64::from(listed.oid) == oid) {
        Some(listed) if listed.oid == NUMERIC => match modifier.filter(|modifier| *modifier >= 4) {
            Some(modifier) => format!("numeric({},{})", (modifier - 4) >> 16, (modifier - 4) & 0xffff),
            None => listed.shown.to_owned(),
        },
        Some(listed) => listed.shown.to_owned(),
        None if oid == 0 => "-".to_owned(),
        None => "???".to_owned(),
    }
}

/// The name of a type as `pg_type` has it.
pub(crate) fn name(oid: u32) -> String {
    match LISTED.iter().find(|listed| listed.oid == oid || listed.array == oid) {
        Some(listed) if listed.array == oid => format!("_{}", listed.name),
        Some(listed) => listed.name.to_owned(),
        None => "unknown".to_owned(),
    }
}

/// The name of a function of a type in PostgreSQL: drivers recognise types by it. Some have an underscore.
pub(crate) fn function(oid: u32, act: &str) -> String {
    let name = name(oid);
    match oid {
        DATE | TIME | TIMESTAMP | TIMESTAMPTZ | INTERVAL | NUMERIC => format!("{name}_{act}"),
        _ if name.starts_with('_') => format!("array_{act}"),
        _ => format!("{name}{act}"),
    }
}

/// The number of a type by either of its names.
pub(crate) fn named(name: &str) -> Option<u32> {
    let name = name.trim().trim_start_matches("pg_catalog.").to_ascii_lowercase();
    let (name, is_array) = name.strip_suffix("[]").map_or((name.as_str(), false), |name| (name, true));
    let listed_type = LISTED.iter().find(|listed| listed.name == name || listed.shown == name);
    listed_type.map(|listed| if is_array { listed.array } else { listed.oid })
}
