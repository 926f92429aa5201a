//! Validates schema messages.
//!
//! Arrow's reader trusts a schema once its bytes are a valid flatbuffer: an undefined width, a list without an item
//! type or a precision of 200 digits end in a panic there or later. Texts can be shared within a flatbuffer, so few
//! bytes may describe many.

use std::collections::HashMap;

use arrow::ipc::{DateUnit, Endianness, Field, IntervalUnit, KeyValue, Precision, Schema, TimeUnit, Type};

use super::{COLUMNS_MAX, unsound};
use crate::problem::{Code, Outcome, Problem};

/// Bytes of names, time zones and metadata of a schema, each as often as it is named.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// Bytes that a text counts for besides itself.
const TEXT_BYTES: usize = 32;

/// The shape that messages of rows must have.
#[derive(Debug, Default)]
pub(super) struct MessageShape {
    /// The columns in their order.
    pub(super) columns: Vec<Buffers>,
    /// The values of dictionaries, by their numbers.
    pub(super) dictionaries: HashMap<i64, Buffers>,
}

/// The buffers of a column. The first of them is its bitmap of valid rows. Widths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Buffers {
    /// None at all: all rows are null.
    None,
    /// Values of a width, 1 where they are bits.
    Values(usize),
    /// Offsets of a width, and bytes.
    Texts(usize),
    /// Views, and as many more as the message says.
    Views,
    /// None more for the lists; then come those of a column of items.
    Lists(usize),
}

/// Width of a view.
pub(super) const VIEW_BYTES: usize = 16;

/// Looks at a schema.
///
/// # Errors
/// [`Code::Request`].
pub(super) fn shape(schema: &Schema<'_>) -> Outcome<MessageShape> {
    if schema.endianness() != Endianness::Little {
        return Err(unsound("numbers are little-endian"));
    }
    let fields = schema.fields().ok_or_else(|| unsound("a schema without columns"))?;
    if fields.len() > COLUMNS_MAX {
        let text = format!("{} columns are more than {COLUMNS_MAX}", fields.len());
        return Err(Problem::new(Code::Request, text));
    }
    let mut texts = TextCount::default();
    texts.metadata(schema.custom_metadata().into_iter().flatten())?;
    let mut shape = MessageShape::default();
    for field in fields {
        column(&field, &mut shape, &mut texts)?;
    }
    Ok(shape)
}

/// Counts texts.
#[derive(Debug, Default)]
pub(super) struct TextCount {
    bytes: usize,
}

impl TextCount {
    fn add(&mut self, text: Option<&str>) -> Outcome<()> {
        self.bytes += text.map_or(0, str::len) + TEXT_BYTES;
        if self.bytes > TEXT_BYTES_MAX {
            let text = format!("names and metadata of a schema are longer than {TEXT_BYTES_MAX} bytes");
            return Err(Problem::new(Code::TooLarge, text));
        }
        Ok(())
    }

    pub(super) fn metadata<'a>(&mut self, entries: impl Iterator<Item = KeyValue<'a>>) -> Outcome<()> {
        for entry in entries {
            self.add(entry.key())?;
            self.add(entry.value())?;
        }
        Ok(())
    }
}

fn column(field: &Field<'_>, shape: &mut MessageShape, texts: &mut TextCount) -> Outcome<()> {
    plain(field, texts)?;
    let kind = field.type_type();
    let buffers = match kind {
        Type::Null => Buffers::None,
        Type::Utf8 | Type::Binary => Buffers::Texts(4),
        Type::LargeUtf8 | Type::LargeBinary => Buffers::Texts(8),
        Type::Utf8View | Type::BinaryView => Buffers::Views,
        _ => Buffers::Values(width(field)),
    };
    match field.dictionary() {
        None if kind == Type::FixedSizeList => {}
        None => shape.columns.push(buffers),
        Some(_) if kind == Type::FixedSizeList => return Err(cant_hold(field, "dictionaries of lists")),
        Some(dictionary) => {
            let bits = dictionary.indexType().map_or(0, |index| index.bitWidth());
            if !matches!(bits, 8 | 16 | 32 | 64) {
                return Err(unsound("a dictionary whose places have no width"));
            }
            shape.columns.push(Buffers::Values(bytes(bits)));
            // Arrow takes the first column's type for all that share a dictionary.
            shape.dictionaries.entry(dictionary.id()).or_insert(buffers);
        }
    }
    if kind != Type::FixedSizeList {
        return Ok(());
    }
    let sizes = 1..=1024;
    let items = field.children().filter(|children| children.len() == 1).map(|children| children.get(0));
    let size = field.type_as_fixed_size_list().map(|list| list.listSize());
    let Some(item) = items.filter(|_| size.is_some_and(|size| sizes.contains(&size))) else {
        return Err(cant_hold(field, "lists without a fixed size from 1 to 1024"));
    };
    if item.dictionary().is_some() || !matches!(item.type_type(), Type::Int | Type::FloatingPoint | Type::Decimal) {
        return Err(cant_hold(field, "lists of anything but numbers"));
    }
    plain(&item, texts)?;
    shape.columns.push(Buffers::Lists(width(&item)));
    Ok(())
}

/// Bytes of a value of a type that is known; 1 for bits.
fn width(field: &Field<'_>) -> usize {
    let bits = match field.type_type() {
        Type::Int => field.type_as_int().map(|int| int.bitWidth()),
        Type::Decimal => field.type_as_decimal().map(|decimal| decimal.bitWidth()),
        Type::Time => field.type_as_time().map(|time| time.bitWidth()),
        Type::FloatingPoint => field.type_as_floating_point().map(|float| match float.precision() {
            Precision::HALF => 16,
            Precision::SINGLE => 32,
            _ => 64,
        }),
        Type::Date => field.type_as_date().map(|date| if date.unit() == DateUnit::DAY { 32 } else { 64 }),
        Type::Interval => field.type_as_interval().map(|interval| match interval.unit() {
            IntervalUnit::YEAR_MONTH => 32,
            IntervalUnit::DAY_TIME => 64,
            _ => 128,
        }),
        Type::Timestamp | Type::Duration => Some(64),
        _ => None,
    };
    bits.map_or(1, bytes)
}

fn bytes(bits: i32) -> usize {
    usize::try_from(bits / 8).unwrap_or(1).max(1)
}

/// Looks at a type by itself.
fn plain(field: &Field<'_>, texts: &mut TextCount) -> Outcome<()> {
    texts.add(field.name())?;
    texts.metadata(field.custom_metadata().into_iter().flatten())?;
    let is_known = match field.type_type() {
        Type::Null | Type::Bool | Type::FixedSizeList => true,
        Type::Utf8 | Type::LargeUtf8 | Type::Utf8View | Type::Binary | Type::LargeBinary | Type::BinaryView => true,
        Type::Int => field.type_as_int().is_some_and(|int| matches!(int.bitWidth(), 8 | 16 | 32 | 64)),
        Type::FloatingPoint => field
            .type_as_floating_point()
            .is_some_and(|float| matches!(float.precision(), Precision::HALF | Precision::SINGLE | Precision::DOUBLE)),
        Type::Decimal => field.type_as_decimal().is_some_and(|decimal| {
            let digits = match decimal.bitWidth() {
                32 => 9,
                64 => 18,
                128 => 38,
                256 => 76,
                _ => 0,
            };
            (1..=digits).contains(&decimal.precision()) && (-digits..=decimal.precision()).contains(&decimal.scale())
        }),
        Type::Date => {
            field.type_as_date().is_some_and(|date| matches!(date.unit(), DateUnit::DAY | DateUnit::MILLISECOND))
        }
        Type::Time => field.type_as_time().is_some_and(|time| match time.bitWidth() {
            32 => matches!(time.unit(), TimeUnit::SECOND | TimeUnit::MILLISECOND),
            64 => matches!(time.unit(), TimeUnit::MICROSECOND | TimeUnit::NANOSECOND),
            _ => false,
        }),
        Type::Timestamp => {
            let timestamp = field.type_as_timestamp();
            texts.add(timestamp.and_then(|timestamp| timestamp.timezone()))?;
            timestamp.is_some_and(|timestamp| is_unit(timestamp.unit()))
        }
        Type::Duration => field.type_as_duration().is_some_and(|duration| is_unit(duration.unit())),
        Type::Interval => field.type_as_interval().is_some_and(|interval| {
            let units = [IntervalUnit::YEAR_MONTH, IntervalUnit::DAY_TIME, IntervalUnit::MONTH_DAY_NANO];
            units.contains(&interval.unit())
        }),
        other => return Err(cant_hold(field, other.variant_name().unwrap_or("types that there aren't"))),
    };
    if is_known { Ok(()) } else { Err(unsound("a column of a type that there isn't")) }
}

fn is_unit(unit: TimeUnit) -> bool {
    matches!(unit, TimeUnit::SECOND | TimeUnit::MILLISECOND | TimeUnit::MICROSECOND | TimeUnit::NANOSECOND)
}

fn cant_hold(field: &Field<'_>, what: &str) -> Problem {
    let name: String = field.name().unwrap_or_default().chars().take(100).collect();
    Problem::new(Code::Request, format!("column {name:?}: rows can't hold {what}"))
}
