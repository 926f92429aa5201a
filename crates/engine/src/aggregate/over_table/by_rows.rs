//! Keys that change with nearly every row although rows are ordered: symbols with one or two rows per segment, and
//! time buckets about as short as the distance between rows. Galloping to the end of each span would cost more than
//! reading the keys row by row.

use crate::aggregate::Key;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::table::{Cover, CoverColumns, Span};

use super::cuts::Cuts;
use super::{TableAggregate, picks_by_time};

/// Rows of a run or a stretch, on average, from which on it is found as such.
const ROWS_OF_SPAN_MIN: usize = 8;

/// Spans from which on it matters.
const SPANS_MIN: usize = 1 << 12;

/// Rows per cover whose times are sampled, and how many covers are sampled.
const SAMPLE: (usize, usize) = (1 << 10, 4);

/// The keys, and the covers, of what is better grouped row by row; `None` where the order of the rows does.
pub(super) fn by_rows(input: &TableAggregate<'_>, covers: &[Cover]) -> Result<Option<(Vec<Key>, Vec<Cover>)>> {
    let rows: usize = covers.iter().map(Cover::selected_rows).sum();
    if rows < SPANS_MIN {
        return Ok(None);
    }
    let spans: usize = covers.iter().map(|cover| cover.spans.len()).sum();
    let has_short_runs = spans >= SPANS_MIN && rows < spans * ROWS_OF_SPAN_MIN;
    if !has_short_runs || !may_be_joined(input) {
        let is_short = has_short_stretches(input, covers)?;
        return Ok(is_short.then(|| (input.keys.to_vec(), covers.to_vec())));
    }
    let keys = input.keys.iter().map(|key| match key {
        Key::Symbol => match input.snapshot.spec().symbol_position() {
            Some(symbol) => Ok(Key::Value(Expr::Column(symbol))),
            None => Err(Error::Unsupported("a table without symbols".to_owned())),
        },
        other => Ok(other.clone()),
    });
    Ok(Some((keys.collect::<Result<_>>()?, covers.iter().map(joined).collect())))
}

/// Whether spans may be of several symbols: where the symbol is a key it tells rows apart as any other key. Else a filter may ask for the symbol
/// of a span, and rows that are picked by their time are the first or last of it.
fn may_be_joined(input: &TableAggregate<'_>) -> bool {
    let by_symbol = input.keys.iter().any(|key| matches!(key, Key::Symbol));
    by_symbol || !picks_by_time(input.aggregates) && input.aggregates.iter().all(|aggregate| aggregate.filter.is_none())
}

/// A cover whose spans are of several symbols where they stand side by side.
fn joined(cover: &Cover) -> Cover {
    let mut spans: Vec<Span> = Vec::new();
    for span in &cover.spans {
        match spans.last_mut().filter(|last| last.rows.end == span.rows.start) {
            Some(last) => last.rows.end = span.rows.end,
            None => spans.push(Span { rows: span.rows.clone(), run: None }),
        }
    }
    Cover { spans, ..cover.clone() }
}

/// Whether keys of the time change every few rows, judged by some of them.
fn has_short_stretches(input: &TableAggregate<'_>, covers: &[Cover]) -> Result<bool> {
    let cuts = Cuts::new(input);
    if cuts.is_empty() {
        return Ok(false);
    }
    let (mut rows, mut stretches) = (0, 0);
    for cover in covers.iter().step_by((covers.len() / SAMPLE.1).max(1)).take(SAMPLE.1) {
        let first = cover.first(SAMPLE.0);
        let columns = CoverColumns::new(input.snapshot, &first);
        let times = columns.times()?;
        for span in &first.spans {
            rows += span.rows.len();
            let of_cover = span.rows.start - first.rows.start..span.rows.end - first.rows.start;
            cuts.each(of_cover, times, |_, _| {
                stretches += 1;
                Ok(())
            })?;
        }
    }
    Ok(rows < stretches * ROWS_OF_SPAN_MIN)
}
