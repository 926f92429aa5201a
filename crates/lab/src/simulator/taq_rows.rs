//! The rows of the Daily TAQ files as text.
//!
//! Source: the column names and their order of the Daily TAQ client specification, version 4. Text that the simulator has
//! nothing to say about is blank, the layout's null.

use super::decimal::{push_fixed, push_taq_time, push_whole};
use super::prints::Print;
use super::venue_quotes::{Nbbo, Quote};

/// The header of `EQY_US_ALL_TRADE`.
pub(crate) const TRADE_HEADER: &str = "Time|Exchange|Symbol|Sale Condition|Trade Volume|Trade Price|\
    Trade Stop Stock Indicator|Trade Correction Indicator|Sequence Number|Trade Id|Source of Trade|\
    Trade Reporting Facility|Participant Timestamp|Trade Reporting Facility TRF Timestamp|Trade Through Exempt Indicator";
/// The header of `SPLITS_US_ALL_BBO`.
pub(crate) const QUOTE_HEADER: &str = "Time|Exchange|Symbol|Bid_Price|Bid_Size|Offer_Price|Offer_Size|Quote_Condition|\
    Sequence_Number|National_BBO_Ind|FINRA_BBO_Indicator|FINRA_ADF_MPID_Indicator|Quote_Cancel_Correction|Source_Of_Quote|\
    Retail_Interest_Indicator|Short_Sale_Restriction_Indicator|LULD_BBO_Indicator|SIP_Generated_Message_Identifier|\
    National_BBO_LULD_Indicator|Participant_Timestamp|FINRA_ADF_Timestamp|FINRA_ADF_Market_Participant_Quote_Indicator|\
    Security_Status_Indicator";
/// The header of `EQY_US_ALL_NBBO`. One name has spaces, as published.
pub(crate) const NBBO_HEADER: &str = "Time|Exchange|Symbol|Bid_Price|Bid_Size|Offer_Price|Offer_Size|Quote_Condition|\
    Sequence_Number|National_BBO_Ind|FINRA_BBO_Indicator|FINRA_ADF_MPID_Indicator|Quote_Cancel_Correction|Source_Of_Quote|\
    Best Bid Quote Condition|Best_Bid_Exchange|Best_Bid_Price|Best_Bid_Size|Best_Bid_FINRA_Market_Maker_ID|\
    Best_Offer_Quote_Condition|Best_Offer_Exchange|Best_Offer_Price|Best_Offer_Size|Best_Offer_FINRA_Market_Maker_ID|\
    LULD_Indicator|LULD_NBBO_Indicator|SIP_Generated_Message_Identifier|Participant_Timestamp|FINRA_ADF_Timestamp|\
    Security_Status_Indicator";

/// Decimals of a price.
const PRICE_DECIMALS: usize = 2;
/// The quote is regular.
const REGULAR: u8 = b'R';

/// What each row of an event says: when, of which symbol, in which place of the sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp<'a> {
    /// When the processor sent it, in nanoseconds since midnight in New York.
    pub(crate) time: u64,
    /// When the venue sent it, before `time`.
    pub(crate) participant_time: u64,
    pub(crate) symbol: &'a str,
    /// Rises strictly through the day of a symbol, over quotes and trades together.
    pub(crate) sequence: u64,
    /// The processor: `C` for NYSE, Arca and American listings, `N` for Nasdaq's.
    pub(crate) source: u8,
}

/// A line under construction.
struct Line<'a>(&'a mut Vec<u8>);

impl Line<'_> {
    fn time(&mut self, time: u64) -> &mut Self {
        push_taq_time(self.0, time);
        self.end()
    }

    fn text(&mut self, text: &[u8]) -> &mut Self {
        self.0.extend_from_slice(text);
        self.end()
    }

    fn whole(&mut self, value: u64) -> &mut Self {
        push_whole(self.0, value);
        self.end()
    }

    fn price(&mut self, cents: i64) -> &mut Self {
        push_fixed(self.0, cents.unsigned_abs(), PRICE_DECIMALS);
        self.end()
    }

    fn blanks(&mut self, count: usize) -> &mut Self {
        self.0.extend(std::iter::repeat_n(b'|', count));
        self
    }

    fn end(&mut self) -> &mut Self {
        self.0.push(b'|');
        self
    }

    /// The last field has no bar.
    fn end_line(&mut self) {
        self.0.pop();
        self.0.push(b'\n');
    }
}

/// Writes a trade; its identifier counts the symbol's trades.
pub(crate) fn push_trade(out: &mut Vec<u8>, stamp: &Stamp<'_>, trade_id: u64, print: &Print) {
    let mut line = Line(out);
    line.time(stamp.time).text(&[print.venue]).text(stamp.symbol.as_bytes()).text(&print.condition);
    line.whole(print.volume).price(print.price).blanks(1);
    line.text(if print.corrected { b"01" } else { b"00" }).whole(stamp.sequence).whole(trade_id).text(&[stamp.source]);
    match print.facility {
        Some(facility) => line.text(&[facility]).time(stamp.participant_time).time(stamp.time),
        None => line.blanks(1).time(stamp.participant_time).blanks(1),
    };
    line.text(if print.condition[1] == b'F' { b"1" } else { b"0" }).end_line();
}

/// Writes a quote; `national` says whether it changed the NBBO.
pub(crate) fn push_quote(out: &mut Vec<u8>, stamp: &Stamp<'_>, quote: &Quote, national: bool) {
    let mut line = Line(out);
    push_quote_start(&mut line, stamp, quote, national);
    line.blanks(5).time(stamp.participant_time).blanks(3).end_line();
}

/// Writes the NBBO that `quote` made.
pub(crate) fn push_nbbo(out: &mut Vec<u8>, stamp: &Stamp<'_>, quote: &Quote, nbbo: &Nbbo) {
    let mut line = Line(out);
    push_quote_start(&mut line, stamp, quote, true);
    line.text(&[REGULAR]).text(&[nbbo.bid_venue]).price(nbbo.bid).whole(nbbo.bid_lots).blanks(1);
    line.text(&[REGULAR]).text(&[nbbo.offer_venue]).price(nbbo.offer).whole(nbbo.offer_lots).blanks(1);
    line.blanks(3).time(stamp.participant_time).blanks(2).end_line();
}

/// The fourteen columns that quotes and the NBBO share.
fn push_quote_start(line: &mut Line<'_>, stamp: &Stamp<'_>, quote: &Quote, national: bool) {
    line.time(stamp.time).text(&[quote.venue]).text(stamp.symbol.as_bytes());
    line.price(quote.bid).whole(quote.bid_lots).price(quote.offer).whole(quote.offer_lots).text(&[REGULAR]);
    line.whole(stamp.sequence).text(if national { b"2" } else { b"0" }).blanks(3).text(&[stamp.source]);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const STAMP: Stamp<'_> = Stamp {
        time: 34_200_398_000_000,
        participant_time: 34_200_397_900_000,
        symbol: "BRK A",
        sequence: 77,
        source: b'C',
    };
    const QUOTE: Quote = Quote { venue: b'N', bid: 7_535, bid_lots: 3, offer: 7_578, offer_lots: 1 };

    fn line(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_have_the_columns_of_their_header() {
        let print = Print {
            venue: b'D',
            condition: *b" F I",
            volume: 13,
            price: 7_578,
            corrected: false,
            facility: Some(b'Q'),
        };
        let trade = line(|out| push_trade(out, &STAMP, 5, &print));
        assert_eq!(trade, "093000398000000|D|BRK A| F I|13|75.78||00|77|5|C|Q|093000397900000|093000398000000|1\n");
        let quote = line(|out| push_quote(out, &STAMP, &QUOTE, true));
        assert!(quote.starts_with("093000398000000|N|BRK A|75.35|3|75.78|1|R|77|2||||C|"), "{quote}");
        let nbbo = Nbbo { bid_venue: b'P', bid: 7_536, bid_lots: 2, offer_venue: b'N', offer: 7_578, offer_lots: 1 };
        let national = line(|out| push_nbbo(out, &STAMP, &QUOTE, &nbbo));
        assert!(national.contains("|C|R|P|75.36|2||R|N|75.78|1||"), "{national}");
        for (row, header) in [(trade, TRADE_HEADER), (quote, QUOTE_HEADER), (national, NBBO_HEADER)] {
            assert_eq!(row.split('|').count(), header.split('|').count(), "{row}");
        }
    }
}
