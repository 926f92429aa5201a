//! One column of a Parquet file: the positions of its pages, and its values in the requested type.
//!
//! Pages of whole numbers, floats, booleans and dictionary-coded texts are decoded here, each by itself and directly
//! into the output array: a range creates no reader object, and costs only the pages that it touches. The `parquet`
//! crate decodes the rest: lists, texts without a dictionary, pages of other writers.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::DataType;
use parquet::basic::{CompressionCodec, Encoding, Type};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::super::checksum::CheckedFile;
use super::encodings;
use super::modules::{Cipher, ModulePlace};
use super::page::{self, Form, PageBytes};
use super::thrift::{self, PageHeader};
use super::unpack::GROUP;
use super::values::{self, Nulls, ValueBuilder};
use crate::error::{Error, Result};

/// Most bytes of a dictionary, before compression.
const DICTIONARY_BYTES_MAX: usize = 64 << 20;

/// Most bytes of a page of texts, before compression.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// A dictionary that is this near to the pages is requested together with them.
const NEAR_BYTES: usize = 1 << 20;

/// Kinds of pages in their headers.
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;

/// Number of the encoding whose values are codes of a dictionary.
const CODES: i64 = Encoding::RLE_DICTIONARY as i64;

/// The pages of a column.
#[derive(Debug)]
pub(super) struct ParquetColumn {
    position: usize,
    physical: Type,
    /// The type that the file declares.
    stored: DataType,
    /// Whether a value may be null.
    optional: bool,
    groups: Vec<ColumnRowGroup>,
    pages: Vec<Page>,
    /// All texts of all row groups, and for each group the code of each of its texts.
    texts: OnceLock<(Arc<StringArray>, Vec<Vec<i64>>)>,
}

/// A column in a row group, as the file's metadata describes it.
#[derive(Debug)]
struct ColumnRowGroup {
    codec: CompressionCodec,
    /// The place of its dictionary.
    dictionary: Option<Range<usize>>,
    numbers: OnceLock<Vec<i64>>,
}

#[derive(Debug)]
struct Page {
    group: usize,
    /// Its number within the row group.
    number: usize,
    bytes: Range<usize>,
    /// Its rows in the file.
    rows: Range<usize>,
}

/// The file that pages are read from, and how they are decrypted.
#[derive(Clone, Copy)]
struct PageSource<'a> {
    file: &'a CheckedFile,
    cipher: Option<&'a Cipher>,
}

impl ParquetColumn {
    /// The pages of the column at a position; `None` if it is one for the `parquet` crate.
    pub(super) fn open(
        file: &CheckedFile,
        cipher: Option<&Cipher>,
        metadata: &ParquetMetaData,
        position: usize,
        stored: &DataType,
    ) -> Result<Option<ParquetColumn>> {
        let schema = metadata.file_metadata().schema_descr();
        // Each of a table's columns is one of the file's, lists among them.
        if schema.num_columns() <= position || schema.get_column_root_idx(position) != position {
            return Ok(None);
        }
        let leaf = schema.column(position);
        if leaf.max_rep_level() > 0 || leaf.max_def_level() > 1 || !values::is_decoded(leaf.physical_type(), stored) {
            return Ok(None);
        }
        let mut column = ParquetColumn {
            position,
            physical: leaf.physical_type(),
            stored: stored.clone(),
            optional: leaf.max_def_level() == 1,
            groups: Vec::new(),
            pages: Vec::new(),
            texts: OnceLock::new(),
        };
        let mut first = 0;
        for group in metadata.row_groups() {
            let rows = usize::try_from(group.num_rows()).unwrap_or(0);
            let chunk = group.column(position);
            if !column.add(file, cipher, chunk, first..first + rows)? {
                return Ok(None);
            }
            first += rows;
        }
        Ok(Some(column))
    }

    /// Adds the pages of a row group; whether they are of a kind that is decoded here.
    fn add(
        &mut self,
        file: &CheckedFile,
        cipher: Option<&Cipher>,
        chunk: &ColumnChunkMetaData,
        rows: Range<usize>,
    ) -> Result<bool> {
        let supported = |encoding| {
            use Encoding::{BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY};
            use Encoding::{PLAIN, RLE, RLE_DICTIONARY};
            matches!(
                encoding,
                PLAIN | RLE | RLE_DICTIONARY | DELTA_BINARY_PACKED | BYTE_STREAM_SPLIT | DELTA_LENGTH_BYTE_ARRAY
            )
        };
        let codec = chunk.compression_codec();
        if !chunk.encodings().all(supported) || !page::is_supported(codec) {
            return Ok(false);
        }
        if self.is_coded()
            && !chunk.page_encoding_stats_mask().is_some_and(|mask| mask.is_only(Encoding::RLE_DICTIONARY))
        {
            return Ok(false);
        }
        let place = |offset: Option<i64>| offset.and_then(|offset| usize::try_from(offset).ok());
        let (Some(start), Some(length)) = (
            place(chunk.offset_index_offset()),
            chunk.offset_index_length().and_then(|length| usize::try_from(length).ok()),
        ) else {
            return Ok(false);
        };
        let end = start.saturating_add(length);
        let wrong = || Error::corrupt(&file.path, start as u64, "a list of pages", "other bytes");
        let number = self.groups.len();
        let bytes = file.slice(start..end)?;
        let listed = match cipher {
            Some(cipher) => cipher.list(&bytes, number, self.position).and_then(|list| thrift::page_locations(&list)),
            None => thrift::page_locations(&bytes),
        };
        let listed = listed.ok_or_else(wrong)?;
        let of_group = rows.len();
        for (at, page) in listed.iter().enumerate() {
            let next = listed.get(at + 1).map_or(of_group, |next| next.first_row);
            let first = self.pages.last().map_or(0, |page| page.rows.end);
            if rows.start + page.first_row != first || next <= page.first_row || next > of_group {
                return Err(wrong());
            }
            let bytes = page.offset..page.offset.checked_add(page.bytes).ok_or_else(wrong)?;
            self.pages.push(Page { group: number, number: at, bytes, rows: first..rows.start + next });
        }
        if self.pages.last().map_or(0, |page| page.rows.end) != rows.end {
            return Err(wrong());
        }
        let dictionary = place(chunk.dictionary_page_offset()).zip(listed.first().map(|page| page.offset));
        let dictionary = dictionary.map(|(start, end)| start..end).filter(|bytes| !bytes.is_empty());
        self.groups.push(ColumnRowGroup { codec, dictionary, numbers: OnceLock::new() });
        Ok(true)
    }

    /// Whether its texts are codes of a dictionary to who reads them.
    fn is_coded(&self) -> bool {
        matches!(self.stored, DataType::Dictionary(..))
    }

    #[cfg(test)]
    pub(super) fn page_places(&self) -> Vec<Range<usize>> {
        self.pages.iter().map(|page| page.bytes.clone()).collect()
    }

    /// The rows of the page that holds a row.
    pub(super) fn page_rows(&self, row: usize) -> Option<Range<usize>> {
        let page = self.pages.partition_point(|page| page.rows.end <= row);
        self.pages.get(page).map(|page| page.rows.clone())
    }

    /// Asks for the bytes of the pages that hold these rows, without waiting for them.
    pub(super) fn read_ahead(&self, file: &Arc<CheckedFile>, rows: &Range<usize>) {
        let first = self.pages.partition_point(|page| page.rows.end <= rows.start);
        let behind = self.pages.partition_point(|page| page.rows.start < rows.end);
        if let Some((first, last)) = self.pages.get(first..behind).and_then(|pages| pages.first().zip(pages.last())) {
            // The pages of a row group are adjacent.
            if first.group == last.group {
                let dictionary = self.groups[first.group].dictionary.as_ref();
                let near = dictionary
                    .filter(|bytes| bytes.end <= first.bytes.start && first.bytes.start - bytes.start < NEAR_BYTES);
                file.read_ahead(near.map_or(first.bytes.start, |bytes| bytes.start)..last.bytes.end);
            }
        }
    }

    /// The values of a range of rows, as `target_type` where there is a short way to it, else in the type that the file declares.
    pub(super) fn read(
        &self,
        file: &CheckedFile,
        cipher: Option<&Cipher>,
        rows: Range<usize>,
        target_type: &DataType,
    ) -> Result<ArrayRef> {
        let file = PageSource { file, cipher };
        let texts = match self.physical {
            Type::BYTE_ARRAY => Some(Arc::clone(&self.texts(file)?.0)),
            _ => None,
        };
        let mut nulls = Nulls::default();
        let mut values = ValueBuilder::new(&self.stored, target_type, rows.len(), texts).ok_or(Error::Poisoned)?;
        let mut page = self.pages.partition_point(|page| page.rows.end <= rows.start);
        let mut at = rows.start;
        while at < rows.end {
            let Some(entry) = self.pages.get(page) else {
                return Err(Error::corrupt(&file.file.path, 0, format!("{} rows", rows.end), format!("{at} rows")));
            };
            let end = entry.rows.end.min(rows.end);
            let rows_of_page = at - entry.rows.start..end - entry.rows.start;
            self.read_page(file, entry, rows_of_page, &mut values, &mut nulls)?;
            (at, page) = (end, page + 1);
        }
        values.finish(nulls.finish(rows.len())).map_err(|error| self.damage(file, rows.start, &error))
    }

    /// Adds the values of some rows of a page.
    fn read_page(
        &self,
        file: PageSource<'_>,
        page: &Page,
        rows: Range<usize>,
        values: &mut ValueBuilder,
        nulls: &mut Nulls,
    ) -> Result<()> {
        let bytes_max = match self.physical {
            Type::BYTE_ARRAY => TEXT_BYTES_MAX,
            _ => page.rows.len().saturating_mul(12) + (64 << 10),
        };
        let dictionary = self.dictionary(file, page.group)?;
        let place = ModulePlace { group: page.group, column: self.position, page: Some(page.number) };
        let cipher = file.cipher.map(|cipher| (cipher, place));
        let form = Form { codec: self.groups[page.group].codec, cipher, bytes_max };
        let file = file.file;
        page::with_bytes(file, page.bytes.clone(), form, |read| {
            let PageBytes { header, bytes } = read;
            let wrong = |what: &str| Error::corrupt(&file.path, page.bytes.start as u64, what, "other bytes");
            if header.kind != DATA_PAGE || header.values != page.rows.len() {
                return Err(wrong("a page of as many values as are listed"));
            }
            let (valid, bytes) = if self.optional {
                page::levels(bytes, header.values).ok_or_else(|| wrong("which values are null"))?
            } else {
                (None, bytes)
            };
            // Values that are there, in front of the wanted rows and up to their end.
            let there = |rows: Range<usize>| match &valid {
                None => rows.len(),
                Some(valid) => valid[rows].iter().filter(|valid| **valid).count(),
            };
            let before = there(0..rows.start);
            let end = before + there(rows.clone());
            let decoded = match &valid {
                _ if self.physical == Type::BYTE_ARRAY && header.encoding != CODES => {
                    encodings::texts(bytes, header.encoding, end).and_then(|spans| {
                        let mut spans = spans.into_iter().skip(before);
                        rows.clone().try_for_each(|row| {
                            let is_valid = valid.as_ref().is_none_or(|valid| valid[row]);
                            nulls.push(is_valid);
                            if is_valid {
                                values.push_text(&bytes[spans.next()?])
                            } else {
                                values.push_null()
                            }
                            Some(())
                        })
                    })
                }
                None => {
                    nulls.all_valid(rows.len());
                    let mut skip = rows.start;
                    self.numbers(dictionary, &header, bytes, rows.end, &mut |some| {
                        let skipped = skip.min(some.len());
                        skip -= skipped;
                        values.push(&some[skipped..]);
                    })
                }
                Some(valid) => {
                    let mut page_numbers = Vec::with_capacity(end);
                    let decoded =
                        self.numbers(dictionary, &header, bytes, end, &mut |some| page_numbers.extend_from_slice(some));
                    let page_numbers = page_numbers.get(before..).unwrap_or_default();
                    values.push_with_nulls(&valid[rows.clone()], page_numbers, nulls);
                    decoded
                }
            };
            decoded.ok_or_else(|| wrong("values of the page's encoding"))
        })
    }

    /// Gives the first numbers of a page's values; `None` if they aren't what the header says.
    fn numbers(
        &self,
        dictionary: &[i64],
        header: &PageHeader,
        bytes: &[u8],
        count: usize,
        give: &mut dyn FnMut(&[i64]),
    ) -> Option<()> {
        match (header.encoding, self.physical) {
            (CODES, _) if count == 0 => Some(()),
            (CODES, _) => {
                let (width, codes) = bytes.split_first()?;
                let mut all_found = true;
                let mut looked_up = [0; GROUP];
                encodings::hybrid(codes, usize::from(*width), count, |some| {
                    for (value, code) in looked_up.iter_mut().zip(some) {
                        let entry = usize::try_from(*code).ok().and_then(|code| dictionary.get(code));
                        all_found &= entry.is_some();
                        *value = entry.copied().unwrap_or_default();
                    }
                    give(&looked_up[..some.len()]);
                })?;
                all_found.then_some(())
            }
            (0, Type::BOOLEAN) => encodings::bits(bytes, count, give),
            (0, Type::INT32 | Type::FLOAT) => encodings::plain::<4>(bytes, count, give),
            (0, Type::INT64 | Type::DOUBLE) => encodings::plain::<8>(bytes, count, give),
            (5, Type::INT32 | Type::INT64) => encodings::deltas(bytes, count, give),
            (9, Type::INT32 | Type::FLOAT) => encodings::split::<4>(bytes, count, give),
            (9, Type::INT64 | Type::DOUBLE) => encodings::split::<8>(bytes, count, give),
            _ => None,
        }
    }

    /// The meaning of a row group's codes: numbers, or codes of the column's texts.
    fn dictionary(&self, file: PageSource<'_>, group: usize) -> Result<&[i64]> {
        if self.physical == Type::BYTE_ARRAY {
            return Ok(&self.texts(file)?.1[group]);
        }
        if self.groups[group].dictionary.is_none() {
            return Ok(&[]);
        }
        if let Some(numbers) = self.groups[group].numbers.get() {
            return Ok(numbers);
        }
        let mut numbers = Vec::new();
        self.with_dictionary(file, group, |bytes, count| {
            let mut give = |some: &[i64]| numbers.extend_from_slice(some);
            match self.physical {
                Type::INT32 | Type::FLOAT => encodings::plain::<4>(bytes, count, &mut give),
                Type::INT64 | Type::DOUBLE => encodings::plain::<8>(bytes, count, &mut give),
                _ => None,
            }
        })?;
        Ok(self.groups[group].numbers.get_or_init(|| numbers))
    }

    /// The texts of all row groups, each once.
    fn texts(&self, file: PageSource<'_>) -> Result<&(Arc<StringArray>, Vec<Vec<i64>>)> {
        if let Some(texts) = self.texts.get() {
            return Ok(texts);
        }
        let mut numbers: std::collections::HashMap<String, i64> = std::collections::HashMap::new();
        let mut all: Vec<String> = Vec::new();
        let mut of_groups = Vec::with_capacity(self.groups.len());
        for group in 0..self.groups.len() {
            let mut codes = Vec::new();
            self.with_dictionary(file, group, |bytes, count| {
                for span in encodings::texts(bytes, 0, count)? {
                    let text = std::str::from_utf8(&bytes[span]).ok()?;
                    let code = numbers.get(text).copied().unwrap_or_else(|| {
                        all.push(text.to_owned());
                        numbers.insert(text.to_owned(), all.len() as i64 - 1);
                        all.len() as i64 - 1
                    });
                    codes.push(code);
                }
                Some(())
            })?;
            of_groups.push(codes);
        }
        // Codes have 32 bits.
        if i32::try_from(all.len()).is_err() {
            return Err(Error::corrupt(
                &file.file.path,
                0,
                "texts that 32 bits can number",
                format!("{} texts", all.len()),
            ));
        }
        Ok(self.texts.get_or_init(|| (Arc::new(StringArray::from(all)), of_groups)))
    }

    /// Decodes the dictionary of a row group; it has none where all its values are null.
    fn with_dictionary(
        &self,
        file: PageSource<'_>,
        group: usize,
        decode: impl FnOnce(&[u8], usize) -> Option<()>,
    ) -> Result<()> {
        let ColumnRowGroup { codec, dictionary, .. } = &self.groups[group];
        let Some(place) = dictionary.clone() else { return Ok(()) };
        let cipher = file.cipher.map(|cipher| (cipher, ModulePlace { group, column: self.position, page: None }));
        let form = Form { codec: *codec, cipher, bytes_max: DICTIONARY_BYTES_MAX };
        let file = file.file;
        page::with_bytes(file, place.clone(), form, |read| {
            let is_plain = read.header.kind == DICTIONARY_PAGE && matches!(read.header.encoding, 0 | 2);
            let decoded = if is_plain { decode(read.bytes, read.header.values) } else { None };
            decoded.ok_or_else(|| Error::corrupt(&file.path, place.start as u64, "a dictionary", "other bytes"))
        })
    }

    fn damage(&self, file: PageSource<'_>, row: usize, error: &arrow::error::ArrowError) -> Error {
        let offset = self.pages.iter().find(|page| page.rows.contains(&row)).map_or(0, |page| page.bytes.start);
        Error::corrupt(&file.file.path, offset as u64, format!("values of type {}", self.stored), error.to_string())
    }
}
