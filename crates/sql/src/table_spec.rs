//! Derives a table's schema from the columns and options of `CREATE TABLE`.

use arrow::datatypes::{DataType, Schema};
use splay_store::{ColumnSpec, ColumnType, DayStart, Lifecycle, Period, Reference, TableSpec};

use crate::error::{Result, fault};
use crate::table_options::{LIFECYCLE, of_lifecycle, option};

/// Names by which a symbol column is known, where the statement names none.
const SYMBOL_NAMES: [&str; 4] = ["sym", "symbol", "ticker", "instrument"];

/// Names of columns that are the time of a table.
const TIME_NAMES: [&str; 5] = ["time", "timestamp", "ts", "ts_event", "datetime"];

/// The columns of a query's answer. A column of text that is to be the symbol becomes one.
pub(crate) fn columns_of(schema: &Schema, options: &[(String, String)]) -> Result<Vec<ColumnSpec>> {
    let symbol = option(options, "symbol");
    let is_symbol = |name: &str| match symbol {
        Some(symbol) => symbol.eq_ignore_ascii_case(name),
        None => SYMBOL_NAMES.iter().any(|known| known.eq_ignore_ascii_case(name)),
    };
    schema
        .fields()
        .iter()
        .map(|field| {
            let column_type = match ColumnType::from_arrow(field.data_type()) {
                Some(ColumnType::Text) if is_symbol(field.name()) => ColumnType::Symbol,
                Some(column_type) => column_type,
                None if *field.data_type() == DataType::Null => {
                    return fault(format!("the column {} has no type: cast it to one", field.name()));
                }
                None => {
                    return fault(format!(
                        "the column {} is {}, which no table keeps",
                        field.name(),
                        field.data_type()
                    ));
                }
            };
            Ok(ColumnSpec::new(field.name(), column_type))
        })
        .collect()
}

/// The table that a statement describes. With a key, an effective date, or no time, it is a reference table.
pub(crate) fn spec(
    table: &str,
    columns: Vec<ColumnSpec>,
    reference: Reference,
    options: &[(String, String)],
) -> Result<TableSpec> {
    let supported = [&["time", "symbol", "time_zone", "day_start", "partition"][..], &LIFECYCLE].concat();
    if let Some((name, _)) = options.iter().find(|(name, _)| !supported.contains(&name.as_str())) {
        return fault(format!("{name} is no option of a table; there are {}, key and effective", supported.join(", ")));
    }
    let has_time = match option(options, "time") {
        None => columns.iter().any(|column| column.column_type == ColumnType::Timestamp),
        Some(time) => !time.is_empty(),
    };
    if reference == Reference::default() && !has_time && option(options, "time").is_none() {
        refuse_untimed(&columns)?;
    }
    if reference != Reference::default() || !has_time {
        return reference_spec(table, columns, reference, options);
    }
    let of_type =
        |wanted: &ColumnType| columns.iter().filter(|column| column.column_type == *wanted).collect::<Vec<_>>();
    let first = of_type(&ColumnType::Timestamp).first().map(|column| column.name.clone());
    let time = option(options, "time").map(str::to_owned).or(first).unwrap_or_default();
    let symbols = of_type(&ColumnType::Symbol);
    let known = |column: &&&ColumnSpec| SYMBOL_NAMES.iter().any(|name| name.eq_ignore_ascii_case(&column.name));
    let symbol = match option(options, "symbol") {
        Some("") => None,
        Some(symbol) => Some(symbol.to_owned()),
        None if symbols.len() == 1 => Some(symbols[0].name.clone()),
        None => symbols.iter().find(known).map(|column| column.name.clone()),
    };
    let mut spec = TableSpec::new(table, columns, time, symbol.as_deref());
    if let Some(zone) = option(options, "time_zone") {
        spec = spec.with_time_zone(zone);
    }
    if let Some(period) = option(options, "partition") {
        spec = spec.with_partition(period_of(period)?);
    }
    if let Some(start) = option(options, "day_start") {
        match start.parse::<DayStart>() {
            Ok(start) => spec = spec.with_day_start(start),
            Err(reason) => return fault(reason),
        }
    }
    keep(&mut spec, options)?;
    spec.validate()?;
    Ok(spec)
}

/// Refuses a table without a key and without a timestamp if a column is named like a time: its type is a mistake more often than a reference table
/// is meant.
fn refuse_untimed(columns: &[ColumnSpec]) -> Result<()> {
    let is_time = |column: &&ColumnSpec| TIME_NAMES.iter().any(|name| name.eq_ignore_ascii_case(&column.name));
    match columns.iter().find(is_time) {
        None => Ok(()),
        Some(ColumnSpec { name, column_type, .. }) => fault(format!(
            "{name} is {column_type}, so the table would have no time and be a reference table: write {name} timestamp, or WITH (time = '') if a \
             reference table is meant"
        )),
    }
}

/// Sets how long rows stay and how they are kept.
fn keep(spec: &mut TableSpec, options: &[(String, String)]) -> Result<()> {
    let mut lifecycle = Lifecycle::default();
    of_lifecycle(options)?.into_iter().for_each(|option| option.put(&mut lifecycle));
    spec.set_lifecycle(lifecycle);
    Ok(())
}

/// A period by name. Without one, as QuestDB says, there is one partition.
pub(crate) fn period_of(name: &str) -> Result<Period> {
    if name.eq_ignore_ascii_case("none") { Ok(Period::All) } else { name.parse().or_else(fault) }
}

/// A reference table as a statement describes it.
fn reference_spec(
    table: &str,
    columns: Vec<ColumnSpec>,
    reference: Reference,
    options: &[(String, String)],
) -> Result<TableSpec> {
    if let Some((name, _)) = options.iter().find(|(name, value)| {
        let is_of_dates = ["time_zone", "day_start", "partition"].contains(&name.as_str());
        is_of_dates || name == "time" && !value.is_empty()
    }) {
        return fault(format!(
            "{table:?} is a reference table by its PRIMARY KEY or EFFECTIVE FROM, or as it has no timestamp, and so has no {name}"
        ));
    }
    let mut spec = TableSpec::of_reference(table, columns, reference);
    match option(options, "symbol") {
        Some("") => spec.symbol = None,
        Some(symbol) => spec.symbol = Some(symbol.to_owned()),
        None => {}
    }
    keep(&mut spec, options)?;
    spec.validate()?;
    Ok(spec)
}

/// Positions of columns that are named, each once.
pub(crate) fn positions(spec: &TableSpec, columns: &[String]) -> Result<Vec<usize>> {
    let mut positions = Vec::with_capacity(columns.len());
    let shown = spec.shown_columns();
    for column in columns {
        let Some(position) = spec.position(column).filter(|position| *position < shown.len()) else {
            let existing = shown.iter().map(|column| column.name.clone()).collect();
            let (table, column) = (spec.name.clone(), column.clone());
            return Err(splay_store::Error::NoSuchColumn { table, column, existing }.into());
        };
        if positions.contains(&position) {
            return fault(format!("the column {column} is named twice"));
        }
        positions.push(position);
    }
    Ok(positions)
}
