//! The rows of the crypto tables, before they have a format.

use chrono::NaiveDate;

use super::WrittenFile;
use super::book::Book;
use crate::Result;

/// A row of `trades`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trade {
    /// Microseconds since midnight UTC.
    pub(crate) time: u64,
    /// A position in `INSTRUMENTS`.
    pub(crate) symbol: usize,
    /// A position in `EXCHANGES`.
    pub(crate) exchange: usize,
    /// The side of the order that met the book.
    pub(crate) buying: bool,
    /// Ticks.
    pub(crate) price: u64,
    /// Units.
    pub(crate) amount: u64,
    /// Rises strictly through the trades of a symbol.
    pub(crate) id: u64,
}

/// A row of `books`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    /// Microseconds since midnight UTC.
    pub(crate) time: u64,
    /// A position in `INSTRUMENTS`.
    pub(crate) symbol: usize,
    /// A position in `EXCHANGES`.
    pub(crate) exchange: usize,
    /// The twenty best levels of both sides.
    pub(crate) book: Book,
}

/// The sides as the `side` column names them, in the order sell, buy.
pub(crate) const SIDES: [&str; 2] = ["sell", "buy"];

/// The names of the 80 level columns, in order: b1p..b20p, b1s..b20s, a1p..a20p, a1s..a20s.
pub(crate) fn level_columns() -> impl Iterator<Item = String> {
    let groups = [('b', 'p'), ('b', 's'), ('a', 'p'), ('a', 's')];
    groups
        .into_iter()
        .flat_map(|(side, kind)| (1..=super::book::LEVELS).map(move |level| format!("{side}{level}{kind}")))
}

/// A file of rows of one kind, in time order, of one UTC day.
pub(crate) trait RowWriter<Row> {
    /// Appends a row.
    fn write(&mut self, row: &Row) -> Result<()>;
    /// Writes what is left and closes the file.
    fn finish(self: Box<Self>) -> Result<WrittenFile>;
}

/// Nanoseconds between the Unix epoch and the midnight that begins a UTC day.
pub(crate) fn midnight_ns(date: NaiveDate) -> i64 {
    let seconds = date.and_time(chrono::NaiveTime::MIN).and_utc().timestamp();
    seconds * 1_000_000_000
}
