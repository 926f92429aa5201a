//! Charts of answers, in the characters of a terminal.
//!
//! | Question | File |
//! | --- | --- |
//! | What is an answer drawn as? | `columns.rs` |
//! | Which points are kept of many rows? | `points.rs` |
//! | How are they drawn? | `candles.rs`, `lines.rs`, `bars.rs` |
//! | Where do labels stand, and what do they say? | `scale.rs` for values, `axis.rs` for times |
//! | Which characters and colors come of it? | `canvas.rs` |
//!
//! There are crates for charts in terminals. None has candles, an axis of times in a zone, gaps, and characters for all terminals; what
//! they would take off our hands is the setting of dots.

mod axis;
mod bars;
mod candles;
mod canvas;
mod chart_frame;
mod columns;
mod lines;
mod points;
mod scale;

use std::collections::HashSet;

use anyhow::Result;
use arrow::array::{Array, Float64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::util::display::ArrayFormatter;

use self::axis::{Axis, AxisKind};
use self::bars::Bar;
pub use self::canvas::CharacterStyle;
use self::canvas::shortened;
use self::chart_frame::{ChartFrame, LegendEntry};
pub use self::columns::Drawing;
use self::columns::{AxisColumn, axis, floats, places, texts};
use self::lines::{LINES_MAX, Stroke};
use self::points::{ChartSeries, ValueSpan};
use self::scale::Scale;
use crate::size::{Counted, Thousands};

/// Characters and lines of a chart where there is no terminal.
pub const SIZE: (usize, usize) = (80, 20);

/// The least that a chart is drawn in.
const SIZE_MIN: (usize, usize) = (20, 8);

/// Lines that aren't drawn, up to which they are counted.
const NAMES_MAX: usize = 1_000;

/// Characters of a value within a sentence.
const NAME_MAX: usize = 30;

/// Half of the time around a single instant.
const AROUND_NANOSECONDS: f64 = 30e9;

/// How a chart is drawn.
#[derive(Debug, Clone, Copy)]
pub struct ChartOptions {
    /// Characters of a line, and lines.
    pub size: (usize, usize),
    pub look: CharacterStyle,
    /// Most bars; 0 for all.
    pub bars_max: usize,
}

/// Draws an answer.
///
/// # Errors
/// Those of the batches.
pub fn draw(
    drawing: &Drawing,
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    frame: ChartOptions,
) -> Result<String> {
    let (width, height) = frame.size;
    let frame = ChartOptions { size: (width.max(SIZE_MIN.0), height.max(SIZE_MIN.1)), ..frame };
    match drawing {
        Drawing::Bars { key, values } => draw_bars(schema, batches, (*key, values), frame),
        Drawing::Lines { along, key, values } => {
            let (values, left_out) = values.split_at(values.len().min(LINES_MAX));
            let columns = values.iter().map(|value| vec![*value]).collect();
            let points = Points::read(schema, batches, (*along, *key, columns))?;
            Ok(draw_lines(schema, points, (values, left_out.len()), frame))
        }
        Drawing::Candles { along, key, prices } => {
            let points = Points::read(schema, batches, (*along, *key, vec![prices.to_vec()]))?;
            Ok(draw_candles(schema, points, (*along, *key, prices), frame))
        }
    }
}

/// The points of an answer.
struct Points {
    axis: Axis,
    /// By the value of the key and the number of the column.
    series: Vec<((Option<String>, usize), ChartSeries)>,
    rows: u64,
    /// Rows that have no place on the axis.
    without_place: u64,
    infinite: u64,
    /// Values of the key that aren't drawn, as far as they are counted.
    others: HashSet<String>,
}

impl Points {
    /// Reads the values of some columns, one of each for a line or four for candles.
    fn read(
        schema: &SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch>>,
        (along, key, columns): (AxisColumn, Option<usize>, Vec<Vec<usize>>),
    ) -> Result<Points> {
        let (series, others) = (Vec::new(), HashSet::new());
        let mut points = Points { axis: axis(schema, along), series, rows: 0, without_place: 0, infinite: 0, others };
        for batch in batches {
            points.add(&batch?, (along, key, &columns))?;
        }
        points.series.iter_mut().for_each(|(_, series)| series.sort());
        Ok(points)
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of rows")]
    fn add(
        &mut self,
        batch: &RecordBatch,
        (along, key, columns): (AxisColumn, Option<usize>, &[Vec<usize>]),
    ) -> Result<()> {
        let first_row = self.rows;
        let xs = match along {
            AxisColumn::Column(place) => places(batch.column(place), &mut self.axis, first_row == 0)?,
            AxisColumn::RowNumbers => (1..=batch.num_rows() as u64).map(|row| Some((first_row + row) as f64)).collect(),
        };
        self.rows += batch.num_rows() as u64;
        let keys = key.map(|key| texts(batch.column(key))).transpose()?;
        let values: Vec<Vec<Float64Array>> = columns
            .iter()
            .map(|columns| columns.iter().map(|column| floats(batch.column(*column))).collect())
            .collect::<Result<_>>()?;
        for (row, x) in xs.into_iter().enumerate() {
            let Some(x) = x else {
                self.without_place += 1;
                continue;
            };
            let text = keys.as_ref().filter(|keys| keys.is_valid(row)).map(|keys| keys.value(row));
            let Some(first) = self.series_of(text, columns.len()) else { continue };
            for (number, values) in values.iter().enumerate() {
                let value = |values: &Float64Array| if values.is_valid(row) { values.value(row) } else { f64::NAN };
                let is_infinite = values.iter().any(|values| value(values).is_infinite());
                self.infinite += u64::from(is_infinite);
                let span = match values.as_slice() {
                    _ if is_infinite => ValueSpan::GAP,
                    [open, high, low, close] => ValueSpan::of_prices([open, high, low, close].map(value)),
                    values => ValueSpan::of(value(&values[0])),
                };
                self.series[first + number].1.push(x, span);
            }
        }
        Ok(())
    }

    /// The number of the first of the series of a value of the key; `None` if there are too many already.
    fn series_of(&mut self, text: Option<&str>, count: usize) -> Option<usize> {
        let place = self.series.iter().position(|((key, _), _)| key.as_deref() == text);
        if place.is_some() {
            return place;
        }
        let first = self.series.len();
        if first > 0 && first + count > LINES_MAX {
            let text = text.unwrap_or_default();
            if self.others.len() < NAMES_MAX && !self.others.contains(text) {
                self.others.insert(text.to_owned());
            }
            return None;
        }
        self.series.extend((0..count).map(|number| ((text.map(str::to_owned), number), ChartSeries::new())));
        Some(first)
    }

    /// The scale of the axis. A single instant stands in the middle of a minute.
    fn places(&self) -> Option<Scale> {
        let xs = || self.series.iter().flat_map(|(_, series)| &series.points).map(|point| point.x);
        let first = xs().next()?;
        match self.axis.kind {
            AxisKind::Times(_) | AxisKind::TimesOfDay if xs().all(|x| x == first) => {
                Some(Scale { min: first - AROUND_NANOSECONDS, max: first + AROUND_NANOSECONDS })
            }
            _ => Scale::of(xs()),
        }
    }

    /// The scale of the values.
    fn values(&self) -> Option<Scale> {
        let points = self.series.iter().flat_map(|(_, series)| &series.points);
        Scale::of(points.filter(|point| !point.span.is_gap()).flat_map(|point| [point.span.low, point.span.high]))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![Counted(self.rows, "row").to_string()];
        if self.without_place > 0 {
            let what = if matches!(self.axis.kind, AxisKind::Numbers) { "number" } else { "time" };
            notes.push(format!("{} without a {what} not drawn", Thousands(self.without_place)));
        }
        if self.infinite > 0 {
            notes.push(format!("{} not drawn", Counted(self.infinite, "infinite value")));
        }
        notes
    }

    /// What is said where there is nothing to draw.
    fn nothing(&self) -> String {
        format!("{}: there is nothing to draw\n", self.notes().join(", "))
    }
}

fn draw_lines(
    schema: &SchemaRef,
    points: Points,
    (columns, left_out): (&[usize], usize),
    frame: ChartOptions,
) -> String {
    let mut notes = points.notes();
    if left_out > 0 {
        notes.push(format!("{left_out} of {} columns not drawn", columns.len() + left_out));
    }
    if !points.others.is_empty() {
        let or_more = if points.others.len() < NAMES_MAX { "" } else { " or more" };
        notes.push(format!("{}{or_more} further lines not drawn", Thousands(points.others.len() as u64)));
    }
    let (Some(x), Some(y)) = (points.places(), points.values()) else { return points.nothing() };
    let names = line_names(schema, &points, columns);
    let are_told_by_color = frame.look.has_colors || names.len() == 1;
    let stroke = if are_told_by_color && !frame.look.is_ascii { Stroke::Dots } else { Stroke::Signs };
    let mut sheet = ChartFrame::new(y, frame.size);
    let series: Vec<ChartSeries> = points.series.into_iter().map(|(_, series)| series).collect();
    sheet.draw(&lines::draw(&series, (x, y), sheet.plot(), stroke));
    sheet.label(&points.axis.labels(&bounds(x, sheet.plot().0)), &points.axis.name);
    let entry = |(number, name)| {
        let (color, glyph) = lines::look_of(number, stroke);
        (color, glyph, name)
    };
    let legend: Vec<LegendEntry> = names.into_iter().enumerate().map(entry).collect();
    sheet.finish("", &legend, &notes, frame.look)
}

/// Names of lines: their columns, or what tells them apart.
fn line_names(schema: &SchemaRef, points: &Points, columns: &[usize]) -> Vec<String> {
    let has_keys = points.series.iter().any(|((key, _), _)| *key != points.series[0].0.0);
    let name = |((key, number), _): &((Option<String>, usize), ChartSeries)| {
        let (key, column) = (key.as_deref().unwrap_or("null"), schema.field(columns[*number]).name());
        match (has_keys, columns.len()) {
            (false, _) => column.clone(),
            (true, 1) => key.to_owned(),
            (true, _) => format!("{key} {column}"),
        }
    };
    points.series.iter().map(name).collect()
}

/// Where columns of a plot begin, and where the last ends: points stand in their middle.
#[expect(clippy::cast_precision_loss, reason = "a width")]
fn bounds(x: Scale, width: usize) -> Vec<f64> {
    let share = |column: usize| (column as f64 - 0.5) / width.saturating_sub(1).max(1) as f64;
    (0..=width).map(|column| x.min * (1.0 - share(column)) + x.max * share(column)).collect()
}

fn draw_candles(
    schema: &SchemaRef,
    mut points: Points,
    (along, key, prices): (AxisColumn, Option<usize>, &[usize; 4]),
    frame: ChartOptions,
) -> String {
    let mut notes = points.notes();
    if let [_, _, ..] = points.series.as_slice() {
        let keys: Vec<&str> = points.series.iter().map(|((key, _), _)| key.as_deref().unwrap_or("null")).collect();
        let column = key.map_or("", |key| schema.field(key).name());
        return format!(
            "{}: candles of more than one {column} are not drawn in one chart; ask for one, such as {}\n",
            notes.join(", "),
            shortened(keys[0], NAME_MAX),
        );
    }
    let (Some(y), Some((key, candles))) = (points.values(), points.series.pop()) else { return points.nothing() };
    let mut sheet = ChartFrame::new(y, frame.size);
    let (candles, width) = (candles::fitting(candles, sheet.plot().0), sheet.plot().0);
    if candles.rows_of_point > 1 {
        notes.push(format!("{} to a candle", candles.rows_of_point));
    }
    let others = schema.fields().iter().enumerate().filter(|(place, field)| {
        field.data_type().is_numeric() && !prices.contains(place) && along != AxisColumn::Column(*place)
    });
    let others: Vec<&str> = others.map(|(_, field)| field.name().as_str()).collect();
    if !others.is_empty() {
        notes.push(format!("{} not drawn", others.join(", ")));
    }
    sheet.draw(&candles::draw(&candles, y, sheet.plot(), frame.look));
    let columns = candles::columns(candles.points.len(), width);
    let at: Vec<(usize, f64)> = columns.zip(&candles.points).map(|(column, point)| (column, point.x)).collect();
    sheet.label(&points.axis.labels_of_points(&at, width), &points.axis.name);
    sheet.finish(key.0.as_deref().unwrap_or(""), &candles::legend(frame.look), &notes, frame.look)
}

fn draw_bars(
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    (key, columns): (usize, &[usize]),
    frame: ChartOptions,
) -> Result<String> {
    let bars_max = if frame.bars_max == 0 { usize::MAX } else { frame.bars_max };
    let mut lists: Vec<Vec<Bar>> = vec![Vec::new(); columns.len()];
    let (mut rows, mut drawn) = (0_u64, 0);
    for batch in batches {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        let batch = batch.slice(0, batch.num_rows().min(bars_max - drawn));
        drawn += batch.num_rows();
        for (column, list) in columns.iter().zip(&mut lists) {
            list.extend(bars_of(&batch, key, *column)?);
        }
    }
    let mut notes = vec![Counted(rows, "row").to_string()];
    if rows == 0 {
        return Ok(format!("{}: there is nothing to draw\n", notes.join(", ")));
    }
    if rows > drawn as u64 {
        notes.push(format!("{} not drawn (--rows 0 draws all)", Thousands(rows - drawn as u64)));
    }
    let mut text = String::new();
    for (column, list) in columns.iter().zip(&lists) {
        text += &format!("{}\n", shortened(schema.field(*column).name(), frame.size.0));
        text += &bars::draw(list, frame.size.0, frame.look);
    }
    Ok(text + &notes.join(", ") + "\n")
}

/// The bars of some rows.
fn bars_of(batch: &RecordBatch, key: usize, column: usize) -> Result<Vec<Bar>> {
    let options = super::options();
    let written = ArrayFormatter::try_new(batch.column(column).as_ref(), &options)?;
    let (keys, values) = (texts(batch.column(key))?, floats(batch.column(column))?);
    let bar = |row: usize| Bar {
        key: if keys.is_valid(row) { keys.value(row).to_owned() } else { String::new() },
        value: values.is_valid(row).then(|| values.value(row)),
        written: written.value(row).to_string(),
    };
    Ok((0..batch.num_rows()).map(bar).collect())
}

#[cfg(test)]
mod tests;
