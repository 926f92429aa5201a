//! Inputs: files, folders and globs, and the members of zip files.
//!
//! - A zip file becomes one input per member, in name order; every other file is one input.
//! - Inputs of one pattern are sorted by name; patterns keep the order in which they were given.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};

/// Where a zip member's bytes lie in its file.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub name: String,
    pub start: u64,
    pub compressed: u64,
    pub size: u64,
    pub crc32: u32,
    pub deflated: bool,
}

/// One input: a file, or a member of a zip file.
#[derive(Debug, Clone)]
pub struct InputFile {
    /// The file on disk.
    pub path: PathBuf,
    /// Name for people: `path`, or `path:member`.
    pub name: String,
    /// Bytes on disk; for a member its compressed bytes.
    pub bytes: u64,
    pub(crate) member: Option<Member>,
    digest: Arc<OnceLock<String>>,
}

impl InputFile {
    /// An input from a path that is one file (a zip file is opened by [`expand`] instead).
    ///
    /// # Errors
    /// [`Error::Io`] when the file can't be examined, [`Error::Unsupported`] for a pipe, a device and the like: files are read more than once.
    pub fn open(path: &Path) -> Result<InputFile> {
        let metadata = std::fs::metadata(path).map_err(Error::io("examine", path))?;
        let (name, bytes) = (path.display().to_string(), metadata.len());
        if !metadata.is_file() {
            return Err(Error::unsupported(&name, "is no regular file; write what it gives to one first"));
        }
        Ok(InputFile { path: path.to_path_buf(), name, bytes, member: None, digest: Arc::default() })
    }

    /// The text that name templates are matched against, with `/` between the path and a member.
    pub(crate) fn match_name(&self) -> String {
        let path = self.path.display().to_string();
        match &self.member {
            Some(member) => format!("{path}/{}", member.name),
            None => path,
        }
    }

    /// The innermost file name, which formats are detected by.
    pub(crate) fn leaf(&self) -> String {
        match &self.member {
            Some(member) => member.name.rsplit('/').next().unwrap_or_default().to_owned(),
            None => self.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default(),
        }
    }
}

/// Expands globs and folders, sorted by name. A folder stands for all files below it; names that begin with a dot
/// are left out of folders. Pipes, devices and the like count as no files, unless they are named.
///
/// # Errors
/// [`Error::NoMatch`] when a pattern matches nothing, [`Error::Damaged`] for a zip file that can't be listed, and those of [`InputFile::open`].
pub fn expand(patterns: &[String]) -> Result<Vec<InputFile>> {
    let mut inputs = Vec::new();
    for pattern in patterns {
        let mut paths = Vec::new();
        let named = Path::new(pattern);
        if named.exists() && !named.is_dir() {
            paths.push(named.to_path_buf());
        } else if named.exists() {
            walk(named, &mut paths)?;
        } else {
            let wrong = |reason: String| Error::Pattern { pattern: pattern.clone(), reason };
            for entry in glob::glob(pattern).map_err(|e| wrong(e.to_string()))? {
                walk(&entry.map_err(|e| wrong(e.to_string()))?, &mut paths)?;
            }
        }
        if paths.is_empty() {
            return Err(Error::NoMatch { pattern: pattern.clone() });
        }
        paths.sort();
        paths.dedup();
        for path in paths {
            add_file(&path, &mut inputs)?;
        }
    }
    Ok(inputs)
}

fn walk(path: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        // A path that can't be examined is reported when it is opened.
        if std::fs::metadata(path).map_or(true, |metadata| metadata.is_file()) {
            paths.push(path.to_path_buf());
        }
        return Ok(());
    }
    for entry in std::fs::read_dir(path).map_err(Error::io("list", path))? {
        let entry = entry.map_err(Error::io("list", path))?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            walk(&entry.path(), paths)?;
        }
    }
    Ok(())
}

fn add_file(path: &Path, inputs: &mut Vec<InputFile>) -> Result<()> {
    let file = InputFile::open(path)?;
    let mut magic = [0u8; 4];
    let mut reader = File::open(path).map_err(Error::io("open", path))?;
    let is_zip = reader.read_exact(&mut magic).is_ok() && matches!(&magic, b"PK\x03\x04" | b"PK\x05\x06");
    let named_zip = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("zip"));
    if !is_zip && !named_zip {
        inputs.push(file);
        return Ok(());
    }
    let damaged = |e: &dyn std::fmt::Display| Error::damaged(&file.name, format!("the zip file can't be read: {e}"));
    let mut archive = zip::ZipArchive::new(reader).map_err(|e| damaged(&e))?;
    let mut members = Vec::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|e| damaged(&e))?;
        if entry.is_dir() {
            continue;
        }
        let name = entry.name().map_err(|e| damaged(&e))?.into_owned();
        let unsupported = |what: &str| Error::unsupported(&format!("{}:{name}", file.name), what);
        if entry.encrypted() {
            return Err(unsupported("the zip member is encrypted; unpack it first"));
        }
        let deflated = match entry.compression() {
            zip::CompressionMethod::Stored => false,
            zip::CompressionMethod::Deflated => true,
            _ => return Err(unsupported("the zip member is neither stored nor deflated; unpack it first")),
        };
        let start = entry.data_start().ok_or_else(|| damaged(&"a member has no data"))?;
        let (compressed, size, crc32) = (entry.compressed_size(), entry.size(), entry.crc32());
        if start.checked_add(compressed).is_none_or(|end| end > file.bytes) {
            return Err(damaged(&"a member ends after the file; the file is cut short"));
        }
        members.push(Member { name, start, compressed, size, crc32, deflated });
    }
    members.sort_by(|a, b| a.name.cmp(&b.name));
    inputs.extend(members.into_iter().map(|member| InputFile {
        path: file.path.clone(),
        name: format!("{}:{}", file.name, member.name),
        bytes: member.compressed,
        member: Some(member),
        digest: Arc::default(),
    }));
    Ok(())
}

/// The on-disk bytes of an input.
pub(crate) fn raw(file: &InputFile) -> Result<Box<dyn Read + Send>> {
    let mut reader = File::open(&file.path).map_err(Error::io("open", &file.path))?;
    Ok(match &file.member {
        None => Box::new(reader),
        Some(member) => {
            reader.seek(SeekFrom::Start(member.start)).map_err(Error::io("read", &file.path))?;
            Box::new(reader.take(member.compressed))
        }
    })
}

/// BLAKE3 of the file as it lies on disk, in hex; lets a caller refuse a known file before reading it. For a zip member,
/// of its name, a zero byte and its compressed bytes. Reads the file once; later calls and the load itself reuse the value.
///
/// # Errors
/// [`Error::Io`].
pub fn digest(file: &InputFile) -> Result<String> {
    if let Some(digest) = file.digest.get() {
        return Ok(digest.clone());
    }
    let mut hasher = new_hasher(file);
    let mut reader = raw(file)?;
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        match reader.read(&mut buffer).map_err(Error::io("read", &file.path))? {
            0 => break,
            n => {
                hasher.update(&buffer[..n]);
            }
        }
    }
    Ok(remember(file, &hasher))
}

pub(crate) fn cached_digest(file: &InputFile) -> Option<String> {
    file.digest.get().cloned()
}

pub(crate) fn new_hasher(file: &InputFile) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    if let Some(member) = &file.member {
        hasher.update(member.name.as_bytes()).update(&[0]);
    }
    hasher
}

pub(crate) fn remember(file: &InputFile, hasher: &blake3::Hasher) -> String {
    file.digest.get_or_init(|| hasher.finalize().to_hex().to_string()).clone()
}
