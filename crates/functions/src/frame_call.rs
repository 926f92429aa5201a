//! The call of an aggregate over frames: what `over_frames.rs` plans and `frame_evaluator.rs` evaluates.

use std::ops::Range;
use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::logical_expr::{AggregateUDF, WindowFrameBound};

use crate::frame_rows::{Exclusion, Units};

/// An aggregate with its frame.
///
/// Its arguments are those of the aggregate, the filter, the keys of the call's order, the keys of the window's, and offsets.
#[derive(Debug, Clone)]
pub(super) struct FrameCall {
    pub aggregate: Arc<AggregateUDF>,
    pub arguments: usize,
    pub is_distinct: bool,
    pub ignores_nulls: bool,
    pub has_filter: bool,
    pub order: Vec<SortOptions>,
    pub keys: Vec<SortOptions>,
    pub units: Units,
    pub bounds: [WindowFrameBound; 2],
    /// Whether start and end come as arguments.
    pub offsets: [bool; 2],
    pub exclusion: Exclusion,
}

impl FrameCall {
    /// The call as text, by which it is told from others.
    pub fn described(&self) -> String {
        let [start, end] = &self.bounds;
        let mut name = format!("{} over {:?} {start} to {end}", self.aggregate.name(), self.units).to_lowercase();
        let parts = [
            (self.is_distinct, "distinct".to_owned()),
            (self.ignores_nulls, "ignore nulls".to_owned()),
            (self.has_filter, "filter".to_owned()),
            (!self.order.is_empty(), format!("order {:?}", self.order)),
            (self.offsets != [false; 2], format!("offsets {:?}", self.offsets)),
            (self.exclusion != Exclusion::Nothing, format!("exclude {:?}", self.exclusion)),
        ];
        for (_, part) in parts.iter().filter(|(is_there, _)| *is_there) {
            name.push(' ');
            name.push_str(part);
        }
        name
    }

    /// The places of arguments by what they are.
    pub fn places(&self) -> [Range<usize>; 4] {
        let filter = self.arguments..self.arguments + usize::from(self.has_filter);
        let order = filter.end..filter.end + self.order.len();
        let keys = order.end..order.end + self.keys.len();
        let offsets = keys.end..keys.end + self.offsets.iter().filter(|is_given| **is_given).count();
        [filter, order, keys, offsets]
    }
}
