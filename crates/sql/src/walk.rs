//! Walks of parsed statements.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, Statement, TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};

/// Visits all parts of a statement, query or expression.
pub(crate) fn visit<V: Visitor>(of: &impl Visit, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut breaks = Breaks { visitor, with: None };
    let _ = of.visit(&mut ByAddress(&mut breaks));
    breaks.with.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Like [`visit`], with a visitor that may change what it visits.
pub(crate) fn visit_mut<V: VisitorMut>(of: &mut impl VisitMut, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut breaks = Breaks { visitor, with: None };
    let _ = of.visit(&mut ByAddressMut(&mut breaks));
    breaks.with.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Whether an expression, or a part of it, passes a test.
pub(crate) fn any_expression(of: &Expr, test: impl FnMut(&Expr) -> bool) -> bool {
    visit(of, &mut NodeSearch(test)).is_break()
}

/// Visits an expression and all its parts.
pub(crate) fn each_expression(of: &Expr, mut take: impl FnMut(&Expr)) {
    any_expression(of, |inner| {
        take(inner);
        false
    });
}

/// Whether a part of a statement contains an expression that passes the test, outside of its sub-queries.
pub(crate) fn any_expression_outside_queries(of: &impl Visit, test: impl FnMut(&Expr) -> bool) -> bool {
    visit(of, &mut SearchOutsideQueries { depth: 0, test }).is_break()
}

/// Changes all expressions within an expression or a statement, inner ones first.
pub(crate) fn change_expressions(of: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    let _ = visit_mut(of, &mut NodeChange(change));
}

struct NodeSearch<F>(F);

impl<F: FnMut(&Expr) -> bool> Visitor for NodeSearch<F> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if (self.0)(expression) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct SearchOutsideQueries<F> {
    depth: usize,
    test: F,
}

impl<F: FnMut(&Expr) -> bool> Visitor for SearchOutsideQueries<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if self.depth == 0 && (self.test)(expression) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct NodeChange<F>(F);

impl<F: FnMut(&mut Expr)> VisitorMut for NodeChange<F> {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        (self.0)(expression);
        ControlFlow::Continue(())
    }
}

/// A visitor, and the value with which it ended the walk.
struct Breaks<'a, V, B> {
    visitor: &'a mut V,
    with: Option<B>,
}

impl<V, B> Breaks<'_, V, B> {
    fn step(&mut self, visit: impl FnOnce(&mut V) -> ControlFlow<B>) -> ControlFlow<()> {
        visit(self.visitor).map_break(|with| self.with = Some(with))
    }
}

/// A visitor behind a reference, so that the walk is compiled only once.
struct ByAddress<'a>(&'a mut dyn Visitor<Break = ()>);

/// Like [`ByAddress`], for a visitor that may change what it visits.
struct ByAddressMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// Delegates the methods that visitors of this crate implement.
macro_rules! hand_on {
    ($($call:ident($node:ty)),*) => {
        impl Visitor for ByAddress<'_> {
            type Break = ();

            $(fn $call(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$call(node)
            })*
        }

        impl<V: Visitor> Visitor for Breaks<'_, V, V::Break> {
            type Break = ();

            $(fn $call(&mut self, node: &$node) -> ControlFlow<()> {
                self.step(|visitor| visitor.$call(node))
            })*
        }

        impl VisitorMut for ByAddressMut<'_> {
            type Break = ();

            $(fn $call(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$call(node)
            })*
        }

        impl<V: VisitorMut> VisitorMut for Breaks<'_, V, V::Break> {
            type Break = ();

            $(fn $call(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.step(|visitor| visitor.$call(node))
            })*
        }
    };
}

hand_on! {
    pre_visit_statement(Statement),
    pre_visit_query(Query),
    post_visit_query(Query),
    pre_visit_select(Select),
    post_visit_select(Select),
    pre_visit_table_factor(TableFactor),
    pre_visit_expr(Expr),
    post_visit_expr(Expr)
}
