//! Reads the journal at a start, skips damage, and reports losses. It changes nothing: see `settle`.
//!
//! - Idea: bytes are either proven to have been synced, or not. A file with a successor was synced completely before
//!   that began; in the last file a mark after each sync, or the catalog, says how many bytes were.
//! - Damage to synced bytes is a loss, and batches after it count.
//! - Invariant: at the first damage after the synced bytes the journal ends, even if whole batches follow. Otherwise
//!   a producer's batch could be lost and a later one kept, and the lost one would be taken for a repeat.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use splay_store::TableSpec;
use splay_store::storage::Storage;

use super::catalog::{Catalog, CatalogContent};
use super::format::{self, HEADER_BYTES, LINKED, PreviousFile, RowsFrame};
use super::loss::{DAMAGED, JournalLoss, LossKind};
use super::scan::{DamagedBytes, FilePart, JournalScan, Layouts, OtherLayouts};
use super::{FOLDER, JournalFile, NUMBER_MAX, Producers, name, path};
use crate::codec;
use crate::error::{Error, Result};

/// A batch as it was taken.
#[derive(Debug)]
pub(crate) struct JournalBatch {
    pub(crate) sequence: u64,
    pub(crate) received: i64,
    pub(crate) spec: Arc<TableSpec>,
    pub(crate) rows: RecordBatch,
}

/// The content of the journal at a start.
#[derive(Debug, Default)]
pub(crate) struct JournalContent {
    pub(crate) files: Vec<JournalFile>,
    pub(crate) producers: Producers,
    /// The last receive time.
    pub(crate) received: Option<i64>,
    /// The next batch's number.
    pub(crate) next_sequence: u64,
    /// Number of the last file that there was.
    pub(crate) last_number: u64,
    /// Bytes that have to be cut off the end, and where they will be kept.
    pub(crate) torn: Option<(u64, String)>,
    /// Losses that aren't in the catalog yet.
    pub(crate) losses: Vec<JournalLoss>,
    pub(crate) catalog: Catalog,
    /// Whether there was a sound catalog.
    pub(crate) has_catalog: bool,
    pub(super) asides: Vec<SavedBytes>,
    pub(super) mends: Vec<FileRepair>,
    layouts: Layouts,
    /// Layouts that files need and lack, and the first of these files.
    pub(super) needed: HashMap<u32, (u64, Arc<TableSpec>)>,
    /// The newest loss, and the producers that have been seen behind it.
    pub(super) behind: Option<(usize, HashSet<String>)>,
}

/// Bytes of a file that have to be kept beside it.
#[derive(Debug)]
pub(super) struct SavedBytes {
    pub(super) number: u64,
    pub(super) range: Range<usize>,
    /// Name of the file that takes them.
    pub(super) name: String,
}

/// A change of a file that has to be made before the journal is continued.
#[derive(Debug)]
pub(super) enum FileRepair {
    Cut(u64, u64),
    Remove(u64),
    Rename(u64, String),
}

/// What other files say about a file's length.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LengthProof {
    /// Bytes that were on disk.
    pub(super) bytes: u64,
    /// Number of the last batch in them.
    pub(super) sequence: u64,
    /// Checksum of exactly these bytes.
    pub(super) crc: Option<u32>,
}

/// Reads all files in order and passes each batch to `take`, if `wants` accepts its table, sequence number and latest time.
/// `tables` lists the existing tables, in case the description of one in the journal is damaged.
pub(crate) fn replay(
    storage: &dyn Storage,
    tables: &dyn Fn() -> Vec<TableSpec>,
    wants: impl Fn(&str, u64, i64) -> bool,
    mut take: impl FnMut(JournalBatch) -> Result<()>,
) -> Result<JournalContent> {
    let mut content = JournalContent { next_sequence: 1, ..JournalContent::default() };
    let numbers = numbers(storage)?;
    let mut heads = numbers.iter().map(|number| FileHead::read(storage, *number)).collect::<Result<Vec<_>>>()?;
    content.open_catalog(storage, &numbers, &heads)?;
    let mut layouts = OtherLayouts::new(tables);
    for (number, spec) in &content.catalog.layouts {
        content.needed.insert(format::layout_id(spec), (*number, Arc::new(spec.clone())));
    }
    if let Some(last) = heads.last()
        && content.is_begun(storage, last, &layouts)?
    {
        heads.pop();
    }
    let numbers = &numbers[..heads.len()];
    for (place, head) in heads.iter().enumerate() {
        content.tell_missing_before(head, numbers[..place].last().copied());
        content.read_file(storage, head, heads.get(place + 1), &mut layouts, &wants, &mut take)?;
        content.last_number = content.last_number.max(head.number);
    }
    content.tell_missing_at_the_end(numbers.last().copied());
    content.last_number = content.last_number.max(content.catalog.newest);
    content.note_files_behind_losses();
    content.layouts = layouts.earlier;
    content.next_sequence = content.next_sequence.max(content.catalog.sequence.saturating_add(1));
    Ok(content)
}

/// The header of a file.
#[derive(Debug)]
pub(super) struct FileHead {
    pub(super) number: u64,
    /// Version, number, and first sequence number, if the header is sound.
    header: Option<(u32, u64, u64)>,
    pub(super) link: Option<PreviousFile>,
}

impl FileHead {
    fn read(storage: &dyn Storage, number: u64) -> Result<FileHead> {
        let bytes = storage.map(&path(number))?;
        let link = bytes.get(HEADER_BYTES..).and_then(format::content).and_then(|(content, _)| format::parse(content));
        let link = match link {
            Some(format::JournalFrame::Link(link)) => Some(link),
            _ => None,
        };
        Ok(FileHead { number, header: format::parse_header(&bytes), link })
    }
}

impl JournalContent {
    fn open_catalog(&mut self, storage: &dyn Storage, numbers: &[u64], heads: &[FileHead]) -> Result<()> {
        let stored = Catalog::load(storage)?;
        let is_lost = match &stored {
            CatalogContent::Sound(_) => false,
            CatalogContent::Damaged => true,
            // A release that knows of no catalog wrote no later version.
            CatalogContent::Absent => {
                heads.iter().any(|head| head.header.is_some_and(|(version, _, _)| version >= LINKED))
            }
        };
        if is_lost {
            self.lose(JournalLoss::new(LossKind::Catalog, (0, 0)));
        }
        if let CatalogContent::Sound(catalog) = stored {
            (self.catalog, self.has_catalog) = (catalog, true);
        } else {
            self.catalog.oldest = numbers.first().copied().unwrap_or(1);
        }
        Ok(())
    }

    /// Whether the newest file was being begun, so that nothing in it was acknowledged. It will be removed.
    fn is_begun(&mut self, storage: &dyn Storage, head: &FileHead, layouts: &OtherLayouts<'_>) -> Result<bool> {
        let may_be = head.header.is_none() && (!self.has_catalog || head.number > self.catalog.newest);
        if !may_be {
            return Ok(false);
        }
        let bytes = storage.map(&path(head.number))?;
        let holds_batches = self.first_behind_header(&bytes, head, layouts).is_some();
        if bytes.unreadable_at().is_some() || holds_batches {
            return Ok(false);
        }
        self.tear(storage, head.number, 0..bytes.len(), 0);
        self.mends.push(FileRepair::Remove(head.number));
        Ok(true)
    }

    /// Tables by layout, as the files describe them.
    pub(super) fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Whether the journal has a batch.
    pub(super) fn has(&self, sequence: u64) -> bool {
        let is_there = |file: &JournalFile| {
            let is_damaged = file.damage.iter().any(|damage| damage.sequences.contains(&sequence));
            (file.first..=file.last).contains(&sequence) && !is_damaged
        };
        self.files.iter().any(is_there)
    }

    /// Reads a file, behind which `next` stands.
    fn read_file(
        &mut self,
        storage: &dyn Storage,
        head: &FileHead,
        next: Option<&FileHead>,
        layouts: &mut OtherLayouts<'_>,
        wants: &impl Fn(&str, u64, i64) -> bool,
        take: &mut impl FnMut(JournalBatch) -> Result<()>,
    ) -> Result<()> {
        let path = path(head.number);
        let mapped = storage.map(&path)?;
        // Zeros in the place of a page that can't be read are no damage to be passed over: perhaps it can be read again.
        let refuse_unreadable = || match mapped.unreadable_at().and_then(|offset| usize::try_from(offset).ok()) {
            Some(offset) => Err(damaged(storage, &path, offset, "a page that can be read")),
            None => Ok(()),
        };
        let sure = self.sure_of(head.number, next);
        let bytes = &mapped[..mapped.len().min(sure.crc.map_or(usize::MAX, |_| place(sure.bytes)))];
        // Older files stay as they were read: losses that were reported for them stay reported.
        for (id, (_, spec)) in self.needed.iter().filter(|(_, (first, _))| *first <= head.number) {
            layouts.earlier.entry(*id).or_insert_with(|| Arc::clone(spec));
        }
        let header = format::parse_header(bytes);
        refuse_unreadable()?;
        let (version, first) = match header {
            Some((version, _, _)) if !(1..=format::VERSION).contains(&version) => {
                return Err(damaged(storage, &path, 8, "a version of this release"));
            }
            Some((_, in_file, first)) if in_file != head.number || first == u64::MAX => {
                self.tell_other_file(head.number);
                return Ok(());
            }
            Some((version, _, first)) => (version, first.max(self.next_sequence)),
            None => match self.first_behind_header(bytes, head, layouts) {
                // The catalog says the same at each start.
                Some((version, _)) if self.has_catalog && head.number == self.catalog.oldest => {
                    (version, self.catalog.first.max(self.next_sequence))
                }
                Some(behind) => behind,
                None => (format::VERSION, self.next_sequence),
            },
        };
        if header.is_none() {
            let mut loss = JournalLoss::new(LossKind::Damaged, (head.number, head.number));
            loss.bytes = (0, HEADER_BYTES.min(bytes.len()) as u64);
            self.lose_bytes(loss, head.number, 0..HEADER_BYTES.min(bytes.len()));
        }
        self.next_sequence = first;
        let file = JournalFile::new(head.number, first);
        let of_file = FileContext {
            storage,
            number: head.number,
            version,
            sure,
            is_newest: next.is_none(),
            losses: self.losses.len(),
        };
        let mut scan = JournalScan::new(bytes, version, first, layouts);
        let file = self.walk(&of_file, bytes, &mut scan, file, wants, take);
        refuse_unreadable()?;
        self.files.push(file?);
        let (earlier, needed) = scan.into_layouts();
        for (id, spec) in needed {
            self.needed.entry(id).or_insert((head.number, spec));
        }
        if version >= LINKED {
            layouts.earlier.extend(earlier);
        }
        Ok(())
    }

    /// The length of a file by the next file or by the catalog.
    fn sure_of(&self, number: u64, next: Option<&FileHead>) -> LengthProof {
        if let Some(next) = next {
            return match next.link.filter(|link| link.number == number) {
                Some(link) => LengthProof { bytes: link.bytes, sequence: link.sequence, crc: Some(link.crc) },
                None => LengthProof { bytes: u64::MAX, ..LengthProof::default() },
            };
        }
        if self.has_catalog && number == self.catalog.newest {
            return LengthProof { bytes: self.catalog.bytes, sequence: self.catalog.sequence, crc: None };
        }
        LengthProof::default()
    }

    /// Version and first number of a file whose header is damaged, if it contains a batch.
    fn first_behind_header(&self, bytes: &[u8], head: &FileHead, layouts: &OtherLayouts<'_>) -> Option<(u32, u64)> {
        let second =
            bytes.get(HEADER_BYTES..).and_then(format::content).and_then(|(content, _)| format::parse(content));
        let is_older = head.link.is_none() && matches!(second, Some(format::JournalFrame::Producers(_)));
        let version = if is_older { LINKED - 1 } else { format::VERSION };
        let mut scan = JournalScan::new(bytes, version, self.next_sequence, layouts);
        loop {
            match scan.next() {
                FilePart::Message(_, parts) => return Some((version, parts.first()?.0.sequence)),
                FilePart::Damage(damage) if !damage.sequences.is_empty() => {
                    return Some((version, damage.sequences.end));
                }
                FilePart::End(_) => return None,
                _ => {}
            }
        }
    }

    /// Reads the frames of a file.
    fn walk<'a>(
        &mut self,
        of_file: &FileContext<'_>,
        bytes: &'a [u8],
        scan: &mut JournalScan<'a>,
        mut file: JournalFile,
        wants: &impl Fn(&str, u64, i64) -> bool,
        take: &mut impl FnMut(JournalBatch) -> Result<()>,
    ) -> Result<JournalFile> {
        let number = file.number;
        let mut synced = None;
        let end = loop {
            match scan.next() {
                FilePart::Other => {}
                FilePart::Producers(producers) => {
                    for (name, last, _) in &producers {
                        self.tell_numbers_missing(name, last.saturating_add(1));
                    }
                    self.received = producers.iter().map(|(_, _, at)| *at).max().max(self.received);
                    self.producers = super::named(producers);
                }
                FilePart::Message(range, parts) => match self.take_message(&parts, wants) {
                    Ok(batches) => {
                        for (rows, spec) in &parts {
                            self.note(rows, &mut file, spec);
                        }
                        batches.into_iter().try_for_each(&mut *take)?;
                    }
                    // Its checksum is right, and yet it is no batch.
                    Err(_) => {
                        let sequences = parts[0].0.sequence..self.next_sequence_behind(&parts);
                        let damage = DamagedBytes { range, sequences, has_producers: true, layouts: Layouts::new() };
                        self.tell_damage(of_file, &mut file, damage);
                    }
                },
                FilePart::Damage(damage) => {
                    let is_complete = !of_file.is_newest || of_file.version < LINKED;
                    let start = damage.range.start as u64;
                    if !is_complete && start >= *synced.get_or_insert_with(|| of_file.synced(scan.clone())) {
                        break damage.range.start;
                    }
                    self.tell_damage(of_file, &mut file, damage);
                }
                FilePart::End(end) => break self.end_behind_listed(&mut file, end..bytes.len()),
            }
        };
        let synced = of_file.synced(scan.clone());
        file.bytes = end as u64;
        file.last = self.next_sequence.saturating_sub(1);
        self.tell_end(of_file, bytes, end, synced, scan);
        file.crc = crc32c::crc32c(&bytes[..end]);
        if end as u64 == of_file.sure.bytes
            && of_file.sure.crc.is_some_and(|crc| crc != file.crc)
            && self.losses.len() == of_file.losses
            && !self.catalog.losses.iter().any(|listed| listed.files == (number, number))
        {
            self.lose(JournalLoss::new(LossKind::Changed, (number, number)));
        }
        Ok(file)
    }

    /// Where a file ends if its last bytes are no sound frame: after them if the catalog lists them as damage,
    /// otherwise before them. Frames stood behind it once; a start has cut them off as torn.
    fn end_behind_listed(&mut self, file: &mut JournalFile, rest: Range<usize>) -> usize {
        let covers = |loss: &&JournalLoss| {
            let is_set_aside = loss.salvage_file.as_ref().is_some_and(|name| name.ends_with(DAMAGED));
            let is_of_file = (loss.kind, loss.files) == (LossKind::Damaged, (file.number, file.number));
            is_of_file && is_set_aside && loss.bytes.0 <= rest.start as u64 && loss.bytes.1 == rest.end as u64
        };
        let Some(loss) = self.catalog.losses.iter().find(covers).filter(|_| !rest.is_empty()) else {
            return rest.start;
        };
        let last = loss.sequences.and_then(|(_, last)| last);
        let sequences = self.next_sequence..last.map_or(0, |last| last.saturating_add(1)).max(self.next_sequence);
        self.next_sequence = sequences.end;
        let end = rest.end;
        file.damage.push(DamagedBytes { range: rest, sequences, has_producers: true, layouts: Layouts::new() });
        end
    }

    fn next_sequence_behind(&self, parts: &[(RowsFrame<'_>, Arc<TableSpec>)]) -> u64 {
        parts.last().map_or(self.next_sequence, |(rows, _)| rows.sequence.saturating_add(1))
    }

    /// The batches of a message that are wanted.
    fn take_message(
        &self,
        parts: &[(RowsFrame<'_>, Arc<TableSpec>)],
        wants: &impl Fn(&str, u64, i64) -> bool,
    ) -> Result<Vec<JournalBatch>, codec::DecodeFault> {
        let picked = parts.iter().filter(|(rows, spec)| wants(&spec.name, rows.sequence, rows.times.1));
        picked.map(|(rows, spec)| batch(rows, spec)).collect()
    }

    fn note(&mut self, rows: &RowsFrame<'_>, file: &mut JournalFile, spec: &TableSpec) {
        // Below the greatest number: the walk saw to it.
        self.next_sequence = rows.sequence + 1;
        self.received = self.received.max(Some(rows.received));
        let (name, last) = rows.producer;
        if !name.is_empty() {
            self.tell_numbers_missing(name, last);
            match self.producers.get_mut(name) {
                Some(producer) => *producer = (last.max(producer.0), rows.received),
                None => {
                    self.producers.insert(name.to_owned(), (last, rows.received));
                }
            }
        }
        file.note(&spec.name, rows.sequence, rows.times.1, rows.rows);
    }
}

/// The state of reading a file.
pub(super) struct FileContext<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) number: u64,
    version: u32,
    pub(super) sure: LengthProof,
    pub(super) is_newest: bool,
    /// Losses before it.
    pub(super) losses: usize,
}

impl FileContext<'_> {
    /// How many of its bytes were on disk for certain.
    fn synced(&self, mut scan: JournalScan<'_>) -> u64 {
        while !matches!(scan.next(), FilePart::End(_)) {}
        scan.synced().max(if self.is_newest { self.sure.bytes } else { 0 })
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// A frame's batch.
pub(super) fn batch(rows: &RowsFrame<'_>, spec: &Arc<TableSpec>) -> Result<JournalBatch, codec::DecodeFault> {
    let (sequence, received) = (rows.sequence, rows.received);
    Ok(JournalBatch { sequence, received, rows: codec::decode(spec, rows.rows)?, spec: Arc::clone(spec) })
}

/// Numbers of the files, ascending. A file that only looks like one of ours, such as a copy named `1.jnl`, is none.
pub(crate) fn numbers(storage: &dyn Storage) -> Result<Vec<u64>> {
    numbers_in(storage, FOLDER)
}

/// Numbers of the journal's files in a folder.
pub(crate) fn numbers_in(storage: &dyn Storage, folder: &str) -> Result<Vec<u64>> {
    let names = storage.list(folder)?;
    let number = |entry: &str| {
        let number = entry.strip_suffix(".jnl").and_then(|stem| stem.parse().ok());
        number.filter(|number| *number < NUMBER_MAX && name(*number) == entry)
    };
    let mut numbers: Vec<u64> = names.iter().filter_map(|entry| number(&entry.name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

pub(super) fn damaged(storage: &dyn Storage, path: &str, offset: usize, expected: &str) -> Error {
    Error::Damaged {
        path: storage.display_path(path),
        offset: offset as u64,
        expected: expected.to_owned(),
        found: "other bytes".to_owned(),
    }
}
