//! Fields of a line of comma-separated values (RFC 4180, but that a field ends with its line).

use std::borrow::Cow;

/// A field. Without quotes and without text it is null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextField<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) is_quoted: bool,
}

/// The fields of a line.
///
/// # Errors
/// What is wrong with its quotes.
pub(super) fn fields(line: &str) -> Result<Vec<TextField<'_>>, &'static str> {
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        let (field, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let text = &rest[..end];
                if text.contains('"') {
                    return Err("a field that isn't quoted contains a quote");
                }
                (TextField { text: Cow::Borrowed(text), is_quoted: false }, &rest[end..])
            }
        };
        fields.push(field);
        match behind.strip_prefix(',') {
            Some(next) => rest = next,
            None if behind.is_empty() => return Ok(fields),
            None => return Err("a closing quote is followed by neither a comma nor the end of the line"),
        }
    }
}

/// A field behind its opening quote, and what follows its closing one.
fn quoted_field(quoted: &str) -> Result<(TextField<'_>, &str), &'static str> {
    let (mut text, mut from) = (Cow::Borrowed(""), 0);
    loop {
        let Some(quote) = quoted[from..].find('"').map(|at| from + at) else {
            return Err("a quote isn't closed within the line");
        };
        let (piece, behind) = (&quoted[from..quote], &quoted[quote + 1..]);
        if text.is_empty() {
            text = Cow::Borrowed(piece)
        } else {
            text.to_mut().push_str(piece)
        }
        if !behind.starts_with('"') {
            return Ok((TextField { text, is_quoted: true }, behind));
        }
        text.to_mut().push('"');
        from = quote + 2;
    }
}
