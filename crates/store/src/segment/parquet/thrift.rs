//! The two structures of Parquet's metadata that the `parquet` crate doesn't hand out: headers of pages and the list of a column's
//! pages (its offset index). Both are structs of Thrift's compact protocol.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>.

/// Structs within structs, and lists within those, that are passed over.
const DEPTH_MAX: usize = 8;

/// Kinds of values in the compact protocol.
const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// The header of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// 0 for data, 2 for a dictionary, 3 for data of the second version.
    pub(super) kind: i64,
    /// Length of the page's bytes as stored, without this header.
    pub(super) stored_bytes: usize,
    /// Their length before compression.
    pub(super) bytes: usize,
    /// Values, nulls among them.
    pub(super) values: usize,
    /// Number of the encoding.
    pub(super) encoding: i64,
    /// Length of the header itself.
    pub(super) header_bytes: usize,
}

/// The place of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageLocation {
    /// Offset in the file.
    pub(super) offset: usize,
    /// Length with its header.
    pub(super) bytes: usize,
    /// Its first row within the row group.
    pub(super) first_row: usize,
}

/// The header at the beginning of these bytes; `None` for other bytes.
pub(super) fn page_header(bytes: &[u8]) -> Option<PageHeader> {
    let mut input = ThriftInput { bytes, at: 0 };
    let mut header = PageHeader::default();
    let mut fields = ThriftFields::default();
    while let Some((field, kind)) = fields.next(&mut input)? {
        match field {
            1 => header.kind = input.whole(kind)?,
            2 => header.bytes = usize::try_from(input.whole(kind)?).ok()?,
            3 => header.stored_bytes = usize::try_from(input.whole(kind)?).ok()?,
            // The headers of data, dictionaries and data of the second version.
            5 | 7 | 8 if kind == STRUCT => {
                let encoding = if field == 8 { 4 } else { 2 };
                let mut inner = ThriftFields::default();
                while let Some((field, kind)) = inner.next(&mut input)? {
                    match field {
                        1 => header.values = usize::try_from(input.whole(kind)?).ok()?,
                        _ if field == encoding => header.encoding = input.whole(kind)?,
                        _ => input.pass(kind, 0)?,
                    }
                }
            }
            _ => input.pass(kind, 0)?,
        }
    }
    header.header_bytes = input.at;
    Some(header)
}

/// The pages that an offset index lists; `None` for other bytes.
pub(super) fn page_locations(bytes: &[u8]) -> Option<Vec<PageLocation>> {
    let mut input = ThriftInput { bytes, at: 0 };
    let mut pages = None;
    let mut fields = ThriftFields::default();
    while let Some((field, kind)) = fields.next(&mut input)? {
        if field != 1 || kind != LIST {
            input.pass(kind, 0)?;
            continue;
        }
        let (count, element) = input.list()?;
        if element != STRUCT {
            return None;
        }
        let mut locations = Vec::with_capacity(count.min(bytes.len()));
        for _ in 0..count {
            let mut values = [None; 3];
            let mut inner = ThriftFields::default();
            while let Some((field, kind)) = inner.next(&mut input)? {
                match usize::try_from(field).ok().filter(|field| (1..=3).contains(field)) {
                    Some(field) => values[field - 1] = Some(usize::try_from(input.whole(kind)?).ok()?),
                    None => input.pass(kind, 0)?,
                }
            }
            locations.push(PageLocation { offset: values[0]?, bytes: values[1]?, first_row: values[2]? });
        }
        pages = Some(locations);
    }
    pages
}

/// The two fields before an encrypted footer: the file's identifier and the wrapped key. `None` for other bytes, for an algorithm other than AES-GCM,
/// and for a prefix that the reader would have to know.
pub(super) fn crypto_metadata(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut input = ThriftInput { bytes, at: 0 };
    let (mut unique, mut material) = (None, None);
    let mut fields = ThriftFields::default();
    while let Some((field, kind)) = fields.next(&mut input)? {
        match field {
            1 if kind == STRUCT => unique = algorithm(&mut input)?,
            2 if kind == BINARY => material = Some(input.binary()?),
            _ => input.pass(kind, 0)?,
        }
    }
    unique.zip(material)
}

/// The union of algorithms: AES-GCM alone gives what tells the file from others.
#[expect(clippy::option_option, reason = "another algorithm isn't other bytes")]
fn algorithm<'a>(input: &mut ThriftInput<'a>) -> Option<Option<&'a [u8]>> {
    let mut unique = None;
    let mut fields = ThriftFields::default();
    while let Some((field, kind)) = fields.next(input)? {
        if field != 1 || kind != STRUCT {
            input.pass(kind, 0)?;
            continue;
        }
        let mut inner = ThriftFields::default();
        while let Some((field, kind)) = inner.next(input)? {
            match field {
                2 if kind == BINARY => unique = Some(input.binary()?),
                // A prefix, and that the reader has to know one.
                1 => return Some(None),
                3 if kind == TRUE => return Some(None),
                _ => input.pass(kind, 0)?,
            }
        }
    }
    Some(unique)
}

/// Walks the fields of a struct.
#[derive(Default)]
struct ThriftFields {
    last: i64,
}

impl ThriftFields {
    /// Number and kind of the next field; an inner `None` at the struct's end, an outer one for bytes that are none.
    #[expect(clippy::option_option, reason = "the end isn't a fault")]
    fn next(&mut self, input: &mut ThriftInput<'_>) -> Option<Option<(i64, u8)>> {
        let head = input.byte()?;
        let kind = head & 15;
        if kind == STOP {
            return Some(None);
        }
        self.last = if head >> 4 == 0 { input.zigzag()? } else { self.last + i64::from(head >> 4) };
        Some(Some((self.last, kind)))
    }
}

/// Bytes that are read from front to back.
struct ThriftInput<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ThriftInput<'a> {
    fn binary(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let start = self.at;
        self.skip(length)?;
        Some(&self.bytes[start..self.at])
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        varint(self.bytes, &mut self.at)
    }

    fn zigzag(&mut self) -> Option<i64> {
        self.varint().map(zigzag)
    }

    /// A whole number of any width.
    fn whole(&mut self, kind: u8) -> Option<i64> {
        match kind {
            BYTE => self.byte().map(|byte| i64::from(byte.cast_signed())),
            4..=I64 => self.zigzag(),
            _ => None,
        }
    }

    /// Length of a list and the kind of its elements.
    fn list(&mut self) -> Option<(usize, u8)> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Some((usize::try_from(count).ok()?, head & 15))
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.at = self.at.checked_add(bytes).filter(|at| *at <= self.bytes.len())?;
        Some(())
    }

    /// Skips a value that isn't needed.
    fn pass(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            // The value of a boolean field is in its type byte.
            TRUE | FALSE => Some(()),
            BYTE => self.skip(1),
            4..=I64 => self.varint().map(|_| ()),
            DOUBLE => self.skip(8),
            BINARY => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.skip(length)
            }
            LIST | SET if depth < DEPTH_MAX => {
                let (count, element) = self.list()?;
                for _ in 0..count {
                    // In a list, a truth value takes a byte.
                    if matches!(element, TRUE | FALSE) { self.skip(1)? } else { self.pass(element, depth + 1)? }
                }
                Some(())
            }
            STRUCT if depth < DEPTH_MAX => {
                let mut fields = ThriftFields::default();
                while let Some((_, kind)) = fields.next(self)? {
                    self.pass(kind, depth + 1)?;
                }
                Some(())
            }
            _ => None,
        }
    }
}

/// A number of groups of seven bits, the least first; at most ten bytes.
pub(super) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let byte = bytes.get(*at).copied()?;
        *at += 1;
        value |= u64::from(byte & 127).checked_shl(shift).unwrap_or(0);
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

/// A signed number that was written with its sign last.
pub(super) fn zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn signs_stand_last() {
        for (written, expected) in [(0, 0), (1, -1), (2, 1), (3, -2), (u64::MAX - 1, i64::MAX), (u64::MAX, i64::MIN)] {
            assert_eq!(zigzag(written), expected);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = page_header(&bytes);
            let _ = page_locations(&bytes);
            let _ = crypto_metadata(&bytes);
        }
    }
}
