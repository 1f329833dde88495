//! The batches that are measured.

use attn_kernels::cost::COST_KEYS;

/// Equal tiles for every worker of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    /// Tiles of each worker.
    pub(super) tiles_of_a_worker: u32,
    /// Blocks of [`COST_KEYS`] keys in a tile's KV range.
    pub(super) blocks_of_a_tile: u32,
    /// Tiles that read the same keys.
    pub(super) tiles_of_a_request: u32,
}

const fn work(tiles_of_a_worker: u32, blocks_of_a_tile: u32, tiles_of_a_request: u32) -> Work {
    Work { tiles_of_a_worker, blocks_of_a_tile, tiles_of_a_request }
}

/// Batches in which no two tiles read the same keys.
pub(super) const ALONE: [Work; 6] =
    [work(1, 4, 1), work(1, 12, 1), work(1, 32, 1), work(4, 2, 1), work(8, 4, 1), work(4, 8, 1)];
/// Batches in which four tiles read the same keys.
pub(super) const SHARED: [Work; 3] = [work(4, 8, 4), work(8, 4, 4), work(8, 16, 4)];

/// Keys of a KV split where merges are measured. Every kernel's KV block divides it.
pub(super) const SPLIT_KEYS: u32 = 384;
/// Numbers of partial states in the measured merges.
pub(super) const STATES: [u32; 4] = [4, 8, 16, 32];

impl Work {
    /// Tiles of a worker.
    pub(super) fn tiles(&self) -> f64 {
        f64::from(self.tiles_of_a_worker)
    }

    /// Blocks of a worker.
    pub(super) fn blocks(&self) -> f64 {
        f64::from(self.tiles_of_a_worker * self.blocks_of_a_tile)
    }

    /// Blocks of a worker that are read for the first time.
    pub(super) fn first_blocks(&self) -> f64 {
        self.blocks() / f64::from(self.tiles_of_a_request)
    }

    /// The query and key lengths of all requests.
    pub(super) fn lens(&self, workers: u32, queries_of_a_tile: u32) -> (Vec<u32>, Vec<u32>) {
        let requests = (workers * self.tiles_of_a_worker / self.tiles_of_a_request) as usize;
        let (qo, kv) = (queries_of_a_tile * self.tiles_of_a_request, self.blocks_of_a_tile * COST_KEYS);
        (vec![qo; requests], vec![kv; requests])
    }
}

/// The largest total numbers of queries and of keys in any batch.
pub(super) fn max_tokens(workers: u32, queries_of_a_tile: u32) -> (u32, u32) {
    let sum = |lens: &[u32]| lens.iter().sum::<u32>();
    let all = ALONE.iter().chain(&SHARED).map(|work| work.lens(workers, queries_of_a_tile));
    let (qo, kv) = all.fold((0, 0), |max, (qo, kv)| (max.0.max(sum(&qo)), max.1.max(sum(&kv))));
    let states = STATES.into_iter().max().unwrap_or(0);
    (qo.max(states * queries_of_a_tile), kv.max(states * SPLIT_KEYS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_equal_tiles_for_all_workers() {
        for work in ALONE.iter().chain(&SHARED) {
            let (qo, kv) = work.lens(33, 4);
            assert_eq!(
                work.tiles_of_a_worker % work.tiles_of_a_request,
                0,
                "{work:?}: whole requests for every worker"
            );
            let tiles = qo.len() as u32 * work.tiles_of_a_request;
            assert_eq!(tiles, 33 * work.tiles_of_a_worker);
            assert_eq!(qo.len(), kv.len());
            let blocks = kv.iter().sum::<u32>() / COST_KEYS;
            assert!((f64::from(blocks) / 33.0 - work.first_blocks()).abs() < 1e-9);
            let (most_qo, most_kv) = max_tokens(33, 4);
            assert!(qo.iter().sum::<u32>() <= most_qo && kv.iter().sum::<u32>() <= most_kv);
        }
        // keys are whole pages of 16, so that requests share none
        assert!(SPLIT_KEYS.is_multiple_of(16) && COST_KEYS.is_multiple_of(16));
    }
}
