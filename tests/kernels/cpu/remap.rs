//! Remapped positions: for any result of the map, inner hooks see coordinates below 2^30 in magnitude.

use attn_core::batch::{Batch, indptr};
use attn_core::cpu::check_tile_classes;
use attn_core::expr::Node;
use attn_core::lang::{AttentionVariant, Dims, KvIndex, LogitIndex, RowIndex, Tensor1};
use attn_core::spec::Heads;
use attn_core::{Variant, VariantParams, attention_variant};

const MOST: i32 = (1 << 30) - 1;
const WILD: [i32; 9] = [i32::MIN, i32::MIN + 1, -(1 << 30), -MOST, -7, 0, MOST, 1 << 30, i32::MAX];
const HEADS: Heads = Heads { qo: 2, kv: 1, head_dim: 4 };

/// Positions from tables.
#[derive(Clone, VariantParams)]
struct Wild {
    #[shape(qo_tokens)]
    of_query: Tensor1<i32>,
    #[shape(kv_tokens)]
    of_key: Tensor1<i32>,
}

#[attention_variant(name = "test_wild")]
impl AttentionVariant for Wild {
    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        self.of_query[at.qo_token]
    }
    fn remap_kv_pos(&self, at: KvIndex) -> i32 {
        self.of_key[at.kv_token]
    }
}

/// A mask whose differences would wrap if positions were larger.
#[derive(Clone, Copy, VariantParams)]
struct Within {
    reach: i32,
}

#[attention_variant(name = "test_within")]
impl AttentionVariant for Within {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.qo_pos - at.kv_pos <= self.reach && at.kv_pos - at.qo_pos <= self.reach
    }
    fn logits_transform(&self, _logit: f32, at: LogitIndex) -> f32 {
        (at.qo_pos / 64 - at.kv_pos / 64) as f32
    }
}

fn wild(reach: i32) -> Variant {
    let map = Wild { of_query: WILD.into(), of_key: WILD.into() };
    let dims = Dims { qo_heads: Some(2), kv_heads: Some(1), head_dim: Some(4), ..Dims::default() };
    let map = Variant::from(map).nodes()[0].as_part().expect("a part").clone_box();
    Variant::from(Node::Remap { map, inner: Within { reach }.into() }).bind(&dims).expect("binds")
}

#[test]
fn hooks_see_positions_below_two_to_the_thirty() {
    for reach in [0, 1, 100, i32::MAX] {
        let variant = wild(reach);
        for (i, query) in WILD.into_iter().enumerate() {
            let row = RowIndex { qo_token: i as i32, qo_pos: 3, qo_len: 9, kv_len: 9, ..RowIndex::default() };
            let (mut keep, mut logits) = ([true; 9], [0.0; 9]);
            let at = LogitIndex { row, kv_pos: 0, kv_token: 0, kv_slot: 0 };
            variant.mask_tile(&mut keep, at);
            variant.logits_tile(&mut logits, at);
            for (j, key) in WILD.into_iter().enumerate() {
                let (query, key) = (query.clamp(-MOST, MOST), key.clamp(-MOST, MOST));
                assert_eq!(keep[j], (query - key).abs() <= reach, "{query} and {key} within {reach}");
                assert_eq!(logits[j], (query / 64 - key / 64) as f32);
            }
        }
    }
}

#[test]
fn classes_of_tiles_are_those_of_clamped_positions() {
    let (qo, kv) = (indptr(&[9]).expect("short"), indptr(&[9]).expect("short"));
    let layout = Batch::ragged(&qo, &kv).validate().expect("sound");
    for (rows, keys) in [(1, 1), (2, 3), (4, 2), (18, 9)] {
        for reach in [0, 100, MOST, i32::MAX] {
            assert_eq!(check_tile_classes(&wild(reach), &layout, HEADS, rows, keys), Ok(()));
        }
    }
}
