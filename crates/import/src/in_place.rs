//! Files that are read where they lie, as a table of a statement.
//!
//! - Parquet and Arrow files keep their own types; text files have the types of their first rows, DBN files those of its records.
//! - No column has to be a time or a symbol.
//! - Only the columns that are asked for are parsed or decoded. A Parquet file is read by row groups, which are passed over by their
//!   statistics.
//! - Several files are one table: each has the columns of the first, by name, with the same types.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use splay_ipc::FileReader;
use splay_store::{FileError, FileSlice, FileState, FileTarget, FilesInPlace, GroupStatistics, OpenFiles, TableSpec};

use crate::binary::{batches, natural_columns};
use crate::columnar;
use crate::detect::detect;
use crate::error::{Error, Result};
use crate::format::{DetectedFormat, guarded, guarded_batches};
use crate::input::{InputFile, expand};
use crate::plan::{Import, ReaderKind, text_columns};
use crate::report::Block;
use crate::settings::{ImportSettings, OnError};
use crate::shared_file::SharedFile;

/// Bytes of a file for each row, where nothing else is known.
const ROW_BYTES: u64 = 32;

/// Bytes of a text in a file that has values as they are in memory, where nothing else is known.
const TEXT_BYTES: u64 = 16;

/// Most rows of a batch with texts or lists.
const TEXT_BATCH_ROWS: usize = 1 << 16;

/// Opens files in place for statements.
#[derive(Debug, Clone, Copy)]
pub struct FileOpener;

impl OpenFiles for FileOpener {
    fn open(
        &self,
        pattern: &str,
        threads: usize,
        target: Option<FileTarget<'_>>,
    ) -> std::result::Result<Arc<dyn FilesInPlace>, FileError> {
        let settings = ImportSettings { threads, ..ImportSettings::default() };
        Ok(Arc::new(OpenedFiles::open(expand(&[pattern.to_owned()])?, &settings, target)?))
    }
}

/// Files as one table.
#[derive(Debug)]
pub struct OpenedFiles {
    files: Vec<InputFile>,
    schema: SchemaRef,
    form: FilesForm,
    threads: usize,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each statement")]
enum FilesForm {
    /// Each file with its metadata.
    Parquet(Vec<(SharedFile, ArrowReaderMetadata)>),
    /// Each file; `None` in the place of one that is a stream.
    Arrow(Vec<(SharedFile, Option<FileReader<SharedFile>>)>),
    /// Formats that are parsed: the columns, and how rows are read.
    Parsed { spec: TableSpec, reading: ReaderKind },
}

/// How a reading ended before its end.
enum EarlyEnd {
    Failed(Error),
    Left,
}

impl From<Error> for EarlyEnd {
    fn from(error: Error) -> EarlyEnd {
        EarlyEnd::Failed(error)
    }
}

impl OpenedFiles {
    /// Looks at files. Of `settings`, format, delimiter, lines before the header, header, types, texts of null, time zone and threads count.
    ///
    /// # Errors
    /// [`Error::Setting`] for no file at all, [`Error::Misfit`] for a file that has other columns than the first, or not those of
    /// `target`, and
    /// [`Error::Damaged`] or [`Error::Unsupported`] for one that can't be read.
    pub fn open(
        files: Vec<InputFile>,
        settings: &ImportSettings,
        target: Option<FileTarget<'_>>,
    ) -> Result<OpenedFiles> {
        let Some(first) = files.first() else {
            return Err(Error::Setting { setting: "files", reason: "there is no file to read".to_owned() });
        };
        let kind = detect(first, settings)?;
        let (schema, form) = match kind {
            DetectedFormat::Parquet => {
                let metadata = files.iter().map(metadata).collect::<Result<Vec<_>>>()?;
                (Arc::clone(metadata[0].1.schema()), FilesForm::Parquet(metadata))
            }
            DetectedFormat::Arrow => {
                let readers = files.iter().map(arrow_reader).collect::<Result<Vec<_>>>()?;
                let schema = match &readers[0].1 {
                    Some(reader) => reader.schema(),
                    None => guarded(first, || columnar::schema(first, kind))?,
                };
                (schema, FilesForm::Arrow(readers))
            }
            DetectedFormat::Dbn | DetectedFormat::Itch => {
                let (columns, time) = natural_columns(first, kind, &|_| None)?;
                let spec = TableSpec::new("files", columns, time.unwrap_or_default(), None);
                (spec.arrow(), FilesForm::Parsed { spec, reading: ReaderKind::Binary(kind) })
            }
            DetectedFormat::Text(_) | DetectedFormat::Json => {
                let (spec, format) = text_columns(&files, kind, settings, target)?;
                (spec.arrow(), FilesForm::Parsed { spec, reading: ReaderKind::Text(format) })
            }
        };
        let schema = Arc::new(Schema::new(schema.fields().clone()));
        let opened = OpenedFiles { files, schema, form, threads: settings.threads.max(1) };
        if let FilesForm::Parquet(metadata) = &opened.form {
            for (file, (_, metadata)) in opened.files.iter().zip(metadata) {
                opened.places(file, metadata.schema(), None)?;
            }
        }
        Ok(opened)
    }

    /// Rows of all files, where their metadata says it.
    fn rows(&self) -> Option<u64> {
        let FilesForm::Parquet(metadata) = &self.form else { return None };
        let rows = metadata.iter().map(|(_, file)| file.metadata().file_metadata().num_rows());
        Some(rows.map(|rows| u64::try_from(rows).unwrap_or(0)).sum())
    }

    fn read_parquet(
        &self,
        part: &FileSlice,
        (opened, metadata): &(SharedFile, ArrowReaderMetadata),
        schema: &SchemaRef,
        batch_rows: usize,
        sink: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<()> {
        let file = &self.files[part.file];
        let places = self.places(file, metadata.schema(), Some(schema))?;
        let groups = part.groups.clone().unwrap_or_default();
        let rows = groups.iter().filter_map(|group| metadata.metadata().row_groups().get(*group));
        let rows = rows.map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).sum::<usize>();
        let has_one_width = schema.fields().iter().all(|field| field.data_type().is_primitive());
        // The reader makes room for a whole batch. Offsets of texts have 32 bits.
        let batch_rows = batch_rows.min(if has_one_width { rows } else { TEXT_BATCH_ROWS }).max(1);
        let batches =
            guarded(file, || columnar::row_groups(file, opened.clone(), metadata.clone(), groups, places, batch_rows))?;
        for batch in guarded_batches(file, batches) {
            let (batch, _) = batch?;
            if !sink(self.by_name(file, &batch, schema)?) {
                break;
            }
        }
        Ok(())
    }

    fn read_arrow(
        &self,
        part: &FileSlice,
        reader: Option<&FileReader<SharedFile>>,
        schema: &SchemaRef,
        sink: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<()> {
        let file = &self.files[part.file];
        let batches = match reader {
            Some(reader) => {
                let places = self.places(file, &reader.schema(), Some(schema))?;
                let numbers = part.groups.clone().unwrap_or_else(|| (0..reader.num_batches()).collect());
                guarded_batches(file, columnar::arrow_batches(file, reader, numbers, places))
            }
            None => batches(file, DetectedFormat::Arrow)?,
        };
        for batch in batches {
            let (batch, _) = batch?;
            self.places(file, &batch.schema(), Some(schema))?;
            if !sink(self.by_name(file, &batch, schema)?) {
                break;
            }
        }
        Ok(())
    }

    fn read_parsed(
        &self,
        file: usize,
        spec: &TableSpec,
        reading: &ReaderKind,
        schema: &SchemaRef,
        sink: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<()> {
        let mut spec = spec.clone();
        let reading = match reading {
            ReaderKind::Text(format) => {
                let mut format = format.clone();
                // Rows are counted by a column, if none is asked for.
                let counted = spec.columns.first().filter(|_| schema.fields().is_empty()).map(|one| one.name.clone());
                let is_selected = |name: &str| schema.field_with_name(name).is_ok() || counted.as_deref() == Some(name);
                for rule in &mut format.rules {
                    rule.plan = rule.plan.take().filter(|plan| is_selected(&plan.name));
                }
                spec.columns.retain(|column| is_selected(&column.name));
                ReaderKind::Text(format)
            }
            ReaderKind::Binary(kind) => ReaderKind::Binary(*kind),
        };
        let files = vec![self.files[file].clone()];
        let import = Import::of(spec, files, reading, (OnError::Stop, self.threads));
        let ended = import.run(&mut |block: Block| {
            let batch = self.by_name(&self.files[file], &block.batch, schema)?;
            if sink(batch) { Ok(()) } else { Err(EarlyEnd::Left) }
        });
        match ended {
            Ok(_) | Err(EarlyEnd::Left) => Ok(()),
            Err(EarlyEnd::Failed(error)) => Err(error),
        }
    }

    fn misfit(&self, file: usize, reason: String) -> Error {
        let file = self.files.get(file).map(|file| file.name.clone()).unwrap_or_default();
        Error::Misfit { file, table: self.files[0].name.clone(), reason }
    }

    /// Places in a file of these columns, or of all; each has to be there with its type.
    fn places(&self, file: &InputFile, own: &Schema, columns: Option<&Schema>) -> Result<Vec<usize>> {
        let misfit =
            |reason: String| Error::Misfit { file: file.name.clone(), table: self.files[0].name.clone(), reason };
        let place = |field: &arrow::datatypes::FieldRef| {
            let at = own.index_of(field.name()).map_err(|_| misfit(format!("it lacks column {:?}", field.name())))?;
            let data_type = own.field(at).data_type();
            if data_type != field.data_type() {
                let (name, first) = (field.name(), field.data_type());
                return Err(misfit(format!("column {name:?} is {data_type}, and {first} in the first file")));
            }
            Ok(at)
        };
        columns.unwrap_or(&self.schema).fields().iter().map(place).collect()
    }

    /// The batch with the columns of `schema`.
    fn by_name(&self, file: &InputFile, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
            Some(column) => Arc::clone(column),
            None => new_null_array(field.data_type(), batch.num_rows()),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect(), &options)
            .map_err(|error| Error::damaged(&file.name, error.to_string()))
    }
}

impl FilesInPlace for OpenedFiles {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn files(&self) -> usize {
        self.files.len()
    }

    fn state(&self, file: usize) -> Option<FileState> {
        match &self.form {
            FilesForm::Parquet(files) => files.get(file)?.0.state(),
            FilesForm::Arrow(files) => files.get(file)?.0.state(),
            // Opened anew for each reading.
            FilesForm::Parsed { .. } => {
                std::fs::metadata(&self.files.get(file)?.path).ok().map(|of| FileState::of(&of))
            }
        }
    }

    fn rows_estimate(&self) -> u64 {
        let bytes = || self.files.iter().map(|file| file.bytes).sum::<u64>();
        let width = |field: &Arc<Field>| field.data_type().primitive_width().map_or(TEXT_BYTES, |width| width as u64);
        let row_bytes = || match &self.form {
            FilesForm::Arrow(_) => self.schema.fields().iter().map(width).sum::<u64>().max(1),
            _ => ROW_BYTES,
        };
        self.rows().unwrap_or_else(|| bytes() / row_bytes())
    }

    fn groups(&self) -> usize {
        match &self.form {
            FilesForm::Parquet(files) => files.iter().map(|(_, file)| file.metadata().num_row_groups()).sum(),
            FilesForm::Arrow(files) => files.iter().map(|(_, reader)| batches_of(reader.as_ref()).unwrap_or(1)).sum(),
            FilesForm::Parsed { .. } => self.files.len(),
        }
    }

    fn statistics(&self, column: &str) -> Option<GroupStatistics> {
        let FilesForm::Parquet(files) = &self.form else { return None };
        let (mut mins, mut maxes, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
        for (_, file) in files {
            let metadata = file.metadata();
            let descriptor = metadata.file_metadata().schema_descr();
            let converter = StatisticsConverter::try_new(column, file.schema(), descriptor).ok()?;
            mins.push(converter.row_group_mins(metadata.row_groups()).ok()?);
            maxes.push(converter.row_group_maxes(metadata.row_groups()).ok()?);
            let counts = converter.row_group_null_counts(metadata.row_groups()).ok()?;
            nulls.push(Arc::new(counts) as ArrayRef);
        }
        let joined =
            |parts: &[ArrayRef]| arrow::compute::concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).ok();
        let nulls = joined(&nulls)?.as_any().downcast_ref::<UInt64Array>()?.clone();
        Some(GroupStatistics { min: joined(&mins)?, max: joined(&maxes)?, nulls })
    }

    fn parts(&self, count: usize, is_selected: &dyn Fn(usize) -> bool) -> Vec<Vec<FileSlice>> {
        let all: Vec<(usize, Option<usize>)> = match &self.form {
            FilesForm::Parquet(files) => {
                let groups = |(file, (_, metadata)): (usize, &(_, ArrowReaderMetadata))| {
                    (0..metadata.metadata().num_row_groups()).map(move |group| (file, Some(group)))
                };
                files.iter().enumerate().flat_map(groups).collect()
            }
            FilesForm::Arrow(files) => {
                let groups = |(file, (_, reader)): (usize, &(_, Option<FileReader<_>>))| match reader {
                    Some(reader) => (0..reader.num_batches()).map(|number| (file, Some(number))).collect(),
                    None => vec![(file, None)],
                };
                files.iter().enumerate().flat_map(groups).collect()
            }
            FilesForm::Parsed { .. } => (0..self.files.len()).map(|file| (file, None)).collect(),
        };
        let parts: Vec<_> =
            all.into_iter().enumerate().filter(|(at, _)| is_selected(*at)).map(|(_, one)| one).collect();
        split(parts.len(), count).map(|range| join(&parts[range])).collect()
    }

    fn read(
        &self,
        part: &FileSlice,
        columns: &[usize],
        batch_rows: usize,
        sink: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> std::result::Result<(), FileError> {
        let schema = Arc::new(self.schema.project(columns).map_err(|error| self.misfit(part.file, error.to_string()))?);
        Ok(match &self.form {
            FilesForm::Parquet(metadata) => self.read_parquet(part, &metadata[part.file], &schema, batch_rows, sink),
            FilesForm::Arrow(files) => self.read_arrow(part, files[part.file].1.as_ref(), &schema, sink),
            FilesForm::Parsed { spec, reading } => self.read_parsed(part.file, spec, reading, &schema, sink),
        }?)
    }
}

fn metadata(file: &InputFile) -> Result<(SharedFile, ArrowReaderMetadata)> {
    let opened = columnar::shared(file)?;
    let metadata = guarded(file, || columnar::parquet_metadata(file, &opened))?;
    Ok((opened, metadata))
}

fn arrow_reader(file: &InputFile) -> Result<(SharedFile, Option<FileReader<SharedFile>>)> {
    let opened = columnar::shared(file)?;
    let reader = guarded(file, || columnar::arrow_file(file, opened.clone()))?;
    Ok((opened, reader))
}

fn batches_of(reader: Option<&FileReader<SharedFile>>) -> Option<usize> {
    reader.map(FileReader::num_batches)
}

/// `length` things in at most `count` ranges of about one length.
fn split(length: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    let count = count.clamp(1, length.max(1));
    (0..count).map(move |at| at * length / count..(at + 1) * length / count)
}

/// Row groups of one file behind each other are one part.
fn join(of: &[(usize, Option<usize>)]) -> Vec<FileSlice> {
    let mut parts: Vec<FileSlice> = Vec::new();
    for (file, group) in of {
        match (parts.last_mut(), group) {
            (Some(FileSlice { file: last, groups: Some(groups) }), Some(group)) if last == file => groups.push(*group),
            (_, group) => parts.push(FileSlice { file: *file, groups: group.map(|group| vec![group]) }),
        }
    }
    parts
}
