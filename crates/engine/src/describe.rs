//! Tick plans as text, one line per step, last step first; for a plan that ran, with the cost of each step.

use std::fmt::{Display, Formatter, Result};

use arrow::datatypes::DataType;

use crate::aggregate::{Aggregate, Key};
use crate::plan::Plan;
use crate::scan::{Bound, Scan};
use crate::steps::StepCosts;

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write_steps(f, self, None, 0)
    }
}

/// A plan that ran, as text.
struct PlanWithCosts<'a> {
    plan: &'a Plan,
    costs: &'a StepCosts,
}

impl Plan {
    /// The plan as text. Each step has the number of its rows, its own time and the memory of its rows.
    pub fn with_costs<'a>(&'a self, costs: &'a StepCosts) -> impl Display + 'a {
        PlanWithCosts { plan: self, costs }
    }
}

impl Display for PlanWithCosts<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write_steps(f, self.plan, Some(self.costs), 0)
    }
}

fn write_steps(f: &mut Formatter<'_>, plan: &Plan, costs: Option<&StepCosts>, depth: usize) -> Result {
    write!(f, "{:1$}", "", 2 * depth)?;
    write_step(f, plan)?;
    if let Some(costs) = costs {
        write_cost(f, plan, costs)?;
    }
    for input in plan.inputs() {
        writeln!(f)?;
        write_steps(f, input, costs, depth + 1)?;
    }
    Ok(())
}

fn write_cost(f: &mut Formatter<'_>, plan: &Plan, costs: &StepCosts) -> Result {
    let (Some(cost), Some(own)) = (costs.of(plan), costs.own(plan)) else {
        return write!(f, " [within the step above]");
    };
    write!(f, " [rows={}, time={own:?}", cost.rows)?;
    if let Some(bytes) = cost.memory_bytes {
        write!(f, ", memory={bytes} bytes")?;
    }
    write!(f, "]")
}

fn write_step(f: &mut Formatter<'_>, plan: &Plan) -> Result {
    match plan {
        Plan::Rows { scan, types, fetch, .. } => {
            // Unused columns were replaced by nulls.
            let columns = types.iter().filter(|data_type| **data_type != DataType::Null).count();
            write!(f, "Rows: {columns} columns")?;
            if let Some(fetch) = fetch {
                write!(f, ", the first {fetch}")?;
            }
            write_scan(f, scan)
        }
        Plan::AggregateTable { scan, keys, aggregates, .. } => {
            write!(f, "AggregateTable: by [")?;
            for (position, key) in keys.iter().enumerate() {
                let comma = if position > 0 { ", " } else { "" };
                match key {
                    Key::Symbol => write!(f, "{comma}symbol")?,
                    Key::Date => write!(f, "{comma}date")?,
                    Key::Bucket(_) => write!(f, "{comma}time bucket")?,
                    Key::Value(_) => write!(f, "{comma}value")?,
                }
            }
            write!(f, "]")?;
            write_aggregates(f, aggregates)?;
            write_scan(f, scan)
        }
        Plan::Aggregate { keys, aggregates, .. } => {
            write!(f, "Aggregate: by {} values", keys.len())?;
            write_aggregates(f, aggregates)
        }
        Plan::Files(scan) => write!(f, "Files: {} columns", scan.columns.iter().flatten().count()),
        Plan::Values { columns, .. } => write!(f, "Values: {} columns", columns.len()),
        Plan::Cross { columns, .. } => {
            write!(f, "Cross: a list of {} rows", columns.first().map_or(0, |column| column.len()))
        }
        Plan::Asof { asof, .. } => {
            let result_rows = if asof.inner { "matches alone" } else { "every row" };
            let rule = &asof.rule;
            let op = if rule.inclusive { "inclusive" } else { "strict" };
            let keys = asof.keys.len() + usize::from(asof.symbol.is_some());
            match asof.all_of_time {
                true => write!(f, "JoinByTime: {result_rows}, all rows of the same time, by {keys} more keys")?,
                false => write!(f, "AsofJoin: {result_rows}, {:?} {op}, by {keys} keys", rule.direction)?,
            }
            write_scan(f, &asof.scan)
        }
        Plan::WindowJoin { join, .. } => {
            let prevailing = if join.rule.prevailing { "with" } else { "without" };
            let keys = join.keys.len() + usize::from(join.symbol.is_some());
            write!(f, "WindowJoin: {prevailing} the prevailing row, by {keys} keys")?;
            write_aggregates(f, &join.aggregates)?;
            write_scan(f, &join.scan)
        }
        Plan::Join { join, .. } => {
            let result_rows = if join.inner { "matches alone" } else { "every row" };
            let condition = if join.condition.is_some() { " and a condition" } else { "" };
            write!(f, "Join: {result_rows}, by {} keys{condition}", join.keys.len())
        }
        Plan::Window { calls, .. } => {
            write!(f, "Window: {} functions", calls.len())?;
            if calls.iter().any(|call| call.first.is_some()) {
                write!(f, ", the first rows of each partition")?;
            }
            Ok(())
        }
        Plan::Union { .. } => write!(f, "Union"),
        Plan::Unnest { columns, .. } => write!(f, "Unnest: {} columns", columns.len()),
        Plan::Filter { .. } => write!(f, "Filter"),
        Plan::Project { outputs, .. } => write!(f, "Project: {} columns", outputs.len()),
        Plan::Sort { keys, fetch, .. } => {
            write!(f, "Sort: by {} values", keys.len())?;
            if let Some(fetch) = fetch {
                write!(f, ", the first {fetch}")?;
            }
            Ok(())
        }
        Plan::Limit { skip, fetch, .. } => {
            write!(f, "Limit: skip {skip}")?;
            if let Some(fetch) = fetch {
                write!(f, ", fetch {fetch}")?;
            }
            Ok(())
        }
    }
}

fn write_aggregates(f: &mut Formatter<'_>, aggregates: &[Aggregate]) -> Result {
    let name = |aggregate: &Aggregate| match &aggregate.pivot {
        None => format!("{:?}", aggregate.function),
        Some(pivot) => format!("{:?} for each of {} values", aggregate.function, pivot.width()),
    };
    let names: Vec<String> = aggregates.iter().map(name).collect();
    write!(f, ", [{}]", names.join(", "))
}

fn write_scan(f: &mut Formatter<'_>, scan: &Scan) -> Result {
    let names: Vec<&str> = scan
        .bounds
        .iter()
        .map(|bound| match bound {
            Bound::Symbol(_) => "symbol",
            Bound::SymbolCondition(_) => "symbols that pass",
            Bound::Time(_, _) => "time",
            Bound::Bucket(..) => "time",
            Bound::Date(_, _) | Bound::DateOfTime(..) => "date",
        })
        .collect();
    write!(f, ", bounds=[{}]", names.join(", "))?;
    write!(f, ", filter={}", if scan.predicate.is_some() { "evaluated" } else { "none" })
}
