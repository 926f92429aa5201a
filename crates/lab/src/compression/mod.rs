//! The laboratory of compression: how small columns become by which scheme, and what writing and reading them costs.
//!
//! A [`Scheme`] is a way of storing a column. [`q_grid`] has those of q: logical blocks of 2^12 to 2^20 bytes by algorithm and level. [`today`]
//! has light encodings, pco, FSST, Parquet and Arrow IPC. [`run`] measures them, and a result counts only if every bit came back. [`choose`] and
//! [`front`] help to decide.
//!
//! ```
//! use splay_lab::compression::{Dataset, Kind, Limits, List, Metric, Order, Settings, choose, q_grid, run};
//!
//! let list = List { kind: Kind::Longs(1_000), count: 1_000, order: Order::Sorted, seed: 1 };
//! let data = [Dataset::from(list.column()?)];
//! let schemes = q_grid().into_iter().take(30).collect();
//! let settings = Settings { times: 1, ..Settings::default() };
//! let outcome = run(&data, &schemes, &settings, None, &mut |_| std::ops::ControlFlow::Continue(()))?;
//!
//! let limits = Limits { min_factor: Some(2.0), ..Limits::default() };
//! let smallest = choose(&outcome.rows, &limits, Metric::Factor)[0];
//! assert!(smallest.comp_factor > 3.0);
//! # Ok::<(), splay_lab::Error>(())
//! ```

mod blocks;
mod codec;
mod column;
mod dictionary;
mod frame;
mod fsst;
mod generate;
mod grid;
mod ipc;
mod light_encodings;
mod lz;
mod measure;
mod memory;
mod numbers;
mod pack;
mod parquet_file;
mod pco;
mod plain_bytes;
mod results;
mod rows;
mod run;
mod scheme;
mod summary;

pub use blocks::BLOCK_BITS;
pub use codec::Codec;
pub use column::Column;
pub use generate::{Kind, List, Order};
pub use grid::{SchemeSet, Schemes, q_grid, schemes, today};
pub use ipc::BufferCodec;
pub(crate) use measure::dropped_from_cache;
pub use parquet_file::PageCodec;
pub use results::{Measurement, concatenated, from_batch, load, save, schema, to_batch};
pub use run::{Dataset, Observer, Outcome, Progress, Runner, Settings, SkippedScheme, run};
pub use scheme::{BlockReader, Scheme, SchemeId};
pub use summary::{Extremes, Limits, Metric, best, choose, extremes, front, totals};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests;
