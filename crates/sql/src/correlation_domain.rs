//! The domain of a correlated query: the distinct rows of the columns that it reads from around it, with which its own rows are joined.
//!
//! Source: Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality, Result, TableReference};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Distinct, Join};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

/// The values that a query reads from around it: the distinct rows of these columns.
pub(crate) struct Domain {
    pub outer: Vec<Column>,
    pub rows: LogicalPlan,
}

impl Domain {
    pub(crate) fn new(input: &LogicalPlan, outer: Vec<Column>, name: String) -> Result<Domain> {
        let of = |(place, column): (usize, &Column)| Expr::Column(column.clone()).alias(format!("{name}_{place}"));
        let named = outer.iter().enumerate().map(of);
        let named: Vec<Expr> = named.collect();
        let rows = LogicalPlanBuilder::from(input.clone()).project(named)?.distinct()?.alias(name)?.build()?;
        Ok(Domain { outer, rows })
    }

    pub(crate) fn column(&self, place: usize) -> Expr {
        Expr::Column(Column::from(self.rows.schema().qualified_field(place)))
    }

    /// A reference to the column, for a query within a query that has the domain's columns.
    pub(crate) fn outer_column(&self, place: usize) -> Expr {
        let (relation, field) = self.rows.schema().qualified_field(place);
        Expr::OuterReferenceColumn(Arc::clone(field), Column::from((relation, field)))
    }

    pub(crate) fn columns(&self) -> Vec<Expr> {
        (0..self.outer.len()).map(|place| self.column(place)).collect()
    }

    /// An expression whose outer references are replaced by columns of the domain.
    pub(crate) fn bound(&self, expr: Expr) -> Result<Expr> {
        let bound = expr.transform_up(|expr| {
            Ok(match &expr {
                Expr::OuterReferenceColumn(_, column) => match self.outer.iter().position(|outer| outer == column) {
                    Some(place) => Transformed::yes(self.column(place)),
                    None => Transformed::no(expr),
                },
                _ => Transformed::no(expr),
            })
        });
        Ok(bound?.data)
    }

    /// The rows of a plan for each row of the domain, with the domain's columns; `None` for unsupported steps.
    pub(crate) fn below(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        if plan.all_out_ref_exprs().is_empty() {
            return LogicalPlanBuilder::from(self.rows.clone()).cross_join(plan.clone())?.build().map(Some);
        }
        match plan {
            LogicalPlan::Filter(filter) => self.over(&filter.input, |input| {
                LogicalPlanBuilder::from(input).filter(self.bound(filter.predicate.clone())?)
            }),
            LogicalPlan::Projection(projection) => self.over(&projection.input, |input| {
                let names = NamePreserver::new(plan);
                let bound = |expr: &Expr| Ok(names.save(expr).restore(self.bound(expr.clone())?));
                let outputs = projection.expr.iter().map(bound).collect::<Result<Vec<_>>>()?;
                LogicalPlanBuilder::from(input).project(outputs.into_iter().chain(self.columns()))
            }),
            LogicalPlan::SubqueryAlias(alias) => self.over(&alias.input, |input| {
                let names = alias.schema.fields().iter().map(|field| field.name().clone());
                let relation: &TableReference = &alias.alias;
                let renamed = alias.input.schema().columns().into_iter().zip(names);
                let renamed =
                    renamed.map(|(column, name)| Expr::Column(column).alias_qualified(Some(relation.clone()), name));
                LogicalPlanBuilder::from(input).project(renamed.chain(self.columns()))
            }),
            LogicalPlan::Sort(sort) => self.below(&sort.input),
            // Lists of the outer row, in the query's `FROM`.
            LogicalPlan::Subquery(query) => self.below(&query.subquery),
            LogicalPlan::Unnest(unnest) => self.over(&unnest.input, |input| {
                LogicalPlanBuilder::from(input)
                    .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())
            }),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                self.over(input, |input| LogicalPlanBuilder::from(input).distinct())
            }
            LogicalPlan::Join(join) => self.below_join(join),
            _ => Ok(None),
        }
    }

    fn over(
        &self,
        input: &LogicalPlan,
        step: impl FnOnce(LogicalPlan) -> Result<LogicalPlanBuilder>,
    ) -> Result<Option<LogicalPlan>> {
        match self.below(input)? {
            Some(input) => step(input)?.build().map(Some),
            None => Ok(None),
        }
    }

    /// A join of two plans, one of which reads outer columns.
    fn below_join(&self, join: &Join) -> Result<Option<LogicalPlan>> {
        let reads = |side: &LogicalPlan| !side.all_out_ref_exprs().is_empty();
        let is_plain = join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing;
        let (left, right) = match (reads(&join.left), reads(&join.right)) {
            (_, false) if is_plain => (self.below(&join.left)?, Some(join.right.as_ref().clone())),
            (false, true) if is_plain => (Some(join.left.as_ref().clone()), self.below(&join.right)?),
            _ => return Ok(None),
        };
        let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
        let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
        let conditions = equal.chain(join.filter.clone()).map(|condition| self.bound(condition));
        let conditions = conditions.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(left).join_on(right, JoinType::Inner, conditions)?.build().map(Some)
    }
}
