//! Tick plans in words, one line for each step, the last step first.

use std::fmt::{Display, Formatter, Result};

use arrow::datatypes::DataType;

use crate::aggregate::{Aggregate, Key};
use crate::plan::{Bound, Plan, Scan};

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write_step(f, self, 0)
    }
}

fn write_step(f: &mut Formatter<'_>, plan: &Plan, depth: usize) -> Result {
    write!(f, "{:1$}", "", 2 * depth)?;
    let input = match plan {
        Plan::Rows { scan, types, fetch, .. } => {
            // What nobody looks at was replaced by nulls.
            let columns = types.iter().filter(|data_type| **data_type != DataType::Null).count();
            write!(f, "Rows: {columns} columns")?;
            if let Some(fetch) = fetch {
                write!(f, ", the first {fetch}")?;
            }
            write_scan(f, scan)?;
            None
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
            write_scan(f, scan)?;
            None
        }
        Plan::Aggregate { input, keys, aggregates, .. } => {
            write!(f, "Aggregate: by {} values", keys.len())?;
            write_aggregates(f, aggregates)?;
            Some(input)
        }
        Plan::Cross { input, columns } => {
            write!(f, "Cross: a list of {} rows", columns.first().map_or(0, |column| column.len()))?;
            Some(input)
        }
        Plan::Asof { input, asof } => {
            let kept = if asof.inner { "matches alone" } else { "every row" };
            let rule = &asof.rule;
            let op = if rule.inclusive { "inclusive" } else { "strict" };
            write!(
                f,
                "AsofJoin: {kept}, {:?} {op}, by {} keys",
                rule.direction,
                asof.keys.len() + usize::from(asof.symbol.is_some())
            )?;
            write_scan(f, &asof.scan)?;
            Some(input)
        }
        Plan::WindowJoin { input, join } => {
            let prevailing = if join.rule.prevailing { "with" } else { "without" };
            let keys = join.keys.len() + usize::from(join.symbol.is_some());
            write!(f, "WindowJoin: {prevailing} the prevailing row, by {keys} keys")?;
            write_aggregates(f, &join.aggregates)?;
            write_scan(f, &join.scan)?;
            Some(input)
        }
        Plan::Window { input, calls } => {
            write!(f, "Window: {} functions", calls.len())?;
            if calls.iter().any(|call| call.first.is_some()) {
                write!(f, ", the first rows of each partition")?;
            }
            Some(input)
        }
        Plan::Union { inputs } => {
            write!(f, "Union")?;
            for input in inputs {
                writeln!(f)?;
                write_step(f, input, depth + 1)?;
            }
            None
        }
        Plan::Filter { input, .. } => {
            write!(f, "Filter")?;
            Some(input)
        }
        Plan::Project { input, outputs } => {
            write!(f, "Project: {} columns", outputs.len())?;
            Some(input)
        }
        Plan::Sort { input, keys, fetch } => {
            write!(f, "Sort: by {} values", keys.len())?;
            if let Some(fetch) = fetch {
                write!(f, ", the first {fetch}")?;
            }
            Some(input)
        }
        Plan::Limit { input, skip, fetch } => {
            write!(f, "Limit: skip {skip}")?;
            if let Some(fetch) = fetch {
                write!(f, ", fetch {fetch}")?;
            }
            Some(input)
        }
    };
    match input {
        Some(input) => {
            writeln!(f)?;
            write_step(f, input, depth + 1)
        }
        None => Ok(()),
    }
}

fn write_aggregates(f: &mut Formatter<'_>, aggregates: &[Aggregate]) -> Result {
    let names: Vec<String> = aggregates.iter().map(|aggregate| format!("{:?}", aggregate.function)).collect();
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
            Bound::Date(_, _) => "date",
        })
        .collect();
    write!(f, ", bounds=[{}]", names.join(", "))?;
    write!(f, ", filter={}", if scan.predicate.is_some() { "evaluated" } else { "none" })
}
