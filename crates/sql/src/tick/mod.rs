//! Statements that run as tick plans: recognised once, cached by their shape, bound and run on the calling thread.
//!
//! ```text
//! text ──► shape ──► cached? ──► bind constants ──► splay_engine::run ──► batches
//!                      │ no
//!                      └──► logical plan ──► recognise ──► cache (also that there is no tick plan)
//! ```
//!
//! Invariant: a tick plan gives the rows that DataFusion gives. If the engine refuses a plan while it runs,
//! DataFusion runs the statement.

mod aggregates;
mod asof;
mod by_time;
mod calls;
mod combine;
mod constants;
mod convert;
mod expressions;
mod frames;
mod grouping_sets;
mod groups;
mod join_order;
mod keys_of_rows;
mod late_values;
mod narrow;
mod outer_joins;
mod parts;
mod pivots;
mod recognise;
mod results;
mod shape;
mod shared_aggregates;
mod sizes;
mod subqueries;
mod unnest;
mod windows;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::metadata::{FieldMetadata, ScalarAndMetadata};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use splay_engine::{ExecutionContext, LookupTable, Plan, ReadStats, Reads, StepCosts, Stop};
use splay_functions::own_calendar;
use splay_functions::walk::{Walk, WalkPlan};
use splay_store::storage::ReadWatch;
use splay_store::{Database, FilesInPlace, OpenFiles, TableSnapshot, TableSpec};

use self::constants::Constants;
use self::convert::UnsupportedExpr;
pub(crate) use self::parts::{PartRan, TickPartExec, TickPartPlanner, with_tick_parts, with_tick_parts_of};
use self::recognise::{LookupSource, RecognisedPlan};
use self::results::{CachedResult, ResultKey, Results};
use self::shape::{SHAPE_BYTES_MAX, Shape};
use crate::coercion;
use crate::column_cache::{CachedFiles, ColumnCache};
use crate::dates;
use crate::error::{Error, Result};
use crate::intervals;
use crate::joins;
use crate::lifted_literals::LIFTED;
use crate::names::Spellings;
use crate::null_safe_keys;
use crate::parameters::Parameters;
use crate::read_only;
use crate::syntax::snapshot_of;

/// Most shapes in the cache.
const SHAPES_MAX: usize = 4096;

/// Most bytes of shapes that are kept. The plan of a statement takes ten times as many, of a short join some hundred times.
const SHAPES_BYTES_MAX: usize = 16 << 20;

/// The tables of a plan, and the files that are no tables.
type Sources<'a> = (&'a [TableSnapshot], &'a [Arc<dyn FilesInPlace>]);

/// A recognised statement.
#[derive(Debug)]
pub(crate) struct TickStatement {
    plan: Plan,
    constants: Constants,
    /// The side inputs, which are read first.
    sides: Vec<LookupSource>,
    /// Lookup tables in which a key may occur twice.
    lookups: Vec<Arc<LookupTable>>,
    schema: SchemaRef,
    /// The tables for which it was planned. Not snapshots: these would keep replaced files from being removed.
    tables: Vec<(String, TableSpec)>,
    /// The path or pattern of the files that it reads in place, and their columns then.
    files: Vec<(String, SchemaRef)>,
    /// The plan for joins whose small side has duplicate keys, if there is one, and whether a run has met such a key.
    with_repeated_keys: Option<Box<TickStatement>>,
    keys_repeat: AtomicBool,
    /// The engine's last refusal. An equal statement goes to DataFusion at once.
    refusal: Mutex<Option<EngineRefusal>>,
}

/// The constants and the states of tables with which the engine refused to run.
#[derive(Debug)]
struct EngineRefusal {
    question: ResultKey,
    reason: String,
}

impl TickStatement {
    fn new(recognised: RecognisedPlan, schema: SchemaRef) -> TickStatement {
        let tables = recognised.tables.iter().map(|(name, snapshot)| (name.clone(), snapshot.spec().clone())).collect();
        let files = recognised.files.iter().map(|(path, files)| (path.clone(), Arc::clone(files.schema()))).collect();
        let RecognisedPlan { plan, constants, sides, lookups, .. } = recognised;
        let (with_repeated_keys, keys_repeat, refusal) = (None, AtomicBool::new(false), Mutex::default());
        TickStatement {
            plan,
            constants,
            sides,
            lookups,
            schema,
            tables,
            files,
            with_repeated_keys,
            keys_repeat,
            refusal,
        }
    }

    /// The plan to run: once a duplicate key was met, the one for duplicate keys.
    fn preferred_plan(&self) -> &TickStatement {
        // Relaxed: a thread that doesn't see it yet meets the duplicate itself.
        match &self.with_repeated_keys {
            Some(other) if self.keys_repeat.load(Ordering::Relaxed) => other,
            _ => self,
        }
    }

    /// Runs the preferred plan over tables, with a statement's values.
    fn run_preferred(
        &self,
        sources: Sources<'_>,
        constants: Vec<ArrayRef>,
        values: &[ScalarValue],
        limits: &Limits<'_>,
    ) -> splay_engine::Result<(Vec<RecordBatch>, ReadStats)> {
        let chosen = self.preferred_plan();
        match chosen.run(sources, constants, limits) {
            Err(splay_engine::Error::RepeatedKey) if self.with_repeated_keys.is_some() => {
                self.keys_repeat.store(true, Ordering::Relaxed);
                let other = self.preferred_plan();
                let constants = other.constants.bind(values);
                let constants = constants.map_err(|_| splay_engine::Error::RepeatedKey)?;
                other.run(sources, constants, limits)
            }
            ran => ran,
        }
    }

    /// The rows, and the statistics of the reads.
    fn run(
        &self,
        sources: Sources<'_>,
        mut constants: Vec<ArrayRef>,
        limits: &Limits<'_>,
    ) -> splay_engine::Result<(Vec<RecordBatch>, ReadStats)> {
        let ran = self.run_with(sources, &mut constants, limits);
        splay_engine::release(constants);
        ran
    }

    fn run_with(
        &self,
        (tables, files): Sources<'_>,
        constants: &mut Vec<ArrayRef>,
        limits: &Limits<'_>,
    ) -> splay_engine::Result<(Vec<RecordBatch>, ReadStats)> {
        let Limits { threads, memory_bytes, stop, .. } = *limits;
        let mut reads = if limits.measures_memory { Reads::with_memory() } else { Reads::default() };
        for (number, side) in self.sides.iter().enumerate() {
            let setting = ExecutionContext { tables, files, constants, threads, memory_bytes, stop, reads };
            let rows_max = memory_bytes / 2 / side.row_bytes();
            let rows = splay_engine::run_in_one(&side.plan, &setting, &side.schema, rows_max)?;
            reads = setting.reads;
            self.constants.fill(number, rows.columns(), constants);
        }
        self.lookups.iter().try_for_each(|table| table.check(constants, threads))?;
        let setting = ExecutionContext { tables, files, constants, threads, memory_bytes, stop, reads };
        let batches = splay_engine::run(&self.plan, &setting, &self.schema)?;
        let mut read = setting.reads.into_read();
        let peaks = self.plans().map(|plan| read.steps.peak_memory_bytes(plan));
        read.peak_memory_bytes = peaks.max().unwrap_or(0);
        Ok((batches, read))
    }

    /// Its plans, with those of the side inputs first.
    fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.sides.iter().map(|side| &side.plan).chain([&self.plan])
    }

    /// Its steps as text, with their cost if it has run.
    fn describe(&self, costs: Option<&StepCosts>) -> String {
        let steps = |plan: &Plan| costs.map_or_else(|| plan.to_string(), |costs| plan.with_costs(costs).to_string());
        let chosen = self.preferred_plan();
        let sides = chosen.sides.iter().map(|side| format!("To look up in:\n{}\n", steps(&side.plan)));
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = refusal.as_ref().map(|refusal| format!("\nDataFusion ran it last: {}", refusal.reason));
        sides.chain([steps(&chosen.plan)]).chain(refused).collect()
    }

    /// The reason why the engine refused the same question before; `None` if it didn't.
    fn earlier_refusal(&self, question: impl FnOnce() -> ResultKey) -> Option<String> {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.as_ref().filter(|refusal| refusal.question == question()).map(|refusal| refusal.reason.clone())
    }
}

/// The cached result of recognising a shape.
#[derive(Debug, Clone)]
enum ShapeEntry {
    Tick(Arc<TickStatement>),
    /// Its literals must not be lifted, because they are part of the names of its columns: the original text is the shape.
    AsWritten,
    /// The reason why it doesn't run as a tick plan.
    Other(String),
}

/// Statements by shape.
#[derive(Debug)]
pub(crate) struct TickStatements {
    shapes: Mutex<Shapes>,
    results: Option<Results>,
    column_cache: Arc<ColumnCache>,
}

/// The cache of shapes.
#[derive(Debug, Default)]
struct Shapes {
    entries: HashMap<String, ShapeEntry>,
    /// The size of all shapes in bytes.
    bytes: usize,
}

impl Shapes {
    fn insert(&mut self, shape: String, entry: ShapeEntry) {
        self.remove(&shape);
        if self.entries.len() >= SHAPES_MAX || self.bytes + shape.len() > SHAPES_BYTES_MAX {
            self.entries.clear();
            self.bytes = 0;
        }
        self.bytes += shape.len();
        self.entries.insert(shape, entry);
    }

    fn remove(&mut self, shape: &str) {
        if self.entries.remove(shape).is_some() {
            self.bytes -= shape.len();
        }
    }
}

/// A statement with its shape, and the values of its parameters and lifted literals.
#[derive(Debug)]
pub(crate) struct ShapedStatement {
    key: String,
    text: String,
    names: Vec<String>,
    values: Vec<ScalarValue>,
}

impl ShapedStatement {
    /// `None` for a text that can't be recognised by its shape.
    pub fn new(text: &str, parameters: &Parameters) -> Option<ShapedStatement> {
        Some(ShapedStatement::of_shape(text, shape::shape(text)?, parameters))
    }

    /// Like `new`, without lifting literals. `None` for a text that is longer than a shape may be.
    pub fn as_written(text: &str, parameters: &Parameters) -> Option<ShapedStatement> {
        // No other shape begins like this.
        let shape = Shape { key: format!("\u{3}{text}"), literals: Vec::new() };
        (text.len() <= SHAPE_BYTES_MAX).then(|| ShapedStatement::of_shape(text, shape, parameters))
    }

    fn of_shape(text: &str, shape: Shape, parameters: &Parameters) -> ShapedStatement {
        let lifted = shape.literals.len();
        let text = if lifted == 0 { text.to_owned() } else { shape::with_parameters(&shape) };
        let Shape { mut key, literals } = shape;
        let mut names: Vec<String> = (0..lifted).map(|number| format!("{LIFTED}{number}")).collect();
        let mut values = literals;
        let named: Vec<(String, &ScalarValue)> = match parameters {
            Parameters::None => Vec::new(),
            Parameters::Positional(values) => {
                values.iter().enumerate().map(|(number, value)| ((number + 1).to_string(), value)).collect()
            }
            Parameters::Named(values) => {
                let sorted: BTreeMap<String, &ScalarValue> =
                    values.iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
                sorted.into_iter().collect()
            }
        };
        for (name, value) in named {
            key.push_str(&format!("\u{2}{name}:{}", value.data_type()));
            names.push(name);
            values.push(value.clone());
        }
        ShapedStatement { key, text, names, values }
    }

    /// Values that are marked with the number of their parameter.
    fn numbered_values(&self) -> ParamValues {
        let marked = self.names.iter().zip(&self.values).enumerate().map(|(number, (name, value))| {
            let mark = BTreeMap::from([(LIFTED.to_owned(), number.to_string())]);
            let value = if name.starts_with(LIFTED) { item(value) } else { value.clone() };
            (name.clone(), ScalarAndMetadata::new(value, Some(FieldMetadata::new(mark))))
        });
        ParamValues::Map(marked.collect())
    }
}

/// The value that represents a literal in a plan: for a list its first item, which has the type of all items.
fn item(value: &ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::List(list) => ScalarValue::try_from_array(&list.value(0), 0).unwrap_or(ScalarValue::Null),
        other => other.clone(),
    }
}

/// The query of an `EXPLAIN`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExplainQuery<'a> {
    /// `explain`, which only shows the plan.
    Planned(&'a str),
    /// `explain analyze`, which runs the query.
    Run(&'a str),
}

impl<'a> ExplainQuery<'a> {
    /// `None` for other statements, and for those that request a particular form of DataFusion's plan.
    pub fn of(text: &'a str) -> Option<ExplainQuery<'a>> {
        let (first, mut rest) = word(text)?;
        if first != "explain" {
            return None;
        }
        let mut is_run = false;
        for (modifier, runs) in [("analyze", true), ("verbose", false)] {
            if let Some((_, behind)) = word(rest).filter(|(word, _)| word == modifier) {
                rest = behind;
                is_run |= runs;
            }
        }
        match word(rest)?.0.as_str() {
            "select" | "with" if is_run => Some(ExplainQuery::Run(rest)),
            "select" | "with" => Some(ExplainQuery::Planned(rest)),
            _ => None,
        }
    }
}

/// The first word of a text in lower case, after comments, and the text behind it.
fn word(text: &str) -> Option<(String, &str)> {
    let text = shape::behind_blanks(text)?;
    let (word, rest) = text.split_at(text.find(|c: char| !c.is_ascii_alphabetic())?);
    Some((word.to_ascii_lowercase(), rest))
}

/// The resources that a statement may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits<'a> {
    /// Opens files that are no tables; `None` where none may be read.
    pub files: Option<&'a dyn OpenFiles>,
    /// Most threads.
    pub threads: usize,
    /// Memory limit of rows, in bytes.
    pub memory_bytes: usize,
    /// Cancellation.
    pub stop: Stop<'a>,
    /// Whether a cached answer may be returned.
    pub takes_kept: bool,
    /// Whether the memory of each step is measured.
    pub measures_memory: bool,
}

/// The outcome of running a statement.
#[derive(Debug)]
pub(crate) enum RunOutcome {
    /// Its rows.
    Rows(SchemaRef, CachedResult),
    /// The statement has no tick plan, or its values can't be bound.
    Not,
    /// The engine refused its tick plan, for this reason.
    Refused(String),
    /// Its shape isn't in the cache.
    Unknown,
    /// The cache entry is under the original text.
    AsWritten,
}

impl TickStatements {
    /// Empty caches: of plans, of answers up to `result_bytes`, and of columns of files up to `file_bytes`; none of these if that is 0.
    pub fn new(result_bytes: usize, file_bytes: usize) -> TickStatements {
        let column_cache = Arc::new(ColumnCache::new(file_bytes));
        TickStatements { shapes: Mutex::default(), results: Results::new(result_bytes), column_cache }
    }

    /// Runs a statement whose shape is in the cache.
    ///
    /// # Errors
    /// [`Error::Store`] for damaged bytes, [`Error::Cancelled`].
    pub fn run(&self, query: &ShapedStatement, database: &Database, limits: &Limits<'_>) -> Result<RunOutcome> {
        let entry = self.shapes.lock().unwrap_or_else(PoisonError::into_inner).entries.get(&query.key).cloned();
        let statement = match entry {
            None => return Ok(RunOutcome::Unknown),
            Some(ShapeEntry::Other(_)) => return Ok(RunOutcome::Not),
            Some(ShapeEntry::AsWritten) => return Ok(RunOutcome::AsWritten),
            Some(ShapeEntry::Tick(statement)) => statement,
        };
        let mut tables = Vec::with_capacity(statement.tables.len());
        for (name, planned) in &statement.tables {
            let snapshot = match snapshot_of(database, name) {
                Ok(snapshot) => snapshot,
                Err(splay_store::Error::NoSuchTable { .. }) => return Ok(self.forget(query)),
                Err(error) => return Err(Error::Store(error)),
            };
            if snapshot.spec() != planned {
                return Ok(self.forget(query));
            }
            tables.push(snapshot);
        }
        let mut files = Vec::with_capacity(statement.files.len());
        for (path, planned) in &statement.files {
            // A table or view of the name comes before the file.
            let is_table = !matches!(snapshot_of(database, path), Err(splay_store::Error::NoSuchTable { .. }));
            if is_table || matches!(database.view(path), Ok(Some(_))) {
                return Ok(self.forget(query));
            }
            // What is wrong with files is reported by planning.
            let opened = limits.files.and_then(|opener| opener.open(path, limits.threads, None).ok());
            let Some(opened) = opened.filter(|opened| opened.schema() == planned) else {
                return Ok(self.forget(query));
            };
            let opened = CachedFiles::new(opened, path, Arc::clone(&self.column_cache));
            files.push(Arc::new(opened) as Arc<dyn FilesInPlace>);
        }
        // DataFusion reports values that can't be bound.
        let constants = match statement.preferred_plan().constants.bind(&query.values) {
            Ok(constants) => constants,
            Err(_) => return Ok(RunOutcome::Not),
        };
        let question = || {
            // The name may belong to another table by now.
            let state = |table: &TableSnapshot| (Arc::clone(table.folder()), table.epoch(), table.live());
            let states = tables.iter().map(state).collect();
            ResultKey { shape: query.key.clone(), values: query.values.clone(), states }
        };
        if let Some(reason) = statement.earlier_refusal(question) {
            return Ok(RunOutcome::Refused(reason));
        }
        // Nothing tells that a file is still the one that was read.
        let results = self.results.as_ref().filter(|_| files.is_empty());
        let cache_key = results.map(|results| (results, question()));
        let cached_result =
            cache_key.as_ref().filter(|_| limits.takes_kept).and_then(|(results, cache_key)| results.get(cache_key));
        // Columns of a cached answer may be slices of files that can't be read any more.
        if let Some(cached_result) =
            cached_result.filter(|(_, _, watches)| watches.iter().all(|watch| watch.check().is_ok()))
        {
            return Ok(RunOutcome::Rows(Arc::clone(&statement.schema), cached_result));
        }
        let ran = statement.run_preferred((&tables, &files), constants, &query.values, limits);
        match ran {
            Ok((batches, read)) => {
                let watches: Vec<ReadWatch> = tables.iter().map(|table| table.watch().clone()).collect();
                watches.iter().try_for_each(ReadWatch::check).map_err(Error::Store)?;
                let cached_result = (batches, read, watches);
                if let Some((results, cache_key)) = cache_key {
                    results.put(cache_key, &cached_result);
                }
                Ok(RunOutcome::Rows(Arc::clone(&statement.schema), cached_result))
            }
            Err(splay_engine::Error::Store(error)) => Err(Error::Store(error)),
            Err(splay_engine::Error::Stopped) => Err(Error::Cancelled),
            Err(error) => {
                let reason = error.to_string();
                // The available memory differs from run to run.
                if !matches!(error, splay_engine::Error::Memory { .. }) {
                    let refusal = EngineRefusal { question: question(), reason: reason.clone() };
                    *statement.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
                }
                Ok(RunOutcome::Refused(reason))
            }
        }
    }

    /// Describes the cached plan of a statement as text, with the cost of its steps if it has run; `None` if only the
    /// text with its literals may be cached.
    pub fn describe(&self, query: &ShapedStatement, costs: Option<&StepCosts>) -> Option<String> {
        Some(match self.shapes.lock().unwrap_or_else(PoisonError::into_inner).entries.get(&query.key) {
            Some(ShapeEntry::Tick(statement)) => statement.describe(costs),
            Some(ShapeEntry::Other(reason)) => format!("none, because of {reason}"),
            Some(ShapeEntry::AsWritten) => return None,
            None => "none".to_owned(),
        })
    }

    fn forget(&self, query: &ShapedStatement) -> RunOutcome {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).remove(&query.key);
        RunOutcome::Unknown
    }

    /// Plans a statement and caches the outcome by its shape. An error of planning isn't cached, since a missing table may be created later; it
    /// is returned as text.
    pub async fn learn(&self, query: &ShapedStatement, state: &SessionState) -> Result<(), String> {
        let entry = match logical_plan(query, state).await {
            Ok((plan, _)) if plan.schema().fields().iter().any(|field| field.name().contains(LIFTED)) => {
                ShapeEntry::AsWritten
            }
            Ok(plan) => match recognise(plan, state) {
                Ok(statement) => ShapeEntry::Tick(Arc::new(statement)),
                Err(UnsupportedExpr(reason)) => ShapeEntry::Other(reason),
            },
            Err(error) => match error.to_string() {
                // Planning uses the value of a literal, for example of a pivot.
                error if error.contains(LIFTED) => ShapeEntry::AsWritten,
                error => return Err(error),
            },
        };
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).insert(query.key.clone(), entry);
        Ok(())
    }
}

/// The plan with resolved names and marked parameters, and the spelling of names in the statement.
async fn logical_plan(
    query: &ShapedStatement,
    state: &SessionState,
) -> datafusion::error::Result<(LogicalPlan, Spellings)> {
    let (folded, mut spellings) =
        Spellings::fold(&query.text).map_err(|error| DataFusionError::External(error.into()))?;
    let (plan, written) = match joins::rewrite(&folded).map_err(DataFusionError::Plan)? {
        Some(rewritten) => read_only::plan(state, &rewritten, true).await?,
        None => read_only::plan(state, &folded, false).await?,
    };
    spellings.add_statement(written);
    Ok((plan.with_param_values(query.numbered_values())?, spellings))
}

fn recognise(
    (plan, mut spellings): (LogicalPlan, Spellings),
    state: &SessionState,
) -> Result<TickStatement, UnsupportedExpr> {
    let unknown_plan = |error: DataFusionError| UnsupportedExpr(error.to_string());
    if has_own_calendar(&plan).map_err(unknown_plan)? {
        return convert::unknown("a trading calendar that is a table, which a cached plan would read at one commit");
    }
    let options = state.config_options();
    let coerced =
        dates::compute(plan).and_then(coercion::prepare).and_then(|plan| TypeCoercion::new().analyze(plan, options));
    let coerced = coerced.and_then(intervals::by_length).and_then(null_safe_keys::keep_apart);
    let plan = coerced.map_err(unknown_plan)?;
    crate::names::learn_columns(&plan, &mut spellings).map_err(unknown_plan)?;
    let schema = spellings.restore(&without_marks(plan.schema().as_arrow()));
    let recognised = recognise::recognise(&plan, options, false)?;
    let assumes_unique = recognised.assumes_unique;
    let mut statement = TickStatement::new(recognised, Arc::clone(&schema));
    if assumes_unique {
        let other = TickStatement::new(recognise::recognise(&plan, options, true)?, schema);
        // Both plans run over the same snapshots, by number.
        statement.with_repeated_keys =
            (other.tables == statement.tables && other.files == statement.files).then(|| Box::new(other));
    }
    Ok(statement)
}

/// Whether a plan uses a calendar that is a table, in the state that it had at planning.
fn has_own_calendar(plan: &LogicalPlan) -> datafusion::error::Result<bool> {
    let mut has_calendar = false;
    plan.walk_steps(|step| {
        step.walk_expressions(|expr| {
            has_calendar |= Walk::exists(expr, |expr| {
                Ok(matches!(expr, Expr::ScalarFunction(call) if own_calendar(&call.func).is_some()))
            })?;
            Ok(if has_calendar { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(has_calendar)
}

/// The schema without the marks of lifted literals.
fn without_marks(schema: &arrow::datatypes::Schema) -> arrow::datatypes::Schema {
    let fields = schema.fields().iter().map(|field| {
        let mut metadata = field.metadata().clone();
        match metadata.remove(LIFTED) {
            Some(_) => Arc::new(field.as_ref().clone().with_metadata(metadata)),
            None => Arc::clone(field),
        }
    });
    arrow::datatypes::Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())
}
