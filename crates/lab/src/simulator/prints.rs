//! The trades of a symbol: when they print and what they say.
//!
//! A day has an opening and a closing auction, each followed by the listing exchange's official price message, if it has
//! trades enough. Every other trade is at or inside the NBBO it meets. Sale conditions are the four characters of the
//! Daily TAQ specification: settlement (`@` on Nasdaq listings, blank on others), trade-through reason (`O` opening, `6`
//! closing, `F` intermarket sweep), session (`T` extended hours), detail (`I` odd lot, `Q` official open, `M` official
//! close, `X` cross).

use std::iter::Peekable;

use super::activity::Arrivals;
use super::random::Random;
use super::venue_quotes::Nbbo;

/// A second, in nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// The opening auction, in nanoseconds since midnight.
pub(crate) const OPEN: u64 = (9 * 3_600 + 30 * 60) * SECOND;
/// The closing auction.
pub(crate) const CLOSE: u64 = 16 * 3_600 * SECOND;
/// A venue's first trade within this time after the open may be its opening print.
const VENUE_OPENING: u64 = 300 * SECOND;
/// The code of the trade reporting facilities, for trades off exchange.
const FINRA: u8 = b'D';
/// Shares of a round lot.
const ROUND_LOT: u64 = 100;

/// What kind of trade prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Opening,
    OfficialOpen,
    Closing,
    OfficialClose,
    Usual,
}

/// In the order in which a day with few trades gets them.
const AUCTIONS: [(Kind, u64); 4] =
    [(Kind::Opening, OPEN), (Kind::Closing, CLOSE), (Kind::OfficialOpen, OPEN), (Kind::OfficialClose, CLOSE)];

/// The instants and kinds of a day's trades, never falling.
#[derive(Debug)]
pub(crate) struct PrintTimes {
    usual: Peekable<Arrivals>,
    auctions: Peekable<std::vec::IntoIter<(u64, Kind)>>,
}

impl PrintTimes {
    /// Exactly `total` trades; `usual` makes the arrivals of those that are not auctions.
    pub(crate) fn new(total: u64, random: &mut Random, usual: impl FnOnce(u64) -> Arrivals) -> Self {
        let delay = random.below(SECOND);
        let mut auctions: Vec<(u64, Kind)> =
            AUCTIONS.iter().zip(0..total).map(|((kind, time), _)| (time + delay, *kind)).collect();
        // Stable: the auction stays before its official price message.
        auctions.sort_by_key(|(time, _)| *time);
        let rest = total - auctions.len() as u64;
        Self { usual: usual(rest).peekable(), auctions: auctions.into_iter().peekable() }
    }

    /// The instant of the next trade, in nanoseconds since midnight.
    pub(crate) fn peek(&mut self) -> Option<u64> {
        let auction = self.auctions.peek().map(|(time, _)| *time);
        let usual = self.usual.peek().copied();
        [auction, usual].into_iter().flatten().min()
    }
}

impl Iterator for PrintTimes {
    type Item = (u64, Kind);

    fn next(&mut self) -> Option<(u64, Kind)> {
        let time = self.peek()?;
        self.auctions.next_if(|(auction, _)| *auction == time).or_else(|| self.usual.next().map(|at| (at, Kind::Usual)))
    }
}

/// A trade, without its time and sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Print {
    /// The exchange code, `D` off exchange.
    pub(crate) venue: u8,
    pub(crate) condition: [u8; 4],
    /// Shares.
    pub(crate) volume: u64,
    /// Cents.
    pub(crate) price: i64,
    /// Printed later as corrected.
    pub(crate) corrected: bool,
    /// The trade reporting facility, off exchange.
    pub(crate) facility: Option<u8>,
}

/// Draws the trades of one symbol.
#[derive(Debug)]
pub(crate) struct Prints {
    listing: u8,
    venues_opened: Vec<u8>,
    /// What the official price message repeats.
    auction: Option<Print>,
}

impl Prints {
    /// The trades of a symbol listed at `listing`.
    pub(crate) fn new(listing: u8) -> Self {
        Self { listing, venues_opened: vec![FINRA, listing], auction: None }
    }

    /// The next trade, at or inside `nbbo`.
    pub(crate) fn draw(&mut self, time: u64, kind: Kind, nbbo: &Nbbo, random: &mut Random) -> Print {
        let cross = if self.listing == b'Q' { b'X' } else { b' ' };
        match kind {
            Kind::Opening => self.draw_auction([self.settlement(), b'O', b' ', cross], nbbo, random),
            Kind::Closing => self.draw_auction([self.settlement(), b'6', b' ', cross], nbbo, random),
            Kind::OfficialOpen => self.repeat_auction(*b"   Q", nbbo, random),
            Kind::OfficialClose => self.repeat_auction(*b"   M", nbbo, random),
            Kind::Usual => self.draw_usual(time, nbbo, random),
        }
    }

    fn settlement(&self) -> u8 {
        if self.listing == b'Q' { b'@' } else { b' ' }
    }

    fn draw_auction(&mut self, condition: [u8; 4], nbbo: &Nbbo, random: &mut Random) -> Print {
        let volume = random.heavy_tail(5_000, 8);
        let (_, price) = draw_price(nbbo, random);
        let print = Print { venue: self.listing, condition, volume, price, corrected: false, facility: None };
        self.auction = Some(print);
        print
    }

    /// No quote comes between an auction and its message, so the price is still inside the NBBO.
    fn repeat_auction(&mut self, condition: [u8; 4], nbbo: &Nbbo, random: &mut Random) -> Print {
        let auction = self.auction.take();
        auction.map_or_else(|| self.draw_auction(condition, nbbo, random), |print| Print { condition, ..print })
    }

    fn draw_usual(&mut self, time: u64, nbbo: &Nbbo, random: &mut Random) -> Print {
        let (touched, price) = draw_price(nbbo, random);
        let venue = if random.percent(35) { FINRA } else { touched.unwrap_or(FINRA) };
        let volume = draw_volume(random);
        Print {
            venue,
            condition: self.draw_condition(time, venue, volume, random),
            volume,
            price,
            corrected: random.below(20_000) == 0,
            facility: (venue == FINRA).then(|| b"QQNB"[random.index(4)]),
        }
    }

    fn draw_condition(&mut self, time: u64, venue: u8, volume: u64, random: &mut Random) -> [u8; 4] {
        let regular = (OPEN..CLOSE).contains(&time);
        let reason = match () {
            () if self.opens_venue(time, venue) => b'O',
            () if venue != FINRA && random.percent(25) => b'F',
            () => b' ',
        };
        let session = if regular { b' ' } else { b'T' };
        let detail = if volume < ROUND_LOT { b'I' } else { b' ' };
        [self.settlement(), reason, session, detail]
    }

    /// Whether this is the venue's first trade since the open, and soon after it.
    fn opens_venue(&mut self, time: u64, venue: u8) -> bool {
        if time < OPEN || self.venues_opened.contains(&venue) {
            return false;
        }
        self.venues_opened.push(venue);
        time < OPEN + VENUE_OPENING
    }
}

/// The venue whose quote is met, and the price: the bid, the offer, or between them without a venue.
fn draw_price(nbbo: &Nbbo, random: &mut Random) -> (Option<u8>, i64) {
    match random.below(100) {
        0..45 => (Some(nbbo.bid_venue), nbbo.bid),
        45..90 => (Some(nbbo.offer_venue), nbbo.offer),
        _ => (None, nbbo.bid + random.below_i64(nbbo.offer - nbbo.bid + 1)),
    }
}

/// Half of the trades are odd lots.
fn draw_volume(random: &mut Random) -> u64 {
    if random.percent(50) { 1 + random.below(ROUND_LOT - 1) } else { ROUND_LOT * random.heavy_tail(1, 7) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::activity::{EQUITY_CLOCK, equity_minutes};
    use super::super::random::Stream;
    use super::*;

    fn times(total: u64) -> Vec<(u64, Kind)> {
        let mut random = Random::new(1, Stream::Market, 0);
        let minutes = equity_minutes(&mut random);
        let usual = |rest| Arrivals::new(rest, &minutes, EQUITY_CLOCK, Random::new(1, Stream::TradeTimes, 0));
        PrintTimes::new(total, &mut random, usual).collect()
    }

    #[test]
    fn days_of_any_length_have_their_auctions_first() {
        assert_eq!(times(0), []);
        assert_eq!(times(1).into_iter().map(|(_, kind)| kind).collect::<Vec<_>>(), [Kind::Opening]);
        let kinds: Vec<Kind> = times(4).into_iter().map(|(_, kind)| kind).collect();
        assert_eq!(kinds, [Kind::Opening, Kind::OfficialOpen, Kind::Closing, Kind::OfficialClose]);
        let many = times(5_000);
        assert_eq!(many.len(), 5_000);
        assert!(many.is_sorted_by_key(|(time, _)| *time));
    }

    #[test]
    fn trades_stay_inside_the_nbbo_and_conditions_fit() {
        let mut random = Random::new(1, Stream::Market, 0);
        let nbbo = Nbbo { bid_venue: b'N', bid: 100, bid_lots: 1, offer_venue: b'P', offer: 103, offer_lots: 1 };
        let mut prints = Prints::new(b'N');
        let opening = prints.draw(OPEN, Kind::Opening, &nbbo, &mut random);
        let official = prints.draw(OPEN, Kind::OfficialOpen, &nbbo, &mut random);
        assert_eq!((&opening.condition, &official.condition), (b" O  ", b"   Q"));
        assert_eq!((opening.price, opening.volume), (official.price, official.volume));
        for _ in 0..10_000 {
            let print = prints.draw(OPEN + 1, Kind::Usual, &nbbo, &mut random);
            assert!((100..=103).contains(&print.price) && print.volume > 0);
            assert_eq!(print.condition[3] == b'I', print.volume < 100);
            assert_eq!(print.facility.is_some(), print.venue == b'D');
        }
    }
}
