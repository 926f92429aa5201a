//! One column of a segment: resolved once, then read by ranges of rows without further lookups.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, StringArray, UInt32Array, new_null_array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Int32Type};
use arrow::error::ArrowError;

use super::arrow_file::ArrowFile;
use super::dense::DenseFile;
use super::parquet::ParquetFile;
use super::row_list::{NearbyRows, RowList};
use crate::error::Result;

/// Rows of a batch of the `parquet` crate. Ranges are put together from such batches.
const PARQUET_BATCH_ROWS: usize = 1 << 16;

/// Pieces of fewer rows, on average, may be read together with what stands between them.
const CLOSE_PIECE_ROWS: usize = 128;

/// Rows are close to each other if at least one of this many rows is wanted.
const CLOSE_SHARE: usize = 8;

/// Reads ranges of a column in the type that the table gives it.
#[derive(Debug)]
pub struct ColumnReader<'a> {
    source: ColumnPlace<'a>,
    data_type: DataType,
    rows: usize,
}

#[derive(Debug)]
enum ColumnPlace<'a> {
    Arrow {
        file: &'a ArrowFile,
        position: usize,
    },
    Paged {
        file: &'a dyn PagedFile,
        position: usize,
    },
    Memory(&'a ArrayRef),
    /// The column is younger than the segment.
    Absent,
}

/// A file whose columns are decoded page by page.
pub(super) trait PagedFile: std::fmt::Debug + Send + Sync {
    /// Rows of a column, as `target` or in the type that the file declares.
    fn column_rows(&self, position: usize, rows: Range<usize>, target: &DataType) -> Result<ArrayRef>;

    /// The rows of the page that holds a row of a column; `None` for a column that isn't decoded by pages.
    fn page_rows(&self, position: usize, row: usize) -> Result<Option<Range<usize>>>;

    /// Asks for the bytes of a range of rows of a column, without waiting for them.
    fn read_ahead(&self, position: usize, rows: &Range<usize>);
}

impl PagedFile for ParquetFile {
    fn column_rows(&self, position: usize, rows: Range<usize>, target: &DataType) -> Result<ArrayRef> {
        decode(self, position, rows, target)
    }

    fn page_rows(&self, position: usize, row: usize) -> Result<Option<Range<usize>>> {
        ParquetFile::page_rows(self, position, row)
    }

    fn read_ahead(&self, position: usize, rows: &Range<usize>) {
        ParquetFile::read_ahead(self, position, rows);
    }
}

impl PagedFile for DenseFile {
    fn column_rows(&self, position: usize, rows: Range<usize>, target: &DataType) -> Result<ArrayRef> {
        self.decode(position, rows, target)
    }

    fn page_rows(&self, position: usize, row: usize) -> Result<Option<Range<usize>>> {
        Ok(DenseFile::page_rows(self, position, row))
    }

    fn read_ahead(&self, position: usize, rows: &Range<usize>) {
        DenseFile::read_ahead(self, position, rows);
    }
}

impl<'a> ColumnReader<'a> {
    pub(crate) fn of_arrow(file: &'a ArrowFile, position: usize, data_type: DataType, rows: usize) -> ColumnReader<'a> {
        ColumnReader { source: ColumnPlace::Arrow { file, position }, data_type, rows }
    }

    pub(super) fn of_pages(
        file: &'a dyn PagedFile,
        position: usize,
        data_type: DataType,
        rows: usize,
    ) -> ColumnReader<'a> {
        ColumnReader { source: ColumnPlace::Paged { file, position }, data_type, rows }
    }

    pub(crate) fn of_memory(values: &'a ArrayRef, data_type: DataType) -> ColumnReader<'a> {
        ColumnReader { source: ColumnPlace::Memory(values), data_type, rows: values.len() }
    }

    pub(crate) fn absent(data_type: DataType, rows: usize) -> ColumnReader<'a> {
        ColumnReader { source: ColumnPlace::Absent, data_type, rows }
    }

    /// Rows of the segment.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A range of rows, cut to those there are. A column that is younger than the segment is null.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) where the bytes are not what was written.
    pub fn read(&self, rows: Range<usize>) -> Result<ArrayRef> {
        let rows = rows.start.min(self.rows)..rows.end.clamp(rows.start.min(self.rows), self.rows);
        let stored = match &self.source {
            ColumnPlace::Absent => return Ok(new_null_array(&self.data_type, rows.len())),
            ColumnPlace::Arrow { file, position } => file.read(*position, rows)?,
            ColumnPlace::Paged { file, position } => file.column_rows(*position, rows, &self.data_type)?,
            ColumnPlace::Memory(values) => values.slice(rows.start, rows.len()),
        };
        Ok(if *stored.data_type() == self.data_type { stored } else { cast(&stored, &self.data_type)? })
    }

    /// Concatenates several ranges of rows. Same result as reading each, but a mapped column is copied without an array
    /// per range.
    ///
    /// # Errors
    /// As [`ColumnReader::read`].
    pub fn read_pieces(&self, pieces: &[Range<usize>]) -> Result<ArrayRef> {
        if let (ColumnPlace::Arrow { file, position }, true) =
            (&self.source, pieces.iter().all(|rows| rows.start <= rows.end && rows.end <= self.rows))
            && let Some(stored) = file.read_pieces(*position, pieces)?
        {
            return Ok(if *stored.data_type() == self.data_type { stored } else { cast(&stored, &self.data_type)? });
        }
        if stand_close(pieces, self.rows) {
            let rows = pieces.iter().flat_map(|rows| rows.clone()).map(|row| u32::try_from(row).unwrap_or(u32::MAX));
            return self.take(&RowList::from(UInt32Array::from_iter_values(rows)));
        }
        let parts = pieces.iter().map(|rows| self.read(rows.clone())).collect::<Result<Vec<_>>>()?;
        Ok(if parts.is_empty() { arrow::array::new_empty_array(&self.data_type) } else { together(&parts)? })
    }

    /// Prefetches a range without waiting, so that the disk serves several columns or segments at once. If the range
    /// has been read before, this costs one bit test per 8,192 rows.
    pub fn read_ahead(&self, rows: Range<usize>) {
        let rows = rows.start.min(self.rows)..rows.end.min(self.rows);
        match &self.source {
            ColumnPlace::Arrow { file, position } => file.read_ahead(*position, &rows),
            ColumnPlace::Paged { file, position } => file.read_ahead(*position, &rows),
            ColumnPlace::Memory(_) | ColumnPlace::Absent => {}
        }
    }

    /// The values of some rows, in any order; null where there is no row.
    ///
    /// Of a mapped column little more than these rows is read, of a compressed column the pages that contain them.
    ///
    /// # Errors
    /// As [`ColumnReader::read`]; [`Error::Arrow`](crate::Error::Arrow) for a row behind the last one.
    pub fn take(&self, rows: &RowList) -> Result<ArrayRef> {
        if let ColumnPlace::Paged { file, position } = &self.source
            && rows.rows().null_count() == 0
            && let Some(values) = self.take_by_page(*file, *position, rows.rows().values())?
        {
            return Ok(values);
        }
        let mut parts = Vec::new();
        for NearbyRows { between, rows } in rows.neighbourhoods() {
            let Some((least, greatest)) = between.map(|(least, greatest)| (least as usize, greatest as usize)) else {
                parts.push(new_null_array(&self.data_type, rows.len()));
                continue;
            };
            if greatest >= self.rows {
                let message = format!("row {greatest} of a segment of {} rows", self.rows);
                return Err(ArrowError::InvalidArgumentError(message).into());
            }
            parts.push(take(&self.read(least..greatest + 1)?, rows, None)?);
        }
        together(&parts)
    }

    /// The values of some rows, of which each page is decoded once; `None` for a column that isn't decoded by pages.
    fn take_by_page(&self, file: &dyn PagedFile, position: usize, rows: &[u32]) -> Result<Option<ArrayRef>> {
        if rows.is_sorted() {
            return self.take_ascending(file, position, rows);
        }
        let mut order: Vec<u32> = (0..).take(rows.len()).collect();
        order.sort_unstable_by_key(|place| rows[*place as usize]);
        let ascending: Vec<u32> = order.iter().map(|place| rows[*place as usize]).collect();
        let Some(values) = self.take_ascending(file, position, &ascending)? else { return Ok(None) };
        let mut places = vec![0; order.len()];
        (0..).zip(order).for_each(|(at, place)| places[place as usize] = at);
        Ok(Some(take(&values, &UInt32Array::from(places), None)?))
    }

    fn take_ascending(&self, file: &dyn PagedFile, position: usize, mut rows: &[u32]) -> Result<Option<ArrayRef>> {
        if rows.last().is_none_or(|last| *last as usize >= self.rows) {
            return Ok(None);
        }
        let mut parts = Vec::new();
        while let Some(first) = rows.first().map(|first| *first as usize) {
            let Some(page) = file.page_rows(position, first)? else { return Ok(None) };
            let (of_page, later) = rows.split_at(rows.partition_point(|row| (*row as usize) < page.end));
            let end = of_page.last().map_or(first, |last| *last as usize) + 1;
            let values = self.read(first..end)?;
            let is_run = end - first == of_page.len() && of_page.is_sorted_by(|one, next| one < next);
            parts.push(if is_run {
                values
            } else {
                let places = of_page.iter().map(|row| row - of_page[0]);
                take(&values, &UInt32Array::from_iter_values(places), None)?
            });
            rows = later;
        }
        together(&parts).map(Some)
    }
}

/// Whether pieces are so short and close together that one range with all of them is read, from which their rows are taken.
fn stand_close(pieces: &[Range<usize>], rows: usize) -> bool {
    let total: usize = pieces.iter().map(Range::len).sum();
    let first = pieces.iter().map(|piece| piece.start).min().unwrap_or(0);
    let last = pieces.iter().map(|piece| piece.end).max().unwrap_or(0);
    let are_near = last.saturating_sub(first) / CLOSE_SHARE <= total;
    total < pieces.len() * CLOSE_PIECE_ROWS && are_near && last <= rows
}

/// Concatenates parts of a column. A dictionary of several parts holds no text twice, so that a search for a text is a search for one code.
fn together(parts: &[ArrayRef]) -> Result<ArrayRef> {
    if let [one] = parts {
        return Ok(Arc::clone(one));
    }
    let coded: Option<Vec<&DictionaryArray<Int32Type>>> = parts.iter().map(|part| part.as_dictionary_opt()).collect();
    let Some(coded) = coded.filter(|coded| !have_one_dictionary(coded)) else {
        return Ok(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?);
    };
    let mut numbers: HashMap<&str, i32> = HashMap::new();
    let mut texts: Vec<&str> = Vec::new();
    let mut codes: Vec<Option<i32>> = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    for part in &coded {
        let Some(values) = part.values().as_string_opt::<i32>() else {
            return Ok(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?);
        };
        let mut number = |text| {
            *numbers.entry(text).or_insert_with(|| {
                texts.push(text);
                i32::try_from(texts.len() - 1).unwrap_or(i32::MAX)
            })
        };
        // A text that is null makes its rows null.
        let of_part: Vec<Option<i32>> = values.iter().map(|text| text.map(&mut number)).collect();
        codes.extend(part.keys().iter().map(|code| of_part.get(usize::try_from(code?).ok()?).copied().flatten()));
    }
    let values = Arc::new(StringArray::from(texts));
    Ok(Arc::new(DictionaryArray::try_new(Int32Array::from(codes), values)?))
}

fn have_one_dictionary(parts: &[&DictionaryArray<Int32Type>]) -> bool {
    let of = |part: &DictionaryArray<Int32Type>| part.values().to_data();
    parts.first().is_none_or(|first| parts.iter().all(|part| of(part).ptr_eq(&of(first))))
}

/// Rows of a Parquet column, as `target` or in the type that the file declares.
fn decode(file: &ParquetFile, position: usize, rows: Range<usize>, target: &DataType) -> Result<ArrayRef> {
    let stored = file.schema().field(position).data_type();
    if rows.is_empty() {
        return Ok(arrow::array::new_empty_array(stored));
    }
    if let Some(values) = file.decode(position, rows.clone(), target)? {
        return Ok(values);
    }
    let expected = rows.len();
    let parts = file
        .read(&[position], rows, PARQUET_BATCH_ROWS)?
        .map(|batch| batch.map(|batch| Arc::clone(batch.column(0))))
        .collect::<Result<Vec<_>>>()?;
    let column = together(&parts)?;
    if column.len() == expected { Ok(column) } else { Err(file.short(expected, column.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_put_together_hold_no_text_twice() {
        let part =
            |texts: &[Option<&str>]| Arc::new(texts.iter().copied().collect::<DictionaryArray<Int32Type>>()) as _;
        let parts = [part(&[Some("N"), None, Some("P")]), part(&[Some("P"), Some("Q"), Some("N")]), part(&[])];
        let whole = together(&parts).unwrap();
        let whole = whole.as_dictionary::<Int32Type>();
        assert_eq!(whole.values().len(), 3);
        let texts: Vec<Option<&str>> = whole.downcast_dict::<StringArray>().unwrap().into_iter().collect();
        assert_eq!(texts, [Some("N"), None, Some("P"), Some("P"), Some("Q"), Some("N")]);
        let slice = |start, rows| Arc::new(whole.slice(start, rows)) as ArrayRef;
        let shared = together(&[slice(0, 2), slice(2, 4)]).unwrap();
        assert_eq!(shared.as_dictionary::<Int32Type>(), whole);
    }
}
