//! Comparisons in a column's own type. SQL widens a column beside a literal: an `int8` to an `int64`, a `float32` to
//! a `float64`. Instead the literal is narrowed, so no row is converted, and block summaries, which have the column's
//! type, can exclude blocks.
//!
//! A literal that the type can't represent lies between two of its values or beyond all of them: the comparison then
//! uses a neighbour, or has the same result for all rows that aren't null.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, new_empty_array, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use crate::binary_op::BinaryOp;
use crate::error::Result;

/// A comparison of a widened value with a constant, restated for the value in its own type.
#[derive(Debug, Clone)]
pub enum OwnComparison {
    /// The value compares so with this constant of its own type.
    With(BinaryOp, ArrayRef),
    /// The comparison gives this truth value for every value that isn't null.
    Always(bool),
}

/// The bound below which a `float64` represents every whole number.
const EXACT_IN_FLOAT: f64 = 9_007_199_254_740_991.0;

/// The place of a constant among the values of a type.
enum ConstantPlace {
    Below,
    Above,
    /// At a value, or between it and the next greater or lesser one.
    At(ArrayRef),
    OverIt(ArrayRef),
    UnderIt(ArrayRef),
}

/// Restates `cast(value) op constant`, where the constant is of the wider type, as a comparison in the type `own`; `None` if the types don't allow it
/// or the constant is null.
#[must_use]
pub fn own_comparison(op: BinaryOp, own: &DataType, constant: &ArrayRef) -> Option<OwnComparison> {
    use BinaryOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    if !matches!(op, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual) || constant.len() != 1 {
        return None;
    }
    let always = |holds: bool| Some(OwnComparison::Always(holds));
    let with = |op: BinaryOp, value: ArrayRef| Some(OwnComparison::With(op, value));
    match (place(own, constant, 0)?, op) {
        (ConstantPlace::At(value), op) => with(op, value),
        (ConstantPlace::Below, Less | LessOrEqual | Equal)
        | (ConstantPlace::Above, Greater | GreaterOrEqual | Equal) => always(false),
        (ConstantPlace::Below | ConstantPlace::Above, _) => always(true),
        (ConstantPlace::OverIt(_) | ConstantPlace::UnderIt(_), Equal) => always(false),
        (ConstantPlace::OverIt(_) | ConstantPlace::UnderIt(_), NotEqual) => always(true),
        (ConstantPlace::OverIt(value), Less | LessOrEqual) => with(LessOrEqual, value),
        (ConstantPlace::OverIt(value), _) => with(Greater, value),
        (ConstantPlace::UnderIt(value), Less | LessOrEqual) => with(Less, value),
        (ConstantPlace::UnderIt(value), _) => with(GreaterOrEqual, value),
    }
}

/// The values of a list that values of a type can equal, and null if the list has one; `None` if the types don't allow it.
pub(crate) fn own_list(own: &DataType, list: &ArrayRef) -> Result<Option<ArrayRef>> {
    let mut values: Vec<ArrayRef> = vec![new_empty_array(own)];
    for row in (0..list.len()).filter(|row| list.is_valid(*row)) {
        match place(own, list, row) {
            Some(ConstantPlace::At(value)) => values.push(value),
            Some(_) => {}
            None => return Ok(None),
        }
    }
    if list.null_count() > 0 {
        values.push(new_null_array(own, 1));
    }
    let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    Ok(Some(concat(&values)?))
}

/// A constant, in the type that it has.
enum OwnNumber {
    Whole(i128),
    Float(f64),
    /// Digits, and how many of them are after the decimal point.
    Decimal(i128, i8),
}

/// Whether each value of type `own` converts to an equal or near value of type `wide`, without a change of order.
fn widens(own: &DataType, wide: &DataType) -> bool {
    let whole = |of: &DataType| of.is_integer().then(|| (of.is_signed_integer(), of.primitive_width().unwrap_or(0)));
    match (own, wide) {
        (DataType::Float32, DataType::Float64) => true,
        (DataType::Decimal128(own, own_scale), DataType::Decimal128(wide, scale)) => {
            let before_point = |precision: &u8, scale: &i8| i16::from(*precision) - i16::from(*scale);
            (0..=*scale).contains(own_scale) && before_point(wide, scale) >= before_point(own, own_scale)
        }
        (own, DataType::Decimal128(precision, scale)) => {
            let digits = whole(own).map(|(_, bytes)| [3, 5, 10, 20][bytes.max(1).ilog2() as usize]);
            *scale >= 0 && digits.is_some_and(|digits: i16| i16::from(*precision) - i16::from(*scale) >= digits)
        }
        (DataType::Decimal128(_, scale), DataType::Float64) => *scale >= 0,
        (own, DataType::Float64) => whole(own).is_some(),
        (own, wide) => match (whole(own), whole(wide)) {
            (Some((false, own)), Some((_, wide))) | (Some((true, own)), Some((true, wide))) => wide > own,
            _ => false,
        },
    }
}

fn place(own: &DataType, constants: &ArrayRef, row: usize) -> Option<ConstantPlace> {
    if constants.is_null(row) || !widens(own, constants.data_type()) {
        return None;
    }
    let number = number(constants, row)?;
    match own {
        DataType::Int8 => whole::<Int8Type>(&number, i8::MIN, i8::MAX),
        DataType::Int16 => whole::<Int16Type>(&number, i16::MIN, i16::MAX),
        DataType::Int32 => whole::<Int32Type>(&number, i32::MIN, i32::MAX),
        DataType::Int64 => whole::<Int64Type>(&number, i64::MIN, i64::MAX),
        DataType::UInt8 => whole::<UInt8Type>(&number, u8::MIN, u8::MAX),
        DataType::UInt16 => whole::<UInt16Type>(&number, u16::MIN, u16::MAX),
        DataType::UInt32 => whole::<UInt32Type>(&number, u32::MIN, u32::MAX),
        DataType::UInt64 => whole::<UInt64Type>(&number, u64::MIN, u64::MAX),
        DataType::Float32 => float(&number),
        DataType::Decimal128(precision, scale) => decimal(&number, *precision, *scale),
        _ => None,
    }
}

fn number(constants: &ArrayRef, row: usize) -> Option<OwnNumber> {
    macro_rules! whole {
        ($type:ty) => {
            OwnNumber::Whole(i128::from(constants.as_primitive::<$type>().value(row)))
        };
    }
    Some(match constants.data_type() {
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => whole!(UInt64Type),
        DataType::Float64 => OwnNumber::Float(constants.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(_, scale) => {
            OwnNumber::Decimal(constants.as_primitive::<Decimal128Type>().value(row), *scale)
        }
        _ => return None,
    })
}

/// The place of a number among whole numbers from `least` to `greatest`.
fn whole<T>(number: &OwnNumber, least: T::Native, greatest: T::Native) -> Option<ConstantPlace>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
    i128: From<T::Native>,
{
    let (least, greatest) = (i128::from(least), i128::from(greatest));
    // Towards zero, and how much is left over.
    let (value, rest) = match number {
        OwnNumber::Whole(value) => (*value, 0),
        // Beyond these, numbers next to each other are one float.
        OwnNumber::Float(value) if size_of::<T::Native>() == 8 && (value.is_nan() || value.abs() > EXACT_IN_FLOAT) => {
            return None;
        }
        OwnNumber::Float(value) if value.is_nan() => (i128::MAX, 0),
        #[expect(clippy::cast_possible_truncation, reason = "what is beyond an i128 becomes its end")]
        OwnNumber::Float(value) => (value.trunc() as i128, sign(value.fract().total_cmp(&0.0), value.fract() == 0.0)),
        OwnNumber::Decimal(digits, scale) => {
            let unit = 10i128.checked_pow(u32::try_from(*scale).ok()?)?;
            (digits / unit, (digits % unit).signum())
        }
    };
    Some(match value {
        value if value < least => ConstantPlace::Below,
        value if value > greatest => ConstantPlace::Above,
        value => beside(rest, one::<T>(T::Native::try_from(value).ok()?)),
    })
}

fn sign(order: std::cmp::Ordering, is_zero: bool) -> i128 {
    if is_zero { 0 } else { order as i128 }
}

/// The place of a number that differs by `rest` from a value of the type, with no other value of the type between the two.
fn beside(rest: i128, value: ArrayRef) -> ConstantPlace {
    match rest {
        0 => ConstantPlace::At(value),
        1.. => ConstantPlace::OverIt(value),
        _ => ConstantPlace::UnderIt(value),
    }
}

/// The place of a `float64` among `float32`s, of which NaN is the greatest.
fn float(number: &OwnNumber) -> Option<ConstantPlace> {
    let OwnNumber::Float(value) = number else { return None };
    if value.is_nan() {
        return Some(ConstantPlace::At(one::<Float32Type>(f32::NAN)));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the nearest one is looked for")]
    let near = *value as f32;
    Some(beside(value.total_cmp(&f64::from(near)) as i128, one::<Float32Type>(near)))
}

/// The place of a decimal among those of fewer digits.
fn decimal(number: &OwnNumber, precision: u8, scale: i8) -> Option<ConstantPlace> {
    let (digits, from) = match number {
        OwnNumber::Decimal(digits, from) => (*digits, *from),
        OwnNumber::Float(value) => return decimal_near(*value, precision, scale),
        OwnNumber::Whole(_) => return None,
    };
    let unit = 10i128.checked_pow(u32::try_from(from.checked_sub(scale)?).ok()?)?;
    let (value, rest) = (digits / unit, (digits % unit).signum());
    let beyond = 10i128.checked_pow(u32::from(precision))?;
    if value.abs() >= beyond {
        return Some(if value < 0 { ConstantPlace::Below } else { ConstantPlace::Above });
    }
    let value =
        PrimitiveArray::<Decimal128Type>::from_value(value, 1).with_precision_and_scale(precision, scale).ok()?;
    Some(beside(rest, Arc::new(value)))
}

/// The place of a float among decimals that are converted to floats; none if several decimals convert to the same float.
fn decimal_near(value: f64, precision: u8, scale: i8) -> Option<ConstantPlace> {
    let (unit, beyond) = (10f64.powi(i32::from(scale)), 10i128.checked_pow(u32::from(precision))?);
    #[expect(clippy::cast_precision_loss, reason = "as the cast does it")]
    let float = |digits: i128| digits as f64 / unit;
    match value {
        value if value.is_nan() || value > float(beyond) => return Some(ConstantPlace::Above),
        value if value < float(-beyond) => return Some(ConstantPlace::Below),
        _ => {}
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is looked for around this one")]
    let near = (value * unit).round() as i128;
    // The first whose float isn't less: next to the nearest one, unless floats are farther apart than decimals.
    let first = (near - 1..=near + 1).find(|digits| float(*digits) >= value)?;
    if float(first - 1) >= value || float(first + 1) == value {
        return None;
    }
    let is_it = float(first) == value;
    let at = if is_it { first } else { first - 1 };
    if at.abs() >= beyond {
        return None;
    }
    let at = PrimitiveArray::<Decimal128Type>::from_value(at, 1).with_precision_and_scale(precision, scale).ok()?;
    Some(if is_it { ConstantPlace::At(Arc::new(at)) } else { ConstantPlace::OverIt(Arc::new(at)) })
}

fn one<T: ArrowPrimitiveType>(value: T::Native) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_value(value, 1))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Float64Array, Int64Array};
    use arrow::compute::cast;

    use super::*;
    use crate::expr::{EvaluatedColumns, Expr};
    use crate::value::Value;

    const OPS: [BinaryOp; 6] = [
        BinaryOp::Equal,
        BinaryOp::NotEqual,
        BinaryOp::Less,
        BinaryOp::LessOrEqual,
        BinaryOp::Greater,
        BinaryOp::GreaterOrEqual,
    ];

    /// The ends of a type, and values around some constants, with a null.
    fn values(own: &DataType) -> ArrayRef {
        let near =
            [-3.4e38, -1e30, -129.0, -128.0, -3.0, -2.0, -1.5, -1.0, -0.0, 0.0, 1.0, 1.5, 2.0, 3.0, 127.0, 128.0];
        let far = [255.0, 256.0, 32_767.0, 32_768.0, 65_535.0, 2_147_483_647.0, 4_294_967_295.0, 1e15, 9.2e18, 3.4e38];
        let between = [0.1, 0.7, 99.99, 99.995, -12.85, -12.8499];
        let special = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-45, 16_777_217.0];
        let all: ArrayRef = Arc::new(Float64Array::from_iter(
            near.into_iter().chain(far).chain(between).chain(special).map(Some).chain([None]),
        ));
        let mut parts = vec![cast(&all, own).unwrap()];
        if own.is_integer() {
            let ends: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, (1 << 53) + 1, (1 << 53) - 1]));
            parts.push(cast(&ends, own).unwrap());
        }
        concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap()
    }

    fn constants() -> Vec<ArrayRef> {
        let whole =
            [i64::MIN, -129, -128, -2, -1, 0, 1, 2, 127, 128, 255, 256, 32_767, 65_536, i64::from(u32::MAX), i64::MAX];
        let whole: ArrayRef = Arc::new(Int64Array::from(whole.to_vec()));
        let floats = [
            f64::NEG_INFINITY,
            -1e300,
            -129.0,
            -128.5,
            -2.5,
            -0.5,
            -0.0,
            0.0,
            0.1,
            0.5,
            0.7,
            0.700_000_000_000_000_1,
            99.99,
            99.995,
            -12.85,
            1.5,
            2.0,
            127.5,
            255.5,
            1e-300,
            1e300,
            16_777_217.0,
            9_007_199_254_740_991.0,
            9_007_199_254_740_993.0,
            f64::INFINITY,
            f64::NAN,
            -f64::NAN,
        ];
        let floats: ArrayRef = Arc::new(Float64Array::from(floats.to_vec()));
        let decimals = |precision, scale| -> ArrayRef {
            let values = [-25_000, -12_850, -150, -1, 0, 1, 100, 150, 12_750, 25_500, 10i128.pow(24)];
            let array = Decimal128Array::from(values.to_vec());
            Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
        };
        let all = [whole, floats, decimals(28, 2), decimals(38, 6)];
        all.iter().flat_map(|array| (0..array.len()).map(|row| array.slice(row, 1)).collect::<Vec<_>>()).collect()
    }

    fn owns() -> Vec<DataType> {
        use DataType::{Decimal128, Float32, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        let decimals =
            [(4, 2), (9, 1), (18, 4), (20, 2), (38, 0)].map(|(precision, scale)| Decimal128(precision, scale));
        let all = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32];
        all.into_iter().chain(decimals).collect()
    }

    fn evaluated(expr: &Expr, values: &ArrayRef, constants: &[ArrayRef]) -> ArrayRef {
        let columns = EvaluatedColumns { columns: vec![Some(Value::Array(Arc::clone(values)))], rows: values.len() };
        expr.evaluate(&columns, constants).unwrap().into_array(values.len()).unwrap()
    }

    #[test]
    fn what_is_compared_in_its_own_type_is_as_in_the_wider_one() {
        let mut lowered = 0;
        for own in owns() {
            let values = values(&own);
            for constant in constants() {
                let wide = constant.data_type().clone();
                let Ok(widened) = cast(&values, &wide) else { continue };
                for op in OPS {
                    if own_comparison(op, &own, &constant).is_none() {
                        continue;
                    }
                    lowered += 1;
                    let constants = [Arc::clone(&constant)];
                    let side = |cast: bool| {
                        let column = Box::new(Expr::Column(0));
                        if cast { Box::new(Expr::Cast(column, wide.clone())) } else { column }
                    };
                    let constant_side = || Box::new(Expr::Constant(0));
                    let expected = evaluated(&Expr::Binary(op, side(false), constant_side()), &widened, &constants);
                    let actual = evaluated(&Expr::Binary(op, side(true), constant_side()), &values, &constants);
                    assert_eq!(&actual, &expected, "{own} {op:?} {constant:?}");
                    let swapped = Expr::Binary(op.swapped(), constant_side(), side(true));
                    assert_eq!(&evaluated(&swapped, &values, &constants), &expected, "{own} {op:?} {constant:?}");
                }
            }
        }
        assert!(lowered > 2_000, "{lowered}");
    }

    #[test]
    fn a_list_has_the_values_that_its_type_holds() {
        for own in owns() {
            let values = values(&own);
            for wide in [DataType::Int64, DataType::Float64, DataType::Decimal128(28, 2)] {
                let ours: Vec<ArrayRef> = constants().into_iter().filter(|one| *one.data_type() == wide).collect();
                if !widens(&own, &wide) {
                    continue;
                }
                let list = concat(&ours.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap();
                let null = new_null_array(&wide, 1);
                for list in [concat(&[&list, &null]).unwrap(), list.slice(0, 3), list.slice(0, 1), list] {
                    let Ok(widened) = cast(&values, &wide) else { continue };
                    let contains = |value, values| {
                        let in_list = Arc::new(crate::value_list::ValueList::new(0));
                        evaluated(&Expr::In(Box::new(value), in_list), values, &[Arc::clone(&list)])
                    };
                    let expected = contains(Expr::Column(0), &widened);
                    let cast = Expr::Cast(Box::new(Expr::Column(0)), wide.clone());
                    assert_eq!(&contains(cast, &values), &expected, "{own} in {list:?}");
                }
            }
        }
    }

    #[test]
    fn casts_that_may_fail_stay() {
        let constant: ArrayRef = Arc::new(Int64Array::from(vec![5]));
        let narrow = cast(&constant, &DataType::Int16).unwrap();
        assert!(own_comparison(BinaryOp::Equal, &DataType::Int64, &narrow).is_none());
        assert!(own_comparison(BinaryOp::Equal, &DataType::UInt64, &constant).is_none());
        assert!(own_comparison(BinaryOp::Equal, &DataType::Int64, &constant).is_none());
        assert!(own_comparison(BinaryOp::Equal, &DataType::Int8, &new_null_array(&DataType::Int64, 1)).is_none());
    }
}
