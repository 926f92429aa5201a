//! Guesses from the first rows: delimiter, header, column types, time column, symbol column.
//!
//! - A guess never loses digits: whole numbers with leading zeros stay text, numbers beyond 64 bits too.
//! - A wrong guess can't lose data either: a later value that doesn't fit stops the load and names the setting that helps.

use std::collections::HashSet;

use splay_store::ColumnType;

use crate::csv::columns::ColumnPlan;
use crate::csv::times::{self, Count, Spelling, Zone};
use crate::csv::{Rule, fields, numbers, same_name};

/// Bytes of a file that are looked at.
pub(crate) const SAMPLE_BYTES: usize = 1 << 20;

pub(crate) const SAMPLE_ROWS: usize = 10_000;
const SYMBOL_BYTES_MAX: usize = 32;

/// Most items of a list that becomes levels.
const LEVELS_MAX: i32 = 1024;

/// Texts that mean null in columns that hold no text. A ticker may be called NA, so text columns keep them.
pub(crate) const NULL_TOKENS: [&str; 8] = ["NA", "N/A", "NULL", "null", "None", "none", "\\N", "-"];

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

/// Names of symbol columns, the likeliest first.
pub const SYMBOL_NAMES: [&str; 10] =
    ["sym", "symbol", "ticker", "instrument", "instrument_name", "pair", "product", "product_id", "code", "security"];

/// The first rows of one or several files.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub names: Vec<String>,
    columns: Vec<Evidence>,
    pub rows: usize,
}

/// What a column's values could be.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    values: usize,
    bool: bool,
    int: bool,
    uint: bool,
    float: bool,
    date: bool,
    timestamp: bool,
    epoch: Option<Count>,
    epoch_possible: bool,
    bytes_max: usize,
    distinct: HashSet<Vec<u8>>,
    /// Lists and objects, and the most items of one; no levels if one isn't a list of numbers.
    nested: usize,
    levels: Option<usize>,
}

impl Default for Evidence {
    fn default() -> Evidence {
        Evidence {
            values: 0,
            bool: true,
            int: true,
            uint: true,
            float: true,
            date: true,
            timestamp: true,
            epoch: None,
            epoch_possible: true,
            bytes_max: 0,
            distinct: HashSet::new(),
            nested: 0,
            levels: Some(0),
        }
    }
}

impl Evidence {
    /// A list or an object as it is written, with the length of a list of numbers.
    pub fn add_nested(&mut self, text: &[u8], numbers: Option<usize>) {
        self.nested += 1;
        self.levels = self.levels.zip(numbers).map(|(most, items)| most.max(items));
        self.add(text, true);
    }

    pub fn add(&mut self, text: &[u8], quoted: bool) {
        let token = !quoted && NULL_TOKENS.iter().any(|t| t.as_bytes() == text);
        if text.is_empty() {
            return;
        }
        self.bytes_max = self.bytes_max.max(text.len());
        // Distinct texts matter for columns that are nothing else.
        if !self.float && self.distinct.len() <= SAMPLE_ROWS && !self.distinct.contains(text) {
            self.distinct.insert(text.to_vec());
        }
        if token {
            return;
        }
        let text = text.trim_ascii();
        self.values += 1;
        self.bool = self.bool && (text.eq_ignore_ascii_case(b"true") || text.eq_ignore_ascii_case(b"false"));
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let padded = digits.len() > 1 && digits[0] == b'0' && digits[1] != b'.';
        let integer = if padded || text.contains(&b'.') { None } else { numbers::integer(text) };
        self.int = self.int && integer.is_some_and(|v| i64::try_from(v).is_ok());
        self.uint = self.uint && integer.is_some_and(|v| u64::try_from(v).is_ok());
        let exact = integer.is_none_or(|v| v.unsigned_abs() < 1 << 63);
        self.float = self.float && !padded && exact && numbers::float(text, 0).is_some();
        self.date = self.date && times::date(text).is_some();
        self.timestamp = self.timestamp && times::written(text).is_some();
        if self.epoch_possible {
            let point = memchr::memchr(b'.', text).unwrap_or(text.len());
            let unit = numbers::integer(&text[..point]).and_then(Count::guess);
            let epoch = unit.filter(|unit| times::count(text, *unit).is_some());
            self.epoch_possible = epoch.is_some() && (self.epoch.is_none() || self.epoch == epoch);
            self.epoch = epoch;
        }
    }

    /// The type, and how times are written.
    fn column_type(&self, name: &str, rows: usize) -> (ColumnType, Spelling) {
        let time_name = TIME_NAMES.iter().any(|n| same_name(n, name)) || is_timelike(name);
        let symbol_name = SYMBOL_NAMES.iter().any(|n| same_name(n, name));
        let plain = |column_type| (column_type, Spelling::Written);
        if self.values == 0 {
            return plain(if symbol_name { ColumnType::Symbol } else { ColumnType::Text });
        }
        if let (Some(size), true) = (self.levels, self.nested == self.values)
            && let Some(size @ 1..) = i32::try_from(size).ok().filter(|size| *size <= LEVELS_MAX)
        {
            return plain(ColumnType::Levels { size });
        }
        if self.nested > 0 {
            return plain(ColumnType::Text);
        }
        if symbol_name {
            return plain(ColumnType::Symbol);
        }
        if let Some(unit) = self.epoch.filter(|_| self.epoch_possible && time_name) {
            return (ColumnType::Timestamp, Spelling::Epoch(unit));
        }
        if self.bool {
            return plain(ColumnType::Bool);
        }
        if self.date && (!self.int || time_name) {
            return plain(ColumnType::Date);
        }
        if self.int {
            return plain(ColumnType::Int64);
        }
        if self.uint {
            return plain(ColumnType::UInt64);
        }
        if self.float {
            return plain(ColumnType::Float64);
        }
        if self.timestamp {
            return plain(ColumnType::Timestamp);
        }
        let few = self.distinct.len() <= (rows / 4).clamp(64, 4096);
        plain(if few && self.bytes_max <= SYMBOL_BYTES_MAX { ColumnType::Symbol } else { ColumnType::Text })
    }
}

fn is_timelike(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["_time", "_ts", "timestamp", "ts_"].iter().any(|part| lower.contains(part))
}

/// The delimiter that splits the first lines most evenly.
pub(crate) fn delimiter(sample: &[u8]) -> u8 {
    let lines: Vec<&[u8]> = sample.split(|&b| b == b'\n').filter(|l| !l.trim_ascii().is_empty()).take(20).collect();
    let score = |delimiter: u8| {
        let counts: Vec<usize> = lines.iter().map(|l| memchr::memchr_iter(delimiter, l).count()).collect();
        let first = counts.first().copied().unwrap_or(0);
        let even = counts.iter().filter(|&&c| c == first).count();
        if first == 0 { (0, 0) } else { (even, first) }
    };
    [b',', b'\t', b'|', b';'].into_iter().rev().max_by_key(|d| score(*d)).unwrap_or(b',')
}

impl Sample {
    /// Adds the first rows of a file. `header` is as set by the user; `None` to find out from this file.
    pub fn add(&mut self, bytes: &[u8], delimiter: u8, header: Option<bool>) -> bool {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut rows: Vec<Vec<(Vec<u8>, bool)>> = Vec::new();
        let mut at = 0;
        while at < bytes.len() && rows.len() <= SAMPLE_ROWS {
            if matches!(bytes[at], b'\n' | b'\r') {
                at += 1;
                continue;
            }
            // The load itself names the line of a malformed record.
            let Ok((fields, next)) = fields::record(bytes, at, delimiter) else { break };
            rows.push(fields.into_iter().map(|f| (f.text.into_owned(), f.quoted)).collect());
            at = next;
        }
        let has_header = header.unwrap_or_else(|| looks_like_header(&rows));
        let mut rows = rows.into_iter();
        let names = if has_header {
            let Some(first) = rows.next() else { return true };
            first.iter().map(|(text, _)| String::from_utf8_lossy(text).trim().to_owned()).collect()
        } else {
            (1..=rows.as_slice().first().map_or(0, Vec::len)).map(|n| format!("column_{n}")).collect::<Vec<_>>()
        };
        let places: Vec<usize> = names.iter().map(|name| self.place(name)).collect();
        for row in rows {
            if row.len() == places.len() {
                self.rows += 1;
                row.iter().zip(&places).for_each(|((text, quoted), &place)| self.columns[place].add(text, *quoted));
            }
        }
        has_header
    }

    /// What is known of the column of this name.
    pub fn column(&mut self, name: &str) -> &mut Evidence {
        let place = self.place(name);
        &mut self.columns[place]
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.names.iter().position(|n| same_name(n, name)) {
            return place;
        }
        self.names.push(name.to_owned());
        self.columns.push(Evidence::default());
        self.names.len() - 1
    }

    /// A rule for each column that was seen.
    pub fn rules(&self) -> Vec<Rule> {
        let types = self.names.iter().zip(&self.columns).map(|(name, evidence)| {
            let (column_type, spelling) = evidence.column_type(name, self.rows);
            let mut plan = ColumnPlan::new(name, column_type);
            plan.spelling = spelling;
            set_null_tokens(&mut plan);
            Rule { names: vec![name.clone()], plan: Some(plan), optional: true, value: None, level: None }
        });
        types.collect()
    }
}

/// Gives a column the null tokens of its type.
pub(crate) fn set_null_tokens(plan: &mut ColumnPlan) {
    let is_text = matches!(plan.column_type, ColumnType::Text | ColumnType::Symbol);
    let tokens: &[&str] = if is_text { &[] } else { &NULL_TOKENS };
    plan.nulls = tokens.iter().map(|t| t.as_bytes().to_vec()).collect();
}

/// Whether the first row names columns: it holds no empty, repeated or number-like field, and either a column below
/// holds something other than text or its names look like names.
fn looks_like_header(rows: &[Vec<(Vec<u8>, bool)>]) -> bool {
    let Some(first) = rows.first() else { return true };
    let is_value = |text: &[u8]| numbers::float(text, 0).is_some() || times::written(text).is_some();
    let mut seen = HashSet::new();
    if first.iter().any(|(text, _)| text.is_empty() || is_value(text) || !seen.insert(text.to_ascii_lowercase())) {
        return false;
    }
    let below = &rows[1..];
    let has_values = below.iter().take(100).flatten().any(|(text, _)| is_value(text));
    let is_name = |text: &[u8]| text[0].is_ascii_alphabetic() || text[0] == b'_';
    has_values
        || below.is_empty()
        || first.iter().all(|(text, _)| is_name(text) && text.iter().any(u8::is_ascii_lowercase))
}

/// The likeliest time column: a timestamp with a known name, else the first timestamp, else a date with a known name.
pub(crate) fn time_column<'a>(columns: &[(&'a str, &ColumnType)]) -> Option<&'a str> {
    let named = |wanted: ColumnType| {
        TIME_NAMES.iter().find_map(|n| columns.iter().find(|(name, t)| **t == wanted && same_name(name, n)))
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
pub(crate) fn as_timestamp(plan: &mut ColumnPlan, zone: &Zone) {
    if plan.column_type == ColumnType::Date {
        plan.zone = zone.clone();
    }
    if plan.column_type != ColumnType::Timestamp {
        plan.column_type = ColumnType::Timestamp;
        plan.spelling = Spelling::Any;
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
        assert!(rows("time,price\n"));
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
