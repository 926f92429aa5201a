//! Damage that no checksum sees, and files that only look like a journal's.

use std::sync::Arc;

use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;

use super::{FOLDER, LossKind, format, read};
use crate::error::Error;
use crate::fuzz::journal::{SOUND, recover, replay, split, stored};

/// The sound journal of the fuzz target, with the frames of its first file changed.
fn changed(change: impl FnOnce(&mut Vec<Vec<u8>>)) -> FaultStorage {
    let mut files: Vec<Vec<u8>> = SOUND.files.iter().map(|file| file.bytes()).collect();
    let (mut frames, _) = split(&files[0]);
    change(&mut frames);
    files[0] = [&files[0][..format::HEADER_BYTES], &frames.concat()].concat();
    stored(&files)
}

/// A file system that gave a block back twice made rows that were there twice: each frame was sound.
#[test]
fn a_frame_twice_or_gone_or_elsewhere_is_damage() {
    let sound = replay(&changed(|_| {})).unwrap().1;
    assert_eq!(sound.len(), 8);
    let batches = SOUND.files[0].frames.iter().enumerate().filter(|(_, frame)| matches!(frame[8], 0x02));
    let (last, one) = (batches.clone().next_back().unwrap().0, batches.clone().next().unwrap().0);
    type Change = Box<dyn Fn(&mut Vec<Vec<u8>>)>;
    let changes: [(&str, Change); 4] = [
        ("twice", Box::new(move |frames| frames.insert(last, frames[one].clone()))),
        ("gone", Box::new(move |frames| drop(frames.remove(one)))),
        ("elsewhere", Box::new(move |frames| frames.swap(one, last))),
        ("the producers twice", Box::new(|frames| frames.insert(2, frames[1].clone()))),
    ];
    for (what, change) in changes {
        let (content, replayed) = replay(&changed(change)).unwrap();
        assert!(content.losses.iter().any(|loss| loss.kind == LossKind::Damaged), "{what}");
        assert!(replayed.len() >= 5 && replayed.iter().all(|batch| sound.contains(batch)), "{what}");
        assert!(replayed.windows(2).all(|two| two[0].0 < two[1].0), "{what}");
    }
}

/// `1.jnl` was taken for `00000001.jnl`, which was then read twice.
#[test]
fn a_copy_under_another_name_is_no_journal() {
    let storage = changed(|_| {});
    let copy = storage.read(&format!("{FOLDER}/00000001.jnl")).unwrap();
    for name in ["1.jnl", "+1.jnl", "00000001.jnl.torn", "0000000001.jnl"] {
        let mut file = storage.create(&format!("{FOLDER}/{name}")).unwrap();
        file.write(&copy).unwrap();
    }
    assert_eq!(replay(&storage).unwrap().1.len(), 8);
}

/// The first part of a message stood between the damage and the torn end. It was cut off with the end, and the start behind that took
/// the damage, which it had listed, for another torn end.
#[test]
fn damage_whose_next_sound_frame_is_cut_off_stays_listed() {
    let mut frames = SOUND.files[0].frames.clone();
    for frame in &mut frames {
        let is_rows = matches!(frame[8] & 0x0f, 2 | 4);
        if is_rows && matches!(frame[9], 2 | 3 | 4 | 7) {
            frame[20] ^= 1;
        }
    }
    // So much was synced that the damage to batch 2 is one, and batch 7 may be torn.
    let synced = format::HEADER_BYTES + frames[..6].iter().map(Vec::len).sum::<usize>();
    format::put(frames.last_mut().unwrap(), &format::JournalFrame::Synced(synced as u64));
    let file = [format::header(1, 1).to_vec(), frames.concat()].concat();
    let (content, _) = replay(&stored(std::slice::from_ref(&file))).unwrap();
    assert!(
        content.torn.is_some() && content.files[0].damage.last().unwrap().range.end as u64 == content.files[0].bytes
    );
    let replayed = recover(&[file]).unwrap();
    assert_eq!(replayed.iter().map(|batch| batch.0).collect::<Vec<_>>(), [1]);
}

/// Who caught up from a journal that was damaged since got the batches before the damage, and no word of the others.
#[test]
fn who_catches_up_is_told_of_damage() {
    let storage = changed(|_| {});
    let files = replay(&storage).unwrap().0.files;
    for at in [90, 600] {
        let storage = storage.copy();
        storage.damage(&format!("{FOLDER}/00000001.jnl"), |bytes| bytes[at] ^= 1).unwrap();
        let caught_up = read(Arc::new(storage), &files, 0, |_| Ok(()));
        assert!(matches!(caught_up, Err(Error::Damaged { .. })), "{at}");
    }
}

/// Any four bytes may look like a length, and each is a checksum over so many bytes.
#[test]
fn looking_for_frames_behind_damage_takes_linear_time() {
    let storage = changed(|frames| {
        let mut rows = frames.iter().find(|frame| frame[8] == 2).unwrap()[8..55].to_vec();
        rows[1..9].copy_from_slice(&9u64.to_le_bytes());
        // Each says that it goes on to near the end, and that its batch comes next.
        let one = [&2_000_000u32.to_le_bytes()[..], &[0; 4], &rows].concat();
        frames.push(one.repeat(80_000));
    });
    let (content, replayed) = replay(&storage).unwrap();
    assert_eq!(replayed.len(), 8, "{:?}", content.losses);
}
