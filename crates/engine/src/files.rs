//! Rows of files that aren't in a table: one frame for each row group, or for each file without row groups.
//!
//! - Threads decode the columns of a row group independently, and only the columns that the plan reads. Columns that
//!   the caller has cached from an earlier statement aren't decoded again.
//! - Row groups are skipped if the file's statistics of a column exclude every row.
//! - All columns are in memory at once. A plan that would need more than half of its memory limit is refused; if the
//!   file says how many rows it has, before anything is decoded.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;
use splay_store::{FileSlice, FilesInPlace, one_nan};

use crate::binary_op::BinaryOp;
use crate::error::{Error, Result};
use crate::execution_context::ExecutionContext;
use crate::expr::Expr;
use crate::frame::Frame;
use crate::parallel::each;
use crate::reads::value_bytes;
use crate::scan::FileScan;

/// Bytes of a text that a file doesn't tell the length of.
const TEXT_BYTES: u64 = 16;

/// The rows of files, without those of row groups that a condition rules out; the first `row_limit` of them.
pub(crate) fn file_frames(
    scan: &FileScan,
    predicate: Option<&Expr>,
    row_limit: usize,
    context: &ExecutionContext<'_>,
) -> Result<Vec<Frame>> {
    let Some(files) = context.files.get(scan.files) else {
        return Err(Error::Unsupported("files that the plan doesn't have".to_owned()));
    };
    let decoder = FileDecoder { files: files.as_ref(), scan, context, bytes: AtomicUsize::new(0) };
    decoder.check_estimate(row_limit)?;
    let selected = decoder.row_groups(predicate)?;
    let parts = files.parts(files.groups(), &|group| selected[group]);
    let parts: Vec<FileSlice> = parts.into_iter().flatten().flat_map(FileSlice::one_by_one).collect();
    if row_limit == usize::MAX {
        return decoder.frames(&parts, usize::MAX);
    }
    let (mut frames, mut rows) = (Vec::new(), 0);
    for part in &parts {
        if rows >= row_limit {
            break;
        }
        frames.extend(decoder.frames(std::slice::from_ref(part), row_limit - rows)?);
        rows = frames.iter().map(Frame::len).sum();
    }
    if frames.is_empty() { decoder.frames(&[], 0) } else { Ok(frames) }
}

/// Columns of a part, each in its batches.
#[derive(Default)]
struct PartColumns {
    columns: Vec<Vec<ArrayRef>>,
    /// The number of rows, if there is no column.
    rows: usize,
}

struct FileDecoder<'a> {
    files: &'a dyn FilesInPlace,
    scan: &'a FileScan,
    context: &'a ExecutionContext<'a>,
    /// Bytes of the columns that are decoded.
    bytes: AtomicUsize,
}

impl FileDecoder<'_> {
    /// The columns to decode: their positions in the plan, and in the files.
    fn columns(&self) -> Vec<(usize, usize)> {
        let position = |(position, column): (usize, &Option<usize>)| column.map(|column| (position, column));
        self.scan.columns.iter().enumerate().filter_map(position).collect()
    }

    fn check_estimate(&self, row_limit: usize) -> Result<()> {
        let width = |data_type: &DataType| match data_type {
            DataType::Utf8 => TEXT_BYTES + value_bytes(data_type),
            other => value_bytes(other),
        };
        let row_bytes: u64 = self.columns().iter().map(|(position, _)| width(&self.scan.types[*position])).sum();
        let needed = self.files.rows_estimate().min(row_limit as u64).saturating_mul(row_bytes);
        self.check_memory(usize::try_from(needed).unwrap_or(usize::MAX))
    }

    fn check_memory(&self, needed: usize) -> Result<()> {
        let limit = self.context.memory_bytes / 2;
        if needed > limit { Err(Error::Memory { needed, limit }) } else { Ok(()) }
    }

    /// The rows of parts, of each the first `row_limit` ones.
    fn frames(&self, parts: &[FileSlice], row_limit: usize) -> Result<Vec<Frame>> {
        let columns = self.columns();
        // A row group's columns are decoded apart from each other; a file without row groups is parsed once for all.
        let places = |part: &FileSlice| match part.groups {
            Some(_) if columns.len() > 1 => (0..columns.len()).map(|column| column..column + 1).collect(),
            _ => vec![0..columns.len()],
        };
        let tasks: Vec<(usize, Range<usize>)> = parts
            .iter()
            .enumerate()
            .flat_map(|(number, part)| places(part).into_iter().map(move |places| (number, places)))
            .collect();
        let decoded = each(tasks.len(), self.context.threads, |task| {
            let (part, places) = &tasks[task];
            self.decode(&parts[*part], &columns[places.clone()], row_limit)
        })?;
        let mut of_parts: Vec<PartColumns> = parts.iter().map(|_| PartColumns::default()).collect();
        for ((part, _), decoded) in tasks.iter().zip(decoded) {
            of_parts[*part].columns.extend(decoded.columns);
            of_parts[*part].rows = decoded.rows;
        }
        let mut frames = Vec::with_capacity(parts.len().max(1));
        for part in of_parts {
            self.add_frames(&columns, part, &mut frames)?;
        }
        if frames.is_empty() {
            let arrays = columns.iter().map(|(position, _)| new_null_array(&self.scan.types[*position], 0)).collect();
            frames.push(self.frame(&columns, arrays, 0));
        }
        Ok(frames)
    }

    /// Adds the rows of a part: a frame for each batch if all columns have the same batches, else one of all.
    fn add_frames(&self, columns: &[(usize, usize)], part: PartColumns, frames: &mut Vec<Frame>) -> Result<()> {
        let lengths = |batches: &[ArrayRef]| batches.iter().map(|batch| batch.len()).collect::<Vec<usize>>();
        let PartColumns { columns: mut batches, rows } = part;
        let first = batches.first().map(|first| lengths(first));
        if !batches.iter().all(|of_column| Some(lengths(of_column)) == first) {
            for (of_column, (position, _)) in batches.iter_mut().zip(columns) {
                *of_column = vec![joined(of_column, &self.scan.types[*position])?];
            }
        }
        let lengths = batches.first().map_or_else(|| vec![rows], |first| lengths(first));
        for (number, rows) in lengths.into_iter().enumerate() {
            let arrays: Vec<ArrayRef> = batches.iter().filter_map(|of_column| of_column.get(number).cloned()).collect();
            if arrays.iter().any(|array| array.len() != rows) {
                return Err(Error::Unsupported("columns of a file that have different lengths".to_owned()));
            }
            frames.push(self.frame(columns, arrays, rows));
        }
        Ok(())
    }

    /// The rows with all columns; those that aren't decoded are null.
    fn frame(&self, columns: &[(usize, usize)], arrays: Vec<ArrayRef>, rows: usize) -> Frame {
        let mut all: Vec<ArrayRef> = self.scan.types.iter().map(|_| new_null_array(&DataType::Null, rows)).collect();
        for ((position, _), array) in columns.iter().zip(arrays) {
            all[*position] = array;
        }
        Frame::new(all, rows)
    }

    /// Columns of a part's first rows.
    fn decode(&self, part: &FileSlice, columns: &[(usize, usize)], row_limit: usize) -> Result<PartColumns> {
        let mut batches: Vec<Option<Vec<ArrayRef>>> =
            columns.iter().map(|(_, column)| self.files.cached_column(part, *column)).collect();
        let missing: Vec<(usize, usize)> =
            columns.iter().zip(&batches).filter(|(_, cached)| cached.is_none()).map(|(column, _)| *column).collect();
        let mut rows = 0;
        // Any column tells how many rows a file has that would be parsed for that.
        let cached_rows = || {
            let is_parsed = columns.is_empty() && part.groups.is_none();
            let mut all = (0..self.files.schema().fields().len()).take_while(|_| is_parsed);
            all.find_map(|column| self.files.cached_column(part, column))
                .map(|batches| batches.iter().map(|batch| batch.len()).sum())
        };
        if let Some(cached) = cached_rows() {
            rows = cached;
        } else if !missing.is_empty() || columns.is_empty() {
            let read = self.read(part, &missing, row_limit)?;
            rows = read.rows;
            let mut read = missing.iter().zip(read.columns);
            for of_column in batches.iter_mut().filter(|cached| cached.is_none()) {
                let Some(((_, column), read)) = read.next() else { break };
                if row_limit == usize::MAX {
                    self.files.cache_column(part, *column, &read);
                }
                *of_column = Some(read);
            }
        }
        let columns: Vec<_> = batches.into_iter().flatten().map(|batches| first_rows(batches, row_limit)).collect();
        for array in columns.iter().flatten() {
            self.add_bytes(array)?;
        }
        Ok(PartColumns { columns, rows: rows.min(row_limit) })
    }

    /// Counts the bytes of an array.
    fn add_bytes(&self, array: &ArrayRef) -> Result<()> {
        // Of a part of a buffer, only that.
        let bytes = array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
        self.check_memory(self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes))
    }

    /// Reads columns of a part, until there are so many rows.
    fn read(&self, part: &FileSlice, columns: &[(usize, usize)], row_limit: usize) -> Result<PartColumns> {
        let places: Vec<usize> = columns.iter().map(|(_, column)| *column).collect();
        let types: Vec<&DataType> = columns.iter().map(|(position, _)| &self.scan.types[*position]).collect();
        let mut read = PartColumns { columns: types.iter().map(|_| Vec::new()).collect(), rows: 0 };
        let (mut bytes, mut failure) = (0usize, None);
        let mut add = |batch: &RecordBatch| {
            self.context.stop.check()?;
            read.rows += batch.num_rows();
            for ((array, data_type), of_column) in batch.columns().iter().zip(&types).zip(&mut read.columns) {
                let array = cast(array, data_type)?;
                let array = one_nan(&array).unwrap_or(array);
                bytes += array.to_data().get_slice_memory_size().unwrap_or(0);
                of_column.push(array);
            }
            self.check_memory(bytes.saturating_add(self.bytes.load(Ordering::Relaxed)))?;
            Ok(read.rows < row_limit)
        };
        let ended = self.files.read(part, &places, row_limit, &mut |batch| match add(&batch) {
            Ok(wants_more) => wants_more,
            Err(error) => {
                failure = Some(error);
                false
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        // What is wrong with the file is told by the plan that reads it in its place.
        ended.map_err(|error| Error::Unsupported(error.to_string()))?;
        Ok(read)
    }

    /// Which row groups may have a row for which a condition holds.
    fn row_groups(&self, predicate: Option<&Expr>) -> Result<Vec<bool>> {
        let mut selected = vec![true; self.files.groups()];
        let mut conditions: Vec<&Expr> = predicate.into_iter().collect();
        while let Some(condition) = conditions.pop() {
            match condition {
                Expr::Binary(BinaryOp::And, left, right) => conditions.extend([left.as_ref(), right.as_ref()]),
                Expr::Binary(op, left, right) if op.is_comparison() => {
                    self.rule_out(*op, left, right, &mut selected)?
                }
                _ => {}
            }
        }
        Ok(selected)
    }

    /// Rules out the row groups of which no value of a column compares so with a value that is the same for all rows.
    fn rule_out(&self, op: BinaryOp, left: &Expr, right: &Expr, selected: &mut [bool]) -> Result<()> {
        let (op, position, bound) = match (left, right) {
            (Expr::Column(position), bound) => (op, *position, bound),
            (bound, Expr::Column(position)) => (op.swapped(), *position, bound),
            _ => return Ok(()),
        };
        let mut is_fixed = true;
        bound.visit_columns(&mut |_| is_fixed = false);
        let data_type = &self.scan.types[position];
        // No file has NaN as its greatest value, and here it is greater than all numbers.
        if !is_fixed || data_type.is_floating() {
            return Ok(());
        }
        let name = |column: usize| self.files.schema().field(column).name().as_str();
        let Some(statistics) = self.scan.columns[position].and_then(|column| self.files.statistics(name(column)))
        else {
            return Ok(());
        };
        let at_least = (&statistics.min, BinaryOp::LessOrEqual);
        let at_most = (&statistics.max, BinaryOp::GreaterOrEqual);
        let ends = match op {
            BinaryOp::Less | BinaryOp::LessOrEqual => vec![(&statistics.min, op)],
            BinaryOp::Greater | BinaryOp::GreaterOrEqual => vec![(&statistics.max, op)],
            BinaryOp::Equal => vec![at_least, at_most],
            _ => return Ok(()),
        };
        for (values, op) in ends {
            let Ok(values) = cast(values, data_type) else { return Ok(()) };
            let groups = Frame::new(vec![values], selected.len());
            let comparison = Expr::Binary(op, Box::new(Expr::Column(0)), Box::new(bound.clone()));
            let holds = comparison.evaluate(&groups, self.context.constants)?.into_array(selected.len())?;
            let Some(holds) = holds.as_boolean_opt() else { return Ok(()) };
            for (group, is_selected) in selected.iter_mut().enumerate() {
                *is_selected &= holds.is_null(group) || holds.value(group);
            }
        }
        Ok(())
    }
}

/// The first rows of batches.
fn first_rows(mut batches: Vec<ArrayRef>, row_limit: usize) -> Vec<ArrayRef> {
    let mut rows = 0;
    for batch in &mut batches {
        let most = row_limit - rows;
        if batch.len() > most {
            *batch = batch.slice(0, most);
        }
        rows += batch.len();
    }
    batches
}

/// Batches of a column as one array.
fn joined(batches: &[ArrayRef], data_type: &DataType) -> Result<ArrayRef> {
    match batches {
        [] => Ok(new_null_array(data_type, 0)),
        [only] => Ok(Arc::clone(only)),
        batches => {
            let bytes: usize = batches.iter().map(|batch| batch.to_data().get_slice_memory_size().unwrap_or(0)).sum();
            if !data_type.is_primitive() && i32::try_from(bytes).is_err() {
                return Err(Error::Unsupported("texts of more than 2 GiB in a row group".to_owned()));
            }
            Ok(concat(&batches.iter().map(AsRef::as_ref).collect::<Vec<_>>())?)
        }
    }
}
