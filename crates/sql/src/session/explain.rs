//! The output of `EXPLAIN`, with the reason why a statement isn't a tick plan.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use splay_engine::{ReadStats, StepCosts, Stop};
use splay_store::{SelectedCount, SelectionStats};

use super::Session;
use crate::answer::{Answer, Source, Watches};
use crate::error::{Error, Result};
use crate::parameters::Parameters;
use crate::tick::ShapedStatement;

impl Session {
    /// The tick plan of a statement as text, or the reason why it has none.
    pub(super) fn describe_tick(&self, text: &str, parameters: &Parameters, stop: Stop<'_>) -> Option<String> {
        if !self.settings.tick_plans {
            return None;
        }
        let Some(statement) = ShapedStatement::new(text, parameters) else {
            return Some(
                "none, because the text is too long, or its literals can't be told from the rest, as a literal with a prefix"
                    .to_owned(),
            );
        };
        let learnt = |statement: ShapedStatement| {
            let statement = Arc::new(statement);
            match self.learn(&statement, stop) {
                Ok(()) => self.statements.describe(&statement, None),
                Err(error) => Some(format!("none, because it can't be planned: {error}")),
            }
        };
        let too_long = || Some("none, because a text with literals in the names of its columns is too long".to_owned());
        learnt(statement).or_else(|| ShapedStatement::as_written(text, parameters).map_or_else(too_long, learnt))
    }

    /// The tick plan of a statement that ran, in words, or why it has none, as far as that is known; nothing is planned. With what its
    /// steps cost.
    pub(crate) fn describe_known(
        &self,
        text: &str,
        parameters: &Parameters,
        costs: Option<&StepCosts>,
    ) -> Option<String> {
        let describe = |statement: ShapedStatement| self.statements.describe(&statement, costs);
        let described = ShapedStatement::new(text, parameters).and_then(describe);
        described.or_else(|| ShapedStatement::as_written(text, parameters).and_then(describe))
    }
}

/// The answer of an `EXPLAIN` with one more row before the others.
pub(super) fn with_tick_plan(mut answer: Answer, description: &str) -> Result<Answer> {
    answer.read_with_checks();
    let mut batches = answer.batches()?;
    batches.insert(0, explained_rows(&[("tick_plan", description)])?);
    Ok(with_rows(answer, batches[0].schema(), batches))
}

/// Rows of an `EXPLAIN`: kinds of plans, with the plans.
pub(crate) fn explained_rows(rows: &[(&str, &str)]) -> Result<RecordBatch> {
    let column = |texts: Vec<&str>| Arc::new(StringArray::from(texts)) as ArrayRef;
    let (kinds, plans) = rows.iter().copied().unzip();
    RecordBatch::try_from_iter_with_nullable([("plan_type", column(kinds), false), ("plan", column(plans), false)])
        .map_err(|error| Error::Internal { message: error.to_string() })
}

/// The tick plan that ran, with its cost, in place of its rows.
pub(super) fn with_metrics(mut answer: Answer, description: &str) -> Result<Answer> {
    answer.read_with_checks();
    answer.batches()?;
    let stats = answer.stats();
    let ratio = |count: SelectedCount| format!("{}/{}", count.selected, count.total);
    let SelectionStats { partitions, symbols, blocks, rows } = stats.selection;
    let metrics = format!(
        "output_rows={}, partitions={}, symbols={}, blocks={}, rows={}, rows_scanned={}, bytes_scanned={}, \
         peak_memory_bytes={}, planning={:?}, execution={:?}",
        stats.rows_returned,
        ratio(partitions),
        ratio(symbols),
        ratio(blocks),
        ratio(rows),
        stats.rows_scanned,
        stats.bytes_scanned,
        stats.peak_memory_bytes,
        stats.planning,
        stats.execution,
    );
    let batch = explained_rows(&[("tick_plan", description), ("metrics", &metrics)])?;
    answer.schema = batch.schema();
    answer.rows = 0;
    if let Source::Ready { batches, .. } = &mut answer.source {
        batches.push_back(batch);
    }
    Ok(answer)
}

/// An answer with `batches` in place of its own rows. It keeps the statistics, the times and the reason why there is no
/// tick plan.
pub(crate) fn with_rows(mut answer: Answer, schema: SchemaRef, batches: Vec<RecordBatch>) -> Answer {
    let stats = answer.stats();
    let read = ReadStats { scans: vec![stats.selection], bytes: stats.bytes_scanned, ..ReadStats::default() };
    let source = Source::Ready { batches: batches.into(), execution: answer.start.elapsed(), read, _memory: None };
    let times = (answer.start, answer.planning);
    let mut shown = Answer::new(schema, source, times, Watches::default(), answer.memory.clone());
    shown.refusal = answer.refusal.take();
    shown
}
