//! `splay tables`, `splay describe`, `splay recipes`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};
use splay_import::Recipe;
use splay_store::{Error, Period, TableSnapshot, TableSpec, Tier};

use super::place::open_to_read;
use super::views;
use crate::args::{DescribeArguments, RecipesArguments, TablesArguments};
use crate::output;
use crate::print::say;
use crate::size::{Counted, HumanBytes, Thousands};

/// Where it is listed what each is, if there are views.
const KIND_AT: usize = 1;

pub fn tables(arguments: &TablesArguments) -> Result<()> {
    let database = open_to_read(&arguments.database, &arguments.journal)?;
    // A damaged list of views is reported after the tables.
    let views = database.views();
    let listed = views.as_deref().unwrap_or_default();
    let (mut rows, mut kinds) = (Vec::new(), Vec::new());
    for name in database.tables()? {
        let snapshot = match database.table(&name).and_then(|table| table.snapshot()) {
            Ok(snapshot) => snapshot,
            Err(error) if error.is_damage() => {
                let unknown = [String::new(), String::new(), String::new()];
                rows.push([vec![name, "damaged: see splay verify".to_owned()], unknown.to_vec()].concat());
                kinds.push("table".to_owned());
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        kinds.push(views::kind_of_table(snapshot.spec(), listed));
        rows.push(vec![
            name,
            Thousands(snapshot.rows()).to_string(),
            snapshot.partitions().len().to_string(),
            dates(&snapshot),
            HumanBytes(snapshot.bytes()).to_string(),
        ]);
    }
    let mut titles = vec!["table", "rows", "partitions", "dates", "size"];
    if !listed.is_empty() {
        for view in listed {
            rows.push([vec![view.name.clone()], vec![String::new(); titles.len() - 1]].concat());
            kinds.push(views::kind(view).to_owned());
        }
        titles.insert(KIND_AT, "kind");
        rows.iter_mut().zip(kinds).for_each(|(row, kind)| row.insert(KIND_AT, kind));
    }
    say!("{}", output::columns(&titles, &rows))?;
    views?;
    Ok(())
}

pub fn describe(arguments: &DescribeArguments) -> Result<()> {
    let place = &arguments.table;
    let database = open_to_read(&place.database, &place.journal)?;
    let table = match (database.table(&place.table), database.view(&place.table)) {
        (Err(Error::NoSuchTable { .. }), Ok(Some(view))) => {
            return views::describe(&database, &view, arguments.storage);
        }
        // The name may be that of a view whose list is damaged: that error is reported.
        (Err(Error::NoSuchTable { .. }), Err(damage)) => return Err(damage.into()),
        (result, _) => result?,
    };
    let snapshot = table.snapshot()?;
    let spec = snapshot.spec();
    say!("table      {}", spec.name)?;
    say!("rows       {}", Thousands(snapshot.rows()))?;
    let of = if spec.partition.is_day() { String::new() } else { format!(" by {}", spec.partition) };
    say!("partitions {}{of} ({})", snapshot.partitions().len(), dates(&snapshot))?;
    say!("segments   {}", snapshot.partitions().iter().map(|p| p.segments.len()).sum::<usize>())?;
    say!("size       {}", HumanBytes(snapshot.bytes()))?;
    for (tier, (dates, bytes)) in tiers(&snapshot) {
        say!("           {} in {} {}", HumanBytes(bytes), Counted(dates as u64, "date"), tier.name())?;
    }
    for (key, dates) in keys(&snapshot) {
        say!("encrypted  {} under {key}", Counted(dates as u64, "date"))?;
    }
    for rule in &spec.tiers {
        say!("tier       {} from {} days on", rule.tier.name(), rule.after)?;
    }
    if let Some(form) = spec.publish {
        say!("published  as {form}")?;
    }
    say!("order      {}", order(spec))?;
    match &spec.reference {
        None => say!("dates in   {}", spec.dates_in())?,
        Some(reference) => {
            say!("kind       reference table")?;
            say!("key        {}", if reference.key.is_empty() { "none".to_owned() } else { reference.key.join(", ") })?;
        }
    }
    if **snapshot.folder() != *spec.name {
        say!("folder     {}", snapshot.folder())?;
    }
    say!("commits    {}", snapshot.epoch())?;
    say!("sources    {}", snapshot.sources().count())?;
    say!("")?;
    let rows: Vec<Vec<String>> = spec
        .shown_columns()
        .iter()
        .map(|column| vec![column.name.clone(), column.column_type.to_string(), roles(spec, &column.name)])
        .collect();
    say!("{}", output::columns(&["column", "type", "role"], &rows))?;
    if arguments.storage {
        say!("")?;
        say!("{}", output::columns(&["tier", "column", "size", "factor", "kept as"], &storage(&snapshot)?))?;
    }
    Ok(())
}

/// What rows are ordered by.
fn order(spec: &TableSpec) -> String {
    let time = if spec.has_hidden_time() { effective(spec) } else { Some(spec.time.as_str()) };
    let mut order: Vec<&str> = spec.symbol.as_deref().into_iter().chain(time).collect();
    let key = spec.reference.iter().flat_map(|reference| &reference.key).map(String::as_str);
    let others: Vec<&str> = key.filter(|name| !order.iter().any(|column| column.eq_ignore_ascii_case(name))).collect();
    order.extend(others);
    if spec.key_positions().is_empty() {
        order.push("arrival");
    }
    order.join(", ")
}

fn effective(spec: &TableSpec) -> Option<&str> {
    spec.reference.as_ref().and_then(|reference| reference.effective.as_deref())
}

/// What a column is to its table.
fn roles(spec: &TableSpec, name: &str) -> String {
    let is = |role: Option<&str>| role.is_some_and(|role| role.eq_ignore_ascii_case(name));
    let in_key = spec.reference.as_ref().is_some_and(|reference| reference.key.iter().any(|key| is(Some(key))));
    let roles = [
        ("symbol", is(spec.symbol.as_deref())),
        ("key", in_key),
        ("effective", is(effective(spec))),
        ("time", spec.reference.is_none() && is(Some(&spec.time))),
    ];
    roles.into_iter().filter(|(_, has)| *has).map(|(role, _)| role).collect::<Vec<_>>().join(", ")
}

/// Dates and bytes of segments and indexes in each tier that there is.
fn tiers(snapshot: &TableSnapshot) -> BTreeMap<Tier, (usize, u64)> {
    let mut by_tier: BTreeMap<Tier, (usize, u64)> = BTreeMap::new();
    for partition in snapshot.partitions() {
        let mut seen = Vec::new();
        for entry in partition.segments.iter().map(|segment| segment.entry()).filter(|entry| entry.index_bytes > 0) {
            let (dates, bytes) = by_tier.entry(entry.tier).or_default();
            *dates += usize::from(!seen.contains(&entry.tier));
            *bytes += entry.bytes + entry.index_bytes;
            seen.push(entry.tier);
        }
    }
    by_tier
}

/// In how many dates there are segments under each key.
fn keys(snapshot: &TableSnapshot) -> BTreeMap<&str, usize> {
    let mut by_key = BTreeMap::new();
    for partition in snapshot.partitions() {
        let keys = partition.segments.iter().filter_map(|segment| segment.entry().key.as_deref());
        for key in keys.collect::<BTreeSet<_>>() {
            *by_key.entry(key).or_default() += 1;
        }
    }
    by_key
}

/// A line for each tier and column: what it takes, how many times as much it would in memory, and how it is encoded.
fn storage(snapshot: &TableSnapshot) -> Result<Vec<Vec<String>>> {
    let spec = snapshot.spec();
    let position = |column: &str| spec.columns.iter().position(|other| other.name == column);
    let mut columns: BTreeMap<(Tier, Option<usize>), (u64, Option<u64>, BTreeSet<String>)> = BTreeMap::new();
    for segment in snapshot.partitions().iter().flat_map(|partition| partition.segments.iter()) {
        // Rows in memory are in no tier.
        if segment.entry().index_bytes == 0 {
            continue;
        }
        for column in segment.storage(spec)? {
            let key = (segment.entry().tier, position(&column.column));
            let (bytes, plain, encodings) = columns.entry(key).or_insert((0, Some(0), BTreeSet::new()));
            *bytes += column.bytes;
            *plain = plain.zip(column.plain_bytes).map(|(plain, more)| plain + more);
            encodings.insert(column.encoding);
        }
    }
    let line =
        |((tier, column), (bytes, plain, encodings)): ((Tier, Option<usize>), (u64, Option<u64>, BTreeSet<String>))| {
            let name = column.map_or("", |column| spec.columns[column].name.as_str());
            let factor = plain
                .filter(|_| bytes > 0)
                .map_or(String::new(), |plain| format!("{:.2}", plain as f64 / bytes as f64));
            let encodings = encodings.into_iter().collect::<Vec<_>>().join("; ");
            vec![tier.name().to_owned(), name.to_owned(), HumanBytes(bytes).to_string(), factor, encodings]
        };
    Ok(columns.into_iter().map(line).collect())
}

pub fn recipes(arguments: &RecipesArguments) -> Result<()> {
    match &arguments.name {
        Some(name) => {
            let text = Recipe::builtin_text(name).ok_or_else(|| anyhow!("no built-in recipe {name:?}"))?;
            say!("{}", text.trim_end())?;
        }
        None => {
            let recipes = Recipe::names().into_iter().filter_map(|name| Some((name, Recipe::builtin(name)?)));
            let rows: Vec<Vec<String>> =
                recipes.map(|(name, recipe)| vec![name.to_owned(), recipe.description().to_owned()]).collect();
            say!("{}", output::columns(&["recipe", "what it reads"], &rows))?;
        }
    }
    Ok(())
}

/// The first and the last date of the rows: those of partitions that span a date, else those of the times at the ends.
fn dates(snapshot: &TableSnapshot) -> String {
    let spec = snapshot.spec();
    let (Some(first), Some(last)) = (snapshot.partitions().first(), snapshot.partitions().last()) else {
        return "none".to_owned();
    };
    if spec.reference.is_some() {
        return "none".to_owned();
    }
    let times = (
        first.segments.iter().map(|segment| segment.entry().time_min).min(),
        last.segments.iter().map(|segment| segment.entry().time_max).max(),
    );
    let (first, last) = match (times, spec.dates()) {
        ((Some(earliest), Some(latest)), Ok(mut dates)) if spec.partition != Period::Day => {
            (dates.of(earliest), dates.of(latest))
        }
        _ => (first.date, last.date),
    };
    format!("{} to {}", splay_store::date(first), splay_store::date(last))
}
