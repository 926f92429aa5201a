//! Names of columns: when two are the same, and which ones times, dates and symbols usually have.

/// Whether two column names are the same: case, and spaces against underscores, are left aside.
pub(crate) fn same_name(left: &str, right: &str) -> bool {
    let plain = |c: u8| if c == b' ' || c == b'-' { b'_' } else { c.to_ascii_lowercase() };
    let (left, right) = (left.trim().bytes(), right.trim().bytes());
    left.map(plain).eq(right.map(plain))
}

/// Names of time columns, the likeliest first.
pub const TIME_NAMES: [&str; 12] = [
    "ts_event",
    "timestamp",
    "time",
    "ts",
    "datetime",
    "date_time",
    "event_time",
    "transact_time",
    "exchange_time",
    "open_time",
    "date",
    "day",
];

pub use splay_store::SYMBOL_NAMES;

/// Usual names of date columns that belong to a time of day, the likeliest first. Names that end with one of these count, too.
pub(crate) const DATE_NAMES: [&str; 3] = ["date", "day", "trading_day"];

/// Names of times of day besides those of times.
pub(crate) const CLOCK_NAMES: [&str; 3] = ["time_m", "time_of_day", "clock"];
