//! Lines before the header of a text file: comments that begin with `#`, and titles.
//!
//! - They are passed over where the header is beyond doubt: it holds names alone, the record after it has as many fields and a number or a
//!   time among them, and each line before it is a comment or a title, which has another number of fields or no more than one that isn't empty.
//! - Without such a header only comments are passed over. The last comment is the header if it has as many fields as the record after it
//!   and no value among them.
//! - The number of lines that the caller names counts instead; 0 passes nothing over.

use super::fields::{self, is_value};

/// Bytes of a file in which its header is looked for.
pub(crate) const HEAD_BYTES: usize = 1 << 16;

/// Most records that are looked at.
const RECORDS_MAX: usize = 100;

/// A record, or a comment, which ends with its line.
#[derive(Debug)]
struct PreambleRecord {
    begin: usize,
    is_comment: bool,
    fields: usize,
    /// Fields that aren't blank.
    filled: usize,
    /// Whether every field but the first is filled.
    is_full: bool,
    /// Whether a field is a number or a time.
    has_value: bool,
}

/// Whether a line is a comment.
pub(crate) fn is_comment(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"#")
}

/// Position of the header in the first bytes of a file without a byte order mark, or of the first row where there is no header. `header` says whether
/// there is one, as far as that is known.
pub(crate) fn table_begin(bytes: &[u8], delimiter: u8, header: Option<bool>, skip_lines: Option<u64>) -> usize {
    match skip_lines {
        Some(lines) => after_lines(bytes, lines),
        None => recognised_begin(&bytes[..bytes.len().min(HEAD_BYTES)], delimiter, header),
    }
}

/// Lines before the header or the first row, by the first bytes of a file.
pub(crate) fn lines_before(head: &[u8], delimiter: u8, header: bool, skip_lines: Option<u64>) -> u64 {
    if let Some(lines) = skip_lines {
        return lines;
    }
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let begin = table_begin(head, delimiter, Some(header), None);
    memchr::memchr_iter(b'\n', &head[..begin]).count() as u64
}

/// Position after this many lines.
pub(crate) fn after_lines(bytes: &[u8], lines: u64) -> usize {
    let Some(last) = lines.checked_sub(1) else { return 0 };
    let end = usize::try_from(last).ok().and_then(|last| memchr::memchr_iter(b'\n', bytes).nth(last));
    end.map_or(bytes.len(), |end| end + 1)
}

fn recognised_begin(head: &[u8], delimiter: u8, header: Option<bool>) -> usize {
    let mut records: Vec<PreambleRecord> = Vec::new();
    let mut at = 0;
    while records.len() < RECORDS_MAX
        && let Some((record, next)) = read_record(head, at, delimiter)
    {
        records.push(record);
        at = next;
        if header != Some(false)
            && let [before @ .., header, row] = records.as_slice()
            && is_sure_header(header, row)
            && before.iter().all(|line| line.is_comment || is_title(line, header))
        {
            return if before.is_empty() { 0 } else { header.begin };
        }
    }
    after_comments(&records, header)
}

/// Whether a record is the header of the row after it.
fn is_sure_header(header: &PreambleRecord, row: &PreambleRecord) -> bool {
    header.is_full && !header.has_value && row.has_value && !row.is_comment && row.fields == header.fields
}

/// Whether a record is no row under a header. Programs for spreadsheets give all lines the same number of delimiters.
fn is_title(record: &PreambleRecord, header: &PreambleRecord) -> bool {
    record.fields != header.fields || record.filled <= 1 && header.filled > 1
}

fn after_comments(records: &[PreambleRecord], header: Option<bool>) -> usize {
    let comments = records.iter().take_while(|record| record.is_comment).count();
    let (Some(last), Some(next)) = (records[..comments].last(), records.get(comments)) else { return 0 };
    let is_header = header != Some(false) && !last.has_value && last.fields == next.fields;
    match comments - usize::from(is_header) {
        0 => 0,
        passed => records[passed].begin,
    }
}

/// The first record at or after `at`, and the position after it. `None` at the end, and for a record that isn't one.
fn read_record(head: &[u8], at: usize, delimiter: u8) -> Option<(PreambleRecord, usize)> {
    let begin = at + head.get(at..)?.iter().position(|byte| !matches!(byte, b'\n' | b'\r'))?;
    let line_end = memchr::memchr(b'\n', &head[begin..]).map_or(head.len(), |end| begin + end);
    let is_comment = is_comment(&head[begin..line_end]);
    let (bytes, end) =
        if is_comment { (&head[..line_end], Some((line_end + 1).min(head.len()))) } else { (head, None) };
    let (texts, next) = match fields::record(bytes, begin, delimiter) {
        Ok((fields, next)) => (fields, end.unwrap_or(next)),
        // A comment may have any quotes.
        Err(_) => (Vec::new(), end?),
    };
    let texts: Vec<&[u8]> = texts.iter().map(|field| field.text.trim_ascii()).collect();
    let record = PreambleRecord {
        begin,
        is_comment,
        fields: texts.len(),
        filled: texts.iter().filter(|text| !text.is_empty()).count(),
        is_full: texts.iter().skip(1).all(|text| !text.is_empty()),
        has_value: texts.iter().any(|text| is_value(text)),
    };
    Some((record, next))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn begins_with(text: &str, header: Option<bool>) -> &str {
        text[table_begin(text.as_bytes(), b',', header, None)..].lines().next().unwrap_or_default()
    }

    #[test]
    fn comments_and_titles_stand_before_a_header() {
        for text in [
            "# by a program\ntime,price\n2024-01-02,1\n",
            "# a, b\n# it's \"quoted\",\"\n\ntime,price\n2024-01-02,1\n",
            "  # indented\ntime,price\n2024-01-02,1\n",
            "Trades of A\n\ntime,price\n2024-01-02,1\n",
            "Trades\nfrom 2024-01-02, to 2024-01-03, New York\ntime,price\n2024-01-02,1\n",
            "Trades,\n,\ntime,price\n2024-01-02,1\n",
            "# text\ntime,price\nnow,much\n",
        ] {
            assert_eq!(begins_with(text, None), "time,price", "{text:?}");
            assert_eq!(begins_with(text, Some(true)), "time,price", "{text:?}");
        }
        assert_eq!(begins_with("# one column\ntime\n2024-01-02\n", None), "time");
    }

    #[test]
    fn what_may_be_a_header_or_a_row_stays() {
        for text in [
            "time,price\n2024-01-02,1\n",
            "#RIC,Price\nA,1\n",
            "#RIC,Name\nA,Apple\n",
            "time,price\n2024-01-02,1,2\n2024-01-02,1,2\n",
            "a,b\nc,d\ne,1\n",
            "name,kind\na,b\n",
            "2024-01-02,1\n2024-01-02,2\n",
            "# nothing else\n",
            "\"open,price\n2024-01-02,1\n",
            "",
        ] {
            assert_eq!(table_begin(text.as_bytes(), b',', None, None), 0, "{text:?}");
        }
        assert_eq!(begins_with("# of 2023\n#RIC,Price\nA,B\n", None), "#RIC,Price");
        assert_eq!(begins_with("# 1,2\n2024-01-02,1\n", Some(false)), "2024-01-02,1");
    }

    #[test]
    fn the_callers_number_of_lines_counts() {
        let text = "# x\ntime,price\n2024-01-02,1\n";
        let begin = |lines| table_begin(text.as_bytes(), b',', None, Some(lines));
        assert_eq!([begin(0), begin(1), begin(2), begin(3), begin(u64::MAX)], [0, 4, 15, text.len(), text.len()]);
        assert_eq!(lines_before(b"\xef\xbb\xbf# x\n\n# y\ntime,price\n2024-01-02,1\n", b',', true, None), 3);
        assert_eq!(lines_before(b"time,price\n2024-01-02,1\n", b',', true, Some(7)), 7);
    }
}
