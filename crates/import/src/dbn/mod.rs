//! Databento Binary Encoding, versions 1 to 3, plain or zstd-compressed; older records are upgraded to version 3.
//!
//! - One record type per file; symbol mappings, heartbeats and gateway messages in between are read past.
//! - `symbol` comes from the metadata's mappings at the record's time, or is the instrument id as text.
//! - The time column is `ts_event`, except for `bbo` and `cbbo` files: their `ts_event` is the last trade's, which may be
//!   undefined, so they use `ts_recv`, the interval's end.

mod fields;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ::dbn::decode::dbn::fsm::{DbnFsm, ProcessResult};
use ::dbn::{Metadata, Record, RecordRef, TsSymbolMap, VersionUpgradePolicy};
use arrow::array::{
    ArrayRef, Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, RecordBatch,
    StringDictionaryBuilder, TimestampNanosecondBuilder, UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow::datatypes::{Field, Int32Type, Schema, SchemaRef};
use splay_store::{ColumnSpec, ColumnType};

use crate::decompress::DecompressedStream;
use crate::error::{Error, Result};
use crate::format::{FileBatches, batches_until_the_end};
use crate::input::InputFile;
use fields::{FieldKind, RecordSpec};

const BATCH_ROWS: usize = 1 << 14;
const METADATA_BYTES_MAX: u32 = 256 << 20;
const PRELUDE_BYTES: usize = 8;

/// Name of the column that the symbol mappings give.
const SYMBOL: &str = "symbol";

/// The file's columns and its time column. A file without records has those of its metadata's schema.
pub(crate) fn columns(file: &InputFile) -> Result<(Vec<ColumnSpec>, Option<String>)> {
    let mut decoder = DbnDecoder::open(file)?;
    let seen = decoder.next_spec()?;
    let record_spec = seen
        .or_else(|| fields::of(::dbn::RType::from(decoder.schema?) as u8))
        .ok_or_else(|| Error::unsupported(&file.name, "holds no records, so its columns are unknown"))?;
    let mut columns: Vec<ColumnSpec> =
        record_spec.fields.iter().map(|f| ColumnSpec::new(&f.name, f.kind.column_type())).collect();
    columns.push(ColumnSpec::new(SYMBOL, ColumnType::Symbol));
    Ok((columns, Some(record_spec.time.to_owned())))
}

/// The file's batches.
pub(crate) fn batches(file: &InputFile) -> Result<FileBatches> {
    let mut decoder = DbnDecoder::open(file)?;
    let next = move || Ok(decoder.batch()?.map(|batch| (batch, decoder.stream.bytes_read())));
    Ok(batches_until_the_end(file, next))
}

struct DbnDecoder {
    file: String,
    stream: DecompressedStream,
    fsm: DbnFsm,
    metadata_seen: bool,
    schema: Option<::dbn::Schema>,
    symbols: TsSymbolMap,
    /// The kind of record of this file, once one was seen.
    spec: Option<(u8, RecordSpec, SchemaRef)>,
    /// Whether the state machine holds a record that wasn't taken yet.
    pending: bool,
}

impl DbnDecoder {
    fn open(file: &InputFile) -> Result<DbnDecoder> {
        let mut stream = DecompressedStream::open(file, Arc::new(AtomicU64::new(0)))?;
        let mut prelude = [0u8; PRELUDE_BYTES];
        let got = stream.read_full(&mut prelude)?;
        if got < PRELUDE_BYTES || !prelude.starts_with(b"DBN") {
            let reason = if got == 0 {
                "is empty"
            } else {
                "has no DBN metadata; a fragment has to be joined with its own first"
            };
            return Err(Error::damaged(&file.name, reason));
        }
        let length = u32::from_le_bytes([prelude[4], prelude[5], prelude[6], prelude[7]]);
        if length > METADATA_BYTES_MAX {
            return Err(Error::damaged(&file.name, format!("claims {length} bytes of metadata")));
        }
        let fsm = DbnFsm::builder().upgrade_policy(VersionUpgradePolicy::UpgradeToV3).build();
        let mut fsm = fsm.map_err(|e| Error::damaged(&file.name, e.to_string()))?;
        fsm.write_all(&prelude);
        let (symbols, name) = (TsSymbolMap::new(), file.name.clone());
        Ok(DbnDecoder {
            file: name,
            stream,
            fsm,
            metadata_seen: false,
            schema: None,
            symbols,
            spec: None,
            pending: false,
        })
    }

    fn damaged(&self, reason: impl std::fmt::Display) -> Error {
        Error::damaged(&self.file, reason.to_string())
    }

    /// Makes the next record of data available to [`DbnDecoder::record`]. False at the end.
    fn advance(&mut self) -> Result<bool> {
        if self.pending {
            return Ok(true);
        }
        loop {
            match self.fsm.process() {
                ProcessResult::ReadMore(_) => {
                    let space = self.fsm.space();
                    if space.is_empty() {
                        return Err(self.damaged("a record doesn't fit the buffer; the file is damaged"));
                    }
                    let got = match self.stream.read(space) {
                        Ok(got) => got,
                        Err(e) => return Err(crate::decompress::damaged(&self.file, &e)),
                    };
                    if got == 0 {
                        return self.end();
                    }
                    self.fsm.fill(got);
                }
                ProcessResult::Metadata(metadata) => {
                    self.metadata_seen = true;
                    self.check(&metadata)?;
                    self.schema = metadata.schema;
                    self.symbols = metadata.symbol_map().unwrap_or_default();
                }
                ProcessResult::Record(()) => {
                    let Some(record) = self.fsm.last_record() else { continue };
                    let record_type = record.header().rtype;
                    if matches!(record_type, ::dbn::rtype::SYMBOL_MAPPING | ::dbn::rtype::SYSTEM | ::dbn::rtype::ERROR)
                    {
                        // A mapping that can't be read leaves the instrument id in its place.
                        self.symbols.on_record(record).unwrap_or_default();
                        continue;
                    }
                    self.choose(record_type)?;
                    self.pending = true;
                    return Ok(true);
                }
                ProcessResult::Err(error) => return Err(self.damaged(error)),
            }
        }
    }

    fn end(&self) -> Result<bool> {
        if !self.metadata_seen {
            return Err(self.damaged("ends inside its metadata"));
        }
        if !self.fsm.data().is_empty() {
            return Err(self.damaged("ends inside a record"));
        }
        Ok(false)
    }

    fn check(&self, metadata: &Metadata) -> Result<()> {
        if metadata.version > 3 {
            return Err(Error::unsupported(&self.file, "is DBN version 4; this release reads 1 to 3"));
        }
        Ok(())
    }

    fn choose(&mut self, record_type: u8) -> Result<()> {
        let Some(new) = fields::of(record_type) else {
            return Err(self.damaged(format!("holds records of unknown type {record_type:#04x}")));
        };
        match &self.spec {
            Some((current_type, _, _)) if *current_type == record_type => Ok(()),
            Some((_, current, _)) if current.name == new.name => {
                self.spec = Some((record_type, new, self.arrow_schema()));
                Ok(())
            }
            Some((_, current, _)) => Err(Error::unsupported(
                &self.file,
                format!("holds {} and {} records; split it into one file per schema", current.name, new.name),
            )),
            None => {
                let columns = new.fields.iter().map(|f| Field::new(&f.name, f.kind.column_type().arrow(), true));
                let symbol = Field::new(SYMBOL, ColumnType::Symbol.arrow(), true);
                let schema = Arc::new(Schema::new(columns.chain([symbol]).collect::<Vec<_>>()));
                self.spec = Some((record_type, new, schema));
                Ok(())
            }
        }
    }

    fn arrow_schema(&self) -> SchemaRef {
        self.spec.as_ref().map_or_else(|| Arc::new(Schema::empty()), |(_, _, schema)| SchemaRef::clone(schema))
    }

    fn next_spec(&mut self) -> Result<Option<RecordSpec>> {
        self.advance()?;
        Ok(self.spec.as_ref().map(|(_, spec, _)| spec.clone()))
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        if !self.advance()? {
            return Ok(None);
        }
        let Some((_, spec, schema)) = self.spec.clone() else { return Ok(None) };
        let mut builders: Vec<DbnColumn> = spec.fields.iter().map(|f| DbnColumn::new(f.kind)).collect();
        let mut symbols = StringDictionaryBuilder::<Int32Type>::new();
        let mut rows = 0;
        while rows < BATCH_ROWS && self.advance()? {
            let Some(record) = self.fsm.last_record() else { break };
            let bytes = record.as_ref();
            if bytes.len() < spec.size {
                return Err(self.damaged(format!(
                    "a {} record has {} bytes, not {}",
                    spec.name,
                    bytes.len(),
                    spec.size
                )));
            }
            for (field, builder) in spec.fields.iter().zip(&mut builders) {
                builder.push(bytes, field.offset, field.kind).ok_or_else(|| {
                    Error::damaged(
                        &self.file,
                        format!("a {} record has a {} outside the years to 2262", spec.name, field.name),
                    )
                })?;
            }
            let symbol = symbol(&self.symbols, record);
            symbols.append(symbol).map_err(|e| self.damaged(e))?;
            self.pending = false;
            rows += 1;
        }
        let arrays: Vec<ArrayRef> =
            builders.into_iter().map(DbnColumn::finish).chain([Arc::new(symbols.finish()) as ArrayRef]).collect();
        RecordBatch::try_new(schema, arrays).map(Some).map_err(|e| self.damaged(e))
    }
}

fn symbol(symbols: &TsSymbolMap, record: RecordRef<'_>) -> String {
    let id = record.header().instrument_id;
    match symbols.get_for_ts(record.raw_index_ts(), id) {
        Some(symbol) if !symbol.is_empty() => symbol.clone(),
        _ => id.to_string(),
    }
}

/// A column of the batch that is being made.
enum DbnColumn {
    U8(UInt8Builder),
    U16(UInt16Builder),
    U32(UInt32Builder),
    U64(UInt64Builder),
    I8(Int8Builder),
    I16(Int16Builder),
    I32(Int32Builder),
    I64(Int64Builder),
    F64(Float64Builder),
    Instant(TimestampNanosecondBuilder),
    Symbol(StringDictionaryBuilder<Int32Type>),
}

fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk::<N>().copied()
}

impl DbnColumn {
    fn new(kind: FieldKind) -> DbnColumn {
        match kind {
            FieldKind::U8 => DbnColumn::U8(UInt8Builder::new()),
            FieldKind::U16 => DbnColumn::U16(UInt16Builder::new()),
            FieldKind::U32 | FieldKind::Size => DbnColumn::U32(UInt32Builder::new()),
            FieldKind::U64 => DbnColumn::U64(UInt64Builder::new()),
            FieldKind::I8 => DbnColumn::I8(Int8Builder::new()),
            FieldKind::I16 => DbnColumn::I16(Int16Builder::new()),
            FieldKind::I32 => DbnColumn::I32(Int32Builder::new()),
            FieldKind::Quantity => DbnColumn::I64(Int64Builder::new()),
            FieldKind::Price => DbnColumn::F64(Float64Builder::new()),
            FieldKind::Instant => DbnColumn::Instant(TimestampNanosecondBuilder::new().with_timezone("UTC")),
            FieldKind::Char | FieldKind::Text(_) => DbnColumn::Symbol(StringDictionaryBuilder::new()),
        }
    }

    /// Appends a field. `None` when the value has no place in the column.
    fn push(&mut self, bytes: &[u8], at: usize, kind: FieldKind) -> Option<()> {
        match self {
            DbnColumn::U8(b) => b.append_value(*bytes.get(at)?),
            DbnColumn::U16(b) => b.append_value(u16::from_le_bytes(bytes_at(bytes, at)?)),
            DbnColumn::U32(b) => {
                let value = u32::from_le_bytes(bytes_at(bytes, at)?);
                b.append_option((kind != FieldKind::Size || value != ::dbn::UNDEF_ORDER_SIZE).then_some(value));
            }
            DbnColumn::U64(b) => b.append_value(u64::from_le_bytes(bytes_at(bytes, at)?)),
            DbnColumn::I8(b) => b.append_value(i8::from_le_bytes(bytes_at(bytes, at)?)),
            DbnColumn::I16(b) => b.append_value(i16::from_le_bytes(bytes_at(bytes, at)?)),
            DbnColumn::I32(b) => b.append_value(i32::from_le_bytes(bytes_at(bytes, at)?)),
            DbnColumn::I64(b) => {
                let value = i64::from_le_bytes(bytes_at(bytes, at)?);
                b.append_option((value != ::dbn::UNDEF_STAT_QUANTITY).then_some(value));
            }
            DbnColumn::F64(b) => {
                let value = i64::from_le_bytes(bytes_at(bytes, at)?);
                b.append_option((value != ::dbn::UNDEF_PRICE).then(|| price(value)));
            }
            DbnColumn::Instant(b) => {
                let value = u64::from_le_bytes(bytes_at(bytes, at)?);
                match value {
                    ::dbn::UNDEF_TIMESTAMP => b.append_null(),
                    _ => b.append_value(i64::try_from(value).ok()?),
                }
            }
            DbnColumn::Symbol(b) => {
                let len = if let FieldKind::Text(len) = kind { len } else { 1 };
                let field = bytes.get(at..at + len)?;
                let field = &field[..memchr::memchr(0, field).unwrap_or(len)];
                match String::from_utf8_lossy(field) {
                    text if text.is_empty() => b.append_null(),
                    text => drop(b.append(text.as_ref()).ok()?),
                }
            }
        }
        Some(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            DbnColumn::U8(mut b) => Arc::new(b.finish()),
            DbnColumn::U16(mut b) => Arc::new(b.finish()),
            DbnColumn::U32(mut b) => Arc::new(b.finish()),
            DbnColumn::U64(mut b) => Arc::new(b.finish()),
            DbnColumn::I8(mut b) => Arc::new(b.finish()),
            DbnColumn::I16(mut b) => Arc::new(b.finish()),
            DbnColumn::I32(mut b) => Arc::new(b.finish()),
            DbnColumn::I64(mut b) => Arc::new(b.finish()),
            DbnColumn::F64(mut b) => Arc::new(b.finish()),
            DbnColumn::Instant(mut b) => Arc::new(b.finish()),
            DbnColumn::Symbol(mut b) => Arc::new(b.finish()),
        }
    }
}

/// A price in units of 1e-9 as the double nearest to it.
fn price(units: i64) -> f64 {
    if units.unsigned_abs() < 1 << 53 {
        #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
        return units as f64 / 1e9;
    }
    crate::csv::numbers::float(units.to_string().as_bytes(), 9).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::price;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn prices_are_the_nearest_doubles() {
        for units in [0, 1, -5, 3_720_250_000_000, 9_007_199_254_740_993, i64::MAX - 1, i64::MIN] {
            let text = format!("{units}e-9");
            assert_eq!(price(units).to_bits(), text.parse::<f64>().unwrap().to_bits(), "{units}");
        }
    }
}
