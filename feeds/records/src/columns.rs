//! A table's columns, and values on their way into them.
//!
//! [`Cell`] is a value as a record has it. [`Column::value`] converts it to the column's type, or returns the reason why it can't: whole
//! numbers and decimals exactly, texts to the nearest float. A row is added to [`Rows`] once all of its values are converted, so that a bad
//! record leaves nothing behind.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeListBuilder, Float32Builder, Float64Builder,
    Int8Builder, Int16Builder, Int32Builder, Int64Builder, RecordBatch, StringBuilder, StringDictionaryBuilder,
    Time64NanosecondBuilder, TimestampNanosecondBuilder, UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;

use crate::decimal::DecimalNumber;
use crate::times::{self, Unit};

/// The type of a column, as `GET /tables/NAME` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// `bool`
    Bool,
    /// `int8`
    Int8,
    /// `int16`
    Int16,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `uint8`
    UInt8,
    /// `uint16`
    UInt16,
    /// `uint32`
    UInt32,
    /// `uint64`
    UInt64,
    /// `float32`
    Float32,
    /// `float64`
    Float64,
    /// `decimal(P,S)`
    Decimal(u8, i8),
    /// `date`
    Date,
    /// `time`
    Time,
    /// `timestamp`
    Timestamp,
    /// `symbol`
    Symbol,
    /// `text`
    Text,
    /// `levels(N)`
    Levels(i32),
}

impl FromStr for ColumnType {
    type Err = String;

    fn from_str(text: &str) -> Result<ColumnType, String> {
        use ColumnType as T;
        let unknown = || format!("{text:?} is no column type that is known here");
        let inside = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        if let Some(size) = inside("levels") {
            let size: i32 = size.trim().parse().map_err(|_| unknown())?;
            return if (1..=1024).contains(&size) { Ok(T::Levels(size)) } else { Err(unknown()) };
        }
        if let Some((precision, scale)) = inside("decimal").and_then(|inside| inside.split_once(',')) {
            let precision: u8 = precision.trim().parse().map_err(|_| unknown())?;
            let scale: i8 = scale.trim().parse().map_err(|_| unknown())?;
            let is_sound = (1..=38).contains(&precision) && (0..=38).contains(&scale);
            return if is_sound { Ok(T::Decimal(precision, scale)) } else { Err(unknown()) };
        }
        Ok(match text {
            "bool" => T::Bool,
            "int8" => T::Int8,
            "int16" => T::Int16,
            "int32" => T::Int32,
            "int64" => T::Int64,
            "uint8" => T::UInt8,
            "uint16" => T::UInt16,
            "uint32" => T::UInt32,
            "uint64" => T::UInt64,
            "float32" => T::Float32,
            "float64" => T::Float64,
            "date" => T::Date,
            "time" => T::Time,
            "timestamp" => T::Timestamp,
            "symbol" => T::Symbol,
            "text" => T::Text,
            _ => return Err(unknown()),
        })
    }
}

impl std::fmt::Display for ColumnType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ColumnType::Decimal(precision, scale) => write!(f, "decimal({precision},{scale})"),
            ColumnType::Levels(size) => write!(f, "levels({size})"),
            other => f.write_str(&format!("{other:?}").to_lowercase()),
        }
    }
}

impl ColumnType {
    /// The Arrow type in which the server has it.
    #[must_use]
    pub fn arrow(self) -> DataType {
        match self {
            ColumnType::Bool => DataType::Boolean,
            ColumnType::Int8 => DataType::Int8,
            ColumnType::Int16 => DataType::Int16,
            ColumnType::Int32 => DataType::Int32,
            ColumnType::Int64 => DataType::Int64,
            ColumnType::UInt8 => DataType::UInt8,
            ColumnType::UInt16 => DataType::UInt16,
            ColumnType::UInt32 => DataType::UInt32,
            ColumnType::UInt64 => DataType::UInt64,
            ColumnType::Float32 => DataType::Float32,
            ColumnType::Float64 => DataType::Float64,
            ColumnType::Decimal(precision, scale) => DataType::Decimal128(precision, scale),
            ColumnType::Date => DataType::Date32,
            ColumnType::Time => DataType::Time64(TimeUnit::Nanosecond),
            ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            ColumnType::Symbol => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            ColumnType::Text => DataType::Utf8,
            ColumnType::Levels(size) => {
                DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float64, true)), size)
            }
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ColumnType,
    /// The unit of numbers in it, if it is a timestamp.
    pub unit: Option<Unit>,
    /// Whether it is the table's time, which every row has.
    pub is_time: bool,
}

/// A value as a record has it.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// None.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Whole(i128),
    /// A number as it was written.
    Number(&'a str),
    /// A binary float.
    Float(f64),
    /// Text.
    Text(Cow<'a, str>),
    /// A whole number of units of `10^-scale`.
    Decimal(i128, i32),
    /// Nanoseconds since 1970 in UTC.
    Instant(i128),
    /// Days since 1970.
    Date(i32),
    /// Nanoseconds since midnight.
    TimeOfDay(i64),
    /// Numbers, such as the levels of a book.
    Floats(Vec<Option<f64>>),
    /// A value that no column holds, by its name.
    Other(&'static str),
}

/// A value as its column holds it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// A value of `bool`.
    Bool(bool),
    /// A value of whole numbers, decimals, dates or times, within the range of the type.
    Whole(i128),
    /// A value of floats.
    Float(f64),
    /// A value of symbols and texts.
    Text(Cow<'a, str>),
    /// A value of levels, with as many numbers as the column has.
    Levels(Vec<Option<f64>>),
}

impl Column {
    /// The value that the column holds for a cell.
    ///
    /// # Errors
    /// Why it can't hold it, with the name of the column.
    pub fn value<'a>(&self, cell: Cell<'a>) -> Result<Value<'a>, String> {
        let value = self.fitted(cell).map_err(|reason| format!("{}: {reason}", self.name))?;
        if self.is_time && value == Value::Null {
            return Err(format!("{}: every row needs a time", self.name));
        }
        Ok(value)
    }

    fn fitted<'a>(&self, cell: Cell<'a>) -> Result<Value<'a>, String> {
        use ColumnType as T;
        if matches!(cell, Cell::Null) {
            return Ok(Value::Null);
        }
        match self.kind {
            T::Bool => self.bool(&cell),
            T::Int8 => self.whole(&cell, i8::MIN.into(), i8::MAX.into()),
            T::Int16 => self.whole(&cell, i16::MIN.into(), i16::MAX.into()),
            T::Int32 => self.whole(&cell, i32::MIN.into(), i32::MAX.into()),
            T::Int64 => self.whole(&cell, i64::MIN.into(), i64::MAX.into()),
            T::UInt8 => self.whole(&cell, 0, u8::MAX.into()),
            T::UInt16 => self.whole(&cell, 0, u16::MAX.into()),
            T::UInt32 => self.whole(&cell, 0, u32::MAX.into()),
            T::UInt64 => self.whole(&cell, 0, u64::MAX.into()),
            T::Float32 | T::Float64 => self.float(&cell),
            T::Decimal(precision, scale) => self.decimal(&cell, precision, scale),
            T::Date => self.date(&cell),
            T::Time => self.time_of_day(&cell),
            T::Timestamp => self.instant(&cell),
            T::Symbol | T::Text => self.text(cell),
            T::Levels(size) => self.levels(cell, size),
        }
    }

    fn unfit(&self, cell: &Cell<'_>) -> String {
        format!("{} is no {}", shown(cell), self.kind)
    }

    fn bool(&self, cell: &Cell<'_>) -> Result<Value<'static>, String> {
        match cell {
            Cell::Bool(value) => Ok(Value::Bool(*value)),
            Cell::Text(text) if text == "true" => Ok(Value::Bool(true)),
            Cell::Text(text) if text == "false" => Ok(Value::Bool(false)),
            other => Err(self.unfit(other)),
        }
    }

    fn whole(&self, cell: &Cell<'_>, min: i128, max: i128) -> Result<Value<'static>, String> {
        let number = match cell {
            Cell::Whole(number) => Some(*number),
            Cell::Number(text) => whole(text),
            Cell::Text(text) => whole(text),
            Cell::Decimal(digits, scale) => DecimalNumber::new(*digits, -scale).at_scale(0),
            Cell::Float(number) => exact_whole(*number),
            _ => None,
        };
        match number {
            Some(number) if (min..=max).contains(&number) => Ok(Value::Whole(number)),
            _ => Err(self.unfit(cell)),
        }
    }

    fn float(&self, cell: &Cell<'_>) -> Result<Value<'static>, String> {
        let is_single = self.kind == ColumnType::Float32;
        let of_text = |text: &str| if is_single { float_of::<f32>(text) } else { float_of::<f64>(text) };
        let number = match cell {
            Cell::Number(text) => of_text(text),
            Cell::Text(text) => of_text(text),
            Cell::Decimal(digits, scale) => of_text(&format!("{digits}e{}", -scale)),
            Cell::Float(number) => Some(*number).filter(|number| !is_single || is_single_float(*number)),
            Cell::Whole(number) => exact_float(*number).filter(|number| !is_single || is_single_float(*number)),
            _ => None,
        };
        number.map(Value::Float).ok_or_else(|| self.unfit(cell))
    }

    fn decimal(&self, cell: &Cell<'_>, precision: u8, scale: i8) -> Result<Value<'static>, String> {
        let exact = match cell {
            Cell::Number(text) => text.parse().ok(),
            Cell::Text(text) => text.parse().ok(),
            Cell::Whole(number) => Some(DecimalNumber::new(*number, 0)),
            Cell::Decimal(digits, scale) => Some(DecimalNumber::new(*digits, -scale)),
            _ => None,
        };
        let limit = 10_i128.pow(precision.into());
        let digits = exact.and_then(|exact: DecimalNumber| exact.at_scale(scale.into()));
        let digits = digits.filter(|digits| (1 - limit..limit).contains(digits));
        digits.map(Value::Whole).ok_or_else(|| self.unfit(cell))
    }

    fn date(&self, cell: &Cell<'_>) -> Result<Value<'static>, String> {
        let days = match cell {
            Cell::Date(days) => Some(*days),
            Cell::Text(text) => times::date(text),
            _ => None,
        };
        days.map(|days| Value::Whole(days.into())).ok_or_else(|| self.unfit(cell))
    }

    fn time_of_day(&self, cell: &Cell<'_>) -> Result<Value<'static>, String> {
        let nanoseconds = match cell {
            Cell::TimeOfDay(nanoseconds) => Some(*nanoseconds),
            Cell::Text(text) => times::time_of_day(text),
            _ => None,
        };
        let of_day = nanoseconds.filter(|nanoseconds| (0..86_400_000_000_000).contains(nanoseconds));
        of_day.map(|nanoseconds| Value::Whole(nanoseconds.into())).ok_or_else(|| self.unfit(cell))
    }

    fn instant(&self, cell: &Cell<'_>) -> Result<Value<'static>, String> {
        let in_unit = |exact: Option<DecimalNumber>| match (exact, self.unit) {
            (None, _) => Ok(None),
            (Some(exact), Some(unit)) => Ok(exact.at_scale(unit.digits())),
            (Some(_), None) => Err(format!("{} is a number without a unit: say which by time_unit", shown(cell))),
        };
        let nanoseconds = match cell {
            Cell::Instant(nanoseconds) => Some(*nanoseconds),
            Cell::Text(text) => match times::instant(text) {
                Some(nanoseconds) => Some(nanoseconds),
                None => in_unit(text.parse().ok())?,
            },
            Cell::Number(text) => in_unit(text.parse().ok())?,
            Cell::Whole(number) => in_unit(Some(DecimalNumber::new(*number, 0)))?,
            Cell::Decimal(digits, scale) => in_unit(Some(DecimalNumber::new(*digits, -scale)))?,
            // The shortest text that is this float, as JSON has it.
            Cell::Float(number) => in_unit(number.to_string().parse().ok())?,
            _ => None,
        };
        let in_range = nanoseconds.filter(|nanoseconds| i64::try_from(*nanoseconds).is_ok());
        in_range.map(Value::Whole).ok_or_else(|| self.unfit(cell))
    }

    fn text<'a>(&self, cell: Cell<'a>) -> Result<Value<'a>, String> {
        match cell {
            Cell::Text(text) => Ok(Value::Text(text)),
            // Numbers of instruments, which have one text.
            Cell::Whole(number) => Ok(Value::Text(number.to_string().into())),
            Cell::Number(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Value::Text(text.into())),
            other => Err(self.unfit(&other)),
        }
    }

    fn levels<'a>(&self, cell: Cell<'a>, size: i32) -> Result<Value<'a>, String> {
        let Cell::Floats(mut levels) = cell else { return Err(self.unfit(&cell)) };
        let size = usize::try_from(size).unwrap_or(0);
        if levels.len() > size {
            return Err(format!("{} levels are more than {size}", levels.len()));
        }
        levels.resize(size, None);
        Ok(Value::Levels(levels))
    }
}

/// A cell in an error, cut to a length that fits a line.
fn shown(cell: &Cell<'_>) -> String {
    let cut = |text: &str| match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    match cell {
        Cell::Null => "null".to_owned(),
        Cell::Bool(value) => value.to_string(),
        Cell::Whole(number) => number.to_string(),
        Cell::Number(text) => cut(text),
        Cell::Float(number) => number.to_string(),
        Cell::Text(text) => format!("{:?}", cut(text)),
        Cell::Decimal(digits, scale) => format!("the decimal {digits}e{}", -scale),
        Cell::Instant(nanoseconds) => format!("the instant {nanoseconds} ns"),
        Cell::Date(days) => format!("the date of day {days}"),
        Cell::TimeOfDay(nanoseconds) => format!("the time of day {nanoseconds} ns"),
        Cell::Floats(items) => format!("an array of {} numbers", items.len()),
        Cell::Other(name) => (*name).to_owned(),
    }
}

/// The float of type `F` that is nearest to a text; none if the number is beyond the type's range. Infinity itself is written without digits.
#[must_use]
pub fn float_of<F: FromStr + Into<f64>>(text: &str) -> Option<f64> {
    let number: f64 = text.parse::<F>().ok()?.into();
    (number.is_finite() || !text.bytes().any(|byte| byte.is_ascii_digit())).then_some(number)
}

fn whole(text: &str) -> Option<i128> {
    match text.parse::<i64>() {
        // "+5" is no number of JSON, and may be one of a text.
        Ok(number) => Some(number.into()),
        Err(_) => text.parse::<DecimalNumber>().ok()?.at_scale(0),
    }
}

fn exact_whole(number: f64) -> Option<i128> {
    // Beyond this, neighbours of a float are further apart than one.
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and within the range")]
    (number.fract() == 0.0 && number.abs() <= 2_f64.powi(64)).then_some(number as i128)
}

fn exact_float(number: i128) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "compared with what it was")]
    let float = number as f64;
    (exact_whole(float) == Some(number)).then_some(float)
}

fn is_single_float(number: f64) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "compared with what it was")]
    let single = number as f32;
    number.is_nan() || f64::from(single).to_bits() == number.to_bits()
}

/// A column's values so far.
enum Builder {
    Bool(BooleanBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt8(UInt8Builder),
    UInt16(UInt16Builder),
    UInt32(UInt32Builder),
    UInt64(UInt64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder),
    Date(Date32Builder),
    Time(Time64NanosecondBuilder),
    Timestamp(TimestampNanosecondBuilder),
    Symbol(StringDictionaryBuilder<Int32Type>),
    Text(StringBuilder),
    Levels(FixedSizeListBuilder<Float64Builder>, usize),
}

impl Builder {
    fn new(kind: ColumnType) -> Builder {
        use ColumnType as T;
        match kind {
            T::Bool => Builder::Bool(BooleanBuilder::new()),
            T::Int8 => Builder::Int8(Int8Builder::new()),
            T::Int16 => Builder::Int16(Int16Builder::new()),
            T::Int32 => Builder::Int32(Int32Builder::new()),
            T::Int64 => Builder::Int64(Int64Builder::new()),
            T::UInt8 => Builder::UInt8(UInt8Builder::new()),
            T::UInt16 => Builder::UInt16(UInt16Builder::new()),
            T::UInt32 => Builder::UInt32(UInt32Builder::new()),
            T::UInt64 => Builder::UInt64(UInt64Builder::new()),
            T::Float32 => Builder::Float32(Float32Builder::new()),
            T::Float64 => Builder::Float64(Float64Builder::new()),
            T::Decimal(..) => Builder::Decimal(Decimal128Builder::new().with_data_type(kind.arrow())),
            T::Date => Builder::Date(Date32Builder::new()),
            T::Time => Builder::Time(Time64NanosecondBuilder::new()),
            T::Timestamp => Builder::Timestamp(TimestampNanosecondBuilder::new().with_data_type(kind.arrow())),
            T::Symbol => Builder::Symbol(StringDictionaryBuilder::new()),
            T::Text => Builder::Text(StringBuilder::new()),
            T::Levels(size) => {
                let builder = FixedSizeListBuilder::new(Float64Builder::new(), size);
                Builder::Levels(builder, usize::try_from(size).unwrap_or(0))
            }
        }
    }

    fn push(&mut self, value: &Value<'_>) {
        // Values were fitted to the column: a number is within the type's range.
        macro_rules! whole {
            ($builder:expr) => {
                $builder.append_option(match value {
                    Value::Whole(number) => (*number).try_into().ok(),
                    _ => None,
                })
            };
        }
        match self {
            Builder::Bool(builder) => builder.append_option(match value {
                Value::Bool(value) => Some(*value),
                _ => None,
            }),
            Builder::Int8(builder) => whole!(builder),
            Builder::Int16(builder) => whole!(builder),
            Builder::Int32(builder) => whole!(builder),
            Builder::Int64(builder) => whole!(builder),
            Builder::UInt8(builder) => whole!(builder),
            Builder::UInt16(builder) => whole!(builder),
            Builder::UInt32(builder) => whole!(builder),
            Builder::UInt64(builder) => whole!(builder),
            Builder::Decimal(builder) => whole!(builder),
            Builder::Date(builder) => whole!(builder),
            Builder::Time(builder) => whole!(builder),
            Builder::Timestamp(builder) => whole!(builder),
            Builder::Float32(builder) => builder.append_option(match value {
                #[expect(clippy::cast_possible_truncation, reason = "it was rounded to a single float")]
                Value::Float(number) => Some(*number as f32),
                _ => None,
            }),
            Builder::Float64(builder) => builder.append_option(match value {
                Value::Float(number) => Some(*number),
                _ => None,
            }),
            Builder::Symbol(builder) => builder.append_option(text(value)),
            Builder::Text(builder) => builder.append_option(text(value)),
            Builder::Levels(builder, size) => match value {
                Value::Levels(levels) => {
                    levels.iter().for_each(|level| builder.values().append_option(*level));
                    builder.append(true);
                }
                _ => {
                    builder.values().append_nulls(*size);
                    builder.append(false);
                }
            },
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Bool(builder) => Arc::new(builder.finish()),
            Builder::Int8(builder) => Arc::new(builder.finish()),
            Builder::Int16(builder) => Arc::new(builder.finish()),
            Builder::Int32(builder) => Arc::new(builder.finish()),
            Builder::Int64(builder) => Arc::new(builder.finish()),
            Builder::UInt8(builder) => Arc::new(builder.finish()),
            Builder::UInt16(builder) => Arc::new(builder.finish()),
            Builder::UInt32(builder) => Arc::new(builder.finish()),
            Builder::UInt64(builder) => Arc::new(builder.finish()),
            Builder::Float32(builder) => Arc::new(builder.finish()),
            Builder::Float64(builder) => Arc::new(builder.finish()),
            Builder::Decimal(builder) => Arc::new(builder.finish()),
            Builder::Date(builder) => Arc::new(builder.finish()),
            Builder::Time(builder) => Arc::new(builder.finish()),
            Builder::Timestamp(builder) => Arc::new(builder.finish()),
            Builder::Symbol(builder) => Arc::new(builder.finish()),
            Builder::Text(builder) => Arc::new(builder.finish()),
            Builder::Levels(builder, _) => Arc::new(builder.finish()),
        }
    }
}

fn text<'a>(value: &'a Value<'_>) -> Option<&'a str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// The schema of rows with these columns.
#[must_use]
pub fn schema(columns: &[Column]) -> SchemaRef {
    let field = |column: &Column| Field::new(&column.name, column.kind.arrow(), !column.is_time);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Rows on their way to the server.
pub struct Rows {
    schema: SchemaRef,
    builders: Vec<Builder>,
    rows: usize,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("schema", &self.schema).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Rows {
    /// None, of these columns.
    #[must_use]
    pub fn new(columns: &[Column]) -> Rows {
        let builders = columns.iter().map(|column| Builder::new(column.kind)).collect();
        Rows { schema: schema(columns), builders, rows: 0 }
    }

    /// Adds a row of values in the order of the columns.
    pub fn push(&mut self, values: &[Value<'_>]) {
        self.builders.iter_mut().zip(values).for_each(|(builder, value)| builder.push(value));
        self.rows += 1;
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// All of them; none are left.
    ///
    /// # Errors
    /// Arrow's; there is none for rows of fitted values.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        self.rows = 0;
        let arrays = self.builders.iter_mut().map(Builder::finish).collect();
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
