//! `mode`, `mad`, `quantile_disc`, `histogram`, and measures of the shape of a distribution (`shape.rs`): aggregates that see all values of a
//! group at once.
//!
//! - Nulls are left out; nothing left gives null, of `entropy` 0.
//! - NaN is above all numbers, and both zeros are one, as everywhere.
//! - Of values that are equally frequent `mode` is the least, whatever the order of rows; DuckDB's is the first that it meets.
//! - `quantile_disc(x, p)` is the first value that a share of `p` of the values doesn't exceed. `p` is a constant from 0 to 1, or a list of them
//!   for a list of results. `quantile_cont` is in `percentile.rs`.
//! - All values of a group are held in memory.
//!
//! Source: duckdb.org/docs/stable/sql/functions/aggregates.

use std::hash::Hash;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, ListArray, MapArray, StructArray, UInt32Array, UInt64Array, new_empty_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, sort_to_indices, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Float64Type, Schema};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{HashMap, Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, ReversedUDAF, Signature, Volatility,
};
use splay_store::canonical;

use crate::frame_ranks::place;
use crate::shape::{ShapeStatistic, entropy};

/// Arrays of values that are put together once there are so many.
const PARTS_MAX: usize = 64;

/// All aggregates of this file.
pub(super) fn aggregates() -> Vec<AggregateUDF> {
    let shapes = [
        ShapeStatistic::Skewness,
        ShapeStatistic::Kurtosis,
        ShapeStatistic::KurtosisPop,
        ShapeStatistic::Product,
        ShapeStatistic::GeometricMean,
    ];
    let kinds = [Kind::Mode, Kind::Deviation, Kind::Among, Kind::Histogram, Kind::Entropy];
    let kinds = kinds.into_iter().chain(shapes.map(Kind::Shape)).collect::<Vec<_>>();
    kinds.into_iter().map(|kind| AggregateUDF::from(ValuesAggregate::new(kind))).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Mode,
    /// The median of the distances from the median.
    Deviation,
    /// A quantile that is one of the values.
    Among,
    Histogram,
    Entropy,
    Shape(ShapeStatistic),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ValuesAggregate {
    kind: Kind,
    aliases: Vec<String>,
    signature: Signature,
}

impl ValuesAggregate {
    fn new(kind: Kind) -> ValuesAggregate {
        let aliases = match kind {
            Kind::Among => vec!["quantile".to_owned()],
            Kind::Shape(ShapeStatistic::GeometricMean) => vec!["geometric_mean".to_owned()],
            _ => Vec::new(),
        };
        ValuesAggregate { kind, aliases, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for ValuesAggregate {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Mode => "mode",
            Kind::Deviation => "mad",
            Kind::Among => "quantile_disc",
            Kind::Histogram => "histogram",
            Kind::Entropy => "entropy",
            Kind::Shape(shape) => shape.name(),
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        let x = |x: &DataType| match (self.kind, x) {
            (Kind::Mode | Kind::Histogram | Kind::Among | Kind::Entropy, x) => Ok(x.clone()),
            (_, x) if x.is_numeric() || x.is_null() => Ok(DataType::Float64),
            (_, x) => plan_err!("{name} takes numbers, not a {x}"),
        };
        match (self.kind, arg_types) {
            (Kind::Among, [value, p]) if p.is_numeric() => Ok(vec![x(value)?, DataType::Float64]),
            (Kind::Among, [value, DataType::List(_) | DataType::FixedSizeList(_, _)]) => {
                Ok(vec![x(value)?, list_of(DataType::Float64)])
            }
            (Kind::Among, _) => plan_err!("{name} takes (x, p), p being a number from 0 to 1 or a list of them"),
            (_, [value]) => Ok(vec![x(value)?]),
            _ => plan_err!("{name} takes one argument"),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let Some(x) = arg_types.first() else { return plan_err!("{} takes an argument", self.name()) };
        Ok(match (self.kind, arg_types.get(1)) {
            (Kind::Histogram, _) => DataType::Map(Arc::new(entries(x)), false),
            (Kind::Entropy, _) => DataType::Float64,
            (_, Some(DataType::List(_))) => list_of(x.clone()),
            _ => x.clone(),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let Some(x) = args.input_fields.first() else { return plan_err!("{} takes an argument", self.name()) };
        let name = format_state_name(args.name, "values");
        Ok(vec![Arc::new(Field::new(name, list_of(x.data_type().clone()), true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct && matches!(self.kind, Kind::Mode | Kind::Histogram) {
            return not_impl_err!("{}(DISTINCT …)", self.name());
        }
        let Some(x) = args.expr_fields.first() else { return plan_err!("{} takes an argument", self.name()) };
        let shares = match args.exprs.get(1) {
            None => Shares::One(0.5),
            Some(p) => match p.evaluate(&arrow::array::RecordBatch::new_empty(Arc::new(Schema::empty()))) {
                Ok(ColumnarValue::Scalar(p)) => Shares::of(&p)?,
                Ok(ColumnarValue::Array(_)) | Err(_) => return plan_err!("the p of {} is a constant", self.name()),
            },
        };
        Ok(Box::new(Values {
            kind: self.kind,
            shares,
            is_distinct: args.is_distinct,
            of: x.data_type().clone(),
            result: args.return_field.data_type().clone(),
            parts: Vec::new(),
            bytes: 0,
        }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

fn list_of(data_type: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(data_type, true)))
}

/// An entry of a histogram: a value, and how often it is there.
fn entries(x: &DataType) -> Field {
    let fields = [Field::new("keys", x.clone(), false), Field::new("values", DataType::UInt64, true)];
    Field::new("entries", DataType::Struct(Fields::from(fields.to_vec())), false)
}

/// The shares at which quantiles are computed.
#[derive(Debug, Clone)]
enum Shares {
    One(f64),
    Several(Vec<f64>),
}

impl Shares {
    fn of(p: &ScalarValue) -> Result<Shares> {
        let check = |p: Option<f64>| match p {
            Some(p) if (0.0..=1.0).contains(&p) => Ok(p),
            _ => plan_err!("the p of a quantile lies between 0 and 1"),
        };
        match p {
            ScalarValue::Float64(p) => Ok(Shares::One(check(*p)?)),
            ScalarValue::List(list) if list.len() == 1 => {
                let values = list.value(0);
                let values = values.as_primitive::<Float64Type>();
                Ok(Shares::Several(values.iter().map(check).collect::<Result<_>>()?))
            }
            other => plan_err!("the p of a quantile is a number or a list of numbers, not {other}"),
        }
    }
}

/// The values of one group.
#[derive(Debug)]
struct Values {
    kind: Kind,
    shares: Shares,
    is_distinct: bool,
    of: DataType,
    result: DataType,
    parts: Vec<ArrayRef>,
    bytes: usize,
}

impl Values {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let rows: UInt32Array = (0u32..).take(values.len()).filter(|row| values.is_valid(*row as usize)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        // Copied: a slice would hold all of its batch.
        let values = take(values, &rows, None)?;
        self.bytes += values.get_array_memory_size();
        self.parts.push(values);
        if self.parts.len() >= PARTS_MAX {
            let all = self.all()?;
            self.bytes = all.get_array_memory_size();
            self.parts = vec![all];
        }
        Ok(())
    }

    fn all(&self) -> Result<ArrayRef> {
        match self.parts.as_slice() {
            [] => Ok(new_empty_array(&self.of)),
            [one] => Ok(Arc::clone(one)),
            parts => {
                let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                Ok(concat(&parts)?)
            }
        }
    }

    /// The values in their order, without those that come twice if each counts once.
    fn sorted(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let sorted = take(values, &sort_to_indices(values, None, None)?, None)?;
        if !self.is_distinct {
            return Ok(sorted);
        }
        let rows = rows_of(&sorted)?;
        let first: UInt32Array = (0u32..)
            .take(sorted.len())
            .filter(|row| *row == 0 || rows.row(*row as usize) != rows.row(*row as usize - 1))
            .collect();
        Ok(take(&sorted, &first, None)?)
    }
}

/// The value on the line between those around a share of the rows.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the place lies among the values")]
fn between(sorted: &Float64Array, share: f64) -> f64 {
    let place = (sorted.len() - 1) as f64 * share;
    let (low, part) = (place.floor() as usize, place - place.floor());
    let value = sorted.value(low);
    if part == 0.0 || low + 1 == sorted.len() || value == sorted.value(low + 1) {
        return value;
    }
    value + (sorted.value(low + 1) - value) * part
}

fn rows_of(values: &ArrayRef) -> Result<arrow::row::Rows> {
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    Ok(converter.convert_columns(&[Arc::clone(values)])?)
}

/// The place of the first of each value, with how often it is there, in any order.
fn counts(values: &ArrayRef) -> Result<Vec<(u32, u64)>> {
    Ok(match (values.data_type().primitive_width(), values.as_string_opt::<i32>()) {
        (Some(1), _) => counts_of(bytes_of::<1>(values)),
        (Some(2), _) => counts_of(bytes_of::<2>(values)),
        (Some(4), _) => counts_of(bytes_of::<4>(values)),
        (Some(8), _) => counts_of(bytes_of::<8>(values)),
        (Some(16), _) => counts_of(bytes_of::<16>(values)),
        (_, Some(texts)) => counts_of((0..texts.len()).map(|row| texts.value(row))),
        _ => counts_of(rows_of(values)?.iter()),
    })
}

/// The least of the most frequent values.
fn mode(values: &ArrayRef) -> Result<ScalarValue> {
    let counts = counts(values)?;
    let most = counts.iter().map(|(_, count)| *count).max();
    let firsts = counts.iter().filter(|(_, count)| Some(*count) == most).map(|(first, _)| *first);
    let candidates = take(values, &UInt32Array::from_iter_values(firsts), None)?;
    let least = sort_to_indices(&candidates, None, Some(1))?;
    match least.values().first() {
        Some(place) => ScalarValue::try_from_array(&candidates, *place as usize),
        None => ScalarValue::try_new_null(values.data_type()),
    }
}

/// The counts of values in the order of values.
fn counted(values: &ArrayRef) -> Result<Vec<(u32, u64)>> {
    let counts = counts(values)?;
    let firsts = UInt32Array::from_iter_values(counts.iter().map(|(first, _)| *first));
    let order = sort_to_indices(&take(values, &firsts, None)?, None, None)?;
    Ok(order.values().iter().map(|place| counts[*place as usize]).collect())
}

fn counts_of<V: Hash + Eq>(values: impl Iterator<Item = V>) -> Vec<(u32, u64)> {
    let mut counts: HashMap<V, (u32, u64)> = HashMap::new();
    values.zip(0u32..).for_each(|(value, place)| counts.entry(value).or_insert((place, 0)).1 += 1);
    counts.into_values().collect()
}

/// The bytes of numbers of one width.
fn bytes_of<const WIDTH: usize>(values: &ArrayRef) -> impl Iterator<Item = [u8; WIDTH]> {
    let data = values.to_data();
    let buffer = data.buffers()[0].slice_with_length(data.offset() * WIDTH, data.len() * WIDTH);
    (0..data.len()).map(move |row| {
        let mut own = [0; WIDTH];
        own.copy_from_slice(&buffer[row * WIDTH..(row + 1) * WIDTH]);
        own
    })
}

fn histogram(values: &ArrayRef) -> Result<ScalarValue> {
    let counts = counted(values)?;
    let (places, numbers): (Vec<u32>, Vec<u64>) = counts.into_iter().unzip();
    let keys = take(values, &UInt32Array::from(places), None)?;
    let DataType::Struct(fields) = entries(values.data_type()).data_type().clone() else {
        return exec_err!("an entry has two columns");
    };
    let columns: Vec<ArrayRef> = vec![keys, Arc::new(UInt64Array::from(numbers))];
    let offsets = OffsetBuffer::from_lengths([columns[0].len()]);
    let all = StructArray::try_new(fields, columns, None)?;
    let map = MapArray::try_new(Arc::new(entries(values.data_type())), offsets, all, None, false)?;
    Ok(ScalarValue::Map(Arc::new(map)))
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values.first().map_or(Ok(()), |values| self.add(values))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = self.all()?;
        if values.is_empty() && self.kind == Kind::Entropy {
            return Ok(ScalarValue::Float64(Some(0.0)));
        }
        if values.is_empty() {
            return ScalarValue::try_new_null(&self.result);
        }
        let values = canonical(&values).unwrap_or(values);
        match self.kind {
            Kind::Mode => mode(&values),
            Kind::Histogram => histogram(&values),
            Kind::Entropy => {
                let values = if self.is_distinct { self.sorted(&values)? } else { values };
                Ok(ScalarValue::Float64(Some(entropy(counted(&values)?.into_iter().map(|(_, count)| count)))))
            }
            Kind::Shape(shape) => {
                let values = if self.is_distinct { self.sorted(&values)? } else { values };
                Ok(ScalarValue::Float64(shape.of(values.as_primitive::<Float64Type>().values())))
            }
            Kind::Deviation => {
                let sorted = self.sorted(&values)?;
                let sorted = sorted.as_primitive::<Float64Type>();
                let middle = between(sorted, 0.5);
                let mut distances: Vec<f64> = sorted.values().iter().map(|value| (value - middle).abs()).collect();
                distances.sort_unstable_by(f64::total_cmp);
                Ok(ScalarValue::Float64(Some(between(&Float64Array::from(distances), 0.5))))
            }
            Kind::Among => {
                let sorted = self.sorted(&values)?;
                match &self.shares {
                    Shares::One(share) => ScalarValue::try_from_array(&sorted, place(sorted.len(), *share)),
                    Shares::Several(shares) => {
                        let all = shares
                            .iter()
                            .map(|share| ScalarValue::try_from_array(&sorted, place(sorted.len(), *share)));
                        let all = all.collect::<Result<Vec<_>>>()?;
                        Ok(ScalarValue::List(ScalarValue::new_list(&all, sorted.data_type(), true)))
                    }
                }
            }
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.all()?;
        let field = Arc::new(Field::new_list_field(self.of.clone(), true));
        let list = ListArray::try_new(field, OffsetBuffer::from_lengths([values.len()]), values, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(states) = states.first() else { return Ok(()) };
        let lists = states.as_list::<i32>();
        for list in lists.iter().flatten() {
            self.add(&list)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    #[test]
    fn quantiles_lie_where_their_share_says() {
        let sorted = Float64Array::from(vec![1.0, 2.0, 4.0, f64::INFINITY]);
        for (share, value) in [(0.0, 1.0), (0.5, 3.0), (1.0, f64::INFINITY)] {
            assert_eq!(between(&sorted, share).partial_cmp(&value), Some(Ordering::Equal));
        }
        assert_eq!([place(100, 0.07), place(4, 0.0), place(4, 0.5), place(4, 0.51), place(4, 1.0)], [6, 0, 1, 2, 3]);
    }
}
