//! Walks of plans and expressions that are compiled once.
//!
//! The walks of DataFusion and of its parser are generic: a walk with a closure of its own compiles all of them again, for every kind of node.
//! Those of this module call the closure by its address. They have the same names where they are those of [`TreeNode`].

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

type Visit<'a, 'n, N> = &'a mut dyn FnMut(&'n N) -> Result<TreeNodeRecursion>;
type NodeRewrite<'a, N> = &'a mut dyn FnMut(N) -> Result<Transformed<N>>;

/// The walks of [`TreeNode`].
#[expect(missing_docs, reason = "they are those of the same names")]
pub trait Walk: TreeNode {
    fn apply<'n>(&'n self, mut visit: impl FnMut(&'n Self) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        apply(self, &mut visit)
    }

    fn apply_children<'n>(
        &'n self,
        mut visit: impl FnMut(&'n Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_children(self, &mut visit)
    }

    fn exists(&self, mut test: impl FnMut(&Self) -> Result<bool>) -> Result<bool> {
        let mut any = false;
        Walk::apply(self, |node| {
            any = test(node)?;
            Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(any)
    }

    fn map_children(self, mut rewrite: impl FnMut(Self) -> Result<Transformed<Self>>) -> Result<Transformed<Self>> {
        map_children(self, &mut rewrite)
    }

    fn transform_down(self, mut rewrite: impl FnMut(Self) -> Result<Transformed<Self>>) -> Result<Transformed<Self>> {
        transform_down(self, &mut rewrite)
    }

    fn transform_up(self, mut rewrite: impl FnMut(Self) -> Result<Transformed<Self>>) -> Result<Transformed<Self>> {
        transform_up(self, &mut rewrite)
    }
}

impl<N: TreeNode> Walk for N {}

#[inline(never)]
fn apply<'n, N: TreeNode>(node: &'n N, visit: Visit<'_, 'n, N>) -> Result<TreeNodeRecursion> {
    TreeNode::apply(node, visit)
}

#[inline(never)]
fn apply_children<'n, N: TreeNode>(node: &'n N, visit: Visit<'_, 'n, N>) -> Result<TreeNodeRecursion> {
    TreeNode::apply_children(node, visit)
}

#[inline(never)]
fn map_children<N: TreeNode>(node: N, rewrite: NodeRewrite<'_, N>) -> Result<Transformed<N>> {
    TreeNode::map_children(node, rewrite)
}

#[inline(never)]
fn transform_down<N: TreeNode>(node: N, rewrite: NodeRewrite<'_, N>) -> Result<Transformed<N>> {
    TreeNode::transform_down(node, rewrite)
}

#[inline(never)]
fn transform_up<N: TreeNode>(node: N, rewrite: NodeRewrite<'_, N>) -> Result<Transformed<N>> {
    TreeNode::transform_up(node, rewrite)
}

/// The walks that a logical plan alone has: through the plans of its queries within expressions, and through the expressions of its step.
pub trait WalkPlan: Sized {
    /// Visits the steps of the plan and of its queries within expressions.
    fn walk_steps(&self, visit: impl FnMut(&Self) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion>;
    /// Visits the expressions of this step, not what they consist of.
    fn walk_expressions(&self, visit: impl FnMut(&Expr) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion>;
    /// Rewrites the steps of the plan and of its queries within expressions, inputs first.
    fn rewrite_steps_up(self, rewrite: impl FnMut(Self) -> Result<Transformed<Self>>) -> Result<Transformed<Self>>;
    /// The same, inputs last.
    fn rewrite_steps_down(self, rewrite: impl FnMut(Self) -> Result<Transformed<Self>>) -> Result<Transformed<Self>>;
    /// Rewrites the expressions of this step.
    fn rewrite_expressions(self, rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>) -> Result<Transformed<Self>>;
}

impl WalkPlan for LogicalPlan {
    fn walk_steps(&self, mut visit: impl FnMut(&Self) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        walk_steps(self, &mut visit)
    }

    fn walk_expressions(&self, mut visit: impl FnMut(&Expr) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        walk_expressions(self, &mut visit)
    }

    fn rewrite_steps_up(self, mut rewrite: impl FnMut(Self) -> Result<Transformed<Self>>) -> Result<Transformed<Self>> {
        rewrite_steps_up(self, &mut rewrite)
    }

    fn rewrite_steps_down(
        self,
        mut rewrite: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        rewrite_steps_down(self, &mut rewrite)
    }

    fn rewrite_expressions(
        self,
        mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
    ) -> Result<Transformed<Self>> {
        rewrite_expressions(self, &mut rewrite)
    }
}

#[inline(never)]
fn walk_steps(
    plan: &LogicalPlan,
    visit: &mut dyn FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    plan.apply_with_subqueries(visit)
}

#[inline(never)]
fn walk_expressions(
    plan: &LogicalPlan,
    visit: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    plan.apply_expressions(visit)
}

#[inline(never)]
fn rewrite_steps_up(plan: LogicalPlan, rewrite: NodeRewrite<'_, LogicalPlan>) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(rewrite)
}

#[inline(never)]
fn rewrite_steps_down(plan: LogicalPlan, rewrite: NodeRewrite<'_, LogicalPlan>) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(rewrite)
}

#[inline(never)]
fn rewrite_expressions(plan: LogicalPlan, rewrite: NodeRewrite<'_, Expr>) -> Result<Transformed<LogicalPlan>> {
    plan.map_expressions(rewrite)
}
