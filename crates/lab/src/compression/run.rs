//! Measures schemes on columns, one after the other: progress, budget, and results that a later run goes on with.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;

use super::column::{Column, joined};
use super::grid::Schemes;
use super::measure::measure;
use super::results::{self, Measurement};
use super::scheme::{Scheme, SchemeId};
use super::{memory, plain_bytes};
use crate::{Error, Result};

/// How often results are saved while work goes on.
const SAVE_INTERVAL: Duration = Duration::from_secs(2);

/// Data under a name: a column, or several generated lists of a kind, over which results are averaged.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// What results call it.
    pub name: String,
    /// Its lists.
    pub lists: Vec<Column>,
}

impl From<Column> for Dataset {
    fn from(column: Column) -> Dataset {
        Dataset { name: column.name().to_owned(), lists: vec![column] }
    }
}

/// How it is measured.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder for the files that are written and read. Default: that of temporary files.
    pub folder: PathBuf,
    /// Runs of each test, over which times are averaged. Default: 3.
    pub times: u32,
    /// Time to spend. Schemes are then taken at random, evenly from all codecs, until it is over. Default: none, all schemes.
    pub budget: Option<Duration>,
    /// File of results, which is gone on with if it exists. Default: none.
    pub results: Option<PathBuf>,
    /// What the choice of blocks, and of schemes within a budget, starts from. Default: 1.
    pub seed: u64,
    /// Gives unused memory back to the system before a test, so that its growth is seen.
    pub release_memory: fn(),
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            folder: std::env::temp_dir(),
            times: 3,
            budget: None,
            results: None,
            seed: 1,
            release_memory: memory::release,
        }
    }
}

/// How far the work is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Tests that are done, those of an earlier run among them.
    pub done: usize,
    /// All tests.
    pub total: usize,
    /// Estimated time until the end.
    pub time_remaining: Option<Duration>,
    /// The scheme that was measured last.
    pub scheme: &'a str,
    /// The data it was measured on.
    pub data: &'a str,
}

/// A scheme that can't hold the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedScheme {
    /// Name of the scheme.
    pub scheme: String,
    /// Name of the data.
    pub data: String,
    /// Why.
    pub reason: String,
}

/// What a run gives.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// All results of the data, those of an earlier run among them.
    pub rows: Vec<Measurement>,
    /// Schemes without a result.
    pub skipped: Vec<SkippedScheme>,
    /// Tests that the budget left no time for.
    pub remaining: usize,
}

/// Runs the statement that is measured over decoded rows, and says how long it took.
pub type Runner<'a> = &'a mut dyn FnMut(&RecordBatch) -> std::result::Result<Duration, String>;

/// Is called with the progress of a run, and may end it.
pub type Observer<'a> = &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>;

/// Measures each scheme on each of the data. A scheme that can't hold the data is skipped; one that gives back other values is an error.
///
/// # Errors
/// [`Error::Mismatch`], [`Error::Results`] for results of other data, [`Error::Stopped`] if the observer ends it: results so far are saved.
pub fn run(
    data: &[Dataset],
    schemes: &Schemes,
    settings: &Settings,
    mut runner: Option<Runner<'_>>,
    observer: Observer<'_>,
) -> Result<Outcome> {
    let mut run = BenchmarkRun::start(data, schemes, settings)?;
    let start = Instant::now();
    for (scheme, data, digest) in run.tests(data, schemes) {
        if settings.budget.is_some_and(|budget| start.elapsed() >= budget) {
            run.outcome.remaining += 1;
            continue;
        }
        run.test(scheme, data, digest, again(&mut runner))?;
        if observer(run.progress(start, scheme.id(), data)).is_break() {
            run.save()?;
            return Err(Error::Stopped);
        }
    }
    run.save()?;
    Ok(run.outcome)
}

/// The runner once more, for as long as a test takes.
fn again<'b>(runner: &'b mut Option<Runner<'_>>) -> Option<Runner<'b>> {
    match runner {
        Some(runner) => Some(&mut **runner),
        None => None,
    }
}

struct BenchmarkRun<'a> {
    settings: &'a Settings,
    outcome: Outcome,
    measured: HashSet<(String, String)>,
    digests: Vec<i64>,
    file: tempfile::TempPath,
    random: ChaCha8Rng,
    saved: Instant,
    done: usize,
    total: usize,
    weight: f64,
    weight_done: f64,
    elsewhere: Vec<Measurement>,
}

impl<'a> BenchmarkRun<'a> {
    fn start(data: &[Dataset], schemes: &Schemes, settings: &'a Settings) -> Result<BenchmarkRun<'a>> {
        let digests = data.iter().map(digest).collect::<Result<Vec<_>>>()?;
        let by_name: HashMap<&str, i64> =
            data.iter().map(|data| data.name.as_str()).zip(digests.iter().copied()).collect();
        let before = match &settings.results {
            Some(path) if path.exists() => results::load(path)?,
            _ => Vec::new(),
        };
        if let (Some(path), Some(row)) = (&settings.results, other_data(&before, &by_name)) {
            let reason = format!("its results of {:?} are of other values", row.data);
            return Err(Error::Results { path: path.clone(), reason });
        }
        let names: HashSet<&str> = schemes.iter().map(|scheme| scheme.id().name.as_str()).collect();
        let (rows, elsewhere): (Vec<_>, Vec<_>) = before
            .into_iter()
            .partition(|row| by_name.contains_key(row.data.as_str()) && names.contains(row.scheme.as_str()));
        let measured: HashSet<_> = rows.iter().map(|row| (row.data.clone(), row.scheme.clone())).collect();
        let io = Error::io(&settings.folder, "write to");
        let file = tempfile::Builder::new().prefix("splay-lab-").tempfile_in(&settings.folder).map_err(io)?;
        Ok(BenchmarkRun {
            settings,
            done: measured.len(),
            outcome: Outcome { rows, ..Outcome::default() },
            measured,
            digests,
            file: file.into_temp_path(),
            random: ChaCha8Rng::seed_from_u64(settings.seed),
            saved: Instant::now(),
            total: data.len() * schemes.len(),
            weight: 0.0,
            weight_done: 0.0,
            elsewhere,
        })
    }

    /// The tests that are to be done, in their order.
    fn tests<'b>(&mut self, data: &'b [Dataset], schemes: &'b Schemes) -> Vec<(&'b dyn Scheme, &'b Dataset, i64)> {
        let order = match self.settings.budget {
            None => (0..schemes.len()).collect(),
            Some(_) => mixed(schemes, &mut self.random),
        };
        let pairs = data
            .iter()
            .zip(&self.digests)
            .flat_map(|(data, digest)| order.iter().map(move |place| (schemes[*place].as_ref(), data, *digest)));
        let is_measured = |scheme: &dyn Scheme, data: &Dataset| {
            self.measured.contains(&(data.name.clone(), scheme.id().name.clone()))
        };
        let mut tests: Vec<_> = pairs.filter(|(scheme, data, _)| !is_measured(*scheme, data)).collect();
        if self.settings.budget.is_some() {
            // All columns of a scheme one after the other.
            let rank: HashMap<&str, usize> =
                order.iter().enumerate().map(|(rank, place)| (schemes[*place].id().name.as_str(), rank)).collect();
            tests.sort_by_key(|(scheme, ..)| rank[scheme.id().name.as_str()]);
        }
        self.weight = tests.iter().map(|(scheme, ..)| weight(scheme.id())).sum();
        tests
    }

    fn test(&mut self, scheme: &dyn Scheme, data: &Dataset, digest: i64, runner: Option<Runner<'_>>) -> Result<()> {
        match self.measured(scheme, data, digest, runner) {
            Ok(row) => self.outcome.rows.push(row),
            Err(Error::Unsupported { reason, .. }) => {
                let (scheme, data) = (scheme.id().name.clone(), data.name.clone());
                self.outcome.skipped.push(SkippedScheme { scheme, data, reason });
            }
            Err(error) => {
                self.save()?;
                return Err(error);
            }
        }
        self.done += 1;
        self.weight_done += weight(scheme.id());
        if self.saved.elapsed() >= SAVE_INTERVAL { self.save() } else { Ok(()) }
    }

    fn measured(
        &mut self,
        scheme: &dyn Scheme,
        data: &Dataset,
        digest: i64,
        mut runner: Option<Runner<'_>>,
    ) -> Result<Measurement> {
        let start = Instant::now();
        let lists = data.lists.len();
        let (mut sum, mut factor) = (of_scheme(scheme.id(), &data.name), 0.0);
        let (mut block, mut query, mut is_cold) = (Vec::new(), Vec::new(), true);
        for column in &data.lists {
            let settings = self.settings;
            let measured =
                measure(scheme, column, &self.file, settings.times, &mut self.random, settings.release_memory)?;
            let plain_bytes = column.plain_bytes()?;
            sum.write_time += milliseconds(measured.write);
            sum.read_time += milliseconds(measured.read);
            factor += ratio(plain_bytes, measured.bytes);
            sum.bytes += signed(measured.bytes);
            sum.plain_bytes += signed(plain_bytes);
            sum.memory = sum.memory.max(measured.memory.map(signed));
            is_cold &= measured.is_cold;
            block.extend(measured.block);
            if let Some(runner) = again(&mut runner) {
                let rows = rows(column, &measured.decoded)?;
                let time = runner(&rows).map_err(|reason| Error::Statement { reason })?;
                query.push(measured.read + time);
            }
        }
        let first = data.lists.first().map_or((0, 0), |column| (column.q_type(), column.rows() as u64));
        let mean = |total: f64| total / count(lists);
        Ok(Measurement {
            data_type: first.0,
            data_count: signed(first.1),
            write_time: mean(sum.write_time),
            read_time: mean(sum.read_time),
            comp_factor: mean(factor),
            test_time: milliseconds(start.elapsed()),
            query_time: mean_time(&query, 1e3),
            block_time: mean_time(&block, 1e6),
            bytes: sum.bytes / signed(lists.max(1) as u64),
            plain_bytes: sum.plain_bytes / signed(lists.max(1) as u64),
            is_cold,
            runs: signed(lists as u64) * i64::from(self.settings.times),
            digest,
            ..sum
        })
    }

    fn progress<'b>(&self, start: Instant, scheme: &'b SchemeId, data: &'b Dataset) -> Progress<'b> {
        let share = (self.weight - self.weight_done) / self.weight_done.max(1e-9);
        let time_remaining = Duration::try_from_secs_f64(start.elapsed().as_secs_f64() * share).ok();
        let time_remaining = match self.settings.budget {
            Some(budget) => Some(
                time_remaining
                    .map_or(budget, |time_remaining| time_remaining.min(budget.saturating_sub(start.elapsed()))),
            ),
            None => time_remaining,
        };
        Progress { done: self.done, total: self.total, time_remaining, scheme: &scheme.name, data: &data.name }
    }

    fn save(&mut self) -> Result<()> {
        if let Some(path) = &self.settings.results {
            let all = [&self.elsewhere[..], &self.outcome.rows[..]].concat();
            results::save(path, &all)?;
            self.saved = Instant::now();
        }
        Ok(())
    }
}

fn other_data<'a>(before: &'a [Measurement], digests: &HashMap<&str, i64>) -> Option<&'a Measurement> {
    before.iter().find(|row| digests.get(row.data.as_str()).is_some_and(|digest| *digest != row.digest))
}

/// A checksum of all values.
fn digest(data: &Dataset) -> Result<i64> {
    let mut sum = 0;
    for column in &data.lists {
        sum = crc32c::crc32c_append(sum, column.data_type().to_string().as_bytes());
        sum = crc32c::crc32c_append(sum, &plain_bytes::of(column)?.bytes);
    }
    Ok(i64::from(sum))
}

fn of_scheme(id: &SchemeId, data: &str) -> Measurement {
    Measurement {
        data: data.to_owned(),
        scheme: id.name.clone(),
        family: id.family.to_owned(),
        codec: id.codec.to_owned(),
        encoding: if id.encoding.is_empty() { "none" } else { id.encoding }.to_owned(),
        lbs: id.block_bits,
        alg: id.algorithm,
        lvl: id.level,
        block_rows: id.block_rows,
        ..Measurement::default()
    }
}

fn rows(column: &Column, decoded: &[arrow::array::ArrayRef]) -> Result<RecordBatch> {
    let schema = Schema::new(vec![Field::new(column.name(), column.data_type().clone(), true)]);
    Ok(RecordBatch::try_new(Arc::new(schema), vec![joined(decoded, column.data_type())?])?)
}

/// Places of schemes: shuffled, and one of each family and codec in turn.
fn mixed(schemes: &Schemes, random: &mut ChaCha8Rng) -> Vec<usize> {
    let mut groups: Vec<((&str, &str), Vec<usize>)> = Vec::new();
    for (place, scheme) in schemes.iter().enumerate() {
        let key = (scheme.id().family, scheme.id().codec);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, places)) => places.push(place),
            None => groups.push((key, vec![place])),
        }
    }
    groups.iter_mut().for_each(|(_, places)| places.shuffle(random));
    let most = groups.iter().map(|(_, places)| places.len()).max().unwrap_or(0);
    (0..most).flat_map(|turn| groups.iter().filter_map(move |(_, places)| places.get(turn).copied())).collect()
}

/// About how much longer a scheme takes than others: high levels search longer.
fn weight(id: &SchemeId) -> f64 {
    let above = |level: i64| id.level.map_or(0, |at| (at - level).clamp(0, 20));
    let extra = match id.codec {
        "zstd" => above(8).pow(2),
        "lz4hc" => above(8),
        "gzip" => above(6),
        "brotli" => 2 * above(4),
        _ => 0,
    };
    f64::from(i32::try_from(extra).unwrap_or(0)) + 1.0
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn mean_time(times: &[Duration], units: f64) -> Option<f64> {
    let sum: Duration = times.iter().sum();
    (!times.is_empty()).then(|| sum.as_secs_f64() * units / count(times.len()))
}

#[expect(clippy::cast_precision_loss, reason = "lists are few")]
fn count(lists: usize) -> f64 {
    lists.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people to read")]
fn ratio(plain: u64, compressed: u64) -> f64 {
    plain as f64 / compressed.max(1) as f64
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
