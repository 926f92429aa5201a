//! The first rows of a plan, for a limit: computes no more of a step's input than these rows need.
//!
//! Filters, projections and time joins are prefix-true: the first rows of their input give the first rows of their
//! output, in the same order. A step that may drop or repeat rows first tries a prefix of its input; if this gives
//! too few rows, it takes all of it.

use std::time::Instant;

use super::{frames, over_input};
use crate::error::Result;
use crate::execution_context::ExecutionContext;
use crate::files::file_frames;
use crate::frame::Frame;
use crate::frame_steps::whole;
use crate::plan::Plan;
use crate::rows::rows;
use crate::scan::covers;

/// Input rows that are tried first.
const TRIED_ROWS: usize = 65_536;

/// Row limit above which all rows are computed, by several threads.
const FIRST_ROWS_MAX: usize = 1 << 18;

/// The first rows of a plan: at least `row_limit` of them if the plan has as many, maybe more.
pub(crate) fn first_frames(plan: &Plan, row_limit: usize, context: &ExecutionContext<'_>) -> Result<Vec<Frame>> {
    if row_limit > FIRST_ROWS_MAX {
        return frames(plan, context);
    }
    let start = Instant::now();
    let output = match plan {
        Plan::Rows { scan, outputs, types, fetch } => {
            let fetch = fetch.map_or(row_limit, |fetch| fetch.min(row_limit));
            rows(scan, &covers(scan, false, context)?, outputs, types, Some(fetch), context)?
        }
        Plan::Files(scan) => file_frames(scan, None, row_limit, context)?,
        Plan::Project { input, .. } | Plan::WindowJoin { input, .. } => {
            over_input(plan, first_frames(input, row_limit, context)?, context)?
        }
        Plan::Asof { input, asof } if !asof.inner && !asof.all_of_time => {
            over_input(plan, first_frames(input, row_limit, context)?, context)?
        }
        Plan::Asof { input, .. } | Plan::Filter { input, .. } => first_by_trial(plan, input, row_limit, context)?,
        Plan::Limit { input, skip, fetch } => {
            let row_limit = fetch.map_or(row_limit, |fetch| fetch.min(row_limit));
            let input = whole(first_frames(input, skip.saturating_add(row_limit), context)?, context)?;
            vec![input.slice(*skip, row_limit)]
        }
        other => return frames(other, context),
    };
    context.reads.add_step(plan.step_id(), start, &output);
    Ok(output)
}

/// The first rows of a step that needs an unknown number of input rows: tries few of them first.
fn first_by_trial(plan: &Plan, input: &Plan, row_limit: usize, context: &ExecutionContext<'_>) -> Result<Vec<Frame>> {
    let count = |frames: &[Frame]| frames.iter().map(Frame::len).sum::<usize>();
    let first = first_frames(input, TRIED_ROWS.max(row_limit), context)?;
    let are_all = count(&first) < TRIED_ROWS.max(row_limit);
    let output = over_input(plan, first, context)?;
    if are_all || count(&output) >= row_limit { Ok(output) } else { over_input(plan, frames(input, context)?, context) }
}
