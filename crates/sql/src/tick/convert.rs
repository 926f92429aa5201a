//! DataFusion's expressions as the engine's. Types were settled by DataFusion; what has no counterpart is named.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, Volatility};
use splay_engine::{BinaryOp, Expr as TickExpr};

use super::calls::ScalarCall;
use super::constants::Constants;
use super::shape::LIFTED;
use crate::bounds::makes_more;
use crate::operator_call;

/// Longest list that is compared value by value.
const LIST_MAX: usize = 32;

/// What the engine can't do, in words for `explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unknown(pub String);

pub(super) fn unknown<T>(what: impl Into<String>) -> Result<T, Unknown> {
    Err(Unknown(what.into()))
}

/// Converts expressions over one schema.
pub(super) struct Converter<'a> {
    pub constants: &'a mut Constants,
    pub options: &'a Arc<ConfigOptions>,
}

impl Converter<'_> {
    /// The expression over the columns of `schema`.
    pub fn convert(&mut self, expr: &Expr, schema: &DFSchema) -> Result<TickExpr, Unknown> {
        let data_type = |expr: &Expr| type_of(expr, schema);
        Ok(match expr {
            Expr::Alias(alias) => self.convert(&alias.expr, schema)?,
            Expr::Column(column) => match schema.index_of_column(column) {
                Ok(position) => TickExpr::Column(position),
                Err(error) => return unknown(error.to_string()),
            },
            Expr::Literal(value, metadata) => {
                let lifted = metadata.as_ref().and_then(|metadata| metadata.inner().get(LIFTED));
                match lifted.and_then(|number| number.parse().ok()) {
                    Some(number) => TickExpr::Constant(self.constants.parameter(number)),
                    None => self.fix(value)?,
                }
            }
            Expr::BinaryExpr(binary) => self.binary(binary, schema)?,
            Expr::Not(expr) => TickExpr::Not(Box::new(self.convert(expr, schema)?)),
            Expr::IsNull(expr) => TickExpr::IsNull(Box::new(self.convert(expr, schema)?)),
            Expr::IsNotNull(expr) => TickExpr::IsNotNull(Box::new(self.convert(expr, schema)?)),
            Expr::Negative(inner) => {
                if !data_type(inner)?.is_numeric() {
                    return unknown("a negation of something that is no number");
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
            Expr::Case(case) => {
                let result = data_type(expr)?;
                let mut branches = Vec::new();
                for (when, then) in &case.when_then_expr {
                    let when_value = self.convert(when, schema)?;
                    let condition = match &case.expr {
                        Some(subject) => both(BinaryOp::Equal, self.convert(subject, schema)?, when_value),
                        None => when_value,
                    };
                    let from = data_type(then)?;
                    let then = self.convert(then, schema)?;
                    branches.push((condition, self.cast(then, &from, &result)?));
                }
                let otherwise = match &case.else_expr {
                    Some(expr) => {
                        let from = data_type(expr)?;
                        let otherwise = self.convert(expr, schema)?;
                        Some(Box::new(self.cast(otherwise, &from, &result)?))
                    }
                    None => None,
                };
                TickExpr::Case { branches, otherwise, data_type: result }
            }
            Expr::ScalarFunction(call) => self.call(call, expr, schema)?,
            other => return unknown(format!("the expression {other}")),
        })
    }

    fn fix(&mut self, value: &ScalarValue) -> Result<TickExpr, Unknown> {
        match self.constants.fix(value) {
            Some(number) => Ok(TickExpr::Constant(number)),
            None => unknown(format!("the literal {value}")),
        }
    }

    fn cast(&mut self, inner: TickExpr, from: &DataType, to: &DataType) -> Result<TickExpr, Unknown> {
        if from == to {
            return Ok(inner);
        }
        if let TickExpr::Constant(number) = inner {
            return match self.constants.cast(number, to) {
                Some(number) => Ok(TickExpr::Constant(number)),
                None => unknown(format!("a literal as {to}")),
            };
        }
        Ok(TickExpr::Cast(Box::new(inner), to.clone()))
    }

    fn binary(&mut self, binary: &BinaryExpr, schema: &DFSchema) -> Result<TickExpr, Unknown> {
        let op = match binary.op {
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
            other => return unknown(format!("the operator {other}")),
        };
        let compares = !matches!(
            op,
            BinaryOp::Add
                | BinaryOp::Subtract
                | BinaryOp::Multiply
                | BinaryOp::Divide
                | BinaryOp::Remainder
                | BinaryOp::And
                | BinaryOp::Or
        );
        let (left, right) = match compares {
            true => (self.side(&binary.left, schema)?, self.side(&binary.right, schema)?),
            false => (self.convert(&binary.left, schema)?, self.convert(&binary.right, schema)?),
        };
        Ok(both(op, left, right))
    }

    /// A side of a comparison. A dictionary is compared as it is: the kernel looks at each of its texts once.
    fn side(&mut self, expr: &Expr, schema: &DFSchema) -> Result<TickExpr, Unknown> {
        if let Expr::Cast(cast) = expr
            && *cast.field.data_type() == DataType::Utf8
            && let Ok(DataType::Dictionary(_, values)) = cast.expr.get_type(schema)
            && *values == DataType::Utf8
        {
            return self.convert(&cast.expr, schema);
        }
        self.convert(expr, schema)
    }

    fn list(&mut self, list: &InList, schema: &DFSchema) -> Result<TickExpr, Unknown> {
        if list.list.is_empty() || list.list.len() > LIST_MAX {
            return unknown(format!("a list of {} values", list.list.len()));
        }
        let value = self.side(&list.expr, schema)?;
        let mut any: Option<TickExpr> = None;
        for item in &list.list {
            let equal = both(BinaryOp::Equal, value.clone(), self.side(item, schema)?);
            any = Some(match any {
                Some(known) => both(BinaryOp::Or, known, equal),
                None => equal,
            });
        }
        match any {
            Some(any) if list.negated => Ok(TickExpr::Not(Box::new(any))),
            Some(any) => Ok(any),
            None => unknown("an empty list"),
        }
    }

    /// The first value that isn't null, each but the last asked for.
    fn coalesce(&mut self, args: &[Expr], result: &DataType, schema: &DFSchema) -> Result<TickExpr, Unknown> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            let value = self.convert(arg, schema)?;
            values.push(self.cast(value, &type_of(arg, schema)?, result)?);
        }
        let otherwise = values.pop().map(Box::new);
        let branches = values.into_iter().map(|value| (TickExpr::IsNotNull(Box::new(value.clone())), value)).collect();
        Ok(TickExpr::Case { branches, otherwise, data_type: result.clone() })
    }

    fn call(&mut self, call: &ScalarFunction, expr: &Expr, schema: &DFSchema) -> Result<TickExpr, Unknown> {
        let name = call.func.name();
        if call.func.signature().volatility != Volatility::Immutable {
            return unknown(format!("{name}, whose value changes from call to call"));
        }
        if let (Some(op), [left, right]) = (operator_call::operator_of(&call.func), call.args.as_slice()) {
            let binary = BinaryExpr::new(Box::new(left.clone()), op, Box::new(right.clone()));
            return self.binary(&binary, schema);
        }
        if makes_more(call) {
            return unknown(format!("{name}, whose result may be far larger than its arguments, or take long"));
        }
        if name == "coalesce" {
            return self.coalesce(&call.args, &type_of(expr, schema)?, schema);
        }
        if call.func.short_circuits() {
            return unknown(format!("{name}, which doesn't evaluate all its arguments"));
        }
        let field = |expr: &Expr| -> Result<FieldRef, Unknown> {
            expr.to_field(schema).map(|(_, field)| field).map_err(|error| Unknown(error.to_string()))
        };
        let fields = call.args.iter().map(field).collect::<Result<Vec<_>, _>>()?;
        let result = field(expr)?;
        let arguments = call.args.iter().map(|arg| self.convert(arg, schema)).collect::<Result<Vec<_>, _>>()?;
        let function = ScalarCall {
            function: Arc::clone(&call.func),
            arguments: fields,
            result,
            options: Arc::clone(self.options),
        };
        Ok(TickExpr::Call(Arc::new(function), arguments))
    }
}

fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType, Unknown> {
    expr.get_type(schema).map_err(|error| Unknown(error.to_string()))
}

fn both(op: BinaryOp, left: TickExpr, right: TickExpr) -> TickExpr {
    TickExpr::Binary(op, Box::new(left), Box::new(right))
}
