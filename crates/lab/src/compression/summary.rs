//! What results say: extremes, the best by each metric, a choice within limits, and the Pareto front.

use std::str::FromStr;

use super::results::Measurement;

/// What schemes are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Compression factor; more is better.
    Factor,
    /// Milliseconds to write.
    Write,
    /// Milliseconds to read.
    Read,
    /// Microseconds to read a block at random.
    Block,
    /// Bytes of memory.
    Memory,
    /// Milliseconds to read and run the statement.
    Query,
}

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 6] =
        [Metric::Factor, Metric::Write, Metric::Read, Metric::Block, Metric::Memory, Metric::Query];

    /// Its column in a table of results.
    #[must_use]
    pub fn column(self) -> &'static str {
        match self {
            Metric::Factor => "compFactor",
            Metric::Write => "writeTime",
            Metric::Read => "readTime",
            Metric::Block => "blockTime",
            Metric::Memory => "memory",
            Metric::Query => "queryTime",
        }
    }

    /// The value of a row, where it has one.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "bytes to compare")]
    pub fn of(self, row: &Measurement) -> Option<f64> {
        match self {
            Metric::Factor => Some(row.comp_factor),
            Metric::Write => Some(row.write_time),
            Metric::Read => Some(row.read_time),
            Metric::Block => row.block_time,
            Metric::Memory => row.memory.map(|bytes| bytes as f64),
            Metric::Query => row.query_time,
        }
    }

    /// The value as a cost, of which less is better; more than any where there is none.
    fn cost(self, row: &Measurement) -> f64 {
        match (self, self.of(row)) {
            (Metric::Factor, Some(factor)) => -factor,
            (_, Some(value)) => value,
            (_, None) => f64::INFINITY,
        }
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Metric, String> {
        match text {
            "factor" => Ok(Metric::Factor),
            "write" => Ok(Metric::Write),
            "read" => Ok(Metric::Read),
            "block" => Ok(Metric::Block),
            "memory" => Ok(Metric::Memory),
            "query" => Ok(Metric::Query),
            _ => Metric::ALL
                .into_iter()
                .find(|metric| metric.column() == text)
                .ok_or_else(|| format!("{text:?} is none of factor, write, read, block, memory, query")),
        }
    }
}

/// Extremes of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extremes {
    /// The metric.
    pub metric: Metric,
    /// The greatest value.
    pub maximum: f64,
    /// The least value.
    pub minimum: f64,
    /// The mean.
    pub average: f64,
}

/// Extremes and means of all metrics that rows have.
#[must_use]
pub fn extremes(rows: &[Measurement]) -> Vec<Extremes> {
    let of = |metric: Metric| {
        let values: Vec<f64> = rows.iter().filter_map(|row| metric.of(row)).collect();
        #[expect(clippy::cast_precision_loss, reason = "rows are few")]
        let average = values.iter().sum::<f64>() / values.len() as f64;
        (!values.is_empty()).then(|| Extremes {
            metric,
            maximum: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            minimum: values.iter().copied().fold(f64::INFINITY, f64::min),
            average,
        })
    };
    Metric::ALL.into_iter().filter_map(of).collect()
}

/// All rows with the best value of a metric.
#[must_use]
pub fn best(rows: &[Measurement], metric: Metric) -> Vec<&Measurement> {
    let least = rows.iter().map(|row| metric.cost(row)).fold(f64::INFINITY, f64::min);
    rows.iter().filter(|row| metric.of(row).is_some() && metric.cost(row) <= least).collect()
}

/// Limits of a choice. A row without a value that is limited is not within the limits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Least compression factor.
    pub min_factor: Option<f64>,
    /// Most milliseconds to write.
    pub max_write_ms: Option<f64>,
    /// Most milliseconds to read.
    pub max_read_ms: Option<f64>,
    /// Most microseconds to read a block at random.
    pub max_block_us: Option<f64>,
    /// Most bytes of memory.
    pub max_memory: Option<f64>,
    /// Most milliseconds to read and run the statement.
    pub max_query_ms: Option<f64>,
}

impl Limits {
    /// Whether a row is within.
    #[must_use]
    pub fn allow(&self, row: &Measurement) -> bool {
        let limits = [
            (Metric::Factor, self.min_factor.map(|factor| -factor)),
            (Metric::Write, self.max_write_ms),
            (Metric::Read, self.max_read_ms),
            (Metric::Block, self.max_block_us),
            (Metric::Memory, self.max_memory),
            (Metric::Query, self.max_query_ms),
        ];
        limits.into_iter().all(|(metric, limit)| limit.is_none_or(|limit| metric.cost(row) <= limit))
    }
}

/// Rows within limits, the best by a metric first.
#[must_use]
pub fn choose<'a>(rows: &'a [Measurement], limits: &Limits, order_by: Metric) -> Vec<&'a Measurement> {
    let mut chosen: Vec<&Measurement> = rows.iter().filter(|row| limits.allow(row)).collect();
    chosen.sort_by(|one, other| order_by.cost(one).total_cmp(&order_by.cost(other)));
    chosen
}

/// The Pareto front: rows of which no other is at least as good by all metrics and better by one. The best by the first metric come first.
#[must_use]
pub fn front<'a>(rows: &'a [Measurement], metrics: &[Metric]) -> Vec<&'a Measurement> {
    let costs = |row: &Measurement| -> Vec<f64> { metrics.iter().map(|metric| metric.cost(row)).collect() };
    let mut sorted: Vec<(Vec<f64>, &Measurement)> = rows.iter().map(|row| (costs(row), row)).collect();
    let order = |one: &[f64], other: &[f64]| {
        one.iter()
            .zip(other)
            .map(|(a, b)| a.total_cmp(b))
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    };
    sorted.sort_by(|one, other| order(&one.0, &other.0));
    // In this order a row can only be beaten by one before it, and then also by one on the front.
    let mut front: Vec<(Vec<f64>, &Measurement)> = Vec::new();
    for (costs, row) in sorted {
        let beats = |other: &[f64]| other.iter().zip(&costs).all(|(a, b)| a <= b) && other != costs.as_slice();
        if !front.iter().any(|(other, _)| beats(other)) {
            front.push((costs, row));
        }
    }
    front.into_iter().map(|(_, row)| row).collect()
}

/// Rows of several columns as one row for each scheme that all columns have: sums of bytes and times, the greatest memory, the mean time of a
/// block.
#[must_use]
pub fn totals(rows: &[Measurement]) -> Vec<Measurement> {
    let mut columns: Vec<&str> = rows.iter().map(|row| row.data.as_str()).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut schemes: Vec<Measurement> = Vec::new();
    let mut counts: Vec<usize> = Vec::new();
    for row in rows {
        match schemes.iter().position(|sum| sum.scheme == row.scheme) {
            Some(place) => {
                add(&mut schemes[place], row);
                counts[place] += 1;
            }
            None => {
                schemes.push(row.clone());
                counts.push(1);
            }
        }
    }
    let whole = schemes.into_iter().zip(counts).filter(|(_, count)| *count == columns.len());
    whole.map(|(sum, count)| total(sum, count)).collect()
}

fn add(sum: &mut Measurement, row: &Measurement) {
    let both = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(one, other)| one + other);
    sum.write_time += row.write_time;
    sum.read_time += row.read_time;
    sum.test_time += row.test_time;
    sum.query_time = both(sum.query_time, row.query_time);
    sum.block_time = both(sum.block_time, row.block_time);
    sum.memory = sum.memory.max(row.memory);
    sum.bytes += row.bytes;
    sum.plain_bytes += row.plain_bytes;
    sum.data_count = sum.data_count.max(row.data_count);
    sum.is_cold &= row.is_cold;
    sum.runs = sum.runs.min(row.runs);
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people to read")]
fn total(sum: Measurement, count: usize) -> Measurement {
    if count == 1 {
        return sum;
    }
    Measurement {
        data: format!("{count} columns"),
        data_type: 0,
        comp_factor: sum.plain_bytes as f64 / sum.bytes.max(1) as f64,
        block_time: sum.block_time.map(|time| time / count as f64),
        digest: 0,
        ..sum
    }
}
