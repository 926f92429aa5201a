//! Sessions: how statements are planned and run whose views are written out. `queries.rs` has the whole way from a text to its answer.

mod description;
mod execution;
mod explain;
mod limit_queries;
mod planning;
mod rights;
mod state;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::execution::memory_pool::MemoryPool;
use splay_engine::{ReadStats, Stop};
use splay_store::{Database, OpenFiles, TableSpec, TransactionSnapshots};

pub(crate) use self::explain::{explained_rows, with_rows};
use self::explain::{with_metrics, with_tick_plan};
pub(crate) use self::limit_queries::query_of_limit;
pub(crate) use self::planning::{PlannedStatement, watches};
use self::state::states;
use crate::answer::{Answer, MemoryGuard, Source, Threads, Watches};
use crate::caller::Caller;
use crate::error::Result;
use crate::files::TypedFiles;
use crate::guard::Guard;
use crate::materialized::MaterializedViews;
use crate::memory::{AnswerMemory, AnswerMemoryPart, StatementPool, TotalMemory};
use crate::parameters::Parameters;
use crate::placeholders;
use crate::postgres;
use crate::statement_states::StatementStates;
use crate::tick::{ExplainQuery, Limits, RunOutcome, ShapedStatement, TickStatements};

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// Bytes that a statement's sorts, joins and groups may hold before they spill or fail. Default 4 GiB.
    pub memory_bytes: usize,
    /// Bytes that all statements together may hold. A statement that needs more than is left gets
    /// [`Error::TotalMemory`](crate::Error::TotalMemory). Default: only the limit of each statement.
    pub total_memory_bytes: usize,
    /// Number of streams of a statement. Default: the machine's parallelism.
    pub threads: usize,
    /// Rows of a batch. Larger ones cost less per row, smaller ones keep more in cache. Default 8,192.
    pub batch_rows: usize,
    /// Whether recognised statements run as tick plans. Otherwise DataFusion runs all of them. Default true.
    pub tick_plans: bool,
    /// Bytes of answers of tick plans that are cached for equal statements over unchanged tables.
    /// Default 0: none.
    pub result_cache_bytes: usize,
    /// Whether the memory of each step of a tick plan is measured, which takes some microseconds, and longer for answers of many pieces. `explain
    /// analyze` always does. Default false.
    pub measure_memory: bool,
    /// Opens the files that statements may read, by quoted paths in place of tables. Default: none are read.
    pub files: Option<Arc<dyn OpenFiles>>,
    /// Bytes of columns of such files that stay decoded for later statements, as long as the files don't change. Default: a quarter of `memory_bytes`.
    pub file_cache_bytes: Option<usize>,
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
            files: None,
            file_cache_bytes: None,
        }
    }
}

/// The description of a statement's answer and parameters.
#[derive(Debug, Clone)]
pub struct Description {
    /// Columns of the answer. Their nullability may differ if it is known only at run time.
    pub schema: SchemaRef,
    /// Its placeholders in order, `$1` or `$name`, with the types that their places require, if they require one.
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
    materialized: Arc<MaterializedViews>,
    /// Whether it has PostgreSQL's catalogue.
    has_catalogue: bool,
    caller: Caller,
    /// The session that may do everything, if rights limit this one: materialized views are refreshed in it.
    open: Option<Arc<Session>>,
}

/// The memory pool of a statement, and the counter of its peak.
pub(crate) type Memory = (Arc<dyn MemoryPool>, Arc<AtomicUsize>);

/// The purpose of running a tick plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Its rows, which may be cached.
    Rows,
    /// The cost of its steps.
    Costs,
}

/// The outcome of running a statement as a tick plan.
#[expect(clippy::large_enum_variant, reason = "there is one a statement")]
enum TickOutcome {
    Answer(Answer),
    /// There is no tick plan, or the engine refused it for this reason.
    No(Option<String>),
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
    /// [`Error::Internal`](crate::Error::Internal) if threads can't be started.
    pub fn new(database: Database, settings: SessionSettings) -> Result<Session> {
        let threads = Arc::new(Threads::start(settings.threads)?);
        let states = states(&database, &settings, false, None)?;
        let file_cache_bytes = settings.file_cache_bytes.unwrap_or(settings.memory_bytes / 4);
        let statements = Arc::new(TickStatements::new(settings.result_cache_bytes, file_cache_bytes));
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
            open: None,
        })
    }

    /// A session over the same database, threads and memory, with the tables, functions and casts of PostgreSQL's
    /// catalogue (`postgres/`). It caches no answers.
    ///
    /// # Errors
    /// [`Error::Internal`](crate::Error::Internal) if it can't be set up.
    pub fn for_postgres(&self) -> Result<Session> {
        let states = states(&self.database, &self.settings, true, self.caller.guard.clone())?;
        let statements = Arc::new(TickStatements::new(0, 0));
        Ok(Session { states, statements, has_catalogue: true, ..self.clone() })
    }

    /// This session over snapshots of tables, with empty caches. With `begins` the snapshots of all tables are taken now; otherwise each is taken at
    /// the first use of its table.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the tables can't be listed, [`Error::Internal`](crate::Error::Internal) if it can't be set up.
    pub fn with_snapshots(&self, snapshots: &Arc<TransactionSnapshots>, begins: bool) -> Result<Session> {
        if begins {
            snapshots.take_all(&self.database)?;
        }
        let database = self.database.with_snapshots(Arc::clone(snapshots));
        let settings = SessionSettings { result_cache_bytes: 0, ..self.settings.clone() };
        let states = states(&database, &settings, self.has_catalogue, self.caller.guard.clone())?;
        let statements = Arc::new(TickStatements::new(0, 0));
        Ok(Session { database, settings, states, statements, materialized: Arc::default(), ..self.clone() })
    }

    /// This session with the tables of another one, and its caches about them.
    #[must_use]
    pub fn over_tables_of(&self, other: &Session) -> Session {
        Session {
            database: other.database.clone(),
            states: Arc::clone(&other.states),
            statements: Arc::clone(&other.statements),
            materialized: Arc::clone(&other.materialized),
            ..self.clone()
        }
    }

    /// Whether both sessions see the same tables, with the same rights.
    #[must_use]
    pub fn reads_as(&self, other: &Session) -> bool {
        Arc::ptr_eq(&self.states, &other.states)
    }

    /// This session over another view of the database, with empty caches.
    pub(crate) fn over(&self, database: Database) -> Result<Session> {
        let settings = SessionSettings { result_cache_bytes: 0, files: None, ..self.settings.clone() };
        let states = states(&database, &settings, false, None)?;
        let statements = Arc::new(TickStatements::new(0, 0));
        Ok(Session {
            database,
            settings,
            states,
            statements,
            materialized: Arc::default(),
            has_catalogue: false,
            ..self.clone()
        })
    }

    /// This session, with files in the types of a table that their rows go into. `is_listed`: its columns are those of a list.
    pub(crate) fn reading_for(&self, table: TableSpec, is_listed: bool) -> Result<Session> {
        let typed = |opener: &Arc<dyn OpenFiles>| {
            Arc::new(TypedFiles { opener: Arc::clone(opener), table: table.clone(), is_listed }) as Arc<dyn OpenFiles>
        };
        let files = self.settings.files.as_ref().map(typed);
        let settings = SessionSettings { files, result_cache_bytes: 0, ..self.settings.clone() };
        let guard = self.caller.guard.clone();
        let states = states(&self.database, &settings, self.has_catalogue, guard)?;
        let statements = Arc::new(TickStatements::new(0, 0));
        Ok(Session { settings, states, statements, ..self.clone() })
    }

    /// A session over the same database, threads and memory that sees only what a guard permits.
    pub(crate) fn guarded(&self, guard: Arc<Guard>) -> Result<Session> {
        let caller =
            Caller { guard: Some(Arc::clone(&guard)), user: None, manages_users: false, changes_password: false };
        if caller.veil().is_none() && self.settings.files.is_none() {
            return Ok(Session { open: Some(Arc::new(self.clone())), ..self.for_caller(caller) });
        }
        let settings = SessionSettings { files: None, result_cache_bytes: 0, ..self.settings.clone() };
        let states = states(&self.database, &settings, self.has_catalogue, Some(guard))?;
        let statements = Arc::new(TickStatements::new(0, 0));
        let (materialized, open) = (Arc::default(), Some(Arc::new(self.clone())));
        Ok(Session { settings, states, statements, materialized, caller, open, ..self.clone() })
    }

    /// This session on behalf of another caller.
    pub(crate) fn for_caller(&self, caller: Caller) -> Session {
        Session { caller, ..self.clone() }
    }

    /// This session with another memory limit for statements.
    pub(crate) fn for_memory(&self, memory_bytes: usize) -> Session {
        Session { settings: SessionSettings { memory_bytes, ..self.settings.clone() }, ..self.clone() }
    }

    /// Bytes that each statement may hold.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.settings.memory_bytes
    }

    /// Whether recognised statements run as tick plans.
    pub(crate) fn runs_tick_plans(&self) -> bool {
        self.settings.tick_plans
    }

    pub(crate) fn is_with_catalogue(&self) -> bool {
        self.has_catalogue
    }

    /// The session that may do everything: this one, unless rights limit it.
    pub(crate) fn open(&self) -> &Session {
        self.open.as_deref().unwrap_or(self)
    }

    /// The caller of the session's statements.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The text of a statement with numbered placeholders and known forms.
    pub(crate) fn prepare_text<'a>(&self, text: &'a str) -> Result<Cow<'a, str>> {
        let numbered = placeholders::number_placeholders(text)?;
        if !self.has_catalogue {
            return Ok(numbered);
        }
        Ok(match numbered {
            Cow::Borrowed(text) => postgres::rewritten(text, self.user()),
            Cow::Owned(text) => Cow::Owned(postgres::rewritten(&text, self.user()).into_owned()),
        })
    }

    /// The database it reads.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Runs work of a statement that blocks, such as to run it and encode its answer, on a thread with the priority of statements.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.threads.spawn_blocking(work)
    }

    /// Bytes that statements hold, including those whose answers are being read.
    #[must_use]
    pub fn memory_reserved(&self) -> usize {
        self.memory.reserved()
    }

    /// The cache of materialized views.
    pub(crate) fn materialized(&self) -> &MaterializedViews {
        &self.materialized
    }

    /// Runs a statement that already contains the queries of its views.
    pub(crate) fn run_expanded(&self, text: &str, parameters: Parameters, stop: Stop<'_>) -> Result<Answer> {
        let refusal = match self.tick(text, &parameters, stop, Purpose::Rows)? {
            TickOutcome::Answer(answer) => return Ok(answer),
            TickOutcome::No(refusal) => refusal,
        };
        let explained = match ExplainQuery::of(text) {
            None => None,
            Some(ExplainQuery::Planned(inner)) => self.describe_tick(inner, &parameters, stop),
            Some(ExplainQuery::Run(inner)) => {
                let start = Instant::now();
                let description = self.describe_tick(inner, &parameters, stop);
                let planning = start.elapsed();
                match self.tick(inner, &parameters, stop, Purpose::Costs)? {
                    TickOutcome::Answer(mut answer) => {
                        answer.planning += planning;
                        let steps = self.describe_known(inner, &parameters, answer.step_costs());
                        return with_metrics(answer, &steps.or(description).unwrap_or_default());
                    }
                    TickOutcome::No(Some(refusal)) => description.map(|steps| format!("{steps}\nrefused: {refusal}")),
                    TickOutcome::No(None) => description,
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

    /// Runs a statement as a tick plan, on this thread. DataFusion only plans new shapes.
    fn tick(&self, text: &str, parameters: &Parameters, stop: Stop<'_>, purpose: Purpose) -> Result<TickOutcome> {
        if !self.settings.tick_plans {
            return Ok(TickOutcome::No(None));
        }
        let start = Instant::now();
        let Some(statement) = ShapedStatement::new(text, parameters) else { return Ok(TickOutcome::No(None)) };
        let mut planning = Duration::ZERO;
        // Without memory for a tick plan, DataFusion runs the statement, or reports the lack of memory.
        let Some(mut grant) = self.memory.grant(self.settings.memory_bytes) else { return Ok(TickOutcome::No(None)) };
        let limits = Limits {
            files: self.settings.files.as_deref(),
            threads: self.settings.threads,
            memory_bytes: grant.usable_bytes(),
            stop,
            takes_kept: purpose == Purpose::Rows,
            measures_memory: self.settings.measure_memory || purpose == Purpose::Costs,
        };
        let mut run = |statement: ShapedStatement| -> Result<RunOutcome> {
            let run = |statement: &ShapedStatement| self.statements.run(statement, &self.database, &limits);
            match run(&statement)? {
                RunOutcome::Unknown => {
                    let (statement, start) = (Arc::new(statement), Instant::now());
                    // DataFusion reports the fault of a statement that can't be planned.
                    let _ = self.learn(&statement, stop);
                    planning += start.elapsed();
                    run(&statement)
                }
                ran => Ok(ran),
            }
        };
        let ran = match run(statement)? {
            RunOutcome::AsWritten => match ShapedStatement::as_written(text, parameters) {
                Some(statement) => run(statement)?,
                None => return Ok(TickOutcome::No(None)),
            },
            ran => ran,
        };
        Ok(match ran {
            RunOutcome::Rows(schema, (batches, read, tables)) => {
                let watches = Watches { tables, reader_asks: false };
                let execution = start.elapsed().saturating_sub(planning);
                grant.shrink_to(batches.iter().map(RecordBatch::get_array_memory_size).sum());
                let source = Source::Ready { batches: batches.into(), execution, read, _memory: Some(Box::new(grant)) };
                let memory = AnswerMemory::new(self.settings.memory_bytes, &self.memory);
                TickOutcome::Answer(Answer::new(schema, source, (start, planning), watches, memory))
            }
            RunOutcome::Refused(reason) => TickOutcome::No(Some(reason)),
            RunOutcome::Not | RunOutcome::Unknown | RunOutcome::AsWritten => TickOutcome::No(None),
        })
    }

    /// A memory pool for one statement, and the counter of its peak.
    pub(crate) fn pool(&self) -> Memory {
        let (pool, peak) = StatementPool::new(self.settings.memory_bytes, &self.memory);
        (Arc::new(pool), peak)
    }

    /// A part of the memory of a statement, still empty.
    pub(crate) fn memory_part(&self, what: &str) -> AnswerMemoryPart {
        AnswerMemoryPart::of_statement(&self.pool().0, self.settings.memory_bytes, what)
    }

    /// Rows as an answer.
    pub(crate) fn answer_of(&self, batches: Vec<RecordBatch>, start: Instant) -> Answer {
        let schema = batches.first().map_or_else(|| Arc::new(arrow::datatypes::Schema::empty()), RecordBatch::schema);
        self.answer_of_rows(schema, batches, None, start)
    }

    /// The same with their schema, and the guard of their memory.
    pub(crate) fn answer_of_rows(
        &self,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        memory_guard: Option<MemoryGuard>,
        start: Instant,
    ) -> Answer {
        let (execution, read) = (start.elapsed(), ReadStats::default());
        let source = Source::Ready { batches: batches.into(), execution, read, _memory: memory_guard };
        let memory = AnswerMemory::new(self.settings.memory_bytes, &self.memory);
        Answer::new(schema, source, (start, Duration::ZERO), Watches::default(), memory)
    }
}
