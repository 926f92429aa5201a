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
mod audit;
mod auth;
mod authority;
mod blocking;
mod callers;
mod cancellation;
mod capture_metrics;
mod changes;
pub mod client;
mod counted_bytes;
mod error;
mod flight;
#[cfg(test)]
mod fuzz;
mod guarded;
mod http;
pub mod ingest;
mod ipc;
mod label_sets;
mod line;
mod line_keys;
mod lines;
mod listen;
mod machine;
mod metrics;
mod oidc;
mod pending_appends;
mod postgres;
mod priority_semaphore;
mod problem;
mod protocol_detection;
mod quotas;
mod refresh;
pub mod replica;
mod server;
pub mod settings;
mod sources;
mod statement_slots;
mod statements;
mod subscription_requests;
mod subscriptions;
mod tls;

pub use error::{Error, Result};
#[doc(hidden)]
pub use http::http_routes;
pub use machine::memory_of_machine;
pub use server::{Addresses, Server};
pub use tls::CertificateReload;
