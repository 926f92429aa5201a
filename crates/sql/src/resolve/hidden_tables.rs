//! Tables of a `WITH` within a query whose name one around it has: the planner takes them for two of one name. The inner one gets another name, by
//! which its own query's relations read it, under the name that is written.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, TableAlias, TableFactor, Visitor, VisitorMut,
};

use crate::walk::{visit, visit_mut};

/// Renames tables of `WITH` that hide others.
pub(crate) fn name_apart(statement: &mut Statement) {
    match statement {
        Statement::Statement(inner) => {
            // Most statements have at most one WITH.
            let mut withs = WithClauses::default();
            let _ = visit(inner.as_ref(), &mut withs);
            if withs.0 > 1 {
                let _ = visit_mut(inner.as_mut(), &mut Scopes::default());
            }
        }
        Statement::Explain(explain) => name_apart(&mut explain.statement),
        _ => {}
    }
}

#[derive(Default)]
struct WithClauses(usize);

impl Visitor for WithClauses {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0 += usize::from(query.with.is_some());
        ControlFlow::Continue(())
    }
}

/// The tables in scope, with their new names.
#[derive(Default)]
struct Scopes {
    tables: Vec<(String, Ident)>,
    /// For each visited query the number of tables in scope around it, and its own tables once they are visited.
    open: Vec<(usize, Option<datafusion::sql::sqlparser::ast::With>)>,
    number: usize,
}

impl VisitorMut for Scopes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let before = self.tables.len();
        let mut with = query.with.take();
        if let Some(with) = &mut with {
            for table in &mut with.cte_tables {
                let name = table.alias.name.value.to_lowercase();
                if self.tables[..before].iter().any(|(table_name, _)| *table_name == name) {
                    self.number += 1;
                    table.alias.name = Ident::with_quote('"', format!("{name}__{}", self.number));
                }
                let named = (name, table.alias.name.clone());
                // A recursive query is in its own scope.
                if with.recursive {
                    self.tables.push(named);
                    let _ = visit_mut(table.query.as_mut(), self);
                } else {
                    let _ = visit_mut(table.query.as_mut(), self);
                    self.tables.push(named);
                }
            }
        }
        self.open.push((before, with));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some((before, with)) = self.open.pop() {
            self.tables.truncate(before);
            query.with = with;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = relation else { return ControlFlow::Continue(()) };
        let [ObjectNamePart::Identifier(written)] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let folded = written.value.to_lowercase();
        if let Some((_, now)) = self.tables.iter().rev().find(|(table_name, _)| *table_name == folded)
            && now.value.to_lowercase() != folded
        {
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: written.clone(),
                columns: Vec::new(),
                at: None,
            });
            *name = ObjectName::from(vec![now.clone()]);
        }
        ControlFlow::Continue(())
    }
}
