//! Counts as people read them.

use std::fmt::{Display, Formatter};

/// A number with its thousands apart.
#[derive(Debug, Clone, Copy)]
pub struct Thousands(pub u64);

impl Display for Thousands {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let digits = self.0.to_string();
        for (position, digit) in digits.chars().enumerate() {
            if position > 0 && (digits.len() - position).is_multiple_of(3) {
                write!(f, ",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// A number and what it counts, named in the singular: `1 row`, `2,000 rows`, `0 batches`.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a>(pub u64, pub &'a str);

impl Display for Counted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Counted(count, noun) = *self;
        let ending = match noun {
            _ if count == 1 => "",
            noun if noun.ends_with('s') || noun.ends_with("ch") => "es",
            _ => "s",
        };
        write!(f, "{} {noun}{ending}", Thousands(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_with_their_noun() {
        assert_eq!(Thousands(1_234_567).to_string(), "1,234,567");
        assert_eq!(Thousands(12).to_string(), "12");
        let shown = [Counted(0, "row"), Counted(1, "row"), Counted(2_000, "row")].map(|count| count.to_string());
        assert_eq!(shown, ["0 rows", "1 row", "2,000 rows"]);
        assert_eq!(Counted(2, "loss").to_string(), "2 losses");
        assert_eq!(Counted(1, "loss").to_string(), "1 loss");
        assert_eq!(Counted(3, "batch").to_string(), "3 batches");
    }
}
