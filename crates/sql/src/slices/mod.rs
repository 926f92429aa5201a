//! Statements in slices: which parts of a statement may run on slices of its tables, so that their rows together are those of the whole.
//!
//! One rule over the logical plan decides (`slicing_axis.rs`): going up from the tables, it follows the columns that say in which slice a row is. A
//! grouping, a window or a join by such a column has all rows that it needs in one slice; filters and projections need one row alone. The
//! largest parts for which that holds become leaves (`cut.rs`), with the first half of groupings that split into two (`two_phase_grouping.rs`). Everything above
//! them runs once, over the rows of all slices.
//!
//! ```text
//! Sort: n                               Sort: n
//!   Aggregate: by venue, count            Aggregate: by venue, sum of the counts
//!     Join: trade.sym = quote.sym           Leaf: of each slice
//!       TableScan: trade                      Aggregate: by venue, count
//!       TableScan: quote                        Join: trade.sym = quote.sym
//! ```
//!
//! - A leaf is named by the text of its statement and its number: who runs it plans the same text and takes the same part, which a digest of
//!   the part confirms. Its operators and tick plans are those of a statement on one machine.
//! - Numbers of rows never leave a slice, for they count the slice's rows. What depends on the order of rows isn't computed above leaves.
//! - What reads a clock or chance isn't cut: it would be read once for each slice.

mod cut;
mod slicing_axis;
mod table;
mod two_phase_grouping;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use splay_store::{CommitPin, Slice};

pub(crate) use self::cut::{CutPlan, SliceablePart, cut};
pub(crate) use self::slicing_axis::Axis;

/// A part of a statement that runs on slices of its tables.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The statement, with the queries of its views.
    pub text: String,
    /// Number of the part among those of the statement; `None` if the whole statement is the part.
    pub part: Option<usize>,
    /// Digest of the part's plan.
    pub digest: u64,
    /// The columns of the part that the statement uses.
    pub columns: Vec<usize>,
    /// The schema of these columns.
    pub schema: SchemaRef,
    /// The commits of the tables.
    pub commits: BTreeMap<String, CommitPin>,
    /// The slices; the rows of all of them together are the part's.
    pub slices: Vec<Slice>,
    /// The plan of the part, for `EXPLAIN`.
    pub plan: String,
}

/// Runs the leaves of a cut plan.
pub trait RunLeaves: std::fmt::Debug + Send + Sync {
    /// A plan that returns the rows of all slices of a leaf, in any order.
    ///
    /// # Errors
    /// If there is none to be had.
    fn plan(&self, leaf: Leaf) -> Result<Arc<dyn ExecutionPlan>>;
}

/// The number of slices of leaves.
#[derive(Debug, Clone, Copy)]
pub struct SliceSettings {
    /// The number of slices, if there are enough rows.
    pub slices: usize,
    /// Rows of the tables below which another slice costs more than it saves.
    pub slice_rows_min: u64,
}
