//! The simulator as its callers see it: the files.

#![allow(clippy::unwrap_used)]

mod crypto;
mod settings;
mod support;
mod taq;
