//! Horizontal bars: a line for each text, with the number behind it.

use super::canvas::{Canvas, CharacterStyle, shortened};
use super::scale::Scale;

/// Bars end at an eighth of a character.
const EIGHTHS: [char; 8] = ['█', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Most of a line that the texts take: one part of so many.
const KEY_SHARE: usize = 3;

/// A text, its number if it has one, and that as it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub key: String,
    pub value: Option<f64>,
    pub written: String,
}

/// Draws bars in at most `width` characters. Those of numbers below zero go to the left of it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a width")]
pub fn draw(bars: &[Bar], width: usize, look: CharacterStyle) -> String {
    let longest = |of: fn(&Bar) -> &str| bars.iter().map(|bar| of(bar).chars().count()).max().unwrap_or(0);
    let keys = longest(|bar| &bar.key).min(width / KEY_SHARE).max(1);
    let room = width.saturating_sub(keys + 3 + longest(|bar| &bar.written)).max(1);
    let values = bars.iter().filter_map(|bar| bar.value.filter(|value| value.is_finite()));
    let scale = Scale::of(values.chain([0.0])).unwrap_or(Scale { min: 0.0, max: 1.0 });
    let place = |value: f64| scale.place(value) * room as f64;
    let zero = if scale.min < 0.0 { place(0.0).round() } else { 0.0 };
    let mut canvas = Canvas::new(width, bars.len());
    for (row, bar) in bars.iter().enumerate() {
        canvas.text(0, row, &shortened(&bar.key, keys), None);
        canvas.put(keys + 1, row, '│', None);
        let Some(value) = bar.value.filter(|value| value.is_finite()) else {
            canvas.text(keys + 3 + zero as usize, row, &bar.written, None);
            continue;
        };
        let (begin, end) = if value < 0.0 { (place(value).round(), zero) } else { (zero, place(value).max(zero)) };
        let (begin, eighths) = (begin as usize, ((end - begin) * 8.0).round() as usize);
        for column in begin..begin + eighths.div_ceil(8) {
            let is_last = column + 1 == begin + eighths.div_ceil(8);
            canvas.put(keys + 2 + column, row, if is_last { EIGHTHS[eighths % 8] } else { '█' }, None);
        }
        canvas.text(keys + 3 + begin + eighths.div_ceil(8), row, &bar.written, None);
    }
    canvas.lines(look)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: CharacterStyle = CharacterStyle { is_ascii: false, has_colors: false };

    fn bars(values: &[(&str, Option<f64>)]) -> Vec<Bar> {
        let written = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        values
            .iter()
            .map(|(key, value)| Bar { key: (*key).to_owned(), value: *value, written: written(*value) })
            .collect()
    }

    #[test]
    fn lengths_are_those_of_the_numbers() {
        let some = bars(&[
            ("AAPL", Some(8.0)),
            ("IBM", Some(1.5)),
            ("", None),
            ("MSFT", Some(0.0)),
            ("X", Some(f64::INFINITY)),
        ]);
        assert_eq!(draw(&some, 20, PLAIN), "AAPL │██████████ 8\nIBM  │█▉ 1.5\n     │\nMSFT │ 0\nX    │ inf\n");
        assert_eq!(
            draw(&some[..2], 18, CharacterStyle { is_ascii: true, ..PLAIN }),
            "AAPL |######## 8\nIBM  |## 1.5\n"
        );
    }

    #[test]
    fn numbers_below_zero_go_to_the_left() {
        let some = bars(&[("a", Some(-2.0)), ("b", Some(2.0)), ("c", Some(0.0))]);
        assert_eq!(draw(&some, 14, PLAIN), "a │████ -2\nb │    ████ 2\nc │     0\n");
    }

    #[test]
    fn any_width_and_any_number_will_do() {
        for width in [0, 1, 5, 200] {
            let text = draw(
                &bars(&[("a long name", Some(f64::MAX)), ("b", Some(f64::MIN)), ("c", Some(f64::NAN))]),
                width,
                PLAIN,
            );
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
        }
        assert_eq!(draw(&[], 80, PLAIN), "");
    }
}
