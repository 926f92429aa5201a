//! Converts incoming rows to the columns of their table.
//!
//! - Columns match by name without regard to case, also by former names, which rows of the journal may have; missing ones are null.
//! - A cast must be exact for every value; otherwise the whole batch is refused.
//! - Columns that the table lacks are reported, so that the caller can add them first.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Int32Type, Schema, TimestampNanosecondType};
use splay_store::{ColumnSpec, ColumnType, DATE_COLUMN, TableSpec, one_nan};

use crate::error::{Error, Result};
use crate::nulls::NullColumns;

/// Columns from which on names are looked up in a map.
const FEW_COLUMNS: usize = 32;

/// Where columns stand, by name without regard to case; of several of one name the first.
enum ColumnPositions<'a> {
    Few(Vec<&'a str>),
    Many(HashMap<String, usize>),
}

impl<'a> ColumnPositions<'a> {
    fn new(names: impl Iterator<Item = &'a str>) -> ColumnPositions<'a> {
        let names: Vec<&str> = names.collect();
        if names.len() < FEW_COLUMNS {
            return ColumnPositions::Few(names);
        }
        let places = names.iter().enumerate().rev().map(|(place, name)| (name.to_ascii_lowercase(), place));
        ColumnPositions::Many(places.collect())
    }

    fn of(&self, name: &str) -> Option<usize> {
        match self {
            ColumnPositions::Few(names) => names.iter().position(|other| other.eq_ignore_ascii_case(name)),
            ColumnPositions::Many(places) => places.get(&name.to_ascii_lowercase()).copied(),
        }
    }
}

fn column_type(table: &str, name: &str, data_type: &DataType) -> Result<ColumnType> {
    ColumnType::from_arrow(data_type)
        .ok_or_else(|| Error::rejected(table, format!("column {name:?} is {data_type}, which a table can't hold")))
}

/// Columns of the rows that the table lacks. The date of one that keeps none is none of them.
///
/// # Errors
/// [`Error::Rejected`] for values of a column that was dropped or has another name now: no column can have its name, and they would be lost.
pub(crate) fn new_columns(spec: &TableSpec, rows: &RecordBatch) -> Result<Vec<ColumnSpec>> {
    let places = ColumnPositions::new(spec.columns.iter().map(|column| column.name.as_str()));
    let fields = rows.schema_ref().fields().iter().filter(|field| places.of(field.name()).is_none());
    let fields = fields.filter(|field| !spec.is_virtual_date(field.name()));
    let has_values = |field: &&arrow::datatypes::FieldRef| {
        rows.column_by_name(field.name()).is_some_and(|column| column.logical_null_count() < column.len())
    };
    let is = |field: &arrow::datatypes::FieldRef, name: &String| name.eq_ignore_ascii_case(field.name());
    let is_former = |field: &&arrow::datatypes::FieldRef| former(spec, |name| is(field, name)).is_some();
    let (lost, fields): (Vec<_>, Vec<_>) = fields.partition(is_former);
    if let Some(field) = lost.into_iter().find(has_values) {
        let reason = match former(spec, |name| is(field, name)).flatten() {
            Some(now) => format!("the column {:?} is called {now:?} now", field.name()),
            None => format!("the column {:?} was dropped: send rows without it, or take the drop back", field.name()),
        };
        return Err(Error::rejected(&spec.name, reason));
    }
    let column = |field: &arrow::datatypes::FieldRef| {
        Ok(ColumnSpec::new(field.name().clone(), column_type(&spec.name, field.name(), field.data_type())?))
    };
    fields.into_iter().map(column).collect()
}

/// The present name of the column that had a name before; `Some(None)` if that column was dropped.
fn former(spec: &TableSpec, is_it: impl Fn(&String) -> bool) -> Option<Option<&str>> {
    let renamed = spec.columns.iter().find(|column| column.formerly.iter().any(&is_it));
    match renamed {
        Some(column) => Some(Some(&column.name)),
        None => spec.dropped.iter().any(is_it).then_some(None),
    }
}

/// The rows with the table's columns, in its order and types.
pub(crate) fn conform(spec: &TableSpec, rows: &RecordBatch) -> Result<RecordBatch> {
    let schema = spec.arrow();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    let places = ColumnPositions::new(rows.schema_ref().fields().iter().map(|field| field.name().as_str()));
    let mut nulls = NullColumns::new(rows.num_rows());
    for (field, column) in schema.fields().iter().zip(&spec.columns) {
        let former_place = || column.formerly.iter().find_map(|name| places.of(name));
        columns.push(match places.of(field.name()).or_else(former_place) {
            Some(position) => fit(spec, field.name(), rows.column(position), field.data_type())?,
            None if !field.is_nullable() => {
                return Err(Error::rejected(&spec.name, format!("the rows lack the column {:?}", field.name())));
            }
            None => nulls.of(field.data_type()),
        });
    }
    let time = columns[spec.time_position()].as_primitive::<TimestampNanosecondType>();
    if let Some(row) = (0..time.len()).find(|row| time.is_null(*row)) {
        return Err(Error::rejected(&spec.name, format!("row {row} of the batch has no {}", spec.time)));
    }
    let rows_of_table = RecordBatch::try_new(schema, columns);
    let rows_of_table = rows_of_table.map_err(|error| Error::rejected(&spec.name, error.to_string()))?;
    if let Some(position) = places.of(DATE_COLUMN).filter(|_| spec.has_virtual_date()) {
        let dates = fit(spec, DATE_COLUMN, rows.column(position), &DataType::Date32)?;
        let times = rows_of_table.column(spec.time_position());
        spec.check_dates(times.as_ref(), dates.as_ref()).map_err(|error| match error {
            splay_store::Error::Row { row, reason, .. } => {
                Error::rejected(&spec.name, format!("row {row} of the batch {reason}"))
            }
            other => other.into(),
        })?;
    }
    Ok(rows_of_table)
}

/// Columns of the journal's rows that a table has under a former name, with that name: a copy may have rows before the commit that renamed their
/// column.
pub(crate) fn former_names<'a>(spec: &'a TableSpec, of_rows: &'a TableSpec) -> Vec<(&'a ColumnSpec, &'a str)> {
    let renamed = of_rows.columns.iter().filter(|column| !column.formerly.is_empty() && !has_name(spec, &column.name));
    let in_table = |column: &'a ColumnSpec| {
        let place = column.formerly.iter().find_map(|name| spec.position(name))?;
        Some((column, spec.columns[place].name.as_str()))
    };
    renamed.filter_map(in_table).collect()
}

/// Whether a table has a column of a name, or had one.
pub(crate) fn has_name(spec: &TableSpec, name: &str) -> bool {
    let is = |other: &String| other.eq_ignore_ascii_case(name);
    let names = |column: &ColumnSpec| is(&column.name) || column.formerly.iter().any(is);
    spec.columns.iter().any(names) || spec.dropped.iter().any(is)
}

/// Rows of the journal under the names that a table has.
pub(crate) fn under_former_names(spec: &TableSpec, of_rows: &TableSpec, rows: RecordBatch) -> Result<RecordBatch> {
    let former = former_names(spec, of_rows);
    let name_of = |name: &str| former.iter().find(|(column, _)| column.name.eq_ignore_ascii_case(name));
    with_names(rows, |name| name_of(name).map(|(_, former)| *former))
}

/// Rows of the journal under the present names of the columns, which had other names when they were captured.
pub(crate) fn under_present_names(spec: &TableSpec, rows: RecordBatch) -> Result<RecordBatch> {
    with_names(rows, |name| match spec.position(name) {
        Some(_) => None,
        None => former(spec, |other| other.eq_ignore_ascii_case(name)).flatten(),
    })
}

/// The same rows with other names for some columns.
fn with_names<'a>(rows: RecordBatch, name_of: impl Fn(&str) -> Option<&'a str>) -> Result<RecordBatch> {
    let schema = rows.schema();
    if schema.fields().iter().all(|field| name_of(field.name()).is_none()) {
        return Ok(rows);
    }
    let fields = schema.fields().iter().map(|field| match name_of(field.name()) {
        Some(name) => Arc::new(field.as_ref().clone().with_name(name)),
        None => Arc::clone(field),
    });
    let schema = Schema::new(fields.collect::<Vec<_>>());
    Ok(RecordBatch::try_new(Arc::new(schema), rows.columns().to_vec())?)
}

/// A column in the type of the table, if that gives every value back.
fn fit(spec: &TableSpec, name: &str, column: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let actual = column.data_type();
    if holds_nothing(actual) {
        return Ok(new_null_array(target, column.len()));
    }
    let refused =
        |why: String| Error::rejected(&spec.name, format!("column {name:?} is {target}, the rows have {why}"));
    // Before anything is cast: what isn't text may take any room as text.
    if is_text(actual) != is_text(target) {
        return Err(refused(actual.to_string()));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let cast = |column: &ArrayRef, to: &DataType| {
        if column.data_type() == to {
            return Ok(Arc::clone(column));
        }
        cast_with_options(column, to, &options).map_err(|error| refused(error.to_string()))
    };
    // The column in its stored form, with one NaN: otherwise a NaN would count as changed by a cast.
    let formed = one_nan(column);
    let column = formed.as_ref().unwrap_or(column);
    let fitted = cast(column, target)?;
    if is_text(target) {
        return Ok(without_null_texts(&fitted));
    }
    if actual != target && cast(&fitted, actual)?.to_data() != column.to_data() {
        return Err(refused(format!("{actual} with values that it can't hold")));
    }
    Ok(fitted)
}

/// Whether a column of a type has nothing but nulls: what senders make of a batch without a single value.
pub(crate) fn holds_nothing(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => true,
        DataType::Dictionary(_, values) => holds_nothing(values),
        _ => false,
    }
}

/// Whether values of a type are texts, in a dictionary or not.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// The same rows with nulls where their text in the dictionary is null.
fn without_null_texts(column: &ArrayRef) -> ArrayRef {
    let Some(dictionary) = column.as_dictionary_opt::<Int32Type>() else { return Arc::clone(column) };
    let texts = dictionary.values().as_string::<i32>();
    if texts.null_count() == 0 {
        return Arc::clone(column);
    }
    let is_there = |key: &i32| usize::try_from(*key).is_ok_and(|key| texts.is_valid(key));
    let keys: Int32Array = dictionary.keys().iter().map(|key| key.filter(is_there)).collect();
    let texts = StringArray::from_iter_values(texts.iter().map(Option::unwrap_or_default));
    Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(texts)))
}

/// The texts that rows of a dictionary column use, each once, and each row's place among them.
pub(crate) fn used_texts(column: &ArrayRef) -> (Vec<&str>, Vec<u32>) {
    let column = column.as_dictionary::<Int32Type>();
    let texts = column.values().as_string::<i32>();
    let mut places: Vec<Option<u32>> = vec![None; texts.len()];
    let (mut used, mut codes) = (Vec::new(), Vec::with_capacity(column.len()));
    for row in 0..column.len() {
        if column.is_null(row) {
            codes.push(0);
            continue;
        }
        let key = usize::try_from(column.keys().value(row)).unwrap_or(0);
        let place = *places[key].get_or_insert_with(|| {
            used.push(texts.value(key));
            u32::try_from(used.len() - 1).unwrap_or(u32::MAX)
        });
        codes.push(place);
    }
    (used, codes)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use arrow::array::{Int8Array, StringArray, TimestampNanosecondArray, UInt8Array};

    use super::*;

    fn spec() -> TableSpec {
        let column = |name: &str, column_type| ColumnSpec::new(name, column_type);
        let columns = vec![column("time", ColumnType::Timestamp), column("sym", ColumnType::Symbol)];
        TableSpec::new("t", columns, "time", Some("sym"))
    }

    fn rows(symbols: ArrayRef) -> RecordBatch {
        let times = TimestampNanosecondArray::from(vec![1; symbols.len()]).with_timezone("UTC");
        RecordBatch::try_from_iter([("time", Arc::new(times) as ArrayRef), ("sym", symbols)]).unwrap()
    }

    /// Each row's text was written out on the way from one dictionary to another: a byte of a row became a text of any length.
    #[test]
    fn a_dictionary_of_other_keys_stays_one() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100_000)]));
        let keys = Int8Array::from(vec![0; 100_000]);
        let sent = rows(Arc::new(DictionaryArray::new(keys, texts)));
        let (fitted, bytes) = splay_mutate::peak(|| conform(&spec(), &sent).unwrap());
        assert!(bytes < 2 << 20, "{bytes}");
        assert_eq!(fitted.column(1).as_dictionary::<Int32Type>().values().len(), 1);
    }

    /// Senders make such columns of batches that have no value in them, and were refused.
    #[test]
    fn columns_of_nothing_but_nulls_fit_any_column() {
        let nothing: ArrayRef = Arc::new(arrow::array::NullArray::new(3));
        let keys = Int32Array::from(vec![None, None, None]);
        let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(arrow::array::NullArray::new(0))));
        let spec = TableSpec::new("t", vec![ColumnSpec::new("time", ColumnType::Timestamp)], "time", None);
        for target in [ColumnType::Symbol, ColumnType::Text, ColumnType::Float64, ColumnType::Levels { size: 2 }] {
            for column in [&nothing, &dictionary] {
                let fitted = fit(&spec, "c", column, &target.arrow()).unwrap();
                assert_eq!((fitted.data_type(), fitted.len()), (&target.arrow(), 3));
                assert_eq!(fitted.logical_null_count(), 3);
            }
        }
    }

    #[test]
    fn a_null_text_in_a_dictionary_is_a_null_row() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("A"), None]));
        let keys = UInt8Array::from(vec![Some(1), Some(0), None]);
        let fitted = conform(&spec(), &rows(Arc::new(DictionaryArray::new(keys, texts)))).unwrap();
        let column = fitted.column(1);
        assert_eq!((column.null_count(), column.logical_null_count()), (2, 2));
        assert_eq!(used_texts(column), (vec!["A"], vec![0, 0, 0]));
    }

    /// Numbers in a dictionary were taken for text, without a look at what they became.
    #[test]
    fn numbers_in_a_dictionary_are_numbers() {
        let numbers: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![7]));
        let sent = rows(Arc::new(DictionaryArray::new(Int8Array::from(vec![0]), numbers)));
        assert!(conform(&spec(), &sent).is_err());
    }

    /// A sender of a table's own rows gave it a column `date`, null in all earlier rows.
    #[test]
    fn a_tables_date_is_compared_and_not_kept() {
        let dates = |days: i32| -> ArrayRef { Arc::new(arrow::array::Date32Array::from(vec![days])) };
        let of_day = |days: i32| {
            let sent = rows(Arc::new(StringArray::from(vec!["A"])));
            let mut fields = sent.schema().fields().to_vec();
            fields.push(Arc::new(arrow::datatypes::Field::new("Date", DataType::Date32, false)));
            let columns = sent.columns().iter().cloned().chain([dates(days)]).collect();
            RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), columns).unwrap()
        };
        assert_eq!(new_columns(&spec(), &of_day(0)).unwrap(), []);
        assert_eq!(conform(&spec(), &of_day(0)).unwrap().num_columns(), 2);
        let error = conform(&spec(), &of_day(1)).unwrap_err().to_string();
        assert!(error.contains("row 0 of the batch has the date 1970-01-02"), "{error}");
        let table_options = crate::table_options::TableOptions::default();
        assert!(table_options.table_for("u", &of_day(0)).unwrap().has_virtual_date());
        assert!(!table_options.table_for("u", &of_day(1)).unwrap().has_virtual_date());
    }
}
