//! `time_bucket_gapfill(width, time [, zone] [, origin] [, start, finish])`, `locf(x)` and `interpolate(x)`, as the planner
//! sees them. None of them is ever evaluated: `rule.rs` replaces them, or refuses the statement.

use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::arguments::{is_text, time_type, width_type};

const BUCKET: &str = "time_bucket_gapfill";
/// The fill of a `SAMPLE BY`: `(width, time, zone, origin, start, finish)`, each of the last four null if there is none.
pub const SAMPLE_FILL: &str = "__sample_fill";
const LOCF: &str = "locf";
const INTERPOLATE: &str = "interpolate";

/// Stable, not immutable: they mean nothing without the fill around them, so that a tick plan must not take them for functions of a row.
pub(super) fn functions() -> Vec<ScalarUDF> {
    [BUCKET, SAMPLE_FILL, LOCF, INTERPOLATE]
        .into_iter()
        .map(|name| ScalarUDF::from(GapFillCall { name, signature: Signature::user_defined(Volatility::Stable) }))
        .collect()
}

/// How a column is filled in made rows. A column without a fill is null there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FillKind {
    /// The last value before that isn't null.
    Previous,
    /// Fills by linear interpolation between the values before and behind.
    Linear,
}

/// Over what a gap fill makes buckets, where no bounds are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Extent {
    /// Each series over its own rows.
    Series,
    /// Every series over the rows of all.
    Whole,
}

/// Whether an expression is a call that fills gaps, over what, and with which arguments.
pub(super) fn bucket_arguments(expr: &Expr) -> Option<(Extent, &[Expr])> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == BUCKET => Some((Extent::Series, &call.args)),
        Expr::ScalarFunction(call) if call.func.name() == SAMPLE_FILL => Some((Extent::Whole, &call.args)),
        _ => None,
    }
}

/// Whether an expression is a call of `locf` or `interpolate`, and of what.
pub(super) fn fill_argument(expr: &Expr) -> Option<(FillKind, &Expr)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let kind = match call.func.name() {
        LOCF => FillKind::Previous,
        INTERPOLATE => FillKind::Linear,
        _ => return None,
    };
    call.args.first().map(|x| (kind, x))
}

/// The arguments of `time_bucket_gapfill` behind the time.
#[derive(Debug, Default)]
pub(super) struct BucketArguments<'a> {
    pub zone: Option<&'a Expr>,
    pub origin: Option<&'a Expr>,
    pub start: Option<&'a Expr>,
    pub finish: Option<&'a Expr>,
}

impl<'a> BucketArguments<'a> {
    /// Tells them apart by type and number: text is a zone; one time is an origin, two are start and finish, three are all.
    pub(super) fn new(args: &'a [Expr], zone_first: bool) -> Option<BucketArguments<'a>> {
        let (zone, times) = match args {
            [zone, times @ ..] if zone_first => (Some(zone), times),
            times => (None, times),
        };
        let (origin, start, finish) = match times {
            [] => (None, None, None),
            [origin] => (Some(origin), None, None),
            [start, finish] => (None, Some(start), Some(finish)),
            [origin, start, finish] => (Some(origin), Some(start), Some(finish)),
            _ => return None,
        };
        Some(BucketArguments { zone, origin, start, finish })
    }

    /// The arguments of a `SAMPLE BY`, which are all present.
    pub(super) fn of_sample(args: &'a [Expr], is_null: impl Fn(&Expr) -> bool) -> Option<BucketArguments<'a>> {
        let [zone, origin, start, finish] = args else { return None };
        let unless_null = |arg: &'a Expr| (!is_null(arg)).then_some(arg);
        Some(BucketArguments {
            zone: unless_null(zone),
            origin: unless_null(origin),
            start: unless_null(start),
            finish: unless_null(finish),
        })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct GapFillCall {
    name: &'static str,
    signature: Signature,
}

impl GapFillCall {
    fn bucket_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let wrong = || {
            plan_err!(
                "{BUCKET} takes (interval, time [, zone] [, origin] [, start, finish]), times written TIMESTAMP '…'"
            )
        };
        let [width, time, rest @ ..] = arg_types else { return wrong() };
        let mut types = vec![width_type(BUCKET, width)?, time_type(BUCKET, time)?];
        let times = match rest {
            [zone, times @ ..] if is_text(zone) => {
                types.push(DataType::Utf8);
                times
            }
            times => times,
        };
        if times.len() > 3 || times.iter().any(is_text) {
            return wrong();
        }
        for time in times {
            // A bound that is null, as a parameter may be, is no bound.
            let time = if time.is_null() { &types[1] } else { time };
            types.push(time_type(BUCKET, time)?);
        }
        Ok(types)
    }
}

impl ScalarUDFImpl for GapFillCall {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.name, arg_types) {
            (BUCKET, types) => self.bucket_types(types),
            (SAMPLE_FILL, [width, time, zone, times @ ..]) if times.len() == 3 && (is_text(zone) || zone.is_null()) => {
                let own = time_type(SAMPLE_FILL, time)?;
                let time_of = |time: &DataType| time_type(SAMPLE_FILL, if time.is_null() { &own } else { time });
                let mut types = vec![width_type(SAMPLE_FILL, width)?, own.clone(), DataType::Utf8];
                types.extend(times.iter().map(time_of).collect::<Result<Vec<_>>>()?);
                Ok(types)
            }
            (LOCF, [x]) => Ok(vec![x.clone()]),
            (INTERPOLATE, [x]) if x.is_numeric() || x.is_null() => Ok(vec![DataType::Float64]),
            (INTERPOLATE, _) => plan_err!("{INTERPOLATE} takes one number"),
            _ => plan_err!("{} takes one argument", self.name),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let position = usize::from(self.name == BUCKET || self.name == SAMPLE_FILL);
        match arg_types.get(position) {
            Some(x) => Ok(x.clone()),
            None => plan_err!("{} lacks an argument", self.name),
        }
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{} has no value of its own: it belongs to a GROUP BY {BUCKET}(…)", self.name)
    }
}
