//! Undo: reverts a commit, and preserves later changes.
//!
//! | State of a date since the commit | How it is reverted |
//! | --- | --- |
//! | the commit only added files, and all still exist | removes these files |
//! | its rows haven't changed | restores its old files, under new names |
//! | its rows have changed | compares its rows before the commit, after it, after later removals and now (`rows.rs`) |
//!
//! A change that was built on the commit comes first: rows that an update or a replacement made of the commit's rows aren't told from others, and those
//! of a load that was undone since don't come back by the undo of an older deletion.
//!
//! A commit that dropped columns changed no date: the columns are restored by name (`columns.rs`).
//!
//! Undo is impossible once the old files are gone: those that write-downs replaced, and those of changes older than
//! the history.

mod columns;
mod rows;

use arrow::array::RecordBatch;

use self::rows::{DateStates, UndoCounts, UndoRows, UndoneRemoval, merge_sources};
use crate::database::{Table, TableSnapshot};
use crate::error::{Error, Result};
use crate::load::{self, KeySet, LoadReport};
use crate::manifest::{CommitNote, FileEntry, Operation, Source, TableState, added_by};
use crate::row_order::in_order;
use crate::segment::Segment;
use crate::tier::Tier;
use crate::write::{Change, Writer};

/// Memory that the size of segments is derived from, as in a load.
const MEMORY_BYTES: usize = 1 << 30;

/// How a date gets back what it had.
enum Return {
    /// The files that the commit added go.
    Remove(Vec<FileEntry>),
    /// These come back in the place of all.
    Restore(Vec<FileEntry>),
    /// The rows of these states are compared.
    Compare(DateStates<Vec<FileEntry>>),
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
    if let Some((source, by)) = loaded_again(state, epoch) {
        return Ok(Some(format!("commit {by} has loaded {} again since: undo that one first", source.name)));
    }
    for date in note.dates.keys() {
        if let Some(by) = replaced_since(state, epoch, *date) {
            return Ok(Some(format!("commit {by} has replaced rows of these dates since: undo that one first")));
        }
        if let Some(by) = undone_below(state, epoch, *date) {
            return Ok(Some(format!(
                "commit {by} has undone an older commit since, whose rows it may have removed: undo that one first"
            )));
        }
        if way_back(state, epoch, *date)?.is_none() {
            return Ok(Some(format!("files that {} had are gone", crate::partition::folder(*date))));
        }
    }
    Ok(None)
}

/// The sources that a commit loaded, or that came back by it, as far as their rows are there.
fn loaded_by(state: &TableState, epoch: u64) -> impl Iterator<Item = &Source> {
    let note = |epoch: u64| state.history.commits().get(&epoch);
    let came_back = note(epoch).and_then(|by| note(by.undoes?)).map_or(&[][..], |undone| &undone.unloaded);
    let is_of = move |(source, by): &&(Source, u64)| {
        *by == epoch || came_back.iter().any(|(other, of)| other.digest == source.digest && of == by)
    };
    state.sources.values().filter(is_of).map(|(source, _)| source)
}

/// The sources that are on record again without a commit: those that it took from the table or loaded again, by the last load of each that is in
/// effect then.
fn sources_back(state: &TableState, epoch: u64) -> Vec<(Source, u64)> {
    let unloaded = |epoch: u64| state.history.commits().get(&epoch).map_or(&[][..], |note| &note.unloaded);
    let last_load = |(source, by): &(Source, u64)| {
        let (mut source, mut by) = (source, *by);
        while !is_in_effect_without(state, by, epoch) {
            let mut earlier = unloaded(by).iter().filter(|(_, earlier)| *earlier < by);
            (source, by) = earlier.find(|(other, _)| other.digest == source.digest).map(|(other, by)| (other, *by))?;
        }
        Some((source.clone(), by))
    };
    let goes = |digest: &str| loaded_by(state, epoch).any(|source| source.digest == digest);
    let is_gone = |(source, _): &&(Source, u64)| !state.sources.contains_key(&source.digest) || goes(&source.digest);
    unloaded(epoch).iter().filter(is_gone).filter_map(last_load).collect()
}

/// Whether a commit counts once another one is undone.
fn is_in_effect_without(state: &TableState, commit: u64, epoch: u64) -> bool {
    commit != epoch && undone_by(state, commit).is_none_or(|by| by == epoch || !is_in_effect_without(state, by, epoch))
}

/// A source that an undo took from the table, and that was loaded again since: its rows would be there twice.
fn loaded_again(state: &TableState, epoch: u64) -> Option<(&Source, u64)> {
    let note = state.history.commits().get(&epoch).filter(|note| note.operation == Operation::Undo)?;
    let again = note.unloaded.iter().filter_map(|(source, _)| state.sources.get(&source.digest));
    again.map(|(source, by)| (source, *by)).find(|(_, by)| *by > epoch)
}

/// Whether the change of a commit counts: it wasn't undone, or that was undone in its turn.
fn is_in_effect(state: &TableState, epoch: u64) -> bool {
    is_in_effect_at(state, epoch, u64::MAX)
}

/// Whether it counted after a commit.
fn is_in_effect_at(state: &TableState, epoch: u64, at: u64) -> bool {
    undone_by(state, epoch).is_none_or(|by| by > at || !is_in_effect_at(state, by, at))
}

/// Later commits of some kind that are in effect.
fn in_effect_since(state: &TableState, epoch: u64, operation: Operation) -> impl Iterator<Item = (u64, &CommitNote)> {
    let since = state.history.commits().range(epoch + 1..).map(|(number, note)| (*number, note));
    since.filter(move |(number, note)| note.operation == operation && is_in_effect(state, *number))
}

/// A later commit of a kind that changed a date and is in effect.
fn changed_since(state: &TableState, epoch: u64, date: i32, operation: Operation) -> Option<u64> {
    let mut changes = in_effect_since(state, epoch, operation);
    changes.find_map(|(number, note)| note.dates.contains_key(&date).then_some(number))
}

/// A commit that replaced rows of a date to which a commit added rows: an equal row may be of either.
fn replaced_since(state: &TableState, epoch: u64, date: i32) -> Option<u64> {
    use Operation::{Load, Replace, Undo, Update};
    let has_added = matches!(state.history.commits()[&epoch].operation, Load | Replace | Update | Undo);
    changed_since(state, epoch, date, Operation::Replace).filter(|_| has_added)
}

/// A commit that has undone what an older commit added to a date, of which a commit removed rows.
fn undone_below(state: &TableState, epoch: u64, date: i32) -> Option<u64> {
    use Operation::{Delete, Expire, Load, Replace, Undo, Update};
    let commits = state.history.commits();
    if !matches!(commits[&epoch].operation, Delete | Expire | Replace | Update) {
        return None;
    }
    let has_added =
        |note: &CommitNote| matches!(note.operation, Load | Replace | Update | Undo) && note.dates.contains_key(&date);
    in_effect_since(state, epoch, Undo).find_map(|(number, note)| {
        let undone = note.undoes.filter(|undone| *undone < epoch)?;
        commits.get(&undone).is_none_or(has_added).then_some(number)
    })
}

/// The commit that has undone another one.
fn undone_by(state: &TableState, epoch: u64) -> Option<u64> {
    let undone = |(other, note): (&u64, &CommitNote)| (note.undoes == Some(epoch)).then_some(*other);
    state.history.commits().range(epoch + 1..).find_map(undone)
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
    let (mut is_changed, mut removals) = (false, Vec::new());
    for (number, note) in state.history.commits().range(epoch + 1..) {
        if note.operation == Operation::Compact || !has_changed(state, *number, date)? {
            continue;
        }
        is_changed = true;
        if !is_addition(note.operation) && is_in_effect(state, *number) {
            removals.push(*number);
        }
    }
    if !is_changed {
        return Ok(Some(Return::Restore(before)));
    }
    let now = state.files.values().filter(|entry| entry.date == date).cloned().collect();
    let (mut of_removals, mut of_undone) = (Vec::new(), Vec::new());
    for (number, note) in state.history.commits().range(epoch + 1..) {
        // Rows that an undone commit removed are there again, but weren't when a later commit removed others.
        let lacks_rows = |removal: &u64| removal > number && is_in_effect_at(state, *number, *removal);
        if is_addition(note.operation) || is_in_effect(state, *number) || !has_changed(state, *number, date)? {
            continue;
        }
        let later: Vec<usize> = (0..removals.len()).filter(|place| lacks_rows(&removals[*place])).collect();
        if !later.is_empty() {
            let (Some(had), Some(left)) = (state.files_at(date, number - 1)?, state.files_at(date, *number)?) else {
                return Ok(None);
            };
            of_undone.push(UndoneRemoval { had, left, later });
        }
    }
    for removal in &removals {
        let Some(files) = state.files_at(date, *removal)? else { return Ok(None) };
        of_removals.push(files);
    }
    Ok(Some(Return::Compare(DateStates { before, after, removals: of_removals, undone: of_undone, now })))
}

/// Whether commits of a kind only add rows, or leave them as they are.
fn is_addition(operation: Operation) -> bool {
    matches!(operation, Operation::Load | Operation::Capture | Operation::Compact)
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
        change.undoes = Some(epoch);
        // A table that was dropped is there again, and so are columns.
        let returning = columns::dropped_by(state, epoch);
        let is_changed = state.dropped || !returning.is_empty();
        change.spec = is_changed.then(|| columns::with(&state.spec, returning));
        change.unload = loaded_by(state, epoch).map(|source| source.digest.clone()).collect();
        change.sources = sources_back(state, epoch);
        let mut counted = RowsUndone::default();
        for date in note.dates.keys() {
            match way_back(state, epoch, *date)? {
                Some(Return::Remove(own)) => {
                    counted.removed_files(&own);
                    change.remove.extend(own.into_iter().map(|entry| entry.path));
                }
                Some(Return::Restore(before)) => {
                    counted.is_whole = false;
                    restore(&writer, *date, &before, &mut change)?;
                }
                Some(Return::Compare(states)) => {
                    let counts = match compare(&writer, *date, &states, &mut change) {
                        Err(Error::DuplicateKey { columns, values, .. }) => {
                            let reason = format!("the key ({columns})=({values}) would be there twice");
                            return Err(Error::CannotUndo { table: self.name().to_owned(), commit: epoch, reason });
                        }
                        compared => compared?,
                    };
                    if let Some(reason) = built_on(state, epoch, *date, counts.missing) {
                        return Err(Error::CannotUndo { table: self.name().to_owned(), commit: epoch, reason });
                    }
                    counted.compared(counts);
                }
                None => return Err(Error::Poisoned),
            }
        }
        change.rows = counted.rows(note.rows);
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
            Some(pinned) => pinned.snapshot_at(self, epoch),
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

/// Why missing rows of a commit keep it from being undone: others were made of them, which would then be there twice.
fn built_on(state: &TableState, epoch: u64, date: i32, missing: u64) -> Option<String> {
    use Operation::{Delete, Drop, Expire, Load, Update};
    if missing == 0 {
        return None;
    }
    if let Some(by) = changed_since(state, epoch, date, Update) {
        return Some(format!("commit {by} has changed {missing} of its rows since: undo that one first"));
    }
    let is_plain = matches!(state.history.commits()[&epoch].operation, Load | Delete | Expire | Drop);
    (!is_plain).then(|| format!("{missing} of the rows that it made have been changed since"))
}

/// Rows that come back and rows that go by an undo.
struct RowsUndone {
    returned: u64,
    removed: u64,
    /// What the commit itself did to these dates.
    of_commit: (u64, u64),
    /// Whether all dates were counted. Of one whose files come back only the commit's own numbers are known, of all dates together.
    is_whole: bool,
}

impl Default for RowsUndone {
    fn default() -> RowsUndone {
        RowsUndone { returned: 0, removed: 0, of_commit: (0, 0), is_whole: true }
    }
}

impl RowsUndone {
    fn removed_files(&mut self, files: &[FileEntry]) {
        let rows: u64 = files.iter().map(|entry| entry.rows).sum();
        self.removed += rows;
        self.of_commit.0 += rows;
    }

    fn compared(&mut self, counts: UndoCounts) {
        self.returned += counts.removed;
        self.removed += counts.added - counts.missing;
        self.of_commit.0 += counts.added;
        self.of_commit.1 += counts.removed;
    }

    /// Rows that come back and rows that go, where the commit added and removed `of_commit` in all.
    fn rows(&self, of_commit: (u64, u64)) -> (u64, u64) {
        if self.is_whole {
            return (self.returned, self.removed);
        }
        let of_others = |all: u64, counted: u64| all.saturating_sub(counted);
        let returned = self.returned + of_others(of_commit.1, self.of_commit.1);
        (returned, self.removed + of_others(of_commit.0, self.of_commit.0))
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

/// Writes a date anew: as it is, but for the rows that changed by the commit.
fn compare(writer: &Writer, date: i32, states: &DateStates<Vec<FileEntry>>, change: &mut Change) -> Result<UndoCounts> {
    let Some(state) = writer.state() else { return Ok(UndoCounts::default()) };
    let (spec, current) = (state.spec.clone(), &states.now);
    let segments =
        |entries: &Vec<FileEntry>| entries.iter().map(|entry| writer.segment(entry)).collect::<Vec<Segment>>();
    let removals: Vec<Vec<Segment>> = states.removals.iter().map(segments).collect();
    let of_undone = |removal: &UndoneRemoval<_>| [segments(&removal.had), segments(&removal.left)];
    let undone: Vec<[Vec<Segment>; 2]> = states.undone.iter().map(of_undone).collect();
    let [before, after, now] = [&states.before, &states.after, current].map(segments);
    let all = [&before, &after, &now].into_iter().chain(&removals).chain(undone.iter().flatten());
    let widest = all.map(|segments| load::row_bytes(&spec, segments)).collect::<Result<Vec<_>>>()?;
    let row_bytes = widest.into_iter().max().unwrap_or(1);
    let tier = current.first().map_or(Tier::Mapped, |entry| entry.tier);
    let rows_max = load::segment_rows(writer, MEMORY_BYTES, row_bytes);
    let (mut pending, mut rows, mut keys) = (Vec::new(), 0, KeySet::new(&spec)?);
    let mut write = |pending: &mut Vec<RecordBatch>, rows: &mut usize| -> Result<()> {
        let batch = in_order(&spec, pending)?;
        change.add.push(writer.write_segment(&spec, date, tier, &batch)?);
        (*rows, *pending) = (0, Vec::new());
        Ok(())
    };
    let counts = std::thread::scope(|scope| -> Result<UndoCounts> {
        let source = |state| merge_sources(scope, &spec, load::stored(&spec, state, load::chunk_rows(row_bytes)));
        let removals = removals.iter().map(|state| source(state)).collect();
        let undone = undone.iter().zip(&states.undone).map(|([had, left], removal)| UndoneRemoval {
            had: source(had),
            left: source(left),
            later: removal.later.clone(),
        });
        let undone = undone.collect();
        let sources =
            DateStates { before: source(&before), after: source(&after), removals, undone, now: source(&now) };
        let mut undoing = UndoRows::new(&spec, sources)?;
        undoing.run(&mut |batch| {
            rows += batch.num_rows();
            keys.as_mut().map_or(Ok(()), |keys| keys.add_new(&batch, "is there twice"))?;
            pending.push(batch);
            if rows >= rows_max { write(&mut pending, &mut rows) } else { Ok(()) }
        })?;
        Ok(undoing.counts)
    })?;
    if rows > 0 {
        write(&mut pending, &mut rows)?;
    }
    change.remove.extend(current.iter().map(|entry| entry.path.clone()));
    Ok(counts)
}
