//! Generated lists: what is drawn, how many, and in which order. Equal seeds give equal lists.

use std::collections::HashMap;
use std::fmt::{Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::column::Column;
use crate::{Error, Result};

/// Letters of symbols, 16 as q draws them.
const LETTERS: &[u8; 16] = b"abcdefghijklmnop";
/// 2024-01-02 14:30 UTC, and the length of a session after it, in nanoseconds.
const SESSION_START_NS: i64 = 1_704_205_800_000_000_000;
const SESSION_NS: i64 = 23_400_000_000_000;

/// What the values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers from 0 up to a bound, which is excluded.
    Longs(i64),
    /// Booleans.
    Booleans,
    /// Symbols of a number of letters, of 16 different ones.
    Symbols(u32),
    /// Prices around 100 on a grid of 0.01.
    Prices,
    /// Times of a trading session, in microseconds.
    Times,
}

/// How they follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// In random order.
    Random,
    /// Ascending.
    Sorted,
    /// Equal values side by side, in the order of their first ones.
    Contiguous,
}

/// A list to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    /// Its values.
    pub kind: Kind,
    /// How many.
    pub count: usize,
    /// Their order.
    pub order: Order,
    /// What randomness starts from.
    pub seed: u64,
}

impl FromStr for Kind {
    type Err = String;

    /// `longs`, `longs:1000`, `booleans`, `symbols`, `symbols:3`, `prices`, `times`.
    fn from_str(text: &str) -> std::result::Result<Kind, String> {
        let (name, bound) = text.split_once(':').map_or((text, None), |(name, bound)| (name, Some(bound)));
        let wrong = || {
            format!(
                "unknown kind of values {text:?}; there are longs, longs:BOUND, booleans, symbols, symbols:LETTERS, prices, times"
            )
        };
        match (name, bound) {
            ("longs", None) => Ok(Kind::Longs(1_000)),
            ("longs", Some(bound)) => bound.parse().ok().filter(|b| *b > 0).map(Kind::Longs).ok_or_else(wrong),
            ("booleans", None) => Ok(Kind::Booleans),
            ("symbols", None) => Ok(Kind::Symbols(3)),
            ("symbols", Some(letters)) => {
                letters.parse().ok().filter(|n| (1..=32).contains(n)).map(Kind::Symbols).ok_or_else(wrong)
            }
            ("prices", None) => Ok(Kind::Prices),
            ("times", None) => Ok(Kind::Times),
            _ => Err(wrong()),
        }
    }
}

impl Display for Kind {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Longs(bound) => write!(f, "longs:{bound}"),
            Kind::Booleans => write!(f, "booleans"),
            Kind::Symbols(letters) => write!(f, "symbols:{letters}"),
            Kind::Prices => write!(f, "prices"),
            Kind::Times => write!(f, "times"),
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Order, String> {
        match text {
            "random" => Ok(Order::Random),
            "sorted" => Ok(Order::Sorted),
            "contiguous" => Ok(Order::Contiguous),
            _ => Err(format!("unknown order {text:?}; there are random, sorted, contiguous")),
        }
    }
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Order::Random => "random",
            Order::Sorted => "sorted",
            Order::Contiguous => "contiguous",
        })
    }
}

impl List {
    /// What tells its results from those of other lists: `longs:1000 random`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.kind, self.order)
    }

    /// The list.
    ///
    /// # Errors
    /// [`Error::Setting`] for more rows than an Arrow array of texts has.
    pub fn column(&self) -> Result<Column> {
        if self.count > i32::MAX as usize / 64 {
            let (setting, value) = ("count", self.count.to_string());
            return Err(Error::Setting { setting, value, expected: "at most 33,554,431 values" });
        }
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let rows = 0..self.count;
        let values: ArrayRef = match self.kind {
            Kind::Longs(bound) => {
                Arc::new(Int64Array::from(self.ordered(rows.map(|_| random.random_range(0..bound)).collect())))
            }
            Kind::Booleans => {
                Arc::new(BooleanArray::from(self.ordered(rows.map(|_| random.random_bool(0.5)).collect())))
            }
            Kind::Symbols(letters) => {
                let symbols = rows.map(|_| symbol(&mut random, letters)).collect();
                Arc::new(StringArray::from(self.ordered::<String>(symbols)))
            }
            Kind::Prices => {
                let cents: Vec<i64> = rows.map(|_| cents(&mut random)).collect();
                Arc::new(Float64Array::from_iter_values(self.ordered(cents).into_iter().map(price)))
            }
            Kind::Times => {
                let micros = rows.map(|_| SESSION_START_NS + random.random_range(0..SESSION_NS / 1_000) * 1_000);
                Arc::new(TimestampNanosecondArray::from(self.ordered(micros.collect())).with_timezone("UTC"))
            }
        };
        Column::new(&self.name(), &values)
    }

    fn ordered<T: Ord + Clone + std::hash::Hash>(&self, mut values: Vec<T>) -> Vec<T> {
        match self.order {
            Order::Random => {}
            Order::Sorted => values.sort_unstable(),
            Order::Contiguous => {
                let mut first: HashMap<T, usize> = HashMap::new();
                for (place, value) in values.iter().enumerate() {
                    first.entry(value.clone()).or_insert(place);
                }
                values.sort_by_key(|value| first[value]);
            }
        }
        values
    }
}

fn symbol(random: &mut ChaCha8Rng, letters: u32) -> String {
    (0..letters).map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())])).collect()
}

/// 100.00 and a sum of four draws, which is about normal, with a deviation of 2.89.
fn cents(random: &mut ChaCha8Rng) -> i64 {
    10_000 + (0..4).map(|_| random.random_range(-250_i64..=250)).sum::<i64>()
}

#[expect(clippy::cast_precision_loss, reason = "cents are below 2^53")]
fn price(cents: i64) -> f64 {
    cents as f64 / 100.0
}
