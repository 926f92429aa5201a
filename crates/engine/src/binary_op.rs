//! Operations on two values.

/// Operations on two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    /// Sum; an error if a whole number overflows.
    Add,
    /// Difference, likewise.
    Subtract,
    /// Product, likewise.
    Multiply,
    /// Quotient.
    Divide,
    /// Remainder.
    Remainder,
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less.
    Less,
    /// Less or equal.
    LessOrEqual,
    /// Greater.
    Greater,
    /// Greater or equal.
    GreaterOrEqual,
    /// Logical and, with SQL's nulls.
    And,
    /// Logical or, with SQL's nulls.
    Or,
}

impl BinaryOp {
    /// The comparison for which `b swapped a` equals `a op b`.
    #[must_use]
    pub fn swapped(self) -> BinaryOp {
        match self {
            BinaryOp::Less => BinaryOp::Greater,
            BinaryOp::LessOrEqual => BinaryOp::GreaterOrEqual,
            BinaryOp::Greater => BinaryOp::Less,
            BinaryOp::GreaterOrEqual => BinaryOp::LessOrEqual,
            other => other,
        }
    }

    /// Whether it compares two values.
    pub(crate) fn is_comparison(self) -> bool {
        use BinaryOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
    }
}
