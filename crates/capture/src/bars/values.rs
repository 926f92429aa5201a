//! The columns of an update from which bars are computed.

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow::buffer::ScalarBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use splay_store::TableSpec;

use super::BarsRequest;
use super::bar::Volume;
use crate::error::{Error, Result};

/// Names of the columns, as the table has them.
#[derive(Debug, Clone)]
pub(super) struct BarColumns {
    table: String,
    time: String,
    symbol: Option<String>,
    price: String,
    pub(super) size: Option<String>,
}

impl BarColumns {
    /// The columns of a request, which has been checked against the table.
    pub(super) fn new(spec: &TableSpec, request: &BarsRequest) -> BarColumns {
        let named =
            |name: &String| spec.position(name).map_or_else(|| name.clone(), |at| spec.columns[at].name.clone());
        let (price, size) = (named(&request.price), request.size.as_ref().map(named));
        BarColumns { table: spec.name.clone(), time: spec.time.clone(), symbol: spec.symbol.clone(), price, size }
    }
}

/// Sizes as they are added up.
enum Sizes {
    Signed(Int64Array),
    Unsigned(UInt64Array),
    Float(Float64Array),
}

/// The values of some rows.
pub(super) struct BarValues {
    pub(super) times: ScalarBuffer<i64>,
    symbols: Option<(Int32Array, StringArray)>,
    prices: Float64Array,
    sizes: Option<Sizes>,
}

impl BarValues {
    pub(super) fn of(columns: &BarColumns, rows: &RecordBatch) -> Result<BarValues> {
        let column = |name: &str| -> Result<&ArrayRef> {
            let position = rows.schema_ref().fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
            let missing = || Error::rejected(&columns.table, format!("its updates lack the column {name:?}"));
            position.map(|at| rows.column(at)).ok_or_else(missing)
        };
        let symbols = columns.symbol.as_deref().map(column).transpose()?.map(|symbols| {
            let symbols = symbols.as_dictionary::<Int32Type>();
            (symbols.keys().clone(), symbols.values().as_string::<i32>().clone())
        });
        Ok(BarValues {
            times: column(&columns.time)?.as_primitive::<TimestampNanosecondType>().values().clone(),
            symbols,
            prices: cast(column(&columns.price)?, &DataType::Float64)?.as_primitive::<Float64Type>().clone(),
            sizes: columns.size.as_deref().map(|name| sizes(column(name)?)).transpose()?,
        })
    }

    /// Texts of the dictionary.
    pub(super) fn texts(&self) -> usize {
        self.symbols.as_ref().map_or(0, |(_, texts)| texts.len())
    }

    /// Which text a row's symbol is.
    pub(super) fn key(&self, row: usize) -> Option<usize> {
        let (keys, _) = self.symbols.as_ref()?;
        if keys.is_null(row) { None } else { usize::try_from(keys.value(row)).ok() }
    }

    pub(super) fn text(&self, key: Option<usize>) -> Option<&str> {
        Some(self.symbols.as_ref()?.1.value(key?))
    }

    pub(super) fn price(&self, row: usize) -> Option<f64> {
        self.prices.is_valid(row).then(|| self.prices.value(row))
    }

    pub(super) fn size(&self, row: usize) -> Option<Volume> {
        match self.sizes.as_ref()? {
            Sizes::Signed(sizes) => sizes.is_valid(row).then(|| Volume::Whole(sizes.value(row).into())),
            Sizes::Unsigned(sizes) => sizes.is_valid(row).then(|| Volume::Whole(sizes.value(row).into())),
            Sizes::Float(sizes) => sizes.is_valid(row).then(|| Volume::Float(sizes.value(row))),
        }
    }
}

fn sizes(column: &ArrayRef) -> Result<Sizes> {
    Ok(match column.data_type() {
        kind if kind.is_signed_integer() => {
            Sizes::Signed(cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
        }
        kind if kind.is_unsigned_integer() => {
            Sizes::Unsigned(cast(column, &DataType::UInt64)?.as_primitive::<UInt64Type>().clone())
        }
        _ => Sizes::Float(cast(column, &DataType::Float64)?.as_primitive::<Float64Type>().clone()),
    })
}
