//! Scans: which rows of a table or of files a plan reads, and where the table's order has them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Date32Type, TimestampNanosecondType};
use splay_store::{Bounds, DayStart, TableSnapshot, Tz, start_of_date};

use crate::aggregate::Buckets;
use crate::binary_op::BinaryOp;
use crate::error::{Error, Result};
use crate::execution_context::ExecutionContext;
use crate::expr::Expr;
use crate::lookup::{FEW_KEYS_MAX, is_text};
use crate::table::{Cover, RowSelection, SymbolCondition, count, find, narrow};
use crate::value::texts_of;

/// The columns of files to read.
#[derive(Debug, Clone)]
pub struct FileScan {
    /// Position among the files that the plan runs over.
    pub files: usize,
    /// Their columns, by position; `None` for one that no step reads.
    pub columns: Vec<Option<usize>>,
    /// Types of the columns.
    pub types: Vec<DataType>,
}

/// The rows of a table to read.
#[derive(Debug, Clone)]
pub struct Scan {
    /// Position among the tables that the plan runs over.
    pub table: usize,
    /// Conditions that the order of the table answers; all must hold.
    pub bounds: Vec<Bound>,
    /// The condition that is evaluated on each row.
    pub predicate: Option<Expr>,
}

/// A condition that the order of the table answers. The numbers are those of constants; a null constant matches no row.
#[derive(Debug, Clone)]
pub enum Bound {
    /// The symbol is one of these texts, of which a constant may hold several.
    Symbol(Vec<usize>),
    /// A condition that reads only the symbol.
    SymbolCondition(Expr),
    /// The time compared with a timestamp.
    Time(BinaryOp, usize),
    /// The date compared with a date.
    Date(BinaryOp, usize),
    /// The date of the time in a zone, with the start of its days, compared with a date.
    DateOfTime(BinaryOp, usize, Tz, DayStart),
    /// The bucket of the time compared with a timestamp.
    Bucket(BinaryOp, usize, Arc<dyn Buckets>),
}

impl Scan {
    /// Evaluates conditions on the symbol row by row. For the right side of a join this is cheaper, because it looks up
    /// only the symbols of its left side.
    pub fn evaluate_symbol_conditions(&mut self) {
        for bound in std::mem::take(&mut self.bounds) {
            match bound {
                Bound::SymbolCondition(condition) => {
                    self.predicate = Some(match self.predicate.take() {
                        Some(former) => Expr::Binary(BinaryOp::And, Box::new(former), Box::new(condition)),
                        None => condition,
                    });
                }
                other => self.bounds.push(other),
            }
        }
    }

    /// The selected rows, with the values of the constants; `None` if no row can match.
    pub(crate) fn selection(&self, constants: &[ArrayRef]) -> Result<Option<RowSelection>> {
        let mut selection = RowSelection::default();
        let mut conditions = Vec::new();
        for bound in &self.bounds {
            match bound {
                Bound::Symbol(numbers) => {
                    let mut symbols = Vec::with_capacity(numbers.len());
                    for number in numbers {
                        symbols.extend(texts_of(&constants[*number])?);
                    }
                    keep_only(&mut selection.symbols, symbols);
                }
                Bound::SymbolCondition(condition) => match few_texts(condition, constants)? {
                    Some(symbols) => keep_only(&mut selection.symbols, symbols),
                    None => conditions.push(condition.clone()),
                },
                Bound::Time(op, number) => {
                    let Some(value) = instant_of(&constants[*number])? else { return Ok(None) };
                    let full = Bounds::<i64>::default();
                    let Some(bounds) = bounds(*op, value, full, value.checked_sub(1), value.checked_add(1)) else {
                        return Ok(None);
                    };
                    selection.times.intersect(bounds);
                }
                Bound::Bucket(op, number, buckets) => {
                    let Some(value) = instant_of(&constants[*number])? else { return Ok(None) };
                    let Some(bounds) = times_of_buckets(*op, value, buckets.as_ref())? else { return Ok(None) };
                    selection.times.intersect(bounds);
                }
                Bound::DateOfTime(op, number, zone, start) => {
                    let Some(value) = date_of(&constants[*number])? else { return Ok(None) };
                    selection.times.intersect(times_of_dates(*op, value, (*zone, *start))?);
                }
                Bound::Date(op, number) => {
                    let Some(value) = date_of(&constants[*number])? else { return Ok(None) };
                    let full = Bounds::<i32>::default();
                    let Some(bounds) = bounds(*op, value, full, value.checked_sub(1), value.checked_add(1)) else {
                        return Ok(None);
                    };
                    selection.dates.intersect(bounds);
                }
            }
        }
        if !conditions.is_empty() {
            let condition = SymbolCondition::new(conditions, constants);
            match &mut selection.symbols {
                Some(symbols) => condition.retain(symbols)?,
                None => selection.condition = Some(condition),
            }
        }
        let nothing = selection.times.is_empty()
            || selection.dates.is_empty()
            || selection.symbols.as_ref().is_some_and(Vec::is_empty);
        Ok((!nothing).then_some(selection))
    }
}

/// The symbols for which a condition holds, if it limits them to a few.
fn few_texts(condition: &Expr, constants: &[ArrayRef]) -> Result<Option<Vec<String>>> {
    let (value, texts) = match condition {
        Expr::In(value, list) => (value, Some(list.values(constants))),
        Expr::Lookup(table, None, value) => (value, table.keys(constants)),
        _ => return Ok(None),
    };
    let are_few = |texts: &&ArrayRef| texts.len() <= FEW_KEYS_MAX && is_text(texts.data_type());
    match texts.filter(are_few).filter(|_| matches!(**value, Expr::Column(_))) {
        Some(texts) => texts_of(texts).map(Some),
        None => Ok(None),
    }
}

/// Restricts the selected symbols to some.
fn keep_only(selection: &mut Option<Vec<String>>, mut symbols: Vec<String>) {
    symbols.sort_unstable();
    symbols.dedup();
    match selection {
        Some(selected) => selected.retain(|symbol| symbols.binary_search(symbol).is_ok()),
        None => *selection = Some(symbols),
    }
}

/// The instant of a constant; `None` if it is null.
fn instant_of(constant: &ArrayRef) -> Result<Option<i64>> {
    let value = constant.as_primitive_opt::<TimestampNanosecondType>();
    let value = value.ok_or_else(|| Error::Unsupported("a time of another type".to_owned()))?;
    Ok(value.is_valid(0).then(|| value.value(0)))
}

/// The instants whose bucket compares so with an instant; `None` if there are none. The beginnings of buckets are in the order of their instants.
fn times_of_buckets(op: BinaryOp, instant: i64, buckets: &dyn Buckets) -> Result<Option<Bounds<i64>>> {
    let unknown = || Error::Unsupported("an instant without a bucket".to_owned());
    // The end of the last bucket isn't known.
    let (start, end) = buckets.bucket(instant).filter(|(_, end)| *end < i64::MAX).ok_or_else(unknown)?;
    // The first whose bucket doesn't begin before the instant.
    let first = if start == instant { start } else { end };
    let full = Bounds::<i64>::default();
    Ok(Some(match op {
        BinaryOp::Equal if start == instant => Bounds { min: start, max: end - 1 },
        BinaryOp::Equal => return Ok(None),
        BinaryOp::LessOrEqual => Bounds { max: end - 1, ..full },
        BinaryOp::GreaterOrEqual => Bounds { min: first, ..full },
        BinaryOp::Less => match first.checked_sub(1) {
            Some(max) => Bounds { max, ..full },
            None => return Ok(None),
        },
        BinaryOp::Greater => Bounds { min: end, ..full },
        _ => return Err(unknown()),
    }))
}

/// The date of a constant; `None` if it is null.
fn date_of(constant: &ArrayRef) -> Result<Option<i32>> {
    let value = constant.as_primitive_opt::<Date32Type>();
    let value = value.ok_or_else(|| Error::Unsupported("a date of another type".to_owned()))?;
    Ok(value.is_valid(0).then(|| value.value(0)))
}

/// The instants whose date compares so with one.
fn times_of_dates(op: BinaryOp, date: i32, (zone, day_start): (Tz, DayStart)) -> Result<Bounds<i64>> {
    let unknown = || Error::Unsupported("a date that doesn't begin with one instant".to_owned());
    let start = |date: i32| start_of_date(zone, day_start, date).ok_or_else(unknown);
    let after = || start(date.checked_add(1).ok_or_else(unknown)?);
    let full = Bounds::<i64>::default();
    Ok(match op {
        BinaryOp::Equal => Bounds { min: start(date)?, max: after()? - 1 },
        BinaryOp::LessOrEqual => Bounds { max: after()? - 1, ..full },
        BinaryOp::GreaterOrEqual => Bounds { min: start(date)?, ..full },
        BinaryOp::Less => Bounds { max: start(date)? - 1, ..full },
        BinaryOp::Greater => Bounds { min: after()?, ..full },
        _ => return Err(unknown()),
    })
}

/// Inclusive bounds of a comparison with `value`, whose neighbours are `below` and `above`; `None` if no value passes.
fn bounds<T: Copy>(op: BinaryOp, value: T, full: Bounds<T>, below: Option<T>, above: Option<T>) -> Option<Bounds<T>> {
    Some(match op {
        BinaryOp::Equal => Bounds { min: value, max: value },
        BinaryOp::LessOrEqual => Bounds { max: value, ..full },
        BinaryOp::GreaterOrEqual => Bounds { min: value, ..full },
        BinaryOp::Less => Bounds { max: below?, ..full },
        BinaryOp::Greater => Bounds { min: above?, ..full },
        _ => return None,
    })
}

/// The table that a scan reads.
pub(crate) fn table<'a>(scan: &Scan, context: &ExecutionContext<'a>) -> Result<&'a TableSnapshot> {
    context.tables.get(scan.table).ok_or_else(|| Error::Unsupported("a table that isn't there".to_owned()))
}

/// The selected rows of a table, counted.
pub(crate) fn covers(scan: &Scan, by_symbol: bool, context: &ExecutionContext<'_>) -> Result<Vec<Cover>> {
    find_covers(scan, context, |snapshot, selection| find(snapshot, selection, by_symbol, context.threads))
}

/// Covers without the blocks whose summaries rule a scan's filter out.
pub(crate) fn narrowed(
    scan: &Scan,
    snapshot: &TableSnapshot,
    covers: Vec<Cover>,
    context: &ExecutionContext<'_>,
) -> Result<Vec<Cover>> {
    match &scan.predicate {
        Some(predicate) => narrow(snapshot, covers, predicate, context.constants),
        None => Ok(covers),
    }
}

pub(crate) fn find_covers(
    scan: &Scan,
    context: &ExecutionContext<'_>,
    find: impl FnOnce(&TableSnapshot, &RowSelection) -> Result<Vec<Cover>>,
) -> Result<Vec<Cover>> {
    let snapshot = table(scan, context)?;
    let covers = match scan.selection(context.constants)? {
        Some(selection) => find(snapshot, &selection)?,
        None => Vec::new(),
    };
    let covers = narrowed(scan, snapshot, covers, context)?;
    let stats = count(snapshot, &covers)?;
    context.stop.expect_rows(stats.rows.selected);
    context.reads.add_scan(stats);
    Ok(covers)
}
