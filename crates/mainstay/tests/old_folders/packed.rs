//! A data folder as one small file: its files are mostly zeros, which are left out.
//!
//! Per file: length of its path (2), the path, its length (8), number of pieces (4); per piece: where it is (8), its length (4) and
//! its bytes. All numbers are little endian.

use std::path::Path;

use mainstay::partition::{Disk, OpenMode, SimDisk};

/// What is left out is a multiple of this.
const PIECE_BYTES: usize = 512;

pub(super) fn pack(disk: &SimDisk, folder: &Path) -> Vec<u8> {
    let mut packed = Vec::new();
    for path in files(disk, folder) {
        let file = disk.open(&folder.join(&path), OpenMode::Existing).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        packed.extend((path.len() as u16).to_le_bytes());
        packed.extend(path.as_bytes());
        packed.extend((bytes.len() as u64).to_le_bytes());
        let pieces: Vec<(usize, &[u8])> =
            bytes.chunks(PIECE_BYTES).enumerate().filter(|(_, piece)| piece.iter().any(|byte| *byte != 0)).collect();
        packed.extend((pieces.len() as u32).to_le_bytes());
        for (number, piece) in pieces {
            packed.extend(((number * PIECE_BYTES) as u64).to_le_bytes());
            packed.extend((piece.len() as u32).to_le_bytes());
            packed.extend(piece);
        }
    }
    packed
}

pub(super) fn unpack(packed: &[u8], disk: &SimDisk, folder: &Path) {
    let mut rest = packed;
    while !rest.is_empty() {
        let len = number(&mut rest, 2);
        let path = folder.join(std::str::from_utf8(take(&mut rest, len)).unwrap());
        let parent = path.parent().unwrap();
        disk.create_dir_all(parent).unwrap();
        let file = disk.open(&path, OpenMode::New).unwrap();
        file.set_len(number(&mut rest, 8) as u64).unwrap();
        for _ in 0..number(&mut rest, 4) {
            let (offset, len) = (number(&mut rest, 8) as u64, number(&mut rest, 4));
            file.write_all_at(take(&mut rest, len), offset).unwrap();
        }
        file.sync().unwrap();
        disk.sync_dir(parent).unwrap();
    }
}

/// The paths of all files of a data folder but the locks.
fn files(disk: &SimDisk, folder: &Path) -> Vec<String> {
    let below = |name: &str| {
        let names = disk.list(&folder.join(name)).unwrap();
        names
            .into_iter()
            .filter(|file| !file.ends_with("lock"))
            .map(|file| format!("{name}/{file}"))
            .collect::<Vec<_>>()
    };
    [vec!["identity".to_owned()], below("log"), below("state")].concat()
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(len);
    *rest = left;
    taken
}

fn number(rest: &mut &[u8], bytes: usize) -> usize {
    take(rest, bytes).iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}
