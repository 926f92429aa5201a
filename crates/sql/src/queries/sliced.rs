//! Both ends of statements whose parts run on slices of their tables, on other machines.
//!
//! One session cuts a statement and computes what is above its leaves. Others run leaves, each over its slices. All
//! read the same commits: the cutting session pins each table at its first access, and leaves carry the commits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::displayable;
use splay_engine::Stop;
use splay_store::{PinnedCommits, Slice, SymbolRange, TableSnapshot};

use crate::access::ShowStatement;
use crate::answer::Answer;
use crate::bounds::StatementBounds;
use crate::change::ExplainedChange;
use crate::dates;
use crate::error::{Error, Result};
use crate::joins;
use crate::limits;
use crate::names::{Spellings, learn_columns};
use crate::parameters::Parameters;
use crate::pivot_statement::PivotStatement;
use crate::planner;
use crate::row_order::TickRowOrder;
use crate::session::{PlannedStatement, Session, explained_rows, query_of_limit, watches};
use crate::show_create::ShowCreate;
use crate::slices::{Axis, CutPlan, Leaf, RunLeaves, SliceSettings, SliceablePart, cut};
use crate::summary::Summary;
use crate::tick::{ExplainQuery, with_tick_parts_of};
use crate::views;

/// The plan of a statement, with the lines that EXPLAIN shows for it: leaves and reasons.
enum SlicePlan {
    /// The plan above the leaves.
    Sliced(Box<PlannedStatement>, Spellings, String),
    /// This session runs it alone.
    Whole(String),
}

impl Session {
    /// Runs a statement in slices, with `run` for the leaves. The rest runs here.
    ///
    /// # Errors
    /// Those of [`Session::sql`].
    pub fn sql_in_slices(&self, text: &str, slicing: SliceSettings, run: &Arc<dyn RunLeaves>) -> Result<Answer> {
        limits::check_text(text)?;
        let pinned = Arc::new(PinnedCommits::at_first_sight());
        let session = self.over(self.database().pinned(Arc::clone(&pinned)))?;
        let is_plain = ShowStatement::of(text).is_none()
            && ShowCreate::of(text)?.is_none()
            && Summary::of(text).is_none()
            && PivotStatement::of(text)?.is_none()
            && ExplainedChange::of(text)?.is_none();
        let (query, is_explained) = match ExplainQuery::of(text) {
            Some(ExplainQuery::Planned(inner)) => (inner, true),
            Some(ExplainQuery::Run(_)) => return session.sql(text, Parameters::None),
            None => (text, false),
        };
        if !is_plain {
            return session.sql(text, Parameters::None);
        }
        let start = Instant::now();
        let query = &*views::with_views(&session.views(), query, &mut views::as_written)?;
        match (session.cut_statement(query, slicing, run, &pinned)?, is_explained) {
            (SlicePlan::Sliced(planned, spellings, _), false) => {
                let memory = session.pool();
                let bounds = StatementBounds::new(Arc::clone(&memory.0));
                session.start(*planned, &spellings, memory, bounds)
            }
            (SlicePlan::Sliced(planned, _, description), true) => {
                let physical = displayable(planned.plan.as_ref()).indent(false).to_string();
                let batches = vec![explained_rows(&[("cluster", &description), ("physical_plan", &physical)])?];
                Ok(session.answer_of(batches, start))
            }
            (SlicePlan::Whole(_), false) => session.run_expanded(query, Parameters::None, Stop::NEVER),
            (SlicePlan::Whole(description), true) => {
                let mut planned = session.sql(text, Parameters::None)?;
                planned.read_with_checks();
                let mut batches = vec![explained_rows(&[("cluster", &description)])?];
                let schema = batches[0].schema();
                batches.extend(planned.batches()?.into_iter().filter(|batch| batch.schema() == schema));
                Ok(session.answer_of(batches, start))
            }
        }
    }

    fn cut_statement(
        &self,
        query: &str,
        slicing: SliceSettings,
        run: &Arc<dyn RunLeaves>,
        pinned: &Arc<PinnedCommits>,
    ) -> Result<SlicePlan> {
        let (session, query, run, pinned) = (self.clone(), query.to_owned(), Arc::clone(run), Arc::clone(pinned));
        let bounds = StatementBounds::new(self.pool().0);
        let work = async move { session.plan_in_slices(&query, slicing, &run, &pinned).await };
        self.wait_for(&bounds, Stop::NEVER, work)?
    }

    /// The converted plan of a statement.
    async fn plan_converted(&self, state: &SessionState, text: &str) -> Result<(LogicalPlan, Spellings)> {
        let (plan, spellings, has_joins) = self.plan_logically(state, text).await?;
        let convert = |plan: LogicalPlan| -> Result<LogicalPlan, DataFusionError> {
            let plan = dates::compute(plan)?;
            if has_joins { joins::convert(plan, &TickRowOrder) } else { Ok(plan) }
        };
        let plan = convert(plan).map_err(|error| Error::from_datafusion(error, self.memory_bytes()))?;
        Ok((plan, spellings))
    }

    async fn plan_in_slices(
        &self,
        query: &str,
        slicing: SliceSettings,
        run: &Arc<dyn RunLeaves>,
        pinned: &Arc<PinnedCommits>,
    ) -> Result<SlicePlan> {
        let start = Instant::now();
        let wrap = |error: DataFusionError| Error::from_datafusion(error, self.memory_bytes());
        let state = self.statement_state();
        let (plan, mut spellings) = self.plan_converted(&state, query).await?;
        if matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) | LogicalPlan::DescribeTable(_)) {
            return Ok(SlicePlan::Whole("on one machine: it isn't a query".to_owned()));
        }
        if query_of_limit(&plan).map_err(wrap)?.is_some() {
            return Ok(SlicePlan::Whole("on one machine: a LIMIT or OFFSET is a query".to_owned()));
        }
        learn_columns(&plan, &mut spellings).map_err(wrap)?;
        let watches = watches(&plan).map_err(wrap)?;
        let CutPlan { top, parts, reasons } = cut(plan).map_err(wrap)?;
        let mut description: Vec<String> = Vec::new();
        let mut sliced = Vec::with_capacity(parts.len());
        for part in &parts {
            sliced.push(slices(&part.tables().map_err(wrap)?, &part.axes, slicing)?);
        }
        let are_few = sliced.iter().all(|slices| slices.len() <= 1);
        let reasons = reasons.iter().map(|reason| format!("not cut: {reason}"));
        if parts.is_empty() || are_few {
            description.push(match parts.is_empty() {
                true => "on one machine".to_owned(),
                false => format!("on one machine: its tables have fewer than {} rows a slice", slicing.slice_rows_min),
            });
            description.extend(reasons);
            return Ok(SlicePlan::Whole(description.join("\n")));
        }
        for (number, (part, slices)) in parts.iter().zip(sliced).enumerate() {
            let names = part.axes.iter().map(|axis| if *axis == Axis::Symbol { "symbols" } else { "dates" });
            let (axes, what) = (names.collect::<Vec<_>>(), if part.is_whole { "the statement" } else { "a part" });
            description.push(format!("{what} in {} slices by {}:", slices.len(), axes.join(" and ")));
            description.extend(part.plan.display_indent().to_string().lines().map(|line| format!("  {line}")));
            self.give_source(part, number, query, slices, (run, pinned));
        }
        description.extend(reasons);
        let plan = planner::physical(&state, top, false).await.map_err(wrap)?;
        let planned = PlannedStatement { plan, state, watches, planning: start.elapsed() };
        Ok(SlicePlan::Sliced(Box::new(planned), spellings, description.join("\n")))
    }

    fn give_source(
        &self,
        part: &SliceablePart,
        number: usize,
        query: &str,
        slices: Vec<Slice>,
        (run, pinned): (&Arc<dyn RunLeaves>, &Arc<PinnedCommits>),
    ) {
        let (run, commits, text) = (Arc::clone(run), pinned.commits(), query.to_owned());
        let (digest, plan, is_whole) = (part.digest(), part.plan.display_indent().to_string(), part.is_whole);
        part.source.set(Box::new(move |columns, schema| {
            run.plan(Leaf {
                text: text.clone(),
                part: (!is_whole).then_some(number),
                digest,
                columns,
                schema,
                commits: commits.clone(),
                slices: slices.clone(),
                plan: plan.clone(),
            })
        }));
    }

    /// Runs a leaf over one of its slices. The rows have the leaf's columns.
    ///
    /// # Errors
    /// [`Error::Store`] if a table can't be read at its commit here; those of [`Session::sql`].
    pub fn run_leaf(&self, leaf: &Leaf, slice: &Slice) -> Result<LeafRows> {
        let pinned = Arc::new(PinnedCommits::to(leaf.commits.clone(), slice.clone()));
        let session = self.over(self.database().pinned(pinned))?;
        let Some(number) = leaf.part else {
            let answer = session.run_expanded(&leaf.text, Parameters::None, Stop::NEVER)?;
            return Ok(LeafRows { answer, columns: Some(leaf.columns.clone()), schema: Arc::clone(&leaf.schema) });
        };
        let memory = session.pool();
        let bounds = StatementBounds::new(Arc::clone(&memory.0));
        let (planner, leaf) = (session.clone(), leaf.clone());
        let schema = Arc::clone(&leaf.schema);
        let planned = async move { planner.plan_leaf(&leaf, number).await };
        let (planned, spellings) = session.wait_for(&bounds, Stop::NEVER, planned)??;
        Ok(LeafRows { answer: session.start(planned, &spellings, memory, bounds)?, columns: None, schema })
    }

    async fn plan_leaf(&self, leaf: &Leaf, number: usize) -> Result<(PlannedStatement, Spellings)> {
        let start = Instant::now();
        let wrap = |error: DataFusionError| Error::from_datafusion(error, self.memory_bytes());
        let state = self.statement_state();
        let (plan, spellings) = self.plan_converted(&state, &leaf.text).await?;
        let parts = cut(plan).map_err(wrap)?.parts;
        let Some(part) = parts.into_iter().nth(number).filter(|part| part.digest() == leaf.digest) else {
            let message =
                "this machine plans the statement another way: all of a cluster run the same version".to_owned();
            return Err(Error::Internal { message });
        };
        let watches = watches(&part.plan).map_err(wrap)?;
        let columns = part.plan.schema().columns();
        let chosen: Vec<Expr> =
            leaf.columns.iter().filter_map(|at| columns.get(*at).cloned().map(Expr::Column)).collect();
        let plan = match leaf.columns.iter().copied().eq(0..columns.len()) {
            true => part.plan,
            false => {
                LogicalPlanBuilder::from(part.plan).project(chosen).and_then(LogicalPlanBuilder::build).map_err(wrap)?
            }
        };
        let plan = match self.runs_tick_plans() {
            true => with_tick_parts_of(plan, &state).map_err(wrap)?,
            false => plan,
        };
        let plan = planner::physical(&state, plan, false).await.map_err(wrap)?;
        Ok((PlannedStatement { plan, state, watches, planning: start.elapsed() }, spellings))
    }
}

/// The rows of a leaf over one slice.
#[derive(Debug)]
pub struct LeafRows {
    answer: Answer,
    /// The columns of the answer that are needed; `None` for all.
    columns: Option<Vec<usize>>,
    schema: SchemaRef,
}

impl LeafRows {
    fn conform(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let wrap = |error: arrow::error::ArrowError| Error::Internal { message: format!("rows of a leaf: {error}") };
        let batch = match &self.columns {
            Some(columns) => batch.project(columns).map_err(wrap)?,
            None => batch.clone(),
        };
        if batch.num_columns() != self.schema.fields().len() {
            return Err(Error::Internal { message: "a leaf has other columns here".to_owned() });
        }
        let fields = self.schema.fields().iter().zip(batch.columns());
        let columns = fields.map(|(field, column)| match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => cast(column, field.data_type()),
        });
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>().map_err(wrap)?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(wrap)
    }
}

impl Iterator for LeafRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let batch = self.answer.next()?;
        Some(batch.and_then(|batch| self.conform(&batch)))
    }
}

/// The slices of a part along its axes: ranges of dates first, and ranges of symbols if these aren't enough.
fn slices(tables: &[TableSnapshot], axes: &[Axis], slicing: SliceSettings) -> Result<Vec<Slice>> {
    let by = |axis| axes.contains(&axis);
    let is_cut = |table: &&TableSnapshot| {
        by(Axis::Symbol) && table.spec().is_cut_by_symbol() || by(Axis::Date) && table.spec().is_cut_by_date()
    };
    let rows: u64 = tables.iter().filter(is_cut).map(TableSnapshot::rows).sum();
    let slice_count = usize::try_from(rows / slicing.slice_rows_min.max(1)).unwrap_or(usize::MAX);
    let slice_count = slice_count.clamp(1, slicing.slices.max(1));
    let dates = if by(Axis::Date) { date_ranges(tables, slice_count) } else { vec![None] };
    let mut ranges = vec![None];
    let of_symbols = slice_count.div_ceil(dates.len());
    let cut_by_symbol = tables.iter().filter(|table| table.spec().is_cut_by_symbol());
    if by(Axis::Symbol)
        && of_symbols > 1
        && let Some(largest) = cut_by_symbol.max_by_key(|table| table.rows())
    {
        let bounds = largest.symbol_bounds(of_symbols)?;
        if !bounds.is_empty() {
            let from = std::iter::once(None).chain(bounds.iter().cloned().map(Some));
            let until = bounds.iter().cloned().map(Some).chain(std::iter::once(None));
            ranges = from.zip(until).map(|(from, until)| Some(SymbolRange { from, until })).collect();
        }
    }
    let slice =
        |dates: &Option<(i32, i32)>, symbols: &Option<SymbolRange>| Slice { dates: *dates, symbols: symbols.clone() };
    Ok(dates.iter().flat_map(|dates| ranges.iter().map(move |symbols| slice(dates, symbols))).collect())
}

/// Ranges of dates with about equally many rows, which together cover all dates.
fn date_ranges(tables: &[TableSnapshot], slice_count: usize) -> Vec<Option<(i32, i32)>> {
    let mut rows: std::collections::BTreeMap<i32, u64> = std::collections::BTreeMap::new();
    for partition in tables.iter().filter(|table| table.spec().is_cut_by_date()).flat_map(TableSnapshot::partitions) {
        *rows.entry(partition.date).or_default() += partition.rows();
    }
    let share = rows.values().sum::<u64>().div_ceil(slice_count.max(1) as u64).max(1);
    let (mut begins, mut filled) = (BTreeSet::new(), 0);
    for (date, count) in &rows {
        if filled >= share {
            begins.insert(*date);
            filled = 0;
        }
        filled += count;
    }
    if begins.is_empty() {
        return vec![None];
    }
    let from = std::iter::once(i32::MIN).chain(begins.iter().copied());
    let until = begins.iter().map(|date| date - 1).chain(std::iter::once(i32::MAX));
    from.zip(until).map(Some).collect()
}
