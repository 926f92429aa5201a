//! Advice on the tiers of a table: predicted size and read speed in each tier, measured on samples of its rows by the
//! encoders and decoders of its files.
//!
//! - Samples are runs of rows, chosen only by the numbers of rows: the same table gives the same sizes. Times are
//!   measured, and vary from run to run.
//! - Memory: the rows of one sample, at most [`sample::BYTES_MAX`], and their bytes in one tier at a time.
//! - Time: no sample begins after the budget is used up, except the first.
//! - Only [`Table::apply`] writes, and only the table's rules.

mod json;
mod measure;
mod policy;
mod reason;
mod sample;
#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::database::{Table, TableSnapshot};
use crate::error::Result;
use crate::load::periods::fitting_period;
use crate::schema::TierRule;
use crate::segment::Segment;
use crate::tier::Tier;
use measure::Totals;

/// Tiers that are measured: those of the database's folder. Figures by tier have their order.
const TIERS: [Tier; 4] = Tier::LOCAL;

/// The goal for which a table's storage is optimised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// The fewest bytes.
    Size,
    /// The fastest statements.
    Speed,
    /// Fast statements over new dates, few bytes for old ones.
    Balanced,
}

impl Goal {
    /// The goal's name in settings and commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Goal::Size => "size",
            Goal::Speed => "speed",
            Goal::Balanced => "balanced",
        }
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Goal, String> {
        let goals = [Goal::Size, Goal::Speed, Goal::Balanced];
        let named = goals.into_iter().find(|goal| goal.name().eq_ignore_ascii_case(text.trim()));
        named.ok_or_else(|| format!("{text:?} is not a goal; there are size, speed, balanced"))
    }
}

/// Settings of an analysis.
#[derive(Debug, Clone)]
pub struct AdviseSettings {
    /// The goal.
    pub goal: Goal,
    /// How long samples are measured. Fewer of them make predictions less certain.
    pub budget: Duration,
    /// Memory of the machine, in which mapped files are kept by the system as far as there is room; `None` if that doesn't matter.
    pub memory_bytes: Option<u64>,
    /// Most segments that a sample is taken of.
    pub segments_max: usize,
    /// Most rows of a sample. Segments of no more rows are measured whole.
    pub rows_max: usize,
}

impl Default for AdviseSettings {
    fn default() -> AdviseSettings {
        AdviseSettings {
            goal: Goal::Balanced,
            budget: Duration::from_secs(20),
            memory_bytes: None,
            segments_max: 8,
            rows_max: 1 << 17,
        }
    }
}

/// Advice on the storage of a table, with reasons.
#[derive(Debug, Clone)]
pub struct Advice {
    /// The table.
    pub table: String,
    /// The goal.
    pub goal: Goal,
    /// Rows in the table's files. All that follows is of these.
    pub rows: u64,
    /// Bytes of the files and their indexes.
    pub bytes: u64,
    /// Segments that were sampled.
    pub segments_sampled: usize,
    /// Segments of the table.
    pub segments: usize,
    /// Rows that were measured.
    pub rows_sampled: u64,
    /// The whole table in each tier.
    pub tiers: Vec<TierAdvice>,
    /// Columns in the table's order.
    pub columns: Vec<ColumnAdvice>,
    /// The bytes of files beside their columns: schema, footer, and in mapped ones the texts of dictionaries.
    pub beside: PartAdvice,
    /// The indexes.
    pub index: PartAdvice,
    /// The advised rules, which would replace those of the table. None if the table has no rows.
    pub rules: Vec<TierRule>,
    /// Bytes that the table's dates would take by these rules, at their ages of now.
    pub bytes_advised: u64,
    /// Why, a sentence each.
    pub reasons: Vec<String>,
}

/// The bytes of the whole table in a tier.
#[derive(Debug, Clone, PartialEq)]
pub struct TierAdvice {
    /// The tier.
    pub tier: Tier,
    /// Bytes of files and indexes.
    pub bytes: u64,
    /// Seconds in which one core reads all values of all columns once, from memory; `None` if too few rows were sampled to tell.
    pub read_seconds: Option<f64>,
}

/// The bytes of a column in each tier.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnAdvice {
    /// Its name.
    pub column: String,
    /// Its type.
    pub column_type: String,
    /// Bytes a row as the sampled segments have it now.
    pub now: f64,
    /// In each of the tiers `mapped`, `fast`, `small`, `dense`.
    pub tiers: [ColumnInTier; 4],
    /// Why the column is small or not, and what its compression costs.
    pub reason: String,
}

/// A column in a tier.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnInTier {
    /// Bytes a row.
    pub bytes: f64,
    /// How it is kept: type in the file, encodings, codec.
    pub encoding: String,
    /// Bytes of values, in units of 10^9, that one core reads in a second from memory; `None` if too few rows were sampled to tell.
    pub gb_per_second: Option<f64>,
}

/// Bytes a row of something that isn't a column.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PartAdvice {
    /// Bytes a row in the tiers that the sampled segments are in now.
    pub now: f64,
    /// In each of the tiers `mapped`, `fast`, `small`, `dense`.
    pub tiers: [f64; 4],
}

impl Table {
    /// Measures samples of the table's rows in each tier, and says which rules by age suit a goal. Rows that are in no file yet don't count.
    /// Dates in the object store are sampled only if all dates are in the object store.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) where the bytes are not what was written.
    pub fn advise(&self, settings: &AdviseSettings) -> Result<Advice> {
        let snapshot = self.stored()?;
        let segments = segments_of(&snapshot);
        let rows: Vec<u64> = segments.iter().map(|segment| segment.entry().rows).collect();
        let begin = Instant::now();
        let mut totals = Totals::new(snapshot.spec());
        for place in sample::places(&rows, settings.segments_max) {
            if totals.segments() > 0 && begin.elapsed() >= settings.budget {
                break;
            }
            let segment = segments[place.segment];
            let sampled = sample::read(segment, snapshot.spec(), settings.rows_max)?;
            // Fails if some of the mapped bytes couldn't be read.
            snapshot.watch().check()?;
            totals.add(snapshot.spec(), segment, &sampled, place.weight)?;
        }
        let mut advice = advice(&snapshot, settings, &totals);
        advice.reasons.extend(longer_partitions(&snapshot)?);
        Ok(advice)
    }

    /// Replaces the table's rules by those of an advice. Dates move when the table is compacted or maintained.
    ///
    /// # Errors
    /// Those of [`Table::set_tier`]; [`Error::Schema`](crate::Error::Schema) for an advice without rules, which an empty table gets.
    pub fn apply(&self, advice: &Advice) -> Result<()> {
        if advice.rules.is_empty() {
            return Err(self
                .stored()?
                .spec()
                .error("it has no rows in files from which rules could be derived".to_owned()));
        }
        self.change_lifecycle(|lifecycle| {
            // A rule that was set while samples were measured stays as well.
            let objects = lifecycle.tiers.iter().copied().filter(|rule| rule.tier == Tier::Object);
            lifecycle.tiers = policy::with_objects(advice.rules.clone(), &objects.collect::<Vec<_>>());
        })
    }
}

/// The segments that samples may be taken of.
fn segments_of(snapshot: &TableSnapshot) -> Vec<&Segment> {
    let all = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter());
    let all: Vec<&Segment> =
        all.map(AsRef::as_ref).filter(|segment| segment.entry().rows > 0 && !segment.is_in_memory()).collect();
    let is_local = |segment: &&&Segment| segment.entry().tier != Tier::Object;
    let local: Vec<&Segment> = all.iter().filter(is_local).copied().collect();
    if local.is_empty() { all } else { local }
}

/// A sentence about partitions that are too short for their rows, as those of a table that was loaded night by night may be.
fn longer_partitions(snapshot: &TableSnapshot) -> Result<Option<String>> {
    let (spec, partitions) = (snapshot.spec(), snapshot.partitions());
    let Some(fullest) = partitions.iter().max_by_key(|partition| partition.rows()).filter(|_| spec.partition.is_day())
    else {
        return Ok(None);
    };
    let symbols = fullest.segments.iter().map(|segment| segment.index()?.symbols()).collect::<Result<Vec<_>>>()?;
    let symbols = symbols.into_iter().max().unwrap_or(1);
    let dates: Vec<i32> = partitions.iter().map(|partition| partition.date).collect();
    let period = fitting_period(&dates, snapshot.rows(), symbols as u64);
    let name = &spec.name;
    Ok((!period.is_day()).then(|| {
        format!(
            "a date has {} rows of {symbols} symbols: partitions of a {period} have a shorter index and are read faster \
             (ALTER TABLE {name} PARTITION BY {})",
            snapshot.rows() / dates.len().max(1) as u64,
            period.to_string().to_uppercase(),
        )
    }))
}

fn advice(snapshot: &TableSnapshot, settings: &AdviseSettings, totals: &Totals) -> Advice {
    let (spec, rows) = (snapshot.spec(), snapshot.rows());
    let shown = spec.shown_columns().len();
    let tiers: Vec<TierAdvice> = TIERS
        .into_iter()
        .enumerate()
        .map(|(at, tier)| TierAdvice {
            tier,
            bytes: whole(totals.bytes_per_row(at) * rows as f64),
            read_seconds: totals.seconds_per_row(at).map(|seconds| seconds * rows as f64),
        })
        .collect();
    let columns = if totals.segments() == 0 { Vec::new() } else { totals.columns(spec, shown) };
    let policy = policy::advise(settings, snapshot, &tiers);
    let bytes_advised = policy::bytes(snapshot, &policy.rules, &tiers);
    Advice {
        table: spec.name.clone(),
        goal: settings.goal,
        rows,
        bytes: snapshot.bytes(),
        segments_sampled: totals.segments(),
        segments: snapshot.partitions().iter().map(|partition| partition.segments.len()).sum(),
        rows_sampled: totals.rows(),
        tiers,
        columns,
        beside: totals.beside(),
        index: totals.index(),
        rules: policy.rules,
        bytes_advised,
        reasons: policy.reasons,
    }
}

/// A number of bytes that was computed.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes are positive, and far below 2^53")]
fn whole(bytes: f64) -> u64 {
    bytes.round() as u64
}
