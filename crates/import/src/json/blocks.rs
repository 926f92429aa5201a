//! Where a block of JSON may be cut.

use super::scan;

/// Position behind the last line feed, 0 if there is none.
pub(crate) fn last_line_end(bytes: &[u8]) -> usize {
    memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1)
}

/// Position behind the last whole object of an array's piece, 0 if there is none.
pub(crate) fn last_object_end(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(start) = memchr::memchr(b'{', &bytes[end..]) {
        match scan::object_end(bytes, end + start) {
            Some(next) => end = next,
            None => break,
        }
    }
    end
}
