//! Tables as engines make them: documents, trees, block maps, windows of each token. A case says which table a tensor
//! parameter holds ([`Case::tables`](crate::Case::tables)); those of stock variants are known ([`of`]).
//!
//! A table depends on the lengths and the seed of the case. Two tables of one case agree: documents of queries and of
//! keys are the same documents.

mod cuts;
mod maps;

use serde::{Deserialize, Serialize};

use super::{Case, random::Random};
use cuts::Cuts;

/// What a tensor parameter over integers or bools holds, by the lengths of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// `[qo_tokens]`: the document of each query, ascending over all requests.
    QueryDocuments,
    /// `[kv_tokens]`: the document of each key.
    KeyDocuments,
    /// `[qo_tokens]`: the position at which the document of each query starts.
    QueryDocumentStarts,
    /// `[kv_tokens]`: the position at which the document of each key starts.
    KeyDocumentStarts,
    /// `[kv_tokens]`: one past the last position of the document of each key.
    KeyDocumentEnds,
    /// `[kv_tokens]`: one past the last position before the diagonal, in each other document; else the start of its
    /// document.
    KeysBeforeDiagonal,
    /// `[kv_tokens]`: the keys of the request.
    KvLens,
    /// `[kv_tokens]`: 0.
    Zeros,
    /// `[qo_tokens]`: the first position of a window of each query's own, of 0 to 600 keys; every 16th is empty.
    WindowStarts,
    /// `[qo_tokens]`: one past the last position of that window.
    WindowEnds,
    /// `[qo_tokens]`: the image of each query, and -1 for text.
    QueryImages,
    /// `[kv_tokens]`: the image of each key, and -1 for text.
    KeyImages,
    /// `[qo_tokens]` bools: whether each query is global: the first four of a request, and one in 64.
    GlobalQueries,
    /// `[kv_tokens]` bools: whether each key is global.
    GlobalKeys,
    /// `[batch]`: the length of a prefix, up to all keys.
    Prefixes,
    /// `[qo_tokens]`: the position of the delimiter that opens the item of each query, behind the prefix.
    ItemStarts,
    /// `[documents + 1]`: positions at which documents start, the same in each request; those past the fourth are empty.
    SharedOffsets,
    /// `[documents]`: the document that is the prefix of each; every third is its own.
    SharedPrefixes,
    /// `[qo_tokens]`: the document of each query by `shared_offsets`.
    SharedDocuments,
    /// `[qo_tokens, width]` bools: the nodes of a draft tree that each query sees, with parents among earlier nodes.
    Ancestors,
    /// `[batch, qo_heads, q_blocks, kv_blocks]` bools: a router's choice of runs of blocks, and sometimes of none.
    Blocks,
    /// `[batch]`: the first bit of each request's mask, masks one after the other.
    MaskOffsets,
    /// `[qo_tokens]`: positions of queries in a sequence from which keys were dropped.
    QueryPositions,
    /// `[kv_tokens]`: positions of keys in that sequence.
    KeyPositions,
}

/// The tables of stock variants: variant, parameter, table.
const STOCK: [(&str, &str, Table); 26] = [
    ("documents", "of_query", Table::QueryDocuments),
    ("documents", "of_key", Table::KeyDocuments),
    ("causal_documents", "start", Table::QueryDocumentStarts),
    ("packed_documents", "start_of_query", Table::QueryDocumentStarts),
    ("packed_documents", "start_of_key", Table::KeyDocumentStarts),
    ("document_spans", "start", Table::WindowStarts),
    ("document_spans", "end", Table::WindowEnds),
    ("image_spans", "of_query", Table::QueryImages),
    ("image_spans", "of_key", Table::KeyImages),
    ("flash_mask", "lower_start", Table::KeyDocumentEnds),
    ("flash_mask", "lower_end", Table::KvLens),
    ("flash_mask", "upper_start", Table::Zeros),
    ("flash_mask", "upper_end", Table::KeysBeforeDiagonal),
    ("global_window", "of_query", Table::GlobalQueries),
    ("global_window", "of_key", Table::GlobalKeys),
    ("prefix_lm", "prefix", Table::Prefixes),
    ("multi_item", "prefix_len", Table::Prefixes),
    ("multi_item", "item_start", Table::ItemStarts),
    ("shared_prefix", "offsets", Table::SharedOffsets),
    ("shared_prefix", "prefix_of", Table::SharedPrefixes),
    ("shared_prefix", "of_query", Table::SharedDocuments),
    ("tree", "ancestors", Table::Ancestors),
    ("block_mask", "blocks", Table::Blocks),
    ("custom_mask", "offset", Table::MaskOffsets),
    ("positions", "of_query", Table::QueryPositions),
    ("positions", "of_key", Table::KeyPositions),
];

/// The table of a parameter: as the case says, or as is known of the stock variant.
pub(super) fn of(case: &Case, variant: &str, field: &str) -> Option<Table> {
    let named = case.tables.get(&format!("{variant}.{field}")).copied();
    named.or_else(|| STOCK.iter().find(|(v, f, _)| (*v, *f) == (variant, field)).map(|(.., table)| *table))
}

impl Table {
    /// Its elements for a tensor of this shape, bools as 0 and 1; `None` if the shape is not that of the table.
    pub(super) fn elements(self, case: &Case, shape: &[i64]) -> Option<Vec<i64>> {
        let batch = Batch { qo_lens: case.qo_lens.to_vec(), kv_lens: case.all_kv_lens(), seed: case.seed };
        let all = self.made(&batch, shape)?;
        (all.len() as i64 == shape.iter().product::<i64>()).then_some(all)
    }

    fn made(self, batch: &Batch, shape: &[i64]) -> Option<Vec<i64>> {
        let (documents, images) = (batch.cuts(Cuts::documents), batch.cuts(Cuts::images));
        // documents of all requests are numbered together, with a gap between requests
        let before: Vec<i64> =
            documents.iter().scan(0, |sum, cuts| Some(std::mem::replace(sum, *sum + cuts.len() as i64 + 1))).collect();
        let document = |at: &Token| before[at.request] + documents[at.request].index(at.pos) as i64;
        let span = |at: &Token| documents[at.request].span(at.pos);
        let image = |at: &Token| match images[at.request].index(at.pos) {
            text if text % 2 == 0 => -1,
            image => image as i64 / 2,
        };
        let global = |at: &Token| i64::from(at.pos < 4 || batch.random(at, 3000).below(64) == 0);
        let window = |at: &Token| {
            let mut random = batch.random(at, 4000);
            let (left, right) = (random.below(500) as i64, random.below(100) as i64);
            if random.below(16) == 0 { [at.pos, at.pos] } else { [(at.pos - left).max(0), at.pos + 1 + right] }
        };
        let position = |at: &Token| documents[at.request].index(at.pos) as i64 * 3 + at.pos;
        Some(match self {
            Table::QueryDocuments => batch.queries(document),
            Table::KeyDocuments => batch.keys(document),
            Table::QueryDocumentStarts => batch.queries(|at| span(at)[0]),
            Table::KeyDocumentStarts => batch.keys(|at| span(at)[0]),
            Table::KeyDocumentEnds => batch.keys(|at| span(at)[1]),
            Table::KeysBeforeDiagonal => batch.keys(|at| if document(at) % 2 == 0 { at.pos } else { span(at)[0] }),
            Table::KvLens => batch.keys(|at| i64::from(batch.kv_lens[at.request])),
            Table::Zeros => batch.keys(|_| 0),
            Table::WindowStarts => batch.queries(|at| window(at)[0]),
            Table::WindowEnds => batch.queries(|at| window(at)[1]),
            Table::QueryImages => batch.queries(image),
            Table::KeyImages => batch.keys(image),
            Table::GlobalQueries => batch.queries(global),
            Table::GlobalKeys => batch.keys(global),
            Table::Prefixes => (0..batch.requests()).map(|request| batch.prefix(request)).collect(),
            Table::ItemStarts => batch.queries(|at| span(at)[0].max(batch.prefix(at.request))),
            Table::QueryPositions => batch.queries(position),
            Table::KeyPositions => batch.keys(position),
            Table::SharedOffsets => maps::shared_offsets(batch, shape.first()? - 1),
            Table::SharedPrefixes => maps::shared_prefixes(*shape.first()?),
            Table::SharedDocuments => batch.queries(|at| maps::shared_document(batch, at.pos)),
            Table::Ancestors => maps::ancestors(batch, *shape.get(1)? as usize),
            Table::Blocks => maps::blocks(batch, shape),
            Table::MaskOffsets => maps::mask_offsets(batch),
        })
    }
}

/// A token of a request.
struct Token {
    request: usize,
    pos: i64,
}

/// The lengths that tables are made for.
struct Batch {
    qo_lens: Vec<u32>,
    kv_lens: Vec<u32>,
    seed: u64,
}

impl Batch {
    fn requests(&self) -> usize {
        self.qo_lens.len()
    }

    fn cuts(&self, make: fn(u32, &mut Random) -> Cuts) -> Vec<Cuts> {
        let of = |(request, &len): (usize, &u32)| make(len, &mut Random::new(self.seed, 2000 + request as u64));
        self.kv_lens.iter().enumerate().map(of).collect()
    }

    /// A stream of its own for each token.
    fn random(&self, at: &Token, stream: u64) -> Random {
        Random::new(self.seed, stream + at.request as u64 * 0x1_0000_0000 + at.pos as u64)
    }

    /// The keys of the prefix of a request.
    fn prefix(&self, request: usize) -> i64 {
        Random::new(self.seed, 5000 + request as u64).below(u64::from(self.kv_lens[request]) + 1) as i64
    }

    /// A value for each query, whose position counts from the end of the keys.
    fn queries(&self, of: impl Fn(&Token) -> i64) -> Vec<i64> {
        let lens = self.qo_lens.iter().zip(&self.kv_lens).enumerate();
        let tokens = lens.flat_map(|(request, (&qo, &kv))| {
            (0..qo).map(move |row| Token { request, pos: (i64::from(kv) - i64::from(qo) + i64::from(row)).max(0) })
        });
        tokens.map(|at| of(&at)).collect()
    }

    /// A value for each key.
    fn keys(&self, of: impl Fn(&Token) -> i64) -> Vec<i64> {
        let lens = self.kv_lens.iter().enumerate();
        let tokens = lens.flat_map(|(request, &kv)| (0..i64::from(kv)).map(move |pos| Token { request, pos }));
        tokens.map(|at| of(&at)).collect()
    }
}

#[cfg(test)]
mod tests;
