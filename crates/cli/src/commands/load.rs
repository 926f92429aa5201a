//! `splay load`: files into a table.

use anyhow::{Result, anyhow};
use splay_import::{ImportSettings, OnError, Recipe};
use splay_store::storage::refuse_address;
use splay_store::{Database, Dedupe, LoadOptions, OnConflict, Replace};

use crate::args::{LoadArguments, OnConflictArgument, OnDuplicateArgument, OnErrorArgument, ReplaceArgument};
use crate::commands::changes;
use crate::print::{note, say};
use crate::progress;
use crate::size::{Counted, HumanBytes, Thousands};

pub fn run(arguments: LoadArguments) -> Result<()> {
    let options = LoadOptions {
        memory_bytes: arguments.memory.0,
        again: arguments.again,
        threads: arguments.threads.unwrap_or(LoadOptions::default().threads).max(1),
        tier: arguments.tier,
        partition: arguments.partition,
        replace: match arguments.replace {
            None => Replace::Nothing,
            Some(ReplaceArgument::Date) => Replace::Dates,
            Some(ReplaceArgument::Symbol) => Replace::Symbols,
            Some(ReplaceArgument::Table) => Replace::Table,
        },
        on_conflict: match arguments.on_conflict {
            OnConflictArgument::Refuse => OnConflict::Refuse,
            OnConflictArgument::Nothing => OnConflict::Keep,
            OnConflictArgument::Update => OnConflict::Replace,
        },
        dedupe: arguments
            .dedupe
            .map(|dedupe| Dedupe { refuse: matches!(arguments.on_duplicate, OnDuplicateArgument::Stop), ..dedupe }),
    };
    let quarantine = match arguments.on_error {
        OnErrorArgument::Stop => None,
        OnErrorArgument::Quarantine => {
            Some(arguments.quarantine.clone().unwrap_or_else(|| format!("{}.quarantine.csv", arguments.table).into()))
        }
    };
    let settings = ImportSettings {
        recipe: arguments.recipe.as_deref().map(Recipe::load).transpose()?,
        format: arguments.format.as_deref().map(str::parse).transpose().map_err(|error| anyhow!("{error}"))?,
        delimiter: arguments.delimiter,
        header: arguments.no_header.then_some(false),
        skip_lines: arguments.skip_lines,
        null_texts: arguments.null_texts,
        reference: arguments.shape.of_reference(),
        types: arguments.shape.types,
        time: arguments.shape.time,
        symbol: arguments.shape.symbol,
        time_zone: arguments.shape.time_zone,
        day_start: arguments.shape.day_start,
        zone: arguments.zone,
        date_formats: arguments.date_formats,
        numbers: arguments.numbers,
        on_error: quarantine.clone().map_or(OnError::Stop, |path| OnError::Quarantine { path }),
        threads: options.threads,
    };
    let replaces = arguments.replace.is_some();
    let start = std::time::Instant::now();
    refuse_address(&arguments.database)?;
    let mut files = splay_import::expand(&arguments.files)?;
    let database = if arguments.dry_run && !arguments.database.join("splay.toml").exists() {
        None
    } else {
        Some(Database::open_or_create(&arguments.database)?)
    };
    if let Some(database) = database.as_ref().filter(|_| arguments.skip_loaded) {
        let all = files.len();
        files = splay_import::new_files(database, &arguments.table, files)?;
        let skipped = all - files.len();
        if files.is_empty() {
            say!("nothing to load: the files were loaded before")?;
            return Ok(());
        }
        if skipped > 0 {
            note!("passed over {skipped} of {all} files, which were loaded before");
        }
    }
    if arguments.dry_run {
        let existing = database.and_then(|database| database.table(&arguments.table).ok());
        let existing = existing.map(|table| table.snapshot()).transpose()?;
        let import = splay_import::plan(&arguments.table, files, settings, existing.as_ref().map(|s| s.spec()))?;
        say!("{}", import.describe())?;
        return Ok(());
    }
    let Some(database) = database else { return Err(anyhow!("no database")) };
    if options.dedupe.is_some() || replaces {
        changes::settle(&database)?;
    }
    let bar = progress::bytes(files.iter().map(|file| file.bytes).sum(), "loading");
    let mut described = false;
    let outcome = splay_import::load(&database, &arguments.table, files, settings, options, &mut |progress| {
        if !described {
            described = true;
            bar.suspend(|| note!("{}", progress.description.trim_end()));
        }
        bar.set_position(progress.bytes);
        let a_second = rate(progress.rows, start.elapsed().as_secs_f64());
        bar.set_prefix(format!("{} rows, {}/s", Thousands(progress.rows), Thousands(a_second)));
        Ok(())
    });
    let outcome = outcome.map_err(|error| match (&error, replaces) {
        (splay_import::Error::Store(splay_store::Error::AlreadyLoaded { .. }), true) => {
            anyhow!("{error}; with --replace, --again replaces the stored rows. None of the files was loaded now")
        }
        (splay_import::Error::Store(splay_store::Error::AlreadyLoaded { .. }), false) => {
            anyhow!("{error}, with --again; --skip-loaded passes such files over. None of the files was loaded now")
        }
        _ => error.into(),
    })?;
    bar.finish_and_clear();

    let seconds = start.elapsed().as_secs_f64();
    say!(
        "loaded {} from {} ({}) into {}, {} ({}), in {seconds:.2} s: {} rows/s, {}/s",
        Counted(outcome.load.rows, "row"),
        Counted(outcome.import.files.len() as u64, "file"),
        HumanBytes(outcome.import.bytes),
        Counted(outcome.load.partitions as u64, "partition"),
        Counted(outcome.load.segments as u64, "segment"),
        HumanBytes(outcome.load.bytes),
        Thousands(rate(outcome.import.rows, seconds)),
        HumanBytes(rate(outcome.import.bytes, seconds)),
    )?;
    if outcome.load.removed > 0 {
        say!("replaced {} stored before, by commit {}", Counted(outcome.load.removed, "row"), outcome.load.epoch)?;
    }
    if outcome.load.duplicates > 0 {
        say!("left out {}", Counted(outcome.load.duplicates, "duplicate"))?;
    }
    if let Some(path) = quarantine.filter(|_| outcome.import.quarantined > 0) {
        say!("put {} into {}", Counted(outcome.import.quarantined, "malformed row"), path.display())?;
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a rate for people to read"
)]
fn rate(count: u64, seconds: f64) -> u64 {
    (count as f64 / seconds.max(1e-9)) as u64
}
