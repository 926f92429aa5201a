//! Capture through its public interface: what is acknowledged is there, once, in order, whatever happens.
#![allow(clippy::unwrap_used, missing_docs, clippy::cast_possible_truncation)]

mod backup;
mod bars;
mod basic;
mod crash;
mod damaged;
mod disk;
mod drift;
mod drop_rename;
mod duplicates;
mod follow;
mod golden;
mod lost;
mod measures;
mod model;
mod name_changes;
mod power;
mod rename;
mod rename_column;
mod replay;
mod replica;
mod rot;
mod rows;
mod subscriptions;
mod together;
