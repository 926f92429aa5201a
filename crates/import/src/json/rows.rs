//! Fields of JSON objects into the columns of a row, in any order.

use super::scan;
use crate::csv::columns::{date, shown};
use crate::csv::parse::{BlockBuilder, FieldAction, RowFault};

impl BlockBuilder<'_> {
    /// Begins a row.
    pub(crate) fn begin(&mut self) {
        self.present.fill(false);
        self.day = self.layout.day;
    }

    /// Notes that a field came.
    fn gives(&mut self, place: usize) -> Result<(), RowFault> {
        if std::mem::replace(&mut self.present[place], true) {
            return Err((Some(place), "the field comes twice".to_owned()));
        }
        Ok(())
    }

    /// A null counts as a missing field.
    pub(crate) fn null(&mut self, place: usize) -> Result<(), RowFault> {
        self.gives(place)
    }

    pub(crate) fn text(&mut self, place: usize, text: &[u8]) -> Result<(), RowFault> {
        self.put(place, text, true)
    }

    pub(crate) fn word(&mut self, place: usize, word: &[u8]) -> Result<(), RowFault> {
        self.put(place, word, false)
    }

    fn put(&mut self, place: usize, text: &[u8], is_text: bool) -> Result<(), RowFault> {
        self.gives(place)?;
        let layout = self.layout;
        match &layout.actions[place] {
            FieldAction::Skip => Ok(()),
            FieldAction::Column(column) => {
                // An empty text is one, where texts are kept; elsewhere texts may stand for null.
                let quoted = is_text && self.columns[*column].is_text();
                self.push(place, *column, text, quoted, self.day)
            }
            FieldAction::Level { column, level } => {
                let row = self.rows;
                self.columns[*column].push_level(row, *level, text, false).map_err(|reason| (Some(place), reason))
            }
            FieldAction::Date { patterns, column } => {
                let day = date(text.trim_ascii(), patterns);
                self.day = Some(day.ok_or_else(|| (Some(place), format!("{} is not a date", shown(text))))?);
                match column {
                    Some(column) => self.push(place, *column, text, false, self.day),
                    None => Ok(()),
                }
            }
        }
    }

    pub(crate) fn nested(&mut self, place: usize, nested: &[u8]) -> Result<(), RowFault> {
        let wrong = |reason: String| (Some(place), reason);
        let layout = self.layout;
        match &layout.actions[place] {
            FieldAction::Skip => self.gives(place),
            FieldAction::Column(column) if self.columns[*column].is_text() => self.put(place, nested, true),
            FieldAction::Column(column) if self.columns[*column].is_levels() => {
                self.gives(place)?;
                let items = scan::numbers(nested)
                    .ok_or_else(|| wrong(format!("{} is not a list of numbers", shown(nested))))?;
                self.columns[*column].push_levels(&items).map_err(wrong)
            }
            FieldAction::Column(column) => {
                let plan = self.columns[*column].plan;
                let (found, expected) = (shown(nested), &plan.column_type);
                Err(wrong(format!("{found} is not a {expected}; --type {}=text would take it", plan.name)))
            }
            FieldAction::Level { .. } | FieldAction::Date { .. } => {
                Err(wrong(format!("{} is not a single value", shown(nested))))
            }
        }
    }

    /// Ends the row: columns that got nothing are null.
    pub(crate) fn end(&mut self) -> Result<(), RowFault> {
        for (place, action) in self.layout.actions.iter().enumerate() {
            let column = match action {
                FieldAction::Column(column)
                | FieldAction::Level { column, .. }
                | FieldAction::Date { column: Some(column), .. } => *column,
                FieldAction::Skip | FieldAction::Date { column: None, .. } => continue,
            };
            if self.columns[column].len() > self.rows || self.waiting.iter().any(|(waiting, _, _)| *waiting == place) {
                continue;
            }
            if self.columns[column].plan.required {
                return Err((Some(place), "the time is missing".to_owned()));
            }
            self.columns[column].push_null();
        }
        self.complete(self.day)
    }
}
