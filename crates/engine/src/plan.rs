//! Tick plans: trees of steps over a table's rows, in the few forms that the kernels support.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use crate::aggregate::{Aggregate, Key};
use crate::expr::Expr;
use crate::frame::SortKey;
use crate::join::{AsofJoin, KeyJoin, WindowJoin};
use crate::scan::{FileScan, Scan};
use crate::steps::StepId;
use crate::window::WindowCall;

/// A tick plan. Column numbers are positions in the input: of a table its stored columns and, behind them, the date.
#[derive(Debug, Clone)]
pub enum Plan {
    /// Rows of a table.
    Rows {
        /// The rows to read.
        scan: Scan,
        /// Values of each row.
        outputs: Vec<Expr>,
        /// Their types.
        types: Vec<DataType>,
        /// Most rows to return: the table's first ones.
        fetch: Option<usize>,
    },
    /// Groups of a table's rows: keys, then aggregates.
    AggregateTable {
        /// The rows to read.
        scan: Scan,
        /// The group keys.
        keys: Vec<Key>,
        /// Types of the keys.
        key_types: Vec<DataType>,
        /// The aggregates of each group.
        aggregates: Vec<Aggregate>,
    },
    /// Groups of other rows: keys, then aggregates.
    Aggregate {
        /// The source of the rows.
        input: Box<Plan>,
        /// The group keys.
        keys: Vec<Expr>,
        /// Types of the keys.
        key_types: Vec<DataType>,
        /// The aggregates of each group.
        aggregates: Vec<Aggregate>,
    },
    /// Rows of files that are no table.
    Files(FileScan),
    /// Rows that constants hold: a list of values, or the rows of a plan that ran before.
    Values {
        /// The numbers of the constants, one for each column. There is at least one.
        columns: Vec<usize>,
        /// How many columns, from the first one on, differ together in all rows; none if rows may be equal.
        unique: usize,
    },
    /// Each row of the input with each row of a list; the list isn't empty.
    Cross {
        /// The source of the rows.
        input: Box<Plan>,
        /// The columns of the list.
        columns: Vec<ArrayRef>,
    },
    /// The input's columns, and those of an as-of join.
    Asof {
        /// The source of the left rows.
        input: Box<Plan>,
        /// The join.
        asof: Box<AsofJoin>,
    },
    /// The input's columns, and those of a window join.
    WindowJoin {
        /// The source of the left rows.
        input: Box<Plan>,
        /// The join.
        join: Box<WindowJoin>,
    },
    /// The input's columns and those of a smaller side's rows with the same keys.
    Join {
        /// The source of the left rows.
        input: Box<Plan>,
        /// The join.
        join: Box<KeyJoin>,
    },
    /// The input's columns, and one more for each call.
    Window {
        /// The source of the rows.
        input: Box<Plan>,
        /// The window functions to compute.
        calls: Vec<WindowCall>,
    },
    /// The rows of several plans with the same columns, in the order of the plans.
    Union {
        /// The sources of the rows.
        inputs: Vec<Plan>,
    },
    /// Each row as often as its longest list has values, with these values in the columns of the lists.
    Unnest {
        /// The source of the rows.
        input: Box<Plan>,
        /// The list columns to unnest.
        columns: Vec<usize>,
    },
    /// Rows for which a condition holds.
    Filter {
        /// The source of the rows.
        input: Box<Plan>,
        /// The condition.
        predicate: Expr,
    },
    /// Other columns of the same rows.
    Project {
        /// The source of the rows.
        input: Box<Plan>,
        /// Values of each row.
        outputs: Vec<Expr>,
    },
    /// Rows in sorted order, stable.
    Sort {
        /// The source of the rows.
        input: Box<Plan>,
        /// The sort keys.
        keys: Vec<SortKey>,
        /// Most rows to return.
        fetch: Option<usize>,
    },
    /// A part of the rows.
    Limit {
        /// The source of the rows.
        input: Box<Plan>,
        /// Rows to leave out.
        skip: usize,
        /// Most rows to return after them.
        fetch: Option<usize>,
    },
}

impl Plan {
    /// Identifies this step, as long as the plan isn't moved.
    pub(crate) fn step_id(&self) -> StepId {
        StepId::at(std::ptr::from_ref(self) as usize)
    }

    /// The steps below this one.
    #[must_use]
    pub fn inputs(&self) -> &[Plan] {
        match self {
            Plan::Rows { .. } | Plan::AggregateTable { .. } | Plan::Files(_) | Plan::Values { .. } => &[],
            Plan::Union { inputs } => inputs,
            Plan::Aggregate { input, .. }
            | Plan::Cross { input, .. }
            | Plan::Asof { input, .. }
            | Plan::WindowJoin { input, .. }
            | Plan::Join { input, .. }
            | Plan::Window { input, .. }
            | Plan::Unnest { input, .. }
            | Plan::Filter { input, .. }
            | Plan::Project { input, .. }
            | Plan::Sort { input, .. }
            | Plan::Limit { input, .. } => std::slice::from_ref(input),
        }
    }
}
