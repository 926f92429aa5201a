//! What can go wrong with a calendar.

use chrono::NaiveDate;

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No calendar has that name. Choose one of those that are listed.
    #[error("there is no calendar {name:?}; there are {available}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        available: String,
    },
    /// Rows that make no calendar. Correct those that are named.
    #[error("the table {calendar} is no calendar: {reason}")]
    Rows {
        /// The name of the table.
        calendar: String,
        /// Which rows, and what is wrong with them.
        reason: String,
    },
    /// The calendar's rules don't hold then. Narrow the question, or take another calendar.
    #[error("the calendar {calendar} covers {first} to {last}, not {request}")]
    NotCovered {
        /// The calendar's name.
        calendar: String,
        /// The first date that it covers.
        first: NaiveDate,
        /// The last date that it covers.
        last: NaiveDate,
        /// The date or instant that was asked for.
        request: String,
    },
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
