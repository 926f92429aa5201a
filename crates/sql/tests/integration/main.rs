//! SQL over a database on disk: logic files, plans, and filters against a scan without indexes.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod access;
mod both;
mod cascade;
mod changes;
mod choices;
mod encrypted;
mod files;
mod first_and_last;
mod first_rows;
mod generated;
mod group_keys;
mod join_keys;
mod joins;
mod joins_by_keys;
mod large_joins;
mod limits;
mod logic;
mod many_rows;
mod market;
mod materialized;
mod own_types;
mod parameter_types;
mod partitions;
mod parts;
mod pivots;
mod pruning;
mod session;
mod show_create;
mod subqueries;
mod symbol_keys;
mod ticks;
mod very_many_groups;
mod windows;
