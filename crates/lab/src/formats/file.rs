//! The formats of files: Feather (Arrow IPC), Parquet and CSV, by codec.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::csv::ReaderBuilder;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::writer::FileWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;
use splay_ipc::FileReader;

use super::{Table, TableLocation, Target};
use crate::compression::{BufferCodec, PageCodec};
use crate::writers::{write_csv, write_parquet};
use crate::{Error, Result};

/// Rows of a batch that is read.
const BATCH_ROWS: usize = 8_192;
/// Rows of a batch of a Feather file, as pyarrow writes them.
const FEATHER_ROWS: usize = 65_536;

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Arrow IPC.
    Feather(BufferCodec),
    /// Parquet with the writer's usual settings.
    Parquet(PageCodec),
    /// Delimited text.
    Csv(TextCodec),
}

/// The codec of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextCodec {
    /// None.
    None,
    /// Gzip, level 6.
    Gzip,
    /// Zstandard, level 3.
    Zstd,
}

impl TextCodec {
    /// Makes a file of text that `write` gives.
    ///
    /// # Errors
    /// [`Error::Io`]; those of `write`.
    pub fn write_file(self, path: &Path, write: &mut dyn FnMut(&mut dyn Write) -> Result<()>) -> Result<()> {
        let mut file = create(path)?;
        match self {
            TextCodec::None => write(&mut file)?,
            TextCodec::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(&mut file, flate2::Compression::new(6));
                write(&mut encoder)?;
                encoder.finish().map_err(Error::io(path, "write"))?;
            }
            TextCodec::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(&mut file, 3).map_err(Error::io(path, "write"))?;
                write(&mut encoder)?;
                encoder.finish().map_err(Error::io(path, "write"))?;
            }
        }
        file.flush().map_err(Error::io(path, "write"))
    }
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    Ok(BufWriter::with_capacity(1 << 18, File::create(path).map_err(Error::io(path, "create"))?))
}

/// The formats that are compared: Feather plain, lz4, zstd; Parquet snappy, gzip, brotli, zstd; CSV plain, gzip, zstd.
#[must_use]
pub fn files() -> Vec<FileFormat> {
    use FileFormat::{Csv, Feather, Parquet};
    let feather = [BufferCodec::None, BufferCodec::Lz4, BufferCodec::Zstd].map(Feather);
    let parquet = [PageCodec::Snappy, PageCodec::Gzip(6), PageCodec::Brotli(9), PageCodec::Zstd(3)].map(Parquet);
    let csv = [TextCodec::None, TextCodec::Gzip, TextCodec::Zstd].map(Csv);
    feather.into_iter().chain(parquet).chain(csv).collect()
}

impl FileFormat {
    /// The extension of a file's name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            FileFormat::Feather(_) => "arrow",
            FileFormat::Parquet(_) => "parquet",
            FileFormat::Csv(TextCodec::None) => "csv",
            FileFormat::Csv(TextCodec::Gzip) => "csv.gz",
            FileFormat::Csv(TextCodec::Zstd) => "csv.zst",
        }
    }

    /// Writes a table.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Parquet`], [`Error::Arrow`].
    pub fn write_file(self, table: &Table, path: &Path) -> Result<()> {
        let table = plain(table)?;
        if let FileFormat::Csv(codec) = self {
            return codec.write_file(path, &mut |text| write_csv(&table.schema, &table.batches, text));
        }
        let mut file = create(path)?;
        match self {
            FileFormat::Feather(codec) => feather(&table, codec, &mut file)?,
            FileFormat::Parquet(codec) => parquet(&table, codec, &mut file).map_err(Error::parquet(path))?,
            FileFormat::Csv(_) => {}
        }
        file.flush().map_err(Error::io(path, "write"))
    }

    /// Reads a table.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Parquet`], [`Error::Arrow`].
    pub fn read_file(self, table: &Table, path: &Path) -> Result<Table> {
        let file = File::open(path).map_err(Error::io(path, "open"))?;
        let batches = match self {
            FileFormat::Feather(_) => {
                let reader = FileReader::try_new(BufReader::new(file)).map_err(|error| Error::damaged(0, error))?;
                reader.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| Error::damaged(0, error))?
            }
            FileFormat::Parquet(_) => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(Error::parquet(path))?;
                let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(Error::parquet(path))?;
                reader.collect::<std::result::Result<Vec<_>, _>>()?
            }
            FileFormat::Csv(codec) => {
                let text: Box<dyn Read> = match codec {
                    TextCodec::None => Box::new(file),
                    TextCodec::Gzip => Box::new(flate2::read::MultiGzDecoder::new(file)),
                    TextCodec::Zstd => {
                        Box::new(zstd::stream::read::Decoder::new(file).map_err(Error::io(path, "read"))?)
                    }
                };
                read_csv(table, text)?
            }
        };
        Ok(Table { batches, ..table.clone() })
    }
}

impl Target for FileFormat {
    fn name(&self) -> String {
        match self {
            FileFormat::Feather(BufferCodec::None) => "feather",
            FileFormat::Feather(BufferCodec::Lz4) => "feather lz4",
            FileFormat::Feather(BufferCodec::Zstd) => "feather zstd",
            FileFormat::Parquet(PageCodec::None) => "parquet",
            FileFormat::Parquet(PageCodec::Snappy) => "parquet snappy",
            FileFormat::Parquet(PageCodec::Lz4) => "parquet lz4",
            FileFormat::Parquet(PageCodec::Gzip(level)) => return format!("parquet gzip {level}"),
            FileFormat::Parquet(PageCodec::Brotli(level)) => return format!("parquet brotli {level}"),
            FileFormat::Parquet(PageCodec::Zstd(level)) => return format!("parquet zstd {level}"),
            FileFormat::Csv(TextCodec::None) => "csv",
            FileFormat::Csv(TextCodec::Gzip) => "csv gzip 6",
            FileFormat::Csv(TextCodec::Zstd) => "csv zstd 3",
        }
        .to_owned()
    }

    fn write(&self, tables: &[Table], folder: &Path) -> Result<TableLocation> {
        let write = |table: &Table| {
            let path = folder.join(format!("{}.{}", table.name, self.extension()));
            self.write_file(table, &path)?;
            Ok(path)
        };
        Ok(TableLocation::Files(tables.iter().map(write).collect::<Result<_>>()?))
    }

    fn read(&self, tables: &[Table], place: &TableLocation) -> Result<Vec<Table>> {
        let TableLocation::Files(paths) = place else { return Ok(Vec::new()) };
        tables.iter().zip(paths).map(|(table, path)| self.read_file(&plain(table)?, path)).collect()
    }
}

/// The table with texts instead of codes: each batch may have a dictionary of its own, which not every format can write.
pub fn plain(table: &Table) -> Result<Table> {
    let is_coded = |field: &Arc<Field>| matches!(field.data_type(), DataType::Dictionary(..));
    if !table.schema.fields().iter().any(is_coded) {
        return Ok(table.clone());
    }
    let fields = table.schema.fields().iter().map(|field| match field.data_type() {
        DataType::Dictionary(_, values) => field.as_ref().clone().with_data_type(values.as_ref().clone()),
        _ => field.as_ref().clone(),
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = |batch: &RecordBatch| {
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| Ok(arrow::compute::cast(column, field.data_type())?));
        Ok(RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<Vec<ArrayRef>>>()?)?)
    };
    let batches = table.batches.iter().map(batch).collect::<Result<_>>()?;
    Ok(Table { name: table.name.clone(), schema: Arc::clone(&schema), batches })
}

fn feather(table: &Table, codec: BufferCodec, file: &mut dyn Write) -> Result<()> {
    let mut writer = FileWriter::try_new_with_options(file, &table.schema, codec.options()?)?;
    let rows = arrow::compute::concat_batches(&table.schema, &table.batches)?;
    for start in (0..rows.num_rows()).step_by(FEATHER_ROWS) {
        writer.write(&rows.slice(start, FEATHER_ROWS.min(rows.num_rows() - start)))?;
    }
    Ok(writer.finish()?)
}

fn parquet(table: &Table, codec: PageCodec, file: &mut (dyn Write + Send)) -> parquet::errors::Result<()> {
    let properties = WriterProperties::builder().set_compression(codec.compression()?).build();
    write_parquet(&table.schema, &table.batches, properties, file)
}

/// Reads CSV with a header line as a table of known columns.
fn read_csv(table: &Table, file: Box<dyn Read>) -> Result<Vec<RecordBatch>> {
    let reader = ReaderBuilder::new(Arc::clone(&table.schema)).with_header(true).with_batch_size(BATCH_ROWS);
    Ok(reader.build(file)?.collect::<std::result::Result<Vec<_>, _>>()?)
}
