//! The program against a broker of Apache Kafka and a real server, each of which is killed on the way.
//!
//! The server's program is named by the variable `SPLAY`; the broker comes from Maven Central. Where one of them can't be had, the tests say
//! so and pass; with `SPLAY_KAFKA_REQUIRED` they fail. The schema registry is a stub of its HTTP interface.
#![allow(clippy::unwrap_used, clippy::explicit_write, clippy::cast_possible_truncation, missing_docs)]

mod broker;
mod formats;
#[path = "../../../records/testing/processes.rs"]
mod processes;
mod rates;
mod registry;
mod topics;

use std::collections::BTreeMap;
use std::io::Write;

use crate::broker::{Broker, produce};
use crate::processes::{Feed, Server, eventually, splay};

/// The program that is tested.
const PROGRAM: &str = "splay-kafka";

const TYPES: &str = "time:timestamp,sym:symbol,price:float64,size:int64,id:int64,part:int32,off:int64";

/// 2024-01-02 in milliseconds.
const DAY: u64 = 1_704_153_600_000;

/// The broker and the server of a test, if they can be started.
fn together(folder: &std::path::Path) -> Option<(Broker, Server)> {
    let pair = splay().and_then(|program| Ok((Broker::start()?, program)));
    match pair {
        Ok((broker, program)) => Some((broker, Server::new(program, folder))),
        Err(reason) if std::env::var_os("SPLAY_KAFKA_REQUIRED").is_some() => panic!("{reason}"),
        Err(reason) => {
            // Past the capture of outputs of tests that pass.
            writeln!(std::io::stderr(), "skipped: {reason}").unwrap();
            None
        }
    }
}

fn settings(broker: &Broker, server: &Server, more: &str, format: &str) -> String {
    format!(
        "name = \"test\"\n{more}\n[server]\nurl = \"{}\"\n[kafka]\nbrokers = \"{}\"\nmemory_bytes_max = \"1M\"\n\
         [metrics]\nlog_seconds = 1\n[dead_letters]\nfile = \"dead.jsonl\"\n\
         [[topic]]\nname = \"trades\"\ntable = \"trade\"\nformat = \"{format}\"\ntime_unit = \"ms\"\n\
         create = {{ types = \"{TYPES}\", time = \"time\", symbol = \"sym\" }}\nbatch = {{ rows = 700, milliseconds = 20 }}\n\
         [topic.columns]\ntime = \"ts\"\nsym = \"sym\"\nprice = \"px.last\"\nsize = \"qty\"\nid = \"id\"\npart = \"$partition\"\noff = \"$offset\"\n",
        server.url(),
        broker.address()
    )
}

fn json(id: u64) -> String {
    // Bytes that nobody takes, so that mailboxes get full.
    format!(
        "{{\"ts\": {}, \"sym\": \"S{}\", \"px\": {{\"last\": {}.25}}, \"qty\": {}, \"id\": {id}, \"note\": \"{:0>200}\"}}",
        DAY + id,
        id % 7,
        100 + id % 50,
        id % 900,
        id
    )
}

/// Records of a batch: some are no rows.
fn records(ids: std::ops::Range<u64>) -> Vec<(i32, String)> {
    let record = |id: u64| {
        let text = match id % 500 {
            17 => "{\"ts\": 1, \"sym\"".to_owned(),
            // A record that the table can't hold.
            18 => format!("{{\"ts\": {DAY}, \"sym\": \"S\", \"px\": {{\"last\": 1}}, \"qty\": 1.5, \"id\": {id}}}"),
            _ => json(id),
        };
        (i32::try_from(id % 3).unwrap(), text)
    };
    ids.map(record).collect()
}

fn is_good(id: u64) -> bool {
    !matches!(id % 500, 17 | 18)
}

#[test]
fn each_record_is_in_the_table_once_however_often_feed_and_server_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let Some((broker, mut server)) = together(folder.path()) else { return };
    let mut feed = Feed::new(folder.path(), &settings(&broker, &server, "", "json"));
    let producer = broker.producer();
    let send = |ids: std::ops::Range<u64>| {
        let records = records(ids);
        produce(&producer, "trades", records.iter().map(|(partition, text)| (*partition, text.as_bytes())));
    };
    const ROUND: u64 = 9_000;
    const ROUNDS: u64 = 8;
    send(0..ROUND);
    feed.start();
    for round in 1..=ROUNDS {
        let before = server.number("select count(*) from trade");
        send(round * ROUND..(round + 1) * ROUND);
        // In the middle of it: some rows of the round are there.
        eventually("rows come in", || server.number("select count(*) from trade") > before);
        match round % 4 {
            0 => {
                feed.kill();
                server.kill();
                server.start();
            }
            1 => feed.kill(),
            2 => {
                server.kill();
                server.start();
                continue;
            }
            _ => {
                assert!(feed.stop(), "{}", feed.log());
            }
        }
        feed.start();
    }
    let all: Vec<u64> = (0..(ROUNDS + 1) * ROUND).collect();
    let good: Vec<u64> = all.iter().copied().filter(|id| is_good(*id)).collect();
    let dead_count = all.len() - good.len();
    eventually("all rows are there", || server.number("select count(*) from trade") >= good.len() as u64);
    eventually("all positions are there", || {
        let ends = |partition: u64| all.iter().filter(|id| *id % 3 == partition).count() as u64;
        let last = |partition| {
            let answer = server.http.get(&format!("/api/v1/write?producer=kafka%2Ftest%2Ftrades%2F{partition}"));
            answer.ok().and_then(|answer| answer.json["sequence"].as_u64())
        };
        (0..3).all(|partition| last(partition) == Some(ends(partition)))
    });
    assert!(feed.stop(), "{}", feed.log());
    // After one more start of the server, of what is on its disk alone.
    server.kill();
    server.start();
    let statement =
        "select count(*), count(distinct id), sum(id), count(distinct part * 1000000 + off), sum(size) from trade";
    let row: Vec<u64> = server.row(statement).unwrap().iter().map(|value| value.as_u64().unwrap()).collect();
    let (count, sum) = (good.len() as u64, good.iter().sum::<u64>());
    assert_eq!(row, [count, count, sum, count, good.iter().map(|id| id % 900).sum()]);
    let mut dead: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for letter in feed.dead() {
        *dead.entry((letter["partition"].as_u64().unwrap(), letter["offset"].as_u64().unwrap())).or_default() += 1;
    }
    let expected = all.iter().filter(|id| !is_good(**id)).map(|id| ((id % 3, id / 3), 1));
    assert_eq!((dead.len(), dead), (dead_count, expected.collect()));
}

#[test]
fn a_feed_stops_where_it_is_told_to_and_goes_on_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let Some((broker, server)) = together(folder.path()) else { return };
    let mut feed = Feed::new(folder.path(), &settings(&broker, &server, "on_error = \"stop\"", "json"));
    let producer = broker.producer();
    let mut texts: Vec<String> = (0..10).map(json).collect();
    texts.insert(5, "no JSON".to_owned());
    produce(&producer, "trades", texts.iter().map(|text| (0, text.as_bytes())));
    for _ in 0..2 {
        feed.start();
        assert!(!feed.ended());
        assert!(feed.log().contains("record 5 of partition 0"), "{}", feed.log());
        assert_eq!(server.number("select count(*) from trade"), 5);
    }
    let mut feed = Feed::new(folder.path(), &settings(&broker, &server, "", "json"));
    feed.start();
    eventually("the rest comes in", || server.number("select count(*) from trade") == 10);
    assert!(feed.stop());
    let dead = feed.dead();
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0]["value"].as_str(), dead[0]["offset"].as_u64()), (Some("no JSON"), Some(5)));
    // Another database knows nothing of what was read.
    let other = tempfile::tempdir().unwrap();
    let empty = Server::new(splay().unwrap(), other.path());
    let mut feed = Feed::new(other.path(), &settings(&broker, &empty, "", "json"));
    feed.start();
    assert!(!feed.ended());
    assert!(feed.log().contains("is it the right database?"), "{}", feed.log());
}

/// As a message of a killed run that arrives late: the records of its rows are in others by then, or come in the next.
#[test]
fn the_server_refuses_what_follows_on_another_number_than_its_last() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_broker, server)) = together(folder.path()) else { return };
    let send = |more: &str| {
        let path = format!("/api/v1/write?table=trade&format=ndjson&types=time:timestamp&{more}");
        let answer = server.http.post(&path, "application/x-ndjson", b"{\"time\": 1}").unwrap();
        (answer.status, answer.json["code"].as_str().unwrap_or("").to_owned(), answer.json["duplicate"] == true)
    };
    let conflict = (409, "conflict".to_owned(), false);
    let stored = |is_repeat| (200, String::new(), is_repeat);
    assert_eq!(send("producer=p&sequence=20&previous=9"), conflict);
    assert_eq!(send("producer=p&sequence=15&previous=0"), stored(false));
    assert_eq!(send("producer=p&sequence=20&previous=0"), conflict);
    assert_eq!(send("producer=p&sequence=15&previous=0"), stored(true));
    assert_eq!(send("producer=p&sequence=25&previous=15"), stored(false));
    assert_eq!(send("producer=p&sequence=20&previous=0"), stored(true));
    assert_eq!(send("previous=15").0, 400);
    assert_eq!(server.number("select count(*) from trade"), 2);
}
