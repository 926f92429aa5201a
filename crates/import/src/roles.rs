//! Columns of files that are one column of the table: date and time of day, the levels of a book.

use splay_store::{ColumnType, TableSpec};

use crate::column_names::{
    CLOCK_NAMES, DATE_NAMES, are_date_and_clock_of_one, ends_as_clock, is_clock_name, is_date_name, same_name,
};
use crate::csv::columns::{ColumnPlan, set_null_tokens};
use crate::csv::times::TimeSpelling;
use crate::error::{Error, Result};
use crate::evidence::Evidence;
use crate::sniff::Sample;
use crate::text_file_format::{ColumnRule, DateSource, TextFileFormat};

/// Most levels of a column.
const LEVELS_MAX: usize = 1024;

/// Where the time is in two columns, makes one of them. `time_column` is the one that was asked for, or that the table has. A date that `is_typed` tells
/// stays a column of its own. Gives what was found, in words.
pub(crate) fn join_date_and_clock(
    format: &mut TextFileFormat,
    time_column: Option<&str>,
    existing: Option<&TableSpec>,
    is_typed: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let plans: Vec<&ColumnPlan> = format.rules.iter().filter_map(|rule| rule.plan.as_ref()).collect();
    let columns: Vec<(&str, &ColumnType)> = plans.iter().map(|plan| (plan.name.as_str(), &plan.column_type)).collect();
    let (date, clock) = date_and_clock(&columns, time_column).filter(|(date, _)| !is_typed(date))?;
    let patterns = plans.iter().find(|plan| plan.name == date)?.date_patterns.clone();
    let spelling = plans.iter().find(|plan| plan.name == clock)?.spelling.clone();
    let (date, clock) = (date.to_owned(), clock.to_owned());
    for rule in &mut format.rules {
        if rule.plan.as_ref().is_some_and(|plan| plan.name == date) {
            rule.plan = rule.plan.take().filter(|_| existing.is_some_and(|table| table.position(&date).is_some()));
        } else if let Some(plan) = rule.plan.as_mut().filter(|plan| plan.name == clock) {
            plan.column_type = ColumnType::Timestamp;
        }
    }
    let note = joined(&date, &clock, &spelling);
    format.date = DateSource::Column { name: date, patterns };
    Some(note)
}

/// A date and a time of day that are the time, in words.
pub(crate) fn joined(date: &str, clock: &str, spelling: &TimeSpelling) -> String {
    let form = match spelling {
        TimeSpelling::Compact(form) => format!(", written as {form}"),
        _ => String::new(),
    };
    format!("{clock} is the time of day on the {date} of its row{form}")
}

/// Has columns of digits be a date and a time of day where they are the time together, and no column is one without them. A column that `is_typed`
/// tells is what it is.
pub(crate) fn read_compact_clock(
    format: &mut TextFileFormat,
    sample: &Sample,
    time_column: Option<&str>,
    is_typed: &dyn Fn(&str) -> bool,
) {
    let plans: Vec<&ColumnPlan> = format.rules.iter().filter_map(|rule| rule.plan.as_ref()).collect();
    let columns: Vec<(&str, &ColumnType)> = plans.iter().map(|plan| (plan.name.as_str(), &plan.column_type)).collect();
    if date_and_clock(&columns, time_column).is_some() {
        return;
    }
    let rules = format.rules.iter().zip(sample.columns());
    let columns: Vec<(String, ColumnType)> = rules
        .filter_map(|(rule, (_, evidence))| {
            let plan = rule.plan.as_ref()?;
            let other = if is_typed(&plan.name) { None } else { type_of_digits(plan, evidence, time_column) };
            Some((plan.name.clone(), other.unwrap_or_else(|| plan.column_type.clone())))
        })
        .collect();
    let columns: Vec<(&str, &ColumnType)> = columns.iter().map(|(name, of)| (name.as_str(), of)).collect();
    let Some((date, clock)) = date_and_clock(&columns, time_column) else { return };
    if is_typed(date) || !is_surely_clock(clock, date, time_column) {
        return;
    }
    for (rule, (_, evidence)) in format.rules.iter_mut().zip(sample.columns()) {
        let Some(plan) = &mut rule.plan else { continue };
        if plan.name == date && plan.column_type != ColumnType::Date {
            plan.column_type = ColumnType::Date;
            set_null_tokens(plan);
        } else if plan.name == clock && plan.column_type != ColumnType::Time {
            let Some(form) = evidence.compact_clock() else { continue };
            (plan.column_type, plan.spelling) = (ColumnType::Time, TimeSpelling::Compact(form));
            set_null_tokens(plan);
        }
    }
}

/// A date or a time of day that a column of digits could be, by its name and its values.
fn type_of_digits(plan: &ColumnPlan, evidence: &Evidence, time_column: Option<&str>) -> Option<ColumnType> {
    use ColumnType::{Date, Float64, Int64, Symbol, Text, Time};
    if !matches!(plan.column_type, Int64 | Float64 | Symbol | Text) {
        return None;
    }
    match () {
        () if may_be_digits_of_clock(&plan.name, time_column) && evidence.compact_clock().is_some() => Some(Time),
        () if is_date_name(&plan.name) && evidence.is_of_dates() => Some(Date),
        () => None,
    }
}

/// Whether digits in a column may be times of day: it is the time that was asked for, or is called so.
pub(crate) fn may_be_digits_of_clock(name: &str, time_column: Option<&str>) -> bool {
    let is_time = time_column.is_some_and(|time| same_name(time, name));
    is_time || ends_as_clock(name) || CLOCK_NAMES.iter().any(|usual| same_name(usual, name))
}

/// Whether a column of digits is the time of day of a date: other names that end in `time` may be those of durations.
pub(crate) fn is_surely_clock(name: &str, date: &str, time_column: Option<&str>) -> bool {
    let is_time = time_column.is_some_and(|time| same_name(time, name));
    is_time || is_clock_name(name) || are_date_and_clock_of_one(date, name)
}

/// The names of a date and of a time of day that together are the time. A time of day that isn't `time_column` has a usual name, or is called as the
/// date is, or is the only one whose name ends in `time`; and no timestamp is there.
pub(crate) fn date_and_clock<'a>(
    columns: &[(&'a str, &ColumnType)],
    time_column: Option<&str>,
) -> Option<(&'a str, &'a str)> {
    let of_type =
        |column_type: ColumnType| columns.iter().filter(move |(_, of)| **of == column_type).map(|(name, _)| *name);
    let dates: Vec<&str> = of_type(ColumnType::Date).collect();
    let mut clocks = of_type(ColumnType::Time);
    let clock = match time_column {
        Some(time_column) => clocks.find(|name| same_name(name, time_column))?,
        None if of_type(ColumnType::Timestamp).next().is_some() => return None,
        None => clock_of(&dates, &clocks.collect::<Vec<_>>())?,
    };
    Some((date_of(&dates, clock)?, clock))
}

/// The time of day among several that belongs to one of these dates.
fn clock_of<'a>(dates: &[&str], clocks: &[&'a str]) -> Option<&'a str> {
    let usual = clocks.iter().copied().find(|name| is_clock_name(name));
    let is_of_date = |name: &str| dates.iter().any(|date| are_date_and_clock_of_one(date, name));
    let of_date = || only(clocks.iter().copied().filter(|name| is_of_date(name)));
    usual.or_else(of_date).or_else(|| only(clocks.iter().copied().filter(|name| ends_as_clock(name))))
}

/// The date among several that belongs to a time of day.
fn date_of<'a>(dates: &[&'a str], clock: &str) -> Option<&'a str> {
    let all = || dates.iter().copied();
    let of_clock = all().find(|date| are_date_and_clock_of_one(date, clock));
    let usual = || all().find(|date| DATE_NAMES.iter().any(|usual| same_name(usual, date)));
    let ends_so = || only(all().filter(|date| date.to_ascii_lowercase().ends_with("date")));
    of_clock.or_else(usual).or_else(ends_so).or_else(|| only(all()))
}

/// The one item, unless there are several.
fn only<'a>(mut items: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    items.next().filter(|_| items.next().is_none())
}

/// Makes columns such as `bid_px_0` to `bid_px_9` (or from 1 on) the levels of one column. False if there is none of them.
///
/// # Errors
/// [`Error::Setting`] if some are missing.
pub(crate) fn join_levels(rules: &mut [ColumnRule], name: &str, size: i32) -> Result<bool> {
    let number = |rule: &ColumnRule| {
        let own = rule.plan.as_ref()?.name.to_ascii_lowercase();
        let digits = own.strip_prefix(&name.to_ascii_lowercase())?.trim_start_matches('_').to_owned();
        let is_number = !digits.is_empty() && digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<usize>().ok().filter(|_| is_number)
    };
    let numbers: Vec<Option<usize>> = rules.iter().map(number).collect();
    let Some(first) = numbers.iter().flatten().min().copied() else { return Ok(false) };
    let size = usize::try_from(size).unwrap_or(0);
    let first = first.min(1);
    for level in first..first + size {
        if !numbers.contains(&Some(level)) {
            let reason = format!(
                "{name} of {size} levels is made of {name}_{first} to {name}_{}; {name}_{level} is missing",
                first + size - 1
            );
            return Err(Error::Setting { setting: "types", reason });
        }
    }
    if numbers.contains(&Some(first + size)) {
        let count = numbers.iter().flatten().max().map_or(size, |last| last + 1 - first);
        let advice = match count {
            ..=LEVELS_MAX => format!("{name}=levels({count}) would take them"),
            _ => format!("a column has {LEVELS_MAX} at most"),
        };
        let reason = format!("{name} has more than {size} levels in the files; {advice}");
        return Err(Error::Setting { setting: "types", reason });
    }
    for (rule, number) in rules.iter_mut().zip(numbers) {
        let Some(number) = number.filter(|number| (first..first + size).contains(number)) else { continue };
        let column_type = ColumnType::Levels { size: i32::try_from(size).unwrap_or(0) };
        let mut plan = ColumnPlan {
            name: name.to_owned(),
            column_type,
            ..rule.plan.take().unwrap_or_else(|| ColumnPlan::new(name, ColumnType::Text))
        };
        set_null_tokens(&mut plan);
        (rule.plan, rule.level) = (Some(plan), Some(number - first));
    }
    Ok(true)
}
