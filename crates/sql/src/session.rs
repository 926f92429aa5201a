//! Sessions: from the text of a statement to its answer.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::TaskContext;
use datafusion::execution::context::{SessionConfig, SessionContext};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::optimizer::Analyzer;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream_partitioned};
use futures::StreamExt;
use splay_engine::{Read, StepCosts, Stop};
use splay_store::{Database, Kept, SelectionStats, View};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::access::{Caller, Guard, ShowStatement};
use crate::answer::{Answer, Source, Threads, Watches};
use crate::bounds::{self, BoundFunctions, Bounds};
use crate::coercion::PrepareCoercion;
use crate::correlated::JoinCorrelated;
use crate::dates::ComputeDates;
use crate::dictionaries::Distinct;
use crate::error::{Error, Result};
use crate::files::FileTable;
use crate::functions;
use crate::in_select::JoinInSelect;
use crate::intervals::CompareIntervals;
use crate::joins;
use crate::limits;
use crate::materialized::{self, Materialized, ViewReads};
use crate::memory::{AnswerMemory, StatementPool, TotalMemory};
use crate::names::{Spellings, text_in_double_quotes};
use crate::null_safe_keys::NullSafeKeys;
use crate::numbers::Numbers;
use crate::one_nan::OneNan;
use crate::pivot::PivotPlanner;
use crate::pivot_statement::{self, PivotStatement};
use crate::placeholders;
use crate::planner::{self, TickQueryPlanner};
use crate::postgres;
use crate::provider::{TickRowOrder, TickSchema, TickTable};
use crate::query_values::QueryValues;
use crate::read_only;
use crate::semi_joins::DistinctInnerSide;
use crate::summary::Summary;
use crate::tick::{Explained, Given, Limits, Ran, TickStatements, with_tick_parts};
use crate::unpivot::UnpivotPlanner;
use crate::views;
use crate::waiting::{self, Waiting};
use crate::walk::WalkPlan;

/// Batches that wait between execution and the reader of an answer.
const BATCHES_WAITING: usize = 4;

/// Times that a statement is planned with kept rows of materialized views whose tables change meanwhile.
const PLANNED_ANEW_MAX: usize = 3;

/// Part of a statement's memory that batches may take which wait in one place.
const WAITING_PART: usize = 32;

/// Most keys of a join's small side that narrow the scan of its large one each by itself, and the bytes that they may take.
const JOIN_KEYS_MAX: usize = 20_000;
const JOIN_KEYS_BYTES_MAX: usize = 1 << 20;

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// Bytes that a statement's sorts, joins and groups may hold before they spill or fail. Default 4 GiB.
    pub memory_bytes: usize,
    /// Bytes that all statements together may hold. One that asks for more than is left gets [`Error::TotalMemory`]. Default: no bound
    /// but that of each statement.
    pub total_memory_bytes: usize,
    /// Streams that a statement is read in. Default: as many as the machine runs at once.
    pub threads: usize,
    /// Rows of a batch. Larger ones cost less per row, smaller ones keep more in cache. Default 8,192.
    pub batch_rows: usize,
    /// Whether statements that are recognised run as tick plans. Without, DataFusion runs all of them. Default true.
    pub tick_plans: bool,
    /// Bytes of answers of tick plans that are kept for the next time the same is asked of the same state of the tables.
    /// Default 0: none.
    pub result_cache_bytes: usize,
    /// Whether the memory of each step of a tick plan is measured, which costs some microseconds and more for answers of many pieces.
    /// `explain analyze` always does. Default false.
    pub measure_memory: bool,
    /// Whether statements may read files, by quoted paths in the place of tables. Default false.
    pub files: bool,
}

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        SessionSettings {
            memory_bytes: 4 << 30,
            total_memory_bytes: usize::MAX,
            threads,
            batch_rows: 8192,
            tick_plans: true,
            result_cache_bytes: 0,
            measure_memory: false,
            files: false,
        }
    }
}

/// Values for the placeholders of a statement: `$1`, `$2` or `$name`.
#[derive(Debug, Clone, Default)]
pub enum Parameters {
    /// The statement has none.
    #[default]
    None,
    /// By position, from `$1`.
    Positional(Vec<ScalarValue>),
    /// By name.
    Named(HashMap<String, ScalarValue>),
}

/// What a statement would give.
#[derive(Debug, Clone)]
pub struct Description {
    /// Columns of the answer. One that only shows whether it can be null when it runs may differ in that.
    pub schema: SchemaRef,
    /// Its placeholders in order, `$1` or `$name`, with the types that their places ask for, if they ask for one.
    pub parameters: Vec<(String, Option<DataType>)>,
}

/// Runs statements against a database. Clones share it.
#[derive(Clone)]
pub struct Session {
    database: Database,
    settings: SessionSettings,
    states: Arc<dyn StatementStates>,
    threads: Arc<Threads>,
    statements: Arc<TickStatements>,
    memory: Arc<TotalMemory>,
    materialized: Arc<Materialized>,
    /// Whether it has PostgreSQL's catalogue.
    has_catalogue: bool,
    caller: Caller,
}

/// DataFusion's state: functions, rules and the catalog.
///
/// A trait object, since the compiler proves for each future that holds a session that it can go to another thread, and would look
/// into each type of DataFusion's and of the SQL parser's for that: half a minute in the server alone.
trait StatementStates: Send + Sync {
    /// The state that all statements share, for what doesn't ask for the time: parsing, and the resolution of names and types.
    fn shared(&self) -> Arc<SessionState>;

    /// A state for one statement, whose `now()` is the time of this call. Copies the tables of functions, some 100 microseconds.
    fn of_statement(&self) -> SessionState;
}

impl StatementStates for Arc<SessionState> {
    fn shared(&self) -> Arc<SessionState> {
        Arc::clone(self)
    }

    fn of_statement(&self) -> SessionState {
        let mut state = SessionState::clone(self);
        state.mark_start_execution();
        state
    }
}

/// The memory pool of a statement, and where its peak can be read.
type Memory = (Arc<dyn MemoryPool>, Arc<AtomicUsize>);

/// What a tick plan is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Its rows, which may have been kept.
    Rows,
    /// What its steps cost.
    Costs,
}

/// What came of running a statement as a tick plan.
#[expect(clippy::large_enum_variant, reason = "there is one a statement")]
enum Ticked {
    Answer(Answer),
    /// It has none, or the engine refused it for this reason.
    No(Option<String>),
}

/// A statement that DataFusion planned, ready to run.
struct Planned {
    plan: Arc<dyn ExecutionPlan>,
    state: Arc<SessionState>,
    watches: Watches,
    planning: Duration,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("database", &self.database).finish_non_exhaustive()
    }
}

impl Session {
    /// A session.
    ///
    /// # Errors
    /// [`Error::Internal`] if threads can't be started.
    pub fn new(database: Database, settings: SessionSettings) -> Result<Session> {
        let threads = Arc::new(Threads::start(settings.threads)?);
        let (state, tables) = state(&database, &settings, false, None)?;
        let state = Arc::new(state);
        tables.plan_views_in(&state);
        let states = Arc::new(state);
        let statements = Arc::new(TickStatements::new(settings.result_cache_bytes));
        let memory = Arc::new(TotalMemory::new(settings.total_memory_bytes));
        let (materialized, caller) = (Arc::default(), Caller::owner());
        Ok(Session {
            database,
            settings,
            states,
            threads,
            statements,
            memory,
            materialized,
            has_catalogue: false,
            caller,
        })
    }

    /// A session over the same database, threads and memory, in which there are the tables, functions and casts of PostgreSQL's catalogue
    /// (`postgres/`). Answers aren't kept.
    ///
    /// # Errors
    /// [`Error::Internal`] if it can't be set up.
    pub fn for_postgres(&self) -> Result<Session> {
        let (state, tables) = state(&self.database, &self.settings, true, self.caller.guard.clone())?;
        let state = Arc::new(state);
        tables.plan_views_in(&state);
        let (states, statements) = (Arc::new(state), Arc::new(TickStatements::new(0)));
        Ok(Session { states, statements, has_catalogue: true, ..self.clone() })
    }

    /// A session over the same database, threads and memory that sees what a guard lets through.
    pub(crate) fn guarded(&self, guard: Arc<Guard>) -> Result<Session> {
        let caller =
            Caller { guard: Some(Arc::clone(&guard)), user: None, manages_users: false, changes_password: false };
        if caller.veil().is_none() && !self.settings.files {
            return Ok(self.for_caller(caller));
        }
        let settings = SessionSettings { files: false, result_cache_bytes: 0, ..self.settings.clone() };
        let (state, tables) = state(&self.database, &settings, self.has_catalogue, Some(guard))?;
        let state = Arc::new(state);
        tables.plan_views_in(&state);
        let (states, statements) = (Arc::new(state), Arc::new(TickStatements::new(0)));
        Ok(Session { settings, states, statements, materialized: Arc::default(), caller, ..self.clone() })
    }

    /// The same session on behalf of somebody.
    pub(crate) fn for_caller(&self, caller: Caller) -> Session {
        Session { caller, ..self.clone() }
    }

    pub(crate) fn is_with_catalogue(&self) -> bool {
        self.has_catalogue
    }

    /// On whose behalf statements run.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The text of a statement with numbered placeholders and known forms.
    fn prepared<'a>(&self, text: &'a str) -> Result<Cow<'a, str>> {
        let numbered = placeholders::numbered(text)?;
        if !self.has_catalogue {
            return Ok(numbered);
        }
        Ok(match numbered {
            Cow::Borrowed(text) => postgres::rewritten(text),
            Cow::Owned(text) => Cow::Owned(postgres::rewritten(&text).into_owned()),
        })
    }

    /// The database it reads.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Bytes that statements hold, those whose answers are being read among them.
    #[must_use]
    pub fn memory_reserved(&self) -> usize {
        self.memory.reserved()
    }

    /// Plans a statement and starts it.
    ///
    /// # Errors
    /// [`Error::Statement`] for text that can't be planned, [`Error::ReadOnly`] for a statement that would change something.
    /// What goes wrong later comes out of the [`Answer`].
    pub fn sql(&self, text: &str, parameters: Parameters) -> Result<Answer> {
        self.sql_until(text, parameters, Stop::NEVER)
    }

    /// The same, which gives up when `stop` says so. A statement that runs as a tick plan does its work within this call; of others
    /// the answer is waited for, and dropping it stops them.
    ///
    /// # Errors
    /// Those of [`Session::sql`], and [`Error::Cancelled`].
    pub fn sql_until(&self, text: &str, parameters: Parameters, stop: Stop<'_>) -> Result<Answer> {
        limits::check_text(text)?;
        let text = &*self.prepared(text)?;
        if let Some(shown) = ShowStatement::of(text) {
            return Ok(self.answer_of(vec![self.show_users(&shown)?], Instant::now()));
        }
        if let Some(summary) = Summary::of(text) {
            return self.summarize(&summary, &parameters, stop);
        }
        let spelt = match PivotStatement::of(text)? {
            None => None,
            Some(statement) => Some(self.with_values(&statement, &parameters, stop)?),
        };
        let text = spelt.as_deref().unwrap_or(text);
        for _ in 0..PLANNED_ANEW_MAX {
            let views = self.views();
            let rewritten = self.rewritten(&views, text, stop);
            let (expanded, reads) = self.with_views(&views, &rewritten, stop)?;
            if reads.is_empty() {
                return self.run_expanded(&expanded, parameters, stop);
            }
            let answer = self.run_expanded(&expanded, parameters.clone(), stop)?;
            if reads.hold(self) {
                return Ok(answer);
            }
        }
        // The tables change faster than statements are planned: without the rows that are kept.
        let text = &*views::with_views(&self.views(), text, &mut views::as_written)?;
        self.run_expanded(text, parameters, stop)
    }

    /// The views of the database that may be read. Damage is told to those who read a name that no table has.
    fn views(&self) -> Arc<[View]> {
        let views = self.database.views().unwrap_or_default();
        match self.caller.veil() {
            None => views,
            Some(guard) => views.iter().filter(|view| guard.reads_view(view)).cloned().collect(),
        }
    }

    /// A statement with materialized views in the place of tables whose questions they answer. Their rows are those of who sees all.
    fn rewritten<'t>(&self, views: &[View], text: &'t str, stop: Stop<'_>) -> Cow<'t, str> {
        match self.caller.veil() {
            None => materialized::rewritten(self, views, text, stop),
            Some(_) => Cow::Borrowed(text),
        }
    }

    /// A statement with the queries of its views, and the materialized ones that it reads.
    fn with_views<'t>(&self, views: &[View], text: &'t str, stop: Stop<'_>) -> Result<(Cow<'t, str>, ViewReads)> {
        let mut reads = ViewReads::default();
        let text = views::with_views(views, text, &mut |view| match view.materialized {
            Some(_) if self.caller.veil().is_none() => self.materialized.query(self, view, &mut reads, stop),
            _ => views::as_written(view),
        })?;
        Ok((text, reads))
    }

    /// How the rows of materialized views stand.
    pub(crate) fn materialized(&self) -> &Materialized {
        &self.materialized
    }

    /// Runs a statement that has the queries of its views.
    fn run_expanded(&self, text: &str, parameters: Parameters, stop: Stop<'_>) -> Result<Answer> {
        let refusal = match self.tick(text, &parameters, stop, Purpose::Rows)? {
            Ticked::Answer(answer) => return Ok(answer),
            Ticked::No(refusal) => refusal,
        };
        let explained = match Explained::of(text) {
            None => None,
            Some(Explained::Planned(inner)) => self.describe_tick(inner, &parameters, stop),
            Some(Explained::Run(inner)) => {
                let start = Instant::now();
                let description = self.describe_tick(inner, &parameters, stop);
                let planning = start.elapsed();
                match self.tick(inner, &parameters, stop, Purpose::Costs)? {
                    Ticked::Answer(mut answer) => {
                        answer.planning += planning;
                        let steps = self.describe_known(inner, &parameters, answer.step_costs());
                        return with_metrics(answer, &steps.or(description).unwrap_or_default());
                    }
                    Ticked::No(Some(refusal)) => description.map(|steps| format!("{steps}\nrefused: {refusal}")),
                    Ticked::No(None) => description,
                }
            }
        };
        let mut answer = self.run_planned(text, parameters, stop)?;
        answer.refusal = refusal;
        match explained {
            Some(description) => with_tick_plan(answer, &description),
            None => Ok(answer),
        }
    }

    /// A `PIVOT` statement as a select, for which the values of its key are read first where it doesn't list them.
    fn with_values(&self, pivot: &PivotStatement, parameters: &Parameters, stop: Stop<'_>) -> Result<String> {
        let values = pivot.queries_of_values().into_iter().map(|query| match query {
            None => Ok(Vec::new()),
            Some(query) => pivot_statement::values(&self.sql_until(&query, parameters.clone(), stop)?.batches()?),
        });
        pivot.select(&values.collect::<Result<Vec<_>>>()?)
    }

    /// What `SUMMARIZE` gives, by one statement over all columns.
    fn summarize(&self, summary: &Summary, parameters: &Parameters, stop: Stop<'_>) -> Result<Answer> {
        let start = Instant::now();
        let columns = self.describe_until(&summary.source(), stop)?.schema;
        let planning = start.elapsed();
        let mut answer = self.sql_until(&summary.select(&columns), parameters.clone(), stop)?;
        answer.planning += planning;
        answer.read_with_checks();
        let rows = summary.rows(&columns, &answer.batches()?)?;
        Ok(with_rows(answer, rows.schema(), vec![rows]))
    }

    /// The tick plan of a statement in words, or why it has none.
    fn describe_tick(&self, text: &str, parameters: &Parameters, stop: Stop<'_>) -> Option<String> {
        if !self.settings.tick_plans {
            return None;
        }
        let Some(given) = Given::new(text, parameters) else {
            return Some(
                "none, because the text is too long or has something in it that is not looked into, such as a literal with a prefix"
                    .to_owned(),
            );
        };
        let learnt = |given: Given| {
            let given = Arc::new(given);
            match self.learn(&given, stop) {
                Ok(()) => self.statements.describe(&given, None),
                Err(error) => Some(format!("none, because it can't be planned: {error}")),
            }
        };
        let too_long = || Some("none, because a text with literals in the names of its columns is too long".to_owned());
        learnt(given).or_else(|| Given::as_written(text, parameters).map_or_else(too_long, learnt))
    }

    /// The tick plan of a statement that ran, in words, or why it has none, as far as that is known; nothing is planned. With what its
    /// steps cost.
    fn describe_known(&self, text: &str, parameters: &Parameters, costs: Option<&StepCosts>) -> Option<String> {
        let describe = |given: Given| self.statements.describe(&given, costs);
        let described = Given::new(text, parameters).and_then(describe);
        described.or_else(|| Given::as_written(text, parameters).and_then(describe))
    }

    /// Why a statement that ran didn't run as a tick plan, in words; `None` if it did. Nothing is planned for it.
    #[must_use]
    pub fn why_no_tick_plan(&self, text: &str, parameters: &Parameters) -> Option<String> {
        if !self.settings.tick_plans {
            return Some("tick plans are turned off".to_owned());
        }
        let text = placeholders::numbered(text).ok()?;
        let views = self.views();
        let text = self.rewritten(&views, &text, Stop::NEVER);
        let (text, _) = self.with_views(&views, &text, Stop::NEVER).ok()?;
        let described = self.describe_known(&text, parameters, None)?;
        described.strip_prefix("none, because of ").map(str::to_owned)
    }

    /// Plans a statement to see whether it runs as a tick plan. What is wrong with one that can't be planned is said.
    fn learn(&self, given: &Arc<Given>, stop: Stop<'_>) -> Result<(), String> {
        let (statements, state, given) = (Arc::clone(&self.statements), self.states.shared(), Arc::clone(given));
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let bounds = Bounds::new(self.pool().0);
        self.threads.spawn(bounds.clone().within(async move {
            let _ = sender.send(statements.learn(&given, &state).await);
        }));
        bounds.wait(&receiver, stop).unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Plans a statement by DataFusion and starts it.
    fn run_planned(&self, text: &str, parameters: Parameters, stop: Stop<'_>) -> Result<Answer> {
        let session = self.clone();
        let text = text.to_owned();
        // On a thread of the runtime, whose stack is large enough for deep expressions.
        // Waited for by a plain channel, which any caller may do, one within an executor too.
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let memory = self.pool();
        let bounds = Bounds::new(Arc::clone(&memory.0));
        self.threads.spawn(bounds.clone().within(async move {
            let _ = sender.send(session.plan(&text, parameters).await);
        }));
        let (planned, spellings) = bounds.wait(&receiver, stop)??;
        self.start(planned, &spellings, memory, bounds)
    }

    /// The answer of a statement that runs as a tick plan: on this thread, and without DataFusion but for a new shape.
    fn tick(&self, text: &str, parameters: &Parameters, stop: Stop<'_>, purpose: Purpose) -> Result<Ticked> {
        if !self.settings.tick_plans {
            return Ok(Ticked::No(None));
        }
        let start = Instant::now();
        let Some(given) = Given::new(text, parameters) else { return Ok(Ticked::No(None)) };
        let mut planning = Duration::ZERO;
        // Without memory for a tick plan it is DataFusion that runs the statement, or says that there is none.
        let Some(mut grant) = self.memory.grant(self.settings.memory_bytes) else { return Ok(Ticked::No(None)) };
        let limits = Limits {
            threads: self.settings.threads,
            memory_bytes: grant.usable_bytes(),
            stop,
            takes_kept: purpose == Purpose::Rows,
            measures_memory: self.settings.measure_memory || purpose == Purpose::Costs,
        };
        let mut run = |given: Given| -> Result<Ran> {
            let run = |given: &Given| self.statements.run(given, &self.database, &limits);
            match run(&given)? {
                Ran::Unknown => {
                    let (given, start) = (Arc::new(given), Instant::now());
                    // What is wrong with a statement that can't be planned, DataFusion will say.
                    let _ = self.learn(&given, stop);
                    planning += start.elapsed();
                    run(&given)
                }
                ran => Ok(ran),
            }
        };
        let ran = match run(given)? {
            Ran::AsWritten => match Given::as_written(text, parameters) {
                Some(given) => run(given)?,
                None => return Ok(Ticked::No(None)),
            },
            ran => ran,
        };
        Ok(match ran {
            Ran::Rows(schema, (batches, read, tables)) => {
                let watches = Watches { tables, reader_asks: false };
                let execution = start.elapsed().saturating_sub(planning);
                grant.shrink_to(batches.iter().map(RecordBatch::get_array_memory_size).sum());
                let source = Source::Ready { batches: batches.into(), execution, read, _memory: Some(grant) };
                let memory = AnswerMemory::new(self.settings.memory_bytes, &self.memory);
                Ticked::Answer(Answer {
                    schema,
                    source,
                    planning,
                    start,
                    rows: 0,
                    failed: false,
                    watches,
                    refusal: None,
                    memory,
                })
            }
            Ran::Refused(reason) => Ticked::No(Some(reason)),
            Ran::Not | Ran::Unknown | Ran::AsWritten => Ticked::No(None),
        })
    }

    /// A memory pool for one statement, and where its peak can be read.
    fn pool(&self) -> Memory {
        let (pool, peak) = StatementPool::new(self.settings.memory_bytes, &self.memory);
        (Arc::new(pool), peak)
    }

    /// What a statement would give and which values it takes, without running it.
    ///
    /// # Errors
    /// [`Error::Statement`] for text that can't be planned, [`Error::ReadOnly`] for a statement that would change something.
    pub fn describe(&self, text: &str) -> Result<Description> {
        self.describe_until(text, Stop::NEVER)
    }

    /// The same, which gives up when `stop` says so.
    ///
    /// # Errors
    /// Those of [`Session::describe`], and [`Error::Cancelled`].
    pub fn describe_until(&self, text: &str, stop: Stop<'_>) -> Result<Description> {
        limits::check_text(text)?;
        let session = self.clone();
        let mut text = self.prepared(text)?.into_owned();
        if let Some(shown) = ShowStatement::of(&text) {
            return Ok(Description { schema: shown.schema()?, parameters: Vec::new() });
        }
        if let Some(summary) = Summary::of(&text) {
            let Description { parameters, .. } = self.describe_until(&summary.source(), stop)?;
            return Ok(Description { schema: Summary::schema(), parameters });
        }
        if let Some(statement) = PivotStatement::of(&text)? {
            text = self.with_values(&statement, &Parameters::None, stop)?;
        }
        let text = self.with_views(&self.views(), &text, stop)?.0.into_owned();
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let bounds = Bounds::new(self.pool().0);
        self.threads.spawn(bounds.clone().within(async move {
            let _ = sender.send(session.plan_to_describe(&text).await);
        }));
        bounds.wait(&receiver, stop)?
    }

    async fn plan_to_describe(&self, text: &str) -> Result<Description> {
        let limit = self.settings.memory_bytes;
        let wrap = |error: DataFusionError| Error::from_datafusion(error, limit);
        let (plan, mut spellings, has_joins) = self.plan_logically(&self.states.shared(), text).await?;
        let mut parameters: Vec<_> = plan.get_parameter_types().map_err(wrap)?.into_iter().collect();
        // `$10` comes behind `$9`.
        parameters.sort_by_key(|(name, _)| (name.len(), name.clone()));
        learn_columns(&plan, &mut spellings).map_err(wrap)?;
        let plan = if has_joins { joins::convert(plan, &TickRowOrder).map_err(wrap)? } else { plan };
        let schema = spellings.restore(plan.schema().as_arrow());
        Ok(Description { schema, parameters })
    }

    /// What `work` makes of the state that all statements share, on a thread with room for deep expressions.
    pub(crate) fn on_own_threads<T: Send + 'static>(
        &self,
        stop: Stop<'_>,
        work: impl FnOnce(Arc<SessionState>) -> T + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let (bounds, state) = (Bounds::new(self.pool().0), self.states.shared());
        self.threads.spawn(bounds.clone().within(async move {
            let _ = sender.send(work(state));
        }));
        bounds.wait(&receiver, stop)
    }

    /// Waits for what is done with that state on such a thread.
    pub(crate) fn planned_by<F: Future<Output = Result<(), DataFusionError>> + Send + 'static>(
        &self,
        stop: Stop<'_>,
        work: impl FnOnce(Arc<SessionState>) -> F + Send + 'static,
    ) -> Result<()> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let (bounds, state) = (Bounds::new(self.pool().0), self.states.shared());
        self.threads.spawn(bounds.clone().within(async move {
            let _ = sender.send(work(state).await);
        }));
        bounds.wait(&receiver, stop)?.map_err(|error| Error::from_datafusion(error, self.settings.memory_bytes))
    }

    /// The state that all statements share.
    pub(crate) fn shared_state(&self) -> Arc<SessionState> {
        self.states.shared()
    }

    /// What `take` makes of a statement's logical plan, planned on the session's threads until `stop` says so.
    pub(crate) fn planned<T: Send + 'static>(
        &self,
        text: String,
        parameters: Parameters,
        stop: Stop<'_>,
        take: impl FnOnce(&SessionState, LogicalPlan) -> Result<T, DataFusionError> + Send + 'static,
    ) -> Result<T> {
        let session = self.clone();
        let text = placeholders::numbered(&text)?;
        let text = self.with_views(&self.views(), &text, stop)?.0.into_owned();
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let bounds = Bounds::new(self.pool().0);
        self.threads.spawn(bounds.clone().within(async move {
            let _ = sender.send(session.plan_and_take(&text, parameters, take).await);
        }));
        bounds.wait(&receiver, stop)?
    }

    async fn plan_and_take<T>(
        &self,
        text: &str,
        parameters: Parameters,
        take: impl FnOnce(&SessionState, LogicalPlan) -> Result<T, DataFusionError> + Send,
    ) -> Result<T> {
        let wrap = |error: DataFusionError| Error::from_datafusion(error, self.settings.memory_bytes);
        let state = self.states.of_statement();
        let (plan, _, _) = self.plan_logically(&state, text).await?;
        let plan = match parameters {
            Parameters::None => plan,
            given => plan.with_param_values(given.into_values()).map_err(wrap)?,
        };
        if let Some(name) = plan.get_parameter_names().map_err(wrap)?.into_iter().next() {
            return Err(Error::Statement { message: format!("the parameter {name} has no value") });
        }
        take(&state, plan).map_err(wrap)
    }

    /// Rows that are there as an answer.
    pub(crate) fn answer_of(&self, batches: Vec<RecordBatch>, start: Instant) -> Answer {
        let schema = batches.first().map_or_else(|| Arc::new(arrow::datatypes::Schema::empty()), RecordBatch::schema);
        let (execution, read) = (start.elapsed(), Read::default());
        let source = Source::Ready { batches: batches.into(), execution, read, _memory: None };
        let memory = AnswerMemory::new(self.settings.memory_bytes, &self.memory);
        let (planning, watches) = (Duration::ZERO, Watches::default());
        Answer { schema, source, planning, start, rows: 0, failed: false, watches, refusal: None, memory }
    }

    /// The logical plan of a statement, how its names are spelt, and whether its joins were rewritten.
    async fn plan_logically(&self, state: &SessionState, text: &str) -> Result<(LogicalPlan, Spellings, bool)> {
        let planned = logical_plan(state, text, self.settings.memory_bytes).await;
        planned.map_err(|error| self.name_tables(error))
    }

    async fn plan(&self, text: &str, parameters: Parameters) -> Result<(Planned, Spellings)> {
        let start = Instant::now();
        let limit = self.settings.memory_bytes;
        let wrap = |error: DataFusionError| Error::from_datafusion(error, limit);
        let state = Arc::new(self.states.of_statement());
        let (plan, mut spellings, has_joins) = self.plan_logically(&state, text).await?;
        let plan = match parameters {
            Parameters::None => plan,
            given => plan.with_param_values(given.into_values()).map_err(wrap)?,
        };
        if let Some(name) = plan.get_parameter_names().map_err(wrap)?.into_iter().next() {
            return Err(Error::Statement { message: format!("the parameter {name} has no value") });
        }
        learn_columns(&plan, &mut spellings).map_err(wrap)?;
        let watches = watches(&plan).map_err(wrap)?;
        let plan = match self.settings.tick_plans {
            true => with_tick_parts(plan, &state, has_joins).map_err(wrap)?,
            false => plan,
        };
        let plan = planner::physical(&state, plan, has_joins).await.map_err(wrap)?;
        Ok((Planned { plan, state, watches, planning: start.elapsed() }, spellings))
    }

    /// An unknown table as the store reports it: with the names of the tables and views there are.
    fn name_tables(&self, error: Error) -> Error {
        let Error::Statement { message } = &error else { return error };
        let table = message.strip_prefix("table 'splay.public.").and_then(|rest| rest.strip_suffix("' not found"));
        match table {
            Some(table) => self.no_such_table(table),
            None => error,
        }
    }

    /// That there is no table of a name, and which there are.
    pub(crate) fn no_such_table(&self, table: &str) -> Error {
        let named = || -> splay_store::Result<Vec<String>> {
            let mut existing = self.database.tables()?;
            if let Some(guard) = self.caller.veil() {
                existing.retain(|name| guard.sees(name));
            }
            // It may be a view, of which damage is told.
            let views = self.database.views()?;
            let is_read = |view: &&View| self.caller.veil().is_none_or(|guard| guard.reads_view(view));
            existing.extend(views.iter().filter(is_read).map(|view| view.name.clone()));
            Ok(existing)
        };
        Error::Store(match named() {
            Ok(existing) => splay_store::Error::NoSuchTable { table: table.to_owned(), existing },
            Err(damage) => damage,
        })
    }

    fn start(&self, planned: Planned, spellings: &Spellings, (pool, peak): Memory, bounds: Bounds) -> Result<Answer> {
        let Planned { plan, state, watches, planning } = planned;
        let limit = self.settings.memory_bytes;
        let memory = AnswerMemory::new(limit, &self.memory);
        let task = task(&state, pool).map_err(|e| Error::from_datafusion(e, limit))?;
        let schema = spellings.restore(&plan.schema());
        let (sender, receiver) = waiting::channel(BATCHES_WAITING, limit / WAITING_PART);
        let start = Instant::now();
        let executed = Arc::clone(&plan);
        let finished = Arc::new(Mutex::new(None));
        let (answer_schema, done) = (Arc::clone(&schema), Arc::clone(&finished));
        let work = self.threads.spawn(async move {
            let (mut tasks, queues) = match run_streams(executed, task, limit / WAITING_PART) {
                Ok(running) => running,
                Err(error) => {
                    sender.send(Err(Error::from_datafusion(error, limit))).await;
                    return;
                }
            };
            let mut distinct = Distinct::default();
            for mut queue in queues {
                while let Some(Waiting { batch, .. }) = queue.recv().await {
                    let batch = batch
                        .and_then(|batch| Ok(distinct.batch(rename(&batch, &answer_schema)?)?))
                        .map_err(|error| Error::from_datafusion(error, limit));
                    let failed = batch.is_err();
                    // The reader went away: nobody wants the rest.
                    if !sender.send(batch).await || failed {
                        return;
                    }
                }
            }
            while let Some(ended) = tasks.join_next().await {
                if ended.is_err() {
                    // Without the mark below the answer counts as broken off.
                    return;
                }
            }
            *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(start.elapsed());
        });
        let threads = Arc::clone(&self.threads);
        let source = Source::Streams { receiver, _threads: threads, work, plan, finished, peak, bounds };
        Ok(Answer { schema, source, planning, start, rows: 0, failed: false, watches, refusal: None, memory })
    }
}

/// The logical plan of a statement, how its names are spelt, and whether its joins were rewritten.
pub(crate) async fn logical_plan(
    state: &SessionState,
    text: &str,
    memory_bytes: usize,
) -> Result<(LogicalPlan, Spellings, bool)> {
    let (folded, mut spellings) = Spellings::fold(text)?;
    let rewritten = joins::rewrite(&folded).map_err(|message| Error::Statement { message })?;
    let plan = read_only::plan(state, rewritten.as_deref().unwrap_or(&folded), rewritten.is_some()).await;
    let (plan, written) = plan.map_err(|error| {
        let hint = text_in_double_quotes(text, &error);
        Error::from_datafusion(error, memory_bytes).with_hint(hint)
    })?;
    spellings.add_statement(written);
    Ok((plan, spellings, rewritten.is_some()))
}

/// What a statement runs in: a memory pool of its own.
fn task(state: &SessionState, pool: Arc<dyn MemoryPool>) -> Result<Arc<TaskContext>, DataFusionError> {
    let runtime = RuntimeEnvBuilder::from_runtime_env(state.runtime_env()).with_memory_pool(pool);
    Ok(Arc::new(TaskContext::from(state).with_runtime(runtime.build_arc()?)))
}

/// The answer of an `explain` with a row more, before the others.
fn with_tick_plan(mut answer: Answer, description: &str) -> Result<Answer> {
    answer.read_with_checks();
    let schema = answer.schema();
    let mut batches = answer.batches()?;
    let texts = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    // Of two columns of text: the kind of plan and the plan.
    if let Ok(first) = RecordBatch::try_new(Arc::clone(&schema), vec![texts("tick_plan"), texts(description)]) {
        batches.insert(0, first);
    }
    Ok(with_rows(answer, schema, batches))
}

/// An answer that was read, with other rows in the place of its own.
fn with_rows(mut answer: Answer, schema: SchemaRef, batches: Vec<RecordBatch>) -> Answer {
    let stats = answer.stats();
    let read = Read { scans: vec![stats.selection], bytes: stats.bytes_scanned, ..Read::default() };
    let source = Source::Ready { batches: batches.into(), execution: answer.start.elapsed(), read, _memory: None };
    let (planning, start, watches, memory) = (answer.planning, answer.start, Watches::default(), answer.memory.clone());
    Answer { schema, source, planning, start, rows: 0, failed: false, watches, refusal: answer.refusal.take(), memory }
}

/// A tick plan that was run, and what that cost, in the place of its rows.
fn with_metrics(mut answer: Answer, description: &str) -> Result<Answer> {
    answer.read_with_checks();
    answer.batches()?;
    let stats = answer.stats();
    let kept = |kept: Kept| format!("{}/{}", kept.kept, kept.total);
    let SelectionStats { partitions, symbols, blocks, rows } = stats.selection;
    let metrics = format!(
        "output_rows={}, partitions={}, symbols={}, blocks={}, rows={}, rows_scanned={}, bytes_scanned={}, \
         peak_memory_bytes={}, planning={:?}, execution={:?}",
        stats.rows_returned,
        kept(partitions),
        kept(symbols),
        kept(blocks),
        kept(rows),
        stats.rows_scanned,
        stats.bytes_scanned,
        stats.peak_memory_bytes,
        stats.planning,
        stats.execution,
    );
    let texts = |texts: [&str; 2]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
    let columns = [("plan_type", ["tick_plan", "metrics"]), ("plan", [description, &metrics])];
    let batch = RecordBatch::try_from_iter(columns.map(|(name, values)| (name, texts(values))))
        .map_err(|error| Error::Internal { message: error.to_string() })?;
    answer.schema = batch.schema();
    answer.rows = 0;
    if let Source::Ready { batches, .. } = &mut answer.source {
        batches.push_back(batch);
    }
    Ok(answer)
}

type Running = (JoinSet<()>, Vec<mpsc::Receiver<Waiting<DataFusionError>>>);

/// Starts all streams of a plan. The queues are to be read one after the other.
///
/// Streams of a bare scan follow each other, so each gets a queue of its own and rows come in the order of the table. Where
/// the plan deals rows out to streams they have no order to keep, and one stream that waits would make the others pile up
/// rows for it: they share one queue.
fn run_streams(
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    bytes_max: usize,
) -> Result<Running, DataFusionError> {
    let (mut tasks, mut queues) = (JoinSet::new(), Vec::new());
    // Of each queue its own bytes: one that isn't read yet must not keep the one from filling that is.
    let bytes_max = bytes_max / if deals_out(&plan) { 1 } else { plan.output_partitioning().partition_count().max(1) };
    let mut shared = None;
    if deals_out(&plan) {
        let (sender, receiver) = waiting::channel(BATCHES_WAITING, bytes_max);
        shared = Some(sender);
        queues.push(receiver);
    }
    for mut stream in execute_stream_partitioned(plan, task)? {
        let sender = shared.clone().unwrap_or_else(|| {
            let (sender, receiver) = waiting::channel(BATCHES_WAITING, bytes_max);
            queues.push(receiver);
            sender
        });
        tasks.spawn(async move {
            while let Some(batch) = stream.next().await {
                // An operator that has failed may be in any state: it isn't asked again.
                let has_failed = batch.is_err();
                if !sender.send(batch).await || has_failed {
                    return;
                }
            }
        });
    }
    Ok((tasks, queues))
}

/// Whether a plan deals rows of one stream out to several, or joins streams that have no order among each other.
fn deals_out(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<RepartitionExec>() || joins::is_join(plan) || plan.children().into_iter().any(deals_out)
}

/// The same columns under the names of the answer.
fn rename(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, DataFusionError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}

/// What statements are planned in, and the tables that they find.
fn state(
    database: &Database,
    settings: &SessionSettings,
    has_catalogue: bool,
    guard: Option<Arc<Guard>>,
) -> Result<(SessionState, Arc<TickSchema>)> {
    let mut config = SessionConfig::new()
        .with_target_partitions(settings.threads.max(1))
        .with_batch_size(settings.batch_rows.max(1))
        .with_default_catalog_and_schema("splay", "public")
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true)
        // Merging sorted streams is cheaper than sorting what is sorted.
        .with_prefer_existing_sort(true);
    config.options_mut().sql_parser.map_string_types_to_utf8view = false;
    // The keys of a join's small side, of which a scan makes a list of symbols.
    config.options_mut().optimizer.hash_join_inlist_pushdown_max_size = JOIN_KEYS_BYTES_MAX;
    config.options_mut().optimizer.hash_join_inlist_pushdown_max_distinct_values = JOIN_KEYS_MAX;
    let wrap = |error| Error::from_datafusion(error, settings.memory_bytes);
    // DataFusion's defaults without its file formats and table factories: a statement reads tables and nothing else.
    let table_functions = SessionStateDefaults::default_table_functions();
    let mut analyzer_rules = Analyzer::new().rules;
    analyzer_rules.insert(0, Arc::new(PrepareCoercion));
    analyzer_rules.insert(0, Arc::new(JoinInSelect));
    analyzer_rules.insert(0, Arc::new(JoinCorrelated));
    analyzer_rules.insert(0, Arc::new(QueryValues));
    analyzer_rules.insert(0, Arc::new(ComputeDates));
    let mut expr_planners = SessionStateDefaults::default_expr_planners();
    // DataFusion's own answers for every aggregate.
    expr_planners.insert(0, Arc::new(functions::FramePlanner));
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_expr_planners(expr_planners)
        .with_scalar_functions(SessionStateDefaults::default_scalar_functions())
        .with_higher_order_functions(SessionStateDefaults::default_higher_order_functions())
        .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
        .with_window_functions(SessionStateDefaults::default_window_functions())
        .with_table_functions(table_functions.into_iter().map(|f| (f.name().to_owned(), f)).collect())
        .with_analyzer_rules(analyzer_rules)
        .with_query_planner(Arc::new(TickQueryPlanner))
        .build();
    let state = joins::register(state).map_err(wrap)?;
    let context = SessionContext::new_with_state(state);
    let catalog = MemoryCatalogProvider::new();
    let file_threads = settings.files.then_some(settings.threads);
    let tables = Arc::new(TickSchema::new(database.clone(), file_threads, guard));
    if has_catalogue {
        let pg_catalog = Arc::new(postgres::CatalogueSchema::new(database.clone(), Arc::clone(&tables)));
        let public = postgres::WithCatalogue { tables: Arc::clone(&tables), catalogue: Arc::clone(&pg_catalog) };
        catalog.register_schema("public", Arc::new(public)).map_err(wrap)?;
        catalog.register_schema("pg_catalog", pg_catalog).map_err(wrap)?;
    } else {
        catalog.register_schema("public", Arc::clone(&tables) as Arc<_>).map_err(wrap)?;
    }
    context.register_catalog("splay", Arc::new(catalog));
    functions::register(&context);
    if has_catalogue {
        postgres::functions().into_iter().for_each(|function| context.register_udf(ScalarUDF::clone(&function)));
    }
    context.add_analyzer_rule(Arc::new(CompareIntervals));
    let planned = context.register_relation_planner(Arc::new(PivotPlanner));
    planned.map_err(wrap)?;
    context.register_relation_planner(Arc::new(UnpivotPlanner)).map_err(wrap)?;
    functions::register_row_order(&context, Arc::new(TickRowOrder));
    context.add_analyzer_rule(Arc::new(NullSafeKeys));
    context.add_analyzer_rule(Arc::new(Numbers));
    context.add_analyzer_rule(Arc::new(OneNan));
    context.add_analyzer_rule(Arc::new(BoundFunctions));
    context.add_optimizer_rule(Arc::new(DistinctInnerSide));
    Ok((bounds::register(context.state()), tables))
}

/// What watches over the files of the tables that a plan reads.
fn watches(plan: &LogicalPlan) -> Result<Watches, DataFusionError> {
    let mut found = Watches::default();
    plan.walk_steps(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<TickTable>()
        {
            found.tables.push(table.snapshot().watch().clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Learns the columns' spellings from the tables that a plan reads.
pub(crate) fn learn_columns(plan: &LogicalPlan, spellings: &mut Spellings) -> Result<(), DataFusionError> {
    plan.walk_steps(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
        {
            let name = scan.table_name.table();
            if let Some(table) = provider.downcast_ref::<TickTable>() {
                spellings.add_table(name, table.spec().columns.iter().map(|column| column.name.as_str()));
            } else if let Some(files) = provider.downcast_ref::<FileTable>() {
                spellings.add_table(name, files.names());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}

impl Parameters {
    fn into_values(self) -> ParamValues {
        match self {
            Parameters::None => ParamValues::List(Vec::new()),
            Parameters::Positional(values) => {
                ParamValues::List(values.into_iter().map(ScalarAndMetadata::from).collect())
            }
            Parameters::Named(values) => ParamValues::Map(
                values.into_iter().map(|(name, value)| (name.to_lowercase(), ScalarAndMetadata::from(value))).collect(),
            ),
        }
    }
}
