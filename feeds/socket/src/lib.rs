//! Rows of WebSocket feeds and of Cryptofeed's sockets into a SplayDB server.
//!
//! Messages from a socket can't be read again. So a message waits in memory, within a limit, until the server has acknowledged its rows. Messages
//! that are lost by the limit, by a venue's lost connection or by the end of the process are counted and logged (ADR 78).
//!
//! - [`settings`]: sources and kinds of messages, from a TOML file.
//! - [`websocket`], [`listen`]: threads that read; [`json_splitter`] cuts streams into objects. [`arrival_queue`]: messages that wait.
//! - [`recipe`]: the table of a message, and its rows; [`gap_detector`]: gaps in the venue's numbers.
//! - [`feed`]: the thread that makes and sends rows; [`run`]: all feeds. [`counts`]; [`dead_letters`]: messages that are no rows.

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
