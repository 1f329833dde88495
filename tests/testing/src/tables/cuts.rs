//! Cuts of a sequence into documents, or into text and images.

use crate::random::Random;

/// Lengths of documents are uniform up to one of these: many short ones, and some past every tile.
const DOCUMENTS: [u64; 8] = [2, 9, 40, 64, 90, 200, 300, 700];
/// Lengths of stretches of text, then of images.
const IMAGES: [u64; 2] = [150, 280];

/// Where the parts of a sequence start.
pub(super) struct Cuts {
    starts: Vec<i64>,
    len: i64,
}

impl Cuts {
    pub(super) fn documents(len: u32, random: &mut Random) -> Self {
        Self::of(len, |_| {
            let most = DOCUMENTS[random.below(DOCUMENTS.len() as u64) as usize];
            1 + random.below(most)
        })
    }

    /// Text and images by turns.
    pub(super) fn images(len: u32, random: &mut Random) -> Self {
        Self::of(len, |number| 1 + random.below(IMAGES[number % 2]))
    }

    fn of(len: u32, mut next: impl FnMut(usize) -> u64) -> Self {
        let (mut starts, mut at, len) = (vec![0], 0, i64::from(len));
        loop {
            at += next(starts.len() - 1) as i64;
            if at >= len {
                return Cuts { starts, len };
            }
            starts.push(at);
        }
    }

    /// The number of parts, at least 1.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The part of a position.
    pub(super) fn index(&self, pos: i64) -> usize {
        self.starts.partition_point(|&start| start <= pos).max(1) - 1
    }

    /// First position, and one past the last, of the part of a position.
    pub(super) fn span(&self, pos: i64) -> [i64; 2] {
        let part = self.index(pos);
        [self.starts[part], self.starts.get(part + 1).copied().unwrap_or(self.len)]
    }
}
