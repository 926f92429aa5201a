//! Visits rows of several dates symbol by symbol, so that groups come in order.

use std::sync::Arc;

use crate::error::Result;
use crate::table::{Cover, Span};

/// Rows of a symbol and date, on average, from which on each is read by itself.
const SPAN_ROWS_MIN: usize = 256;

/// Covers of one symbol after the other, each by date, so that groups come in order. The rows of each symbol stay in theirs.
pub(super) fn by_symbol(covers: Vec<Cover>, rows: usize) -> Result<Vec<Cover>> {
    let spans: usize = covers.iter().map(|cover| cover.spans.len()).sum();
    let has_dates = covers.windows(2).any(|pair| pair[0].date != pair[1].date);
    if !has_dates || rows < spans * SPAN_ROWS_MIN {
        return Ok(covers);
    }
    let mut numbered = Vec::with_capacity(spans);
    for cover in &covers {
        let index = cover.segment.index()?;
        for span in &cover.spans {
            let Some(run) = span.run else { return Ok(covers) };
            numbered.push((index.symbol(run)?, cover, span));
        }
    }
    numbered.sort_by_key(|(symbol, _, _)| *symbol);
    let of_span = |(_, cover, span): (Option<&str>, &Cover, &Span)| Cover {
        segment: Arc::clone(&cover.segment),
        date: cover.date,
        rows: span.rows.clone(),
        spans: vec![span.clone()],
    };
    Ok(numbered.into_iter().map(of_span).collect())
}
