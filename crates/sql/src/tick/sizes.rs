//! How many rows plans have, estimated from the sizes of tables and the form of conditions before anything is read.
//!
//! The estimates choose which side of a join is read first, and the order of joins. They assume that a condition holds for
//! a fixed part of the rows by its form (Selinger et al., Access Path Selection in a Relational Database Management System,
//! 1979), and that keys of two tables are the same if there are about as many of them. Whole numbers have at most as many
//! different values as lie between the least and the greatest one of some blocks.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::{cast, max, min};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::JoinType;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::logical_plan::{Join, Limit, TableScan};
use datafusion::logical_expr::utils::{split_binary, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, FetchType, LogicalPlan, Operator};
use splay_store::{FilesInPlace, Segment, TableSnapshot, sortable};

use super::asof::as_text;
use super::by_time::{PlanTable, stored_table};
use crate::files::FileTable;
use crate::pushdown::is_text;

/// Rows of a table above which a join looks for a smaller side to read first.
const LARGE_ROWS_MIN: u64 = 1 << 20;

/// Different values that a column of texts, floats or decimals has at most, for want of knowing it: too few make a join look large and come late, too many
/// make pairs of all rows look like few.
const VALUES: f64 = 1_000.0;

/// Two tables are expected to have the same keys if one has at most so many times as many as the other.
const ALIKE: f64 = 16.0;

/// Segments of a table, and blocks of each, whose least and greatest values are looked at.
const SEGMENTS_MAX: usize = 4;
const BLOCKS_MAX: usize = 64;

/// Rows for each group, and for each row of a `DISTINCT`.
const ROWS_OF_GROUP: f64 = 10.0;

/// The part of the rows for which a column equals a value, is one of a few, is in a range, and for which another condition holds.
const EQUAL_PART: f64 = 0.1;
const FEW_PART: f64 = 0.2;
const RANGE_PART: f64 = 0.3;
const OTHER_PART: f64 = 0.25;

/// An estimate of how many rows a plan has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Size {
    /// Rows.
    pub rows: f64,
    /// Rows that there would be without conditions.
    pub of: f64,
    /// Rows of the table whose rows the plan has; none of any other plan.
    table_rows: u64,
    /// A condition may leave few of them.
    pub is_filtered: bool,
}

impl Size {
    pub(super) fn of(plan: &LogicalPlan) -> Size {
        match plan {
            LogicalPlan::SubqueryAlias(alias) => Size::of(&alias.input),
            LogicalPlan::Projection(projection) => Size::of(&projection.input),
            LogicalPlan::Filter(filter) => {
                let input = Size::of(&filter.input);
                Size { rows: input.rows * part_of(&filter.predicate), is_filtered: true, ..input }
            }
            LogicalPlan::TableScan(scan) => {
                let of_table = || stored_table(plan).map_or(0, |table| table.snapshot.rows());
                let table_rows = files_of(scan).map_or_else(of_table, |files| files.rows_estimate());
                Size { table_rows, ..Size::computed(table_rows as f64) }
            }
            LogicalPlan::Values(values) => Size::computed(values.values.len() as f64),
            LogicalPlan::EmptyRelation(_) => Size::computed(1.0),
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => Size::computed(1.0),
            LogicalPlan::Aggregate(aggregate) => {
                let rows = Size::of(&aggregate.input).rows;
                let of_key = |key: &Expr| distinct_values(&aggregate.input, key).unwrap_or(rows / ROWS_OF_GROUP);
                Size::computed(aggregate.group_expr.iter().map(of_key).product::<f64>().min(rows))
            }
            LogicalPlan::Distinct(Distinct::All(input)) => Size::computed(Size::of(input).rows / ROWS_OF_GROUP),
            LogicalPlan::Limit(limit) => Size::of_limit(limit),
            LogicalPlan::Union(union) => Size::computed(union.inputs.iter().map(|input| Size::of(input).rows).sum()),
            LogicalPlan::Join(join) => Size::of_join(join),
            other => other.inputs().first().map_or_else(Size::default, |input| Size::computed(Size::of(input).rows)),
        }
    }

    /// The size of a plan that isn't rows of one table.
    fn computed(rows: f64) -> Size {
        Size { rows: rows.max(1.0), of: rows.max(1.0), table_rows: 0, is_filtered: false }
    }

    fn of_limit(limit: &Limit) -> Size {
        let rows = Size::of(&limit.input).rows;
        match limit.get_fetch_type() {
            Ok(FetchType::Literal(Some(most))) => Size::computed(rows.min(most as f64)),
            _ => Size::computed(rows),
        }
    }

    fn of_join(join: &Join) -> Size {
        let (left, right) = (Size::of(&join.left), Size::of(&join.right));
        match join.join_type {
            JoinType::Inner if join.on.is_empty() && join.filter.is_some() => {
                left.joined(right, [left.of.min(right.of)])
            }
            JoinType::Inner => {
                let pairs = join.on.iter().map(|(one, other)| distinct_keys((&join.left, one), (&join.right, other)));
                left.joined(right, pairs)
            }
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => Size::computed(left.rows / 2.0),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => Size::computed(right.rows / 2.0),
            JoinType::Left | JoinType::Right | JoinType::Full => Size::computed(left.rows.max(right.rows)),
        }
    }

    /// The size of an inner join by keys, each of so many different values; of all pairs, if there are none.
    pub(super) fn joined(self, other: Size, keys: impl IntoIterator<Item = f64>) -> Size {
        let (mut greatest, mut product) = (1.0, 1.0);
        for distinct in keys {
            (greatest, product) = (f64::max(greatest, distinct), product * distinct);
        }
        // Keys of several columns are those of the smaller side.
        let keys = greatest.max(product.min(self.of).min(other.of));
        Size { rows: self.rows * other.rows / keys, of: self.of * other.of / keys, ..Size::default() }
    }

    /// The size with a further condition.
    pub(super) fn with(self, condition: &Expr) -> Size {
        Size { rows: self.rows * part_of(condition), is_filtered: true, ..self }
    }

    /// Whether these are rows of a large table, however many of them pass conditions.
    pub(super) fn is_large(self) -> bool {
        self.table_rows > LARGE_ROWS_MIN
    }
}

/// The files that a scan reads in place; `None` for other scans.
fn files_of(scan: &TableScan) -> Option<Arc<dyn FilesInPlace>> {
    let provider = source_as_provider(&scan.source).ok()?;
    Some(Arc::clone(provider.downcast_ref::<FileTable>()?.files()))
}

/// The files' column that a column of a plan is, by its position.
fn file_column(plan: &LogicalPlan, position: usize) -> Option<(Arc<dyn FilesInPlace>, usize)> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => file_column(&alias.input, position),
        LogicalPlan::Filter(filter) => file_column(&filter.input, position),
        LogicalPlan::Projection(projection) => match projection.expr.get(position)?.clone().unalias() {
            Expr::Column(column) => {
                file_column(&projection.input, projection.input.schema().index_of_column(&column).ok()?)
            }
            _ => None,
        },
        LogicalPlan::TableScan(scan) => files_of(scan).map(|files| (files, position)),
        _ => None,
    }
}

/// The values of a column of files, by what these say of their row groups.
fn values_of_files(files: &dyn FilesInPlace, column: usize) -> Option<Values> {
    let (rows, field) = (files.rows_estimate() as f64, files.schema().field(column));
    let are_texts = is_text(field.data_type());
    let distinct = match field.data_type() {
        DataType::Boolean => 2.0,
        DataType::Timestamp(_, _) => rows,
        data_type if data_type.is_integer() || *data_type == DataType::Date32 => {
            let statistics = files.statistics(field.name())?;
            let numbers = |ends: &ArrayRef| cast(ends, &DataType::Int64).ok();
            let least = min(numbers(&statistics.min)?.as_primitive::<Int64Type>())?;
            max(numbers(&statistics.max)?.as_primitive::<Int64Type>())?.abs_diff(least) as f64 + 1.0
        }
        _ => VALUES,
    };
    Some(Values { distinct: distinct.min(rows), are_unique: false, are_texts })
}

/// How many different keys a join of two sides by equal keys is expected to tell apart.
pub(super) fn distinct_keys(left: (&LogicalPlan, &Expr), right: (&LogicalPlan, &Expr)) -> f64 {
    let of_side = |(plan, key): (&LogicalPlan, &Expr)| {
        let unknown = || Values { distinct: Size::of(plan).of, are_unique: false, are_texts: false };
        values_of(plan, key).unwrap_or_else(unknown)
    };
    let (left, right) = (of_side(left), of_side(right));
    match (left.are_unique, right.are_unique) {
        // Tables of few texts, which aren't known to be unique, have all texts that the other side has.
        (false, false) if left.are_texts => left.distinct.min(right.distinct),
        (true, false) if left.are_texts => left.distinct,
        (false, true) if left.are_texts => right.distinct,
        _ => {
            let (fewer, more) = (left.distinct.min(right.distinct), left.distinct.max(right.distinct));
            // Either the larger table refers to rows of the smaller one, as fills to orders, or the smaller one has some of the larger one's keys. A
            // very small table is cheap to look up in, even if all rows refer to it, but leaves few rows if they don't.
            if more <= ALIKE * fewer { fewer } else { (fewer * more).sqrt() }
        }
    }
}

/// The values of a column of a table.
struct Values {
    /// How many different ones there are at most.
    distinct: f64,
    /// Whether each row has another one.
    are_unique: bool,
    are_texts: bool,
}

/// How many different values a key has at most; `None` if that isn't known.
fn distinct_values(plan: &LogicalPlan, key: &Expr) -> Option<f64> {
    values_of(plan, key).map(|values| values.distinct)
}

fn values_of(plan: &LogicalPlan, key: &Expr) -> Option<Values> {
    let Expr::Column(column) = as_text(key, plan.schema()) else { return None };
    if let Some((files, column)) = file_column(plan, plan.schema().index_of_column(column).ok()?) {
        return values_of_files(files.as_ref(), column);
    }
    let PlanTable { snapshot, mut names } = stored_table(plan)?;
    let name = names.swap_remove(plan.schema().index_of_column(column).ok()?)?;
    let (rows, spec) = (snapshot.rows() as f64, snapshot.spec());
    let of_key = spec.reference.as_ref().map_or(&[][..], |reference| &reference.key);
    let are_unique = matches!(of_key, [only] if only.eq_ignore_ascii_case(&name));
    let data_type = spec.columns.get(spec.position(&name)?)?.column_type.arrow();
    let are_texts = is_text(&data_type);
    let is_symbol = spec.symbol.as_ref().is_some_and(|symbol| symbol.eq_ignore_ascii_case(&name));
    let distinct = match data_type {
        _ if are_unique => rows,
        _ if is_symbol => symbols(&snapshot)?,
        DataType::Boolean => 2.0,
        DataType::Timestamp(_, _) => rows,
        data_type if data_type.is_integer() || data_type == DataType::Date32 => range(&snapshot, &name)?,
        _ => VALUES,
    };
    Some(Values { distinct: distinct.min(rows), are_unique, are_texts })
}

/// How many symbols some segments of a table have at most.
fn symbols(snapshot: &TableSnapshot) -> Option<f64> {
    // A segment that can't be read is reported by what reads its rows.
    let of_segment = |segment: &Arc<Segment>| segment.index().and_then(|index| index.symbols()).ok();
    some_segments(snapshot).iter().filter_map(of_segment).max().map(|symbols| symbols as f64)
}

/// How many whole numbers lie between the least and the greatest value in some blocks of a column.
fn range(snapshot: &TableSnapshot, column: &str) -> Option<f64> {
    let mut ends: Option<(u64, u64)> = None;
    for segment in some_segments(snapshot) {
        let summaries = segment.index().and_then(|index| index.by_block(column)).ok().flatten()?;
        let blocks = spread(summaries.len(), BLOCKS_MAX).map(|place| summaries.get(place));
        for block in blocks.filter(|block| block.count > 0) {
            let of_block = (sortable(summaries.kind(), block.min), sortable(summaries.kind(), block.max));
            let (least, greatest) = ends.unwrap_or(of_block);
            ends = Some((least.min(of_block.0), greatest.max(of_block.1)));
        }
    }
    ends.map(|(least, greatest)| greatest.saturating_sub(least) as f64 + 1.0)
}

fn some_segments(snapshot: &TableSnapshot) -> Vec<Arc<Segment>> {
    let segments: Vec<_> = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter()).collect();
    spread(segments.len(), SEGMENTS_MAX).map(|place| Arc::clone(segments[place])).collect()
}

/// Some places of so many, the first and the last among them.
fn spread(places: usize, most: usize) -> impl Iterator<Item = usize> {
    let step = places.saturating_sub(1).div_ceil(most.saturating_sub(1)).max(1);
    (0..places.saturating_sub(1)).step_by(step).chain(places.checked_sub(1))
}

/// The part of the rows for which a condition holds.
fn part_of(condition: &Expr) -> f64 {
    let of_one = |condition: &Expr| match condition {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            split_binary(condition, Operator::Or).into_iter().map(part_of).sum::<f64>().min(1.0)
        }
        Expr::BinaryExpr(BinaryExpr { op, .. }) => match op {
            Operator::Eq | Operator::IsNotDistinctFrom => EQUAL_PART,
            Operator::NotEq | Operator::IsDistinctFrom => 1.0 - EQUAL_PART,
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => RANGE_PART,
            _ => OTHER_PART,
        },
        Expr::InList(list) if list.negated => 1.0 - FEW_PART,
        Expr::InList(_) => FEW_PART,
        Expr::Between(_) => EQUAL_PART,
        Expr::Not(of) => 1.0 - part_of(of),
        Expr::IsNotNull(_) => 1.0 - EQUAL_PART,
        _ => OTHER_PART,
    };
    split_conjunction(condition).into_iter().map(of_one).product()
}
