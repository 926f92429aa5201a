//! Reads the journal after a start, past whatever is damaged, and tells what is lost. It changes nothing: see `settle`.
//!
//! - A file that another one follows was synced whole before that began, and so was what a frame of its own or the catalog says.
//!   Damage to such bytes is a loss, and what stands behind it counts.
//! - Behind those bytes the newest file may be torn. It ends there, so that of no producer a batch is lost and a later one kept.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use splay_store::TableSpec;
use splay_store::storage::Storage;

use super::catalog::{Catalog, Stored};
use super::format::{self, HEADER_BYTES, LINKED, Link, RowsFrame};
use super::loss::{JournalLoss, LossKind};
use super::scan::{Damage, Layouts, Piece, Scan};
use super::{FOLDER, JournalFile, NUMBER_MAX, Producers, name, path};
use crate::codec;
use crate::error::{Error, Result};

/// Losses of one file that are told apart; what comes behind them is told with the last one.
const LOSSES_OF_FILE_MAX: usize = 64;

/// A batch as it was taken.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) sequence: u64,
    pub(crate) received: i64,
    pub(crate) spec: Arc<TableSpec>,
    pub(crate) rows: RecordBatch,
}

/// What was found after a start.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: Vec<JournalFile>,
    pub(crate) producers: Producers,
    /// The next batch's number.
    pub(crate) next_sequence: u64,
    /// Number of the last file that there was.
    pub(crate) last_number: u64,
    /// Bytes that have to be cut off the end, and where they will be kept.
    pub(crate) torn: Option<(u64, String)>,
    /// What is lost and isn't listed in the catalog yet.
    pub(crate) losses: Vec<JournalLoss>,
    pub(crate) catalog: Catalog,
    /// Whether a sound catalog was there.
    pub(crate) has_catalog: bool,
    pub(super) asides: Vec<Aside>,
    pub(super) mends: Vec<Mend>,
    layouts: Layouts,
    /// The newest loss, and the producers that have been seen behind it.
    behind: Option<(usize, HashSet<String>)>,
}

/// Bytes of a file that have to be kept beside it.
#[derive(Debug)]
pub(super) struct Aside {
    pub(super) number: u64,
    pub(super) range: Range<usize>,
    /// Name of the file that takes them.
    pub(super) name: String,
}

/// What has to be done to a file before the journal goes on.
#[derive(Debug)]
pub(super) enum Mend {
    Cut(u64, u64),
    Remove(u64),
    Rename(u64, String),
}

/// What else says of a file how long it is.
#[derive(Debug, Clone, Copy, Default)]
struct Sure {
    /// Bytes that were on disk.
    bytes: u64,
    /// Number of the last batch in them.
    sequence: u64,
    /// Checksum of exactly these bytes.
    crc: Option<u32>,
}

/// Reads all files in order and gives each batch to `take`, which is asked first, by table, sequence number and latest time,
/// whether it wants it.
pub(crate) fn replay(
    storage: &dyn Storage,
    wants: impl Fn(&str, u64, i64) -> bool,
    mut take: impl FnMut(Batch) -> Result<()>,
) -> Result<Found> {
    let mut found = Found { next_sequence: 1, ..Found::default() };
    let numbers = numbers(storage)?;
    let mut heads = numbers.iter().map(|number| Head::read(storage, *number)).collect::<Result<Vec<_>>>()?;
    found.open_catalog(storage, &numbers, &heads)?;
    if let Some(last) = heads.last()
        && found.is_begun(storage, last)?
    {
        heads.pop();
    }
    let numbers = &numbers[..heads.len()];
    for (place, head) in heads.iter().enumerate() {
        found.tell_missing_before(head, numbers[..place].last().copied());
        found.read_file(storage, head, heads.get(place + 1), &wants, &mut take)?;
        found.last_number = found.last_number.max(head.number);
    }
    found.tell_missing_at_the_end(numbers.last().copied());
    found.last_number = found.last_number.max(found.catalog.newest);
    found.note_files_behind_losses();
    found.next_sequence = found.next_sequence.max(found.catalog.sequence.saturating_add(1));
    Ok(found)
}

/// What the first bytes of a file say.
#[derive(Debug)]
struct Head {
    number: u64,
    /// Version, number, and first sequence number, if the header is sound.
    header: Option<(u32, u64, u64)>,
    link: Option<Link>,
}

impl Head {
    fn read(storage: &dyn Storage, number: u64) -> Result<Head> {
        let bytes = storage.map(&path(number))?;
        let link = bytes.get(HEADER_BYTES..).and_then(format::content).and_then(|(content, _)| format::parse(content));
        let link = match link {
            Some(format::Frame::Link(link)) => Some(link),
            _ => None,
        };
        Ok(Head { number, header: format::parse_header(&bytes), link })
    }
}

impl Found {
    fn open_catalog(&mut self, storage: &dyn Storage, numbers: &[u64], heads: &[Head]) -> Result<()> {
        let stored = Catalog::load(storage)?;
        let is_lost = match &stored {
            Stored::Sound(_) => false,
            Stored::Damaged => true,
            // A release that knows of no catalog wrote no later version.
            Stored::Absent => heads.iter().any(|head| head.header.is_some_and(|(version, _, _)| version >= LINKED)),
        };
        if is_lost {
            self.lose(JournalLoss::new(LossKind::Catalog, (0, 0)));
        }
        if let Stored::Sound(catalog) = stored {
            (self.catalog, self.has_catalog) = (catalog, true);
        } else {
            self.catalog.oldest = numbers.first().copied().unwrap_or(1);
        }
        Ok(())
    }

    /// Whether the newest file was being begun, so that nothing in it was acknowledged. It will be removed.
    fn is_begun(&mut self, storage: &dyn Storage, head: &Head) -> Result<bool> {
        let may_be = head.header.is_none() && (!self.has_catalog || head.number > self.catalog.newest);
        if !may_be {
            return Ok(false);
        }
        let bytes = storage.map(&path(head.number))?;
        let holds_batches = self.first_behind_header(&bytes, head, &Layouts::new()).is_some();
        if bytes.unreadable_at().is_some() || holds_batches {
            return Ok(false);
        }
        self.tear(storage, head.number, 0..bytes.len(), 0);
        self.mends.push(Mend::Remove(head.number));
        Ok(true)
    }

    /// Tells of files that should stand before this one, and behind the one before it.
    fn tell_missing_before(&mut self, head: &Head, before: Option<u64>) {
        // Files before the oldest are left over from a crash while they were removed.
        if head.number >= self.catalog.oldest {
            self.next_sequence = self.next_sequence.max(self.catalog.first);
        }
        let first = before.map_or(self.catalog.oldest, |before| before + 1).max(self.catalog.oldest);
        let last = if self.has_catalog {
            head.number.saturating_sub(1).min(self.catalog.newest)
        } else {
            // The oldest one may name a file that has gone because its rows are stored.
            head.link.filter(|_| before.is_some()).map_or(0, |link| link.number.min(head.number.saturating_sub(1)))
        };
        self.tell_missing(first, last, head.link.map(|link| link.sequence));
    }

    fn tell_missing_at_the_end(&mut self, last: Option<u64>) {
        self.next_sequence = self.next_sequence.max(self.catalog.first);
        let first = last.map_or(self.catalog.oldest, |last| last + 1).max(self.catalog.oldest);
        let sequence = Some(self.catalog.sequence).filter(|last| *last >= self.next_sequence);
        self.tell_missing(first, self.catalog.newest, sequence);
    }

    /// Notes which files come behind batches that are lost between files.
    fn note_files_behind_losses(&mut self) {
        for place in 1..self.files.len() {
            let (before, file) = (&self.files[place - 1], &self.files[place]);
            let all = self.catalog.losses.iter().chain(&self.losses);
            self.files[place].is_behind_loss = all.into_iter().any(|loss| loss.is_between(before, file.number));
        }
    }

    /// Tells of missing files, but for those that are listed. `sequence` is the number of their last batch.
    fn tell_missing(&mut self, first: u64, last: u64, sequence: Option<u64>) {
        let mut ranges = if first <= last { vec![(first, last)] } else { Vec::new() };
        for known in self.catalog.losses.iter().filter(|loss| loss.kind == LossKind::Missing) {
            let (from, to) = known.files;
            let parts = |(first, last): (u64, u64)| {
                let before = (first, last.min(from.saturating_sub(1)));
                let behind = (first.max(to.saturating_add(1)), last);
                let parts = if to < first || from > last { vec![(first, last)] } else { vec![before, behind] };
                parts.into_iter().filter(|(first, last)| first <= last)
            };
            ranges = ranges.into_iter().flat_map(parts).collect();
        }
        for files in ranges {
            let mut loss = JournalLoss::new(LossKind::Missing, files);
            let is_any = sequence.is_none_or(|last| last >= self.next_sequence);
            loss.sequences = is_any.then_some((self.next_sequence, sequence));
            self.lose(loss);
        }
    }

    /// Reads a file, behind which `next` stands.
    fn read_file(
        &mut self,
        storage: &dyn Storage,
        head: &Head,
        next: Option<&Head>,
        wants: &impl Fn(&str, u64, i64) -> bool,
        take: &mut impl FnMut(Batch) -> Result<()>,
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
        let layouts = std::mem::take(&mut self.layouts);
        let header = format::parse_header(bytes);
        refuse_unreadable()?;
        let (version, first) = match header {
            Some((version, _, _)) if !(1..=format::VERSION).contains(&version) => {
                return Err(damaged(storage, &path, 8, "a version of this release"));
            }
            Some((_, in_file, first)) if in_file != head.number || first == u64::MAX => {
                self.layouts = layouts;
                self.tell_other_file(head.number);
                return Ok(());
            }
            Some((version, _, first)) => (version, first.max(self.next_sequence)),
            None => match self.first_behind_header(bytes, head, &layouts) {
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
        let of_file = OfFile { storage, number: head.number, version, sure, is_newest: next.is_none(), losses: self.losses.len() };
        let mut scan = Scan::new(bytes, version, first, &layouts);
        let file = self.walk(&of_file, bytes, &mut scan, file, wants, take);
        refuse_unreadable()?;
        self.files.push(file?);
        let learnt = scan.into_layouts();
        self.layouts = layouts;
        if version >= LINKED {
            self.layouts.extend(learnt);
        }
        Ok(())
    }

    /// What is known from elsewhere of a file's length.
    fn sure_of(&self, number: u64, next: Option<&Head>) -> Sure {
        if let Some(next) = next {
            return match next.link.filter(|link| link.number == number) {
                Some(link) => Sure { bytes: link.bytes, sequence: link.sequence, crc: Some(link.crc) },
                None => Sure { bytes: u64::MAX, ..Sure::default() },
            };
        }
        if self.has_catalog && number == self.catalog.newest {
            return Sure { bytes: self.catalog.bytes, sequence: self.catalog.sequence, crc: None };
        }
        Sure::default()
    }

    /// Version and first number of a file whose header is damaged, if a batch stands in it.
    fn first_behind_header(&self, bytes: &[u8], head: &Head, layouts: &Layouts) -> Option<(u32, u64)> {
        let second = bytes.get(HEADER_BYTES..).and_then(format::content).and_then(|(content, _)| format::parse(content));
        let is_older = head.link.is_none() && matches!(second, Some(format::Frame::Producers(_)));
        let version = if is_older { LINKED - 1 } else { format::VERSION };
        let mut scan = Scan::new(bytes, version, self.next_sequence, layouts);
        loop {
            match scan.next() {
                Piece::Message(_, parts) => return Some((version, parts.first()?.0.sequence)),
                Piece::Damage(damage) if !damage.sequences.is_empty() => return Some((version, damage.sequences.end)),
                Piece::End(_) => return None,
                _ => {}
            }
        }
    }

    /// A file that isn't the one that was written under this number is put aside, and counts as missing.
    fn tell_other_file(&mut self, number: u64) {
        let kept = format!("{}.damaged", name(number));
        let mut loss = JournalLoss::new(LossKind::Missing, (number, number));
        loss.sequences = Some((self.next_sequence, None));
        loss.kept = Some(kept.clone());
        self.lose(loss);
        self.mends.push(Mend::Rename(number, kept));
    }

    /// Reads the frames of a file.
    fn walk<'a>(
        &mut self,
        of_file: &OfFile<'_>,
        bytes: &'a [u8],
        scan: &mut Scan<'a>,
        mut file: JournalFile,
        wants: &impl Fn(&str, u64, i64) -> bool,
        take: &mut impl FnMut(Batch) -> Result<()>,
    ) -> Result<JournalFile> {
        let number = file.number;
        let mut synced = None;
        let end = loop {
            match scan.next() {
                Piece::Other => {}
                Piece::Producers(producers) => {
                    for (name, last, _) in &producers {
                        self.tell_numbers_missing(name, last.saturating_add(1));
                    }
                    self.producers = producers.into_iter().map(|(name, number, at)| (name, (number, at))).collect();
                }
                Piece::Message(range, parts) => match self.take_message(&parts, wants) {
                    Ok(batches) => {
                        for (rows, spec) in &parts {
                            self.note(rows, &mut file, spec);
                        }
                        batches.into_iter().try_for_each(&mut *take)?;
                    }
                    // Its checksum is right, and yet it is no batch.
                    Err(_) => {
                        let sequences = parts[0].0.sequence..self.next_sequence_behind(&parts);
                        let damage = Damage { range, sequences, has_producers: true, layouts: Layouts::new() };
                        self.tell_damage(of_file, &mut file, damage);
                    }
                },
                Piece::Damage(damage) => {
                    let is_known_whole = !of_file.is_newest || of_file.version < LINKED;
                    let start = damage.range.start as u64;
                    if !is_known_whole && start >= *synced.get_or_insert_with(|| of_file.synced(scan.clone())) {
                        break damage.range.start;
                    }
                    self.tell_damage(of_file, &mut file, damage);
                }
                Piece::End(end) => break end,
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
            && !self.catalog.losses.iter().any(|known| known.files == (number, number))
        {
            self.lose(JournalLoss::new(LossKind::Changed, (number, number)));
        }
        Ok(file)
    }

    fn next_sequence_behind(&self, parts: &[(RowsFrame<'_>, Arc<TableSpec>)]) -> u64 {
        parts.last().map_or(self.next_sequence, |(rows, _)| rows.sequence.saturating_add(1))
    }

    /// The batches of a message that are wanted.
    fn take_message(
        &self,
        parts: &[(RowsFrame<'_>, Arc<TableSpec>)],
        wants: &impl Fn(&str, u64, i64) -> bool,
    ) -> Result<Vec<Batch>, codec::Reason> {
        let wanted = parts.iter().filter(|(rows, spec)| wants(&spec.name, rows.sequence, rows.times.1));
        wanted.map(|(rows, spec)| batch(rows, spec)).collect()
    }

    /// Tells of damage with sound frames behind it.
    fn tell_damage(&mut self, of_file: &OfFile<'_>, file: &mut JournalFile, damage: Damage) {
        let mut loss = JournalLoss::new(LossKind::Damaged, (file.number, file.number));
        loss.bytes = (damage.range.start as u64, damage.range.end as u64);
        loss.sequences = last_of(&damage.sequences).map(|last| (damage.sequences.start, Some(last)));
        self.next_sequence = damage.sequences.end;
        let of_this = self.losses.len() - of_file.losses;
        if of_this >= LOSSES_OF_FILE_MAX
            && let Some(last) = self.losses.last_mut()
        {
            last.bytes.1 = loss.bytes.1;
            let begin = last.sequences.or(loss.sequences).map(|(first, _)| first);
            let end = loss.sequences.or(last.sequences).and_then(|(_, end)| end);
            last.sequences = begin.map(|first| (first, end));
            if let Some(aside) = self.asides.last_mut() {
                aside.range.end = damage.range.end;
            }
        } else {
            self.lose_bytes(loss, file.number, damage.range.clone());
        }
        file.damage.push(damage);
    }

    /// Tells what is wrong with a file's end, where no sound frame follows.
    fn tell_end(&mut self, of_file: &OfFile<'_>, bytes: &[u8], end: usize, synced: u64, scan: &mut Scan<'_>) {
        let (number, rest) = (of_file.number, end..bytes.len());
        let is_zero = bytes[end..].iter().all(|byte| *byte == 0);
        let sure = if of_file.sure.bytes == u64::MAX && is_zero { 0 } else { of_file.sure.bytes };
        let is_lost = (end as u64) < sure.min(u64::MAX - 1).max(synced) && !(sure == u64::MAX && rest.is_empty());
        if is_lost {
            let mut loss = JournalLoss::new(LossKind::Damaged, (number, number));
            let to = if sure == u64::MAX { bytes.len() as u64 } else { sure.max(synced).max(bytes.len() as u64) };
            loss.bytes = (end as u64, to);
            // Of the newest file only the least is known.
            let last = Some(of_file.sure.sequence).filter(|last| *last >= self.next_sequence && !of_file.is_newest);
            let is_any = last.is_some() || of_file.sure.crc.is_none();
            loss.sequences = is_any.then_some((self.next_sequence, last));
            if of_file.is_newest {
                loss.kept = (!rest.is_empty()).then(|| format!("{}.torn", name(number)));
                self.lose(loss);
            } else {
                self.lose_bytes(loss, number, rest.clone());
            }
        }
        if of_file.is_newest && !rest.is_empty() {
            let mut set_aside = 0;
            loop {
                match scan.next() {
                    Piece::End(_) => break,
                    Piece::Message(..) => set_aside += 1,
                    _ => {}
                }
            }
            if !is_zero {
                self.tear(of_file.storage, number, rest.clone(), set_aside);
            }
            self.mends.push(Mend::Cut(number, end as u64));
        }
    }

    /// Notes an end that has to be cut off and kept aside.
    fn tear(&mut self, storage: &dyn Storage, number: u64, rest: Range<usize>, set_aside: u64) {
        if rest.is_empty() {
            return;
        }
        let aside = format!("{}.torn", name(number));
        let shown = storage.display_path(&format!("{FOLDER}/{aside}")).display().to_string();
        self.torn = Some((rest.len() as u64, shown));
        if set_aside > 0 {
            let mut loss = JournalLoss::new(LossKind::Torn, (number, number));
            loss.bytes = (rest.start as u64, rest.end as u64);
            (loss.kept, loss.set_aside) = (Some(aside.clone()), set_aside);
            self.lose(loss);
        }
        self.asides.push(Aside { number, range: rest, name: aside });
    }

    /// Notes a loss of bytes, which are kept beside their file.
    fn lose_bytes(&mut self, mut loss: JournalLoss, number: u64, range: Range<usize>) {
        if range.is_empty() {
            return self.lose(loss);
        }
        let aside = format!("{}.{}.damaged", name(number), range.start);
        loss.kept = Some(aside.clone());
        let before = self.losses.len();
        self.lose(loss);
        if self.losses.len() > before {
            self.asides.push(Aside { number, range, name: aside });
        }
    }

    /// Notes a loss, unless it is listed in the catalog or about a file whose rows were all stored.
    pub(super) fn lose(&mut self, loss: JournalLoss) {
        let is_left_over = loss.files.1 > 0 && loss.files.1 < self.catalog.oldest;
        if is_left_over || self.catalog.losses.iter().any(|known| known.is_same(&loss)) {
            return;
        }
        self.behind = Some((self.losses.len(), HashSet::new()));
        self.losses.push(loss);
    }

    /// The journal is gone, and rows that were captured are in tables' files.
    pub(crate) fn tell_gone(&mut self, captured: u64) {
        let is_gone = self.last_number == 0 && !self.has_catalog && captured > 0;
        if is_gone {
            let mut loss = JournalLoss::new(LossKind::Gone, (0, 0));
            loss.sequences = Some((captured.saturating_add(1), None));
            self.lose(loss);
        }
    }

    fn note(&mut self, rows: &RowsFrame<'_>, file: &mut JournalFile, spec: &TableSpec) {
        // Below the greatest number: the walk saw to it.
        self.next_sequence = rows.sequence + 1;
        let (name, last) = rows.producer;
        if !name.is_empty() {
            self.tell_numbers_missing(name, last);
            match self.producers.get_mut(name) {
                Some(known) => *known = (last.max(known.0), rows.received),
                None => {
                    self.producers.insert(name.to_owned(), (last, rows.received));
                }
            }
        }
        file.note(&spec.name, rows.sequence, rows.times.1, rows.rows);
    }

    /// Tells of a producer's numbers between the last one and this, if it is the first behind a loss.
    fn tell_numbers_missing(&mut self, producer: &str, before: u64) {
        let Some((loss, seen)) = &mut self.behind else { return };
        if !seen.contains(producer) {
            seen.insert(producer.to_owned());
            let after = self.producers.get(producer).map_or(0, |(last, _)| *last);
            if before > after.saturating_add(1) {
                self.losses[*loss].miss(producer, after, before);
            }
        }
    }
}

/// What is known of a file while it is read.
struct OfFile<'a> {
    storage: &'a dyn Storage,
    number: u64,
    version: u32,
    sure: Sure,
    is_newest: bool,
    /// Losses before it.
    losses: usize,
}

impl OfFile<'_> {
    /// How many of its bytes were on disk for certain.
    fn synced(&self, mut scan: Scan<'_>) -> u64 {
        while !matches!(scan.next(), Piece::End(_)) {}
        scan.synced().max(if self.is_newest { self.sure.bytes } else { 0 })
    }
}

/// The last of a range.
fn last_of(range: &Range<u64>) -> Option<u64> {
    if range.is_empty() { None } else { range.end.checked_sub(1) }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// A frame's batch.
pub(super) fn batch(rows: &RowsFrame<'_>, spec: &Arc<TableSpec>) -> Result<Batch, codec::Reason> {
    let (sequence, received) = (rows.sequence, rows.received);
    Ok(Batch { sequence, received, rows: codec::decode(spec, rows.rows)?, spec: Arc::clone(spec) })
}

/// Numbers of the files, ascending. A file that only looks like one of ours, such as a copy named `1.jnl`, is none.
pub(super) fn numbers(storage: &dyn Storage) -> Result<Vec<u64>> {
    let names = storage.list(FOLDER)?;
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
