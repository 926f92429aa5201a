//! One line into one row.
//!
//! `table[,tag=value…] [field=value[,field=value…]] [timestamp]`. A row needs a tag or a field; InfluxDB asks for a field,
//! QuestDB doesn't.

use super::batch::{BatchBudget, LineBatch};
use super::error::{Reason, ScanResult, ScanStop, excerpt, expected, refused};
use super::number::digits;
use super::scan::LineText;
use super::settings::Precision;
use super::table::{LineTable, TIME_BYTES};
use super::value::{LineValue, value};

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Row,
    /// An empty line or a comment.
    Empty,
}

/// Reads the line at the text's beginning, and gives what it was and where the next one begins.
#[inline(always)]
pub(super) fn line(text: &LineText<'_>, now: i64, batch: &mut LineBatch) -> ScanResult<(LineKind, usize)> {
    let at = text.skip_spaces(0);
    if let Some(next) = text.line_end(at)? {
        return Ok((LineKind::Empty, next));
    }
    if text.byte(at)? == b'#' {
        return comment(text, at);
    }
    let (name, end) = text.name(at, true)?;
    if !matches!(text.byte(end)?, b',' | b' ') {
        return Err(expected("a comma or a space behind the table's name", end));
    }
    if name.raw.is_empty() {
        return Err(expected("the table's name", at));
    }
    let position = batch.table(name)?;
    let LineBatch { budget, tables, .. } = batch;
    let table = &mut tables[position];
    let size = budget.size;
    table.begin();
    match row(text, end, table, budget) {
        Ok((time, next)) => {
            table.keep(time.unwrap_or(now));
            budget.rows += 1;
            budget.size.columns += table.row_bytes;
            budget.size.values += TIME_BYTES;
            budget.size.stored += table.stored_row_bytes;
            Ok((LineKind::Row, next))
        }
        Err(stop) => {
            table.take_back();
            budget.size = size;
            Err(stop)
        }
    }
}

#[cold]
fn comment(text: &LineText<'_>, at: usize) -> ScanResult<(LineKind, usize)> {
    match memchr::memchr(b'\n', &text.bytes[at..]) {
        Some(newline) => Ok((LineKind::Empty, at + newline + 1)),
        None => text.byte(text.bytes.len()).map(|_| (LineKind::Empty, text.bytes.len())),
    }
}

/// Tags, fields and timestamp from behind the table's name.
#[inline(always)]
fn row(
    text: &LineText<'_>,
    at: usize,
    table: &mut LineTable,
    budget: &mut BatchBudget,
) -> ScanResult<(Option<i64>, usize)> {
    let mut at = at;
    let mut place = 0;
    let mut items = false;
    while text.byte(at)? == b',' {
        (at, place) = item(text, at + 1, place, true, table, budget).map_err(|stop| rest(text, true, stop))?;
        items = true;
    }
    let tags = items;
    if text.byte(at)? == b' ' {
        at = text.skip_spaces(at);
        if text.line_end(at)?.is_none() && !(tags && is_timestamp(text, at)?) {
            loop {
                (at, place) = item(text, at, place, false, table, budget).map_err(|stop| rest(text, false, stop))?;
                items = true;
                if text.byte(at)? != b',' {
                    break;
                }
                at += 1;
            }
            if text.byte(at)? == b' ' {
                at = text.skip_spaces(at);
            }
        }
    }
    if !items {
        return Err(expected("a tag or a field", at));
    }
    if let Some(next) = text.line_end(at)? {
        return Ok((None, next));
    }
    if at > 0 && text.bytes[at - 1] != b' ' {
        return Err(expected("a comma, a space or the line's end", at));
    }
    let (time, end) = timestamp(text, at, budget.precision)?;
    match text.line_end(text.skip_spaces(end))? {
        Some(next) => Ok((Some(time), next)),
        None => Err(expected("the line's end behind the timestamp", end)),
    }
}

/// One `name=value`, the position behind it, and the place of the next name.
#[inline(always)]
fn item(
    text: &LineText<'_>,
    at: usize,
    place: usize,
    tag: bool,
    table: &mut LineTable,
    budget: &mut BatchBudget,
) -> ScanResult<(usize, usize)> {
    let read = |at| if tag { tag_value(text, at) } else { value(text, at) };
    if let Some((column, behind, next)) = table.guess(text, at, place) {
        let (value, end) = read(behind)?;
        table.set(column, &value, tag, behind, budget).map_err(|stop| stop.behind(end))?;
        return Ok((end, next));
    }
    let (name, behind) = text.name(at, false)?;
    if text.byte(behind)? != b'=' {
        return Err(expected("`=` behind a name", behind));
    }
    if name.raw.is_empty() {
        return Err(expected(if tag { "a tag's name" } else { "a field's name" }, at));
    }
    let (value, end) = read(behind + 1)?;
    let column = table.find(name, at, place, &value, tag, budget).map_err(|stop| stop.behind(end))?;
    let Some(column) = column else { return Ok((end, place)) };
    table.set(column, &value, tag, behind + 1, budget).map_err(|stop| stop.behind(end))?;
    Ok((end, place + 1))
}

/// Reads on behind a value that was refused, for the line's end: binary values may hold line feeds.
#[cold]
fn rest(text: &LineText<'_>, tag: bool, stop: ScanStop) -> ScanStop {
    let ScanStop::Refused(mut refusal) = stop else { return stop };
    if refusal.whole {
        refusal.resume = match skip(text, refusal.resume, tag) {
            Ok(end) => end,
            Err(ScanStop::Refused(next)) => next.resume,
            Err(stop) => return stop,
        };
    }
    ScanStop::Refused(refusal)
}

/// Where tags and fields end.
fn skip(text: &LineText<'_>, mut at: usize, mut tag: bool) -> ScanResult<usize> {
    loop {
        match text.byte(at)? {
            b',' => at += 1,
            b' ' if tag => {
                tag = false;
                at = text.skip_spaces(at);
                if text.line_end(at)?.is_some() || is_timestamp(text, at)? {
                    return Ok(at);
                }
            }
            _ => return Ok(at),
        }
        let (_, behind) = text.name(at, false)?;
        if text.byte(behind)? != b'=' {
            return Err(expected("`=` behind a name", behind));
        }
        let read = if tag { tag_value(text, behind + 1) } else { value(text, behind + 1) };
        at = match read {
            Err(ScanStop::Refused(refusal)) if refusal.whole => refusal.resume,
            read => read?.1,
        };
    }
}

#[inline(always)]
fn tag_value<'a>(text: &LineText<'a>, at: usize) -> ScanResult<(LineValue<'a>, usize)> {
    let (name, end) = text.name(at, true)?;
    Ok((if name.raw.is_empty() { LineValue::Null } else { LineValue::Text(name) }, end))
}

/// Whether a line of tags alone has its timestamp at `at`.
fn is_timestamp(text: &LineText<'_>, at: usize) -> ScanResult<bool> {
    let first = text.byte(at)?;
    if !first.is_ascii_digit() && first != b'-' {
        return Ok(false);
    }
    let (_, end) = text.name(at, false)?;
    Ok(text.byte(end)? != b'=')
}

/// The time in nanoseconds; a suffix, as QuestDB's clients send it since protocol version 2, names its unit.
#[inline(always)]
fn timestamp(text: &LineText<'_>, at: usize, precision: Precision) -> ScanResult<(i64, usize)> {
    let negative = text.byte(at)? == b'-';
    let from = at + usize::from(negative);
    let digits = digits(text.bytes, from);
    let last = text.byte(digits.end)?;
    if digits.count == 0 || digits.point {
        return Err(expected("a timestamp of digits", at));
    }
    let (precision, end) = match last {
        b'n' => (Precision::Nanoseconds, digits.end + 1),
        b't' => (Precision::Microseconds, digits.end + 1),
        _ => (precision, digits.end),
    };
    let time = digits.signed(&text.bytes[from..digits.end], negative).and_then(|time| precision.nanoseconds(time));
    match time {
        Some(time) => Ok((time, end)),
        None => Err(refused(Reason::OutOfRange { text: excerpt(&text.bytes[at..digits.end]) }, at)),
    }
}
