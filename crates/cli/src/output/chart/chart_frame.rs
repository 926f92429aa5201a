//! What stands around lines and candles: legend, axes, labels.

use super::axis::Labels;
use super::canvas::{Canvas, CharacterStyle, Color, shortened};
use super::scale::Scale;

/// Lines beside those of the plot: the legend, the axis, two of labels, the notes.
const LINES_AROUND: usize = 5;

/// A color, what is drawn in it, and what it stands for.
pub type LegendEntry = (Color, char, String);

/// A chart whose plot is yet to be drawn.
pub struct ChartFrame {
    canvas: Canvas,
    width: usize,
    /// The column of the axis of values, which is left of the plot.
    axis_column: usize,
    /// Characters and lines of the plot.
    plot: (usize, usize),
}

impl ChartFrame {
    /// A sheet with its axis of values.
    pub fn new(y: Scale, (width, height): (usize, usize)) -> ChartFrame {
        let rows = height.saturating_sub(LINES_AROUND).max(1);
        let labels = y.labels(rows);
        let axis_column = labels.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0) + 1;
        let mut canvas = Canvas::new(width, height - 1);
        (1..=rows).for_each(|row| canvas.put(axis_column, row, '│', None));
        for (value, label) in labels {
            let row = rows - y.step(value, rows);
            canvas.text(axis_column - 1 - label.chars().count(), row, &label, None);
            canvas.put(axis_column, row, '┤', None);
        }
        let plot = (width.saturating_sub(axis_column + 1).max(1), rows);
        canvas.put(axis_column, rows + 1, '└', None);
        (1..=plot.0).for_each(|column| canvas.put(axis_column + column, rows + 1, '─', None));
        ChartFrame { canvas, width, axis_column, plot }
    }

    pub fn plot(&self) -> (usize, usize) {
        self.plot
    }

    pub fn draw(&mut self, plot: &Canvas) {
        self.canvas.paste(self.axis_column + 1, 1, plot);
    }

    /// Writes the labels of the axis below the plot, as far as they have room, and its name at the end.
    pub fn label(&mut self, labels: &Labels, name: &str) {
        let first = self.plot.1 + 1;
        for (column, label) in &labels.upper {
            let (column, length) = (self.axis_column + 1 + column, label.chars().count());
            let begin = column.saturating_sub(length / 2).min(self.width.saturating_sub(length));
            if self.write(begin, first + 1, label) {
                self.canvas.put(column, first, '┬', None);
            }
        }
        for (column, label) in &labels.lower {
            self.write(self.axis_column + 1 + column, first + 2, label);
        }
        self.write(self.width.saturating_sub(name.chars().count()), first + 2, name);
    }

    /// Writes a text unless it would touch another one, or wouldn't be whole. Whether it did.
    fn write(&mut self, column: usize, row: usize, text: &str) -> bool {
        let end = column + text.chars().count();
        let has_room = end <= self.width && self.canvas.is_blank(column.saturating_sub(1)..end + 1, row);
        if has_room {
            self.canvas.text(column, row, text, None);
        }
        has_room
    }

    /// The chart with a legend above and notes below.
    pub fn finish(mut self, title: &str, legend: &[LegendEntry], notes: &[String], look: CharacterStyle) -> String {
        let mut column = self.axis_column + 1;
        let title = shortened(title, self.width.saturating_sub(column));
        self.canvas.text(column, 0, &title, None);
        column += if title.is_empty() { 0 } else { title.chars().count() + 2 };
        for (color, glyph, name) in legend {
            let name = shortened(name, self.width.saturating_sub(column + 2));
            self.canvas.put(column, 0, *glyph, Some(*color));
            self.canvas.text(column + 2, 0, &name, Some(*color));
            column += name.chars().count() + 4;
        }
        self.canvas.lines(look) + &notes.join(", ") + "\n"
    }
}
