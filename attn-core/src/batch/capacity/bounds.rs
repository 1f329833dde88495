//! Upper bounds of what the batches of a capacity need: pages, segments, tiles, blocks of keys.

use super::{BatchCapacity, PagePool};

impl BatchCapacity {
    /// Upper bound of the entries of a page table; 0 for ragged keys.
    #[must_use]
    pub fn page_entries(&self) -> u64 {
        let Some(PagePool { page_size, .. }) = self.pages else { return 0 };
        sum_of_ceils(self.kv_tokens.into(), self.key_runs(), u64::from(page_size).max(1))
    }

    /// Upper bound of the runs of keys, each of which may end in a partly filled page: one for each request and level.
    fn key_runs(&self) -> u64 {
        u64::from(self.requests) * u64::from(self.level_count())
    }

    /// Upper bound of the [segments](crate::batch::Layout::segments) of a cascade: each has at least one key, and those
    /// of a request are disjoint.
    pub(crate) fn segments(&self) -> u64 {
        self.key_runs().min(self.kv_tokens.into())
    }

    /// Upper bound of the blocks of `block_keys` keys in all segments; a segment counts once for each of up to
    /// `requests` requests that has it.
    pub(crate) fn blocks_of_segments(&self, requests: u64, block_keys: u32) -> u64 {
        sum_of_ceils(self.kv_tokens.into(), requests * u64::from(self.level_count()), u64::from(block_keys).max(1))
    }

    /// Upper bound of the keys of a batch without levels, where ragged keys are contiguous: no two requests share a
    /// token.
    #[must_use]
    pub fn flat_kv_tokens(&self) -> u32 {
        self.kv_tokens.min(self.ragged_tokens().unwrap_or(self.kv_tokens))
    }

    /// Upper bound of the query tiles of `tile_rows` PackGQA rows; a query has `group` rows. With `queries_per_run`, a
    /// tile has rows of a single run of so many queries.
    #[must_use]
    pub fn tiles(&self, group: u32, tile_rows: u32, queries_per_run: Option<u64>) -> u64 {
        tile_bound(
            self.qo_tokens.into(),
            self.requests.into(),
            group.into(),
            u64::from(tile_rows).max(1),
            queries_per_run,
        )
    }

    /// Upper bound of the blocks of `block_keys` keys that the tiles of [`BatchCapacity::tiles`] attend to; a block
    /// counts once for each tile.
    #[must_use]
    pub fn blocks(&self, group: u32, tile_rows: u32, queries_per_run: Option<u64>, block_keys: u32) -> u64 {
        let queries = self.qo_len.min(self.qo_tokens);
        let tiles_of_a_request =
            tile_bound(queries.into(), 1, group.into(), u64::from(tile_rows).max(1), queries_per_run);
        let (keys, block) = (u64::from(self.kv_tokens), u64::from(block_keys).max(1));
        // every request has the most tiles, each of which attends to all keys of the request
        let by_request = tiles_of_a_request.saturating_mul(sum_of_ceils(keys, self.requests.into(), block));
        // one request has all keys and all tiles
        let by_tile = self.tiles(group, tile_rows, queries_per_run).saturating_mul(keys.div_ceil(block));
        by_request.min(by_tile)
    }
}

/// Upper bound of the sum of `ceil(n / of)` over up to `parts` numbers `n` whose sum is `total`: each number that is
/// not 0 adds at most `of - 1` to be a multiple.
fn sum_of_ceils(total: u64, parts: u64, of: u64) -> u64 {
    (total + parts.min(total) * (of - 1)) / of
}

/// Upper bound of the tiles of up to `requests` requests with `queries` queries in all. The arguments except
/// `queries_per_run` are below 2^32.
fn tile_bound(queries: u64, requests: u64, group: u64, tile_rows: u64, queries_per_run: Option<u64>) -> u64 {
    // a request without queries has no tile
    let requests = requests.min(queries);
    // as if no two queries shared a tile
    let by_query = queries.saturating_mul(group.div_ceil(tile_rows));
    let by_rows = match queries_per_run.map(|run| run.max(1)) {
        // a request ends in at most one tile that is not full
        None => queries.saturating_mul(group).saturating_add(requests * (tile_rows - 1)) / tile_rows,
        // a request ends in at most one run that is not whole, and a run has at most all queries
        Some(run) => {
            (queries / run + requests).saturating_mul(run.min(queries).saturating_mul(group).div_ceil(tile_rows))
        }
    };
    by_query.min(by_rows)
}

#[cfg(test)]
mod tests {
    use crate::batch::BatchCapacity;

    /// Pages are the most where each request has one key in its last page.
    #[test]
    fn bounds_hold_for_requests_of_any_length() {
        for (requests, page_size) in [1u32, 3, 16, 64, 200].into_iter().flat_map(|n| [1u32, 5, 16].map(|p| (n, p))) {
            for len in [0, 1, page_size, page_size + 1, 3 * page_size + 1, 700] {
                let lens: Vec<u32> = (0..requests).map(|request| if request % 7 == 6 { 0 } else { len }).collect();
                let used = |of: u32| lens.iter().map(|len| u64::from(len.div_ceil(of))).sum::<u64>();
                let keys = lens.iter().sum();
                let capacity = BatchCapacity::decode(requests, keys).in_pages(page_size, 1 << 20);
                let (entries, blocks) = (capacity.page_entries(), capacity.blocks(4, 4, None, page_size));
                let name = format!("{requests} requests of {len} keys in pages of {page_size}");
                assert!(entries >= used(page_size) && blocks >= used(page_size), "{name}: {entries} {blocks}");
                // no more than one page or block a request beside the keys that fill some
                let most = u64::from(keys / page_size) + u64::from(requests);
                assert!(entries <= most && blocks <= most, "{name}: {entries} {blocks}");
            }
        }
    }
}
