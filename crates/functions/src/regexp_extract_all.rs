//! `regexp_extract_all(text, pattern [, group [, flags]])`: all parts of a text that match a regular expression, or a group of it in each.
//!
//! Matches don't overlap. A group that has no part in a match gives null. Group 0 is the whole match. Flags are those of the other functions of
//! regular expressions: `i` ignores case, `c` doesn't, `s` has a point match an end of line, `m` has `^` and `$` match at lines.
//!
//! Source: duckdb.org/docs/stable/sql/functions/regular_expressions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringBuilder};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use regex::{Regex, RegexBuilder};

use crate::arguments::is_text;

const NAME: &str = "regexp_extract_all";

/// The scalar function `regexp_extract_all`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RegexpExtractAll {
    signature: Signature,
}

impl RegexpExtractAll {
    pub(super) fn new() -> RegexpExtractAll {
        RegexpExtractAll { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for RegexpExtractAll {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let is_given = |data_type: &DataType, place: usize| match place {
            2 => data_type.is_integer() || data_type.is_null(),
            _ => is_text(data_type) || data_type.is_null(),
        };
        if !(2..=4).contains(&arg_types.len())
            || !arg_types.iter().zip(0..).all(|(data_type, place)| is_given(data_type, place))
        {
            return plan_err!("{NAME} takes (text, pattern [, group [, flags]])");
        }
        let types = [DataType::Utf8, DataType::Utf8, DataType::Int64, DataType::Utf8];
        Ok(types.into_iter().take(arg_types.len()).collect())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let lists = extracted(&arrays, rows)?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lists, 0)?),
            false => ColumnarValue::Array(lists),
        })
    }
}

fn extracted(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let (texts, patterns) = match args {
        [texts, patterns, ..] => (texts.as_string::<i32>(), patterns.as_string::<i32>()),
        _ => return exec_err!("{NAME} takes (text, pattern [, group [, flags]])"),
    };
    let groups = args.get(2).map(|groups| groups.as_primitive::<Int64Type>());
    let flags = args.get(3).map(|flags| flags.as_string::<i32>());
    let mut lists = ListBuilder::new(StringBuilder::new());
    // Most often all rows have one.
    let mut last: Option<(&str, &str, Regex)> = None;
    for row in 0..rows {
        if args.iter().any(|arg| arg.is_null(row)) {
            lists.append_null();
            continue;
        }
        let (pattern, flags) = (patterns.value(row), flags.map_or("", |flags| flags.value(row)));
        let regex = match &last {
            Some((last_pattern, with, regex)) if *last_pattern == pattern && *with == flags => regex,
            _ => &last.insert((pattern, flags, compiled(pattern, flags)?)).2,
        };
        let group = groups.map_or(0, |groups| groups.value(row));
        let Some(group) = usize::try_from(group).ok().filter(|group| *group < regex.captures_len()) else {
            return exec_err!(
                "{NAME}: the pattern has {} groups, and none of number {group}",
                regex.captures_len() - 1
            );
        };
        if group == 0 {
            regex.find_iter(texts.value(row)).for_each(|matched| lists.values().append_value(matched.as_str()));
        } else {
            let matched = regex.captures_iter(texts.value(row));
            matched.for_each(|matched| lists.values().append_option(matched.get(group).map(|part| part.as_str())));
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

fn compiled(pattern: &str, flags: &str) -> Result<Regex> {
    let mut builder = RegexBuilder::new(pattern);
    for flag in flags.chars() {
        match flag {
            'c' => builder.case_insensitive(false),
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            other => return exec_err!("{NAME} knows no flag '{other}': there are c, i, m and s"),
        };
    }
    builder.build().or_else(|error| exec_err!("Regular expression did not compile: {error}"))
}
