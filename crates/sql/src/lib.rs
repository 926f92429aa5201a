//! SQL over SplayDB: DataFusion with our table provider, our scan and our functions.
//!
//! ```no_run
//! use splay_sql::{Parameters, Session, SessionSettings};
//! use splay_store::Database;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let session = Session::new(Database::open("market")?, SessionSettings::default())?;
//! let mut answer = session.sql("select sym, last(price) from trade group by sym order by sym", Parameters::None)?;
//! for batch in answer.by_ref() {
//!     println!("{:?}", batch?);
//! }
//! println!("{:?}", answer.stats());
//! # Ok(())
//! # }
//! ```

mod access;
mod answer;
mod array_queries;
mod batch_queue;
mod bounds;
mod calendars;
mod caller;
mod change;
mod coercion;
mod column_cache;
mod correlated;
mod correlated_in;
mod correlated_order;
mod correlation_domain;
mod create_text;
mod dates;
mod decimal_texts;
mod decimals;
mod dialect;
mod dictionaries;
mod dynamic_filters;
mod equal_names;
mod error;
mod expand;
mod far_times;
mod file_scan;
mod files;
mod filtered_scan;
mod from_clauses;
mod function_calls;
mod guard;
mod guarded_and;
mod hints;
mod in_select;
mod information_schema;
mod intervals;
mod joins;
mod large_joins;
mod lifted_literals;
mod limits;
mod literal_types;
mod lock_retry;
mod logical_plan;
mod long_numbers;
mod materialized;
mod memory;
mod named_statements;
mod names;
mod narrowing_casts;
mod nested_correlation;
mod nested_text;
mod null_safe_keys;
mod numbers;
mod offset_defaults;
mod offset_limits;
mod one_nan;
mod operator_call;
mod order_once;
mod parameter_calls;
mod parameters;
mod pass;
mod pivot;
mod pivot_statement;
mod placeholders;
mod plan_rewrite;
mod planner;
pub mod postgres;
mod prepare_check;
mod provider;
mod pushdown;
mod queries;
mod query_planner;
mod query_values;
mod read_only;
mod resolve;
mod row_order;
mod scan;
mod semi_joins;
mod session;
mod show_create;
mod slices;
mod statement_states;
pub mod statements;
mod subquery_plans;
mod summary;
mod syntax;
mod table_options;
mod table_spec;
mod text_forms;
mod tick;
mod tick_schema;
mod times;
mod token_reader;
mod unnest_joins;
mod unpivot;
mod unsupported;
mod view_reads;
mod views;
mod walk;
mod yielding;
mod zones;

pub use access::without_secrets;
pub use answer::{Answer, RunBy, StatementChange, StatementStats, WaitOutcome};
pub use bounds::size::widest_row_bytes;
pub use change::{
    ChangeDescription, CopyStream, CopyTo, InsertOutcome, InsertRows, IntoFiles, RefreshOutcome, StreamFormat,
    StreamKind, copy_stream, copy_to, creates_table, gives_token, is_change, rename_table, returns_rows,
};
pub use datafusion::common::ScalarValue;
pub use error::{Error, Result};
pub use memory::{AnswerMemory, AnswerMemoryPart};
pub use named_statements::{NamedStatement, NamedStatements, ResolvedStatement};
pub use nested_text::nested_as_text;
pub use parameters::Parameters;
pub use queries::LeafRows;
pub use session::{Description, Session, SessionSettings};
pub use slices::{Leaf, RunLeaves, SliceSettings};
pub use splay_engine::{Progress, Stop};
pub use splay_store::TransactionSnapshots;
