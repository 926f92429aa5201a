//! The settings of a connection: those that clients send at startup, with the values that apply here. Others are
//! refused by name.

use std::collections::BTreeMap;
use std::time::Duration;

use super::refusal::Refusal;

/// The version of PostgreSQL that is announced to clients, so that they use features that the server has.
pub(super) const SERVER_VERSION: &str = "16.0 (SplayDB)";

/// The level of transactions whose statements all see the same.
pub(super) const REPEATABLE_READ: &str = "repeatable read";

/// Settings that are reported to clients when they connect, and when they change.
const REPORTED: [&str; 11] = [
    "application_name",
    "client_encoding",
    "datestyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "intervalstyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "standard_conforming_strings",
];

/// All settings with their values at the start.
const DEFAULTS: [(&str, &str); 27] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("extra_float_digits", "1"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "off"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("lc_monetary", "C"),
    ("max_identifier_length", "128"),
    // How clients are to encrypt a password that they set; psql's \password asks.
    ("password_encryption", "scram-sha-256"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", "160000"),
    ("ssl", "off"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("timezone", "UTC"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
];

/// The settings of one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Parameters {
    /// The settings at the start of the connection, which `RESET` restores.
    first: Values,
    values: Values,
    /// Within a transaction, to what its end leads.
    ends: Option<Box<Ends>>,
}

/// Values of settings by name, where they aren't the defaults: a connection that waits takes little memory.
type Values = BTreeMap<&'static str, String>;

/// The values of the settings behind a transaction.
#[derive(Debug, Clone)]
struct Ends {
    /// The settings before the transaction.
    rolled_back: Values,
    /// The settings after a commit: those set in the transaction, except by `SET LOCAL`.
    committed: Values,
}

fn default_of(name: &str) -> &'static str {
    DEFAULTS.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value)
}

/// Gives a setting a value; without one its default.
fn put(values: &mut Values, name: &'static str, value: Option<String>) {
    match value.filter(|value| value != default_of(name)) {
        Some(value) => drop(values.insert(name, value)),
        None => drop(values.remove(name)),
    }
}

/// The name of a setting as it is kept.
fn supported_name(name: &str) -> Result<&'static str, Refusal> {
    let entry = DEFAULTS.iter().find(|(supported, _)| supported.eq_ignore_ascii_case(name));
    entry.map(|(supported, _)| *supported).ok_or_else(|| {
        Refusal::new("42704", format!("unrecognized configuration parameter \"{name}\"; SplayDB has those that docs/reference/postgres.md lists"))
    })
}

impl Parameters {
    /// Names and values that are reported to the client, as PostgreSQL spells them.
    pub(super) fn reported_values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        REPORTED.iter().chain(["timezone"].iter()).map(|&name| (spelt(name), self.value(name)))
    }

    /// The name and value of a setting that is reported when it changes; `None` for others.
    pub(super) fn report(&self, name: &str) -> Option<(&'static str, &str)> {
        self.reported_values().find(|(reported, _)| reported.eq_ignore_ascii_case(name))
    }

    pub(super) fn get(&self, name: &str) -> Result<&str, Refusal> {
        let supported = match supported_name(name)? {
            // A statement without a transaction is one by itself.
            "transaction_isolation" if self.ends.is_none() => "default_transaction_isolation",
            supported => supported,
        };
        Ok(self.value(supported))
    }

    fn value(&self, name: &'static str) -> &str {
        self.values.get(name).map_or(default_of(name), String::as_str)
    }

    /// Whether all statements of the transaction see the same.
    pub(super) fn repeats_reads(&self) -> bool {
        self.get("transaction_isolation").is_ok_and(|level| level == REPEATABLE_READ)
    }

    pub(super) fn is_read_only(&self) -> bool {
        ["default_transaction_read_only", "transaction_read_only"]
            .iter()
            .any(|name| self.get(name).is_ok_and(|value| value == "on"))
    }

    /// Whether the client wants notices, which aren't errors.
    pub(super) fn wants_notices(&self) -> bool {
        !self.get("client_min_messages").is_ok_and(|least| ["warning", "error", "fatal", "panic"].contains(&least))
    }

    /// How long a statement may run, if the client has said it.
    pub(super) fn statement_timeout(&self) -> Option<Duration> {
        let value = self.get("statement_timeout").ok().and_then(milliseconds)?;
        (value > 0).then(|| Duration::from_millis(value))
    }

    /// Sets a setting; without a value back to that of the start.
    ///
    /// # Errors
    /// One that isn't known, or a value that it can't have here.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Refusal> {
        let supported = supported_name(name)?;
        let value = match value {
            None => self.first.get(supported).cloned(),
            Some(value) => Some(accept_value(supported, value)?),
        };
        // A setting of the transaction itself ends with it.
        if let Some(ends) = self.ends.as_mut().filter(|_| !supported.starts_with("transaction_")) {
            put(&mut ends.committed, supported, value.clone());
        }
        put(&mut self.values, supported, value);
        Ok(())
    }

    /// Sets a setting up to the end of the transaction, in which one has to be.
    pub(super) fn set_local(&mut self, name: &str, value: Option<&str>) -> Result<(), Refusal> {
        let Some(ends) = self.ends.take() else {
            return Err(Refusal::new("25P01", "SET LOCAL is for transactions: BEGIN one"));
        };
        let set = self.set(name, value);
        self.ends = Some(ends);
        set
    }

    /// Begins a transaction, unless one was begun.
    pub(super) fn begin(&mut self) {
        let values = || self.values.clone();
        self.ends.get_or_insert_with(|| Box::new(Ends { rolled_back: values(), committed: values() }));
    }

    /// Ends a transaction; whether that may change values.
    pub(super) fn end(&mut self, is_committed: bool) -> bool {
        let Some(ends) = self.ends.take() else { return false };
        let before = std::mem::replace(&mut self.values, if is_committed { ends.committed } else { ends.rolled_back });
        before != self.values
    }

    /// A setting that a client requests when it connects. Its time zone is answered with UTC, which is the zone here.
    pub(super) fn begin_with(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        if name.eq_ignore_ascii_case("timezone") {
            return Ok(());
        }
        self.set(name, Some(value))?;
        self.first = self.values.clone();
        Ok(())
    }

    /// All back to the values of the start.
    pub(super) fn reset(&mut self) {
        self.values = self.first.clone();
        if let Some(ends) = &mut self.ends {
            ends.committed = self.first.clone();
        }
    }
}

fn spelt(name: &'static str) -> &'static str {
    match name {
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        "timezone" => "TimeZone",
        other => other,
    }
}

/// A setting's value as it is kept, if it can have it here.
fn accept_value(name: &'static str, value: &str) -> Result<String, Refusal> {
    // Some clients put quotes around a value that they begin with.
    let value = value.trim().trim_matches('\'');
    let lower = value.to_ascii_lowercase();
    let one_of = |values: &[&str], canonical: &str| values.contains(&lower.as_str()).then(|| canonical.to_owned());
    let canonical_value = match name {
        "application_name" => Some(value.chars().take(64).collect()),
        "client_encoding" => one_of(&["utf8", "utf-8", "unicode"], "UTF8"),
        "client_min_messages" => Some(lower.clone()),
        "bytea_output" => one_of(&["hex"], "hex"),
        "datestyle" => {
            let is_iso = lower.split(',').map(str::trim).all(|part| matches!(part, "iso" | "mdy" | "dmy" | "ymd"));
            (is_iso && lower.contains("iso")).then(|| "ISO, MDY".to_owned())
        }
        "default_transaction_isolation" | "transaction_isolation" => {
            let committed = one_of(&["read committed", "read uncommitted"], "read committed");
            committed.or_else(|| one_of(&[REPEATABLE_READ], REPEATABLE_READ))
        }
        "default_transaction_read_only" | "transaction_read_only" => {
            one_of(&["on", "true", "yes", "1"], "on").or_else(|| one_of(&["off", "false", "no", "0"], "off"))
        }
        // All digits are always sent.
        "extra_float_digits" => {
            lower.parse::<i32>().ok().filter(|digits| (0..=3).contains(digits)).map(|digits| digits.to_string())
        }
        "intervalstyle" => one_of(&["postgres"], "postgres"),
        "password_encryption" => one_of(&["scram-sha-256"], "scram-sha-256"),
        "search_path" => {
            let is_here = lower
                .split(',')
                .map(|name| name.trim().trim_matches('"'))
                .all(|name| matches!(name, "public" | "pg_catalog" | "information_schema" | "$user" | ""));
            is_here.then(|| value.to_owned())
        }
        "standard_conforming_strings" => one_of(&["on", "true", "yes", "1"], "on"),
        "statement_timeout" => milliseconds(&lower).map(|milliseconds| milliseconds.to_string()),
        "timezone" => {
            one_of(&["utc", "gmt", "etc/utc", "etc/gmt", "zulu", "z", "universal", "0", "+00", "+00:00"], "UTC")
        }
        _ => return Err(Refusal::new("55P02", format!("parameter \"{name}\" cannot be changed"))),
    };
    let hint = match name {
        "timezone" => ": times are sent in UTC",
        "client_encoding" => ": only UTF8",
        "datestyle" => ": only ISO",
        _ => "",
    };
    canonical_value.ok_or_else(|| Refusal::new("22023", format!("{name} can't be {value:?} here{hint}")))
}

/// Milliseconds of `500`, `30s` or `1min`.
fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let factor = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(factor)
}

/// Settings within the option `options` of a connection: `-c name=value` and `--name=value`, with `\` before blanks in values.
pub(super) fn of_options(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    let mut words: Vec<String> = Vec::new();
    let (mut is_open, mut is_escaped) = (false, false);
    for letter in text.chars() {
        let is_blank = letter.is_ascii_whitespace() && !is_escaped;
        if letter == '\\' && !is_escaped {
            is_escaped = true;
            continue;
        }
        if !is_blank {
            if !is_open {
                words.push(String::new());
            }
            words.last_mut().into_iter().for_each(|word| word.push(letter));
        }
        (is_open, is_escaped) = (!is_blank, false);
    }
    let wrong = || Refusal::fatal("22023", "options of a connection are -c name=value");
    let (mut settings, mut words) = (Vec::new(), words.into_iter());
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c").filter(|rest| !rest.is_empty()))
        {
            Some(setting) => setting.to_owned(),
            None if word == "-c" => words.next().ok_or_else(wrong)?,
            None => return Err(wrong()),
        };
        let (name, value) = setting.split_once('=').ok_or_else(wrong)?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_set_is_kept_and_the_rest_refused() {
        let mut parameters = Parameters::default();
        for (name, value, expected) in [
            ("Client_Encoding", "'utf-8'", "UTF8"),
            ("DateStyle", "ISO", "ISO, MDY"),
            ("extra_float_digits", "3", "3"),
            ("statement_timeout", "2s", "2000"),
            ("TimeZone", "Etc/UTC", "UTC"),
            ("search_path", "\"$user\", public", "\"$user\", public"),
        ] {
            parameters.set(name, Some(value)).unwrap();
            assert_eq!(parameters.get(name).unwrap(), expected);
        }
        assert_eq!(parameters.statement_timeout(), Some(Duration::from_secs(2)));
        for (name, value, code) in [
            ("client_encoding", "LATIN1", "22023"),
            ("TimeZone", "Europe/Berlin", "22023"),
            ("search_path", "other", "22023"),
            ("standard_conforming_strings", "off", "22023"),
            ("server_version", "1", "55P02"),
            ("work_mem", "1", "42704"),
        ] {
            assert_eq!(parameters.set(name, Some(value)).unwrap_err().code, code, "{name}");
        }
        parameters.reset();
        assert_eq!(parameters.statement_timeout(), None);
        assert!(parameters.wants_notices());
        parameters.set("client_min_messages", Some("WARNING")).unwrap();
        assert!(!parameters.wants_notices());
    }

    #[test]
    fn the_end_of_a_transaction_leads_settings_back() {
        let mut parameters = Parameters::default();
        let value = |parameters: &Parameters, name: &str| parameters.get(name).unwrap().to_owned();
        assert_eq!(parameters.set_local("application_name", Some("x")).unwrap_err().code, "25P01");
        assert!(!parameters.end(true));
        for (is_committed, expected) in [(true, "b"), (false, "before")] {
            parameters.set("application_name", Some("before")).unwrap();
            parameters.begin();
            parameters.set("application_name", Some("b")).unwrap();
            parameters.set_local("application_name", Some("c")).unwrap();
            parameters.set_local("statement_timeout", Some("1s")).unwrap();
            parameters.set("transaction_read_only", Some("on")).unwrap();
            assert_eq!(
                (value(&parameters, "application_name"), value(&parameters, "statement_timeout")),
                ("c".into(), "1000".into())
            );
            assert!(parameters.is_read_only());
            assert!(parameters.end(is_committed));
            assert_eq!(
                (value(&parameters, "application_name"), value(&parameters, "statement_timeout")),
                (expected.into(), "0".into())
            );
            assert!(!parameters.is_read_only());
        }
    }

    #[test]
    fn options_are_taken_apart() {
        let options = of_options("-c statement_timeout=5s --search-path=a\\ b -cx=1").unwrap();
        let options: Vec<_> = options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(options, [("statement_timeout", "5s"), ("search_path", "a b"), ("x", "1")]);
        assert!(of_options("-x 1").is_err() && of_options("-c").is_err() && of_options("-c a").is_err());
        assert!(of_options(" ").unwrap().is_empty());
    }
}
