//! Rows 18 and 55: key lists and block masks.

use attn_core::Variant;
use attn_core::lang::{AttentionVariant, LogitIndex, RowIndex, Tensor3, Tensor4};
use attn_core::{VariantParams, attention_variant};
use attn_variants::block_sparse::{Bsr, BsrMask};
use attn_variants::{BlockSparse, BlockSparseMasked};

use super::table::Table;
use crate::catalogue::cpu_cases::short;
use crate::catalogue::{Entry, Instance};
use crate::reference::{At, Formula, Shape, causal};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(18, "VSA: blocks by block of queries", block_lists),
        Entry::new(55, "Quest: pages", pages),
        Entry { cases: short, ..Entry::new(55, "DSA: tokens", tokens) },
        Entry::new(55, "blocks of a sparse matrix", matrix),
        Entry::new(55, "blocks of a sparse matrix of each head", matrices),
        Entry { cases: short, ..Entry::new(55, "blocks of a sparse matrix, and masks in them", masked_matrix) },
        Entry::new(55, "MoBA: blocks by a table", moba),
        Entry::new(55, "NSA: blocks by a table, and a window", nsa),
    ]
}

/// The largest query length and the largest KV length.
fn longest(shape: &Shape) -> (i64, i64) {
    shape.lens.iter().fold((1, 1), |(a, b), &(qo, kv)| (a.max(qo), b.max(kv)))
}

/// The lists padded with zeros to the longest, their lengths, and the length of the longest.
fn lists(heads: &[i64], list: impl Fn(&[i64]) -> Vec<i64>) -> (Table, Table, i64) {
    let longest = std::cell::Cell::new(1);
    let count = Table::new(heads, |at| {
        let len = list(at).len() as i64;
        longest.set(longest.get().max(len));
        len as f64
    });
    let capacity = longest.get();
    let shape = [heads, &[capacity]].concat();
    let (n, entry) = (heads.len(), |at: &[i64], i: i64| list(at).get(i as usize).copied().unwrap_or(0) as f64);
    (Table::new(&shape, |at| entry(&at[..n], at[n])), count, capacity)
}

/// Whether a head attends to a page of three keys.
fn page(b: i64, g: i64, page: i64) -> bool {
    (page * 7 + b + g * 5) % 3 != 1
}

fn pages(shape: &Shape) -> Instance {
    let lens: Vec<i64> = shape.lens.iter().map(|(_, kv)| *kv).collect();
    let list = |at: &[i64]| {
        let pages = (lens[at[0] as usize] + 2) / 3;
        (0..pages).rev().filter(|p| page(at[0], at[1], *p)).collect::<Vec<i64>>()
    };
    let (pages, count, capacity) = lists(&[shape.batch(), shape.kv_heads], list);
    let expr = format!("causal + page_list(page_size=3, max_pages={capacity}, pages={pages}, count={count})");
    Instance::new(expr, Formula::masked(|at| causal(at) && page(at.b, at.g, at.j / 3)))
}

/// Whether a block of queries attends to a block of keys.
fn entry(b: i64, g: i64, row: i64, column: i64) -> bool {
    (column * 5 + b * 3 + g * 7 + row * 2) % 4 < 2
}

/// The (indptr, indices) of each BSR matrix of a shape, by request and head. The blocks of a row are in descending
/// order.
fn rows_of(shape: &Shape, [queries, keys]: [i64; 2], heads: i64) -> Vec<Vec<(Vec<i32>, Vec<i32>)>> {
    let lens = shape.lens.iter().enumerate();
    let of = |(b, (qo, kv)): (usize, &(i64, i64))| {
        let matrix = |g: i64| {
            let (mut indptr, mut indices) = (vec![0], Vec::new());
            for row in 0..(qo + queries - 1) / queries {
                let columns = (0..(kv + keys - 1) / keys).rev();
                indices.extend(columns.filter(|column| entry(b as i64, g, row, *column)).map(|column| column as i32));
                indptr.push(indices.len() as i32);
            }
            (indptr, indices)
        };
        (0..heads).map(matrix).collect()
    };
    lens.map(of).collect()
}

fn of_matrices(shape: &Shape, block: [i64; 2], heads: i64) -> BlockSparse {
    let rows = rows_of(shape, block, heads);
    let size = block.map(|n| n as usize);
    let columns = |b: usize| (shape.lens[b].1 as usize).div_ceil(size[1]);
    let matrices: Vec<Vec<Bsr<'_>>> = (rows.iter().enumerate())
        .map(|(b, heads)| {
            heads.iter().map(|(indptr, indices)| Bsr { block: size, columns: columns(b), indptr, indices }).collect()
        })
        .collect();
    BlockSparse::from_bsr(&matrices.iter().map(Vec::as_slice).collect::<Vec<_>>()).expect("sound")
}

/// Blocks of 5 queries and 16 keys, which all heads share.
fn matrix(shape: &Shape) -> Instance {
    let expr = format!("causal + {}", Variant::from(of_matrices(shape, [5, 16], 1)));
    Instance::new(expr, Formula::masked(|at| causal(at) && entry(at.b, 0, at.row / 5, at.j / 16)))
}

/// Blocks of 3 queries and 7 keys, different for each KV head.
fn matrices(shape: &Shape) -> Instance {
    let expr = Variant::from(of_matrices(shape, [3, 7], shape.kv_heads)).to_string();
    Instance::new(expr, Formula::masked(|at| entry(at.b, at.g, at.row / 3, at.j / 7)))
}

/// Whether the mask inside of a block keeps a logit.
fn inside(b: i64, query: i64, key: i64) -> bool {
    (query * 3 + key * 5 + b) % 7 < 4
}

fn masked_matrix(shape: &Shape) -> Instance {
    let (block, size) = ([6, 4], [6, 4]);
    let rows = rows_of(shape, block, 1);
    let mask = |b: usize, (indptr, indices): &(Vec<i32>, Vec<i32>)| -> Vec<bool> {
        let of_row = |row: usize| {
            indices[indptr[row] as usize..indptr[row + 1] as usize].iter().map(move |column| (row, *column))
        };
        let entries = (0..indptr.len() - 1).flat_map(of_row);
        let logits = entries
            .flat_map(|(row, column)| (0..24).map(move |i| (row as i64 * 6 + i / 4, i64::from(column) * 4 + i % 4)));
        logits.map(|(query, key)| inside(b as i64, query, key)).collect()
    };
    let masks: Vec<Vec<bool>> = rows.iter().enumerate().map(|(b, heads)| mask(b, &heads[0])).collect();
    let requests: Vec<[(Bsr<'_>, BsrMask<'_>); 1]> = (rows.iter().zip(&masks).zip(&shape.lens))
        .map(|((heads, mask), (_, kv))| {
            let (indptr, indices) = &heads[0];
            [(Bsr { block: size, columns: (*kv as usize).div_ceil(4), indptr, indices }, BsrMask::Bools(mask))]
        })
        .collect();
    let masked = BlockSparseMasked::from_bsr(&requests.iter().map(|one| &one[..]).collect::<Vec<_>>()).expect("sound");
    let formula = Formula::masked(|at| entry(at.b, 0, at.row / 6, at.j / 4) && inside(at.b, at.row, at.j));
    Instance::new(Variant::from(masked).to_string(), formula)
}

/// Whether a query attends to a key.
fn token(i: i64, j: i64) -> bool {
    (j * 5 + i * 3) % 4 == 0
}

fn tokens(shape: &Shape) -> Instance {
    let lens = shape.lens.clone();
    let position = shape.per_query(|b, i| (b, i));
    let list = |at: &[i64]| {
        let (b, i) = position[at[0] as usize];
        (0..lens[b as usize].1).rev().filter(|j| token(i, *j)).collect::<Vec<i64>>()
    };
    let (tokens, count, capacity) = lists(&[shape.qo_tokens()], list);
    let expr = format!("causal + token_list(max_tokens={capacity}, tokens={tokens}, count={count})");
    Instance::new(expr, Formula::masked(|at| causal(at) && token(at.i, at.j)))
}

/// VSA's fine branch: lists of key blocks per query block, where key blocks may be partly filled (arXiv 2505.13389).
///
/// Queries from `b * q_block` on attend to the key blocks `blocks[batch, kv_head, b, n]`, `n < count[.., b]`, and in
/// each block to its first `filled[batch, block]` keys.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct BlockLists {
    /// Queries that share a list.
    #[require(q_block >= 1)]
    pub q_block: i32,
    /// Keys of a block.
    #[require(kv_block >= 1)]
    pub kv_block: i32,
    /// Number of lists of a request and head.
    #[require(q_blocks >= 1)]
    pub q_blocks: i32,
    /// Number of blocks that a list can hold.
    #[require(capacity >= 1)]
    pub capacity: i32,
    /// Number of key blocks of a request.
    #[require(kv_blocks >= 1)]
    pub kv_blocks: i32,
    /// The lists.
    #[shape(batch, kv_heads, q_blocks, capacity)]
    #[require(blocks.as_slice().iter().all(|&block| block >= 0))]
    pub blocks: Tensor4<i32>,
    /// The length of each list.
    #[shape(batch, kv_heads, q_blocks)]
    #[require(count.as_slice().iter().all(|&n| n >= 0 && n <= capacity))]
    pub count: Tensor3<i32>,
    /// Number of valid keys of each block.
    #[shape(batch, 1, kv_blocks)]
    pub filled: Tensor3<i32>,
}

#[attention_variant(name = "block_lists")]
impl AttentionVariant for BlockLists {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos % self.kv_block < self.filled[[at.batch, 0, at.kv_pos / self.kv_block]]
    }

    fn kv_list_len(&self, at: RowIndex) -> i32 {
        self.count[[at.batch, at.kv_head, at.qo_row / self.q_block]]
    }

    fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        self.blocks[[at.batch, at.kv_head, at.qo_row / self.q_block, n]]
    }

    fn kv_list_block_size(&self) -> i32 {
        self.kv_block
    }

    fn kv_list_queries(&self) -> i32 {
        self.q_block
    }
}

fn block_lists(shape: &Shape) -> Instance {
    let lens: Vec<i64> = shape.lens.iter().map(|(_, kv)| *kv).collect();
    let (qo, kv) = longest(shape);
    let (q_blocks, kv_blocks) = (qo / 4 + 1, kv / 5 + 1);
    let chosen = |b: i64, g: i64, q: i64, block: i64| (block * 5 + b * 2 + g + q * 3) % 4 < 2;
    let list = |at: &[i64]| {
        let blocks = (lens[at[0] as usize] + 4) / 5;
        (0..blocks).rev().filter(|block| chosen(at[0], at[1], at[2], *block)).collect::<Vec<i64>>()
    };
    let (blocks, count, capacity) = lists(&[shape.batch(), shape.kv_heads, q_blocks], list);
    let filled = Table::new(&[shape.batch(), 1, kv_blocks], |at| ((at[0] + at[2]) % 5 + 1) as f64);
    let sizes = format!("q_block=4, kv_block=5, q_blocks={q_blocks}, capacity={capacity}, kv_blocks={kv_blocks}");
    let expr = format!("block_lists({sizes}, blocks={blocks}, count={count}, filled={filled})");
    let mask = move |at: &At| {
        let block = at.j / 5;
        chosen(at.b, at.g, at.row / 4, block) && at.j - block * 5 <= (at.b + block) % 5
    };
    Instance::new(expr, Formula::masked(mask))
}

/// The expression of a block mask.
fn block_mask(shape: &Shape, q_block: i64, kv_block: i64, chosen: impl Fn(&[i64]) -> bool) -> String {
    let (qo, kv) = longest(shape);
    let (q_blocks, kv_blocks) = (qo / q_block + 1, kv / kv_block + 1);
    let blocks =
        Table::new(&[shape.batch(), shape.qo_heads, q_blocks, kv_blocks], |at| f64::from(u8::from(chosen(at))));
    let words = blocks.to_string().replace('0', "false").replace('1', "true");
    let sizes = format!("q_block={q_block}, kv_block={kv_block}, q_blocks={q_blocks}, kv_blocks={kv_blocks}");
    format!("block_mask({sizes}, blocks={words})")
}

/// MoBA: each query and head selects its blocks.
fn moba(shape: &Shape) -> Instance {
    let chosen = |at: &[i64]| (at[0] + at[1] * 3 + at[2] * 5 + at[3] * 11) % 3 == 0;
    let expr = format!("causal + {}", block_mask(shape, 1, 8, chosen));
    Instance::new(expr, Formula::masked(move |at| causal(at) && chosen(&[at.b, at.h, at.row, at.j / 8])))
}

/// NSA: the union of the selected blocks and the sliding window.
fn nsa(shape: &Shape) -> Instance {
    let chosen = |at: &[i64]| (at[0] * 2 + at[1] + at[2] * 7 + at[3] * 3) % 5 == 0;
    let expr = format!("causal + or({}, sliding_window(window=6))", block_mask(shape, 2, 16, chosen));
    let mask = move |at: &At| causal(at) && (at.i - at.j < 6 || chosen(&[at.b, at.h, at.row / 2, at.j / 16]));
    Instance::new(expr, Formula::masked(mask))
}
