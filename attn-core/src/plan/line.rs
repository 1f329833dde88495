//! Stream-K: the tiles of a batch on one line, cut into spans of equal cost.
//!
//! Tile `t` covers `piece + blocks(t) * block` of the line, `ends[t]` being the sum of all up to it. Worker `w` begins at
//!
//! ```text
//! at(w) = piece + floor(w * (total - piece) / workers)         0 < w < workers
//! ```
//!
//! (worker 0 at the start, and what would be worker `workers` at the end). Whoever begins within a tile starts a piece of its own, which costs `piece`
//! that is not on the line: leaving one out of the shares makes those of one tile equal. `at(w)` lies in the tile `t` with
//! `ends[t - 1] <= at(w) < ends[t]`, and there at block
//!
//! ```text
//! (at(w) - ends[t - 1] - piece) / block, down to a multiple of `step`, and to 0 if it is below `shortest`
//! ```
//!
//! with 0 within the piece's own cost. `step` is 1 where shares are at least `shortest` blocks long, so that no two cuts are closer than that; elsewhere
//! it is `shortest`, and workers whose cuts fall together have nothing to do. Therefore:
//!
//! - a worker costs at most `ceil(total / workers) + piece + shortest * block`;
//! - a worker has pieces of at most two cut tiles: that in which it begins, and that in which it ends;
//! - with `inside(w)` for the cuts up to `w` that are within a tile, and `cut(w)` for the tiles that they cut, worker `w` begins with item
//!   `tile(w) + inside(w)`; the piece behind a cut within a tile has slot `inside(w) + cut(w) - 1`, and merge `cut(w) - 1` (without a union).
//!
//! How many workers there are: at most what the rule has; where tiles are fewer than that, also not so many that shares are shorter than `shortest` blocks,
//! or that `share + spread * states of the longest tile` grows: `(total - piece) / isqrt(spread * longest)`.
//!
//! Where tiles are about as long as each other, cutting none may be as good: if `each = ceil(tiles / workers)` of the longest cost no more than a share,
//! a piece and a block, then `ceil(tiles / each)` workers have whole tiles, worker `w` from `floor(w * tiles / workers)` on.
//!
//! All of it is in unsigned 64-bit integers.

use super::{Cost, PlanError, PlanRule};

/// Where a worker begins: a block of a tile, counted from the first that the tile sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) tile: u32,
    pub(super) block: u32,
}

/// A line, and how it is cut.
pub(super) struct Line<'a> {
    /// Prefix sums of costs: tile `t` lies from `ends[t - 1]` to `ends[t]`.
    ends: &'a [u64],
    cost: Cost,
    /// What is shared out.
    shared: u64,
    workers: u64,
    shortest: u64,
    step: u64,
    /// Whether no tile is cut.
    whole: bool,
}

/// What a line says that is longer than 64 bits count.
pub(super) const TOO_COSTLY: PlanError = PlanError::TooMany { what: "units of cost", value: u64::MAX };

/// Writes where tiles end on the line: `blocks` of each, or `None` for one that this arm does not run.
pub(super) fn measure(
    ends: &mut Vec<u64>,
    cost: Cost,
    blocks: impl Iterator<Item = Option<u64>>,
) -> Result<(), PlanError> {
    ends.clear();
    let mut end = 0u64;
    for blocks in blocks {
        // fewer than 2^31 blocks: a tile alone does not overflow
        let cost = blocks.map_or(0, |blocks| u64::from(cost.piece) + blocks * u64::from(cost.block));
        end = end.checked_add(cost).ok_or(TOO_COSTLY)?;
        ends.push(end);
    }
    Ok(())
}

impl<'a> Line<'a> {
    /// `tiles` of the line are there to be run, the longest has so many blocks.
    pub(super) fn new(ends: &'a [u64], rule: &PlanRule, tiles: u64, longest: u64) -> Self {
        let cost = rule.cost;
        let total = ends.last().copied().unwrap_or(0);
        let shared = total.saturating_sub(cost.piece.into());
        let shortest = rule.shortest();
        let span = shortest * u64::from(cost.block);
        let spread = (longest * u64::from(cost.block)).saturating_mul(cost.spread.into()).isqrt();
        let worth = (shared / span).min(shared.checked_div(spread).unwrap_or(u64::MAX));
        let workers = worth.max(tiles).clamp(1, rule.workers.into());
        let step = if shared / workers >= span { 1 } else { shortest };
        let [piece, block] = [cost.piece, cost.block].map(u64::from);
        let each = tiles.div_ceil(workers);
        let whole = tiles == ends.len() as u64
            && each.saturating_mul(piece + longest * block) <= (shared / workers).saturating_add(piece + block);
        let workers = if whole { tiles.div_ceil(each.max(1)).max(1) } else { workers };
        Line { ends, cost, shared, workers, shortest, step, whole }
    }

    pub(super) fn workers(&self) -> u64 {
        self.workers
    }

    /// Where a worker begins; where the last ends, for the number of workers.
    pub(super) fn cut(&self, worker: u64) -> Cut {
        if worker == 0 {
            return Cut::default();
        }
        let end = Cut { tile: self.ends.len() as u32, block: 0 };
        if worker >= self.workers {
            return end;
        }
        if self.whole {
            return Cut { tile: share(self.ends.len() as u64, worker, self.workers) as u32, block: 0 };
        }
        let piece = u64::from(self.cost.piece);
        let at = piece + share(self.shared, worker, self.workers);
        let tile = self.ends.partition_point(|&end| end <= at);
        if tile == self.ends.len() {
            return end;
        }
        let begin = tile.checked_sub(1).map_or(0, |before| self.ends[before]);
        let block = (at - begin).saturating_sub(piece) / u64::from(self.cost.block);
        let block = if block < self.shortest { 0 } else { block - block % self.step };
        Cut { tile: tile as u32, block: block as u32 }
    }
}

/// `floor(n * total / of)` for `n <= of < 2^32`, without overflow.
pub(super) fn share(total: u64, n: u64, of: u64) -> u64 {
    n * (total / of) + n * (total % of) / of
}
