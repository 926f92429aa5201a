//! Query rewrite: statements over a table that a materialized view answers, if the view allows it. `SELECT sym,
//! sum(size) FROM trade GROUP BY sym` reads the minutes of `bars` instead of the trades.
//!
//! - A statement is rewritten as text, before the queries of views are inserted (`views.rs`): from then on it costs
//!   as much as a statement over the view, and stale parts are computed as there.
//! - Only a select over the table alone is rewritten, if its keys and conditions can be computed from the view's
//!   keys, and its aggregates merged from the view's (`select.rs` over `grouped_view.rs`).
//! - If names or types of the answer's columns differ, the statement runs as written.

mod grouped_view;
mod scope;
mod select;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, Query, SetExpr, VisitorMut};
use splay_functions::DAY_NS;

pub(super) use self::grouped_view::GroupedView;
use super::{PlannedView, ViewState};
use crate::names::Spellings;
use crate::walk::visit_mut;
use crate::{dialect, joins};

/// Statements that are remembered.
const STATEMENTS_MAX: usize = 1024;

/// A cache of rewritten statements over tables with such views, by text.
#[derive(Debug, Default)]
pub(crate) struct Rewrites(Mutex<HashMap<String, CachedRewrite>>);

#[derive(Debug)]
struct CachedRewrite {
    candidates: Vec<Candidate>,
    text: Option<Arc<str>>,
}

/// The instant from which on a view has the rows that its query gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ViewCoverage {
    /// From this instant on the view has exactly the rows of its query; `i64::MIN` if it has for all times.
    bound: i64,
    /// An instant before all of these rows.
    earliest: i64,
}

/// A view that may answer a statement.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    planned: Arc<PlannedView>,
    since: ViewCoverage,
    /// Rows that are kept, as far as they tell which view is the smallest.
    pub(crate) size: u32,
}

impl Candidate {
    /// A view at one state of its tables; `None` if its rows aren't groups, or retention leaves some of them out.
    pub(crate) fn of(state: &ViewState, session: &SessionState) -> Option<Candidate> {
        state.planned.grouped_view(session)?;
        Some(Candidate {
            since: state.same_rows_since()?,
            size: state.stored_rows.checked_ilog2().unwrap_or(0),
            planned: Arc::clone(&state.planned),
        })
    }

    fn is(&self, other: &Candidate) -> bool {
        Arc::ptr_eq(&self.planned, &other.planned) && (self.since, self.size) == (other.since, other.size)
    }
}

impl ViewState {
    /// The instant from which on the view has the rows that its query gives. Before it retention has removed rows of the table. `None` if there is
    /// none, or the view's own retention has removed rows.
    fn same_rows_since(&self) -> Option<ViewCoverage> {
        if self.has_expired {
            return None;
        }
        let expired = self.parts.iter().take_while(|part| part.is_expired).count();
        let (before, after) = self.parts.split_at(expired);
        let first = after.first()?;
        if before.iter().any(|part| part.rows > 0) || after.iter().any(|part| part.is_expired) {
            return None;
        }
        let bound = if expired == 0 { i64::MIN } else { *first.times.start() };
        // A day more for clocks before UTC and dates that begin on the evening before.
        let date = i64::from(*first.dates.first()?) - 2;
        Some(ViewCoverage { bound, earliest: date.saturating_mul(DAY_NS) })
    }
}

impl PlannedView {
    /// The view as groups, if its rows are groups.
    fn grouped_view(&self, state: &SessionState) -> Option<&GroupedView> {
        let grouped = self.grouped.get_or_init(|| GroupedView::of(&self.view, &self.query, &self.tables, state));
        grouped.as_ref()
    }
}

impl Rewrites {
    /// The cached rewrite of a statement with the same views.
    pub(crate) fn find(&self, text: &str, candidates: &[Candidate]) -> Option<Option<Arc<str>>> {
        let rewrites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = rewrites.get(text)?;
        let is_same = |(a, b): (&Candidate, &Candidate)| a.is(b);
        let are_same =
            cached.candidates.len() == candidates.len() && cached.candidates.iter().zip(candidates).all(is_same);
        are_same.then(|| cached.text.clone())
    }

    /// Remembers a rewrite, or that there is none.
    pub(crate) fn add(&self, text: &str, candidates: Vec<Candidate>, rewritten: Option<&str>) {
        let mut rewrites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rewrites.len() >= STATEMENTS_MAX {
            rewrites.clear();
        }
        rewrites.insert(text.to_owned(), CachedRewrite { candidates, text: rewritten.map(Arc::from) });
    }
}

/// A query that reads views instead of tables. The columns of the answer that have no alias get those `names`.
pub(crate) fn written_over(
    state: &SessionState,
    query: &str,
    candidates: &[Candidate],
    names: &[String],
) -> Option<String> {
    let (folded, _) = Spellings::fold(query).ok()?;
    if joins::rewrite(&folded).ok()?.is_some() {
        return None;
    }
    let Statement::Statement(mut statement) = dialect::parse(&folded, state).ok()? else { return None };
    let ast::Statement::Query(_) = statement.as_ref() else { return None };
    let mut rewriter = Rewriter { state, candidates, names, depth: 0, has_changed: false };
    let _ = visit_mut(statement.as_mut(), &mut rewriter);
    rewriter.has_changed.then(|| statement.to_string())
}

/// Rewrites the selects of a statement.
struct Rewriter<'a> {
    state: &'a SessionState,
    candidates: &'a [Candidate],
    names: &'a [String],
    depth: usize,
    has_changed: bool,
}

impl Rewriter<'_> {
    /// Rewrites a select, with what orders its rows, by the first view that answers it.
    fn select(&mut self, select: &mut ast::Select, order: Option<&mut ast::OrderBy>, names: &[String]) {
        let mut order = order;
        for candidate in self.candidates {
            let Some(grouped) = candidate.planned.grouped_view(self.state) else { continue };
            let query = (&*select, order.as_deref());
            if let Some((over, ordered)) = select::over_view(query, grouped, candidate.since, self.state, names) {
                *select = over;
                if let (Some(order), Some(ordered)) = (order.as_mut(), ordered) {
                    **order = ordered;
                }
                self.has_changed = true;
                return;
            }
        }
    }

    /// Rewrites the selects that are put together by `UNION` and its kin; their order is that of columns by name.
    fn selects(&mut self, body: &mut SetExpr, names: &[String]) {
        match body {
            SetExpr::Select(select) => self.select(select, None, names),
            SetExpr::SetOperation { left, right, .. } => {
                self.selects(left, names);
                self.selects(right, names);
            }
            _ => {}
        }
    }
}

impl VisitorMut for Rewriter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        let names = if self.depth == 1 { self.names } else { &[] };
        match query.body.as_mut() {
            SetExpr::Select(select) => self.select(select, query.order_by.as_mut(), names),
            body => self.selects(body, names),
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}
