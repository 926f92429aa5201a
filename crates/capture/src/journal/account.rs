//! The account of lost journal bytes and files, written once by the start that finds the loss.

use std::collections::HashSet;
use std::ops::Range;

use splay_store::storage::Storage;

use super::loss::{DAMAGED, JournalLoss, LossKind};
use super::reader::{FileContext, FileHead, FileRepair, JournalContent, SavedBytes};
use super::scan::{DamagedBytes, FilePart, JournalScan};
use super::{FOLDER, JournalFile, name};

/// Losses of one file that are reported separately. Further ones are reported together with the last.
const LOSSES_OF_FILE_MAX: usize = 64;

impl JournalContent {
    /// Reports files that are missing between this one and the one before it.
    pub(super) fn tell_missing_before(&mut self, head: &FileHead, before: Option<u64>) {
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

    pub(super) fn tell_missing_at_the_end(&mut self, last: Option<u64>) {
        self.next_sequence = self.next_sequence.max(self.catalog.first);
        let first = last.map_or(self.catalog.oldest, |last| last + 1).max(self.catalog.oldest);
        let sequence = Some(self.catalog.sequence).filter(|last| *last >= self.next_sequence);
        self.tell_missing(first, self.catalog.newest, sequence);
    }

    /// Notes which files come behind batches that are lost between files.
    pub(super) fn note_files_behind_losses(&mut self) {
        for place in 1..self.files.len() {
            let (before, file) = (&self.files[place - 1], &self.files[place]);
            let all = self.catalog.losses.iter().chain(&self.losses);
            self.files[place].is_behind_loss = all.into_iter().any(|loss| loss.is_between(before, file.number));
        }
    }

    /// Tells of missing files, but for those that are listed. `sequence` is the number of their last batch.
    pub(super) fn tell_missing(&mut self, first: u64, last: u64, sequence: Option<u64>) {
        let mut ranges = if first <= last { vec![(first, last)] } else { Vec::new() };
        for listed in self.catalog.losses.iter().filter(|loss| loss.kind == LossKind::Missing) {
            let (from, to) = listed.files;
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

    /// A file that isn't the one that was written under this number is put aside, and counts as missing.
    pub(super) fn tell_other_file(&mut self, number: u64) {
        let aside_name = format!("{}{DAMAGED}", name(number));
        let mut loss = JournalLoss::new(LossKind::Missing, (number, number));
        loss.sequences = Some((self.next_sequence, None));
        loss.salvage_file = Some(aside_name.clone());
        self.lose(loss);
        self.mends.push(FileRepair::Rename(number, aside_name));
    }

    /// Tells of damage with sound frames behind it.
    pub(super) fn tell_damage(&mut self, of_file: &FileContext<'_>, file: &mut JournalFile, damage: DamagedBytes) {
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
    pub(super) fn tell_end(
        &mut self,
        of_file: &FileContext<'_>,
        bytes: &[u8],
        end: usize,
        synced: u64,
        scan: &mut JournalScan<'_>,
    ) {
        let (number, rest) = (of_file.number, end..bytes.len());
        let is_zero = bytes[end..].iter().all(|byte| *byte == 0);
        let sure = if of_file.sure.bytes == u64::MAX && is_zero { 0 } else { of_file.sure.bytes };
        let is_lost = (end as u64) < sure.min(u64::MAX - 1).max(synced) && !(sure == u64::MAX && rest.is_empty());
        if is_lost {
            let mut loss = JournalLoss::new(LossKind::Damaged, (number, number));
            let to = if sure == u64::MAX { bytes.len() as u64 } else { sure.max(synced).max(bytes.len() as u64) };
            loss.bytes = (end as u64, to);
            // In the newest file the last lost number isn't known: it may go on behind its damage.
            let last = Some(of_file.sure.sequence).filter(|last| *last >= self.next_sequence && !of_file.is_newest);
            let is_any = last.is_some() || of_file.sure.crc.is_none();
            loss.sequences = is_any.then_some((self.next_sequence, last));
            if of_file.is_newest {
                loss.salvage_file = (!rest.is_empty()).then(|| format!("{}.torn", name(number)));
                self.lose(loss);
            } else {
                self.lose_bytes(loss, number, rest.clone());
            }
        }
        if of_file.is_newest && !rest.is_empty() {
            let mut set_aside = 0;
            loop {
                match scan.next() {
                    FilePart::End(_) => break,
                    FilePart::Message(..) => set_aside += 1,
                    _ => {}
                }
            }
            if !is_zero {
                self.tear(of_file.storage, number, rest.clone(), set_aside);
            }
            self.mends.push(FileRepair::Cut(number, end as u64));
        }
    }

    /// Notes an end that has to be cut off and kept aside.
    pub(super) fn tear(&mut self, storage: &dyn Storage, number: u64, rest: Range<usize>, set_aside: u64) {
        if rest.is_empty() {
            return;
        }
        let aside = format!("{}.torn", name(number));
        let shown = storage.display_path(&format!("{FOLDER}/{aside}")).display().to_string();
        self.torn = Some((rest.len() as u64, shown));
        if set_aside > 0 {
            let mut loss = JournalLoss::new(LossKind::Torn, (number, number));
            loss.bytes = (rest.start as u64, rest.end as u64);
            (loss.salvage_file, loss.set_aside) = (Some(aside.clone()), set_aside);
            self.lose(loss);
        }
        self.asides.push(SavedBytes { number, range: rest, name: aside });
    }

    /// Notes a loss of bytes, which are kept beside their file.
    pub(super) fn lose_bytes(&mut self, mut loss: JournalLoss, number: u64, range: Range<usize>) {
        if range.is_empty() {
            return self.lose(loss);
        }
        let aside = format!("{}.{}{DAMAGED}", name(number), range.start);
        loss.salvage_file = Some(aside.clone());
        let before = self.losses.len();
        self.lose(loss);
        if self.losses.len() > before {
            self.asides.push(SavedBytes { number, range, name: aside });
        }
    }

    /// Notes a loss, unless it is listed in the catalog or about a file whose rows were all stored.
    pub(super) fn lose(&mut self, loss: JournalLoss) {
        let is_left_over = loss.files.1 > 0 && loss.files.1 < self.catalog.oldest;
        if is_left_over || self.catalog.losses.iter().any(|other| other.is_same(&loss)) {
            return;
        }
        self.behind = Some((self.losses.len(), HashSet::new()));
        self.losses.push(loss);
    }

    /// The journal is gone, and rows that were captured are in tables' files.
    pub(crate) fn tell_missing_journal(&mut self, captured: u64) {
        let is_gone = self.last_number == 0 && !self.has_catalog && captured > 0;
        if is_gone {
            let mut loss = JournalLoss::new(LossKind::Gone, (0, 0));
            loss.sequences = Some((captured.saturating_add(1), None));
            self.lose(loss);
        }
    }

    /// Tells of a producer's numbers between the last one and this, if it is the first behind a loss.
    pub(super) fn tell_numbers_missing(&mut self, producer: &str, before: u64) {
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

/// The last of a range.
fn last_of(range: &Range<u64>) -> Option<u64> {
    if range.is_empty() { None } else { range.end.checked_sub(1) }
}
