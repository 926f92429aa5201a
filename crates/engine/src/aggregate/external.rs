//! Aggregates that the caller implements, such as DataFusion's.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;

use super::accumulate::{Accumulator, NO_GROUP, RowGroups, same};
use crate::error::Result;

/// An aggregate that the engine doesn't know, whose result doesn't depend on the order of the rows.
pub trait AggregateKernel: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Its state before the first row.
    ///
    /// # Errors
    /// [`Error::Function`](crate::Error::Function) with the aggregate's own words.
    fn accumulator(&self) -> Result<Box<dyn KernelAccumulator>>;
}

/// The state of such an aggregate for all groups. Errors are as in [`AggregateKernel::accumulator`].
pub trait KernelAccumulator: Send {
    /// Takes in rows, each with its group; there are `total` groups by now.
    ///
    /// # Errors
    /// See above.
    fn update(&mut self, arguments: &[ArrayRef], groups: &[usize], total: usize) -> Result<()>;

    /// Takes in what another of the same aggregate has; `groups` says which of ours each of its groups is.
    ///
    /// # Errors
    /// See above.
    fn merge(&mut self, other: Box<dyn KernelAccumulator>, groups: &[usize], total: usize) -> Result<()>;

    /// The results, one for each group.
    ///
    /// # Errors
    /// See above.
    fn finish(self: Box<Self>, total: usize) -> Result<ArrayRef>;

    /// Bytes that are held.
    fn heap_bytes(&self) -> usize;

    /// The state as what it is, for a merge.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// An aggregate from outside; equal to itself alone.
#[derive(Clone)]
pub struct ExternalAggregate(pub Arc<dyn AggregateKernel>);

impl Debug for ExternalAggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl PartialEq for ExternalAggregate {
    fn eq(&self, other: &ExternalAggregate) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ExternalAggregate {}

/// Feeds rows to an aggregate from outside.
pub(super) struct External {
    state: Box<dyn KernelAccumulator>,
    groups: usize,
}

impl External {
    pub fn new(aggregate: &ExternalAggregate) -> Result<External> {
        Ok(External { state: aggregate.0.accumulator()?, groups: 0 })
    }
}

impl External {
    /// Takes in rows among which there are others.
    fn update_picked(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let (mut rows, mut groups) = (Vec::new(), Vec::new());
        assigned.each(None, |group, row| {
            #[expect(clippy::cast_possible_truncation, reason = "rows of a block are numbered in 32 bits")]
            rows.push(row as u32);
            groups.push(group);
        });
        if rows.is_empty() {
            return Ok(());
        }
        let rows = UInt32Array::from(rows);
        let arguments = arguments.iter().map(|array| take(array, &rows, None)).collect::<Result<Vec<_>, _>>()?;
        self.state.update(&arguments, &groups, self.groups)
    }
}

impl Accumulator for External {
    fn grow(&mut self, groups: usize) {
        self.groups = groups;
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        match assigned {
            RowGroups::Rows(groups) if !groups.contains(&NO_GROUP) => {
                let groups: Vec<usize> = groups.iter().map(|group| *group as usize).collect();
                self.state.update(arguments, &groups, self.groups)
            }
            RowGroups::Runs(runs) if runs.windows(2).all(|pair| pair[0].end == pair[1].start) => {
                let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(()) };
                let mut groups = Vec::with_capacity(last.end - first.start);
                runs.iter().for_each(|run| groups.resize(run.end - first.start, run.group as usize));
                let arguments: Vec<ArrayRef> =
                    arguments.iter().map(|array| array.slice(first.start, last.end - first.start)).collect();
                self.state.update(&arguments, &groups, self.groups)
            }
            _ => self.update_picked(arguments, assigned),
        }
    }

    fn heap_bytes(&self) -> usize {
        self.state.heap_bytes()
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let other = same::<External>(other)?;
        let groups: Vec<usize> = groups[..other.groups].iter().map(|group| *group as usize).collect();
        self.state.merge(other.state, &groups, self.groups)
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        self.state.finish(self.groups)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
