//! Which fields a DBN record has, where they lie in it, and what they become.
//!
//! Source: the record structs of Databento's `dbn` crate, version 3 of the encoding; columns bear the names and the order
//! of Databento's CSV files.

use std::mem::{offset_of, size_of};

use ::dbn::{
    BboMsg, BidAskPair, CbboMsg, Cmbp1Msg, ConsolidatedBidAskPair, ImbalanceMsg, InstrumentDefMsg, MboMsg, Mbp1Msg,
    Mbp10Msg, OhlcvMsg, RecordHeader, StatMsg, StatusMsg, TradeMsg, rtype,
};
use splay_store::ColumnType;

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    /// 64 bits, `i64::MAX` for null.
    Quantity,
    /// An unsigned size, `u32::MAX` for null.
    Size,
    /// Units of 1e-9, `i64::MAX` for null.
    Price,
    /// Nanoseconds since the epoch, `u64::MAX` for null.
    Instant,
    /// One character, a zero byte for null.
    Char,
    /// Characters up to a zero byte, none for null.
    Text(usize),
}

impl FieldKind {
    pub fn column_type(self) -> ColumnType {
        match self {
            FieldKind::U8 => ColumnType::UInt8,
            FieldKind::U16 => ColumnType::UInt16,
            FieldKind::U32 | FieldKind::Size => ColumnType::UInt32,
            FieldKind::U64 => ColumnType::UInt64,
            FieldKind::I8 => ColumnType::Int8,
            FieldKind::I16 => ColumnType::Int16,
            FieldKind::I32 => ColumnType::Int32,
            FieldKind::Quantity => ColumnType::Int64,
            FieldKind::Price => ColumnType::Float64,
            FieldKind::Instant => ColumnType::Timestamp,
            FieldKind::Char | FieldKind::Text(_) => ColumnType::Symbol,
        }
    }
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldSpec {
    pub name: String,
    pub offset: usize,
    pub kind: FieldKind,
}

/// A kind of record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordSpec {
    pub name: &'static str,
    pub size: usize,
    pub fields: Vec<FieldSpec>,
    /// The column that is the table's time unless the user says otherwise.
    pub time: &'static str,
}

struct DbnFields(Vec<FieldSpec>);

impl DbnFields {
    fn add(&mut self, name: impl Into<String>, offset: usize, kind: FieldKind) {
        self.0.push(FieldSpec { name: name.into(), offset, kind });
    }

    fn header(&mut self) {
        self.add("ts_event", offset_of!(RecordHeader, ts_event), FieldKind::Instant);
        self.add("publisher_id", offset_of!(RecordHeader, publisher_id), FieldKind::U16);
        self.add("instrument_id", offset_of!(RecordHeader, instrument_id), FieldKind::U32);
    }

    fn levels(&mut self, start: usize, count: usize) {
        for level in 0..count {
            let at = start + level * size_of::<BidAskPair>();
            self.add(format!("bid_px_{level:02}"), at + offset_of!(BidAskPair, bid_px), FieldKind::Price);
            self.add(format!("ask_px_{level:02}"), at + offset_of!(BidAskPair, ask_px), FieldKind::Price);
            self.add(format!("bid_sz_{level:02}"), at + offset_of!(BidAskPair, bid_sz), FieldKind::U32);
            self.add(format!("ask_sz_{level:02}"), at + offset_of!(BidAskPair, ask_sz), FieldKind::U32);
            self.add(format!("bid_ct_{level:02}"), at + offset_of!(BidAskPair, bid_ct), FieldKind::U32);
            self.add(format!("ask_ct_{level:02}"), at + offset_of!(BidAskPair, ask_ct), FieldKind::U32);
        }
    }

    fn consolidated(&mut self, at: usize) {
        self.add("bid_px_00", at + offset_of!(ConsolidatedBidAskPair, bid_px), FieldKind::Price);
        self.add("ask_px_00", at + offset_of!(ConsolidatedBidAskPair, ask_px), FieldKind::Price);
        self.add("bid_sz_00", at + offset_of!(ConsolidatedBidAskPair, bid_sz), FieldKind::U32);
        self.add("ask_sz_00", at + offset_of!(ConsolidatedBidAskPair, ask_sz), FieldKind::U32);
        self.add("bid_pb_00", at + offset_of!(ConsolidatedBidAskPair, bid_pb), FieldKind::U16);
        self.add("ask_pb_00", at + offset_of!(ConsolidatedBidAskPair, ask_pb), FieldKind::U16);
    }
}

/// Adds fields of a struct by name and kind.
macro_rules! fields {
    ($fields:ident, $record:ty: $($name:ident $kind:expr),* $(,)?) => {{
        use FieldKind::*;
        $($fields.add(stringify!($name), offset_of!($record, $name), $kind);)*
    }};
}

/// The fields of a record type, or `None` for one that makes no table.
pub(crate) fn of(record_type: u8) -> Option<RecordSpec> {
    let mut f = DbnFields(Vec::new());
    let (name, size, time) = match record_type {
        rtype::MBO => {
            fields!(f, MboMsg: ts_recv Instant);
            f.header();
            fields!(f, MboMsg: action Char, side Char, price Price, size Size, channel_id U8, order_id U64, flags U8,
                ts_in_delta I32, sequence U32);
            ("mbo", size_of::<MboMsg>(), "ts_event")
        }
        rtype::MBP_0 => {
            fields!(f, TradeMsg: ts_recv Instant);
            f.header();
            fields!(f, TradeMsg: action Char, side Char, depth U8, price Price, size Size, flags U8, ts_in_delta I32,
                sequence U32);
            ("trades", size_of::<TradeMsg>(), "ts_event")
        }
        rtype::MBP_1 | rtype::MBP_10 => {
            fields!(f, Mbp1Msg: ts_recv Instant);
            f.header();
            fields!(f, Mbp1Msg: action Char, side Char, depth U8, price Price, size Size, flags U8, ts_in_delta I32,
                sequence U32);
            if record_type == rtype::MBP_1 {
                f.levels(offset_of!(Mbp1Msg, levels), 1);
                ("mbp-1", size_of::<Mbp1Msg>(), "ts_event")
            } else {
                f.levels(offset_of!(Mbp10Msg, levels), 10);
                ("mbp-10", size_of::<Mbp10Msg>(), "ts_event")
            }
        }
        rtype::BBO_1S | rtype::BBO_1M => {
            fields!(f, BboMsg: ts_recv Instant);
            f.header();
            fields!(f, BboMsg: side Char, price Price, size Size, flags U8, sequence U32);
            f.levels(offset_of!(BboMsg, levels), 1);
            // ts_event is the last trade's time here, and undefined before the first.
            ("bbo", size_of::<BboMsg>(), "ts_recv")
        }
        rtype::CMBP_1 | rtype::TCBBO => {
            fields!(f, Cmbp1Msg: ts_recv Instant);
            f.header();
            fields!(f, Cmbp1Msg: action Char, side Char, price Price, size Size, flags U8, ts_in_delta I32);
            f.consolidated(offset_of!(Cmbp1Msg, levels));
            ("cmbp-1", size_of::<Cmbp1Msg>(), "ts_event")
        }
        rtype::CBBO_1S | rtype::CBBO_1M => {
            fields!(f, CbboMsg: ts_recv Instant);
            f.header();
            fields!(f, CbboMsg: side Char, price Price, size Size, flags U8);
            f.consolidated(offset_of!(CbboMsg, levels));
            ("cbbo", size_of::<CbboMsg>(), "ts_recv")
        }
        rtype::OHLCV_1S | rtype::OHLCV_1M | rtype::OHLCV_1H | rtype::OHLCV_1D | rtype::OHLCV_EOD | 0x11 => {
            f.header();
            fields!(f, OhlcvMsg: open Price, high Price, low Price, close Price, volume U64);
            ("ohlcv", size_of::<OhlcvMsg>(), "ts_event")
        }
        rtype::STATUS => {
            fields!(f, StatusMsg: ts_recv Instant);
            f.header();
            fields!(f, StatusMsg: action U16, reason U16, trading_event U16, is_trading Char, is_quoting Char,
                is_short_sell_restricted Char);
            ("status", size_of::<StatusMsg>(), "ts_event")
        }
        rtype::IMBALANCE => {
            fields!(f, ImbalanceMsg: ts_recv Instant);
            f.header();
            fields!(f, ImbalanceMsg: ref_price Price, auction_time Instant, cont_book_clr_price Price,
                auct_interest_clr_price Price, ssr_filling_price Price, ind_match_price Price, upper_collar Price,
                lower_collar Price, paired_qty Size, total_imbalance_qty Size, market_imbalance_qty Size, unpaired_qty Size,
                auction_type Char, side Char, auction_status U8, freeze_status U8, num_extensions U8, unpaired_side Char,
                significant_imbalance Char);
            ("imbalance", size_of::<ImbalanceMsg>(), "ts_event")
        }
        rtype::STATISTICS => {
            fields!(f, StatMsg: ts_recv Instant);
            f.header();
            fields!(f, StatMsg: ts_ref Instant, price Price, quantity Quantity, sequence U32, ts_in_delta I32, stat_type U16,
                channel_id U16, update_action U8, stat_flags U8);
            ("statistics", size_of::<StatMsg>(), "ts_event")
        }
        rtype::INSTRUMENT_DEF => {
            definition(&mut f);
            ("definition", size_of::<InstrumentDefMsg>(), "ts_event")
        }
        _ => return None,
    };
    Some(RecordSpec { name, size, fields: f.0, time })
}

fn definition(f: &mut DbnFields) {
    fields!(f, InstrumentDefMsg: ts_recv Instant);
    f.header();
    fields!(f, InstrumentDefMsg: raw_symbol Text(71), security_update_action Char, instrument_class Char,
        min_price_increment Price, display_factor Price, expiration Instant, activation Instant, high_limit_price Price,
        low_limit_price Price, max_price_variation Price, unit_of_measure_qty Price, min_price_increment_amount Price,
        price_ratio Price, inst_attrib_value I32, underlying_id U32, raw_instrument_id U64, market_depth_implied I32,
        market_depth I32, market_segment_id U32, max_trade_vol U32, min_lot_size I32, min_lot_size_block I32,
        min_lot_size_round_lot I32, min_trade_vol U32, contract_multiplier I32, decay_quantity I32,
        original_contract_size I32, appl_id I16, maturity_year U16, decay_start_date U16, channel_id U16,
        currency Text(4), settl_currency Text(4), secsubtype Text(6), group Text(21), exchange Text(5), asset Text(11),
        cfi Text(7), security_type Text(7), unit_of_measure Text(31), underlying Text(21), strike_price_currency Text(4),
        strike_price Price, match_algorithm Char, main_fraction U8, price_display_format U8, sub_fraction U8,
        underlying_product U8, maturity_month U8, maturity_day U8, maturity_week U8, user_defined_instrument Char,
        contract_multiplier_unit I8, flow_schedule_type I8, tick_rule U8, leg_count U16, leg_index U16,
        leg_instrument_id U32, leg_raw_symbol Text(71), leg_instrument_class Char, leg_side Char, leg_price Price,
        leg_delta Price, leg_ratio_price_numerator I32, leg_ratio_price_denominator I32, leg_ratio_qty_numerator I32,
        leg_ratio_qty_denominator I32, leg_underlying_id U32);
}
