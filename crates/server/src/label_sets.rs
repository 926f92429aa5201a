//! Bounded label sets: the first tables and series have labels of their own in `/metrics`, the others share one, so a
//! scrape stays small however many tables senders create.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use splay_capture::{Latencies, Latency, Quality, TableStatus};

/// The label of those that have no name of their own.
pub(crate) const OTHER: &str = "_other";

/// Tables with a name of their own.
const TABLES_MAX: usize = 100;

/// Series with a name of their own, over all tables.
const SERIES_MAX: usize = 1_000;

/// The tables and series that were there first.
#[derive(Debug, Default)]
pub(crate) struct LabelSets {
    tables: Mutex<HashSet<String>>,
    series: Mutex<HashSet<(String, String, String)>>,
}

/// Whether something is one of the first, of which there are so many.
fn is_among<T: Hash + Eq>(first: &Mutex<HashSet<T>>, one: T, max: usize) -> bool {
    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
    first.contains(&one) || (first.len() < max && first.insert(one))
}

impl LabelSets {
    /// Whether a table has a name of its own.
    pub(crate) fn table(&self, table: &str) -> bool {
        table != OTHER && is_among(&self.tables, table.to_owned(), TABLES_MAX)
    }

    /// The tables that have names of their own, with such series alone, and behind them all others as one.
    pub(crate) fn few(&self, tables: Vec<TableStatus>) -> Vec<TableStatus> {
        let (mut own, others): (Vec<_>, Vec<_>) = tables.into_iter().partition(|table| self.table(&table.table));
        for TableStatus { table, quality, .. } in &mut own {
            quality.named.retain(|series| {
                is_among(&self.series, (table.clone(), series.symbol.clone(), series.venue.clone()), SERIES_MAX)
            });
        }
        own.extend(others.into_iter().reduce(sum).map(|all| TableStatus { table: OTHER.to_owned(), ..all }));
        own
    }
}

/// The measures of two tables as one, without series of its own.
fn sum(mut one: TableStatus, other: TableStatus) -> TableStatus {
    let Latencies { received, visible, durable } = &mut one.latencies;
    add(received, &other.latencies.received);
    add(visible, &other.latencies.visible);
    add(durable, &other.latencies.durable);
    let quality = &one.quality;
    one.quality = Quality {
        rows: quality.rows + other.quality.rows,
        unwatched_rows: quality.unwatched_rows + other.quality.unwatched_rows,
        late_rows: quality.late_rows + other.quality.late_rows,
        late_day_rows: quality.late_day_rows + other.quality.late_day_rows,
        series: quality.series + other.quality.series,
        defects: quality.defects.with(&other.quality.defects),
        worst: Vec::new(),
        named: Vec::new(),
    };
    one
}

fn add(one: &mut Latency, other: &Latency) {
    one.sum_seconds += other.sum_seconds;
    one.counts.resize(one.counts.len().max(other.counts.len()), 0);
    one.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
}

#[cfg(test)]
mod tests {
    use splay_capture::{Defects, SeriesQuality};

    use super::*;

    fn table(number: usize, rows: u64) -> TableStatus {
        let series = |symbol: usize| SeriesQuality {
            symbol: symbol.to_string(),
            venue: String::new(),
            defects: Defects { gaps: 1, ..Defects::default() },
        };
        let visible = Latency { counts: vec![rows, 1], sum_seconds: 0.5 };
        TableStatus {
            table: format!("t{number:04}"),
            latencies: Latencies { visible, ..Latencies::default() },
            quality: Quality {
                rows,
                defects: Defects { gaps: 20, ..Defects::default() },
                named: (0..20).map(series).collect(),
                ..Quality::default()
            },
            ..TableStatus::default()
        }
    }

    /// 897 tables were 5.7 MB of metrics.
    #[test]
    fn the_first_tables_and_series_have_names_and_all_others_one() {
        let named = LabelSets::default();
        let first = named.few((500..560).map(|number| table(number, 1)).collect());
        assert_eq!(first.len(), 60);
        let all = named.few((0..900).map(|number| table(number, 2)).collect());
        assert_eq!(all.len(), TABLES_MAX + 1);
        assert!((500..560).all(|number| all.iter().any(|own| own.table == format!("t{number:04}"))));
        let other = all.last().map(|other| (other.table.as_str(), other.quality.rows, other.quality.defects.gaps));
        assert_eq!(other, Some((OTHER, 1_600, 16_000)));
        assert_eq!(all[TABLES_MAX].latencies.visible, Latency { counts: vec![1_600, 800], sum_seconds: 400.0 });
        assert_eq!(all.iter().map(|own| own.quality.named.len()).sum::<usize>(), SERIES_MAX);
        assert!(!named.table(OTHER));
    }
}
