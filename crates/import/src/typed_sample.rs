//! Samples of columns of Parquet and Arrow files as they would be written in a text file: what their texts and numbers are as times.

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use splay_store::{ColumnSpec, ColumnType, TableSpec};

use crate::csv::times::EpochUnit;
use crate::error::{Error, Result};
use crate::evidence::ValueFormats;
use crate::exact::natural_type;
use crate::format::{DetectedFormat, guarded};
use crate::input::InputFile;
use crate::sniff::Sample;
use crate::typed_times::is_whole;

/// A sample of columns of a Parquet or Arrow file, as they would be written in a text file.
pub(crate) fn typed_sample(
    file: &InputFile,
    kind: DetectedFormat,
    writing: ValueFormats,
    is_wanted: &dyn Fn(&str, &ColumnType) -> bool,
) -> Result<Sample> {
    let schema = guarded(file, || crate::columnar::schema(file, kind))?;
    let fields = schema.fields().iter().enumerate();
    let wanted =
        fields.filter(|(_, field)| natural_type(field.data_type()).is_some_and(|own| is_wanted(field.name(), &own)));
    let (places, names): (Vec<usize>, Vec<&str>) = wanted.map(|(place, field)| (place, field.name().as_str())).unzip();
    let mut sample = Sample::new(writing, None);
    if places.is_empty() {
        return Ok(sample);
    }
    guarded(file, || {
        crate::columnar::sample(file, kind, &places, &mut |number, values| {
            let Ok(texts) = arrow::compute::cast(values, &DataType::Utf8) else { return };
            let texts = texts.as_string::<i32>();
            texts.iter().flatten().for_each(|text| sample.add_value(names[number], text.as_bytes(), false));
            sample.rows += if number == 0 { texts.len() } else { 0 };
        })
    })?;
    Ok(sample)
}

/// What the whole numbers of a file count that are times of a table, with notes.
pub(crate) fn epoch_units(
    file: &InputFile,
    kind: DetectedFormat,
    spec: &TableSpec,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, EpochUnit)>> {
    if !matches!(kind, DetectedFormat::Parquet | DetectedFormat::Arrow) {
        return Ok(Vec::new());
    }
    let is_time = |column: &ColumnSpec| column.column_type == ColumnType::Timestamp;
    let is_wanted = |name: &str, own: &ColumnType| {
        is_whole(own) && spec.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name) && is_time(column))
    };
    let sample = typed_sample(file, kind, ValueFormats::default(), &is_wanted)?;
    let mut units = Vec::new();
    for (name, evidence) in sample.columns() {
        let example = String::from_utf8_lossy(evidence.example());
        if let Some(unit) = evidence.epoch_unit() {
            notes.push(format!("{name} counts {unit} from 1970: {example}"));
        }
        // Values that differ from the first are refused by their rows.
        units.extend(example.parse().ok().and_then(EpochUnit::guess).map(|unit| (name.to_owned(), unit)));
    }
    Ok(units)
}

/// Refuses formats of dates for a file whose texts become no dates and times.
pub(crate) fn check_formats(file: &InputFile, kind: DetectedFormat, spec: &TableSpec) -> Result<()> {
    use ColumnType::{Date, Symbol, Text, Time, Timestamp};
    let schema = guarded(file, || crate::columnar::schema(file, kind))?;
    let is_read = |column: &ColumnSpec| {
        let own = schema.fields().iter().find(|field| field.name().eq_ignore_ascii_case(&column.name));
        let is_text = own.is_some_and(|own| matches!(natural_type(own.data_type()), Some(Text | Symbol)));
        is_text && matches!(column.column_type, Date | Time | Timestamp)
    };
    if spec.columns.iter().any(is_read) {
        return Ok(());
    }
    let reason = format!("{} has no texts that become dates or times; name them with --time or --type", file.name);
    Err(Error::Setting { setting: "date_formats", reason })
}
