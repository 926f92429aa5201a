//! `ROLLUP`, `CUBE` and `GROUPING SETS` as a union of groupings, each by the keys of its set.
//!
//! The columns are DataFusion's: the keys of all sets, null in sets without them, a number that identifies the set of
//! a row, and the aggregates. Over a table, each grouping reads only its columns, in the way that is best for its
//! keys.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan, lit};
use splay_engine::{Expr as TickExpr, Plan};

use super::convert::{UnsupportedExpr, unknown};
use super::recognise::{Recogniser, Stage, types};

/// Most sets of one statement, each of which reads the table once.
const SETS_MAX: usize = 64;

impl Recogniser<'_> {
    /// Groups of a table's rows by several sets of keys.
    pub(super) fn grouping_sets(
        &mut self,
        input: &LogicalPlan,
        sets: &GroupingSet,
        calls: &[Expr],
        output: &DFSchema,
    ) -> Result<Stage, UnsupportedExpr> {
        let keys: Vec<&Expr> = sets.distinct_expr();
        let types = types(output);
        let Some(id_type) = types.get(keys.len()).filter(|_| types.len() == keys.len() + 1 + calls.len()) else {
            return unknown("GROUPING SETS whose result has other columns than keys and aggregates");
        };
        let sets = sets_of(sets)?;
        let Stage::Table { scan, columns } = self.stage(input)? else {
            return unknown("GROUPING SETS over a query, not a table");
        };
        let mut times: HashMap<Vec<bool>, u64> = HashMap::new();
        let mut inputs = Vec::with_capacity(sets.len());
        for set in sets {
            let is_in: Vec<bool> = keys.iter().map(|key| set.contains(key)).collect();
            let ordinal = times.entry(is_in.clone()).and_modify(|times| *times += 1).or_default();
            let id = is_in.iter().fold(0, |id, is_in| id << 1 | u64::from(!is_in)) | *ordinal << keys.len();
            let stage = Stage::Table { scan: scan.clone(), columns: columns.clone() };
            inputs.push(self.grouping_set(stage, input, (&keys, &is_in), (id, id_type), calls, &types)?);
        }
        Ok(Stage::Frame(Plan::Union { inputs }))
    }

    /// Groups by some of the keys, with the columns of all.
    fn grouping_set(
        &mut self,
        stage: Stage,
        input: &LogicalPlan,
        (keys, is_in): (&[&Expr], &[bool]),
        (id, id_type): (u64, &DataType),
        calls: &[Expr],
        types: &[DataType],
    ) -> Result<Plan, UnsupportedExpr> {
        let (mut own_keys, mut own_types, mut outputs) = (Vec::new(), Vec::new(), Vec::with_capacity(types.len()));
        for ((key, is_in), data_type) in keys.iter().zip(is_in).zip(types) {
            if *is_in {
                outputs.push(TickExpr::Column(own_keys.len()));
                own_keys.push((*key).clone());
                own_types.push(data_type.clone());
            } else {
                outputs.push(self.constant(ScalarValue::try_from(data_type))?);
            }
        }
        outputs.push(self.constant(ScalarValue::from(id).cast_to(id_type))?);
        let own = own_keys.len();
        outputs.extend((own..own + calls.len()).map(TickExpr::Column));
        own_types.extend(types[keys.len() + 1..].iter().cloned());
        // A set without keys has one row, which an aggregate stands for.
        let counted = [count(lit(1i64))];
        let calls = if own_keys.is_empty() && calls.is_empty() {
            own_types.push(DataType::Int64);
            &counted
        } else {
            calls
        };
        let groups = self.groups_of(stage, input, &own_keys, calls, &own_types)?;
        Ok(Plan::Project { input: Box::new(groups.into_plan(input.schema())), outputs })
    }

    pub(super) fn constant(
        &mut self,
        value: datafusion::error::Result<ScalarValue>,
    ) -> Result<TickExpr, UnsupportedExpr> {
        let value = value.map_err(|error| UnsupportedExpr(error.to_string()))?;
        self.constants
            .fix(&value)
            .map(TickExpr::Constant)
            .ok_or_else(|| UnsupportedExpr("a null of such a type".to_owned()))
    }
}

/// The keys of each set.
fn sets_of(sets: &GroupingSet) -> Result<Vec<Vec<&Expr>>, UnsupportedExpr> {
    let number = match sets {
        GroupingSet::Rollup(keys) => keys.len() + 1,
        GroupingSet::Cube(keys) => {
            1usize.checked_shl(u32::try_from(keys.len()).unwrap_or(u32::MAX)).unwrap_or(usize::MAX)
        }
        GroupingSet::GroupingSets(sets) => sets.len(),
    };
    if number > SETS_MAX {
        return unknown(format!("{number} grouping sets, more than {SETS_MAX}"));
    }
    Ok(match sets {
        GroupingSet::Rollup(keys) => (0..=keys.len()).rev().map(|length| keys[..length].iter().collect()).collect(),
        GroupingSet::Cube(keys) => {
            let subset = |bits: usize| keys.iter().enumerate().filter(move |(key, _)| bits >> key & 1 == 1);
            (0..number).rev().map(|bits| subset(bits).map(|(_, key)| key).collect()).collect()
        }
        GroupingSet::GroupingSets(sets) => sets.iter().map(|set| set.iter().collect()).collect(),
    })
}
