//! Relations that a sub-query reads from around it, and that have the name of a column there: `t AS a WHERE EXISTS (SELECT 1 FROM u WHERE u.a = a.k)`.
//!
//! SQL takes `a.k` for the column `k` of the relation `a`. DataFusion 55.2 looks for a column `a` of the sub-query first, as a structure with a field
//! `k`. Where `a` is no structure the planner says that there is no `a.k`, and the statement is planned once more, with names for such relations that
//! no column has.

use std::collections::HashSet;
use std::ops::ControlFlow;

use arrow::datatypes::Field;
use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableAlias, TableFactor, TableWithJoins, Visitor, VisitorMut,
};

use crate::walk::{visit, visit_mut};

/// Takes `a.k` for a column of a relation, unless there is a structure `a`.
#[derive(Debug)]
pub(crate) struct FieldPlanner;

impl ExprPlanner for FieldPlanner {
    fn plan_compound_identifier(
        &self,
        field: &Field,
        _: Option<&TableReference>,
        names: &[String],
    ) -> Result<PlannerResult<Vec<datafusion::logical_expr::Expr>>> {
        let [name, ..] = names else { return Ok(PlannerResult::Original(Vec::new())) };
        if field.data_type().is_nested() || field.data_type().is_null() {
            return Ok(PlannerResult::Original(Vec::new()));
        }
        let column = Column::new(Some(TableReference::bare(field.name().as_str())), name.as_str());
        Ok(PlannerResult::Planned(column.into()))
    }
}

/// The statement with other names for these relations; `None` if it has none.
pub(crate) fn name_apart(statement: &Statement) -> Option<Statement> {
    match statement {
        Statement::Statement(inner) => {
            let mut outer = OuterNames::default();
            let _ = visit(inner.as_ref(), &mut outer);
            if outer.read.is_empty() {
                return None;
            }
            let mut renamed = inner.clone();
            let _ = visit_mut(renamed.as_mut(), &mut Renaming(outer.read));
            Some(Statement::Statement(renamed))
        }
        Statement::Explain(explain) => {
            let inner = name_apart(&explain.statement)?;
            let mut explain = explain.clone();
            *explain.statement = inner;
            Some(Statement::Explain(explain))
        }
        _ => None,
    }
}

/// Finds the names of relations that sub-queries read from around them.
#[derive(Default)]
struct OuterNames {
    /// The names of the relations of each query around the visited place.
    scopes: Vec<Vec<String>>,
    read: HashSet<String>,
}

impl Visitor for OuterNames {
    type Break = ();

    // The order of a query reads the relations of its select.
    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.scopes.push(match query.body.as_ref() {
            SetExpr::Select(select) => names(&select.from),
            _ => Vec::new(),
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.scopes.push(names(&select.from));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        if let (Expr::CompoundIdentifier(parts), Some((own, around))) = (expression, self.scopes.split_last())
            && let [relation, _, ..] = parts.as_slice()
        {
            let is_in = |scope: &Vec<String>| scope.contains(&relation.value);
            if !is_in(own) && around.iter().any(is_in) {
                self.read.insert(relation.value.clone());
            }
        }
        ControlFlow::Continue(())
    }
}

/// The names of the relations of a `FROM`.
fn names(from: &[TableWithJoins]) -> Vec<String> {
    let factors = from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    factors.flat_map(names_of).collect()
}

fn names_of(relation: &TableFactor) -> Vec<String> {
    match relation {
        TableFactor::Table { alias: None, name, .. } => {
            own_name(name).map(|name| name.value.clone()).into_iter().collect()
        }
        TableFactor::NestedJoin { alias: None, table_with_joins } => names(std::slice::from_ref(table_with_joins)),
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.iter().map(|alias| alias.name.value.clone()).collect(),
        _ => Vec::new(),
    }
}

fn own_name(table: &ObjectName) -> Option<&Ident> {
    table.0.last().and_then(ObjectNamePart::as_ident)
}

/// Renames relations wherever they stand. One name means the same relations before and after, since no other has the new name.
struct Renaming(HashSet<String>);

impl Renaming {
    fn renamed(&self, name: &mut Ident) {
        if self.0.contains(&name.value) {
            *name = Ident::with_quote('"', format!("{}__relation", name.value));
        }
    }
}

impl VisitorMut for Renaming {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
                && let [ObjectNamePart::Identifier(name)] = name.0.as_mut_slice()
            {
                self.renamed(name);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<()> {
        match relation {
            TableFactor::Table { alias: alias @ None, name, .. } => {
                if let Some(name) = own_name(name)
                    && self.0.contains(&name.value)
                {
                    let mut name = name.clone();
                    self.renamed(&mut name);
                    *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
                }
            }
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::TableFunction { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => self.renamed(&mut alias.name),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match expression {
            Expr::CompoundIdentifier(parts) => {
                if let [relation, _, ..] = parts.as_mut_slice() {
                    self.renamed(relation);
                }
            }
            Expr::QualifiedWildcard(name, _) => {
                if let [ObjectNamePart::Identifier(name)] = name.0.as_mut_slice() {
                    self.renamed(name);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
