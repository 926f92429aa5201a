//! Where the file of an answer goes.
//!
//! - A file appears under its name only when it is whole: it is written beside, and renamed.
//! - Behind a symbolic link it is the link's target that is replaced, in the target's folder.
//! - Pipes and devices are written to as they are, and so are the process's own open files (`/dev/stderr`), which have no name to replace.
//! - Standard output (`-`, `/dev/stdout`) isn't opened: a second opening of the file behind it would begin at its own place.

use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Links behind links, as many as the system follows.
const LINKS_MAX: usize = 40;

/// What names of standard output link to.
const STANDARD_OUTPUT: [&str; 2] = ["/dev/fd/1", "/proc/self/fd/1"];

/// Whether a path is standard output.
pub fn is_standard_output(path: &Path) -> bool {
    if path == Path::new("-") {
        return true;
    }
    let mut place = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        if STANDARD_OUTPUT.iter().any(|name| place == Path::new(name)) {
            return true;
        }
        let Some(next) = behind_link(&place) else { return false };
        place = next;
    }
    false
}

/// Where a symbolic link leads to; `None` for a path that is none.
fn behind_link(path: &Path) -> Option<PathBuf> {
    let link = std::fs::read_link(path).ok()?;
    Some(path.parent().unwrap_or(Path::new("")).join(link))
}

/// A file that is written.
#[derive(Debug)]
pub struct Target {
    file: File,
    /// Under which name it is written, and which one it gets; `None` if it has its name.
    names: Option<(PathBuf, PathBuf)>,
}

impl Target {
    pub fn open(path: &Path) -> Result<Target> {
        let Some(place) = replaced(path)? else {
            let file = File::options().append(true).open(path).with_context(|| format!("open {}", path.display()))?;
            return Ok(Target { file, names: None });
        };
        let mut part: OsString = place.clone().into();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part).with_context(|| format!("create {}", part.display()))?;
        Ok(Target { file, names: Some((part, place)) })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name if it was written, and removes it otherwise.
    pub fn finish(self, written: Result<()>) -> Result<()> {
        let Some((part, place)) = self.names else { return written };
        if written.is_err() {
            let _ = std::fs::remove_file(&part);
            return written;
        }
        std::fs::rename(&part, &place).with_context(|| format!("rename {}", part.display()))
    }
}

/// The file behind all links that is created or replaced; `None` for one that is written to as it is.
fn replaced(path: &Path) -> Result<Option<PathBuf>> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => bail!("{} is a folder", path.display()),
        Ok(metadata) if !metadata.is_file() => return Ok(None),
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("look at {}", path.display()));
        }
        _ => {}
    }
    let mut place = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Some(next) = behind_link(&place) else { return Ok(Some(place)) };
        if place.starts_with("/proc") {
            return Ok(None);
        }
        place = next;
    }
    bail!("{} follows too many symbolic links", path.display())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path, text: &str) -> Result<()> {
        let target = Target::open(path)?;
        let written = target.file().write_all(text.as_bytes()).map_err(Into::into);
        target.finish(written)
    }

    #[test]
    fn the_file_behind_links_is_replaced_and_the_links_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("far")).unwrap();
        std::fs::write(at("far/answer.csv"), "old").unwrap();
        symlink("far/answer.csv", at("near.csv")).unwrap();
        symlink(at("near.csv"), at("link.csv")).unwrap();
        symlink("far/new.csv", at("dangling.csv")).unwrap();
        write(&at("link.csv"), "new").unwrap();
        write(&at("dangling.csv"), "made").unwrap();
        assert_eq!(std::fs::read_to_string(at("far/answer.csv")).unwrap(), "new");
        assert_eq!(std::fs::read_to_string(at("far/new.csv")).unwrap(), "made");
        for link in ["near.csv", "link.csv", "dangling.csv"] {
            assert!(at(link).is_symlink(), "{link}");
        }
        assert_eq!(std::fs::read_dir(at("far")).unwrap().count(), 2);
    }

    #[test]
    fn a_failure_leaves_the_file_that_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer.csv");
        write(&path, "old").unwrap();
        let target = Target::open(&path).unwrap();
        target.file().write_all(b"half").unwrap();
        target.finish(Err(anyhow::anyhow!("no more rows"))).unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn devices_are_written_to_and_folders_and_circles_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        write(Path::new("/dev/null"), "nothing").unwrap();
        assert!(write(folder.path(), "x").unwrap_err().to_string().contains("is a folder"));
        let circle = folder.path().join("circle.csv");
        symlink("circle.csv", &circle).unwrap();
        write(&circle, "x").unwrap_err();
        assert!(circle.is_symlink());
    }

    #[test]
    fn standard_output_has_several_names() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link.csv");
        symlink("/dev/stdout", &link).unwrap();
        for name in [Path::new("-"), Path::new("/dev/stdout"), Path::new("/dev/fd/1"), &link] {
            assert!(is_standard_output(name), "{}", name.display());
        }
        for name in [Path::new("/dev/stderr"), Path::new("/dev/null"), Path::new("./-"), folder.path()] {
            assert!(!is_standard_output(name), "{}", name.display());
        }
    }

    #[test]
    fn open_files_of_the_process_are_written_to() {
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer.csv");
        let open = File::create(&path).unwrap();
        (&open).write_all(b"first,").unwrap();
        let link = folder.path().join("open.csv");
        symlink(format!("/proc/self/fd/{}", open.as_raw_fd()), &link).unwrap();
        write(&link, "second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first,second");
    }
}
