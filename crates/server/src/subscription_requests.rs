//! Subscription requests, as clients write them.

use serde::Deserialize;

use crate::ingest::{
    BarsRequest, ReplayRequest, ReplaySource, ReplaySpeed, ReplayView, SlowPolicy, SubscribeRequest, SubscriptionStart,
};
use crate::problem::{Code, Outcome, Problem};

/// Names in a request.
const NAMES_MAX: usize = 100_000;

/// Bytes of what a client sends to subscribe, over whichever protocol: read, a name takes several times its bytes.
pub(crate) const ASK_BYTES_MAX: usize = 4 << 20;

/// Stretch of time within which rows of a replay are sent together, in milliseconds.
const BATCH_MS: f64 = 10.0;

/// The message by which a client subscribes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubscriptionRequest {
    table: Option<String>,
    /// Several tables, of a replay.
    tables: Option<Vec<String>>,
    symbols: Option<Vec<String>>,
    columns: Option<Vec<String>>,
    #[serde(default)]
    from: Start,
    /// Resume behind this sequence number; goes before `from`.
    after: Option<u64>,
    #[serde(default)]
    slow: SlowReader,
    /// Updates that may be sent before more credit comes; without, as many as there are.
    pub(crate) credit: Option<u64>,
    /// How rows are sent; only WebSocket knows JSON.
    #[serde(default)]
    pub(crate) format: Format,
    replay: Option<ReplayOptions>,
    bars: Option<BarOptions>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Start {
    Now,
    #[default]
    Snapshot,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SlowReader {
    #[default]
    Snapshot,
    Disconnect,
    CatchUp,
}

/// How rows of updates are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    #[default]
    Arrow,
    Json,
}

/// A day instead of what comes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayOptions {
    date: Option<String>,
    from: Option<String>,
    to: Option<String>,
    speed: Option<SpeedOption>,
    batch_ms: Option<f64>,
    /// The journal's batches instead of the table's rows.
    #[serde(default)]
    recorded: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum SpeedOption {
    Times(f64),
    Named(String),
}

/// Bars instead of rows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct BarOptions {
    every: String,
    price: String,
    size: Option<String>,
    late: Option<String>,
}

/// A later message of a client.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreditMessage {
    /// Updates more that may be sent.
    pub(crate) credit: u64,
}

impl CreditMessage {
    pub(crate) fn parse(text: &[u8]) -> Outcome<CreditMessage> {
        serde_json::from_slice(text).map_err(|error| wrong(format!("not {{\"credit\": N}}: {error}")))
    }
}

fn wrong(text: impl Into<String>) -> Problem {
    Problem::new(Code::Request, text)
}

impl SubscriptionRequest {
    pub(crate) fn parse(text: &[u8]) -> Outcome<SubscriptionRequest> {
        if text.len() > ASK_BYTES_MAX {
            let text = format!("a subscription is asked for in at most {ASK_BYTES_MAX} bytes");
            return Err(Problem::new(Code::TooLarge, text));
        }
        let not = |error| wrong(format!("not a subscription: {error}"));
        let mut ask: SubscriptionRequest = serde_json::from_slice(text).map_err(not)?;
        let names = |names: &Option<Vec<String>>| names.as_ref().map_or(0, Vec::len);
        if [&ask.symbols, &ask.columns, &ask.tables].into_iter().any(|list| names(list) > NAMES_MAX) {
            return Err(wrong(format!("more than {NAMES_MAX} names")));
        }
        match (&ask.table, &ask.tables) {
            (Some(table), None) => ask.tables = Some(vec![table.clone()]),
            (None, Some(tables)) if !tables.is_empty() => {}
            _ => return Err(wrong("not a subscription: it names either a table or tables")),
        }
        if ask.bars.is_some() && ask.columns.is_some() {
            return Err(wrong("bars have columns of their own"));
        }
        if ask.bars.is_some() && ask.after.is_some() {
            return Err(wrong("bars aren't resumed: they begin with a snapshot"));
        }
        if ask.bars.is_some() && ask.tables().len() > 1 {
            return Err(wrong("bars are of one table"));
        }
        Ok(ask)
    }

    pub(crate) fn tables(&self) -> &[String] {
        self.tables.as_deref().unwrap_or_default()
    }

    /// The columns that it names, if it reads no others; bars read some of their own.
    pub(crate) fn columns(&self) -> Option<&[String]> {
        self.columns.as_deref().filter(|_| self.bars.is_none())
    }

    /// Whether it is of some symbols.
    pub(crate) fn has_symbols(&self) -> bool {
        self.symbols.is_some()
    }

    /// The server's first answer: what was subscribed to.
    pub(crate) fn confirmation(&self) -> serde_json::Value {
        match &self.table {
            Some(table) => table.as_str().into(),
            None => self.tables().into(),
        }
    }

    /// The one table of a live subscription.
    pub(crate) fn table(&self) -> Outcome<&str> {
        match self.tables() {
            [table] => Ok(table),
            _ => Err(wrong("live rows are of one table; several are for replays")),
        }
    }

    pub(crate) fn begins_with_snapshot(&self) -> bool {
        self.after.is_none() && matches!(self.from, Start::Snapshot)
    }

    fn from(&self) -> SubscriptionStart {
        match (self.after, self.from) {
            (Some(sequence), _) => SubscriptionStart::After(sequence),
            (None, Start::Now) => SubscriptionStart::Now,
            (None, Start::Snapshot) => SubscriptionStart::Snapshot,
        }
    }

    /// The request as a live subscription.
    pub(crate) fn live(&self, queue_bytes_max: usize) -> Outcome<SubscribeRequest> {
        let slow = match self.slow {
            SlowReader::Snapshot => SlowPolicy::Snapshot,
            SlowReader::Disconnect => SlowPolicy::Disconnect,
            SlowReader::CatchUp => SlowPolicy::CatchUp,
        };
        let (table, symbols, columns) = (self.table()?.to_owned(), self.symbols.clone(), self.columns.clone());
        Ok(SubscribeRequest { table, symbols, columns, from: self.from(), queue_bytes_max, slow })
    }

    /// The replay that the request asks for, if any, with its filters.
    pub(crate) fn replay(&self) -> Outcome<Option<(ReplayRequest, ReplayView)>> {
        let Some(replay) = &self.replay else { return Ok(None) };
        let speed = match &replay.speed {
            None => ReplaySpeed::Times(1.0),
            Some(SpeedOption::Times(0.0)) => ReplaySpeed::Max,
            Some(SpeedOption::Times(times)) => ReplaySpeed::Times(*times),
            Some(SpeedOption::Named(name)) if name == "max" => ReplaySpeed::Max,
            Some(SpeedOption::Named(name)) => {
                return Err(wrong(format!("{name:?} is no speed; it is a number or \"max\"")));
            }
        };
        let batch_ms = replay.batch_ms.unwrap_or(BATCH_MS);
        if !(batch_ms > 0.0 && batch_ms <= 86_400_000.0) {
            return Err(wrong("batch_ms is above 0 and at most a day"));
        }
        let request = ReplayRequest {
            tables: self.tables().to_vec(),
            symbols: self.symbols.clone(),
            source: if replay.recorded { ReplaySource::Recorded } else { ReplaySource::Stored },
            date: replay.date.clone(),
            from: replay.from.clone(),
            to: replay.to.clone(),
            #[expect(clippy::cast_possible_truncation, reason = "at most a day")]
            batch_ns: ((batch_ms * 1e6) as i64).max(1),
            speed,
        };
        Ok(Some((request, ReplayView { symbols: None, ..self.view() })))
    }

    /// The filters of a subscription to a shared replay.
    pub(crate) fn view(&self) -> ReplayView {
        ReplayView {
            tables: Some(self.tables().to_vec()),
            symbols: self.symbols.clone(),
            columns: self.columns.clone(),
            from: self.from(),
        }
    }

    /// The bars that the request asks for.
    pub(crate) fn bars(&self) -> Outcome<Option<BarsRequest>> {
        let Some(bars) = &self.bars else { return Ok(None) };
        let late_ns = bars.late.as_deref().map_or(Ok(10_000_000_000), duration_ns)?;
        let (price, size) = (bars.price.clone(), bars.size.clone());
        Ok(Some(BarsRequest { every_ns: duration_ns(&bars.every)?, price, size, late_ns }))
    }

    /// The same request for other columns, from a snapshot on.
    pub(crate) fn with_columns(&self, columns: Vec<String>) -> SubscriptionRequest {
        SubscriptionRequest { columns: Some(columns), from: Start::Snapshot, bars: None, ..self.clone() }
    }
}

/// A length of time such as `500ms` or `1m`, in nanoseconds.
fn duration_ns(text: &str) -> Outcome<i64> {
    let not = || wrong(format!("{text:?} is no length of time such as 500ms, 1s, 5m, 1h or 1d"));
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(not)?;
    let (count, unit) = text.split_at(digits);
    let unit_ns: i64 = match unit.trim() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(not()),
    };
    count.parse::<i64>().ok().and_then(|count| count.checked_mul(unit_ns)).ok_or_else(not)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_understood_with_its_defaults() {
        let ask = SubscriptionRequest::parse(br#"{"table": "trade"}"#).unwrap();
        let request = ask.live(1).unwrap();
        assert_eq!((request.from, request.slow, ask.credit), (SubscriptionStart::Snapshot, SlowPolicy::Snapshot, None));
        assert!(ask.replay().unwrap().is_none() && ask.bars().unwrap().is_none());
        let ask = SubscriptionRequest::parse(
            br#"{"table": "trade", "symbols": ["A"], "after": 7, "slow": "catch_up", "credit": 2}"#,
        )
        .unwrap();
        let request = ask.live(1).unwrap();
        assert_eq!(
            (request.from, request.slow, ask.credit),
            (SubscriptionStart::After(7), SlowPolicy::CatchUp, Some(2))
        );
    }

    #[test]
    fn any_bytes_are_a_subscription_or_refused() {
        let samples = [
            r#"{"table": "trade"}"#,
            r#"{"table": "t", "symbols": ["A", "ä"], "columns": ["x"], "from": "now", "after": 18446744073709551615}"#,
            r#"{"table": "t", "symbols": null, "slow": "catch_up", "credit": 0, "format": "json"}"#,
            r#"{"tables": ["trade", "quote"], "replay": {"date": "2024-03-10", "speed": 0, "batch_ms": 0.5}}"#,
            r#"{"table": "t", "bars": {"every": "5m", "price": "p", "late": "0s"}, "replay": {"speed": "max"}}"#,
            r#"{"credit": 18446744073709551615}"#,
        ];
        let samples = samples.map(|text| text.as_bytes().to_vec());
        let words: &[&[u8]] =
            &[b"\"", b"[", b"]", b"{", b"}", b",", b":", b"null", b"1e999", b"-1", b"\\u0000", b"\xff", b"\"credit\""];
        let run = splay_mutate::Run { inputs: 50_000, bytes_max: 1 << 10, words, ..Default::default() };
        run.feed(&samples, |bytes| {
            if let Ok(ask) = SubscriptionRequest::parse(bytes) {
                drop((ask.live(1), ask.replay(), ask.bars()));
            }
            drop(CreditMessage::parse(bytes));
        });
    }

    /// A request over Flight was bounded by the length of any message, and each name in it took eight times its bytes.
    #[test]
    fn a_request_without_bounds_is_refused() {
        let names = "\"\",".repeat(ASK_BYTES_MAX / 3);
        let text = format!("{{\"table\": \"t\", \"symbols\": [{names}\"\"]}}");
        assert_eq!(SubscriptionRequest::parse(text.as_bytes()).unwrap_err().code, Code::TooLarge);
    }

    #[test]
    fn replays_and_bars_are_understood() {
        let text = br#"{"tables": ["trade", "quote"], "replay": {"date": "2024-03-10", "speed": 0, "batch_ms": 0.5}}"#;
        let ask = SubscriptionRequest::parse(text).unwrap();
        let (request, view) = ask.replay().unwrap().unwrap();
        assert_eq!((request.tables.len(), request.speed, request.batch_ns), (2, ReplaySpeed::Max, 500_000));
        assert_eq!((request.source, view.from), (ReplaySource::Stored, SubscriptionStart::Snapshot));
        assert_eq!(ask.live(1).unwrap_err().code, Code::Request);
        let text = br#"{"table": "t", "bars": {"every": "5m", "price": "p", "late": "0s"}, "replay": {"speed": "max", "recorded": true}}"#;
        let ask = SubscriptionRequest::parse(text).unwrap();
        let bars = ask.bars().unwrap().unwrap();
        assert_eq!((bars.every_ns, bars.late_ns, bars.size), (300_000_000_000, 0, None));
        assert_eq!(ask.replay().unwrap().unwrap().0.source, ReplaySource::Recorded);
    }

    #[test]
    fn what_is_not_a_subscription_is_refused() {
        for text in [
            "",
            "{}",
            "[]",
            r#"{"table": 1}"#,
            r#"{"table": "t", "form": "now"}"#,
            r#"{"table": "t", "from": "then"}"#,
            r#"{"table": "t", "tables": ["t"]}"#,
            r#"{"tables": []}"#,
            r#"{"table": "t", "replay": {"day": "2024-03-10"}}"#,
            r#"{"table": "t", "columns": ["a"], "bars": {"every": "1m", "price": "p"}}"#,
            r#"{"table": "t", "after": 1, "bars": {"every": "1m", "price": "p"}}"#,
        ] {
            assert_eq!(SubscriptionRequest::parse(text.as_bytes()).unwrap_err().code, Code::Request, "{text}");
        }
        for (replay, bars) in [
            (r#"{"speed": "slow"}"#, "null"),
            (r#"{"batch_ms": 0}"#, "null"),
            (r#"{"batch_ms": 1e18}"#, "null"),
            ("null", r#"{"every": "1", "price": "p"}"#),
            ("null", r#"{"every": "m", "price": "p"}"#),
            ("null", r#"{"every": "99999999999999d", "price": "p"}"#),
            ("null", r#"{"every": "1m", "price": "p", "late": "-1s"}"#),
        ] {
            let ask = SubscriptionRequest::parse(
                format!(r#"{{"table": "t", "replay": {replay}, "bars": {bars}}}"#).as_bytes(),
            )
            .unwrap();
            assert!(ask.replay().is_err() || ask.bars().is_err(), "{replay} {bars}");
        }
    }
}
