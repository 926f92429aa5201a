//! Columns of another Arrow type with the same values: what files and frames bring, as a table keeps it.
//!
//! - A value that would change, such as 1.5 into an integer or an instant outside 1677 to 2262, is an error.
//! - Timestamps without a zone are UTC; a date as time is midnight in the table's time zone.

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;
use splay_store::ColumnType;

const STRICT: CastOptions<'static> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// The type that keeps a column's values, `None` if no table has one. Dictionaries of other things than text are seen as what
/// they hold.
#[must_use]
pub fn natural_type(data_type: &DataType) -> Option<ColumnType> {
    match data_type {
        DataType::Dictionary(_, values) => ColumnType::from_arrow(data_type).or_else(|| natural_type(values)),
        DataType::RunEndEncoded(_, values) => natural_type(values.data_type()),
        other => ColumnType::from_arrow(other),
    }
}

/// The same values as a column of a table whose dates are in `time_zone`.
///
/// # Errors
/// The reason, if a value would change or can't be read.
pub fn cast_exactly(array: &ArrayRef, target: &ColumnType, time_zone: &str) -> Result<ArrayRef, String> {
    let (from, to) = (array.data_type(), target.arrow());
    if *from == to && !is_dictionary_with_nulls(array) {
        return Ok(ArrayRef::clone(array));
    }
    // A column without a value has no type of its own: makers of frames and files give it this one.
    if *from == DataType::Null {
        return Ok(new_null_array(&to, array.len()));
    }
    let own = natural_type(from);
    let cast = match (&own, target) {
        (Some(ColumnType::Text | ColumnType::Symbol), ColumnType::Text | ColumnType::Symbol) => {
            through(array, &[DataType::Utf8, to])
        }
        (Some(ColumnType::Date), ColumnType::Timestamp) => midnight(array, &to, time_zone),
        _ => through(array, &[to]),
    };
    let cast = cast.map_err(|error| error.to_string())?;
    let is_exact = match &own {
        // Every instant of a coarser unit is an instant in nanoseconds; overflow was refused by the cast.
        Some(ColumnType::Timestamp | ColumnType::Date) if *target == ColumnType::Timestamp => true,
        // Levels may come as integers or decimals that floats don't hold.
        Some(ColumnType::Levels { .. }) | None => is_same_after(array, &cast),
        Some(own) => own == target || own.widens_to(target) || is_same_after(array, &cast),
    };
    let may_become = |own: &&ColumnType| {
        let is_whole = matches!(target, ColumnType::Int64 | ColumnType::UInt64);
        target.widens_to(own) || is_whole && **own == ColumnType::Float64
    };
    match own.as_ref().filter(may_become) {
        _ if is_exact => Ok(cast),
        Some(own) => Err(format!("some values would change unless the column becomes {own} (splay alter … widen)")),
        None => Err("some values would change".to_owned()),
    }
}

/// The instant at which a date begins.
fn midnight(array: &ArrayRef, to: &DataType, time_zone: &str) -> Result<ArrayRef, ArrowError> {
    let local = DataType::Timestamp(TimeUnit::Second, None);
    let zoned = DataType::Timestamp(TimeUnit::Second, Some(time_zone.into()));
    through(array, &[local, zoned, to.clone()])
}

fn through(array: &ArrayRef, types: &[DataType]) -> Result<ArrayRef, ArrowError> {
    types.iter().try_fold(ArrayRef::clone(array), |array, to| cast_with_options(&array, to, &STRICT))
}

fn is_dictionary_with_nulls(array: &ArrayRef) -> bool {
    array.as_any_dictionary_opt().is_some_and(|dictionary| dictionary.values().null_count() > 0)
}

fn is_same_after(array: &ArrayRef, cast: &ArrayRef) -> bool {
    cast_with_options(cast, array.data_type(), &STRICT).is_ok_and(|back| back.as_ref() == array.as_ref())
}
