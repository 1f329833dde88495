use attn::lang::{AttentionVariant, LogitIndex, RowIndex};

use super::{BlockMap, BlockSparse, Bsr, BsrMask, SparseError, VariableBlocks};
use crate::BlockSparseMasked;

const EYE: Bsr<'static> = Bsr { block: [3, 2], columns: 3, indptr: &[0, 2, 3], indices: &[2, 0, 1] };

/// The keys that a row attends to, by its list and the mask.
fn keys<V: AttentionVariant>(variant: &V, batch: i32, kv_head: i32, qo_row: i32, kv_len: i32) -> Vec<i32> {
    let row = RowIndex { batch, kv_head, qo_row, kv_len, ..RowIndex::default() };
    let first = RowIndex { qo_row: qo_row - qo_row % variant.kv_list_queries(), ..row };
    let size = variant.kv_list_block_size();
    let mut keys = Vec::new();
    for kv_slot in 0..variant.kv_list_len(first) {
        let block = variant.kv_list_block(first, kv_slot);
        let of_block = (block * size..(block + 1) * size).filter(|&key| key < kv_len);
        keys.extend(
            of_block.filter(|&kv_pos| variant.logits_mask(LogitIndex { row, kv_pos, kv_token: kv_pos, kv_slot })),
        );
    }
    keys.sort_unstable();
    keys
}

#[test]
fn rows_attend_to_the_keys_of_their_blocks() {
    let other = Bsr { indptr: &[0, 0, 1, 3], indices: &[0, 1, 2], columns: 3, ..EYE };
    let sparse = BlockSparse::from_bsr(&[&[EYE], &[other]]).expect("sound");
    assert_eq!(sparse.first.as_slice(), [0, 2, 5]);
    assert_eq!(keys(&sparse, 0, 0, 2, 5), [0, 1, 4]);
    assert_eq!(keys(&sparse, 0, 7, 3, 5), [2, 3], "one head's lists serve all");
    assert_eq!(keys(&sparse, 0, 0, 6, 5), [0; 0], "past the last row");
    assert_eq!((keys(&sparse, 1, 0, 1, 6), keys(&sparse, 1, 0, 8, 6)), (vec![], vec![2, 3, 4, 5]));
    let own = BlockSparse::from_bsr(&[&[EYE, Bsr { indptr: &[0, 1, 1], indices: &[1], ..EYE }]]).expect("sound");
    assert_eq!((keys(&own, 0, 0, 0, 6), keys(&own, 0, 1, 0, 6)), (vec![0, 1, 4, 5], vec![2, 3]));
    let none = BlockSparse::from_bsr(&[&[Bsr { indptr: &[0], indices: &[], ..EYE }]]).expect("no rows");
    assert_eq!(keys(&none, 0, 0, 0, 6), [0; 0]);
}

#[test]
fn every_malformed_array_is_named() {
    let error = |matrix: Bsr<'_>| BlockSparse::from_bsr(&[&[matrix]]).expect_err("malformed").to_string();
    assert_eq!(
        error(Bsr { block: [0, 2], ..EYE }),
        "blocks of 0 queries and 2 keys; both are at least 1, and below 2^30"
    );
    assert_eq!(error(Bsr { indptr: &[], ..EYE }), "`indptr` has 0 values; it takes 1");
    assert_eq!(error(Bsr { indptr: &[1, 3], ..EYE }), "`indptr` begins with 1; it begins with 0");
    assert_eq!(error(Bsr { indptr: &[0, 3, 2, 3], ..EYE }), "`indptr` falls from 3 to 2 at row 1");
    assert_eq!(error(Bsr { indptr: &[0, 2], ..EYE }), "`indptr` ends with 2; `indices` has 3 values");
    assert_eq!(error(Bsr { indices: &[2, 0, 3], ..EYE }), "row 1 names block 3; there are blocks 0 to 2");
    assert_eq!(error(Bsr { indices: &[2, -1, 1], ..EYE }), "row 0 names block -1; there are blocks 0 to 2");
    assert_eq!(error(Bsr { indices: &[2, 2, 1], ..EYE }), "row 0 names block 2 twice");
    assert_eq!(BlockSparse::from_bsr(&[]), Err(SparseError::Empty));
    let wide = Bsr { block: [3, 4], ..EYE };
    let differs = SparseError::Differs { request: 1, what: "keys a block", got: 4, want: 2 };
    assert_eq!(BlockSparse::from_bsr(&[&[EYE], &[wide]]), Err(differs));
    assert!(matches!(
        BlockSparse::from_bsr(&[&[EYE], &[EYE, EYE]]),
        Err(SparseError::Differs { what: "matrices", .. })
    ));
    let short = [true; 17];
    let masked = BlockSparseMasked::from_bsr(&[&[(EYE, BsrMask::Bools(&short))]]);
    assert_eq!(masked, Err(SparseError::Len { array: "mask", len: 17, want: 18 }));
    let map = BlockMap { block: [2, 2], heads: 2, rows: 1, columns: 2, attends: &[true; 3] };
    assert_eq!(BlockSparse::from_block_map(&[map]), Err(SparseError::Len { array: "attends", len: 3, want: 4 }));
}

#[test]
fn a_block_map_equals_its_bsr_matrix() {
    let attends = [true, false, true, false, true, false];
    let map = BlockMap { block: [3, 2], heads: 1, rows: 2, columns: 3, attends: &attends };
    let sorted = Bsr { indices: &[0, 2, 1], ..EYE };
    assert_eq!(BlockSparse::from_block_map(&[map]), BlockSparse::from_bsr(&[&[sorted]]));
}

#[test]
fn bool_masks_equal_packed_masks() {
    // (blocks, R, C), scipy's layout
    let on = |block: usize, query: usize, key: usize| (block * 5 + query * 3 + key) % 4 < 2;
    let bools: Vec<bool> = (0..18).map(|i| on(i / 6, i / 2 % 3, i % 2)).collect();
    let masked = BlockSparseMasked::from_bsr(&[&[(EYE, BsrMask::Bools(&bools))]]).expect("sound");
    for (row, block, number) in [(0, 2, 0), (0, 0, 1), (1, 1, 2)] {
        for query in 0..3 {
            let keys = keys(&masked, 0, 0, row * 3 + query, 6);
            for key in 0..2 {
                assert_eq!(
                    keys.contains(&(block * 2 + key)),
                    on(number, query as usize, key as usize),
                    "{row} {query} {block} {key}"
                );
            }
        }
    }
    // the mask of row 0 is (3, 2 blocks of 2), that of row 1 (3, 2); each begins at a whole byte
    let row = |blocks: &[usize]| {
        let mut bytes = Vec::new();
        let bits_of_blocks =
            (0..3).flat_map(|query| blocks.iter().flat_map(move |&block| (0..2).map(move |key| on(block, query, key))));
        crate::packed_bits::pack(bits_of_blocks, &mut bytes);
        bytes
    };
    let bytes = [row(&[0, 1]), row(&[2])].concat();
    let packed = BsrMask::Packed { bytes: &bytes, indptr: &[0, 2, 3] };
    assert_eq!(BlockSparseMasked::from_bsr(&[&[(EYE, packed)]]).as_ref(), Ok(&masked));
    let short = BsrMask::Packed { bytes: &bytes[..2], indptr: &[0, 1, 2] };
    let error = BlockSparseMasked::from_bsr(&[&[(EYE, short)]]).expect_err("a row is a byte short");
    assert_eq!(error, SparseError::Len { array: "packed_mask", len: 1, want: 2 });
}

#[test]
fn variable_blocks_equal_their_masked_form() {
    // two heads over 12 queries and 20 keys
    let attends = [true, false, true, false, true, false, false, true, true, true, false, true];
    let blocks = |row_sizes: &'static [i32], column_sizes: &'static [i32]| VariableBlocks {
        heads: 2,
        rows: 2,
        columns: 3,
        attends: &attends,
        row_sizes,
        column_sizes,
    };
    for (rows, columns, part) in
        [(&[4, 8, 8, 4], &[8, 4, 8, 4, 12, 4], [4, 4]), (&[5, 7, 0, 12], &[3, 0, 17, 9, 10, 1], [1, 1])]
    {
        let blocks = blocks(rows, columns);
        let exact = BlockSparse::variable(&blocks).expect("sound");
        assert_eq!([exact.q_block, exact.kv_block], part);
        let block_of = |sizes: &[i32], at: i32| {
            sizes
                .iter()
                .scan(0, |end, size| {
                    *end += size;
                    Some(*end)
                })
                .position(|end| at < end)
                .expect("inside")
        };
        for masked in
            [[4, 8], [5, 3], [16, 32]].map(|block| BlockSparseMasked::variable(&blocks, block).expect("sound"))
        {
            for (head, query) in (0..2).flat_map(|head| (0..12).map(move |query| (head, query))) {
                let row = block_of(&rows[head * 2..][..2], query);
                let want: Vec<i32> = (0..20)
                    .filter(|&key| attends[(head * 2 + row) * 3 + block_of(&columns[head * 3..][..3], key)])
                    .collect();
                assert_eq!(keys(&exact, 0, head as i32, query, 20), want, "head {head}, query {query}");
                assert_eq!(keys(&masked, 0, head as i32, query, 20), want, "head {head}, query {query}");
            }
        }
    }
    let error = |blocks: VariableBlocks<'_>| BlockSparse::variable(&blocks).expect_err("malformed").to_string();
    assert_eq!(error(blocks(&[4, 8, 8, 5], &[4; 6])), "`row_sizes` of head 1 adds up to 13, that of head 0 to 12");
    assert_eq!(
        error(blocks(&[4, 8, 8, 4], &[4, 4, 4, 4, -4, 12])),
        "`column_sizes` has the size -4 at 4; sizes are not negative"
    );
    assert_eq!(error(blocks(&[4, 8, 8], &[4; 6])), "`row_sizes` has 3 values; it takes 4");
}
