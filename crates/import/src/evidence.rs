//! What the values of a column could be, by the first rows of a file.

use std::borrow::Cow;
use std::collections::HashSet;

use splay_store::ColumnType;

use crate::column_names::{SYMBOL_NAMES, TIME_NAMES, ends_as_clock, is_clock_name, same_name};
use crate::csv::columns::{NULL_TOKENS, null_option};
use crate::csv::compact_clock::{CompactClock, CompactClocks};
use crate::csv::number_form::NumberForm;
use crate::csv::numbers;
use crate::csv::times::{self, DayFirstDate, EpochUnit, InstantFormats, TimeSpelling};
use crate::few_texts::{SAMPLE_ROWS, are_symbols};

/// Most items of a list that becomes levels.
const LEVELS_MAX: i32 = 1024;

/// How values are written, as far as the caller says it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ValueFormats {
    /// Patterns of `strftime` for instants, dates and times of day.
    pub formats: Vec<String>,
    pub numbers: Option<NumberForm>,
    /// Texts that mean null, besides the usual ones.
    pub nulls: Vec<String>,
}

/// How often values of a column are numbers, and the first that is none.
#[derive(Debug, Clone, Default)]
struct NumbersAmongWords {
    numbers: usize,
    words: usize,
    first_word: Vec<u8>,
}

impl NumbersAmongWords {
    fn add(&mut self, text: &[u8], is_number: bool) {
        if is_number {
            self.numbers += 1;
            return;
        }
        if self.words == 0 {
            self.first_word = text.to_vec();
        }
        self.words += 1;
    }

    /// A word that stands in a column of numbers: nine of ten values are.
    fn stray(&self) -> Option<&[u8]> {
        (self.words > 0 && self.numbers >= 9 * self.words).then_some(self.first_word.as_slice())
    }
}

/// Whether all values are numbers in a form with groups or another point, and any needs it.
#[derive(Debug, Clone, Copy)]
struct SeparatedNumbers {
    all: bool,
    any: bool,
}

impl SeparatedNumbers {
    fn add(&mut self, text: &[u8], form: NumberForm) {
        let number = form.plain(text).filter(|number| is_exact_number(number));
        self.all &= number.is_some();
        self.any |= number.is_some_and(|number| *number != *text);
    }

    fn would_help(self) -> bool {
        self.all && self.any
    }
}

/// Whether a column of numbers takes a text without a loss of digits: leading zeros are digits of a code, and 64 bits hold no longer number.
fn is_exact_number(text: &[u8]) -> bool {
    let is_long = || numbers::integer(text).is_some_and(|value| value.unsigned_abs() >= 1 << 63);
    !is_padded(text) && numbers::float(text, 0).is_some() && !is_long()
}

/// Whether a number has leading zeros.
fn is_padded(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    digits.len() > 1 && digits[0] == b'0' && digits[1] != b'.'
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
    /// How many are times with a date.
    timestamps: usize,
    epoch: Option<EpochUnit>,
    epoch_possible: bool,
    bytes_max: usize,
    distinct: HashSet<Vec<u8>>,
    /// Lists and objects, and the most items of one; no levels if one isn't a list of numbers.
    nested: usize,
    levels: Option<usize>,
    /// How many are times of day, and the first that is none.
    clocks: usize,
    no_clock: Vec<u8>,
    /// What they are as times of day of digits alone.
    compact: CompactClocks,
    /// Whether all whole numbers are floats of the same value.
    is_small: bool,
    /// Whether the caller's formats read all: as instants, dates, times of day.
    by_format: [bool; 3],
    /// Whether they read all as times of day whose zeros in front may be missing.
    clocks_by_format: bool,
    is_tried: bool,
    /// Numbers with points and commas, by form.
    separated: [SeparatedNumbers; 2],
    among_words: NumbersAmongWords,
    /// How dates are written that are in none of the usual forms.
    foreign: Option<DayFirstDate>,
    is_foreign: bool,
    instant_formats: InstantFormats,
    example: Vec<u8>,
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
            timestamps: 0,
            epoch: None,
            epoch_possible: true,
            bytes_max: 0,
            distinct: HashSet::new(),
            nested: 0,
            levels: Some(0),
            clocks: 0,
            no_clock: Vec::new(),
            compact: CompactClocks::default(),
            is_small: true,
            by_format: [true; 3],
            clocks_by_format: true,
            is_tried: false,
            separated: [SeparatedNumbers { all: true, any: false }; 2],
            among_words: NumbersAmongWords::default(),
            foreign: None,
            is_foreign: true,
            instant_formats: InstantFormats::default(),
            example: Vec::new(),
        }
    }
}

impl Evidence {
    /// A list or an object as it is written, with the length of a list of numbers.
    pub fn add_nested(&mut self, text: &[u8], numbers: Option<usize>, writing: &ValueFormats) {
        self.nested += 1;
        self.levels = self.levels.zip(numbers).map(|(most, items)| most.max(items));
        self.add(text, true, writing);
    }

    pub fn add(&mut self, text: &[u8], quoted: bool, writing: &ValueFormats) {
        let of_text = |texts: &[String], text: &[u8]| texts.iter().any(|null| null.as_bytes() == text);
        if text.is_empty() || !quoted && of_text(&writing.nulls, text) {
            return;
        }
        let content = text.trim_ascii();
        let token = content.is_empty() || !quoted && (is_null_token(content) || of_text(&writing.nulls, content));
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
        self.add_written(text, writing);
        self.add_clock(text);
        self.bool = self.bool && (text.eq_ignore_ascii_case(b"true") || text.eq_ignore_ascii_case(b"false"));
        // What a number is as the caller writes them.
        let number = match writing.numbers {
            None => Some(Cow::Borrowed(text)),
            Some(form) => form.plain(text),
        };
        let number = number.as_deref().unwrap_or_default();
        let padded = is_padded(number);
        let integer = if padded || number.contains(&b'.') { None } else { numbers::integer(number) };
        self.int = self.int && integer.is_some_and(|v| i64::try_from(v).is_ok());
        self.uint = self.uint && integer.is_some_and(|v| u64::try_from(v).is_ok());
        let exact = integer.is_none_or(|v| v.unsigned_abs() < 1 << 63);
        let is_float = !padded && exact && numbers::float(number, 0).is_some();
        self.among_words.add(text, is_float);
        self.float = self.float && is_float;
        self.is_small = self.is_small && integer.is_none_or(|v| v.unsigned_abs() <= 1 << 53);
        self.date = self.date && times::date(text).is_some();
        self.timestamps += usize::from(times::written(text).is_some());
        if self.epoch_possible {
            let point = memchr::memchr(b'.', text).unwrap_or(text.len());
            let unit = numbers::integer(&text[..point]).and_then(EpochUnit::guess);
            let epoch = unit.filter(|unit| times::count(text, *unit).is_some());
            self.epoch_possible = epoch.is_some() && (self.epoch.is_none() || self.epoch == epoch);
            self.epoch = epoch;
        }
    }

    /// The type, and how times are written.
    pub fn column_type(&self, name: &str, rows: usize, writing: &ValueFormats) -> (ColumnType, TimeSpelling) {
        let time_name = TIME_NAMES.iter().any(|n| same_name(n, name)) || is_timelike(name);
        let symbol_name = SYMBOL_NAMES.iter().any(|n| same_name(n, name));
        let plain = |column_type| (column_type, TimeSpelling::Written);
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
        if self.is_formatted(name) {
            return self.formatted(writing);
        }
        if let Some(unit) = self.epoch.filter(|_| self.epoch_possible && time_name) {
            return (ColumnType::Timestamp, TimeSpelling::Epoch(unit));
        }
        if self.bool {
            return plain(ColumnType::Bool);
        }
        if self.date && (!self.int || time_name) {
            return plain(ColumnType::Date);
        }
        if self.int && self.is_small && is_price(name) {
            return plain(ColumnType::Float64);
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
        // Few values that are none don't make a time a text: their rows are malformed.
        if self.timestamps == self.values || time_name && self.timestamps * 10 >= self.values * 9 {
            return plain(ColumnType::Timestamp);
        }
        let is_clock = is_clock_name(name) || ends_as_clock(name);
        if self.clocks == self.values || is_clock && self.clocks * 10 >= self.values * 9 {
            return (ColumnType::Time, TimeSpelling::ClockText);
        }
        let are_symbols = are_symbols(self.distinct.len(), self.bytes_max, rows);
        plain(if are_symbols { ColumnType::Symbol } else { ColumnType::Text })
    }

    fn add_clock(&mut self, text: &[u8]) {
        self.compact.add(text);
        if times::time_of_day(text, &TimeSpelling::ClockText).is_some() {
            self.clocks += 1;
        } else if self.no_clock.is_empty() {
            self.no_clock = text.to_vec();
        }
    }

    fn add_written(&mut self, text: &[u8], writing: &ValueFormats) {
        if self.example.is_empty() {
            self.example = text.to_vec();
        }
        if !writing.formats.is_empty() {
            self.add_formatted(text, &writing.formats);
        }
        self.instant_formats.add(text);
        let forms = self.separated.iter_mut().zip(NumberForm::USUAL);
        forms.filter(|(separated, _)| separated.all).for_each(|(separated, form)| separated.add(text, form));
        if self.is_foreign {
            let merged = DayFirstDate::of(text).and_then(|new| match self.foreign.take() {
                None => Some(new),
                Some(before) => before.joined(&new),
            });
            self.is_foreign = merged.is_some();
            self.foreign = merged;
        }
    }

    fn add_formatted(&mut self, text: &[u8], formats: &[String]) {
        self.is_tried = true;
        self.clocks_by_format = self.clocks_by_format && times::is_clock_by_formats(text, formats);
        if self.by_format != [false; 3] {
            let matches = times::by_formats(text, formats);
            self.by_format.iter_mut().zip(matches).for_each(|(all, matches)| *all &= matches);
        }
    }

    /// Whether the caller's formats read all values. Zeros in front are missing of times of day alone.
    pub fn is_formatted(&self, name: &str) -> bool {
        let is_clock = || self.clocks_by_format && (is_clock_name(name) || ends_as_clock(name));
        self.is_tried && (self.by_format != [false; 3] || is_clock())
    }

    /// Whether they read them as dates.
    pub fn is_formatted_date(&self) -> bool {
        self.is_tried && !self.by_format[0] && self.by_format[1]
    }

    /// The form in which all values are times of day of digits, if it is the only one.
    pub fn compact_clock(&self) -> Option<CompactClock> {
        self.compact.form()
    }

    /// Whether all values are dates.
    pub fn is_of_dates(&self) -> bool {
        self.date && self.values > 0
    }

    /// The unit in which all values are numbers since 1970.
    pub fn epoch_unit(&self) -> Option<EpochUnit> {
        self.epoch.filter(|_| self.epoch_possible)
    }

    /// A value that stands against reading the column as times of day; the first one if none does more than others. `None` of a column without values.
    pub fn doubtful_clock(&self) -> Option<&[u8]> {
        let no_clock = if self.clocks > 0 { &self.no_clock } else { &self.example };
        let doubtful = self.compact.other().filter(|_| self.clocks == 0).unwrap_or(no_clock);
        (self.values > 0).then_some(doubtful)
    }

    /// The first value.
    pub fn example(&self) -> &[u8] {
        &self.example
    }

    /// The format that reads all values as dates or instants, though they are none of the usual ways.
    pub fn instant_format(&self) -> Option<&'static str> {
        self.instant_formats.first()
    }

    fn formatted(&self, writing: &ValueFormats) -> (ColumnType, TimeSpelling) {
        match self.by_format {
            [true, ..] => (ColumnType::Timestamp, TimeSpelling::Patterns(writing.formats.clone())),
            [_, true, _] => (ColumnType::Date, TimeSpelling::Written),
            _ => (ColumnType::Time, TimeSpelling::ClockPatterns(writing.formats.clone())),
        }
    }

    /// What would read the values of a column that is taken as text, though its name and most of its values aren't those of texts.
    pub fn hint(&self, name: &str, rows: usize, writing: &ValueFormats) -> Option<String> {
        let (column_type, _) = self.column_type(name, rows, writing);
        let is_text = matches!(column_type, ColumnType::Text | ColumnType::Symbol) && self.values > 0;
        if !is_text || self.nested > 0 || SYMBOL_NAMES.iter().any(|symbol| same_name(symbol, name)) {
            return None;
        }
        let example = String::from_utf8_lossy(&self.example[..self.example.len().min(40)]).into_owned();
        if let Some(foreign) = &self.foreign {
            return Some(format!("{name} holds {example}: {} would read it", foreign.options()));
        }
        let form = NumberForm::USUAL.into_iter().zip(self.separated).find(|(_, separated)| separated.would_help());
        if let Some((form, _)) = form.filter(|_| writing.numbers.is_none()) {
            return Some(format!("{name} holds {example}, which stays text: --numbers {form} would read it"));
        }
        let word = self.among_words.stray()?;
        let (option, word) = (null_option(word)?, String::from_utf8_lossy(word));
        Some(format!(
            "{name} holds {word} among numbers and is therefore a {column_type}: {option} would make it null, --type {name}=float64 would refuse it with its line"
        ))
    }
}

/// Whether a text means null in a column that holds no text.
fn is_null_token(text: &[u8]) -> bool {
    NULL_TOKENS.iter().any(|token| token.as_bytes() == text)
}

fn is_timelike(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["_time", "_ts", "timestamp", "ts_"].iter().any(|part| lower.contains(part))
}

/// Last words of the names of prices. Whole numbers under such a name are floats, as the next file has others.
const PRICE_WORDS: [&str; 15] = [
    "price", "px", "bid", "ask", "open", "high", "low", "close", "vwap", "twap", "mid", "last", "strike", "settle",
    "nav",
];

fn is_price(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    name.ends_with("price") || PRICE_WORDS.contains(&name.rsplit(['_', ' ', '-', '.']).next().unwrap_or_default())
}
