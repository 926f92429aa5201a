//! The file with the statements of earlier shells.
//!
//! - Each statement is appended when it is entered, in one write under a lock. So a shell that is killed loses none, and shells may share the file.
//! - Only a regular file is written. It is for its user alone.
//! - The first line is [`HEADER`]; each other one is a statement, in which `\n` is a line feed and `\\` a backslash (the format of rustyline, which
//!   wrote the file before).
//! - Lines are bytes: one that isn't UTF-8 is read with replacement characters, and stays as it is in the file.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Statements of earlier shells that are kept.
pub const HISTORY_LENGTH: usize = 10_000;

/// The file is shortened once it has this many lines.
const LINES_MAX: usize = 2 * HISTORY_LENGTH;

/// The path that stands for no history.
const NONE: &str = "/dev/null";

const HEADER: &[u8] = b"#V2\n";

/// A file without access for others.
const MODE: u32 = 0o600;

/// The file to which statements are appended.
#[derive(Debug)]
pub struct HistoryFile {
    path: PathBuf,
}

impl HistoryFile {
    /// The file of a path, which is made with its folder if it isn't there; `None` for `/dev/null`, or a link to it.
    ///
    /// # Errors
    /// If it isn't a regular file, or can't be written.
    pub fn open(path: &Path) -> Result<Option<HistoryFile>> {
        if fs::canonicalize(path).is_ok_and(|place| place == Path::new(NONE)) {
            return Ok(None);
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| format!("create {}", folder.display()))?;
        }
        let history = HistoryFile { path: path.to_path_buf() };
        // It may have been readable for others.
        let file = history.locked()?;
        let _ = file.set_permissions(Permissions::from_mode(MODE));
        Ok(Some(history))
    }

    /// The newest statements, the oldest of them first. A file that has become long is shortened to them.
    pub fn statements(&self) -> Result<Vec<String>> {
        let mut file = self.locked()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(|| self.act("read"))?;
        let lines: Vec<&[u8]> = bytes.strip_prefix(HEADER).unwrap_or(&bytes).split(|byte| *byte == b'\n').collect();
        let newest = &lines[lines.len().saturating_sub(HISTORY_LENGTH)..];
        if lines.len() > LINES_MAX {
            self.replace(newest)?;
        }
        let statements = newest.iter().filter(|line| !line.is_empty());
        Ok(statements.map(|line| unescaped(&String::from_utf8_lossy(line))).collect())
    }

    /// Adds a statement.
    pub fn append(&self, statement: &str) -> Result<()> {
        let mut file = self.locked()?;
        let is_empty = file.metadata().with_context(|| self.act("look at"))?.len() == 0;
        let mut bytes = if is_empty { HEADER.to_vec() } else { Vec::new() };
        bytes.extend_from_slice(escaped(statement).as_bytes());
        bytes.push(b'\n');
        file.write_all(&bytes).with_context(|| self.act("write"))
    }

    /// The file, to be read and appended to by no other shell until it is closed.
    fn locked(&self) -> Result<File> {
        loop {
            if fs::metadata(&self.path).is_ok_and(|metadata| !metadata.is_file()) {
                bail!("{} is not a regular file", self.path.display());
            }
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).mode(MODE);
            let file = options.open(&self.path).with_context(|| self.act("open"))?;
            // Without locks, as on some network drives, only a shell that shortens the file can lose what others append meanwhile.
            let _ = file.lock();
            if self.is_at_path(&file)? {
                return Ok(file);
            }
        }
    }

    /// Whether an open file has its name still, and wasn't replaced while it was waited for.
    fn is_at_path(&self, file: &File) -> Result<bool> {
        let open = file.metadata().with_context(|| self.act("look at"))?;
        match fs::metadata(&self.path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| self.act("look at")),
        }
    }

    /// Puts a file of these lines in the place of the file, behind links that lead to it.
    fn replace(&self, lines: &[&[u8]]) -> Result<()> {
        let path = fs::canonicalize(&self.path).with_context(|| self.act("look at"))?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        let mut part = tempfile::NamedTempFile::new_in(folder).with_context(|| self.act("shorten"))?;
        let written = part.write_all(HEADER).and_then(|()| part.write_all(&lines.join(&b'\n')));
        written.with_context(|| self.act("shorten"))?;
        part.persist(&path).with_context(|| self.act("shorten"))?;
        Ok(())
    }

    fn act(&self, what: &str) -> String {
        format!("{what} {}", self.path.display())
    }
}

fn escaped(statement: &str) -> String {
    statement.replace('\\', "\\\\").replace('\n', "\\n")
}

/// The statement of a line. One with a backslash before another letter was written by hand, and is taken as it is.
fn unescaped(line: &str) -> String {
    let (mut statement, mut rest) = (String::new(), line);
    while let Some((before, behind)) = rest.split_once('\\') {
        let sign = match behind.chars().next() {
            Some('n') => '\n',
            Some('\\') => '\\',
            _ => return line.to_owned(),
        };
        statement.push_str(before);
        statement.push(sign);
        rest = &behind[1..];
    }
    statement + rest
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn history(path: &Path) -> HistoryFile {
        HistoryFile::open(path).unwrap().unwrap()
    }

    #[test]
    fn statements_are_there_at_once_for_all_shells() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/history");
        let (first, second) = (history(&path), history(&path));
        assert!(first.statements().unwrap().is_empty());
        let entered = ["select 1;", "\\d trade", "select 'a\\n',\n 'é';"];
        first.append(entered[0]).unwrap();
        second.append(entered[1]).unwrap();
        first.append(entered[2]).unwrap();
        assert_eq!(history(&path).statements().unwrap(), entered);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "#V2\nselect 1;\n\\\\d trade\nselect 'a\\\\n',\\n 'é';\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, MODE);
    }

    #[test]
    fn bytes_that_are_no_text_and_lines_by_hand_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let before = b"select '\xff';\n\\d trade\n";
        fs::write(&path, before).unwrap();
        let shell = history(&path);
        shell.append("select 2;").unwrap();
        assert_eq!(shell.statements().unwrap(), ["select '\u{fffd}';", "\\d trade", "select 2;"]);
        assert!(fs::read(&path).unwrap().starts_with(before));
    }

    #[test]
    fn only_a_regular_file_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &str| fs::metadata(path).unwrap().mode();
        let before = (mode(NONE), mode("/dev/zero"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(NONE, &link).unwrap();
        for none in [Path::new(NONE), &link] {
            assert!(HistoryFile::open(none).unwrap().is_none());
        }
        for other in [Path::new("/dev/zero"), folder.path()] {
            let error = HistoryFile::open(other).unwrap_err().to_string();
            assert!(error.ends_with("is not a regular file"), "{error}");
        }
        assert_eq!((mode(NONE), mode("/dev/zero")), before);
    }

    #[test]
    fn a_long_file_is_shortened_behind_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("history"), folder.path().join("link"));
        let lines = |from: usize| (from..=LINES_MAX).map(|number| format!("select {number};\n")).collect::<String>();
        fs::write(&path, format!("#V2\n{}", lines(0))).unwrap();
        std::os::unix::fs::symlink("history", &link).unwrap();
        let shell = history(&link);
        let statements = shell.statements().unwrap();
        assert_eq!(statements.last().unwrap(), &format!("select {LINES_MAX};"));
        shell.append("select 'last';").unwrap();
        assert!(link.is_symlink());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("#V2\nselect ") && text.ends_with("select 'last';\n"), "{}", &text[..40]);
        assert_eq!(text.lines().count(), statements.len() + 2);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, MODE);
    }
}
