//! From the text of a statement to its plan, on the session's threads.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use splay_engine::Stop;
use splay_functions::walk::WalkPlan;
use splay_functions::with_own_calendars;

use super::Session;
use crate::answer::Watches;
use crate::bounds::StatementBounds;
use crate::error::{Error, Result};
use crate::large_joins;
use crate::logical_plan::logical_plan;
use crate::names::{Spellings, learn_columns};
use crate::parameters::Parameters;
use crate::planner;
use crate::provider::TickTable;
use crate::tick::{ShapedStatement, with_tick_parts};

/// A statement that DataFusion planned, ready to run.
pub(crate) struct PlannedStatement {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) state: Arc<SessionState>,
    pub(crate) watches: Watches,
    pub(crate) planning: Duration,
}

impl Session {
    /// The state that all statements share.
    pub(crate) fn shared_state(&self) -> Arc<SessionState> {
        self.states.shared()
    }

    /// The state of a statement that begins now.
    pub(crate) fn statement_state(&self) -> Arc<SessionState> {
        Arc::new(self.states.of_statement())
    }

    /// Waits for a future on a thread of the session, whose stack is large enough for deep expressions. It waits on a plain channel, so any caller
    /// may wait, also one within an executor.
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        bounds: &StatementBounds,
        stop: Stop<'_>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.threads.spawn(bounds.clone().within(async move {
            let _ = sender.send(work.await);
        }));
        bounds.wait(&receiver, stop)
    }

    /// Runs `work` with the state that all statements share, on a thread of the session.
    pub(crate) fn on_own_threads<T: Send + 'static>(
        &self,
        stop: Stop<'_>,
        work: impl FnOnce(Arc<SessionState>) -> T + Send + 'static,
    ) -> Result<T> {
        let state = self.states.shared();
        self.wait_for(&StatementBounds::new(self.pool().0), stop, async move { work(state) })
    }

    /// Waits for work with that state on such a thread.
    pub(crate) fn planned_by<F: Future<Output = Result<(), DataFusionError>> + Send + 'static>(
        &self,
        stop: Stop<'_>,
        work: impl FnOnce(Arc<SessionState>) -> F,
    ) -> Result<()> {
        let done = self.wait_for(&StatementBounds::new(self.pool().0), stop, work(self.statement_state()))?;
        done.map_err(|error| Error::from_datafusion(error, self.settings.memory_bytes))
    }

    /// Plans a statement whose views are written out on the session's threads until `stop` says so, and returns what `take` makes of its logical plan.
    pub(crate) fn plan_expanded<T: Send + 'static>(
        &self,
        text: String,
        parameters: Parameters,
        stop: Stop<'_>,
        take: impl FnOnce(&SessionState, LogicalPlan) -> Result<T, DataFusionError> + Send + 'static,
    ) -> Result<T> {
        let session = self.clone();
        let planned = async move { session.plan_and_take(&text, parameters, take).await };
        self.wait_for(&StatementBounds::new(self.pool().0), stop, planned)?
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
        let plan = with_own_calendars(parameters.put_into(plan, wrap)?, state.config()).map_err(wrap)?;
        take(&state, plan).map_err(wrap)
    }

    /// Plans a statement to see whether it runs as a tick plan. The error of a statement that can't be planned is returned.
    pub(super) fn learn(&self, statement: &Arc<ShapedStatement>, stop: Stop<'_>) -> Result<(), String> {
        let (statements, state, statement) =
            (Arc::clone(&self.statements), self.states.shared(), Arc::clone(statement));
        let learnt = async move { statements.learn(&statement, &state).await };
        let learnt = self.wait_for(&StatementBounds::new(self.pool().0), stop, learnt);
        learnt.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// The logical plan of a statement, the spelling of its names, and whether its joins were rewritten.
    pub(crate) async fn plan_logically(
        &self,
        state: &SessionState,
        text: &str,
    ) -> Result<(LogicalPlan, Spellings, bool)> {
        let planned = logical_plan(state, text, self.settings.memory_bytes).await;
        planned.map_err(|error| self.name_tables(error))
    }

    pub(super) async fn plan(&self, text: &str, parameters: Parameters) -> Result<(PlannedStatement, Spellings)> {
        let start = Instant::now();
        let limit = self.settings.memory_bytes;
        let wrap = |error: DataFusionError| Error::from_datafusion(error, limit);
        let mut state = self.states.of_statement();
        large_joins::bound(&mut state, limit);
        let state = Arc::new(state);
        let (plan, mut spellings, has_joins) = self.plan_logically(&state, text).await?;
        let plan = with_own_calendars(parameters.put_into(plan, wrap)?, state.config()).map_err(wrap)?;
        learn_columns(&plan, &mut spellings).map_err(wrap)?;
        let watches = watches(&plan).map_err(wrap)?;
        let plan = self.read_limits(plan, &state, has_joins).await?;
        let plan = match self.settings.tick_plans {
            true => with_tick_parts(plan, &state, has_joins).map_err(wrap)?,
            false => plan,
        };
        let plan = planner::physical(&state, plan, has_joins).await.map_err(wrap)?;
        Ok((PlannedStatement { plan, state, watches, planning: start.elapsed() }, spellings))
    }

    /// The store's error for an unknown table, which lists the tables and views that exist.
    fn name_tables(&self, error: Error) -> Error {
        let Error::Statement { message } = &error else { return error };
        let table = message.strip_prefix("table 'splay.public.").and_then(|rest| rest.strip_suffix("' not found"));
        match table {
            Some(table) => self.no_such_table(table),
            None => error,
        }
    }
}

/// The watches over the files of the tables that a plan reads.
pub(crate) fn watches(plan: &LogicalPlan) -> Result<Watches, DataFusionError> {
    let mut result = Watches::default();
    plan.walk_steps(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<TickTable>()
        {
            result.tables.push(table.snapshot().watch().clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(result)
}
