//! Guesses from the first rows: delimiter, header, column types, time column, symbol column.
//!
//! - A guess never loses digits: whole numbers with leading zeros stay text, numbers beyond 64 bits too.
//! - A wrong guess can't lose data either: a later value that doesn't fit stops the load and names the setting that helps.

use std::collections::HashSet;

use splay_store::{ColumnType, Counted};

use crate::column_names::{SYMBOL_NAMES, TIME_NAMES, is_unnamed, name_index_columns, same_name};
use crate::csv::columns::{ColumnPlan, set_null_tokens};
use crate::csv::fields::is_value;
use crate::csv::times::{LocalZone, TimeSpelling};
use crate::csv::{fields, preamble};
use crate::error::excerpt;
use crate::evidence::{Evidence, ValueFormats};
use crate::few_texts::SAMPLE_ROWS;
use crate::text_file_format::ColumnRule;

/// Bytes of a file that are looked at.
pub(crate) const SAMPLE_BYTES: usize = 1 << 20;

/// The first rows of one or several files.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub names: Vec<String>,
    columns: Vec<Evidence>,
    /// Whether a column's name stands between blanks. Its values then do so as well, and the blanks belong to none of them.
    padded: Vec<bool>,
    pub rows: usize,
    /// The first record that isn't a row of these columns, with its line.
    pub fault: Option<String>,
    /// How dates and numbers are written, as far as the caller says it.
    pub writing: ValueFormats,
    /// Lines before the header, as far as the caller says it.
    skip_lines: Option<u64>,
    /// The lines before the header that were recognised as such, in words.
    passed: Option<String>,
}

/// Lines that say how a file is delimited.
const DELIMITED_LINES: usize = 20;

/// The delimiter that splits the first lines most evenly, comments before the header aside: most lines have it as often as each other, most of them
/// in a row. Titles have fewer.
pub(crate) fn delimiter(sample: &[u8]) -> u8 {
    let sample = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
    let written = || sample.split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let mut lines: Vec<&[u8]> = written().skip_while(|line| preamble::is_comment(line)).take(DELIMITED_LINES).collect();
    if lines.is_empty() {
        lines = written().take(DELIMITED_LINES).collect();
    }
    let score = |delimiter: u8| {
        let counts: Vec<usize> = lines.iter().map(|l| memchr::memchr_iter(delimiter, l).count()).collect();
        let even = |count: usize| {
            let runs = counts.split(|other| *other != count).map(<[usize]>::len);
            (counts.iter().filter(|other| **other == count).count(), runs.max().unwrap_or(0), count)
        };
        counts.iter().filter(|count| **count > 0).map(|count| even(*count)).max().unwrap_or((0, 0, 0))
    };
    [b',', b'\t', b'|', b';'].into_iter().rev().max_by_key(|d| score(*d)).unwrap_or(b',')
}

impl Sample {
    pub fn new(writing: ValueFormats, skip_lines: Option<u64>) -> Sample {
        Sample { writing, skip_lines, ..Sample::default() }
    }

    /// Adds the first rows of a file. `header` is as set by the user; `None` to find out from this file.
    pub fn add(&mut self, bytes: &[u8], delimiter: u8, header: Option<bool>) -> bool {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut rows: Vec<Vec<(Vec<u8>, bool)>> = Vec::new();
        let begin = preamble::table_begin(bytes, delimiter, header, self.skip_lines);
        self.note_passed(&bytes[..begin]);
        let (mut begins, mut at) = (Vec::new(), begin);
        while at < bytes.len() && rows.len() <= SAMPLE_ROWS {
            if matches!(bytes[at], b'\n' | b'\r') {
                at += 1;
                continue;
            }
            // The load itself stops at a malformed record.
            let (fields, next) = match fields::record(bytes, at, delimiter) {
                Ok(record) => record,
                Err(reason) => {
                    self.fault.get_or_insert_with(|| format!("line {}: {reason}", line_of(bytes, at)));
                    break;
                }
            };
            rows.push(fields.into_iter().map(|f| (f.text.into_owned(), f.quoted)).collect());
            begins.push(at);
            at = next;
        }
        let has_header = header.unwrap_or_else(|| looks_like_header(&rows));
        let fields_of_first = rows.first().map_or(0, Vec::len);
        let mut rows = rows.into_iter().zip(begins);
        let mut padded = Vec::new();
        let mut names = if has_header {
            let Some((first, _)) = rows.next() else { return true };
            padded = first.iter().map(|(text, quoted)| !quoted && text.trim_ascii().len() < text.len()).collect();
            first.iter().map(|(text, _)| String::from_utf8_lossy(text).trim().to_owned()).collect()
        } else {
            (1..=fields_of_first).map(|n| format!("column_{n}")).collect::<Vec<_>>()
        };
        name_index_columns(&mut names);
        let places: Vec<usize> = names.iter().map(|name| self.place(name)).collect();
        for (place, is_padded) in places.iter().zip(padded) {
            self.padded[*place] |= is_padded;
        }
        for (row, begin) in rows {
            if row.len() != places.len() {
                let (expected, found) = (places.len(), row.len());
                let reason = || format!("line {}: expected {expected} fields, found {found}", line_of(bytes, begin));
                self.fault.get_or_insert_with(reason);
                continue;
            }
            self.rows += 1;
            for ((text, quoted), &place) in row.iter().zip(&places) {
                let is_padded = self.padded[place] && !quoted;
                let text = if is_padded { text.trim_ascii() } else { text.as_slice() };
                self.columns[place].add(text, *quoted, &self.writing);
            }
        }
        has_header
    }

    /// Adds a value of the column of this name.
    pub fn add_value(&mut self, name: &str, text: &[u8], quoted: bool) {
        let place = self.place(name);
        self.columns[place].add(text, quoted, &self.writing);
    }

    /// Adds a list or an object, with the length of a list of numbers.
    pub fn add_nested(&mut self, name: &str, text: &[u8], numbers: Option<usize>) {
        let place = self.place(name);
        self.columns[place].add_nested(text, numbers, &self.writing);
    }

    /// What was seen of each column, in the order of the rules.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Evidence)> {
        self.names.iter().map(String::as_str).zip(&self.columns)
    }

    /// What was seen of the column of this name.
    pub fn evidence(&self, name: &str) -> Option<&Evidence> {
        self.columns().find(|(own, _)| same_name(own, name)).map(|(_, evidence)| evidence)
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.names.iter().position(|n| same_name(n, name)) {
            return place;
        }
        self.names.push(name.to_owned());
        self.columns.push(Evidence::default());
        self.padded.push(false);
        self.names.len() - 1
    }

    /// A rule for each column that was seen. Columns without names in front, which pandas makes of an index, are left out where they count rows,
    /// and are named by what they hold elsewhere.
    pub fn rules(&self) -> Vec<ColumnRule> {
        let (mut taken, mut is_leading) = (Vec::new(), true);
        let types = self.names.iter().zip(&self.columns).enumerate().map(|(place, (name, evidence))| {
            let (column_type, spelling) = evidence.column_type(name, self.rows, &self.writing);
            is_leading &= is_unnamed(name);
            let names = vec![name.clone()];
            if is_leading && matches!(column_type, ColumnType::Int64 | ColumnType::UInt64) {
                return ColumnRule { names, plan: None, optional: true, value: None, level: None };
            }
            let name = if is_leading { self.index_name(&column_type, &mut taken) } else { name.clone() };
            let mut plan = ColumnPlan::new(&name, column_type);
            plan.spelling = spelling;
            plan.is_trimmed = self.padded[place];
            plan.numbers = self.writing.numbers;
            if evidence.is_formatted_date() {
                plan.date_patterns.clone_from(&self.writing.formats);
            }
            set_null_tokens(&mut plan);
            ColumnRule { names, plan: Some(plan), optional: true, value: None, level: None }
        });
        types.collect()
    }

    /// A name for a column of an index that no other column has.
    fn index_name(&self, column_type: &ColumnType, taken: &mut Vec<String>) -> String {
        let base = match column_type {
            ColumnType::Timestamp | ColumnType::Date => Some("time"),
            ColumnType::Symbol => Some("symbol"),
            _ => None,
        };
        let numbered = (2..).map(|number: u64| format!("index_{number}"));
        let candidates = base.map(str::to_owned).into_iter().chain(["index".to_owned()]).chain(numbered);
        let is_free = |name: &String| !self.names.iter().chain(&*taken).any(|other| same_name(other, name));
        let name = candidates.into_iter().find(is_free).unwrap_or_default();
        taken.push(name.clone());
        name
    }

    /// Notes the lines before a header, if they weren't counted by the caller.
    fn note_passed(&mut self, passed: &[u8]) {
        let Some(first) = passed.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty()) else {
            return;
        };
        if self.skip_lines.is_none() && self.passed.is_none() {
            let lines = Counted(line_of(passed, passed.len()) as u64 - 1, "line");
            let first = excerpt(first.trim_ascii());
            self.passed =
                Some(format!("passed over {lines} before the table ({first}); --skip-lines 0 would read all lines"));
        }
    }

    /// What stands before the header, and what would help to read columns that are taken as text where they aren't said to be texts.
    pub fn hints(&self, is_declared_text: &dyn Fn(&str) -> bool) -> Vec<String> {
        let columns = self.names.iter().zip(&self.columns).filter(|(name, _)| !is_declared_text(name));
        let of_columns = columns.filter_map(|(name, evidence)| evidence.hint(name, self.rows, &self.writing));
        self.passed.clone().into_iter().chain(of_columns).collect()
    }

    /// Formats that would read columns as dates or instants.
    pub fn formats(&self) -> Vec<String> {
        let formats = self.columns().filter_map(|(name, evidence)| {
            let (format, example) = (evidence.instant_format()?, String::from_utf8_lossy(evidence.example()));
            Some(format!("{name} holds {example}: --date-format '{format}' would read it"))
        });
        formats.collect()
    }

    /// Whether the caller's formats of dates fit any column.
    pub fn uses_formats(&self) -> bool {
        self.columns().any(|(name, evidence)| evidence.is_formatted(name))
    }
}

/// The line of a position, from 1.
fn line_of(bytes: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &bytes[..at]).count() + 1
}

/// Whether the first row names columns: it holds no number-like field, and either a column below holds something other than text, or its
/// names look like names and none is repeated.
fn looks_like_header(rows: &[Vec<(Vec<u8>, bool)>]) -> bool {
    let Some(first) = rows.first() else { return true };
    let below = &rows[1..];
    let has_values = below.iter().take(100).flatten().any(|(text, _)| is_value(text));
    let (mut seen, mut is_repeated) = (HashSet::new(), false);
    for (place, (text, _)) in first.iter().enumerate() {
        let text = text.trim_ascii();
        // pandas leaves the names of an index empty.
        let may_be_blank = (has_values || below.is_empty()) && first.len() > place + 1 && seen.is_empty();
        if is_value(text) || text.is_empty() && !may_be_blank {
            return false;
        }
        if !text.is_empty() {
            is_repeated |= !seen.insert(text.to_ascii_lowercase());
        }
    }
    if is_repeated && !has_values {
        return false;
    }
    let mut names = first.iter().map(|(text, _)| text.trim_ascii());
    let is_name = |text: &[u8]| text[0].is_ascii_alphabetic() || text[0] == b'_';
    has_values
        || below.is_empty()
        || names.all(|text| !text.is_empty() && is_name(text) && text.iter().any(u8::is_ascii_lowercase))
}

/// The likeliest time column: a timestamp with a known name, else the first timestamp, else a date with a known name.
pub(crate) fn time_column<'a>(columns: &[(&'a str, &ColumnType)]) -> Option<&'a str> {
    let named = |column_type: ColumnType| {
        TIME_NAMES.iter().find_map(|n| columns.iter().find(|(name, t)| **t == column_type && same_name(name, n)))
    };
    named(ColumnType::Timestamp)
        .or_else(|| columns.iter().find(|(_, t)| **t == ColumnType::Timestamp))
        .or_else(|| named(ColumnType::Date))
        .map(|(name, _)| *name)
}

/// The likeliest symbol column.
pub(crate) fn symbol_column<'a>(columns: &[(&'a str, &ColumnType)]) -> Option<&'a str> {
    let named = |n: &&str| columns.iter().find(|(name, t)| **t == ColumnType::Symbol && same_name(name, n));
    SYMBOL_NAMES.iter().find_map(named).map(|(name, _)| *name)
}

/// Makes a plan read timestamps in any usual way; dates become midnight in `zone`.
pub(crate) fn as_timestamp(plan: &mut ColumnPlan, zone: &LocalZone) {
    if plan.column_type == ColumnType::Date {
        plan.zone = zone.clone();
    }
    if plan.column_type != ColumnType::Timestamp {
        plan.column_type = ColumnType::Timestamp;
        plan.spelling = match plan.date_patterns.is_empty() {
            true => TimeSpelling::Any,
            false => TimeSpelling::Patterns(plan.date_patterns.clone()),
        };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sniffed(text: &str) -> Vec<(String, String)> {
        let mut sample = Sample::default();
        sample.add(text.as_bytes(), delimiter(text.as_bytes()), None);
        let plans = sample.rules().into_iter().filter_map(|r| r.plan);
        plans.map(|p| (p.name, p.column_type.to_string())).collect()
    }

    fn types(text: &str) -> String {
        sniffed(text).into_iter().map(|(_, t)| t).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn crypto_trades_need_no_recipe() {
        let text = "timestamp,symbol,exchange,side,price,amount,id\n\
                    1609459200123456,BTC-USD,COINBASE,buy,29000.5,0.25,118\n\
                    1609459200223456,ETH-USD,COINBASE,sell,730,1,119\n";
        assert_eq!(types(text), "timestamp symbol symbol symbol float64 float64 int64");
        let seconds =
            text.replace("1609459200123456", "1609459200.123456").replace("1609459200223456", "1609459200.223456");
        assert_eq!(types(&seconds), "timestamp symbol symbol symbol float64 float64 int64");
    }

    #[test]
    fn types_are_the_narrowest_that_hold_every_value() {
        let text = "a;b;c;d;e;f;g;h\n1;1;true;2024-01-02;2024-01-02 10:00;007;18446744073709551615;NA\n\
                    2;1.5;FALSE;2024-01-03;2024-01-03 11:00:00.5;008;2;1\n";
        assert_eq!(types(text), "int64 float64 bool date timestamp symbol uint64 int64");
    }

    #[test]
    fn headers_are_told_from_rows() {
        let rows = |text: &str| {
            let mut sample = Sample::default();
            sample.add(text.as_bytes(), b',', None)
        };
        assert!(rows("time,price\n1,2\n"));
        assert!(rows("name,kind\na,b\n"));
        assert!(!rows("1,2\n3,4\n"));
        assert!(!rows("2024-01-02,IBM,1\n"));
        assert!(!rows("AAPL,N,1\nIBM,N,2\n") || rows("AAPL,N,1\n") == rows("IBM,Q,7\n"));
        assert!(rows("time,price\n") && rows(",time,price\n"));
        assert!(!rows(",,\n") && !rows(",2024-01-02,IBM\n"));
    }

    #[test]
    fn long_texts_stay_text_and_symbols_are_named() {
        let ids: String = (0..500).map(|n| format!("{n:036x},IBM\n")).collect();
        assert_eq!(types(&format!("id,ticker\n{ids}")), "text symbol");
        let columns = [("venue", &ColumnType::Symbol), ("Ticker", &ColumnType::Symbol)];
        assert_eq!(symbol_column(&columns), Some("Ticker"));
        let times = [("ts_recv", &ColumnType::Timestamp), ("ts_event", &ColumnType::Timestamp)];
        assert_eq!(time_column(&times), Some("ts_event"));
    }
}
