//! Typed columns that fields are parsed into.
//!
//! - A column grows by one value per row and can be cut back when a row turns out malformed.
//! - Unquoted empty text is null; quoted empty text is an empty string in text columns and null elsewhere.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeListArray, Float32Array,
    Float64Array, Int32Array, Int64Array, StringArray, Time64NanosecondArray, TimestampNanosecondArray, UInt64Array,
};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field};
use arrow::util::bit_util;
use splay_store::ColumnType;

use super::number_form::NumberForm;
use super::numbers;
use super::times::{self, LocalZone, TimeSpelling};

/// Texts that mean null in columns that hold no text. A ticker may be called NA, so text columns keep them.
pub(crate) const NULL_TOKENS: [&str; 8] = ["NA", "N/A", "NULL", "null", "None", "none", "\\N", "-"];

/// How a table's column is read from text.
#[derive(Debug, Clone)]
pub(crate) struct ColumnPlan {
    pub name: String,
    pub column_type: ColumnType,
    pub spelling: TimeSpelling,
    pub date_patterns: Vec<String>,
    pub zone: LocalZone,
    /// Values are divided by ten to this power.
    pub shift: u32,
    /// Unquoted texts that mean null.
    pub nulls: Vec<Vec<u8>>,
    /// Text of spaces alone is null.
    pub blank_is_null: bool,
    /// Blanks around a text that isn't quoted don't belong to it. They never belong to other values.
    pub is_trimmed: bool,
    /// Numbers further from zero than this are null.
    pub null_above: f64,
    pub upper: bool,
    /// How numbers are written, if not as programs write them.
    pub numbers: Option<NumberForm>,
    /// The table exists, and has the column with this type.
    pub is_settled: bool,
    /// The time column: null is an error.
    pub required: bool,
}

/// Gives a column the null tokens of its type.
pub(crate) fn set_null_tokens(plan: &mut ColumnPlan) {
    let is_text = matches!(plan.column_type, ColumnType::Text | ColumnType::Symbol);
    let tokens: &[&str] = if is_text { &[] } else { &NULL_TOKENS };
    plan.nulls = tokens.iter().map(|t| t.as_bytes().to_vec()).collect();
}

impl ColumnPlan {
    pub fn new(name: &str, column_type: ColumnType) -> ColumnPlan {
        ColumnPlan {
            name: name.to_owned(),
            column_type,
            spelling: TimeSpelling::Written,
            date_patterns: Vec::new(),
            zone: LocalZone::UTC,
            shift: 0,
            nulls: Vec::new(),
            blank_is_null: false,
            is_trimmed: false,
            null_above: f64::INFINITY,
            upper: false,
            numbers: None,
            is_settled: false,
            required: false,
        }
    }

    fn is_text(&self) -> bool {
        matches!(self.column_type, ColumnType::Text | ColumnType::Symbol)
    }

    pub fn needs_date(&self) -> bool {
        self.column_type == ColumnType::Timestamp && self.spelling.needs_date()
    }

    /// Whether a number may be read without looking for null tokens first.
    fn is_fast(&self) -> bool {
        let is_plain = |token: &[u8]| token.iter().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.'));
        self.numbers.is_none() && self.nulls.iter().all(|token| !is_plain(token) || numbers::float(token, 0).is_none())
    }

    fn integer_bounds(&self) -> (i128, i128) {
        use ColumnType::{Int8, Int16, Int32, UInt8, UInt16, UInt32, UInt64};
        match self.column_type {
            Int8 => (i8::MIN.into(), i8::MAX.into()),
            Int16 => (i16::MIN.into(), i16::MAX.into()),
            Int32 => (i32::MIN.into(), i32::MAX.into()),
            UInt8 => (0, u8::MAX.into()),
            UInt16 => (0, u16::MAX.into()),
            UInt32 => (0, u32::MAX.into()),
            UInt64 => (0, u64::MAX.into()),
            _ => (i64::MIN.into(), i64::MAX.into()),
        }
    }
}

/// Text values one after another.
#[derive(Debug, Default)]
pub(crate) struct TextValues {
    bytes: Vec<u8>,
    ends: Vec<i32>,
}

impl TextValues {
    fn push(&mut self, text: &[u8]) -> Result<(), &'static str> {
        self.bytes.extend_from_slice(text);
        self.ends.push(i32::try_from(self.bytes.len()).map_err(|_| "more than 2 GiB of text in one block")?);
        Ok(())
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start.unsigned_abs() as usize..self.ends[index].unsigned_abs() as usize]
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().map_or(0, |end| end.unsigned_abs() as usize));
    }

    fn array(self, nulls: Option<NullBuffer>) -> arrow::error::Result<StringArray> {
        let offsets: Vec<i32> = std::iter::once(0).chain(self.ends).collect();
        StringArray::try_new(OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(self.bytes), nulls)
    }
}

const SLOTS: usize = 1024;

/// Dictionary codes; a direct-mapped cache in front of the hash map makes repeated symbols cheap.
#[derive(Debug)]
pub(crate) struct SymbolCodes {
    codes: Vec<i32>,
    values: TextValues,
    code_of: HashMap<Box<[u8]>, i32>,
    slots: Box<[i32]>,
}

impl SymbolCodes {
    fn new() -> SymbolCodes {
        SymbolCodes {
            codes: Vec::new(),
            values: TextValues::default(),
            code_of: HashMap::new(),
            slots: vec![-1; SLOTS].into(),
        }
    }

    #[inline]
    fn push(&mut self, text: &[u8]) -> Result<(), &'static str> {
        let mut head = 0u64;
        for (place, &byte) in text.iter().take(8).enumerate() {
            head |= u64::from(byte) << (8 * place);
        }
        let mixed = (head ^ (text.len() as u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        let slot = &mut self.slots[mixed as usize];
        if let Ok(index) = usize::try_from(*slot)
            && self.values.get(index) == text
        {
            self.codes.push(*slot);
            return Ok(());
        }
        let code = match self.code_of.get(text) {
            Some(code) => *code,
            None => {
                check_text(text)?;
                let code = i32::try_from(self.code_of.len()).map_err(|_| "too many distinct symbols")?;
                self.values.push(text)?;
                self.code_of.insert(text.into(), code);
                code
            }
        };
        *slot = code;
        self.codes.push(code);
        Ok(())
    }
}

fn check_text(text: &[u8]) -> Result<(), &'static str> {
    if text.contains(&0) {
        return Err("holds a NUL byte, as a file does that wasn't written to its end");
    }
    std::str::from_utf8(text).map(|_| ()).map_err(|_| "is not UTF-8 text")
}

#[derive(Debug)]
pub(crate) enum ColumnValues {
    Bool(Vec<bool>),
    Int(Vec<i64>),
    Uint(Vec<u64>),
    Float(Vec<f64>),
    Float32(Vec<f32>),
    Decimal(Vec<i128>),
    Days(Vec<i32>),
    Symbol(SymbolCodes),
    Text(TextValues),
    Levels(Levels),
}

/// Lists of one length.
#[derive(Debug)]
pub(crate) struct Levels {
    size: usize,
    rows: usize,
    values: Vec<f64>,
    /// Places of items that are null, ascending within a row.
    missing: Vec<usize>,
}

impl Levels {
    fn push(&mut self, items: &[Option<f64>]) {
        for place in 0..self.size {
            let item = items.get(place).copied().flatten();
            if item.is_none() {
                self.missing.push(self.values.len());
            }
            self.values.push(item.unwrap_or(0.0));
        }
        self.rows += 1;
    }

    fn truncate(&mut self, len: usize) {
        self.rows = self.rows.min(len);
        self.values.truncate(self.rows * self.size);
        while self.missing.last().is_some_and(|place| *place >= self.values.len()) {
            self.missing.pop();
        }
    }

    fn array(self, nulls: Option<NullBuffer>) -> arrow::error::Result<FixedSizeListArray> {
        let missing = validity(self.values.len(), &self.missing);
        let items = Float64Array::try_new(self.values.into(), missing)?;
        let size = i32::try_from(self.size).unwrap_or(i32::MAX);
        FixedSizeListArray::try_new_with_length(
            Arc::new(Field::new("item", DataType::Float64, true)),
            size,
            Arc::new(items),
            nulls,
            self.rows,
        )
    }
}

/// A column of the block that is being parsed.
pub(crate) struct ParsedColumn<'a> {
    pub plan: &'a ColumnPlan,
    pub values: ColumnValues,
    pub fast: bool,
    pub shift: usize,
    pub null_above: f64,
    nulls: Vec<usize>,
    zone: LocalZone,
    bounds: (i128, i128),
}

/// Runs the same code on the vector inside, whatever its type.
macro_rules! on_vector {
    ($values:expr, $vector:ident => $do:expr, $texts:ident => $texts_do:expr, $symbols:ident => $symbols_do:expr,
     $levels:ident => $levels_do:expr) => {
        match $values {
            ColumnValues::Bool($vector) => $do,
            ColumnValues::Int($vector) => $do,
            ColumnValues::Uint($vector) => $do,
            ColumnValues::Float($vector) => $do,
            ColumnValues::Float32($vector) => $do,
            ColumnValues::Decimal($vector) => $do,
            ColumnValues::Days($vector) => $do,
            ColumnValues::Text($texts) => $texts_do,
            ColumnValues::Symbol($symbols) => $symbols_do,
            ColumnValues::Levels($levels) => $levels_do,
        }
    };
}

impl<'a> ParsedColumn<'a> {
    pub fn new(plan: &'a ColumnPlan, capacity: usize) -> ParsedColumn<'a> {
        use ColumnType as T;
        let values = match &plan.column_type {
            T::Bool => ColumnValues::Bool(Vec::with_capacity(capacity)),
            T::Float64 => ColumnValues::Float(Vec::with_capacity(capacity)),
            T::Float32 => ColumnValues::Float32(Vec::with_capacity(capacity)),
            T::Decimal { .. } => ColumnValues::Decimal(Vec::with_capacity(capacity)),
            T::Date => ColumnValues::Days(Vec::with_capacity(capacity)),
            T::Symbol => ColumnValues::Symbol(SymbolCodes::new()),
            T::Text => ColumnValues::Text(TextValues::default()),
            T::Levels { size } => {
                let size = usize::try_from(*size).unwrap_or(0);
                ColumnValues::Levels(Levels { size, rows: 0, values: Vec::new(), missing: Vec::new() })
            }
            T::UInt64 => ColumnValues::Uint(Vec::with_capacity(capacity)),
            _ => ColumnValues::Int(Vec::with_capacity(capacity)),
        };
        let fast = plan.is_fast()
            && match plan.column_type {
                T::Float64 => plan.shift <= 22,
                T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 => {
                    plan.shift == 0 && plan.null_above == f64::INFINITY
                }
                _ => false,
            };
        ParsedColumn {
            plan,
            values,
            fast,
            shift: plan.shift as usize,
            null_above: plan.null_above,
            nulls: Vec::new(),
            zone: plan.zone.clone(),
            bounds: plan.integer_bounds(),
        }
    }

    pub fn is_text(&self) -> bool {
        self.plan.is_text()
    }

    pub fn is_levels(&self) -> bool {
        matches!(self.values, ColumnValues::Levels(_))
    }

    pub fn len(&self) -> usize {
        on_vector!(&self.values, v => v.len(), t => t.ends.len(), s => s.codes.len(), l => l.rows)
    }

    pub fn push_null(&mut self) {
        self.nulls.push(self.len());
        on_vector!(&mut self.values, v => v.push(Default::default()),
            t => { let end = t.ends.last().copied().unwrap_or(0); t.ends.push(end) },
            s => s.codes.push(0),
            l => l.push(&[]));
    }

    /// Cuts the column back to `len` values.
    pub fn truncate(&mut self, len: usize) {
        on_vector!(&mut self.values, v => v.truncate(len), t => t.truncate(len), s => s.codes.truncate(len),
            l => l.truncate(len));
        while self.nulls.last().is_some_and(|&row| row >= len) {
            self.nulls.pop();
        }
    }

    /// Repeats the last value until there are `len`.
    pub fn fill(&mut self, len: usize) {
        let have = self.len();
        if have == 0 || have >= len {
            return;
        }
        if self.nulls.last() == Some(&(have - 1)) {
            (have..len).for_each(|_| self.push_null());
            return;
        }
        on_vector!(&mut self.values, v => { let last = v[have - 1]; v.resize(len, last) },
            t => for _ in have..len {
                let last = t.get(have - 1).to_vec();
                if t.push(&last).is_err() { break }
            },
            s => { let last = s.codes[have - 1]; s.codes.resize(len, last) },
            _l => ());
    }

    /// Whether the value is zero or null.
    pub fn is_zero(&self, row: usize) -> bool {
        match &self.values {
            ColumnValues::Int(v) => v[row] == 0,
            ColumnValues::Uint(v) => v[row] == 0,
            ColumnValues::Float(v) => v[row] == 0.0,
            ColumnValues::Float32(v) => v[row] == 0.0,
            ColumnValues::Decimal(v) => v[row] == 0,
            _ => false,
        }
    }

    /// Makes an earlier value null; the column may not be cut back below it afterwards.
    pub fn set_null(&mut self, row: usize) {
        self.nulls.push(row);
    }

    /// Whether an integer fits the column's type.
    #[inline(always)]
    pub fn fits(&self, value: i64) -> bool {
        matches!(self.plan.column_type, ColumnType::Int64)
            || (self.bounds.0..=self.bounds.1).contains(&i128::from(value))
    }

    /// An instant or time of day that was put together elsewhere.
    pub fn push_nanos(&mut self, nanos: i64) {
        if let ColumnValues::Int(values) = &mut self.values {
            values.push(nanos);
        }
    }

    /// A local time in the column's zone.
    pub fn push_local(&mut self, local: i64) -> Result<(), String> {
        let nanos = self.zone.instant(local).map_err(str::to_owned)?;
        self.push_nanos(nanos);
        Ok(())
    }

    /// A list for a column of levels; a shorter one has no values in its last levels.
    ///
    /// # Errors
    /// The reason in words; the column is as before.
    pub fn push_levels(&mut self, items: &[Option<f64>]) -> Result<(), String> {
        let ColumnValues::Levels(levels) = &mut self.values else {
            return Err(format!("a list is not {}", self.plan.column_type));
        };
        if items.len() > levels.size {
            return Err(format!(
                "a list of {} is longer than {} levels; --type {}=levels({}) would take it",
                items.len(),
                levels.size,
                self.plan.name,
                items.len()
            ));
        }
        levels.push(items);
        Ok(())
    }

    /// One level of the row at place `row`, which begins with the first level that comes.
    ///
    /// # Errors
    /// The reason in words.
    pub fn push_level(&mut self, row: usize, level: usize, text: &[u8], quoted: bool) -> Result<(), String> {
        if self.len() == row {
            self.push_null();
        }
        if self.is_null(text, quoted) {
            return Ok(());
        }
        let value = self.float(text.trim_ascii()).ok_or_else(|| {
            let null = null_option(text.trim_ascii()).map(|option| format!("; {option} would make it null"));
            format!("{} is not a number of a level{}", shown(text), null.unwrap_or_default())
        })?;
        if let ColumnValues::Levels(levels) = &mut self.values {
            let place = row * levels.size + level;
            levels.values[place] = value;
            levels.missing.retain(|missing| *missing != place);
        }
        if self.nulls.last() == Some(&row) {
            self.nulls.pop();
        }
        Ok(())
    }

    fn float(&self, text: &[u8]) -> Option<f64> {
        let value = match self.plan.numbers {
            None => numbers::float(text, self.plan.shift),
            Some(form) => numbers::float(&form.plain(text)?, self.plan.shift),
        };
        value.filter(|value| !numbers::is_beyond(*value, text))
    }

    /// Whether a field means null here.
    pub fn is_null(&self, text: &[u8], quoted: bool) -> bool {
        let text = self.content(text, quoted);
        if quoted {
            return text.is_empty() && !self.plan.is_text();
        }
        text.is_empty()
            || self.plan.nulls.iter().any(|token| token == text)
            || (self.plan.blank_is_null && text.iter().all(|&b| b == b' '))
    }

    /// A field without the blanks that don't belong to its value.
    fn content<'t>(&self, text: &'t [u8], quoted: bool) -> &'t [u8] {
        let has_blanks = self.plan.is_text() && (quoted || !self.plan.is_trimmed);
        if has_blanks { text } else { text.trim_ascii() }
    }

    /// Parses a field and appends it. `day` is the date of times that carry none.
    ///
    /// # Errors
    /// The reason in words; the column is as before.
    pub fn push(&mut self, text: &[u8], quoted: bool, day: Option<i32>) -> Result<(), String> {
        if self.is_null(text, quoted) {
            if self.plan.required {
                return Err("the time is empty".to_owned());
            }
            self.push_null();
            return Ok(());
        }
        let text = self.content(text, quoted);
        if self.plan.is_text() {
            return self.push_text(text);
        }
        match self.plan.column_type {
            ColumnType::Timestamp => self.push_timestamp(text, day),
            ColumnType::Time => {
                let nanos = times::time_of_day(text, &self.plan.spelling).ok_or_else(|| self.no_value(text))?;
                self.push_nanos(nanos);
                Ok(())
            }
            _ => match self.plan.numbers {
                None => self.push_number(text),
                Some(form) => match form.plain(text) {
                    Some(number) => self.push_number(&number),
                    // Dates and booleans are no numbers.
                    None if matches!(self.plan.column_type, ColumnType::Bool | ColumnType::Date) => {
                        self.push_number(text)
                    }
                    None if numbers::float(text, 0).is_some_and(|value| !value.is_finite()) => self.push_number(text),
                    None => Err(self.no_value(text)),
                },
            },
        }
    }

    fn push_text(&mut self, text: &[u8]) -> Result<(), String> {
        let upper;
        let text = if self.plan.upper {
            upper = String::from_utf8_lossy(text).to_uppercase().into_bytes();
            &upper
        } else {
            text
        };
        match &mut self.values {
            ColumnValues::Symbol(symbols) => symbols.push(text)?,
            ColumnValues::Text(texts) => {
                check_text(text)?;
                texts.push(text)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn push_timestamp(&mut self, text: &[u8], day: Option<i32>) -> Result<(), String> {
        if self.plan.needs_date() {
            let nanos = times::time_of_day(text, &self.plan.spelling).ok_or_else(|| self.no_value(text))?;
            let day = day.ok_or("a time of day needs a date, which the row doesn't have")?;
            return self.push_local(times::local(day, nanos).ok_or(times::OUT_OF_RANGE)?);
        }
        let nanos = times::instant(text, &self.plan.spelling, &mut self.zone)
            .map_err(|reason| format!("{} {reason}{}{}", shown(text), times::hint(text), self.null_hint(text)))?;
        self.push_nanos(nanos);
        Ok(())
    }

    fn push_number(&mut self, text: &[u8]) -> Result<(), String> {
        let plan = self.plan;
        let parsed = match &mut self.values {
            ColumnValues::Bool(values) => boolean(text).map(|v| values.push(v)),
            ColumnValues::Float(values) => match numbers::float(text, plan.shift) {
                Some(value) if value.abs() > plan.null_above => {
                    self.push_null();
                    Some(())
                }
                Some(value) if !numbers::is_beyond(value, text) => {
                    values.push(value);
                    Some(())
                }
                _ => None,
            },
            ColumnValues::Float32(values) => {
                let value = numbers::float32(text).filter(|value| !numbers::is_beyond(f64::from(*value), text));
                value.map(|v| values.push(v))
            }
            ColumnValues::Decimal(values) => match plan.column_type {
                ColumnType::Decimal { precision, scale } => {
                    numbers::decimal(text, u32::try_from(scale).unwrap_or(0), u32::from(precision))
                        .map(|v| values.push(v))
                }
                _ => None,
            },
            ColumnValues::Days(values) => date(text, &plan.date_patterns).map(|v| values.push(v)),
            ColumnValues::Int(_) | ColumnValues::Uint(_) => {
                let value = numbers::integer(text).and_then(|v| unscaled(v, plan.shift));
                match value.filter(|v| (self.bounds.0..=self.bounds.1).contains(v)) {
                    #[expect(clippy::cast_precision_loss, reason = "only compared with a limit")]
                    Some(value) if (value as f64).abs() > plan.null_above => {
                        self.push_null();
                        Some(())
                    }
                    Some(value) => self.push_integer(value),
                    None => None,
                }
            }
            ColumnValues::Symbol(_) | ColumnValues::Text(_) | ColumnValues::Levels(_) => None,
        };
        parsed.ok_or_else(|| self.no_value(text))
    }

    fn push_integer(&mut self, value: i128) -> Option<()> {
        match &mut self.values {
            ColumnValues::Int(values) => values.push(i64::try_from(value).ok()?),
            ColumnValues::Uint(values) => values.push(u64::try_from(value).ok()?),
            _ => {}
        }
        Some(())
    }

    #[cold]
    fn no_value(&self, text: &[u8]) -> String {
        let plan = self.plan;
        let expected = match &plan.spelling {
            spelling if spelling.needs_date() => "time of day".to_owned(),
            _ => plan.column_type.to_string(),
        };
        let integer = matches!(self.values, ColumnValues::Int(_) | ColumnValues::Uint(_))
            && plan.column_type != ColumnType::Timestamp;
        let is_float = || numbers::float(text, 0).is_some_and(|value| !numbers::is_beyond(value, text));
        let has_wider = integer || matches!(self.values, ColumnValues::Float32(_));
        let wider = if has_wider && is_float() { "float64" } else { "text" };
        let shown = shown(text);
        let null = self.null_hint(text);
        let article = if expected.starts_with('i') { "an" } else { "a" };
        if plan.required {
            return format!("{shown} is not {article} {expected}");
        }
        if plan.is_settled {
            let name = &plan.name;
            return match integer && wider == "float64" {
                true => format!(
                    "{shown} is not {article} {expected}, as the table has {name}; splay alter … widen {name} float64 makes room"
                ),
                false => format!("{shown} is not {article} {expected}, as the table has {name}{null}"),
            };
        }
        format!("{shown} is not {article} {expected}; --type {}={wider} would take it{null}", plan.name)
    }

    /// The option that makes a word null, as the end of a message. A time can't be null.
    fn null_hint(&self, text: &[u8]) -> String {
        let option = null_option(text).filter(|_| !self.plan.required);
        option.map(|option| format!("; {option} would make it null")).unwrap_or_default()
    }

    /// The column as an Arrow array of its type.
    pub fn finish(self) -> arrow::error::Result<ArrayRef> {
        use ColumnType as T;
        let nulls = validity(self.len(), &self.nulls);
        let plan = self.plan;
        Ok(match self.values {
            ColumnValues::Bool(values) => Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)),
            ColumnValues::Int(values) => {
                let values = ScalarBuffer::from(values);
                match plan.column_type {
                    T::Timestamp => Arc::new(TimestampNanosecondArray::try_new(values, nulls)?.with_timezone("UTC")),
                    T::Time => Arc::new(Time64NanosecondArray::try_new(values, nulls)?),
                    T::Int64 => Arc::new(Int64Array::try_new(values, nulls)?),
                    // Values were checked against the type's bounds when they were pushed.
                    _ => arrow::compute::cast(&Int64Array::try_new(values, nulls)?, &plan.column_type.arrow())?,
                }
            }
            ColumnValues::Uint(values) => Arc::new(UInt64Array::try_new(values.into(), nulls)?),
            ColumnValues::Float(values) => Arc::new(Float64Array::try_new(values.into(), nulls)?),
            ColumnValues::Float32(values) => Arc::new(Float32Array::try_new(values.into(), nulls)?),
            ColumnValues::Decimal(values) => {
                Arc::new(Decimal128Array::try_new(values.into(), nulls)?.with_data_type(plan.column_type.arrow()))
            }
            ColumnValues::Days(values) => Arc::new(Date32Array::try_new(values.into(), nulls)?),
            ColumnValues::Text(texts) => Arc::new(texts.array(nulls)?),
            ColumnValues::Levels(levels) => Arc::new(levels.array(nulls)?),
            ColumnValues::Symbol(symbols) => {
                let mut values = symbols.values;
                if values.ends.is_empty() && !symbols.codes.is_empty() {
                    // All rows are null; their code must still name a value.
                    values.ends.push(0);
                }
                let codes = Int32Array::try_new(symbols.codes.into(), nulls)?;
                Arc::new(DictionaryArray::try_new(codes, Arc::new(values.array(None)?) as Arc<dyn Array>)?)
            }
        })
    }
}

fn validity(len: usize, nulls: &[usize]) -> Option<NullBuffer> {
    if nulls.is_empty() {
        return None;
    }
    let mut bits = MutableBuffer::new(len.div_ceil(8)).with_bitset(len.div_ceil(8), true);
    for &row in nulls {
        bit_util::unset_bit(bits.as_slice_mut(), row);
    }
    Some(NullBuffer::new(BooleanBuffer::new(bits.into(), 0, len)))
}

fn unscaled(value: i128, shift: u32) -> Option<i128> {
    let divisor = 10i128.checked_pow(shift)?;
    (value % divisor == 0).then_some(value / divisor)
}

fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"1" => Some(true),
        b"0" => Some(false),
        _ if [&b"true"[..], b"t", b"yes", b"y"].iter().any(|word| text.eq_ignore_ascii_case(word)) => Some(true),
        _ if [&b"false"[..], b"f", b"no", b"n"].iter().any(|word| text.eq_ignore_ascii_case(word)) => Some(false),
        _ => None,
    }
}

/// A date in the given patterns, or in the usual ways when there are none.
pub(crate) fn date(text: &[u8], patterns: &[String]) -> Option<i32> {
    if patterns.is_empty() {
        return times::date(text);
    }
    let text = std::str::from_utf8(text).ok()?;
    patterns.iter().find_map(|pattern| times::date_by_pattern(text, pattern))
}

/// The option that has a word mean null, as it is typed into a shell. Numbers, dates and long texts are no such words.
pub(crate) fn null_option(word: &[u8]) -> Option<String> {
    const WORD_BYTES_MAX: usize = 20;
    let word = std::str::from_utf8(word).ok().filter(|word| (1..=WORD_BYTES_MAX).contains(&word.len()))?;
    if word.contains(|c: char| c.is_ascii_digit() || c.is_control() || c == '\'') {
        return None;
    }
    let is_plain = word.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '/' | '_' | '-'));
    let separator = if word.starts_with('-') { '=' } else { ' ' };
    Some(if is_plain { format!("--null{separator}{word}") } else { format!("--null{separator}'{word}'") })
}

pub(crate) fn shown(text: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 40;
    let cut = &text[..text.len().min(SHOWN_BYTES_MAX)];
    format!("{:?}", String::from_utf8_lossy(cut))
}
