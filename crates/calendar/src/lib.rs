//! Trading calendars: on which dates an exchange trades, and from when to when.
//!
//! ```
//! use splay_calendar::{Calendar, date};
//!
//! let nyse = Calendar::named("NYSE")?;
//! let week = nyse.days(date(2024, 11, 25), date(2024, 11, 30))?;
//! let dates: Vec<String> = week.iter().map(|day| day.date.to_string()).collect();
//! assert_eq!(dates, ["2024-11-25", "2024-11-26", "2024-11-27", "2024-11-29"]); // Thanksgiving is closed.
//! assert_eq!(week[3].note.as_deref(), Some("the day after Thanksgiving")); // It closes at 13:00 in New York.
//! # Ok::<(), splay_calendar::Error>(())
//! ```
//!
//! - Dates are computed from rules (`exchanges/`) when a calendar is first asked for, and kept.
//! - Others are given row by row (`rows.rs`), as a table of theirs has them.
//! - Each calendar states the dates that its rules hold for. A question outside of them is an error, not a guess.
//! - Instants are nanoseconds since the epoch in UTC. A session includes its opening and excludes its close.
//! - Sessions are those that the exchange announced. Halts and failures during a session aren't recorded.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod calendar;
mod error;
mod exchanges;
mod instants;
mod rows;
mod rules;
mod schedule;

pub use calendar::{Calendar, Session, SpecialDay, SpecialDayKind, TradingDay};
pub use error::{Error, Result};
pub use instants::SessionSearch;
pub use rows::Row;
pub use rules::date;
