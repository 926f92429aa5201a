//! `splay export`: a table as files for other tools, one folder a partition.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use splay_lab::formats::{FileFormat, Table as Rows};
use splay_store::storage::refuse_address;
use splay_store::{Table, write_csv_names, write_csv_rows};

use super::place::open_to_read;
use crate::args::{ExportArguments, ExportFormat};
use crate::output::as_text;
use crate::print::say;
use crate::progress;
use crate::size::{Counted, HumanBytes};

pub fn run(arguments: &ExportArguments) -> Result<()> {
    refuse_address(&arguments.to)?;
    if arguments.to.is_file() {
        bail!("{} is a file: --to names a folder, which gets one of each partition", arguments.to.display());
    }
    let table = open_to_read(&arguments.database, &arguments.journal)?.table(&arguments.table)?;
    let bar = progress::bytes(table.snapshot()?.bytes(), table.name());
    let mut observer = |bytes| {
        bar.inc(bytes);
        ControlFlow::Continue(())
    };
    let (rows, bytes) = match arguments.format {
        ExportFormat::Store(format) => table.export(format.into(), &arguments.to, &mut observer)?,
        ExportFormat::Lab(format) => {
            let mut written = Vec::new();
            let exported = files(&table, format, &arguments.to, &mut written, &mut |bytes| bar.inc(bytes));
            if exported.is_err() {
                // Half a file is useless, and the first error is the one to report: errors of the removal are ignored.
                written.iter().for_each(|path| drop(std::fs::remove_file(path)));
            }
            exported?
        }
    };
    bar.finish_and_clear();
    say!("wrote {}, {}, to {}", Counted(rows, "row"), HumanBytes(bytes), arguments.to.display())?;
    Ok(())
}

/// Writes a file of each segment, and gives rows and bytes.
fn files(
    table: &Table,
    format: FileFormat,
    folder: &Path,
    written: &mut Vec<PathBuf>,
    observer: &mut dyn FnMut(u64),
) -> Result<(u64, u64)> {
    let snapshot = table.snapshot()?;
    let all: Vec<usize> = (0..snapshot.spec().shown_columns().len()).collect();
    let (mut rows, mut bytes) = (0, 0);
    for partition in snapshot.partitions() {
        let folder = folder.join(snapshot.spec().partition.export_folder(partition.date));
        std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        for (number, segment) in partition.segments.iter().enumerate() {
            let path = folder.join(format!("{:06}.{}", number + 1, format.extension()));
            if path.exists() {
                bail!("{} exists already; choose another folder", path.display());
            }
            let batch = segment.read_all(snapshot.spec(), &all)?;
            written.push(path.clone());
            if let FileFormat::Csv(codec) = format {
                let batch = as_text(&batch)?;
                codec.write_file(&path, &mut |text| {
                    write_csv_names(&batch.schema(), text)?;
                    Ok(write_csv_rows(&batch, text)?)
                })?;
            } else {
                let part = Rows { name: table.name().to_owned(), schema: batch.schema(), batches: vec![batch] };
                format.write_file(&part, &path)?;
            }
            // Mapped bytes that the device can't give read as zeros.
            snapshot.watch().check()?;
            rows += segment.rows();
            bytes += path.metadata().with_context(|| format!("look at {}", path.display()))?.len();
            observer(segment.entry().bytes);
        }
    }
    Ok((rows, bytes))
}
