//! Markets that never close. A trading date is a date of UTC.

use chrono_tz::Tz;

use crate::rules::date;
use crate::schedule::{Exchange, Hours, at};

/// Every day, all day.
pub(crate) static ALWAYS: Exchange = Exchange {
    name: "24x7",
    aliases: &["CRYPTO"],
    title: "markets that never close",
    zone: Tz::UTC,
    dates: date(1970, 1, 1)..=date(2099, 12, 31),
    weekend: &[],
    day_start: 0,
    hours: &[Hours { since: date(1970, 1, 1), sessions: &[(at(0, 0), at(24, 0))] }],
    holidays: &[],
    one_offs: &[],
};
