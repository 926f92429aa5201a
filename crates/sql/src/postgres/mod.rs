//! The parts of PostgreSQL that its clients query besides tables: `pg_catalog`, functions such as `current_schema()`, and casts such as
//! `'trade'::regclass`. Only sessions of [`Session::for_postgres`](crate::Session::for_postgres) have them.
//!
//! - `rewrite.rs` rewrites forms of such statements that the parser or the planner lacks.
//! - `tables.rs` has the tables of `pg_catalog`, computed when a statement reads them; `columns.rs` their columns.
//! - `calls.rs`, `wildcards.rs` and `type_functions.rs` write calls, `c.*` and functions of types out.
//! - `from_functions.rs` rewrites functions in `FROM`, `without_rows.rs` selects from tables that never have rows.
//! - `information.rs` has `information_schema.columns` with PostgreSQL's types, and the tables of what there is none of.
//! - `functions.rs` has functions about the session and the catalogue. None reads rows of tables.

mod calls;
mod columns;
mod from_functions;
mod functions;
mod information;
mod rewrite;
mod tables;
mod type_functions;
pub mod types;
mod wildcards;
mod without_rows;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;

use crate::token_reader::TokenReader;

pub(crate) use functions::functions;
pub(crate) use information::{information_table, is_information};
pub(crate) use rewrite::rewritten;
pub(crate) use tables::{CatalogueSchema, WithCatalogue, is_in_catalogue};

/// The number of a table or view in `pg_catalog`, the same in every session: computed from its name, and larger than PostgreSQL's own numbers.
pub(crate) fn oid_of(name: &str) -> i64 {
    const FIRST: u32 = 16_384;
    // FNV-1a.
    let hash = name
        .to_lowercase()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    i64::from(FIRST + (hash >> 2))
}

/// The table or view that clients name in a text, with or without schema and quotes; `None` for a text that is no name.
pub(crate) fn named_table(name: &str) -> Option<String> {
    let tokens = Tokenizer::new(&GenericDialect {}, name).with_unescape(false).tokenize().unwrap_or_default();
    let mut words = TokenReader::of(&tokens);
    words.table().ok().filter(|_| words.is_at_end())
}

/// The number of a table or view by its name as clients write it, with or without schema and quotes.
pub(crate) fn oid_of_class(name: &str) -> i64 {
    named_table(name).map_or_else(|| oid_of(name.trim_matches('"')), |table| oid_of(&table))
}
