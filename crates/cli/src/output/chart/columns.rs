//! What an answer is drawn as: that follows from the names and types of its columns.

use std::str::FromStr;

use anyhow::Result;
use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Float64Type, Schema, Time64NanosecondType, TimeUnit, TimestampNanosecondType,
};

use super::axis::{Axis, AxisKind};

/// Names of the columns that make a candle, in the order of its prices.
const PRICES: [&str; 4] = ["open", "high", "low", "close"];

const DAY_NANOSECONDS: i64 = 86_400_000_000_000;
const MILLISECOND_NANOSECONDS: i64 = 1_000_000;

/// What an answer is drawn as, with the places of the columns.
#[derive(Debug, Clone, PartialEq)]
pub enum Drawing {
    /// Open, high, low and close along an axis.
    Candles { along: AxisColumn, key: Option<usize>, prices: [usize; 4] },
    /// A line for each number, and for each value of the key if there is one.
    Lines { along: AxisColumn, key: Option<usize>, values: Vec<usize> },
    /// A bar for each row, in a list for each number.
    Bars { key: usize, values: Vec<usize> },
}

/// What stands along the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisColumn {
    Column(usize),
    /// Rows in the order of the answer.
    RowNumbers,
}

impl Drawing {
    /// What an answer with such columns is drawn as; `None` if none of them is a number.
    pub fn of(schema: &Schema) -> Option<Drawing> {
        let places = |is: fn(&DataType) -> bool| {
            let of_type = move |(_, field): &(usize, &std::sync::Arc<arrow::datatypes::Field>)| is(field.data_type());
            schema.fields().iter().enumerate().filter(of_type).map(|(place, _)| place).collect::<Vec<usize>>()
        };
        let (times, texts, numbers) = (places(is_time), places(is_text), places(DataType::is_numeric));
        let key = texts.first().copied();
        let along = match (times.first(), key) {
            (Some(time), _) => AxisColumn::Column(*time),
            (None, Some(key)) if !numbers.is_empty() => return Some(Drawing::Bars { key, values: numbers }),
            (None, _) if numbers.len() > 1 && numbers[0] == 0 => AxisColumn::Column(0),
            (None, _) => AxisColumn::RowNumbers,
        };
        let values: Vec<usize> = numbers.into_iter().filter(|place| along != AxisColumn::Column(*place)).collect();
        let named =
            |name: &str| values.iter().copied().find(|place| schema.field(*place).name().eq_ignore_ascii_case(name));
        let prices = PRICES.map(named);
        if let [Some(open), Some(high), Some(low), Some(close)] = prices {
            return Some(Drawing::Candles { along, key, prices: [open, high, low, close] });
        }
        (!values.is_empty()).then_some(Drawing::Lines { along, key, values })
    }
}

fn is_time(data_type: &DataType) -> bool {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp};
    matches!(data_type, Timestamp(_, _) | Date32 | Date64 | Time32(_) | Time64(_))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// The axis that a column makes.
pub fn axis(schema: &Schema, along: AxisColumn) -> Axis {
    let AxisColumn::Column(place) = along else {
        return Axis { kind: AxisKind::Numbers, base: 0, name: "row".to_owned() };
    };
    let field = schema.field(place);
    let (kind, name) = match field.data_type() {
        DataType::Timestamp(_, Some(zone)) => (AxisKind::Times(Tz::from_str(zone).ok()), zone.to_string()),
        DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64 => (AxisKind::Times(None), String::new()),
        DataType::Time32(_) | DataType::Time64(_) => (AxisKind::TimesOfDay, String::new()),
        _ => (AxisKind::Numbers, field.name().clone()),
    };
    Axis { kind, base: 0, name }
}

/// The places of a column's values on an axis, whose base becomes the first of them. What is no number, or beyond nanoseconds, has none.
#[expect(clippy::cast_precision_loss, reason = "distances from the base of the axis")]
pub fn places(column: &ArrayRef, axis: &mut Axis, is_first: bool) -> Result<Vec<Option<f64>>> {
    if matches!(axis.kind, AxisKind::Numbers) {
        return Ok(floats(column)?.iter().map(|value| value.filter(|value| value.is_finite())).collect());
    }
    let instants = nanoseconds(column)?;
    if is_first {
        axis.base = instants.iter().flatten().next().copied().unwrap_or(0);
    }
    let base = axis.base;
    Ok(instants.into_iter().map(|instant| Some(instant?.checked_sub(base)? as f64)).collect())
}

fn nanoseconds(column: &ArrayRef) -> Result<Vec<Option<i64>>> {
    Ok(match column.data_type() {
        DataType::Timestamp(_, zone) => {
            let column = cast(column, &DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()))?;
            column.as_primitive::<TimestampNanosecondType>().iter().collect()
        }
        DataType::Date32 => {
            let days = column.as_primitive::<Date32Type>().iter();
            days.map(|day| i64::from(day?).checked_mul(DAY_NANOSECONDS)).collect()
        }
        DataType::Date64 => {
            let milliseconds = column.as_primitive::<Date64Type>().iter();
            milliseconds.map(|instant| instant?.checked_mul(MILLISECOND_NANOSECONDS)).collect()
        }
        _ => {
            let column = cast(column, &DataType::Time64(TimeUnit::Nanosecond))?;
            column.as_primitive::<Time64NanosecondType>().iter().collect()
        }
    })
}

/// The numbers of a column.
pub fn floats(column: &ArrayRef) -> Result<Float64Array> {
    Ok(cast(column, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// The texts of a column.
pub fn texts(column: &ArrayRef) -> Result<StringArray> {
    Ok(cast(column, &DataType::Utf8)?.as_string::<i32>().clone())
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    fn drawing(columns: &[(&str, DataType)]) -> Option<Drawing> {
        Drawing::of(&Schema::new(
            columns.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect::<Vec<_>>(),
        ))
    }

    #[test]
    fn columns_say_what_is_drawn() {
        let (time, price) = (DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), DataType::Float64);
        let symbol = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let bars = |names: [&'static str; 4]| names.map(|name| (name, price.clone()));
        let mut candle = vec![("sym", symbol.clone()), ("bar", time.clone())];
        candle.extend(bars(["Open", "HIGH", "low", "close"]));
        candle.push(("volume", DataType::Int64));
        let along = AxisColumn::Column(1);
        assert_eq!(drawing(&candle), Some(Drawing::Candles { along, key: Some(0), prices: [2, 3, 4, 5] }));
        // Without the close.
        candle.remove(5);
        assert_eq!(drawing(&candle), Some(Drawing::Lines { along, key: Some(0), values: vec![2, 3, 4, 5] }));
        assert_eq!(
            drawing(&[("n", DataType::Int64), ("sym", symbol)]),
            Some(Drawing::Bars { key: 1, values: vec![0] })
        );
        let (strike, volatility) = (("strike", DataType::Decimal128(9, 2)), ("volatility", DataType::Float32));
        let along = AxisColumn::Column(0);
        assert_eq!(drawing(&[strike, volatility]), Some(Drawing::Lines { along, key: None, values: vec![1] }));
        let along = AxisColumn::RowNumbers;
        assert_eq!(drawing(&[("n", DataType::UInt8)]), Some(Drawing::Lines { along, key: None, values: vec![0] }));
        assert_eq!(drawing(&[("t", time), ("text", DataType::Utf8View), ("yes", DataType::Boolean)]), None);
        assert_eq!(drawing(&[]), None);
    }
}
