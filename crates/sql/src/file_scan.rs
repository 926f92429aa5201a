//! The scan of files. It reports how many rows they may hold, so that a join reads its smaller side first.

use std::fmt::{self, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, StatisticsArgs,
};
use futures::StreamExt;

/// Scan of files.
#[derive(Debug)]
pub(crate) struct FileScanExec {
    streams: Arc<dyn ExecutionPlan>,
    /// The approximate number of rows.
    rows: usize,
    /// Rows that were read so far, by all streams.
    read: Arc<AtomicU64>,
}

impl FileScanExec {
    pub(crate) fn new(streams: StreamingTableExec, rows: u64) -> FileScanExec {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        FileScanExec { streams: Arc::new(streams), rows, read: Arc::default() }
    }

    /// The approximate number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows as u64
    }

    /// Rows that were read so far.
    pub(crate) fn rows_read(&self) -> u64 {
        // Relaxed: nothing but the sum matters.
        self.read.load(Ordering::Relaxed)
    }
}

impl DisplayAs for FileScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "FileScanExec: rows about {}, ", self.rows)?;
        self.streams.fmt_as(format, f)
    }
}

impl ExecutionPlan for FileScanExec {
    fn name(&self) -> &'static str {
        "FileScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.streams.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.streams.apply_expressions(f)
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

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (batches, read) = (self.streams.execute(partition, context)?, Arc::clone(&self.read));
        let schema = batches.schema();
        let counted = batches.inspect(move |batch| {
            let rows = batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
            read.fetch_add(rows, Ordering::Relaxed);
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.streams.metrics()
    }

    fn fetch(&self) -> Option<usize> {
        self.streams.fetch()
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let streams = self.streams.with_fetch(limit)?;
        Some(Arc::new(FileScanExec { streams, rows: self.rows, read: Arc::default() }))
    }

    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let streams = self.properties().output_partitioning().partition_count().max(1);
        let rows = if args.partition().is_some() { self.rows.div_ceil(streams) } else { self.rows };
        let mut statistics = Statistics::new_unknown(&self.schema());
        statistics.num_rows = Precision::Inexact(rows);
        Ok(Arc::new(statistics))
    }
}
