//! Detects foreign protocols on a new connection for line protocol.
//!
//! A web page can make its reader's browser send a request to any port of this machine, with lines in its body. Such
//! a connection opens with an HTTP request line, or with a TLS handshake, whose tickets can contain any bytes. No
//! line begins like these, so the first bytes decide, before a row is taken.

/// Longest method that is looked for; registered ones have up to 17 letters.
const METHOD_BYTES_MAX: usize = 32;

/// The protocol of a connection, by its first bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DetectedProtocol {
    /// Both protocols are possible: the rest of the first line decides.
    Undecided,
    /// Lines, from the first byte on.
    Lines,
    /// Another protocol, by its name.
    Foreign(&'static str),
}

/// Looks at all bytes that a connection has sent so far. Once these are `line_bytes_max`, the longest first line that is taken, it is
/// decided.
pub(crate) fn detect_protocol(bytes: &[u8], line_bytes_max: usize) -> DetectedProtocol {
    match bytes {
        [] | [0x16] => return DetectedProtocol::Undecided,
        [0x16, 0x03, ..] => return DetectedProtocol::Foreign("TLS"),
        _ => {}
    }
    let method = bytes.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
    if method > METHOD_BYTES_MAX {
        return DetectedProtocol::Lines;
    }
    match bytes.get(method) {
        None => return DetectedProtocol::Undecided,
        Some(b' ') if method > 0 => {}
        Some(_) => return DetectedProtocol::Lines,
    }
    let rest = &bytes[method + 1..];
    match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) if is_target_and_version(&rest[..end]) => DetectedProtocol::Foreign("HTTP"),
        Some(_) => DetectedProtocol::Lines,
        None if bytes.len() < line_bytes_max => DetectedProtocol::Undecided,
        // No line is longer. That of a request may go on for megabytes.
        None if rest.starts_with(b"/") || rest.starts_with(b"http") => DetectedProtocol::Foreign("HTTP"),
        None => DetectedProtocol::Lines,
    }
}

/// Whether a line goes on, behind the method, as one of a request: `target HTTP/1.1`.
fn is_target_and_version(rest: &[u8]) -> bool {
    let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
    let version = rest.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    version.len() < rest.len() && version.starts_with(b"HTTP/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_handshakes_are_told_from_lines_wherever_they_are_cut() {
        let foreign: [(&[u8], &str); 6] = [
            (b"POST / HTTP/1.1\r\nhost: a\r\n\r\ntrade,sym=A price=1 1\n", "HTTP"),
            (b"GET /?a=b%20c HTTP/1.0\n", "HTTP"),
            (b"OPTIONS * HTTP/1.1\r\n", "HTTP"),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP"),
            (b"M-SEARCH http://a/ b=1 HTTP/1.1\r\n", "HTTP"),
            (b"\x16\x03\x01\x02\x00trade a=1\n", "TLS"),
        ];
        for (bytes, protocol) in foreign {
            let first = (1..=bytes.len())
                .map(|end| detect_protocol(&bytes[..end], 1 << 16))
                .find(|o| *o != DetectedProtocol::Undecided);
            assert_eq!(first, Some(DetectedProtocol::Foreign(protocol)), "{}", bytes.escape_ascii());
        }
        let lines: [&[u8]; 8] = [
            b"trade,sym=IBM price=1 1\n",
            b"TRADE price=1 1\n",
            b"POST,a=b c=1\n",
            b"POST /=1 5\n",
            b"# a comment\n",
            b"\nPOST / HTTP/1.1\n",
            b"\x16a=1\n",
            b"A_B c=1\n",
        ];
        for bytes in lines {
            let first = (1..=bytes.len())
                .map(|end| detect_protocol(&bytes[..end], 1 << 16))
                .find(|o| *o != DetectedProtocol::Undecided);
            assert_eq!(first, Some(DetectedProtocol::Lines), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_request_line_without_an_end_is_one_once_no_line_is_as_long() {
        let mut bytes = b"GET /".to_vec();
        bytes.resize(99, b'a');
        assert_eq!(detect_protocol(&bytes, 100), DetectedProtocol::Undecided);
        bytes.push(b'a');
        assert_eq!(detect_protocol(&bytes, 100), DetectedProtocol::Foreign("HTTP"));
        assert_eq!(detect_protocol(&[b"TRADE ", &bytes[5..]].concat(), 100), DetectedProtocol::Lines);
    }
}
