//! The four statements that compared Arrow, Parquet and kdb+ files on NYSE trades and quotes, for tables with other columns, too: rows of a
//! symbol with a condition; volume by symbol; by symbol and exchange; spreads of quotes and price ranges of trades, joined.

use super::columns::{Columns, Role};

/// A statement over tables, which stand as `{trade}` for the table `trade`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// A short name, the column of results.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The statements that these tables have the columns for, with what the others lack. `symbol` is the one whose rows are selected.
#[must_use]
pub fn seed_statements(tables: &[(String, Columns)], symbol: &str) -> (Vec<Statement>, Vec<String>) {
    let trade = tables.iter().find(|(_, columns)| columns.is_trade());
    let quote = tables.iter().find(|(_, columns)| columns.is_quote());
    let made = [
        ("select", trade.ok_or_else(no_trade).and_then(|trade| of_symbol(trade, symbol))),
        ("volume by symbol", trade.ok_or_else(no_trade).and_then(|trade| volume(trade, &[Role::Symbol]))),
        (
            "volume by symbol, exchange",
            trade.ok_or_else(no_trade).and_then(|trade| volume(trade, &[Role::Symbol, Role::Exchange])),
        ),
        ("spread and range", trade.ok_or_else(no_trade).and_then(|trade| joined(trade, quote))),
    ];
    let mut statements = Vec::new();
    let mut missing = Vec::new();
    for (name, made) in made {
        match made {
            Ok(text) => statements.push(Statement { name: name.to_owned(), text }),
            Err(reason) => missing.push(format!("{name}: {reason}")),
        }
    }
    (statements, missing)
}

type NamedColumns = (String, Columns);

fn no_trade() -> String {
    "no table has a symbol and a size".to_owned()
}

fn column(columns: &Columns, role: Role, what: &str) -> Result<String, String> {
    columns.quoted(role).ok_or_else(|| format!("no column for the {what}"))
}

fn of_symbol((table, columns): &NamedColumns, symbol: &str) -> Result<String, String> {
    let text = |text: &str| text.replace('\'', "''");
    let by = column(columns, Role::Symbol, "symbol")?;
    // Text formats may take codes of digits for numbers.
    let like = |name| format!(" and cast({name} as varchar) like '%O%'");
    let condition = columns.quoted(Role::Condition).map(like).unwrap_or_default();
    let all = columns.all();
    Ok(format!("select {all} from {{{table}}} where {by} = '{}'{condition}", text(symbol)))
}

fn volume((table, columns): &NamedColumns, keys: &[Role]) -> Result<String, String> {
    let size = column(columns, Role::Size, "size")?;
    let keys = keys.iter().map(|role| column(columns, *role, "exchange")).collect::<Result<Vec<_>, _>>()?.join(", ");
    Ok(format!("select {keys}, sum({size}) as volume from {{{table}}} group by {keys} order by {keys}"))
}

fn joined((trades, trade): &NamedColumns, quote: Option<&NamedColumns>) -> Result<String, String> {
    let (quotes, quote) = quote.ok_or("no table has a symbol, a bid and an offer")?;
    let (symbol, exchange) = (column(trade, Role::Symbol, "symbol")?, column(trade, Role::Exchange, "exchange")?);
    let (price, size) = (column(trade, Role::Price, "price")?, column(trade, Role::Size, "size")?);
    let (bid, ask) = (column(quote, Role::Bid, "bid")?, column(quote, Role::Ask, "offer")?);
    let sizes = (column(quote, Role::BidSize, "bid's size")?, column(quote, Role::AskSize, "offer's size")?);
    let keys = (column(quote, Role::Symbol, "symbol")?, column(quote, Role::Exchange, "exchange of quotes")?);
    Ok(format!(
        "select coalesce(a.symbol, b.symbol) as symbol, coalesce(a.exchange, b.exchange) as exchange, avgspread, avgsize, maxprice, \
         minprice, vwap from (select {0} as symbol, {1} as exchange, avg({ask} - {bid}) as avgspread, \
         0.5 * avg({2} + {3}) as avgsize from {{{quotes}}} group by {0}, {1}) a full join (select {symbol} as symbol, \
         {exchange} as exchange, max({price}) as maxprice, min({price}) as minprice, sum({price} * {size}) / sum({size}) as vwap \
         from {{{trades}}} group by {symbol}, {exchange}) b on a.symbol = b.symbol and a.exchange = b.exchange \
         order by symbol, exchange",
        keys.0, keys.1, sizes.0, sizes.1
    ))
}
