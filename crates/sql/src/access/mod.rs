//! Statements about users and roles (ADR 65), the lists that `SHOW` gives of them, and texts of statements without secrets.

mod secrets;
mod show;
mod statement;

pub use self::secrets::without_secrets;
pub(crate) use self::show::ShowStatement;
pub(crate) use self::statement::{AccessStatement, GrantClause, RoleOptions};
