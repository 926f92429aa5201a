//! The simulator and the laboratory as their callers see them.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod columns;
mod compression;
mod crypto;
mod formats;
mod settings;
mod support;
mod taq;
