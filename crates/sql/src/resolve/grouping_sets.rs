//! `ROLLUP` and `CUBE` as the sets that they stand for, and each key of a set once.
//!
//! DataFusion 55.2 has no column for a key that `ROLLUP (a, a)` names twice, and no `ROLLUP ((a, b), c)`. Written as sets, the same key is one column,
//! and a set that comes twice gives its groups twice, as in PostgreSQL and DuckDB.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select};

/// Most sets that are written out where no key is seen to come twice. The planner may find that two are the same column.
const SETS_MAX: usize = 64;

/// Most sets that are written out at all.
const REPEATED_SETS_MAX: usize = 4096;

/// Writes the sets of a select out.
pub(super) fn write_out(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    for key in keys {
        let number = match &*key {
            Expr::Rollup(parts) if parts.len() > 1 => parts.len() + 1,
            Expr::Cube(parts) if parts.len() > 1 => {
                u32::try_from(parts.len()).ok().and_then(|keys| 1usize.checked_shl(keys)).unwrap_or(usize::MAX)
            }
            Expr::GroupingSets(_) => 0,
            _ => continue,
        };
        if number > SETS_MAX && (number > REPEATED_SETS_MAX || !needs_sets(key)) {
            continue;
        }
        let sets = match &*key {
            Expr::Rollup(parts) => (0..=parts.len()).rev().map(|length| parts[..length].concat()).collect(),
            Expr::Cube(parts) => (0..number).rev().map(|bits| subset(parts, bits)).collect(),
            Expr::GroupingSets(sets) => sets.clone(),
            _ => continue,
        };
        let sets: Vec<Vec<Expr>> = sets;
        *key = Expr::GroupingSets(sets.into_iter().map(each_once).collect());
    }
}

/// Whether the planner would refuse a `ROLLUP` or `CUBE`.
fn needs_sets(key: &Expr) -> bool {
    let (Expr::Rollup(parts) | Expr::Cube(parts)) = key else { return false };
    let keys: Vec<Expr> = parts.concat();
    parts.iter().any(|part| part.len() != 1) || each_once(keys.clone()).len() < keys.len()
}

/// The parts of a `CUBE` whose bits are set, the first part by the highest bit.
fn subset(parts: &[Vec<Expr>], bits: usize) -> Vec<Expr> {
    let is_in = |place: &usize| bits >> (parts.len() - 1 - place) & 1 == 1;
    (0..parts.len()).filter(is_in).flat_map(|place| parts[place].iter().cloned()).collect()
}

/// The keys of a set without those that come again, by their text.
fn each_once(keys: Vec<Expr>) -> Vec<Expr> {
    let mut texts: Vec<String> = Vec::with_capacity(keys.len());
    let mut once = Vec::with_capacity(keys.len());
    for key in keys {
        let text = key.to_string();
        if !texts.contains(&text) {
            texts.push(text);
            once.push(key);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Ident;

    use super::*;

    fn keys(text: &str) -> Vec<Expr> {
        text.chars().map(|name| Expr::Identifier(Ident::new(name))).collect()
    }

    #[test]
    fn a_cube_begins_with_all_of_its_keys() {
        let parts = [keys("ab"), keys("c")];
        let sets: Vec<Vec<Expr>> = (0..4).rev().map(|bits| subset(&parts, bits)).collect();
        assert_eq!(sets, [keys("abc"), keys("ab"), keys("c"), keys("")]);
        assert_eq!(each_once(keys("aba")), keys("ab"));
    }
}
