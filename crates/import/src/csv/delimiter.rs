//! The character between the fields of delimited text.

/// A delimiter: one ASCII character that numbers and quotes don't have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiter(u8);

impl Delimiter {
    pub(crate) fn byte(self) -> u8 {
        self.0
    }
}

impl std::str::FromStr for Delimiter {
    type Err = String;

    fn from_str(text: &str) -> Result<Delimiter, String> {
        let byte = match text.as_bytes() {
            b"tab" | b"\\t" => b'\t',
            [byte] => *byte,
            _ => return Err(refusal(text)),
        };
        let is_of_values = byte.is_ascii_alphanumeric() || matches!(byte, b'"' | b'.' | b'-' | b'+' | b'\n' | b'\r');
        if is_of_values { Err(refusal(text)) } else { Ok(Delimiter(byte)) }
    }
}

fn refusal(text: &str) -> String {
    format!(
        "{text:?} is not a delimiter: it is one ASCII character that numbers and quotes don't have, such as ; or |, or tab"
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_delimiter_is_one_character_or_tab() {
        for (text, byte) in
            [(";", b';'), ("|", b'|'), (",", b','), ("\t", b'\t'), ("\\t", b'\t'), ("tab", b'\t'), ("^", b'^')]
        {
            assert_eq!(text.parse::<Delimiter>().unwrap().byte(), byte, "{text:?}");
        }
        for text in ["", ";;", "a", "1", ".", "-", "+", "\"", "\n", "\u{e9}", "semicolon"] {
            let refused = text.parse::<Delimiter>().unwrap_err();
            assert!(refused.contains("is not a delimiter: it is one ASCII character"), "{refused}");
        }
    }
}
