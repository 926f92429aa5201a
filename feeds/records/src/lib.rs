//! Records of a feed on their way into a SplayDB server: what the programs of this workspace have in common.
//!
//! - [`columns`]: a table's columns, and values as these hold them; [`decimal`], [`times`] read numbers and times as they are written.
//! - [`json`]: objects and arrays into cells, by the names in [`fields`].
//! - [`decode`]: what makes rows of records, each program in its way.
//! - [`partition`]: batches of one sequence of records, their numbers, what is done with each answer. Knows neither where records come from
//!   nor HTTP, so that a model can try it. [`mailbox`] brings records there from another thread, in bounded memory.
//! - [`server`], [`http_client`]: the server over HTTP. [`dead_letters`]: records that are no rows. [`metrics`]: numbers for the log and Prometheus.
//! - [`settings`]: the parts of a file of settings that all programs have. [`stop`], [`signals`]: the end, to all threads.

pub mod columns;
pub mod dead_letters;
pub mod decimal;
pub mod decode;
pub mod fields;
pub mod http_client;
pub mod json;
pub mod mailbox;
pub mod metrics;
pub mod partition;
pub mod server;
pub mod settings;
pub mod signals;
pub mod stop;
pub mod times;
