//! The sort keys by which `first` and `last` compare rows of a group, within a batch and across partial states.
//!
//! Keys compare as the `ORDER BY` does, nulls and directions included, and travel between partial and final states as
//! bytes. Up to two columns of whole numbers, times or dates (the usual time and row position) become integers; anything
//! else goes through Arrow's row format, whose bytes compare as the rows do.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt32Type, UInt64Type,
};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, exec_datafusion_err, internal_err};

/// One way to write the keys of an `ORDER BY`.
pub(super) trait OrderKeys: Debug + Send + Sync + 'static {
    /// The key of one row, kept per group.
    type Key: Ord + Clone + Debug + Send + Sync;
    /// The keys of one batch.
    type Batch;

    /// Reads the order columns of a batch.
    fn batch(&self, columns: &[ArrayRef]) -> Result<Self::Batch>;
    /// Compares two rows of a batch.
    fn compare(batch: &Self::Batch, left: usize, right: usize) -> Ordering;
    /// Takes the key of a row out of its batch.
    fn key(batch: &Self::Batch, row: usize) -> Self::Key;
    /// Writes a key as state bytes.
    fn to_bytes(key: &Self::Key) -> Vec<u8>;
    /// Reads a key from state bytes.
    fn from_bytes(bytes: &[u8]) -> Result<Self::Key>;
    /// Bytes a key holds on the heap.
    fn heap_size(key: &Self::Key) -> usize;
}

/// Keys of one or two columns that fit in integers. Nulls and descending order are folded into the number.
#[derive(Debug)]
pub(super) struct IntegerKeys {
    options: Vec<SortOptions>,
}

impl IntegerKeys {
    /// Whether every type has an integer form and there are at most two.
    pub(super) fn supports(types: &[DataType]) -> bool {
        types.len() <= 2 && types.iter().all(is_integer_like)
    }

    pub(super) fn new(options: Vec<SortOptions>) -> Self {
        Self { options }
    }
}

fn is_integer_like(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int32
            | DataType::Int64
            | DataType::UInt32
            | DataType::UInt64
            | DataType::Date32
            | DataType::Date64
            | DataType::Timestamp(_, _)
    )
}

impl OrderKeys for IntegerKeys {
    type Key = [i128; 2];
    type Batch = Vec<[i128; 2]>;

    fn batch(&self, columns: &[ArrayRef]) -> Result<Self::Batch> {
        let mut keys = vec![[0; 2]; columns.first().map_or(0, |column| column.len())];
        for (place, (column, options)) in columns.iter().zip(&self.options).enumerate() {
            fill_integers(&mut keys, place, column, *options)?;
        }
        Ok(keys)
    }

    fn compare(batch: &Self::Batch, left: usize, right: usize) -> Ordering {
        batch[left].cmp(&batch[right])
    }

    fn key(batch: &Self::Batch, row: usize) -> Self::Key {
        batch[row]
    }

    fn to_bytes(key: &Self::Key) -> Vec<u8> {
        key.iter().flat_map(|part| part.to_le_bytes()).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self::Key> {
        let (first, second) = bytes.split_at_checked(16).ok_or_else(malformed)?;
        let part = |bytes: &[u8]| bytes.try_into().map(i128::from_le_bytes).map_err(|_| malformed());
        Ok([part(first)?, part(second)?])
    }

    fn heap_size(_key: &Self::Key) -> usize {
        0
    }
}

fn malformed() -> datafusion::error::DataFusionError {
    exec_datafusion_err!("a partial state of first or last has a malformed order key")
}

fn fill_integers(keys: &mut [[i128; 2]], place: usize, column: &ArrayRef, options: SortOptions) -> Result<()> {
    macro_rules! fill {
        ($type:ty) => {{
            let values = column.as_primitive::<$type>();
            for (key, value) in keys.iter_mut().zip(values.values()) {
                let value = i128::from(*value);
                key[place] = if options.descending { -value } else { value };
            }
        }};
    }
    match column.data_type() {
        DataType::Int32 => fill!(Int32Type),
        DataType::Int64 => fill!(Int64Type),
        DataType::UInt32 => fill!(UInt32Type),
        DataType::UInt64 => fill!(UInt64Type),
        DataType::Date32 => fill!(Date32Type),
        DataType::Date64 => fill!(Date64Type),
        DataType::Timestamp(TimeUnit::Second, _) => fill!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => fill!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => fill!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => fill!(TimestampNanosecondType),
        other => return internal_err!("{other} is not ordered as an integer"),
    }
    if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
        let null = if options.nulls_first { i128::MIN } else { i128::MAX };
        for (key, valid) in keys.iter_mut().zip(nulls) {
            if !valid {
                key[place] = null;
            }
        }
    }
    Ok(())
}

/// Keys of any columns, as bytes of Arrow's row format.
#[derive(Debug)]
pub(super) struct RowKeys {
    converter: RowConverter,
}

impl RowKeys {
    pub(super) fn new(types: &[DataType], options: &[SortOptions]) -> Result<Self> {
        let fields = types.iter().zip(options);
        let fields = fields.map(|(of, options)| SortField::new_with_options(of.clone(), *options)).collect();
        Ok(Self { converter: RowConverter::new(fields)? })
    }
}

impl OrderKeys for RowKeys {
    type Key = Arc<[u8]>;
    type Batch = Rows;

    fn batch(&self, columns: &[ArrayRef]) -> Result<Self::Batch> {
        Ok(self.converter.convert_columns(columns)?)
    }

    fn compare(batch: &Self::Batch, left: usize, right: usize) -> Ordering {
        batch.row(left).cmp(&batch.row(right))
    }

    fn key(batch: &Self::Batch, row: usize) -> Self::Key {
        batch.row(row).as_ref().into()
    }

    fn to_bytes(key: &Self::Key) -> Vec<u8> {
        key.to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self::Key> {
        Ok(bytes.into())
    }

    fn heap_size(key: &Self::Key) -> usize {
        key.len()
    }
}
