//! Views keep what the retention of their tables removes: histories of expiries, late rows, deletions, updates and undos.

use std::collections::BTreeMap;

use super::*;

/// Rows that a view has beyond those of its table aren't the table's.
#[test]
fn expired_rows_of_a_view_answer_no_question() {
    let (_folder, session) = session();
    change(&session, &format!("create materialized view bars with (query_rewrite = true) as {BARS}"));
    let table = session.database().table("trade").unwrap();
    table.expire(Retention { days: Some(3), bytes: None }, false).unwrap();
    for question in ["select sum(size) from {t}", "select count(*) from {t} where sym = 'A'"] {
        assert_eq!(one(&session, &over_table(question)), one(&session, &over_rows(question)));
    }
    assert_ne!(one(&session, "select sum(volume) from bars"), one(&session, "select sum(size) from trade"));
}

/// What a table's retention removes stays in its views, which go by their own.
#[test]
fn views_keep_what_expires() {
    let (_folder, session) = session();
    change(
        &session,
        "create materialized view bars as select time_bucket('1h', time) as bar, sum(size) as volume from trade group by 1",
    );
    let before = one(&session, "select sum(volume) from bars");
    let retention = Retention { days: Some(3), bytes: None };
    let table = session.database().table("trade").unwrap();
    table.expire(retention, false).unwrap();
    assert_ne!(one(&session, "select sum(size) from trade"), before);
    assert_eq!(one(&session, "select sum(volume) from bars"), before);
    change(&session, "refresh materialized view bars");
    assert_eq!(one(&session, "select sum(volume) from bars"), before);
    // Rows that come late for a date that has gone don't bring an old bar back in another form.
    change(&session, "insert into trade values ('2019-11-01T00:10:00Z', 'A', 1, 1000000)");
    change(&session, "refresh materialized view bars");
    assert_eq!(one(&session, "select sum(volume) from bars"), before);
    // A date that is there does follow.
    change(&session, "delete from trade where date >= '2019-11-12'");
    change(&session, "refresh materialized view bars");
    assert_eq!(one(&session, "select max(bar) < timestamp '2019-11-12' from bars"), "true");
    let rows = session.database().table("bars.rows").unwrap();
    rows.expire(retention, false).unwrap();
    assert_eq!(one(&session, "select count(distinct date_trunc('day', bar)) from bars"), "3");
}

/// Buckets that go across the ends of dates stay as they were when the first of their rows went, and others follow the table.
#[test]
fn buckets_across_dates_keep_what_expires() {
    let (_folder, session) = session();
    let buckets = [
        "time_bucket('1 day', time, 'America/New_York')",
        "time_bucket('1 hour', time, 'Asia/Kolkata')",
        "time_bucket('7 minutes', time)",
        "time_bucket('36 hours', time)",
        "time_bucket('1 week', time)",
        "date_trunc('month', time)",
    ];
    for (number, bucket) in buckets.iter().enumerate() {
        let query = format!("select {bucket} as bar, sum(size) as volume, count(*) as trades from trade group by 1");
        change(&session, &format!("create materialized view v{number} as {query}"));
    }
    let rows = |number: usize| {
        let text = format!("select * from v{number} order by bar");
        cells(&session.sql(&text, Parameters::None).unwrap().batches().unwrap())
    };
    let before: Vec<_> = (0..buckets.len()).map(rows).collect();
    let table = session.database().table("trade").unwrap();
    for days in [8, 3] {
        table.expire(Retention { days: Some(days), bytes: None }, false).unwrap();
        for refreshes in [false, true] {
            for (number, before) in before.iter().enumerate() {
                if refreshes {
                    change(&session, &format!("refresh materialized view v{number}"));
                }
                assert_eq!(format!("{:?}", rows(number)), format!("{before:?}"), "{}, {days} days", buckets[number]);
            }
        }
    }
    // Only buckets all of whose rows are there follow.
    change(&session, "insert into trade values ('2019-11-12 20:00', 'A', 1, 1000), ('2019-11-02 20:00', 'A', 1, 10)");
    for number in 0..buckets.len() {
        change(&session, &format!("refresh materialized view v{number}"));
        let volume = |rows: &[Vec<Cell>]| rows.iter().map(|row| format!("{:?}", row[1])).collect::<Vec<_>>();
        let (now, before) = (volume(&rows(number)), volume(&before[number]));
        let changed = now.iter().filter(|volume| !before.contains(volume)).count();
        // Rows of the month were removed, and a bar of seven minutes is new where none was.
        assert_eq!(changed, usize::from(number != 5), "{}", buckets[number]);
    }
}

/// Buckets with dates that have no rows at their beginning.
#[test]
fn weeks_of_few_dates_keep_what_expires() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let session = Session::new(database, splay_sql::SessionSettings::default()).unwrap();
    change(&session, "create table t (time timestamp, n bigint) with (partition = 'day', retain_days = 30)");
    change(&session, "insert into t values ('2024-03-30 23:30', 1), ('2024-03-31 00:30', 2), ('2024-10-27 00:30', 4)");
    change(
        &session,
        "create materialized view wk as select time_bucket('1 week', time) as week, sum(n) as s from t group by 1",
    );
    let table = session.database().table("t").unwrap();
    let expire = || drop(table.expire(table.stored().unwrap().spec().retention, false).unwrap());
    let sums = || one(&session, "select array_agg(s order by week) from wk");
    expire();
    assert_eq!(sums(), "[3, 4]");
    // A late row in a week that has gone, and another one in a week that there wasn't.
    change(&session, "insert into t values ('2024-03-27 10:00', 100), ('2024-02-01 10:00', 8)");
    for _ in 0..2 {
        assert_eq!(sums(), "[8, 3, 4]");
        change(&session, "refresh materialized view wk");
    }
    change(&session, "delete from t where date = '2024-10-27'");
    for _ in 0..2 {
        assert_eq!(sums(), "[8, 3]");
        change(&session, "refresh materialized view wk");
    }
}

/// Buckets of views over a table whose retention removes rows.
const BUCKETS: [&str; 9] = [
    "time_bucket('1 hour', time)",
    "time_bucket('1 day', time)",
    "time_bucket('7 minutes', time)",
    "time_bucket('20 hours', time)",
    "time_bucket('36 hours', time)",
    "time_bucket('1 day', time, 'America/New_York')",
    "time_bucket('1 day', time, 'Asia/Kolkata')",
    "date_trunc('week', time)",
    "date_trunc('month', time)",
];

/// A table, views of its sums by some bucket, and the buckets of which retention has removed rows, with their sums as they were then.
struct Expiring {
    session: Session,
    _folder: tempfile::TempDir,
    random: ChaCha8Rng,
    views: Vec<(usize, BTreeMap<i64, i64>)>,
    zone: &'static str,
    /// The latest of all removed rows.
    last_removed: Option<i64>,
    steps: Vec<String>,
}

impl Expiring {
    fn begin(seed: u64) -> Expiring {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::create(folder.path().join("db")).unwrap();
        let session = Session::new(database, splay_sql::SessionSettings::default()).unwrap();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let zone = ["UTC", "America/New_York", "Asia/Kolkata"][random.random_range(0..3)];
        let views = (0..3).map(|_| (random.random_range(0..BUCKETS.len()), BTreeMap::new())).collect();
        let (last_removed, steps) = (None, Vec::new());
        let mut history = Expiring { session, _folder: folder, random, views, zone, last_removed, steps };
        let table = format!("create table t (time timestamp, n bigint) with (partition = 'day', time_zone = '{zone}')");
        history.change(&table);
        for number in 0..history.views.len() {
            let bucket = BUCKETS[history.views[number].0];
            let query = format!("select {bucket} as bar, sum(n) as s from t group by 1");
            history.change(&format!("create materialized view v{number} as {query}"));
        }
        history.insert(0..14, 30);
        history
    }

    fn change(&mut self, text: &str) {
        self.steps.push(text.to_owned());
        change(&self.session, text);
    }

    fn insert(&mut self, days: std::ops::Range<i64>, most: usize) {
        let rows = (0..self.random.random_range(1..=most)).map(|_| {
            let day = START + self.random.random_range(days.clone()) * DAY;
            // Some at the ends of dates and of buckets.
            let second = [0, 1, 3600 * self.random.random_range(0..24), self.random.random_range(0..86_400)];
            let time = day + second[self.random.random_range(0..4)] * 1_000_000_000;
            let time = chrono::DateTime::from_timestamp_nanos(time).format("%Y-%m-%d %H:%M:%SZ");
            format!("('{time}', {})", self.random.random_range(1..1_000))
        });
        let rows: Vec<String> = rows.collect();
        self.change(&format!("insert into t values {}", rows.join(", ")));
    }

    fn numbers(&self, text: &str) -> Vec<(i64, i64)> {
        let batches = self.session.sql(text, Parameters::None).and_then(|mut answer| answer.batches());
        let batches = batches.unwrap_or_else(|error| panic!("{error}: {text} after {:#?}", self.steps));
        let rows = batches.iter().flat_map(|batch| {
            let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().values().to_vec();
            column(0).into_iter().zip(column(1)).collect::<Vec<_>>()
        });
        rows.collect()
    }

    fn times(&self) -> Vec<i64> {
        let rows = self.numbers("select cast(cast(time as timestamp) as bigint) as t, n from t order by 1, 2");
        rows.into_iter().map(|(time, _)| time).collect()
    }

    fn view(&self, number: usize) -> BTreeMap<i64, i64> {
        let text = format!("select cast(cast(bar as timestamp) as bigint) as t, s from v{number}");
        let rows = self.numbers(&text);
        let buckets: BTreeMap<i64, i64> = rows.iter().copied().collect();
        assert_eq!(rows.len(), buckets.len(), "{rows:?} after {:#?}", self.steps);
        buckets
    }

    /// The buckets of a view's query over the rows that the table has.
    fn of_rows(&self, number: usize) -> BTreeMap<i64, i64> {
        let bucket = BUCKETS[self.views[number].0];
        let text = format!("select cast(cast({bucket} as timestamp) as bigint) as t, sum(n) as s from t group by 1");
        self.numbers(&text).into_iter().collect()
    }

    /// The buckets of the times of all rows.
    fn buckets(&self, number: usize) -> BTreeMap<i64, i64> {
        let bucket = BUCKETS[self.views[number].0];
        let ns = |time: &str| format!("cast(cast({time} as timestamp) as bigint)");
        self.numbers(&format!("select {} as t, {} as b from t", ns("time"), ns(bucket))).into_iter().collect()
    }

    /// Removes the rows of all dates but some, as the server does, which refreshes views first.
    fn expire(&mut self) {
        (0..self.views.len()).for_each(|number| self.change(&format!("refresh materialized view v{number}")));
        let before: Vec<_> = (0..self.views.len()).map(|number| (self.view(number), self.buckets(number))).collect();
        let (times, days) = (self.times(), self.random.random_range(2..8));
        self.steps.push(format!("all but {days} days expire"));
        expire(&self.session, days);
        let rest: HashSet<i64> = self.times().into_iter().collect();
        let removed: Vec<i64> = times.into_iter().filter(|time| !rest.contains(time)).collect();
        for ((_, frozen), (view, buckets)) in self.views.iter_mut().zip(before) {
            for time in &removed {
                let bucket = buckets[time];
                // A late row may be in a bucket that was removed before it came.
                if let Some(sum) = view.get(&bucket) {
                    frozen.entry(bucket).or_insert(*sum);
                }
            }
        }
        self.last_removed = self.last_removed.max(removed.into_iter().max());
    }

    /// The end of the last date of which rows were removed.
    fn removed_until(&self) -> i64 {
        let Some(last) = self.last_removed else { return i64::MIN };
        let day = |instant: i64| {
            let time = format!("arrow_cast({instant}, 'Timestamp(Nanosecond, Some(\"UTC\"))')");
            let start = format!("time_bucket('1 day', {time}, '{}')", self.zone);
            self.numbers(&format!("select cast(cast({start} as timestamp) as bigint) as t, 1"))[0].0
        };
        // No day has as many as 26 hours.
        day(day(last) + 26 * DAY / 24)
    }

    fn step(&mut self) {
        match self.random.random_range(0..10) {
            0 | 1 => self.insert(8..17, 6),
            2 | 3 => self.insert(0..12, 4),
            4 => {
                let least = self.random.random_range(0..1_000);
                self.change(&format!("delete from t where n between {least} and {}", least + 200));
            }
            5 => {
                let least = self.random.random_range(0..1_000);
                self.change(&format!("update t set n = n + 1 where n between {least} and {}", least + 200));
            }
            6 => {
                let table = self.session.database().table("t").unwrap();
                let commits = table.commits(3).unwrap();
                let is_change = |commit: &&splay_store::CommitReport| {
                    commit.cannot_undo.is_none() && ["load", "delete", "update"].contains(&commit.operation)
                };
                if let Some(commit) = commits.iter().find(is_change) {
                    match table.undo(commit.commit) {
                        Ok(_) => self.steps.push(format!("undo {}", commit.commit)),
                        // Some of its rows have expired or changed since.
                        Err(splay_store::Error::CannotUndo { .. }) => {}
                        Err(error) => panic!("{error} after {:#?}", self.steps),
                    }
                }
            }
            7 | 8 => self.expire(),
            _ => {
                let number = self.random.random_range(0..self.views.len());
                self.change(&format!("refresh materialized view v{number}"));
            }
        }
    }

    /// Buckets of which rows were removed are as they were then, and all that begin after removed dates are those of the rows that there are.
    fn check(&self, seed: u64) {
        let removed_until = self.removed_until();
        for (number, (bucket_of, frozen)) in self.views.iter().enumerate() {
            let (view, of_rows) = (self.view(number), self.of_rows(number));
            for bucket in view.keys().chain(of_rows.keys()).chain(frozen.keys()) {
                let expected = match frozen.get(bucket) {
                    Some(sum) => Some(sum),
                    None if *bucket >= removed_until => of_rows.get(bucket),
                    None => continue,
                };
                let bar = chrono::DateTime::from_timestamp_nanos(*bucket);
                let (name, steps) = (BUCKETS[*bucket_of], &self.steps);
                assert_eq!(view.get(bucket), expected, "seed {seed}: {name} of {bar} after {steps:#?}");
            }
        }
    }
}

#[test]
fn views_keep_what_retention_removes() {
    let histories: u64 = std::env::var("SPLAY_VIEW_HISTORIES").map_or(24, |count| count.parse().unwrap());
    for seed in 0..histories {
        let mut history = Expiring::begin(seed);
        history.check(seed);
        for _ in 0..14 {
            history.step();
            history.check(seed);
        }
    }
}

fn expire(session: &Session, days: u32) {
    let table = session.database().table("t").unwrap();
    table.expire(Retention { days: Some(days), bytes: None }, false).unwrap();
}

/// Rows that come late, are kept in the view and expire in their turn.
#[test]
fn late_rows_that_expire_stay_in_the_view() {
    let (_folder, session) = summed("partition = 'day'", "time_bucket('1 day', time)");
    change(&session, "insert into t values ('2024-03-01 10:00', 1), ('2024-04-10 10:00', 2)");
    change(&session, "refresh materialized view v");
    expire(&session, 30);
    change(&session, "insert into t values ('2024-02-01 10:00', 4)");
    change(&session, "refresh materialized view v");
    expire(&session, 30);
    for _ in 0..2 {
        assert_eq!((one(&session, "select sum(n) from t"), sums(&session)), ("2".to_owned(), "[4, 1, 2]".to_owned()));
        change(&session, "refresh materialized view v");
    }
}

/// Removed dates freeze no bucket without rows of them: where a date's beginning is passed twice, and where partitions got longer since.
#[test]
fn buckets_without_removed_rows_go_on() {
    let (_folder, session) =
        summed("partition = 'day', time_zone = 'America/Havana'", "time_bucket('1 day', time, 'America/Havana')");
    change(&session, "insert into t values ('2023-11-04 12:00', 1), ('2023-11-06 12:00', 4)");
    change(&session, "refresh materialized view v");
    expire(&session, 2);
    change(&session, "insert into t values ('2023-11-06 13:00', 100)");
    change(&session, "refresh materialized view v");
    assert_eq!(sums(&session), "[1, 104]");

    let (_folder, session) = summed("partition = 'day'", "time_bucket('1 day', time)");
    change(&session, "insert into t values ('2024-03-28 12:00', 1), ('2024-03-31 12:00', 8)");
    change(&session, "refresh materialized view v");
    expire(&session, 2);
    change(&session, "alter table t partition by month");
    change(&session, "insert into t values ('2024-03-31 13:00', 100)");
    assert_eq!(one(&session, "select max(s) from v"), "108");
    change(&session, "refresh materialized view v");
    assert_eq!(one(&session, "select max(s) from v"), "108");
}

/// A late row of a removed date that has the beginning of a bucket of its own before it, which is stored with other dates.
#[test]
fn late_rows_behind_removed_ones_leave_their_bucket() {
    let (_folder, session) = summed("partition = 'day'", "time_bucket('1 day', time, 'America/New_York')");
    change(&session, "insert into t values ('2024-03-01 12:00', 1), ('2024-03-09 12:00', 2)");
    change(&session, "refresh materialized view v");
    expire(&session, 3);
    // 21:00 of the same day in New York, and a day without other rows.
    change(&session, "insert into t values ('2024-03-02 02:00', 4), ('2024-03-05 12:00', 8), ('2024-03-09 13:00', 16)");
    for _ in 0..2 {
        assert_eq!(sums(&session), "[1, 8, 18]");
        change(&session, "refresh materialized view v");
    }
}

/// Of a date whose first bucket reaches into a removed one, the other buckets follow the table.
#[test]
fn a_removed_date_freezes_one_bucket_of_the_next() {
    let (_folder, session) = summed("partition = 'day', time_zone = 'Asia/Kolkata'", "time_bucket('1 hour', time)");
    // The hours of this view begin at half past in Kolkata: 18:00 UTC has the last half hour of the 5th and the first of the 6th.
    change(
        &session,
        "insert into t values ('2024-03-05 18:10Z', 1), ('2024-03-05 18:40Z', 2), ('2024-03-05 19:10Z', 4), ('2024-03-06 12:00Z', 8)",
    );
    change(&session, "refresh materialized view v");
    assert_eq!(sums(&session), "[3, 4, 8]");
    expire(&session, 1);
    assert_eq!(one(&session, "select sum(n) from t"), "14");
    let late = "insert into t values ('2024-03-05 18:50Z', 100), ('2024-03-05 19:20Z', 16), ('2024-03-06 13:00Z', 32)";
    change(&session, late);
    for _ in 0..2 {
        assert_eq!(sums(&session), "[3, 20, 8, 32]");
        change(&session, "refresh materialized view v");
    }
    change(&session, "delete from t where n = 4");
    for _ in 0..2 {
        assert_eq!(sums(&session), "[3, 16, 8, 32]");
        change(&session, "refresh materialized view v");
    }

    // A bucket of rows of two dates, and one behind it that has rows of the second alone.
    let (_folder, session) = summed("partition = 'day'", "time_bucket('36 hours', time, timestamp '2024-03-01')");
    change(&session, "insert into t values ('2024-03-01 10:00', 1), ('2024-03-02 10:00', 2), ('2024-03-02 15:00', 4)");
    change(&session, "refresh materialized view v");
    expire(&session, 1);
    change(&session, "insert into t values ('2024-03-02 11:00', 100), ('2024-03-02 16:00', 8)");
    for _ in 0..2 {
        assert_eq!(sums(&session), "[3, 12]");
        change(&session, "refresh materialized view v");
    }
}

/// An expiry whose undo is undone, after rows were stored between, removes what is in the view by then.
#[test]
fn an_expiry_that_applies_again_keeps_what_was_stored_between() {
    let (_folder, session) = summed("partition = 'day'", "time_bucket('1 day', time)");
    change(&session, "insert into t values ('2024-03-01 10:00', 1), ('2024-03-09 10:00', 2)");
    change(&session, "refresh materialized view v");
    expire(&session, 3);
    let table = session.database().table("t").unwrap();
    let undone = table.undo(table.commits(1).unwrap()[0].commit).unwrap().epoch;
    change(&session, "insert into t values ('2024-03-01 11:00', 4)");
    change(&session, "refresh materialized view v");
    assert_eq!(sums(&session), "[5, 2]");
    table.undo(undone).unwrap();
    for _ in 0..2 {
        assert_eq!((one(&session, "select sum(n) from t"), sums(&session)), ("6".to_owned(), "[5, 2]".to_owned()));
        change(&session, "refresh materialized view v");
    }
}

/// A column that becomes wider takes the stored rows with it, also those of removed dates.
#[test]
fn widened_columns_keep_what_expired() {
    let folder = tempfile::tempdir().unwrap();
    let session =
        Session::new(Database::create(folder.path().join("db")).unwrap(), splay_sql::SessionSettings::default())
            .unwrap();
    change(&session, "create table t (time timestamp, n int, x real, s text) with (partition = 'day')");
    change(
        &session,
        "create materialized view v as select time_bucket('1 day', time) as bar, max(n) as n, max(x) as x, max(s) as s from t group by 1",
    );
    change(&session, "insert into t values ('2024-03-01 10:00', 1, 0.1, 'a'), ('2024-03-09 10:00', 2, 0.2, 'b')");
    change(&session, "refresh materialized view v");
    expire(&session, 3);
    let read = || one(&session, "select array_agg(n order by bar)::text || array_agg(x order by bar)::text from v");
    assert_eq!(read(), "[1, 2][0.1, 0.2]");
    change(&session, "alter table t alter column n type bigint");
    change(&session, "insert into t values ('2024-03-09 11:00', 5000000000, 0.3, 'c')");
    for _ in 0..2 {
        assert_eq!(read(), "[1, 5000000000][0.1, 0.3]");
        assert_eq!(one(&session, "select arrow_typeof(max(n)) from v"), "Int64");
        change(&session, "refresh materialized view v");
    }
    let first = session.database().table("v.rows").unwrap().snapshot().unwrap().epoch();
    change(&session, "refresh materialized view v");
    assert_eq!(session.database().table("v.rows").unwrap().snapshot().unwrap().epoch(), first);
    // Whole numbers to floats write the stored rows anew, and two columns at a time.
    change(&session, "alter table t alter column n type double");
    change(&session, "alter table t alter column x type double");
    change(&session, "alter table t alter column s type symbol");
    let read = || one(&session, "select array_agg(n order by bar)::text || array_agg(s order by bar)::text from v");
    for _ in 0..2 {
        assert_eq!(read(), "[1.0, 5000000000.0][a, c]");
        change(&session, "refresh materialized view v");
    }
}

/// The sum of a bucket whose rows have gone can't be computed as floats any more: it becomes the nearest one.
#[test]
fn sums_without_an_equal_are_rounded_when_they_widen() {
    let (_folder, session) = summed("partition = 'day'", "time_bucket('1 day', time)");
    change(
        &session,
        "insert into t values ('2024-03-01 10:00', 9007199254740992), ('2024-03-01 11:00', 9), ('2024-03-09 10:00', 2)",
    );
    change(&session, "refresh materialized view v");
    expire(&session, 3);
    assert_eq!(sums(&session), "[9007199254741001, 2]");
    change(&session, "alter table t alter column n type double");
    for _ in 0..2 {
        assert_eq!(sums(&session), "[9007199254741000.0, 2.0]");
        change(&session, "refresh materialized view v");
    }
    assert_eq!(session.refresh_due("v", Stop::NEVER).unwrap(), (0, 0));
}

/// Rows that a view's own retention has removed are still the table's.
#[test]
fn a_view_that_expired_answers_no_question() {
    let (_folder, session) = session();
    change(&session, &format!("create materialized view bars with (query_rewrite = true) as {BARS}"));
    let rows = session.database().table("bars.rows").unwrap();
    rows.expire(Retention { days: Some(3), bytes: None }, false).unwrap();
    for question in QUESTIONS {
        let read = |text: &str| cells(&session.sql(text, Parameters::None).unwrap().batches().unwrap());
        let (answer, expected) = (read(&over_table(question)), read(&over_rows(question)));
        assert!(
            answer.len() == expected.len() && answer.iter().zip(&expected).all(|(a, b)| are_same(a, b)),
            "{question}"
        );
    }
    assert_ne!(one(&session, "select sum(volume) from bars"), one(&session, "select sum(size) from trade"));
}

/// Undoing one expiry, and that again, leaves what the others removed in the view.
#[test]
fn an_undone_expiry_leaves_the_others() {
    let (_folder, session) = session();
    change(
        &session,
        "create materialized view bars as select time_bucket('1h', time) as bar, sum(size) as volume from trade group by 1",
    );
    let before = one(&session, "select sum(volume) from bars");
    let table = session.database().table("trade").unwrap();
    for days in [9, 3] {
        table.expire(Retention { days: Some(days), bytes: None }, false).unwrap();
    }
    for _ in 0..2 {
        let undone = table.commits(1).unwrap()[0].commit;
        table.undo(undone).unwrap();
        assert_eq!(one(&session, "select sum(volume) from bars"), before);
        change(&session, "refresh materialized view bars");
        assert_eq!(one(&session, "select sum(volume) from bars"), before);
    }
}
