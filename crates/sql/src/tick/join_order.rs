//! The order of inner joins, and which side of each is read first.
//!
//! Joins of joins are taken apart into relations and conditions. Of all pairs of relations that have a key, the pair
//! with the fewest rows is joined first, then the pair with the fewest rows of those left over, and so on (greedy
//! operator ordering: Fegaras, A New Heuristic for Optimizing Large Queries, 1998). The smaller side of each join is the
//! right one, of which a hash table is made. Relations without a key in common are joined last.
//!
//! The order of the text stays unless the other one costs far less, so that rows of small tables keep their order.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{JoinType, NullEquality};
use datafusion::logical_expr::logical_plan::builder::build_join_schema;
use datafusion::logical_expr::logical_plan::{Filter, Join, Projection};
use datafusion::logical_expr::utils::{conjunction, split_binary, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};

use super::by_time::searched_table;
use super::combine::{columns_of, implied, unsupported};
use super::convert::UnsupportedExpr;
use super::sizes::{Size, distinct_keys};
use crate::joins::asof_parts;

/// Most relations that are put in order.
const RELATIONS_MAX: usize = 32;

/// What it costs to put a row into a hash table, in rows that are looked up or written.
const BUILD_COST: f64 = 3.0;

/// The cost below which no other order is looked for.
const COST_MIN: f64 = 10_000.0;

/// Another order must cost less than this part of what the order of the text costs.
const BETTER: f64 = 0.7;

/// Different keys, at most, of a join where nulls equal nulls, of which there may be many.
const VALUES_WITH_NULLS: f64 = 10.0;

/// Inner joins, with a filter above them, in an order that is expected to cost far less; `None` where there is none.
pub(super) fn in_better_order(join: &Join, predicate: Option<&Expr>) -> Result<Option<LogicalPlan>, UnsupportedExpr> {
    if !is_inner(join)? {
        return Ok(None);
    }
    let mut joins = Joins::default();
    let written = joins.add_join(join)?;
    joins.add_conditions(predicate);
    if joins.relations.len() > RELATIONS_MAX || joins.conditions.iter().any(Expr::is_volatile) {
        return Ok(None);
    }
    let Some(mut graph) = Graph::of(&joins)? else { return Ok(None) };
    let implied = graph.edges.extract_if(.., |edge| edge.is_implied).collect::<Vec<_>>();
    let before = graph.cost(&written).cost;
    graph.edges.extend(implied);
    let ordered = graph.ordered();
    let after = graph.cost(&ordered);
    // The rows that come out are the same in any order.
    let (before, after) = (before - after.size.rows, after.cost - after.size.rows);
    if before < COST_MIN || after >= before * BETTER {
        return Ok(None);
    }
    graph.plan(&joins, &ordered, join).map(Some)
}

/// Whether a join is an inner one by conditions alone, not by time.
fn is_inner(join: &Join) -> Result<bool, UnsupportedExpr> {
    let is_inner = join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing;
    Ok(is_inner && asof_parts(join).map_err(unsupported)?.is_none())
}

/// Relations by their number, or a join of them.
enum Tree {
    Relation(usize),
    Join(Box<Tree>, Box<Tree>),
}

impl Tree {
    /// The relations, a bit for each.
    fn relations(&self) -> u64 {
        match self {
            Tree::Relation(number) => 1 << number,
            Tree::Join(left, right) => left.relations() | right.relations(),
        }
    }
}

/// What joins of joins consist of.
#[derive(Default)]
struct Joins {
    relations: Vec<Arc<LogicalPlan>>,
    conditions: Vec<Expr>,
}

impl Joins {
    fn add(&mut self, plan: &Arc<LogicalPlan>) -> Result<Tree, UnsupportedExpr> {
        match plan.as_ref() {
            LogicalPlan::Join(join) if is_inner(join)? => return self.add_join(join),
            LogicalPlan::Filter(filter) => {
                if let LogicalPlan::Join(join) = filter.input.as_ref()
                    && is_inner(join)?
                {
                    self.add_conditions(Some(&filter.predicate));
                    return self.add_join(join);
                }
            }
            _ => {}
        }
        self.relations.push(Arc::clone(plan));
        Ok(Tree::Relation(self.relations.len() - 1))
    }

    fn add_join(&mut self, join: &Join) -> Result<Tree, UnsupportedExpr> {
        let (left, right) = (self.add(&join.left)?, self.add(&join.right)?);
        self.conditions.extend(join.on.iter().map(|(left, right)| left.clone().eq(right.clone())));
        self.add_conditions(join.filter.as_ref());
        Ok(Tree::Join(Box::new(left), Box::new(right)))
    }

    fn add_conditions(&mut self, conditions: Option<&Expr>) {
        self.conditions.extend(conditions.into_iter().flat_map(split_conjunction).cloned());
    }
}

/// The sizes of relations, and what joins them.
struct Graph {
    sizes: Vec<Size>,
    edges: Vec<Edge>,
    /// Conditions that join no two relations.
    others: Vec<Expr>,
}

/// An equality by which relations are joined.
struct Edge {
    condition: Expr,
    /// The equal values, with the relations that each reads.
    equal: [(Expr, u64); 2],
    /// How many different ones there are.
    distinct: f64,
    /// Bits of the relations for whose table one of the two sides is the time column, and likewise the symbol column.
    times: u64,
    symbols: u64,
    /// Whether another condition says it, too.
    is_implied: bool,
}

impl Edge {
    /// The key of each of two sides that the edge joins.
    fn keys(&self, left: u64, right: u64) -> Option<(&Expr, &Expr)> {
        let [(one, of_one), (other, of_other)] = &self.equal;
        let is_of = |relations: u64, side: u64| relations & !side == 0;
        match () {
            () if is_of(*of_one, left) && is_of(*of_other, right) => Some((one, other)),
            () if is_of(*of_one, right) && is_of(*of_other, left) => Some((other, one)),
            () => None,
        }
    }
}

/// How the rows of the left find those of the right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    AllPairs,
    /// Along the order of the right's table.
    ByTime,
    /// In a hash table.
    ByKey,
}

/// An estimate for a join of joins.
struct Estimate {
    size: Size,
    cost: f64,
}

impl Graph {
    /// `None` if a condition reads a column that none of the relations has, or more than one.
    fn of(joins: &Joins) -> Result<Option<Graph>, UnsupportedExpr> {
        let mut sizes: Vec<Size> = joins.relations.iter().map(|relation| Size::of(relation)).collect();
        let (mut edges, mut others) = (Vec::new(), Vec::new());
        for condition in &joins.conditions {
            let Some(relations) = joins.read_by(condition)? else { return Ok(None) };
            match relations.count_ones() {
                0 => {}
                1 => {
                    let size = &mut sizes[relations.trailing_zeros() as usize];
                    *size = size.with(condition);
                }
                _ => {
                    for (relation, size) in joins.relations.iter().zip(&mut sizes) {
                        if let Some(implied) = implied(condition, relation.schema())? {
                            *size = size.with(&implied);
                        }
                    }
                    for equality in of_all_alternatives(condition) {
                        edges.extend(joins.edge(equality)?.map(|edge| Edge { is_implied: true, ..edge }));
                    }
                    if let Some(edge) = joins.edge(condition)? {
                        edges.push(edge);
                        continue;
                    }
                }
            }
            others.push(condition.clone());
        }
        Ok(Some(Graph { sizes, edges, others }))
    }

    /// Edges between two sides that are keys.
    fn between(&self, left: u64, right: u64) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.keys(left, right).is_some())
    }

    fn kind(&self, left: u64, right: u64) -> Kind {
        let mut edges = self.between(left, right).peekable();
        if edges.peek().is_none() {
            return Kind::AllPairs;
        }
        let (times, symbols) = edges.fold((0, 0), |all, edge| (all.0 | edge.times, all.1 | edge.symbols));
        if right.is_power_of_two() && times & symbols & right != 0 { Kind::ByTime } else { Kind::ByKey }
    }

    fn joined(&self, (left, left_size): (u64, Size), (right, right_size): (u64, Size)) -> Size {
        left_size.joined(right_size, self.between(left, right).map(|edge| edge.distinct))
    }

    /// What a join costs beyond reading the relations.
    fn cost(&self, tree: &Tree) -> Estimate {
        match tree {
            Tree::Relation(number) => Estimate { size: self.sizes[*number], cost: 0.0 },
            Tree::Join(left, right) => {
                let (left, right) = ((left.relations(), self.cost(left)), (right.relations(), self.cost(right)));
                let size = self.joined((left.0, left.1.size), (right.0, right.1.size));
                let own = match self.kind(left.0, right.0) {
                    Kind::AllPairs => 0.0,
                    Kind::ByTime => left.1.size.rows,
                    Kind::ByKey => left.1.size.rows + BUILD_COST * right.1.size.rows,
                };
                Estimate { cost: left.1.cost + right.1.cost + own + size.rows, size }
            }
        }
    }

    /// The relations in the order in which they should be joined.
    fn ordered(&self) -> Tree {
        let relation = |(number, size): (usize, &Size)| (Tree::Relation(number), 1 << number, *size);
        let mut trees: Vec<(Tree, u64, Size)> = self.sizes.iter().enumerate().map(relation).collect();
        while trees.len() > 1 {
            // Those with a key first, then those with the fewest rows, then in the order of the text.
            let mut best: Option<(usize, usize, Size, bool)> = None;
            for left in 0..trees.len() {
                for right in left + 1..trees.len() {
                    let size = self.joined((trees[left].1, trees[left].2), (trees[right].1, trees[right].2));
                    let are_apart = self.between(trees[left].1, trees[right].1).next().is_none();
                    if best.is_none_or(|(_, _, least, apart)| (are_apart, size.rows) < (apart, least.rows)) {
                        best = Some((left, right, size, are_apart));
                    }
                }
            }
            let Some((left, right, size, _)) = best else { break };
            let (right, of_right, right_size) = trees.remove(right);
            let (left, of_left, left_size) = trees.remove(left);
            // The rows of the left are looked up: along the order of a table, the larger one of two, or in a hash table of the smaller side.
            let by_time = [(of_left, of_right), (of_right, of_left)].map(|(of, to)| self.kind(of, to) == Kind::ByTime);
            let is_swapped = match by_time {
                [true, true] => left_size.rows > right_size.rows,
                [false, false] => left_size.rows < right_size.rows,
                [_, is_swapped] => is_swapped,
            };
            let (left, right) = if is_swapped { (right, left) } else { (left, right) };
            trees.insert(0, (Tree::Join(Box::new(left), Box::new(right)), of_left | of_right, size));
        }
        trees.pop().map_or(Tree::Relation(0), |(tree, _, _)| tree)
    }

    /// The joins in an order, with the columns that they had in that of the text.
    fn plan(&self, joins: &Joins, order: &Tree, written: &Join) -> Result<LogicalPlan, UnsupportedExpr> {
        let mut used = HashSet::new();
        let mut plan = self.joined_plan(joins, order, written, &mut used)?;
        let unused = self.edges.iter().enumerate().filter(|(number, edge)| !edge.is_implied && !used.contains(number));
        let rest = self.others.iter().cloned().chain(unused.map(|(_, edge)| edge.condition.clone()));
        if let Some(rest) = conjunction(rest) {
            plan = Arc::new(LogicalPlan::Filter(Filter::try_new(rest, plan).map_err(unsupported)?));
        }
        let columns = written.schema.columns().into_iter().map(Expr::Column).collect();
        let projection = Projection::try_new_with_schema(columns, plan, Arc::clone(&written.schema));
        projection.map(LogicalPlan::Projection).map_err(unsupported)
    }

    fn joined_plan(
        &self,
        joins: &Joins,
        tree: &Tree,
        written: &Join,
        used: &mut HashSet<usize>,
    ) -> Result<Arc<LogicalPlan>, UnsupportedExpr> {
        let (left, right) = match tree {
            Tree::Relation(number) => return Ok(Arc::clone(&joins.relations[*number])),
            Tree::Join(left, right) => (left, right),
        };
        let (of_left, of_right) = (left.relations(), right.relations());
        let left = self.joined_plan(joins, left, written, used)?;
        let right = self.joined_plan(joins, right, written, used)?;
        let (mut on, mut filter) = (Vec::new(), Vec::new());
        for (number, edge) in self.edges.iter().enumerate() {
            let Some((left, right)) = edge.keys(of_left, of_right) else { continue };
            used.insert(number);
            match &edge.condition {
                Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }) => on.push((left.clone(), right.clone())),
                condition => filter.push(condition.clone()),
            }
        }
        let schema = build_join_schema(left.schema(), right.schema(), &JoinType::Inner).map_err(unsupported)?;
        let (filter, schema) = (conjunction(filter), Arc::new(schema));
        Ok(Arc::new(LogicalPlan::Join(Join { left, right, on, filter, schema, ..written.clone() })))
    }
}

impl Joins {
    /// The relations whose columns a condition reads; `None` if a column isn't of just one of them.
    fn read_by(&self, condition: &Expr) -> Result<Option<u64>, UnsupportedExpr> {
        let mut relations = 0;
        for column in columns_of(condition)? {
            let mut of = (0..self.relations.len()).filter(|number| self.relations[*number].schema().has_column(column));
            let (Some(relation), None) = (of.next(), of.next()) else { return Ok(None) };
            relations |= 1 << relation;
        }
        Ok(Some(relations))
    }

    /// The edge that an equality makes, if each side of it reads other relations.
    fn edge(&self, condition: &Expr) -> Result<Option<Edge>, UnsupportedExpr> {
        let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::IsNotDistinctFrom), right }) =
            condition
        else {
            return Ok(None);
        };
        let (Some(of_left), Some(of_right)) = (self.read_by(left)?, self.read_by(right)?) else { return Ok(None) };
        if of_left == 0 || of_right == 0 || of_left & of_right != 0 {
            return Ok(None);
        }
        let relation = |relations: u64| self.relations[relations.trailing_zeros() as usize].as_ref();
        let mut distinct = distinct_keys((relation(of_left), left), (relation(of_right), right));
        if *op == Operator::IsNotDistinctFrom {
            distinct = distinct.min(VALUES_WITH_NULLS);
        }
        let equal = [(left.as_ref().clone(), of_left), (right.as_ref().clone(), of_right)];
        let (mut times, mut symbols) = (0, 0);
        for (key, of) in &equal {
            let relation = relation(*of);
            if let Some(table) = searched_table(relation) {
                times |= if table.is_time(key, relation.schema()) { *of } else { 0 };
                symbols |= if table.settles_symbol(key, relation.schema()) { *of } else { 0 };
            }
        }
        Ok(Some(Edge { condition: condition.clone(), equal, distinct, times, symbols, is_implied: false }))
    }
}

/// The conditions that all alternatives of an `OR` have.
fn of_all_alternatives(condition: &Expr) -> Vec<&Expr> {
    let alternatives = split_binary(condition, Operator::Or);
    let [first, others @ ..] = alternatives.as_slice() else { return Vec::new() };
    if others.is_empty() {
        return Vec::new();
    }
    let others: Vec<Vec<&Expr>> = others.iter().map(|alternative| split_conjunction(alternative)).collect();
    split_conjunction(first).into_iter().filter(|one| others.iter().all(|other| other.contains(one))).collect()
}
