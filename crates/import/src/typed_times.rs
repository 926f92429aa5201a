//! Values of Parquet and Arrow files in columns of other types: texts are parsed as those of text files, whole numbers count from 1970 in the unit that
//! their size tells.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, TimestampNanosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimestampNanosecondType};
use splay_store::{ColumnSpec, ColumnType};

use crate::csv::columns::{ColumnPlan, ParsedColumn, date, set_null_tokens};
use crate::csv::times::{self, EpochUnit, LocalZone, TimeSpelling};
use crate::exact::{cast_exactly, natural_type};

/// How times are read that have no type of their own, or no zone.
#[derive(Debug, Clone, Default)]
pub(crate) struct TypedTimes {
    /// Zone of times without one.
    pub zone: Option<LocalZone>,
    /// Patterns of `strftime` for texts, instead of the usual ways.
    pub formats: Vec<String>,
    /// What whole numbers count, by the name of their column.
    pub units: Vec<(String, EpochUnit)>,
}

impl TypedTimes {
    /// Values in the type of a table's column, where the table's dates are in `time_zone`.
    ///
    /// # Errors
    /// The reason, if a value would change or can't be read.
    pub fn cast(&self, array: &ArrayRef, column: &ColumnSpec, time_zone: &str) -> Result<ArrayRef, String> {
        use ColumnType::{Levels, Symbol, Text, Timestamp};
        match (natural_type(array.data_type()), &column.column_type) {
            (Some(Text | Symbol), Text | Symbol | Levels { .. }) => cast_exactly(array, &column.column_type, time_zone),
            (Some(Text | Symbol), _) => self.parse(array, column, time_zone),
            (Some(own), Timestamp) if is_whole(&own) => self.count(array, &column.name),
            (Some(Timestamp), target) => match (&self.zone, array.data_type()) {
                (Some(zone), DataType::Timestamp(_, None)) => {
                    cast_exactly(&in_zone(array, &mut zone.clone())?, target, time_zone)
                }
                _ => cast_exactly(array, target, time_zone),
            },
            (_, target) => cast_exactly(array, target, time_zone),
        }
    }

    fn parse(&self, array: &ArrayRef, column: &ColumnSpec, time_zone: &str) -> Result<ArrayRef, String> {
        let texts = cast(array, &DataType::Utf8).map_err(|error| error.to_string())?;
        let plan = self.plan(column);
        let mut table_zone = LocalZone::parse(time_zone).unwrap_or(LocalZone::UTC);
        let mut parsed = ParsedColumn::new(&plan, texts.len());
        for text in texts.as_string::<i32>() {
            let Some(text) = text.map(str::as_bytes) else {
                parsed.push_null();
                continue;
            };
            match self.midnight(text.trim_ascii(), &column.column_type) {
                Some(local) => parsed.push_nanos(table_zone.instant(local)?),
                None => parsed.push(text, false, None)?,
            }
        }
        parsed.finish().map_err(|error| error.to_string())
    }

    fn plan(&self, column: &ColumnSpec) -> ColumnPlan {
        let mut plan = ColumnPlan::new(&column.name, column.column_type.clone());
        set_null_tokens(&mut plan);
        plan.is_settled = true;
        plan.date_patterns.clone_from(&self.formats);
        plan.zone = self.zone.clone().unwrap_or(LocalZone::UTC);
        plan.spelling = match (&column.column_type, self.formats.as_slice()) {
            (ColumnType::Timestamp, []) => TimeSpelling::Any,
            (ColumnType::Timestamp, formats) => TimeSpelling::Patterns(formats.to_vec()),
            (ColumnType::Time, []) => TimeSpelling::ClockText,
            (ColumnType::Time, formats) => TimeSpelling::ClockPatterns(formats.to_vec()),
            _ => TimeSpelling::Written,
        };
        plan
    }

    /// The local time at which a date begins that a text has without a time of day, where no zone was asked for.
    fn midnight(&self, text: &[u8], target: &ColumnType) -> Option<i64> {
        if *target != ColumnType::Timestamp || self.zone.is_some() {
            return None;
        }
        let is_instant = !self.formats.is_empty() && times::by_formats(text, &self.formats)[0];
        let day = date(text, &self.formats).filter(|_| !is_instant)?;
        times::local(day, 0)
    }

    fn count(&self, array: &ArrayRef, name: &str) -> Result<ArrayRef, String> {
        let numbers = cast_exactly(array, &ColumnType::Int64, "UTC")?;
        let numbers = numbers.as_primitive::<Int64Type>();
        let by_size = |number: i64| EpochUnit::guess(i128::from(number));
        let known = self.units.iter().find(|(column, _)| column.eq_ignore_ascii_case(name)).map(|(_, unit)| *unit);
        let first = || numbers.iter().flatten().next().and_then(by_size);
        let unit = known.or_else(first);
        let instant = |number: i64| match (by_size(number), unit) {
            (Some(own), Some(unit)) if own == unit => unit.nanos(number).ok_or_else(|| times::OUT_OF_RANGE.to_owned()),
            (Some(own), Some(unit)) => Err(format!("a number counts {own} from 1970, and others count {unit}")),
            _ => Err("a number is no time of the years 1990 to 2100 in any unit from 1970".to_owned()),
        };
        let instants = numbers.iter().map(|number| number.map(instant).transpose());
        let instants: TimestampNanosecondArray = instants.collect::<Result<_, String>>()?;
        Ok(Arc::new(instants.with_timezone("UTC")))
    }
}

/// Whether a type is one of whole numbers.
pub(crate) fn is_whole(column_type: &ColumnType) -> bool {
    use ColumnType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    matches!(column_type, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64)
}

/// Local times of a zone as instants.
fn in_zone(array: &ArrayRef, zone: &mut LocalZone) -> Result<ArrayRef, String> {
    let local = cast_exactly(array, &ColumnType::Timestamp, "UTC")?;
    let instants = local.as_primitive::<TimestampNanosecondType>().iter();
    let instants: Result<TimestampNanosecondArray, &str> =
        instants.map(|local| local.map(|local| zone.instant(local)).transpose()).collect();
    Ok(Arc::new(instants?.with_timezone("UTC")))
}
