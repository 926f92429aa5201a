//! `unnest` of lists, alone or several side by side.

use datafusion::common::{NullHandling, UnnestOptions};
use datafusion::logical_expr::logical_plan::Unnest;
use splay_engine::Plan;

use super::convert::{UnsupportedExpr, unknown};
use super::recognise::{Recogniser, Stage, types};

impl Recogniser<'_> {
    /// Replaces lists by rows of their items.
    pub(super) fn unnest(&mut self, unnest: &Unnest) -> Result<Stage, UnsupportedExpr> {
        let input_types = types(unnest.input.schema());
        let in_place = unnest.dependency_indices.iter().copied().eq(0..input_types.len());
        let UnnestOptions { null_handling, recursions } = &unnest.options;
        let is_plain = *null_handling == NullHandling::Drop
            && recursions.iter().all(|of_column| of_column.depth == 1)
            && unnest.struct_type_columns.is_empty();
        if !is_plain || !in_place || unnest.list_type_columns.iter().any(|(_, list)| list.depth != 1) {
            return unknown("unnest of structs, of lists in lists, or with a row for a null list");
        }
        let columns: Vec<usize> = unnest.list_type_columns.iter().map(|(column, _)| *column).collect();
        let outputs = types(&unnest.schema);
        let are_items =
            columns.iter().all(|column| splay_engine::item(&input_types[*column]) == Some(&outputs[*column]));
        if columns.is_empty() || !are_items {
            return unknown("unnest of a value that isn't a list");
        }
        let input = Box::new(self.stage(&unnest.input)?.into_plan(unnest.input.schema()));
        Ok(Stage::Frame(Plan::Unnest { input, columns }))
    }
}
