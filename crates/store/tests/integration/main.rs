//! Tests of the store from outside: crashes, faults, damage, order, selection and schema.
//!
//! Every random choice comes from a fixed seed, which a failure prints.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod advise;
mod crash;
mod damage;
mod day_start;
mod definitions;
mod delta;
mod duplicates;
mod encryption;
mod faults;
mod golden;
mod hostile;
mod life;
mod locks;
mod model;
mod objects;
mod order;
mod partitions;
mod random;
mod reference;
mod rename;
mod scenario;
mod schema;
mod select;
mod tiers;
mod undo;
mod unreadable;
mod views;
