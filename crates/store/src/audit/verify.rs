//! Verifies a log: each record against its seal and its predecessor, up to the head.
//!
//! Nothing is changed, and the log may be written meanwhile.

use serde::Serialize;

use super::chain::{self, ChainPosition, FileOpening, LinkedLine, NONE_BEFORE, RemovalRecord, VERSION};
use super::files::{self, LogLine, LogLines};
use super::head::{LogHead, StoredHead};
use super::seal::{AuditKey, Seal};
use crate::error::Result;
use crate::storage::Storage;

/// Problems that are listed; more are counted.
pub const PROBLEMS_MAX: usize = 1000;

/// A record that the log has to have, as an earlier [`Verification`] gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExpectedRecord {
    /// Its number.
    pub n: u64,
    /// Its digest, or the first digits of it.
    pub digest: String,
}

impl std::str::FromStr for ExpectedRecord {
    type Err = String;

    fn from_str(text: &str) -> Result<ExpectedRecord, String> {
        let wrong = || format!("{text:?} is no record as 1234:0f3a…, which verify prints as head");
        let (n, digest) = text.trim().split_once(':').ok_or_else(wrong)?;
        let is_digest = (16..=64).contains(&digest.len()) && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let n = n.parse().ok().filter(|_| is_digest).ok_or_else(wrong)?;
        Ok(ExpectedRecord { n, digest: digest.to_ascii_lowercase() })
    }
}

/// Something that isn't as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditProblem {
    /// The file.
    pub file: String,
    /// Its line, from 1; 0 for the file as a whole.
    pub line: u64,
    /// The fault.
    pub what: String,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Files.
    pub files: u64,
    /// Records that could be read.
    pub records: u64,
    /// How many of the records were sealed with a key.
    pub keyed: u64,
    /// How many of the records couldn't be checked, because no key was given.
    pub unchecked: u64,
    /// Number of the first record.
    pub first: u64,
    /// The last record.
    pub last: Option<ExpectedRecord>,
    /// Number of the last record that the head names.
    pub head: Option<u64>,
    /// The last record that was removed because of its age.
    pub removed_through: Option<u64>,
    /// Bytes behind the last whole record: of one that is being written, or that a crash has cut.
    pub torn_bytes: u64,
    /// The problems, at most [`PROBLEMS_MAX`] of them.
    pub problems: Vec<AuditProblem>,
    /// How many problems there are.
    pub problem_count: u64,
}

impl Verification {
    /// Whether nothing is wrong, and everything could be compared.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problem_count == 0 && self.unchecked == 0
    }
}

/// Checks the log in a folder. With a key its last file has to be sealed with that, and none behind one that is may be sealed without.
///
/// # Errors
/// Files that can't be read. What is wrong with them is in the answer.
pub fn verify(
    storage: &dyn Storage,
    key: Option<&AuditKey>,
    expected: Option<&ExpectedRecord>,
) -> Result<Verification> {
    // Before the records: what is written meanwhile is behind it.
    let head = LogHead::read(storage)?;
    let numbers = files::numbers(storage)?;
    let mut check = LogCheck::new(key, expected);
    check.take_head(head, numbers.is_empty());
    let last = numbers.last().copied();
    for number in numbers {
        check.file(storage, number, Some(number) == last)?;
    }
    Ok(check.end())
}

struct LogCheck<'a> {
    key: Option<&'a AuditKey>,
    expected: Option<&'a ExpectedRecord>,
    head: Option<LogHead>,
    verification: Verification,
    /// The last record that was read.
    position: Option<ChainPosition>,
    opening: Option<FileOpening>,
    /// Digest of the one before the first record, if that doesn't begin the chain.
    before_first: Option<String>,
    removed: Vec<RemovalRecord>,
    has_head: bool,
    has_expected: bool,
    /// Whether a file was sealed with the key.
    was_keyed: bool,
    path: String,
    line: u64,
}

impl<'a> LogCheck<'a> {
    fn new(key: Option<&'a AuditKey>, expected: Option<&'a ExpectedRecord>) -> LogCheck<'a> {
        LogCheck {
            key,
            expected,
            head: None,
            verification: Verification::default(),
            position: None,
            opening: None,
            before_first: None,
            removed: Vec::new(),
            has_head: false,
            has_expected: false,
            was_keyed: false,
            path: String::new(),
            line: 0,
        }
    }

    fn problem(&mut self, what: impl Into<String>) {
        self.verification.problem_count += 1;
        if self.verification.problems.len() < PROBLEMS_MAX {
            let (file, line, what) = (self.path.clone(), self.line, what.into());
            self.verification.problems.push(AuditProblem { file, line, what });
        }
    }

    fn take_head(&mut self, head: StoredHead, is_empty: bool) {
        self.path = super::head::FILE.to_owned();
        match head {
            StoredHead::None if is_empty => {}
            StoredHead::None => self.problem("it is missing: nobody knows which record was the last one"),
            StoredHead::Damaged => self.problem("it is damaged: nobody knows which record was the last one"),
            StoredHead::Some(head, sealed) => {
                let key = self.key.filter(|key| head.key.as_deref() == Some(key.id()));
                match (&head.key, key) {
                    (Some(_), None) if self.key.is_some() => self.problem("it is sealed with another key"),
                    (Some(_), None) => {}
                    (None, _) if self.key.is_some() => self.problem("it is sealed without the key"),
                    _ if !Seal::of_head(key).is_sound(&sealed) => self.problem("it was changed"),
                    _ => {}
                }
                self.verification.head = Some(head.n);
                // The head of a log that has no record yet.
                self.has_head = head.n == 0;
                self.head = Some(head);
            }
        }
    }

    fn file(&mut self, storage: &dyn Storage, number: u64, is_last: bool) -> Result<()> {
        (self.path, self.line, self.opening) = (files::name(number), 0, None);
        self.verification.files += 1;
        let mut lines = LogLines::of(storage, self.path.clone())?;
        while let Some(line) = lines.next()? {
            self.line += 1;
            self.line_of(&line, number, is_last);
        }
        if self.line == 0 {
            self.problem("it has no record");
        }
        Ok(())
    }

    fn line_of(&mut self, line: &LogLine, number: u64, is_last: bool) {
        if !line.is_whole && is_last {
            self.verification.torn_bytes = line.end - line.offset;
            return;
        }
        let Some(linked) = LinkedLine::of(&line.bytes).filter(|_| line.is_whole) else {
            return self.problem("this is no record");
        };
        if self.line == 1 {
            self.open(&linked, number);
        } else if linked.link.file.is_some() {
            self.problem(format!("record {} begins a file within another one", linked.link.n));
        }
        self.check_seal(&linked);
        self.check_place(&linked);
        self.note(linked);
    }

    /// Takes the first record of a file.
    fn open(&mut self, linked: &LinkedLine, number: u64) {
        if linked.link.n != number {
            self.problem(format!("its first record is {}, so the file was renamed", linked.link.n));
        }
        let Some(opening) = linked.link.file.clone() else {
            return self.problem("its first record doesn't say what file it is");
        };
        if opening.version > VERSION {
            self.problem(format!("it is of version {}, and this release reads {VERSION}", opening.version));
        }
        if self.head.as_ref().is_some_and(|head| head.chain != opening.chain) {
            self.problem("it is of another chain than the head");
        }
        if opening.is_first && self.position.is_some() {
            self.problem("it begins a new chain after another one");
        }
        match (&opening.key, self.key) {
            (Some(id), Some(key)) if id == key.id() => self.was_keyed = true,
            (Some(id), Some(_)) => self.problem(format!("it is sealed with another key, {id}")),
            (None, Some(_)) if self.was_keyed => {
                self.problem("it is sealed without the key, behind one that was sealed with it")
            }
            _ => {}
        }
        self.opening = Some(opening);
    }

    fn check_seal(&mut self, linked: &LinkedLine) {
        self.verification.records += 1;
        let id = self.opening.as_ref().and_then(|opening| opening.key.as_deref());
        let key = self.key.filter(|key| id == Some(key.id()));
        self.verification.keyed += u64::from(id.is_some());
        if id.is_some() && key.is_none() {
            self.verification.unchecked += 1;
        } else if !Seal::of_records(key).is_sound(&linked.sealed) {
            self.problem(format!("record {} was changed", linked.link.n));
        }
    }

    fn check_place(&mut self, linked: &LinkedLine) {
        let (n, before) = (linked.link.n, &linked.link.before);
        let Some(position) = &self.position else {
            self.verification.first = n;
            let is_first = self.opening.as_ref().is_some_and(|opening| opening.is_first);
            match is_first {
                true if n == 1 && before == NONE_BEFORE => {}
                true => self.problem(format!("record {n} says that the chain begins with it")),
                false => self.before_first = Some(before.clone()),
            }
            return;
        };
        let next = position.n.saturating_add(1);
        if n < next {
            self.problem(format!("record {n} stands behind record {}", position.n));
        } else if n > next {
            self.problem(match n - next {
                1 => format!("record {next} is missing"),
                _ => format!("records {next} to {} are missing", n - 1),
            });
        } else if *before != position.digest {
            self.problem(format!(
                "record {n} doesn't follow record {}, which precedes it: one of them was replaced",
                position.n
            ));
        }
    }

    /// Remembers a record for those that tell of it.
    fn note(&mut self, linked: LinkedLine) {
        let position = linked.position();
        if let Some(head) = self.head.as_ref().filter(|head| head.n == position.n) {
            self.has_head = true;
            if head.last != position.digest {
                self.problem(format!("record {} isn't the one that the head names", position.n));
            }
        }
        if let Some(expected) = self.expected.filter(|expected| expected.n == position.n) {
            self.has_expected = true;
            if !position.digest.starts_with(&expected.digest) {
                self.problem(format!("record {} isn't the one that was asked for", position.n));
            }
        }
        // Damage that a start has found and recorded is reported again.
        if linked.link.kind == chain::RECOVERED && !linked.link.about.is_empty() {
            self.problem(format!("record {} says what a start has found: {}", position.n, linked.link.about));
        }
        if let Some(removed) = linked.link.removed.filter(|_| linked.link.kind == chain::REMOVED) {
            self.removed.push(removed);
        }
        self.position = Some(position);
    }

    fn end(mut self) -> Verification {
        (self.path, self.line) = (super::head::FILE.to_owned(), 0);
        self.check_first();
        let last = self.position.as_ref().map_or(0, |position| position.n);
        if let Some(n) = self.head.as_ref().map(|head| head.n).filter(|_| !self.has_head) {
            self.problem(match last < n {
                true => format!("the end was cut off: the head names record {n}, and the last one is {last}"),
                false => format!("the head names record {n}, which is missing"),
            });
        }
        if let Some(n) = self.expected.map(|expected| expected.n).filter(|_| !self.has_expected) {
            self.problem(format!("record {n}, which was asked for, isn't there"));
        }
        if self.key.is_some() && !self.was_keyed && self.verification.records > 0 {
            self.problem("no file is sealed with this key");
        }
        let record = |position: ChainPosition| ExpectedRecord { n: position.n, digest: position.digest };
        self.verification.last = self.position.take().map(record);
        self.verification
    }

    /// Whether the records before the first one were removed because of their age.
    fn check_first(&mut self) {
        let Some(before) = self.before_first.take() else { return };
        let through = self.verification.first.saturating_sub(1);
        if self.removed.iter().any(|removed| removed.through == through && removed.digest == before) {
            self.verification.removed_through = Some(through);
        } else {
            self.problem(format!(
                "records 1 to {through} are missing, and no record says that they were removed because of their age"
            ));
        }
    }
}
