//! Combines aggregates for many values of a key, from `PIVOT` or written out, to one aggregate with a column for each
//! value.
//!
//! `sum(x) FILTER (WHERE k = 'a'), sum(x) FILTER (WHERE k = 'b'), …` compares each row with every value. If enough
//! aggregates differ only in such a value, the engine looks up the value of a row instead. Conditions that they share
//! stay filters.
//!
//! `sum(CASE WHEN k = 'a' THEN x ELSE 0 END)` is the sum of the rows with 'a'; if that is null, it is 0 if there are
//! other rows.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use splay_engine::{Aggregate, AggregateFunction, BinaryOp, Expr as TickExpr, Pivot};

use super::constants::Constants;
use super::recognise::Recogniser;

/// Fewest values of a key for which a look-up pays; a few are compared as fast.
const VALUES_MIN: usize = 8;

/// Most keys that are compared, and most kinds of aggregates of a key.
const KINDS_MAX: usize = 64;

/// A condition of an aggregate that a key equals a value.
struct Equality {
    aggregate: usize,
    value: usize,
    /// The other conditions.
    rest: Option<TickExpr>,
}

/// Aggregates that differ only in the value of a key.
struct Kind {
    /// The aggregate without the condition on the key.
    aggregate: Aggregate,
    /// The positions of the aggregates, and the constants that are their values.
    members: Vec<usize>,
    values: Vec<usize>,
}

impl Recogniser<'_> {
    /// The aggregates to compute in place of the given ones, and the expressions of the given ones over them.
    pub(super) fn in_one_pass(&mut self, aggregates: Vec<Aggregate>) -> (Vec<Aggregate>, Vec<TickExpr>) {
        let before = self.constants.len();
        let columns = |columns: Vec<usize>| columns.into_iter().map(TickExpr::Column).collect::<Vec<_>>();
        if let Some((parts, outputs)) = self.without_zeros(&aggregates) {
            if let Some((made, places)) = self.add_pivots(&parts) {
                let places = columns(places);
                return (made, outputs.iter().map(|output| output.substitute(&places)).collect());
            }
            self.constants.truncate(before);
        }
        match self.add_pivots(&aggregates) {
            Some((made, places)) => (made, columns(places)),
            None => {
                let places = columns((0..aggregates.len()).collect());
                (aggregates, places)
            }
        }
    }

    /// Replaces sums that are 0 if a condition doesn't hold by sums and counts with a filter, and returns the given ones as expressions over these.
    /// `None` if there are few such sums.
    fn without_zeros(&mut self, aggregates: &[Aggregate]) -> Option<(Vec<Aggregate>, Vec<TickExpr>)> {
        let choices: Vec<_> = aggregates.iter().map(|aggregate| self.choice_or_zero(aggregate)).collect();
        if choices.iter().flatten().count() < VALUES_MIN {
            return None;
        }
        let (mut parts, mut outputs) = (Vec::new(), Vec::with_capacity(aggregates.len()));
        // The positions of counts of all rows, by the filter that the aggregates had before.
        let mut counts: Vec<(&Option<TickExpr>, usize)> = Vec::new();
        let count =
            |filter| Aggregate { filter, ..Aggregate::new(AggregateFunction::CountRows, Vec::new(), DataType::Int64) };
        for (aggregate, choices) in aggregates.iter().zip(choices) {
            let Some((condition, value)) = choices else {
                outputs.push(TickExpr::Column(parts.len()));
                parts.push(aggregate.clone());
                continue;
            };
            let same = |one, other| self.constants.are_same(one, other);
            let is_known = |other: &Option<TickExpr>| match (other, &aggregate.filter) {
                (Some(other), Some(filter)) => other.is_same_by(filter, &same),
                (other, filter) => other.is_none() && filter.is_none(),
            };
            let all = match counts.iter().find(|(other, _)| is_known(other)) {
                Some((_, place)) => *place,
                None => {
                    parts.push(count(aggregate.filter.clone()));
                    counts.push((&aggregate.filter, parts.len() - 1));
                    parts.len() - 1
                }
            };
            let filter = Some(match &aggregate.filter {
                Some(filter) => TickExpr::Binary(BinaryOp::And, Box::new(filter.clone()), Box::new(condition)),
                None => condition,
            });
            let sum = TickExpr::Column(parts.len());
            parts.push(Aggregate { arguments: vec![value], filter: filter.clone(), ..aggregate.clone() });
            let own = TickExpr::Column(parts.len());
            parts.push(count(filter));
            let zero = ScalarValue::new_zero(&aggregate.data_type).ok()?;
            let zero = TickExpr::Constant(self.constants.fix(&zero)?);
            let has_others = TickExpr::Binary(BinaryOp::Greater, Box::new(TickExpr::Column(all)), Box::new(own));
            outputs.push(TickExpr::Case {
                branches: vec![(TickExpr::IsNotNull(Box::new(sum.clone())), sum), (has_others, zero)],
                otherwise: None,
                data_type: aggregate.data_type.clone(),
            });
        }
        Some((parts, outputs))
    }

    /// The condition and the value of a sum that is 0 if the condition doesn't hold.
    fn choice_or_zero(&self, aggregate: &Aggregate) -> Option<(TickExpr, TickExpr)> {
        let [argument] = aggregate.arguments.as_slice() else { return None };
        let is_zero = |rest: Option<ScalarValue>| {
            rest.is_some_and(|rest| ScalarValue::new_zero(&rest.data_type()).is_ok_and(|zero| zero == rest))
        };
        match aggregate.function {
            AggregateFunction::Sum => self.choice_or(argument, &is_zero),
            _ => None,
        }
    }

    /// Combines aggregates into pivots, and returns for each given aggregate its column among the new ones; `None` if no key has many values.
    fn add_pivots(&mut self, aggregates: &[Aggregate]) -> Option<(Vec<Aggregate>, Vec<usize>)> {
        if aggregates.len() < VALUES_MIN {
            return None;
        }
        let by_key = equalities(aggregates, &self.constants).into_iter();
        let by_key = by_key.map(|(key, equal_values)| (key, kinds(aggregates, equal_values, &self.constants)));
        // If several keys qualify, the one with most columns is used.
        let columns = |kinds: &[Kind]| kinds.iter().map(|kind| kind.members.len() - 1).sum::<usize>();
        let (key, kinds) = by_key.max_by_key(|(_, kinds)| columns(kinds)).filter(|(_, kinds)| !kinds.is_empty())?;
        let mut kind_of: Vec<Option<usize>> = vec![None; aggregates.len()];
        for (number, kind) in kinds.iter().enumerate() {
            kind.members.iter().for_each(|member| kind_of[*member] = Some(number));
        }
        let mut pivots: Vec<(&[usize], Pivot)> = Vec::new();
        let (mut made, mut columns, mut width) = (Vec::new(), vec![0; aggregates.len()], 0);
        let mut is_made = vec![false; kinds.len()];
        for (number, aggregate) in aggregates.iter().enumerate() {
            let Some(kind_number) = kind_of[number] else {
                columns[number] = width;
                width += 1;
                made.push(aggregate.clone());
                continue;
            };
            if std::mem::replace(&mut is_made[kind_number], true) {
                continue;
            }
            let kind = &kinds[kind_number];
            kind.members.iter().zip(width..).for_each(|(member, column)| columns[*member] = column);
            width += kind.members.len();
            // Kinds with the same values share one look-up.
            let same_values = pivots.iter().find(|(values, _)| are_same(values, &kind.values, &self.constants));
            let pivot = match same_values.map(|(_, pivot)| pivot.clone()) {
                Some(pivot) => pivot,
                None => {
                    let values = self.constants.list(&kind.values);
                    pivots.push((&kind.values, Pivot::new(values, kind.values.len())));
                    pivots.last()?.1.clone()
                }
            };
            let mut aggregate = kind.aggregate.clone();
            aggregate.arguments.push(pivot.place_of(key.clone()));
            aggregate.pivot = Some(pivot);
            made.push(aggregate);
        }
        Some((made, columns))
    }
}

/// The keys that aggregates compare with constants, and the conditions.
fn equalities(aggregates: &[Aggregate], constants: &Constants) -> Vec<(TickExpr, Vec<Equality>)> {
    let same = |one, other| constants.are_same(one, other);
    let mut keys: Vec<(TickExpr, Vec<Equality>)> = Vec::new();
    for (number, aggregate) in aggregates.iter().enumerate() {
        let mut conditions = Vec::new();
        aggregate.filter.iter().for_each(|filter| joined_by_and(filter, &mut conditions));
        for (place, condition) in conditions.iter().enumerate() {
            let Some((key, value)) = equality(condition, constants) else { continue };
            let others = conditions.iter().enumerate().filter(|(other, _)| *other != place);
            let rest = others
                .map(|(_, other)| (*other).clone())
                .reduce(|one, other| TickExpr::Binary(BinaryOp::And, Box::new(one), Box::new(other)));
            let equality = Equality { aggregate: number, value, rest };
            let position = keys.iter().position(|(other, _)| other.is_same_by(key, &same));
            match position {
                // A filter with two values of one key is never true, and isn't an equality with either.
                Some(position) if keys[position].1.last().is_some_and(|last| last.aggregate == number) => {}
                Some(position) => keys[position].1.push(equality),
                None if keys.len() < KINDS_MAX => keys.push((key.clone(), vec![equality])),
                None => {}
            }
        }
    }
    keys
}

/// Combines aggregates that differ only in the value of the key, if there are many of them.
fn kinds(aggregates: &[Aggregate], equalities: Vec<Equality>, constants: &Constants) -> Vec<Kind> {
    let same = |one, other| constants.are_same(one, other);
    let mut kinds: Vec<Kind> = Vec::new();
    for Equality { aggregate: number, value, rest, .. } in equalities {
        let aggregate = Aggregate { filter: rest, ..aggregates[number].clone() };
        let kind_number = kinds.iter().position(|kind| kind.aggregate.is_same_by(&aggregate, &same));
        match kind_number {
            Some(kind_number) => {
                kinds[kind_number].members.push(number);
                kinds[kind_number].values.push(value);
            }
            None if kinds.len() < KINDS_MAX => {
                kinds.push(Kind { aggregate, members: vec![number], values: vec![value] });
            }
            None => {}
        }
    }
    kinds.retain(|kind| kind.members.len() >= VALUES_MIN);
    kinds
}

/// The key that a condition compares with a constant, and the constant's number.
fn equality<'e>(condition: &'e TickExpr, constants: &Constants) -> Option<(&'e TickExpr, usize)> {
    let TickExpr::Binary(BinaryOp::Equal, left, right) = condition else { return None };
    let (key, value) = match (left.as_ref(), right.as_ref()) {
        (TickExpr::Constant(_), TickExpr::Constant(_)) => return None,
        (key, TickExpr::Constant(value)) | (TickExpr::Constant(value), key) => (key, *value),
        _ => return None,
    };
    // A column of a side has as many values as its rows.
    (!constants.is_side(value)).then_some((key, value))
}

fn are_same(one: &[usize], other: &[usize], constants: &Constants) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| constants.are_same(*one, *other))
}

fn joined_by_and<'e>(filter: &'e TickExpr, conditions: &mut Vec<&'e TickExpr>) {
    match filter {
        TickExpr::Binary(BinaryOp::And, left, right) => {
            joined_by_and(left, conditions);
            joined_by_and(right, conditions);
        }
        other => conditions.push(other),
    }
}
