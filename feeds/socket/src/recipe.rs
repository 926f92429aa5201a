//! Finds the table of a message, and makes rows of it.
//!
//! A message is scanned once for the values that patterns compare ([`Router`]), and once by the recipe of its table ([`Recipe`]), which finds the
//! row or the rows in it and their values. No tree is built: values stay as they are written until their column converts them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use splay_records::columns::{Cell, Column, Rows, Value};
use splay_records::decode::{Decode, DecodeFailure, Record};
use splay_records::fields::Fields;
use splay_records::json;

use crate::gap_detector::GapDetector;
use crate::settings::{FeedSettings, Pattern, Source, TableSettings};

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Rows of the table at this place of the settings.
    Table(usize),
    /// No rows, as the settings say.
    Ignored,
    /// The venue refuses a subscription.
    Failed,
    /// A message that the settings don't describe.
    Unknown,
}

/// Values that a message must have, by the slots of their paths.
#[derive(Debug, Default)]
struct CompiledPattern {
    values: Vec<(Option<usize>, Vec<String>)>,
}

impl CompiledPattern {
    fn new(pattern: &Pattern, paths: &mut PathSlots) -> Result<CompiledPattern, String> {
        let value = |(path, texts): (&String, &crate::settings::Texts)| {
            let slot = if path == "$key" { None } else { Some(paths.add(path)?) };
            Ok((slot, texts.0.clone()))
        };
        Ok(CompiledPattern { values: pattern.iter().map(value).collect::<Result<_, String>>()? })
    }

    fn fits(&self, slots: &[Option<&str>], key: &str) -> bool {
        self.values.iter().all(|(slot, texts)| {
            let text = match slot {
                None => Some(Cow::Borrowed(key)),
                Some(slot) => slots[*slot].and_then(text),
            };
            text.is_some_and(|text| texts.iter().any(|pattern| is_like(&text, pattern)))
        })
    }
}

/// A value as the text that patterns are compared with.
fn text(raw: &str) -> Option<Cow<'_, str>> {
    match json::cell(raw).ok()? {
        Cell::Text(text) => Some(text),
        _ => Some(Cow::Borrowed(raw)),
    }
}

/// Whether a text matches a pattern in which `*` stands for any characters. Each part between two `*` is searched once, after the one before,
/// so the time is at most the product of the lengths.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return text == pattern };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or("");
    for part in parts {
        let Some(place) = text.find(part) else { return false };
        text = &text[place + part.len()..];
    }
    text.ends_with(last)
}

/// Paths, each with a slot for its value.
#[derive(Debug, Default)]
struct PathSlots {
    fields: Fields,
    slots: usize,
}

impl PathSlots {
    fn add(&mut self, path: &str) -> Result<usize, String> {
        self.fields.add(path, self.slots)?;
        self.slots += 1;
        Ok(self.slots - 1)
    }

    /// The values at the paths.
    fn values<'a>(&self, bytes: &'a [u8]) -> Result<Vec<Option<&'a str>>, String> {
        let mut slots = vec![None; self.slots];
        json::values(&self.fields, bytes, |slot, raw| slots[slot] = Some(raw))?;
        Ok(slots)
    }
}

/// Finds the kind of a feed's messages.
#[derive(Debug, Default)]
pub struct Router {
    paths: PathSlots,
    fail: Vec<CompiledPattern>,
    ignore: Vec<CompiledPattern>,
    tables: Vec<CompiledPattern>,
}

impl Router {
    /// The router of a feed's settings.
    ///
    /// # Errors
    /// Paths that are none.
    pub fn new(feed: &FeedSettings) -> Result<Router, String> {
        let mut router = Router::default();
        let paths = &mut router.paths;
        router.fail = feed.fail.iter().map(|pattern| CompiledPattern::new(pattern, paths)).collect::<Result<_, _>>()?;
        router.ignore =
            feed.ignore.iter().map(|pattern| CompiledPattern::new(pattern, paths)).collect::<Result<_, _>>()?;
        router.tables =
            feed.tables.iter().map(|table| CompiledPattern::new(&table.when, paths)).collect::<Result<_, _>>()?;
        Ok(router)
    }

    /// The kind of a message.
    ///
    /// # Errors
    /// The reason why it is no JSON.
    pub fn route(&self, key: Option<&[u8]>, payload: &[u8]) -> Result<Route, String> {
        let slots = self.paths.values(payload)?;
        let key = key.map_or(Cow::Borrowed(""), String::from_utf8_lossy);
        let is_any = |all: &[CompiledPattern]| all.iter().any(|pattern| pattern.fits(&slots, &key));
        if is_any(&self.fail) {
            return Ok(Route::Failed);
        }
        if is_any(&self.ignore) {
            return Ok(Route::Ignored);
        }
        let place = self.tables.iter().position(|pattern| pattern.fits(&slots, &key));
        Ok(place.map_or(Route::Unknown, Route::Table))
    }
}

/// The source of a column's cells.
#[derive(Debug, Clone)]
enum CellSource {
    Row(usize),
    Message(usize),
    Received,
    Key,
    Constant(String),
}

#[derive(Debug)]
struct RecipeColumn {
    column: Column,
    from: CellSource,
    /// Texts that stand for others.
    values: Option<BTreeMap<String, String>>,
}

/// The way from messages to rows of a table.
#[derive(Debug)]
pub struct Recipe {
    message: PathSlots,
    /// The slot of the row or the rows, if the message isn't the row.
    rows: Option<usize>,
    row: PathSlots,
    columns: Vec<RecipeColumn>,
    /// Slots of the venue's number, and of what numbers are counted by.
    sequence: Option<(usize, Vec<usize>)>,
}

impl Recipe {
    /// The recipe of settings for a table's columns.
    ///
    /// # Errors
    /// Columns that the table lacks, a time that comes from nowhere, paths that are none.
    pub fn new(feed: &str, settings: &TableSettings, table: &[Column]) -> Result<Recipe, String> {
        let (mut message, mut row) = (PathSlots::default(), PathSlots::default());
        let rows = settings.rows.as_ref().map(|path| message.add(path)).transpose()?;
        let mut columns = Vec::new();
        for (name, source) in &settings.columns {
            let from = match source {
                Source::Row(path) => CellSource::Row(row.add(path)?),
                Source::Message(path) => CellSource::Message(message.add(path)?),
                Source::Received => CellSource::Received,
                Source::Feed => CellSource::Constant(feed.to_owned()),
                Source::Key => CellSource::Key,
            };
            columns.push(RecipeColumn {
                values: settings.values.get(name).cloned(),
                ..recipe_column(settings, table, name, from)?
            });
        }
        for (name, value) in &settings.constants {
            columns.push(recipe_column(settings, table, name, CellSource::Constant(value.clone()))?);
        }
        if !columns.iter().any(|recipe_column| recipe_column.column.is_time) {
            let time = table.iter().find(|column| column.is_time).map_or("", |column| column.name.as_str());
            return Err(format!("nothing is given for the time {time:?} of table {:?}", settings.name));
        }
        let sequence = settings.sequence.as_ref().map(|sequence| {
            let by = sequence.by.iter().map(|path| row.add(path)).collect::<Result<Vec<_>, _>>()?;
            Ok::<_, String>((row.add(&sequence.field)?, by))
        });
        Ok(Recipe { message, rows, row, columns, sequence: sequence.transpose()? })
    }

    /// The rows of a message, each with its values by their slots, and the values of the message.
    fn values_of<'a>(&self, payload: &'a [u8]) -> Result<(Vec<Vec<Option<&'a str>>>, Vec<Option<&'a str>>), String> {
        let message = self.message.values(payload)?;
        let Some(slot) = self.rows else { return Ok((vec![self.row.values(payload)?], message)) };
        let raw = message[slot].ok_or("the message has no rows where they should be")?;
        let rows = match raw.as_bytes().first() {
            Some(b'{') => vec![raw],
            Some(b'[') => {
                let items = json::items(raw)?;
                // An array of values is a row, one of arrays or objects are rows.
                if items.first().is_some_and(|item| !item.starts_with(['{', '['])) { vec![raw] } else { items }
            }
            _ => return Err("where rows should be is neither an object nor an array".to_owned()),
        };
        let rows = rows.into_iter().map(|row| self.row.values(row.as_bytes())).collect::<Result<_, _>>()?;
        Ok((rows, message))
    }

    fn cell<'a>(
        &'a self,
        recipe_column: &'a RecipeColumn,
        record: &Record<'a>,
        row: &[Option<&'a str>],
        message: &[Option<&'a str>],
    ) -> Result<Cell<'a>, String> {
        let of_raw = |raw: Option<&'a str>| raw.map_or(Ok(Cell::Null), json::cell).map_err(|error| error.to_string());
        let cell = match &recipe_column.from {
            CellSource::Row(slot) => of_raw(row[*slot])?,
            CellSource::Message(slot) => of_raw(message[*slot])?,
            CellSource::Received => record.time_ns.map_or(Cell::Null, Cell::Instant),
            CellSource::Constant(text) => Cell::Text(Cow::Borrowed(text)),
            CellSource::Key => match record.key.map(std::str::from_utf8) {
                None => Cell::Null,
                Some(key) => Cell::Text(Cow::Borrowed(key.map_err(|_| "the key is no text")?)),
            },
        };
        let (Some(values), false) = (&recipe_column.values, cell == Cell::Null) else { return Ok(cell) };
        let text = match &cell {
            Cell::Text(text) => text.clone(),
            Cell::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
            Cell::Number(text) => Cow::Borrowed(*text),
            _ => Cow::Borrowed(""),
        };
        match values.get(text.as_ref()).or_else(|| values.get("*")) {
            Some(text) => Ok(Cell::Text(Cow::Borrowed(text))),
            None => Err(format!("{}: values has none for {text:?}", recipe_column.column.name)),
        }
    }
}

fn recipe_column(
    settings: &TableSettings,
    table: &[Column],
    name: &str,
    from: CellSource,
) -> Result<RecipeColumn, String> {
    let Some(column) = table.iter().find(|column| column.name.eq_ignore_ascii_case(name)) else {
        let names: Vec<&str> = table.iter().map(|column| column.name.as_str()).collect();
        return Err(format!("table {:?} has no column {name:?}; it has {}", settings.name, names.join(", ")));
    };
    let unit = settings.units.get(name).copied().or(settings.time_unit);
    Ok(RecipeColumn { column: Column { unit, ..column.clone() }, from, values: None })
}

/// Makes rows of a feed's messages for one table.
#[derive(Debug)]
pub struct Decoder {
    recipe: Recipe,
    rows: Rows,
    gaps: Arc<Mutex<GapDetector>>,
}

impl Decoder {
    /// A decoder by a recipe, which gives the venue's numbers to `gaps`.
    #[must_use]
    pub fn new(recipe: Recipe, gaps: Arc<Mutex<GapDetector>>) -> Decoder {
        let columns: Vec<Column> = recipe.columns.iter().map(|recipe_column| recipe_column.column.clone()).collect();
        Decoder { rows: Rows::new(&columns), recipe, gaps }
    }

    /// Checks the venue's numbers of a record, once.
    fn check_gaps(&self, offset: u64, rows: &[Vec<Option<&str>>]) -> Result<(), String> {
        let Some((slot, by)) = &self.recipe.sequence else { return Ok(()) };
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        if !gaps.begin_record(offset) {
            return Ok(());
        }
        for row in rows {
            let Some(raw) = row[*slot].filter(|raw| *raw != "null") else { continue };
            let number = raw.trim_matches('"').parse().map_err(|_| format!("the venue's number is {raw:.40}"))?;
            let by: Vec<&str> = by.iter().map(|slot| row[*slot].unwrap_or("").trim_matches('"')).collect();
            gaps.check(&by.join(" "), number);
        }
        Ok(())
    }
}

impl Decode for Decoder {
    fn add(&mut self, record: &Record<'_>) -> Result<usize, DecodeFailure> {
        let payload = record.payload.unwrap_or_default();
        let (rows, message) = self.recipe.values_of(payload)?;
        self.check_gaps(record.offset, &rows)?;
        let mut all: Vec<Vec<Value<'_>>> = Vec::with_capacity(rows.len());
        for row in &rows {
            let value = |recipe_column| {
                let recipe_column: &RecipeColumn = recipe_column;
                recipe_column.column.value(self.recipe.cell(recipe_column, record, row, &message)?)
            };
            all.push(self.recipe.columns.iter().map(value).collect::<Result<_, String>>()?);
        }
        all.iter().for_each(|values| self.rows.push(values));
        Ok(all.len())
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn take(&mut self) -> Result<RecordBatch, String> {
        self.rows.take().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
