//! Statements within their bounds of memory and time, whatever they say.
//!
//! A process of its own, in which every byte that is allocated is counted. Its tests run one behind the other.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod corpus;
mod counted;
mod functions;
mod fuzz;
mod grammar;
#[path = "../integration/market.rs"]
#[allow(dead_code, reason = "other tests have more tables")]
mod market;
mod planning;
mod repeats;
mod run;
mod total;
