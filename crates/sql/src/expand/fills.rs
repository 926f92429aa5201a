//! The values that `SAMPLE BY … FILL(…)` puts into added rows, for each aggregate of the select list.

use datafusion::sql::sqlparser::ast::{Expr, Select, SelectItem};

use super::expression_of;
use super::sample_by::has_window;
use crate::error::{Result, fault};

/// The expressions of a select list by alias.
pub(super) fn aliases(select: &Select) -> Vec<(String, Expr)> {
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((alias.value.to_lowercase(), expr.clone())),
        _ => None,
    });
    named.collect()
}

/// The fills of the aggregates, in order.
pub(super) struct Fills<'a> {
    pub fills: &'a [(String, Expr)],
    pub next: usize,
    pub aliases: Vec<(String, Expr)>,
}

impl Fills<'_> {
    pub(super) fn fill(&mut self, expr: &mut Expr, is_filled: bool) -> Result<()> {
        let number = self.next;
        self.next += 1;
        let fill_value = match self.fills {
            [one] => Some(one),
            several => several.get(number),
        };
        let (true, Some((kind, value))) = (is_filled, fill_value) else { return Ok(()) };
        if has_window(expr) {
            return fault("SAMPLE BY … FILL with OVER isn't supported: put the SAMPLE BY into a sub-query");
        }
        let filled = match kind.as_str() {
            "null" if matches!(expr, Expr::Function(_)) => return Ok(()),
            "null" => "NULL".to_owned(),
            "prev" => format!("locf({expr})"),
            "linear" => format!("interpolate({expr})"),
            "prev_of" => format!("locf({})", self.of_alias(value)?),
            _ => value.to_string(),
        };
        *expr = expression_of(&format!("CASE WHEN count(*) IS NULL THEN {filled} ELSE {expr} END"))?;
        Ok(())
    }

    fn of_alias(&self, value: &Expr) -> Result<Expr> {
        let name = match value {
            Expr::Nested(inner) => inner.to_string(),
            other => other.to_string(),
        };
        let name = name.trim_matches('"').to_lowercase();
        match self.aliases.iter().find(|(alias, _)| *alias == name) {
            Some((_, expr)) => Ok(expr.clone()),
            None => fault(format!("SAMPLE BY … FILL(PREV({name})): no aggregate has this alias")),
        }
    }

    pub(super) fn check(&self, is_filled: bool) -> Result<()> {
        let (fill_count, aggregates) = (self.fills.len(), self.next);
        if is_filled && fill_count > 1 && fill_count != aggregates {
            return fault(format!(
                "SAMPLE BY: FILL takes one value, or one for each of the {aggregates} aggregates, and not {fill_count}"
            ));
        }
        Ok(())
    }
}
