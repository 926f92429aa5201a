//! The server: statements and rows over HTTP, Flight SQL, Flight, PostgreSQL's wire protocol, WebSocket and line
//! protocol.
//!
//! [`Server::bind`] validates all settings and binds the addresses; [`Server::run`] serves until it is told to stop.
//! Every resource that a client can request is bounded by [`settings::Limits`].
//!
//! ```no_run
//! use splay_server::settings::Settings;
//! use splay_server::Server;
//! use splay_store::Database;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = Settings::read("splay-server.toml")?;
//! let server = Server::bind(settings, Database::open("market")?, None).await?;
//! println!("{:?}", server.addresses());
//! server.run(async { tokio::signal::ctrl_c().await.unwrap_or(()) }).await;
//! # Ok(())
//! # }
//! ```

mod appends;
mod asks;
mod audit;
mod auth;
mod callers;
mod changes;
pub mod client;
mod counted;
mod error;
mod flight;
#[cfg(test)]
mod fuzz;
mod guarded;
mod http;
pub mod ingest;
mod ipc;
mod line;
mod lines;
mod listen;
mod machine;
mod measured;
mod metrics;
mod named;
mod oidc;
mod opening;
mod places;
mod postgres;
mod problem;
mod quotas;
mod refresh;
pub mod replica;
mod running;
mod server;
pub mod settings;
mod sources;
mod statements;
mod subscriptions;
mod tls;
mod waiting;

pub use error::{Error, Result};
#[doc(hidden)]
pub use http::http_routes;
pub use machine::memory_of_machine;
pub use server::{Addresses, Server};
