//! What the text and JSON files of an import look like: the columns, and what becomes of each.
//!
//! [`TextFileFormat::layout`] makes of it the [`RecordLayout`] of one file.

use splay_store::TableSpec;

use crate::column_names::same_name;
use crate::csv::columns::ColumnPlan;
use crate::csv::parse::{FieldAction, RecordLayout};
use crate::error::{Error, Result, listed};
use crate::input::InputFile;
use crate::name_template::{Captures, NameTemplate};

/// One column of the files and what becomes of it.
#[derive(Debug, Clone)]
pub(crate) struct ColumnRule {
    /// Its name in the header and other names it goes by.
    pub names: Vec<String>,
    /// How it is read; `None` to leave it out.
    pub plan: Option<ColumnPlan>,
    /// Whether a file may lack it.
    pub optional: bool,
    /// A text for the whole file instead of a field, with captures of the file's name.
    pub value: Option<String>,
    /// Which level of a column of levels it is, from 0.
    pub level: Option<usize>,
}

impl ColumnRule {
    pub fn is_named(&self, name: &str) -> bool {
        self.names.iter().any(|own| same_name(own, name))
            || self.plan.as_ref().is_some_and(|p| same_name(&p.name, name))
    }
}

/// Where the date of times of day comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DateSource {
    None,
    FileName,
    Column { name: String, patterns: Vec<String> },
}

/// The last line that a recipe asks for.
#[derive(Debug, Clone)]
pub(crate) struct TrailerRule {
    pub prefix: String,
    /// Which field of it holds the number of rows, from 0.
    pub rows_field: Option<usize>,
}

/// What the files of an import look like.
#[derive(Debug, Clone)]
pub(crate) struct TextFileFormat {
    /// Whether the records are JSON objects; their names stand in each of them.
    pub json: bool,
    pub delimiter: u8,
    pub header: bool,
    /// Lines before the header or the first row of each file, if the caller says how many.
    pub skip_lines: Option<u64>,
    pub rules: Vec<ColumnRule>,
    /// Whether fields that no rule names are left out; else they are an error.
    pub skip_others: bool,
    pub date: DateSource,
    pub templates: Vec<NameTemplate>,
    /// Table columns that are null together when all are zero.
    pub zero_groups: Vec<Vec<String>>,
    pub trailer: Option<TrailerRule>,
}

impl TextFileFormat {
    /// Has these texts mean null in all columns.
    pub fn add_nulls(&mut self, texts: &[String]) {
        for plan in self.rules.iter_mut().filter_map(|rule| rule.plan.as_mut()) {
            plan.nulls.extend(texts.iter().map(|text| text.clone().into_bytes()));
        }
    }

    /// The layout of one file. `header` holds the names of its first line.
    pub fn layout(&self, spec: &TableSpec, file: &InputFile, header: Option<&[String]>) -> Result<RecordLayout> {
        let misfit = |reason: String| Error::Misfit { file: file.name.clone(), table: spec.name.clone(), reason };
        let captures = self.captures(file)?;
        let mut plans: Vec<ColumnPlan> =
            spec.columns.iter().map(|c| ColumnPlan::new(&c.name, c.column_type.clone())).collect();
        let mut filled = vec![false; plans.len()];
        let mut fixed = Vec::new();
        let (names, chosen) = self.choose(header, &misfit)?;
        let mut actions = Vec::new();
        for (name, rule) in names.iter().zip(&chosen) {
            let plan = rule.and_then(|r| self.rules[r].plan.as_ref());
            let target = plan.map(|plan| self.target(spec, plan, &misfit)).transpose()?;
            if let (Some(target), Some(plan)) = (target, plan) {
                let level = rule.and_then(|r| self.rules[r].level);
                if std::mem::replace(&mut filled[target], true) && level.is_none() {
                    return Err(misfit(format!("two of its columns are {}", plan.name)));
                }
                if matches!(plan.column_type, splay_store::ColumnType::Levels { .. }) && level.is_none() && !self.json {
                    let name = &plan.name;
                    return Err(misfit(format!(
                        "column {name} holds levels: text has them in columns {name}_0, {name}_1, …"
                    )));
                }
                plans[target] = plan.clone();
            }
            actions.push(match (&self.date, target) {
                (DateSource::Column { name: date, patterns }, column)
                    if same_name(date, name) || rule.is_some_and(|r| self.rules[r].is_named(date)) =>
                {
                    FieldAction::Date { patterns: patterns.clone(), column }
                }
                (_, Some(column)) => match rule.and_then(|r| self.rules[r].level) {
                    Some(level) => FieldAction::Level { column, level },
                    None => FieldAction::Column(column),
                },
                (_, None) => FieldAction::Skip,
            });
        }
        for rule in self.rules.iter() {
            let (Some(value), Some(plan)) = (&rule.value, &rule.plan) else { continue };
            let target = self.target(spec, plan, &misfit)?;
            plans[target] = plan.clone();
            filled[target] = true;
            fixed.push((target, captures.expand(value).map_err(&misfit)?));
        }
        if let Some(time) = spec.position(&spec.time) {
            if !filled[time] {
                return Err(misfit(format!("it has no column for the time column {:?}", spec.time)));
            }
            plans[time].required = true;
        }
        let absent = (0..plans.len()).filter(|&i| !filled[i]).collect();
        let group = |g: &Vec<String>| g.iter().filter_map(|name| spec.position(name)).collect::<Vec<_>>();
        Ok(RecordLayout {
            delimiter: self.delimiter,
            actions,
            names,
            plans,
            fixed,
            absent,
            day: captures.day,
            zero_groups: self.zero_groups.iter().map(group).collect(),
            trailer: self.trailer.as_ref().map(|t| t.prefix.clone().into_bytes()),
            schema: spec.arrow(),
        })
    }

    /// Whether the name of a file is one that is expected.
    pub fn takes_name(&self, file: &InputFile) -> bool {
        self.captures(file).is_ok()
    }

    fn captures(&self, file: &InputFile) -> Result<Captures> {
        if self.templates.is_empty() {
            return Ok(Captures::default());
        }
        let name = file.match_name();
        self.templates.iter().find_map(|t| t.captures(&name)).ok_or_else(|| {
            let templates: Vec<&str> = self.templates.iter().map(NameTemplate::text).collect();
            let pattern = self.templates.first().map(NameTemplate::pattern).unwrap_or_default();
            let reason = format!(
                "the recipe expects a name like {}; a pattern such as '{pattern}' leaves other files out",
                templates.join(" or ")
            );
            Error::unsupported(&file.name, reason)
        })
    }

    fn target(&self, spec: &TableSpec, plan: &ColumnPlan, misfit: &dyn Fn(String) -> Error) -> Result<usize> {
        spec.position(&plan.name).ok_or_else(|| misfit(format!("the table has no column {:?}", plan.name)))
    }

    /// Names of the file's fields and the rule of each.
    fn choose(
        &self,
        header: Option<&[String]>,
        misfit: &dyn Fn(String) -> Error,
    ) -> Result<(Vec<String>, Vec<Option<usize>>)> {
        let of_fields = || (0..self.rules.len()).filter(|&r| self.rules[r].value.is_none());
        let Some(header) = header else {
            let names = of_fields().map(|r| self.rules[r].names.first().cloned().unwrap_or_default()).collect();
            return Ok((names, of_fields().map(Some).collect()));
        };
        let chosen: Vec<Option<usize>> =
            header.iter().map(|name| of_fields().find(|&r| self.rules[r].is_named(name))).collect();
        let extra: Vec<&str> =
            header.iter().zip(&chosen).filter(|(_, rule)| rule.is_none()).map(|(name, _)| name.as_str()).collect();
        if !extra.is_empty() && !self.skip_others {
            return Err(misfit(format!("there is no place for its columns {}", listed(&extra))));
        }
        let missing: Vec<&str> = of_fields()
            .filter(|r| !self.rules[*r].optional && !chosen.contains(&Some(*r)))
            .filter_map(|r| self.rules[r].names.first().map(String::as_str))
            .collect();
        if !missing.is_empty() {
            return Err(misfit(format!("its header lacks {}", listed(&missing))));
        }
        Ok((header.to_vec(), chosen))
    }
}
