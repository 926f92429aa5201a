//! Computes expressions after a sort with a small limit, for the remaining rows only, if the sort doesn't read them.

use std::collections::BTreeSet;

use arrow::datatypes::DataType;
use splay_engine::{Expr as TickExpr, Plan, SortKey};
use splay_store::TableSpec;

use super::recognise::Recogniser;

impl Recogniser<'_> {
    /// Rewrites a plan that sorts computed columns and takes few rows: columns that aren't sort keys are computed after the sort.
    pub(super) fn with_late_values(&self, plan: Plan) -> Plan {
        match plan {
            Plan::Project { input, outputs } => {
                Plan::Project { input: Box::new(self.with_late_values(*input)), outputs }
            }
            Plan::Sort { input, keys, fetch: fetch @ Some(_) } => match *input {
                Plan::Rows { scan, outputs, types, fetch: None } => {
                    let Some(split) = Split::of(&outputs, &keys) else {
                        let input = Box::new(Plan::Rows { scan, outputs, types, fetch: None });
                        return Plan::Sort { input, keys, fetch };
                    };
                    let spec = self.spec(&scan);
                    let of_others = split.below[split.same.len()..].iter().map(|column| type_of_column(column, &spec));
                    let types = split.same.iter().map(|place| types[*place].clone()).chain(of_others).collect();
                    split.around(|below| Plan::Rows { scan, outputs: below, types, fetch: None }, fetch)
                }
                Plan::Project { input, outputs } => match Split::of(&outputs, &keys) {
                    Some(split) => split.around(|outputs| Plan::Project { input, outputs }, fetch),
                    None => Plan::Sort { input: Box::new(Plan::Project { input, outputs }), keys, fetch },
                },
                other => Plan::Sort { input: Box::new(other), keys, fetch },
            },
            other => other,
        }
    }
}

fn type_of_column(column: &TickExpr, spec: &TableSpec) -> DataType {
    match column {
        TickExpr::Column(place) => {
            spec.columns.get(*place).map_or(DataType::Date32, |column| column.column_type.arrow())
        }
        _ => DataType::Null,
    }
}

/// Columns below and above a sort.
struct Split {
    /// Expressions that stay below the sort, followed by the columns from which those above it are computed.
    below: Vec<TickExpr>,
    /// The positions of the outputs that the first columns below hold.
    same: Vec<usize>,
    above: Vec<TickExpr>,
    keys: Vec<SortKey>,
}

impl Split {
    /// `None` if every computed column is a sort key.
    fn of(outputs: &[TickExpr], keys: &[SortKey]) -> Option<Split> {
        let mut read = BTreeSet::new();
        keys.iter().for_each(|key| key.expr.visit_columns(&mut |column| _ = read.insert(column)));
        let is_late = |(place, output): (usize, &TickExpr)| {
            !matches!(output, TickExpr::Column(_) | TickExpr::Constant(_)) && !read.contains(&place)
        };
        if !outputs.iter().enumerate().any(is_late) {
            return None;
        }
        let (late, same): (Vec<usize>, Vec<usize>) =
            (0..outputs.len()).partition(|place| is_late((*place, &outputs[*place])));
        let mut below: Vec<TickExpr> = same.iter().map(|place| outputs[*place].clone()).collect();
        let mut places = vec![TickExpr::Column(0); outputs.len()];
        same.iter().enumerate().for_each(|(new, place)| places[*place] = TickExpr::Column(new));
        late.into_iter().for_each(|place| places[place] = over_columns_of(&outputs[place], &mut below));
        let keys = keys.iter().map(|key| SortKey { expr: key.expr.substitute(&places), ..*key }).collect();
        Some(Split { below, same, above: places, keys })
    }

    fn around(self, rows: impl FnOnce(Vec<TickExpr>) -> Plan, fetch: Option<usize>) -> Plan {
        let sort = Plan::Sort { input: Box::new(rows(self.below)), keys: self.keys, fetch };
        Plan::Project { input: Box::new(sort), outputs: self.above }
    }
}

/// Rewrites an expression to the positions of its columns among others, and adds missing ones.
fn over_columns_of(expr: &TickExpr, columns: &mut Vec<TickExpr>) -> TickExpr {
    let mut read = BTreeSet::new();
    expr.visit_columns(&mut |column| _ = read.insert(column));
    let mut places = vec![TickExpr::Column(0); read.last().map_or(0, |last| last + 1)];
    for column in read {
        let is_it = |computed: &TickExpr| matches!(computed, TickExpr::Column(computed) if *computed == column);
        let place = columns.iter().position(is_it).unwrap_or_else(|| {
            columns.push(TickExpr::Column(column));
            columns.len() - 1
        });
        places[column] = TickExpr::Column(place);
    }
    expr.substitute(&places)
}
