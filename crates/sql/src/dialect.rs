//! The dialects that statements are parsed by: those of the parser, with a bound on its steps, and the generic one with functions as arguments,
//! `x -> x + 1` and `lambda x: x + 1`.
//!
//! The parser can derive dialects by a macro behind a feature that DataFusion doesn't ask for.

use std::any::TypeId;
use std::cell::Cell;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Tokenizer;

use crate::error::Error;
use crate::function_calls::is_aggregate;
use crate::limits::{PARSER_DEPTH_MAX, TokenLimits};
use crate::walk::change_expressions;

/// Expressions that the parser may begin to read in a text of no length. The text adds two for each byte, where sound statements need less than one.
const STEPS_MIN: usize = 20_000;

/// A dialect for parsing one text, in a bounded number of steps.
///
/// Where the parser can't read an expression in one way it goes back and tries another, so an error behind 40 open `case (` took 2^40 steps. The
/// parser asks the dialect at each expression, which counts, and refuses all once there are too many.
#[derive(Debug)]
pub(crate) struct BoundedDialect<D> {
    dialect: D,
    has_lambdas: bool,
    steps_left: Cell<usize>,
}

impl<D> BoundedDialect<D> {
    fn of(dialect: D, has_lambdas: bool, text: &str) -> BoundedDialect<D> {
        let steps = STEPS_MIN.saturating_add(text.len().saturating_mul(2));
        BoundedDialect { dialect, has_lambdas, steps_left: Cell::new(steps) }
    }

    /// Whether parsing ended because it took too many steps.
    fn is_exhausted(&self) -> bool {
        self.steps_left.get() == 0
    }
}

impl BoundedDialect<GenericDialect> {
    /// The dialect of statements.
    pub(crate) fn of_statement(text: &str) -> BoundedDialect<GenericDialect> {
        BoundedDialect::of(GenericDialect {}, true, text)
    }
}

impl BoundedDialect<PostgreSqlDialect> {
    /// PostgreSQL's dialect.
    pub(crate) fn of_postgres(text: &str) -> BoundedDialect<PostgreSqlDialect> {
        BoundedDialect::of(PostgreSqlDialect {}, false, text)
    }
}

macro_rules! delegated {
    ($($name:ident),*) => {$(
        fn $name(&self) -> bool {
            self.dialect.$name()
        }
    )*};
}

impl<D: Dialect> Dialect for BoundedDialect<D> {
    fn dialect(&self) -> TypeId {
        self.dialect.dialect()
    }

    fn parse_prefix(&self, _: &mut Parser) -> Option<std::result::Result<Expr, ParserError>> {
        self.steps_left.set(self.steps_left.get().saturating_sub(1));
        self.is_exhausted().then_some(Err(ParserError::RecursionLimitExceeded))
    }

    fn supports_lambda_functions(&self) -> bool {
        self.has_lambdas
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.dialect.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        self.dialect.is_delimited_identifier_start(character)
    }

    fn is_identifier_start(&self, character: char) -> bool {
        self.dialect.is_identifier_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        self.dialect.is_identifier_part(character)
    }

    fn is_custom_operator_part(&self, character: char) -> bool {
        self.dialect.is_custom_operator_part(character)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        self.dialect.is_reserved_for_identifier(keyword)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<std::result::Result<u8, ParserError>> {
        self.dialect.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        self.dialect.prec_value(precedence)
    }

    // All other methods in which the generic dialect or PostgreSQL's differ from the defaults of the trait.
    delegated! {
        allow_extract_custom, allow_extract_single_quotes, support_map_literal_syntax, supports_alter_column_type_using,
        supports_array_join_syntax, supports_array_typedef_with_brackets, supports_asc_desc_in_column_definition,
        supports_bitwise_shift_operators, supports_comma_separated_set_assignments, supports_comma_separated_trim,
        supports_comment_on, supports_comment_optimizer_hint, supports_connect_by,
        supports_constraint_keyword_without_name, supports_create_index_with_clause,
        supports_create_table_like_parenthesized, supports_create_view_comment_syntax, supports_cte_without_as,
        supports_data_type_signed_suffix, supports_detach, supports_dictionary_syntax, supports_empty_projections,
        supports_explain_with_utility_options, supports_extract_comma_syntax, supports_factorial_operator,
        supports_filter_during_aggregation, supports_from_first_select, supports_geometric_types,
        supports_group_by_expr, supports_group_by_with_modifier, supports_insert_table_alias, supports_install,
        supports_interpolate, supports_interval_options, supports_key_column_option,
        supports_left_associative_joins_without_parens, supports_limit_by, supports_limit_comma,
        supports_listen_notify, supports_load_extension, supports_match_against, supports_match_recognize,
        supports_multiline_comment_hints, supports_named_fn_args_with_assignment_operator,
        supports_named_fn_args_with_colon_operator, supports_named_fn_args_with_expr_name, supports_nested_comments,
        supports_notnull_operator, supports_numeric_literal_underscores, supports_optimize_table,
        supports_parens_around_table_factor, supports_parenthesized_set_variables, supports_partition_by_after_order_by,
        supports_pipe_operator, supports_prewhere, supports_projection_trailing_commas, supports_quote_delimited_string,
        supports_select_format, supports_select_item_multi_column_alias, supports_select_wildcard_except,
        supports_select_wildcard_exclude, supports_select_wildcard_ilike, supports_select_wildcard_rename,
        supports_select_wildcard_replace, supports_select_wildcard_with_alias, supports_set_names, supports_settings,
        supports_start_transaction_modifier, supports_string_escape_constant, supports_struct_literal,
        supports_try_convert, supports_unicode_string_literal, supports_update_order_by, supports_user_host_grantee,
        supports_values_as_table_factor, supports_window_clause_named_window_reference,
        supports_window_function_null_treatment_arg, supports_with_fill, supports_xml_expressions
    }
}

/// Gives `IGNORE NULLS` of `lag(abs(x) IGNORE NULLS)` to `lag`. The parser takes it for a clause of `abs`, which has none.
fn move_null_treatments(statement: &mut Statement, state: &SessionState) {
    let statement = match statement {
        Statement::Statement(statement) => statement,
        Statement::Explain(explain) => return move_null_treatments(&mut explain.statement, state),
        _ => return,
    };
    let is_of_rows = |call: &Function| {
        let name = call.name.to_string().to_lowercase();
        state.window_functions().contains_key(&name) || is_aggregate(call, state)
    };
    change_expressions(statement.as_mut(), |expression| {
        let Expr::Function(outer) = expression else { return };
        let is_settled = outer.null_treatment.is_some() || !is_of_rows(outer);
        if let FunctionArguments::List(arguments) = &mut outer.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(inner)))) = arguments.args.last_mut()
            && arguments.clauses.is_empty()
            && !is_settled
            && inner.over.is_none()
            && !is_of_rows(inner)
        {
            outer.null_treatment = inner.null_treatment.take();
        }
    });
}

/// The statement of a text, of which there must be one.
///
/// # Errors
/// Those of DataFusion's parser, and one for a text that takes it too many steps.
pub(crate) fn parse(text: &str, state: &SessionState) -> Result<Statement> {
    let dialect = BoundedDialect::of_statement(text);
    let parser = DFParserBuilder::new(text).with_dialect(&dialect).with_recursion_limit(PARSER_DEPTH_MAX).build();
    let parsed = parser?.parse_statements();
    if dialect.is_exhausted() {
        let message = "the statement can't be read, and too much is nested in it to find out where it goes wrong: \
                       look at its innermost expressions first";
        return Err(DataFusionError::External(Box::new(Error::Statement { message: message.to_owned() })));
    }
    let mut statements = parsed?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(mut statement), true) => {
            move_null_treatments(&mut statement, state);
            Ok(statement)
        }
        (Some(_), false) => Err(DataFusionError::NotImplemented(
            "The context currently only supports a single SQL statement".to_owned(),
        )),
        (None, _) => Err(DataFusionError::Plan("No SQL statements were provided in the query string".to_owned())),
    }
}

/// Bytes of a text that [`can_read`] looks at, and levels of its brackets: few, because it runs wherever something is logged.
const READ_BYTES_MAX: usize = 16 << 10;
const READ_DEPTH_MAX: usize = 50;

/// Whether the parser can read a text as statements. Says no of a text that is very long or deep.
pub(crate) fn can_read(text: &str) -> bool {
    if text.len() > READ_BYTES_MAX {
        return false;
    }
    let (mut limits, dialect) = (TokenLimits::default(), BoundedDialect::of_statement(text));
    let tokens = Tokenizer::new(&dialect, text).tokenize();
    tokens.is_ok_and(|tokens| tokens.iter().all(|token| limits.take(token).is_ok()))
        && DFParserBuilder::new(text)
            .with_dialect(&dialect)
            .with_recursion_limit(READ_DEPTH_MAX)
            .build()
            .is_ok_and(|mut parser| parser.parse_statements().is_ok())
}
