//! Cuts a stream into objects of JSON, with or without white space between them, as Cryptofeed writes them.
//!
//! An object ends with the brace or bracket that closes its first one; those within texts don't count. Bytes between objects, and objects that
//! are too long, are faults: their first bytes are kept, the others read and counted. One object at most is in memory.

/// Bytes of a fault that are kept.
const FAULT_BYTES_MAX: usize = 4 << 10;

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamPiece {
    /// An object or an array, from its first to its last byte.
    Whole(Vec<u8>),
    /// The first bytes of something that isn't an object, and the reason.
    Fault(Vec<u8>, String),
}

/// Cuts a stream.
#[derive(Debug)]
pub struct JsonSplitter {
    bytes_max: usize,
    buffer: Vec<u8>,
    /// Bytes of the object or fault so far; the buffer has the first `bytes_max` of them.
    length: usize,
    depth: usize,
    is_text: bool,
    is_escaped: bool,
}

impl JsonSplitter {
    /// One for objects of so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> JsonSplitter {
        JsonSplitter { bytes_max, buffer: Vec::new(), length: 0, depth: 0, is_text: false, is_escaped: false }
    }

    /// Takes the next bytes of the stream, and gives the pieces that end in them.
    pub fn push(&mut self, bytes: &[u8], mut give: impl FnMut(StreamPiece)) {
        for byte in bytes {
            if self.depth == 0 {
                match byte {
                    b'{' | b'[' => {
                        self.end_of_stray(&mut give);
                        self.depth = 1;
                        self.hold(*byte);
                    }
                    // Bytes between objects are one fault for each line.
                    b'\n' => self.end_of_stray(&mut give),
                    byte if byte.is_ascii_whitespace() && self.length == 0 => {}
                    byte => self.hold(*byte),
                }
                continue;
            }
            self.hold(*byte);
            self.step(*byte);
            if self.depth == 0 {
                self.end_of_object(&mut give);
            }
        }
    }

    /// Gives the rest of a stream that has ended.
    pub fn end(&mut self, mut give: impl FnMut(StreamPiece)) {
        if self.depth > 0 {
            let reason = format!("the stream ends within an object, after {} bytes of it", self.length);
            self.fault(reason, &mut give);
        }
        self.end_of_stray(&mut give);
    }

    fn step(&mut self, byte: u8) {
        if self.is_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.is_text = true,
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
    }

    fn hold(&mut self, byte: u8) {
        self.length = self.length.saturating_add(1);
        if self.buffer.len() < self.bytes_max {
            self.buffer.push(byte);
        }
    }

    fn end_of_object(&mut self, give: &mut impl FnMut(StreamPiece)) {
        if self.length > self.bytes_max {
            let reason = format!("{} bytes are more than message_bytes_max", self.length);
            return self.fault(reason, give);
        }
        self.length = 0;
        give(StreamPiece::Whole(std::mem::take(&mut self.buffer)));
    }

    fn end_of_stray(&mut self, give: &mut impl FnMut(StreamPiece)) {
        if self.length > 0 {
            let reason = format!("{} bytes between objects", self.length);
            self.fault(reason, give);
        }
    }

    fn fault(&mut self, reason: String, give: &mut impl FnMut(StreamPiece)) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.truncate(FAULT_BYTES_MAX);
        buffer.shrink_to_fit();
        (self.length, self.depth, self.is_text, self.is_escaped) = (0, 0, false, false);
        give(StreamPiece::Fault(buffer, reason));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(stream: &[u8], step: usize, bytes_max: usize) -> Vec<StreamPiece> {
        let mut pieces = Vec::new();
        let mut splitter = JsonSplitter::new(bytes_max);
        for part in stream.chunks(step) {
            splitter.push(part, |piece| pieces.push(piece));
        }
        splitter.end(|piece| pieces.push(piece));
        pieces
    }

    fn whole(text: &str) -> StreamPiece {
        StreamPiece::Whole(text.as_bytes().to_vec())
    }

    fn fault(text: &str, reason: &str) -> StreamPiece {
        StreamPiece::Fault(text.as_bytes().to_vec(), reason.to_owned())
    }

    #[test]
    fn objects_are_cut_where_they_end_however_they_arrive() {
        let (first, second) = (r#"{"a": "}\"{\\", "b": [1, {"c": 2}]}"#, r#"[{"d": "]"}]"#);
        let stream = format!("{first}{second}\n \r\n{first} noise {second}noise\n{second}{{\"a\": ");
        for step in 1..=stream.len() {
            let expected = [
                whole(first),
                whole(second),
                whole(first),
                fault("noise ", "6 bytes between objects"),
                whole(second),
                fault("noise", "5 bytes between objects"),
                whole(second),
                fault("{\"a\": ", "the stream ends within an object, after 6 bytes of it"),
            ];
            assert_eq!(pieces(stream.as_bytes(), step, 100), expected, "{step}");
        }
    }

    #[test]
    fn objects_that_are_too_long_are_one_fault_and_take_no_memory() {
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(1 << 20));
        let split = pieces(format!("{long}{{}}").as_bytes(), 4096, 10_000);
        assert_eq!(split.len(), 2);
        assert!(
            matches!(&split[0], StreamPiece::Fault(bytes, reason) if bytes.len() == FAULT_BYTES_MAX && reason.contains("message_bytes_max"))
        );
        assert_eq!(split[1], whole("{}"));
        let noise = "x".repeat(1 << 20);
        assert!(
            matches!(&pieces(noise.as_bytes(), 4096, 10_000)[..], [StreamPiece::Fault(bytes, _)] if bytes.len() == FAULT_BYTES_MAX)
        );
        let mut splitter = JsonSplitter::new(1_000);
        splitter.push(long.as_bytes(), |_| {});
        assert!(splitter.buffer.capacity() <= 4_096);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_cut_alike_in_any_steps(
            bytes in prop::collection::vec(prop::sample::select(&b"{}[]\"\\ \na1:,"[..]), 0..200),
            step in 1_usize..200,
            bytes_max in 1_usize..60,
        ) {
            prop_assert_eq!(pieces(&bytes, step, bytes_max), pieces(&bytes, 1, bytes_max));
        }
    }
}
