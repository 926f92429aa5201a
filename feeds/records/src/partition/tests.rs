//! A feed against a model of the server that fails in every way a server, a network and a process can.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use proptest::prelude::*;

use super::*;
use crate::columns::{Cell as InputCell, Column, ColumnType, Rows};
use crate::fields::Fields;
use crate::json;
use crate::settings::UnknownFields;
use crate::times::Unit;

/// The fate of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It arrives, and its answer does.
    Fine,
    /// It doesn't arrive, or finds no room.
    Lost,
    /// It arrives, and its answer doesn't.
    Unanswered,
    /// It stays on its way, its sender hears nothing, and it arrives later.
    Late,
    /// The feed is killed before it is sent.
    KilledBefore,
    /// The feed is killed when it has arrived.
    KilledBehind,
    /// The feed is killed while it is on its way, and it arrives later.
    KilledMeanwhile,
    /// The server loses its last message, as a follower that takes over may.
    SetBack,
    /// Another run of the feed has sent some of it.
    Rival,
}

const FATES: [Fate; 9] = [
    Fate::Fine,
    Fate::Lost,
    Fate::Unanswered,
    Fate::Late,
    Fate::KilledBefore,
    Fate::KilledBehind,
    Fate::KilledMeanwhile,
    Fate::SetBack,
    Fate::Rival,
];

#[derive(Debug, Clone)]
struct SentMessage {
    previous: u64,
    sequence: u64,
    ids: Vec<i64>,
}

/// The state of a server: rows in their order, and the producer's last number.
#[derive(Debug, Clone, Default)]
struct ServerState {
    ids: Vec<i64>,
    last: Option<u64>,
}

impl ServerState {
    /// As `splay serve` takes a message (crates/capture/src/tickerplant.rs).
    fn take(&mut self, sent: &SentMessage, is_checked: bool) -> Reply {
        if sent.ids.iter().any(|id| is_poison(*id)) {
            return Reply::Rejected("a value that the table refuses".to_owned());
        }
        let stored = |is_repeat| Reply::Stored { is_repeat, quarantined: 0, duplicate_rows: 0 };
        if self.last.is_some_and(|last| sent.sequence <= last) {
            return stored(true);
        }
        if is_checked && sent.previous != self.last.unwrap_or(0) {
            return Reply::Conflict("out of turn".to_owned());
        }
        self.ids.extend(&sent.ids);
        self.last = Some(sent.sequence);
        stored(false)
    }
}

struct ServerModel {
    state: RefCell<ServerState>,
    before: RefCell<ServerState>,
    late: RefCell<Vec<SentMessage>>,
    fates: RefCell<Vec<(Fate, usize)>>,
    is_killed: Cell<bool>,
    /// Whether the server looks what a message follows on.
    is_checked: bool,
}

impl ServerModel {
    fn new(fates: Vec<(Fate, usize)>) -> ServerModel {
        ServerModel {
            state: RefCell::default(),
            before: RefCell::default(),
            late: RefCell::default(),
            fates: RefCell::new(fates),
            is_killed: Cell::new(false),
            is_checked: true,
        }
    }

    fn take(&self, sent: &SentMessage) -> Reply {
        let mut state = self.state.borrow_mut();
        let before = state.clone();
        let reply = state.take(sent, self.is_checked);
        if state.last != before.last {
            self.before.replace(before);
        }
        reply
    }

    fn kill(&self) -> Reply {
        self.is_killed.set(true);
        Reply::Failed("killed".to_owned())
    }

    /// One of the messages that are still on their way arrives.
    fn arrive(&self, which: usize) {
        let mut late = self.late.borrow_mut();
        if !late.is_empty() && !which.is_multiple_of(3) {
            let place = which % late.len();
            let sent = late.remove(place);
            drop(late);
            self.take(&sent);
        }
    }
}

fn again() -> Reply {
    Reply::Retry { reason: "no answer".to_owned(), after: None }
}

impl Sink for ServerModel {
    fn write(&self, message: &RowsMessage<'_>) -> Reply {
        let ids = message.rows.column_by_name("id").map(|ids| ids.as_primitive::<Int64Type>().values().to_vec());
        let sent = SentMessage { previous: message.previous, sequence: message.sequence, ids: ids.unwrap_or_default() };
        let (fate, which) = self.fates.borrow_mut().pop().unwrap_or((Fate::Fine, 1));
        self.arrive(which);
        match fate {
            Fate::Fine => self.take(&sent),
            Fate::Lost => again(),
            Fate::Unanswered => {
                self.take(&sent);
                again()
            }
            Fate::Late => {
                self.late.borrow_mut().push(sent);
                again()
            }
            Fate::KilledBefore => self.kill(),
            Fate::KilledBehind => {
                self.take(&sent);
                self.kill()
            }
            Fate::KilledMeanwhile => {
                self.late.borrow_mut().push(sent);
                self.kill()
            }
            Fate::SetBack => {
                let before = self.before.borrow().clone();
                self.state.replace(before);
                again()
            }
            Fate::Rival => {
                let cut = sent.ids.len() / 2;
                let ids = sent.ids[..cut].to_vec();
                if let Some(last) = ids.last().map(|id| id.cast_unsigned() + 1) {
                    self.take(&SentMessage { ids, sequence: last, ..sent.clone() });
                }
                self.take(&sent)
            }
        }
    }

    fn last(&self, _: &str) -> Result<Option<u64>, QueryFailure> {
        Ok(self.state.borrow().last)
    }

    fn is_current(&self) -> Result<bool, QueryFailure> {
        Ok(true)
    }

    fn wait(&self, _: Duration) -> bool {
        true
    }
}

#[derive(Default)]
struct FailingDeadLetters(std::sync::Mutex<(BTreeSet<u64>, u64)>);

impl DeadLetters for FailingDeadLetters {
    fn write(&self, letter: &DeadLetter<'_>) -> Result<(), String> {
        let mut letters = self.0.lock().unwrap();
        letters.1 += 1;
        if letters.1.is_multiple_of(5) {
            return Err("the disk is full".to_owned());
        }
        letters.0.insert(letter.offset);
        Ok(())
    }
}

/// Rows that decode, and that the server refuses.
fn is_poison(id: i64) -> bool {
    id % 11 == 7
}

/// The payload of a record, by its offset. Some offsets have no record: they are a transaction's marks, or compacted.
fn payload(offset: u64) -> Option<Option<String>> {
    match offset % 13 {
        3 => None,
        5 => Some(Some("{\"id\": 1.5}".to_owned())),
        8 => Some(None),
        _ => Some(Some(format!("{{\"id\": {offset}, \"time\": {offset}}}"))),
    }
}

const FIRST: u64 = 100;

fn columns() -> Vec<Column> {
    let column =
        |name: &str, kind| Column { name: name.to_owned(), kind, unit: Some(Unit::Ns), is_time: name == "time" };
    vec![column("time", ColumnType::Timestamp), column("id", ColumnType::Int64)]
}

/// Objects of JSON as rows.
struct ObjectDecoder {
    fields: Fields,
    rows: Rows,
}

impl ObjectDecoder {
    fn new() -> ObjectDecoder {
        let mut fields = Fields::default();
        columns().iter().enumerate().for_each(|(place, column)| fields.add(&column.name, place).unwrap());
        ObjectDecoder { fields, rows: Rows::new(&columns()) }
    }
}

impl Decode for ObjectDecoder {
    fn add(&mut self, record: &Record<'_>) -> Result<usize, DecodeFailure> {
        let Some(payload) = record.payload else { return Ok(0) };
        let mut cells = vec![InputCell::Null; 2];
        json::decode(&self.fields, UnknownFields::Ignore, payload, &mut cells)?;
        let table = columns();
        let values = table.iter().zip(cells).map(|(column, cell)| column.value(cell)).collect::<Result<Vec<_>, _>>()?;
        self.rows.push(&values);
        Ok(1)
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn take(&mut self) -> Result<RecordBatch, String> {
        self.rows.take().map_err(|error| error.to_string())
    }
}

/// Runs feeds, each from where the server is, until all records are dealt with.
fn run(model: &ServerModel, end: u64, sizes: &[usize]) -> FailingDeadLetters {
    let (letters, counts) = (FailingDeadLetters::default(), Counts::default());
    for size in sizes.iter().cycle() {
        let position = model.last("").unwrap().unwrap_or(0);
        let batch = BatchSettings { rows: *size, ..BatchSettings::default() };
        let partition = Partition {
            table: "trade",
            topic: "t",
            partition: Some(0),
            producer: "kafka/f/t/0",
            batch,
            on_error: OnError::Skip,
            in_a_row_max: 1_000,
        };
        let next = position.max(FIRST);
        let mut feed = Feed::new(partition, model, &letters, &counts, ObjectDecoder::new(), (position, next));
        let work = || -> Result<(), FeedEnd> {
            feed.begin()?;
            let now = Instant::now();
            for offset in next..end {
                let Some(payload) = payload(offset) else { continue };
                let payload = payload.as_ref().map(String::as_bytes);
                feed.take(&Record { offset, time_ns: None, key: None, payload }, now)?;
                if offset % (*size as u64 + 3) == 0 {
                    feed.tick(now + Duration::from_secs(1))?;
                }
            }
            feed.flush()?;
            feed.flush()
        };
        let mut work = work;
        match work() {
            Ok(()) => return letters,
            Err(FeedEnd::Restart(_)) => {}
            Err(FeedEnd::Failed(reason)) => assert!(model.is_killed.take(), "{reason}"),
            Err(FeedEnd::Stopped) => panic!("nobody stopped it"),
        }
    }
    letters
}

fn expected(end: u64) -> (Vec<i64>, BTreeSet<u64>) {
    let (mut ids, mut dead) = (Vec::new(), BTreeSet::new());
    for offset in FIRST..end {
        match payload(offset) {
            Some(Some(text)) if text.contains("1.5") || is_poison(offset.cast_signed()) => {
                dead.insert(offset);
            }
            Some(Some(_)) => ids.push(offset.cast_signed()),
            _ => {}
        }
    }
    (ids, dead)
}

fn fate() -> impl Strategy<Value = (Fate, usize)> {
    (proptest::sample::select(&FATES[..]), 0_usize..100)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn each_record_is_stored_once_in_order_or_is_a_dead_letter_whatever_fails(
        fates in prop::collection::vec(fate(), 0..60),
        sizes in prop::collection::vec(1_usize..40, 1..6),
        count in 0_u64..150,
    ) {
        let model = ServerModel::new(fates);
        let end = FIRST + count;
        let letters = run(&model, end, &sizes);
        let (ids, dead) = expected(end);
        // Messages that are still on their way change nothing.
        for sent in model.late.take() {
            model.take(&sent);
        }
        prop_assert_eq!(&model.state.borrow().ids, &ids);
        prop_assert_eq!(letters.0.lock().unwrap().0.clone(), dead);
    }
}

/// Without the number of the message before, this doubles rows.
#[test]
fn a_message_of_a_killed_run_that_arrives_late_comes_not_between() {
    let late = SentMessage { previous: 0, sequence: FIRST + 6, ids: vec![100, 101, 102, 104, 105] };
    let store = |is_checked: bool| {
        let model = ServerModel { is_checked, ..ServerModel::new(Vec::new()) };
        // The run was killed, the next one cut its first batch elsewhere, and only then the late message arrives.
        model.take(&SentMessage { previous: 0, sequence: FIRST + 2, ids: vec![100, 101] });
        let reply = model.take(&late);
        (reply, model.state.take().ids)
    };
    assert_eq!(store(false).1, [100, 101, 100, 101, 102, 104, 105]);
    let (reply, ids) = store(true);
    assert!(matches!(reply, Reply::Conflict(_)));
    assert_eq!(ids, [100, 101]);
}

fn feed_of<'a>(
    model: &'a ServerModel,
    letters: &'a FailingDeadLetters,
    counts: &'a Counts,
    on_error: OnError,
    in_a_row_max: u64,
) -> Feed<'a, ServerModel, FailingDeadLetters, ObjectDecoder> {
    let partition = Partition {
        table: "trade",
        topic: "t",
        partition: Some(0),
        producer: "p",
        batch: BatchSettings::default(),
        on_error,
        in_a_row_max,
    };
    Feed::new(partition, model, letters, counts, ObjectDecoder::new(), (0, 0))
}

fn record(offset: u64, payload: &str) -> Record<'_> {
    Record { offset, time_ns: None, key: None, payload: Some(payload.as_bytes()) }
}

#[test]
fn a_feed_that_stops_at_bad_records_has_sent_all_before_and_nothing_behind() {
    let (model, letters, counts) = (ServerModel::new(Vec::new()), FailingDeadLetters::default(), Counts::default());
    let mut feed = feed_of(&model, &letters, &counts, OnError::Stop, 10);
    let now = Instant::now();
    feed.take(&record(0, "{\"id\": 0, \"time\": 1}"), now).unwrap();
    feed.take(&record(1, "{\"id\": 1, \"time\": 1}"), now).unwrap();
    let ended = feed.take(&record(2, "{\"id\": \"x\", \"time\": 1}"), now).unwrap_err();
    let FeedEnd::Failed(reason) = ended else { panic!("{ended:?}") };
    assert!(reason.contains("record 2 of partition 0 of topic \"t\": id: \"x\" is no int64"), "{reason}");
    assert_eq!((model.state.borrow().ids.clone(), model.state.borrow().last), (vec![0, 1], Some(2)));
    assert!(letters.0.lock().unwrap().0.is_empty());
}

#[test]
fn many_bad_records_behind_each_other_are_no_fault_of_the_records() {
    let (model, letters, counts) = (ServerModel::new(Vec::new()), FailingDeadLetters::default(), Counts::default());
    let mut feed = feed_of(&model, &letters, &counts, OnError::Skip, 3);
    for offset in 0..3 {
        feed.take(&record(offset, "no JSON"), Instant::now()).unwrap();
    }
    let ended = feed.take(&record(3, "no JSON"), Instant::now()).unwrap_err();
    assert!(
        matches!(&ended, FeedEnd::Failed(reason) if reason.starts_with("3 records behind each other were bad")),
        "{ended:?}"
    );
    assert_eq!(letters.0.lock().unwrap().0.len(), 3);
}

/// Bad records counted as consecutive until a batch was stored, also with good ones between them.
#[test]
fn bad_records_between_good_ones_are_not_in_a_row() {
    let (model, letters, counts) = (ServerModel::new(Vec::new()), FailingDeadLetters::default(), Counts::default());
    let mut feed = feed_of(&model, &letters, &counts, OnError::Skip, 3);
    for offset in 0..40_u64 {
        let text = if offset % 2 == 0 { "no JSON".to_owned() } else { format!("{{\"id\": 1, \"time\": {offset}}}") };
        feed.take(&record(offset, &text), Instant::now()).unwrap();
    }
    feed.flush().unwrap();
    assert_eq!((letters.0.lock().unwrap().0.len(), model.state.borrow().ids.len()), (20, 20));
}

#[test]
fn many_refused_records_behind_each_other_end_a_feed() {
    let (model, letters, counts) = (ServerModel::new(Vec::new()), FailingDeadLetters::default(), Counts::default());
    let mut feed = feed_of(&model, &letters, &counts, OnError::Skip, 3);
    for offset in 0..8 {
        feed.take(&record(offset, "{\"id\": 7, \"time\": 1}"), Instant::now()).unwrap();
    }
    let ended = feed.flush().unwrap_err();
    assert!(matches!(&ended, FeedEnd::Failed(reason) if reason.contains("3 records behind each other")), "{ended:?}");
    assert_eq!(letters.0.lock().unwrap().0.len(), 3);
}

/// Decodes as [`ObjectDecoder`] does, except that some records fail once.
struct ScriptedDecoder {
    objects: ObjectDecoder,
    failures: Vec<(u64, DecodeFailure)>,
    bytes_per_row: usize,
}

impl Decode for ScriptedDecoder {
    fn add(&mut self, record: &Record<'_>) -> Result<usize, DecodeFailure> {
        match self.failures.iter().position(|(offset, _)| *offset == record.offset) {
            Some(place) => Err(self.failures.remove(place).1),
            None => self.objects.add(record),
        }
    }

    fn rows(&self) -> usize {
        self.objects.rows()
    }

    fn bytes(&self) -> usize {
        self.objects.rows() * self.bytes_per_row
    }

    fn take(&mut self) -> Result<RecordBatch, String> {
        self.objects.take()
    }
}

fn scripted<'a>(
    model: &'a ServerModel,
    letters: &'a FailingDeadLetters,
    counts: &'a Counts,
    failures: Vec<(u64, DecodeFailure)>,
    bytes_per_row: usize,
) -> Feed<'a, ServerModel, FailingDeadLetters, ScriptedDecoder> {
    let Feed { partition, .. } = feed_of(model, letters, counts, OnError::Skip, 10);
    let decoder = ScriptedDecoder { objects: ObjectDecoder::new(), failures, bytes_per_row };
    Feed::new(partition, model, letters, counts, decoder, (0, 0))
}

fn take(feed: &mut Feed<'_, ServerModel, FailingDeadLetters, ScriptedDecoder>, offset: u64) -> Result<(), FeedEnd> {
    feed.take(&record(offset, &format!("{{\"id\": {offset}, \"time\": 1}}")), Instant::now())
}

/// Rows waited as long as the schema of a later record couldn't be fetched.
#[test]
fn rows_do_not_wait_for_the_schema_of_a_later_record() {
    let (model, letters, counts) = (ServerModel::new(Vec::new()), FailingDeadLetters::default(), Counts::default());
    let failures = vec![(1, DecodeFailure::Unavailable("no answer".to_owned()))];
    let mut feed = scripted(&model, &letters, &counts, failures, 0);
    take(&mut feed, 0).unwrap();
    take(&mut feed, 1).unwrap();
    assert_eq!((model.state.borrow().ids.clone(), counts.retries.get()), (vec![0], 1));
    feed.flush().unwrap();
    assert_eq!(model.state.borrow().ids, [0, 1]);
}

/// A record before which the others had to be sent was given back by nobody if that failed.
#[test]
fn a_record_of_other_columns_is_given_back_with_those_before() {
    let (model, letters, counts) = (ServerModel::new(Vec::new()), FailingDeadLetters::default(), Counts::default());
    // Another run has sent a message, so that the next one conflicts.
    model.state.borrow_mut().last = Some(1);
    let mut feed = scripted(&model, &letters, &counts, vec![(3, DecodeFailure::OtherColumns)], 0);
    take(&mut feed, 2).unwrap();
    let ended = take(&mut feed, 3);
    assert!(matches!(ended, Err(FeedEnd::Restart(_))), "{ended:?}");
    assert_eq!(feed.unsent().iter().map(|record| record.offset).collect::<Vec<_>>(), [2, 3]);
}

/// Only payloads counted: keys of records without values, and rows that unpack to much more, took memory without a limit.
#[test]
fn batches_end_at_their_bytes_of_keys_and_of_rows() {
    let (model, letters, counts) = (ServerModel::new(Vec::new()), FailingDeadLetters::default(), Counts::default());
    let bytes = BatchSettings::default().bytes;
    let mut feed = scripted(&model, &letters, &counts, Vec::new(), bytes / 2);
    (0..3).for_each(|offset| take(&mut feed, offset).unwrap());
    assert_eq!(model.state.borrow().last, Some(2));
    feed.flush().unwrap();
    let key = vec![b'k'; bytes / 2];
    for offset in 3..6 {
        feed.take(&Record { offset, time_ns: None, key: Some(&key), payload: None }, Instant::now()).unwrap();
    }
    assert_eq!(model.state.borrow().last, Some(5));
}

#[test]
fn positions_behind_bad_records_reach_the_server_once_they_have_waited() {
    let (model, letters, counts) = (ServerModel::new(Vec::new()), FailingDeadLetters::default(), Counts::default());
    let mut feed = feed_of(&model, &letters, &counts, OnError::Skip, 10);
    let now = Instant::now();
    assert_eq!(feed.due_in(now), None);
    feed.take(&record(4, "[]"), now).unwrap();
    assert!(feed.due_in(now).is_some_and(|wait| !wait.is_zero()));
    feed.tick(now).unwrap();
    assert_eq!(model.state.borrow().last, None);
    feed.tick(now + BatchSettings::default().wait()).unwrap();
    assert_eq!(model.state.borrow().last, Some(5));
    assert_eq!(feed.due_in(now), None);
}

#[test]
fn records_that_come_again_are_left_out() {
    let (model, letters, counts) = (ServerModel::new(Vec::new()), FailingDeadLetters::default(), Counts::default());
    let mut feed = feed_of(&model, &letters, &counts, OnError::Skip, 10);
    for offset in [0, 1, 0, 1, 2] {
        feed.take(&record(offset, &format!("{{\"id\": {offset}, \"time\": 1}}")), Instant::now()).unwrap();
    }
    feed.flush().unwrap();
    assert_eq!(model.state.borrow().ids, [0, 1, 2]);
    assert_eq!(counts.records.get(), 3);
}

/// As a program does whose records can't be read again: what a feed that begins anew hasn't sent goes into the next one.
fn run_once(model: &ServerModel, end: u64, size: usize) -> FailingDeadLetters {
    let (letters, counts) = (FailingDeadLetters::default(), Counts::default());
    let (mut next, mut rest) = (FIRST, std::collections::VecDeque::new());
    loop {
        let position = model.last("").unwrap().unwrap_or(0);
        let batch = BatchSettings { rows: size, ..BatchSettings::default() };
        let partition = Partition {
            table: "trade",
            topic: "t",
            partition: None,
            producer: "feed/f/t",
            batch,
            on_error: OnError::Skip,
            in_a_row_max: 1_000,
        };
        let mut feed = Feed::new(partition, model, &letters, &counts, ObjectDecoder::new(), (position, position));
        let mut work = || -> Result<(), FeedEnd> {
            while let Some(letter) = rest.pop_front() {
                let OwnedRecord { offset, payload, .. }: &OwnedRecord = &letter;
                feed.take(
                    &Record { offset: *offset, time_ns: None, key: None, payload: payload.as_deref() },
                    Instant::now(),
                )?;
            }
            while next < end {
                next += 1;
                let Some(payload) = payload(next - 1) else { continue };
                let payload = payload.as_ref().map(String::as_bytes);
                feed.take(&Record { offset: next - 1, time_ns: None, key: None, payload }, Instant::now())?;
            }
            feed.flush()?;
            feed.flush()
        };
        match work() {
            Ok(()) => return letters,
            Err(FeedEnd::Restart(_)) => {
                let unsent = feed.unsent();
                unsent.into_iter().rev().for_each(|letter| rest.push_front(letter));
            }
            Err(ended) => panic!("{ended:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// Without kills, and without a server that loses what it has acknowledged: that is gone from here, too.
    #[test]
    fn records_that_cannot_be_read_again_are_given_back_and_stored_once(
        fates in prop::collection::vec(fate(), 0..60),
        size in 1_usize..40,
        count in 0_u64..150,
    ) {
        let is_kept = |fate: &Fate| matches!(fate, Fate::Fine | Fate::Lost | Fate::Unanswered | Fate::Late | Fate::Rival);
        let model = ServerModel::new(fates.into_iter().filter(|(fate, _)| is_kept(fate)).collect());
        let end = FIRST + count;
        let letters = run_once(&model, end, size);
        for sent in model.late.take() {
            model.take(&sent);
        }
        let (ids, dead) = expected(end);
        prop_assert_eq!(&model.state.borrow().ids, &ids);
        prop_assert_eq!(letters.0.lock().unwrap().0.clone(), dead);
    }
}
