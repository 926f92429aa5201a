//! Calendars of tables: the time zone of their dates, and the delay from a date's end to its roll.

use std::collections::BTreeMap;

use splay_store::{DayStart, QUARANTINE, TableSpec};

use crate::clock::seconds;
use crate::error::{Error, Result};
use crate::settings::CaptureSettings;

/// The calendars of all tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableCalendars {
    usual: TableCalendar,
    /// By lower-case name of the table.
    of_tables: BTreeMap<String, TableCalendar>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TableCalendar {
    /// Zone of a new table's dates; `None` for UTC.
    zone: Option<String>,
    /// When they begin; `None` for midnight.
    day_start: Option<DayStart>,
    /// Nanoseconds after its end after which a date is rolled.
    pub(crate) roll_delay: i64,
}

impl TableCalendars {
    /// The calendars that the settings name.
    ///
    /// # Errors
    /// That of the setting, for a zone that there isn't.
    pub(crate) fn new(settings: &CaptureSettings) -> Result<TableCalendars> {
        let checked = |zone: &Option<String>| match zone {
            Some(zone) if zone.parse::<chrono_tz::Tz>().is_err() => {
                let reason = format!("{zone:?} is not an IANA time zone");
                Err(Error::from(splay_store::Error::Setting { setting: "time_zone", reason }))
            }
            _ => Ok(zone.clone()),
        };
        // Rows of a date that is rolled are all older than those that stay in memory.
        let late = seconds(settings.late_s);
        let roll_delay = seconds(settings.roll_delay_s).max(late);
        let usual = TableCalendar { zone: checked(&settings.time_zone)?, day_start: settings.day_start, roll_delay };
        let mut of_tables = BTreeMap::new();
        for (table, own) in &settings.calendars {
            let zone = checked(&own.time_zone)?.or_else(|| usual.zone.clone());
            let roll_delay = own.roll_delay_s.map_or(usual.roll_delay, seconds).max(late);
            let day_start = own.day_start.or(usual.day_start);
            of_tables.insert(table.to_lowercase(), TableCalendar { zone, day_start, roll_delay });
        }
        Ok(TableCalendars { usual, of_tables })
    }

    /// That of a table. A quarantine has its table's.
    pub(crate) fn of(&self, table: &str) -> &TableCalendar {
        let name = table.to_lowercase();
        let own = self.of_tables.get(&name);
        let of_table = || self.of_tables.get(name.strip_suffix(QUARANTINE)?);
        own.or_else(of_table).unwrap_or(&self.usual)
    }
}

impl TableCalendar {
    /// A table that rows create, with this calendar's dates unless the rows' sender said which.
    pub(crate) fn placed(&self, spec: TableSpec) -> TableSpec {
        if spec.time_zone != "UTC" || !spec.day_start.is_midnight() {
            return spec;
        }
        let spec = spec.with_day_start(self.day_start.unwrap_or_default());
        match &self.zone {
            Some(zone) => spec.with_time_zone(zone),
            None => spec,
        }
    }

    /// Tells the operator if a table's dates are those of another zone.
    pub(crate) fn compare(&self, spec: &TableSpec) {
        if let Some(expected) = self.zone.as_ref().filter(|zone| **zone != spec.time_zone) {
            let (table, zone) = (&spec.name, &spec.time_zone);
            tracing::warn!(table, zone, expected, "a table keeps the zone of dates with which it was created");
        }
        if let Some(expected) = self.day_start.filter(|start| *start != spec.day_start) {
            let (table, start) = (&spec.name, spec.day_start.to_string());
            let expected = expected.to_string();
            tracing::warn!(table, start, expected, "a table keeps the start of its days with which it was created");
        }
    }
}
