//! One bar, and bars as rows.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray,
    UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use splay_store::{ColumnType, TableSpec};

/// Rows of a symbol within a bucket. Rows may be added in any order; those of one time in order of arrival.
///
/// Means what SQL says of the same rows: `first(price)`, `max(price)`, `min(price)`, `last(price)`, `sum(size)`,
/// `vwap(price, size)`, `count(*)`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Bar {
    open: (i64, Option<f64>),
    high: Option<f64>,
    low: Option<f64>,
    close: (i64, Option<f64>),
    volume: Option<Volume>,
    /// Sums of price times size and of size, over the rows that have both.
    turnover: (f64, f64),
    has_pairs: bool,
    count: u64,
    /// Number of the batch up to which the rows were read from the table: those of later ones are still to be added.
    pub(super) through: u64,
    /// Whether the bar has changed since it was last published.
    pub(super) is_changed: bool,
    /// Whether the bar was published as final.
    pub(super) is_final: bool,
}

/// A sum of sizes: whole numbers stay whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Volume {
    Whole(i128),
    Float(f64),
}

impl Volume {
    fn as_f64(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
            Volume::Whole(whole) => whole as f64,
            Volume::Float(float) => float,
        }
    }

    fn plus(self, other: Volume) -> Volume {
        match (self, other) {
            (Volume::Whole(one), Volume::Whole(other)) => Volume::Whole(one.saturating_add(other)),
            (one, other) => Volume::Float(one.as_f64() + other.as_f64()),
        }
    }
}

impl Bar {
    pub(super) fn add(&mut self, time: i64, price: Option<f64>, size: Option<Volume>) {
        let is_first = self.count == 0;
        if is_first || time < self.open.0 {
            self.open = (time, price);
        }
        if is_first || time >= self.close.0 {
            self.close = (time, price);
        }
        if let Some(price) = price {
            // In the order in which SQL finds extremes: NaN is above all.
            self.high = Some(self.high.map_or(price, |high| if price.total_cmp(&high).is_gt() { price } else { high }));
            self.low = Some(self.low.map_or(price, |low| if price.total_cmp(&low).is_lt() { price } else { low }));
        }
        if let Some(size) = size {
            self.volume = Some(self.volume.map_or(size, |volume| volume.plus(size)));
            if let Some(price) = price {
                let size = size.as_f64();
                self.turnover = (self.turnover.0 + price * size, self.turnover.1 + size);
                self.has_pairs = true;
            }
        }
        self.count += 1;
        self.is_changed = true;
    }

    fn vwap(&self) -> Option<f64> {
        (self.has_pairs && self.turnover.1 != 0.0).then(|| self.turnover.0 / self.turnover.1)
    }
}

/// A bar that is due to be published to subscribers.
#[derive(Debug, Clone)]
pub(super) struct PublishedBar {
    pub(super) symbol: Option<Arc<str>>,
    pub(super) bucket: i64,
    pub(super) bar: Bar,
}

/// How bars look as rows.
#[derive(Debug, Clone)]
pub(super) struct BarLayout {
    schema: SchemaRef,
    has_symbol: bool,
    has_size: bool,
    is_whole: bool,
}

impl BarLayout {
    /// Bars of a table: its time and its symbol column, then theirs. `size` is the type of the column of sizes.
    pub(super) fn new(spec: &TableSpec, size: Option<&ColumnType>) -> BarLayout {
        let float = |name: &str| Field::new(name, DataType::Float64, true);
        let is_whole = size.is_some_and(|size| size.arrow().is_integer());
        let mut fields = vec![Field::new(&spec.time, ColumnType::Timestamp.arrow(), false)];
        fields.extend(spec.symbol.as_ref().map(|symbol| Field::new(symbol, ColumnType::Symbol.arrow(), true)));
        fields.extend(["open", "high", "low", "close"].map(float));
        if size.is_some() {
            fields.push(Field::new("volume", if is_whole { DataType::Int64 } else { DataType::Float64 }, true));
            fields.push(float("vwap"));
        }
        fields.push(Field::new("count", DataType::UInt64, false));
        fields.push(Field::new("final", DataType::Boolean, false));
        let schema = Arc::new(Schema::new(fields));
        BarLayout { schema, has_symbol: spec.symbol.is_some(), has_size: size.is_some(), is_whole }
    }

    /// Bars as rows, in the order given.
    pub(super) fn rows(&self, bars: &[PublishedBar]) -> RecordBatch {
        let times = bars.iter().map(|each| each.bucket);
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(TimestampNanosecondArray::from_iter_values(times).with_timezone("UTC"))];
        if self.has_symbol {
            let symbols = bars.iter().map(|each| each.symbol.as_deref());
            columns.push(Arc::new(symbols.collect::<DictionaryArray<Int32Type>>()));
        }
        let prices: [fn(&Bar) -> Option<f64>; 4] = [|bar| bar.open.1, |bar| bar.high, |bar| bar.low, |bar| bar.close.1];
        for price in prices {
            columns.push(Arc::new(bars.iter().map(|each| price(&each.bar)).collect::<Float64Array>()));
        }
        if self.has_size {
            let volumes = bars.iter().map(|each| each.bar.volume);
            columns.push(if self.is_whole {
                let whole = |volume| match volume {
                    Volume::Whole(whole) => i64::try_from(whole).unwrap_or(i64::MAX),
                    Volume::Float(_) => 0,
                };
                Arc::new(volumes.map(|volume| volume.map(whole)).collect::<Int64Array>())
            } else {
                Arc::new(volumes.map(|volume| volume.map(Volume::as_f64)).collect::<Float64Array>())
            });
            columns.push(Arc::new(bars.iter().map(|each| each.bar.vwap()).collect::<Float64Array>()));
        }
        columns.push(Arc::new(UInt64Array::from_iter_values(bars.iter().map(|each| each.bar.count))));
        columns.push(Arc::new(BooleanArray::from(bars.iter().map(|each| each.bar.is_final).collect::<Vec<_>>())));
        // The columns are those of the schema, by construction.
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .unwrap_or_else(|_| RecordBatch::new_empty(Arc::clone(&self.schema)))
    }
}
