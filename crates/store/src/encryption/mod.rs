//! Encryption at rest of the compressed tiers' segments and of their indexes, if the database has keys.
//!
//! - [`EncryptionKeys`] come from a key file or an environment variable. They encrypt only the keys of files: each file has a
//!   random key of its own, and contains it in encrypted (wrapped) form.
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
pub(crate) use keys::{EncryptionKeys, FileKey, NONCE_BYTES, TAG_BYTES};
pub use settings::EncryptionSettings;
