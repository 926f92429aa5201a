//! Losses of the journal, as text and figures for the operator.

use serde::{Deserialize, Serialize};

use super::JournalFile;

/// How the names of files end that keep damaged bytes beside their file.
pub(super) const DAMAGED: &str = ".damaged";

/// Producers that a loss names; of more only the number is kept.
const PRODUCERS_NAMED_MAX: usize = 100;

/// Something that the journal should have and hasn't. It is listed until `splay journal accept`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalLoss {
    /// The kind of loss.
    pub kind: LossKind,
    /// First and last file that it is about; 0 for the journal as a whole.
    pub files: (u64, u64),
    /// The byte range of the file within which no frame counts.
    pub bytes: (u64, u64),
    /// Number of the first batch that may be lost, and of the last if it is known. `None` if no batch is.
    pub sequences: Option<(u64, Option<u64>)>,
    /// By producer the numbers that are missing.
    pub producers: Vec<MissingNumbers>,
    /// Producers beyond those that are named.
    pub producers_more: u64,
    /// File in the journal's folder that keeps the bytes.
    #[serde(rename = "kept")]
    pub salvage_file: Option<String>,
    /// Whole batches in what was set aside, which `splay journal recover` can read.
    pub set_aside: u64,
    /// Whether the operator has accepted it.
    pub accepted: bool,
}

/// Kinds of losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LossKind {
    /// Bytes of a file that were on disk differ from what was written. Batches after them count.
    Damaged,
    /// Complete batches follow a broken one at the journal's end that may never have been on disk. They were set aside.
    Torn,
    /// Files are missing, or were exchanged for others.
    Missing,
    /// Each frame of a file is sound, and yet its bytes aren't those that were written.
    Changed,
    /// The file that says which files there are is gone or damaged. No rows are lost by that.
    Catalog,
    /// The tables' files have captured rows, and there is no journal.
    Gone,
}

/// Missing numbers of a producer: those between two that the journal has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingNumbers {
    /// Its name.
    pub producer: String,
    /// The last number before; 0 if none is known.
    pub after: u64,
    /// The first number after the gap.
    pub before: u64,
}

impl JournalLoss {
    pub(super) fn new(kind: LossKind, files: (u64, u64)) -> JournalLoss {
        let (bytes, sequences, producers, salvage_file) = ((0, 0), None, Vec::new(), None);
        JournalLoss {
            kind,
            files,
            bytes,
            sequences,
            producers,
            producers_more: 0,
            salvage_file,
            set_aside: 0,
            accepted: false,
        }
    }

    /// Whether another one tells of the same.
    pub(super) fn is_same(&self, other: &JournalLoss) -> bool {
        (self.kind, self.files, self.bytes) == (other.kind, other.files, other.bytes)
    }

    /// Whether it has taken batches between the end of a file and the begin of the one of this number.
    pub(super) fn is_between(&self, before: &JournalFile, number: u64) -> bool {
        let is_between = match self.kind {
            LossKind::Missing => before.number < self.files.0 && self.files.1 < number,
            LossKind::Damaged => self.files.0 == before.number && self.bytes.0 >= before.bytes,
            _ => false,
        };
        is_between && self.sequences.is_some()
    }

    /// Batches that may be lost, as far as their number is known.
    #[must_use]
    pub fn batches(&self) -> u64 {
        let difference = self.sequences.and_then(|(first, last)| last?.checked_sub(first));
        difference.map_or(0, |more| more.saturating_add(1))
    }

    pub(super) fn miss(&mut self, producer: &str, after: u64, before: u64) {
        if self.producers.len() < PRODUCERS_NAMED_MAX {
            self.producers.push(MissingNumbers { producer: producer.to_owned(), after, before });
        } else {
            self.producers_more += 1;
        }
    }
}

impl std::fmt::Display for JournalLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = super::name(self.files.0);
        let (from, to) = self.bytes;
        match self.kind {
            LossKind::Damaged => write!(f, "{file} is damaged from byte {from} to {to}")?,
            LossKind::Torn => write!(
                f,
                "{file} has {} whole batches behind a broken one at byte {from}, which may not have been on disk",
                self.set_aside
            )?,
            LossKind::Missing if self.files.0 == self.files.1 => write!(f, "{file} is missing")?,
            LossKind::Missing => write!(f, "{file} to {} are missing", super::name(self.files.1))?,
            LossKind::Changed => write!(f, "{file} isn't the file that was written, though its batches can be read")?,
            LossKind::Catalog => {
                write!(f, "the journal's catalog is missing or damaged: files may be missing unnoticed")?
            }
            LossKind::Gone => write!(f, "the journal is gone, and rows that were in no other file with it")?,
        }
        match self.sequences {
            Some((first, Some(last))) if first == last => write!(f, "; batch {first} is lost")?,
            Some((first, Some(last))) => write!(f, "; batches between {first} and {last} are lost")?,
            Some((first, None)) => write!(f, "; batches from {first} on are lost")?,
            None => {}
        }
        for missing in &self.producers {
            let MissingNumbers { producer, after, before } = missing;
            write!(f, "; producer {producer:?}: numbers behind {after} and before {before}")?;
        }
        if self.producers_more > 0 {
            write!(f, "; {} more producers", self.producers_more)?;
        }
        match &self.salvage_file {
            Some(path) => write!(f, "; its bytes are kept in {path}"),
            None => Ok(()),
        }
    }
}
