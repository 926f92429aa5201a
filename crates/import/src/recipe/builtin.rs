//! The recipes that come with the release.

/// Names and texts, sorted by name.
pub(crate) const RECIPES: &[(&str, &str)] = &[
    ("coinbase-trades", include_str!("../../recipes/coinbase-trades.toml")),
    ("lean-cfd-oanda", include_str!("../../recipes/lean-cfd-oanda.toml")),
    ("lean-equity-quote", include_str!("../../recipes/lean-equity-quote.toml")),
    ("lean-equity-trade", include_str!("../../recipes/lean-equity-trade.toml")),
    ("lean-forex-fxcm", include_str!("../../recipes/lean-forex-fxcm.toml")),
    ("lean-forex-oanda", include_str!("../../recipes/lean-forex-oanda.toml")),
    ("lean-future-openinterest", include_str!("../../recipes/lean-future-openinterest.toml")),
    ("lean-future-trade", include_str!("../../recipes/lean-future-trade.toml")),
    ("lean-option-openinterest", include_str!("../../recipes/lean-option-openinterest.toml")),
    ("lean-option-quote", include_str!("../../recipes/lean-option-quote.toml")),
    ("lean-option-trade", include_str!("../../recipes/lean-option-trade.toml")),
    ("nasdaq-daily", include_str!("../../recipes/nasdaq-daily.toml")),
    ("nasdaq-polls", include_str!("../../recipes/nasdaq-polls.toml")),
    ("nyse-taq-nbbo", include_str!("../../recipes/nyse-taq-nbbo.toml")),
    ("nyse-taq-quote", include_str!("../../recipes/nyse-taq-quote.toml")),
    ("nyse-taq-trade", include_str!("../../recipes/nyse-taq-trade.toml")),
    ("ohlcv", include_str!("../../recipes/ohlcv.toml")),
    ("wondertrader-tick", include_str!("../../recipes/wondertrader-tick.toml")),
];
