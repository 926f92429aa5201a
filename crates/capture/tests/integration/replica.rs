//! Followers: what is acknowledged as `replica` is there after a promotion, once, whatever is cut; nobody else acknowledges it then; a former leader
//! loses nothing without being told to.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use splay_capture::{
    AckClass, Append, Capture, CaptureSettings, Error, FollowSettings, Follower, FollowerIdentity, FollowerSettings,
    JournalPart, Leader, LeaderState, PartKind, Position, Replica, Result, promote,
};
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{Backup, Database, RoleChange, Selection, Settings};

use crate::rows::{Row, SECOND, START, TestClock, batch, read, row, settings};

/// A leader that can be cut off, and that answers some requests twice or not at all.
#[derive(Debug)]
struct Link {
    capture: Capture,
    is_cut: AtomicBool,
    /// Each n-th answer is lost.
    loses: u64,
    calls: AtomicU64,
}

impl Link {
    fn to(capture: &Capture, loses: u64) -> Arc<Link> {
        Arc::new(Link { capture: capture.clone(), is_cut: AtomicBool::new(false), loses, calls: AtomicU64::new(0) })
    }

    fn pass<T>(&self, ask: impl Fn() -> Result<T>) -> Result<T> {
        let lost = || Error::Leader { reason: "cut".to_owned() };
        if self.is_cut.load(Ordering::SeqCst) {
            return Err(lost());
        }
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if self.loses > 0 && number.is_multiple_of(self.loses) {
            // It came, and its answer didn't; or it came twice.
            drop(ask());
            return if number.is_multiple_of(2) { Err(lost()) } else { ask() };
        }
        ask()
    }
}

impl Leader for Link {
    fn state(&self, asker: &FollowerIdentity) -> Result<LeaderState> {
        self.pass(|| self.capture.state(asker))
    }

    fn journal(&self, asker: &FollowerIdentity, after: Position, bytes_max: usize) -> Result<JournalPart> {
        // In small parts, so that they end anywhere; nothing is waited for.
        self.pass(|| {
            let part = self.capture.journal(asker, after, 0)?;
            let is_more = part.end > after && part.kind == PartKind::Bytes;
            if is_more { self.capture.journal(asker, after, bytes_max.min(700)) } else { Ok(part) }
        })
    }

    fn file(&self, asker: &FollowerIdentity, path: &str, offset: u64, bytes_max: usize) -> Result<Vec<u8>> {
        self.pass(|| self.capture.file(asker, path, offset, bytes_max.min(5_000)))
    }
}

fn small() -> CaptureSettings {
    CaptureSettings {
        journal_segment_bytes: 1_500,
        journal_keep_bytes: 0,
        future_s: 1_000_000,
        late_s: 1,
        replica_timeout_ms: 60_000,
        ..settings()
    }
}

fn lead(storage: &FaultStorage) -> Capture {
    let database = Database::open_on(Arc::new(storage.clone())).unwrap();
    Capture::open_with(database, small(), TestClock::at(START + 3_600 * SECOND)).unwrap().0
}

fn new_leader() -> (FaultStorage, Capture) {
    let storage = FaultStorage::new();
    Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    let capture = lead(&storage);
    (storage, capture)
}

fn new_copy() -> FaultStorage {
    let storage = FaultStorage::new();
    Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
    storage
}

fn follow(storage: &FaultStorage, leader: Arc<dyn Leader>) -> Replica {
    let database = Database::open_on(Arc::new(storage.clone())).unwrap();
    Replica::begin(database, leader, "test", FollowSettings::default()).unwrap()
}

/// Steps until everything is there, past answers that are lost.
fn catch_up(replica: &Replica) {
    for _ in 0..1_000 {
        match replica.step() {
            Ok(true) => return,
            Ok(false) | Err(Error::Leader { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the copy doesn't catch up");
}

fn rows_of(number: i64) -> Vec<Row> {
    (0..3).map(|place| row("A", START + (number * 7 % 50 + place) * SECOND, number * 3 + place)).collect()
}

fn send(capture: &Capture, number: i64, class: AckClass) -> Result<()> {
    let append = Append { ack: Some(class), ..Append::new("trade", batch(&rows_of(number))) };
    capture.append(append).map(drop)
}

fn ids(database: &Database) -> Vec<i64> {
    let Ok(table) = database.table("trade") else { return Vec::new() };
    let mut ids: Vec<i64> =
        read(&table.snapshot().unwrap(), &Selection::default()).into_iter().map(|(_, row)| row.id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_copy_has_each_row_once_while_rows_move_to_files_and_after_days_away() {
    let (_, leader) = new_leader();
    let copy = new_copy();
    let mut sent = 0;
    for round in 0..6 {
        let link = Link::to(&leader, [0, 5, 3][round % 3]);
        let replica = follow(&copy, link);
        for _ in 0..4 {
            for _ in 0..8 {
                send(&leader, sent, AckClass::Disk).unwrap();
                sent += 1;
            }
            if round != 1 {
                catch_up(&replica);
                assert_eq!(ids(replica.database()), (0..sent * 3).collect::<Vec<_>>(), "round {round}");
            }
            leader.write_down(None).unwrap();
            catch_up(&replica);
            assert_eq!(ids(replica.database()), (0..sent * 3).collect::<Vec<_>>(), "round {round}, written down");
        }
        drop(replica);
        // While nobody follows, the journal's files go.
        for _ in 0..20 {
            send(&leader, sent, AckClass::Disk).unwrap();
            sent += 1;
        }
        leader.write_down(None).unwrap();
    }
    let database = Database::open_on(Arc::new(copy)).unwrap();
    let problems = database.table("trade").unwrap().verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    leader.close().unwrap();
}

#[test]
fn rows_acknowledged_as_replica_are_there_after_any_power_cut_and_promotion() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut confirmed = 0;
    for history in 0..25 {
        let (_, leader) = new_leader();
        let copy = new_copy();
        let link = Link::to(&leader, random.random_range(0..6));
        let replica = follow(&copy, Arc::clone(&link) as _);
        catch_up(&replica);
        let follower = Follower::start(replica, FollowerSettings::default()).unwrap();
        copy.stop_after(Some(random.random_range(20..400)));
        let (sender, receiver) = channel();
        let mut sent = 0;
        for number in 0..40 {
            let sender = sender.clone();
            let append = Append { ack: Some(AckClass::Replica), ..Append::new("trade", batch(&rows_of(number))) };
            if leader
                .submit(append, move |ack| {
                    let _ = sender.send((number, ack.is_ok()));
                })
                .is_ok()
            {
                sent = number + 1;
            }
            if random.random_range(0..9) == 0 {
                leader.write_down(None).unwrap();
            }
            if random.random_range(0..4) == 0 {
                std::thread::yield_now();
                send(&leader, 1_000 + number, AckClass::Disk).unwrap();
            }
        }
        let mut acknowledged = Vec::new();
        while let Ok((number, is_ok)) = receiver.recv_timeout(Duration::from_millis(200)) {
            acknowledged.extend(is_ok.then_some(number));
        }
        link.is_cut.store(true, Ordering::SeqCst);
        follower.stop();
        copy.stop_after(None);
        let crash_image = copy.crash(&mut |bound| random.random_range(0..bound));
        drop(follower);
        let database = Database::open_on(Arc::new(crash_image.clone())).unwrap();
        assert!(matches!(Capture::open(database.clone(), small()), Err(Error::Following { .. })));
        assert_eq!(promote(&database).unwrap(), 2, "history {history}");
        let promoted = lead(&crash_image);
        let there = ids(promoted.database());
        let mut once = there.clone();
        once.dedup();
        assert_eq!(there, once, "history {history}");
        confirmed += acknowledged.len();
        for number in &acknowledged {
            for row in rows_of(*number) {
                assert!(there.contains(&row.id), "history {history}: batch {number} of {sent} is lost");
            }
        }
        // The old leader hears of it, refuses rows of any class, and does so after a start.
        let hears = FollowerIdentity {
            database: promoted.state(&FollowerIdentity::default()).unwrap().database,
            epoch: 2,
            ..FollowerIdentity::default()
        };
        assert!(matches!(leader.state(&hears), Err(Error::Fenced { epoch: 2 })));
        assert!(matches!(send(&leader, 5_000, AckClass::Memory), Err(Error::Fenced { epoch: 2 })));
        drop(leader.close());
        drop(promoted.close());
    }
    assert!(confirmed > 100, "{confirmed} batches alone were acknowledged");
}

#[test]
fn without_a_follower_nothing_is_acknowledged_as_replica() {
    let (storage, leader) = new_leader();
    assert!(matches!(send(&leader, 0, AckClass::Replica), Err(Error::Unreplicated { .. })));
    assert_eq!(ids(leader.database()), Vec::<i64>::new(), "nothing of it was taken");
    let hears = FollowerIdentity {
        database: leader.state(&FollowerIdentity::default()).unwrap().database,
        epoch: 9,
        ..FollowerIdentity::default()
    };
    assert!(matches!(leader.state(&hears), Err(Error::Fenced { epoch: 9 })));
    leader.close().unwrap();
    let again = lead(&storage);
    assert_eq!(again.fenced(), Some(9));
    assert!(matches!(send(&again, 1, AckClass::Disk), Err(Error::Fenced { epoch: 9 })));
    drop(again.close());
}

#[test]
fn a_former_leader_follows_only_once_what_it_would_lose_is_aside() {
    for has_more in [false, true] {
        let (old, leader) = new_leader();
        let copy = new_copy();
        let replica = follow(&copy, Link::to(&leader, 0));
        for number in 0..20 {
            send(&leader, number, AckClass::Disk).unwrap();
        }
        leader.write_down(None).unwrap();
        catch_up(&replica);
        let mut on_old: Vec<i64> = (0..60).collect();
        if has_more {
            send(&leader, 20, AckClass::Disk).unwrap();
            on_old.extend(60..63);
        }
        leader.close().unwrap();
        assert_eq!(replica.promote().unwrap(), 2);
        drop(replica);
        let promoted = lead(&copy);
        send(&promoted, 100, AckClass::Disk).unwrap();
        promoted.write_down(None).unwrap();
        let returned = follow(&old, Link::to(&promoted, 0));
        if has_more {
            let refused = returned.join(None).unwrap_err();
            assert!(matches!(&refused, Error::Diverged { what, .. } if what.contains("1 batches")), "{refused}");
            assert_eq!(ids(returned.database()), on_old, "nothing was changed");
            let aside = FaultStorage::new();
            let to: Arc<dyn Storage> = Arc::new(aside.clone());
            returned.join(Some(&to)).unwrap();
            let backup = Backup::read(&aside).unwrap().unwrap();
            let restored = FaultStorage::new();
            backup.restore(&aside, &restored).unwrap();
            let database = Database::open_on(Arc::new(restored)).unwrap();
            splay_capture::follow(&database, FollowSettings::default());
            assert_eq!(ids(&database), on_old);
        }
        catch_up(&returned);
        let expected: Vec<i64> = (0..60).chain(300..303).collect();
        assert_eq!(ids(returned.database()), expected);
        promoted.close().unwrap();
    }
}

#[test]
fn a_copy_that_was_away_has_what_it_had_after_any_power_cut() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut cuts = 0;
    for history in 0..40 {
        let (_, leader) = new_leader();
        let copy = new_copy();
        (0..10).for_each(|number| send(&leader, number, AckClass::Disk).unwrap());
        catch_up(&follow(&copy, Link::to(&leader, 0)));
        for number in 10..60 {
            send(&leader, number, AckClass::Disk).unwrap();
            if number % 9 == 0 {
                leader.write_down(None).unwrap();
            }
        }
        let replica = follow(&copy, Link::to(&leader, 0));
        copy.stop_after(Some(random.random_range(1..250)));
        let is_whole = (0..20).any(|_| replica.step().unwrap_or(false));
        cuts += u32::from(!is_whole);
        copy.stop_after(None);
        let crash_image = copy.crash(&mut |bound| random.random_range(0..bound));
        drop(replica);
        // The leader can't be asked: what was here before is here, once.
        let cut_link = Link::to(&leader, 0);
        cut_link.is_cut.store(true, Ordering::SeqCst);
        let replica = follow(&crash_image, cut_link);
        let there = ids(replica.database());
        let mut once = there.clone();
        once.dedup();
        assert_eq!(there, once, "history {history}");
        assert!((0..30).all(|id| there.contains(&id)), "history {history}: {there:?}");
        drop(replica);
        if history % 2 == 0 {
            let replica = follow(&crash_image, Link::to(&leader, 0));
            catch_up(&replica);
            assert_eq!(ids(replica.database()), (0..180).collect::<Vec<_>>(), "history {history}");
        } else {
            let database = Database::open_on(Arc::new(crash_image.clone())).unwrap();
            assert_eq!(promote(&database).unwrap(), 2, "history {history}");
            let promoted = lead(&crash_image);
            assert_eq!(ids(promoted.database()), there, "history {history}");
            promoted.close().unwrap();
        }
        leader.close().unwrap();
    }
    assert!(cuts > 10, "only {cuts} were cut short");
}

#[test]
fn a_leader_that_was_set_back_is_refused_before_anything_is_confirmed() {
    let (storage, leader) = new_leader();
    let copy = new_copy();
    let replica = follow(&copy, Link::to(&leader, 0));
    send(&leader, 0, AckClass::Disk).unwrap();
    catch_up(&replica);
    let earlier = storage.crash(&mut |_| 0);
    (1..8).for_each(|number| send(&leader, number, AckClass::Disk).unwrap());
    catch_up(&replica);
    drop(replica);
    leader.close().unwrap();
    let back = lead(&earlier);
    for number in 100..140 {
        send(&back, number, AckClass::Disk).unwrap();
        let replica = follow(&copy, Link::to(&back, 0));
        let refused = replica.step().unwrap_err();
        assert!(matches!(refused, Error::OtherLeader { .. }), "{number}: {refused}");
        assert!(back.replication().followers.is_empty());
    }
    back.close().unwrap();
}

/// The bytes of an earlier epoch may be others than those of the new leader.
#[test]
fn a_copy_of_an_earlier_epoch_confirms_nothing() {
    let (_, leader) = new_leader();
    let copy = new_copy();
    let replica = follow(&copy, Link::to(&leader, 0));
    send(&leader, 0, AckClass::Disk).unwrap();
    catch_up(&replica);
    leader.close().unwrap();
    assert_eq!(replica.promote().unwrap(), 2);
    drop(replica);
    let promoted = lead(&copy);
    send(&promoted, 1, AckClass::Disk).unwrap();
    let ask = |epoch: u64| {
        let database = promoted.successor().unwrap().database;
        let asker = FollowerIdentity { follower: "second".to_owned(), database, epoch, end: None };
        drop(promoted.journal(&asker, promoted.replication().durable, 0).unwrap());
        promoted.replication().followers.len()
    };
    assert_eq!(ask(1), 0);
    assert_eq!(ask(2), 1);
    promoted.close().unwrap();
}

#[test]
fn users_and_roles_come_along_and_are_the_leaders_alone() {
    let (_, leader) = new_leader();
    let copy = new_copy();
    let replica = follow(&copy, Link::to(&leader, 0));
    let change = |database: &Database, name: &str| {
        database.change_access(|access| access.create_role(name, RoleChange::default()))
    };
    change(leader.database(), "desk").unwrap();
    catch_up(&replica);
    let names =
        |database: &Database| database.access().unwrap().roles.iter().map(|role| role.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(replica.database()), ["desk"]);
    assert!(matches!(change(replica.database(), "own"), Err(splay_store::Error::Locked { .. })));
    leader.database().change_access(|access| access.drop_role("desk")).unwrap();
    catch_up(&replica);
    assert!(names(replica.database()).is_empty());
    leader.close().unwrap();
}
