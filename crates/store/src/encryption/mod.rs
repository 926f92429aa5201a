//! Encryption at rest: the segments of the compressed tiers, and their indexes, where a database has keys.
//!
//! - [`Keys`] are what a key file or a variable says. They encrypt nothing but keys of files: each file has a random key
//!   of its own, which it holds in wrapped form.
//! - Parquet segments follow Parquet's modular encryption (`segment/parquet/modules.rs`), so that other tools read them.
//! - Dense segments and indexes are sealed as a whole ([`frame`]): blocks that are decrypted independently.
//!
//! Bytes: docs/format/encryption.md. Reasons: docs/adr/0085-compressed-tiers-may-be-encrypted.md.

mod frame;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod keys;
mod list;
mod settings;

pub(crate) use frame::{Sealed, SealingWrite, digest, open, seal};
pub(crate) use keys::{FileKey, Keys, NONCE_BYTES, TAG_BYTES};
pub use settings::EncryptionSettings;
