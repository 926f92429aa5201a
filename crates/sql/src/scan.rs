//! The scan of a table: reads the selected pieces, evaluates filters, and only then reads the other columns.
//!
//! - Invariant: each stream reads adjacent rows of the table, so each preserves the table's order. The declared order
//!   is (symbol, time) within one date; (date, symbol, time) over several; time alone if only one symbol is read and
//!   the dates follow each other in time; each of them, and none, followed by the row number.
//! - For a join it may be split by symbols instead: each stream then reads its symbols one by one, over all dates.
//! - Dynamic filters of joins narrow the pieces while the statement runs (`dynamic_filters.rs`).
//! - Columns of Arrow segments are slices of the mapped file; a batch whose rows all pass the filters isn't copied.

use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Formatter};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder, Date32Array, Int64Array, RecordBatch, RecordBatchOptions,
};
use arrow::compute::{SortOptions, and, filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, ChildrenPropertiesMode, EmissionType};
use datafusion::physical_plan::filter_pushdown::{ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
};
use futures::Stream;
use splay_engine::value_bytes;
use splay_store::{Bounds, DATE_COLUMN, Segment, SegmentRows, Selection, SelectionStats, TableSnapshot};

use crate::dynamic_filters::{DynamicFilters, is_dynamic};
use crate::error::external;
use crate::guarded_and::{guarded_condition, is_of_values};

/// Rows below which another stream costs more than it saves.
const STREAM_ROWS_MIN: u64 = 1 << 16;

/// Rows that are read at a time if each read costs more than its rows.
const DECODED_ROWS: u64 = 1 << 17;

/// The settings of a scan.
pub(crate) struct TickScanSettings {
    pub(crate) snapshot: TableSnapshot,
    /// All columns of the provider.
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Vec<ColumnSource>,
    /// Output columns, by position in `schema`.
    pub(crate) projection: Vec<usize>,
    /// The conditions that rows must pass, over `schema`.
    pub(crate) filters: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) one_symbol: bool,
    pub(crate) pieces: Vec<SegmentRows>,
    pub(crate) stats: SelectionStats,
    pub(crate) limit: Option<usize>,
    pub(crate) streams: usize,
    pub(crate) batch_rows: usize,
    /// Whether the filters are conditions of policies. Plans and statistics then show neither the filters nor row counts.
    pub(crate) is_private: bool,
}

/// Scan of a table.
#[derive(Debug)]
pub(crate) struct TickScanExec {
    snapshot: TableSnapshot,
    plan: Arc<ReadPlan>,
    streams: Vec<Vec<SegmentRows>>,
    stats: SelectionStats,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

// Splitting a scan by symbols, for joins.
impl TickScanExec {
    /// The number of rows that may match.
    pub(crate) fn rows(&self) -> u64 {
        self.stats.rows.selected
    }

    /// The number of rows that were read so far.
    pub(crate) fn rows_scanned(&self) -> u64 {
        let scanned = self.metrics.clone_inner().sum_by_name("rows_scanned");
        scanned.map_or(0, |value| value.as_usize() as u64)
    }

    /// Whether a column is the symbol, and streams may hold ranges of symbols, each symbol's rows in time order.
    pub(crate) fn can_split_by_symbol(&self, column: usize) -> bool {
        let spec = self.snapshot.spec();
        let symbol = spec.symbol.as_ref().and_then(|symbol| spec.position(symbol));
        let source = self.plan.projection.get(column).map(|position| self.plan.columns[*position]);
        let is_symbol = symbol.is_some_and(|symbol| source == Some(ColumnSource::Stored(symbol)));
        is_symbol && self.plan.limit.is_none() && !self.is_private() && dates_follow(&self.streams)
    }

    /// Symbols at which streams of about equally many rows begin, except for the first stream; ascending.
    pub(crate) fn symbol_bounds(&self, streams_max: usize) -> Result<Vec<String>> {
        let streams = self.rows().div_ceil(STREAM_ROWS_MIN).clamp(1, streams_max.max(1) as u64);
        if streams == 1 {
            return Ok(Vec::new());
        }
        let mut rows: std::collections::BTreeMap<Option<String>, u64> = std::collections::BTreeMap::new();
        for piece in self.streams.iter().flatten() {
            for (symbol, run) in runs(piece)? {
                *rows.entry(symbol.map(str::to_owned)).or_default() += run.end - run.start;
            }
        }
        let share = self.rows().div_ceil(streams);
        let (mut bounds, mut filled) = (Vec::new(), 0);
        for (symbol, rows) in rows {
            if filled >= share
                && let Some(symbol) = symbol
            {
                bounds.push(symbol);
                filled = 0;
            }
            filled += rows;
        }
        Ok(bounds)
    }

    /// Splits the scan's rows into streams by symbol: the first one holds rows before the first bound and rows without a symbol. Each stream is
    /// ordered by symbol, time and row number, over all dates.
    pub(crate) fn split_by_symbol(&self, bounds: &[String]) -> Result<TickScanExec> {
        let mut streams: Vec<Vec<(Option<&str>, SegmentRows)>> = vec![Vec::new(); bounds.len() + 1];
        for piece in self.streams.iter().flatten() {
            for (symbol, rows) in runs(piece)? {
                let stream = symbol.map_or(0, |symbol| bounds.partition_point(|bound| bound.as_str() <= symbol));
                let pieces = &mut streams[stream];
                // Neighbours within a segment stay one piece, unless several dates have to be ordered by symbol.
                pieces.push((symbol, SegmentRows { rows, ..piece.clone() }));
            }
        }
        let mut dates: Vec<i32> = self.streams.iter().flatten().map(|piece| piece.date).collect();
        dates.dedup();
        let mut symbols: Vec<Option<&str>> = streams.iter().flatten().map(|(symbol, _)| *symbol).collect();
        symbols.dedup();
        let is_one_symbol = symbols.len() <= 1;
        let streams: Vec<Vec<SegmentRows>> = streams
            .into_iter()
            .map(|mut pieces| {
                // Stable: the dates of a symbol follow each other.
                if dates.len() > 1 {
                    pieces.sort_by(|one, other| one.0.cmp(&other.0));
                }
                merge_adjacent(pieces.into_iter().map(|(_, piece)| piece))
            })
            .collect();
        let spec = self.snapshot.spec();
        let no_nulls = streams.iter().flatten().all(|piece| piece.segment.entry().symbols.is_some());
        let mut orders = Vec::new();
        for nulls_first in [true, false] {
            if nulls_first || no_nulls {
                let mut order: Vec<PhysicalSortExpr> = Vec::new();
                let symbol = spec.symbol.as_deref().and_then(|symbol| sort_key(&self.plan.schema, symbol, nulls_first));
                order.extend(symbol);
                if order.is_empty() {
                    continue;
                }
                if let Some(time) = sort_key(&self.plan.schema, &spec.time, false) {
                    order.push(time);
                    orders.push(order);
                }
            }
        }
        orders.extend(sort_key(&self.plan.schema, &spec.time, false).filter(|_| is_one_symbol).map(|time| vec![time]));
        let mut orders = with_row_number(orders, &self.plan.columns, &self.plan.projection, &self.plan.schema);
        // Over several dates the row number, which is the last key, isn't ascending from symbol to symbol.
        if dates.len() > 1 && self.plan.projection.iter().any(|column| self.plan.columns[*column] == ColumnSource::Row)
        {
            orders.pop();
        }
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(Arc::clone(&self.plan.schema), orders),
            Partitioning::UnknownPartitioning(streams.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let metrics = ExecutionPlanMetricsSet::new();
        note_stats(&metrics, &self.stats);
        let (snapshot, plan) = (self.snapshot.clone(), Arc::clone(&self.plan));
        Ok(TickScanExec { snapshot, plan, streams, stats: self.stats, properties, metrics })
    }
}

/// The symbols of a piece with their rows.
fn runs(piece: &SegmentRows) -> Result<Vec<(Option<&str>, Range<u64>)>> {
    let index = piece.segment.index().map_err(external)?;
    let all = index.symbols().map_err(external)?;
    let (mut low, mut high) = (0, all);
    while low < high {
        let middle = low + (high - low) / 2;
        let is_before = index.symbol_rows(middle).map_err(external)?.end <= piece.rows.start;
        if is_before { low = middle + 1 } else { high = middle }
    }
    let mut runs = Vec::new();
    for run in low..all {
        let rows = index.symbol_rows(run).map_err(external)?;
        let rows = rows.start.max(piece.rows.start)..rows.end.min(piece.rows.end);
        if rows.start >= piece.rows.end {
            break;
        }
        if !rows.is_empty() {
            runs.push((index.symbol(run).map_err(external)?, rows));
        }
    }
    Ok(runs)
}

/// Merges pieces that are adjacent in their segment.
fn merge_adjacent(pieces: impl Iterator<Item = SegmentRows>) -> Vec<SegmentRows> {
    let mut joined: Vec<SegmentRows> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if Arc::ptr_eq(&last.segment, &piece.segment) && last.rows.end == piece.rows.start => {
                last.rows.end = piece.rows.end;
            }
            _ => joined.push(piece),
        }
    }
    joined
}

/// A column as a sort key, if the schema has it.
fn sort_key(schema: &SchemaRef, name: &str, nulls_first: bool) -> Option<PhysicalSortExpr> {
    let name = name.to_lowercase();
    let position = schema.index_of(&name).ok()?;
    let options = SortOptions { descending: false, nulls_first };
    Some(PhysicalSortExpr::new(Arc::new(Column::new(&name, position)), options))
}

/// The work of every stream on its pieces.
#[derive(Debug, Clone)]
struct ReadPlan {
    snapshot: TableSnapshot,
    columns: Vec<ColumnSource>,
    table_schema: SchemaRef,
    projection: Vec<usize>,
    schema: SchemaRef,
    filters: Vec<ScanFilter>,
    /// The filters on the scan's output columns that joins create while they run.
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    limit: Option<usize>,
    batch_rows: usize,
    row_numbers: Arc<RowNumbers>,
    is_private: bool,
}

/// A filter and the columns that it reads.
#[derive(Debug, Clone)]
struct ScanFilter {
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
}

impl ScanFilter {
    /// The rows for which it is true.
    fn passes(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let passes = self.expr.evaluate(batch)?.into_array(batch.num_rows())?;
        let passes = passes.as_boolean();
        Ok(if passes.null_count() > 0 { prep_null_mask_filter(passes) } else { passes.clone() })
    }

    /// Like [`Self::passes`], evaluated on the rows of a mask alone.
    fn passes_among(&self, mask: &BooleanArray, batch: &RecordBatch) -> Result<BooleanArray> {
        let passes = self.expr.evaluate_selection(batch, mask)?.into_array(batch.num_rows())?;
        let passes = passes.as_boolean();
        let passes = if passes.null_count() > 0 { prep_null_mask_filter(passes) } else { passes.clone() };
        Ok(and(mask, &passes)?)
    }

    /// Like [`Self::passes`], for a policy's condition. A row for which the condition fails, for example by a division by zero, doesn't pass, because
    /// the error would reveal hidden rows and columns.
    fn passes_or_hides(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let mut passes = BooleanBuilder::with_capacity(batch.num_rows());
        let mut parts = vec![0..batch.num_rows()];
        while let Some(part) = parts.pop() {
            match self.passes(&batch.slice(part.start, part.len())) {
                Ok(passes_of_part) => passes.append_array(&passes_of_part),
                Err(error) if !is_of_values(&error) => return Err(error),
                Err(_) if part.len() <= 1 => passes.append_n(part.len(), false),
                Err(_) => {
                    let middle = part.start + part.len() / 2;
                    parts.extend([middle..part.end, part.start..middle]);
                }
            }
        }
        Ok(passes.finish())
    }
}

impl TickScanExec {
    pub(crate) fn try_new(settings: TickScanSettings) -> Result<TickScanExec> {
        let schema = Arc::new(settings.schema.project(&settings.projection)?);
        let filters = settings
            .filters
            .iter()
            .map(|filter| {
                let mut columns: Vec<usize> = collect_columns(filter).iter().map(Column::index).collect();
                columns.sort_unstable();
                let narrow = settings.schema.project(&columns)?;
                let expr = guarded_condition(reassign_expr_columns(Arc::clone(filter), &narrow)?, &narrow)?;
                Ok(ScanFilter { expr, columns })
            })
            .collect::<Result<Vec<_>>>()?;
        // A limit takes the first rows of the table, not those of the fastest stream.
        let streams_max = if settings.limit.is_some() { 1 } else { settings.streams };
        let mut streams = split(settings.pieces, settings.stats.rows.selected, streams_max);
        let mut orders = orderings(&settings.snapshot, &schema, &streams, settings.one_symbol);
        if settings.is_private {
            // In a plan, the number of streams and their order would reveal hidden rows.
            streams.resize_with(streams_max.max(1), Vec::new);
            orders.clear();
        }
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new_with_orderings(
                Arc::clone(&schema),
                with_row_number(orders, &settings.columns, &settings.projection, &schema),
            ),
            Partitioning::UnknownPartitioning(streams.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        let numbers = if settings.projection.iter().any(|c| settings.columns[*c] == ColumnSource::Row) {
            row_numbers(&settings.snapshot)?
        } else {
            Default::default()
        };
        let plan = Arc::new(ReadPlan {
            snapshot: settings.snapshot.clone(),
            columns: settings.columns,
            table_schema: settings.schema,
            projection: settings.projection,
            schema,
            filters,
            dynamic: Vec::new(),
            limit: settings.limit,
            batch_rows: settings.batch_rows.max(1),
            row_numbers: Arc::new(numbers),
            is_private: settings.is_private,
        });
        let (snapshot, stats, metrics) = (settings.snapshot, settings.stats, ExecutionPlanMetricsSet::new());
        note_stats(&metrics, &stats);
        Ok(TickScanExec { snapshot, plan, streams, stats, properties, metrics })
    }

    /// Whether policies hide rows, so that costs would reveal them.
    pub(crate) fn is_private(&self) -> bool {
        self.plan.is_private
    }

    /// The counts of what the scan selects and of what there is.
    pub(crate) fn selection_stats(&self) -> SelectionStats {
        self.stats
    }

    /// The bytes of a row in the stored columns that are read.
    pub(crate) fn row_bytes(&self) -> u64 {
        let filtered = self.plan.filters.iter().flat_map(|filter| &filter.columns);
        let positions: BTreeSet<usize> = self.plan.projection.iter().chain(filtered).copied().collect();
        let stored =
            positions.into_iter().filter(|position| matches!(self.plan.columns[*position], ColumnSource::Stored(_)));
        stored.map(|position| value_bytes(self.plan.table_schema.field(position).data_type())).sum()
    }

    /// Adds filters to the scan that change while it runs.
    fn with_dynamic_filters(&self, filters: Vec<Arc<dyn PhysicalExpr>>) -> TickScanExec {
        let mut plan = ReadPlan::clone(&self.plan);
        plan.dynamic.extend(filters);
        let metrics = ExecutionPlanMetricsSet::new();
        note_stats(&metrics, &self.stats);
        let (streams, properties) = (self.streams.clone(), Arc::clone(&self.properties));
        TickScanExec {
            snapshot: self.snapshot.clone(),
            plan: Arc::new(plan),
            streams,
            stats: self.stats,
            properties,
            metrics,
        }
    }

    fn is_exact(&self) -> bool {
        self.plan.filters.is_empty() && self.plan.limit.is_none()
    }
}

fn note_stats(metrics: &ExecutionPlanMetricsSet, stats: &SelectionStats) {
    for (name, count) in [("partitions", stats.partitions), ("symbols", stats.symbols), ("blocks", stats.blocks)] {
        let add = |name: String, value: u64| {
            MetricBuilder::new(metrics).global_counter(name).add(usize::try_from(value).unwrap_or(usize::MAX));
        };
        add(format!("{name}_kept"), count.selected);
        add(format!("{name}_total"), count.total);
    }
}

/// The pieces of each stream: consecutive rows, about equally many.
fn split(pieces: Vec<SegmentRows>, rows: u64, streams_max: usize) -> Vec<Vec<SegmentRows>> {
    let stream_count = rows.div_ceil(STREAM_ROWS_MIN).clamp(1, streams_max.max(1) as u64);
    let share = rows.div_ceil(stream_count).next_multiple_of(splay_store::BLOCK_ROWS as u64).max(1);
    let (mut streams, mut filled) = (vec![Vec::new()], 0);
    for mut piece in pieces {
        while !piece.rows.is_empty() {
            if filled == share {
                streams.push(Vec::new());
                filled = 0;
            }
            let row_count = (piece.rows.end - piece.rows.start).min(share - filled);
            let rows = piece.rows.start..piece.rows.start + row_count;
            piece.rows.start += row_count;
            filled += row_count;
            if let Some(stream) = streams.last_mut() {
                stream.push(SegmentRows { rows, ..piece.clone() });
            }
        }
    }
    streams
}

/// The orders that every stream preserves.
fn orderings(
    snapshot: &TableSnapshot,
    schema: &SchemaRef,
    streams: &[Vec<SegmentRows>],
    one_symbol: bool,
) -> Vec<Vec<PhysicalSortExpr>> {
    let spec = snapshot.spec();
    let key = |name: &str, nulls_first: bool| sort_key(schema, name, nulls_first);
    let time = || key(&spec.time, false);
    let mut dates: Vec<i32> = streams.iter().flatten().map(|piece| piece.date).collect();
    dates.dedup();
    let one_date = dates.len() <= 1;
    let mut orders: Vec<Vec<PhysicalSortExpr>> = Vec::new();
    let symbol = spec.symbol.as_deref();
    if (symbol.is_none() || one_symbol) && dates_follow(streams) {
        orders.extend(time().map(|time| vec![time]));
    }
    if let Some(symbol) = symbol {
        // Nulls come first. If there are none, the order is declared as the usual one of `ORDER BY`, with nulls last. If both were declared,
        // DataFusion would use whichever it meets first, and refuse plans of its own.
        let no_nulls = streams.iter().flatten().all(|piece| piece.segment.entry().symbols.is_some());
        let date = if one_date { Some(Vec::new()) } else { key(DATE_COLUMN, false).map(|date| vec![date]) };
        if let (Some(mut order), Some(symbol)) = (date, key(symbol, !no_nulls)) {
            order.push(symbol);
            order.extend(time());
            orders.push(order);
        }
    }
    if !one_date && let Some(date) = key(DATE_COLUMN, false).filter(|_| spec.has_virtual_date()) {
        orders.push(vec![date]);
    }
    if !spec.has_virtual_date() {
        // A table's own column named `date` orders nothing.
        orders.retain(|order| one_date || !order.iter().any(|key| key.expr.to_string().starts_with(DATE_COLUMN)));
    }
    orders
}

/// Appends the row number to each order, if the scan reads it: rows are in the order of their numbers.
fn with_row_number(
    mut orders: Vec<Vec<PhysicalSortExpr>>,
    columns: &[ColumnSource],
    projection: &[usize],
    schema: &SchemaRef,
) -> Vec<Vec<PhysicalSortExpr>> {
    if let Some(position) = projection.iter().position(|column| columns[*column] == ColumnSource::Row) {
        let column = Arc::new(Column::new(schema.field(position).name(), position));
        let row = PhysicalSortExpr::new(column, SortOptions { descending: false, nulls_first: false });
        for order in &mut orders {
            order.push(row.clone());
        }
        orders.push(vec![row]);
    }
    orders
}

/// Whether the rows of each date are later than those of the date before. They aren't if a clock goes back over midnight.
fn dates_follow(streams: &[Vec<SegmentRows>]) -> bool {
    let mut bounds: Vec<(i32, i64, i64)> = Vec::new();
    for piece in streams.iter().flatten() {
        let entry = piece.segment.entry();
        match bounds.last_mut().filter(|(date, _, _)| *date == piece.date) {
            Some((_, min, max)) => (*min, *max) = ((*min).min(entry.time_min), (*max).max(entry.time_max)),
            None => bounds.push((piece.date, entry.time_min, entry.time_max)),
        }
    }
    bounds.windows(2).all(|pair| pair[0].2 <= pair[1].1)
}

/// Row numbers in the order of the table: for each segment, by path, the first row of each stretch and its number. Empty if rows aren't numbered.
type RowNumbers = HashMap<String, Vec<(u64, i64)>>;

fn row_numbers(snapshot: &TableSnapshot) -> Result<RowNumbers> {
    let mut next = 0;
    let mut numbers = RowNumbers::new();
    let mut number = |segment: &Segment, rows: Range<u64>| {
        numbers.entry(segment.entry().path.clone()).or_default().push((rows.start, next));
        next += i64::try_from(rows.end - rows.start).unwrap_or(i64::MAX);
    };
    for partition in snapshot.partitions() {
        if partition.is_in_sequence() && !partition.segments.iter().any(|segment| segment.is_cut()) {
            partition.segments.iter().for_each(|segment| number(segment, 0..segment.rows()));
        } else {
            let everything =
                Selection { date: Bounds { min: partition.date, max: partition.date }, ..Selection::default() };
            let (pieces, _) = snapshot.select(&everything).map_err(external)?;
            pieces.into_iter().for_each(|piece| number(&piece.segment, piece.rows));
        }
    }
    // The stretches of a segment stay in the order of its rows, also if symbols are spread over segments.
    Ok(numbers)
}

impl DisplayAs for TickScanExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let stats = &self.stats;
        let ratio = |count: splay_store::SelectedCount| format!("{}/{}", count.selected, count.total);
        write!(
            f,
            "TickScanExec: table={}, columns=[{}], ",
            self.snapshot.spec().name,
            self.plan.schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", "),
        )?;
        if self.is_private() {
            return write!(f, "rows that policies show");
        }
        write!(f, "partitions={}, ", ratio(stats.partitions))?;
        if stats.symbols.total > 0 {
            write!(f, "symbols={}, ", ratio(stats.symbols))?;
        }
        write!(f, "blocks={}, rows={}", ratio(stats.blocks), ratio(stats.rows))?;
        if !self.plan.filters.is_empty() {
            let filters: Vec<String> = self.plan.filters.iter().map(|filter| filter.expr.to_string()).collect();
            write!(f, ", filters=[{}]", filters.join(", "))?;
        }
        if !self.plan.dynamic.is_empty() {
            let filters: Vec<String> = self.plan.dynamic.iter().map(ToString::to_string).collect();
            write!(f, ", narrowed by=[{}]", filters.join(", "))?;
        }
        if let Some(limit) = self.plan.limit {
            write!(f, ", limit={limit}")?;
        }
        match self.properties.output_ordering() {
            Some(order) => write!(f, ", order=[{order}]"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for TickScanExec {
    fn name(&self) -> &'static str {
        "TickScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let filters = self.plan.filters.iter().map(|filter| &filter.expr);
        for filter in filters.chain(&self.plan.dynamic) {
            if f(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a scan has no children") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(pieces) = self.streams.get(partition) else {
            return internal_err!("stream {partition} of {}", self.streams.len());
        };
        Ok(Box::pin(TickScanStream {
            dynamic: DynamicFilters::new(&self.plan.dynamic),
            plan: Arc::clone(&self.plan),
            pieces: pieces.clone().into(),
            remaining: self.plan.limit.unwrap_or(usize::MAX),
            scanned: MetricBuilder::new(&self.metrics).counter("rows_scanned", partition),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // An operator that adds a filter evaluates it itself; here the filter only excludes pieces. A limit would count rows that the filter removes.
        let filters = child_pushdown_result.parent_filters.iter().map(|result| &result.filter);
        let dynamic: Vec<_> = filters.filter(|filter| is_dynamic(filter)).map(Arc::clone).collect();
        let result = FilterPushdownPropagation::all_unsupported(child_pushdown_result);
        if dynamic.is_empty() || self.plan.limit.is_some() {
            return Ok(result);
        }
        Ok(result.with_updated_node(Arc::new(self.with_dynamic_filters(dynamic))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        (!self.is_private()).then(|| self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = match args.partition() {
            None => self.stats.rows.selected,
            Some(stream) => self.streams[stream].iter().map(|piece| piece.rows.end - piece.rows.start).sum(),
        };
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let mut statistics = Statistics::new_unknown(&self.plan.schema);
        statistics.num_rows = match (self.is_private(), self.is_exact()) {
            (true, _) => Precision::Absent,
            (false, true) => Precision::Exact(rows),
            (false, false) => Precision::Inexact(rows),
        };
        Ok(Arc::new(statistics))
    }
}

struct TickScanStream {
    dynamic: DynamicFilters,
    plan: Arc<ReadPlan>,
    pieces: std::collections::VecDeque<SegmentRows>,
    /// Rows that may still be returned.
    remaining: usize,
    scanned: Count,
    metrics: BaselineMetrics,
}

impl TickScanStream {
    /// The next batch with at least one row.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.dynamic.narrow(&self.plan.snapshot, &self.plan.schema, &mut self.pieces)?;
        while self.remaining > 0 {
            let Some(piece) = self.pieces.front_mut() else { return Ok(None) };
            let rows_max = if self.plan.reads_by_range(piece)? { self.plan.batch_rows as u64 } else { DECODED_ROWS };
            // If every row passes, the scan reads no more rows than it has to give.
            let rows_max = if self.plan.filters.is_empty() { rows_max.min(self.remaining as u64) } else { rows_max };
            let end = piece.rows.end.min(piece.rows.start.saturating_add(rows_max));
            let part = SegmentRows { rows: piece.rows.start..end, ..piece.clone() };
            piece.rows.start = end;
            if piece.rows.is_empty() {
                self.pieces.pop_front();
            }
            if part.rows.is_empty() {
                continue;
            }
            self.scanned.add(usize::try_from(part.rows.end - part.rows.start).unwrap_or(usize::MAX));
            let batch = self.plan.read(&part)?;
            if batch.num_rows() > 0 {
                let batch = batch.slice(0, batch.num_rows().min(self.remaining));
                self.remaining -= batch.num_rows();
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

impl ReadPlan {
    /// The rows of a piece that pass the filters.
    fn read(&self, piece: &SegmentRows) -> Result<RecordBatch> {
        let mut mask: Option<BooleanArray> = None;
        let mut arrays: Vec<(usize, ArrayRef)> = Vec::new();
        let mut refused: Vec<&ScanFilter> = Vec::new();
        for filter in &self.filters {
            let batch = self.columns(piece, &filter.columns, &mut arrays)?;
            let passes = match self.is_private {
                true => filter.passes_or_hides(&batch)?,
                false => match filter.passes(&batch) {
                    // The row for which it fails may be one that the other filters exclude.
                    Err(error) if is_of_values(&error) && self.filters.len() > 1 => {
                        refused.push(filter);
                        continue;
                    }
                    passes => passes?,
                },
            };
            let all = match &mask {
                Some(mask) => and(mask, &passes)?,
                None => passes,
            };
            if !all.has_true() {
                return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
            }
            mask = Some(all);
        }
        for filter in refused {
            let batch = self.columns(piece, &filter.columns, &mut arrays)?;
            let all = match &mask {
                Some(mask) => filter.passes_among(mask, &batch)?,
                None => filter.passes(&batch)?,
            };
            if !all.has_true() {
                return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
            }
            mask = Some(all);
        }
        let batch = self.columns(piece, &self.projection, &mut arrays)?;
        let batch = RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            batch.columns().to_vec(),
            &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
        )?;
        match mask {
            Some(mask) if mask.has_false() => Ok(filter_record_batch(&batch, &mask)?),
            _ => Ok(batch),
        }
    }

    /// Whether reading a few rows of a piece costs only as much as these rows.
    fn reads_by_range(&self, piece: &SegmentRows) -> Result<bool> {
        let columns = self.filters.iter().flat_map(|filter| &filter.columns).chain(&self.projection);
        for column in columns {
            if let ColumnSource::Stored(position) = self.columns[*column]
                && !piece.segment.reads_by_range(self.snapshot.spec(), position).map_err(external)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Columns of a piece, by position in the table, each read once.
    fn columns(
        &self,
        piece: &SegmentRows,
        requested: &[usize],
        arrays: &mut Vec<(usize, ArrayRef)>,
    ) -> Result<RecordBatch> {
        let rows = usize::try_from(piece.rows.end - piece.rows.start).unwrap_or(usize::MAX);
        let mut missing: Vec<(usize, usize)> = requested
            .iter()
            .filter(|column| !arrays.iter().any(|(have, _)| have == *column))
            .filter_map(|column| match self.columns[*column] {
                ColumnSource::Stored(position) => Some((position, *column)),
                _ => None,
            })
            .collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            let positions: Vec<usize> = missing.iter().map(|(position, _)| *position).collect();
            let batch = piece.segment.read(self.snapshot.spec(), &positions, piece.rows.clone()).map_err(external)?;
            arrays.extend(missing.iter().zip(batch.columns()).map(|((_, column), array)| (*column, Arc::clone(array))));
        }
        let column = |column: &usize| -> ArrayRef {
            if let Some((_, array)) = arrays.iter().find(|(have, _)| have == column) {
                return Arc::clone(array);
            }
            match self.columns[*column] {
                ColumnSource::Row => Arc::new(Int64Array::from_iter_values(self.row_numbers(piece))),
                _ => Arc::new(Date32Array::from(vec![piece.date; rows])),
            }
        };
        let columns = requested.iter().map(column).collect();
        let schema = Arc::new(self.table_schema.project(requested)?);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    fn row_numbers(&self, piece: &SegmentRows) -> Range<i64> {
        // The row numbers of a piece that spans several stretches, which happens with few symbols, are still ascending.
        let stretches = self.row_numbers.get(&piece.segment.entry().path).map(Vec::as_slice).unwrap_or_default();
        let before = stretches.partition_point(|(first, _)| *first <= piece.rows.start);
        let (start, first) = before.checked_sub(1).map_or((0, 0), |place| stretches[place]);
        let row = |row: u64| first + i64::try_from(row - start).unwrap_or(i64::MAX);
        row(piece.rows.start)..row(piece.rows.end)
    }
}

impl Stream for TickScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let compute = self.metrics.elapsed_compute().clone();
        let timer = compute.timer();
        let batch = self.next_batch().transpose();
        timer.done();
        self.metrics.record_poll(Poll::Ready(batch))
    }
}

impl RecordBatchStream for TickScanStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }
}

/// The source of a column of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnSource {
    /// Position among the stored columns.
    Stored(usize),
    /// The partition.
    Date,
    /// Number of the row in the snapshot.
    Row,
}
