//! The states in which a session's statements are planned.

use std::sync::Arc;

use datafusion::execution::session_state::SessionState;

/// DataFusion's state: functions, rules and the catalog.
///
/// A trait object: otherwise the compiler would examine all types of DataFusion and of the SQL parser for each future that holds a session, to prove
/// that it can move to another thread, which takes half a minute in the server alone.
pub(crate) trait StatementStates: Send + Sync {
    /// The state that all statements share, for work that doesn't depend on the time: parsing, and the resolution of names and types.
    fn shared(&self) -> Arc<SessionState>;

    /// A state for one statement, whose `now()` is the time of this call. Copies the tables of functions, some 100 microseconds.
    fn of_statement(&self) -> SessionState;
}

impl StatementStates for Arc<SessionState> {
    fn shared(&self) -> Arc<SessionState> {
        Arc::clone(self)
    }

    fn of_statement(&self) -> SessionState {
        let mut state = SessionState::clone(self);
        state.mark_start_execution();
        state
    }
}
