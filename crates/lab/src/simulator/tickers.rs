//! The symbols of an equity day: well-known ones first, then generated ones.
//!
//! Invariants: names are unique; the rank is the order of activity, 0 the busiest; the list is sorted by name, the order
//! of the published files.

use std::collections::HashSet;

use super::random::{Random, Stream};

/// A symbol of the day.
#[derive(Debug, Clone)]
pub(crate) struct Ticker {
    /// The name, with its suffix after a space: `BRK A`.
    pub(crate) name: String,
    /// The order by activity, 0 the busiest.
    pub(crate) rank: u64,
    /// The exchange code of the listing: N, P, A or Q.
    pub(crate) listing: u8,
    /// The price of the day before, in cents.
    pub(crate) close_cents: u64,
}

/// Name, listing, price in cents (October 2019, rounded), by activity.
const WELL_KNOWN: &[(&str, u8, u64)] = &[
    ("AAPL", b'Q', 22_706),
    ("SPY", b'P', 29_342),
    ("MSFT", b'Q', 13_712),
    ("QQQ", b'Q', 18_858),
    ("AMD", b'Q', 2_896),
    ("BAC", b'N', 2_780),
    ("TSLA", b'Q', 23_772),
    ("AMZN", b'Q', 173_266),
    ("FB", b'Q', 17_968),
    ("IWM", b'P', 14_925),
    ("GE", b'N', 854),
    ("INTC", b'Q', 5_078),
    ("EEM", b'P', 4_053),
    ("XLF", b'P', 2_738),
    ("T", b'N', 3_727),
    ("F", b'N', 862),
    ("NVDA", b'Q', 18_222),
    ("MU", b'Q', 4_302),
    ("CSCO", b'Q', 4_684),
    ("JPM", b'N', 11_436),
    ("IBM", b'N', 14_124),
    ("NFLX", b'Q', 27_446),
    ("DIS", b'N', 12_996),
    ("C", b'N', 6_837),
    ("WFC", b'N', 4_861),
    ("XOM", b'N', 6_798),
    ("GLD", b'P', 14_093),
    ("TLT", b'Q', 14_554),
    ("EFA", b'P', 6_418),
    ("GDX", b'P', 2_745),
    ("PFE", b'N', 3_573),
    ("KO", b'N', 5_462),
    ("VZ", b'N', 5_945),
    ("CMCSA", b'Q', 4_513),
    ("UBER", b'N', 2_968),
    ("SNAP", b'N', 1_464),
    ("TWTR", b'N', 4_000),
    ("GOOGL", b'Q', 120_825),
    ("GOOG", b'Q', 120_700),
    ("BABA", b'N', 16_956),
    ("ORCL", b'N', 5_470),
    ("PG", b'N', 12_403),
    ("JNJ", b'N', 13_384),
    ("WMT", b'N', 11_734),
    ("V", b'N', 17_530),
    ("MA", b'N', 27_310),
    ("HD", b'N', 22_854),
    ("MRK", b'N', 8_512),
    ("ABBV", b'N', 7_446),
    ("BMY", b'N', 5_082),
    ("QCOM", b'Q', 7_722),
    ("TXN", b'Q', 12_756),
    ("AVGO", b'Q', 27_550),
    ("ADBE", b'Q', 27_630),
    ("CRM", b'N', 14_833),
    ("PYPL", b'Q', 10_230),
    ("SBUX", b'Q', 8_516),
    ("MCD", b'N', 21_080),
    ("NKE", b'N', 9_317),
    ("BA", b'N', 37_492),
    ("CAT", b'N', 12_163),
    ("GS", b'N', 19_860),
    ("MS", b'N', 4_094),
    ("AXP", b'N', 11_435),
    ("UNH", b'N', 21_892),
    ("CVX", b'N', 11_317),
    ("COP", b'N', 5_443),
    ("SLB", b'N', 3_180),
    ("HAL", b'N', 1_845),
    ("OXY", b'N', 4_187),
    ("FCX", b'N', 888),
    ("X", b'N', 1_073),
    ("CLF", b'N', 700),
    ("AA", b'N', 1_880),
    ("GM", b'N', 3_493),
    ("DAL", b'N', 5_330),
    ("AAL", b'Q', 2_666),
    ("UAL", b'Q', 8_610),
    ("LUV", b'N', 5_275),
    ("BRK B", b'N', 20_640),
    ("BRK A", b'N', 30_985_000),
    ("LLY", b'N', 10_880),
    ("AMGN", b'Q', 19_640),
    ("GILD", b'Q', 6_315),
    ("BIIB", b'Q', 22_650),
    ("COST", b'Q', 29_250),
    ("TGT", b'N', 10_930),
    ("LOW", b'N', 10_990),
    ("PEP", b'Q', 13_850),
    ("MO", b'N', 4_090),
    ("PM", b'N', 7_670),
    ("KHC", b'Q', 2_735),
    ("HON", b'N', 16_180),
    ("MMM", b'N', 15_650),
    ("UPS", b'N', 11_560),
    ("FDX", b'N', 14_250),
    ("LMT", b'N', 38_570),
    ("RTX", b'N', 13_280),
    ("A", b'N', 7_560),
    ("BF B", b'N', 6_180),
    ("HEI A", b'N', 9_540),
    ("XLE", b'P', 5_720),
    ("XLK", b'P', 8_020),
    ("IMO", b'A', 2_560),
    ("SEB", b'A', 432_000),
];

/// Suffixes of generated names: a class, a preferred series, warrants, units.
const SUFFIXES: [&str; 5] = ["A", "PRA", "PRC", "WS", "U"];
/// Roots of one to four letters: 26 + 26^2 + 26^3 + 26^4.
const ROOTS: u64 = 475_254;
/// A step through the roots that visits each once: it shares no factor with [`ROOTS`].
const ROOT_STEP: u64 = 201_203;

/// `count` tickers, sorted by name.
pub(crate) fn tickers(count: u32, seed: u64) -> Vec<Ticker> {
    let well_known = WELL_KNOWN.iter().map(|&(name, listing, close_cents)| (name.to_owned(), listing, close_cents));
    let named = well_known.chain(generated(seed)).zip(0..u64::from(count));
    let mut tickers: Vec<Ticker> =
        named.map(|((name, listing, close_cents), rank)| Ticker { name, rank, listing, close_cents }).collect();
    tickers.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    tickers
}

fn generated(seed: u64) -> impl Iterator<Item = (String, u8, u64)> {
    let well_known: HashSet<&str> =
        WELL_KNOWN.iter().map(|(name, ..)| name.split(' ').next().unwrap_or(name)).collect();
    let mut random = Random::new(seed, Stream::Tickers, 0);
    let roots = (1..ROOTS).map(|index| root(index * ROOT_STEP % ROOTS));
    roots.filter(move |root| !well_known.contains(root.as_str())).map(move |root| {
        let suffix = SUFFIXES[random.index(SUFFIXES.len())];
        let name = if random.percent(5) { format!("{root} {suffix}") } else { root };
        (name, listing(&mut random), close_cents(&mut random))
    })
}

/// The root number `index`, in the order A, B, .., Z, AA, AB, ...
fn root(mut index: u64) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'A' + u8::try_from(index % 26).unwrap_or_default()));
        if index < 26 {
            return letters.iter().rev().collect();
        }
        index = index / 26 - 1;
    }
}

fn listing(random: &mut Random) -> u8 {
    match random.below(100) {
        0..40 => b'Q',
        40..80 => b'N',
        80..97 => b'P',
        _ => b'A',
    }
}

/// 4 to 512 dollars, each doubling equally likely.
fn close_cents(random: &mut Random) -> u64 {
    let base = 400_u64 << random.below(7);
    base + random.below(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_sorted_and_stable_in_rank() {
        let few = tickers(3, 1);
        assert_eq!(few.iter().map(|ticker| ticker.name.as_str()).collect::<Vec<_>>(), ["AAPL", "MSFT", "SPY"]);
        let many = tickers(20_000, 1);
        assert_eq!(many.len(), 20_000);
        assert!(many.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(many.iter().filter(|ticker| ticker.name.contains(' ')).count() > 500);
    }

    #[test]
    fn roots_count_up_through_the_letters() {
        assert_eq!([0, 25, 26, 701, 702, ROOTS - 1].map(root), ["A", "Z", "AA", "ZZ", "AAA", "ZZZZ"]);
    }
}
