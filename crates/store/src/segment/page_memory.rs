//! A cache of the pages that a thread decoded last: a statement that reads few rows at a time, block by block or
//! symbol by symbol, decodes each page once.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use crate::error::Result;

/// Files of pages that the process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// Pages that each thread keeps: some for each column of a statement that reads many.
const PAGES_MAX: usize = 64;

/// Bytes of the largest page that is kept. Numbers have far fewer; texts may have more.
const PAGE_BYTES_MAX: usize = 256 << 10;

/// Identifies a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageKey {
    pub(super) file: u64,
    pub(super) position: usize,
    pub(super) first_row: usize,
}

#[derive(Default)]
struct RecentPages {
    pages: Vec<(PageKey, DataType, ArrayRef)>,
    /// The one that the next page takes the place of.
    oldest: usize,
}

thread_local! {
    static RECENT: RefCell<RecentPages> = const { RefCell::new(RecentPages { pages: Vec::new(), oldest: 0 }) };
}

/// A number for a file, which tells it from all others that the process opens.
pub(super) fn new_file() -> u64 {
    OPENED.fetch_add(1, Ordering::Relaxed)
}

/// A range of rows that begins in a page. For a few rows the whole page is decoded, because the next read is mostly in
/// the same page.
pub(super) fn rows_of(
    key: PageKey,
    page: Range<usize>,
    rows: Range<usize>,
    target_type: &DataType,
    read: impl Fn(Range<usize>) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    if rows.end > page.end || rows.len() * 2 >= page.len() || rows.is_empty() {
        return read(rows);
    }
    let values = match get(key, target_type) {
        Some(values) => values,
        None => {
            let values = read(page.clone())?;
            put(key, target_type, &values);
            values
        }
    };
    Ok(values.slice(rows.start - page.start, rows.len()))
}

/// The values of a page that was decoded for the same type.
fn get(key: PageKey, target_type: &DataType) -> Option<ArrayRef> {
    RECENT.with_borrow(|recent| {
        let entry = recent.pages.iter().find(|(other, data_type, _)| *other == key && data_type == target_type);
        entry.map(|(_, _, values)| ArrayRef::clone(values))
    })
}

/// Caches the values of a page. They replace those that were cached first.
fn put(key: PageKey, target_type: &DataType, values: &ArrayRef) {
    if values.get_buffer_memory_size() > PAGE_BYTES_MAX {
        return;
    }
    RECENT.with_borrow_mut(|recent| {
        let page = (key, target_type.clone(), ArrayRef::clone(values));
        if recent.pages.len() < PAGES_MAX {
            recent.pages.push(page);
            return;
        }
        let oldest = recent.oldest;
        recent.pages[oldest] = page;
        recent.oldest = (oldest + 1) % PAGES_MAX;
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int32Array;

    use super::*;

    #[test]
    fn the_newest_pages_are_kept_by_file_column_and_type() {
        let page = |number: usize| PageKey { file: u64::MAX, position: 3, first_row: number };
        let values = |number: usize| Arc::new(Int32Array::from(vec![i32::try_from(number).unwrap()])) as ArrayRef;
        for number in 0..PAGES_MAX + 5 {
            put(page(number), &DataType::Int32, &values(number));
        }
        for number in 0..PAGES_MAX + 5 {
            let page_values = get(page(number), &DataType::Int32);
            assert_eq!(page_values.is_some(), number >= 5, "{number}");
            assert!(page_values.is_none_or(|page_values| *page_values == *values(number)));
        }
        assert!(get(page(PAGES_MAX), &DataType::Int64).is_none());
        assert!(get(PageKey { position: 4, ..page(PAGES_MAX) }, &DataType::Int32).is_none());
        let large = Arc::new(Int32Array::from(vec![0; PAGE_BYTES_MAX])) as ArrayRef;
        put(page(1), &DataType::Int32, &large);
        assert!(get(page(1), &DataType::Int32).is_none(), "too large");
    }
}
