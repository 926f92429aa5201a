//! Converts DataFusion's expressions to the engine's. DataFusion has resolved types; an expression without a
//! counterpart is reported by name.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, ScalarValue};
use datafusion::logical_expr::expr::{Case, InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, Volatility};
use splay_engine::{BinaryOp, Expr as TickExpr, ValueList};
use splay_functions::walk::Walk;
use splay_functions::{AT_ZONE, is_of_instants};

use super::calls::ScalarCall;
use super::constants::Constants;
use super::expressions::{Argument, Expression, argument};
use crate::bounds::growing;
use crate::lifted_literals::{is_parameter, parameter_number};
use crate::operator_call;

/// Most items of a list that aren't constants; they are compared one by one.
const COMPUTED_ITEMS_MAX: usize = 32;

/// The reason why the engine can't run an expression, in words for `EXPLAIN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnsupportedExpr(pub String);

pub(super) fn unknown<T>(what: impl Into<String>) -> Result<T, UnsupportedExpr> {
    Err(UnsupportedExpr(what.into()))
}

/// The expression of dictionary codes below a cast that only decodes them to text; any other expression as it is.
pub(super) fn without_decoding<'e>(expr: &'e Expr, schema: &DFSchema) -> &'e Expr {
    match expr {
        Expr::Cast(cast)
            if *cast.field.data_type() == DataType::Utf8
                && matches!(cast.expr.get_type(schema), Ok(DataType::Dictionary(_, texts)) if *texts == DataType::Utf8) =>
        {
            &cast.expr
        }
        _ => expr,
    }
}

/// Converts expressions over one schema.
pub(super) struct Converter<'a> {
    pub constants: &'a mut Constants,
    pub options: &'a Arc<ConfigOptions>,
    /// Replacements of sub-queries in expressions.
    pub queries: &'a [(Expr, TickExpr)],
}

impl Converter<'_> {
    /// Converts an expression over the columns of `schema`.
    pub fn convert(&mut self, expr: &Expr, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        let data_type = |expr: &Expr| type_of(expr, schema);
        Ok(match expr {
            Expr::Alias(alias) => self.convert(&alias.expr, schema)?,
            Expr::Column(column) => match schema.index_of_column(column) {
                Ok(position) => TickExpr::Column(position),
                Err(error) => return unknown(error.to_string()),
            },
            Expr::Literal(value, _) => match parameter_number(expr) {
                Some(number) => TickExpr::Constant(self.constants.parameter(number)),
                None => self.fix(value)?,
            },
            Expr::BinaryExpr(binary) => match (operation(binary.op), operator_call::function_of(binary.op)) {
                (Some(op), _) => self.binary(op, binary, schema)?,
                // As a function, the size of its result is bounded.
                (None, Some(function)) if binary.op == Operator::StringConcat => {
                    let call = function.call(vec![binary.left.as_ref().clone(), binary.right.as_ref().clone()]);
                    self.convert(&call, schema)?
                }
                _ => self.strict(expr, schema)?,
            },
            Expr::Not(expr) => TickExpr::Not(Box::new(self.convert(expr, schema)?)),
            Expr::IsNull(expr) => TickExpr::IsNull(Box::new(self.convert(expr, schema)?)),
            Expr::IsNotNull(expr) => TickExpr::IsNotNull(Box::new(self.convert(expr, schema)?)),
            Expr::Negative(inner) => {
                if !data_type(inner)?.is_numeric() {
                    return self.strict(expr, schema);
                }
                TickExpr::Negative(Box::new(self.convert(inner, schema)?))
            }
            Expr::Cast(cast) => {
                let (from, to) = (data_type(&cast.expr)?, cast.field.data_type());
                let inner = self.convert(&cast.expr, schema)?;
                self.cast(inner, &from, to)?
            }
            Expr::Between(between) => {
                let value = self.side(&between.expr, schema)?;
                let (low, high) = (self.side(&between.low, schema)?, self.side(&between.high, schema)?);
                let above = both(BinaryOp::GreaterOrEqual, value.clone(), low);
                let within = both(BinaryOp::And, above, both(BinaryOp::LessOrEqual, value, high));
                if between.negated { TickExpr::Not(Box::new(within)) } else { within }
            }
            Expr::InList(list) => self.list(list, schema)?,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) => {
                match self.queries.iter().find(|(query, _)| query == expr) {
                    Some((_, replacement)) => replacement.clone(),
                    None => return unknown("a sub-query in this place of an expression"),
                }
            }
            Expr::Case(case) => self.case(case, expr, schema)?,
            Expr::Like(_)
            | Expr::SimilarTo(_)
            | Expr::TryCast(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_) => self.strict(expr, schema)?,
            Expr::ScalarFunction(call) => self.call(call, expr, schema)?,
            other => return unknown(format!("the expression {other}")),
        })
    }

    fn fix(&mut self, value: &ScalarValue) -> Result<TickExpr, UnsupportedExpr> {
        match self.constants.fix(value) {
            Some(number) => Ok(TickExpr::Constant(number)),
            None => unknown(format!("the literal {value}, which has no Arrow value")),
        }
    }

    fn cast(&mut self, inner: TickExpr, from: &DataType, to: &DataType) -> Result<TickExpr, UnsupportedExpr> {
        if from == to {
            return Ok(inner);
        }
        if let TickExpr::Constant(number) = inner {
            return match self.constants.cast(number, to) {
                Some(number) => Ok(TickExpr::Constant(number)),
                None if self.constants.is_side(number) => Ok(TickExpr::Cast(Box::new(inner), to.clone())),
                None => unknown(format!("a literal that can't be cast to {to}")),
            };
        }
        Ok(TickExpr::Cast(Box::new(inner), to.clone()))
    }

    fn binary(&mut self, op: BinaryOp, binary: &BinaryExpr, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        let computes = matches!(
            op,
            BinaryOp::Add
                | BinaryOp::Subtract
                | BinaryOp::Multiply
                | BinaryOp::Divide
                | BinaryOp::Remainder
                | BinaryOp::And
                | BinaryOp::Or
        );
        let (left, right) = match computes {
            true => (self.convert(&binary.left, schema)?, self.convert(&binary.right, schema)?),
            false => (self.side(&binary.left, schema)?, self.side(&binary.right, schema)?),
        };
        Ok(both(op, left, right))
    }

    /// Converts a side of a comparison. A dictionary isn't decoded: the kernel compares each of its texts once.
    fn side(&mut self, expr: &Expr, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        self.convert(without_decoding(expr, schema), schema)
    }

    fn list(&mut self, list: &InList, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        let value = self.side(&list.expr, schema)?;
        let negated = |any: TickExpr| if list.negated { TickExpr::Not(Box::new(any)) } else { any };
        let data_type = type_of(&list.expr, schema)?;
        // Texts are looked for in one form.
        let (value, text) = match data_type {
            DataType::Utf8View | DataType::LargeUtf8 => {
                (self.cast(value, &data_type, &DataType::Utf8)?, Some(DataType::Utf8))
            }
            _ => (value, None),
        };
        if ValueList::takes(text.as_ref().unwrap_or(&data_type))
            && let Some(values) = self.list_of_constants(&list.list, text.as_ref(), schema)?
        {
            return Ok(negated(TickExpr::In(Box::new(value), Arc::new(ValueList::new(values)))));
        }
        // The only item may stand for a list that was lifted as a whole.
        let is_lifted = match list.list.as_slice() {
            [only] => only.exists(|part| Ok(is_parameter(part))).unwrap_or(true),
            _ => false,
        };
        let (fixed, computed) = match is_lifted {
            true => (Vec::new(), Vec::new()),
            false => self.split_items(list, text.as_ref().unwrap_or(&data_type), schema)?,
        };
        // DataFusion's list compares the bits of floats, of which equal ones may differ.
        let is_strict = is_lifted || computed.len() > COMPUTED_ITEMS_MAX && !data_type.is_floating();
        if list.list.is_empty() || is_strict {
            return self.strict(&Expr::InList(list.clone()), schema);
        }
        let mut tests = Vec::with_capacity(computed.len() + 1);
        if !fixed.is_empty() {
            let Some(values) = self.list_of_constants(&fixed, text.as_ref(), schema)? else {
                return unknown("an IN list whose literals don't form one column");
            };
            tests.push(TickExpr::In(Box::new(value.clone()), Arc::new(ValueList::new(values))));
        }
        for item in &computed {
            let mut of_item = self.side(item, schema)?;
            if let Some(text) = &text {
                of_item = self.cast(of_item, &type_of(item, schema)?, text)?;
            }
            tests.push(both(BinaryOp::Equal, value.clone(), of_item));
        }
        any_of(tests).map_or_else(|| unknown("an empty IN list"), |any| Ok(negated(any)))
    }

    /// The items of a list that are constants, and those that are computed. Constants of a type that can't be looked up are among these.
    fn split_items(
        &mut self,
        list: &InList,
        data_type: &DataType,
        schema: &DFSchema,
    ) -> Result<(Vec<Expr>, Vec<Expr>), UnsupportedExpr> {
        let (mut fixed, mut computed) = (Vec::new(), Vec::new());
        for item in &list.list {
            let before = self.constants.len();
            let number = match ValueList::takes(data_type) {
                true => self.list_of_constants(std::slice::from_ref(item), None, schema)?,
                false => None,
            };
            let is_fixed = number.is_some_and(|number| !self.constants.is_side(number));
            self.constants.truncate(before);
            if is_fixed { fixed.push(item.clone()) } else { computed.push(item.clone()) }
        }
        Ok((fixed, computed))
    }

    /// The constant that holds all items of a list, as values of a type if one is given; `None` if one of them isn't constant.
    pub fn list_of_constants(
        &mut self,
        items: &[Expr],
        data_type: Option<&DataType>,
        schema: &DFSchema,
    ) -> Result<Option<usize>, UnsupportedExpr> {
        if items.is_empty() || items.iter().any(|item| item.any_column_refs()) {
            return Ok(None);
        }
        let before = self.constants.len();
        let mut numbers = Vec::with_capacity(items.len());
        for item in items {
            let value = self.side(item, schema)?;
            let value = match data_type {
                Some(data_type) => self.cast(value, &type_of(item, schema)?, data_type)?,
                None => value,
            };
            match value {
                TickExpr::Constant(number) => numbers.push(number),
                _ => {
                    self.constants.truncate(before);
                    return Ok(None);
                }
            }
        }
        if numbers.len() > 1 && numbers.iter().any(|number| self.constants.is_side(*number)) {
            self.constants.truncate(before);
            return Ok(None);
        }
        let list = self.constants.list(&numbers);
        Ok(Some(self.constants.replace_from(before, list)))
    }

    /// A CASE. If something may fail that not all rows need, DataFusion evaluates it, which skips branches that aren't needed. If only arithmetic and
    /// functions of numbers and times may fail there, the engine evaluates it, and after a failure computes only what the rows need.
    fn case(&mut self, case: &Case, expr: &Expr, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        // The first condition is evaluated for all rows. The compared operand is evaluated again for each condition.
        let (first, rest) = case.when_then_expr.split_at(case.when_then_expr.len().min(1));
        let of_first = first.iter().map(|(_, then)| then);
        let of_rest =
            rest.iter().flat_map(|(when, then)| [when, then]).chain(case.expr.iter().filter(|_| !rest.is_empty()));
        let mut asked_by_some = of_first.chain(of_rest).chain(&case.else_expr);
        if asked_by_some.any(|expr| may_fail(expr, schema) && !is_arithmetic(expr, schema)) {
            return self.lazy(expr, schema);
        }
        let result = type_of(expr, schema)?;
        let mut branches = Vec::new();
        for (when, then) in &case.when_then_expr {
            let condition = match &case.expr {
                Some(subject) => both(BinaryOp::Equal, self.side(subject, schema)?, self.side(when, schema)?),
                None => self.convert(when, schema)?,
            };
            branches.push((condition, self.value_of(then, &result, schema)?));
        }
        let otherwise = match &case.else_expr {
            Some(expr) => Some(Box::new(self.value_of(expr, &result, schema)?)),
            None => None,
        };
        Ok(TickExpr::Case { branches, otherwise, data_type: result })
    }

    /// Converts a value to the type of the other branches.
    fn value_of(&mut self, expr: &Expr, result: &DataType, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        let value = self.convert(expr, schema)?;
        self.cast(value, &type_of(expr, schema)?, result)
    }

    /// The first value that isn't null; each value but the last is checked.
    fn coalesce(&mut self, args: &[Expr], result: &DataType, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.value_of(arg, result, schema)?);
        }
        let otherwise = values.pop().map(Box::new);
        let branches = values.into_iter().map(|value| (TickExpr::IsNotNull(Box::new(value.clone())), value)).collect();
        Ok(TickExpr::Case { branches, otherwise, data_type: result.clone() })
    }

    /// A value, unless it equals another one.
    fn nullif(&mut self, value: &Expr, other: &Expr, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        let data_type = type_of(value, schema)?;
        let (value, other) = (self.convert(value, schema)?, self.convert(other, schema)?);
        let null = self.fix(&ScalarValue::try_from(&data_type).map_err(unsupported)?)?;
        let is_equal = TickExpr::Binary(BinaryOp::Equal, Box::new(value.clone()), Box::new(other));
        let branches = vec![(is_equal, null)];
        Ok(TickExpr::Case { branches, otherwise: Some(Box::new(value)), data_type })
    }

    fn call(&mut self, call: &ScalarFunction, expr: &Expr, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        let name = call.func.name();
        let of_operator = operator_call::operator_of(&call.func).filter(|op| *op != Operator::StringConcat);
        if let (Some(op), [left, right]) = (of_operator, call.args.as_slice()) {
            let binary = BinaryExpr::new(Box::new(left.clone()), op, Box::new(right.clone()));
            return self.convert(&Expr::BinaryExpr(binary), schema);
        }
        if name == AT_ZONE {
            return unknown("AT TIME ZONE with a parameter as the zone");
        }
        check_functions(expr)?;
        if name == "coalesce" && !call.args.iter().any(|arg| may_fail(arg, schema) && !is_arithmetic(arg, schema)) {
            return self.coalesce(&call.args, &type_of(expr, schema)?, schema);
        }
        if let ("nullif", [value, other]) = (name, call.args.as_slice())
            && !may_fail(value, schema)
            && let (Ok(of), Ok(of_other)) = (value.get_type(schema), other.get_type(schema))
            && of == of_other
            && !of.is_floating()
        {
            return self.nullif(value, other, schema);
        }
        if call.func.short_circuits() {
            return self.lazy(expr, schema);
        }
        if is_rewritten(name) {
            return self.strict(expr, schema);
        }
        let field = |expr: &Expr| -> Result<FieldRef, UnsupportedExpr> {
            expr.to_field(schema).map(|(_, field)| field).map_err(unsupported)
        };
        let fields = call.args.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        let result = field(expr)?;
        let arguments = call.args.iter().map(|arg| self.convert(arg, schema)).collect::<Result<Vec<_>, _>>()?;
        if let ([TickExpr::Constant(number)], true) = (arguments.as_slice(), is_of_instants(&call.func))
            && let Some(number) = self.constants.cast(*number, result.data_type())
        {
            return Ok(TickExpr::Constant(number));
        }
        let function = ScalarCall {
            function: Arc::clone(&call.func),
            arguments: fields,
            result,
            options: Arc::clone(self.options),
        };
        Ok(TickExpr::Call(Arc::new(function), arguments))
    }

    /// An expression that evaluates all its parts: DataFusion's kernels, over those parts that read columns.
    fn strict(&mut self, expr: &Expr, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        check_functions(expr)?;
        let mut parts = ExtractedParts::default();
        let remainder = expr.clone().map_children(|part| {
            if part.any_column_refs() {
                let data_type = part.get_type(schema)?;
                return Ok(Transformed::yes(parts.add(part, Argument::Values, data_type)));
            }
            // Patterns and similar arguments stay in place, except for parameters.
            part.transform_up(|part| parts.take_parameter(part))
        });
        self.expression(remainder.map_err(unsupported)?.data, parts, expr, schema)
    }

    /// An expression that may skip some of its parts: DataFusion's kernels for the whole, over the columns that it reads.
    fn lazy(&mut self, expr: &Expr, schema: &DFSchema) -> Result<TickExpr, UnsupportedExpr> {
        let is_query = |expr: &Expr| {
            matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::ScalarSubquery(_))
        };
        if expr
            .exists(|expr| Ok(is_query(expr) || matches!(expr, Expr::OuterReferenceColumn(_, _))))
            .map_err(unsupported)?
        {
            return unknown(format!("the expression {expr}"));
        }
        check_functions(expr)?;
        let mut parts = ExtractedParts::default();
        let remainder = expr.clone().transform_up(|part| match part {
            part @ Expr::Column(_) => {
                let data_type = part.get_type(schema)?;
                Ok(Transformed::yes(parts.add(part, Argument::Values, data_type)))
            }
            part => parts.take_parameter(part),
        });
        self.expression(remainder.map_err(unsupported)?.data, parts, expr, schema)
    }

    /// The call of an expression over the parts that were extracted.
    fn expression(
        &mut self,
        remainder: Expr,
        parts: ExtractedParts,
        expr: &Expr,
        schema: &DFSchema,
    ) -> Result<TickExpr, UnsupportedExpr> {
        let result = type_of(expr, schema)?;
        let mut arguments = Vec::with_capacity(parts.parts.len());
        for part in &parts.parts {
            arguments.push(self.convert(part, schema)?);
        }
        let expression = Expression::new(remainder, parts.arguments, result, self.options);
        let expression = expression.map_err(|error| UnsupportedExpr(format!("the expression {expr}: {error}")))?;
        Ok(TickExpr::Call(Arc::new(expression), arguments))
    }
}

/// Parts that were taken out of an expression, each once.
#[derive(Default)]
struct ExtractedParts {
    parts: Vec<Expr>,
    arguments: Vec<(Argument, DataType)>,
}

impl ExtractedParts {
    /// Adds an argument, and returns the column that represents it.
    fn add(&mut self, part: Expr, kind: Argument, data_type: DataType) -> Expr {
        let position = self.parts.iter().position(|other| *other == part);
        argument(position.unwrap_or_else(|| {
            self.parts.push(part);
            self.arguments.push((kind, data_type));
            self.parts.len() - 1
        }))
    }

    /// Extracts a lifted literal.
    fn take_parameter(&mut self, part: Expr) -> Result<Transformed<Expr>, DataFusionError> {
        match (parameter_number(&part), &part) {
            (Some(_), Expr::Literal(value, _)) => {
                let data_type = value.data_type();
                Ok(Transformed::yes(self.add(part, Argument::Parameter, data_type)))
            }
            _ => Ok(Transformed::no(part)),
        }
    }
}

/// The engine's operator.
fn operation(op: Operator) -> Option<BinaryOp> {
    Some(match op {
        Operator::Plus => BinaryOp::Add,
        Operator::Minus => BinaryOp::Subtract,
        Operator::Multiply => BinaryOp::Multiply,
        Operator::Divide => BinaryOp::Divide,
        Operator::Modulo => BinaryOp::Remainder,
        Operator::Eq => BinaryOp::Equal,
        Operator::NotEq => BinaryOp::NotEqual,
        Operator::Lt => BinaryOp::Less,
        Operator::LtEq => BinaryOp::LessOrEqual,
        Operator::Gt => BinaryOp::Greater,
        Operator::GtEq => BinaryOp::GreaterOrEqual,
        Operator::And => BinaryOp::And,
        Operator::Or => BinaryOp::Or,
        _ => return None,
    })
}

/// Functions that are never called, because DataFusion replaces them by other expressions.
fn is_rewritten(name: &str) -> bool {
    matches!(name, "arrow_cast" | "arrow_try_cast" | "cast_to_type" | "try_cast_to_type")
}

/// Refuses functions whose value changes from call to call, or may be far larger than the arguments.
fn check_functions(expr: &Expr) -> Result<(), UnsupportedExpr> {
    if let Some(name) = growing(expr).map_err(unsupported)? {
        return unknown(format!("{name}, whose result may be far larger than its arguments"));
    }
    let mut changing = None;
    let walk = expr.exists(|expr| {
        if let Expr::ScalarFunction(call) = expr
            && call.func.signature().volatility != Volatility::Immutable
        {
            changing = Some(call.func.name().to_owned());
        }
        Ok(changing.is_some())
    });
    walk.map_err(unsupported)?;
    match changing {
        Some(name) => unknown(format!("{name}, whose value changes from call to call")),
        None => Ok(()),
    }
}

/// Whether an expression consists only of comparisons, choices, arithmetic and functions of numbers and times, which are cheap enough to compute for
/// rows that don't need them.
fn is_arithmetic(expr: &Expr, schema: &DFSchema) -> bool {
    let all = |exprs: &[&Expr]| exprs.iter().all(|expr| is_arithmetic(expr, schema));
    let is_number = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| of.is_numeric());
    let is_number_or_time = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| of.is_numeric() || of.is_temporal());
    match expr {
        Expr::Negative(inner) => is_number(inner) && all(&[inner]),
        Expr::Cast(cast) if cast.field.data_type().is_numeric() => is_number(&cast.expr) && all(&[&cast.expr]),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => operation(*op).is_some() && all(&[left, right]),
        Expr::Case(case) => {
            let branches = case.when_then_expr.iter().all(|(when, then)| all(&[when, then]));
            branches && case.expr.iter().chain(&case.else_expr).all(|expr| is_arithmetic(expr, schema))
        }
        Expr::ScalarFunction(call) if operator_call::operator_of(&call.func).is_some() => {
            call.args.iter().all(|arg| is_number(arg) && is_arithmetic(arg, schema))
        }
        Expr::ScalarFunction(call) if !call.func.short_circuits() && is_number_or_time(expr) => {
            call.args.iter().all(|arg| {
                let is_literal = matches!(arg, Expr::Literal(_, _));
                is_literal || is_number_or_time(arg) && is_arithmetic(arg, schema)
            })
        }
        other => !may_fail(other, schema),
    }
}

/// Whether an expression may fail for some values, or costs more than selecting the rows that need it.
fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    let any = |exprs: &[&Expr]| exprs.iter().any(|expr| may_fail(expr, schema));
    let is =
        |expr: &Expr, is_type: fn(&DataType) -> bool| expr.get_type(schema).is_ok_and(|data_type| is_type(&data_type));
    match expr {
        Expr::Column(_) | Expr::Literal(_, _) => false,
        Expr::Alias(alias) => any(&[&alias.expr]),
        Expr::Not(inner) | Expr::IsNull(inner) | Expr::IsNotNull(inner) => any(&[inner]),
        Expr::Between(between) => any(&[&between.expr, &between.low, &between.high]),
        Expr::InList(list) => any(&[&list.expr]) || list.list.iter().any(|item| may_fail(item, schema)),
        Expr::Like(like) => any(&[&like.expr, &like.pattern]),
        Expr::Negative(inner) => !is(inner, DataType::is_floating) || any(&[inner]),
        Expr::Cast(cast) => {
            let to = cast.field.data_type();
            let passes = matches!(*cast.expr, Expr::Literal(_, _))
                || *to == DataType::Int64 && is(&cast.expr, |from| from.is_integer() && *from != DataType::UInt64)
                || *to == DataType::Float64 && is(&cast.expr, DataType::is_numeric)
                || *to == DataType::Utf8 && is(&cast.expr, |from| matches!(from, DataType::Dictionary(_, _)));
            !passes || any(&[&cast.expr])
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let is_number = |expr: &Expr| is(expr, |of| of.is_integer() || of.is_floating());
            let fails = match operation(*op) {
                Some(BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply) => !is_number(left) || !is_number(right),
                Some(BinaryOp::Divide | BinaryOp::Remainder) => {
                    !is(left, DataType::is_floating) || !is(right, DataType::is_floating)
                }
                Some(_) => false,
                None => !matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom),
            };
            fails || any(&[left, right])
        }
        Expr::Case(case) => {
            let branches = case.when_then_expr.iter().any(|(when, then)| any(&[when, then]));
            branches || case.expr.iter().chain(&case.else_expr).any(|expr| may_fail(expr, schema))
        }
        Expr::ScalarFunction(call) if call.func.name() == "coalesce" => {
            call.args.iter().any(|arg| may_fail(arg, schema))
        }
        _ => true,
    }
}

fn unsupported(error: DataFusionError) -> UnsupportedExpr {
    UnsupportedExpr(error.to_string())
}

fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType, UnsupportedExpr> {
    expr.get_type(schema).map_err(unsupported)
}

fn both(op: BinaryOp, left: TickExpr, right: TickExpr) -> TickExpr {
    TickExpr::Binary(op, Box::new(left), Box::new(right))
}

/// Whether any of some conditions holds, as a tree that is no deeper than it has to be.
fn any_of(mut conditions: Vec<TickExpr>) -> Option<TickExpr> {
    while conditions.len() > 1 {
        let mut rest = conditions.into_iter();
        let mut pairs = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(one) = rest.next() {
            pairs.push(match rest.next() {
                Some(other) => both(BinaryOp::Or, one, other),
                None => one,
            });
        }
        conditions = pairs;
    }
    conditions.pop()
}
