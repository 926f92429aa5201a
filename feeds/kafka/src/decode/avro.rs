//! Avro in Confluent's framing: a zero byte, the number of the schema in four bytes, the datum.
//!
//! `apache-avro` parses the schema, once; of it a [`Plan`] is made that reads a datum in one pass, takes the values that columns want and
//! steps over the others. Nothing is allocated for what a length claims before the bytes are there. The format:
//! <https://avro.apache.org/docs/1.12.0/specification/#binary-encoding>.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use apache_avro::Schema;
use apache_avro::schema::{InnerDecimalSchema, Name, UuidSchema};
use splay_records::fields::{Field, Fields};

use super::{DecodeFailure, Layout};
use crate::columns::Cell;
use crate::registry::{SchemaError, Schemas};
use crate::settings::UnknownFields;

/// The deepest nesting of types.
const DEPTH_MAX: usize = 32;

/// Parts of a schema, with those that are named several times counted as often.
const PARTS_MAX: usize = 10_000;

/// Items of all arrays and maps of a record: some take no bytes.
const ITEMS_MAX: usize = 1 << 20;

/// Schemas that are kept; a topic has a few.
const PLANS_MAX: usize = 1_000;

/// Reads the records of a topic.
#[derive(Debug)]
pub(super) struct Decoder {
    schemas: Arc<dyn Schemas>,
    plans: HashMap<u32, Plan>,
}

impl Decoder {
    pub(super) fn new(schemas: Arc<dyn Schemas>) -> Decoder {
        Decoder { schemas, plans: HashMap::new() }
    }

    pub(super) fn decode<'a>(
        &'a mut self,
        layout: &Layout,
        payload: &'a [u8],
        cells: &mut [Cell<'a>],
    ) -> Result<(), DecodeFailure> {
        let Some((&[0, a, b, c, d], datum)) = payload.split_first_chunk::<5>() else {
            return Err(DecodeFailure::Invalid(
                "it doesn't begin as Confluent's Avro does: 0 and the schema's number".to_owned(),
            ));
        };
        let id = u32::from_be_bytes([a, b, c, d]);
        if !self.plans.contains_key(&id) {
            let schema = self.schemas.schema(id).map_err(|error| match error {
                SchemaError::None(reason) => DecodeFailure::Invalid(format!("schema {id}: {reason}")),
                SchemaError::Later(reason) => DecodeFailure::Unavailable(format!("schema {id}: {reason}")),
            })?;
            let plan =
                Plan::new(&schema, layout).map_err(|error| DecodeFailure::Invalid(format!("schema {id}: {error}")))?;
            if self.plans.len() >= PLANS_MAX {
                self.plans.clear();
            }
            self.plans.insert(id, plan);
        }
        let plan = self.plans.get(&id).ok_or_else(|| "the plan is gone".to_owned())?;
        Ok(plan.decode(datum, cells)?)
    }
}

/// A schema that no rows can be made of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

/// The steps that read a datum.
#[derive(Debug)]
pub struct Plan {
    root: Vec<FieldStep>,
}

/// A field of a record: how it is read, and the columns that it fills.
#[derive(Debug)]
struct FieldStep {
    columns: Vec<usize>,
    node: Node,
}

#[derive(Debug)]
enum Node {
    Null,
    Bool,
    Whole,
    Float,
    Double,
    Text,
    Bytes,
    Fixed(usize),
    Enum(Vec<String>),
    Array(Box<Node>),
    Map(Box<Node>),
    Union(Vec<Node>),
    Record(Vec<FieldStep>),
    Decimal {
        fixed: Option<usize>,
        scale: i32,
    },
    Date,
    /// Nanoseconds of a unit.
    TimeOfDay(i64),
    /// Nanoseconds of a unit.
    Instant(i64),
}

impl Plan {
    /// The plan of a record's schema, with the schemas that it names.
    ///
    /// # Errors
    /// A schema that isn't of a record, or too deep, or with a field that no column takes, if these are refused.
    pub fn new(schema: &crate::registry::ParsedSchema, layout: &Layout) -> Result<Plan, PlanError> {
        let mut names = HashMap::new();
        std::iter::once(&schema.root).chain(&schema.named).for_each(|schema| collect(schema, &mut names, 0));
        let mut compiler = Compiler { names, parts: 0, unknown: layout.unknown };
        match compiler.node(&schema.root, Some(&layout.fields), 0)? {
            Node::Record(root) => Ok(Plan { root }),
            _ => Err(PlanError("it is no record".to_owned())),
        }
    }

    /// Fills the cells of the columns that a datum has.
    ///
    /// # Errors
    /// The fault of the bytes.
    pub fn decode<'a>(&'a self, datum: &'a [u8], cells: &mut [Cell<'a>]) -> Result<(), String> {
        let mut reader = DatumReader { bytes: datum, items: 0 };
        record(&self.root, &mut reader, cells)?;
        if reader.bytes.is_empty() {
            Ok(())
        } else {
            Err(format!("{} bytes are left behind the datum", reader.bytes.len()))
        }
    }
}

/// All types of a schema that have a name.
fn collect<'s>(schema: &'s Schema, names: &mut HashMap<Name, &'s Schema>, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match schema {
        Schema::Record(record) => {
            names.insert(record.name.clone(), schema);
            record.fields.iter().for_each(|field| collect(&field.schema, names, depth + 1));
        }
        Schema::Enum(of) => {
            names.insert(of.name.clone(), schema);
        }
        Schema::Fixed(fixed) => {
            names.insert(fixed.name.clone(), schema);
        }
        Schema::Decimal(decimal) => {
            if let InnerDecimalSchema::Fixed(fixed) = &decimal.inner {
                names.insert(fixed.name.clone(), schema);
            }
        }
        Schema::Array(array) => collect(&array.items, names, depth + 1),
        Schema::Map(map) => collect(&map.types, names, depth + 1),
        Schema::Union(union) => union.variants().iter().for_each(|variant| collect(variant, names, depth + 1)),
        _ => {}
    }
}

struct Compiler<'s> {
    names: HashMap<Name, &'s Schema>,
    parts: usize,
    unknown: UnknownFields,
}

impl<'s> Compiler<'s> {
    fn node(&mut self, schema: &'s Schema, fields: Option<&Fields>, depth: usize) -> Result<Node, PlanError> {
        self.parts += 1;
        if depth > DEPTH_MAX || self.parts > PARTS_MAX {
            return Err(PlanError("it is too deep or too large, or names itself".to_owned()));
        }
        Ok(match schema {
            Schema::Null => Node::Null,
            Schema::Boolean => Node::Bool,
            Schema::Int | Schema::Long => Node::Whole,
            Schema::Float => Node::Float,
            Schema::Double => Node::Double,
            Schema::String | Schema::Uuid(UuidSchema::String) => Node::Text,
            Schema::Bytes | Schema::BigDecimal | Schema::Uuid(UuidSchema::Bytes) => Node::Bytes,
            Schema::Fixed(fixed) | Schema::Duration(fixed) | Schema::Uuid(UuidSchema::Fixed(fixed)) => {
                Node::Fixed(fixed.size)
            }
            Schema::Enum(of) => Node::Enum(of.symbols.clone()),
            Schema::Array(array) => Node::Array(Box::new(self.node(&array.items, None, depth + 1)?)),
            Schema::Map(map) => Node::Map(Box::new(self.node(&map.types, None, depth + 1)?)),
            Schema::Union(union) => {
                let variants = union.variants().iter().map(|variant| self.node(variant, fields, depth + 1));
                Node::Union(variants.collect::<Result<_, _>>()?)
            }
            Schema::Record(record) => {
                let mut next = 0;
                let mut steps = Vec::with_capacity(record.fields.len());
                for field in &record.fields {
                    let mapping = fields.and_then(|fields| fields.find(&field.name, &mut next));
                    let mapping: Option<&Field> = mapping.map(|(_, field)| field);
                    if mapping.is_none() && fields.is_some() && self.unknown == UnknownFields::Refuse {
                        return Err(PlanError(format!("no column takes the field {:?}", field.name)));
                    }
                    let inner = mapping.map(|field| &field.inner).filter(|inner| !inner.is_empty());
                    let node = self.node(&field.schema, inner, depth + 1)?;
                    steps.push(FieldStep {
                        columns: mapping.map_or_else(Vec::new, |field| field.columns.clone()),
                        node,
                    });
                }
                Node::Record(steps)
            }
            Schema::Decimal(decimal) => {
                let scale = i32::try_from(decimal.scale).map_err(|_| PlanError("a decimal's scale".to_owned()))?;
                let fixed = match &decimal.inner {
                    InnerDecimalSchema::Fixed(fixed) => Some(fixed.size),
                    InnerDecimalSchema::Bytes => None,
                };
                Node::Decimal { fixed, scale }
            }
            Schema::Date => Node::Date,
            Schema::TimeMillis => Node::TimeOfDay(1_000_000),
            Schema::TimeMicros => Node::TimeOfDay(1_000),
            Schema::TimestampMillis | Schema::LocalTimestampMillis => Node::Instant(1_000_000),
            Schema::TimestampMicros | Schema::LocalTimestampMicros => Node::Instant(1_000),
            Schema::TimestampNanos | Schema::LocalTimestampNanos => Node::Instant(1),
            Schema::Ref { name } => {
                let schema = *self.names.get(name).ok_or_else(|| PlanError(format!("it lacks the type {name:?}")))?;
                self.node(schema, fields, depth + 1)?
            }
        })
    }
}

fn record<'a>(steps: &'a [FieldStep], reader: &mut DatumReader<'a>, cells: &mut [Cell<'a>]) -> Result<(), String> {
    for step in steps {
        let cell = value(&step.node, reader, cells)?;
        if let Some((last, others)) = step.columns.split_last() {
            others.iter().for_each(|column| cells[*column] = cell.clone());
            cells[*last] = cell;
        }
    }
    Ok(())
}

fn value<'a>(node: &'a Node, reader: &mut DatumReader<'a>, cells: &mut [Cell<'a>]) -> Result<Cell<'a>, String> {
    Ok(match node {
        Node::Null => Cell::Null,
        Node::Bool => match reader.take(1)? {
            [0] => Cell::Bool(false),
            [1] => Cell::Bool(true),
            _ => return Err("a boolean that is neither 0 nor 1".to_owned()),
        },
        Node::Whole => Cell::Whole(reader.long()?.into()),
        Node::Float => Cell::Float(f32::from_le_bytes(reader.chunk()?).into()),
        Node::Double => Cell::Float(f64::from_le_bytes(reader.chunk()?)),
        Node::Text => {
            let bytes = reader.counted()?;
            Cell::Text(Cow::Borrowed(std::str::from_utf8(bytes).map_err(|_| "a text that is no UTF-8")?))
        }
        Node::Bytes => {
            reader.counted()?;
            Cell::Other("bytes")
        }
        Node::Fixed(size) => {
            reader.take(*size)?;
            Cell::Other("bytes")
        }
        Node::Enum(symbols) => {
            let symbol = usize::try_from(reader.long()?).ok().and_then(|place| symbols.get(place));
            Cell::Text(Cow::Borrowed(symbol.ok_or("an enumeration's number that it doesn't have")?))
        }
        Node::Array(items) => array(items, reader, cells)?,
        Node::Map(values) => {
            while let Some(count) = reader.block()? {
                for _ in 0..count {
                    reader.counted()?;
                    value(values, reader, cells)?;
                }
            }
            Cell::Other("a map")
        }
        Node::Union(variants) => {
            let variant = usize::try_from(reader.long()?).ok().and_then(|place| variants.get(place));
            value(variant.ok_or("a union's number that it doesn't have")?, reader, cells)?
        }
        Node::Record(steps) => {
            record(steps, reader, cells)?;
            Cell::Other("a record")
        }
        Node::Decimal { fixed, scale } => {
            let bytes = match fixed {
                Some(size) => reader.take(*size)?,
                None => reader.counted()?,
            };
            Cell::Decimal(big_endian(bytes)?, *scale)
        }
        Node::Date => Cell::Date(i32::try_from(reader.long()?).map_err(|_| "a date beyond all years")?),
        Node::TimeOfDay(unit) => Cell::TimeOfDay(reader.long()?.checked_mul(*unit).ok_or("a time beyond the day")?),
        Node::Instant(unit) => Cell::Instant(i128::from(reader.long()?) * i128::from(*unit)),
    })
}

fn array<'a>(items: &'a Node, reader: &mut DatumReader<'a>, cells: &mut [Cell<'a>]) -> Result<Cell<'a>, String> {
    let (mut numbers, mut are_numbers) = (Vec::new(), true);
    while let Some(count) = reader.block()? {
        for _ in 0..count {
            match value(items, reader, cells)? {
                Cell::Float(number) => numbers.push(Some(number)),
                Cell::Null => numbers.push(None),
                #[expect(clippy::cast_precision_loss, reason = "levels are floats")]
                Cell::Whole(number) => numbers.push(Some(number as f64)),
                Cell::Decimal(digits, scale) => numbers.push(format!("{digits}e{}", -scale).parse().ok()),
                _ => are_numbers = false,
            }
        }
    }
    Ok(if are_numbers { Cell::Floats(numbers) } else { Cell::Other("an array with items that are no numbers") })
}

/// A number in two's complement, the highest byte first.
fn big_endian(bytes: &[u8]) -> Result<i128, String> {
    let is_negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let mut number: i128 = if is_negative { -1 } else { 0 };
    let fill = if is_negative { 0xff } else { 0 };
    let significant =
        bytes.iter().position(|byte| *byte != fill).map_or(&bytes[bytes.len()..], |first| &bytes[first..]);
    if significant.len() > 15 {
        return Err("a decimal of more than 36 digits".to_owned());
    }
    for byte in significant {
        number = (number << 8) | i128::from(*byte);
    }
    Ok(number)
}

/// The bytes of a datum that aren't read yet.
struct DatumReader<'a> {
    bytes: &'a [u8],
    items: usize,
}

const CUT_SHORT: &str = "the datum ends too early";

impl<'a> DatumReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self.bytes.split_at_checked(count).ok_or(CUT_SHORT)?;
        self.bytes = rest;
        Ok(head)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, rest) = self.bytes.split_first_chunk().ok_or(CUT_SHORT)?;
        self.bytes = rest;
        Ok(*head)
    }

    /// A whole number of seven bits a byte, the lowest first, with the sign in the lowest bit.
    fn long(&mut self) -> Result<i64, String> {
        let mut bits: u64 = 0;
        for place in 0..10 {
            let [byte] = self.chunk()?;
            let part = u64::from(byte & 0x7f);
            if place == 9 && part > 1 {
                break;
            }
            bits |= part << (7 * place);
            if byte & 0x80 == 0 {
                return Ok((bits >> 1).cast_signed() ^ -((bits & 1).cast_signed()));
            }
        }
        Err("a number of more than 64 bits".to_owned())
    }

    /// Bytes behind their count.
    fn counted(&mut self) -> Result<&'a [u8], String> {
        let count = usize::try_from(self.long()?).map_err(|_| "a length below zero")?;
        self.take(count)
    }

    /// Items of the next block of an array or a map; none at its end.
    fn block(&mut self) -> Result<Option<usize>, String> {
        let mut count = self.long()?;
        if count < 0 {
            // The block's length in bytes, which isn't used here.
            self.long()?;
            count = count.checked_neg().ok_or("a block of too many items")?;
        }
        let count = usize::try_from(count).map_err(|_| "a block of too many items")?;
        self.items = self.items.saturating_add(count);
        if self.items > ITEMS_MAX {
            return Err(format!("more than {ITEMS_MAX} items"));
        }
        Ok((count > 0).then_some(count))
    }
}
