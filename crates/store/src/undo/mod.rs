//! Undo: reverts a commit, and preserves later changes.
//!
//! | State of a date since the commit | How it is reverted |
//! | --- | --- |
//! | the commit only added files, and all still exist | removes these files |
//! | its rows haven't changed | restores its old files, under new names |
//! | its rows have changed | compares its rows before the commit, after it and now (`rows.rs`) |
//!
//! A commit that dropped columns changed no date: the columns are restored by name (`columns.rs`).
//!
//! Undo is impossible once the old files are gone: those that write-downs replaced, and those of changes older than
//! the history.

mod columns;
mod rows;

use arrow::array::RecordBatch;

use self::rows::{UndoRows, merge_sources};
use crate::database::{Table, TableSnapshot};
use crate::error::{Error, Result};
use crate::load::{self, KeySet, LoadReport};
use crate::manifest::{CommitNote, FileEntry, Operation, TableState, Tier, added_by};
use crate::segment::Segment;
use crate::write::{Change, Writer};

/// Memory that the size of segments is derived from, as in a load.
const MEMORY_BYTES: usize = 1 << 30;

/// How a date gets back what it had.
#[derive(Debug)]
enum Return {
    /// The files that the commit added go.
    Remove(Vec<FileEntry>),
    /// These come back in the place of all.
    Restore(Vec<FileEntry>),
    /// The rows of these states are compared with those that are there now.
    Compare { before: Vec<FileEntry>, after: Vec<FileEntry> },
}

/// Why a commit can't be undone; `None` if it can.
pub(crate) fn why_not(state: &TableState, epoch: u64) -> Result<Option<String>> {
    let Some(note) = state.history.commits().get(&epoch) else {
        return Ok(Some(match epoch {
            0 => "there is none of that number: the first is 1".to_owned(),
            epoch if epoch > state.epoch => format!("there is none of that number: the last is {}", state.epoch),
            _ => "it isn't known any more".to_owned(),
        }));
    };
    let drops_columns = !columns::dropped_by(state, epoch).is_empty();
    if !note.operation.changes_rows() && !drops_columns {
        return Ok(Some(match note.operation {
            Operation::Capture => "captured rows are deleted by a condition".to_owned(),
            other => format!("a commit of the kind {} leaves the rows as they are", other.word()),
        }));
    }
    if let Some(by) = undone_by(state, epoch) {
        return Ok(Some(format!("commit {by} has undone it")));
    }
    // Rows of a table must not come into another one of its name, nor into one that isn't there.
    let drops = |(number, note): (&u64, &CommitNote)| {
        (note.operation == Operation::Drop && undone_by(state, *number).is_none()).then_some(*number)
    };
    if let Some(drop) = state.history.commits().range(epoch..).rev().find_map(drops) {
        if !state.dropped {
            return Ok(Some(format!("commit {drop} dropped the table, which was created anew since")));
        }
        if drop != epoch {
            return Ok(Some(format!("commit {drop} dropped the table: undo that one first")));
        }
    }
    if note.undoes.is_some_and(|undone| !columns::dropped_by(state, undone).is_empty()) {
        return Ok(Some("it brought columns back: drop them again".to_owned()));
    }
    if let Some(by) = partitioned_since(state, epoch) {
        return Ok(Some(format!("commit {by} changed what a partition spans")));
    }
    if drops_columns {
        return columns::why_not(state, epoch);
    }
    for date in note.dates.keys() {
        if way_back(state, epoch, *date)?.is_none() {
            return Ok(Some(format!("files that {} had are gone", crate::partition::folder(*date))));
        }
    }
    Ok(None)
}

/// The commit that has undone another one.
fn undone_by(state: &TableState, epoch: u64) -> Option<u64> {
    let undone = |(other, note): (&u64, &CommitNote)| (note.undoes == Some(epoch)).then_some(*other);
    state.history.commits().range(epoch..).find_map(undone)
}

/// The first commit after another that changed what a partition spans: files from before are of other partitions.
fn partitioned_since(state: &TableState, epoch: u64) -> Option<u64> {
    let mut since = state.history.commits().range(epoch + 1..);
    since.find_map(|(number, note)| (note.operation == Operation::Partition).then_some(*number))
}

/// How a date gets back what it had before a commit; `None` if files for that are gone.
fn way_back(state: &TableState, epoch: u64, date: i32) -> Result<Option<Return>> {
    let (added, removed) = state.history.commits()[&epoch].dates[&date];
    let mut own = Vec::new();
    for entry in state.files.values().filter(|entry| entry.date == date) {
        if added_by(entry)? == epoch {
            own.push(entry.clone());
        }
    }
    if removed == 0 && own.len() == added as usize {
        return Ok(Some(Return::Remove(own)));
    }
    let (Some(before), Some(after)) = (state.files_at(date, epoch - 1)?, state.files_at(date, epoch)?) else {
        return Ok(None);
    };
    for (number, note) in state.history.commits().range(epoch + 1..) {
        if note.operation != Operation::Compact && has_changed(state, *number, date)? {
            return Ok(Some(Return::Compare { before, after }));
        }
    }
    Ok(Some(Return::Restore(before)))
}

/// Whether a commit added files to a date or removed some.
fn has_changed(state: &TableState, epoch: u64, date: i32) -> Result<bool> {
    for retired in state.history.retired().values().filter(|retired| retired.entry.date == date) {
        if retired.removed == epoch || added_by(&retired.entry)? == epoch {
            return Ok(true);
        }
    }
    for entry in state.files.values().filter(|entry| entry.date == date) {
        if added_by(entry)? == epoch {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Table {
    /// Takes back what a commit did, by a commit of its own, which can be undone as well. Rows of later commits stay. What the commit had
    /// loaded can be loaded again. Columns that it dropped come back, null in rows that came since, by a commit that can't be undone.
    ///
    /// # Errors
    /// [`Error::CannotUndo`] with the reason; those of reading and writing the table. Nothing has changed then.
    pub fn undo(&self, epoch: u64) -> Result<LoadReport> {
        self.database().refuse_of_view(self.name())?;
        self.settle()?;
        let is_dropped = self.stored_or_dropped()?.state().dropped;
        let writer = if is_dropped { Writer::of(self)? } else { Writer::begin(self.database(), self.name())? };
        if !is_dropped {
            self.refuse_live()?;
        }
        let Some(state) = writer.state() else {
            return Err(Error::NoSuchTable { table: self.name().to_owned(), existing: self.database().tables()? });
        };
        let reason = match why_not(state, epoch)? {
            None if state.dropped && self.database().view(self.name())?.is_some() => {
                Some("a view has the table's name now: drop it first".to_owned())
            }
            None if state.dropped && self.database().has_table(&state.spec.name)? => {
                Some("another table has its name now: give that one another name first".to_owned())
            }
            refusal => refusal,
        };
        if let Some(reason) = reason {
            return Err(Error::CannotUndo { table: self.name().to_owned(), commit: epoch, reason });
        }
        let note = &state.history.commits()[&epoch];
        let mut change = Change::new(Operation::Undo);
        (change.undoes, change.rows) = (Some(epoch), (note.rows.1, note.rows.0));
        // A table that was dropped is there again, and so are columns.
        let returning = columns::dropped_by(state, epoch);
        let is_changed = state.dropped || !returning.is_empty();
        change.spec = is_changed.then(|| columns::with(&state.spec, returning));
        change.unload = state.sources.values().filter(|(_, by)| *by == epoch).map(|(s, _)| s.digest.clone()).collect();
        for date in note.dates.keys() {
            match way_back(state, epoch, *date)? {
                Some(Return::Remove(own)) => change.remove.extend(own.into_iter().map(|entry| entry.path)),
                Some(Return::Restore(before)) => restore(&writer, *date, &before, &mut change)?,
                Some(Return::Compare { before, after }) => {
                    let missing = match compare(&writer, *date, &before, &after, &mut change) {
                        Err(Error::DuplicateKey { columns, values, .. }) => {
                            let reason = format!("the key ({columns})=({values}) would be there twice");
                            return Err(Error::CannotUndo { table: self.name().to_owned(), commit: epoch, reason });
                        }
                        compared => compared?,
                    };
                    // Rows that were changed twice would be there twice.
                    if missing > 0
                        && !matches!(
                            note.operation,
                            Operation::Load | Operation::Delete | Operation::Expire | Operation::Drop
                        )
                    {
                        let reason = format!("{missing} of the rows that it made have been changed since");
                        return Err(Error::CannotUndo { table: self.name().to_owned(), commit: epoch, reason });
                    }
                }
                None => return Err(Error::Poisoned),
            }
        }
        let mut report =
            LoadReport { partitions: note.dates.len(), segments: change.add.len(), ..LoadReport::default() };
        (report.rows, report.removed) = change.rows;
        report.bytes = change.add.iter().map(|file| file.bytes + file.index_bytes).sum();
        report.epoch = writer.commit(change)?;
        Ok(report)
    }

    /// The table as it was after a commit, without live rows.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`] if there is none, or its files are gone.
    pub fn at_commit(&self, epoch: u64) -> Result<TableSnapshot> {
        match &self.database().pinned {
            Some(pinned) => pinned.snapshot(self, Some(epoch)),
            None => self.whole_at_commit(epoch),
        }
    }

    /// Like [`Self::at_commit`], with all rows, even if the database is pinned to a slice.
    pub(crate) fn whole_at_commit(&self, epoch: u64) -> Result<TableSnapshot> {
        let now = self.stored()?;
        if epoch == now.epoch() {
            return Ok(now);
        }
        let partitioned = partitioned_since(now.state(), epoch);
        let first = now.state().history.readable_from().max(partitioned.unwrap_or(0));
        let past = if epoch < now.epoch() && partitioned.is_none() { now.state().at(epoch)? } else { None };
        match past {
            Some(state) => Ok(self.past(&now, state)),
            None => Err(Error::NoSuchCommit { table: self.name().to_owned(), commit: epoch, first, last: now.epoch() }),
        }
    }

    /// Number of the last commit at or before an instant, in nanoseconds since the epoch by the clock of the machine that wrote it.
    ///
    /// # Errors
    /// [`Error::NoSuchCommit`] if it is longer ago than the table remembers.
    pub fn commit_at(&self, at: i64) -> Result<u64> {
        let now = self.stored()?;
        let history = &now.state().history;
        history.epoch_at(at).ok_or_else(|| Error::NoSuchCommit {
            table: self.name().to_owned(),
            commit: 0,
            first: history.readable_from(),
            last: now.epoch(),
        })
    }
}

/// Gives a date the files that it had.
fn restore(writer: &Writer, date: i32, before: &[FileEntry], change: &mut Change) -> Result<()> {
    let current = writer.partition(date);
    // A file that the date still has keeps its name as long as all in front of it do.
    let stays = before.iter().zip(&current).take_while(|(old, new)| old.path == new.path).count();
    change.remove.extend(current.into_iter().skip(stays).map(|entry| entry.path));
    for entry in before.iter().skip(stays) {
        change.add.push(writer.link(entry)?);
    }
    Ok(())
}

/// Writes a date anew: as it is, but for the rows that changed from one state to the other. Gives how many of those that came aren't there
/// any more.
fn compare(writer: &Writer, date: i32, before: &[FileEntry], after: &[FileEntry], change: &mut Change) -> Result<u64> {
    let Some(state) = writer.state() else { return Ok(0) };
    let (spec, current) = (state.spec.clone(), writer.partition(date));
    let segments = |entries: &[FileEntry]| entries.iter().map(|entry| writer.segment(entry)).collect::<Vec<Segment>>();
    let states = [segments(before), segments(after), segments(&current)];
    let widest = states.iter().map(|segments| load::row_bytes(&spec, segments)).collect::<Result<Vec<_>>>()?;
    let row_bytes = widest.into_iter().max().unwrap_or(1);
    let tier = current.first().map_or(Tier::Mapped, |entry| entry.tier);
    let rows_max = load::segment_rows(writer, MEMORY_BYTES, row_bytes);
    let (mut pending, mut rows, mut keys) = (Vec::new(), 0, KeySet::new(&spec)?);
    let mut write = |pending: &mut Vec<RecordBatch>, rows: &mut usize| -> Result<()> {
        let batch = load::in_order(&spec, pending)?;
        change.add.push(writer.write_segment(&spec, date, tier, &batch)?);
        (*rows, *pending) = (0, Vec::new());
        Ok(())
    };
    let missing = std::thread::scope(|scope| -> Result<u64> {
        let source = |state| merge_sources(scope, &spec, load::stored(&spec, state, load::chunk_rows(row_bytes)));
        let mut undoing = UndoRows::new(&spec, source(&states[0]), source(&states[1]), source(&states[2]))?;
        undoing.run(&mut |batch| {
            rows += batch.num_rows();
            keys.as_mut().map_or(Ok(()), |keys| keys.add_new(&batch, "is there twice"))?;
            pending.push(batch);
            if rows >= rows_max { write(&mut pending, &mut rows) } else { Ok(()) }
        })?;
        Ok(undoing.missing)
    })?;
    if rows > 0 {
        write(&mut pending, &mut rows)?;
    }
    change.remove.extend(current.into_iter().map(|entry| entry.path));
    Ok(missing)
}
