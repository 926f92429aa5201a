//! Damage that no checksum sees, and files that only look like a journal's.

use std::sync::Arc;

use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;

use super::{FOLDER, format, read};
use crate::error::Error;
use crate::fuzz::journal::{SOUND, replay, split, stored};

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
    assert_eq!(replay(&changed(|_| {})).unwrap().1.len(), 8);
    let last = SOUND.files[0].frames.len() - 1;
    type Change = Box<dyn Fn(&mut Vec<Vec<u8>>)>;
    let changes: [(&str, Change); 4] = [
        ("twice", Box::new(move |frames| frames.push(frames[last].clone()))),
        ("gone", Box::new(|frames| drop(frames.remove(2)))),
        ("elsewhere", Box::new(move |frames| frames.swap(2, last))),
        ("the producers twice", Box::new(|frames| frames.insert(1, frames[0].clone()))),
    ];
    for (what, change) in changes {
        let replayed = replay(&changed(change));
        assert!(matches!(replayed, Err(Error::Damaged { .. })), "{what}");
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

/// Who caught up from a journal that was damaged since got the batches before the damage, and no word of the others.
#[test]
fn who_catches_up_is_told_of_damage() {
    let storage = changed(|_| {});
    let files = replay(&storage).unwrap().0.files;
    for at in [40, 600] {
        let storage = storage.copy();
        storage.damage(&format!("{FOLDER}/00000001.jnl"), |bytes| bytes[at] ^= 1).unwrap();
        let caught_up = read(Arc::new(storage), &files, |_| Ok(()));
        assert!(matches!(caught_up, Err(Error::Damaged { .. })), "{at}");
    }
}
