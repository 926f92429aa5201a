//! Files as tables of a statement: `select … from 'day.parquet'`.
//!
//! - A quoted name that isn't a table's is a path, or a pattern of paths (`'2024-01-*.csv.gz'`), if the session allows
//!   it.
//! - Parquet files are read in as many streams as the session has. Row groups whose statistics exclude every row are
//!   skipped, and only the columns that the statement needs are decoded. With a limit there is one stream, so that the
//!   first rows are those of the first file.
//! - Where the order of rows matters, a scan also has their numbers ([`FileTable::numbered`]): they rise from row to row, from row group to row group, and
//!   from file to file in the order of names, however the streams read them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::file_scan::FileScanExec;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, StructArray, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, ExprSchemable, TableProviderFilterPushDown, utils::conjunction};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use splay_functions::walk::Walk;
use splay_store::{FileError, FileSlice, FileTarget, FilesInPlace, GroupStatistics, OpenFiles, TableSpec, one_nan};

/// Most batches that wait between the thread that reads a file and the operators.
const BATCHES_WAITING: usize = 2;

/// Most rows of a batch.
const BATCH_ROWS: usize = 1 << 15;

/// Files that a statement reads.
#[derive(Debug)]
pub(crate) struct FileTable {
    files: Arc<dyn FilesInPlace>,
    /// With folded names, and last the number of the row, if it has one.
    schema: SchemaRef,
    is_numbered: bool,
}

/// Bits of a row's number that are its place in its row group, or in its file.
const PLACE_BITS: u32 = 40;

/// Whether a name that no table has is the path of a file.
pub(crate) fn is_path(name: &str) -> bool {
    name.contains(['.', '/', '*', '?'])
}

/// Opens files whose values go into a table.
#[derive(Debug)]
pub(crate) struct TypedFiles {
    pub(crate) opener: Arc<dyn OpenFiles>,
    pub(crate) table: TableSpec,
    pub(crate) is_listed: bool,
}

impl OpenFiles for TypedFiles {
    fn open(
        &self,
        pattern: &str,
        threads: usize,
        _: Option<FileTarget<'_>>,
    ) -> std::result::Result<Arc<dyn FilesInPlace>, FileError> {
        let target = FileTarget { table: &self.table, is_listed: self.is_listed };
        self.opener.open(pattern, threads, Some(target))
    }
}

impl FileTable {
    /// Opens the files of a path or pattern. `threads` parse text.
    pub(crate) fn open(opener: &dyn OpenFiles, path: &str, threads: usize) -> Result<FileTable> {
        let files = opener.open(path, threads, None).map_err(|error| DataFusionError::Plan(error.to_string()))?;
        let fold = |field: &Arc<Field>| {
            let data_type = as_in_tables(field.data_type());
            field.as_ref().clone().with_name(field.name().to_lowercase()).with_data_type(data_type)
        };
        let schema = Arc::new(Schema::new(files.schema().fields().iter().map(fold).collect::<Vec<_>>()));
        check_names(path, files.schema())?;
        Ok(FileTable { files, schema, is_numbered: false })
    }

    /// The same files with a column of the numbers of their rows; `None` if it has one, or another column has its name.
    pub(crate) fn numbered(&self, name: &str) -> Option<FileTable> {
        if self.is_numbered || self.schema.index_of(name).is_ok() {
            return None;
        }
        let number = Arc::new(Field::new(name, DataType::Int64, false));
        let fields = self.schema.fields().iter().cloned().chain([number]);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Some(FileTable { files: Arc::clone(&self.files), schema, is_numbered: true })
    }

    /// Whether it has the numbers of rows.
    pub(crate) fn is_numbered(&self) -> bool {
        self.is_numbered
    }

    pub(crate) fn files(&self) -> &Arc<dyn FilesInPlace> {
        &self.files
    }

    /// The columns' names as the files have them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.schema().fields().iter().map(|field| field.name().as_str())
    }

    /// Tells for each row group whether it may hold a row that passes the filters.
    fn row_groups(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<bool>> {
        let all = vec![true; self.files.groups()];
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let filters = filters.iter().filter(|filter| compares_in_order(filter, &schema));
        let Some(filter) = conjunction(filters.cloned()) else { return Ok(all) };
        let filter = state.create_physical_expr(filter, &schema)?;
        // Without statistics a row group isn't excluded.
        let row_groups = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.schema)).try_build(filter);
        let row_groups = row_groups.and_then(|predicate| predicate.prune(self));
        Ok(row_groups.unwrap_or(all))
    }
}

/// Refuses names that differ only in case, which would be ambiguous.
fn check_names(path: &str, schema: &Schema) -> Result<()> {
    let mut names: HashMap<String, &str> = HashMap::new();
    for field in schema.fields() {
        if let Some(other) = names.insert(field.name().to_lowercase(), field.name()) {
            let name = field.name();
            return plan_err!(
                "{path}: its columns {other:?} and {name:?} have the same name but for case, which doesn't tell columns apart here"
            );
        }
    }
    Ok(())
}

/// A structure whose fields are null where it is null itself. Files of Arrow may have values there.
fn with_null_fields(column: ArrayRef) -> ArrayRef {
    let Some(structure) = column.as_struct_opt() else { return column };
    let columns = structure.fields().iter().zip(structure.columns()).map(|(field, column)| {
        let nulls = NullBuffer::union(column.logical_nulls().as_ref(), structure.nulls());
        let has_more = nulls.as_ref().map_or(0, NullBuffer::null_count) > column.logical_null_count();
        let column = match has_more && field.is_nullable() {
            true => make_array(column.to_data().into_builder().nulls(nulls).build()?),
            false => Arc::clone(column),
        };
        Ok::<ArrayRef, ArrowError>(with_null_fields(column))
    });
    let (fields, nulls) = (structure.fields().clone(), structure.nulls().cloned());
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>();
    match columns.and_then(|columns| StructArray::try_new(fields, columns, nulls)) {
        Ok(structure) => Arc::new(structure),
        Err(_) => column,
    }
}

/// The type of a column as a table has it: times of day to the nanosecond, instants in UTC, whatever zone the file shows them in, and one type of text
/// and of codes of texts.
fn as_in_tables(data_type: &DataType) -> DataType {
    match data_type {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Dictionary(_, of) if as_in_tables(of) == DataType::Utf8 => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        }
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some("UTC".into())),
        other => other.clone(),
    }
}

/// Whether the least and the greatest value of a column are so by each cast of a filter as well. DataFusion 55.2 casts both, whatever the types:
/// of a time to its time of day, too.
fn compares_in_order(filter: &Expr, schema: &DFSchema) -> bool {
    let is_disordered = |expr: &Expr| {
        let (inner, to) = match expr {
            Expr::Cast(cast) => (&cast.expr, cast.field.data_type()),
            Expr::TryCast(cast) => (&cast.expr, cast.field.data_type()),
            _ => return false,
        };
        !inner.get_type(schema).is_ok_and(|from| keeps_order(&from, to))
    };
    !filter.exists(|expr| Ok(is_disordered(expr))).unwrap_or(true)
}

fn keeps_order(from: &DataType, to: &DataType) -> bool {
    let is_utc = |zone: &Option<Arc<str>>| zone.as_deref().is_none_or(|zone| matches!(zone, "UTC" | "+00:00"));
    match (from, to) {
        (DataType::Dictionary(_, from), to) => keeps_order(from, to),
        (from, DataType::Dictionary(_, to)) => keeps_order(from, to),
        // Two zones show the same instants, and clocks without a zone may be set back.
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, Some(_))) => true,
        (DataType::Timestamp(_, from), DataType::Timestamp(_, to)) => is_utc(from) && is_utc(to),
        (DataType::Timestamp(_, zone), DataType::Date32 | DataType::Date64) => is_utc(zone),
        (DataType::Date32 | DataType::Date64, DataType::Timestamp(_, zone)) => is_utc(zone),
        (from, to) => from == to || from.is_numeric() && to.is_numeric() || from.is_string() && to.is_string(),
    }
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut columns: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        // No file has the column of the numbers.
        let place = columns.iter().position(|column| *column == self.files.schema().fields().len());
        let numbers = place.map(|place| {
            columns.remove(place);
            RowNumbers { place, parts: Arc::new(self.order_of_parts()) }
        });
        let row_groups = self.row_groups(state, filters)?;
        let streams = if limit.is_some() { 1 } else { state.config().target_partitions() };
        let partition = |mut parts: Vec<FileSlice>| {
            let (files, columns, schema) = (Arc::clone(&self.files), columns.clone(), Arc::clone(&schema));
            if numbers.is_some() {
                parts = parts.into_iter().flat_map(FileSlice::one_by_one).collect();
            }
            let numbers = numbers.clone();
            Arc::new(FileStream { files, parts, columns, schema, numbers }) as Arc<dyn PartitionStream>
        };
        let parts = self.files.parts(streams, &|group| row_groups[group]);
        let partitions = parts.into_iter().map(partition).collect();
        let limit = limit.filter(|_| filters.is_empty());
        let streams = StreamingTableExec::try_new(schema, partitions, None, [], false, limit)?;
        Ok(Arc::new(FileScanExec::new(streams, self.files.rows_estimate())))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| pushdown_of(filter)).collect())
    }
}

fn pushdown_of(filter: &Expr) -> TableProviderFilterPushDown {
    if filter.is_volatile() { TableProviderFilterPushDown::Unsupported } else { TableProviderFilterPushDown::Inexact }
}

impl FileTable {
    /// The row groups of all files, or files without such, with their places in the order of rows.
    fn order_of_parts(&self) -> HashMap<FileSlice, i64> {
        let all = self.files.parts(1, &|_| true).into_iter().flatten().flat_map(FileSlice::one_by_one);
        all.zip(0..).collect()
    }

    /// The statistics of a column in the files. Those of floats aren't used: NaN counts as greater than every number, and no file has it as its
    /// greatest value.
    fn statistics(&self, column: &Column) -> Option<GroupStatistics> {
        let field = self.files.schema().fields().get(self.schema.index_of(&column.name).ok()?)?;
        if field.data_type().is_floating() { None } else { self.files.statistics(field.name()) }
    }
}

impl PruningStatistics for FileTable {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(self.statistics(column)?.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(self.statistics(column)?.max)
    }

    fn num_containers(&self) -> usize {
        self.files.groups()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::new(self.statistics(column)?.nulls))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// Parts of files, read one after the other by a dedicated thread.
#[derive(Debug)]
struct FileStream {
    files: Arc<dyn FilesInPlace>,
    parts: Vec<FileSlice>,
    columns: Vec<usize>,
    schema: SchemaRef,
    numbers: Option<RowNumbers>,
}

/// The column of the numbers of rows.
#[derive(Debug, Clone)]
struct RowNumbers {
    /// Its place among the columns of a batch.
    place: usize,
    /// The place of each row group in the order of rows.
    parts: Arc<HashMap<FileSlice, i64>>,
}

impl RowNumbers {
    /// The batch with the numbers of its rows, of which `before` rows of the row group have been read.
    fn add_to(&self, batch: &RecordBatch, part: &FileSlice, before: usize) -> Result<RecordBatch> {
        let part = self.parts.get(part).copied().unwrap_or_default() << PLACE_BITS;
        let places = (before..before + batch.num_rows()).map(|row| part | i64::try_from(row).unwrap_or(i64::MAX));
        let mut fields = batch.schema().fields().to_vec();
        let mut columns = batch.columns().to_vec();
        fields.insert(self.place, Arc::new(Field::new("number", DataType::Int64, false)));
        columns.insert(self.place, Arc::new(Int64Array::from_iter_values(places)));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
    }
}

impl PartitionStream for FileStream {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), BATCHES_WAITING);
        let sender = builder.tx();
        let (files, parts) = (Arc::clone(&self.files), self.parts.clone());
        let (columns, schema, numbers) = (self.columns.clone(), Arc::clone(&self.schema), self.numbers.clone());
        builder.spawn_blocking(move || {
            for part in &parts {
                let (mut is_left, mut rows) = (false, 0);
                files
                    .read(part, &columns, BATCH_ROWS, &mut |batch| {
                        let numbered = match &numbers {
                            Some(numbers) => numbers.add_to(&batch, part, rows),
                            None => Ok(batch),
                        };
                        rows += numbered.as_ref().map_or(0, RecordBatch::num_rows);
                        let sent = sender.blocking_send(numbered.and_then(|batch| as_rows_of_table(&batch, &schema)));
                        is_left = sent.is_err();
                        !is_left
                    })
                    .map_err(DataFusionError::External)?;
                if is_left {
                    break;
                }
            }
            Ok(())
        });
        builder.build()
    }
}

/// The batch under folded names, in the types of tables, and with their one NaN.
fn as_rows_of_table(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let column = cast(column, field.data_type())?;
        Ok::<ArrayRef, ArrowError>(with_null_fields(one_nan(&column).unwrap_or(column)))
    });
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<Result<_, _>>()?, &options)?)
}
