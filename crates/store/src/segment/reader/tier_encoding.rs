//! Encodes rows as a tier's file in memory, to measure its size and the time to read it.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;

use super::super::checksum::CheckedFile;
use super::super::writer::encode;
use super::{Segment, SegmentContent};
use crate::encryption::EncryptionKeys;
use crate::error::Result;
use crate::index::SegmentIndex;
use crate::manifest::FileEntry;
use crate::schema::TableSpec;
use crate::storage::MappedBytes;
use crate::tier::Tier;

impl Segment {
    /// A segment of rows that are written by the encoder of a tier and read by its decoder, without a file; encrypted as files of the tier
    /// are. It says nothing of dates and times, and is for measuring alone.
    ///
    /// # Errors
    /// Those of the encoder.
    pub(crate) fn encoded(
        spec: &TableSpec,
        rows: &RecordBatch,
        tier: Tier,
        keys: &Arc<EncryptionKeys>,
    ) -> Result<Segment> {
        let key = keys.file_key_of(tier)?;
        let (bytes, checksums) = encode(tier, spec, rows, key.as_ref())?;
        let entry = FileEntry {
            path: String::new(),
            tier,
            date: 0,
            rows: rows.num_rows() as u64,
            bytes: bytes.len() as u64,
            digest: String::new(),
            index_bytes: 0,
            index_digest: String::new(),
            time_min: 0,
            time_max: 0,
            symbols: None,
            object: None,
            key: key.map(|key| key.id),
        };
        let file = CheckedFile::new(MappedBytes::from(bytes), PathBuf::from(&spec.name), checksums.into(), true)?;
        let segment = Segment {
            storage: None,
            table: spec.name.clone(),
            entry,
            objects: None,
            keys: Arc::clone(keys),
            checks_data: true,
            hidden: 0,
            opened: OnceLock::new(),
        };
        let opened = segment.open_file(file)?;
        let index = SegmentIndex::of_rows(spec, rows.clone());
        // Nothing else has opened it.
        let _ = segment.opened.set(SegmentContent { index, file: Arc::new(opened.into()), index_bytes: None });
        Ok(segment)
    }
}
