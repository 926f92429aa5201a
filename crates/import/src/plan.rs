//! What will be read and as what, settled before the first row.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use splay_store::{ColumnSpec, ColumnType, DATE_COLUMN, DayStart, FileTarget, Reference, TableSpec};

use crate::binary::natural_columns;
use crate::column_names::{SYMBOL_NAMES, TIME_NAMES, is_clock_name, is_date_name, same_name};
use crate::csv::columns::{ColumnPlan, set_null_tokens};
use crate::csv::delimiter::Delimiter;
use crate::csv::times::{LocalZone, TimeSpelling};
use crate::date_and_clock::{DateAndClock, may_hold_digits};
use crate::decompress::DecompressedStream;
use crate::detect::{detect, is_utf16};
use crate::error::{Error, Result, listed};
use crate::evidence::ValueFormats;
use crate::few_texts::{SAMPLE_ROWS, TextSample};
use crate::format::{DetectedFormat, guarded};
use crate::input::InputFile;
use crate::json;
use crate::recipe::{OtherColumns, Recipe};
use crate::roles;
use crate::settings::{ImportSettings, OnError};
use crate::sniff::{self, SAMPLE_BYTES, Sample};
use crate::text_blocks::BLOCK_BYTES;
use crate::text_file_format::{ColumnRule, DateSource, TextFileFormat};
use crate::time_apart::TimeApart;
use crate::typed_sample::{check_formats, epoch_units, typed_sample};
use crate::typed_times::TypedTimes;

/// Characters that names of columns hardly have.
const NOT_OF_NAMES: [char; 6] = [':', ';', '=', '{', '"', '\\'];

/// Most files that are looked at before a load.
const SAMPLE_FILES_MAX: usize = 16;

/// A planned import.
#[derive(Debug)]
pub struct Import {
    spec: TableSpec,
    /// The table as rows come for it.
    pub(crate) rows: TableSpec,
    pub(crate) files: Vec<InputFile>,
    pub(crate) reading: ReaderKind,
    pub(crate) on_error: OnError,
    pub(crate) threads: usize,
    pub(crate) block_bytes: usize,
    /// How times of binary files are read.
    pub(crate) times: TypedTimes,
    /// The columns of binary files that are the time together.
    pub(crate) clock: Option<DateAndClock>,
    /// What was found out, and what would help.
    pub(crate) notes: Vec<String>,
}

/// Why reading ended before the last row.
enum SampleEnd {
    Enough,
    Failed,
}

impl From<Error> for SampleEnd {
    fn from(_: Error) -> SampleEnd {
        SampleEnd::Failed
    }
}

impl From<splay_store::Error> for SampleEnd {
    fn from(_: splay_store::Error) -> SampleEnd {
        SampleEnd::Failed
    }
}

#[derive(Debug, Clone)]
pub(crate) enum ReaderKind {
    Text(TextFileFormat),
    Binary(DetectedFormat),
}

/// Plans an import: finds out the format, the columns and their types, the time and the symbol column.
///
/// Types come from `settings.types`, else the table that exists, else the recipe, else the first 10,000 rows. A text
/// file's times without a zone count as UTC unless a recipe says otherwise; a date used as time is midnight in the table's
/// time zone. Of a table that exists, columns the files lack become null.
///
/// # Errors
/// [`Error::Misfit`] naming the columns for which the table has no place, [`Error::Setting`], [`Error::Damaged`] and
/// [`Error::Unsupported`] for files that can't be read at all.
pub fn plan(
    table: &str,
    files: Vec<InputFile>,
    settings: ImportSettings,
    existing: Option<&TableSpec>,
) -> Result<Import> {
    let Some(first) = files.first() else {
        return Err(Error::Setting { setting: "files", reason: "there is no file to read".to_owned() });
    };
    let kind = match &settings.recipe {
        Some(recipe) => DetectedFormat::Text(settings.delimiter.map_or(recipe.format.delimiter, Delimiter::byte)),
        None => detect(first, &settings)?,
    };
    let mut notes = Vec::new();
    let own_date = settings.types.iter().any(|(name, _)| same_name(name, DATE_COLUMN)) || settings.recipe.is_some();
    let (mut clock, mut units) = (None, Vec::new());
    let (spec, reading) = match kind {
        DetectedFormat::Text(_) | DetectedFormat::Json => {
            let (spec, mut format) = plan_text(table, &files, kind, &settings, existing, &mut notes)?;
            format.add_nulls(&settings.null_texts);
            (spec, ReaderKind::Text(format))
        }
        kind => {
            let sample = sample_typed(first, kind, &settings, existing)?;
            clock = date_and_clock(first, kind, &settings, existing, &sample)?;
            notes.extend(clock.as_ref().map(DateAndClock::note));
            let spec = plan_binary(table, first, kind, &settings, existing, (clock.as_ref(), &sample, &mut notes))?;
            units = epoch_units(first, kind, &spec, &mut notes)?;
            if clock.is_none() && !settings.date_formats.is_empty() {
                check_formats(first, kind, &spec)?;
            }
            (spec, ReaderKind::Binary(kind))
        }
    };
    spec.validate()?;
    if let Some(start) = settings.day_start.filter(|start| *start != spec.day_start) {
        let reason = format!("the table's dates are in {}, and its days can't start at {start}", spec.dates_in());
        return Err(Error::Setting { setting: "day_start", reason });
    }
    if let Some(zone) = settings.time_zone.filter(|zone| *zone != spec.time_zone) {
        let reason =
            format!("the table's dates are in {}, not in {zone}; zone is that of the files' times", spec.dates_in());
        return Err(Error::Setting { setting: "time_zone", reason });
    }
    let zone = settings.zone.as_deref().map(files_zone).transpose()?;
    let threads = settings.threads.max(1);
    let times = TypedTimes { zone, units, formats: settings.date_formats.clone() };
    let import = Import { times, clock, notes, ..Import::of(spec, files, reading, (settings.on_error, threads)) };
    match import.spec.without_date().filter(|_| existing.is_none() && !own_date) {
        Some(other) => import.try_without_date(other),
        None if import.spec.has_virtual_date() => Ok(import.with_virtual_dates()),
        None => Ok(import),
    }
}

impl Import {
    pub(crate) fn of(
        spec: TableSpec,
        files: Vec<InputFile>,
        reading: ReaderKind,
        (on_error, threads): (OnError, usize),
    ) -> Import {
        let rows = spec.as_read();
        let (block_bytes, times, clock, notes) = (BLOCK_BYTES, TypedTimes::default(), None, Vec::new());
        Import { rows, spec, files, reading, on_error, threads, block_bytes, times, clock, notes }
    }

    /// Rows may have a date, though their table has no such column.
    fn with_virtual_dates(self) -> Import {
        Import { rows: self.spec.with_virtual_date(), ..self }
    }

    pub(crate) fn has_virtual_dates(&self) -> bool {
        self.spec.is_virtual_date(DATE_COLUMN) && self.rows.position(DATE_COLUMN).is_some()
    }

    /// The import into the same table without its column `date`, if the first rows have no other dates than those of their times.
    fn try_without_date(mut self, other: TableSpec) -> Result<Import> {
        let trial = Import::of(other, self.files.clone(), self.reading.clone(), (OnError::Stop, 1));
        let trial = Import { times: self.times.clone(), clock: self.clock.clone(), ..trial }.with_virtual_dates();
        let (spec, place) = (trial.spec.clone(), trial.spec.columns.len());
        let mut agree = None;
        let looked = trial.run_as_read(&mut |block| {
            let (times, dates) = (block.batch.column(spec.time_position()), block.batch.column(place));
            agree = Some(spec.are_dates(times.as_ref(), dates.as_ref())?);
            Err(SampleEnd::Enough)
        });
        // Errors of the files are reported when they are read.
        if !agree.unwrap_or(looked.is_ok()) {
            return Ok(self);
        }
        self.notes.push(format!(
            "{DATE_COLUMN} is that of the time and isn't kept twice; the type {DATE_COLUMN}=date would keep it as it comes"
        ));
        Ok(Import { spec, ..self }.with_virtual_dates())
    }

    /// The table as the rows will fit it.
    #[must_use]
    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    /// On-disk bytes of all inputs.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|f| f.bytes).sum()
    }

    /// The plan in words: columns with types, and which are time and symbol.
    #[must_use]
    pub fn describe(&self) -> String {
        let spec = &self.spec;
        let (shown, key) = (spec.shown_columns(), spec.key_positions());
        let width = shown.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
        let dates = match spec.reference {
            None => format!("dates in {}", spec.dates_in()),
            Some(_) => "a reference table".to_owned(),
        };
        let mut text = format!("table {} from {} file(s), {dates}\n", spec.name, self.files.len());
        for (index, column) in shown.iter().enumerate() {
            let role = match index {
                i if key.contains(&i) => "   key",
                i if i == spec.time_position() => "   time column",
                i if Some(i) == spec.symbol_position() => "   symbol column",
                _ => "",
            };
            text += format!("  {:width$}  {}{role}", column.name, column.column_type).trim_end();
            text += "\n";
        }
        if spec.symbol.is_none() && spec.reference.is_none() {
            text += "  no symbol column: rows are ordered by time alone\n";
        }
        for note in &self.notes {
            text += &format!("  note: {note}\n");
        }
        text
    }
}

/// The columns of text files and how they are read; none of them is the time.
pub(crate) fn text_columns(
    files: &[InputFile],
    kind: DetectedFormat,
    settings: &ImportSettings,
    target: Option<FileTarget<'_>>,
) -> Result<(TableSpec, TextFileFormat)> {
    let time_zone = time_zone(settings, None);
    let zone = zone(&time_zone)?;
    let (mut format, _) = text_format(files, kind, settings, target.map(|target| target.table), &mut Vec::new())?;
    if let Some(target) = &target {
        read_for(&mut format, target, files, &zone)?;
    }
    for (name, column_type) in &settings.types {
        let plan = plan_named(&mut format.rules, name).ok_or_else(|| no_column("types", name))?;
        retype(plan, column_type, &zone, settings.recipe.is_none());
    }
    format.add_nulls(&settings.null_texts);
    let table = target.map_or("files", |target| &target.table.name);
    let spec = TableSpec::new(table, column_specs(&format), "", None).with_time_zone(time_zone);
    Ok((spec, format))
}

/// Has values be read for the columns of a table.
fn read_for(
    format: &mut TextFileFormat,
    FileTarget { table, is_listed }: &FileTarget<'_>,
    files: &[InputFile],
    zone: &LocalZone,
) -> Result<()> {
    // Later objects may have fields that the first ones lack. A file without a line has no columns of its own.
    if format.json || format.rules.is_empty() {
        add_later(&mut format.rules, table.shown_columns());
    }
    let (own, wanted) = (format.rules.len(), table.shown_columns().len());
    if !format.header && own != wanted {
        let file = files.first().map(|first| first.name.clone()).unwrap_or_default();
        let reason = format!("rows have {own} values and no names, and go into {wanted} columns");
        return Err(Error::Misfit { file, table: table.name.clone(), reason });
    }
    join_levels(format, &table.columns)?;
    let others = fit_rules(&mut format.rules, table, zone);
    if *is_listed && !format.json {
        let is_listed = |plan: &ColumnPlan| !others.contains(&plan.name);
        let listed = format.rules.iter_mut().filter(|rule| rule.plan.as_ref().is_some_and(is_listed));
        listed.for_each(|rule| rule.optional = false);
    }
    Ok(())
}

fn zone(time_zone: &str) -> Result<LocalZone> {
    LocalZone::parse(time_zone).ok_or_else(|| Error::Setting {
        setting: "time_zone",
        reason: format!("{time_zone:?} is not an IANA time zone"),
    })
}

fn column_specs(format: &TextFileFormat) -> Vec<ColumnSpec> {
    let is_first = |rule: &&ColumnRule| rule.level.is_none_or(|level| level == 0);
    let plans = format.rules.iter().filter(is_first).filter_map(|rule| rule.plan.as_ref());
    plans.map(|plan| ColumnSpec::new(&plan.name, plan.column_type.clone())).collect()
}

fn plan_text(
    table: &str,
    files: &[InputFile],
    kind: DetectedFormat,
    settings: &ImportSettings,
    existing: Option<&TableSpec>,
    notes: &mut Vec<String>,
) -> Result<(TableSpec, TextFileFormat)> {
    let first = files.first().map(|f| f.name.as_str()).unwrap_or_default();
    let time_zone = time_zone(settings, existing);
    let zone = zone(&time_zone)?;
    let (mut format, sample) = text_format(files, kind, settings, existing, notes)?;
    if let Some(existing) = existing.filter(|_| sample.is_some() && format.header) {
        add_later(&mut format.rules, existing.shown_columns());
    }
    let of_settings = settings.types.iter().map(|(name, column_type)| ColumnSpec::new(name, column_type.clone()));
    let typed_columns = existing.iter().flat_map(|table| &table.columns).cloned().chain(of_settings);
    join_levels(&mut format, &typed_columns.collect::<Vec<_>>())?;
    let mut apart = TimeApart::default();
    if let Some(sample) = &sample {
        let time_column = settings.time.as_deref().or(existing.map(|table| table.time.as_str()));
        let is_typed = |name: &str| settings.types.iter().any(|(typed, _)| same_name(typed, name));
        roles::read_compact_clock(&mut format, sample, time_column, &is_typed);
        notes.extend(roles::join_date_and_clock(&mut format, time_column, existing, &is_typed));
        apart = TimeApart::of(&columns(&format.rules), sample, &is_typed);
        apart.has_recipes = true;
    }
    let misfit = |reason: String| Error::Misfit { file: first.to_owned(), table: table.to_owned(), reason };
    if existing.is_none() && sample.as_ref().is_some_and(|sample| sample.rows == 0 && sample.fault.is_none()) {
        let untyped = untyped(&columns(&format.rules), settings);
        if let Some(column) = untyped.first() {
            return Err(misfit(format!(
                "it has no rows from which the types of its columns {} could be inferred; give them by --type, as in --type {column}={}",
                listed(&untyped),
                if TIME_NAMES.iter().any(|name| same_name(name, column)) { "timestamp" } else { "float64" },
            )));
        }
    }
    if let Some(existing) = existing {
        let extra = fit_rules(&mut format.rules, existing, &zone);
        if !extra.is_empty() {
            return Err(misfit(no_place(&extra)));
        }
    }
    for (name, column_type) in &settings.types {
        let plan = plan_named(&mut format.rules, name).ok_or_else(|| no_column("types", name))?;
        if existing.is_some_and(|e| e.position(&plan.name).is_some_and(|i| e.columns[i].column_type != *column_type)) {
            let has = existing.and_then(|e| Some(&e.columns[e.position(&plan.name)?].column_type));
            let has = has.map(ToString::to_string).unwrap_or_default();
            return Err(misfit(format!(
                "column {name} can't be {column_type}: the table has it as {has}; splay alter … widen {name} {column_type} changes it, \
                 if no value is lost"
            )));
        }
        retype(plan, column_type, &zone, settings.recipe.is_none());
    }
    if let Some(existing) = existing.filter(|existing| existing.reference.is_some()) {
        set_zone(&mut format, settings)?;
        return Ok((existing.clone(), format));
    }
    if let (Some(reference), None) = (&settings.reference, existing) {
        refuse_time(settings)?;
        set_zone(&mut format, settings)?;
        let symbol = reference_symbol(&columns(&format.rules), reference, settings.symbol.as_deref());
        if let Some(name) = &symbol {
            let plan = plan_named(&mut format.rules, name).ok_or_else(|| no_column("symbol", name))?;
            retype(plan, &ColumnType::Symbol, &zone, settings.recipe.is_none());
        }
        let spec = TableSpec::of_reference(table, column_specs(&format), named_as(reference, &columns(&format.rules)));
        return Ok((TableSpec { symbol, ..spec }, format));
    }
    let time = settings.time.clone().or_else(|| existing.map(|e| e.time.clone())).or_else(|| {
        let recipe = settings.recipe.as_ref().map(|r| r.time.clone());
        recipe.or_else(|| sniff::time_column(&columns(&format.rules)).map(str::to_owned))
    });
    let time = time.ok_or_else(|| {
        let names: Vec<&str> = format.rules.iter().filter_map(|rule| rule.names.first()).map(String::as_str).collect();
        let recipe = if format.header { Recipe::fitting(&names) } else { None };
        if let Some(recipe) = recipe.filter(|recipe| reads(recipe, files, settings)) {
            return misfit(format!("its header fits the recipe {recipe}: load it with --recipe {recipe}"));
        }
        let mut remarks = notes.clone();
        remarks.extend(sample.iter().flat_map(Sample::formats));
        remarks.extend(apart.remarks());
        if format.header && !format.json && names.iter().any(|name| name.contains(NOT_OF_NAMES)) {
            remarks.push("--no-header if the first line has values".to_owned());
        }
        match sample.as_ref().and_then(|sample| Some((sample.rows, sample.fault.clone()?))) {
            None => misfit(no_time(&columns(&format.rules), &remarks)),
            Some((0, fault)) => misfit(format!("its first rows can't be read: {fault}")),
            Some((_, fault)) => {
                remarks.push(fault);
                misfit(no_time(&columns(&format.rules), &remarks))
            }
        }
    })?;
    let is_asked = settings.time.is_some() || existing.is_some();
    notes.extend(apart.check(&time, is_asked).map_err(&misfit)?);
    let plan = plan_named(&mut format.rules, &time).ok_or_else(|| no_column("time", &time))?;
    sniff::as_timestamp(plan, &zone);
    let time = plan.name.clone();
    let symbol = match (&settings.symbol, existing, &settings.recipe) {
        (Some(name), _, _) => Some(name.clone()).filter(|n| !n.is_empty()),
        (None, Some(existing), _) => existing.symbol.clone(),
        (None, None, Some(recipe)) => recipe.symbol.clone(),
        (None, None, None) => sniff::symbol_column(&columns(&format.rules)).map(str::to_owned),
    };
    let symbol = match symbol {
        Some(name) if existing.is_none() => {
            let plan = plan_named(&mut format.rules, &name).ok_or_else(|| no_column("symbol", &name))?;
            retype(plan, &ColumnType::Symbol, &zone, settings.recipe.is_none());
            Some(plan.name.clone())
        }
        other => other,
    };
    set_zone(&mut format, settings)?;
    let spec = match existing {
        Some(existing) => existing.clone(),
        None => TableSpec::new(table, column_specs(&format), time, symbol.as_deref())
            .with_time_zone(time_zone)
            .with_day_start(day_start(settings)),
    };
    Ok((spec, format))
}

/// Whether a built-in recipe reads the first rows of files, as far as their names allow a trial.
fn reads(recipe: &str, files: &[InputFile], settings: &ImportSettings) -> bool {
    let (Some(recipe), Some(first)) = (Recipe::builtin(recipe), files.first()) else { return false };
    if !recipe.format.takes_name(first) {
        return true;
    }
    let settings = ImportSettings { recipe: Some(recipe), on_error: OnError::Stop, threads: 1, ..settings.clone() };
    let Ok(import) = plan("trial", vec![first.clone()], settings, None) else { return false };
    let read = import.run_as_read(&mut |_| Err(SampleEnd::Enough));
    read.is_ok() || matches!(read, Err(SampleEnd::Enough))
}

/// Has times that are written without a zone be of the one that was asked for.
fn set_zone(format: &mut TextFileFormat, settings: &ImportSettings) -> Result<()> {
    if let Some(files_zone) = settings.zone.as_deref().map(files_zone).transpose()? {
        let plans = format.rules.iter_mut().filter_map(|rule| rule.plan.as_mut());
        plans.for_each(|plan| plan.zone.clone_from(&files_zone));
    }
    Ok(())
}

/// The column that is the symbol of a new reference table: the one that is named, else one that is called so, else the first text of the key.
#[must_use]
pub fn reference_symbol(columns: &[(&str, &ColumnType)], reference: &Reference, named: Option<&str>) -> Option<String> {
    let is_text = |column: &str| {
        let same = |(name, kind): &&(&str, &ColumnType)| {
            same_name(name, column) && matches!(kind, ColumnType::Symbol | ColumnType::Text)
        };
        columns.iter().find(same).map(|(name, _)| (*name).to_owned())
    };
    match named {
        Some(name) => Some(name.to_owned()).filter(|name| !name.is_empty()),
        None => {
            let called = SYMBOL_NAMES.iter().find_map(|name| is_text(name));
            let in_key = |symbol: &String| reference.key.iter().any(|name| same_name(name, symbol));
            let of_key = || reference.key.iter().find_map(|name| is_text(name));
            called.clone().filter(in_key).or_else(of_key).or(called)
        }
    }
}

/// Key and effective date as the files spell them.
fn named_as(reference: &Reference, columns: &[(&str, &ColumnType)]) -> Reference {
    let spelled = |name: &String| {
        let matching = columns.iter().find(|(column, _)| same_name(column, name));
        matching.map_or_else(|| name.clone(), |(column, _)| (*column).to_owned())
    };
    Reference { key: reference.key.iter().map(spelled).collect(), effective: reference.effective.as_ref().map(spelled) }
}

/// A reference table has no time column and no dates.
fn refuse_time(settings: &ImportSettings) -> Result<()> {
    let setting = match (&settings.time, &settings.time_zone) {
        (Some(_), _) => "time",
        (_, Some(_)) => "time_zone",
        (None, None) => return Ok(()),
    };
    Err(Error::Setting { setting, reason: "a reference table has no time column: name an effective date".to_owned() })
}

fn time_zone(settings: &ImportSettings, existing: Option<&TableSpec>) -> String {
    let recipe = settings.recipe.as_ref().and_then(|r| r.time_zone.clone());
    let setting = existing.map(|e| e.time_zone.clone()).or_else(|| settings.time_zone.clone());
    setting.or(recipe).unwrap_or_else(|| "UTC".to_owned())
}

/// The start of the trading day of a new table.
fn day_start(settings: &ImportSettings) -> DayStart {
    settings.day_start.or_else(|| settings.recipe.as_ref()?.day_start).unwrap_or_default()
}

fn no_column(setting: &'static str, name: &str) -> Error {
    Error::Setting { setting, reason: format!("the files have no column {name:?}") }
}

/// Columns that an existing table lacks.
fn no_place<N: AsRef<str>>(columns: &[N]) -> String {
    format!("there is no place for its columns {}; splay alter … add-column makes one", listed(columns))
}

/// Columns whose types no setting gives.
fn untyped(columns: &[(&str, &ColumnType)], settings: &ImportSettings) -> Vec<String> {
    let is_typed = |column: &str| {
        let is = |name: &Option<String>| name.as_deref().is_some_and(|name| same_name(name, column));
        settings.types.iter().any(|(name, _)| same_name(name, column)) || is(&settings.time) || is(&settings.symbol)
    };
    columns.iter().map(|(name, _)| *name).filter(|name| !is_typed(name)).map(str::to_owned).collect()
}

fn files_zone(zone: &str) -> Result<LocalZone> {
    LocalZone::parse(zone).ok_or_else(|| Error::Setting {
        setting: "zone",
        reason: format!("{zone:?} is not an IANA time zone or an offset such as -05:00"),
    })
}

fn no_time(columns: &[(&str, &ColumnType)], notes: &[String]) -> String {
    if columns.is_empty() {
        return "it has no rows and no names of columns".to_owned();
    }
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut text = format!(
        "no column looks like a time; name one with --time, of {}, or load a reference table with --key or --reference",
        listed(&names)
    );
    for note in notes {
        text += "; ";
        text += note;
    }
    text
}

fn columns(rules: &[ColumnRule]) -> Vec<(&str, &ColumnType)> {
    rules.iter().filter_map(|r| r.plan.as_ref()).map(|p| (p.name.as_str(), &p.column_type)).collect()
}

fn plan_named<'a>(rules: &'a mut [ColumnRule], name: &str) -> Option<&'a mut ColumnPlan> {
    rules.iter_mut().filter_map(|r| r.plan.as_mut()).find(|p| same_name(&p.name, name))
}

fn retype(plan: &mut ColumnPlan, column_type: &ColumnType, zone: &LocalZone, own_tokens: bool) {
    if plan.column_type == *column_type {
        return;
    }
    match column_type {
        ColumnType::Timestamp => sniff::as_timestamp(plan, zone),
        ColumnType::Time => (plan.column_type, plan.spelling) = (ColumnType::Time, TimeSpelling::ClockText),
        // Its levels stand in several columns.
        ColumnType::Levels { .. } => plan.column_type = column_type.clone(),
        other => plan.column_type = other.clone(),
    }
    if own_tokens {
        set_null_tokens(plan);
    }
}

/// Makes one column of the levels that stand in several ones of a text file.
fn join_levels(format: &mut TextFileFormat, columns: &[ColumnSpec]) -> Result<()> {
    for column in columns.iter().filter(|_| !format.json) {
        if let ColumnType::Levels { size } = column.column_type {
            roles::join_levels(&mut format.rules, &column.name, size)?;
        }
    }
    Ok(())
}

/// Gives the rules the names and types of a table that exists, and returns the names of columns that it doesn't have.
fn fit_rules(rules: &mut [ColumnRule], existing: &TableSpec, zone: &LocalZone) -> Vec<String> {
    let mut extra = Vec::new();
    for plan in rules.iter_mut().filter_map(|r| r.plan.as_mut()) {
        let column = existing.columns.iter().find(|column| same_name(&column.name, &plan.name));
        let (name, column_type) = match column {
            Some(column) => (column.name.as_str(), &column.column_type),
            None if existing.is_virtual_date(&plan.name) => (DATE_COLUMN, &ColumnType::Date),
            None => {
                extra.push(plan.name.clone());
                continue;
            }
        };
        name.clone_into(&mut plan.name);
        plan.is_settled = true;
        retype(plan, column_type, zone, plan.nulls.is_empty());
    }
    extra
}

/// The recipe's format, or a sniffed one.
fn text_format(
    files: &[InputFile],
    kind: DetectedFormat,
    settings: &ImportSettings,
    existing: Option<&TableSpec>,
    notes: &mut Vec<String>,
) -> Result<(TextFileFormat, Option<Sample>)> {
    let writing = writing(settings);
    if let Some(recipe) = &settings.recipe {
        let mut format = recipe.format.clone();
        format.header = settings.header.unwrap_or(format.header);
        format.skip_lines = settings.skip_lines.or(format.skip_lines);
        if let DetectedFormat::Text(delimiter) = kind {
            format.delimiter = delimiter;
        }
        if !settings.date_formats.is_empty() || settings.numbers.is_some() {
            let (setting, key) = match settings.numbers {
                None => ("date_formats", "formats"),
                Some(_) => ("numbers", "scale and null_tokens"),
            };
            return Err(Error::Setting {
                setting,
                reason: format!("a recipe says itself how values are written, by {key}"),
            });
        }
        if recipe.others == OtherColumns::Sniff {
            let (sample, _) = take_sample(files, kind, (Some(format.header), format.skip_lines), &writing)?;
            let has_rule = |name: &str| format.rules.iter().any(|r| r.names.iter().any(|n| same_name(n, name)));
            let mut others: Vec<ColumnRule> =
                sample.rules().into_iter().filter(|r| r.names.first().is_some_and(|n| !has_rule(n))).collect();
            for plan in others.iter_mut().filter_map(|r| r.plan.as_mut()) {
                plan.name = plan.name.trim().replace(' ', "_");
            }
            format.rules.extend(others);
        }
        return Ok((format, None));
    }
    let (sample, header) = take_sample(files, kind, (settings.header, settings.skip_lines), &writing)?;
    if !writing.formats.is_empty() && !sample.uses_formats() {
        let reason = format!("no column's values are all written as {}", writing.formats.join(" or "));
        return Err(Error::Setting { setting: "date_formats", reason });
    }
    notes.extend(sample.hints(&|name| is_declared_text(name, settings, existing)));
    let mut rules = sample.rules();
    let (json, delimiter) = match kind {
        DetectedFormat::Text(delimiter) => (false, delimiter),
        _ => (true, b','),
    };
    if json {
        let typed = settings.types.iter().map(|(name, column_type)| ColumnSpec::new(name, column_type.clone()));
        add_later(&mut rules, &typed.collect::<Vec<_>>());
    }
    if let Some(existing) = existing.filter(|_| !header) {
        for (rule, column) in rules.iter_mut().zip(existing.shown_columns()) {
            rule.names = vec![column.name.clone()];
            if let Some(plan) = &mut rule.plan {
                plan.name.clone_from(&column.name);
            }
        }
    }
    let format = TextFileFormat {
        json,
        delimiter,
        header,
        skip_lines: settings.skip_lines,
        rules,
        skip_others: false,
        date: DateSource::None,
        templates: Vec::new(),
        zero_groups: Vec::new(),
        trailer: None,
    };
    Ok((format, Some(sample)))
}

/// How values are written, as far as the settings say it.
fn writing(settings: &ImportSettings) -> ValueFormats {
    ValueFormats {
        formats: settings.date_formats.clone(),
        numbers: settings.numbers,
        nulls: settings.null_texts.clone(),
    }
}

/// Whether a setting or the table says that a column holds texts.
fn is_declared_text(name: &str, settings: &ImportSettings, existing: Option<&TableSpec>) -> bool {
    let is_text = |column_type: &ColumnType| matches!(column_type, ColumnType::Text | ColumnType::Symbol);
    let by_setting = settings.types.iter().any(|(typed, column_type)| same_name(typed, name) && is_text(column_type));
    let is_symbol = settings.symbol.as_deref().is_some_and(|symbol| same_name(symbol, name));
    let has = |column: &ColumnSpec| same_name(&column.name, name) && is_text(&column.column_type);
    by_setting || is_symbol || existing.is_some_and(|table| table.columns.iter().any(has))
}

/// Adds columns that the first rows don't have: later files, or later objects, may have them.
fn add_later(rules: &mut Vec<ColumnRule>, columns: &[ColumnSpec]) {
    for ColumnSpec { name, column_type, .. } in columns {
        if plan_named(rules, name).is_some() {
            continue;
        }
        let mut plan = ColumnPlan::new(name, column_type.clone());
        plan.spelling = if *column_type == ColumnType::Time { TimeSpelling::ClockText } else { TimeSpelling::Any };
        set_null_tokens(&mut plan);
        let names = vec![name.clone()];
        rules.push(ColumnRule { names, plan: Some(plan), optional: true, value: None, level: None });
    }
}

/// The first rows of the first files, and whether they begin with a header. The caller may say that, and how many lines stand before it.
fn take_sample(
    files: &[InputFile],
    kind: DetectedFormat,
    (header, skip_lines): (Option<bool>, Option<u64>),
    writing: &ValueFormats,
) -> Result<(Sample, bool)> {
    let mut sample = Sample::new(writing.clone(), skip_lines);
    let mut has_header = header;
    for (index, file) in files.iter().take(SAMPLE_FILES_MAX).enumerate() {
        let mut bytes = vec![0u8; SAMPLE_BYTES];
        let got = DecompressedStream::open(file, Arc::new(AtomicU64::new(0)))?.read_full(&mut bytes)?;
        bytes.truncate(got);
        if is_utf16(&bytes) {
            return Err(Error::unsupported(&file.name, "is UTF-16 text; convert it to UTF-8"));
        }
        let DetectedFormat::Text(delimiter) = kind else {
            json::add_sample(&mut sample, &bytes, SAMPLE_ROWS * (index + 1));
            has_header = Some(true);
            if sample.rows > 0 && index >= 2 {
                break;
            }
            continue;
        };
        if got == SAMPLE_BYTES {
            bytes.truncate(match crate::csv::fields::last_record_end(&bytes, delimiter) {
                0 => got,
                end => end,
            });
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let is_sound = sample.fault.is_none();
        has_header = Some(sample.add(&bytes, delimiter, has_header));
        if got == SAMPLE_BYTES && sample.rows == 0 {
            sample.fault.get_or_insert_with(|| {
                format!("no row ends within the first {SAMPLE_BYTES} bytes; name the time with --time")
            });
        }
        if is_sound && index > 0 {
            sample.fault = sample.fault.take().map(|fault| format!("{} {fault}", file.name));
        }
        if sample.rows > 0 && index >= 2 {
            break;
        }
    }
    Ok((sample, has_header.unwrap_or(true)))
}

/// The columns of a Parquet or Arrow file that are the time together.
fn date_and_clock(
    file: &InputFile,
    kind: DetectedFormat,
    settings: &ImportSettings,
    existing: Option<&TableSpec>,
    sample: &Sample,
) -> Result<Option<DateAndClock>> {
    if !has_date_and_clock(kind, settings, existing) {
        return Ok(None);
    }
    let schema = guarded(file, || crate::columnar::schema(file, kind))?;
    let is_typed = |name: &str| settings.types.iter().any(|(typed, _)| same_name(typed, name));
    Ok(DateAndClock::of_sample(&schema, settings.time.as_deref(), existing, &is_typed, sample))
}

/// Whether a date and a time of day may be the time of a file.
fn has_date_and_clock(kind: DetectedFormat, settings: &ImportSettings, existing: Option<&TableSpec>) -> bool {
    let is_columnar = matches!(kind, DetectedFormat::Parquet | DetectedFormat::Arrow);
    is_columnar && settings.reference.is_none() && existing.is_none_or(|table| table.reference.is_none())
}

/// A sample of the texts and numbers of a Parquet or Arrow file in columns that may be dates or times by their names.
fn sample_typed(
    file: &InputFile,
    kind: DetectedFormat,
    settings: &ImportSettings,
    existing: Option<&TableSpec>,
) -> Result<Sample> {
    if !has_date_and_clock(kind, settings, existing) {
        return Ok(Sample::new(writing(settings), None));
    }
    let time = existing.map(|table| table.time.as_str()).or(settings.time.as_deref());
    let is_wanted = |name: &str, own: &ColumnType| {
        may_hold_digits(own) && (is_clock_name(name) || is_date_name(name) || roles::may_be_digits_of_clock(name, time))
    };
    typed_sample(file, kind, writing(settings), &is_wanted)
}

fn plan_binary(
    table: &str,
    first: &InputFile,
    kind: DetectedFormat,
    settings: &ImportSettings,
    existing: Option<&TableSpec>,
    (clock, sample, notes): (Option<&DateAndClock>, &Sample, &mut Vec<String>),
) -> Result<TableSpec> {
    let is_columnar = matches!(kind, DetectedFormat::Parquet | DetectedFormat::Arrow);
    for (setting, is_set) in [
        ("date_formats", !settings.date_formats.is_empty() && !is_columnar),
        ("numbers", settings.numbers.is_some()),
        ("null", !settings.null_texts.is_empty()),
        ("zone", settings.zone.is_some() && matches!(kind, DetectedFormat::Dbn | DetectedFormat::Itch)),
    ] {
        if is_set {
            let reason = format!("{} needs none: its values have types", first.name);
            return Err(Error::Setting { setting, reason });
        }
    }
    let typed = |name: &str| settings.types.iter().find(|(typed, _)| same_name(typed, name));
    let type_setting = |name: &str| match existing {
        // The names count alone: the types are those of the table.
        Some(_) => Some(ColumnType::Text),
        None => typed(name).map(|(_, column_type)| column_type.clone()),
    };
    let (mut columns, time) = natural_columns(first, kind, &type_setting)?;
    let join = |columns: &mut Vec<ColumnSpec>| clock.iter().for_each(|clock| clock.join_columns(columns));
    let misfit = |reason: String| Error::Misfit { file: first.name.clone(), table: table.to_owned(), reason };
    if let Some(existing) = existing {
        join(&mut columns);
        let place = |c: &&ColumnSpec| existing.position(&c.name).is_none() && !existing.is_virtual_date(&c.name);
        let extra: Vec<&str> = columns.iter().filter(place).map(|c| c.name.as_str()).collect();
        if !extra.is_empty() {
            return Err(misfit(no_place(&extra)));
        }
        return Ok(existing.clone());
    }
    if is_columnar {
        find_symbols(&mut columns, first, kind, &|name| typed(name).is_some());
    }
    join(&mut columns);
    for (name, column_type) in &settings.types {
        let column = columns.iter_mut().find(|c| same_name(&c.name, name)).ok_or_else(|| no_column("types", name))?;
        column.column_type = column_type.clone();
    }
    let listed: Vec<(&str, &ColumnType)> = columns.iter().map(|c| (c.name.as_str(), &c.column_type)).collect();
    if let Some(reference) = &settings.reference {
        refuse_time(settings)?;
        let symbol = reference_symbol(&listed, reference, settings.symbol.as_deref());
        let reference = named_as(reference, &listed);
        if let Some(name) = &symbol {
            let column = columns.iter_mut().find(|c| same_name(&c.name, name));
            column.ok_or_else(|| no_column("symbol", name))?.column_type = ColumnType::Symbol;
        }
        return Ok(TableSpec { symbol, ..TableSpec::of_reference(table, columns, reference) });
    }
    let time = settings.time.clone().or(time).or_else(|| sniff::time_column(&listed).map(str::to_owned));
    let apart = match clock {
        Some(_) => TimeApart::default(),
        None => TimeApart::of(&listed, sample, &|name| typed(name).is_some()),
    };
    let time = time.ok_or_else(|| misfit(no_time(&listed, &apart.remarks())))?;
    notes.extend(apart.check(&time, settings.time.is_some()).map_err(&misfit)?);
    let named = |n: &&str| {
        listed.iter().find(|(name, t)| same_name(name, n) && matches!(t, ColumnType::Symbol | ColumnType::Text))
    };
    let symbol = match &settings.symbol {
        Some(name) => Some(name.clone()).filter(|n| !n.is_empty()),
        None => SYMBOL_NAMES.iter().find_map(named).map(|(name, _)| (*name).to_owned()),
    };
    for (role, name, column_type) in
        [("time", Some(&time), ColumnType::Timestamp), ("symbol", symbol.as_ref(), ColumnType::Symbol)]
    {
        let Some(name) = name else { continue };
        let column = columns.iter_mut().find(|c| same_name(&c.name, name)).ok_or_else(|| no_column(role, name))?;
        column.column_type = column_type;
    }
    let time_zone = match kind {
        DetectedFormat::Itch => settings.time_zone.as_deref().unwrap_or(crate::itch::TIME_ZONE).to_owned(),
        _ => time_zone(settings, None),
    };
    Ok(TableSpec::new(table, columns, time, symbol.as_deref())
        .with_time_zone(time_zone)
        .with_day_start(day_start(settings)))
}

/// Makes symbols of text columns with few different values in a sample of a file's rows. Errors of the file are reported when it is read.
fn find_symbols(columns: &mut [ColumnSpec], file: &InputFile, kind: DetectedFormat, is_typed: &dyn Fn(&str) -> bool) {
    let places = columns.iter().enumerate();
    let texts = places.filter(|(_, column)| column.column_type == ColumnType::Text && !is_typed(&column.name));
    let texts: Vec<usize> = texts.map(|(place, _)| place).collect();
    if texts.is_empty() {
        return;
    }
    let mut samples: Vec<TextSample> = texts.iter().map(|_| TextSample::default()).collect();
    let taken = guarded(file, || {
        crate::columnar::sample(file, kind, &texts, &mut |number, values| samples[number].add(values))
    });
    if taken.is_err() {
        return;
    }
    for (place, sample) in texts.iter().zip(samples) {
        if sample.is_of_symbols() {
            columns[*place].column_type = ColumnType::Symbol;
        }
    }
}
