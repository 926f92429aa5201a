//! Changes a column to a type that can't hold every value of the old one, but holds all that occur: rewrites its
//! files.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{Int64Type, UInt64Type};

use crate::database::Table;
use crate::error::{Error, Result};
use crate::load;
use crate::manifest::{FileEntry, Operation};
use crate::schema::{ColumnType, TableSpec};
use crate::segment::Segment;
use crate::write::{Change, Writer};

/// Bytes of memory that rows take which are written at a time.
const MEMORY_BYTES: usize = 1 << 30;

/// What becomes of whole numbers that no float is equal to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inexact {
    Refused,
    /// They become the nearest float.
    Rounded,
}

/// Whether values of one type may be values of the other.
pub(crate) fn may_retype(from: &ColumnType, to: &ColumnType) -> bool {
    use ColumnType::{Float64, Int64, Symbol, Text, UInt64};
    matches!((from, to), (Int64 | UInt64, Float64) | (Text, Symbol))
}

impl TableSpec {
    /// Whether [`Table::widen_column`] gives a column another type, as far as that doesn't depend on its values.
    #[must_use]
    pub fn may_widen(&self, position: usize, to: &ColumnType) -> bool {
        let from = &self.columns[position].column_type;
        !self.has_role(position) && (from.widens_to(to) || may_retype(from, to))
    }
}

impl Table {
    /// Gives a column another type by one commit that writes all its dates anew, each in the tier that it has. Nothing is written if a value
    /// would change and isn't to be rounded.
    pub(crate) fn retype_column(&self, name: &str, to: &ColumnType, inexact: Inexact) -> Result<()> {
        if self.database().is_captured(self.name()) || self.database().is_captured_elsewhere() {
            let reason = format!(
                "{name:?} can't become {to} while rows are captured, as its files are written anew; stop the capture first"
            );
            return Err(self.stored()?.spec().error(reason));
        }
        self.refuse_live()?;
        let writer = Writer::begin(self.database(), self.name())?;
        let Some(state) = writer.table() else {
            return Err(Error::NoSuchTable { table: self.name().to_owned(), existing: self.database().tables()? });
        };
        let mut spec = state.spec.clone();
        let Some(position) = spec.position(name).filter(|at| may_retype(&spec.columns[*at].column_type, to)) else {
            return Err(spec.error(format!("{name:?} has another type by now")));
        };
        let mut by_date: std::collections::BTreeMap<i32, Vec<FileEntry>> = std::collections::BTreeMap::new();
        state.files.values().for_each(|entry| by_date.entry(entry.date).or_default().push(entry.clone()));
        for files in by_date.values().filter(|_| inexact == Inexact::Refused) {
            refuse_change(&writer, &spec, position, files)?;
        }
        spec.columns[position].column_type = to.clone();
        spec.validate()?;
        let mut change = Change::new(Operation::Schema);
        for (date, files) in by_date {
            let Some(tier) = files.first().map(|file| file.tier) else { continue };
            let go_on: &mut dyn FnMut(u64) -> std::ops::ControlFlow<()> = &mut |_| std::ops::ControlFlow::Continue(());
            change.add.extend(load::rewrite(&writer, &spec, date, &files, tier, MEMORY_BYTES, go_on)?);
            change.remove.extend(files.into_iter().map(|file| file.path));
        }
        change.spec = Some(spec);
        writer.commit(change).map(|_| ())
    }
}

/// Refuses whole numbers that no float is equal to.
fn refuse_change(writer: &Writer, spec: &TableSpec, position: usize, files: &[FileEntry]) -> Result<()> {
    if spec.columns[position].column_type == ColumnType::Text {
        return Ok(());
    }
    let segments: Vec<Segment> = files.iter().map(|entry| writer.segment(entry)).collect();
    let rows = load::stored_columns(spec, vec![position], &segments, load::chunk_rows(8));
    for batch in rows.into_iter().flatten() {
        if let Some(value) = without_float(batch?.column(0)) {
            let (name, column_type) = (&spec.columns[position].name, &spec.columns[position].column_type);
            let reason = format!("{name:?} is {column_type} and holds {value}, which no float64 is equal to");
            return Err(spec.error(reason));
        }
    }
    Ok(())
}

/// The first whole number that no float is equal to.
fn without_float(column: &ArrayRef) -> Option<i128> {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "what is lost is looked for")]
    let differs = |value: &i128| (*value as f64) as i128 != *value;
    if let Some(signed) = column.as_primitive_opt::<Int64Type>() {
        return signed.iter().flatten().map(i128::from).find(differs);
    }
    column.as_primitive_opt::<UInt64Type>()?.iter().flatten().map(i128::from).find(differs)
}
