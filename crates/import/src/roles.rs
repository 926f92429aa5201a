//! Columns of files that are one column of the table: date and time of day, the levels of a book.

use splay_store::{ColumnType, TableSpec};

use crate::column_names::{CLOCK_NAMES, DATE_NAMES, TIME_NAMES, same_name};
use crate::csv::columns::{ColumnPlan, set_null_tokens};
use crate::error::{Error, Result};
use crate::text_file_format::{ColumnRule, DateSource, TextFileFormat};

/// Most levels of a column.
const LEVELS_MAX: usize = 1024;

/// Where the time is in two columns, makes one of them. `time_column` is the one that was asked for, or that the table has. Gives what
/// was found, in words.
pub(crate) fn join_date_and_clock(
    format: &mut TextFileFormat,
    time_column: Option<&str>,
    existing: Option<&TableSpec>,
) -> Option<String> {
    let plans: Vec<&ColumnPlan> = format.rules.iter().filter_map(|rule| rule.plan.as_ref()).collect();
    let columns: Vec<(&str, &ColumnType)> = plans.iter().map(|plan| (plan.name.as_str(), &plan.column_type)).collect();
    let (date, clock) = date_and_clock(&columns, time_column)?;
    let patterns = plans.iter().find(|plan| plan.name == date)?.date_patterns.clone();
    let (date, clock) = (date.to_owned(), clock.to_owned());
    for rule in &mut format.rules {
        if rule.plan.as_ref().is_some_and(|plan| plan.name == date) {
            rule.plan = rule.plan.take().filter(|_| existing.is_some_and(|table| table.position(&date).is_some()));
        } else if let Some(plan) = rule.plan.as_mut().filter(|plan| plan.name == clock) {
            plan.column_type = ColumnType::Timestamp;
        }
    }
    let note = format!("{clock} is the time of day on the {date} of its row");
    format.date = DateSource::Column { name: date, patterns };
    Some(note)
}

/// The names of a date and of a time of day that together are the time. A time of day that isn't `time_column` has a usual name, and no timestamp is there.
pub(crate) fn date_and_clock<'a>(
    columns: &[(&'a str, &ColumnType)],
    time_column: Option<&str>,
) -> Option<(&'a str, &'a str)> {
    let of_type =
        |column_type: ColumnType| columns.iter().filter(move |(_, of)| **of == column_type).map(|(name, _)| *name);
    let is_named = |name: &str, names: &[&str]| names.iter().any(|other| same_name(other, name));
    let mut clocks = of_type(ColumnType::Time);
    let clock = match time_column {
        Some(time_column) => clocks.find(|name| same_name(name, time_column))?,
        None if of_type(ColumnType::Timestamp).next().is_some() => return None,
        None => clocks.find(|name| is_named(name, &TIME_NAMES) || is_named(name, &CLOCK_NAMES))?,
    };
    let dates: Vec<&str> = of_type(ColumnType::Date).collect();
    let usual_date = dates.iter().find(|name| is_named(name, &DATE_NAMES));
    let ends_so = || dates.iter().find(|name| name.to_ascii_lowercase().ends_with("date"));
    let date = usual_date.or_else(ends_so).copied().or(match dates.as_slice() {
        [one] => Some(*one),
        _ => None,
    })?;
    Some((date, clock))
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
