//! Parquet and Arrow IPC files, batch by batch.

use std::fs::File;
use std::io::{BufReader, Read, Seek};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use splay_ipc::{FileReader, StreamReader};

use crate::error::{Error, Result};
use crate::few_texts::SAMPLE_ROWS;
use crate::format::{DetectedFormat, FileBatches};
use crate::input::InputFile;
use crate::shared_file::SharedFile;

/// Rows of a batch.
const BATCH_ROWS: usize = 1 << 15;

pub(crate) fn open(file: &InputFile) -> Result<File> {
    if file.member.is_some() {
        return Err(Error::unsupported(
            &file.name,
            "Parquet and Arrow files can't be read inside a zip file; unpack it first",
        ));
    }
    let mut opened = File::open(&file.path).map_err(Error::io("open", &file.path))?;
    let mut head = [0u8; 4];
    let got = opened.read(&mut head).map_err(Error::io("read", &file.path))?;
    if head[..got].starts_with(&[0x1f, 0x8b]) || head == [0x28, 0xb5, 0x2f, 0xfd] {
        return Err(Error::unsupported(
            &file.name,
            "Parquet and Arrow files can't be read compressed as a whole; unpack it first",
        ));
    }
    opened.rewind().map_err(Error::io("read", &file.path))?;
    Ok(opened)
}

/// The opened file, for several threads.
pub(crate) fn shared(file: &InputFile) -> Result<SharedFile> {
    SharedFile::new(open(file)?).map_err(Error::io("open", &file.path))
}

/// The metadata of a Parquet file. Types that its writer noted beside Parquet's own are left aside if they say that all codes are of nulls, which
/// Arrow's reader can't decode.
pub(crate) fn parquet_metadata(file: &InputFile, opened: &SharedFile) -> Result<ArrowReaderMetadata> {
    let load = |options| ArrowReaderMetadata::load(opened, options).map_err(|e| wrong(file)(&e));
    let metadata = load(ArrowReaderOptions::new())?;
    let is_of_nulls =
        |field: &FieldRef| matches!(field.data_type(), DataType::Dictionary(_, of) if **of == DataType::Null);
    match metadata.schema().fields().iter().any(is_of_nulls) {
        true => load(ArrowReaderOptions::new().with_skip_arrow_metadata(true)),
        false => Ok(metadata),
    }
}

/// An Arrow file for several threads; `None` for a stream, which is read from its begin.
pub(crate) fn arrow_file(file: &InputFile, mut opened: SharedFile) -> Result<Option<FileReader<SharedFile>>> {
    let mut head = [0u8; 8];
    let got = opened.read(&mut head).map_err(Error::io("read", &file.path))?;
    if !splay_ipc::is_file(&head[..got]) {
        return Ok(None);
    }
    FileReader::try_new(opened).map(Some).map_err(|e| wrong(file)(&e))
}

/// Batches of an Arrow file by their numbers, with the columns at these places.
pub(crate) fn arrow_batches(
    file: &InputFile,
    reader: &FileReader<SharedFile>,
    numbers: Vec<usize>,
    places: Vec<usize>,
) -> FileBatches {
    let (wrong, mut reader) = (wrong(file), reader.clone().with_columns(places));
    Box::new(numbers.into_iter().map(move |number| Ok((reader.batch(number).map_err(|e| wrong(&e))?, 0.0))))
}

fn wrong(file: &InputFile) -> impl Fn(&dyn std::fmt::Display) -> Error + use<> {
    let name = file.name.clone();
    move |source| Error::damaged(&name, format!("can't be read: {source}"))
}

/// An Arrow file, or a stream in a file.
enum Ipc {
    File(FileReader<BufReader<File>>),
    Stream(StreamReader<BufReader<File>>),
}

impl Ipc {
    fn open(file: &InputFile) -> Result<Ipc> {
        let mut opened = open(file)?;
        let mut head = [0u8; 8];
        let got = opened.read(&mut head).map_err(Error::io("read", &file.path))?;
        opened.rewind().map_err(Error::io("read", &file.path))?;
        let opened = BufReader::new(opened);
        let reader = if splay_ipc::is_file(&head[..got]) {
            FileReader::try_new(opened).map(Ipc::File)
        } else {
            StreamReader::try_new(opened).map(Ipc::Stream)
        };
        reader.map_err(|e| wrong(file)(&e))
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Ipc::File(reader) => reader.schema(),
            Ipc::Stream(reader) => reader.schema(),
        }
    }
}

/// The file's schema.
pub(crate) fn schema(file: &InputFile, kind: DetectedFormat) -> Result<SchemaRef> {
    if kind == DetectedFormat::Parquet {
        return Ok(SchemaRef::clone(parquet_metadata(file, &shared(file)?)?.schema()));
    }
    Ok(Ipc::open(file)?.schema())
}

/// The file's batches.
pub(crate) fn batches(file: &InputFile, kind: DetectedFormat) -> Result<FileBatches> {
    let wrong = wrong(file);
    if kind == DetectedFormat::Parquet {
        let opened = shared(file)?;
        let metadata = parquet_metadata(file, &opened)?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(opened, metadata);
        let total = share_of(builder.metadata().file_metadata().num_rows());
        let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(|e| wrong(&e))?;
        let mut rows = 0;
        return Ok(Box::new(reader.map(move |batch| {
            let batch = batch.map_err(|e: ArrowError| wrong(&e))?;
            rows += i64::try_from(batch.num_rows()).unwrap_or(0);
            Ok((batch, share_of(rows) / f64::max(total, 1.0)))
        })));
    }
    Ok(match Ipc::open(file)? {
        Ipc::File(reader) => {
            let total = share_of(i64::try_from(reader.num_batches()).unwrap_or(1));
            let mut seen = 0.0;
            Box::new(reader.map(move |batch| {
                seen += 1.0;
                Ok((batch.map_err(|e| wrong(&e))?, seen / f64::max(total, 1.0)))
            }))
        }
        Ipc::Stream(mut reader) => {
            let total = share_of(i64::try_from(file.bytes).unwrap_or(1));
            Box::new(std::iter::from_fn(move || {
                let batch = reader.next()?;
                let share = share_of(i64::try_from(reader.bytes_read()).unwrap_or(0)) / f64::max(total, 1.0);
                Some(batch.map(|batch| (batch, share)).map_err(|e| wrong(&e)))
            }))
        }
    })
}

/// Batches of row groups of a Parquet file, with the columns at these places.
pub(crate) fn row_groups(
    file: &InputFile,
    opened: SharedFile,
    metadata: ArrowReaderMetadata,
    groups: Vec<usize>,
    places: Vec<usize>,
    batch_rows: usize,
) -> Result<FileBatches> {
    let wrong = wrong(file);
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(opened, metadata);
    let mask = ProjectionMask::roots(builder.parquet_schema(), places);
    let builder = builder.with_projection(mask).with_row_groups(groups).with_batch_size(batch_rows);
    let reader = builder.build().map_err(|e| wrong(&e))?;
    Ok(Box::new(reader.map(move |batch| Ok((batch.map_err(|e| wrong(&e))?, 0.0)))))
}

/// Hands out a sample of the columns at these places, each with its number among them: of a Parquet file from its first row groups, from ones in the
/// middle and from the last ones.
pub(crate) fn sample(
    file: &InputFile,
    kind: DetectedFormat,
    places: &[usize],
    add: &mut dyn FnMut(usize, &ArrayRef),
) -> Result<()> {
    let mut take = |batches: FileBatches, columns: &[usize], mut rows: usize| {
        for batch in batches {
            let (batch, _) = batch?;
            let head = batch.slice(0, rows.min(batch.num_rows()));
            columns.iter().enumerate().for_each(|(number, place)| add(number, head.column(*place)));
            rows -= head.num_rows();
            if rows == 0 {
                break;
            }
        }
        Ok::<(), Error>(())
    };
    if kind != DetectedFormat::Parquet {
        return take(batches(file, kind)?, places, SAMPLE_ROWS);
    }
    let opened = shared(file)?;
    let metadata = parquet_metadata(file, &opened)?;
    // What is read has these columns alone.
    let columns: Vec<usize> = (0..places.len()).collect();
    let sizes = metadata.metadata().row_groups().iter().map(|group| usize::try_from(group.num_rows()).unwrap_or(0));
    let picked = sampled_groups(&sizes.collect::<Vec<_>>());
    let rows = SAMPLE_ROWS.div_ceil(picked.len().max(1));
    for groups in picked {
        take(row_groups(file, opened.clone(), metadata.clone(), groups, places.to_vec(), BATCH_ROWS)?, &columns, rows)?;
    }
    Ok(())
}

/// The row groups that a sample is taken from, an equal share of it from each list, given their rows: neighbours at the begin, in the middle and at
/// the end of a file, as many as have a third of the sample, or all of them if the file has no more rows than that.
fn sampled_groups(rows: &[usize]) -> Vec<Vec<usize>> {
    if rows.iter().sum::<usize>() <= SAMPLE_ROWS {
        return vec![(0..rows.len()).collect()];
    }
    let share = SAMPLE_ROWS.div_ceil(3);
    let mut is_picked = vec![false; rows.len()];
    let mut pick = |groups: &mut dyn Iterator<Item = usize>| {
        let (mut picked, mut row_count) = (Vec::new(), 0);
        for group in groups {
            if row_count >= share || std::mem::replace(&mut is_picked[group], true) {
                break;
            }
            row_count += rows[group];
            picked.push(group);
        }
        picked.sort_unstable();
        picked
    };
    let mut lists =
        vec![pick(&mut (0..rows.len())), pick(&mut (0..rows.len()).rev()), pick(&mut (rows.len() / 2..rows.len()))];
    lists.retain(|groups| !groups.is_empty());
    lists
}

/// A count for the progress bar.
#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn share_of(count: i64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_takes_as_many_row_groups_as_it_has_rows_for() {
        assert!(sampled_groups(&[]).concat().is_empty());
        assert_eq!(sampled_groups(&[20; 500]), [(0..500).collect::<Vec<_>>()], "all of a file of 10,000 rows");
        let small = sampled_groups(&[20; 5_000]);
        assert_eq!(small, [0..167, 4_833..5_000, 2_500..2_667].map(Iterator::collect::<Vec<_>>));
        assert_eq!(sampled_groups(&[1_000_000; 5]), [[0], [4], [2]]);
        assert_eq!(sampled_groups(&[1_000_000]), [[0]]);
        assert_eq!(sampled_groups(&[9_000, 3_000]), [[0], [1]], "none twice");
    }
}
