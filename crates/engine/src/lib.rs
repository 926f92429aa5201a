//! The ordered engine: tick plans and the kernels that run them over mapped columns.
//!
//! A tick plan says in a few forms what is done with a table's rows. It is made once for a statement's shape; each run binds
//! constants, finds the rows by the table's order and works on slices of the mapped columns. Nothing here knows SQL.

mod aggregate;
mod arithmetic;
pub mod asof;
mod choice;
mod choose;
mod codes;
mod compact;
mod compare;
mod compress;
mod describe;
mod ends;
mod error;
mod expr;
mod files;
mod filter_mask;
mod first;
mod frame;
mod gather;
mod hashed;
mod join;
mod late;
mod lookup;
pub mod moving;
mod natives;
mod number_calls;
mod order;
mod own_type;
mod packed_keys;
mod parallel;
mod per_run;
mod per_stretch;
mod per_text;
mod plan;
mod progress;
mod prune;
mod reads;
mod row_count;
mod rows;
mod rows_by_word;
mod run;
mod search;
mod shift;
mod steps;
mod stop;
mod table;
mod text_sort;
mod translations;
mod unnest;
mod value_list;
mod vector;
mod widen;
mod window;
mod word_units;

pub use aggregate::{
    Aggregate, AggregateFunction, AggregateKernel, Buckets, ExternalAggregate, KernelAccumulator, Key, Listing,
    Moments, Pair, Pivot,
};
pub use error::{Error, Result};
pub use expr::{BinaryOp, Expr, ScalarFunction, Value};
pub use frame::SortKey;
pub use join::{AsofJoin, KeyJoin, WindowJoin};
pub use lookup::LookupTable;
pub use own_type::{OwnComparison, own_comparison};
pub use per_run::release;
pub use plan::{Bound, FileScan, Plan, Scan};
pub use progress::Progress;
pub use reads::{ReadStats, Reads, value_bytes};
pub use run::{ExecutionContext, run, run_in_one};
pub use steps::{StepCost, StepCosts};
pub use stop::Stop;
pub use table::RowSelection;
pub use unnest::item;
pub use value_list::ValueList;
pub use window::{FrameBound, FrameFunction, PartitionFunction, WindowCall, WindowFrame, WindowFunction};
