//! Writes dense segments column by column, a chunk of rows at a time: beside the rows themselves, memory holds the
//! numbers of one column.

use std::collections::HashMap;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimeUnit, UInt64Type,
};

use super::super::parquet::stored_column;
use super::format::{
    CHUNK_ROWS, ChunkHead, Footer, InstantUnit, MAGIC, PAGE_ROWS, PageContent, PageEntry, StoredColumn, TextList,
};
use super::numbers;
use crate::background;
use crate::error::{Error, Result};
use crate::schema::{ColumnType, TableSpec};

/// Level of zstd for texts, dictionaries and the footer.
const ZSTD_LEVEL: i32 = 9;

/// Free texts become codes if there are at most so many, which take at most so many bytes, and if they occur this often on average.
const TEXTS_MAX: usize = 1 << 20;
const TEXTS_BYTES_MAX: usize = 32 << 20;
const TEXT_REPEATS_MIN: usize = 3;

/// Writes rows, each column as the numbers that pack best.
pub(crate) fn write(sink: impl Write, spec: &TableSpec, rows: &RecordBatch) -> Result<()> {
    let mut file = CountingSink { sink, at: 0 };
    file.put(MAGIC)?;
    let mut columns = Vec::with_capacity(rows.num_columns());
    for (column, values) in spec.columns.iter().zip(rows.columns()) {
        columns.push(file.column(&column.name, &column.column_type, values)?);
    }
    let metadata = rows.schema_ref().metadata().clone().into_iter().collect();
    let footer = Footer { rows: rows.num_rows() as u64, metadata, columns };
    let text = serde_json::to_vec(&footer).map_err(|error| file.write_error(error))?;
    let stored = file.compress(&text)?;
    file.put(&stored)?;
    for word in [length(stored.len())?, length(text.len())?, crc32c::crc32c(&stored)] {
        file.put(&word.to_le_bytes())?;
    }
    file.put(MAGIC)?;
    file.sink.flush().map_err(|error| Error::Arrow(error.into()))
}

fn length(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).map_err(|error| Error::Arrow(arrow::error::ArrowError::ExternalError(Box::new(error))))
}

struct CountingSink<W> {
    sink: W,
    /// Bytes so far.
    at: u64,
}

impl<W: Write> CountingSink<W> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes).map_err(|error| Error::Arrow(error.into()))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn write_error(&self, error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Arrow(arrow::error::ArrowError::ExternalError(Box::new(error)))
    }

    fn compress(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        zstd::bulk::compress(bytes, ZSTD_LEVEL).map_err(|error| Error::Arrow(error.into()))
    }

    fn column(&mut self, name: &str, column_type: &ColumnType, values: &ArrayRef) -> Result<StoredColumn> {
        let mut column = StoredColumn {
            name: name.to_owned(),
            column_type: column_type.clone(),
            digits: None,
            unit: None,
            kind: PageContent::Whole,
            texts: None,
            chunks: Vec::new(),
            items: Vec::new(),
        };
        let items = items(values);
        for (item_type, item) in &items {
            let stored = self.column("", item_type, item)?;
            column.items.push(stored);
        }
        let values = if items.is_empty() { stored_column(values)? } else { marks(values) };
        match values.data_type() {
            DataType::Decimal64(_, digits) => column.digits = Some(*digits),
            DataType::Timestamp(unit, _) | DataType::Time64(unit) => {
                column.unit = match unit {
                    TimeUnit::Millisecond => Some(InstantUnit::Millisecond),
                    TimeUnit::Microsecond => Some(InstantUnit::Microsecond),
                    TimeUnit::Second | TimeUnit::Nanosecond => None,
                };
            }
            DataType::Float64 => column.kind = PageContent::Float,
            _ => {}
        }
        let source = match values.data_type() {
            DataType::Utf8 => CodedTexts::texts(values.as_string()),
            DataType::Dictionary(..) => Some(CodedTexts::dictionary(&values)),
            _ => None,
        };
        match &source {
            Some(coded) => column.texts = Some(self.texts(&coded.texts)?),
            None if *values.data_type() == DataType::Utf8 => column.kind = PageContent::Text,
            None => {}
        }
        let nulls = source.as_ref().map_or_else(|| values.logical_nulls(), |coded| coded.nulls.clone());
        for chunk in pieces(0..values.len(), CHUNK_ROWS) {
            background::did(chunk.len());
            let start = self.at;
            self.chunk(column.kind, &values, source.as_ref(), nulls.as_ref(), chunk)?;
            column.chunks.push((start, self.at - start));
        }
        Ok(column)
    }

    fn chunk(
        &mut self,
        kind: PageContent,
        values: &ArrayRef,
        coded: Option<&CodedTexts>,
        nulls: Option<&NullBuffer>,
        rows: Range<usize>,
    ) -> Result<()> {
        let pages: Vec<Range<usize>> = pieces(rows.clone(), PAGE_ROWS).collect();
        let valid = |rows: &Range<usize>| {
            nulls.map_or(rows.len(), |nulls| rows.len() - nulls.slice(rows.start, rows.len()).null_count())
        };
        let counts: Vec<usize> = pages.iter().map(valid).collect();
        let (tables, bodies) = if kind == PageContent::Text {
            let texts = values.as_string::<i32>();
            let bodies = pages.iter().map(|page| self.page_of_texts(texts, page)).collect::<Result<Vec<_>>>()?;
            (Vec::new(), bodies)
        } else {
            let numbers = match coded {
                Some(coded) => coded.codes[rows.clone()].iter().copied().filter(|code| *code >= 0).collect(),
                None => numbers_of(&values.slice(rows.start, rows.len()))?,
            };
            let compressed = numbers::compress(kind, &numbers, &counts).map_err(|error| self.write_error(error))?;
            (compressed.tables, compressed.pages)
        };
        let mut entries = Vec::with_capacity(pages.len());
        let mut packed = Vec::with_capacity(pages.len());
        for ((page, count), body) in pages.iter().zip(&counts).zip(&bodies) {
            let mixed = nulls.filter(|_| *count > 0 && *count < page.len());
            let nulls = match mixed {
                Some(nulls) => {
                    let bits: BooleanArray = page.clone().map(|row| Some(nulls.is_valid(row))).collect();
                    self.compress(&bits.values().inner().as_slice()[..page.len().div_ceil(8)])?
                }
                None => Vec::new(),
            };
            let checksum = crc32c::crc32c_append(crc32c::crc32c(&nulls), body);
            let (null_bytes, value_bytes) = (length(nulls.len())?, length(body.len())?);
            entries.push(PageEntry { null_bytes, value_bytes, values: length(*count)?, checksum });
            packed.push(nulls);
        }
        self.put(&ChunkHead::encode(&entries, &tables))?;
        for (nulls, body) in packed.iter().zip(&bodies) {
            self.put(nulls)?;
            self.put(body)?;
        }
        Ok(())
    }

    /// Lengths of the texts that aren't null, and then their bytes.
    fn page_of_texts(&self, texts: &StringArray, rows: &Range<usize>) -> Result<Vec<u8>> {
        let there = || rows.clone().filter(|row| texts.is_valid(*row)).map(|row| texts.value(row));
        self.compress(&length_prefixed(there())?)
    }

    fn texts(&mut self, texts: &[&str]) -> Result<TextList> {
        let plain = length_prefixed(texts.iter().copied())?;
        let stored = self.compress(&plain)?;
        let list = TextList {
            start: self.at,
            bytes: stored.len() as u64,
            plain_bytes: plain.len() as u64,
            count: texts.len() as u64,
            checksum: crc32c::crc32c(&stored),
        };
        self.put(&stored)?;
        Ok(list)
    }
}

/// Splits a range into pieces of `each` rows.
fn pieces(rows: Range<usize>, each: usize) -> impl Iterator<Item = Range<usize>> {
    rows.clone().step_by(each).map(move |start| start..(start + each).min(rows.end))
}

/// The lengths of texts, and then their bytes.
fn length_prefixed<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for text in texts.clone() {
        bytes.extend_from_slice(&length(text.len())?.to_le_bytes());
    }
    texts.for_each(|text| bytes.extend_from_slice(text.as_bytes()));
    Ok(bytes)
}

/// Codes that stand for texts; -1 for null.
struct CodedTexts<'a> {
    codes: Vec<i64>,
    texts: Vec<&'a str>,
    nulls: Option<NullBuffer>,
}

impl<'a> CodedTexts<'a> {
    fn new(codes: Vec<i64>, texts: Vec<&'a str>) -> CodedTexts<'a> {
        let valid: BooleanArray = codes.iter().map(|code| Some(*code >= 0)).collect();
        let nulls = codes.iter().any(|code| *code < 0).then(|| NullBuffer::new(valid.values().clone()));
        CodedTexts { codes, texts, nulls }
    }

    /// `None` for texts that take less space without codes.
    fn texts(texts: &'a StringArray) -> Option<CodedTexts<'a>> {
        let mut numbers: HashMap<&str, i64> = HashMap::new();
        let (mut all, mut bytes) = (Vec::new(), 0);
        let mut codes = Vec::with_capacity(texts.len());
        for text in texts {
            let Some(text) = text else {
                codes.push(-1);
                continue;
            };
            let code = *numbers.entry(text).or_insert_with(|| {
                bytes += text.len();
                all.push(text);
                all.len() as i64 - 1
            });
            if all.len() > TEXTS_MAX || bytes > TEXTS_BYTES_MAX {
                return None;
            }
            codes.push(code);
        }
        (all.len() * TEXT_REPEATS_MIN <= texts.len()).then(|| CodedTexts::new(codes, all))
    }

    /// Codes in the order in which texts come first, each text once, and none that no row has.
    fn dictionary(values: &'a ArrayRef) -> CodedTexts<'a> {
        let dictionary = values.as_dictionary::<Int32Type>();
        let texts = dictionary.values().as_string::<i32>();
        let mut numbers: HashMap<&str, i64> = HashMap::new();
        let mut all = Vec::new();
        let mut of_keys: Vec<Option<i64>> = vec![None; texts.len()];
        let mut code = |key: i32| {
            let key = usize::try_from(key).ok().filter(|key| texts.is_valid(*key));
            key.map_or(-1, |key| {
                *of_keys[key].get_or_insert_with(|| {
                    *numbers.entry(texts.value(key)).or_insert_with(|| {
                        all.push(texts.value(key));
                        all.len() as i64 - 1
                    })
                })
            })
        };
        let codes = dictionary.keys().iter().map(|key| key.map_or(-1, &mut code)).collect();
        CodedTexts::new(codes, all)
    }
}

/// The columns that lists and long decimals are made of; none for other columns.
fn items(values: &ArrayRef) -> Vec<(ColumnType, ArrayRef)> {
    match values.data_type() {
        DataType::FixedSizeList(..) => {
            let lists = values.as_fixed_size_list();
            let size = usize::try_from(lists.value_length()).unwrap_or(0);
            let levels = lists.values().as_primitive::<Float64Type>();
            let item = |level: usize| -> (ColumnType, ArrayRef) {
                let value = |row: usize| {
                    let at = row * size + level;
                    (lists.is_valid(row) && levels.is_valid(at)).then(|| levels.value(at))
                };
                (ColumnType::Float64, Arc::new((0..lists.len()).map(value).collect::<Float64Array>()))
            };
            (0..size).map(item).collect()
        }
        DataType::Decimal128(..) => {
            let decimals = values.as_primitive::<Decimal128Type>();
            if decimals.iter().flatten().all(|value| i64::try_from(value).is_ok()) {
                return Vec::new();
            }
            #[expect(clippy::cast_possible_truncation, reason = "one half of the bits each")]
            let halves: (Vec<i64>, Vec<u64>) = (0..decimals.len())
                .map(|row| if decimals.is_valid(row) { decimals.value(row) } else { 0 })
                .map(|value| ((value >> 64) as i64, value.cast_unsigned() as u64))
                .unzip();
            vec![
                (ColumnType::Int64, Arc::new(Int64Array::from(halves.0))),
                (ColumnType::UInt64, Arc::new(UInt64Array::from(halves.1))),
            ]
        }
        _ => Vec::new(),
    }
}

/// Zeros that are null where the values are.
fn marks(values: &ArrayRef) -> ArrayRef {
    Arc::new(Int64Array::new(vec![0; values.len()].into(), values.nulls().cloned()))
}

/// The values that aren't null: as whole numbers, floats by their bits.
fn numbers_of(values: &ArrayRef) -> Result<Vec<i64>> {
    fn there<T: Copy>(values: &ArrayRef, all: &[T], number: impl Fn(T) -> i64) -> Vec<i64> {
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => all.iter().map(|value| number(*value)).collect(),
            Some(nulls) => nulls.valid_indices().map(|row| number(all[row])).collect(),
        }
    }
    Ok(match values.data_type() {
        DataType::Float64 => {
            there(values, values.as_primitive::<Float64Type>().values(), |value| value.to_bits().cast_signed())
        }
        DataType::Float32 => {
            there(values, values.as_primitive::<Float32Type>().values(), |value| i64::from(value.to_bits()))
        }
        DataType::UInt64 => there(values, values.as_primitive::<UInt64Type>().values(), u64::cast_signed),
        DataType::Decimal64(..) => there(values, values.as_primitive::<Decimal64Type>().values(), |value| value),
        DataType::Decimal128(..) => {
            let decimals: &Decimal128Array = values.as_primitive();
            there(values, decimals.values(), |value| i64::try_from(value).unwrap_or_default())
        }
        DataType::Date32 => return numbers_of(&cast(values, &DataType::Int32)?),
        _ => {
            let wide = cast(values, &DataType::Int64)?;
            there(&wide, wide.as_primitive::<Int64Type>().values(), |value| value)
        }
    })
}
