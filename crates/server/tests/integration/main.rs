//! The server as its clients meet it: over sockets, on a free port of this machine.

#![allow(clippy::unwrap_used)]

mod auth;
mod flight;
mod hostile;
mod line;
mod memory;
mod query;
mod subscribe;
mod support;
mod write;
