//! One query tile against one span of keys, for one KV head: the inner loop of the working path.

use super::{
    math::{LANES, Matrix, Simd, dot, exp_sum, matmul, scale},
    problem::{BLOCK, Sound},
};
use crate::{
    lang::{Hook, LogitIndex, Normalizer, QueryTile, Tile, TileClass},
    state::{State, exp_below},
};

/// Which tile, and which keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) request: usize,
    pub(super) kv_head: usize,
    /// Packed rows `first_row .. first_row + rows`.
    pub(super) first_row: usize,
    pub(super) rows: usize,
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// Buffers of one thread, and after [`Scratch::run`] the unfinished state of each row. Rows are padded with zeros to `width` values.
pub(super) struct Scratch {
    simd: Simd,
    width: usize,
    q: Vec<f32>,
    keys: Vec<f32>,
    keys_by_dim: Vec<f32>,
    values: Vec<f32>,
    logits: Vec<f32>,
    keep: Vec<bool>,
    /// Sums of weight times value.
    pub(super) o: Vec<f32>,
    pub(super) states: Vec<State>,
}

/// A block of keys.
#[derive(Clone, Copy)]
struct Block {
    begin: usize,
    len: usize,
    masked: bool,
}

impl Scratch {
    pub(super) fn new(head_dim: usize) -> Self {
        let width = head_dim.next_multiple_of(LANES);
        Scratch {
            simd: Simd::detect(),
            width,
            q: Vec::new(),
            keys: vec![0.0; BLOCK * width],
            keys_by_dim: vec![0.0; BLOCK * width],
            values: vec![0.0; BLOCK * width],
            logits: Vec::new(),
            keep: Vec::new(),
            o: Vec::new(),
            states: Vec::new(),
        }
    }

    /// Distance between rows of `o`.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Computes the unfinished state of every row of the tile over the span.
    pub(super) fn run(&mut self, problem: &Sound<'_>, span: Span) {
        self.start(problem, span);
        for begin in (span.begin..span.end).step_by(BLOCK) {
            let len = BLOCK.min(span.end - begin);
            let class = problem.variant.tile_class(tile(problem, span, begin, len));
            if class != TileClass::Skip {
                let masked = class == TileClass::Partial && problem.variant.has(Hook::LogitsMask);
                self.block(problem, span, Block { begin, len, masked });
            }
        }
    }

    fn start(&mut self, problem: &Sound<'_>, span: Span) {
        let head_dim = problem.heads.head_dim as usize;
        self.q.clear();
        self.q.resize(span.rows * self.width, 0.0);
        self.o.clear();
        self.o.resize(span.rows * self.width, 0.0);
        self.logits.resize(span.rows * BLOCK, 0.0);
        self.keep.resize(span.rows * BLOCK, true);
        self.states.clear();
        self.states.resize(span.rows, State::EMPTY);
        if span.begin < span.end {
            for (i, row) in self.q.chunks_exact_mut(self.width).enumerate() {
                problem.query(span.request, span.kv_head, span.first_row + i, &mut row[..head_dim]);
            }
        }
    }

    fn block(&mut self, problem: &Sound<'_>, span: Span, block: Block) {
        let finite = self.load(problem, span, block);
        self.products(span.rows, block.len);
        for i in 0..span.rows {
            let row = problem.row_index(span.request, span.kv_head, span.first_row + i);
            self.weights(problem, i, problem.logit_index(row, block.begin), block);
        }
        if finite {
            let (weights, values) = (Matrix(&self.logits, BLOCK), Matrix(&self.values, self.width));
            matmul(self.simd, weights, values, &mut self.o, self.width, [span.rows, block.len, self.width]);
        } else {
            self.add_attended(span.rows, block.len);
        }
    }

    /// Loads keys and values of a block. Whether all values are finite, which only a masked block needs to know.
    fn load(&mut self, problem: &Sound<'_>, span: Span, block: Block) -> bool {
        let head_dim = problem.heads.head_dim as usize;
        let mut finite = true;
        for c in 0..block.len {
            let row = c * self.width..c * self.width + head_dim;
            problem.key(span.request, block.begin + c, span.kv_head, &mut self.keys[row.clone()]);
            let value = &mut self.values[row];
            problem.v.read(span.request, block.begin + c, span.kv_head, value);
            finite &= !block.masked || value.iter().fold(true, |finite, x| finite & x.is_finite());
        }
        finite
    }

    /// `logits = q . k`, not yet scaled.
    fn products(&mut self, rows: usize, len: usize) {
        if rows <= 4 {
            // too few rows to pay for turning the keys around
            for (q, logits) in self.q.chunks_exact(self.width).zip(self.logits.chunks_exact_mut(BLOCK)) {
                for (k, logit) in self.keys.chunks_exact(self.width).zip(&mut logits[..len]) {
                    *logit = dot(self.simd, q, k);
                }
            }
            return;
        }
        // four rows of keys at a time, so that the writes are not all to different cache lines
        for c in (0..len).step_by(4) {
            for c in c..(c + 4).min(len) {
                for (d, x) in self.keys[c * self.width..][..self.width].iter().enumerate() {
                    self.keys_by_dim[d * BLOCK + c] = *x;
                }
            }
        }
        self.logits[..rows * BLOCK].fill(0.0);
        let (q, k) = (Matrix(&self.q, self.width), Matrix(&self.keys_by_dim, BLOCK));
        let columns = len.next_multiple_of(LANES);
        matmul(self.simd, q, k, &mut self.logits, BLOCK, [rows, self.width, columns]);
    }

    /// Turns one row of products into weights, and brings its state up to date.
    fn weights(&mut self, problem: &Sound<'_>, i: usize, at: LogitIndex, block: Block) {
        let (simd, variant) = (self.simd, problem.variant);
        let logits = &mut self.logits[i * BLOCK..][..block.len];
        let keep = &mut self.keep[i * BLOCK..][..block.len];
        scale(simd, logits, problem.sm_scale);
        variant.logits_tile(logits, at);
        let plain = matches!(variant.normalizer(), Normalizer::Plain { .. });
        if plain {
            variant.weight_tile(logits, 0.0, at);
        }
        if block.masked {
            keep.fill(true);
            variant.mask_tile(keep, at);
            let masked = if plain { 0.0 } else { f32::NEG_INFINITY };
            for (logit, keep) in logits.iter_mut().zip(&*keep) {
                *logit = if *keep { *logit } else { masked };
            }
        }
        let state = &mut self.states[i];
        if plain {
            let sum: f32 = logits.iter().sum();
            *state = State { row_max: 0.0, denominator: state.denominator + sum };
            return;
        }
        let mut row_max = logits.iter().fold(state.row_max, |max, logit| max.max(*logit));
        if row_max == f32::NEG_INFINITY {
            if !logits.iter().any(|logit| logit.is_nan()) {
                logits.fill(0.0);
                return;
            }
            row_max = 0.0; // an attended NaN must show
        }
        let rescale = exp_below(state.row_max, row_max);
        let sum = exp_sum(simd, logits, row_max);
        *state = State { row_max, denominator: state.denominator * rescale + sum };
        if rescale != 1.0 {
            scale(simd, &mut self.o[i * self.width..][..self.width], rescale);
        }
    }

    /// As the product of weights and values, but what is masked is not touched: 0 times NaN is NaN.
    fn add_attended(&mut self, rows: usize, len: usize) {
        for i in 0..rows {
            for c in (0..len).filter(|c| self.keep[i * BLOCK + c]) {
                let (weight, value) = (&self.logits[i * BLOCK + c..], &self.values[c * self.width..]);
                let o = &mut self.o[i * self.width..];
                let (weight, value) = (Matrix(weight, 1), Matrix(value, self.width));
                matmul(self.simd, weight, value, o, self.width, [1, 1, self.width]);
            }
        }
    }
}

/// The rectangle of logits of a block, as `tile_class` sees it.
fn tile(problem: &Sound<'_>, span: Span, begin: usize, len: usize) -> Tile {
    let first = problem.row_index(span.request, span.kv_head, span.first_row);
    let last = problem.row_index(span.request, span.kv_head, span.first_row + span.rows - 1);
    let (key, last_key) = (problem.logit_index(first, begin), problem.logit_index(last, begin + len - 1));
    Tile {
        rows: QueryTile::of(first, last, problem.heads.group() as i32),
        kv_pos_min: key.kv_pos,
        kv_pos_max: last_key.kv_pos,
        kv_token_min: key.kv_token,
        kv_token_max: last_key.kv_token,
    }
}
