//! How much room a segment has, and for what.

use mainstay_core::{Error, ErrorKind, Result};

use super::block::Gather;
use super::format::{ALIGNMENT_MAX, align};
use super::record::BATCH_HEADER_BYTES;

/// The end of a segment that is kept for when there is no other room left: at least so much and so many of the smallest blocks,
const RESERVE_BYTES_MIN: u64 = 4096;
const RESERVE_BLOCKS_MIN: u64 = 4;
/// and at least such a part of it.
const RESERVE_SHARE: u64 = 64;
/// Which part of the reserve only batches may use that give room back: others, of any number and size, cannot use it up.
const RESERVE_LAST_SHARE: u64 = 2;
/// Places in a segment have 32 bits.
const SEGMENT_LEN_MAX: u64 = (1 << 32) - ALIGNMENT_MAX as u64;

/// What a batch is, when room is scarce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoomNeed {
    /// It has entries.
    Entries,
    /// It has none: who may lead can still be said.
    Small,
    /// It only drops things, which gives room back.
    Drops,
}

/// How much of what is left of a segment a batch may use.
pub(super) fn room_for(need: RoomNeed, len: u64, end: u64, alignment: u32) -> u64 {
    let kept = match need {
        RoomNeed::Entries => reserve(len, alignment),
        RoomNeed::Small => reserve(len, alignment) / RESERVE_LAST_SHARE,
        RoomNeed::Drops => 0,
    };
    len.saturating_sub(end).saturating_sub(kept)
}

/// How long a new segment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewLength {
    /// What it takes for what is carried and the batch that comes with it.
    pub(super) needed: u64,
    /// What it should be: half of a usual segment is left for batches, or each would be followed by another rotation.
    pub(super) wanted: u64,
}

/// How long a new segment is that begins with what is carried and a batch.
///
/// # Errors
/// `TooLarge` if no segment can be so long.
pub(super) fn new_length(carried: usize, batch: usize, segment_bytes: u64, alignment: u32) -> Result<NewLength> {
    let start = u64::from(alignment);
    let needed = with_reserve(start + Gather::bytes_for(carried + BATCH_HEADER_BYTES + batch, alignment), alignment);
    if needed > SEGMENT_LEN_MAX {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "a batch of {batch} bytes and the {carried} bytes that are kept of all groups do not fit into one segment \
                 of the node log: write less at once, or keep smaller hard states and marks"
            ),
        ));
    }
    let roomy = with_reserve(start + Gather::bytes_for(carried, alignment) + segment_bytes / 2, alignment);
    Ok(NewLength { needed, wanted: roomy.max(segment_bytes).max(needed).min(SEGMENT_LEN_MAX) })
}

/// How long all segments would be if everything was moved into new ones, at most.
pub(super) fn rewritten_bytes(carried: usize, moved: u64, segment_bytes: u64, alignment: u32) -> u64 {
    // What does not fit into a segment at all is not made smaller by moving.
    let Ok(NewLength { wanted, .. }) = new_length(carried, 0, segment_bytes, alignment) else { return u64::MAX };
    let start = u64::from(alignment) + Gather::bytes_for(carried, alignment);
    let room = room_for(RoomNeed::Entries, wanted, start, alignment).max(1);
    // The last one has just been begun, and one is the spare one.
    moved.div_ceil(room).saturating_add(2).saturating_mul(wanted)
}

/// The length of a segment that has so much room beside its reserve.
pub(super) fn with_reserve(room: u64, alignment: u32) -> u64 {
    align(room + (room / (RESERVE_SHARE - 1) + 1).max(reserve_min(alignment)), alignment)
}

fn reserve(len: u64, alignment: u32) -> u64 {
    (len / RESERVE_SHARE).max(reserve_min(alignment))
}

fn reserve_min(alignment: u32) -> u64 {
    RESERVE_BYTES_MIN.max(RESERVE_BLOCKS_MIN * u64::from(alignment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_segment_has_room_beside_what_it_carries() {
        let usual = 64 << 20;
        assert_eq!(new_length(1000, 1000, usual, 4096).unwrap().wanted, usual);
        for carried in [20 << 20, 40 << 20, 64 << 20, 1 << 30] {
            let NewLength { needed, wanted } = new_length(carried, 0, usual, 4096).unwrap();
            assert!(needed >= carried as u64 && wanted - needed >= usual / 2 - (1 << 20), "{carried}");
            assert!(room_for(RoomNeed::Entries, wanted, needed, 4096) > 0);
        }
    }

    #[test]
    fn no_segment_is_longer_than_its_places_can_say() {
        let NewLength { needed, wanted } = new_length(3 << 30, 900 << 20, 1 << 30, 512).unwrap();
        assert!(needed <= wanted && u32::try_from(wanted).is_ok());
        let error = new_length(3 << 30, 1 << 30, 1 << 30, 512).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        assert_eq!(rewritten_bytes(5 << 30, 1, 1 << 30, 512), u64::MAX);
    }

    #[test]
    fn the_last_of_the_reserve_is_for_what_gives_room_back() {
        let len = 16 << 10;
        let rooms = [RoomNeed::Entries, RoomNeed::Small, RoomNeed::Drops].map(|need| room_for(need, len, 512, 512));
        assert_eq!(rooms, [len - 512 - 4096, len - 512 - 2048, len - 512]);
        assert_eq!(room_for(RoomNeed::Entries, len, len - 512, 512), 0);
        // Two of the smallest blocks are left for each.
        let len = 64 << 10;
        let rooms = [RoomNeed::Entries, RoomNeed::Small, RoomNeed::Drops].map(|need| room_for(need, len, 4096, 4096));
        assert_eq!(rooms, [len - 4096 - 16_384, len - 4096 - 8192, len - 4096]);
    }
}
