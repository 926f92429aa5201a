//! Lines: dots of braille, or a sign of its own for each line where colors can't tell them apart.

use super::canvas::{Canvas, Color};
use super::points::ChartSeries;
use super::scale::Scale;

/// Most lines in a chart.
pub const LINES_MAX: usize = 6;

/// Their colors and signs.
const LOOKS: [(Color, char); LINES_MAX] = [(36, '*'), (33, '+'), (32, 'o'), (35, 'x'), (34, '#'), (31, '@')];

/// How lines are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// Dots of braille, eight in a character.
    Dots,
    /// A sign for each line.
    Signs,
}

/// The color of a line, and what stands for it in the legend.
pub fn look_of(number: usize, stroke: Stroke) -> (Color, char) {
    let (color, sign) = LOOKS[number % LINES_MAX];
    (color, if stroke == Stroke::Signs { sign } else { '─' })
}

/// Draws lines over all of a canvas of `size` characters.
pub fn draw(lines: &[ChartSeries], (x, y): (Scale, Scale), (width, height): (usize, usize), stroke: Stroke) -> Canvas {
    let mut canvas = Canvas::new(width, height);
    let (across, down) = if stroke == Stroke::Dots { (2, 4) } else { (1, 1) };
    let (columns, rows) = (width * across, height * down);
    for (number, line) in lines.iter().enumerate() {
        let (color, sign) = look_of(number, stroke);
        let mut set = |column: usize, row: usize| match stroke {
            Stroke::Dots => canvas.dot(column, row, Some(color)),
            Stroke::Signs => canvas.put(column, row, sign, Some(color)),
        };
        let row = |value: f64| rows.saturating_sub(1) - y.step(value, rows);
        let mut before: Option<(usize, usize)> = None;
        for point in &line.points {
            if point.span.is_gap() {
                before = None;
                continue;
            }
            let column = x.step(point.x, columns);
            for row in row(point.span.high)..=row(point.span.low) {
                set(column, row);
            }
            if let Some(before) = before {
                connect(before, (column, row(point.span.first)), &mut set);
            }
            before = Some((column, row(point.span.last)));
        }
    }
    canvas
}

/// Sets what lies between two places.
fn connect(from: (usize, usize), to: (usize, usize), set: &mut impl FnMut(usize, usize)) {
    let count = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1));
    let between = |from: usize, to: usize, part: usize| {
        let moved = (from.abs_diff(to) * part + count / 2) / count.max(1);
        if to >= from { from + moved } else { from - moved }
    };
    for part in 1..=count {
        set(between(from.0, to.0, part), between(from.1, to.1, part));
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::CharacterStyle;
    use super::super::points::ValueSpan;
    use super::*;

    fn drawn(lines: &[&[(f64, f64)]], size: (usize, usize), stroke: Stroke) -> String {
        let series: Vec<ChartSeries> = lines
            .iter()
            .map(|points| {
                let mut series = ChartSeries::new();
                points.iter().for_each(|(x, value)| series.push(*x, ValueSpan::of(*value)));
                series
            })
            .collect();
        let points = || series.iter().flat_map(|series| &series.points).filter(|point| !point.span.is_gap());
        let x = Scale::of(points().map(|point| point.x)).unwrap();
        let y = Scale::of(points().map(|point| point.span.first)).unwrap();
        draw(&series, (x, y), size, stroke).lines(CharacterStyle { is_ascii: false, has_colors: false })
    }

    #[test]
    fn points_are_connected_and_gaps_are_not() {
        let rising = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0)];
        assert_eq!(drawn(&[&rising], (4, 2), Stroke::Dots), "  ⡠⠊\n⡠⠊\n");
        let gap = [(0.0, 0.0), (1.0, 0.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, 2.0)];
        assert_eq!(drawn(&[&gap], (5, 3), Stroke::Signs), "   **\n\n**\n");
    }

    #[test]
    fn lines_without_colors_have_their_signs() {
        let (level, falling) = ([(0.0, 1.0), (4.0, 1.0)], [(0.0, 2.0), (4.0, 0.0)]);
        assert_eq!(drawn(&[&level, &falling], (5, 3), Stroke::Signs), "+\n*++**\n   ++\n");
    }

    #[test]
    fn one_point_is_a_dot_in_the_middle() {
        assert_eq!(drawn(&[&[(7.0, 3.0)]], (3, 3), Stroke::Signs), "\n *\n\n");
    }
}
