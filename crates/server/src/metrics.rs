//! The metrics of `/metrics`, in OpenMetrics text.
//!
//! Labels are fixed names (protocols, outcomes, acknowledgement classes) and tables. Clients create tables, so the
//! first hundred have labels of their own, and the others share one.

use std::fmt::Error as FormatError;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use splay_sql::StatementStats;
use splay_store::{Quota, SelectedCount};

use crate::audit::Auditor;
use crate::capture_metrics::CaptureMetrics;
use crate::ingest::{FigureFold, Ingest, IngestFigure, figure};
use crate::label_sets::{LabelSets, OTHER};
use crate::quotas::QuotaRefusals;

/// Label values.
type Label = [(&'static str, &'static str); 1];
type LabelPair = [(&'static str, &'static str); 2];

/// All numbers of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<LabelPair, Counter>,
    statements: Family<LabelPair, Counter>,
    statement_seconds: Family<Label, Histogram>,
    appends: Family<LabelPair, Counter>,
    append_seconds: Family<Label, Histogram>,
    rows_in: Family<Label, Counter>,
    bytes_in: Family<Label, Counter>,
    connections_refused: Family<Label, Counter>,
    tls_reloads: Family<Label, Counter>,
    statements_run_by: Family<Label, Counter>,
    tick_plans_refused: Counter,
    rows_scanned: Counter,
    bytes_scanned: Counter,
    blocks: Family<Label, Counter>,
    /// Rows sent in answers.
    pub(crate) rows_out: Counter,
    /// Statements that run.
    pub(crate) statements_running: Gauge,
    /// Statements that wait for a place, or for their client.
    pub(crate) statements_waiting: Gauge,
    /// Statements that were begun anew.
    pub(crate) statements_restarted: Counter,
    /// Times that a statement gave up its slot because its client read nothing for a second.
    pub(crate) statements_stalled: Counter,
    /// Connections that are open.
    pub(crate) connections: Family<Label, Gauge>,
    /// Subscriptions that run.
    pub(crate) subscriptions: Gauge,
    /// The refusals by quotas of roles.
    pub(crate) quota_refusals: QuotaRefusals,
    /// Updates sent to subscribers.
    pub(crate) updates_out: Counter,
}

/// From 10 microseconds to some 40 seconds.
fn latencies() -> Histogram {
    Histogram::new(exponential_buckets(1e-5, 2.0, 23))
}

impl Metrics {
    pub(crate) fn new(ingest: Option<Arc<dyn Ingest>>, auditor: Auditor) -> Metrics {
        let mut registry = Registry::with_prefix("splay");
        let requests = Family::<LabelPair, Counter>::default();
        registry.register("requests", "Requests, by way in and outcome", requests.clone());
        let statements = Family::<LabelPair, Counter>::default();
        registry.register("statements", "Statements that ended, by way in and outcome", statements.clone());
        let statement_seconds = Family::<Label, Histogram>::new_with_constructor(latencies);
        let help = "Time from a statement's arrival to its last row sent";
        registry.register("statement_seconds", help, statement_seconds.clone());
        let appends = Family::<LabelPair, Counter>::default();
        registry.register("appends", "Appends that were answered, by way in and outcome", appends.clone());
        let append_seconds = Family::<Label, Histogram>::new_with_constructor(latencies);
        registry.register(
            "append_seconds",
            "Time from a batch's receipt to its acknowledgement, by class",
            append_seconds.clone(),
        );
        let rows_in = Family::<Label, Counter>::default();
        registry.register("rows_in", "Rows that were stored, by way in", rows_in.clone());
        let bytes_in = Family::<Label, Counter>::default();
        registry.register("bytes_in", "Bytes received, by way in", bytes_in.clone());
        let connections_refused = Family::<Label, Counter>::default();
        registry.register("connections_refused", "Connections beyond the limits", connections_refused.clone());
        let tls_reloads = Family::<Label, Counter>::default();
        // Each is there before the first reload.
        ["ok", "failed"].iter().for_each(|outcome| drop(tls_reloads.get_or_create(&[("outcome", outcome)])));
        let help = "Times that the certificate was to be read anew, by outcome";
        registry.register("tls_reloads", help, tls_reloads.clone());
        let statements_run_by = Family::<Label, Counter>::default();
        registry.register(
            "statements_run_by",
            "Statements that were planned, by what ran them",
            statements_run_by.clone(),
        );
        let tick_plans_refused = Counter::default();
        let help = "Tick plans that the engine refused while running, so that DataFusion ran the statement again";
        registry.register("tick_plans_refused", help, tick_plans_refused.clone());
        let rows_scanned = Counter::default();
        registry.register("rows_scanned", "Rows that statements read", rows_scanned.clone());
        let bytes_scanned = Counter::default();
        registry.register("bytes_scanned", "Bytes of columns that statements read", bytes_scanned.clone());
        let blocks = Family::<Label, Counter>::default();
        registry.register(
            "blocks",
            "Blocks of the tables that statements named: read, or skipped by the index",
            blocks.clone(),
        );
        let rows_out = Counter::default();
        registry.register("rows_out", "Rows sent in answers", rows_out.clone());
        let statements_running = Gauge::default();
        registry.register("statements_running", "Running statements", statements_running.clone());
        let statements_waiting = Gauge::default();
        let help = "Statements that wait for a slot, or for their client to read";
        registry.register("statements_waiting", help, statements_waiting.clone());
        let statements_restarted = Counter::default();
        let help = "Statements stopped after 100 ms in a short slot, and restarted in a long one";
        registry.register("statements_restarted", help, statements_restarted.clone());
        let statements_stalled = Counter::default();
        let help = "Times that a statement gave up its slot because its client read nothing for a second";
        registry.register("statements_stalled", help, statements_stalled.clone());
        let connections = Family::<Label, Gauge>::default();
        registry.register("connections", "Open connections", connections.clone());
        let subscriptions = Gauge::default();
        registry.register("subscriptions", "Running subscriptions", subscriptions.clone());
        let updates_out = Counter::default();
        registry.register("updates_out", "Updates sent to subscribers", updates_out.clone());
        let quota_refusals = QuotaRefusals::default();
        // Each is there before the first refusal.
        Quota::ALL.iter().for_each(|quota| drop(quota_refusals.get_or_create(&[("quota", quota.as_str())])));
        registry.register("quota_refusals", "Refusals by quotas of roles, by quota", quota_refusals.clone());
        registry.register_collector(Box::new(Process { start: Instant::now() }));
        registry.register_collector(Box::new(AuditMetrics(auditor)));
        if let Some(ingest) = ingest {
            let named = Arc::new(LabelSets::default());
            registry.register_collector(Box::new(CaptureMetrics::new(Arc::clone(&ingest), Arc::clone(&named))));
            registry.register_collector(Box::new(IngestMetrics { ingest, named }));
        }
        Metrics {
            registry,
            requests,
            statements,
            statement_seconds,
            appends,
            append_seconds,
            rows_in,
            bytes_in,
            connections_refused,
            tls_reloads,
            statements_run_by,
            tick_plans_refused,
            rows_scanned,
            bytes_scanned,
            blocks,
            rows_out,
            statements_running,
            statements_waiting,
            statements_restarted,
            statements_stalled,
            connections,
            subscriptions,
            quota_refusals,
            updates_out,
        }
    }

    /// All numbers as OpenMetrics text.
    pub(crate) fn encode(&self) -> Result<String, FormatError> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    pub(crate) fn request(&self, way: &'static str, outcome: &'static str) {
        self.requests.get_or_create(&[("way", way), ("outcome", outcome)]).inc();
    }

    pub(crate) fn statement(&self, way: &'static str, outcome: &'static str, start: Instant) {
        self.statements.get_or_create(&[("way", way), ("outcome", outcome)]).inc();
        self.statement_seconds.get_or_create(&[("way", way)]).observe(start.elapsed().as_secs_f64());
    }

    /// Counts what a statement cost.
    pub(crate) fn statement_cost(&self, stats: &StatementStats) {
        self.statements_run_by.get_or_create(&[("run_by", stats.run_by.as_str())]).inc();
        self.tick_plans_refused.inc_by(stats.tick_plans_refused);
        self.rows_scanned.inc_by(stats.rows_scanned);
        self.bytes_scanned.inc_by(stats.bytes_scanned);
        let SelectedCount { selected, total } = stats.selection.blocks;
        self.blocks.get_or_create(&[("outcome", "read")]).inc_by(selected);
        self.blocks.get_or_create(&[("outcome", "skipped")]).inc_by(total.saturating_sub(selected));
    }

    pub(crate) fn append(
        &self,
        way: &'static str,
        outcome: &'static str,
        ack: &'static str,
        rows: u64,
        start: Instant,
    ) {
        self.appends.get_or_create(&[("way", way), ("outcome", outcome)]).inc();
        self.append_seconds.get_or_create(&[("ack", ack)]).observe(start.elapsed().as_secs_f64());
        self.rows_in.get_or_create(&[("way", way)]).inc_by(rows);
    }

    pub(crate) fn received(&self, way: &'static str, bytes: usize) {
        self.bytes_in.get_or_create(&[("way", way)]).inc_by(bytes as u64);
    }

    pub(crate) fn connection_refused(&self, listener: &'static str) {
        self.connections_refused.get_or_create(&[("listener", listener)]).inc();
    }

    pub(crate) fn tls_reload(&self, outcome: &'static str) {
        self.tls_reloads.get_or_create(&[("outcome", outcome)]).inc();
    }

    pub(crate) fn open(&self, listener: &'static str) -> GaugeGuard {
        GaugeGuard::new(self.connections.get_or_create(&[("listener", listener)]).clone())
    }
}

/// Counts something as long as it lives.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    pub(crate) fn new(gauge: Gauge) -> GaugeGuard {
        gauge.inc();
        GaugeGuard(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The process itself.
#[derive(Debug)]
struct Process {
    start: Instant,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), FormatError> {
        let uptime = ConstGauge::new(self.start.elapsed().as_secs_f64());
        let metric = encoder.encode_descriptor("uptime_seconds", "Time since the start", None, uptime.metric_type())?;
        uptime.encode(metric)?;
        let Some(bytes) = resident_bytes() else { return Ok(()) };
        let memory = ConstGauge::new(bytes);
        let help = "Memory that the process holds, mapped files that were touched among it";
        let metric = encoder.encode_descriptor("resident_bytes", help, None, memory.metric_type())?;
        memory.encode(metric)
    }
}

fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The audit log; zeros without.
#[derive(Debug)]
struct AuditMetrics(Auditor);

impl Collector for AuditMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), FormatError> {
        let status = self.0.status().unwrap_or_default();
        let figures = [
            figure(true, "audit_records", "Records of the audit log written", status.records),
            figure(true, "audit_lost", "Records of the audit log that couldn't be written", status.lost),
            figure(false, "audit_waiting_bytes", "Bytes of events that wait for the audit log", status.waiting_bytes),
        ];
        figures.iter().try_for_each(|figure| encode_figures(&mut encoder, std::slice::from_ref(figure)))
    }
}

/// Encodes figures of one name.
fn encode_figures(encoder: &mut DescriptorEncoder, same: &[IngestFigure]) -> Result<(), FormatError> {
    let kind = |is_counter: bool| {
        if is_counter { ConstCounter::new(0u64).metric_type() } else { ConstGauge::new(0i64).metric_type() }
    };
    let mut metric = encoder.encode_descriptor(same[0].name, same[0].help, None, kind(same[0].is_counter))?;
    for figure in same {
        let labels: Vec<(&'static str, String)> = figure.table.iter().map(|table| ("table", table.clone())).collect();
        let labels = labels.as_slice();
        let one = metric.encode_family(&labels)?;
        if figure.is_counter {
            ConstCounter::new(figure.value).encode(one)?;
        } else {
            ConstGauge::new(i64::try_from(figure.value).unwrap_or(i64::MAX)).encode(one)?;
        }
    }
    Ok(())
}

/// The metrics of capture.
#[derive(Debug)]
struct IngestMetrics {
    ingest: Arc<dyn Ingest>,
    named: Arc<LabelSets>,
}

impl IngestMetrics {
    /// Figures of tables that have a name of their own, and one for all others.
    fn few(&self) -> Vec<IngestFigure> {
        let mut figures = self.ingest.figures();
        for table in figures.iter_mut().filter_map(|figure| figure.table.as_mut()) {
            if !self.named.table(table) {
                *table = OTHER.to_owned();
            }
        }
        // Figures of one name for several tables are one metric.
        figures.sort_by(|one, other| (one.name, &one.table).cmp(&(other.name, &other.table)));
        figures.dedup_by(|next, figure| {
            let is_same = (next.name, &next.table) == (figure.name, &figure.table);
            if is_same {
                figure.value = match figure.of_several {
                    FigureFold::Sum => figure.value.saturating_add(next.value),
                    FigureFold::Least => figure.value.min(next.value),
                };
            }
            is_same
        });
        figures
    }
}

impl Collector for IngestMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), FormatError> {
        let figures = self.few();
        figures.chunk_by(|one, other| one.name == other.name).try_for_each(|same| encode_figures(&mut encoder, same))
    }
}
