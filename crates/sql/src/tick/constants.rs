//! The constants of a tick plan: literals that are part of the shape, and parameters that each run brings.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use crate::error::{Error, Result};

/// Where a constant comes from.
#[derive(Debug, Clone)]
enum Source {
    Fixed(ArrayRef),
    /// A parameter, and the types that it is cast to one after the other.
    Parameter(usize, Vec<DataType>),
}

/// The constants of a plan, by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Constants {
    sources: Vec<Source>,
}

impl Constants {
    /// Adds a literal.
    pub fn fix(&mut self, value: &ScalarValue) -> Option<usize> {
        let array = value.to_array().ok()?;
        self.sources.push(Source::Fixed(array));
        Some(self.sources.len() - 1)
    }

    /// Adds a parameter that is used as it is given.
    pub fn parameter(&mut self, number: usize) -> usize {
        self.sources.push(Source::Parameter(number, Vec::new()));
        self.sources.len() - 1
    }

    /// The constant cast to a type.
    pub fn cast(&mut self, constant: usize, data_type: &DataType) -> Option<usize> {
        let source = match &self.sources[constant] {
            Source::Fixed(array) => {
                Source::Fixed(ScalarValue::try_from_array(array, 0).ok()?.cast_to(data_type).ok()?.to_array().ok()?)
            }
            Source::Parameter(number, casts) => {
                let mut casts = casts.clone();
                casts.push(data_type.clone());
                Source::Parameter(*number, casts)
            }
        };
        self.sources.push(source);
        Some(self.sources.len() - 1)
    }

    /// The value of a constant that no run changes.
    pub fn fixed(&self, constant: usize) -> Option<ScalarValue> {
        match &self.sources[constant] {
            Source::Fixed(array) => ScalarValue::try_from_array(array, 0).ok(),
            Source::Parameter(_, _) => None,
        }
    }

    /// The constants of a run.
    ///
    /// # Errors
    /// [`Error::Statement`] for a value that can't be what the statement uses it as.
    pub fn bind(&self, parameters: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
        let bind = |source: &Source| match source {
            Source::Fixed(array) => Ok(ArrayRef::clone(array)),
            Source::Parameter(number, casts) => {
                let mut value = parameters[*number].clone();
                for data_type in casts {
                    value = value.cast_to(data_type)?;
                }
                value.to_array()
            }
        };
        let refused = |error: datafusion::error::DataFusionError| Error::Statement { message: error.to_string() };
        self.sources.iter().map(|source| bind(source).map_err(refused)).collect()
    }
}
