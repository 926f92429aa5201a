//! `splay verify`, `splay compact`, `splay alter`, `splay publish`.

use std::ops::ControlFlow;

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use splay_capture::FollowSettings;
use splay_store::{ColumnSpec, CompactOptions, Database, LoadOptions, Table};

use crate::args::{AlterArguments, AlterCommand, CompactArguments, PublishArguments, VerifyArguments};
use crate::print::say;
use crate::progress;
use crate::size::{Counted, HumanBytes};

pub fn verify(arguments: &VerifyArguments) -> Result<()> {
    let database = Database::open(&arguments.database)?;
    let followed = Database::open(&arguments.database)?;
    splay_capture::follow(&followed, FollowSettings::default());
    let (mut problem_count, mut of_journal) = (0, None);
    for table in selected_tables(&database, arguments.table.as_deref())? {
        let snapshot = match table.stored() {
            Ok(snapshot) => snapshot,
            Err(error) if error.is_damage() => {
                say!("{}: {error}", table.name())?;
                problem_count += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let bar = progress::bytes(snapshot.bytes(), table.name());
        let problems = table.verify(&mut |bytes| advance(&bar, bytes))?;
        bar.finish_and_clear();
        for problem in &problems {
            say!("{}: {}", problem.path.display(), problem.error)?;
        }
        if problems.is_empty() {
            say!("{}: {}, {}: sound", table.name(), Counted(snapshot.rows(), "row"), HumanBytes(snapshot.bytes()))?;
        }
        problem_count += problems.len();
        match followed.table(table.name()).and_then(|table| table.snapshot()) {
            Ok(all) if all.rows() > snapshot.rows() => {
                say!("{}: {} more in the journal", table.name(), Counted(all.rows() - snapshot.rows(), "row"))?;
            }
            Ok(_) => {}
            Err(error) => of_journal = Some(error),
        }
    }
    if let Some(error) = of_journal {
        say!("journal: {error}")?;
        problem_count += usize::from(error.is_damage());
    }
    if arguments.table.is_none() {
        let lists = [("views", database.views().map(drop)), ("users and roles", database.access().map(drop))];
        for (list, read) in lists {
            match read {
                Ok(()) => {}
                Err(error) if error.is_damage() => {
                    say!("{list}: {error}")?;
                    problem_count += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        problem_count += super::journal::verify(&database)?;
    }
    if problem_count > 0 {
        bail!("{problem_count} damaged files; every other file can still be read");
    }
    Ok(())
}

pub fn compact(arguments: &CompactArguments) -> Result<()> {
    let database = Database::open(&arguments.database)?;
    let options = CompactOptions {
        tier: arguments.tier,
        date: None,
        before: arguments.before.map(splay_store::days),
        memory_bytes: arguments.memory.0,
    };
    let mut damaged = 0;
    for table in selected_tables(&database, arguments.table.as_deref())? {
        let report = match table.compact(&options, &mut |_| ControlFlow::Continue(())) {
            // It doesn't keep the others from being compacted.
            Err(error) if error.is_damage() => {
                say!("{}: {error}", table.name())?;
                damaged += 1;
                continue;
            }
            report => report?,
        };
        say!(
            "{}: {} rewritten, {} before, {} after, {} before, {} after",
            table.name(),
            Counted(report.partitions as u64, "partition"),
            Counted(report.segments.0 as u64, "segment"),
            report.segments.1,
            HumanBytes(report.bytes.0),
            HumanBytes(report.bytes.1)
        )?;
    }
    if damaged > 0 {
        bail!("{damaged} damaged tables were left as they are: see splay verify");
    }
    Ok(())
}

pub fn alter(arguments: AlterArguments) -> Result<()> {
    let database = match &arguments.change {
        // Files may be written anew, and the journal has rows by the names of tables.
        AlterCommand::Widen { .. } | AlterCommand::Partition { .. } | AlterCommand::Rename { .. } => {
            super::changes::changeable(&arguments.database)?
        }
        _ => Database::open(&arguments.database)?,
    };
    let table = database.table(&arguments.table)?;
    match arguments.change {
        AlterCommand::AddColumn { name, column_type } => table.add_column(ColumnSpec::new(name, column_type))?,
        AlterCommand::Widen { name, column_type } => table.widen_column(&name, column_type)?,
        AlterCommand::Partition { period } => {
            let report = table.set_partition(period, LoadOptions::default())?;
            say!("{} by {period}", Counted(table.stored()?.partitions().len() as u64, "partition"))?;
            if report.segments > 0 {
                say!("{}, {}", Counted(report.segments as u64, "segment"), HumanBytes(report.bytes))?;
            }
        }
        AlterCommand::Rename { name } => {
            splay_sql::rename_table(&table, &name)?;
        }
        AlterCommand::Publish { form } => table.set_publish(form.0)?,
        AlterCommand::Tier { tier, after } => table.set_tier(tier, after)?,
        AlterCommand::Retain { days, bytes } => {
            super::changes::retain(&table, days, bytes.map(|bytes| bytes.0 as u64))?;
        }
    }
    Ok(())
}

pub fn publish(arguments: &PublishArguments) -> Result<()> {
    let database = Database::open(&arguments.database)?;
    if let Some(name) = &arguments.table {
        return publish_table(&database.table(name)?);
    }
    for table in selected_tables(&database, None)? {
        if table.stored()?.spec().publish.is_some() {
            publish_table(&table)?;
        }
    }
    Ok(())
}

/// Publishes a table and says what others see.
pub fn publish_table(table: &Table) -> Result<()> {
    let report = table.publish()?;
    let (name, (added, removed)) = (table.name(), report.changed);
    let news = match report.is_new {
        true => format!("{} added, {removed} removed", Counted(added as u64, "file")),
        false => "nothing new".to_owned(),
    };
    say!(
        "{name}: version {} of {} shows commit {}: {} in {}; {news}",
        report.version,
        report.path.display(),
        report.epoch,
        Counted(report.rows, "row"),
        Counted(report.files as u64, "file")
    )?;
    if !report.left_out.is_empty() {
        let dates: Vec<String> = report.left_out.iter().map(|day| splay_store::date(*day).to_string()).collect();
        say!("{name}: not in it, since they are mapped or in the object store: {}", dates.join(", "))?;
    }
    Ok(())
}

fn advance(bar: &ProgressBar, bytes: u64) -> ControlFlow<()> {
    bar.inc(bytes);
    ControlFlow::Continue(())
}

fn selected_tables(database: &Database, table: Option<&str>) -> Result<Vec<Table>> {
    let names = match table {
        Some(name) => vec![name.to_owned()],
        None => database.tables()?,
    };
    Ok(names.iter().map(|name| database.table(name)).collect::<splay_store::Result<_>>()?)
}
