//! `SUMMARIZE t` and `SUMMARIZE SELECT …`: a row about each column, as in DuckDB.
//!
//! All columns are read once, by one select of aggregates whose single row becomes the rows of the answer. What `min`, `max`, `avg` and the quantiles
//! give are texts, since columns have different types. Distinct values and quantiles are estimates.
//!
//! Source: <https://duckdb.org/docs/stable/guides/meta/summarize>.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef, TimeUnit, UInt64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use splay_store::ColumnType;

use crate::error::{Error, Result, fault};
use crate::syntax::{is_word, solid};

/// Number of aggregates of one column.
const MEASURES: usize = 9;

/// A `SUMMARIZE` statement.
#[derive(Debug)]
pub(crate) struct Summary {
    /// The relation in `FROM`.
    relation: String,
}

/// The kind of a column, which decides its aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    Float,
    Decimal,
    Time,
    Text,
    Boolean,
    Other,
}

impl Kind {
    fn of(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Dictionary(_, values) if values.is_string() => Kind::Text,
            text if text.is_string() => Kind::Text,
            whole if whole.is_integer() => Kind::Whole,
            DataType::Float32 | DataType::Float64 => Kind::Float,
            decimal if decimal.is_decimal() => Kind::Decimal,
            DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64 => Kind::Time,
            DataType::Boolean => Kind::Boolean,
            _ => Kind::Other,
        }
    }
}

impl Summary {
    /// Parses such a statement; `None` for any other.
    pub(crate) fn of(text: &str) -> Option<Summary> {
        // Most statements end here, after their first word.
        let start = text.trim_start();
        let begins = |word: &str| start.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
        if !["summarize", "--", "/*"].into_iter().any(begins) {
            return None;
        }
        let tokens = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize().ok()?;
        let first = solid(&tokens, 0);
        is_word(tokens.get(first)?, "summarize").then_some(())?;
        let end = tokens.iter().rposition(|token| !matches!(token, Token::Whitespace(_) | Token::SemiColon))?;
        let begin = solid(&tokens, first + 1);
        (begin <= end).then_some(())?;
        let source: String = tokens[begin..=end].iter().map(ToString::to_string).collect();
        let is_query = ["select", "with", "from", "values", "unpivot"].iter().any(|word| is_word(&tokens[begin], word));
        let relation = match is_query {
            true if is_word(&tokens[begin], "from") => format!("(SELECT * {source})"),
            true => format!("({source})"),
            false => source,
        };
        Some(Summary { relation })
    }

    /// The query that reads the columns.
    pub(crate) fn source(&self) -> String {
        format!("SELECT * FROM {}", self.relation)
    }

    /// The select that aggregates all columns: the number of rows, and then [`MEASURES`] of each column.
    pub(crate) fn select(&self, columns: &Schema) -> String {
        let mut measures = vec!["count(*)".to_owned()];
        for (place, field) in columns.fields().iter().enumerate() {
            measures.extend(measures_of(&format!("c{place}"), Kind::of(field.data_type())));
        }
        let items = measures.iter().enumerate().map(|(place, measure)| format!("{measure} AS m{place}"));
        let names: Vec<String> = (0..columns.fields().len()).map(|place| format!("c{place}")).collect();
        let (items, names) = (items.collect::<Vec<_>>().join(", "), names.join(", "));
        format!("SELECT {items} FROM (SELECT * FROM {}) AS summarized ({names})", self.relation)
    }

    pub(crate) fn schema() -> SchemaRef {
        let texts = ["min", "max"];
        let text = |name: &&str| Field::new(*name, DataType::Utf8, true);
        let mut fields =
            vec![Field::new("column_name", DataType::Utf8, false), Field::new("column_type", DataType::Utf8, false)];
        fields.extend(texts.iter().map(text));
        fields.push(Field::new("approx_unique", DataType::Int64, true));
        fields.extend(["avg", "std", "q25", "q50", "q75"].iter().map(text));
        fields.push(Field::new("count", DataType::Int64, false));
        fields.push(Field::new("null_percentage", DataType::Float64, true));
        Arc::new(Schema::new(fields))
    }

    /// The rows of the answer.
    ///
    /// # Errors
    /// [`Error::Internal`] for a row that doesn't come from that select.
    pub(crate) fn rows(&self, columns: &Schema, measured: &[RecordBatch]) -> Result<RecordBatch> {
        let wrong = |what: String| Error::Internal { message: format!("SUMMARIZE {}: {what}", self.relation) };
        let Some(row) = measured.iter().find(|batch| batch.num_rows() == 1) else {
            return Err(wrong("no row".to_owned()));
        };
        if row.num_columns() != 1 + MEASURES * columns.fields().len() {
            return fault(format!("SUMMARIZE {}: its columns changed meanwhile", self.relation));
        }
        let rows = whole(row.column(0)).unwrap_or(0);
        let mut texts: [Vec<Option<String>>; 7] = std::array::from_fn(|_| Vec::new());
        let (mut unique, mut nulls) = (Vec::new(), Vec::new());
        for (place, field) in columns.fields().iter().enumerate() {
            let measures = &row.columns()[1 + place * MEASURES..1 + (place + 1) * MEASURES];
            let is_time = Kind::of(field.data_type()) == Kind::Time;
            for (number, measure) in measures[2..].iter().enumerate() {
                // The average and the quantiles of times were computed as numbers.
                let value = match is_time && number >= 2 {
                    true => as_time(measure, field.data_type(), number == 2),
                    false => Arc::clone(measure),
                };
                texts[number].push(first_text(&value).map_err(|error| wrong(error.to_string()))?);
            }
            unique.push(whole(&measures[1]));
            let there = whole(&measures[0]).unwrap_or(0);
            #[expect(clippy::cast_precision_loss, reason = "a share of two digits")]
            let share = (rows - there) as f64 / rows as f64;
            nulls.push((rows > 0).then(|| (share * 10_000.0).round() / 100.0));
        }
        let names = columns.fields().iter().map(|field| field.name().clone());
        let types = columns.fields().iter().map(|field| ColumnType::name_of(field.data_type()));
        let mut arrays: Vec<ArrayRef> =
            vec![Arc::new(StringArray::from_iter_values(names)), Arc::new(StringArray::from_iter_values(types))];
        for (number, column) in texts.into_iter().enumerate() {
            if number == 2 {
                arrays.push(Arc::new(Int64Array::from(std::mem::take(&mut unique))));
            }
            arrays.push(Arc::new(StringArray::from(column)));
        }
        arrays.push(Arc::new(Int64Array::from(vec![rows; columns.fields().len()])));
        arrays.push(Arc::new(Float64Array::from(nulls)));
        RecordBatch::try_new(Summary::schema(), arrays).map_err(|error| wrong(error.to_string()))
    }
}

/// The number of values, of distinct ones, the least, the greatest, the average, the deviation and three quantiles of a column.
fn measures_of(column: &str, kind: Kind) -> [String; MEASURES] {
    let null = || "NULL".to_owned();
    let quantiles = |of: String, filter: &str| {
        [0.25, 0.5, 0.75].map(|share| format!("approx_percentile_cont({of}, {share}){filter}"))
    };
    let micros = format!("CAST(CAST({column} AS TIMESTAMP) AS BIGINT) / 1000");
    let number = format!("CAST({column} AS DOUBLE)");
    let distinct = match kind {
        // A Boolean has at most two values, so their number isn't estimated.
        Kind::Boolean => format!("coalesce(max(CAST({column} AS INT)) - min(CAST({column} AS INT)) + 1, 0)"),
        Kind::Float | Kind::Decimal | Kind::Text => format!("approx_distinct(CAST({column} AS VARCHAR))"),
        Kind::Time => format!("approx_distinct(CAST(CAST({column} AS TIMESTAMP) AS BIGINT))"),
        Kind::Whole => format!("approx_distinct({column})"),
        Kind::Other => null(),
    };
    let (average, [q25, q50, q75]) = match kind {
        Kind::Whole => (format!("avg({number})"), quantiles(column.to_owned(), "")),
        Kind::Float | Kind::Decimal => {
            let is_finite = format!(" FILTER (WHERE {number} > '-Infinity' AND {number} < 'Infinity')");
            (format!("avg({number})"), quantiles(number.clone(), &is_finite))
        }
        Kind::Time => (format!("avg(CAST({micros} AS DOUBLE))"), quantiles(micros, "")),
        Kind::Text | Kind::Boolean | Kind::Other => (null(), [null(), null(), null()]),
    };
    let deviation = match kind {
        Kind::Whole | Kind::Float | Kind::Decimal => format!("stddev({number})"),
        _ => null(),
    };
    let (least, greatest) = match kind {
        Kind::Other => (null(), null()),
        _ => (format!("min({column})"), format!("max({column})")),
    };
    [format!("count({column})"), distinct, least, greatest, average, deviation, q25, q50, q75]
}

/// The whole number at the beginning of an array.
fn whole(array: &ArrayRef) -> Option<i64> {
    if array.is_empty() || array.is_null(0) || *array.data_type() == DataType::Null {
        return None;
    }
    match array.data_type() {
        DataType::UInt64 => i64::try_from(array.as_primitive::<UInt64Type>().value(0)).ok(),
        _ => cast(array, &DataType::Int64).ok().map(|array| array.as_primitive::<Int64Type>().value(0)),
    }
}

/// Microseconds since 1970 as a value of a column's type. The average of dates is a time.
fn as_time(microseconds: &ArrayRef, data_type: &DataType, is_average: bool) -> ArrayRef {
    let zone = match data_type {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let rounded = match microseconds.as_primitive_opt::<Float64Type>() {
        Some(values) => Arc::new(values.unary::<_, Float64Type>(f64::round)) as ArrayRef,
        None => Arc::clone(microseconds),
    };
    let whole = cast(&rounded, &DataType::Int64);
    let time = whole.and_then(|whole| cast(&whole, &DataType::Timestamp(TimeUnit::Microsecond, zone)));
    let is_date = matches!(data_type, DataType::Date32 | DataType::Date64);
    let value = time.and_then(|time| if is_date && !is_average { cast(&time, &DataType::Date32) } else { Ok(time) });
    value.unwrap_or_else(|_| Arc::clone(microseconds))
}

/// The first value as text.
fn first_text(array: &ArrayRef) -> Result<Option<String>, arrow::error::ArrowError> {
    if array.is_empty() || array.is_null(0) || *array.data_type() == DataType::Null {
        return Ok(None);
    }
    Ok(Some(ArrayFormatter::try_new(array, &FormatOptions::default())?.value(0).to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_table_or_a_query_is_summarized() {
        let relation = |text: &str| Summary::of(text).map(|summary| summary.relation);
        assert_eq!(relation("SUMMARIZE trade;"), Some("trade".to_owned()));
        assert_eq!(relation("-- all\nsummarize select 1"), Some("(select 1)".to_owned()));
        assert_eq!(relation("summarize"), None);
        assert_eq!(relation("select summarize from t"), None);
    }
}
