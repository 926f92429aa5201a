//! Rights that roles were granted.

use serde::{Deserialize, Serialize};

use super::is_same;

/// A privilege on a table or a view; `Create` is one on the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Privilege {
    /// Read rows, and follow them.
    Select,
    /// Add rows.
    Insert,
    /// Change rows.
    Update,
    /// Remove rows.
    Delete,
    /// Remove all rows.
    Truncate,
    /// Refresh a materialized view.
    Maintain,
    /// Make tables and views.
    Create,
}

impl Privilege {
    /// The privileges that can be granted on a table.
    pub const OF_TABLES: [Privilege; 6] = [
        Privilege::Select,
        Privilege::Insert,
        Privilege::Update,
        Privilege::Delete,
        Privilege::Truncate,
        Privilege::Maintain,
    ];

    /// The privilege's name in SQL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Privilege::Select => "SELECT",
            Privilege::Insert => "INSERT",
            Privilege::Update => "UPDATE",
            Privilege::Delete => "DELETE",
            Privilege::Truncate => "TRUNCATE",
            Privilege::Maintain => "MAINTAIN",
            Privilege::Create => "CREATE",
        }
    }

    /// The one of a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Privilege> {
        let all = Privilege::OF_TABLES.into_iter().chain([Privilege::Create]);
        all.into_iter().find(|privilege| privilege.as_str().eq_ignore_ascii_case(word))
    }
}

/// A right of a role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The role that has the grant.
    pub role: String,
    /// The table or view; none for the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The privilege.
    pub privilege: Privilege,
    /// The columns; none for all of them, those that come later among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

impl Grant {
    /// Whether another grant is of the same role, table and privilege, and both are for columns or both for the whole table.
    pub(super) fn is_beside(&self, other: &Grant) -> bool {
        self.is_of_same(other) && self.columns.is_empty() == other.columns.is_empty()
    }

    /// Whether another grant is of the same role, table and privilege.
    pub(super) fn is_of_same(&self, other: &Grant) -> bool {
        let same_table = match (&self.table, &other.table) {
            (None, None) => true,
            (Some(one), Some(other)) => is_same(one, other),
            _ => false,
        };
        is_same(&self.role, &other.role) && same_table && self.privilege == other.privilege
    }
}
