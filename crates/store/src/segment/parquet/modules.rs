//! Modules of an encrypted Parquet file: decrypted one by one, each only in its place.
//!
//! Footers and what the `parquet` crate reads, it decrypts itself; headers, pages and lists of pages are decrypted here. A
//! module's tag authenticates the file, its kind, row group, column and page, so that none can stand for another.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encryption.md>.

use std::sync::Arc;

use parquet::encryption::decrypt::FileDecryptionProperties;
use parquet::encryption::encrypt::FileEncryptionProperties;

use super::super::checksum::CheckedFile;
use super::thrift;
use crate::encryption::{EncryptionKeys, FileKey, NONCE_BYTES, TAG_BYTES};
use crate::error::{Error, Result};

/// The last bytes of a file with an encrypted footer; their number, and that of the footer's length before them.
const MAGIC: &[u8; 4] = b"PARE";
const TAIL_BYTES: usize = 8;

/// Most bytes of what stands before an encrypted footer.
const CRYPTO_BYTES_MAX: usize = 1 << 16;

/// Bytes of a module's length, and of what encryption adds to its bytes.
const LENGTH_BYTES: usize = 4;
const ADDED_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// Kinds of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ModuleKind {
    DataPage = 2,
    DictionaryPage = 3,
    DataPageHeader = 4,
    DictionaryPageHeader = 5,
    OffsetIndex = 7,
}

/// The place of a module: row group, column, and the page of a column for a data page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModulePlace {
    pub(super) group: usize,
    pub(super) column: usize,
    pub(super) page: Option<usize>,
}

impl ModulePlace {
    /// The kinds of its header and of its bytes.
    fn kinds(self) -> (ModuleKind, ModuleKind) {
        match self.page {
            Some(_) => (ModuleKind::DataPageHeader, ModuleKind::DataPage),
            None => (ModuleKind::DictionaryPageHeader, ModuleKind::DictionaryPage),
        }
    }
}

/// The key of an encrypted file, and what its modules are bound to.
#[derive(Debug)]
pub(super) struct Cipher {
    key: FileKey,
    /// The file's own identifier.
    unique: Vec<u8>,
    /// The key, as the `parquet` crate takes it.
    pub(super) properties: Arc<FileDecryptionProperties>,
}

/// The properties with which the writer of the `parquet` crate encrypts all modules.
pub(super) fn properties(key: &FileKey) -> Result<Arc<FileEncryptionProperties>> {
    let builder = FileEncryptionProperties::builder(key.bytes().to_vec());
    Ok(builder.with_footer_key_metadata(key.material().to_vec()).build()?)
}

impl Cipher {
    /// How a file is encrypted; `None` for a file that isn't.
    pub(super) fn open(file: &CheckedFile, keys: &EncryptionKeys) -> Result<Option<Cipher>> {
        let wrong = |expected: &str| Error::corrupt(&file.path, file.len() as u64, expected, "other bytes");
        let Some(tail) = file.len().checked_sub(TAIL_BYTES) else { return Ok(None) };
        let end = file.bytes(tail..file.len())?;
        if end[LENGTH_BYTES..] != *MAGIC {
            return Ok(None);
        }
        let length = crate::little_endian::u32_at(&end, 0) as usize;
        let start = tail.checked_sub(length).ok_or_else(|| wrong("an encrypted footer within the file"))?;
        let before = file.bytes(start..(start + CRYPTO_BYTES_MAX).min(tail))?;
        let (unique, material) =
            thrift::crypto_metadata(&before).ok_or_else(|| wrong("encryption by AES_GCM_V1 without a prefix"))?;
        let key = keys.unwrap(material, &file.path)?;
        let properties = FileDecryptionProperties::builder(key.bytes().to_vec()).build()?;
        Ok(Some(Cipher { key, unique: unique.to_vec(), properties }))
    }

    /// The header of a page, decrypted into `into`; gives its bytes in the file.
    pub(super) fn header(&self, bytes: &[u8], place: ModulePlace, into: &mut Vec<u8>) -> Option<usize> {
        self.module(bytes, place.kinds().0, place, into)
    }

    /// The bytes of a page, decrypted into `into`.
    pub(super) fn body(&self, bytes: &[u8], place: ModulePlace, into: &mut Vec<u8>) -> Option<usize> {
        self.module(bytes, place.kinds().1, place, into)
    }

    /// The list of pages of a column in a row group.
    pub(super) fn list(&self, bytes: &[u8], group: usize, column: usize) -> Option<Vec<u8>> {
        let (place, mut list) = (ModulePlace { group, column, page: None }, Vec::new());
        self.module(bytes, ModuleKind::OffsetIndex, place, &mut list)?;
        Some(list)
    }

    /// Decrypts the module at the beginning of these bytes; gives how many it takes, `None` for one that isn't of this place.
    fn module(&self, bytes: &[u8], kind: ModuleKind, place: ModulePlace, into: &mut Vec<u8>) -> Option<usize> {
        let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let module = rest.get(..length).filter(|module| module.len() >= ADDED_BYTES)?;
        let (nonce, sealed) = module.split_first_chunk::<NONCE_BYTES>()?;
        into.clear();
        into.extend_from_slice(sealed);
        let is_its = self.key.open(*nonce, &self.aad(kind, place)?, into);
        into.truncate(if is_its { sealed.len() - TAG_BYTES } else { 0 });
        is_its.then_some(LENGTH_BYTES + length)
    }

    /// The additional data that a module's tag authenticates. Parquet numbers row groups, columns and pages with 16 bits.
    fn aad(&self, kind: ModuleKind, place: ModulePlace) -> Option<Vec<u8>> {
        let mut aad = Vec::with_capacity(self.unique.len() + 7);
        aad.extend_from_slice(&self.unique);
        aad.push(kind as u8);
        let numbers = [Some(place.group), Some(place.column), place.page.filter(|_| kind != ModuleKind::OffsetIndex)];
        for number in numbers.into_iter().flatten() {
            aad.extend_from_slice(&i16::try_from(number).ok()?.to_le_bytes());
        }
        Some(aad)
    }
}
