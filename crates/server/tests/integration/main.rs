//! The server as its clients meet it: over sockets, on a free port of this machine.

#![allow(clippy::unwrap_used)]

mod audit;
mod auth;
mod console;
mod flight;
mod hostile;
mod line;
mod memory;
mod postgres;
mod query;
mod quotas;
mod replica;
mod subscribe;
mod support;
mod users;
mod write;
