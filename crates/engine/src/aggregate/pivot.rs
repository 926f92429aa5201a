//! Pivots: one aggregate for each of many values of a key, computed in one pass.
//!
//! Aggregates that differ only in the value which a key must have become one aggregate with a cell for each group and
//! value. Its last argument is the index of the row's value, so a row is added to one cell instead of being compared
//! with every value. A row whose key has none of the values belongs to no cell. At the end the cells of one value
//! form a column.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::UInt32Type;

use super::Aggregate;
use super::accumulate::{Accumulator, NO_GROUP, RowGroups, same};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::lookup::LookupTable;
use crate::rows_by_word::MISSING;

/// The key values of a pivot, with one output column each.
#[derive(Debug, Clone)]
pub struct Pivot {
    /// The place of a value among them; of equal ones the first one's.
    places: Arc<LookupTable>,
    /// Number of the constant that holds the values.
    values: usize,
    width: usize,
}

impl Pivot {
    /// By `width` values that a constant holds.
    #[must_use]
    pub fn new(values: usize, width: usize) -> Pivot {
        Pivot { places: Arc::new(LookupTable::of_first(vec![values])), values, width }
    }

    /// The place of the value that a key has; beyond all of them where it has none.
    #[must_use]
    pub fn place_of(&self, key: Expr) -> Expr {
        Expr::Lookup(Arc::clone(&self.places), Some(0), Box::new(key))
    }

    /// How many values there are.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// For each value the place at which rows with it are found. No row is found at that of null, which nothing equals.
    fn places(&self, constants: &[ArrayRef]) -> Result<Vec<usize>> {
        let values = &constants[self.values];
        if values.len() != self.width {
            return Err(Error::Unsupported(format!("{} values for {} columns", values.len(), self.width)));
        }
        let places = self.places.rows(values, constants)?.into_iter().enumerate();
        Ok(places.map(|(own, place)| if place == MISSING { own } else { place as usize }).collect())
    }
}

/// The columns of an aggregate from its results: of a pivot one for each value.
pub(super) fn columns(aggregate: &Aggregate, results: ArrayRef, constants: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let Some(pivot) = &aggregate.pivot else { return Ok(vec![results]) };
    let (width, groups) = (pivot.width, results.len() / pivot.width.max(1));
    let column = |place: usize| {
        let cells: UInt32Array = (0..groups).map(|group| cell(group, place, width)).collect();
        Ok(take(&results, &cells, None)?)
    };
    pivot.places(constants)?.into_iter().map(column).collect()
}

/// Refuses groups whose cells would take too much memory, or more numbers than there are.
pub(super) fn check_cells(aggregates: &[Aggregate], groups: usize, limit: usize) -> Result<()> {
    let widths = aggregates.iter().filter(|aggregate| aggregate.pivot.is_some()).map(Aggregate::width);
    let widest = widths.clone().max().unwrap_or(0);
    let needed = widths.sum::<usize>().saturating_mul(groups).saturating_mul(CELL_BYTES);
    let fits = u32::try_from(widest.saturating_mul(groups)).is_ok_and(|cells| cells < NO_GROUP);
    if needed > limit || !fits { Err(Error::Memory { needed, limit }) } else { Ok(()) }
}

/// Bytes that an aggregate keeps for a cell, more or less.
const CELL_BYTES: usize = 24;

fn cell(group: usize, place: usize, width: usize) -> u32 {
    u32::try_from(group * width + place).unwrap_or(NO_GROUP)
}

/// The cells of rows.
pub(super) enum RowCells {
    Rows(Vec<u32>),
    Listed(Vec<(u32, u32)>),
}

impl RowCells {
    /// The cells of rows that belong to groups, by the places of their keys' values.
    pub fn new(assigned: RowGroups<'_>, places: &ArrayRef, width: usize) -> Result<RowCells> {
        let Some(places) = places.as_primitive_opt::<UInt32Type>() else {
            return Err(Error::Unsupported(format!("places as {}", places.data_type())));
        };
        let nulls = places.nulls().filter(|nulls| nulls.null_count() > 0);
        let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        let (places, rows) = (places.values(), places.len());
        let of = |group: usize, row: usize| match places[row] as usize {
            place if place < width && is_valid(row) => cell(group, place, width),
            _ => NO_GROUP,
        };
        if let RowGroups::Listed(listed) = assigned {
            let listed = listed.iter().map(|(row, group)| (*row, of(*group as usize, *row as usize)));
            return Ok(RowCells::Listed(listed.filter(|(_, cell)| *cell != NO_GROUP).collect()));
        }
        let mut cells = vec![NO_GROUP; rows];
        assigned.each(None, |group, row| cells[row] = of(group, row));
        Ok(RowCells::Rows(cells))
    }

    pub fn assigned(&self) -> RowGroups<'_> {
        match self {
            RowCells::Rows(cells) => RowGroups::Rows(cells),
            RowCells::Listed(rows) => RowGroups::Listed(rows),
        }
    }
}

/// The state of an aggregate for each cell. The last of its arguments is the place of the key's value.
pub(super) struct PivotCells {
    cells: Box<dyn Accumulator>,
    width: usize,
    groups: usize,
}

impl PivotCells {
    pub fn new(cells: Box<dyn Accumulator>, width: usize) -> PivotCells {
        PivotCells { cells, width, groups: 0 }
    }
}

impl Accumulator for PivotCells {
    fn grow(&mut self, groups: usize) {
        self.groups = groups;
        self.cells.grow(groups * self.width);
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let Some((places, arguments)) = arguments.split_last() else {
            return Err(Error::Unsupported("a pivot without places".to_owned()));
        };
        self.cells.update(arguments, RowCells::new(assigned, places, self.width)?.assigned())
    }

    fn heap_bytes(&self) -> usize {
        self.cells.heap_bytes() + self.groups * self.width * CELL_BYTES
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let width = self.width;
        let of_group = |group: &u32| {
            let group = *group as usize;
            (0..width).map(move |place| cell(group, place, width))
        };
        let cells: Vec<u32> = groups.iter().flat_map(of_group).collect();
        self.cells.merge(same::<PivotCells>(other)?.cells, &cells)
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        self.cells.finish()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
