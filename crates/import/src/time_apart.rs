//! Dates and times of day in columns that aren't joined to a time: why not, and what would read them.

use splay_store::ColumnType;

use crate::column_names::{are_date_and_clock_of_one, is_clock_name, is_date_name, same_name};
use crate::csv::times::{self, LocalZone, TimeSpelling};
use crate::error::listed;
use crate::evidence::Evidence;
use crate::sniff::Sample;

/// Dates and times of day that aren't joined, as they were before any of them is the time.
#[derive(Debug, Default)]
pub(crate) struct TimeApart {
    dates: Vec<String>,
    /// Times of day, each with a value.
    clocks: Vec<(String, String)>,
    unread: Option<UnreadClock>,
    /// Whether recipes read such files.
    pub has_recipes: bool,
}

impl TimeApart {
    pub fn of(columns: &[(&str, &ColumnType)], sample: &Sample, is_typed: &dyn Fn(&str) -> bool) -> TimeApart {
        let of_type = |column_type: ColumnType| {
            let of_type = columns.iter().filter(move |(_, of)| **of == column_type);
            of_type.map(|(name, _)| (*name).to_owned())
        };
        let value = |name: &str| {
            let evidence = sample.evidence(name);
            String::from_utf8_lossy(evidence.map(Evidence::example).unwrap_or_default()).into_owned()
        };
        let doubtful = |name: &str| sample.evidence(name).filter(|_| !is_typed(name))?.doubtful_clock();
        TimeApart {
            dates: of_type(ColumnType::Date).collect(),
            clocks: of_type(ColumnType::Time).map(|name| (name.clone(), value(&name))).collect(),
            unread: UnreadClock::of(columns, &doubtful),
            has_recipes: false,
        }
    }

    /// What is in the way of a column as the time, as an error; what is left out by it, as a note. The column may have been asked for.
    pub fn check(&self, time: &str, is_asked: bool) -> Result<Option<String>, String> {
        let is = |name: &String| same_name(name, time);
        if let Some((name, value)) = self.clocks.iter().find(|(name, _)| is(name)) {
            return Err(self.without_date(name, value));
        }
        match &self.unread {
            Some(unread) if self.dates.iter().any(is) && !is_asked => Err(unread.reason(self.other_way())),
            Some(unread) if is(&unread.name) && unread.is_no_instant() => Err(unread.reason(self.other_way())),
            Some(unread) if self.dates.iter().any(is) => Ok(Some(unread.note())),
            None if self.dates.iter().any(is) && !self.clocks.is_empty() => {
                let clocks: Vec<&String> = self.clocks.iter().map(|(name, _)| name).collect();
                Ok(Some(format!("rows are at midnight of {time}: the times of day {} stay apart", listed(&clocks))))
            }
            _ => Ok(None),
        }
    }

    /// What reads times that no option reads.
    fn other_way(&self) -> &'static str {
        if self.has_recipes { "a recipe" } else { "CREATE TABLE ... AS SELECT ... FROM 'file'" }
    }

    fn without_date(&self, name: &str, value: &str) -> String {
        let value = if value.is_empty() { String::new() } else { format!(", such as {value}") };
        let way = match self.has_recipes {
            true => "a recipe takes it from the file's name, by date = \"name\"".to_owned(),
            false => format!("{} makes times of them", self.other_way()),
        };
        format!("{name} has times of day{value}, and no date belongs to them: {way}")
    }

    /// What to do where no column is the time.
    pub fn remarks(&self) -> Vec<String> {
        let clock = self.clocks.first().map(|(name, value)| self.without_date(name, value));
        clock.into_iter().chain(self.unread.as_ref().map(|unread| unread.reason(self.other_way()))).collect()
    }
}

/// A column whose name says that it holds times of day, while its values don't.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UnreadClock {
    name: String,
    date: String,
    value: Vec<u8>,
}

impl UnreadClock {
    /// The column among these that would be the time of day of a date, if all of its values were one, given its first value that isn't surely. There
    /// is none beside a timestamp.
    fn of<'a>(
        columns: &[(&'a str, &ColumnType)],
        doubtful: &dyn Fn(&'a str) -> Option<&'a [u8]>,
    ) -> Option<UnreadClock> {
        if columns.iter().any(|(_, of)| matches!(of, ColumnType::Timestamp | ColumnType::Time)) {
            return None;
        }
        let dates = columns.iter().filter(|(name, of)| **of == ColumnType::Date || is_date_name(name));
        let dates: Vec<&str> = dates.map(|(name, _)| *name).collect();
        let is_clock =
            |name: &str| is_clock_name(name) || dates.iter().any(|date| are_date_and_clock_of_one(date, name));
        let others = columns.iter().map(|(name, _)| *name).filter(|name| !dates.contains(name) && is_clock(name));
        let (name, value) = others.filter_map(|name| Some((name, doubtful(name)?))).next()?;
        let date = dates.iter().find(|date| are_date_and_clock_of_one(date, name)).or(dates.first())?;
        Some(UnreadClock { name: name.to_owned(), date: (*date).to_owned(), value: value.to_vec() })
    }

    /// Why the column isn't read, and what reads it.
    fn reason(&self, other_way: &str) -> String {
        let UnreadClock { name, date, value } = self;
        let shown = String::from_utf8_lossy(&value[..value.len().min(VALUE_BYTES_MAX)]);
        let format = times::clock_format(value).map(|format| format!("--date-format '{format}'"));
        let mut ways: Vec<String> = format.into_iter().collect();
        if self.is_instant() {
            ways.push(format!("--time {name}"));
        }
        if self.is_no_instant() {
            ways.push(format!("{other_way}, if it counts from midnight"));
        }
        let ways = match ways.as_slice() {
            [] => format!("--date-format with its pattern or {other_way} may read it"),
            ways => format!("{} may read it", ways.join(" or ")),
        };
        format!(
            "{name} should have the time of day on the {date} of its row, and holds {shown}, which isn't surely one: {ways}; --time {date} takes the date alone, at midnight"
        )
    }

    /// Whether its value is a whole number, and none that counts from 1970.
    fn is_no_instant(&self) -> bool {
        self.value.iter().all(u8::is_ascii_digit) && !self.is_instant()
    }

    fn is_instant(&self) -> bool {
        times::instant(&self.value, &TimeSpelling::Any, &mut LocalZone::UTC.clone()).is_ok()
    }

    /// What is said where the date alone was asked for.
    fn note(&self) -> String {
        format!("rows are at midnight of {}: {} isn't read as the time of day", self.date, self.name)
    }
}

/// Bytes of a value that a message shows.
const VALUE_BYTES_MAX: usize = 40;
