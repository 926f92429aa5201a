//! Candles: a body from open to close, a wick from low to high, at half a character's height.

use super::canvas::{Canvas, CharacterStyle, Color, GREEN, RED};
use super::points::ChartSeries;
use super::scale::Scale;

/// Widest candle with the blank beside it.
const SLOT_MAX: usize = 6;

/// Bodies that rise and fall, where colors don't tell them apart.
const RISING: char = '█';
const FALLING: char = '▒';

/// Candles that are so few that each has a column.
pub fn fitting(mut candles: ChartSeries, width: usize) -> ChartSeries {
    let count = candles.points.len();
    if count > width.max(1) {
        candles.fold(count.div_ceil(width.max(1)));
    }
    candles
}

/// Columns from one candle to the next, and those of a body.
fn widths(count: usize, width: usize) -> (usize, usize) {
    let slot = (width / count.max(1)).clamp(1, SLOT_MAX);
    // A body has a column in its middle, in which the wick stands.
    (slot, if slot < 4 { 1 } else { (slot - 2) | 1 })
}

/// The column of each candle's wick.
pub fn columns(count: usize, width: usize) -> impl Iterator<Item = usize> {
    let (_, body) = widths(count, width);
    (0..count).map(move |number| number * width / count.max(1) + body / 2)
}

/// Whether the lower and the upper half of a character are covered by something that reaches from a level to another. Levels are counted
/// from the lowest, two for each row.
fn halves((from, to): (usize, usize), row: usize) -> (bool, bool) {
    let covers = |level: usize| (from.min(to)..=from.max(to)).contains(&level);
    (covers(2 * row), covers(2 * row + 1))
}

/// Draws candles over all of a canvas of `size` characters.
pub fn draw(candles: &ChartSeries, y: Scale, (width, height): (usize, usize), look: CharacterStyle) -> Canvas {
    let mut canvas = Canvas::new(width, height);
    let level = |value: f64| y.step(value, 2 * height);
    let (_, body_width) = widths(candles.points.len(), width);
    for (middle, point) in columns(candles.points.len(), width).zip(&candles.points) {
        let span = point.span;
        if span.is_gap() {
            continue;
        }
        let rises = span.last >= span.first;
        let color = if rises { GREEN } else { RED };
        for row in 0..height {
            let from_top = height - 1 - row;
            let body = halves((level(span.first), level(span.last)), row);
            let wick = halves((level(span.low), level(span.high)), row);
            if let Some(glyph) = body_glyph(body, rises, look) {
                let begin = middle - body_width / 2;
                (begin..begin + body_width).for_each(|column| canvas.put(column, from_top, glyph, Some(color)));
            } else if let Some(glyph) = wick_glyph(wick) {
                canvas.put(middle, from_top, glyph, Some(color));
            }
        }
    }
    canvas
}

fn body_glyph(halves: (bool, bool), rises: bool, look: CharacterStyle) -> Option<char> {
    let is_told_by_color = look.has_colors && !look.is_ascii;
    match halves {
        (false, false) => None,
        _ if !rises && !is_told_by_color => Some(FALLING),
        (true, true) => Some(RISING),
        (true, false) => Some('▄'),
        (false, true) => Some('▀'),
    }
}

fn wick_glyph(halves: (bool, bool)) -> Option<char> {
    match halves {
        (false, false) => None,
        (true, true) => Some('│'),
        (true, false) => Some('╷'),
        (false, true) => Some('╵'),
    }
}

/// What stands for candles that rise, and for those that fall, in the legend.
pub fn legend(look: CharacterStyle) -> [(Color, char, String); 2] {
    let falling = if look.has_colors && !look.is_ascii { RISING } else { FALLING };
    [(GREEN, RISING, "up".to_owned()), (RED, falling, "down".to_owned())]
}

#[cfg(test)]
mod tests {
    use super::super::points::ValueSpan;
    use super::*;

    const PLAIN: CharacterStyle = CharacterStyle { is_ascii: false, has_colors: false };

    fn series(candles: &[[f64; 4]]) -> ChartSeries {
        let mut series = ChartSeries::new();
        for (x, prices) in (0_u32..).zip(candles) {
            series.push(f64::from(x), ValueSpan::of_prices(*prices));
        }
        series
    }

    fn drawn(candles: &[[f64; 4]], size: (usize, usize), look: CharacterStyle) -> String {
        let series = fitting(series(candles), size.0);
        let values = series.points.iter().filter(|point| !point.span.is_gap());
        let y = Scale::of(values.flat_map(|point| [point.span.low, point.span.high])).unwrap();
        draw(&series, y, size, look).lines(look)
    }

    #[test]
    fn bodies_and_wicks_stand_where_prices_are() {
        // Open, high, low, close, on eight levels.
        let candles = [[1.0, 5.0, 0.0, 3.0], [3.0, 7.0, 2.0, 6.0], [6.0, 6.0, 1.0, 2.0], [2.0, 2.0, 2.0, 2.0]];
        assert_eq!(drawn(&candles, (8, 4), PLAIN), "  ▄ ▒\n│ █ ▒\n█ ▀ ▒ ▄\n▀   ╵\n");
    }

    #[test]
    fn wide_candles_have_their_wick_in_the_middle() {
        let text = drawn(&[[1.0, 7.0, 0.0, 3.0], [5.0, 7.0, 0.0, 3.0]], (12, 4), PLAIN);
        assert_eq!(text, "  │     │\n  │   ▒▒▒▒▒\n█████ ▒▒▒▒▒\n▀▀▀▀▀   │\n");
    }

    #[test]
    fn more_candles_than_columns_are_put_together() {
        let many: Vec<[f64; 4]> =
            (0..100).map(|n| [f64::from(n), f64::from(n) + 1.0, f64::from(n), f64::from(n) + 1.0]).collect();
        let folded = fitting(series(&many), 30);
        assert_eq!((folded.points.len(), folded.rows_of_point), (25, 4));
        assert_eq!(folded.points[1].span, ValueSpan { first: 4.0, high: 8.0, low: 4.0, last: 8.0 });
    }

    #[test]
    fn colors_take_the_place_of_shades() {
        let colored = drawn(&[[2.0, 2.0, 1.0, 1.0]], (1, 1), CharacterStyle { is_ascii: false, has_colors: true });
        assert_eq!(colored, "\x1b[31m█\x1b[0m\n");
        assert_eq!(
            drawn(&[[2.0, 2.0, 1.0, 1.0]], (1, 1), CharacterStyle { is_ascii: true, has_colors: true }),
            "\x1b[31m=\x1b[0m\n"
        );
    }
}
