//! Maps a table's name to its folder.
//!
//! - A table stays in one folder. The folder has the table's first name; if the table is renamed, HEAD has the
//!   current name. So a rename is an ordinary commit, and no file's path changes.
//! - If the name of a new table is already another one's folder, its folder is the name, `~`, and a number.
//! - Names are unique. A writer that assigns one checks the others under the writer lock.
//! - The journal identifies tables by name. A table that takes over a name records that its files already have the
//!   rows which earlier holders captured under it; otherwise a start would give it their rows.

use std::collections::BTreeSet;

use super::{Database, Table};
use crate::error::{Error, Result};
use crate::manifest::{self, Head, HeadFile};
use crate::schema::validate_name;
use crate::storage::StorageEntry;
use crate::write_down_position::WriteDownPosition;

/// Separates a name from a number in folder names, where the name alone was another table's folder. No table's name contains it.
const NUMBER_MARK: char = '~';

/// A table, by what it is called and its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFolder {
    pub(crate) name: String,
    pub(crate) folder: String,
}

/// A folder of a table.
struct TableFolder {
    folder: String,
    head: Result<Head>,
}

impl TableFolder {
    /// The table's name, or its last one if it was dropped. If HEAD can't be read, the folder's name.
    fn name(&self) -> &str {
        self.head.as_ref().ok().and_then(|head| head.name.as_deref()).unwrap_or(&self.folder)
    }

    fn is_called(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name)
    }

    fn is_dropped(&self) -> bool {
        self.head.as_ref().is_ok_and(|head| head.dropped)
    }

    /// Whether the table had another name before, or was dropped.
    fn has_former_names(&self) -> bool {
        self.head.as_ref().is_ok_and(|head| head.dropped || head.name.is_some())
    }

    fn place(&self) -> NamedFolder {
        NamedFolder { name: self.name().to_owned(), folder: self.folder.clone() }
    }
}

/// Fails if a folder couldn't be read for a passing reason: it may be the table that is looked up. Damaged folders, and those that this process may
/// not read, are skipped.
fn refuse_unread(folders: &[TableFolder]) -> Result<()> {
    let is_lasting = |error: &Error| {
        use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
        let lasting = [NotFound, PermissionDenied, IsADirectory, NotADirectory];
        error.is_damage() || matches!(error, Error::Io { source, .. } if lasting.contains(&source.kind()))
    };
    let is_unread = |error: &&Error| !is_lasting(error);
    match folders.iter().filter_map(|table| table.head.as_ref().err()).find(is_unread) {
        Some(error) => Err(error.repeated()),
        None => Ok(()),
    }
}

/// Refuses a folder that no table can have.
pub(crate) fn validate_folder(folder: &str) -> Result<()> {
    let reason = "no table has such a folder";
    if may_be_table(folder) { Ok(()) } else { Err(Error::Name { what: "folder", name: folder.to_owned(), reason }) }
}

/// Whether a folder may be one of a table.
fn may_be_table(folder: &str) -> bool {
    let (name, number) = folder.split_once(NUMBER_MARK).unwrap_or((folder, "1"));
    validate_name("table", name).is_ok() && number.parse::<u64>().is_ok()
}

impl Database {
    /// Names of its tables, sorted; a table whose HEAD is lost is among them, and can't be read.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn tables(&self) -> Result<Vec<String>> {
        let folders = self.table_folders()?;
        let tables = folders.iter().filter(|table| !table.is_dropped());
        let mut names: Vec<String> = tables.map(|table| table.name().to_owned()).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Whether there is a table of a name now, damaged or not.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn has_table(&self, name: &str) -> Result<bool> {
        Ok(self.place_of(name)?.is_some())
    }

    /// The folders of all tables, those of dropped ones included.
    pub(crate) fn places(&self) -> Result<Vec<NamedFolder>> {
        Ok(self.table_folders()?.iter().map(TableFolder::place).collect())
    }

    /// Folders of tables, dropped ones as well.
    fn table_folders(&self) -> Result<Vec<TableFolder>> {
        let storage = self.storage().as_ref();
        let mut folders = Vec::new();
        for StorageEntry { name: folder, is_dir } in storage.list("")? {
            if !is_dir || !may_be_table(&folder) {
                continue;
            }
            let manifest = format!("{folder}/{}", manifest::FOLDER);
            if storage.list(&manifest)?.iter().any(|file| file.name == "HEAD" || file.name == "CREATED") {
                // A table whose HEAD can't be read is damaged, and is reported as such.
                let head = HeadFile::read(storage, &folder).map(|file| file.head);
                folders.push(TableFolder { folder, head });
            }
        }
        Ok(folders)
    }

    /// The folder of the table of a name, matched without regard to case.
    pub(crate) fn place_of(&self, name: &str) -> Result<Option<NamedFolder>> {
        if validate_name("table", name).is_ok() {
            match HeadFile::read(self.storage().as_ref(), name) {
                Ok(HeadFile { head, .. }) if !head.dropped => {
                    let table = TableFolder { folder: name.to_owned(), head: Ok(head) };
                    if table.is_called(name) {
                        self.refuse_link(name)?;
                        return Ok(Some(table.place()));
                    }
                }
                Err(error) if !error.is_damage() && !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        let folders = self.table_folders()?;
        let mut same = folders.iter().filter(|table| !table.is_dropped() && table.is_called(name));
        // Perhaps one that is damaged was called otherwise.
        let chosen = same.clone().find(|table| table.head.is_ok()).or_else(|| same.next());
        if chosen.is_none_or(|table| table.head.is_err()) {
            refuse_unread(&folders)?;
        }
        Ok(chosen.map(TableFolder::place))
    }

    /// Refuses a link in the place of a table's folder.
    fn refuse_link(&self, folder: &str) -> Result<()> {
        if self.storage().list("")?.iter().any(|entry| entry.name == folder && entry.is_dir) {
            return Ok(());
        }
        let reason = "a symbolic link of that name stands in the database's folder, and a table is a folder";
        Err(Error::Name { what: "table", name: folder.to_owned(), reason })
    }

    /// The folder of a table of a name that is there or shall be made: where it is; where one was that was dropped under this name, so that
    /// its commits go on; a new one.
    pub(crate) fn folder_for(&self, name: &str) -> Result<String> {
        if let Some(place) = self.place_of(name)? {
            return Ok(place.folder);
        }
        let folders = self.table_folders()?;
        refuse_unread(&folders)?;
        if let Some(dropped) = self.last_dropped(&folders, name) {
            return Ok(dropped.folder);
        }
        let is_free = |folder: &String| !folders.iter().any(|table| table.folder.eq_ignore_ascii_case(folder));
        let numbered = (1..).map(|number: u64| format!("{name}{NUMBER_MARK}{number}"));
        Ok(std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_else(|| name.to_owned()))
    }

    /// The table that was dropped last of those that were dropped under a name.
    fn last_dropped(&self, folders: &[TableFolder], name: &str) -> Option<NamedFolder> {
        let at = |table: &&TableFolder| {
            let read = manifest::refresh(self.storage().as_ref(), &table.folder, None);
            read.ok().and_then(|(_, state)| state.history.commits().values().next_back().map(|note| note.at))
        };
        let dropped: Vec<&TableFolder> =
            folders.iter().filter(|table| table.is_dropped() && table.is_called(name)).collect();
        let last = if dropped.len() > 1 { dropped.iter().copied().max_by_key(at) } else { dropped.first().copied() };
        last.map(TableFolder::place)
    }

    /// A table that was dropped, whose commits can be listed and undone: of several of the name the last one.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`] if there is no such dropped table; [`Error::Io`] if a table couldn't be read, which may be the one.
    pub fn dropped_table(&self, name: &str) -> Result<Table> {
        let folders = self.table_folders()?;
        refuse_unread(&folders)?;
        match self.last_dropped(&folders, name) {
            Some(place) => Ok(self.table_at(place)),
            None => Err(Error::NoSuchTable { table: name.to_owned(), existing: self.tables()? }),
        }
    }

    /// Tables that were dropped, each of which [`Database::dropped_table`] finds by its name, sorted by it. Not those whose name another table has now.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn dropped_tables(&self) -> Result<Vec<Table>> {
        let folders = self.table_folders()?;
        let (dropped, there): (Vec<_>, Vec<_>) = folders.iter().partition(|table| table.is_dropped());
        let gone = dropped.iter().filter(|table| !there.iter().any(|other| other.is_called(table.name())));
        let names: BTreeSet<String> = gone.map(|table| table.name().to_ascii_lowercase()).collect();
        let places = names.iter().filter_map(|name| self.last_dropped(&folders, name));
        Ok(places.map(|place| self.table_at(place)).collect())
    }

    /// The position up to which captured rows under a name are in the files of tables that lost the name, because they
    /// were dropped or renamed; `None` if there are no such tables.
    ///
    /// # Errors
    /// Those of reading the manifest of a table that was dropped under this name, and [`Error::Io`]. Others that are damaged aren't looked
    /// at.
    pub fn former(&self, name: &str) -> Result<Option<WriteDownPosition>> {
        let mut position: Option<WriteDownPosition> = None;
        let folders = self.table_folders()?;
        refuse_unread(&folders)?;
        for table in folders.iter().filter(|table| table.has_former_names()) {
            match manifest::refresh(self.storage().as_ref(), &table.folder, None) {
                Ok((_, state)) => {
                    position = position.into_iter().chain(state.former(name)).reduce(WriteDownPosition::max)
                }
                Err(error) if !error.is_damage() || table.is_dropped() && table.is_called(name) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(position)
    }
}
