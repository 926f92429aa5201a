//! Points of a line or candles, reduced to as many as the width can show.

/// Points that are kept of a line; where more come, neighbours become one.
const POINTS_MAX: usize = 1 << 17;

/// The values of one row or of several that follow each other: the first, the highest, the lowest and the last. NaN where there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueSpan {
    pub first: f64,
    pub high: f64,
    pub low: f64,
    pub last: f64,
}

impl ValueSpan {
    /// A gap.
    pub const GAP: ValueSpan = ValueSpan { first: f64::NAN, high: f64::NAN, low: f64::NAN, last: f64::NAN };

    pub fn of(value: f64) -> ValueSpan {
        ValueSpan { first: value, high: value, low: value, last: value }
    }

    /// Open, high, low and close. What says that the high isn't the highest is believed all the same.
    pub fn of_prices(prices: [f64; 4]) -> ValueSpan {
        let [first, _, _, last] = prices;
        if prices.iter().any(|price| price.is_nan()) {
            return ValueSpan::GAP;
        }
        let high = prices.into_iter().fold(f64::MIN, f64::max);
        let low = prices.into_iter().fold(f64::MAX, f64::min);
        ValueSpan { first, high, low, last }
    }

    pub fn is_gap(&self) -> bool {
        self.first.is_nan()
    }

    /// With what follows. A gap adds nothing.
    fn with(self, next: ValueSpan) -> ValueSpan {
        match (self.is_gap(), next.is_gap()) {
            (true, _) => next,
            (_, true) => self,
            _ => ValueSpan {
                first: self.first,
                high: self.high.max(next.high),
                low: self.low.min(next.low),
                last: next.last,
            },
        }
    }
}

/// A span and where it begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub x: f64,
    pub span: ValueSpan,
}

/// The points of a line, or candles.
#[derive(Debug, Clone, Default)]
pub struct ChartSeries {
    pub points: Vec<Point>,
    /// Rows of a point.
    pub rows_of_point: usize,
}

impl ChartSeries {
    pub fn new() -> ChartSeries {
        ChartSeries { points: Vec::new(), rows_of_point: 1 }
    }

    pub fn push(&mut self, x: f64, span: ValueSpan) {
        self.points.push(Point { x, span });
        if self.points.len() >= POINTS_MAX {
            self.sort();
            self.fold(2);
        }
    }

    /// By place; those of one place stay in their order.
    pub fn sort(&mut self) {
        self.points.sort_by(|one, other| one.x.total_cmp(&other.x));
    }

    /// Makes one point of each `count` that follow each other.
    pub fn fold(&mut self, count: usize) {
        let one = |points: &[Point]| Point {
            x: points[0].x,
            span: points.iter().fold(ValueSpan::GAP, |span, point| span.with(point.span)),
        };
        self.points = self.points.chunks(count.max(1)).map(one).collect();
        self.rows_of_point *= count.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_keeps_first_high_low_and_last_and_no_gap_hides_a_value() {
        let mut series = ChartSeries::new();
        for (x, value) in [(3.0, 5.0), (0.0, 2.0), (1.0, f64::NAN), (2.0, 9.0), (4.0, f64::NAN), (5.0, f64::NAN)] {
            series.push(x, ValueSpan::of(value));
        }
        series.sort();
        series.fold(4);
        assert_eq!(series.points.len(), 2);
        assert_eq!(series.points[0], Point { x: 0.0, span: ValueSpan { first: 2.0, high: 9.0, low: 2.0, last: 5.0 } });
        assert!(series.points[1].span.is_gap());
        assert_eq!(series.rows_of_point, 4);
    }

    #[test]
    fn memory_is_bounded_whatever_order_rows_come_in() {
        let mut series = ChartSeries::new();
        for row in 0..300_000_u32 {
            // Every value once, in no order.
            let value = f64::from(row.wrapping_mul(7_919) % 300_000);
            series.push(value, ValueSpan::of(value));
        }
        assert!(series.points.len() < POINTS_MAX, "{}", series.points.len());
        let high = series.points.iter().map(|point| point.span.high).fold(f64::MIN, f64::max);
        let low = series.points.iter().map(|point| point.span.low).fold(f64::MAX, f64::min);
        assert_eq!((low, high), (0.0, 299_999.0));
    }

    #[test]
    fn prices_that_contradict_each_other_or_are_missing_make_no_nonsense() {
        let span = ValueSpan::of_prices([10.0, 9.0, 11.0, 12.0]);
        assert_eq!(span, ValueSpan { first: 10.0, high: 12.0, low: 9.0, last: 12.0 });
        assert!(ValueSpan::of_prices([1.0, f64::NAN, 1.0, 1.0]).is_gap());
    }
}
