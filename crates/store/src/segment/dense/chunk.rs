//! One column of a dense file: the positions of its chunks, and its values in the requested type.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, FixedSizeListArray, StringArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};

use super::super::checksum::CheckedFile;
use super::super::guarded;
use super::super::parquet::{Nulls, ValueBuilder};
use super::format::{CHUNK_ROWS, ChunkHead, PAGE_ROWS, PageContent, PageEntry, StoredColumn, TextList};
use super::numbers::DecoderTables;
use crate::error::{Error, Result};

/// Chunks whose tables a thread keeps: of some columns of a statement. One takes some kilobytes.
const CHUNKS_MAX: usize = 32;

/// Most bytes of the texts of a page, and of all texts of a dictionary, before compression.
const PAGE_TEXTS_BYTES_MAX: usize = 1 << 30;
const TEXTS_BYTES_MAX: u64 = 256 << 20;

/// A column, and the texts of its dictionary once they have been read.
#[derive(Debug)]
pub(super) struct DenseColumn {
    /// Tells it from all others of the file.
    number: usize,
    stored: StoredColumn,
    rows: usize,
    texts: OnceLock<Arc<StringArray>>,
    items: Vec<DenseColumn>,
}

/// An open chunk.
struct Chunk {
    start: usize,
    head: ChunkHead,
    tables: DecoderTables,
}

/// Identifies a chunk: the file, the column, the chunk.
type ChunkKey = (u64, usize, usize);

#[derive(Default)]
struct RecentChunks {
    chunks: Vec<(ChunkKey, Rc<Chunk>)>,
    /// The one that the next chunk takes the place of.
    oldest: usize,
    numbers: Vec<i64>,
}

thread_local! {
    static RECENT: RefCell<RecentChunks> = RefCell::new(RecentChunks::default());
}

impl DenseColumn {
    /// The column of a footer's entry, if the file can have it; in words what is wrong with it. `number` counts the columns.
    pub(super) fn open(
        stored: StoredColumn,
        rows: usize,
        file_bytes: usize,
        number: &mut usize,
    ) -> Result<DenseColumn, String> {
        *number += 1;
        let number_of_this = *number;
        let wrong = |what: &str| Err(format!("column {:?}: {what}", stored.name));
        if stored.chunks.len() != rows.div_ceil(CHUNK_ROWS) {
            return wrong("as many chunks as there are not");
        }
        if stored
            .chunks
            .iter()
            .any(|(start, bytes)| start.checked_add(*bytes).is_none_or(|end| end > file_bytes as u64))
        {
            return wrong("a chunk beyond the file");
        }
        let data_type = stored.stored_type();
        let is_supported = match (&data_type, stored.kind, stored.items.len()) {
            (DataType::FixedSizeList(_, size), PageContent::Whole, items) => {
                usize::try_from(*size) == Ok(items) && items > 0
            }
            (DataType::Decimal128(..), PageContent::Whole, items) => items == 0 || items == 2,
            (DataType::Utf8, PageContent::Text, 0) => stored.texts.is_none(),
            (DataType::Utf8 | DataType::Dictionary(..), PageContent::Whole, 0) => stored.texts.is_some(),
            (DataType::Float64, kind, 0) => kind == PageContent::Float,
            (_, kind, items) => kind == PageContent::Whole && items == 0 && stored.texts.is_none(),
        };
        if !is_supported || stored.digits.is_some_and(|digits| !(0..=18).contains(&digits)) {
            return wrong("a form that no column has");
        }
        let mut stored = stored;
        let items = std::mem::take(&mut stored.items);
        let are_nested = |item: &StoredColumn| !item.items.is_empty();
        let is_item = |item: &StoredColumn| match (&data_type, &item.column_type.arrow()) {
            (DataType::FixedSizeList(..), item_type) => *item_type == DataType::Float64,
            (_, item_type) => matches!(item_type, DataType::Int64 | DataType::UInt64),
        };
        if items.iter().any(|item| are_nested(item) || !is_item(item)) {
            return Err(format!("column {:?}: parts that no column has", stored.name));
        }
        let items: Result<Vec<DenseColumn>, String> =
            items.into_iter().map(|item| DenseColumn::open(item, rows, file_bytes, number)).collect();
        Ok(DenseColumn { number: number_of_this, stored, rows, texts: OnceLock::new(), items: items? })
    }

    /// The rows of the page that holds a row.
    pub(super) fn page_rows(&self, row: usize) -> Option<Range<usize>> {
        let start = row / PAGE_ROWS * PAGE_ROWS;
        (row < self.rows).then(|| start..(start + PAGE_ROWS).min(self.rows))
    }

    /// Bytes in the file, those of the dictionary included, and the encoding of the values.
    pub(super) fn storage(&self) -> (u64, u64, String) {
        let texts = self.stored.texts.map_or(0, |texts| texts.bytes);
        let bytes = self.stored.chunks.iter().map(|(_, bytes)| bytes).sum::<u64>() + texts;
        let items: Vec<(u64, u64, String)> = self.items.iter().map(DenseColumn::storage).collect();
        let description = match (self.stored.stored_type(), self.stored.kind) {
            (DataType::Decimal128(_, digits), _) if self.stored.digits.is_some() => {
                format!("whole numbers / 10^{digits}, pco")
            }
            (DataType::Timestamp(unit, _) | DataType::Time64(unit), _) => format!("{unit:?}s, pco").to_lowercase(),
            (DataType::FixedSizeList(..), _) => {
                format!("by level, {}", items.first().map_or("", |(_, _, description)| description.as_str()))
            }
            (_, PageContent::Text) => "values, zstd".to_owned(),
            (_, PageContent::Whole) if self.stored.texts.is_some() => "dictionary, pco".to_owned(),
            _ => "values, pco".to_owned(),
        };
        (bytes + items.iter().map(|(bytes, ..)| bytes).sum::<u64>(), texts, description)
    }

    /// Asks for the bytes of the pages that hold these rows, without waiting for them.
    pub(super) fn read_ahead(&self, file: &Arc<CheckedFile>, file_number: u64, rows: &Range<usize>) {
        for item in &self.items {
            item.read_ahead(file, file_number, rows);
        }
        if rows.is_empty() {
            return;
        }
        for number in rows.start / CHUNK_ROWS..rows.end.div_ceil(CHUNK_ROWS).min(self.stored.chunks.len()) {
            let Ok(place) = self.place(number) else { continue };
            let first = number * CHUNK_ROWS;
            let of_chunk = rows.start.max(first) - first..rows.end.min(first + CHUNK_ROWS) - first;
            // The places of the pages of an open chunk are cached.
            let cached = recent_chunk((file_number, self.number, number));
            let bytes = cached.map_or(place.clone(), |chunk| {
                let pages = of_chunk.start / PAGE_ROWS..of_chunk.end.div_ceil(PAGE_ROWS).min(chunk.head.pages.len());
                chunk.start + chunk.head.place(pages.start).start..chunk.start + chunk.head.place(pages.end - 1).end
            });
            file.read_ahead(bytes.start.min(place.end)..bytes.end.min(place.end));
        }
    }

    /// The values of a range of rows, as `target_type` where there is a short way to it, else in the type that the file declares.
    pub(super) fn read(
        &self,
        file: &CheckedFile,
        file_number: u64,
        rows: Range<usize>,
        target_type: &DataType,
    ) -> Result<ArrayRef> {
        if !self.items.is_empty() {
            return self.read_items(file, file_number, rows);
        }
        let texts = match self.stored.stored_type() {
            DataType::Utf8 | DataType::Dictionary(..) => Some(self.texts(file)?),
            _ => None,
        };
        let stored = self.stored.stored_type();
        let mut values = ValueBuilder::new(&stored, target_type, rows.len(), texts).ok_or(Error::Poisoned)?;
        let nulls = self.read_pages(file, file_number, rows.clone(), &mut values)?;
        let damage = |error: arrow::error::ArrowError| {
            Error::corrupt(
                &file.path,
                self.first_byte(rows.start),
                format!("values of type {stored}"),
                error.to_string(),
            )
        };
        values.finish(nulls.finish(rows.len())).map_err(damage)
    }

    /// Adds the values of a range of rows, and says which are null.
    fn read_pages(
        &self,
        file: &CheckedFile,
        file_number: u64,
        rows: Range<usize>,
        values: &mut ValueBuilder,
    ) -> Result<Nulls> {
        let mut nulls = Nulls::default();
        let mut at = rows.start;
        while at < rows.end {
            let page = self.page_rows(at).ok_or_else(|| {
                Error::corrupt(&file.path, 0, format!("{} rows", rows.end), format!("{} rows", self.rows))
            })?;
            let chunk = self.chunk(file, file_number, page.start / CHUNK_ROWS)?;
            let end = page.end.min(rows.end);
            self.read_page(file, &chunk, &page, at - page.start..end - page.start, values, &mut nulls)?;
            at = end;
        }
        Ok(nulls)
    }

    fn read_page(
        &self,
        file: &CheckedFile,
        chunk: &Chunk,
        page: &Range<usize>,
        rows: Range<usize>,
        values: &mut ValueBuilder,
        nulls: &mut Nulls,
    ) -> Result<()> {
        let number = page.start % CHUNK_ROWS / PAGE_ROWS;
        let entry = chunk.head.pages[number];
        let place = chunk.head.place(number);
        let place = chunk.start + place.start..chunk.start + place.end;
        let wrong = |expected: &str, found: String| Error::corrupt(&file.path, place.start as u64, expected, found);
        let bytes = file.data(place.clone())?;
        let found = crc32c::crc32c(&bytes);
        if found != entry.checksum {
            return Err(wrong(&format!("a page of checksum {:08x}", entry.checksum), format!("{found:08x}")));
        }
        let (null_bytes, value_bytes) = bytes.split_at(entry.null_bytes as usize);
        let valid = validity(null_bytes, entry, page.len()).map_err(|found| wrong("which rows are null", found))?;
        let valid = valid.as_deref();
        if self.stored.kind == PageContent::Text {
            return spread_texts(value_bytes, entry.values as usize, valid, rows, values, nulls)
                .map_err(|found| wrong("a page of texts", found));
        }
        let mut numbers = RECENT.with_borrow_mut(|recent| std::mem::take(&mut recent.numbers));
        let decoded =
            guarded(&file.path, || Ok(chunk.tables.decode(value_bytes, entry.values as usize, &mut numbers)))?;
        let decoded = decoded.and_then(|()| {
            self.check_codes(&numbers)?;
            spread(&numbers, valid, rows, values, nulls)
        });
        RECENT.with_borrow_mut(|recent| recent.numbers = numbers);
        decoded.map_err(|found| wrong("a page of numbers", found))
    }

    /// Fails if a number is a code that the dictionary lacks.
    fn check_codes(&self, numbers: &[i64]) -> Result<(), String> {
        let Some(texts) = self.stored.texts else { return Ok(()) };
        match numbers.iter().find(|code| code.cast_unsigned() >= texts.count) {
            Some(code) => Err(format!("code {code} of {} texts", texts.count)),
            None => Ok(()),
        }
    }

    /// A column that is made of others.
    fn read_items(&self, file: &CheckedFile, file_number: u64, rows: Range<usize>) -> Result<ArrayRef> {
        let marks = DataType::Int64;
        let mut values = ValueBuilder::new(&marks, &marks, rows.len(), None).ok_or(Error::Poisoned)?;
        let nulls = self.read_pages(file, file_number, rows.clone(), &mut values)?.finish(rows.len());
        let mut items = Vec::with_capacity(self.items.len());
        for item in &self.items {
            items.push(item.read(file, file_number, rows.clone(), &item.stored.column_type.arrow())?);
        }
        let stored = self.stored.stored_type();
        if let DataType::FixedSizeList(field, size) = &stored {
            let lists: Vec<_> = items.iter().map(|item| item.as_primitive::<Float64Type>()).collect();
            let levels = (0..rows.len())
                .flat_map(|row| lists.iter().map(move |list| list.is_valid(row).then(|| list.value(row))));
            let levels: arrow::array::Float64Array = levels.collect();
            return Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(field), *size, Arc::new(levels), nulls)?));
        }
        let (high, low) = (items[0].as_primitive_opt::<Int64Type>(), items[1].as_primitive_opt::<UInt64Type>());
        let (Some(high), Some(low), DataType::Decimal128(digits, scale)) = (high, low, &stored) else {
            return Err(Error::corrupt(&file.path, self.first_byte(rows.start), "halves of decimals", "other numbers"));
        };
        let halves = high.values().iter().zip(low.values());
        let whole: Vec<i128> = halves.map(|(high, low)| i128::from(*high) << 64 | i128::from(*low)).collect();
        Ok(Arc::new(Decimal128Array::try_new(whole.into(), nulls)?.with_precision_and_scale(*digits, *scale)?))
    }

    /// A chunk, opened: one of those that the thread opened last, or from its head.
    fn chunk(&self, file: &CheckedFile, file_number: u64, number: usize) -> Result<Rc<Chunk>> {
        let key = (file_number, self.number, number);
        if let Some(chunk) = recent_chunk(key) {
            return Ok(chunk);
        }
        let place = self.place(number).map_err(|found| Error::corrupt(&file.path, 0, "a chunk", found))?;
        let rows = (self.rows - number * CHUNK_ROWS).min(CHUNK_ROWS);
        let wrong = |expected: &str, found: String| Error::corrupt(&file.path, place.start as u64, expected, found);
        // The head is read twice: how long the tables are, is said in it.
        let head_end = place.start.saturating_add(ChunkHead::bytes(rows)).min(place.end);
        let head = file.data(place.start..head_end)?;
        let tables = head.get(4..8).map_or(0, |word| crate::little_endian::u32_at(word, 0) as usize);
        let bytes = file.data(place.start..head_end.saturating_add(tables).min(place.end))?;
        let head = ChunkHead::decode(&bytes, rows)
            .ok_or_else(|| wrong("the head of a chunk and its checksum", "other bytes".to_owned()))?;
        if head.place(head.pages.len() - 1).end != place.len() {
            return Err(wrong("a chunk as long as its pages", format!("{} bytes", place.len())));
        }
        let tables = guarded(&file.path, || Ok(DecoderTables::read(self.stored.kind, &bytes[head.tables.clone()])))?
            .map_err(|found| wrong("tables of pco", found))?;
        let chunk = Rc::new(Chunk { start: place.start, head, tables });
        RECENT.with_borrow_mut(|recent| {
            if recent.chunks.len() < CHUNKS_MAX {
                recent.chunks.push((key, Rc::clone(&chunk)));
            } else {
                let oldest = recent.oldest;
                recent.chunks[oldest] = (key, Rc::clone(&chunk));
                recent.oldest = (oldest + 1) % CHUNKS_MAX;
            }
        });
        Ok(chunk)
    }

    fn place(&self, chunk: usize) -> Result<Range<usize>, String> {
        let (start, bytes) = self.stored.chunks[chunk];
        let places = usize::try_from(start).ok().zip(usize::try_from(start.saturating_add(bytes)).ok());
        places.map(|(start, end)| start..end).ok_or_else(|| format!("a chunk of {bytes} bytes from byte {start} on"))
    }

    fn first_byte(&self, row: usize) -> u64 {
        self.stored.chunks.get(row / CHUNK_ROWS).map_or(0, |(start, _)| *start)
    }

    /// The texts of its dictionary.
    fn texts(&self, file: &CheckedFile) -> Result<Arc<StringArray>> {
        if let Some(texts) = self.texts.get() {
            return Ok(Arc::clone(texts));
        }
        let texts = match &self.stored.texts {
            None => StringArray::from(Vec::<&str>::new()),
            Some(list) => read_texts(file, list)?,
        };
        Ok(Arc::clone(self.texts.get_or_init(|| Arc::new(texts))))
    }
}

fn recent_chunk(key: ChunkKey) -> Option<Rc<Chunk>> {
    RECENT
        .with_borrow(|recent| recent.chunks.iter().find(|(other, _)| *other == key).map(|(_, chunk)| Rc::clone(chunk)))
}

/// The rows of a page that aren't null, if some are; the error is the fault in the bytes, in words.
fn validity(bytes: &[u8], page: PageEntry, rows: usize) -> Result<Option<Vec<bool>>, String> {
    let values = page.values as usize;
    if bytes.is_empty() {
        return match values {
            0 => Ok(Some(vec![false; rows])),
            _ if values == rows => Ok(None),
            _ => Err(format!("{values} values of {rows} rows")),
        };
    }
    let packed = zstd::bulk::decompress(bytes, rows.div_ceil(8)).map_err(|error| error.to_string())?;
    if packed.len() != rows.div_ceil(8) {
        return Err(format!("{} bytes for {rows} rows", packed.len()));
    }
    let valid: Vec<bool> = (0..rows).map(|row| packed[row / 8] & (1 << (row % 8)) != 0).collect();
    match valid.iter().filter(|valid| **valid).count() {
        count if count == values => Ok(Some(valid)),
        count => Err(format!("{count} rows for {values} values")),
    }
}

/// Hands over the numbers of some rows of a page, with those that are null between them.
fn spread(
    numbers: &[i64],
    valid: Option<&[bool]>,
    rows: Range<usize>,
    values: &mut ValueBuilder,
    nulls: &mut Nulls,
) -> Result<(), String> {
    let Some(valid) = valid else {
        let row_numbers = numbers.get(rows.clone()).ok_or_else(|| format!("{} numbers", numbers.len()))?;
        nulls.all_valid(rows.len());
        values.push(row_numbers);
        return Ok(());
    };
    let before = valid[..rows.start].iter().filter(|valid| **valid).count();
    values.push_with_nulls(&valid[rows], numbers.get(before..).unwrap_or_default(), nulls);
    Ok(())
}

/// Spreads texts, whose lengths and bytes are compressed together.
fn spread_texts(
    bytes: &[u8],
    count: usize,
    valid: Option<&[bool]>,
    rows: Range<usize>,
    values: &mut ValueBuilder,
    nulls: &mut Nulls,
) -> Result<(), String> {
    let plain = super::file::decompress(bytes, PAGE_TEXTS_BYTES_MAX)?;
    let (lengths, texts) = plain.split_at_checked(count * 4).ok_or("fewer lengths than texts")?;
    let mut lengths = lengths.chunks_exact(4).map(|length| crate::little_endian::u32_at(length, 0) as usize);
    let mut at = 0_usize;
    for row in 0..rows.end {
        let is_valid = valid.is_none_or(|valid| valid[row]);
        let text = if is_valid {
            let length = lengths.next().ok_or("fewer texts than rows")?;
            let text = texts.get(at..at.saturating_add(length)).ok_or("a text beyond the page")?;
            at += length;
            Some(text)
        } else {
            None
        };
        if row >= rows.start {
            nulls.push(is_valid);
            match text {
                Some(text) => values.push_text(text),
                None => values.push_null(),
            }
        }
    }
    Ok(())
}

/// The texts of a list, which is stored as their lengths and then their bytes.
fn read_texts(file: &CheckedFile, list: &TextList) -> Result<StringArray> {
    let wrong = |found: String| Error::corrupt(&file.path, list.start, "a list of texts", found);
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let bytes = file.data(place(list.start)..place(list.start.saturating_add(list.bytes)))?;
    let found = crc32c::crc32c(&bytes);
    if found != list.checksum {
        return Err(wrong(format!("checksum {found:08x} instead of {:08x}", list.checksum)));
    }
    if list.plain_bytes > TEXTS_BYTES_MAX {
        return Err(wrong(format!("{} bytes", list.plain_bytes)));
    }
    let plain = super::file::decompress(&bytes, place(list.plain_bytes)).map_err(wrong)?;
    let lengths_bytes = place(list.count).checked_mul(4).ok_or_else(|| wrong(format!("{} texts", list.count)))?;
    let Some((lengths, texts)) = plain.split_at_checked(lengths_bytes) else {
        return Err(wrong(format!("{} bytes", plain.len())));
    };
    let mut at = 0_usize;
    let mut found = Vec::with_capacity(place(list.count));
    for length in lengths.chunks_exact(4) {
        let end = at.saturating_add(crate::little_endian::u32_at(length, 0) as usize);
        let text = texts.get(at..end).and_then(|text| std::str::from_utf8(text).ok());
        found.push(text.ok_or_else(|| wrong("bytes that are no text".to_owned()))?);
        at = end;
    }
    Ok(StringArray::from(found))
}
