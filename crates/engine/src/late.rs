//! Late materialisation: columns of frames whose values stay in place until an expression reads them.
//!
//! Idea: filters, sorts, limits and windows read few columns of their rows and pass the others on. A column of a
//! mapped file is passed on as its slices with a list of row numbers, which all such columns of a frame share; a step
//! changes only the row numbers. The first read gathers the values, once, for the rows that are left by then. Columns
//! of compressed segments work likewise; their first read decodes the pages of the remaining rows.
//!
//! Invariant: computed and decoded columns are never late. Otherwise their memory would be held as long as one of
//! their rows is left.
//!
//! Cost: one word per row for the row numbers, and one gather per column that is read.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::{DataType, UInt32Type};
use splay_store::{RowList, Segment, TableSpec};

use crate::compact::{MaskedPart, filtered_rows};
use crate::dictionaries::{concat_arrays, one_dictionary};
use crate::error::Result;
use crate::filter_mask::FilterMask;
use crate::gather::interleaved_codes;

/// Average rows of a run from which on runs are taken one by one and concatenated.
const RUN_ROWS: usize = 64;

/// Approximate number of rows of a page of a stored column.
const PAGE_ROWS: usize = 4096;

/// A column of a frame.
#[derive(Debug, Clone)]
pub(crate) enum FrameColumn {
    /// Its values.
    Array(ArrayRef),
    /// Rows of a column that isn't read yet.
    Late(LateColumn),
}

/// Whether values of a type have no fixed width. The texts of a dictionary are shared by all rows, so codes have one.
pub(crate) fn is_of_any_length(data_type: &DataType) -> bool {
    let is_narrow = matches!(data_type, DataType::Boolean | DataType::Null | DataType::Dictionary(_, _));
    !is_narrow && data_type.primitive_width().is_none()
}

impl FrameColumn {
    pub fn data_type(&self) -> &DataType {
        match self {
            FrameColumn::Array(values) => values.data_type(),
            FrameColumn::Late(late) => late.parts[0].data_type(),
        }
    }

    /// The bytes of texts, lists and structures that are there already; `None` for values of a fixed width, and before they are gathered.
    pub(crate) fn bytes_of_any_length(&self) -> Option<usize> {
        match self {
            FrameColumn::Array(values) if is_of_any_length(values.data_type()) => {
                Some(values.to_data().get_slice_memory_size().unwrap_or_else(|_| values.get_array_memory_size()))
            }
            _ => None,
        }
    }

    /// The values.
    pub fn values(&self) -> Result<ArrayRef> {
        match self {
            FrameColumn::Array(values) => Ok(Arc::clone(values)),
            FrameColumn::Late(late) => late.values(),
        }
    }

    /// Whether reading the values would copy them.
    pub fn is_to_be_copied(&self) -> bool {
        match self {
            FrameColumn::Array(_) => false,
            FrameColumn::Late(late) => late.values.decoded.get().is_none() && late.one_slice().is_none(),
        }
    }

    /// The number of values that are read to gather this many rows: whole pages, if the values are stored in pages.
    pub fn values_read(&self, rows: usize) -> usize {
        match self {
            FrameColumn::Late(late) if late.parts.iter().any(|part| matches!(part, ColumnPart::Stored { .. })) => {
                rows.saturating_mul(PAGE_ROWS).min(late.rows.all_rows() as usize).max(rows)
            }
            _ => rows,
        }
    }

    /// The arrays that it holds outside of mapped files.
    pub fn memory_arrays(&self) -> Vec<ArrayRef> {
        match self {
            FrameColumn::Array(values) => vec![Arc::clone(values)],
            FrameColumn::Late(late) => {
                let numbers = late.rows.numbers.get().map(|numbers| Arc::new(numbers.clone()) as ArrayRef);
                late.values.decoded.get().cloned().into_iter().chain(numbers).collect()
            }
        }
    }
}

/// A column whose values aren't read yet.
#[derive(Debug, Clone)]
pub(crate) struct LateColumn {
    /// At least one part; they follow each other.
    parts: Arc<[ColumnPart]>,
    rows: Arc<RowChoice>,
    values: Arc<LateValues>,
}

/// Consecutive values of a column, or the place to read them from.
#[derive(Debug, Clone)]
pub(crate) enum ColumnPart {
    /// A slice of a mapped file, or of rows that are held anyway.
    Mapped(ArrayRef),
    /// Rows of a segment that decodes them when they are read.
    Stored { segment: Arc<Segment>, spec: Arc<TableSpec>, column: usize, rows: Range<usize>, data_type: DataType },
}

impl ColumnPart {
    fn data_type(&self) -> &DataType {
        match self {
            ColumnPart::Mapped(values) => values.data_type(),
            ColumnPart::Stored { data_type, .. } => data_type,
        }
    }

    /// The values of all rows.
    fn all(&self) -> Result<ArrayRef> {
        match self {
            ColumnPart::Mapped(values) => Ok(Arc::clone(values)),
            ColumnPart::Stored { segment, spec, column, rows, .. } => {
                Ok(segment.column(spec, *column)?.read(rows.clone())?)
            }
        }
    }

    /// The values of some rows.
    fn take(&self, places: &UInt32Array) -> Result<ArrayRef> {
        match self {
            ColumnPart::Mapped(values) => Ok(take(values, places, None)?),
            ColumnPart::Stored { segment, spec, column, rows, .. } => {
                let first = u32::try_from(rows.start).unwrap_or(u32::MAX);
                let rows = RowList::from(places.unary(|place| place.saturating_add(first)));
                Ok(segment.column(spec, *column)?.take(&rows)?)
            }
        }
    }

    /// The kept rows, or all rows and the mask of the kept ones.
    fn with_mask<'k>(&self, mask: Option<&'k FilterMask>) -> Result<(ArrayRef, Option<&'k FilterMask>)> {
        if let (ColumnPart::Stored { .. }, Some(rows)) = (self, mask.and_then(FilterMask::numbers)) {
            return Ok((self.take(&rows.to_vec().into())?, None));
        }
        Ok((self.all()?, mask))
    }
}

/// The values, once they were read.
#[derive(Debug, Default)]
struct LateValues {
    decoded: OnceLock<ArrayRef>,
    /// Held by the thread that reads the values.
    making: Mutex<()>,
}

impl LateColumn {
    fn new(parts: Arc<[ColumnPart]>, rows: Arc<RowChoice>) -> LateColumn {
        LateColumn { parts, rows, values: Arc::default() }
    }

    /// Rows of a part.
    pub fn of_part(part: ColumnPart, rows: &Arc<RowChoice>) -> LateColumn {
        LateColumn::new(Arc::new([part]), Arc::clone(rows))
    }

    /// The values of all rows of a single mapped part; `None` for other columns.
    fn one_slice(&self) -> Option<&ArrayRef> {
        match (&self.rows.chosen, self.parts.as_ref()) {
            (RowChoices::All, [ColumnPart::Mapped(values)]) => Some(values),
            _ => None,
        }
    }

    /// The values, if they were decoded before.
    fn decoded(&self) -> Option<&ArrayRef> {
        let is_stored = self.parts.iter().any(|part| matches!(part, ColumnPart::Stored { .. }));
        self.values.decoded.get().filter(|_| is_stored)
    }

    fn values(&self) -> Result<ArrayRef> {
        let decoded = &self.values.decoded;
        if decoded.get().is_none() {
            let _making = self.values.making.lock().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have been faster.
            if decoded.get().is_none() {
                let values = self.rows.of(&self.parts)?;
                return Ok(Arc::clone(decoded.get_or_init(|| values)));
            }
        }
        decoded.get().map_or_else(|| self.rows.of(&self.parts), |values| Ok(Arc::clone(values)))
    }
}

/// Chosen rows of parts that follow each other. Rows are numbered from the first row of the first part.
#[derive(Debug)]
pub(crate) struct RowChoice {
    /// The first row number of each part, and the end of the last part.
    starts: Vec<u32>,
    chosen: RowChoices,
    /// The numbers of the rows, where they are known.
    numbers: OnceLock<UInt32Array>,
    places: OnceLock<RowPlaces>,
}

#[derive(Debug)]
enum RowChoices {
    All,
    /// The rows of each part that its mask keeps. A part without a mask keeps all its rows.
    Masks(Vec<Option<Arc<FilterMask>>>),
    Numbers,
}

/// Rows of several parts.
#[derive(Debug)]
enum RowPlaces {
    /// Consecutive runs, each of rows of one part, counted from the beginning of the part.
    Runs(Vec<(usize, UInt32Array)>),
    /// The rows of each part, and for each row the number of its part and its place among that part's rows.
    Dealt { by_part: Vec<(usize, UInt32Array)>, indices: Vec<(usize, usize)> },
}

impl RowChoice {
    fn new(starts: Vec<u32>, chosen: RowChoices) -> RowChoice {
        RowChoice { starts, chosen, numbers: OnceLock::new(), places: OnceLock::new() }
    }

    fn of_numbers(starts: Vec<u32>, numbers: UInt32Array) -> RowChoice {
        let choice = RowChoice::new(starts, RowChoices::Numbers);
        RowChoice { numbers: OnceLock::from(numbers), ..choice }
    }

    /// All rows of one part; `None` if they exceed the range of row numbers.
    pub fn all(rows: usize) -> Option<RowChoice> {
        Some(RowChoice::new(vec![0, u32::try_from(rows).ok()?], RowChoices::All))
    }

    /// The rows of one part that a mask keeps.
    pub fn of_mask(mask: Arc<FilterMask>) -> Option<RowChoice> {
        let rows = u32::try_from(mask.mask().len()).ok()?;
        Some(RowChoice::new(vec![0, rows], RowChoices::Masks(vec![Some(mask)])))
    }

    fn all_rows(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The numbers of its rows.
    fn numbers(&self) -> &UInt32Array {
        self.numbers.get_or_init(|| match &self.chosen {
            RowChoices::Masks(masks) => {
                let mut numbers = Vec::new();
                for (mask, part) in masks.iter().zip(self.starts.windows(2)) {
                    match mask {
                        Some(mask) => numbers.extend(mask.mask().values().set_indices_u32().map(|row| part[0] + row)),
                        None => numbers.extend(part[0]..part[1]),
                    }
                }
                numbers.into()
            }
            RowChoices::All | RowChoices::Numbers => (0..self.all_rows()).collect::<Vec<u32>>().into(),
        })
    }

    /// The chosen rows that a mask over them keeps.
    fn filter(&self, mask: &Arc<FilterMask>) -> Result<RowChoice> {
        match self.chosen {
            RowChoices::All if self.starts.len() == 2 => {
                Ok(RowChoice::new(self.starts.clone(), RowChoices::Masks(vec![Some(Arc::clone(mask))])))
            }
            _ => {
                let numbers: ArrayRef = Arc::new(self.numbers().clone());
                let numbers = mask.filter(&numbers)?.as_primitive::<UInt32Type>().clone();
                Ok(RowChoice::of_numbers(self.starts.clone(), numbers))
            }
        }
    }

    /// The chosen rows at these places, in the order of the places.
    fn take_places(&self, places: &UInt32Array) -> Result<RowChoice> {
        let numbers = match self.chosen {
            RowChoices::All => places.clone(),
            _ => take(self.numbers(), places, None)?.as_primitive::<UInt32Type>().clone(),
        };
        Ok(RowChoice::of_numbers(self.starts.clone(), numbers))
    }

    fn slice(&self, start: usize, rows: usize) -> RowChoice {
        RowChoice::of_numbers(self.starts.clone(), self.numbers().slice(start, rows))
    }

    /// Concatenates choices; `None` if the rows exceed the range of row numbers.
    fn concat(choices: &[&RowChoice]) -> Option<RowChoice> {
        let mut starts = vec![0u32];
        let mut begins = Vec::with_capacity(choices.len());
        for choice in choices {
            let begin = starts.last().copied().unwrap_or(0);
            begins.push(begin);
            for start in &choice.starts[1..] {
                starts.push(begin.checked_add(*start)?);
            }
        }
        if choices.iter().all(|choice| matches!(choice.chosen, RowChoices::All)) {
            return Some(RowChoice::new(starts, RowChoices::All));
        }
        let masks = |choice: &&RowChoice| match &choice.chosen {
            RowChoices::All => Some(vec![None; choice.starts.len() - 1]),
            RowChoices::Masks(masks) => Some(masks.clone()),
            RowChoices::Numbers => None,
        };
        if let Some(masks) = choices.iter().map(masks).collect::<Option<Vec<_>>>() {
            return Some(RowChoice::new(starts, RowChoices::Masks(masks.concat())));
        }
        let numbers = choices.iter().zip(&begins);
        let numbers = numbers.flat_map(|(choice, begin)| choice.numbers().values().iter().map(move |row| row + begin));
        Some(RowChoice::of_numbers(starts, numbers.collect::<Vec<u32>>().into()))
    }

    /// The values of the rows.
    fn of(&self, parts: &[ColumnPart]) -> Result<ArrayRef> {
        match (&self.chosen, parts) {
            (RowChoices::All, [one]) => one.all(),
            (RowChoices::All, parts) => {
                concat_arrays(parts.iter().map(ColumnPart::all).collect::<Result<_>>()?, parts[0].data_type())
            }
            (RowChoices::Masks(masks), parts) => {
                let parts = parts.iter().zip(masks).map(|(part, mask)| part.with_mask(mask.as_deref()));
                let parts = parts.collect::<Result<Vec<_>>>()?;
                filtered_rows(&parts.iter().map(|(values, mask)| (values, *mask)).collect::<Vec<MaskedPart<'_>>>())
            }
            (_, [one]) => one.take(self.numbers()),
            (_, parts) => self.of_several(parts),
        }
    }

    fn of_several(&self, parts: &[ColumnPart]) -> Result<ArrayRef> {
        let take_rows = |rows: &[(usize, UInt32Array)]| {
            rows.iter().map(|(part, rows)| parts[*part].take(rows)).collect::<Result<Vec<ArrayRef>>>()
        };
        match self.places.get_or_init(|| self.find_places()) {
            RowPlaces::Runs(runs) => concat_arrays(take_rows(runs)?, parts[0].data_type()),
            RowPlaces::Dealt { by_part, indices } => {
                let arrays = one_dictionary(take_rows(by_part)?)?;
                if let Some(coded) = interleaved_codes(&arrays, indices)? {
                    return Ok(coded);
                }
                let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                Ok(interleave(&arrays, indices)?)
            }
        }
    }

    fn part_of(&self, row: u32) -> usize {
        self.starts.partition_point(|start| *start <= row).saturating_sub(1).min(self.starts.len() - 2)
    }

    fn find_places(&self) -> RowPlaces {
        let numbers = self.numbers().values();
        let runs_max = numbers.len() / RUN_ROWS + 1;
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut part = usize::MAX;
        for (place, row) in numbers.iter().enumerate() {
            if part == usize::MAX || !(self.starts[part]..self.starts[part + 1]).contains(row) {
                part = self.part_of(*row);
                runs.push((part, place));
                if runs.len() > runs_max {
                    return self.deal();
                }
            }
        }
        let ends = runs.iter().skip(1).map(|(_, place)| *place).chain([numbers.len()]);
        let runs = runs.iter().zip(ends).map(|((part, begin), end)| {
            let rows = numbers[*begin..end].iter().map(|row| row - self.starts[*part]);
            (*part, rows.collect::<Vec<u32>>().into())
        });
        RowPlaces::Runs(runs.collect())
    }

    fn deal(&self) -> RowPlaces {
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.starts.len() - 1];
        let places = self.numbers().values().iter().map(|row| {
            let part = self.part_of(*row);
            rows[part].push(row - self.starts[part]);
            (part, rows[part].len() - 1)
        });
        let mut indices: Vec<(usize, usize)> = places.collect();
        let mut by_part = Vec::new();
        let mut of_parts = vec![0; rows.len()];
        for (part, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            of_parts[part] = by_part.len();
            by_part.push((part, rows.into()));
        }
        indices.iter_mut().for_each(|(part, _)| *part = of_parts[*part]);
        RowPlaces::Dealt { by_part, indices }
    }
}

/// The new choices of a step, cached by the choice that columns share.
#[derive(Default)]
pub(crate) struct Choices {
    results: Vec<(Arc<RowChoice>, Arc<RowChoice>)>,
}

impl Choices {
    fn of(
        &mut self,
        rows: &Arc<RowChoice>,
        make: impl FnOnce(&RowChoice) -> Result<RowChoice>,
    ) -> Result<Arc<RowChoice>> {
        if let Some((_, result)) = self.results.iter().find(|(cached, _)| Arc::ptr_eq(cached, rows)) {
            return Ok(Arc::clone(result));
        }
        let result = Arc::new(make(rows)?);
        self.results.push((Arc::clone(rows), Arc::clone(&result)));
        Ok(result)
    }

    /// The rows of a column that a mask keeps.
    pub fn filter(&mut self, column: &FrameColumn, mask: &Arc<FilterMask>) -> Result<FrameColumn> {
        Ok(match column {
            FrameColumn::Array(values) => FrameColumn::Array(mask.filter(values)?),
            FrameColumn::Late(late) if late.decoded().is_some() => FrameColumn::Array(mask.filter(&late.values()?)?),
            FrameColumn::Late(late) => {
                let rows = self.of(&late.rows, |rows| rows.filter(mask))?;
                FrameColumn::Late(LateColumn::new(Arc::clone(&late.parts), rows))
            }
        })
    }

    /// The rows of a column at these positions.
    pub fn take(&mut self, column: &FrameColumn, places: &UInt32Array) -> Result<FrameColumn> {
        Ok(match column {
            FrameColumn::Array(values) => FrameColumn::Array(take(values, places, None)?),
            FrameColumn::Late(late) if late.decoded().is_some() => {
                FrameColumn::Array(take(&late.values()?, places, None)?)
            }
            FrameColumn::Late(late) => {
                let rows = self.of(&late.rows, |rows| rows.take_places(places))?;
                FrameColumn::Late(LateColumn::new(Arc::clone(&late.parts), rows))
            }
        })
    }

    /// Consecutive rows of a column.
    pub fn slice(&mut self, column: &FrameColumn, start: usize, rows: usize) -> FrameColumn {
        let late = match column {
            FrameColumn::Array(values) => return FrameColumn::Array(values.slice(start, rows)),
            FrameColumn::Late(late) => late,
        };
        if let Some(decoded) = late.values.decoded.get() {
            return FrameColumn::Array(decoded.slice(start, rows));
        }
        if let Some(slice) = late.one_slice()
            && let Some(all) = RowChoice::all(rows)
            && let Ok(all) = self.of(&late.rows, |_| Ok(all))
        {
            return FrameColumn::Late(LateColumn::of_part(ColumnPart::Mapped(slice.slice(start, rows)), &all));
        }
        // A slice of row numbers can't fail.
        match self.of(&late.rows, |choice| Ok(choice.slice(start, rows))) {
            Ok(choice) => FrameColumn::Late(LateColumn::new(Arc::clone(&late.parts), choice)),
            Err(_) => column.clone(),
        }
    }
}

/// The concatenated choices of frames that are concatenated.
#[derive(Default)]
pub(crate) struct JoinedChoices {
    results: Vec<(Vec<Arc<RowChoice>>, Arc<RowChoice>)>,
    /// By frame: all its rows, for the columns that are arrays.
    all: Vec<Option<Arc<RowChoice>>>,
}

impl JoinedChoices {
    /// Concatenates columns if that copies no values, so that they are gathered later.
    pub fn concat(&mut self, columns: &[&FrameColumn]) -> Option<FrameColumn> {
        let data_type = columns.first()?.data_type();
        if !columns.iter().any(|column| matches!(column, FrameColumn::Late(_)))
            || !columns.iter().all(|column| column.data_type() == data_type)
        {
            return None;
        }
        self.all.resize(columns.len(), None);
        let mut parts = Vec::with_capacity(columns.len());
        let mut choices = Vec::with_capacity(columns.len());
        for (column, all) in columns.iter().zip(&mut self.all) {
            match column {
                FrameColumn::Late(late) => {
                    parts.extend(late.parts.iter().cloned());
                    choices.push(Arc::clone(&late.rows));
                }
                FrameColumn::Array(values) => {
                    parts.push(ColumnPart::Mapped(Arc::clone(values)));
                    if all.is_none() {
                        *all = Some(Arc::new(RowChoice::all(values.len())?));
                    }
                    choices.push(Arc::clone(all.as_ref()?));
                }
            }
        }
        let is_it =
            |cached: &[Arc<RowChoice>]| cached.iter().zip(&choices).all(|(cached, choice)| Arc::ptr_eq(cached, choice));
        let rows = match self.results.iter().find(|(cached, _)| is_it(cached)) {
            Some((_, rows)) => Arc::clone(rows),
            None => {
                let of_all: Vec<&RowChoice> = choices.iter().map(AsRef::as_ref).collect();
                let rows = Arc::new(RowChoice::concat(&of_all)?);
                self.results.push((choices, Arc::clone(&rows)));
                rows
            }
        };
        Some(FrameColumn::Late(LateColumn::new(parts.into(), rows)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
