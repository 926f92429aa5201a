//! Walks of parsed statements.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, Statement, TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};

/// Visits what a statement, query or expression consists of.
pub(crate) fn visit<B>(of: &impl Visit, visitor: &mut dyn Visitor<Break = B>) -> ControlFlow<B> {
    of.visit(&mut ByAddress(visitor))
}

/// The same, to change it.
pub(crate) fn visit_mut<B>(of: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = B>) -> ControlFlow<B> {
    of.visit(&mut ByAddressMut(visitor))
}

/// Whether an expression, or one that it consists of, is such a one.
pub(crate) fn any_expression(of: &Expr, test: impl FnMut(&Expr) -> bool) -> bool {
    visit(of, &mut Search(test)).is_break()
}

/// Changes all expressions that an expression consists of, and then itself.
pub(crate) fn change_expressions(of: &mut Expr, change: impl FnMut(&mut Expr)) {
    let _ = visit_mut(of, &mut Change(change));
}

struct Search<F>(F);

impl<F: FnMut(&Expr) -> bool> Visitor for Search<F> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if (self.0)(expression) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Change<F>(F);

impl<F: FnMut(&mut Expr)> VisitorMut for Change<F> {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        (self.0)(expression);
        ControlFlow::Continue(())
    }
}

/// A visitor for whom the walk isn't compiled anew. It has the calls that visitors of this crate answer.
struct ByAddress<'a, B>(&'a mut dyn Visitor<Break = B>);

impl<B> Visitor for ByAddress<'_, B> {
    type Break = B;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<B> {
        self.0.pre_visit_statement(statement)
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<B> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<B> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<B> {
        self.0.pre_visit_select(select)
    }

    fn pre_visit_table_factor(&mut self, relation: &TableFactor) -> ControlFlow<B> {
        self.0.pre_visit_table_factor(relation)
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<B> {
        self.0.pre_visit_expr(expression)
    }
}

/// The same for one that changes what it visits.
struct ByAddressMut<'a, B>(&'a mut dyn VisitorMut<Break = B>);

impl<B> VisitorMut for ByAddressMut<'_, B> {
    type Break = B;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<B> {
        self.0.pre_visit_query(query)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<B> {
        self.0.post_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<B> {
        self.0.pre_visit_select(select)
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<B> {
        self.0.post_visit_select(select)
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<B> {
        self.0.pre_visit_expr(expression)
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<B> {
        self.0.post_visit_expr(expression)
    }
}
