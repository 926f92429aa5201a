//! Names of columns: when two are the same, and which ones times, dates and symbols usually have.

/// Whether two column names are the same: case, and spaces against underscores, are left aside.
pub(crate) fn same_name(left: &str, right: &str) -> bool {
    let plain = |c: u8| if c == b' ' || c == b'-' { b'_' } else { c.to_ascii_lowercase() };
    let (left, right) = (left.trim().bytes(), right.trim().bytes());
    left.map(plain).eq(right.map(plain))
}

/// Names columns in front that have none, as pandas writes an index of several levels; the first stays without a name.
pub(crate) fn name_index_columns(header: &mut [String]) {
    for (place, name) in header.iter_mut().enumerate().take_while(|(_, name)| name.is_empty()).skip(1) {
        *name = format!("{UNNAMED}{place}");
    }
}

/// Whether a column has no name of its own. pandas names those by their places when it reads a file.
pub(crate) fn is_unnamed(name: &str) -> bool {
    name.is_empty() || name.starts_with(UNNAMED)
}

const UNNAMED: &str = "Unnamed: ";

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
pub(crate) const CLOCK_NAMES: [&str; 5] = ["time_m", "time_of_day", "clock", "trade_time", "quote_time"];

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|other| same_name(other, name))
}

/// Whether a column is usually a date.
pub(crate) fn is_date_name(name: &str) -> bool {
    is_one_of(name, &DATE_NAMES) || stem(name, "date").is_some()
}

/// Whether a column is usually a time or a time of day.
pub(crate) fn is_clock_name(name: &str) -> bool {
    !is_one_of(name, &DATE_NAMES) && (is_one_of(name, &TIME_NAMES) || is_one_of(name, &CLOCK_NAMES))
}

/// Whether the last word of a name is `time`.
pub(crate) fn ends_as_clock(name: &str) -> bool {
    stem(name, "time").is_some()
}

/// Whether two columns are called alike but for their last words, as `trade_date` and `trade_time` are.
pub(crate) fn are_date_and_clock_of_one(date: &str, clock: &str) -> bool {
    let stems = stem(date, "date").zip(stem(clock, "time"));
    stems.is_some_and(|(date, clock)| same_name(&date, &clock))
}

/// A name without its last word, if that is `word`.
fn stem(name: &str, word: &str) -> Option<String> {
    let name = name.trim().to_ascii_lowercase();
    let stem = name.strip_suffix(word)?;
    (stem.is_empty() || stem.ends_with(['_', ' ', '-'])).then(|| stem.to_owned())
}
