//! The gap fill of a logical plan.
//!
//! Shapes: all columns of the input in their order; the group keys as they are, every other column may be null. For each
//! combination of the keys but the time the rows of the input and one for each bucket that lacks one.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use super::bounds::TimeBound;
use super::calls::{Extent, FillKind};
use crate::sessions::CalendarHandle;

/// A column that isn't left null in made rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Fill {
    pub column: usize,
    pub kind: FillKind,
}

/// Which buckets there are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Grid {
    /// The arguments of `time_bucket` but the time: width, and zone and origin if there are any.
    pub expressions: Vec<Expr>,
    pub extent: Extent,
    /// Whether buckets are counted from the first one that has rows.
    pub begins_with_rows: bool,
    /// The calendar in whose sessions buckets are made.
    pub calendar: Option<CalendarHandle>,
}

/// Adds the buckets that an aggregate over `time_bucket` lacks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct GapFill {
    pub input: LogicalPlan,
    pub schema: DFSchemaRef,
    pub grid: Grid,
    pub bounds: Vec<TimeBound>,
    /// Position of the bucket's start in the input.
    pub time: usize,
    /// Positions of the other group keys.
    pub keys: Vec<usize>,
    /// Columns up to here are group keys.
    pub groups: usize,
    pub fills: Vec<Fill>,
}

impl GapFill {
    pub(super) fn new(
        input: LogicalPlan,
        grid: Grid,
        bounds: Vec<TimeBound>,
        time: usize,
        keys: Vec<usize>,
        groups: usize,
        fills: Vec<Fill>,
    ) -> Result<GapFill> {
        let fields = input.schema().iter().enumerate().map(|(position, (qualifier, field))| {
            let field = match position < groups {
                true => Arc::clone(field),
                false => Arc::new(field.as_ref().clone().with_nullable(true)),
            };
            (qualifier.cloned(), field)
        });
        let schema = DFSchema::new_with_metadata(fields.collect(), input.schema().metadata().clone())?;
        Ok(GapFill { schema: Arc::new(schema), input, grid, bounds, time, keys, groups, fills })
    }
}

impl PartialOrd for GapFill {
    fn partial_cmp(&self, other: &GapFill) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for GapFill {
    fn name(&self) -> &str {
        "GapFill"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.grid.expressions.iter().cloned().chain(self.bounds.iter().map(|bound| bound.at.clone())).collect()
    }

    /// A series is filled without regard to others, so filters on its keys may come first; but one without keys has rows where
    /// its input has none.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let is_alone = self.grid.extent == Extent::Series;
        let names = self.schema.fields().iter().enumerate();
        let stays = |position: &usize| !is_alone || !self.keys.contains(position);
        names.filter(|(position, _)| stays(position)).map(|(_, field)| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = |position: &usize| self.schema.field(*position).name().clone();
        let keys: Vec<String> = self.keys.iter().map(name).collect();
        write!(f, "GapFill: time={}, keys=[{}]", name(&self.time), keys.join(", "))?;
        if let Some(calendar) = &self.grid.calendar {
            write!(f, ", sessions of {}", calendar.name())?;
        }
        for bound in &self.bounds {
            write!(f, ", {:?} {}", bound.kind, bound.at)?;
        }
        Ok(())
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<GapFill> {
        let of_grid = self.grid.expressions.len();
        let (Some(input), true) = (inputs.pop(), exprs.len() == of_grid + self.bounds.len()) else {
            return internal_err!("a gap fill has one input, a grid and bounds");
        };
        let at = exprs.split_off(of_grid);
        let bounds = self.bounds.iter().zip(at).map(|(bound, at)| TimeBound { kind: bound.kind, at }).collect();
        let grid = Grid { expressions: exprs, ..self.grid.clone() };
        GapFill::new(input, grid, bounds, self.time, self.keys.clone(), self.groups, self.fills.clone())
    }
}
