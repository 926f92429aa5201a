//! Settings of calendars.

use serde::{Deserialize, Serialize};
use splay_store::DayStart;

/// Settings of a table's calendar. Those that are absent are as for all tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CalendarSettings {
    /// Time zone of its dates, if it is created by rows whose sender names none but UTC. A table keeps the zone it was created with.
    pub time_zone: Option<String>,
    /// When the table's dates begin by the clock of that zone, as `17:00` of the day before, if its sender says neither. It is stored with the
    /// table.
    pub day_start: Option<DayStart>,
    /// How long after a date's end it is rolled, in seconds.
    pub roll_delay_s: Option<u64>,
}
