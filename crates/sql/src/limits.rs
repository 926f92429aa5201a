//! How large a statement may be: bounds that hold before it is parsed, before it is planned, and before its plan is optimised.
//!
//! Planners walk expressions and plans recursively, and some of their steps take time that grows faster than the statement. So
//! each way in which a short text makes a deep or a large tree has a bound:
//!
//! | Bound | Checked on | Guards |
//! | --- | --- | --- |
//! | [`TEXT_BYTES_MAX`] | the text | memory of tokens and of the parsed statement |
//! | [`DEPTH_MAX`] | tokens | stacks: `a and b and …` and `x[1][1]…` are as deep as they are long |
//! | [`PARSER_DEPTH_MAX`] | while it is parsed | stacks: `case when … else case when …` |
//! | [`OPERATORS_MAX`] | tokens | time of the optimiser |
//! | [`LAMBDAS_MAX`] | the parsed statement | time: the type of a function as an argument is found twice for each time that that of the one around it is |
//! | [`COMPUTED_ITEMS_MAX`] | the parsed statement | time and stacks: `in (a + 1, …)` is planned as a chain of comparisons |
//! | [`RELATIONS_MAX`] | the parsed statement | stacks: a join is as deep as it has tables; time: common table expressions that each name the one before twice |
//! | [`STRUCTURES_MAX`] | the parsed statement | memory: types that double while names and types are settled |
//! | [`TYPES_MAX`] | the plan's schemas | memory: nested structures that double |
//! | [`NODES_MAX`] | the plan, and what each rule of the optimiser makes of it | time and memory of the optimiser |
//!
//! A list of literals costs little and is bounded by the text alone.

use std::collections::HashMap;
use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;
use splay_functions::walk::{Walk, WalkPlan};

use crate::error::{Error, Result};

/// Bytes of a statement's text.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

/// Levels of nested operators, those of a chain such as `a and b and c` included.
pub const DEPTH_MAX: usize = 2_000;

/// Expressions, queries and statements that the parser may be within at once.
pub const PARSER_DEPTH_MAX: usize = 400;

/// Operators and function calls of a statement.
pub const OPERATORS_MAX: usize = 20_000;

/// Levels of functions as arguments within each other, `x -> list_transform(x, y -> …)`.
pub const LAMBDAS_MAX: usize = 8;

/// Items of all `IN` lists together that aren't literals.
pub const COMPUTED_ITEMS_MAX: usize = 1_000;

/// Tables and sub-queries that a statement names, each as often as it is planned, and queries that it combines.
pub const RELATIONS_MAX: usize = 500;

/// Nodes of the plan, expressions among them, each counted as often as it is reached, and constants by their bytes.
pub const NODES_MAX: usize = 200_000;

/// Nodes that a filter may have when it is moved below a projection and grows by that. A larger one stays above it.
const PUSHED_NODES_MAX: usize = 2_000;

/// Approximate size of a node in bytes, one of which a short constant has.
const NODE_BYTES: usize = 128;

/// Types that may stand within the type of one column: `struct(x, x) as x` doubles them.
pub const TYPES_MAX: usize = 1_000;

/// Parts of the structures that a query makes, multiplied by those of the queries within it. Planning compares types and writes them into errors.
pub const STRUCTURES_MAX: usize = 10_000;

fn too_large(what: &str, limit: usize) -> Error {
    Error::Statement { message: format!("the statement is too large: it may have at most {limit} {what}") }
}

/// Checks that a text is short enough to be parsed.
///
/// # Errors
/// [`Error::Statement`], which names the limit.
pub(crate) fn check_text(text: &str) -> Result<()> {
    if text.len() > TEXT_BYTES_MAX { Err(too_large("bytes of text", TEXT_BYTES_MAX)) } else { Ok(()) }
}

/// Bounds the depth of the tree that the tokens of a statement can be parsed to, and the number of its operators.
///
/// The parser limits its recursion, but it reads chains of infix operators and of `[…]` in a loop, and each element of
/// a chain makes the tree one level deeper. So the depth at a token is at most the number of operators and opening
/// brackets since the expression began, plus those of each expression around it. A comma begins an expression, and so
/// does the keyword of a clause or of a set operator after an operand; after an operator such a word is an operand
/// itself, the name of a column.
#[derive(Debug, Default)]
pub(crate) struct TokenLimits {
    /// The depth at each open bracket and `case`, and whether it is a `case`.
    around: Vec<(usize, bool)>,
    /// The depth at this token, including that of the brackets around it.
    depth: usize,
    operators: usize,
    combined: usize,
    is_behind_operand: bool,
}

impl TokenLimits {
    /// Counts the next token.
    ///
    /// # Errors
    /// [`Error::Statement`], which names the limit.
    pub(crate) fn take(&mut self, token: &Token) -> Result<()> {
        let is_behind_operand = std::mem::replace(&mut self.is_behind_operand, false);
        match token {
            Token::Whitespace(_) => self.is_behind_operand = is_behind_operand,
            Token::LParen | Token::LBracket | Token::LBrace => self.open(false)?,
            Token::RParen | Token::RBracket | Token::RBrace => {
                while self.around.pop_if(|(_, is_case)| *is_case).is_some() {}
                self.close();
            }
            Token::Comma | Token::SemiColon => self.begin(),
            Token::Word(word) => self.word(word.keyword, is_behind_operand)?,
            token if is_literal_token(token) => self.is_behind_operand = true,
            _ => self.deepen()?,
        }
        Ok(())
    }

    fn word(&mut self, keyword: Keyword, is_behind_operand: bool) -> Result<()> {
        if is_operator(keyword) {
            return self.deepen();
        }
        if keyword == Keyword::CASE {
            return self.open(true);
        }
        if keyword == Keyword::END && self.around.last().is_some_and(|(_, is_case)| *is_case) {
            self.close();
        } else if is_behind_operand && combines_queries(keyword) {
            self.combine()?;
        } else if is_behind_operand && begins_expression(keyword) {
            self.begin();
        }
        self.is_behind_operand = true;
        Ok(())
    }

    fn combine(&mut self) -> Result<()> {
        self.combined += 1;
        if self.combined > RELATIONS_MAX {
            return Err(too_large("queries combined by UNION, INTERSECT and EXCEPT", RELATIONS_MAX));
        }
        self.begin();
        Ok(())
    }

    fn open(&mut self, is_case: bool) -> Result<()> {
        self.deepen()?;
        self.around.push((self.depth, is_case));
        Ok(())
    }

    /// A closed bracket is an operand of the chain that continues after it: `x[1][1]`.
    fn close(&mut self) {
        if let Some((depth, _)) = self.around.pop() {
            self.depth = depth;
        }
        self.is_behind_operand = true;
    }

    fn begin(&mut self) {
        self.depth = self.around.last().map_or(0, |(depth, _)| *depth);
    }

    fn deepen(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_large("operators within one expression", DEPTH_MAX));
        }
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            return Err(too_large("operators and function calls", OPERATORS_MAX));
        }
        Ok(())
    }
}

/// Whether an expression begins after the keyword that isn't nested in the one before.
fn begins_expression(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::SELECT
            | Keyword::FROM
            | Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::QUALIFY
            | Keyword::ORDER
            | Keyword::LIMIT
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE
    )
}

/// Keywords that are infix operators, and `not`.
fn is_operator(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::AND
            | Keyword::AT
            | Keyword::BETWEEN
            | Keyword::COLLATE
            | Keyword::DIV
            | Keyword::ILIKE
            | Keyword::IN
            | Keyword::IS
            | Keyword::LIKE
            | Keyword::MATCH
            | Keyword::MEMBER
            | Keyword::NOT
            | Keyword::NOTNULL
            | Keyword::OPERATOR
            | Keyword::OR
            | Keyword::OVERLAPS
            | Keyword::REGEXP
            | Keyword::RLIKE
            | Keyword::SIMILAR
            | Keyword::XOR
    )
}

/// Set operators, which the parser reads in a loop.
fn combines_queries(keyword: Keyword) -> bool {
    matches!(keyword, Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::MINUS)
}

fn is_literal_token(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::Placeholder(_)
            | Token::EOF
    )
}

/// Bounds what a parsed statement names and lists.
///
/// A common table expression is planned anew wherever it is named, so it counts for as many relations as it names itself. Of several
/// with one name the largest counts.
#[derive(Debug, Default)]
pub(crate) struct StatementLimits {
    computed: usize,
    /// Functions as arguments around the expression that is visited.
    lambdas: usize,
    /// Relations of the queries that are being visited, from the outermost.
    relations: Vec<usize>,
    /// The common table expressions of these queries by the address of their own.
    expressions: HashMap<*const ast::Query, String>,
    /// Relations of each common table expression.
    sizes: HashMap<String, usize>,
    /// Parts of the structures that each of these queries makes.
    structures: Vec<usize>,
    /// Types that a column may have within its own, if all queries were within each other.
    types: usize,
}

impl StatementLimits {
    /// Counts the next expression.
    pub(crate) fn expression(&mut self, expression: &ast::Expr) -> ControlFlow<Error> {
        if let Some(structures) = self.structures.last_mut() {
            *structures = structures.saturating_add(parts_of_structure(expression));
        }
        if matches!(expression, ast::Expr::Lambda(_)) {
            self.lambdas += 1;
            if self.lambdas > LAMBDAS_MAX {
                return ControlFlow::Break(too_large("functions as arguments within each other", LAMBDAS_MAX));
            }
        }
        if let ast::Expr::InList { list, .. } = expression {
            self.computed += list.iter().filter(|item| !is_literal(item)).count();
            if self.computed > COMPUTED_ITEMS_MAX {
                return ControlFlow::Break(too_large("items of IN lists that aren't literals", COMPUTED_ITEMS_MAX));
            }
        }
        ControlFlow::Continue(())
    }

    /// Leaves an expression.
    pub(crate) fn end_expression(&mut self, expression: &ast::Expr) {
        if matches!(expression, ast::Expr::Lambda(_)) {
            self.lambdas = self.lambdas.saturating_sub(1);
        }
    }

    /// Enters a query, whose common table expressions come before its relations.
    pub(crate) fn begin_query(&mut self, query: &ast::Query) {
        self.relations.push(1);
        self.structures.push(0);
        for expression in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = expression.alias.name.value.to_lowercase();
            self.expressions.insert(&raw const *expression.query, name);
        }
    }

    /// Counts the next relation.
    pub(crate) fn relation(&mut self, relation: &ast::TableFactor) -> ControlFlow<Error> {
        let size = match relation {
            ast::TableFactor::Table { name, .. } => self.sizes.get(&name.to_string().to_lowercase()).copied(),
            _ => None,
        };
        self.add(size.unwrap_or(1))
    }

    /// Leaves a query.
    pub(crate) fn end_query(&mut self, query: &ast::Query) -> ControlFlow<Error> {
        let parts = self.structures.pop().unwrap_or_default();
        self.types = self.types.max(1).saturating_mul(parts.max(1));
        if self.types > STRUCTURES_MAX {
            let what = "parts of structures, those of queries within each other multiplied";
            return ControlFlow::Break(too_large(what, STRUCTURES_MAX));
        }
        let size = self.relations.pop().unwrap_or_default();
        match self.expressions.remove(&(&raw const *query)) {
            Some(name) => {
                let largest = self.sizes.entry(name).or_default();
                *largest = size.max(*largest);
                ControlFlow::Continue(())
            }
            None => self.add(size),
        }
    }

    fn add(&mut self, relations: usize) -> ControlFlow<Error> {
        let Some(size) = self.relations.last_mut() else { return ControlFlow::Continue(()) };
        *size = size.saturating_add(relations);
        if *size > RELATIONS_MAX {
            let what = "tables and sub-queries, each as often as it is planned";
            return ControlFlow::Break(too_large(what, RELATIONS_MAX));
        }
        ControlFlow::Continue(())
    }
}

/// The parts of an expression that builds a structure, whose type includes the types of all of them.
fn parts_of_structure(expression: &ast::Expr) -> usize {
    match expression {
        ast::Expr::Tuple(parts) => parts.len(),
        ast::Expr::Dictionary(fields) => fields.len(),
        ast::Expr::Struct { values, .. } => values.len(),
        ast::Expr::Function(call) => {
            let name = call.name.to_string().to_lowercase();
            let makes_structure = matches!(
                name.as_str(),
                "struct" | "row" | "named_struct" | "map" | "make_map" | "arrays_zip" | "list_zip"
            );
            match &call.args {
                ast::FunctionArguments::List(list) if makes_structure => list.args.len(),
                _ => 0,
            }
        }
        _ => 0,
    }
}

fn is_literal(expression: &ast::Expr) -> bool {
    match expression {
        ast::Expr::Value(_) | ast::Expr::TypedString(_) => true,
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus | ast::UnaryOperator::Plus, expr } => is_literal(expr),
        _ => false,
    }
}

/// Bounds the size of a plan. Each node counts as often as it is reached, because that is how often an optimiser's rule visits it.
///
/// # Errors
/// [`Error::Statement`], which names the limit, wrapped.
pub(crate) fn check_plan(plan: &LogicalPlan) -> DataFusionResult<()> {
    let mut nodes = 0;
    plan.walk_steps(|node| {
        count(node, &mut nodes)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Bounds the expressions of one node that an optimiser's rule created.
///
/// # Errors
/// Those of [`check_plan`].
pub(crate) fn check_node(plan: &LogicalPlan) -> DataFusionResult<()> {
    count(plan, &mut 0)
}

/// Adds a node and its expressions.
fn count(plan: &LogicalPlan, nodes: &mut usize) -> DataFusionResult<()> {
    add(nodes, 1)?;
    check_types(plan)?;
    plan.walk_expressions(|expression| {
        expression.apply(|expression| {
            add(nodes, weight(expression))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

/// The nodes that an expression counts as, without its children: a long constant is copied with each node that has it.
fn weight(expression: &Expr) -> usize {
    match expression {
        Expr::Literal(value, _) => 1 + value.size() / NODE_BYTES,
        _ => 1,
    }
}

fn check_types(plan: &LogicalPlan) -> DataFusionResult<()> {
    for field in plan.schema().fields().iter().filter(|field| field.data_type().is_nested()) {
        let mut types_allowed = TYPES_MAX;
        if !fits(field.data_type(), &mut types_allowed) {
            let error = too_large("types within the type of a column", TYPES_MAX);
            return Err(DataFusionError::External(Box::new(error)));
        }
    }
    Ok(())
}

/// Whether a type contains at most the allowed number of types.
fn fits(data_type: &DataType, types_allowed: &mut usize) -> bool {
    let Some(fewer) = types_allowed.checked_sub(1) else { return false };
    *types_allowed = fewer;
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _) => fits(field.data_type(), types_allowed),
        DataType::Struct(fields) => fields.iter().all(|field| fits(field.data_type(), types_allowed)),
        DataType::Union(fields, _) => fields.iter().all(|(_, field)| fits(field.data_type(), types_allowed)),
        DataType::Dictionary(_, values) => fits(values, types_allowed),
        DataType::RunEndEncoded(_, values) => fits(values.data_type(), types_allowed),
        _ => true,
    }
}

fn add(nodes: &mut usize, more: usize) -> DataFusionResult<()> {
    *nodes = nodes.saturating_add(more);
    if *nodes > NODES_MAX {
        return Err(DataFusionError::External(Box::new(too_large(
            "nodes in its plan, where a constant counts as one for each 128 bytes",
            NODES_MAX,
        ))));
    }
    Ok(())
}

/// Whether a filter, with those right below it, becomes much larger below a projection, where each column is replaced by the expression that the
/// projection computes for it. With `below_all` all adjacent projections are considered, otherwise only the first.
///
/// # Errors
/// Those of the traversal.
pub(crate) fn grows_below_projection(plan: &LogicalPlan, below_all: bool) -> DataFusionResult<bool> {
    let LogicalPlan::Filter(filter) = plan else { return Ok(false) };
    let mut projections = Vec::new();
    // Filters above each other are moved as one.
    let (mut predicates, mut input) = (vec![&filter.predicate], filter.input.as_ref());
    while let LogicalPlan::Filter(next) = input {
        predicates.push(&next.predicate);
        input = next.input.as_ref();
    }
    while let LogicalPlan::Projection(projection) = input {
        projections.push(projection);
        input = projection.input.as_ref();
        if !below_all {
            break;
        }
    }
    // From the lowest projection up: nodes that each column of the one below stands for.
    let mut below: Option<(&DFSchema, Vec<usize>)> = None;
    for projection in projections.into_iter().rev() {
        let sizes = projection.expr.iter().map(|expression| size(expression, below.as_ref()));
        let sizes = sizes.collect::<DataFusionResult<_>>()?;
        below = Some((projection.schema.as_ref(), sizes));
    }
    let (mut before, mut after) = (0usize, 0usize);
    for predicate in predicates {
        before = before.saturating_add(size(predicate, None)?);
        after = after.saturating_add(size(predicate, below.as_ref())?);
    }
    Ok(after > PUSHED_NODES_MAX && after / 2 > before)
}

/// Nodes of an expression whose columns each expand to `columns` nodes.
fn size(expression: &Expr, columns: Option<&(&DFSchema, Vec<usize>)>) -> DataFusionResult<usize> {
    let mut nodes = 0usize;
    expression.apply(|expression| {
        let stands_for = match (expression, columns) {
            (Expr::Column(column), Some((schema, sizes))) => {
                schema.maybe_index_of_column(column).and_then(|position| sizes.get(position).copied())
            }
            _ => None,
        };
        nodes = nodes.saturating_add(stands_for.unwrap_or_else(|| weight(expression)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(nodes)
}
