//! Binary files, whose values have types: their columns, and their rows as batches.

use arrow::datatypes::{DataType, Field};
use splay_store::{ColumnSpec, ColumnType};

use crate::error::{Error, Result};
use crate::exact::natural_type;
use crate::format::{DetectedFormat, FileBatches, guarded, guarded_batches};
use crate::input::InputFile;
use crate::{columnar, dbn, itch};

/// The columns of a binary file as it would be a table by itself, and its time column when the format has one. Columns that `type_setting` gives a
/// type have that one.
pub(crate) fn natural_columns(
    file: &InputFile,
    kind: DetectedFormat,
    type_setting: &dyn Fn(&str) -> Option<ColumnType>,
) -> Result<(Vec<ColumnSpec>, Option<String>)> {
    match kind {
        DetectedFormat::Dbn => guarded(file, || dbn::columns(file)),
        DetectedFormat::Itch => itch::columns(file),
        DetectedFormat::Parquet | DetectedFormat::Arrow => {
            let schema = guarded(file, || columnar::schema(file, kind))?;
            let columns = schema.fields().iter().map(|field| {
                let column_type = type_setting(field.name()).or_else(|| natural_type(field.data_type()));
                Ok(ColumnSpec::new(field.name(), column_type.ok_or_else(|| no_type(file, field))?))
            });
            Ok((columns.collect::<Result<_>>()?, None))
        }
        DetectedFormat::Text(_) | DetectedFormat::Json => Ok((Vec::new(), None)),
    }
}

fn no_type(file: &InputFile, field: &Field) -> Error {
    let name = field.name();
    Error::unsupported(
        &file.name,
        match field.data_type() {
            DataType::Null => {
                format!("column {name} has no value and no type; name one, as in --type {name}=float64")
            }
            other => format!(
                "column {name} has type {other}, which no column type holds; CREATE TABLE ... AS SELECT ... FROM 'file' takes the other columns"
            ),
        },
    )
}

/// The batches of a binary file in its own schema.
pub(crate) fn batches(file: &InputFile, kind: DetectedFormat) -> Result<FileBatches> {
    let batches = guarded(file, || match kind {
        DetectedFormat::Dbn => dbn::batches(file),
        DetectedFormat::Itch => itch::batches(file),
        _ => columnar::batches(file, kind),
    })?;
    Ok(guarded_batches(file, batches))
}
