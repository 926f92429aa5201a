//! Commands of the shell that are no SQL.

use std::path::Path;

use anyhow::{Context, Result, bail};
use splay_store::did_you_mean;

use super::settings::Mode;
use super::{Shell, ShellStep};
use crate::output::{self, columns};
use crate::print::{note, say};

/// Commands with what they do.
const COMMANDS: [(&str, &str); 15] = [
    ("\\?", "this list"),
    ("\\d", "the tables"),
    ("\\d TABLE", "a table's columns"),
    ("\\l", "the database, which is one, and its tables"),
    ("\\df [PART]", "functions whose names have a part; * stands for any letters"),
    ("\\i FILE", "run the statements of a file"),
    ("\\o [FILE]", "write answers to a file, in the format of its name; without one, or with -, to the terminal again"),
    ("\\mode [MODE]", "how rows are shown: table, vertical, chart, csv, json, ndjson"),
    ("\\chart [STATEMENT]", "draw the answer of a statement; without one that of the last, which is run again"),
    ("\\x", "rows as lines of name and value, or as a table again"),
    ("\\rows [NUMBER]", "rows that a table shows; 0 for all"),
    ("\\timing, \\stats [on|off]", "time of each statement; all that it cost"),
    ("\\tz [ZONE]", "time zone in which instants are shown"),
    ("\\pager [on|off]", "whether long tables are shown by $PAGER"),
    ("\\q", "leave, as Ctrl-D does"),
];

/// The statement that lists the tables.
const TABLES: &str = "select table_name as \"table\", count(*) as columns from information_schema.columns \
                      where table_schema = 'public' group by table_name order by table_name";

/// Names of the commands.
pub fn names() -> Vec<&'static str> {
    let words = COMMANDS.iter().flat_map(|(name, _)| name.split([' ', ',']));
    let mut names: Vec<&str> = words.filter(|word| word.starts_with('\\')).collect();
    names.dedup();
    names
}

/// The command of a statement that is a word of other shells: `exit`, `quit`, `help`.
pub fn without_backslash(statement: &str) -> Option<&'static str> {
    match statement.trim().trim_end_matches(';').trim_end().to_ascii_lowercase().as_str() {
        "exit" | "quit" => Some("\\q"),
        "help" => Some("\\?"),
        _ => None,
    }
}

pub fn run(shell: &mut Shell, command: &str) -> Result<ShellStep> {
    let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let argument = argument.trim().trim_end_matches(';');
    let settings = &mut shell.settings;
    // psql tells more of a thing behind a plus; here all is told at once.
    match (name.trim_end_matches([';', '+']), argument) {
        ("\\q" | "\\quit", _) => return Ok(ShellStep::Quit),
        ("\\?" | "\\h" | "\\help", _) => {
            let rows: Vec<Vec<String>> =
                COMMANDS.iter().map(|(name, what)| vec![(*name).to_owned(), (*what).to_owned()]).collect();
            say!("{}\nStatements end with a semicolon. Tab completes names.", columns(&["command", ""], &rows))?;
        }
        ("\\d" | "\\dt", "") => shell.list(TABLES)?,
        ("\\l" | "\\list", _) => {
            note!("a folder or a server is one database; its tables are");
            shell.list(TABLES)?;
        }
        ("\\d", table) => {
            let table = table.trim_matches('"').replace('"', "\"\"");
            shell.list(&format!("describe \"{table}\""))?;
        }
        ("\\df", part) => {
            let part = part.to_lowercase();
            let parts: Vec<&str> = part.split(['*', '%']).collect();
            for name in shell.names.functions(&shell.source).iter().filter(|name| has_in_order(name, &parts)) {
                say!("{name}")?;
            }
        }
        ("\\i", "") => bail!("\\i needs a file name"),
        ("\\i", file) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("read {file}"))?;
            return shell.run_text(&text);
        }
        ("\\o", file) if file.is_empty() || output::is_standard_output(Path::new(file)) => {
            settings.output = None;
            note!("answers go to the terminal");
        }
        ("\\o", file) => {
            let path = Path::new(file);
            output::format_named(path)?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                bail!("{file}: there is no folder {}", folder.display());
            }
            settings.output = Some(file.into());
            note!("answers go to {file}");
        }
        ("\\chart", statement) => {
            let last = || shell.last.clone().context("there is no answer to draw yet");
            let statement = if statement.is_empty() { last()? } else { statement.to_owned() };
            shell.run_as(&statement, Mode::Chart)?;
        }
        ("\\mode", "") => say!("{}", settings.mode.name())?,
        ("\\mode", mode) => {
            settings.mode = Mode::named(mode)?;
            note!("mode is {mode}");
        }
        ("\\x", _) => {
            settings.mode = if settings.mode == Mode::Vertical { Mode::Table } else { Mode::Vertical };
            note!("mode is {}", settings.mode.name());
        }
        ("\\rows", "") => say!("{}", settings.rows)?,
        ("\\rows", rows) => {
            settings.rows = rows.parse().with_context(|| format!("{rows:?} is no number of rows"))?;
            note!("rows is {rows}");
        }
        ("\\timing", to) => switch("timing", &mut settings.timing, to)?,
        ("\\stats", to) => switch("stats", &mut settings.stats, to)?,
        ("\\pager", to) => switch("pager", &mut settings.pager, to)?,
        ("\\tz", "") => say!("{}", settings.time_zone.as_deref().unwrap_or("UTC"))?,
        ("\\tz", zone) => {
            settings.set_zone(zone.trim_matches('\''))?;
            note!("time zone is {}", settings.zone());
        }
        (other, _) => {
            let question = did_you_mean(other, names());
            bail!("there is no command {other}; {}", question.unwrap_or_else(|| "\\? lists them".to_owned()))
        }
    }
    Ok(ShellStep::GoOn)
}

/// Turns a setting on or off, or to the other if none of these is said.
fn switch(what: &str, setting: &mut bool, to: &str) -> Result<()> {
    *setting = match to.to_ascii_lowercase().as_str() {
        "" => !*setting,
        "on" => true,
        "off" => false,
        other => bail!("{what} is on or off, not {other}"),
    };
    note!("{what} is {}", if *setting { "on" } else { "off" });
    Ok(())
}

/// Whether a name has these parts one behind the other.
fn has_in_order(name: &str, parts: &[&str]) -> bool {
    let found = parts.iter().try_fold(name, |rest, part| rest.split_once(part).map(|(_, behind)| behind));
    found.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_name_may_have_stars() {
        let parts = |pattern: &'static str| pattern.split('*').collect::<Vec<_>>();
        assert!(has_in_order("vwap", &parts("vw*")) && has_in_order("time_bucket", &parts("t*buck")));
        assert!(has_in_order("vwap", &parts("")) && !has_in_order("vwap", &parts("p*vw")));
    }

    #[test]
    fn a_switch_takes_its_word() {
        let mut timing = false;
        switch("timing", &mut timing, "off").unwrap();
        assert!(!timing);
        switch("timing", &mut timing, "ON").unwrap();
        switch("timing", &mut timing, "on").unwrap();
        assert!(timing);
        switch("timing", &mut timing, "").unwrap();
        assert!(!timing && switch("timing", &mut timing, "maybe").is_err());
    }
}
