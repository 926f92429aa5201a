//! Arrow IPC files of one column, by codec and rows of a batch.

use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use splay_ipc::FileReader;

use super::column::Column;
use super::parquet_file::guarded;
use super::scheme::{BlockReader, Scheme, SchemeId};
use crate::{Error, Result};

/// The codec of buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferCodec {
    /// None.
    None,
    /// LZ4 frames.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl BufferCodec {
    fn name(self) -> &'static str {
        match self {
            BufferCodec::None => "none",
            BufferCodec::Lz4 => "lz4",
            BufferCodec::Zstd => "zstd",
        }
    }

    /// The options of the writer.
    pub(crate) fn options(self) -> Result<IpcWriteOptions> {
        let codec = match self {
            BufferCodec::None => None,
            BufferCodec::Lz4 => Some(CompressionType::LZ4_FRAME),
            BufferCodec::Zstd => Some(CompressionType::ZSTD),
        };
        Ok(IpcWriteOptions::default().try_with_compression(codec)?)
    }
}

/// Arrow IPC files.
#[derive(Debug)]
pub struct IpcScheme {
    codec: BufferCodec,
    batch_rows: usize,
    id: SchemeId,
}

impl IpcScheme {
    /// A scheme.
    #[must_use]
    pub fn new(codec: BufferCodec, batch_rows: u32) -> IpcScheme {
        let id = SchemeId {
            name: format!("arrow {}, batches of {batch_rows} rows", codec.name()),
            family: "arrow",
            codec: codec.name(),
            block_rows: Some(i64::from(batch_rows)),
            ..SchemeId::default()
        };
        IpcScheme { codec, batch_rows: batch_rows as usize, id }
    }
}

impl Scheme for IpcScheme {
    fn id(&self) -> &SchemeId {
        &self.id
    }

    fn encode(&self, column: &Column) -> Result<Vec<u8>> {
        let schema = Schema::new(vec![Field::new(column.name(), column.data_type().clone(), true)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::clone(column.values())])?;
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), self.codec.options()?)?;
        for start in (0..column.rows()).step_by(self.batch_rows) {
            writer.write(&batch.slice(start, self.batch_rows.min(column.rows() - start)))?;
        }
        Ok(writer.into_inner()?)
    }

    fn decode(&self, file: &[u8], _: &DataType) -> Result<Vec<ArrayRef>> {
        guarded(|| {
            let mut reader = Batches::open(Cursor::new(file))?;
            (0..reader.blocks()).map(|number| reader.values(number)).collect()
        })
    }

    fn open<'a>(&'a self, file: &'a File, _: u64, _: &'a DataType) -> Result<Box<dyn BlockReader + 'a>> {
        Ok(Box::new(guarded(|| Batches::open(file))?))
    }
}

struct Batches<R: Read + Seek>(FileReader<R>);

impl<R: Read + Seek> Batches<R> {
    fn open(source: R) -> Result<Batches<R>> {
        Ok(Batches(FileReader::try_new(source).map_err(|error| Error::damaged(0, error))?))
    }

    fn values(&mut self, number: usize) -> Result<ArrayRef> {
        let batch = self.0.batch(number).map_err(|error| Error::damaged(0, error))?;
        batch.columns().first().map(Arc::clone).ok_or_else(|| Error::damaged(0, "there is no column"))
    }
}

impl<R: Read + Seek> BlockReader for Batches<R> {
    fn blocks(&self) -> usize {
        self.0.num_batches()
    }

    fn read(&mut self, block: usize) -> Result<usize> {
        guarded(|| Ok(self.values(block)?.to_data().get_slice_memory_size()?))
    }
}
