//! Columns of a frame: their types in a new table, and the choice of the time and the symbol column.
//!
//! The names that are looked for, and their order, are those of the importer: a frame and a file make the same table.

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use splay_import::{SAMPLE_ROWS, SYMBOL_NAMES, TIME_NAMES, TextSample, natural_type, reference_symbol};
use splay_store::{ColumnSpec, ColumnType, DayStart, Error, Reference, Result, TableSpec};

/// The caller's options for the table. Options that are missing are guessed, or taken from the existing table.
#[derive(Debug, Default)]
pub(crate) struct NewTableOptions {
    pub(crate) time: Option<String>,
    /// An empty name for a table without one.
    pub(crate) symbol: Option<String>,
    pub(crate) time_zone: Option<String>,
    pub(crate) day_start: Option<DayStart>,
    pub(crate) types: Vec<(String, ColumnType)>,
    /// Makes a new table a reference table.
    pub(crate) reference: Option<Reference>,
}

/// Whether pandas made the column from an index without a name.
pub(crate) fn is_unnamed_index(field: &Field) -> bool {
    let number = field.name().strip_prefix("__index_level_").and_then(|rest| rest.strip_suffix("__"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The table that a frame makes.
///
/// # Errors
/// [`Error::Schema`] if a column has a type that no table can have, or no column can be the time.
pub(crate) fn new_table(table: &str, frame: &Schema, table_options: &NewTableOptions) -> Result<TableSpec> {
    let wrong = |reason: String| Error::Schema { table: table.to_owned(), reason };
    let mut columns = Vec::with_capacity(frame.fields().len());
    for field in frame.fields() {
        let wished = table_options.types.iter().find(|(name, _)| name.eq_ignore_ascii_case(field.name()));
        let found = wished.map(|(_, wished)| wished.clone()).or_else(|| natural_type(field.data_type()));
        let found = found.ok_or_else(|| {
            let (name, data_type) = (field.name(), field.data_type());
            wrong(format!(
                "column {name:?} has the Arrow type {data_type}, which a table can't have; name one in types"
            ))
        })?;
        columns.push(ColumnSpec::new(field.name(), found));
    }
    for (name, _) in &table_options.types {
        find(&columns, name).ok_or_else(|| wrong(format!("types names {name:?}, which the frame doesn't have")))?;
    }
    if let Some(reference) = &table_options.reference {
        return new_reference(table, columns, reference, table_options);
    }
    let time = match &table_options.time {
        Some(name) => {
            find(&columns, name).ok_or_else(|| wrong(format!("the frame has no column {name:?} for the time")))
        }
        None => guess_time(&columns).ok_or_else(|| wrong(no_time(&columns))),
    }?;
    if !matches!(columns[time].column_type, ColumnType::Timestamp | ColumnType::Date) {
        let (name, data_type) = (&columns[time].name, &columns[time].column_type);
        return Err(wrong(format!("the time column {name:?} is {data_type}; it must be a timestamp or a date")));
    }
    columns[time].column_type = ColumnType::Timestamp;
    let symbol = match table_options.symbol.as_deref() {
        Some("") => None,
        Some(name) => Some(
            find(&columns, name).ok_or_else(|| wrong(format!("the frame has no column {name:?} for the symbol")))?,
        ),
        None => guess_symbol(&columns),
    };
    if let Some(symbol) = symbol {
        if !is_text(&columns[symbol].column_type) {
            let (name, data_type) = (&columns[symbol].name, &columns[symbol].column_type);
            return Err(wrong(format!("the symbol column {name:?} is {data_type}; it must be text")));
        }
        columns[symbol].column_type = ColumnType::Symbol;
    }
    let (time, symbol) = (columns[time].name.clone(), symbol.map(|symbol| columns[symbol].name.clone()));
    let spec = TableSpec::new(table, columns, time, symbol.as_deref());
    let spec = spec.with_time_zone(table_options.time_zone.as_deref().unwrap_or("UTC"));
    let spec = spec.with_day_start(table_options.day_start.unwrap_or_default());
    spec.validate()?;
    Ok(spec)
}

/// Makes symbols of texts of which few differ in the first rows of a frame, given its first batches.
pub(crate) fn find_symbols(spec: &mut TableSpec, first: &[RecordBatch], table_options: &NewTableOptions) {
    let is_wished = |name: &str| table_options.types.iter().any(|(wished, _)| wished.eq_ignore_ascii_case(name));
    for column in spec.columns.iter_mut().filter(|column| column.column_type == ColumnType::Text) {
        if is_wished(&column.name) {
            continue;
        }
        let (mut sample, mut left) = (TextSample::default(), SAMPLE_ROWS);
        for values in first.iter().filter_map(|rows| rows.column_by_name(&column.name)) {
            let rows = left.min(values.len());
            sample.add(&values.slice(0, rows));
            left -= rows;
        }
        if sample.is_of_symbols() {
            column.column_type = ColumnType::Symbol;
        }
    }
}

/// The reference table that a frame makes.
fn new_reference(
    table: &str,
    mut columns: Vec<ColumnSpec>,
    reference: &Reference,
    table_options: &NewTableOptions,
) -> Result<TableSpec> {
    let wrong = |reason: String| Error::Schema { table: table.to_owned(), reason };
    if table_options.time.is_some() || table_options.time_zone.is_some() {
        return Err(wrong(
            "a reference table has no time column and no dates: leave time and time_zone out".to_owned(),
        ));
    }
    let listed: Vec<(&str, &ColumnType)> = columns.iter().map(|c| (c.name.as_str(), &c.column_type)).collect();
    let symbol = reference_symbol(&listed, reference, table_options.symbol.as_deref());
    if let Some(name) = &symbol {
        let place =
            find(&columns, name).ok_or_else(|| wrong(format!("the frame has no column {name:?} for the symbol")))?;
        columns[place].column_type = ColumnType::Symbol;
    }
    let spec = TableSpec { symbol, ..TableSpec::of_reference(table, columns, reference.clone()) };
    spec.validate()?;
    Ok(spec)
}

/// The table that is there, if the frame and the wishes go with it.
///
/// # Errors
/// [`Error::Schema`] that names what doesn't fit.
pub(crate) fn existing_table(
    existing: &TableSpec,
    frame: &Schema,
    table_options: &NewTableOptions,
) -> Result<TableSpec> {
    let wrong = |reason: String| Error::Schema { table: existing.name.clone(), reason };
    let has_place = |name: &str| existing.position(name).is_some() || existing.is_virtual_date(name);
    let extra = frame.fields().iter().map(|field| field.name().as_str()).filter(|name| !has_place(name));
    let extra: Vec<&str> = extra.collect();
    if !extra.is_empty() {
        let them = extra.join(", ");
        return Err(wrong(format!("it has no place for the frame's columns {them}; add them with Table.add_column")));
    }
    let is = |name: &Option<String>, own: &str| name.as_deref().is_none_or(|name| name.eq_ignore_ascii_case(own));
    if !is(&table_options.time, &existing.time) {
        return Err(wrong(match existing.has_hidden_time() {
            true => "it has no time column".to_owned(),
            false => format!("its time column is {:?}", existing.time),
        }));
    }
    if let Some(wished) = table_options.reference.as_ref().filter(|wished| !is_wished(existing, wished)) {
        let key =
            if wished.key.is_empty() { "no key".to_owned() } else { format!("the key {}", wished.key.join(", ")) };
        return Err(wrong(format!("it isn't a reference table with {key} and such an effective date")));
    }
    if !is(&table_options.symbol, existing.symbol.as_deref().unwrap_or_default()) {
        return Err(wrong(match &existing.symbol {
            Some(symbol) => format!("its symbol column is {symbol:?}"),
            None => "it has no symbol column".to_owned(),
        }));
    }
    let starts = table_options.day_start.is_none_or(|start| start == existing.day_start);
    if !is(&table_options.time_zone, &existing.time_zone) || !starts {
        return Err(wrong(format!("its dates are in {}", existing.dates_in())));
    }
    for (name, wished) in &table_options.types {
        let own = find(&existing.columns, name).map(|place| &existing.columns[place].column_type);
        match own {
            Some(own) if own == wished => {}
            Some(own) => return Err(wrong(format!("column {name:?} is {own}, not {wished}"))),
            None => return Err(wrong(format!("types names {name:?}, which it doesn't have"))),
        }
    }
    Ok(existing.clone())
}

fn is_wished(existing: &TableSpec, wished: &Reference) -> bool {
    let same = |one: &[&String], other: &[&String]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.eq_ignore_ascii_case(other))
    };
    existing.reference.as_ref().is_some_and(|has| {
        same(&has.key.iter().collect::<Vec<_>>(), &wished.key.iter().collect::<Vec<_>>())
            && same(&has.effective.iter().collect::<Vec<_>>(), &wished.effective.iter().collect::<Vec<_>>())
    })
}

fn find(columns: &[ColumnSpec], name: &str) -> Option<usize> {
    columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
}

fn is_text(column_type: &ColumnType) -> bool {
    matches!(column_type, ColumnType::Symbol | ColumnType::Text)
}

/// A timestamp with a known name, else the first timestamp, else a date with a known name.
fn guess_time(columns: &[ColumnSpec]) -> Option<usize> {
    let named = |column_type: ColumnType| {
        TIME_NAMES
            .iter()
            .find_map(|name| find(columns, name).filter(|place| columns[*place].column_type == column_type))
    };
    named(ColumnType::Timestamp)
        .or_else(|| columns.iter().position(|column| column.column_type == ColumnType::Timestamp))
        .or_else(|| named(ColumnType::Date))
}

fn guess_symbol(columns: &[ColumnSpec]) -> Option<usize> {
    SYMBOL_NAMES.iter().find_map(|name| find(columns, name).filter(|place| is_text(&columns[*place].column_type)))
}

fn no_time(columns: &[ColumnSpec]) -> String {
    if let Some(place) = TIME_NAMES.iter().find_map(|name| find(columns, name)) {
        let ColumnSpec { name, column_type, .. } = &columns[place];
        return format!(
            "the column {name:?} is {column_type}, and a time column has to be timestamps: convert it first, as by pandas.to_datetime, or name \
             another one with time="
        );
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    format!("no column looks like a time; name one with time=, of {}", names.join(", "))
}
