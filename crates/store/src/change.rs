//! Changes of existing rows: deletion, update, retention. And the history of commits.

use arrow::array::RecordBatch;

use crate::database::{ReleasedName, Table, TableSnapshot};
use crate::delta;
use crate::error::{Error, Result};
use crate::load::{Load, LoadOptions, LoadReport, Removal};
use crate::manifest::{FileEntry, Operation, Source, TableState};
use crate::newest_date::newest_date;
use crate::partition::{NS_PER_DAY, Period};
use crate::publish::Publish;
use crate::schema::{Lifecycle, Retention, TableSpec, TierRule};
use crate::select::Selection;
use crate::tier::Tier;
use crate::undo::why_not;
use crate::views::{View, refuse_drop_of_read};
use crate::write::{Change, Writer, now};

/// A commit of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitReport {
    /// Its number.
    pub commit: u64,
    /// Nanoseconds since the epoch, by the clock of the machine that wrote it.
    pub at: i64,
    /// The commit's kind: load, capture, compact, schema, delete, replace, update, expire, undo or forget.
    pub operation: &'static str,
    /// Rows that it added.
    pub added: u64,
    /// Rows that it removed.
    pub removed: u64,
    /// Rows that it left out as duplicates.
    pub duplicates: u64,
    /// Dates whose rows it changed, in days since 1970-01-01. Those of captures and compactions aren't noted, and a reference table has none.
    pub dates: Vec<i32>,
    /// Files or frames that it loaded, unless their rows were taken back since.
    pub sources: Vec<Source>,
    /// The commit that it undid.
    pub undoes: Option<u64>,
    /// Why it can't be undone; `None` if it can.
    pub cannot_undo: Option<String>,
}

/// The rows and files that a table's retention would remove, or has removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpireReport {
    /// Dates, in days since 1970-01-01.
    pub dates: Vec<i32>,
    /// Their rows.
    pub rows: u64,
    /// Bytes of their segments and indexes.
    pub bytes: u64,
}

impl Table {
    /// Deletes rows by one commit.
    ///
    /// # Errors
    /// [`Error::Locked`] while another writer is at work; those of reading and writing the table. Nothing has changed then.
    pub fn delete(&self, removal: Removal) -> Result<LoadReport> {
        self.commit_change(|load| load.remove(removal))
    }

    /// As [`Table::delete`]; `sink` gets the rows, with all columns, before the commit. If it fails, nothing is deleted.
    ///
    /// # Errors
    /// As [`Table::delete`], and those of `sink`.
    pub fn delete_each(&self, removal: Removal, sink: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<LoadReport> {
        self.commit_change(|load| load.remove_each(removal, sink))
    }

    /// Changes rows by one commit: `change` gets the rows to be removed, with all columns, and returns the rows that replace them. Among
    /// rows of equal symbol and time the changed ones are the last.
    ///
    /// # Errors
    /// As [`Table::delete`], and those of `change`.
    pub fn update(
        &self,
        removal: Removal,
        change: &mut dyn FnMut(RecordBatch) -> Result<RecordBatch>,
    ) -> Result<LoadReport> {
        self.commit_change(|load| load.update(removal, change))
    }

    fn commit_change(&self, change: impl FnOnce(&mut Load) -> Result<u64>) -> Result<LoadReport> {
        // The snapshot isn't kept: as long as one lives, no file is removed.
        let (spec, epoch) = self.snapshot().map(|snapshot| (snapshot.spec().clone(), snapshot.epoch()))?;
        let mut load = self.database().load(&spec, LoadOptions::default())?;
        // Rows that came in since the load began aren't concerned.
        self.refuse_live()?;
        if change(&mut load)? == 0 {
            return Ok(LoadReport { epoch, ..LoadReport::default() });
        }
        load.commit()
    }

    /// Refuses what keeps rows of the table from being deleted.
    ///
    /// # Errors
    /// [`Error::RowsElsewhere`]; [`Error::Refused`] for the rows of a materialized view.
    pub fn refuse_delete(&self) -> Result<()> {
        self.database().refuse_of_view(self.name())?;
        self.refuse_live()
    }

    /// Rows that only another process, or its journal, has can't be changed from here.
    pub(crate) fn refuse_live(&self) -> Result<()> {
        if self.database().follows_others() && self.snapshot()?.live() != 0 {
            return Err(Error::RowsElsewhere { table: self.name().to_owned() });
        }
        Ok(())
    }

    /// Drops the table. Until the files are forgotten that are kept, [`Table::undo`] of this commit brings it back.
    ///
    /// # Errors
    /// [`Error::RowsElsewhere`] where another process captures; others as [`Table::delete`]. Captured rows that this process has in
    /// memory belong to the table: they are written to its files first.
    pub fn drop_table(&self) -> Result<u64> {
        self.database().refuse_of_view(self.name())?;
        self.drop_if(|_| Ok(())).map(|report| report.epoch)
    }

    /// Like [`Table::drop_table`], but refuses if a view reads the table. `reads` decides that for a view's query, which the store can't parse.
    ///
    /// # Errors
    /// [`Error::Refused`] with the names of such views; others as [`Table::drop_table`].
    pub fn drop_unread(&self, reads: impl Fn(&View) -> bool) -> Result<LoadReport> {
        self.database().refuse_of_view(self.name())?;
        self.drop_if(|name| refuse_drop_of_read("table", &self.database().views()?, name, &reads))
    }

    /// Refuses what keeps the table from being dropped, but for views that read it.
    ///
    /// # Errors
    /// As [`Table::drop_table`].
    pub fn refuse_drop(&self) -> Result<()> {
        self.database().refuse_of_view(self.name())?;
        self.refuse_elsewhere()
    }

    /// Refuses what [`Table::drop_unread`] would refuse.
    ///
    /// # Errors
    /// As [`Table::drop_unread`].
    pub fn refuse_drop_of_read(&self, reads: impl Fn(&View) -> bool) -> Result<()> {
        self.refuse_drop()?;
        refuse_drop_of_read("table", &self.database().views()?, self.name(), reads)
    }

    /// Drops the table, even if it stores the rows of a materialized view.
    pub(crate) fn drop_rows(&self) -> Result<u64> {
        self.refuse_captured()?;
        self.drop_now(|_| Ok(())).map(|report| report.epoch)
    }

    /// Drops the table with the rows that this process has captured for it.
    fn drop_if(&self, check: impl Fn(&str) -> Result<()>) -> Result<LoadReport> {
        self.refuse_elsewhere()?;
        // Not while the journal has rows of it that are withheld.
        self.stored()?;
        let mut report = LoadReport::default();
        self.database().release_name(ReleasedName::Table { table: self.name() }, &mut || {
            report = self.drop_now(&check)?;
            Ok(())
        })?;
        Ok(report)
    }

    /// Drops the table of a name, unless that is refused while no other writer is at work.
    fn drop_now(&self, check: impl FnOnce(&str) -> Result<()>) -> Result<LoadReport> {
        let writer = Writer::begin(self.database(), self.name())?;
        let Some(state) = writer.table() else {
            return Err(Error::NoSuchTable { table: self.name().to_owned(), existing: self.database().tables()? });
        };
        check(&state.spec.name)?;
        let mut change = Change::new(Operation::Drop);
        change.rows.1 = state.files.values().map(|entry| entry.rows).sum();
        change.remove = state.files.keys().cloned().collect();
        change.dropped = true;
        let (folder, is_published) = (writer.folder().to_owned(), state.spec.publish.is_some());
        let removed = change.rows.1;
        let epoch = writer.commit(change)?;
        if is_published {
            // The Delta table is published anew, so that its readers stop using the dropped table's files before these are removed. If that
            // fails, it can be done by hand.
            let _ = self.publish();
        }
        self.database().forget_name(&folder);
        Ok(LoadReport { epoch, removed, ..LoadReport::default() })
    }

    /// Sets how long rows stay. Nothing goes before [`Table::expire`], which a server calls by itself.
    ///
    /// # Errors
    /// [`Error::Schema`] for a retention of no days, or of a reference table.
    pub fn set_retention(&self, retention: Retention) -> Result<()> {
        self.change_lifecycle(|lifecycle| lifecycle.retention = retention)
    }

    /// Sets how rows are kept whose date is some days older than the newest, until the next such age. Loads and compactions follow it;
    /// [`TableSnapshot::due_moves`] names the dates that are kept otherwise.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn set_tier(&self, tier: Tier, after: u32) -> Result<()> {
        self.change_lifecycle(|lifecycle| lifecycle.tiers.push(TierRule { after, tier }))
    }

    /// Sets the form in which the table's Parquet segments are published, or that they aren't. New segments have this
    /// form; [`Table::compact`] rewrites the others, and [`Table::publish`] publishes them.
    ///
    /// # Errors
    /// [`Error::Schema`] for names of columns that the form doesn't have.
    pub fn set_publish(&self, publish: Option<Publish>) -> Result<()> {
        self.change_lifecycle(|lifecycle| lifecycle.publish = publish)
    }

    /// Changes how long rows stay and how they are kept, by one commit. `change` gets both as they are while no other writer is at work.
    ///
    /// # Errors
    /// Those of [`Table::set_retention`].
    pub fn change_lifecycle(&self, change: impl FnOnce(&mut Lifecycle)) -> Result<()> {
        let objects = self.database().objects().map(drop).map_err(|error| error.to_string());
        self.change_spec(|spec| {
            let mut lifecycle = spec.lifecycle();
            change(&mut lifecycle);
            if lifecycle.tiers.iter().any(|rule| rule.tier == Tier::Object) {
                objects?;
            }
            if lifecycle.retention.days == Some(0) {
                return Err("a retention of 0 days keeps nothing: delete the rows instead".to_owned());
            }
            spec.set_lifecycle(lifecycle);
            if spec.publish.is_some() { delta::check_names(spec) } else { Ok(()) }
        })
    }

    /// Changes the period of the table's partitions, in one commit that rewrites all rows. Earlier commits can't be
    /// undone or read any more. Of the options, memory, threads and tier apply.
    ///
    /// # Errors
    /// As [`Table::drop_table`], and those of a load.
    pub fn set_partition(&self, period: Period, options: LoadOptions) -> Result<LoadReport> {
        self.database().refuse_of_view(self.name())?;
        self.refuse_captured()?;
        let stored = self.stored()?;
        if stored.spec().reference.is_some() {
            return Err(stored.spec().error("it is a reference table, which has one partition".to_owned()));
        }
        if stored.spec().partition == period {
            return Ok(LoadReport { epoch: stored.epoch(), ..LoadReport::default() });
        }
        let tier = stored.entries().next().map(|entry| entry.tier.written()).filter(|_| stored.spec().tiers.is_empty());
        let LoadOptions { memory_bytes, threads, tier: requested_tier, .. } = options;
        let options = LoadOptions { memory_bytes, threads, tier: requested_tier.or(tier), ..LoadOptions::default() };
        let mut load = Load::begin(self.database(), stored.spec(), options)?;
        load.partition_by(period)?;
        load.commit()
    }

    /// Refuses changes that capture can't follow, while rows of the table are captured.
    pub(crate) fn refuse_captured(&self) -> Result<()> {
        if self.database().is_captured(self.name()) {
            return Err(Error::Captured { table: self.name().to_owned() });
        }
        self.refuse_elsewhere()
    }

    /// Refuses changes that only the process that captures can make, in others.
    pub(crate) fn refuse_elsewhere(&self) -> Result<()> {
        if self.database().is_captured_elsewhere() {
            return Err(Error::RowsElsewhere { table: self.name().to_owned() });
        }
        self.refuse_live()
    }

    /// Removes the dates that are beyond a retention, by one commit. With `dry_run` it only says which.
    ///
    /// # Errors
    /// As [`Table::delete`].
    pub fn expire(&self, retention: Retention, dry_run: bool) -> Result<ExpireReport> {
        let Retention { days, bytes } = retention;
        let stored = self.stored()?;
        let would = expired_files(stored.spec(), stored.entries(), days, bytes).1;
        if dry_run || would.dates.is_empty() {
            return Ok(would);
        }
        let writer = Writer::begin(self.database(), self.name())?;
        let Some(state) = writer.table() else { return Ok(ExpireReport::default()) };
        let (remove, report) = expired_files(&state.spec, state.files.values(), days, bytes);
        if report.dates.is_empty() {
            return Ok(report);
        }
        let mut change = Change::new(Operation::Expire);
        (change.remove, change.rows) = (remove, (0, report.rows));
        writer.commit(change)?;
        Ok(report)
    }

    /// Removes the files that were kept so that commits can be undone: those that were kept long enough, or all. Gives their bytes.
    ///
    /// # Errors
    /// [`Error::Locked`] while another writer is at work.
    pub fn forget(&self, all: bool) -> Result<u64> {
        let writer = Writer::begin(self.database(), self.name())?;
        let Some(state) = writer.state() else { return Ok(0) };
        let paths: Vec<String> = match all {
            true => state.history.retired().keys().cloned().collect(),
            false => writer.outdated(now()),
        };
        if paths.is_empty() {
            return Ok(0);
        }
        let size = |path: &String| {
            state.history.retired().get(path).map_or(0, |retired| retired.entry.bytes + retired.entry.index_bytes)
        };
        let bytes = paths.iter().map(size).sum();
        let mut change = Change::new(Operation::Forget);
        change.forget = paths;
        writer.commit(change)?;
        Ok(bytes)
    }

    /// The table's last `count` commits, the newest first. Of captures and compactions only the newest are known.
    ///
    /// # Errors
    /// As [`Table::snapshot`].
    pub fn commits(&self, count: usize) -> Result<Vec<CommitReport>> {
        let own = self.stored_or_dropped()?;
        let stored = if own.state().dropped { own } else { self.stored()? };
        let newest = stored.state().history.commits().keys().rev().take(count);
        newest.map(|epoch| report(stored.state(), *epoch)).collect()
    }
}

impl TableSnapshot {
    /// Whether a later commit may have changed the table's rows otherwise than by capture: a load, a deletion, an undo.
    #[must_use]
    pub fn rows_changed_since(&self, epoch: u64) -> bool {
        let behind = (std::ops::Bound::Excluded(epoch), std::ops::Bound::Unbounded);
        let mut notes = self.state().history.commits().range(behind);
        epoch > self.epoch() || notes.any(|(_, note)| note.operation.changes_rows())
    }
}

fn report(state: &TableState, epoch: u64) -> Result<CommitReport> {
    let cannot_undo = why_not(state, epoch)?;
    let note = &state.history.commits()[&epoch];
    let sources = state.sources.values().filter(|(_, by)| *by == epoch).map(|(source, _)| source.clone());
    let mut sources: Vec<Source> = sources.collect();
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    // The rows of a reference table are of no date.
    let dates = if state.spec.reference.is_none() { note.dates.keys().copied().collect() } else { Vec::new() };
    Ok(CommitReport {
        commit: epoch,
        at: note.at,
        operation: note.operation.word(),
        added: note.rows.0,
        removed: note.rows.1,
        duplicates: note.duplicates,
        dates,
        sources,
        undoes: note.undoes,
        cannot_undo,
    })
}

/// Files of partitions whose last date is too old, or that are too much. Days are counted back from the newest date that can be: one row whose
/// time is years ahead by mistake doesn't make all others old.
fn expired_files<'a>(
    spec: &TableSpec,
    files: impl Iterator<Item = &'a FileEntry> + Clone,
    days: Option<u32>,
    bytes: Option<u64>,
) -> (Vec<String>, ExpireReport) {
    let size = |entry: &FileEntry| entry.bytes + entry.index_bytes;
    let mut by_date: std::collections::BTreeMap<i32, u64> = std::collections::BTreeMap::new();
    files.clone().for_each(|entry| *by_date.entry(entry.date).or_default() += size(entry));
    // Two days ahead cover every time zone, and days that begin on the evening before.
    let ahead = i32::try_from(now().div_euclid(NS_PER_DAY)).unwrap_or(i32::MAX).saturating_add(2);
    let last = by_date.keys().next_back().copied();
    let newest = by_date.range(..=ahead).next_back().map(|(date, _)| *date).or(last).unwrap_or(0);
    let newest_date = newest_date(spec, files.clone().filter(|entry| entry.date == newest)).min(ahead.max(newest));
    let first = days.map_or(i32::MIN, |days| newest_date.saturating_sub(i32::try_from(days).unwrap_or(i32::MAX)));
    let (mut bytes_retained, mut first_retained) = (by_date.values().sum::<u64>(), newest);
    for (date, of_date) in &by_date {
        // The newest date stays in any case.
        if *date >= newest
            || (spec.partition.last(*date) > first || days.is_none())
                && bytes.is_none_or(|bytes| bytes_retained <= bytes)
        {
            first_retained = *date;
            break;
        }
        bytes_retained -= of_date;
    }
    let (mut paths, mut report) = (Vec::new(), ExpireReport::default());
    for entry in files.filter(|entry| entry.date < first_retained) {
        paths.push(entry.path.clone());
        report.rows += entry.rows;
        report.bytes += size(entry);
    }
    report.dates = by_date.into_keys().take_while(|date| *date < first_retained).collect();
    (paths, report)
}

/// The rows of whole dates.
#[must_use]
pub fn of_dates(first: i32, last: i32) -> Selection {
    let mut selection = Selection::default();
    (selection.date.min, selection.date.max) = (first, last);
    selection
}
