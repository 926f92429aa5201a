//! Maintenance of a table: compaction, schema changes, verification, export.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::database::{Database, ReleasedName, Table};
use crate::delta;
use crate::error::{Error, Result};
use crate::load::rewrite;
use crate::manifest::{FileEntry, Operation};
use crate::newest_date::newest_date;
use crate::observer::{Observer, go_on};
use crate::retype::{Inexact, may_retype};
use crate::row_order::follow_each_other;
use crate::schema::{ColumnSpec, ColumnType, TableSpec};
use crate::segment::{self, FileFormat};
use crate::storage::Storage;
use crate::tier::Tier;
use crate::write::{Change, Writer};

/// How a table is compacted.
#[derive(Debug, Clone, Default)]
pub struct CompactOptions {
    /// Tier that all segments shall have; `None` means that of their age ([`Table::set_tier`]), else that of the partition's first segment.
    pub tier: Option<Tier>,
    /// Only partitions before this date, in days since 1970-01-01.
    pub before: Option<i32>,
    /// Only the partition of this date.
    pub date: Option<i32>,
    /// Bytes of memory, as for a load. 0 means 1 GiB.
    pub memory_bytes: usize,
}

/// The result of a compaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Partitions that were rewritten.
    pub partitions: usize,
    /// Segments before and after, in those.
    pub segments: (usize, usize),
    /// Bytes before and after, in those.
    pub bytes: (u64, u64),
}

impl CompactOptions {
    /// Whether they are about the partition of a date, in days since 1970-01-01.
    fn wants(&self, spec: &TableSpec, first: i32) -> bool {
        self.before.is_none_or(|before| spec.partition.last(first) < before)
            && self.date.is_none_or(|date| spec.partition.first(date) == first)
    }
}

impl CompactReport {
    fn add(&mut self, other: CompactReport) {
        self.partitions += other.partitions;
        self.segments = (self.segments.0 + other.segments.0, self.segments.1 + other.segments.1);
        self.bytes = (self.bytes.0 + other.bytes.0, self.bytes.1 + other.bytes.1);
    }
}

/// Something that verification found.
#[derive(Debug)]
pub struct Problem {
    /// The file.
    pub path: std::path::PathBuf,
    /// The fault.
    pub error: Error,
}

impl Table {
    /// Joins the segments of each partition to few large ones, and brings them into the wanted tier.
    /// Partitions that are so already stay untouched. Readers go on with what they see.
    ///
    /// # Errors
    /// As a load; the table is as before, or after the commit as wanted. Of dates that go to the object store each has a commit of its own. [`Error::Stopped`] if `observer` ends it: what was
    /// written is removed.
    pub fn compact(&self, options: &CompactOptions, observer: Observer<'_>) -> Result<CompactReport> {
        let mut report = CompactReport::default();
        // Each date that goes to the object store has a commit of its own, so that little has to be done again after a failure.
        for date in self.dates_to_upload(options)? {
            self.database().claim_objects()?;
            let of_date = CompactOptions { date: Some(date), ..options.clone() };
            report.add(self.compact_dates(&of_date, observer)?);
        }
        report.add(self.compact_dates(options, observer)?);
        Ok(report)
    }

    /// The dates that have segments which the options, or the table's tiers, want in the object store.
    fn dates_to_upload(&self, options: &CompactOptions) -> Result<Vec<i32>> {
        let stored = self.stored()?;
        let (spec, newest) = (stored.spec(), newest_date(stored.spec(), stored.entries()));
        let is_due = |entry: &&FileEntry| {
            entry.tier != Tier::Object
                && options.wants(spec, entry.date)
                && options.tier.or_else(|| spec.tier_of(entry.date, newest)) == Some(Tier::Object)
        };
        let mut dates: Vec<i32> = stored.entries().filter(is_due).map(|entry| entry.date).collect();
        dates.sort_unstable();
        dates.dedup();
        Ok(dates)
    }

    fn compact_dates(&self, options: &CompactOptions, observer: Observer<'_>) -> Result<CompactReport> {
        let writer = Writer::begin(self.database(), self.name())?;
        let Some(state) = writer.table() else { return Ok(CompactReport::default()) };
        let spec = state.spec.clone();
        let mut dates: Vec<i32> = state.files.values().map(|entry| entry.date).collect();
        dates.sort_unstable();
        dates.dedup();
        let memory = if options.memory_bytes == 0 { 1 << 30 } else { options.memory_bytes };
        let (mut change, mut report) = (Change::new(Operation::Compact), CompactReport::default());
        let newest = newest_date(&spec, state.files.values());
        let mut uploads = false;
        for date in dates.into_iter().filter(|date| options.wants(&spec, *date)) {
            let files = writer.partition(date);
            let by_age = || spec.tier_of(date, newest);
            let Some(tier) = options.tier.or_else(by_age).or(files.first().map(|file| file.tier)) else { continue };
            // Whoever names a tier wants the newest key as well; maintenance by age doesn't rewrite a table for a new key.
            let has_key = options.tier.is_none() || self.has_newest_key(tier, &files)?;
            let is_there =
                has_key && files.iter().all(|file| file.tier == tier) && !is_outdated(&writer, &spec, &files)?;
            // A single file can't become fewer, and objects would have to be read.
            if is_there && (files.len() == 1 || tier == Tier::Object && follow_each_other(&spec, files.iter())) {
                continue;
            }
            let rows_max = crate::load::rows_max(&writer, &spec, &files, memory)?;
            if is_there && !is_fragmented(&spec, &files, rows_max) {
                continue;
            }
            if tier == Tier::Object {
                self.database().objects()?.claim(writer.storage().as_ref())?;
            }
            let mut added = rewrite(&writer, &spec, date, &files, tier, memory, observer)?;
            if tier == Tier::Object {
                let objects = self.database().objects()?;
                added = added.into_iter().map(|entry| writer.upload(objects, entry)).collect::<Result<_>>()?;
                uploads = true;
            }
            let bytes = |files: &[FileEntry]| files.iter().map(|file| file.bytes + file.index_bytes).sum::<u64>();
            report.partitions += 1;
            report.segments = (report.segments.0 + files.len(), report.segments.1 + added.len());
            report.bytes = (report.bytes.0 + bytes(&files), report.bytes.1 + bytes(&added));
            change.add.extend(added);
            change.remove.extend(files.into_iter().map(|file| file.path));
        }
        if report.partitions > 0 {
            if uploads {
                self.database().objects()?.check_owner(writer.storage().as_ref())?;
            }
            writer.commit(change)?;
        }
        Ok(report)
    }

    /// Whether files are encrypted, or not, as new ones of a tier are.
    fn has_newest_key(&self, tier: Tier, files: &[FileEntry]) -> Result<bool> {
        let newest = self.database().keys().newest(tier)?;
        Ok(files.iter().all(|file| file.key.as_deref() == newest))
    }

    /// Adds a column, null in all rows there are.
    ///
    /// # Errors
    /// [`Error::Schema`] if there is a column of that name.
    pub fn add_column(&self, column: ColumnSpec) -> Result<()> {
        self.add_columns(vec![column])
    }

    /// Adds columns, null in all rows there are, by one commit.
    ///
    /// # Errors
    /// [`Error::Schema`] if there is a column of one of the names, or two of them are one; no column is added then.
    pub fn add_columns(&self, added: Vec<ColumnSpec>) -> Result<()> {
        self.database().refuse_of_view(self.name())?;
        self.change_spec(|spec| {
            let mut names: HashSet<String> = spec.columns.iter().map(|c| c.name.to_ascii_lowercase()).collect();
            for column in added {
                if !names.insert(column.name.to_ascii_lowercase()) {
                    return Err(format!("it has a column {:?} already", column.name));
                }
                spec.push_column(column);
            }
            Ok(())
        })
    }

    /// Changes a column to a wider type; values stay the same. `int64` and `uint64` become `float64` if every stored
    /// value has an equal one, and text becomes symbols; both rewrite the table's files.
    ///
    /// # Errors
    /// [`Error::NoSuchColumn`]; [`Error::Schema`] if some value has no equal in the new type; and, where files are written
    /// anew, while rows are captured.
    pub fn widen_column(&self, name: &str, wider: ColumnType) -> Result<()> {
        self.database().refuse_of_view(self.name())?;
        self.widen_any_column(name, wider, Inexact::Refused)
    }

    /// Like [`Table::widen_column`], also for the rows of a materialized view.
    pub(crate) fn widen_any_column(&self, name: &str, wider: ColumnType, inexact: Inexact) -> Result<()> {
        let spec = self.snapshot()?.spec().clone();
        let position = spec.shown_position(name)?;
        if spec.has_role(position) {
            return Err(spec.error(format!("{name:?} orders the rows; its type can't change")));
        }
        if may_retype(&spec.columns[position].column_type, &wider) {
            return self.retype_column(name, &wider, inexact);
        }
        self.change_spec(|spec| {
            let old = &spec.columns[position].column_type;
            if !old.widens_to(&wider) {
                return Err(format!("{name:?} is {old}, which doesn't widen to {wider} without loss"));
            }
            spec.columns[position].column_type = wider;
            Ok(())
        })
    }

    /// Renames a column. No file is rewritten: older files have it under its former name.
    ///
    /// # Errors
    /// [`Error::RowsElsewhere`] where another process captures; [`Error::Refused`] if the capture of this one needs the name;
    /// [`Error::NoSuchColumn`]; [`Error::Schema`] if another column has the name, or had it; [`Error::Name`] for a name that can't be kept. Captured
    /// rows that this process has in memory are written to the files first.
    pub fn rename_column(&self, name: &str, to: &str) -> Result<()> {
        self.refuse_elsewhere()?;
        self.column_position(name)?;
        // What can't be is refused before senders wait for it.
        let mut spec = self.stored()?.spec().clone();
        rename_column_of(&mut spec, name, to).map_err(|reason| spec.error(reason))?;
        spec.validate()?;
        let released = ReleasedName::Column { table: self.name(), column: name };
        self.database().release_name(released, &mut || {
            self.refuse_elsewhere()?;
            self.rename_column_as_capture(name, to)
        })
    }

    /// Like [`Table::rename_column`], but for capture, which takes care of its rows.
    ///
    /// # Errors
    /// As [`Table::rename_column`].
    pub fn rename_column_as_capture(&self, name: &str, to: &str) -> Result<()> {
        self.column_position(name)?;
        self.change_spec(|spec| rename_column_of(spec, name, to))
    }

    /// Drops a column. No file is rewritten: older files still contain it, hidden, so [`Table::undo`] of this commit
    /// restores it until they are rewritten.
    ///
    /// # Errors
    /// [`Error::NoSuchColumn`]; [`Error::Schema`] for the columns that order the rows.
    pub fn drop_column(&self, name: &str) -> Result<()> {
        self.column_position(name)?;
        // Rows that are written down later would be without it.
        self.settle()?;
        self.change_spec(|spec| {
            let position = shown_column(spec, name)?;
            if spec.has_role(position) {
                return Err(format!("{name:?} orders the rows; it can't be dropped"));
            }
            let column = spec.columns.remove(position);
            spec.dropped.push(column.name);
            spec.dropped.extend(column.formerly);
            Ok(())
        })
    }

    fn column_position(&self, name: &str) -> Result<usize> {
        self.database().refuse_of_view(self.name())?;
        self.stored()?.spec().shown_position(name)
    }

    pub(crate) fn change_spec(&self, edit: impl FnOnce(&mut TableSpec) -> Result<(), String>) -> Result<()> {
        let writer = Writer::begin(self.database(), self.name())?;
        let Some(state) = writer.table() else {
            return Err(Error::NoSuchTable { table: self.name().to_owned(), existing: self.database().tables()? });
        };
        let mut spec = state.spec.clone();
        edit(&mut spec).map_err(|reason| state.spec.error(reason))?;
        spec.validate()?;
        let mut change = Change::new(Operation::Schema);
        change.spec = Some(spec);
        writer.commit(change).map(|_| ())
    }

    /// Checks every byte of the table's segments and indexes, and reports each file that is not as it was written.
    ///
    /// # Errors
    /// If the manifest itself is damaged; [`Error::Stopped`] if `observer` ends it.
    pub fn verify(&self, observer: Observer<'_>) -> Result<Vec<Problem>> {
        let snapshot = self.stored()?;
        let mut problems = Vec::new();
        for segment in snapshot.partitions().iter().flat_map(|partition| partition.segments.iter()) {
            if let Err(error) = segment.verify(snapshot.spec()) {
                let entry = segment.entry();
                let path = format!("{}/{}", snapshot.folder(), entry.path);
                let path = match (&entry.object, self.database().objects()) {
                    (Some(key), Ok(tier)) => tier.shown(key),
                    _ => self.database().storage().display_path(&path),
                };
                problems.push(Problem { path, error });
            }
            go_on(observer, segment.entry().bytes + segment.entry().index_bytes)?;
        }
        Ok(problems)
    }

    /// Copies the table to a folder as files of a format, one folder `date=YYYY-MM-DD` a partition, for other tools.
    /// Gives rows and bytes written.
    ///
    /// # Errors
    /// [`Error::Io`] if a file is in the way or can't be written; [`Error::Stopped`] if `observer` ends it. Files that were
    /// written before are removed.
    pub fn export(&self, format: FileFormat, folder: &Path, observer: Observer<'_>) -> Result<(u64, u64)> {
        crate::storage::refuse_address(folder)?;
        std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        let storage = crate::storage::LocalStorage::new(folder);
        let mut written = Vec::new();
        let exported = self.export_to(&storage, format, &mut written, observer);
        if exported.is_err() {
            for path in written {
                // Half a file is useless, and the first error is the one to report: an error of the removal is ignored.
                let _ = storage.remove(&path);
            }
        }
        exported
    }

    fn export_to(
        &self,
        storage: &dyn Storage,
        format: FileFormat,
        written: &mut Vec<String>,
        observer: Observer<'_>,
    ) -> Result<(u64, u64)> {
        let snapshot = self.snapshot()?;
        let all: Vec<usize> = (0..snapshot.spec().shown_columns().len()).collect();
        let (mut rows, mut bytes) = (0, 0);
        for partition in snapshot.partitions() {
            for (number, segment) in partition.segments.iter().enumerate() {
                let name = format!("{:06}.{}", number + 1, format.extension());
                let path = format!("{}/{name}", snapshot.spec().partition.export_folder(partition.date));
                let batch = segment.read_all(snapshot.spec(), &all)?;
                bytes += segment::export(storage, &path, format, snapshot.spec(), &batch, written)?;
                snapshot.watch().check()?;
                rows += segment.rows();
                go_on(observer, segment.entry().bytes)?;
            }
        }
        Ok((rows, bytes))
    }
}

fn rename_column_of(spec: &mut TableSpec, name: &str, to: &str) -> Result<(), String> {
    let position = shown_column(spec, name)?;
    let old = std::mem::replace(&mut spec.columns[position].name, to.to_owned());
    spec.rename_roles(&old, to);
    let formerly = &mut spec.columns[position].formerly;
    formerly.retain(|name| !name.eq_ignore_ascii_case(to));
    if !old.eq_ignore_ascii_case(to) {
        formerly.insert(0, old);
    }
    Ok(())
}

/// Position of a column that is shown.
fn shown_column(spec: &TableSpec, name: &str) -> Result<usize, String> {
    spec.shown_position(name).map_err(|error| error.to_string())
}

/// Whether a published table has Parquet segments of a partition in a form that others don't read.
fn is_outdated(writer: &Writer, spec: &TableSpec, files: &[FileEntry]) -> Result<bool> {
    if spec.publish.is_none() {
        return Ok(false);
    }
    for entry in files.iter().filter(|entry| delta::is_publishable(entry)) {
        if delta::is_outdated(spec, &writer.segment(entry))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a partition has more segments than its rows need, or its symbols are spread over them.
fn is_fragmented(spec: &TableSpec, files: &[FileEntry], rows_max: usize) -> bool {
    let rows: u64 = files.iter().map(|file| file.rows).sum();
    files.len() as u64 > rows.div_ceil(rows_max as u64) || !follow_each_other(spec, files.iter())
}

impl Database {
    /// Its storage, for tools that work below the store.
    #[must_use]
    pub fn raw_storage(&self) -> Arc<dyn Storage> {
        Arc::clone(self.storage())
    }
}
