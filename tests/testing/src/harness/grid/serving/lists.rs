//! Tensors that are written into an expression of the grid, as they must fit the case.

use attn::Variant;
use attn::stock::block_sparse::{Bsr, BsrMask};
use attn::stock::{BlockSparse, BlockSparseMasked};

use crate::{Case, random::Random};

/// The most blocks of a list.
const MOST: usize = 8;

/// The expression with key lists, and with a branch for each query head.
pub(super) fn written(expr: &str, case: &Case, random: &mut Random) -> String {
    let mut text = expr.to_owned();
    for (word, group) in [("HEADS", 1), ("GROUPS", case.qo_heads / case.kv_heads)] {
        if expr.contains(word) {
            let branch = |head: u32| (head / group + head / group / 3) % 2;
            let heads: Vec<String> = (0..case.qo_heads).map(|head| branch(head).to_string()).collect();
            text = text.replace(word, &heads.join(", "));
        }
    }
    if expr.contains("page_list") {
        text = text.replace("page_list", &page_list(case, random));
    }
    if expr.contains("token_list") {
        text = text.replace("token_list", &token_list(case, random));
    }
    if expr.contains("block_sparse_masked") {
        text = text.replace("block_sparse_masked", &block_sparse_masked(case, random));
    } else if expr.contains("block_sparse") {
        let sizes = [1, 4, 16, 5];
        let block = [sizes[random.below(4) as usize], sizes[random.below(4) as usize]];
        text = text.replace("block_sparse", &block_sparse(case, block, random));
    }
    text
}

/// A block-sparse matrix for each request, shared by all heads.
pub(super) fn block_sparse(case: &Case, block: [usize; 2], random: &mut Random) -> String {
    let matrices = matrices(case, block, random);
    let requests: Vec<[Bsr<'_>; 1]> = matrices.iter().map(|matrix| [matrix.bsr(block)]).collect();
    let requests: Vec<&[Bsr<'_>]> = requests.iter().map(<[_; 1]>::as_slice).collect();
    // the case's own blocks, each once
    BlockSparse::from_bsr(&requests)
        .map_or_else(|_| "block_sparse".to_owned(), |sparse| Variant::from(sparse).to_string())
}

/// The same with a bit for each logit of a block.
fn block_sparse_masked(case: &Case, random: &mut Random) -> String {
    let block = [4, 4];
    let matrices = matrices(case, block, random);
    let bits: Vec<Vec<bool>> = matrices
        .iter()
        .map(|matrix| (0..matrix.indices.len() * block[0] * block[1]).map(|_| random.below(2) == 1).collect())
        .collect();
    let masked = matrices.iter().zip(&bits).map(|(matrix, bits)| [(matrix.bsr(block), BsrMask::Bools(bits))]);
    let requests: Vec<[(Bsr<'_>, BsrMask<'_>); 1]> = masked.collect();
    let requests: Vec<&[(Bsr<'_>, BsrMask<'_>)]> = requests.iter().map(<[_; 1]>::as_slice).collect();
    BlockSparseMasked::from_bsr(&requests)
        .map_or_else(|_| "block_sparse_masked".to_owned(), |sparse| Variant::from(sparse).to_string())
}

/// The blocks of a request.
struct Matrix {
    columns: usize,
    indptr: Vec<i32>,
    indices: Vec<i32>,
}

impl Matrix {
    fn bsr(&self, block: [usize; 2]) -> Bsr<'_> {
        Bsr { block, columns: self.columns, indptr: &self.indptr, indices: &self.indices }
    }
}

fn matrices(case: &Case, [q_block, kv_block]: [usize; 2], random: &mut Random) -> Vec<Matrix> {
    let lens = case.qo_lens.to_vec().into_iter().zip(case.kv_lens.to_vec());
    let matrix = |(qo_len, kv_len): (u32, u32)| {
        let columns = (kv_len as usize).div_ceil(kv_block);
        let mut matrix = Matrix { columns, indptr: vec![0], indices: Vec::new() };
        for _ in 0..(qo_len as usize).div_ceil(q_block) {
            matrix.indices.extend(chosen(columns as u32, random).into_iter().map(|block| block as i32));
            matrix.indptr.push(matrix.indices.len() as i32);
        }
        matrix
    };
    lens.map(matrix).collect()
}

/// A list for each request and KV head, of pages of any size.
fn page_list(case: &Case, random: &mut Random) -> String {
    let page_size = [16, 1, 5, 64][random.below(4) as usize];
    let (mut pages, mut counts) = (Vec::new(), Vec::new());
    for kv_len in case.kv_lens.to_vec() {
        let blocks = kv_len.div_ceil(page_size);
        let lists: Vec<_> = (0..case.kv_heads).map(|_| list(blocks, random)).collect();
        counts.push(bracketed(lists.iter().map(|(_, count)| count.to_string())));
        pages.push(bracketed(lists.into_iter().map(|(list, _)| list)));
    }
    let (pages, counts) = (bracketed(pages.into_iter()), bracketed(counts.into_iter()));
    format!("page_list(page_size={page_size}, max_pages={MOST}, pages={pages}, count={counts})")
}

/// A list for each query.
fn token_list(case: &Case, random: &mut Random) -> String {
    let (mut tokens, mut counts) = (Vec::new(), Vec::new());
    for (qo_len, kv_len) in case.qo_lens.to_vec().into_iter().zip(case.kv_lens.to_vec()) {
        for _ in 0..qo_len {
            let (list, count) = list(kv_len, random);
            tokens.push(list);
            counts.push(count.to_string());
        }
    }
    let (tokens, counts) = (bracketed(tokens.into_iter()), bracketed(counts.into_iter()));
    format!("token_list(max_tokens={MOST}, tokens={tokens}, count={counts})")
}

/// A list of [`MOST`] entries, and how many are used; the others are 0.
fn list(blocks: u32, random: &mut Random) -> (String, usize) {
    let mut chosen = chosen(blocks, random);
    let count = chosen.len();
    chosen.resize(MOST, 0);
    (bracketed(chosen.iter().map(u64::to_string)), count)
}

/// Up to [`MOST`] of `blocks` blocks, each once.
fn chosen(blocks: u32, random: &mut Random) -> Vec<u64> {
    let count = random.below(u64::from(blocks).min(MOST as u64) + 1) as usize;
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count {
        let block = random.below(blocks.into());
        if !chosen.contains(&block) {
            chosen.push(block);
        }
    }
    chosen
}

fn bracketed(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}
