//! Which columns of a table are what: the names that vendors give them.

use arrow::datatypes::Schema;

/// What a column says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The instrument.
    Symbol,
    /// The venue.
    Exchange,
    /// The price of a trade.
    Price,
    /// The size of a trade.
    Size,
    /// The conditions of a trade.
    Condition,
    /// The best bid.
    Bid,
    /// The best offer.
    Ask,
    /// The size at the best bid.
    BidSize,
    /// The size at the best offer.
    AskSize,
}

/// Names of each role, in lower case without other characters than letters and digits.
const NAMES: [(Role, &[&str]); 9] = [
    (Role::Symbol, &["symbol", "sym", "ticker", "instrument", "rawsymbol"]),
    (Role::Exchange, &["exchange", "venue", "mic", "ex", "publisherid"]),
    (Role::Price, &["tradeprice", "price", "px", "last"]),
    (Role::Size, &["tradevolume", "tradesize", "size", "amount", "volume", "quantity", "qty"]),
    (Role::Condition, &["salecondition", "saleconditions", "condition", "conditions", "cond"]),
    (Role::Bid, &["bidprice", "bid", "bidpx", "b1price", "bidpx00"]),
    (Role::Ask, &["offerprice", "askprice", "ask", "offer", "askpx", "a1price", "askpx00"]),
    (Role::BidSize, &["bidsize", "bidqty", "bidamount", "b1size", "bidsz00"]),
    (Role::AskSize, &["offersize", "asksize", "askqty", "askamount", "a1size", "asksz00"]),
];

/// The columns of a table, and their roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    roles: Vec<(Role, String)>,
    names: Vec<String>,
}

impl Columns {
    /// Finds columns by their names, without regard to case and separators.
    #[must_use]
    pub fn of(schema: &Schema) -> Columns {
        let plain = |name: &str| name.to_lowercase().replace(|c: char| !c.is_alphanumeric(), "");
        let column_of_role = |(role, names): &(Role, &[&str])| {
            let field = names.iter().find_map(|name| schema.fields().iter().find(|f| plain(f.name()) == *name));
            Some((*role, field?.name().clone()))
        };
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        Columns { roles: NAMES.iter().filter_map(column_of_role).collect(), names }
    }

    /// All columns, quoted for a statement.
    #[must_use]
    pub fn all(&self) -> String {
        self.names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
    }

    /// The column of a role, quoted for a statement.
    #[must_use]
    pub fn quoted(&self, role: Role) -> Option<String> {
        Some(quoted(self.name(role)?))
    }

    /// The column of a role.
    #[must_use]
    pub fn name(&self, role: Role) -> Option<&str> {
        self.roles.iter().find(|(other, _)| *other == role).map(|(_, name)| name.as_str())
    }

    /// Whether the table has trades.
    #[must_use]
    pub fn is_trade(&self) -> bool {
        self.name(Role::Symbol).is_some() && self.name(Role::Size).is_some()
    }

    /// Whether the table has quotes.
    #[must_use]
    pub fn is_quote(&self) -> bool {
        [Role::Symbol, Role::Bid, Role::Ask].iter().all(|role| self.name(*role).is_some())
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
