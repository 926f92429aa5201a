//! The spelling of column names in a statement.
//!
//! A plan has names in lower case, and omits an alias that differs from its column only in case. The parsed statement
//! shows which columns of an answer it names itself, in its own select list or in that of a query in its `FROM`; all
//! others are spelt as in their tables.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, ObjectName, Query, RenameSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, TableAlias, TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

use super::titles::title;

/// The columns of a query in order, as far as its text names them.
#[derive(Debug, Default, Clone)]
pub(crate) struct QueryColumns {
    columns: Vec<SpelledColumn>,
}

/// A column that a statement names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SpelledColumn {
    /// Folded. Empty for an expression without a name.
    name: String,
    spelling: Spelling,
}

/// The source of the spelling of a column's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// An alias, in this spelling.
    Alias(String),
    /// An alias in quotes. It is folded before the statement is parsed.
    Quoted,
    /// The title of an expression.
    Title,
    /// The table that has the column.
    Table,
}

impl QueryColumns {
    pub(crate) fn of(statement: &Statement) -> QueryColumns {
        match statement {
            Statement::Statement(inner) => match inner.as_ref() {
                ast::Statement::Query(query) => QueryColumns { columns: Tables::default().query(query) },
                _ => QueryColumns::default(),
            },
            _ => QueryColumns::default(),
        }
    }

    /// The spelling of the answer's column at a position, given its folded name; `None` if the text doesn't name it.
    pub(crate) fn spelling(&self, place: usize, name: &str) -> Option<&Spelling> {
        let at_place = self.columns.get(place).filter(|column| column.name == name);
        let any = || self.columns.iter().find(|column| column.name == name);
        at_place.or_else(any).map(|column| &column.spelling)
    }
}

/// Common table expressions in scope, by folded name.
#[derive(Default)]
struct Tables(Vec<SpelledRelation>);

/// A relation of a `FROM`, by its name or alias.
#[derive(Clone)]
struct SpelledRelation {
    name: Option<String>,
    columns: Vec<SpelledColumn>,
}

impl Tables {
    fn query(&mut self, query: &Query) -> Vec<SpelledColumn> {
        let before = self.0.len();
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let columns = rename_columns(self.query(&table.query), Some(&table.alias));
            self.0.push(SpelledRelation { name: Some(folded_name(&table.alias.name)), columns });
        }
        let columns = self.body(&query.body);
        self.0.truncate(before);
        columns
    }

    fn body(&mut self, body: &SetExpr) -> Vec<SpelledColumn> {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, .. } => self.body(left),
            _ => Vec::new(),
        }
    }

    fn select(&mut self, select: &Select) -> Vec<SpelledColumn> {
        let relations: Vec<SpelledRelation> = select.from.iter().flat_map(|from| self.relations(from)).collect();
        if select.projection.is_empty() {
            return all(&relations, &WildcardAdditionalOptions::default());
        }
        let item = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => vec![alias_spelling(alias)],
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => vec![column(None, name, &relations)],
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => match parts.as_slice() {
                [.., relation, name] => vec![column(Some(folded_name(relation)), name, &relations)],
                _ => vec![nameless()],
            },
            SelectItem::UnnamedExpr(expression) => match title(expression) {
                Some(title) => vec![SpelledColumn { name: title, spelling: Spelling::Title }],
                None => vec![nameless()],
            },
            SelectItem::Wildcard(options) => all(&relations, options),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let name = last_part(name);
                let is_it = |relation: &&SpelledRelation| relation.name.is_some() && relation.name == name;
                all(&relations.iter().filter(is_it).cloned().collect::<Vec<_>>(), options)
            }
            _ => vec![nameless()],
        };
        select.projection.iter().flat_map(item).collect()
    }

    fn relations(&mut self, from: &TableWithJoins) -> Vec<SpelledRelation> {
        let others = from.joins.iter().map(|join| &join.relation);
        std::iter::once(&from.relation).chain(others).flat_map(|relation| self.relation(relation)).collect()
    }

    fn relation(&mut self, relation: &TableFactor) -> Vec<SpelledRelation> {
        let of = |name: Option<String>, columns: Vec<SpelledColumn>, alias: Option<&TableAlias>| {
            let name = alias.map(|alias| folded_name(&alias.name)).or(name);
            vec![SpelledRelation { name, columns: rename_columns(columns, alias) }]
        };
        match relation {
            TableFactor::Table { name, alias, .. } => {
                let name = last_part(name);
                let table = self.0.iter().rev().find(|table| table.name == name);
                of(name, table.map(|table| table.columns.clone()).unwrap_or_default(), alias.as_ref())
            }
            TableFactor::Derived { subquery, alias, .. } => of(None, self.query(subquery), alias.as_ref()),
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.relations(table_with_joins),
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let columns = self.relations(table_with_joins).into_iter().flat_map(|relation| relation.columns);
                of(None, columns.collect(), alias.as_ref())
            }
            _ => Vec::new(),
        }
    }
}

fn folded_name(name: &Ident) -> String {
    name.value.to_lowercase()
}

/// The last part of a name, folded; `None` if it isn't a word.
pub(crate) fn last_part(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(folded_name)
}

fn alias_spelling(alias: &Ident) -> SpelledColumn {
    let spelling = match alias.quote_style {
        None => Spelling::Alias(alias.value.clone()),
        Some(_) => Spelling::Quoted,
    };
    SpelledColumn { name: folded_name(alias), spelling }
}

fn nameless() -> SpelledColumn {
    SpelledColumn { name: String::new(), spelling: Spelling::Table }
}

/// A column by its name, of a given relation or of any.
fn column(relation: Option<String>, name: &Ident, relations: &[SpelledRelation]) -> SpelledColumn {
    let name = folded_name(name);
    let of = relations.iter().filter(|other| relation.is_none() || other.name == relation);
    let matching = of.flat_map(|relation| &relation.columns).find(|column| column.name == name);
    matching.cloned().unwrap_or(SpelledColumn { name, spelling: Spelling::Table })
}

/// The columns of `*`.
fn all(relations: &[SpelledRelation], options: &WildcardAdditionalOptions) -> Vec<SpelledColumn> {
    let renamed = match &options.opt_rename {
        Some(RenameSelectItem::Single(item)) => std::slice::from_ref(item),
        Some(RenameSelectItem::Multiple(items)) => items.as_slice(),
        None => &[],
    };
    let aliases = renamed.iter().map(|item| alias_spelling(&item.alias));
    relations.iter().flat_map(|relation| relation.columns.clone()).chain(aliases).collect()
}

/// The columns under the names that an alias of their relation gives them.
fn rename_columns(mut columns: Vec<SpelledColumn>, alias: Option<&TableAlias>) -> Vec<SpelledColumn> {
    for (place, aliased) in alias.into_iter().flat_map(|alias| &alias.columns).enumerate() {
        let aliased = alias_spelling(&aliased.name);
        match columns.get_mut(place) {
            Some(column) => *column = aliased,
            None => columns.push(aliased),
        }
    }
    columns
}
