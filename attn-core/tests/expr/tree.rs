//! Combinators in expressions: grammar, rules of composition, and evaluation.

mod evaluation;
mod grammar;
mod random;
mod rules;
mod serialized;

use attn::lang::{AttentionVariant, KvIndex, LogitIndex, QueryTile, Row, RowIndex, RowState};
use attn::{ExprError, Registry, Variant, VariantParams, attention_variant};

/// Positions count from the start of their block.
#[derive(Clone, Copy, VariantParams)]
struct Blocks {
    #[require(size > 0)]
    size: i32,
}

#[attention_variant(name = "blocks")]
impl AttentionVariant for Blocks {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.qo_pos / self.size == at.kv_pos / self.size
    }
    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        at.qo_pos % self.size
    }
    fn remap_kv_pos(&self, at: KvIndex) -> i32 {
        at.kv_pos % self.size
    }
}

/// Adds its position to every query and key.
#[derive(Clone, Copy, VariantParams)]
struct AddPosition;

#[attention_variant(name = "add_position")]
impl AttentionVariant for AddPosition {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        q.map(|_d, x| x + at.qo_pos as f32);
    }
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        k.map(|_d, x| x + at.kv_pos as f32);
    }
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + (at.qo_pos - at.kv_pos) as f32
    }
}

/// A list of the first blocks of two keys, for each query on its own.
#[derive(Clone, Copy, VariantParams)]
struct FirstBlocks {
    blocks: i32,
}

#[attention_variant(name = "first_blocks")]
impl AttentionVariant for FirstBlocks {
    fn kv_list_len(&self, _at: RowIndex) -> i32 {
        self.blocks
    }
    fn kv_list_block(&self, _at: RowIndex, n: i32) -> i32 {
        self.blocks - 1 - n
    }
    fn kv_list_block_size(&self) -> i32 {
        2
    }
}

/// A mask of the keys `begin..end`, with a `kv_range`.
#[derive(Clone, Copy, VariantParams)]
struct Between {
    begin: i32,
    end: i32,
}

#[attention_variant(name = "between")]
impl AttentionVariant for Between {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.begin <= at.kv_pos && at.kv_pos < self.end
    }
    fn kv_range(&self, _tile: QueryTile) -> (i32, i32) {
        (self.begin, self.end)
    }
}

/// Doubles the output.
#[derive(Clone, Copy, VariantParams)]
struct Twice;

#[attention_variant(name = "twice")]
impl AttentionVariant for Twice {
    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, _at: RowIndex) {
        o.map(|_d, x| 2.0 * x);
    }
}

fn registry() -> Registry {
    let mut registry = crate::common::registry();
    registry.register_all(attn::variants![Blocks, AddPosition, FirstBlocks, Between, Twice]).expect("names differ");
    registry
}

fn parse(text: &str) -> Result<Variant, ExprError> {
    Variant::parse_with(text, &registry())
}

fn valid(text: &str) -> Variant {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

fn at(qo_pos: i32, kv_pos: i32) -> LogitIndex {
    LogitIndex { row: RowIndex { qo_pos, ..RowIndex::default() }, kv_pos, kv_token: kv_pos, kv_slot: 0 }
}

/// The keys `0..keys` that a query attends to.
fn keys_of(variant: &Variant, row: RowIndex, keys: usize) -> Vec<usize> {
    let mut keep = vec![true; keys];
    variant.mask_tile(&mut keep, LogitIndex { row, kv_pos: 0, kv_token: 0, kv_slot: 0 });
    (0..keys).filter(|&i| keep[i]).collect()
}
