//! What can be set in a shell.

use std::path::PathBuf;

use anyhow::{Result, bail};
use splay_sql::statements::without_blanks;
use splay_store::did_you_mean;

use crate::args::OutputFormat;

/// How rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Table,
    Vertical,
    Chart,
    Csv,
    Json,
    Ndjson,
}

/// Names of the modes.
pub const MODES: [(&str, Mode); 6] = [
    ("table", Mode::Table),
    ("vertical", Mode::Vertical),
    ("chart", Mode::Chart),
    ("csv", Mode::Csv),
    ("json", Mode::Json),
    ("ndjson", Mode::Ndjson),
];

impl Mode {
    pub fn named(name: &str) -> Result<Mode> {
        match MODES.iter().find(|(mode, _)| *mode == name) {
            Some((_, mode)) => Ok(*mode),
            None => {
                let names = MODES.map(|(name, _)| name);
                let hint = did_you_mean(name, names).unwrap_or_else(|| format!("there are {}", names.join(", ")));
                bail!("{name:?} is not a mode; {hint}")
            }
        }
    }

    /// The mode for lists of tables and columns and for outcomes of changes, which aren't shown as charts.
    pub fn of_lists(self) -> Mode {
        if self == Mode::Chart { Mode::Table } else { self }
    }

    pub fn name(self) -> &'static str {
        MODES.iter().find(|(_, mode)| *mode == self).map_or("table", |(name, _)| name)
    }

    pub fn format(self) -> OutputFormat {
        match self {
            Mode::Table | Mode::Vertical => OutputFormat::Table,
            Mode::Chart => OutputFormat::Chart,
            Mode::Csv => OutputFormat::Csv,
            Mode::Json => OutputFormat::Json,
            Mode::Ndjson => OutputFormat::Ndjson,
        }
    }
}

#[derive(Debug)]
pub struct ShellSettings {
    pub mode: Mode,
    /// Rows that a table shows; 0 for all.
    pub rows: usize,
    pub timing: bool,
    pub stats: bool,
    pub pager: bool,
    pub time_zone: Option<String>,
    /// Whether charts have ASCII characters only.
    pub is_ascii: bool,
    /// File for the answers.
    pub output: Option<PathBuf>,
}

impl ShellSettings {
    pub fn new(rows: usize, time_zone: Option<String>, is_ascii: bool) -> ShellSettings {
        ShellSettings {
            mode: Mode::Table,
            rows,
            timing: false,
            stats: false,
            pager: true,
            time_zone,
            is_ascii,
            output: None,
        }
    }

    /// Carries out `SET`, `SHOW` and `RESET TIME ZONE`. What is to be said; nothing for any other statement.
    ///
    /// # Errors
    /// `SET` and `RESET` of anything else, in PostgreSQL's words.
    pub fn set_by(&mut self, statement: &str) -> Result<Option<String>> {
        let statement = without_blanks(statement).replace('=', " = ");
        let mut words: Vec<&str> = statement.split_whitespace().collect();
        if words.len() > 2 && is(words[0], "set") && is(words[1], "session") {
            words.remove(1);
        }
        let zone = match words.as_slice() {
            [set, time, zone, name] if is(set, "set") && is(time, "time") && is(zone, "zone") => Some(*name),
            [set, name, to, value] if is(set, "set") && is(name, "timezone") && (*to == "=" || is(to, "to")) => {
                Some(*value)
            }
            [reset, time, zone] if is(reset, "reset") && is(time, "time") && is(zone, "zone") => None,
            [reset, name] if is(reset, "reset") && (is(name, "timezone") || is(name, "all")) => None,
            [show, time, zone] if is(show, "show") && is(time, "time") && is(zone, "zone") => {
                return Ok(Some(self.zone()));
            }
            [show, name] if is(show, "show") && is(name, "timezone") => return Ok(Some(self.zone())),
            [set, name, ..] if is(set, "set") && (is(name, "time") || is(name, "timezone")) => {
                bail!("the time zone is a name or an offset, as in SET TIME ZONE 'America/New_York' or '+01:00'")
            }
            [set, rest @ ..] if is(set, "set") || is(set, "reset") => {
                let name = rest.first().unwrap_or(&"").to_lowercase();
                bail!("unrecognized configuration parameter {name:?}; there is SET TIME ZONE 'America/New_York'")
            }
            _ => return Ok(None),
        };
        match zone.filter(|zone| !is(zone, "default")) {
            Some(zone) => self.set_zone(zone.trim_matches(['\'', '"']))?,
            None => self.time_zone = None,
        }
        Ok(Some(String::new()))
    }

    /// The time zone in which instants are shown.
    pub fn zone(&self) -> String {
        self.time_zone.clone().unwrap_or_else(|| "UTC".to_owned())
    }

    /// Sets the time zone in which instants are shown.
    pub fn set_zone(&mut self, zone: &str) -> Result<()> {
        crate::rows::check_zone(zone)?;
        self.time_zone = Some(zone.to_owned());
        Ok(())
    }
}

fn is(word: &str, expected: &str) -> bool {
    word.eq_ignore_ascii_case(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_zone_is_set_by_a_statement() {
        let mut settings = ShellSettings::new(40, None, false);
        for (statement, message, zone) in [
            ("SET TIME ZONE 'America/New_York'", Some(""), Some("America/New_York")),
            ("show time zone", Some("America/New_York"), Some("America/New_York")),
            ("set timezone='Asia/Tokyo'", Some(""), Some("Asia/Tokyo")),
            ("select 1", None, Some("Asia/Tokyo")),
            ("", None, Some("Asia/Tokyo")),
            ("reset timezone", Some(""), None),
            ("SHOW timezone", Some("UTC"), None),
            ("set timezone to UTC", Some(""), Some("UTC")),
            ("set time zone default", Some(""), None),
        ] {
            assert_eq!(settings.set_by(statement).unwrap().as_deref(), message, "{statement}");
            assert_eq!(settings.time_zone.as_deref(), zone, "{statement}");
        }
        assert!(settings.set_by("set time zone 'Nowhere/Else'").is_err());
    }

    #[test]
    fn other_settings_are_refused_by_name() {
        let mut settings = ShellSettings::new(40, Some("Asia/Tokyo".to_owned()), false);
        for (statement, expected) in [
            ("set foo = 1", "unrecognized configuration parameter \"foo\""),
            ("-- slow\nSET Statement_Timeout TO 5", "unrecognized configuration parameter \"statement_timeout\""),
            ("reset foo", "unrecognized configuration parameter \"foo\""),
            ("reset", "unrecognized configuration parameter \"\""),
            ("set time zone interval '1 hour'", "the time zone is a name or an offset"),
            ("set timezone = interval '1 hour'", "the time zone is a name or an offset"),
            ("set time zone 'America/New_Yrk'", "did you mean America/New_York?"),
        ] {
            let error = settings.set_by(statement).unwrap_err().to_string();
            assert!(error.contains(expected), "{statement}: {error}");
        }
        assert_eq!(settings.zone(), "Asia/Tokyo");
        settings.set_by("reset all").unwrap();
        assert_eq!(settings.zone(), "UTC");
        settings.set_by("set session time zone '+01:00'").unwrap();
        assert_eq!(settings.zone(), "+01:00");
    }

    #[test]
    fn modes_have_their_names() {
        for (name, mode) in MODES {
            assert_eq!((Mode::named(name).unwrap(), mode.name()), (mode, name));
        }
        assert!(Mode::named("xml").unwrap_err().to_string().contains("vertical"));
        assert!(Mode::named("cvs").unwrap_err().to_string().ends_with("did you mean csv?"));
    }
}
