//! Functions about the session and the catalogue. Their answers don't depend on rows but for `format_type` and `to_regtype`.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::types::{named, shown};

/// What a function answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Answers {
    Text(&'static str),
    /// Null, as a text.
    NoText,
    Truth(bool),
    Number(i64),
    FormatType,
    ToRegtype,
    CurrentSetting,
    QuoteIdent,
}

use Answers::{CurrentSetting, FormatType, NoText, Number, QuoteIdent, Text, ToRegtype, Truth};

/// Names and answers. There is one role, which may do what the connection's token allows.
const FUNCTIONS: [(&str, Answers); 48] = [
    ("version", Text(concat!("PostgreSQL 16.0 (SplayDB ", env!("CARGO_PKG_VERSION"), ")"))),
    ("current_database", Text("splay")),
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
    ("has_table_privilege", Truth(true)),
    ("has_tablespace_privilege", Truth(true)),
    ("pg_has_role", Truth(true)),
    ("pg_my_temp_schema", Number(0)),
    ("pg_relation_filenode", Number(0)),
    ("inet_server_port", Number(0)),
    ("format_type", FormatType),
    ("to_regtype", ToRegtype),
    ("current_setting", CurrentSetting),
    ("quote_ident", QuoteIdent),
];

/// All functions.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let one = |(name, answers): &(&'static str, Answers)| {
        let signature = Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Stable);
        Arc::new(ScalarUDF::from(CatalogueFunction { name, answers: *answers, signature }))
    };
    FUNCTIONS.iter().map(one).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CatalogueFunction {
    name: &'static str,
    answers: Answers,
    signature: Signature,
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
            Truth(_) => DataType::Boolean,
            Number(_) | ToRegtype => DataType::Int64,
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
            FormatType => {
                let [oids, modifiers] = args.args.as_slice() else {
                    return exec_err!("format_type takes a type and its modifier");
                };
                let (oids, modifiers) = (numbers(oids, args.number_rows)?, numbers(modifiers, args.number_rows)?);
                let modifier = |row: usize| modifiers.is_valid(row).then(|| modifiers.value(row));
                let shown = oids.iter().enumerate().map(|(row, oid)| oid.map(|oid| shown(oid, modifier(row))));
                Ok(ColumnarValue::Array(Arc::new(shown.collect::<StringArray>())))
            }
            ToRegtype => {
                let texts = texts(&args, self.name)?;
                let oids = texts.iter().map(|text| text.and_then(named).map(i64::from));
                Ok(ColumnarValue::Array(Arc::new(oids.collect::<Int64Array>())))
            }
            CurrentSetting => {
                let texts = texts(&args, self.name)?;
                let setting = |name: Option<&str>| match name.map(str::to_ascii_lowercase).as_deref() {
                    Some("server_version") => Ok(Some("16.0")),
                    Some("server_version_num") => Ok(Some("160000")),
                    Some("search_path") => Ok(Some("public")),
                    Some("timezone") => Ok(Some("UTC")),
                    Some("datestyle") => Ok(Some("ISO, MDY")),
                    Some("server_encoding" | "client_encoding") => Ok(Some("UTF8")),
                    Some("standard_conforming_strings") => Ok(Some("on")),
                    Some("max_index_keys") => Ok(Some("32")),
                    None => Ok(None),
                    Some(_) if args.args.len() > 1 => Ok(None),
                    Some(other) => exec_err!("unrecognized configuration parameter \"{other}\""),
                };
                let settings = texts.iter().map(setting).collect::<Result<StringArray>>()?;
                Ok(ColumnarValue::Array(Arc::new(settings)))
            }
            QuoteIdent => {
                let texts = texts(&args, self.name)?;
                let quoted = texts.iter().map(|text| text.map(quoted_if_needed));
                Ok(ColumnarValue::Array(Arc::new(quoted.collect::<StringArray>())))
            }
        }
    }
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

/// A name in quotes, if it needs them.
fn quoted_if_needed(name: &str) -> String {
    let is_plain = !name.is_empty()
        && !name.starts_with(|letter: char| letter.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if is_plain { name.to_owned() } else { crate::statements::quoted(name) }
}
