//! Functions about the session and the catalogue. Most of them don't depend on rows.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Field, Int64Type, TimeUnit};
use datafusion::catalog::SchemaProvider;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::types::{named, shown};
use super::{is_in_catalogue, named_table, oid_of_class};
use crate::statements::{as_name, quoted};
use crate::tick_schema::TickSchema;

/// The result of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum FunctionAnswer {
    Text(&'static str),
    /// Null, as a text.
    NoText,
    Truth(bool),
    Number(i64),
    /// Null as a number: the value isn't known.
    NoNumber,
    /// Null, as an instant.
    NoTime,
    FormatType,
    CurrentSchemas,
    ToRegclass,
    ToRegtype,
    CurrentSetting,
    SetConfig,
    SizePretty,
    QuoteIdent,
    ParseIdent,
    /// True of a table that there is.
    TablePrivilege,
    /// The first index of a list.
    ArrayLower,
    /// The last index of a list.
    ArrayUpper,
}

use FunctionAnswer::{
    ArrayLower, ArrayUpper, CurrentSchemas, CurrentSetting, FormatType, NoNumber, NoText, NoTime, Number, ParseIdent,
    QuoteIdent, SetConfig, SizePretty, TablePrivilege, Text, ToRegclass, ToRegtype, Truth,
};

/// Names and results. There is one role, which may do everything that the connection's token allows.
const FUNCTIONS: [(&str, FunctionAnswer); 65] = [
    ("version", Text(concat!("PostgreSQL 16.0 (SplayDB ", env!("CARGO_PKG_VERSION"), ")"))),
    ("current_database", Text("splay")),
    ("current_schemas", CurrentSchemas),
    ("pg_current_schema", Text("public")),
    ("pg_current_catalog", Text("splay")),
    ("pg_current_user", Text("splay")),
    ("pg_session_user", Text("splay")),
    ("pg_current_role", Text("splay")),
    ("pg_get_userbyid", Text("splay")),
    ("pg_encoding_to_char", Text("UTF8")),
    ("pg_advisory_unlock_all", Text("")),
    ("pg_client_encoding", Text("UTF8")),
    ("pg_get_expr", NoText),
    ("pg_get_constraintdef", NoText),
    ("pg_get_indexdef", NoText),
    ("pg_get_viewdef", NoText),
    ("pg_get_partkeydef", NoText),
    ("pg_get_statisticsobjdef_columns", NoText),
    ("pg_get_serial_sequence", NoText),
    ("pg_tablespace_location", NoText),
    ("obj_description", NoText),
    ("col_description", NoText),
    ("shobj_description", NoText),
    ("inet_server_addr", NoText),
    ("inet_client_addr", NoText),
    ("pg_is_in_recovery", Truth(false)),
    ("pg_is_other_temp_schema", Truth(false)),
    ("pg_relation_is_publishable", Truth(false)),
    ("pg_table_is_visible", Truth(true)),
    ("pg_type_is_visible", Truth(true)),
    ("pg_function_is_visible", Truth(true)),
    ("pg_operator_is_visible", Truth(true)),
    ("pg_collation_is_visible", Truth(true)),
    ("has_any_column_privilege", Truth(true)),
    ("has_column_privilege", Truth(true)),
    ("has_database_privilege", Truth(true)),
    ("has_function_privilege", Truth(true)),
    ("has_schema_privilege", Truth(true)),
    ("has_sequence_privilege", Truth(true)),
    ("has_table_privilege", TablePrivilege),
    ("has_tablespace_privilege", Truth(true)),
    ("pg_has_role", Truth(true)),
    ("pg_my_temp_schema", Number(0)),
    ("pg_relation_filenode", Number(0)),
    ("inet_server_port", Number(0)),
    ("format_type", FormatType),
    ("to_regclass", ToRegclass),
    ("to_regtype", ToRegtype),
    ("current_setting", CurrentSetting),
    ("set_config", SetConfig),
    ("pg_size_pretty", SizePretty),
    ("pg_backend_pid", NoNumber),
    ("txid_current", NoNumber),
    ("txid_current_if_assigned", NoNumber),
    ("pg_postmaster_start_time", NoTime),
    ("pg_conf_load_time", NoTime),
    ("pg_database_size", NoNumber),
    ("pg_relation_size", NoNumber),
    ("pg_table_size", NoNumber),
    ("pg_tablespace_size", NoNumber),
    ("pg_total_relation_size", NoNumber),
    ("quote_ident", QuoteIdent),
    ("parse_ident", ParseIdent),
    ("array_lower", ArrayLower),
    ("array_upper", ArrayUpper),
];

/// All functions, for a session with these tables.
pub(crate) fn functions(tables: &Arc<TickSchema>) -> Vec<Arc<ScalarUDF>> {
    let one = |(name, answers): &(&'static str, FunctionAnswer)| {
        let signature = Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Stable);
        let tables = SessionTables(Arc::clone(tables));
        Arc::new(ScalarUDF::from(CatalogueFunction { name, answers: *answers, signature, tables }))
    };
    FUNCTIONS.iter().map(one).collect()
}

/// The tables of a function's session, of which there is one.
#[derive(Debug)]
struct SessionTables(Arc<TickSchema>);

impl PartialEq for SessionTables {
    fn eq(&self, other: &SessionTables) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SessionTables {}

impl Hash for SessionTables {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl SessionTables {
    /// Whether there is a table or view of a name, with or without its schema.
    fn has(&self, name: &str) -> bool {
        match name.to_lowercase().split_once('.') {
            Some(("information_schema", _)) => true,
            Some(("pg_catalog", table)) => is_in_catalogue(table),
            _ => is_in_catalogue(name) || named_table(name).is_some_and(|table| self.0.table_exist(&table)),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CatalogueFunction {
    name: &'static str,
    answers: FunctionAnswer,
    signature: Signature,
    tables: SessionTables,
}

impl ScalarUDFImpl for CatalogueFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.answers {
            Truth(_) | TablePrivilege => DataType::Boolean,
            Number(_) | NoNumber | ToRegclass | ToRegtype | ArrayLower | ArrayUpper => DataType::Int64,
            NoTime => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            ParseIdent | CurrentSchemas => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = |value| Ok(ColumnarValue::Scalar(value));
        match self.answers {
            Text(text) => scalar(ScalarValue::from(text)),
            NoText => scalar(ScalarValue::Utf8(None)),
            Truth(truth) => scalar(ScalarValue::from(truth)),
            Number(number) => scalar(ScalarValue::from(number)),
            NoNumber => scalar(ScalarValue::Int64(None)),
            NoTime => scalar(ScalarValue::TimestampNanosecond(None, Some("UTC".into()))),
            CurrentSchemas => {
                let has_implicit = match args.args.as_slice() {
                    [ColumnarValue::Scalar(ScalarValue::Boolean(Some(has_implicit)))] => *has_implicit,
                    _ => return exec_err!("current_schemas takes true or false"),
                };
                let schemas = ["pg_catalog", "public"].map(ScalarValue::from);
                let schemas = if has_implicit { &schemas[..] } else { &schemas[1..] };
                scalar(ScalarValue::List(ScalarValue::new_list_nullable(schemas, &DataType::Utf8)))
            }
            SizePretty => {
                let [size] = args.args.as_slice() else { return exec_err!("pg_size_pretty takes a number of bytes") };
                let sizes = numbers(size, args.number_rows)?;
                let shown = sizes.iter().map(|size| size.map(size_text)).collect::<StringArray>();
                Ok(ColumnarValue::Array(Arc::new(shown)))
            }
            FormatType => {
                let [oids, modifiers] = args.args.as_slice() else {
                    return exec_err!("format_type takes a type and its modifier");
                };
                let (oids, modifiers) = (numbers(oids, args.number_rows)?, numbers(modifiers, args.number_rows)?);
                let modifier = |row: usize| modifiers.is_valid(row).then(|| modifiers.value(row));
                let shown = oids.iter().enumerate().map(|(row, oid)| oid.map(|oid| shown(oid, modifier(row))));
                Ok(ColumnarValue::Array(Arc::new(shown.collect::<StringArray>())))
            }
            ToRegclass => {
                let texts = texts(&args, self.name)?;
                let oids = texts.iter().map(|text| text.map(oid_of_class));
                Ok(ColumnarValue::Array(Arc::new(oids.collect::<Int64Array>())))
            }
            ToRegtype => {
                let texts = texts(&args, self.name)?;
                let oids = texts.iter().map(|text| text.and_then(named).map(i64::from));
                Ok(ColumnarValue::Array(Arc::new(oids.collect::<Int64Array>())))
            }
            CurrentSetting => {
                let texts = texts(&args, self.name)?;
                let setting = |name: Option<&str>| match name.map(|name| (name, setting(name))) {
                    None => Ok(None),
                    Some((_, Some(value))) => Ok(Some(value)),
                    Some(_) if args.args.len() > 1 => Ok(None),
                    Some((name, None)) => exec_err!("unrecognized configuration parameter \"{name}\""),
                };
                let settings = texts.iter().map(setting).collect::<Result<StringArray>>()?;
                Ok(ColumnarValue::Array(Arc::new(settings)))
            }
            TablePrivilege => {
                let ([table, _] | [_, table, _]) = args.args.as_slice() else {
                    return exec_err!(
                        "has_table_privilege takes a table and a privilege, and a user before if it is another's"
                    );
                };
                let tables = table.to_array(args.number_rows)?;
                if tables.data_type().is_integer() {
                    let known = (0..tables.len()).map(|row| tables.is_valid(row).then_some(true));
                    return Ok(ColumnarValue::Array(Arc::new(known.collect::<BooleanArray>())));
                }
                let names = cast(&tables, &DataType::Utf8)?;
                let may = |name: Option<&str>| match name {
                    Some(name) if !self.tables.has(name) => exec_err!("relation \"{name}\" does not exist"),
                    name => Ok(name.map(|_| true)),
                };
                let answers = names.as_string::<i32>().iter().map(may).collect::<Result<BooleanArray>>()?;
                Ok(ColumnarValue::Array(Arc::new(answers)))
            }
            SetConfig => {
                let [_, values, _] = args.args.as_slice() else {
                    return exec_err!("set_config takes a name, a value, and whether it is for the transaction alone");
                };
                let values = cast(&values.to_array(args.number_rows)?, &DataType::Utf8)?;
                let names = texts(&args, self.name)?;
                for (name, value) in names.iter().zip(values.as_string::<i32>()) {
                    if name.and_then(setting) != value {
                        return exec_err!(
                            "set_config sets a setting to what it is: write SET {}",
                            name.unwrap_or("name")
                        );
                    }
                }
                Ok(ColumnarValue::Array(values))
            }
            QuoteIdent => {
                let texts = texts(&args, self.name)?;
                let quoted = texts.iter().map(|text| text.map(quoted_if_needed));
                Ok(ColumnarValue::Array(Arc::new(quoted.collect::<StringArray>())))
            }
            ParseIdent => {
                if args.args.len() != 1 {
                    return exec_err!("parse_ident takes a text alone");
                }
                let mut lists = ListBuilder::new(StringBuilder::new());
                for text in &texts(&args, self.name)? {
                    lists.append_option(text.map(parts_of).transpose()?.map(|parts| parts.into_iter().map(Some)));
                }
                Ok(ColumnarValue::Array(Arc::new(lists.finish())))
            }
            ArrayLower | ArrayUpper => {
                let [lists, dimensions] = args.args.as_slice() else {
                    return exec_err!("{} takes a list and a dimension", self.name);
                };
                let items = items(lists, args.number_rows, self.name)?;
                let dimensions = numbers(dimensions, args.number_rows)?;
                let number = if self.answers == ArrayLower { |_| 1 } else { |items| items };
                let numbers = items.iter().zip(&dimensions).map(|(items, dimension)| match (items, dimension) {
                    (Some(1..), Some(1)) => items.map(number),
                    _ => None,
                });
                Ok(ColumnarValue::Array(Arc::new(numbers.collect::<Int64Array>())))
            }
        }
    }
}

/// The value of a setting that is the same in every connection.
fn setting(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "server_version" => "16.0",
        "server_version_num" => "160000",
        "search_path" => "public",
        "timezone" => "UTC",
        "datestyle" => "ISO, MDY",
        "server_encoding" | "client_encoding" => "UTF8",
        "standard_conforming_strings" => "on",
        "max_index_keys" => "32",
        "max_identifier_length" => "128",
        "default_table_access_method" => "heap",
        "jit" | "is_superuser" => "off",
        _ => return None,
    })
}

/// The number of items of each list.
fn items(lists: &ColumnarValue, rows: usize, name: &str) -> Result<Int64Array> {
    let lists = lists.to_array(rows)?;
    match lists.data_type() {
        DataType::Null => Ok(Int64Array::new_null(rows)),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
            if !item.data_type().is_nested() =>
        {
            Ok(cast(&length(&lists)?, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
        }
        other => exec_err!("{name} takes a list of single values, and not {other}"),
    }
}

/// A size as PostgreSQL shows it: in the largest unit in which it has at least two digits.
fn size_text(bytes: i64) -> String {
    let (mut size, mut unit) = (i128::from(bytes) * 2, "bytes");
    for larger in ["kB", "MB", "GB", "TB", "PB"] {
        if size.abs() < 20 * 1024 {
            break;
        }
        (size, unit) = (size / 1024, larger);
    }
    format!("{} {unit}", (size + size.signum()) / 2)
}

fn numbers(value: &ColumnarValue, rows: usize) -> Result<Int64Array> {
    let array = value.to_array(rows)?;
    Ok(cast(&array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

fn texts(args: &ScalarFunctionArgs, name: &str) -> Result<StringArray> {
    let Some(first) = args.args.first() else { return exec_err!("{name} takes a text") };
    let array = first.to_array(args.number_rows)?;
    Ok(cast(&array, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// A name, in quotes if it needs them: for capitals, as in PostgreSQL, and for words that can't be names here.
fn quoted_if_needed(name: &str) -> String {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) { quoted(name) } else { as_name(name).into_owned() }
}

/// The parts of a name with dots, in lower case unless they are quoted.
fn parts_of(text: &str) -> Result<Vec<String>> {
    let (mut parts, mut rest) = (Vec::new(), text.trim_start());
    loop {
        let (part, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_part(quoted),
            None => plain_part(rest),
        }
        .ok_or_else(|| exec_datafusion_err!("string is not a valid identifier: \"{text}\""))?;
        parts.push(part);
        match (behind.trim_start(), behind.trim_start().strip_prefix('.')) {
            ("", _) => return Ok(parts),
            (_, Some(next)) => rest = next.trim_start(),
            _ => return exec_err!("string is not a valid identifier: \"{text}\""),
        }
    }
}

/// A part up to its closing quote, and the rest.
fn quoted_part(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = text;
    loop {
        let (before, behind) = rest.split_once('"')?;
        part.push_str(before);
        match behind.strip_prefix('"') {
            Some(next) => {
                part.push('"');
                rest = next;
            }
            None => return (!part.is_empty()).then_some((part, behind)),
        }
    }
}

/// A part of letters, digits, `_` and `$`, in lower case, and the rest.
fn plain_part(text: &str) -> Option<(String, &str)> {
    let is_letter = |letter: char| letter.is_alphabetic() || letter == '_' || !letter.is_ascii();
    let end = text.find(|letter: char| !is_letter(letter) && !letter.is_ascii_digit() && letter != '$');
    let (part, behind) = text.split_at(end.unwrap_or(text.len()));
    part.starts_with(is_letter).then(|| (part.to_ascii_lowercase(), behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart_at_their_dots() {
        for (text, parts) in [
            ("trade", vec!["trade"]),
            (" Public . \"My Trades\" ", vec!["public", "My Trades"]),
            ("a.\"b.\"\"c\"\"\".d$1", vec!["a", "b.\"c\"", "d$1"]),
            ("é_1", vec!["é_1"]),
        ] {
            assert_eq!(parts_of(text).unwrap(), parts, "{text}");
        }
        for text in ["", "a.", ".a", "1a", "a b", "\"\"", "\"a", "a-b", "a\"b\""] {
            assert!(parts_of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_in_their_unit() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (-20_000, "-20 kB"),
            (123_456_789, "118 MB"),
            (i64::MAX, "8192 PB"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
    }

    #[test]
    fn names_are_quoted_if_they_need_it() {
        for (name, quoted) in [
            ("trade_1", "trade_1"),
            ("Trade", "\"Trade\""),
            ("my trades", "\"my trades\""),
            ("order", "\"order\""),
            ("1st", "\"1st\""),
            ("", "\"\""),
            ("a\"b", "\"a\"\"b\""),
        ] {
            assert_eq!(quoted_if_needed(name), quoted);
        }
    }
}
