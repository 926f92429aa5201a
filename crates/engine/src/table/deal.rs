//! Assigns rows to threads.

use super::cover::{Cover, Span};

/// Splits covers into parts of about `rows` selected rows each, in their order.
pub(crate) fn deal(covers: Vec<Cover>, rows: usize) -> Vec<Vec<Cover>> {
    let mut parts = vec![Vec::new()];
    let mut filled = 0;
    for mut cover in covers {
        loop {
            let room = rows.saturating_sub(filled).max(1);
            let selected = cover.selected_rows();
            if selected <= room {
                filled += selected;
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

/// Splits a cover after some of its selected rows.
fn split(mut cover: Cover, rows: usize) -> (Cover, Cover) {
    let (mut head, mut remaining) = (Vec::new(), rows);
    let mut tail = Vec::new();
    for span in cover.spans.drain(..) {
        if span.rows.len() <= remaining {
            remaining -= span.rows.len();
            head.push(span);
        } else if remaining > 0 {
            let middle = span.rows.start + remaining;
            remaining = 0;
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
