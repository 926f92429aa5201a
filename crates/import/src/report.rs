//! What an import hands out and reports.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;

use crate::error::{Error, Result};

/// Rows of one file, in the table's Arrow schema.
#[derive(Debug)]
pub struct Block {
    /// At most 65,536 rows and about 8 MiB.
    pub batch: RecordBatch,
    /// Which input they are from, by its place in the list that was planned.
    pub file: usize,
    /// On-disk bytes read so far over all inputs.
    pub bytes_read: u64,
}

/// What was read of one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReport {
    /// Its name, `path` or `path:member`.
    pub name: String,
    /// Its digest, see [`digest`](crate::digest).
    pub digest: String,
    /// Rows handed out.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Rows handed out.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Rows put into quarantine.
    pub quarantined: u64,
    /// Each input, in order.
    pub files: Vec<FileReport>,
}

/// A CSV file of rows that couldn't be read: `file,line,column,reason,text`. It is made at the first such row.
pub(crate) struct Quarantine {
    path: PathBuf,
    writer: Option<BufWriter<File>>,
    pub rows: u64,
}

impl Quarantine {
    pub fn new(path: &Path) -> Quarantine {
        Quarantine { path: path.to_path_buf(), writer: None, rows: 0 }
    }

    pub fn add(&mut self, file: &str, line: u64, column: &str, reason: &str, text: &[u8]) -> Result<()> {
        let text = String::from_utf8_lossy(text);
        let row = [file, &line.to_string(), column, reason, &text].map(quoted).join(",");
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let file = File::create(&self.path).map_err(Error::io("create", &self.path))?;
                let mut writer = BufWriter::new(file);
                writeln!(writer, "file,line,column,reason,text").map_err(Error::io("write", &self.path))?;
                self.writer.insert(writer)
            }
        };
        self.rows += 1;
        writeln!(writer, "{row}").map_err(Error::io("write", &self.path))
    }

    pub fn finish(mut self) -> Result<u64> {
        if let Some(writer) = &mut self.writer {
            writer.flush().map_err(Error::io("write", &self.path))?;
        }
        Ok(self.rows)
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
