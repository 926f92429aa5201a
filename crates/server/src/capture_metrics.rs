//! The measurements of capture in `/metrics`: latencies and feed quality.
//!
//! Tables, symbols and venues are names that clients choose, so their number is bounded: the first have labels of
//! their own, and the others share one ([`LabelSets`]).

use std::fmt::Error as FormatError;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use splay_capture::{Defects, Latencies, Latency, Quality, SeriesQuality, TableStatus, latency_bounds};

use crate::ingest::Ingest;
use crate::label_sets::{LabelSets, OTHER};

type Labels<'a> = [(&'static str, &'a str)];

/// Reads the measurements from capture at each scrape.
#[derive(Debug)]
pub(crate) struct CaptureMetrics {
    ingest: Arc<dyn Ingest>,
    named: Arc<LabelSets>,
}

impl CaptureMetrics {
    pub(crate) fn new(ingest: Arc<dyn Ingest>, named: Arc<LabelSets>) -> CaptureMetrics {
        CaptureMetrics { ingest, named }
    }
}

impl Collector for CaptureMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), FormatError> {
        let tables = self.named.few(self.ingest.status().tables);
        for (name, help, of) in LATENCIES {
            let metric = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
            latencies(metric, &tables, of)?;
        }
        for (name, help, of) in DEFECTS {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            defects(metric, &tables, of)?;
        }
        for (name, help, of) in ROWS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for table in &tables {
                let labels: &Labels<'_> = &[("table", table.table.as_str())];
                ConstCounter::new(of(&table.quality)).encode(metric.encode_family(&labels)?)?;
            }
        }
        let help = "Symbols, or pairs of symbol and venue, whose feed is watched";
        let mut metric = encoder.encode_descriptor("feed_series", help, None, MetricType::Gauge)?;
        for table in &tables {
            let labels: &Labels<'_> = &[("table", table.table.as_str())];
            let series = i64::try_from(table.quality.series).unwrap_or(i64::MAX);
            ConstGauge::new(series).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

type TableFigure<T> = (&'static str, &'static str, fn(&T) -> u64);

const LATENCIES: [(&str, &str, fn(&Latencies) -> &Latency); 3] = [
    ("ingest_received", "Time from the venue's clock to receipt, of rows", |all| &all.received),
    ("ingest_visible", "Time from receipt until queries see them, of rows", |all| &all.visible),
    ("ingest_durable", "Time from receipt until the journal is synced, of rows", |all| &all.durable),
];

const DEFECTS: [TableFigure<Defects>; 5] = [
    ("feed_gaps", "Places in which numbers of a feed were passed over", |all| all.gaps),
    ("feed_missing", "Numbers of a feed that were passed over", |all| all.missing),
    ("feed_duplicates", "Rows with the number of the row before", |all| all.duplicates),
    ("feed_out_of_order", "Rows with a lower number than an earlier row, or an earlier time", |all| all.out_of_order),
    ("feed_crossed", "Rows whose bid is above their ask", |all| all.crossed),
];

const ROWS: [TableFigure<Quality>; 4] = [
    ("feed_rows", "Rows whose feed was looked at", |all| all.rows),
    ("feed_late_rows", "Rows with an earlier time than an earlier row of their series", |all| all.late_rows),
    ("feed_late_day_rows", "Rows of dates that had ended when they came in", |all| all.late_day_rows),
    ("feed_unwatched_rows", "Rows of symbols for which there was no room", |all| all.unwatched_rows),
];

fn latencies(
    mut metric: MetricEncoder<'_>,
    tables: &[TableStatus],
    of: fn(&Latencies) -> &Latency,
) -> Result<(), FormatError> {
    for table in tables {
        let latency = of(&table.latencies);
        if latency.counts.is_empty() {
            continue;
        }
        let bounds = latency_bounds().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(latency.counts.iter().copied()).collect();
        let labels: &Labels<'_> = &[("table", table.table.as_str())];
        let mut one = metric.encode_family(&labels)?;
        one.encode_histogram::<NoLabelSet>(latency.sum_seconds, latency.rows(), &buckets, None)?;
    }
    Ok(())
}

fn defects(mut metric: MetricEncoder<'_>, tables: &[TableStatus], of: fn(&Defects) -> u64) -> Result<(), FormatError> {
    for table in tables {
        for series in with_others(&table.quality) {
            let labels: &Labels<'_> = &[
                ("table", table.table.as_str()),
                ("symbol", series.symbol.as_str()),
                ("venue", series.venue.as_str()),
            ];
            ConstCounter::new(of(&series.defects)).encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// The series that have names, and last the others as one.
fn with_others(quality: &Quality) -> Vec<SeriesQuality> {
    // A symbol that is called as the others are is one of them.
    let named = quality.named.iter().filter(|series| series.symbol != OTHER);
    let mut all: Vec<SeriesQuality> = named.cloned().collect();
    let others = all.iter().fold(quality.defects, |rest, series| rest.without(&series.defects));
    all.push(SeriesQuality { symbol: OTHER.to_owned(), venue: String::new(), defects: others });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_name_is_the_others() {
        let series = |symbol: &str, gaps| SeriesQuality {
            symbol: symbol.to_owned(),
            venue: "X".to_owned(),
            defects: Defects { gaps, ..Defects::default() },
        };
        let quality = Quality {
            defects: Defects { gaps: 10, crossed: 2, ..Defects::default() },
            named: vec![series("A", 3), series(OTHER, 4)],
            ..Quality::default()
        };
        let all = with_others(&quality);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], series("A", 3));
        assert_eq!((all[1].symbol.as_str(), all[1].defects.gaps, all[1].defects.crossed), (OTHER, 7, 2));
    }
}
