//! Templates for file names, such as `{symbol}/{date:%Y%m%d}_quote.zip/{_}`.
//!
//! - A template is matched against as many of a path's last components as it has; a zip member counts as a component.
//! - `{name}` takes one or more characters other than `/`, as few as possible; `{_}` is thrown away.
//! - `{date:%Y%m%d}` takes a date of `%Y`, `%y`, `%m` and `%d`. Letters match without regard to case.

use std::collections::HashMap;

use crate::csv::times::date_by_pattern;

#[derive(Debug, Clone, PartialEq)]
enum TemplatePart {
    Literal(String),
    Text(String),
    Date { name: String, pattern: String, len: usize },
}

/// A compiled template.
#[derive(Debug, Clone)]
pub(crate) struct NameTemplate {
    text: String,
    pieces: Vec<TemplatePart>,
    components: usize,
}

/// What a template took out of a name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Captures {
    texts: HashMap<String, String>,
    /// The date, in days since 1970-01-01.
    pub day: Option<i32>,
}

impl NameTemplate {
    /// Compiles a template.
    pub fn parse(text: &str) -> Result<NameTemplate, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let Some(open) = rest.find('{') else {
                pieces.push(TemplatePart::Literal(rest.to_owned()));
                break;
            };
            if open > 0 {
                pieces.push(TemplatePart::Literal(rest[..open].to_owned()));
            }
            let close = rest.find('}').filter(|&c| c > open).ok_or_else(|| format!("{text:?} has an open brace"))?;
            let inner = &rest[open + 1..close];
            pieces.push(match inner.split_once(':') {
                Some((name, pattern)) => {
                    TemplatePart::Date { name: name.to_owned(), pattern: pattern.to_owned(), len: date_len(pattern)? }
                }
                None if inner.is_empty() => return Err(format!("{text:?} has empty braces; write {{_}}")),
                None => TemplatePart::Text(inner.to_owned()),
            });
            rest = &rest[close + 1..];
        }
        let components = text.split('/').count();
        Ok(NameTemplate { text: text.to_owned(), pieces, components })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// A file pattern for names of this form, up to the zip file that holds the rest.
    pub fn pattern(&self) -> String {
        let part = |piece: &TemplatePart| match piece {
            TemplatePart::Literal(text) => text.clone(),
            TemplatePart::Text(_) | TemplatePart::Date { .. } => "*".to_owned(),
        };
        let mut pattern: String = self.pieces.iter().map(part).collect();
        if let Some(at) = pattern.find(".zip/") {
            pattern.truncate(at + ".zip".len());
        }
        pattern
    }

    pub fn has_date(&self) -> bool {
        self.pieces.iter().any(|p| matches!(p, TemplatePart::Date { name, .. } if name == "date"))
    }

    /// Matches the end of a path.
    pub fn captures(&self, path: &str) -> Option<Captures> {
        let components: Vec<&str> = path.split(['/', '\\']).collect();
        let tail = components.len().checked_sub(self.components)?;
        let mut captures = Captures::default();
        matches(&self.pieces, &components[tail..].join("/"), &mut captures).then_some(captures)
    }
}

impl Captures {
    /// Puts captures into a text: `{name}`, or `{name:upper}` in capitals.
    pub fn expand(&self, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let close = rest.find('}').filter(|&c| c > open).ok_or_else(|| format!("{text:?} has an open brace"))?;
            out.push_str(&rest[..open]);
            let (name, form) = rest[open + 1..close].split_once(':').unwrap_or((&rest[open + 1..close], ""));
            let value = self.texts.get(name).ok_or_else(|| format!("the file's name gives no {name:?}"))?;
            match form {
                "" => out.push_str(value),
                "upper" => out.push_str(&value.to_uppercase()),
                _ => return Err(format!("{text:?}: {form:?} is not a form; there is upper")),
            }
            rest = &rest[close + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }
}

fn matches(pieces: &[TemplatePart], text: &str, captures: &mut Captures) -> bool {
    let Some((piece, rest)) = pieces.split_first() else { return text.is_empty() };
    match piece {
        TemplatePart::Literal(literal) => {
            text.get(..literal.len()).is_some_and(|head| head.eq_ignore_ascii_case(literal))
                && matches(rest, &text[literal.len()..], captures)
        }
        TemplatePart::Date { name, pattern, len } => {
            let Some(day) = text.get(..*len).and_then(|head| date_by_pattern(head, pattern)) else { return false };
            if !matches(rest, &text[*len..], captures) {
                return false;
            }
            captures.texts.insert(name.clone(), text[..*len].to_owned());
            if name == "date" {
                captures.day = Some(day);
            }
            true
        }
        TemplatePart::Text(name) => {
            for (at, c) in text.char_indices() {
                if c == '/' {
                    return false;
                }
                let end = at + c.len_utf8();
                if matches(rest, &text[end..], captures) {
                    captures.texts.insert(name.clone(), text[..end].to_owned());
                    return true;
                }
            }
            false
        }
    }
}

fn date_len(pattern: &str) -> Result<usize, String> {
    let mut len = 0;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        len += match (c, chars.as_str().chars().next()) {
            ('%', Some('Y')) => 4,
            ('%', Some('y' | 'm' | 'd')) => 2,
            ('%', _) => return Err(format!("{pattern:?} may hold %Y, %y, %m and %d")),
            (c, _) => {
                len += c.len_utf8();
                continue;
            }
        };
        chars.next();
    }
    Ok(len)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_give_symbol_and_date() {
        let template = NameTemplate::parse("{symbol}/{date:%Y%m%d}_quote.zip/{_}").unwrap();
        let captures = template.captures("/data/usa/tick/ibm/20131007_quote.zip/20131007_ibm_Quote_Tick.csv").unwrap();
        assert_eq!(captures.day, Some(15_985));
        assert_eq!(captures.expand("{symbol:upper}.N").unwrap(), "IBM.N");
        assert!(captures.expand("{root}").is_err());
        assert!(template.captures("/data/ibm/20131307_quote.zip/x").is_none());
        assert!(template.captures("20131007_quote.zip").is_none());
    }

    #[test]
    fn several_captures_are_told_apart() {
        let template =
            NameTemplate::parse("{date:%Y%m%d}_{root}_minute_quote_{style}_{right}_{strike}_{expiry}.csv").unwrap();
        let captures =
            template.captures("a.zip/20151224_goog_minute_quote_american_call_10000000_20160108.csv").unwrap();
        assert_eq!(
            captures.expand("{root:upper} {style} {right} {strike} {expiry}").unwrap(),
            "GOOG american call 10000000 20160108"
        );
    }

    #[test]
    fn wrong_templates_are_refused() {
        for text in ["{symbol", "{}", "{date:%H}"] {
            assert!(NameTemplate::parse(text).is_err(), "{text}");
        }
    }
}
