//! Counts of attended (query, key) pairs, for FLOPs and bytes.

use std::collections::{HashMap, HashSet};

use attn::{Heads, Variant};
use attn_core::batch::Layout;
use attn_core::lang::{Hook, LogitIndex, ParamValue, QueryTile, RowIndex, Tile, TileClass};

/// The number of keys of a tile when the mask is evaluated element by element.
const BLOCK: usize = 256;
/// The most mask evaluations for which every head is counted. Above it, head 0 is counted for all heads.
const EVERY_HEAD: u64 = 1 << 27;

/// The number of attended (query, key, query head) triples of a batch under a variant: in closed form for `causal` and
/// `sliding_window`, else by evaluating the mask. Under KV lists every listed key counts, even if a mask hides it.
#[must_use]
pub fn attended(variant: &Variant, layout: &Layout, heads: Heads) -> u64 {
    if let Some((_, queries)) = variant.kv_list_sizes() {
        let rows = |at: RowIndex| u64::from((at.qo_len - at.qo_row).min(queries) as u32) * u64::from(heads.group());
        return lists(variant, layout, heads).map(|(at, blocks)| rows(at) * keys(variant, at, blocks)).sum();
    }
    let all: u64 = (0..layout.batch()).map(|r| layout.qo_len(r) as u64 * layout.kv_len(r) as u64).sum();
    if !variant.has(Hook::LogitsMask) {
        return all * u64::from(heads.qo);
    }
    if let Some(band) = Band::of(variant) {
        return (0..layout.batch()).map(|r| band.pairs(layout.qo_len(r), layout.kv_len(r))).sum::<u64>()
            * u64::from(heads.qo);
    }
    let counted = if all * u64::from(heads.qo) <= EVERY_HEAD { heads.qo } else { 1 };
    let count: u64 = (0..counted).map(|head| evaluated(variant, layout, heads, head)).sum();
    count * u64::from(heads.qo) / u64::from(counted.max(1))
}

/// The number of (key, KV head) pairs that a run reads: listed keys under KV lists, else all keys. Keys that requests
/// share in a cascade count once.
pub(super) fn rows_read(variant: &Variant, layout: &Layout, heads: Heads) -> u64 {
    if !variant.has_kv_list() {
        let stored: u64 = if layout.has_levels() {
            layout.segments().iter().map(|segment| segment.keys as u64).sum()
        } else {
            layout.kv_tokens() as u64
        };
        return stored * u64::from(heads.kv);
    }
    let mut of_head: HashMap<(i32, i32), (RowIndex, HashSet<i32>)> = HashMap::new();
    for (at, blocks) in lists(variant, layout, heads) {
        of_head.entry((at.batch, at.kv_head)).or_insert_with(|| (at, HashSet::new())).1.extend(blocks);
    }
    of_head.into_values().map(|(at, blocks)| keys(variant, at, blocks)).sum()
}

/// The key lists of a batch, each with its first row.
fn lists(variant: &Variant, layout: &Layout, heads: Heads) -> impl Iterator<Item = (RowIndex, Vec<i32>)> {
    let step = variant.kv_list_sizes().map_or(1, |(_, queries)| queries.max(1) as usize);
    let rows = move |request| (0..layout.qo_len(request)).step_by(step).map(move |row| (request, row));
    let each = (0..layout.batch()).flat_map(rows).flat_map(move |at| (0..heads.kv).map(move |kv_head| (at, kv_head)));
    each.map(move |((request, qo_row), kv_head)| {
        let at = layout.row(heads, request, qo_row, (kv_head * heads.group()) as usize);
        (at, (0..variant.kv_list_len(at)).map(|n| variant.kv_list_block(at, n)).collect())
    })
}

/// The number of keys in blocks of a list.
fn keys(variant: &Variant, at: RowIndex, blocks: impl IntoIterator<Item = i32>) -> u64 {
    let size = variant.kv_list_sizes().map_or(1, |(size, _)| i64::from(size));
    blocks.into_iter().map(|block| (i64::from(at.kv_len) - i64::from(block) * size).clamp(0, size) as u64).sum()
}

/// A mask that keeps an interval of keys around each query's position.
struct Band {
    causal: bool,
    window: Option<i64>,
}

impl Band {
    /// The band of a variant; `None` unless its masks are `causal` and `sliding_window`.
    fn of(variant: &Variant) -> Option<Band> {
        let mut band = Band { causal: false, window: None };
        for node in variant.nodes().iter().filter(|node| node.has(Hook::LogitsMask)) {
            // combinators change the meaning of the masks inside
            let part = node.as_part()?;
            match part.desc().name {
                "causal" => band.causal = true,
                "sliding_window" => {
                    let Some(ParamValue::Int(window)) = part.to_values().get("window").cloned() else { return None };
                    band.window = Some(band.window.map_or(window, |w| w.min(window)));
                }
                _ => return None,
            }
        }
        Some(band)
    }

    fn pairs(&self, qo_len: usize, kv_len: usize) -> u64 {
        let (qo_len, kv_len) = (qo_len as i64, kv_len as i64);
        let row = |qo_row: i64| {
            let pos = qo_row + kv_len - qo_len;
            let end = if self.causal { (pos + 1).min(kv_len) } else { kv_len };
            let begin = self.window.map_or(0, |w| (pos - w + 1).max(0));
            (end - begin).max(0) as u64
        };
        (0..qo_len).map(row).sum()
    }
}

fn evaluated(variant: &Variant, layout: &Layout, heads: Heads, head: u32) -> u64 {
    let mut count = 0;
    for request in 0..layout.batch() {
        let (qo_len, kv_len) = (layout.qo_len(request), layout.kv_len(request));
        for qo_row in 0..qo_len {
            let row = layout.row(heads, request, qo_row, head as usize);
            for begin in (0..kv_len).step_by(BLOCK) {
                let keys = BLOCK.min(kv_len - begin);
                let (kv_pos_min, kv_pos_max) = (begin as i32, (begin + keys) as i32 - 1);
                let first_token = layout.kv_indptr()[request];
                let class = variant.tile_class(Tile {
                    rows: QueryTile::of(row, row, 1),
                    kv_pos_min,
                    kv_pos_max,
                    kv_token_min: first_token + kv_pos_min,
                    kv_token_max: first_token + kv_pos_max,
                });
                count += match class {
                    TileClass::Skip => 0,
                    TileClass::Full => keys as u64,
                    TileClass::Partial => {
                        let kv_token = layout.kv_indptr()[request] + kv_pos_min;
                        let mut keep = [true; BLOCK];
                        variant
                            .mask_tile(&mut keep[..keys], LogitIndex { row, kv_pos: kv_pos_min, kv_token, kv_slot: 0 });
                        keep[..keys].iter().filter(|k| **k).count() as u64
                    }
                };
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::{attended, evaluated};
    use attn::{Batch, Heads, Variant};
    use attn_core::batch::indptr;

    #[test]
    fn the_closed_form_counts_what_the_mask_keeps() {
        let (qo, kv) = (indptr(&[5, 0, 300, 9]).expect("short"), indptr(&[5, 7, 700, 4]).expect("short"));
        let layout = Batch::ragged(&qo, &kv).validate().expect("sound");
        let heads = Heads { qo: 3, kv: 1, head_dim: 64 };
        for text in
            ["causal", "sliding_window(window=6)", "causal + sliding_window(window=40) + sliding_window(window=90)"]
        {
            let variant = Variant::parse(text).expect(text);
            assert_eq!(attended(&variant, &layout, heads), 3 * evaluated(&variant, &layout, heads, 1), "{text}");
        }
        let all = 25 + 300 * 700 + 9 * 4;
        assert_eq!(attended(&Variant::full(), &layout, heads), 3 * all);
    }
}
