//! Bytes of a line: separators, names with escapes, quoted text.
//!
//! Escapes in names and tag values: a backslash before a comma, equals sign, space, backslash or line feed stands for that
//! character; before any other it is itself. In quoted text: before a quote, backslash or line feed. The first four are
//! InfluxDB's (line protocol reference, "Special characters"); line feeds are what QuestDB's clients escape besides
//! (questdb-rs 7.2, `ingress/buffer/ilp.rs`).

use super::error::{LineRefusal, MissingInput, Reason, ScanResult, ScanStop};

const SEPARATORS: [bool; 256] = {
    let mut table = [false; 256];
    let marks = b", =\\\n\r";
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    table
};

/// The bytes at hand of one line, from its first byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineText<'a> {
    pub bytes: &'a [u8],
    /// Nothing comes behind the bytes: their end is the line's.
    pub ended: bool,
    /// Quotes inside quoted text are taken as text where they can't be its end.
    pub lenient: bool,
}

impl<'a> LineText<'a> {
    /// The byte at a position; a line feed at the end of the last line.
    #[inline(always)]
    pub fn byte(&self, at: usize) -> ScanResult<u8> {
        match self.bytes.get(at) {
            Some(&byte) => Ok(byte),
            None if self.ended => Ok(b'\n'),
            None => Err(ScanStop::More(MissingInput::LineFeed)),
        }
    }

    /// Position of the first byte at or after `at` that isn't a space.
    #[inline(always)]
    pub fn skip_spaces(&self, mut at: usize) -> usize {
        while self.bytes.get(at) == Some(&b' ') {
            at += 1;
        }
        at
    }

    /// Where the next line begins, if the line ends at `at`: at a line feed, or a carriage return and a line feed.
    #[inline(always)]
    pub fn line_end(&self, at: usize) -> ScanResult<Option<usize>> {
        match self.byte(at)? {
            b'\n' => Ok(Some((at + 1).min(self.bytes.len()))),
            b'\r' => match self.byte(at + 1)? {
                b'\n' => Ok(Some((at + 2).min(self.bytes.len()))),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// The name or tag value at `at` up to an unescaped separator, and that position. `keep_equals`: an equals sign is
    /// part of it, as InfluxDB allows in tag values.
    #[inline(always)]
    pub fn name(&self, at: usize, keep_equals: bool) -> ScanResult<(Name<'a>, usize)> {
        let mut end = at;
        let mut escaped = false;
        loop {
            while let Some(&byte) = self.bytes.get(end)
                && !SEPARATORS[byte as usize]
            {
                end += 1;
            }
            match self.byte(end)? {
                b'\\' => {
                    self.byte(end + 1)?;
                    escaped = true;
                    end = (end + 2).min(self.bytes.len());
                }
                b'=' if keep_equals => end += 1,
                _ => return Ok((Name { raw: &self.bytes[at..end], escaped }, end)),
            }
        }
    }

    /// The quoted text whose opening quote is just before `at`, and the position behind its closing quote.
    pub fn quoted(&self, at: usize) -> ScanResult<(Name<'a>, usize)> {
        if self.lenient {
            return self.quoted_leniently(at);
        }
        let mut from = at;
        let mut escaped = false;
        loop {
            let rest = self.bytes.get(from..).unwrap_or_default();
            let Some(place) = memchr::memchr2(b'"', b'\\', rest).map(|n| from + n) else {
                return Err(self.unclosed(at));
            };
            if self.bytes[place] == b'"' {
                return Ok((Name { raw: &self.bytes[at..place], escaped }, place + 1));
            }
            escaped = true;
            from = place + 2;
        }
    }

    /// Like [`LineText::quoted`], but a quote ends the text only if a separator follows, and then something that may follow a separator.
    fn quoted_leniently(&self, at: usize) -> ScanResult<(Name<'a>, usize)> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        for place in memchr::memchr_iter(b'"', rest).map(|n| at + n) {
            if self.bytes[place - 1] != b'\\' && self.ends_value(place + 1) {
                let raw = &self.bytes[at..place];
                return Ok((Name { raw, escaped: memchr::memchr(b'\\', raw).is_some() }, place + 1));
            }
        }
        Err(self.unclosed(at))
    }

    /// Whether the text from `at` on can only follow a value: the end, a timestamp, or a comma, a plain name and `=`.
    fn ends_value(&self, at: usize) -> bool {
        let Some((first, rest)) = self.bytes.get(at..).and_then(<[u8]>::split_first) else { return true };
        match first {
            b'\n' => true,
            b'\r' => rest.is_empty() || rest[0] == b'\n',
            b' ' => {
                let rest = rest.trim_ascii();
                let digits = rest.strip_prefix(b"-").unwrap_or(rest);
                let digits = digits.strip_suffix(b"n").or(digits.strip_suffix(b"t")).unwrap_or(digits);
                rest.is_empty() || (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
            }
            b',' => {
                let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
                let length = rest.iter().take_while(|b| plain(b)).count();
                length > 0 && rest.get(length) == Some(&b'=')
            }
            _ => false,
        }
    }

    #[cold]
    fn unclosed(&self, at: usize) -> ScanStop {
        if self.ended {
            ScanStop::Refused(Box::new(LineRefusal {
                reason: Reason::UnclosedQuote,
                at,
                resume: at,
                whole: false,
                quotes: true,
            }))
        } else {
            ScanStop::More(MissingInput::Quote(at))
        }
    }
}

/// A name or a text as it is written in the line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name<'a> {
    pub raw: &'a [u8],
    /// Whether there are backslashes in it.
    pub escaped: bool,
}

impl<'a> Name<'a> {
    /// The name without its escapes; `quoted` chooses the rules of quoted text.
    #[inline(always)]
    pub fn plain<'b>(&self, quoted: bool, scratch: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        if self.escaped {
            unescape(self.raw, quoted, scratch);
            scratch
        } else {
            self.raw
        }
    }
}

fn unescape(raw: &[u8], quoted: bool, scratch: &mut Vec<u8>) {
    scratch.clear();
    let mut bytes = raw.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            scratch.push(byte);
            continue;
        }
        match bytes.next() {
            Some(next) if is_escapable(next, quoted) => scratch.push(next),
            Some(next) => scratch.extend([b'\\', next]),
            None => scratch.push(b'\\'),
        }
    }
}

fn is_escapable(byte: u8, quoted: bool) -> bool {
    match byte {
        b'\\' | b'\n' | b'\r' => true,
        b'"' => quoted,
        b',' | b'=' | b' ' => !quoted,
        _ => false,
    }
}
