//! Recipes: TOML files that say what a vendor's text files hold. `docs/reference/recipes.md` lists every key.

pub(crate) mod builtin;

use serde::Deserialize;
use splay_store::{ColumnType, DayStart};

use crate::column_names::same_name;
use crate::csv::columns::ColumnPlan;
use crate::csv::delimiter::Delimiter;
use crate::csv::times::{EpochUnit, LocalZone, TimeSpelling};
use crate::error::{Error, Result};
use crate::name_template::NameTemplate;
use crate::text_file_format::{ColumnRule, DateSource, TextFileFormat, TrailerRule};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeKeys {
    description: String,
    #[serde(default = "csv")]
    format: String,
    delimiter: Option<String>,
    header: bool,
    skip_lines: Option<u64>,
    #[serde(default)]
    name: OneOrMany,
    #[serde(default)]
    null_tokens: Vec<String>,
    #[serde(default)]
    blank_is_null: bool,
    trailer: Option<TrailerKeys>,
    time: TimeKeys,
    symbol: Option<String>,
    time_zone: Option<String>,
    day_start: Option<DayStart>,
    #[serde(default)]
    others: OtherColumns,
    #[serde(default)]
    null_when_zero: Vec<Vec<String>>,
    columns: Vec<ColumnKeys>,
}

fn csv() -> String {
    "csv".to_owned()
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> OneOrMany {
        OneOrMany::Many(Vec::new())
    }
}

/// What becomes of a file's columns that a recipe doesn't name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OtherColumns {
    #[default]
    Error,
    Skip,
    Sniff,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrailerKeys {
    prefix: String,
    rows_field: Option<usize>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeKeys {
    column: String,
    date: Option<String>,
    #[serde(default)]
    date_formats: Vec<String>,
    #[serde(default = "auto")]
    unit: String,
    #[serde(default)]
    formats: Vec<String>,
    #[serde(default = "utc")]
    zone: String,
}

fn auto() -> String {
    "auto".to_owned()
}

fn utc() -> String {
    "UTC".to_owned()
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnKeys {
    name: String,
    rename: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(rename = "type")]
    column_type: Option<String>,
    scale: Option<u64>,
    #[serde(default)]
    null_tokens: Vec<String>,
    null_above: Option<f64>,
    #[serde(default)]
    skip: bool,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    upper: bool,
    value: Option<String>,
    unit: Option<String>,
    zone: Option<String>,
    #[serde(default)]
    formats: Vec<String>,
}

/// A description of a vendor's text files.
#[derive(Debug, Clone)]
pub struct Recipe {
    description: String,
    pub(crate) format: TextFileFormat,
    pub(crate) others: OtherColumns,
    pub(crate) time: String,
    pub(crate) symbol: Option<String>,
    pub(crate) time_zone: Option<String>,
    pub(crate) day_start: Option<DayStart>,
}

impl Recipe {
    /// The built-in recipe of this name.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Recipe> {
        let (name, text) = builtin::RECIPES.iter().find(|(builtin_name, _)| *builtin_name == name)?;
        Recipe::from_toml(text, name).ok()
    }

    /// The built-in recipe that names all columns of a header, of several the one that names most.
    pub(crate) fn fitting(header: &[&str]) -> Option<&'static str> {
        let recipes = builtin::RECIPES.iter().filter_map(|(name, _)| Some((*name, Recipe::builtin(name)?)));
        let fitting = recipes.filter_map(|(name, recipe)| Some((recipe.matched_columns(header)?, name)));
        fitting.max_by_key(|(matched, _)| *matched).map(|(_, name)| name)
    }

    /// How many columns of a header the recipe names; `None` if the header lacks one, or has one that the recipe doesn't take.
    fn matched_columns(&self, header: &[&str]) -> Option<usize> {
        let rules = || self.format.rules.iter().filter(|rule| rule.value.is_none());
        let is_named = |rule: &ColumnRule| header.iter().any(|column| rule.is_named(column));
        let matched = header.iter().filter(|column| rules().any(|rule| rule.is_named(column))).count();
        let takes_all = self.others != OtherColumns::Error || matched == header.len();
        let has_all = rules().all(|rule| rule.optional || is_named(rule));
        (self.format.header && takes_all && has_all && matched > 0).then_some(matched)
    }

    /// The text of a built-in recipe, to begin one's own with.
    #[must_use]
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        builtin::RECIPES.iter().find(|(builtin_name, _)| *builtin_name == name).map(|(_, text)| *text)
    }

    /// Names of the built-in recipes.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        builtin::RECIPES.iter().map(|(name, _)| *name).collect()
    }

    /// Reads a recipe. `origin` names it in errors.
    ///
    /// # Errors
    /// [`Error::Recipe`] with the key that is wrong.
    pub fn from_toml(text: &str, origin: &str) -> Result<Recipe> {
        let wrong = |reason: String| Error::Recipe { origin: origin.to_owned(), reason };
        let keys: RecipeKeys = toml::from_str(text).map_err(|e| wrong(e.to_string().trim().to_owned()))?;
        compile(keys).map_err(wrong)
    }

    /// A built-in recipe by name, or a recipe file by path.
    ///
    /// # Errors
    /// [`Error::UnknownRecipe`] when it is neither.
    pub fn load(name_or_path: &str) -> Result<Recipe> {
        if let Some(recipe) = Recipe::builtin(name_or_path) {
            return Ok(recipe);
        }
        if !std::path::Path::new(name_or_path).is_file() {
            return Err(Error::UnknownRecipe { name: name_or_path.to_owned(), available: Recipe::names() });
        }
        let text = std::fs::read_to_string(name_or_path).map_err(Error::io("read", name_or_path))?;
        Recipe::from_toml(&text, name_or_path)
    }

    /// Which files the recipe reads, in one line.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }
}

fn compile(keys: RecipeKeys) -> Result<Recipe, String> {
    let templates = match &keys.name {
        OneOrMany::One(name) => vec![NameTemplate::parse(name)?],
        OneOrMany::Many(names) => names.iter().map(|n| NameTemplate::parse(n)).collect::<Result<_, _>>()?,
    };
    let date = match keys.time.date.as_deref() {
        None => DateSource::None,
        Some("name") if !templates.is_empty() && templates.iter().all(NameTemplate::has_date) => DateSource::FileName,
        Some("name") => return Err("time.date = \"name\" needs a {date:...} in every name template".to_owned()),
        Some(column) => DateSource::Column { name: column.to_owned(), patterns: keys.time.date_formats.clone() },
    };
    let rules: Vec<ColumnRule> =
        keys.columns.iter().map(|c| rule(&keys, c, date != DateSource::None)).collect::<Result<_, _>>()?;
    let output = |name: &str| {
        let column_plan = rules.iter().filter_map(|r| r.plan.as_ref()).find(|p| same_name(&p.name, name));
        column_plan.map(|p| p.name.clone()).ok_or_else(|| format!("no column becomes {name:?}"))
    };
    let time = output(&keys.time.column).map_err(|e| format!("time.column: {e}"))?;
    let symbol = keys.symbol.as_deref().map(output).transpose().map_err(|e| format!("symbol: {e}"))?;
    for name in keys.null_when_zero.iter().flatten() {
        output(name).map_err(|e| format!("null_when_zero: {e}"))?;
    }
    if let DateSource::Column { name, .. } = &date
        && !keys.columns.iter().any(|c| same_name(&c.name, name))
    {
        return Err(format!("time.date names {name:?}, which is not among the columns"));
    }
    if let Some(zone) = &keys.time_zone
        && zone.parse::<chrono_tz::Tz>().is_err()
    {
        return Err(format!("time_zone: {zone:?} is not an IANA time zone"));
    }
    Ok(Recipe {
        format: TextFileFormat {
            json: false,
            delimiter: delimiter(&keys.format, keys.delimiter.as_deref())?,
            header: keys.header,
            skip_lines: keys.skip_lines,
            rules,
            skip_others: keys.others == OtherColumns::Skip,
            date,
            templates,
            zero_groups: keys.null_when_zero,
            trailer: keys.trailer.map(|t| TrailerRule { prefix: t.prefix, rows_field: t.rows_field }),
        },
        description: keys.description,
        others: keys.others,
        time,
        symbol,
        time_zone: keys.time_zone,
        day_start: keys.day_start,
    })
}

fn delimiter(format: &str, setting: Option<&str>) -> Result<u8, String> {
    let by_format = match format {
        "csv" => b',',
        "tsv" => b'\t',
        "psv" => b'|',
        _ => return Err(format!("format: {format:?} is not one of csv, tsv, psv")),
    };
    match setting {
        None => Ok(by_format),
        Some(text) => text.parse::<Delimiter>().map(Delimiter::byte).map_err(|reason| format!("delimiter: {reason}")),
    }
}

fn rule(keys: &RecipeKeys, column: &ColumnKeys, has_date: bool) -> Result<ColumnRule, String> {
    let wrong = |reason: String| format!("column {:?}: {reason}", column.name);
    let names = std::iter::once(&column.name).chain(&column.aliases).cloned().collect();
    if column.skip {
        return Ok(ColumnRule { names, plan: None, optional: column.optional, value: None, level: None });
    }
    let text = column.column_type.as_deref().ok_or_else(|| wrong("has no type".to_owned()))?;
    let column_type: ColumnType = text.parse().map_err(wrong)?;
    let name = column.rename.clone().unwrap_or_else(|| column.name.clone());
    let mut plan = ColumnPlan::new(&name, column_type);
    plan.nulls = keys.null_tokens.iter().chain(&column.null_tokens).map(|t| t.clone().into_bytes()).collect();
    plan.blank_is_null = keys.blank_is_null;
    plan.null_above = column.null_above.unwrap_or(f64::INFINITY);
    plan.upper = column.upper;
    plan.shift = shift(column.scale.unwrap_or(1)).map_err(wrong)?;
    plan.date_patterns = column.formats.clone();
    if matches!(plan.column_type, ColumnType::Levels { .. }) {
        return Err(wrong("levels can't be read from text".to_owned()));
    }
    if matches!(plan.column_type, ColumnType::Timestamp | ColumnType::Time) {
        let of_day = has_date || plan.column_type == ColumnType::Time;
        let formats = if column.formats.is_empty() { &keys.time.formats } else { &column.formats };
        let unit = column.unit.as_ref().unwrap_or(&keys.time.unit);
        plan.spelling = spelling(unit, formats, of_day).map_err(wrong)?;
        let zone = column.zone.as_ref().unwrap_or(&keys.time.zone);
        plan.zone = LocalZone::parse(zone).ok_or_else(|| wrong(format!("{zone:?} is not a zone")))?;
        if plan.needs_date() && !has_date {
            return Err(wrong(format!("unit {unit:?} is a time of day and needs time.date")));
        }
    }
    Ok(ColumnRule { names, plan: Some(plan), optional: column.optional, value: column.value.clone(), level: None })
}

fn shift(scale: u64) -> Result<u32, String> {
    let shift = scale.checked_ilog10().unwrap_or(0);
    if 10u64.checked_pow(shift) == Some(scale) {
        Ok(shift)
    } else {
        Err(format!("scale {scale} is not a power of ten"))
    }
}

fn spelling(unit: &str, formats: &[String], of_day: bool) -> Result<TimeSpelling, String> {
    if !formats.is_empty() {
        return Ok(TimeSpelling::Patterns(formats.to_vec()));
    }
    let count = |unit: &str| match unit {
        "s" => Some(EpochUnit::Seconds),
        "ms" => Some(EpochUnit::Millis),
        "us" => Some(EpochUnit::Micros),
        "ns" => Some(EpochUnit::Nanos),
        _ => None,
    };
    if let Some(unit) = count(unit) {
        return Ok(if of_day { TimeSpelling::SinceMidnight(unit) } else { TimeSpelling::Epoch(unit) });
    }
    if let Some(unit) = unit.strip_prefix("epoch_").and_then(count) {
        return Ok(TimeSpelling::Epoch(unit));
    }
    match unit {
        "auto" if !of_day => Ok(TimeSpelling::Any),
        "iso" => Ok(TimeSpelling::Written),
        "HH:MM:SS" => Ok(TimeSpelling::ClockText),
        _ => match unit.strip_prefix("HHMMSS") {
            Some(rest) if rest.len() <= 9 && rest.bytes().all(|b| matches!(b, b'n' | b'u' | b'm')) => {
                Ok(TimeSpelling::Clock(u32::try_from(rest.len()).unwrap_or(9)))
            }
            _ => Err(format!(
                "unit {unit:?} is not one of auto, iso, s, ms, us, ns, epoch_s, epoch_ms, epoch_us, epoch_ns, HH:MM:SS, HHMMSS, \
                 HHMMSSmmm, HHMMSSnnnnnnnnn"
            )),
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_recipe_is_sound_and_described() {
        for (name, text) in builtin::RECIPES {
            let recipe = Recipe::from_toml(text, name).unwrap();
            assert!(!recipe.description().is_empty(), "{name}");
        }
        assert!(Recipe::builtin("nyse-taq-trade").is_some());
    }

    #[test]
    fn mistakes_name_their_key() {
        let base = "description = \"x\"\nheader = true\n[time]\ncolumn = \"t\"\n";
        let error = |more: &str| Recipe::from_toml(&format!("{base}{more}"), "mine.toml").unwrap_err().to_string();
        assert!(error("[[columns]]\nname = \"t\"\ntype = \"datetime\"").contains("recipe mine.toml: column \"t\""));
        assert!(error("[[columns]]\nname = \"u\"\ntype = \"int64\"").contains("time.column: no column becomes \"t\""));
        assert!(error("[[columns]]\nname = \"t\"\ntype = \"timestamp\"\nscale = 3").contains("scale 3"));
        assert!(error("[[columns]]\nname = \"t\"\ntype = \"timestamp\"\nunit = \"HHMM\"").contains("unit \"HHMM\""));
        assert!(error("[[columns]]\nname = \"t\"\ntyp = \"timestamp\"").contains("unknown field"));
        let unknown = Recipe::load("nyse-taq-trades").unwrap_err().to_string();
        assert!(unknown.contains("nyse-taq-trade,"), "{unknown}");
    }
}
