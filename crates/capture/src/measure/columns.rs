//! The columns of a table that show how good its feed is, and their values in a batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampNanosecondType};
use splay_store::{ColumnType, TableSpec};

use crate::settings::QualitySettings;

/// Columns by their places.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MeasuredColumns {
    pub(super) time: usize,
    pub(super) sequence: Option<usize>,
    pub(super) bid: Option<usize>,
    pub(super) ask: Option<usize>,
    pub(super) event: Option<usize>,
    pub(super) symbol: Option<usize>,
    pub(super) venue: Option<usize>,
}

impl MeasuredColumns {
    /// The columns of a table. Names that were set and can't be what they shall are logged and passed over.
    pub(super) fn of(spec: &TableSpec, settings: &QualitySettings) -> MeasuredColumns {
        let find = |what: &str, set: &Option<String>, usual: &[&str], fits: fn(&ColumnType) -> bool| {
            let place = |name: &str| spec.position(name).filter(|place| fits(&spec.columns[*place].column_type));
            match set.as_deref() {
                Some("") => None,
                Some(name) => place(name).or_else(|| {
                    tracing::warn!(table = spec.name, column = name, "no column that can be the {what} of its rows");
                    None
                }),
                None => usual.iter().find_map(|name| place(name)),
            }
        };
        let event_by_time = if spec.time.eq_ignore_ascii_case("ts_recv") { "ts_event" } else { &spec.time };
        let symbol: Vec<&str> = spec.symbol.as_deref().into_iter().collect();
        MeasuredColumns {
            time: spec.time_position(),
            sequence: find("sequence", &settings.sequence, &["sequence", "seq", "sequence_number"], is_whole),
            bid: find("bid", &settings.bid, &["bid_price", "bid"], is_price),
            ask: find("ask", &settings.ask, &["ask_price", "ask", "offer_price", "offer"], is_price),
            event: find("event", &settings.event, &["ts_event", event_by_time], |column_type| {
                *column_type == ColumnType::Timestamp
            }),
            symbol: find("symbol", &settings.symbol, &symbol, |column_type| *column_type == ColumnType::Symbol),
            venue: find("venue", &settings.venue, &["venue", "exchange"], |column_type| {
                *column_type == ColumnType::Symbol
            }),
        }
    }
}

fn is_whole(column_type: &ColumnType) -> bool {
    matches!(column_type.arrow(), kind if kind.is_integer())
}

fn is_price(column_type: &ColumnType) -> bool {
    match column_type.arrow() {
        DataType::FixedSizeList(_, _) | DataType::Decimal128(_, _) => true,
        kind => kind.is_numeric(),
    }
}

/// Whole numbers of a batch.
pub(super) struct BatchNumbers(Int64Array);

impl BatchNumbers {
    /// Numbers beyond 63 bits count as none.
    pub(super) fn of(column: &ArrayRef) -> Option<BatchNumbers> {
        let column = if *column.data_type() == DataType::Int64 {
            Arc::clone(column)
        } else {
            cast(column, &DataType::Int64).ok()?
        };
        Some(BatchNumbers(column.as_primitive::<Int64Type>().clone()))
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

/// Prices of a batch: numbers, or the first of each row's levels.
pub(super) struct Prices {
    values: Float64Array,
    /// Values of a row.
    step: usize,
    /// Rows without levels.
    nulls: Option<NullBuffer>,
}

impl Prices {
    pub(super) fn of(column: &ArrayRef) -> Option<Prices> {
        let (values, step, nulls) = match column.as_fixed_size_list_opt() {
            Some(list) => (list.values(), usize::try_from(list.value_length()).ok()?, list.nulls().cloned()),
            None => (column, 1, None),
        };
        let values =
            if *values.data_type() == DataType::Float64 { values } else { &cast(values, &DataType::Float64).ok()? };
        Some(Prices { values: values.as_primitive::<Float64Type>().clone(), step, nulls })
    }

    /// The price of a row; not a number if there is none.
    #[inline]
    pub(super) fn get(&self, row: usize) -> f64 {
        let at = row * self.step;
        let is_there = self.values.is_valid(at) && self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        if is_there { self.values.value(at) } else { f64::NAN }
    }
}

/// Times of a batch.
pub(super) fn times(rows: &RecordBatch, place: usize) -> &TimestampNanosecondArray {
    rows.column(place).as_primitive::<TimestampNanosecondType>()
}
