//! The kernels of indexers, emulated on the host with threads in random order, against the CPU: choices are equal, and
//! scores within a tolerance.

use attn_core::dtype::Dtype;
use attn_core::indexer::{ScoresMut, TopKLists, select_pages};
use attn_core::ops::{Array, ArrayMut};
use attn_core::tensor::{TensorMut, TensorRef};
use attn_kernels::launch::{FastDiv, IndexScoresParams, RowsParams, RowsPart, SCORE_UNIT, SelectParams, Strided};
use attn_kernels::splice::Op;
use attn_tests::indexer::{IndexCase, scores_of};
use attn_tests::simt::HostOp;

const OF_CTA: usize = 8;

/// Runs the kernel of scores. Returns scores, counts and the number of keys without a score.
fn emulated(host: &HostOp, case: &IndexCase, columns: usize, pages: &[i32]) -> (Vec<f32>, Vec<i32>, u32) {
    let rows = if case.block_size > 0 { case.heads } else { 1 };
    let mut scores = vec![-7.0f32; case.tokens() * rows * columns];
    let (mut counts, mut status) = (vec![9i32; case.tokens()], 0u32);
    let unit = if case.block_size > 0 { case.block_size } else { SCORE_UNIT as usize };
    let capacity = columns * if case.block_size > 0 { unit } else { 1 };
    let tiles = capacity.div_ceil(unit * OF_CTA).max(1);
    let (slot, page) = (case.dim as i64, (case.dim * case.page_size.max(1)) as i64);
    let pool = Strided { data: case.keys.as_ptr() as u64, token: slot, head: 0, page };
    let address = |paged: bool, of: &[i32]| if paged == (case.page_size > 0) { of.as_ptr() as u64 } else { 0 };
    let keys = RowsParams {
        part: [RowsPart { pool, dim: case.dim as i32, ..RowsPart::default() }, RowsPart::default()],
        indptr: address(false, &case.kv_indptr),
        positions: address(true, &case.kv_lens),
        page_indptr: address(true, &case.page_indptr),
        pages: pages.as_ptr() as u64,
        status: &raw mut status as u64,
        tokens: if case.page_size > 0 { 0 } else { (case.keys.len() / case.dim) as i64 },
        num_pages: case.num_pages() as i64,
        entries: pages.len() as i64,
        num_requests: case.lens.len() as i32,
        page_size: FastDiv::new(case.page_size.max(1) as u32),
        ..RowsParams::default()
    };
    let params = IndexScoresParams {
        keys,
        q: case.q.as_ptr() as u64,
        q_token: (case.heads * case.dim) as i64,
        q_head: case.dim as i64,
        weights: if case.block_size > 0 { 0 } else { case.weights.as_ptr() as u64 },
        weights_token: case.heads as i64,
        qo_indptr: case.qo_indptr.as_ptr() as u64,
        visible: case.given.as_ref().map_or(0, |given| given.as_ptr() as u64),
        scores: scores.as_mut_ptr() as u64,
        scores_token: (rows * columns) as i64,
        scores_head: columns as i64,
        counts: counts.as_mut_ptr() as u64,
        causal: i32::from(case.given.is_none()),
        columns: columns as i32,
        unit: unit as i32,
        tiles: tiles as i32,
        q_wide: 1,
        keys_wide: i32::from(case.page_size != 3),
    };
    // SAFETY: the arrays have the extents of the parameters.
    unsafe { host.run("attn_index_scores", &params, None, [(case.tokens() * tiles) as u32, 1], 0) };
    (scores, counts, status)
}

fn agree(name: &str, got: &[f32], want: &[f32]) {
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let near = (got - want).abs() <= 2e-5 * (1.0 + want.abs());
        assert!(near || got == want, "{name}, {i}: {got} is not {want}");
    }
}

/// Scores on the CPU.
fn on_cpu(case: &IndexCase, columns: usize) -> (Vec<f32>, Vec<i32>) {
    let rows = if case.block_size > 0 { case.heads } else { 1 };
    let mut scores = vec![-7.0f32; case.tokens() * rows * columns];
    let mut counts = vec![9i32; case.tokens()];
    let shape = [case.tokens(), rows, columns];
    let shape = if case.block_size > 0 { &shape[..] } else { &[shape[0], columns] };
    let mut out = ScoresMut::new(TensorMut::host(&mut scores, shape).expect("as many"), ArrayMut::host(&mut counts));
    scores_of(case, &mut out).expect("sound");
    (scores, counts)
}

#[test]
fn scores() {
    let shapes = [(64, 128), (13, 32), (1, 96)];
    let on = [("80", Dtype::Bf16, &shapes[..]), ("80", Dtype::F16, &shapes[1..2]), ("75", Dtype::Bf16, &shapes[1..])];
    for (arch, of, shapes) in on {
        for &(heads, dim) in shapes {
            for block_size in [0, 32, 128] {
                let folder = tempfile::tempdir().expect("a folder");
                let op = Op::IndexScores { of, heads: heads as u32, dim: dim as u32, blocks: block_size > 0 };
                let host = HostOp::compile_for(arch, op, "IndexScoresParams", folder.path());
                for page_size in [0, 3, 64] {
                    for given in [false, true] {
                        let case = IndexCase::new(of, heads, dim, block_size, page_size, given);
                        let name = format!("sm_{arch}, {of}, {heads} of {dim}, {block_size}, {page_size}, {given}");
                        let columns = if block_size > 0 { 1000usize.div_ceil(block_size) } else { 1000 };
                        let (want, want_counts) = on_cpu(&case, columns);
                        let (got, counts, status) = emulated(&host, &case, columns, &case.pages);
                        assert_eq!((counts, status), (want_counts, 0), "{name}");
                        agree(&name, &got, &want);
                    }
                }
            }
        }
    }
}

/// Keys outside of the pool are -inf, and those past the capacity are left out; both are counted.
#[test]
fn keys_without_a_place_are_counted() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    for (folder, block_size) in folders.iter().zip([0, 32]) {
        let case = IndexCase::new(Dtype::Bf16, 8, 32, block_size, 64, false);
        let op = Op::IndexScores { of: Dtype::Bf16, heads: 8, dim: 32, blocks: block_size > 0 };
        let host = HostOp::compile(op, "IndexScoresParams", folder.path());
        let columns = if block_size > 0 { 20 } else { 640 };
        let mut pages = case.pages.clone();
        // the second page of the last request, whose query sees all of its keys
        let second = case.page_indptr[case.lens.len() - 1] as usize + 1;
        pages[second] = case.num_pages() as i32;
        let (scores, counts, status) = emulated(&host, &case, columns, &pages);
        let (_, last) = *case.lens.last().expect("a request");
        assert!(last > 640, "the last request is longer than the capacity");
        let token = case.qo_indptr[case.lens.len() - 1] as usize;
        let past: i64 = case.visible().iter().map(|visible| (*visible as i64 - 640).max(0)).sum();
        assert_eq!(i64::from(status), past + 64);
        assert_eq!(counts[token], columns as i32);
        let row = &scores[token * columns * if block_size > 0 { 8 } else { 1 }..][..columns];
        let unit = 640 / columns;
        for (i, score) in row.iter().enumerate() {
            let lost = (64..128).contains(&(i * unit));
            assert_eq!(lost, *score == f32::NEG_INFINITY, "{i}: {score}");
        }
    }
}

fn lists(case: &SelectCase) -> (Vec<i32>, Vec<i32>) {
    let rows = case.counts.len() * case.heads;
    let (mut lists, mut lens) = (vec![77; rows * case.capacity], vec![9; rows]);
    let scores = TensorRef::host(&case.scores, &[case.counts.len(), case.heads, case.columns]).expect("as many");
    let mut out = TopKLists::new(ArrayMut::host(&mut lists), ArrayMut::host(&mut lens));
    let [first, last] = case.always;
    select_pages(&scores, &Array::host(&case.counts), first, last, &mut out).expect("sound");
    (lists, lens)
}

struct SelectCase {
    scores: Vec<f32>,
    counts: Vec<i32>,
    heads: usize,
    columns: usize,
    capacity: usize,
    always: [usize; 2],
}

impl SelectCase {
    /// Rows of `count` scores, or fewer, NaN behind them. `kind` says how they are distributed.
    fn new(columns: usize, capacity: usize, always: [usize; 2], kind: u32) -> Self {
        let heads = 2;
        let counts: Vec<i32> = [columns, columns / 2, 0, columns.min(capacity), columns.min(capacity + 1), 1]
            .map(|count| count.min(columns) as i32)
            .to_vec();
        let mut state = (columns * 31 + capacity) as u32 + kind;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let mut scores = vec![f32::NAN; counts.len() * heads * columns];
        for (row, of_row) in scores.chunks_mut(columns).enumerate() {
            for score in &mut of_row[..counts[row / heads] as usize] {
                let x = random() as f32 / (1 << 24) as f32 - 0.5;
                *score = match kind {
                    0 => x,
                    // many ties, zeros of both signs
                    1 => (x * 6.0).round(),
                    // almost all alike
                    2 => 1.0 + (x * 3.0).round() * f32::EPSILON,
                    // every magnitude, infinities and NaN
                    3 => match random() % 11 {
                        0 => f32::INFINITY,
                        1 => f32::NEG_INFINITY,
                        2 => f32::NAN,
                        _ => f32::from_bits(random() << 8 | random() >> 16),
                    },
                    _ => 4.25,
                };
            }
        }
        SelectCase { scores, counts, heads, columns, capacity, always }
    }

    fn emulated(&self, host: &HostOp) -> (Vec<i32>, Vec<i32>) {
        let rows = self.counts.len() * self.heads;
        let (mut lists, mut lens) = (vec![77i32; rows * self.capacity], vec![9i32; rows]);
        let params = SelectParams {
            scores: self.scores.as_ptr() as u64,
            scores_token: (self.heads * self.columns) as i64,
            scores_head: self.columns as i64,
            counts: self.counts.as_ptr() as u64,
            lists: lists.as_mut_ptr() as u64,
            lens: lens.as_mut_ptr() as u64,
            heads: self.heads as i32,
            columns: self.columns as i32,
            capacity: self.capacity as i32,
            first: self.always[0] as i32,
            last: self.always[1] as i32,
            wide: i32::from(self.scores.as_ptr().addr().is_multiple_of(16) && self.columns.is_multiple_of(4)),
        };
        // SAFETY: the arrays have the extents of the parameters.
        unsafe { host.run("attn_select", &params, None, [rows as u32, 1], 0) };
        (lists, lens)
    }
}

#[test]
fn choices() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = HostOp::compile_for("75", Op::Select { cluster: false }, "SelectParams", folder.path());
    for kind in 0..5 {
        for (columns, capacity) in [(1, 1), (3, 7), (130, 16), (1000, 64), (2052, 2048), (5001, 700), (9000, 1)] {
            for always in [[0, 0], [0, 1], [2, 3]] {
                if always[0] + always[1] > capacity {
                    continue;
                }
                let case = SelectCase::new(columns, capacity, always, kind);
                let name = format!("{columns} scores, {capacity} of them, {always:?}, kind {kind}");
                assert!(case.emulated(&host) == lists(&case), "{name}");
            }
        }
    }
}

/// The arguments of a captured launch are sizes by capacity: rows of padding have no scores and empty lists.
#[test]
fn padding_has_no_scores() {
    let mut case = IndexCase::new(Dtype::Bf16, 4, 32, 32, 64, false);
    let tokens = case.tokens();
    case.qo_indptr.iter_mut().for_each(|sum| *sum = (*sum).min(1));
    let folder = tempfile::tempdir().expect("a folder");
    let op = Op::IndexScores { of: Dtype::Bf16, heads: 4, dim: 32, blocks: true };
    let host = HostOp::compile(op, "IndexScoresParams", folder.path());
    let (scores, counts, _) = emulated(&host, &case, 32, &case.pages);
    assert!(counts[1..].iter().all(|count| *count == 0) && counts[0] > 0 && counts.len() == tokens);
    assert!(scores[4 * 32..].iter().all(|score| *score == -7.0));
}
