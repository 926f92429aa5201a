//! `splay shell`: statement after statement.
//!
//! - At a terminal lines are edited, completed and remembered; a statement ends with a semicolon and may have several lines.
//! - Otherwise the statements of standard input are run one after the other, up to the first that fails.
//! - Ctrl-C ends the statement that runs, or empties the line.

mod backslash;
mod history;
mod line;
mod names;
mod settings;

pub(super) use self::settings::ShellSettings;

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{CompletionType, Config, Editor};

use self::history::{HISTORY_LENGTH, HistoryFile};
use self::line::{LineHelper, is_whole};
use self::names::Names;
use self::settings::Mode;
use super::place::{runtime, source};
use crate::args::{OutputFormat, ShellArguments};
use crate::copy::copied;
use crate::output::{self, DisplayOptions};
use crate::print::{self, note, say};
use crate::progress::StatementLine;
use crate::rows::{Rows, Source};
use crate::size::Counted;
use splay_sql::statements::{is_blank, split};
use splay_sql::{NamedStatements, ResolvedStatement, copy_to, is_change};

const PROMPT: &str = "splay> ";

/// Before the further lines of a statement.
const CONTINUATION: &str = "   ...> ";

/// A line's editor, with the statements of this shell and of earlier ones.
type LineEditor = Editor<LineHelper, MemHistory>;

/// Whether to go on behind a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShellStep {
    GoOn,
    Quit,
}

struct Shell {
    source: Source,
    names: Arc<Names>,
    settings: ShellSettings,
    /// Statements of `PREPARE`.
    named: NamedStatements,
    /// The last statement that had an answer to show.
    last: Option<String>,
    /// Set by Ctrl-C.
    interrupted: Arc<AtomicBool>,
}

pub fn run(arguments: &ShellArguments) -> Result<()> {
    let source = source(&arguments.ask, false)?;
    let mut shell = Shell {
        source,
        names: Arc::new(Names::default()),
        settings: ShellSettings::new(arguments.ask.rows, arguments.ask.time_zone.clone(), arguments.ask.ascii),
        named: NamedStatements::default(),
        last: None,
        interrupted: Arc::new(AtomicBool::new(false)),
    };
    if std::io::stdin().is_terminal() {
        return shell.talk(&arguments.ask.place.place, arguments.history.clone().or_else(history_file).as_deref());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("read standard input")?;
    shell.run_text(&text).map(|_| ())
}

/// `splay/history` in the user's folder of states.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("splay/history"))
}

/// The file of a shell's history, whose statements are given to the editor. What is wrong with it is noted, and the shell has none.
fn open_history(path: &Path, editor: &mut LineEditor) -> Option<HistoryFile> {
    let mut open = || -> Result<Option<HistoryFile>> {
        let Some(file) = HistoryFile::open(path)? else { return Ok(None) };
        for statement in file.statements()? {
            editor.add_history_entry(statement)?;
        }
        Ok(Some(file))
    };
    open().unwrap_or_else(|error| {
        note!("this shell has no history: {}", crate::reasons(&error));
        None
    })
}

/// Adds a statement to the history.
fn remember(statement: &str, editor: &mut LineEditor, history: &mut Option<HistoryFile>) -> Result<()> {
    let is_new = editor.add_history_entry(statement)?;
    if let Some(file) = history.as_ref().filter(|_| is_new)
        && let Err(error) = file.append(statement)
    {
        note!("the history ends here: {}", crate::reasons(&error));
        *history = None;
    }
    Ok(())
}

impl Shell {
    /// The conversation at a terminal.
    fn talk(&mut self, place: &str, history: Option<&Path>) -> Result<()> {
        if let Source::Server(_) = &self.source {
            self.source.texts("select 1 as one")?;
        }
        let mut editor = self.editor()?;
        let mut history = history.and_then(|path| open_history(path, &mut editor));
        self.watch_for_interrupts()?;
        say!("splay {}, {place}. \\? tells what there is besides SQL, \\q leaves.", env!("CARGO_PKG_VERSION"))?;
        // The lines of a statement so far.
        let mut text = String::new();
        loop {
            if text.is_empty() {
                self.names.learn(&self.source);
            }
            match editor.readline(if text.is_empty() { PROMPT } else { CONTINUATION }) {
                Ok(line) => {
                    text.push_str(&line);
                    if !is_whole(&text) {
                        text.push('\n');
                        continue;
                    }
                    let line = std::mem::take(&mut text);
                    if is_blank(&line) {
                        continue;
                    }
                    // A password is nothing to be kept.
                    if *splay_sql::without_secrets(&line) == *line {
                        remember(line.trim(), &mut editor, &mut history)?;
                    }
                    match self.run_text(&line) {
                        Ok(ShellStep::Quit) => return Ok(()),
                        Ok(ShellStep::GoOn) => {}
                        Err(error) => note!("{}", crate::reasons(&error)),
                    }
                }
                Err(ReadlineError::Interrupted) => text.clear(),
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(error).context("read the terminal"),
            }
        }
    }

    fn editor(&self) -> Result<LineEditor> {
        let config = Config::builder()
            .max_history_size(HISTORY_LENGTH)?
            .completion_type(CompletionType::List)
            .auto_add_history(false)
            .build();
        let history = MemHistory::with_config(&config);
        let mut editor = LineEditor::with_history(config, history)?;
        editor.set_helper(Some(LineHelper::new(Arc::clone(&self.names))));
        Ok(editor)
    }

    /// Notes Ctrl-C instead of ending the process.
    fn watch_for_interrupts(&self) -> Result<()> {
        let (runtime, interrupted) = (runtime()?, Arc::clone(&self.interrupted));
        let watch = move || {
            runtime.block_on(async {
                while tokio::signal::ctrl_c().await.is_ok() {
                    interrupted.store(true, Ordering::Relaxed);
                }
            });
        };
        std::thread::Builder::new().name("splay-signals".to_owned()).spawn(watch).context("start a thread")?;
        Ok(())
    }

    /// Runs what a line, or a file of lines, says: a command that begins with a backslash takes its line, all else are statements.
    fn run_text(&mut self, text: &str) -> Result<ShellStep> {
        let mut rest = text;
        loop {
            rest = rest.trim_start();
            if rest.starts_with('\\') {
                let (command, behind) = rest.split_once('\n').unwrap_or((rest, ""));
                if backslash::run(self, command.trim())? == ShellStep::Quit {
                    return Ok(ShellStep::Quit);
                }
                rest = behind;
                continue;
            }
            // Up to the next line that is a command.
            let end = rest.match_indices("\n\\").map(|(at, _)| at + 1).find(|at| is_blank(split(&rest[..*at]).1));
            let (statements, behind) = rest.split_at(end.unwrap_or(rest.len()));
            let (whole, last) = split(statements);
            let last = if is_blank(last) { None } else { Some(last.trim()) };
            for statement in whole.into_iter().chain(last) {
                match backslash::without_backslash(statement) {
                    Some(command) if backslash::run(self, command)? == ShellStep::Quit => return Ok(ShellStep::Quit),
                    Some(_) => {}
                    None => self.run_statement(statement)?,
                }
            }
            if behind.is_empty() {
                return Ok(ShellStep::GoOn);
            }
            rest = behind;
        }
    }

    fn run_statement(&mut self, text: &str) -> Result<()> {
        match self.settings.set_by(text)? {
            Some(message) if message.is_empty() => {
                note!("time zone is {}", self.settings.zone());
                return Ok(());
            }
            Some(message) => return say!("{message}"),
            None => {}
        }
        self.interrupted.store(false, Ordering::Relaxed);
        match self.source.resolve(&mut self.named, text, &self.interrupted)? {
            ResolvedStatement::Statement(text) => self.run_as(&text, self.settings.mode),
            ResolvedStatement::Done => {
                note!("{}", text.split_whitespace().next().unwrap_or_default().to_uppercase());
                Ok(())
            }
        }
    }

    /// Runs a statement that lists what there is.
    fn list(&mut self, text: &str) -> Result<()> {
        self.show(text, self.settings.mode.of_lists())
    }

    /// Runs a statement and shows its answer in a mode.
    fn run_as(&mut self, text: &str, mode: Mode) -> Result<()> {
        if is_change(text) || copy_to(text)?.is_some() {
            return self.show(text, mode.of_lists());
        }
        self.last = Some(text.to_owned());
        self.show(text, mode)
    }

    fn show(&mut self, text: &str, mode: Mode) -> Result<()> {
        self.interrupted.store(false, Ordering::Relaxed);
        let values = HashMap::new();
        if let Some(rows) = copied(&self.source, text, &values, &self.interrupted, self.settings.time_zone.as_deref())?
        {
            return say!("{}", Counted(rows, "row"));
        }
        let path = self.settings.output.as_deref();
        let format = match path.and_then(output::format_of) {
            // A file of text holds either.
            Some(OutputFormat::Table) if mode == Mode::Chart => OutputFormat::Chart,
            Some(named) => named,
            None => mode.format(),
        };
        let line = StatementLine::of(&self.source);
        let mut started = self.source.start(text, &values, &self.interrupted, line.progress())?;
        let rows = started.rows().in_zone(self.settings.time_zone.as_deref())?;
        let rows = line.over(rows, output::line_end(format, path));
        let size = output::terminal_size();
        let (is_vertical, is_ascii) = (mode == Mode::Vertical, self.settings.is_ascii);
        let (shown_rows, all_rows) = (self.settings.rows, "\\rows 0");
        let shown = DisplayOptions { rows: shown_rows, size, is_vertical, is_ascii, all_rows };
        match (path, mode) {
            (Some(path), _) => {
                let count = Cell::new(0);
                output::write(counting(rows, &count), format, Some(path), shown)?;
                note!("{} to {}", Counted(count.get(), "row"), path.display());
            }
            (None, Mode::Table | Mode::Vertical) if size.is_some() && self.settings.pager => {
                let mut text = Vec::new();
                output::write_to(rows, format, &mut text, shown)?;
                page(&text)?;
            }
            (None, _) => output::write(rows, format, None, shown)?,
        }
        // The costs begin with the time.
        if self.settings.timing && !self.settings.stats {
            say!("{:.3} ms", started.elapsed().as_secs_f64() * 1e3)?;
        }
        if self.settings.stats {
            say!("{}", started.costs(&self.source, text, &values))?;
        }
        Ok(())
    }
}

/// The same rows, which are counted as they pass.
fn counting<'a>(rows: Rows<'a>, count: &'a Cell<u64>) -> Rows<'a> {
    let batches = rows.batches.inspect(move |batch| {
        count.set(count.get() + batch.as_ref().map_or(0, |batch| batch.num_rows() as u64));
    });
    Rows { schema: rows.schema, batches: Box::new(batches) }
}

/// Shows a text by the pager if it has more lines than the terminal.
fn page(text: &[u8]) -> Result<()> {
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    if lines >= usize::from(console::Term::stdout().size().0) {
        let pager = std::env::var("PAGER").unwrap_or_else(|_| "less -FRSX".to_owned());
        let mut words = pager.split_whitespace();
        let started = words.next().map(|program| Command::new(program).args(words).stdin(Stdio::piped()).spawn());
        if let Some(Ok(mut pager)) = started {
            if let Some(mut input) = pager.stdin.take() {
                // The user may close the pager early: an error of writing is ignored.
                let _ = input.write_all(text);
            }
            pager.wait().context("wait for the pager")?;
            return Ok(());
        }
    }
    print::stdout().write_all(text).context("write")
}
