use mainstay::Result;

use super::series::CsvMark;
use super::sidecar::{begin, end, number, open};
use crate::formats::CSV_TOKEN;
use crate::owner::{Claim, Fence, FenceLineage, Holder};

/// The kind of the record.
const KIND: u8 = 1;

/// How many bytes the fields of a record have, in the first version and in this one.
const FIELDS_V1: usize = 16;
const FIELDS: usize = 50 + Holder::BYTES_MAX;

/// Who may write, as a sector of the sidecar has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) fence: Fence,
    /// Which of two sectors is the newer one.
    pub(super) generation: u64,
    /// Whose token it is; not known of one that was written by the first version.
    pub(super) owner: Option<(Holder, FenceLineage)>,
    /// Where the rows ended when the lineage of the token began, or when there was no token before it. What is before is not to be
    /// cut off by it.
    pub(super) floor: Option<CsvMark>,
}

impl Token {
    /// That of files that nobody has opened.
    pub(super) fn none() -> Self {
        Self { fence: Fence::NONE, generation: 0, owner: None, floor: None }
    }

    /// What it remembers. What it does not is taken to be as whoever asks would have it.
    pub(super) fn claim(&self, asking: &Claim) -> Option<Claim> {
        if self.fence == Fence::NONE {
            return None;
        }
        let (holder, lineage) = self.owner.clone().unwrap_or_else(|| (asking.holder.clone(), asking.lineage));
        Some(Claim { holder, fence: self.fence, lineage })
    }

    /// True if a claim is of the lineage that this one belongs to, and so knows what was acknowledged in it.
    pub(super) fn goes_on(&self, claim: &Claim) -> bool {
        match &self.owner {
            Some((_, lineage)) => *lineage == claim.lineage,
            // One of the first version is that of whoever comes. Where there is none it is not known who has written what is
            // there: another may have had the files meanwhile, and have acknowledged it.
            None => self.generation > 0,
        }
    }

    /// The one after it, by whoever may be, when the rows end there.
    pub(super) fn next(&self, claim: &Claim, end: CsvMark) -> Self {
        Self {
            fence: claim.fence,
            generation: self.generation.saturating_add(1),
            owner: Some((claim.holder.clone(), claim.lineage)),
            floor: if self.goes_on(claim) { self.floor } else { Some(end) },
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut record = begin(CSV_TOKEN.written(), KIND);
        let (holder, lineage) =
            self.owner.as_ref().map_or(("", FenceLineage::NONE), |(holder, lineage)| (holder.as_str(), *lineage));
        // No file has the number 0.
        let floor = self.floor.unwrap_or(CsvMark { file: 0, length: 0, rows: 0 });
        let numbers =
            [self.fence.get(), self.generation, lineage.get(), u64::from(floor.file), floor.length, floor.rows];
        for field in numbers {
            record.extend_from_slice(&field.to_le_bytes());
        }
        // A holder is short enough by its type.
        record.extend_from_slice(&(holder.len() as u16).to_le_bytes());
        record.extend_from_slice(holder.as_bytes());
        record.resize(8 + FIELDS, 0);
        end(record)
    }

    /// The token of a sector; none if there is none that is whole.
    ///
    /// # Errors
    /// `UnknownVersion` for a whole one that a later program has written.
    pub(super) fn decode(sector: &[u8]) -> Result<Option<Self>> {
        let fields = |version| if version == 1 { FIELDS_V1 } else { FIELDS };
        let record = open(sector, &CSV_TOKEN, KIND, fields)?;
        Ok(record.and_then(|(version, fields)| Self::read(version, fields)))
    }

    fn read(version: u8, fields: &[u8]) -> Option<Self> {
        if version == 1 {
            let (fence, generation) = (Fence::new(number(fields, 0)?), number(fields, 8)?);
            return Some(Self { fence, generation, owner: None, floor: None });
        }
        let file = u32::try_from(number(fields, 24)?).ok()?;
        let floor = CsvMark { file, length: number(fields, 32)?, rows: number(fields, 40)? };
        let length = usize::from(u16::from_le_bytes(*fields.get(48..)?.first_chunk()?));
        let holder = std::str::from_utf8(fields.get(50..50 + length)?).ok()?;
        Some(Self {
            fence: Fence::new(number(fields, 0)?),
            generation: number(fields, 8)?,
            owner: Some((Holder::from(holder), FenceLineage::new(number(fields, 16)?))),
            floor: (file > 0).then_some(floor),
        })
    }
}

#[cfg(test)]
mod tests {
    use mainstay::ErrorKind;
    use mainstay::format::golden::Golden;

    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_not_when_it_is_torn() {
        let holder = Holder::from("ä".repeat(300));
        for floor in [None, Some(CsvMark { file: 3, length: 1 << 40, rows: 9 })] {
            let owner = Some((holder.clone(), FenceLineage::new(u64::MAX)));
            let token = Token { fence: Fence::new(7), generation: 2, owner, floor };
            let sector = token.encode();
            assert_eq!(sector.len(), 512);
            assert_eq!(Token::decode(&sector).unwrap(), Some(token));
            for place in 0..8 + FIELDS + 4 {
                let mut torn = sector.clone();
                torn[place] ^= 1;
                assert_eq!(Token::decode(&torn).unwrap(), None, "{place}");
            }
        }
    }

    #[test]
    fn golden_tokens_are_what_is_written_and_read() {
        let golden = Golden::of(env!("CARGO_MANIFEST_DIR"));
        let owner = Some((Holder::from("visit-queues(\"home\")"), FenceLineage::new(11)));
        let floor = Some(CsvMark { file: 3, length: 4, rows: 5 });
        let token = Token { fence: Fence::new(7), generation: 2, owner, floor };
        golden.check("csv-token", &CSV_TOKEN, &token.encode());
        let mut first = begin(1, KIND);
        first.extend_from_slice(&7_u64.to_le_bytes());
        first.extend_from_slice(&2_u64.to_le_bytes());
        golden.check_version("csv-token", &CSV_TOKEN, 1, &end(first));
        let old = Token::decode(&golden.read("csv-token", 1)).unwrap();
        assert_eq!(old, Some(Token { owner: None, floor: None, ..token.clone() }));
        assert_eq!(Token::decode(&golden.read("csv-token", 2)).unwrap(), Some(token));
    }

    #[test]
    fn a_whole_token_of_a_later_program_is_no_damage() {
        let mut record = begin(CSV_TOKEN.newest() + 1, KIND);
        record.extend_from_slice(&[9; 70]);
        let sector = end(record);
        assert_eq!(Token::decode(&sector).unwrap_err().kind(), ErrorKind::UnknownVersion);
        let mut torn = sector;
        torn[30] ^= 1;
        assert_eq!(Token::decode(&torn).unwrap(), None);
    }

    #[test]
    fn what_was_there_before_the_first_token_is_not_cut_off_by_it() {
        let claim = Claim { holder: "somebody".into(), fence: Fence::new(8), lineage: FenceLineage::new(1) };
        let (end, later) = (CsvMark { file: 2, length: 5, rows: 1 }, CsvMark { file: 9, length: 5, rows: 1 });
        let first = Token::none().next(&claim, end);
        assert_eq!(first.floor, Some(end));
        assert_eq!(first.next(&claim, later).floor, Some(end), "as long as the lineage goes on");
    }

    #[test]
    fn the_first_version_is_read_and_belongs_to_whoever_comes() {
        let mut record = begin(1, KIND);
        record.extend_from_slice(&7_u64.to_le_bytes());
        record.extend_from_slice(&3_u64.to_le_bytes());
        let token = Token::decode(&end(record)).unwrap().unwrap();
        assert_eq!((token.fence, token.generation, &token.owner), (Fence::new(7), 3, &None));
        let asking = Claim { holder: "somebody".into(), fence: Fence::new(8), lineage: FenceLineage::new(1) };
        assert_eq!(token.claim(&asking).unwrap(), Claim { fence: Fence::new(7), ..asking.clone() });
        assert_eq!(token.next(&asking, CsvMark { file: 1, length: 5, rows: 1 }).floor, None);
    }
}
