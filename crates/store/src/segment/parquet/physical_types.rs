//! The physical types of columns in a Parquet segment: the smallest that preserve every bit.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal64Array, PrimitiveArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Schema, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};

use super::exact;
use crate::error::Result;
use crate::publish::Publish;

/// Digits of a decimal of 64 bits.
const DIGITS: u8 = 18;

/// The rows with each column in its physical type: the type that packs best or, if the table is published to other
/// engines, the type that the column has in all of the table's files.
pub(super) fn columns(rows: &RecordBatch, publish: Option<Publish>) -> Result<RecordBatch> {
    let schema = rows.schema_ref();
    let stored = |column: &ArrayRef| match publish {
        Some(publish) => publish_column(column, publish),
        None => stored(column),
    };
    let columns: Vec<ArrayRef> = rows.columns().iter().map(stored).collect::<Result<_>>()?;
    let retyped =
        |(field, column): (&Arc<Field>, &ArrayRef)| field.as_ref().clone().with_data_type(column.data_type().clone());
    let fields: Vec<Field> = schema.fields().iter().zip(&columns).map(retyped).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())), columns)?)
}

/// The types as other tools know them: they read decimals of 64 bits as such of 128, and a published list as one of any length.
pub(super) fn declared(schema: &Schema, publish: Option<Publish>) -> Schema {
    let retyped = |field: &Arc<Field>| match field.data_type() {
        DataType::FixedSizeList(item, _) if publish.is_some() => {
            field.as_ref().clone().with_data_type(DataType::List(Arc::clone(item)))
        }
        DataType::Decimal64(digits, scale) => {
            field.as_ref().clone().with_data_type(DataType::Decimal128(*digits, *scale))
        }
        _ => field.as_ref().clone(),
    };
    Schema::new_with_metadata(schema.fields().iter().map(retyped).collect::<Vec<_>>(), schema.metadata().clone())
}

/// A column in its published type. Times of parts of a microsecond stay what they are where that has none: no file loses digits, and the
/// publication refuses this one.
fn publish_column(column: &ArrayRef, publish: Publish) -> Result<ArrayRef> {
    let to = publish.stored_type(column.data_type());
    if let (DataType::Timestamp(TimeUnit::Nanosecond, _), DataType::Timestamp(TimeUnit::Microsecond, _)) =
        (column.data_type(), &to)
        && coarsest(column.as_primitive::<TimestampNanosecondType>(), &[1_000]) == 1
    {
        return Ok(Arc::clone(column));
    }
    Ok(if to == *column.data_type() { Arc::clone(column) } else { cast(column, &to)? })
}

/// A column in the type that packs best.
pub(in crate::segment) fn stored(column: &ArrayRef) -> Result<ArrayRef> {
    let wholes = match column.data_type() {
        DataType::Float64 => exact::wholes_of_64(column.as_primitive()),
        DataType::Float32 => exact::wholes_of_32(column.as_primitive()),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let times = column.as_primitive::<TimestampNanosecondType>();
            return Ok(match coarsest(times, &[1_000_000, 1_000]) {
                1_000_000 => Arc::new(
                    divide_times::<_, TimestampMillisecondType>(times, 1_000_000).with_timezone_opt(zone.clone()),
                ),
                1_000 => {
                    Arc::new(divide_times::<_, TimestampMicrosecondType>(times, 1_000).with_timezone_opt(zone.clone()))
                }
                _ => Arc::clone(column),
            });
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            let times = column.as_primitive::<Time64NanosecondType>();
            return Ok(match coarsest(times, &[1_000]) {
                1_000 => Arc::new(divide_times::<_, Time64MicrosecondType>(times, 1_000)),
                _ => Arc::clone(column),
            });
        }
        _ => None,
    };
    Ok(match wholes {
        Some((wholes, scale)) => {
            let decimals = Decimal64Array::try_new(wholes.into(), column.nulls().cloned())?;
            Arc::new(decimals.with_precision_and_scale(DIGITS, scale)?)
        }
        None => Arc::clone(column),
    })
}

/// The first of some units, given in nanoseconds, of which all times are multiples; 1 if there is none.
fn coarsest<T: ArrowPrimitiveType<Native = i64>>(times: &PrimitiveArray<T>, units: &[i64]) -> i64 {
    let mut units = units.iter().copied();
    let mut unit = units.next().unwrap_or(1);
    for (row, time) in times.values().iter().enumerate() {
        while unit > 1 && time % unit != 0 && times.is_valid(row) {
            unit = units.next().unwrap_or(1);
        }
        if unit == 1 {
            break;
        }
    }
    unit
}

fn divide_times<T, U>(times: &PrimitiveArray<T>, by: i64) -> PrimitiveArray<U>
where
    T: ArrowPrimitiveType<Native = i64>,
    U: ArrowPrimitiveType<Native = i64>,
{
    times.unary(|time| time / by)
}
