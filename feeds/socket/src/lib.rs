//! Rows of WebSocket feeds and of Cryptofeed's sockets into a SplayDB server.
//!
//! What comes over a socket can't be read again. So a message waits in memory until the server has acknowledged its rows, within a limit, and what
//! is lost by the limit, by a venue's lost connection or by the end of the process is counted and logged (ADR 78).
//!
//! - [`settings`]: where messages come from and what they are, from a TOML file.
//! - [`websocket`], [`listen`]: threads that read; [`json_splitter`] cuts streams into objects. [`arrival_queue`]: what waits.
//! - [`recipe`]: which table a message is for, and its rows; [`gap_detector`]: gaps in the venue's numbers.
//! - [`feed`], [`run`]: a feed at work, and all of them. [`counts`], [`dead_letters`]: what was done, and messages that are no rows.

pub mod arrival_queue;
pub mod counts;
pub mod dead_letters;
pub mod feed;
pub mod gap_detector;
pub mod json_splitter;
pub mod listen;
pub mod recipe;
pub mod run;
pub mod settings;
pub mod websocket;
