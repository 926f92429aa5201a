//! `splay tables`, `splay describe`, `splay recipes`.

use anyhow::{Result, anyhow};
use splay_import::Recipe;
use splay_store::TableSnapshot;

use super::place::open_to_read;
use crate::args::{RecipesArguments, TableArguments, TablesArguments};
use crate::output;
use crate::print::say;
use crate::size::{Human, Thousands};

pub fn tables(arguments: &TablesArguments) -> Result<()> {
    let database = open_to_read(&arguments.database, &arguments.journal)?;
    let mut rows = Vec::new();
    for name in database.tables()? {
        let snapshot = match database.table(&name).and_then(|table| table.snapshot()) {
            Ok(snapshot) => snapshot,
            Err(error) if error.is_damage() => {
                let unknown = [String::new(), String::new(), String::new()];
                rows.push([vec![name, "damaged: see splay verify".to_owned()], unknown.to_vec()].concat());
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        rows.push(vec![
            name,
            Thousands(snapshot.rows()).to_string(),
            snapshot.partitions().len().to_string(),
            dates(&snapshot),
            Human(snapshot.bytes()).to_string(),
        ]);
    }
    say!("{}", output::columns(&["table", "rows", "partitions", "dates", "size"], &rows))?;
    Ok(())
}

pub fn describe(arguments: &TableArguments) -> Result<()> {
    let snapshot = open_to_read(&arguments.database, &arguments.journal)?.table(&arguments.table)?.snapshot()?;
    let spec = snapshot.spec();
    say!("table      {}", spec.name)?;
    say!("rows       {}", Thousands(snapshot.rows()))?;
    say!("partitions {} ({})", snapshot.partitions().len(), dates(&snapshot))?;
    say!("segments   {}", snapshot.partitions().iter().map(|p| p.segments.len()).sum::<usize>())?;
    say!("size       {}", Human(snapshot.bytes()))?;
    say!("order      {}{}, arrival", spec.symbol.as_ref().map_or(String::new(), |s| format!("{s}, ")), spec.time)?;
    say!("dates in   {}", spec.time_zone)?;
    say!("commits    {}", snapshot.epoch())?;
    say!("sources    {}", snapshot.sources().count())?;
    say!("")?;
    let role = |name: &str| match (name == spec.time, Some(name) == spec.symbol.as_deref()) {
        (true, _) => "time",
        (_, true) => "symbol",
        _ => "",
    };
    let rows: Vec<Vec<String>> = spec
        .columns
        .iter()
        .map(|column| vec![column.name.clone(), column.column_type.to_string(), role(&column.name).to_owned()])
        .collect();
    say!("{}", output::columns(&["column", "type", "role"], &rows))?;
    Ok(())
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

fn dates(snapshot: &TableSnapshot) -> String {
    match (snapshot.partitions().first(), snapshot.partitions().last()) {
        (Some(first), Some(last)) => format!("{} to {}", splay_store::date(first.date), splay_store::date(last.date)),
        _ => "none".to_owned(),
    }
}
