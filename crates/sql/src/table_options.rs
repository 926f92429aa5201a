//! Options of tables and views: `PARTITION BY`, `WITH (…)`, `SET (…)` and `RESET (…)`.

use datafusion::sql::sqlparser::tokenizer::Token;
use splay_store::{ByteSize, Lifecycle, Publish, TierRule};

use crate::error::{Result, fault};
use crate::token_reader::TokenReader;

/// Options of what becomes of rows with time, which can be changed later.
pub(crate) const LIFECYCLE: [&str; 4] = ["retain_days", "retain_bytes", "tier", "publish"];

/// The option for which a materialized view answers statements over its table.
pub(crate) const QUERY_REWRITE: &str = "query_rewrite";

/// Names in small letters, with values.
pub(crate) type Options = Vec<(String, String)>;

/// The options in `PARTITION BY`, `ORDER BY` and `WITH` of a table or view to create, if there are any.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for an option that is given twice, and for an order that no table has.
pub(crate) fn of_creation(words: &mut TokenReader<'_>) -> Result<Options> {
    let mut options = Vec::new();
    loop {
        let clause = if words.take(&["partition", "by"]) {
            vec![("partition".to_owned(), words.name("a period")?)]
        } else if words.take(&["order", "by"]) {
            order(words)?
        } else {
            break;
        };
        for (name, value) in clause {
            add(&mut options, name, value)?;
        }
    }
    if words.take(&["with"]) {
        read(words, "WITH", true, &mut options)?;
    }
    Ok(options)
}

/// The columns behind `ORDER BY`, in brackets or not: the symbol and the time, or the time alone.
fn order(words: &mut TokenReader<'_>) -> Result<Options> {
    let mut columns = if words.peek_bracket() { words.names()? } else { words.bare_names()? };
    let time = columns.pop().unwrap_or_default();
    let symbol = columns.pop().unwrap_or_default();
    if !columns.is_empty() {
        return fault(
            "ORDER BY of a table names its symbol and its time, or its time alone: rows of one time stay as they came",
        );
    }
    Ok(vec![("symbol".to_owned(), symbol), ("time".to_owned(), time)])
}

fn add(options: &mut Options, name: String, value: String) -> Result<()> {
    if options.iter().any(|(other, _)| *other == name) {
        return fault(format!("the option {name} is given twice"));
    }
    options.push((name, value));
    Ok(())
}

/// What `SET (…)` or `RESET (…)` change, if one of them is there. `RESET` gives empty values.
///
/// # Errors
/// As [`of_creation`].
pub(crate) fn of_change(words: &mut TokenReader<'_>) -> Result<Option<Options>> {
    let mut options = Vec::new();
    for (word, has_values) in [("SET", true), ("RESET", false)] {
        if words.take(&[&word.to_lowercase()]) {
            read(words, word, has_values, &mut options)?;
            return Ok(Some(options));
        }
    }
    Ok(None)
}

/// Adds the options in brackets behind a word.
fn read(words: &mut TokenReader<'_>, word: &str, has_values: bool, options: &mut Options) -> Result<()> {
    words.expect(&Token::LParen, &format!("( behind {word}"))?;
    loop {
        let name = words.name("an option")?.to_lowercase();
        let value = match has_values {
            true => {
                words.expect(&Token::Eq, "= behind the option")?;
                words.name("a value")?
            }
            false => String::new(),
        };
        add(options, name, value)?;
        match words.peek() {
            Some(Token::Comma) => words.step(),
            _ => break,
        }
    }
    words.expect(&Token::RParen, ") behind the options")
}

pub(crate) fn option<'a>(options: &'a [(String, String)], name: &str) -> Option<&'a str> {
    options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Refuses options that can't change after a table was created.
pub(crate) fn refuse_fixed(options: &[(String, String)]) -> Result<()> {
    match options.iter().find(|(name, _)| !LIFECYCLE.contains(&name.as_str())) {
        None => Ok(()),
        Some((name, _)) if name == "partition" => fault("ALTER TABLE … PARTITION BY changes what a partition spans"),
        Some((name, _)) => {
            fault(format!("{name} is no option that ALTER TABLE changes; there are {}", LIFECYCLE.join(", ")))
        }
    }
}

/// What one option makes of a [`Lifecycle`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LifecycleOption {
    Days(Option<u32>),
    Bytes(Option<u64>),
    Tiers(Vec<TierRule>),
    Publish(Option<Publish>),
    QueryRewrite(bool),
}

impl LifecycleOption {
    pub(crate) fn put(self, lifecycle: &mut Lifecycle) {
        match self {
            LifecycleOption::Days(days) => lifecycle.retention.days = days,
            LifecycleOption::Bytes(bytes) => lifecycle.retention.bytes = bytes,
            LifecycleOption::Tiers(tiers) => lifecycle.tiers = tiers,
            LifecycleOption::Publish(publish) => lifecycle.publish = publish,
            LifecycleOption::QueryRewrite(query_rewrite) => lifecycle.query_rewrite = Some(query_rewrite),
        }
    }
}

/// Those of the options that are of a [`Lifecycle`]. An empty text takes back what the option said.
pub(crate) fn of_lifecycle(options: &[(String, String)]) -> Result<Vec<LifecycleOption>> {
    let mut found = Vec::new();
    for (name, text) in options {
        let text = text.trim();
        match name.as_str() {
            "retain_days" => found.push(LifecycleOption::Days(days(text)?)),
            "retain_bytes" => found.push(LifecycleOption::Bytes(bytes(text)?)),
            "tier" => found.push(LifecycleOption::Tiers(tiers(text)?)),
            "publish" => found.push(LifecycleOption::Publish(publish(text)?)),
            QUERY_REWRITE => found.push(LifecycleOption::QueryRewrite(query_rewrite(text)?)),
            _ => {}
        }
    }
    Ok(found)
}

fn days(text: &str) -> Result<Option<u32>> {
    match text.parse::<u32>() {
        _ if text.is_empty() => Ok(None),
        Ok(days) if days > 0 => Ok(Some(days)),
        _ => fault(format!("retain_days is a whole number of days above 0, not {text:?}")),
    }
}

fn bytes(text: &str) -> Result<Option<u64>> {
    match text.parse::<ByteSize>() {
        _ if text.is_empty() => Ok(None),
        Ok(size) if size.0 > 0 => Ok(Some(size.0 as u64)),
        _ => {
            fault(format!("retain_bytes is a size above 0 such as '512M' or '2G', or a number of bytes, not {text:?}"))
        }
    }
}

/// Whether a materialized view answers statements over its table; not for an empty text.
pub(crate) fn query_rewrite(text: &str) -> Result<bool> {
    match text.to_lowercase().as_str() {
        "true" | "on" => Ok(true),
        "false" | "off" | "" => Ok(false),
        other => fault(format!("{QUERY_REWRITE} is true or false, not {other}")),
    }
}

fn publish(text: &str) -> Result<Option<Publish>> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).or_else(fault) }
}

fn tiers(text: &str) -> Result<Vec<TierRule>> {
    let rules = text.split(',').filter(|_| !text.is_empty()).map(tier_rule).collect::<Result<Vec<TierRule>>>()?;
    let mut ages: Vec<u32> = rules.iter().map(|rule| rule.after).collect();
    ages.sort_unstable();
    match ages.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => fault(format!("tier says twice what is so after {} days: {text:?}", twice[0])),
        None => Ok(rules),
    }
}

/// A tier, and from which age on, such as `small after 90`; without one from the beginning.
fn tier_rule(text: &str) -> Result<TierRule> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (tier, after) = match words[..] {
        [tier] => (tier, Ok(0)),
        [tier, after, days] if after.eq_ignore_ascii_case("after") => (tier, days.parse()),
        _ => {
            return fault(format!("tier is one such as 'small', or some such as 'fast, small after 90', not {text:?}"));
        }
    };
    match (tier.parse(), after) {
        (Ok(tier), Ok(after)) => Ok(TierRule { after, tier }),
        (Err(reason), _) => fault(reason),
        (_, Err(_)) => fault(format!("tier: AFTER is followed by a number of days, not as in {text:?}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;
    use splay_store::{Retention, Tier};

    use super::*;

    /// The lifecycle that a text of options makes of one with 30 days and the tier fast.
    fn changed(text: &str) -> Result<Lifecycle> {
        let tokens = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize().unwrap();
        let options = of_change(&mut TokenReader::of(&tokens))?.unwrap();
        let tiers = vec![TierRule { after: 0, tier: Tier::Fast }];
        let retention = Retention { days: Some(30), bytes: None };
        let mut lifecycle = Lifecycle { retention, tiers, ..Lifecycle::default() };
        of_lifecycle(&options)?.into_iter().for_each(|option| option.put(&mut lifecycle));
        Ok(lifecycle)
    }

    #[test]
    fn only_what_is_named_changes() {
        let of = |text: &str| {
            let Lifecycle { retention: Retention { days, bytes }, tiers, .. } = changed(text).unwrap();
            (days, bytes, tiers.iter().map(|rule| (rule.after, rule.tier)).collect::<Vec<_>>())
        };
        let fast = vec![(0, Tier::Fast)];
        assert_eq!(of("SET (retain_bytes = '2G')"), (Some(30), Some(2 << 30), fast.clone()));
        assert_eq!(of("set (Retain_Days = 7, retain_bytes = '512MB')"), (Some(7), Some(512 << 20), fast.clone()));
        assert_eq!(of("set (retain_bytes = 1000)"), (Some(30), Some(1000), fast.clone()));
        assert_eq!(
            of("set (tier = 'small after 90, mapped')"),
            (Some(30), None, vec![(90, Tier::Small), (0, Tier::Mapped)])
        );
        assert_eq!(of("reset (retain_days)"), (None, None, fast));
        assert_eq!(of("reset (tier, retain_days)"), (None, None, Vec::new()));
        assert_eq!(of("set (retain_days = '', tier = '')"), (None, None, Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("set (retain_days = 1, RETAIN_DAYS = 2)", "the option retain_days is given twice"),
            ("reset (tier, tier)", "the option tier is given twice"),
            ("reset (tier = 'small')", "expected ) behind the options"),
            ("set (tier)", "expected = behind the option"),
            ("set retain_days = 1", "expected ( behind SET"),
            ("set (retain_bytes = 'plenty')", "a size above 0 such as '512M' or '2G'"),
            ("set (retain_bytes = '0G')", "a size above 0"),
            ("set (retain_days = -1)", "expected a value"),
            ("set (tier = 'small after 90, fast after 90')", "twice what is so after 90 days"),
        ] {
            let message = changed(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
