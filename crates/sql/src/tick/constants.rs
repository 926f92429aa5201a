//! The constants of a tick plan: literals that are part of the shape, and parameters that each run supplies.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, new_empty_array, new_null_array};
use arrow::buffer::Buffer;
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, not_impl_err};
use datafusion::error::DataFusionError;
use splay_functions::as_instants;

use crate::decimal_texts::plain_number;
use crate::decimals::is_decimal;
use crate::error::{Error, Result};
use crate::times;

/// The source of a constant.
#[derive(Debug, Clone)]
enum Source {
    Fixed(ArrayRef),
    /// A parameter, and the types to which it is cast in turn.
    Parameter(usize, Vec<DataType>),
    /// Several values of one type.
    List(Vec<Source>),
    /// A column of a side, by the numbers of both; each run reads it.
    Side(usize, usize),
}

/// The constants of a plan, by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Constants {
    sources: Vec<Source>,
}

impl Constants {
    /// Adds a literal.
    pub fn fix(&mut self, value: &ScalarValue) -> Option<usize> {
        // The null of a dictionary type has a null key: libraries don't accept null among the values of a dictionary.
        let array = if value.is_null() { new_null_array(&value.data_type(), 1) } else { value.to_array().ok()? };
        self.sources.push(Source::Fixed(array));
        Some(self.sources.len() - 1)
    }

    /// Adds a parameter in its own type.
    pub fn parameter(&mut self, number: usize) -> usize {
        self.sources.push(Source::Parameter(number, Vec::new()));
        self.sources.len() - 1
    }

    /// The constant cast to a type.
    pub fn cast(&mut self, constant: usize, data_type: &DataType) -> Option<usize> {
        let source = match &self.sources[constant] {
            Source::Fixed(array) => {
                let value = ScalarValue::try_from_array(array, 0).ok()?;
                Source::Fixed(cast_value(value, data_type).ok()?.to_array().ok()?)
            }
            Source::Parameter(number, casts) => {
                let mut casts = casts.clone();
                casts.push(data_type.clone());
                Source::Parameter(*number, casts)
            }
            Source::List(_) | Source::Side(_, _) => return None,
        };
        self.sources.push(source);
        Some(self.sources.len() - 1)
    }

    /// Adds the list of the values of some constants.
    pub fn list(&mut self, constants: &[usize]) -> usize {
        let sources: Vec<Source> = constants.iter().map(|constant| self.sources[*constant].clone()).collect();
        let fixed = sources.iter().map(|source| match source {
            Source::Fixed(array) => Some(array.as_ref()),
            _ => None,
        });
        let fixed = fixed.collect::<Option<Vec<_>>>().filter(|fixed| !fixed.is_empty());
        let source = match (fixed.and_then(|fixed| concat(&fixed).ok()), sources.as_slice()) {
            (Some(values), _) => Source::Fixed(values),
            (None, [Source::Side(side, column)]) => Source::Side(*side, *column),
            (None, _) => Source::List(sources),
        };
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// Adds a column of constant values.
    pub fn column(&mut self, values: ArrayRef) -> usize {
        self.sources.push(Source::Fixed(values));
        self.sources.len() - 1
    }

    /// Adds a column of a side.
    pub fn side(&mut self, side: usize, column: usize) -> usize {
        self.sources.push(Source::Side(side, column));
        self.sources.len() - 1
    }

    /// Whether two constants have the same value in every run.
    pub fn are_same(&self, one: usize, other: usize) -> bool {
        match (&self.sources[one], &self.sources[other]) {
            (Source::Fixed(one), Source::Fixed(other)) => one.len() == 1 && one.as_ref() == other.as_ref(),
            (Source::Parameter(one, casts), Source::Parameter(other, other_casts)) => {
                one == other && casts == other_casts
            }
            _ => one == other,
        }
    }

    /// Whether a constant is a column of a side.
    pub fn is_side(&self, constant: usize) -> bool {
        matches!(self.sources[constant], Source::Side(_, _))
    }

    /// Fills the columns of a side into the constants of a run.
    pub fn fill(&self, side: usize, columns: &[ArrayRef], constants: &mut [ArrayRef]) {
        for (source, constant) in self.sources.iter().zip(constants) {
            if let Source::Side(of, column) = source
                && *of == side
            {
                *constant = with_bytes(Arc::clone(&columns[*column]));
            }
        }
    }

    /// The number of constants.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Drops the constants from a number on; nothing may refer to them.
    pub fn truncate(&mut self, len: usize) {
        self.sources.truncate(len);
    }

    /// Drops the constants from a number on, except the only one that is still used, and returns its new number.
    pub fn replace_from(&mut self, len: usize, constant: usize) -> usize {
        let source = self.sources.swap_remove(constant);
        self.sources.truncate(len);
        self.sources.push(source);
        self.sources.len() - 1
    }

    /// The value of a constant that is the same in every run.
    pub fn fixed_value(&self, constant: usize) -> Option<ScalarValue> {
        match &self.sources[constant] {
            Source::Fixed(array) => ScalarValue::try_from_array(array, 0).ok(),
            Source::Parameter(_, _) | Source::List(_) | Source::Side(_, _) => None,
        }
    }

    /// The constants of a run; those of its sides are still empty.
    ///
    /// # Errors
    /// [`Error::Statement`] for a value that doesn't fit its use in the statement.
    pub fn bind(&self, parameters: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
        let refused = |error: DataFusionError| Error::Statement { message: error.to_string() };
        self.sources.iter().map(|source| bind(source, parameters).map(with_bytes).map_err(refused)).collect()
    }
}

/// Texts with a buffer of some bytes, even if all of them are empty. Arrow lets the bytes of such texts be at an address that can't be read, and comparing no
/// byte there takes a hundred times as long on processors that mask the access (AVX-512) instead of leaving it out.
fn with_bytes(array: ArrayRef) -> ArrayRef {
    let Some(texts) = array.as_string_opt::<i32>() else { return array };
    if !texts.values().is_empty() {
        return array;
    }
    let bytes = Buffer::from_vec(vec![0u8; size_of::<u64>()]);
    match StringArray::try_new(texts.offsets().clone(), bytes, texts.nulls().cloned()) {
        Ok(texts) => Arc::new(texts),
        Err(_) => array,
    }
}

fn bind(source: &Source, parameters: &[ScalarValue]) -> Result<ArrayRef, DataFusionError> {
    match source {
        Source::Fixed(array) => Ok(ArrayRef::clone(array)),
        Source::Parameter(number, casts) => {
            let mut value = parameters[*number].clone();
            let is_list = matches!(value, ScalarValue::List(_));
            for data_type in casts {
                if is_list && !matches!(data_type, DataType::List(_)) {
                    return not_impl_err!("a list in the place of a value");
                }
                value = cast_value(value, data_type)?;
            }
            value.to_array()
        }
        Source::Side(_, _) => Ok(new_empty_array(&DataType::Null)),
        Source::List(sources) => {
            let values = sources.iter().map(|source| values_of(source, parameters)).collect::<Result<Vec<_>, _>>()?;
            let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
            Ok(concat(&values)?)
        }
    }
}

/// Casts a value to a type. A text to the minute is a time, one with an exponent a decimal, and a time with a zone becomes that zone's local time.
fn cast_value(value: ScalarValue, data_type: &DataType) -> Result<ScalarValue, DataFusionError> {
    if let (DataType::Timestamp(_, None), DataType::Timestamp(_, Some(_))) = (value.data_type(), data_type)
        && let Some(instants) = as_instants(&value.to_array()?, data_type)
    {
        return ScalarValue::try_from_array(&instants?, 0);
    }
    match (value, data_type) {
        (ScalarValue::Utf8(Some(text)), DataType::Timestamp(_, _)) => {
            ScalarValue::Utf8(Some(times::full_time(&text).into_owned())).cast_to(data_type)
        }
        (ScalarValue::Utf8(Some(text)), to) if is_decimal(to) => {
            ScalarValue::Utf8(Some(plain_number(&text).into_owned())).cast_to(to)
        }
        (value, _) => value.cast_to(data_type),
    }
}

/// The values of a list item: one, or those of a list that was lifted as a whole.
fn values_of(source: &Source, parameters: &[ScalarValue]) -> Result<ArrayRef, DataFusionError> {
    if let Source::Parameter(number, casts) = source
        && let ScalarValue::List(list) = &parameters[*number]
    {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let mut values = list.value(0);
        for data_type in casts {
            if let (DataType::Timestamp(_, _), Some(texts)) = (data_type, values.as_string_opt::<i32>()) {
                values = Arc::new(texts.iter().map(|text| text.map(times::full_time)).collect::<StringArray>());
            }
            if let (true, Some(texts)) = (is_decimal(data_type), values.as_string_opt::<i32>()) {
                values = Arc::new(texts.iter().map(|text| text.map(plain_number)).collect::<StringArray>());
            }
            values = match as_instants(&values, data_type) {
                Some(instants) => instants?,
                None => cast_with_options(&values, data_type, &options)?,
            };
        }
        return Ok(values);
    }
    bind(source, parameters)
}
