//! A canvas of characters.

use std::fmt::Write;

/// Colors of a terminal, by their codes (ECMA-48, SGR).
pub type Color = u8;

pub const GREEN: Color = 32;
pub const RED: Color = 31;

/// Dots of a character of braille, from its top to its bottom, in its left and its right half (Unicode 2800).
const DOTS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// How characters look.
#[derive(Debug, Clone, Copy)]
pub struct CharacterStyle {
    /// Whether ASCII has to do.
    pub is_ascii: bool,
    pub has_colors: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    glyph: char,
    color: Option<Color>,
}

const BLANK: Cell = Cell { glyph: ' ', color: None };

/// Characters in rows, the first at the top. What is put beside it is dropped.
#[derive(Debug)]
pub struct Canvas {
    width: usize,
    cells: Vec<Cell>,
}

impl Canvas {
    pub fn new(width: usize, height: usize) -> Canvas {
        Canvas { width, cells: vec![BLANK; width * height] }
    }

    pub fn put(&mut self, column: usize, row: usize, glyph: char, color: Option<Color>) {
        if column < self.width
            && let Some(cell) = self.cells.get_mut(row * self.width + column)
        {
            *cell = Cell { glyph, color };
        }
    }

    /// Writes a text from a column on.
    pub fn text(&mut self, column: usize, row: usize, text: &str, color: Option<Color>) {
        for (place, glyph) in text.chars().enumerate() {
            self.put(column + place, row, glyph, color);
        }
    }

    /// Puts another canvas on this one.
    pub fn paste(&mut self, column: usize, row: usize, other: &Canvas) {
        for (place, cell) in other.cells.iter().enumerate() {
            self.put(column + place % other.width, row + place / other.width, cell.glyph, cell.color);
        }
    }

    /// Whether the columns of a row are blank.
    pub fn is_blank(&self, columns: std::ops::Range<usize>, row: usize) -> bool {
        let end = columns.end.min(self.width);
        columns.start >= end
            || self.cells[row * self.width + columns.start..row * self.width + end].iter().all(|cell| *cell == BLANK)
    }

    /// Adds a dot, of which each character has two beside and four above each other. The color is that of all dots of the character.
    pub fn dot(&mut self, column: usize, row: usize, color: Option<Color>) {
        let (place, bits) = (row / 4 * self.width + column / 2, DOTS[column % 2][row % 4]);
        if column / 2 < self.width
            && let Some(cell) = self.cells.get_mut(place)
        {
            let before = u32::from(cell.glyph).checked_sub(0x2800).filter(|bits| *bits < 0x100).unwrap_or(0);
            let glyph = char::from_u32(0x2800 + (before | u32::from(bits))).unwrap_or(' ');
            *cell = Cell { glyph, color };
        }
    }

    /// The rows as lines, without blanks at their ends.
    pub fn lines(&self, look: CharacterStyle) -> String {
        let mut text = String::new();
        for row in self.cells.chunks(self.width.max(1)) {
            let end = row.iter().rposition(|cell| cell.glyph != ' ').map_or(0, |last| last + 1);
            let mut color = None;
            for cell in &row[..end] {
                // A blank has none.
                let cell_color = if cell.glyph == ' ' { color } else { cell.color.filter(|_| look.has_colors) };
                if cell_color != color {
                    // A string takes all that is written to it.
                    let _ = write!(text, "\x1b[{}m", cell_color.unwrap_or(0));
                    color = cell_color;
                }
                text.push(if look.is_ascii { ascii(cell.glyph) } else { cell.glyph });
            }
            if color.is_some() {
                text.push_str("\x1b[0m");
            }
            text.push('\n');
        }
        text
    }
}

/// A character that stands for another one where ASCII has to do.
fn ascii(glyph: char) -> char {
    match glyph {
        '│' | '╵' | '╷' => '|',
        '─' => '-',
        '┤' | '┬' | '└' | '┼' => '+',
        '▒' => '=',
        '█' | '▀' | '▄' | '▏' | '▎' | '▍' | '▌' | '▋' | '▊' | '▉' => '#',
        '…' => '~',
        glyph if glyph.is_ascii() => glyph,
        '\u{2800}'..='\u{28ff}' => '*',
        _ => '?',
    }
}

/// A text in at most `width` characters, none of which ends a line or moves the cursor.
pub fn shortened(text: &str, width: usize) -> String {
    let plain = |glyph: char| if glyph.is_control() { ' ' } else { glyph };
    if text.chars().count() <= width {
        return text.chars().map(plain).collect();
    }
    let head = text.chars().take(width.saturating_sub(1)).map(plain);
    head.chain(std::iter::once('…')).take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: CharacterStyle = CharacterStyle { is_ascii: false, has_colors: false };

    #[test]
    fn dots_of_a_character_add_up_and_ascii_stands_for_all() {
        let mut canvas = Canvas::new(3, 2);
        canvas.dot(0, 0, None);
        canvas.dot(1, 3, Some(GREEN));
        canvas.put(2, 1, '█', Some(RED));
        // Beside it.
        canvas.dot(6, 0, None);
        canvas.dot(0, 8, None);
        canvas.text(1, 5, "text", None);
        assert_eq!(canvas.lines(PLAIN), "⢁\n  █\n");
        assert_eq!(canvas.lines(CharacterStyle { is_ascii: true, has_colors: false }), "*\n  #\n");
        let colored = canvas.lines(CharacterStyle { is_ascii: false, has_colors: true });
        assert_eq!(colored, "\x1b[32m⢁\x1b[0m\n  \x1b[31m█\x1b[0m\n");
    }

    #[test]
    fn texts_are_shortened_and_move_no_cursor() {
        assert_eq!((shortened("AAPL", 4), shortened("AAPL.OQ", 4)), ("AAPL".to_owned(), "AAP…".to_owned()));
        assert_eq!(shortened("a\n\x1b[2Jb", 9), "a  [2Jb");
        assert_eq!(shortened("ab", 0), "");
    }
}
