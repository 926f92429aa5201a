//! The exchanges that calendars are shipped for: one file each, with its rules and where they are from.

mod always;
mod cme;
mod eurex;
mod lse;
mod nyse;

pub(crate) use always::ALWAYS;
pub(crate) use cme::CME;
pub(crate) use eurex::EUREX;
pub(crate) use lse::LSE;
pub(crate) use nyse::NYSE;

use chrono::Weekday;

use crate::schedule::Exchange;

/// How many there are.
pub(crate) const COUNT: usize = 5;

/// All of them, in the order in which they are listed.
pub(crate) static ALL: [&Exchange; COUNT] = [&NYSE, &CME, &LSE, &EUREX, &ALWAYS];

/// The days on which exchanges of shares don't trade.
const SATURDAY_AND_SUNDAY: &[Weekday] = &[Weekday::Sat, Weekday::Sun];
