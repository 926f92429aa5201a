//! A statement's answers with tick plans and without, compared.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use splay_sql::{Parameters, Session, SessionSettings};
use splay_store::Database;

/// Rows as cells, in an order of their own.
pub(crate) fn cells(batches: &[RecordBatch]) -> Vec<Vec<Cell>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let formatters: Vec<ArrayFormatter<'_>> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cell = |(column, formatter): (&ArrayRef, &ArrayFormatter<'_>)| match column.data_type() {
                DataType::Float64 if column.is_valid(row) => {
                    Cell::Float(column.as_primitive::<Float64Type>().value(row))
                }
                _ => Cell::Text(formatter.value(row).to_string()),
            };
            rows.push(batch.columns().iter().zip(&formatters).map(cell).collect::<Vec<_>>());
        }
    }
    let text = |row: &Vec<Cell>| {
        let texts = row.iter().filter_map(|cell| if let Cell::Text(text) = cell { Some(text.clone()) } else { None });
        let floats =
            row.iter().filter_map(|cell| if let Cell::Float(f) = cell { Some(format!("{f:.5e}")) } else { None });
        texts.chain(floats).collect::<Vec<_>>()
    };
    rows.sort_by_cached_key(text);
    rows
}

#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Text(String),
    Float(f64),
}

impl Cell {
    /// Equal, floats but for the last digits of sums taken in another order.
    pub(crate) fn matches(&self, other: &Cell) -> bool {
        match (self, other) {
            (Cell::Text(one), Cell::Text(other)) => one == other,
            (Cell::Float(one), Cell::Float(other)) => {
                (one.is_nan() && other.is_nan())
                    || one == other
                    || (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
                    // Differences of nearly equal sums.
                    || (one - other).abs() <= 1e-9
            }
            _ => false,
        }
    }
}

pub(crate) struct Both {
    pub(crate) tick: Session,
    pub(crate) other: Session,
}

impl Both {
    /// Runs a statement both ways; whether a tick plan ran it to its end.
    pub(crate) fn compare(&self, text: &str) -> Result<bool, String> {
        let answers = (self.tick.sql(text, Parameters::None), self.other.sql(text, Parameters::None));
        let (mut answer, mut reference) = match answers {
            (Ok(answer), Ok(reference)) => (answer, reference),
            // A statement that can't be planned is refused in the same words.
            (Err(error), Err(other)) if error.to_string() == other.to_string() => return Ok(false),
            (Err(error), _) | (_, Err(error)) => return Err(format!("{text}: {error}")),
        };
        let ours = answer.batches();
        let is_tick = answer.is_tick_plan() && answer.refusal().is_none();
        let (ours, theirs) = match (ours, reference.batches()) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            // What can't be computed is refused in the same words.
            (Err(error), Err(other)) if error.to_string() == other.to_string() => return Ok(false),
            (Err(error), _) | (_, Err(error)) => return Err(format!("{text}: {error}")),
        };
        let types = |answer: &splay_sql::Answer| {
            let schema = answer.schema();
            let fields = schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone()));
            fields.collect::<Vec<_>>()
        };
        if types(&answer) != types(&reference) {
            return Err(format!("{text}\ncolumns {:?}\nand     {:?}", types(&answer), types(&reference)));
        }
        let (ours, theirs) = (cells(&ours), cells(&theirs));
        if ours.len() != theirs.len() {
            return Err(format!("{text}\n{} rows and {}", ours.len(), theirs.len()));
        }
        for (one, other) in ours.iter().zip(&theirs) {
            if !one.iter().zip(other).all(|(one, other)| one.matches(other)) {
                return Err(format!("{text}\n{one:?}\n{other:?}"));
            }
        }
        Ok(is_tick)
    }

    /// The rows that a statement's tick plan reads.
    pub(crate) fn rows_read(&self, text: &str) -> u64 {
        let mut answer = self.tick.sql(text, Parameters::None).unwrap();
        answer.batches().unwrap();
        answer.stats().rows_scanned
    }

    /// Why a statement has no tick plan.
    pub(crate) fn reason(&self, text: &str) -> Option<String> {
        self.explained(text, "tick_plan")
    }

    /// The physical plan of a statement that has no tick plan as a whole.
    pub(crate) fn plan(&self, text: &str) -> Option<String> {
        self.explained(text, "physical_plan")
    }

    fn explained(&self, text: &str, plan: &str) -> Option<String> {
        let mut answer = self.tick.sql(&format!("explain {text}"), Parameters::None).ok()?;
        let rows = cells(&answer.batches().ok()?);
        rows.into_iter().find_map(|row| match row.as_slice() {
            [Cell::Text(kind), Cell::Text(text)] if kind == plan => Some(text.clone()),
            _ => None,
        })
    }
}

pub(crate) fn both(database: &Database, threads: usize) -> Both {
    let settings = SessionSettings { threads, ..SessionSettings::default() };
    let tick = Session::new(database.clone(), settings).unwrap();
    Both { tick, other: without_ticks(database, threads) }
}

pub(crate) fn without_ticks(database: &Database, threads: usize) -> Session {
    let settings = SessionSettings { threads, tick_plans: false, ..SessionSettings::default() };
    Session::new(database.clone(), settings).unwrap()
}
