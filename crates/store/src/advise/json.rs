//! Advice as JSON.

use serde_json::{Value, json};

use super::{Advice, ColumnAdvice, PartAdvice, TIERS};

impl Advice {
    /// The advice as JSON: bytes, rows and seconds as numbers, tiers by name, null for what wasn't measured.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let tier = |tier: &super::TierAdvice| json!({"tier": tier.tier.name(), "bytes": tier.bytes, "read_seconds": tier.read_seconds});
        let rule = |rule: &crate::TierRule| json!({"tier": rule.tier.name(), "after": rule.after});
        json!({
            "table": self.table,
            "goal": self.goal.name(),
            "rows": self.rows,
            "bytes": self.bytes,
            "segments": self.segments,
            "segments_sampled": self.segments_sampled,
            "rows_sampled": self.rows_sampled,
            "tiers": self.tiers.iter().map(tier).collect::<Vec<_>>(),
            "columns": self.columns.iter().map(column).collect::<Vec<_>>(),
            "beside": part(&self.beside),
            "index": part(&self.index),
            "rules": self.rules.iter().map(rule).collect::<Vec<_>>(),
            "bytes_advised": self.bytes_advised,
            "reasons": self.reasons,
        })
    }
}

fn column(column: &ColumnAdvice) -> Value {
    let mut value = json!({"column": column.column, "type": column.column_type, "now": column.now});
    for (tier, figures) in TIERS.iter().zip(&column.tiers) {
        value[tier.name()] =
            json!({"bytes": figures.bytes, "kept": figures.encoding, "gb_per_second": figures.gb_per_second});
    }
    value["reason"] = Value::from(column.reason.as_str());
    value
}

fn part(part: &PartAdvice) -> Value {
    let mut value = json!({"now": part.now});
    for (tier, bytes) in TIERS.iter().zip(part.tiers) {
        value[tier.name()] = Value::from(bytes);
    }
    value
}
