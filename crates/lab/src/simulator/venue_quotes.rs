//! The current quote of each venue of a symbol, and the NBBO over them.
//!
//! Invariants, by construction of [`VenueQuotes::requote`]:
//! - each venue's bid is below its offer;
//! - the best bid over all venues is below the best offer over all venues: never crossed, never locked.
//!
//! A new quote is held between the best bid and the best offer of the *other* venues. So that one forgotten quote cannot
//! stop the market, a venue whose quote the fair price has passed is the next to be renewed.

use super::price::whole_ticks;
use super::random::Random;

/// Exchange codes by share of quotes; `T` stands for Nasdaq and is written `Q` for its own listings.
const VENUES: [u8; 14] = *b"NTPZKVUYJHBXCA";
/// Fewest venues that quote a symbol.
const VENUES_MIN: usize = 4;
/// The fair price moves by two percent in a day, one standard deviation.
pub(crate) const DAILY_DEVIATION: f64 = 0.02;

/// A venue's quote: prices in cents, sizes in round lots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quote {
    /// The exchange code.
    pub(crate) venue: u8,
    pub(crate) bid: i64,
    pub(crate) bid_lots: u64,
    pub(crate) offer: i64,
    pub(crate) offer_lots: u64,
}

/// The national best bid and offer: prices in cents, sizes in round lots of the venue shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nbbo {
    pub(crate) bid_venue: u8,
    pub(crate) bid: i64,
    pub(crate) bid_lots: u64,
    pub(crate) offer_venue: u8,
    pub(crate) offer: i64,
    pub(crate) offer_lots: u64,
}

/// The quotes of a symbol's venues.
#[derive(Debug)]
pub(crate) struct VenueQuotes {
    venues: Vec<u8>,
    quotes: Vec<Option<Quote>>,
    /// Distance of a usual quote from the fair price, in cents.
    distance: i64,
    /// Further distances are drawn below this many cents.
    scatter: i64,
}

impl VenueQuotes {
    /// No quotes yet. Busy symbols have more venues; expensive and quiet ones wider spreads.
    pub(crate) fn new(listing: u8, rank: u64, quotes_of_day: u64, close_cents: u64) -> Self {
        let digits_binary = 64 - quotes_of_day.leading_zeros() as usize;
        let count = (VENUES_MIN + digits_binary / 2).min(VENUES.len());
        let nasdaq = if listing == b'Q' { b'Q' } else { b'T' };
        let code = |venue: &u8| if *venue == b'T' { nasdaq } else { *venue };
        let venues: Vec<u8> = VENUES.iter().take(count).map(code).collect();
        let quietness = u64::from(64 - (rank + 1).leading_zeros());
        let half_spread = (close_cents * quietness / 100_000).cast_signed();
        Self { quotes: vec![None; venues.len()], venues, distance: half_spread / 2, scatter: half_spread + 2 }
    }

    /// One venue renews its quote around `fair` (cents, possibly between two).
    pub(crate) fn requote(&mut self, fair: f64, random: &mut Random) -> Quote {
        let below = whole_ticks(fair);
        let index = self.passed_venue(below, random).unwrap_or_else(|| self.usual_venue(random));
        let (bid_others, offer_others) = self.best_of_others(index);
        let quote = Quote {
            venue: self.venues[index],
            bid: (below - self.draw_distance(random)).min(offer_others.saturating_sub(1)),
            bid_lots: random.heavy_tail(1, 6),
            offer: (below + 1 + self.draw_distance(random)).max(bid_others.saturating_add(1)),
            offer_lots: random.heavy_tail(1, 6),
        };
        self.quotes[index] = Some(quote);
        quote
    }

    /// A venue whose bid or offer is on the wrong side of the fair price.
    fn passed_venue(&self, below: i64, random: &mut Random) -> Option<usize> {
        let passed = |quote: &Quote| quote.offer <= below || quote.bid > below;
        let first = random.index(self.quotes.len());
        let mut indexes = (first..self.quotes.len()).chain(0..first);
        indexes.find(|&index| self.quotes[index].as_ref().is_some_and(passed))
    }

    /// Venues early in the list quote more.
    fn usual_venue(&self, random: &mut Random) -> usize {
        random.index(self.venues.len()).min(random.index(self.venues.len()))
    }

    fn draw_distance(&self, random: &mut Random) -> i64 {
        if random.percent(60) { self.distance } else { self.distance + random.below_i64(self.scatter) }
    }

    fn best_of_others(&self, index: usize) -> (i64, i64) {
        let others =
            self.quotes.iter().enumerate().filter(|(other, _)| *other != index).filter_map(|(_, quote)| *quote);
        others.fold((i64::MIN, i64::MAX), |(bid, offer), quote| (bid.max(quote.bid), offer.min(quote.offer)))
    }

    /// The best of both sides: by price, then size, then the order of the venues. None before the first quote.
    pub(crate) fn nbbo(&self) -> Option<Nbbo> {
        let mut quotes = self.quotes.iter().flatten();
        let first = quotes.next()?;
        let (mut bid, mut offer) = (first, first);
        for quote in quotes {
            if (quote.bid, quote.bid_lots) > (bid.bid, bid.bid_lots) {
                bid = quote;
            }
            if (-quote.offer, quote.offer_lots) > (-offer.offer, offer.offer_lots) {
                offer = quote;
            }
        }
        Some(Nbbo {
            bid_venue: bid.venue,
            bid: bid.bid,
            bid_lots: bid.bid_lots,
            offer_venue: offer.venue,
            offer: offer.offer,
            offer_lots: offer.offer_lots,
        })
    }

    /// The exchange codes that quote this symbol.
    pub(crate) fn venues(&self) -> &[u8] {
        &self.venues
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::price::PriceWalk;
    use super::super::random::Stream;
    use super::*;

    #[test]
    fn no_quote_and_no_nbbo_is_crossed_or_locked() {
        let mut random = Random::new(11, Stream::Market, 0);
        let mut walk = PriceWalk::new(5_000, 0.9, 20_000);
        let mut quotes = VenueQuotes::new(b'Q', 5, 1 << 20, 5_000);
        assert_eq!(quotes.nbbo(), None);
        let mut distance_max = 0.0_f64;
        for time in 1..50_000 {
            let fair = walk.advance(time, &mut random);
            let quote = quotes.requote(fair, &mut random);
            assert!(0 < quote.bid && quote.bid < quote.offer);
            let nbbo = quotes.nbbo().unwrap();
            assert!(nbbo.bid < nbbo.offer, "{nbbo:?}");
            distance_max = distance_max.max((nbbo.bid as f64 - fair).abs());
        }
        assert!(distance_max < 1_000.0, "the quotes follow the fair price: {distance_max}");
    }
}
