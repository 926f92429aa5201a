//! Names of the files and folders of a database beside the tables' folders.

/// Settings of the database.
pub(crate) const SETTINGS_FILE: &str = "splay.toml";

/// Whoever changes tables or views holds an exclusive lock on this file.
pub(crate) const WRITER_LOCK: &str = "writer.lock";

/// Each snapshot holds a shared lock on this file, and whoever removes files an exclusive one.
pub(crate) const READERS_LOCK: &str = "readers.lock";

/// The views.
pub(crate) const VIEWS_FILE: &str = "views.json";

/// The users and roles.
pub(crate) const ACCESS_FILE: &str = "access.json";

/// Whoever changes users and roles holds an exclusive lock on this file.
pub(crate) const ACCESS_LOCK: &str = "access.lock";

/// The database's own half of the mark in its object store.
pub(crate) const OWNER_FILE: &str = "objects.json";

/// Folder of the rows that a load has sorted and set aside. No table can have this name.
pub(crate) const SPILL_FOLDER: &str = ".spill";

/// The files that no table may have the name of.
pub(crate) const FILES: [&str; 6] = [SETTINGS_FILE, WRITER_LOCK, READERS_LOCK, VIEWS_FILE, ACCESS_FILE, ACCESS_LOCK];
