//! The keys of a database, and the keys of files that they wrap.
//!
//! A key of the list encrypts 16 or 32 random bytes for each file and nothing else, so that the bounds on uses of one AES-GCM
//! key are out of reach. The form of wrapped keys is that of Parquet's key tools (`PKMT1`), which PyArrow and Spark read.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use super::list;
use super::settings::EncryptionSettings;
use crate::error::{Error, Result};
use crate::tier::Tier;

pub(crate) const NONCE_BYTES: usize = 12;
pub(crate) const TAG_BYTES: usize = 16;

/// The name of the key tools for a key service without a name.
const DEFAULT_SERVICE: &str = "DEFAULT";
const MATERIAL_TYPE: &str = "PKMT1";

/// The keys of a database.
#[derive(Debug, Default)]
pub(crate) struct EncryptionKeys(KeySource);

#[derive(Debug, Default)]
enum KeySource {
    /// The settings name none.
    #[default]
    None,
    Keys {
        keys: Vec<WrappingKey>,
        encrypts: bool,
    },
    /// The keys couldn't be read. Files that aren't encrypted can still be used.
    Unknown(String),
}

/// A key of the list.
struct WrappingKey {
    id: String,
    key: LessSafeKey,
    /// Bytes of the key, which those of files have as well.
    length: usize,
}

/// The key of a file.
#[derive(Clone)]
pub(crate) struct FileKey {
    /// The id of the key that wraps it.
    pub(crate) id: String,
    key: LessSafeKey,
    bytes: Vec<u8>,
    material: Vec<u8>,
}

/// A wrapped key, as the key tools of Parquet write it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Material {
    key_material_type: String,
    internal_storage: bool,
    is_footer_key: bool,
    #[serde(rename = "kmsInstanceID")]
    kms_instance_id: String,
    #[serde(rename = "kmsInstanceURL")]
    kms_instance_url: String,
    #[serde(rename = "masterKeyID")]
    master_key_id: String,
    #[serde(rename = "wrappedDEK")]
    wrapped: String,
    double_wrapping: bool,
}

impl std::fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WrappingKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl EncryptionKeys {
    /// Keys that can't be read are no failure before one is needed: files in plain are read, and files are copied, without.
    pub(crate) fn of(settings: Option<&EncryptionSettings>) -> EncryptionKeys {
        let Some(settings) = settings else { return EncryptionKeys::default() };
        EncryptionKeys::new(list::read(settings), settings.encrypt)
    }

    fn new(list: Result<list::KeyList, String>, encrypts: bool) -> EncryptionKeys {
        let keys = list.and_then(|list| list.into_iter().map(WrappingKey::new).collect());
        EncryptionKeys(match keys {
            Ok(keys) => KeySource::Keys { keys, encrypts },
            Err(reason) => {
                tracing::warn!(%reason, "keys can't be read; encrypted files neither");
                KeySource::Unknown(reason)
            }
        })
    }

    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn from_text(text: &str) -> EncryptionKeys {
        EncryptionKeys::new(list::parse(text), true)
    }

    /// Id of the key for new files of a tier; `None` if these are in plain.
    ///
    /// # Errors
    /// [`Error::Setting`] if the keys couldn't be read: then nothing is written that should be encrypted.
    pub(crate) fn newest(&self, tier: Tier) -> Result<Option<&str>> {
        self.wrapping(tier).map(|key| key.map(|key| key.id.as_str()))
    }

    /// A key for a new file of a tier; `None` if it is in plain.
    ///
    /// # Errors
    /// As [`EncryptionKeys::newest`].
    pub(crate) fn file_key_of(&self, tier: Tier) -> Result<Option<FileKey>> {
        self.wrapping(tier)?.map(WrappingKey::file_key).transpose()
    }

    /// Columns of mapped files are read without a copy, so that they are in plain.
    fn wrapping(&self, tier: Tier) -> Result<Option<&WrappingKey>> {
        match &self.0 {
            _ if tier.is_mapped() => Ok(None),
            KeySource::Keys { keys, encrypts: true } => Ok(keys.first()),
            KeySource::None | KeySource::Keys { .. } => Ok(None),
            KeySource::Unknown(reason) => Err(Error::Setting { setting: "encryption", reason: reason.clone() }),
        }
    }

    /// The key of a file, by the material that it holds.
    ///
    /// # Errors
    /// [`Error::Encrypted`] without the key that wraps it; [`Error::Corrupt`] for bytes that aren't such material.
    pub(crate) fn unwrap(&self, material: &[u8], path: &Path) -> Result<FileKey> {
        let wrong = |found: String| Error::corrupt(path, 0, "a wrapped key", found);
        let parsed: Material = serde_json::from_slice(material).map_err(|error| wrong(error.to_string()))?;
        if parsed.key_material_type != MATERIAL_TYPE || !parsed.internal_storage || parsed.double_wrapping {
            return Err(wrong("one of another kind".to_owned()));
        }
        let id = parsed.master_key_id;
        let refuse = |reason: String| Error::Encrypted { path: path.to_path_buf(), key: id.clone(), reason };
        let keys = match &self.0 {
            KeySource::Keys { keys, .. } => keys.as_slice(),
            KeySource::None => return Err(refuse("splay.toml names no keys, see [encryption]".to_owned())),
            KeySource::Unknown(reason) => return Err(refuse(reason.clone())),
        };
        let Some(wrapping) = keys.iter().find(|key| key.id == id) else {
            return Err(refuse("the list of keys has none of this id".to_owned()));
        };
        let mut bytes = STANDARD.decode(&parsed.wrapped).map_err(|_| wrong("other signs than base64".to_owned()))?;
        let Some(length) = bytes.len().checked_sub(NONCE_BYTES + TAG_BYTES) else {
            return Err(wrong(format!("{} bytes", bytes.len())));
        };
        let mut nonce = [0; NONCE_BYTES];
        nonce.copy_from_slice(&bytes[..NONCE_BYTES]);
        if !open_in_place(&wrapping.key, nonce, id.as_bytes(), &mut bytes[NONCE_BYTES..]) {
            return Err(refuse(
                "the key of this id in the list is another one than the file was written under".to_owned(),
            ));
        }
        let bytes = bytes[NONCE_BYTES..NONCE_BYTES + length].to_vec();
        let key = cipher(&bytes).ok_or_else(|| wrong(format!("a key of {length} bytes")))?;
        Ok(FileKey { id, key, bytes, material: material.to_vec() })
    }
}

impl WrappingKey {
    fn new((id, bytes): (String, Vec<u8>)) -> Result<WrappingKey, String> {
        let key = cipher(&bytes).ok_or_else(|| format!("key {id:?} has another length than 16 or 32 bytes"))?;
        Ok(WrappingKey { id, key, length: bytes.len() })
    }

    fn file_key(&self) -> Result<FileKey> {
        let (mut bytes, mut nonce) = (vec![0; self.length], [0; NONCE_BYTES]);
        random(&mut bytes)?;
        random(&mut nonce)?;
        let mut wrapped = bytes.clone();
        let sealed = self.key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(self.id.as_bytes()),
            &mut wrapped,
        );
        sealed.map_err(|_| cipher_error("a key can't be wrapped"))?;
        let material = Material {
            key_material_type: MATERIAL_TYPE.to_owned(),
            internal_storage: true,
            is_footer_key: true,
            kms_instance_id: DEFAULT_SERVICE.to_owned(),
            kms_instance_url: DEFAULT_SERVICE.to_owned(),
            master_key_id: self.id.clone(),
            wrapped: STANDARD.encode([&nonce[..], &wrapped].concat()),
            double_wrapping: false,
        };
        let material = serde_json::to_vec(&material).map_err(|error| cipher_error(&error.to_string()))?;
        let key = cipher(&bytes).ok_or_else(|| cipher_error("a key has another length than 16 or 32 bytes"))?;
        Ok(FileKey { id: self.id.clone(), key, bytes, material })
    }
}

impl FileKey {
    /// The key itself, for the `parquet` crate.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The part that the file stores.
    pub(crate) fn material(&self) -> &[u8] {
        &self.material
    }

    /// Decrypts bytes with their tag behind them, in place; whether the tag is theirs. If not, the bytes are worthless.
    #[must_use]
    pub(crate) fn open(&self, nonce: [u8; NONCE_BYTES], aad: &[u8], bytes: &mut [u8]) -> bool {
        open_in_place(&self.key, nonce, aad, bytes)
    }

    /// Encrypts bytes in place and puts the tag behind them. A nonce may come once for a key.
    pub(super) fn seal(&self, nonce: [u8; NONCE_BYTES], aad: &[u8], bytes: &mut Vec<u8>) -> std::io::Result<()> {
        let sealed = self.key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), bytes);
        sealed.map_err(|_| std::io::Error::other("a block can't be encrypted"))
    }
}

fn open_in_place(key: &LessSafeKey, nonce: [u8; NONCE_BYTES], aad: &[u8], bytes: &mut [u8]) -> bool {
    key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(aad), bytes).is_ok()
}

fn cipher(bytes: &[u8]) -> Option<LessSafeKey> {
    let algorithm = if bytes.len() == list::KEY_BYTES[0] { &AES_128_GCM } else { &AES_256_GCM };
    UnboundKey::new(algorithm, bytes).ok().map(LessSafeKey::new)
}

fn random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| cipher_error(&error.to_string()))
}

fn cipher_error(reason: &str) -> Error {
    Error::Setting { setting: "encryption", reason: reason.to_owned() }
}
