//! Equality of rows: within a date and a symbol, by all columns or by those of a key.
//!
//! - A row with a null in a column of a key has no key and equals no other. If all columns count, nulls are equal.
//! - Floats are compared as SQL compares them: all NaNs are one, and so are the two zeros.
//! - A load compares rows in their order ([`Load`](crate::Load)). Capture compares digests of rows in any order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Int32Type, TimestampNanosecondType};
use arrow::row::{RowConverter, Rows, SortField};
use chrono_tz::Tz;

use crate::dates::Dates;
use crate::error::Result;
use crate::floats::in_form;
use crate::partition::DayStart;
use crate::schema::TableSpec;

/// Rows whose keys are encoded at once.
const CHUNK_ROWS: usize = 4096;

/// Defines which rows are duplicates, and whether they are left out or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dedupe {
    /// The columns that make two rows of a date and symbol equal; `None` for all columns.
    pub columns: Option<Vec<String>>,
    /// Whether a duplicate ends the load. If not, it is left out and counted.
    pub refuse: bool,
}

impl std::str::FromStr for Dedupe {
    type Err = String;

    /// Reads `exact` or names of columns with commas between them.
    fn from_str(text: &str) -> Result<Dedupe, String> {
        let columns: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        if columns.iter().any(String::is_empty) {
            return Err(format!("{text:?} is not \"exact\" or a list of columns such as seq,venue"));
        }
        let columns = (!text.trim().eq_ignore_ascii_case("exact")).then_some(columns);
        Ok(Dedupe { columns, refuse: false })
    }
}

/// The columns by which rows are compared.
#[derive(Debug)]
pub(crate) struct RowKey {
    /// Positions in the table of the columns that are read, ascending.
    pub(crate) columns: Vec<usize>,
    /// The positions of the symbol and the time in `columns`.
    pub(crate) symbol: Option<usize>,
    pub(crate) time: usize,
    /// The positions in `columns` of the key's other columns.
    pub(crate) others: Vec<usize>,
    /// Whether the time is part of the key.
    pub(crate) has_time: bool,
    /// Whether the symbol is named as part of the key. Rows of different symbols aren't compared in any case.
    has_symbol: bool,
    /// Whether a null is a value like others.
    pub(crate) nulls_count: bool,
}

impl RowKey {
    pub(crate) fn of(spec: &TableSpec, dedupe: &Dedupe) -> Result<RowKey> {
        let (symbol, time) = (spec.symbol_position(), spec.time_position());
        let named = match &dedupe.columns {
            None => (0..spec.columns.len()).collect(),
            Some(names) => names.iter().map(|name| spec.shown_position(name)).collect::<Result<Vec<_>>>()?,
        };
        let mut columns: Vec<usize> = named.iter().copied().chain(symbol).chain([time]).collect();
        columns.sort_unstable();
        columns.dedup();
        let place = |position: usize| columns.binary_search(&position).unwrap_or(0);
        let mut others: Vec<usize> =
            named.iter().filter(|at| Some(**at) != symbol && **at != time).map(|at| place(*at)).collect();
        others.sort_unstable();
        others.dedup();
        Ok(RowKey {
            symbol: symbol.map(place),
            time: place(time),
            others,
            has_time: named.contains(&time),
            has_symbol: symbol.is_some_and(|symbol| named.contains(&symbol)),
            nulls_count: dedupe.columns.is_none(),
            columns,
        })
    }

    /// Whether a row has a key.
    pub(crate) fn is_whole(&self, rows: &RecordBatch, row: usize) -> bool {
        let mut places = self.others.iter().chain(self.symbol.iter().filter(|_| self.has_symbol));
        self.nulls_count || places.all(|place| !is_null(rows.column(*place), row))
    }
}

pub(crate) fn is_null(column: &dyn Array, row: usize) -> bool {
    match column.as_dictionary_opt::<Int32Type>() {
        Some(symbols) => symbols.keys().is_null(row),
        None => column.is_null(row),
    }
}

/// The column in a form in which equal values have equal bytes.
pub(crate) fn comparable(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::FixedSizeList(item, size) => {
            let lists = column.as_fixed_size_list();
            let (values, nulls) = (in_form(Arc::clone(lists.values())), lists.nulls().cloned());
            Arc::new(FixedSizeListArray::new(Arc::clone(item), *size, values, nulls))
        }
        _ => in_form(Arc::clone(column)),
    }
}

/// The digest of a row's key.
pub type RowDigest = [u8; 16];

/// Computes digests of rows: equal rows have equal digests, and other rows different ones, up to collisions of 128 bits
/// of BLAKE3.
///
/// Digests of two schemas of a table may be compared if one has the other's columns and more behind them.
#[derive(Debug)]
pub struct RowDigests {
    key: RowKey,
    columns: Vec<DigestColumn>,
    zone: Tz,
    day_start: DayStart,
}

/// A column of which digests are made.
#[derive(Debug)]
struct DigestColumn {
    /// Its place among the columns that are read.
    place: usize,
    /// Its position in the table.
    label: [u8; 2],
    converter: RowConverter,
}

impl RowDigests {
    /// The digests of a table's rows by a key.
    ///
    /// # Errors
    /// [`Error::NoSuchColumn`](crate::Error::NoSuchColumn) if the table lacks a column of the key.
    pub fn new(spec: &TableSpec, dedupe: &Dedupe) -> Result<RowDigests> {
        let key = RowKey::of(spec, dedupe)?;
        let time = key.has_time.then_some(key.time);
        let mut places: Vec<usize> = key.others.iter().copied().chain(key.symbol).chain(time).collect();
        places.sort_unstable();
        let column = |place: usize| {
            let position = key.columns[place];
            let field = SortField::new(spec.columns[position].column_type.arrow());
            // A table has at most 4,096 columns.
            let label = u16::try_from(position).unwrap_or(u16::MAX).to_le_bytes();
            Ok(DigestColumn { place, label, converter: RowConverter::new(vec![field])? })
        };
        let columns = places.into_iter().map(column).collect::<Result<Vec<_>>>()?;
        Ok(RowDigests { key, columns, zone: spec.zone()?, day_start: spec.day_start })
    }

    /// Positions in the table of the columns that are read, ascending. The time is among them.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.key.columns
    }

    /// The place of the time among the columns that are read.
    #[must_use]
    pub fn time(&self) -> usize {
        self.key.time
    }

    /// The digest of each row; `None` for one without a key. `rows` has the columns that are read.
    ///
    /// # Errors
    /// [`Error::Arrow`](crate::Error::Arrow) for columns of other types.
    pub fn of(&self, rows: &RecordBatch) -> Result<Vec<Option<RowDigest>>> {
        let mut dates = Dates::new(self.zone).starting_at(self.day_start);
        let mut digests = Vec::with_capacity(rows.num_rows());
        for start in (0..rows.num_rows()).step_by(CHUNK_ROWS) {
            let chunk = rows.slice(start, CHUNK_ROWS.min(rows.num_rows() - start));
            self.of_chunk(&chunk, &mut dates, &mut digests)?;
        }
        Ok(digests)
    }

    fn of_chunk(&self, rows: &RecordBatch, dates: &mut Dates, digests: &mut Vec<Option<RowDigest>>) -> Result<()> {
        let times = rows.column(self.key.time).as_primitive::<TimestampNanosecondType>().values();
        let encoded = |column: &DigestColumn| -> Result<([u8; 2], Option<NullBuffer>, Rows)> {
            let values = rows.column(column.place);
            let encoded = column.converter.convert_columns(&[comparable(values)])?;
            Ok((column.label, values.logical_nulls(), encoded))
        };
        let columns = self.columns.iter().map(encoded).collect::<Result<Vec<_>>>()?;
        let mut text = Vec::new();
        for (row, time) in times.iter().enumerate() {
            if !self.key.is_whole(rows, row) {
                digests.push(None);
                continue;
            }
            text.clear();
            text.extend_from_slice(&dates.of(*time).to_le_bytes());
            // A null is what isn't here, so that a column that the table gets later changes nothing.
            for (label, nulls, values) in &columns {
                if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                    let value = values.row(row).data();
                    text.extend_from_slice(label);
                    text.extend_from_slice(&u64::try_from(value.len()).unwrap_or(u64::MAX).to_le_bytes());
                    text.extend_from_slice(value);
                }
            }
            let mut digest = RowDigest::default();
            digest.copy_from_slice(&blake3::hash(&text).as_bytes()[..16]);
            digests.push(Some(digest));
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{DictionaryArray, Float64Array, Int64Array, TimestampNanosecondArray};

    use super::*;
    use crate::schema::{ColumnSpec, ColumnType};

    const DAY: i64 = 86_400_000_000_000;

    fn spec() -> TableSpec {
        let columns = vec![
            ColumnSpec::new("time", ColumnType::Timestamp),
            ColumnSpec::new("sym", ColumnType::Symbol),
            ColumnSpec::new("price", ColumnType::Float64),
            ColumnSpec::new("bids", ColumnType::Levels { size: 2 }),
            ColumnSpec::new("seq", ColumnType::Int64),
        ];
        TableSpec::new("t", columns, "time", Some("sym"))
    }

    type Row = (i64, Option<&'static str>, Option<f64>, [f64; 2], Option<i64>);

    fn rows(rows: &[Row]) -> RecordBatch {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.0)).with_timezone("UTC")),
            Arc::new(rows.iter().map(|row| row.1).collect::<DictionaryArray<Int32Type>>()),
            Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>()),
            Arc::new(FixedSizeListArray::from_iter_primitive::<arrow::datatypes::Float64Type, _, _>(
                rows.iter().map(|row| Some(row.3.map(Some))),
                2,
            )),
            Arc::new(rows.iter().map(|row| row.4).collect::<Int64Array>()),
        ];
        RecordBatch::try_new(spec().arrow(), columns).unwrap()
    }

    /// For each row the number of the first that is the same; its own for one without a key.
    fn firsts(key: &str, input: &[Row]) -> Vec<usize> {
        let digests = RowDigests::new(&spec(), &key.parse().unwrap()).unwrap();
        let row_digests = digests.of(&rows(input).project(digests.columns()).unwrap()).unwrap();
        let first = |(at, digest): (usize, &Option<RowDigest>)| match digest {
            None => at,
            Some(_) => row_digests.iter().position(|other| other == digest).unwrap(),
        };
        row_digests.iter().enumerate().map(first).collect()
    }

    const ROW: Row = (5, Some("A"), Some(1.5), [1.0, 2.0], Some(7));

    #[test]
    fn rows_are_the_same_if_all_columns_are_equal() {
        let (time, sym, price, bids, seq) = ROW;
        let input = [
            ROW,
            (time + 1, sym, price, bids, seq),
            (time, None, price, bids, seq),
            (time, sym, None, bids, seq),
            (time, sym, price, [1.0, 2.5], seq),
            (time, sym, price, bids, None),
        ];
        let twice: Vec<Row> = input.iter().chain(&input).copied().collect();
        assert_eq!(firsts("exact", &twice), [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn nans_are_one_and_so_are_the_zeros() {
        let (time, sym, _, bids, seq) = ROW;
        let other = f64::from_bits(f64::NAN.to_bits() | 1);
        let of = |price: f64, bid: f64| (time, sym, Some(price), [bid, bids[1]], seq);
        let input = [of(f64::NAN, 0.0), of(-other, -0.0), of(0.0, -f64::NAN), of(-0.0, other), of(0.0, 0.0)];
        assert_eq!(firsts("exact", &input), [0, 0, 2, 2, 4]);
        assert_eq!(firsts("price", &input), [0, 0, 2, 2, 2]);
    }

    #[test]
    fn a_key_is_compared_within_a_date_and_a_symbol_and_a_null_in_it_makes_none() {
        let (_, _, price, bids, _) = ROW;
        let of = |time, sym, seq| (time, sym, price, bids, seq);
        let input = [
            of(1, Some("A"), Some(7)),
            of(2, Some("A"), Some(7)),
            of(DAY, Some("A"), Some(7)),
            of(1, None, Some(7)),
            of(3, None, Some(7)),
            of(1, Some("A"), None),
            of(1, Some("A"), None),
        ];
        assert_eq!(firsts("seq", &input), [0, 0, 2, 3, 3, 5, 6]);
        assert_eq!(firsts("seq, TIME", &input), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(firsts("sym,time", &input), [0, 1, 2, 3, 4, 0, 0]);
    }

    #[test]
    fn a_column_that_is_added_and_null_changes_no_digest() {
        let mut wider = spec();
        wider.columns.push(ColumnSpec::new("flag", ColumnType::Bool));
        let before = RowDigests::new(&spec(), &"exact".parse().unwrap()).unwrap();
        let after = RowDigests::new(&wider, &"exact".parse().unwrap()).unwrap();
        let old = rows(&[ROW]);
        let with = |flag: Option<bool>| {
            let mut columns = old.columns().to_vec();
            columns.push(Arc::new(arrow::array::BooleanArray::from(vec![flag])));
            after.of(&RecordBatch::try_new(wider.arrow(), columns).unwrap()).unwrap()
        };
        assert_eq!(before.of(&old).unwrap(), with(None));
        assert_ne!(before.of(&old).unwrap(), with(Some(false)));
    }
}
