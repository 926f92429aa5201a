//! Explains a column's encoding in plain words: what it exploits, what that saves, and what it costs.

use super::ColumnInTier;
use super::policy::percent;
use crate::schema::ColumnType;

/// zstd that leaves more than this of the bytes isn't worth a word.
const SAVES_LITTLE: f64 = 0.97;

/// Reading that takes less than this as long isn't either.
const COSTS_LITTLE: f64 = 1.2;

/// A sentence on what determines a column's size. `odd` is one of its floats that can't be stored as a whole number.
pub(super) fn of(column_type: &ColumnType, tiers: &[ColumnInTier; 4], odd: Option<f64>) -> String {
    let [mapped, fast, small, dense] = tiers;
    let mut words: Vec<String> = values(column_type, &fast.encoding, odd).into_iter().collect();
    // The smaller tier has one more to choose from.
    let encoding_text = encoding(&fast.encoding).or_else(|| encoding(&small.encoding));
    words.push(encoding_text.unwrap_or("no encoding makes it smaller").to_owned());
    if mapped.bytes > 0.0 {
        words.push(format!("fast takes {} % of mapped", percent(fast.bytes / mapped.bytes)));
    }
    words.push(compression(fast, small));
    if small.bytes > 0.0 && dense.bytes < small.bytes * SAVES_LITTLE {
        words.push(format!("dense takes {} % of small", percent(dense.bytes / small.bytes)));
    }
    words.join("; ")
}

/// Describes the values by their type in the file.
fn values(column_type: &ColumnType, encoding_text: &str, odd: Option<f64>) -> Option<String> {
    if let Some((_, digits)) = encoding_text.split_once("whole numbers / 10^") {
        let digits = digits.split([',', ';']).next().unwrap_or_default();
        return match column_type {
            ColumnType::Float32 | ColumnType::Float64 if digits == "0" => {
                Some("all are whole, and are kept as whole numbers, bit for bit".to_owned())
            }
            ColumnType::Float32 | ColumnType::Float64 => {
                Some(format!("decimals of {digits} digits, kept as whole numbers, bit for bit"))
            }
            _ => None,
        };
    }
    if matches!(column_type, ColumnType::Float32 | ColumnType::Float64) {
        return Some(match odd {
            Some(odd) if odd.is_nan() => "floats as they are, for NaN is no decimal".to_owned(),
            Some(odd) if odd.is_infinite() => "floats as they are, for an infinity is no decimal".to_owned(),
            Some(odd) if odd.to_bits() == (-0.0_f64).to_bits() => {
                "floats as they are, for negative zero is no decimal".to_owned()
            }
            Some(odd) => format!("floats as they are, for {odd} has more than 12 decimals or 15 digits"),
            None => "floats as they are: no power of ten makes all of them whole".to_owned(),
        });
    }
    let units = [("milliseconds", "all on whole milliseconds"), ("microseconds", "all on whole microseconds")];
    units.into_iter().find(|(unit, _)| encoding_text.contains(unit)).map(|(_, words)| words.to_owned())
}

/// The property of the values that an encoding exploits. A column may have different encodings in its segments; the first one is described.
fn encoding(encoding_text: &str) -> Option<&'static str> {
    if encoding_text.contains("delta length") {
        Some("texts behind each other, with their lengths apart")
    } else if encoding_text.contains("dictionary") {
        Some("few values that differ, each kept once")
    } else if encoding_text.contains("delta binary packed") {
        Some("neighbours differ little, and only the differences are kept")
    } else if encoding_text.contains("byte stream split") {
        Some("the bytes of equal places are alike, and are kept together")
    } else {
        None
    }
}

/// The effect of zstd in the small tier.
fn compression(fast: &ColumnInTier, small: &ColumnInTier) -> String {
    let ratio = if fast.bytes > 0.0 { small.bytes / fast.bytes } else { 1.0 };
    if ratio > SAVES_LITTLE {
        return "zstd saves little".to_owned();
    }
    let saves = format!("small saves another {:.0} %", 100.0 * (1.0 - ratio));
    match (fast.gb_per_second, small.gb_per_second) {
        (Some(quick), Some(slow)) if slow > 0.0 && quick / slow >= COSTS_LITTLE => {
            format!("{saves}, and is read {:.1} times slower", quick / slow)
        }
        _ => saves,
    }
}
