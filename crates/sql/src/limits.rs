//! How large a statement may be: bounds that hold before it is parsed, before it is planned, and before its plan is optimised.
//!
//! Planners walk expressions and plans recursively, and some of their steps take time that grows faster than the statement. So
//! each way in which a short text makes a deep or a large tree has a bound:
//!
//! | Bound | Checked on | Guards |
//! | --- | --- | --- |
//! | [`TEXT_BYTES_MAX`] | the text | memory of tokens and of the parsed statement |
//! | [`DEPTH_MAX`] | tokens | stacks: `a and b and …` and `x[1][1]…` are as deep as they are long |
//! | [`OPERATORS_MAX`] | tokens | time of the optimiser |
//! | [`COMPUTED_ITEMS_MAX`] | the parsed statement | time and stacks: `in (a + 1, …)` is planned as a chain of comparisons |
//! | [`RELATIONS_MAX`] | the parsed statement | stacks: a join is as deep as it has tables |
//! | [`NODES_MAX`] | the plan | time and memory: common table expressions that refer to each other twice double the plan each |
//!
//! A list of literals costs little and is bounded by the text alone.

use std::ops::ControlFlow;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::{Error, Result};

/// Bytes of a statement's text.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

/// Operators that may stand in one another, those of a chain such as `a and b and c` among them.
pub const DEPTH_MAX: usize = 2_000;

/// Operators and function calls of a statement.
pub const OPERATORS_MAX: usize = 20_000;

/// Items of all `IN` lists together that aren't literals.
pub const COMPUTED_ITEMS_MAX: usize = 1_000;

/// Tables and sub-queries that a statement names.
pub const RELATIONS_MAX: usize = 500;

/// Nodes of the plan, expressions among them, each counted as often as it is reached.
pub const NODES_MAX: usize = 200_000;

fn too_large(what: &str, limit: usize) -> Error {
    Error::Statement { message: format!("the statement is too large: it may have at most {limit} {what}") }
}

/// Whether a text is short enough to be looked at.
///
/// # Errors
/// [`Error::Statement`], which names the limit.
pub(crate) fn check_text(text: &str) -> Result<()> {
    if text.len() > TEXT_BYTES_MAX { Err(too_large("bytes of text", TEXT_BYTES_MAX)) } else { Ok(()) }
}

/// Bounds the depth of the tree that the tokens of a statement can be parsed to, and the number of its operators.
///
/// The parser itself bounds how far it calls itself, but reads chains of infix operators and of `[…]` in a loop, and each of these
/// makes the tree one level deeper. So the depth at a token is at most the number of operators and opening brackets since the
/// expression began, plus those of each expression around it. A comma begins an expression, and so do the keywords of clauses.
#[derive(Debug, Default)]
pub(crate) struct TokenLimits {
    /// Levels of the expressions around the one at hand.
    around: Vec<usize>,
    /// Levels up to here, those around included.
    depth: usize,
    operators: usize,
    combined: usize,
}

impl TokenLimits {
    /// Takes the next token.
    ///
    /// # Errors
    /// [`Error::Statement`], which names the limit.
    pub(crate) fn take(&mut self, token: &Token) -> Result<()> {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                self.around.push(self.depth + 1);
                self.deepen()
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                // What was opened stands in the chain that goes on behind it: `x[1][1]`.
                self.depth = self.around.pop().unwrap_or(self.depth);
                Ok(())
            }
            Token::Word(word) if word.keyword == Keyword::CASE => {
                self.around.push(self.depth + 1);
                self.deepen()
            }
            Token::Word(word) if word.keyword == Keyword::END => {
                self.depth = self.around.pop().unwrap_or(self.depth);
                Ok(())
            }
            Token::Comma | Token::SemiColon => {
                self.begin();
                Ok(())
            }
            Token::Word(word) if begins_expression(word.keyword) => {
                self.begin();
                Ok(())
            }
            Token::Word(word) if combines_queries(word.keyword) => self.combine(),
            Token::Word(word) if !is_operator(word.keyword) => Ok(()),
            token if is_operand(token) => Ok(()),
            _ => self.deepen(),
        }
    }

    fn combine(&mut self) -> Result<()> {
        self.combined += 1;
        if self.combined > RELATIONS_MAX {
            return Err(too_large("queries combined by UNION, INTERSECT and EXCEPT", RELATIONS_MAX));
        }
        self.begin();
        Ok(())
    }

    fn begin(&mut self) {
        self.depth = self.around.last().copied().unwrap_or(0);
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

/// Keywords behind which an expression begins that isn't below what stands before it.
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
            | Keyword::ISNULL
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

/// Tokens that no level of a tree is made by.
fn is_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Whitespace(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::Placeholder(_)
            | Token::EOF
    )
}

/// Bounds what a parsed statement names and lists.
#[derive(Debug, Default)]
pub(crate) struct StatementLimits {
    computed: usize,
    relations: usize,
}

impl StatementLimits {
    /// Takes the next expression.
    pub(crate) fn expression(&mut self, expression: &ast::Expr) -> ControlFlow<Error> {
        if let ast::Expr::InList { list, .. } = expression {
            self.computed += list.iter().filter(|item| !is_literal(item)).count();
            if self.computed > COMPUTED_ITEMS_MAX {
                return ControlFlow::Break(too_large("items of IN lists that aren't literals", COMPUTED_ITEMS_MAX));
            }
        }
        ControlFlow::Continue(())
    }

    /// Takes the next relation.
    pub(crate) fn relation(&mut self) -> ControlFlow<Error> {
        self.relations += 1;
        if self.relations > RELATIONS_MAX {
            return ControlFlow::Break(too_large("tables and sub-queries", RELATIONS_MAX));
        }
        ControlFlow::Continue(())
    }
}

fn is_literal(expression: &ast::Expr) -> bool {
    match expression {
        ast::Expr::Value(_) | ast::Expr::TypedString(_) => true,
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus | ast::UnaryOperator::Plus, expr } => is_literal(expr),
        _ => false,
    }
}

/// Bounds the size of a plan, each node counted as often as it is reached: that is how often an optimiser's rule visits it.
///
/// # Errors
/// [`Error::Statement`], which names the limit, wrapped.
pub(crate) fn check_plan(plan: &LogicalPlan) -> DataFusionResult<()> {
    let mut nodes = 0;
    plan.apply_with_subqueries(|node| {
        nodes += 1;
        node.apply_expressions(|expression| {
            expression.apply(|_| {
                nodes += 1;
                Ok(if nodes > NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if nodes > NODES_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if nodes > NODES_MAX { Err(DataFusionError::External(Box::new(too_large("nodes in its plan", NODES_MAX)))) } else { Ok(()) }
}
