//! Grouping and aggregation: over tables along the order of their rows (`over_table/`), over rows in memory by hash
//! (`over_frame.rs`).

mod accumulate;
mod decimal_scale;
mod dense;
mod distinct;
mod distinct_values;
mod external;
mod extremes;
mod first_by;
mod group_slots;
mod groups;
mod keys;
mod list;
mod over_frame;
mod over_table;
mod picks;
mod pivot;
mod row_numbers;
mod spread;
mod text_extremes;

use std::fmt::Debug;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;

pub use external::{AggregateKernel, ExternalAggregate, KernelAccumulator};
pub use list::Listing;

pub(crate) use accumulate::{
    Accumulator, Exact, GroupRun, Mean, RowGroups, accumulator, check_sums, magnitudes, weighted,
};
pub(crate) use groups::Groups;
pub(crate) use keys::{TextWords, ValueKey};
pub(crate) use over_frame::{accumulator_of, arguments, at_each_row, group_rows, key_numbers, over_frames};
pub(crate) use over_table::{TableAggregate, needs_symbols, over_table};
pub(crate) use picks::{Picks, Positions};
pub use pivot::Pivot;

use crate::expr::Expr;

/// Cuts time into buckets.
pub trait Buckets: Debug + Send + Sync {
    /// The bucket of an instant in nanoseconds since the epoch: its start and its end, which isn't part of it. Later instants
    /// have the same or later buckets. `None` for an instant without one.
    fn bucket(&self, instant: i64) -> Option<(i64, i64)>;
}

/// What rows are grouped by.
#[derive(Debug, Clone)]
pub enum Key {
    /// The table's symbol column.
    Symbol,
    /// The table's date.
    Date,
    /// The bucket of the table's time column.
    Bucket(Arc<dyn Buckets>),
    /// Any value.
    Value(Expr),
}

/// An aggregate over the rows of a group.
#[derive(Debug, Clone)]
pub struct Aggregate {
    /// What is computed.
    pub function: AggregateFunction,
    /// Of what: none for [`AggregateFunction::CountRows`], two for the weighted ones, else one, which keys of an order may follow. Of a pivot the
    /// places of the key's values follow.
    pub arguments: Vec<Expr>,
    /// Only of the rows for which this is true.
    pub filter: Option<Expr>,
    /// Type of the result.
    pub data_type: DataType,
    /// The key values of a pivot, each with a column of its own; `None` for one column over all rows.
    pub pivot: Option<Pivot>,
}

impl Aggregate {
    /// An aggregate of all rows of a group.
    #[must_use]
    pub fn new(function: AggregateFunction, arguments: Vec<Expr>, data_type: DataType) -> Aggregate {
        Aggregate { function, arguments, filter: None, data_type, pivot: None }
    }

    /// Whether the two have the same result, given which constants are `same`.
    #[must_use]
    pub fn is_same_by(&self, other: &Aggregate, same: &dyn Fn(usize, usize) -> bool) -> bool {
        self.function == other.function
            && self.data_type == other.data_type
            && self.arguments.len() == other.arguments.len()
            && self.arguments.iter().zip(&other.arguments).all(|(one, other)| one.is_same_by(other, same))
            && match (&self.filter, &other.filter) {
                (Some(one), Some(other)) => one.is_same_by(other, same),
                (one, other) => one.is_none() && other.is_none(),
            }
            && self.pivot.is_none()
            && other.pivot.is_none()
    }

    /// How many columns it has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.pivot.as_ref().map_or(1, Pivot::width)
    }

    /// Whether there is a kernel for arguments of some types.
    #[must_use]
    pub fn has_kernel(&self, arguments: &[DataType]) -> bool {
        self.function.is_of_one_row() || accumulator(self, arguments, 1).is_ok()
    }
}

impl AggregateFunction {
    /// Whether it can be computed over window frames, for the argument types that groups support.
    #[must_use]
    pub fn has_frames(&self) -> bool {
        let is_of_groups_alone = matches!(
            self,
            AggregateFunction::Median
                | AggregateFunction::CountDistinct
                | AggregateFunction::List(_)
                | AggregateFunction::External(_)
        );
        !self.is_of_one_row() && !is_of_groups_alone
    }

    /// Whether rows with a null argument are ignored. An aggregate without arguments can then be given one that is null in rows to be ignored.
    #[must_use]
    pub fn leaves_nulls_out(&self) -> bool {
        !self.is_of_one_row() && !matches!(self, AggregateFunction::List(_) | AggregateFunction::External(_))
    }

    /// Whether it can be computed only over rows in memory, in the order of their table.
    #[must_use]
    pub fn is_of_rows_in_memory(&self) -> bool {
        matches!(self, AggregateFunction::FirstBy(_) | AggregateFunction::LastBy(_) | AggregateFunction::List(_))
    }

    /// Whether it is the value of one row.
    fn is_of_one_row(&self) -> bool {
        self.picks().is_some() || matches!(self, AggregateFunction::FirstBy(_) | AggregateFunction::LastBy(_))
    }

    /// Whether it is the value of the first or last row, in the table's order or by the table's time; then `(is_last, is_by_time)`.
    pub(crate) fn picks(&self) -> Option<(bool, bool)> {
        match self {
            AggregateFunction::First => Some((false, false)),
            AggregateFunction::Last => Some((true, false)),
            AggregateFunction::FirstByTime => Some((false, true)),
            AggregateFunction::LastByTime => Some((true, true)),
            _ => None,
        }
    }
}

/// What is computed for a group. Nulls are ignored unless a variant says otherwise. Without values the result is null, of counts 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AggregateFunction {
    /// Number of rows.
    CountRows,
    /// Number of values.
    Count,
    /// Number of different values; both zeros are one.
    CountDistinct,
    /// Sum; refused where 64 bits might not hold one of whole numbers or durations.
    Sum,
    /// Mean of floats or durations, or of decimals of up to 25 digits.
    Average,
    /// Least value of any type with an order; of floats NaN is the greatest, and -0 comes before 0.
    Min,
    /// Greatest value.
    Max,
    /// Value of the first row in the table's order, which may be null.
    First,
    /// Value of the last row in the table's order, which may be null.
    Last,
    /// Value of the row with the least time; of several the first in the table's order.
    FirstByTime,
    /// Value of the row with the greatest time; of several the last in the table's order.
    LastByTime,
    /// Value, which may be null, of the first row in the order of the arguments after the first; of tied rows the first in the table's order. Only
    /// over rows in memory.
    FirstBy(Vec<SortOptions>),
    /// Value of the last row in such an order; of tied rows the last in the table's order.
    LastBy(Vec<SortOptions>),
    /// The values of the rows, nulls included, as a list or as a text; null without rows. Only over rows in memory.
    List(Listing),
    /// Mean of the second argument weighted by the first; null where the weights add up to 0.
    WeightedAverage,
    /// Sum of the products.
    WeightedSum,
    /// Variance of floats: of the population (divided by n), or of a sample (by n - 1).
    Variance {
        /// Whether it is of a sample.
        sample: bool,
    },
    /// Square root of the variance.
    Deviation {
        /// Whether it is of a sample.
        sample: bool,
    },
    /// Median of floats of either width: of an even number of values the mean of the middle two.
    Median,
    /// Pearson's correlation of two columns of floats.
    Correlation,
    /// Covariance of two columns of floats: of the population, or of a sample.
    Covariance {
        /// Whether it is of a sample.
        sample: bool,
    },
    /// An aggregate without a kernel in the engine.
    External(ExternalAggregate),
}
