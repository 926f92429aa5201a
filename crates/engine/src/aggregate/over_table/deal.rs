//! Which thread works on which rows.

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

/// Cuts covers into parts of about `rows` wanted rows each, in their order.
pub(super) fn deal(covers: Vec<Cover>, rows: usize) -> Vec<Vec<Cover>> {
    let mut parts = vec![Vec::new()];
    let mut filled = 0;
    for mut cover in covers {
        loop {
            let room = rows.saturating_sub(filled).max(1);
            let wanted = cover.wanted();
            if wanted <= room {
                filled += wanted;
                last(&mut parts).push(cover);
                break;
            }
            let (head, rest) = split(cover, room);
            last(&mut parts).push(head);
            parts.push(Vec::new());
            filled = 0;
            cover = rest;
        }
    }
    parts.retain(|part| !part.is_empty());
    if parts.is_empty() { vec![Vec::new()] } else { parts }
}

fn last(parts: &mut Vec<Vec<Cover>>) -> &mut Vec<Cover> {
    if parts.is_empty() {
        parts.push(Vec::new());
    }
    let end = parts.len() - 1;
    &mut parts[end]
}

/// Cuts a cover after some of its wanted rows.
fn split(mut cover: Cover, rows: usize) -> (Cover, Cover) {
    let (mut head, mut left) = (Vec::new(), rows);
    let mut tail = Vec::new();
    for span in cover.spans.drain(..) {
        if span.rows.len() <= left {
            left -= span.rows.len();
            head.push(span);
        } else if left > 0 {
            let middle = span.rows.start + left;
            left = 0;
            let mut front = span.clone();
            front.rows.end = middle;
            head.push(front);
            let mut back = span;
            back.rows.start = middle;
            tail.push(back);
        } else {
            tail.push(span);
        }
    }
    let bounds = |spans: &[Span]| {
        let start = spans.first().map_or(0, |span| span.rows.start);
        start..spans.last().map_or(start, |span| span.rows.end)
    };
    let front = Cover { rows: bounds(&head), spans: head, ..cover.clone() };
    let back = Cover { rows: bounds(&tail), spans: tail, ..cover };
    (front, back)
}
