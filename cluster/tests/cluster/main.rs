//! A scheduler and its executors as processes: the same rows as one process, or an error.

mod faults;
mod market;
mod processes;
mod rows;
mod same_rows;
mod statements;
