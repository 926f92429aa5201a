//! Values of different types, made comparable: what a cast must not change.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampNanosecondType, UInt64Type};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OracleCell {
    Null,
    Text(String),
    /// A number without a fraction.
    Whole(i128),
    /// Bits of any other number; all NaNs are one.
    Float(u64),
    /// Nanoseconds since the epoch.
    Instant(i128),
    List(Vec<OracleCell>),
    /// A value of a type that isn't compared.
    Other,
}

impl OracleCell {
    /// Whether both are the same value, or of kinds that aren't compared.
    pub(super) fn is(&self, other: &OracleCell) -> bool {
        match (self, other) {
            (OracleCell::Other, _) | (_, OracleCell::Other) => true,
            (OracleCell::List(one), OracleCell::List(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is(other))
            }
            // One value may be given for a list of one, and a number for an instant.
            (OracleCell::List(one), other) | (other, OracleCell::List(one)) if one.len() == 1 => one[0].is(other),
            (OracleCell::Instant(_), OracleCell::Whole(_)) | (OracleCell::Whole(_), OracleCell::Instant(_)) => true,
            (one, other) => one == other,
        }
    }
}

/// The value of a row.
pub(super) fn cell(column: &ArrayRef, row: usize) -> OracleCell {
    if column.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return OracleCell::Null;
    }
    let one = column.slice(row, 1);
    match column.data_type() {
        DataType::Dictionary(_, values) => cast(&one, values).map_or(OracleCell::Other, |one| cell(&one, 0)),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let text = cast(&one, &DataType::Utf8);
            text.map_or(OracleCell::Other, |text| OracleCell::Text(text.as_string::<i32>().value(0).to_owned()))
        }
        DataType::UInt64 => OracleCell::Whole(i128::from(one.as_primitive::<UInt64Type>().value(0))),
        whole if whole.is_integer() => {
            let whole = cast(&one, &DataType::Int64);
            whole.map_or(OracleCell::Other, |whole| {
                OracleCell::Whole(i128::from(whole.as_primitive::<Int64Type>().value(0)))
            })
        }
        float if float.is_floating() => {
            let float = cast(&one, &DataType::Float64);
            float.map_or(OracleCell::Other, |float| of_float(float.as_primitive::<Float64Type>().value(0)))
        }
        DataType::Timestamp(unit, zone) => instant(&one, *unit, zone.clone()),
        DataType::FixedSizeList(_, _) => {
            let items = one.as_fixed_size_list().value(0);
            OracleCell::List((0..items.len()).map(|item| cell(&items, item)).collect())
        }
        _ => OracleCell::Other,
    }
}

fn of_float(float: f64) -> OracleCell {
    #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is far smaller than 128 bits hold")]
    match float {
        _ if float.is_nan() => OracleCell::Float(f64::NAN.to_bits()),
        _ if float.fract() == 0.0 && float.abs() < 1e30 => OracleCell::Whole(float as i128),
        _ => OracleCell::Float(float.to_bits()),
    }
}

fn instant(one: &ArrayRef, unit: TimeUnit, zone: Option<std::sync::Arc<str>>) -> OracleCell {
    let factor = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    // The same number under another label.
    let data = one.to_data().into_builder().data_type(DataType::Timestamp(TimeUnit::Nanosecond, zone));
    let Ok(data) = data.build() else { return OracleCell::Other };
    let number = arrow::array::make_array(data).as_primitive::<TimestampNanosecondType>().value(0);
    OracleCell::Instant(i128::from(number) * factor)
}
