//! Form and query encoding (`application/x-www-form-urlencoded`).

/// Names and values.
#[derive(Debug, Default)]
pub(super) struct UrlEncodedForm(String);

impl UrlEncodedForm {
    pub(super) fn of<const N: usize>(pairs: [(&str, &str); N]) -> UrlEncodedForm {
        let mut form = UrlEncodedForm::default();
        pairs.into_iter().for_each(|(name, value)| form.add(name, value));
        form
    }

    pub(super) fn add(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(&percent_encode(name));
        self.0.push('=');
        self.0.push_str(&percent_encode(value));
    }

    pub(super) fn text(&self) -> String {
        self.0.clone()
    }
}

/// A percent-encoded text: only letters, digits and four other characters are unchanged.
pub(super) fn percent_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if plain(byte) {
            encoded.push(byte.into());
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_from_what_is_between_them() {
        let form = UrlEncodedForm::of([("a", "b c"), ("é", "&=%+")]);
        assert_eq!(form.text(), "a=b%20c&%C3%A9=%26%3D%25%2B");
    }
}
