//! The mainloop of the fast path: one Q tile against one KV range, for one KV head.

use super::checked_problem::CheckedProblem;
use super::key_run::KeyRun;
use super::math::{LANES, Matrix, Simd, dot, matmul};
use super::problem::BLOCK;
use super::softmax_step::RowLogits;
use crate::lang::{Hook, QueryTile, RowIndex, Tile, TileClass};
use crate::state::State;

/// A work tile: rows of Q and a range of keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkTile {
    /// First request of the rows.
    pub(super) request: usize,
    /// Number of requests, up to the last that has rows here; all of them have the keys.
    pub(super) requests: usize,
    pub(super) kv_head: usize,
    /// PackGQA rows `first_row .. first_row + rows`, counted from the first row of `request`.
    pub(super) first_row: usize,
    pub(super) rows: usize,
    /// KV range; of virtual keys if keys come from a list.
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// Buffers of one thread; after [`TileBuffers::run`] they hold the partial state of each row. Rows of Q and K are
/// padded with zeros to `width` elements, rows of V and O to `value_width`.
pub(super) struct TileBuffers {
    simd: Simd,
    width: usize,
    value_width: usize,
    q: Vec<f32>,
    keys: Vec<f32>,
    keys_by_dim: Vec<f32>,
    values: Vec<f32>,
    /// `[rows][BLOCK]`: S of a block of keys, then P.
    logits: Vec<f32>,
    keep: Vec<bool>,
    /// The keys of the columns of a block.
    runs: Vec<KeyRun>,
    denominators: Vec<f32>,
    /// `[rows][value_width]`: unnormalised output, P times V.
    pub(super) o: Vec<f32>,
    pub(super) states: Vec<State>,
}

impl TileBuffers {
    /// Buffers for keys and values of `dims` elements.
    pub(super) fn new(dims: [usize; 2]) -> Self {
        let [width, value_width] = dims.map(|dim| dim.next_multiple_of(LANES));
        TileBuffers {
            simd: Simd::detect(),
            width,
            value_width,
            q: Vec::new(),
            keys: vec![0.0; BLOCK * width],
            keys_by_dim: vec![0.0; BLOCK * width],
            values: vec![0.0; BLOCK * value_width],
            logits: Vec::new(),
            keep: Vec::new(),
            runs: Vec::new(),
            denominators: vec![0.0; BLOCK],
            o: Vec::new(),
            states: Vec::new(),
        }
    }

    /// Distance between rows of `o`, in elements.
    pub(super) fn value_width(&self) -> usize {
        self.value_width
    }

    /// Computes the partial state of every row of the tile over its KV range.
    pub(super) fn run(&mut self, problem: &CheckedProblem<'_>, tile: WorkTile) {
        self.start(problem, tile);
        let has_mask = problem.variant.has(Hook::LogitsMask);
        let list = problem.lists.map(|lists| {
            let at = tile.row(problem, 0);
            (lists, at, lists.keys(at))
        });
        let end = list.map_or(tile.end, |(_, _, len)| tile.end.min(usize::try_from(len).unwrap_or(usize::MAX)));
        for begin in (tile.begin..end).step_by(BLOCK) {
            let len = BLOCK.min(end - begin);
            self.runs.clear();
            let class = match list {
                None => {
                    self.runs.push(KeyRun { column: 0, key: begin, len, slot: 0 });
                    class(problem, tile, begin, len)
                }
                Some((lists, at, _)) => {
                    let keys = (begin..begin + len).filter_map(|v| lists.key(at, v as u64));
                    keys.for_each(|(key, slot)| self.push(key, if problem.reads_kv_slot { slot } else { 0 }));
                    TileClass::Partial
                }
            };
            let columns = self.runs.last().map_or(0, |run| run.column + run.len);
            if class != TileClass::Skip && columns > 0 {
                self.block(problem, tile, columns, class == TileClass::Partial && has_mask);
            }
        }
    }

    /// Appends a key to the block.
    fn push(&mut self, key: usize, slot: i32) {
        let column = match self.runs.last_mut() {
            Some(run) if run.key + run.len == key && run.slot == slot => {
                run.len += 1;
                return;
            }
            last => last.map_or(0, |run| run.column + run.len),
        };
        self.runs.push(KeyRun { column, key, len: 1, slot });
    }

    fn start(&mut self, problem: &CheckedProblem<'_>, tile: WorkTile) {
        let head_dim = problem.heads.head_dim as usize;
        self.q.clear();
        self.q.resize(tile.rows * self.width, 0.0);
        self.o.clear();
        self.o.resize(tile.rows * self.value_width, 0.0);
        self.logits.resize(tile.rows * BLOCK, 0.0);
        self.keep.resize(tile.rows * BLOCK, true);
        self.states.clear();
        self.states.resize(tile.rows, State::EMPTY);
        if tile.begin < tile.end {
            for (i, row) in self.q.chunks_exact_mut(self.width).enumerate() {
                problem.query(tile.row(problem, i), &mut row[..head_dim]);
            }
        }
    }

    fn block(&mut self, problem: &CheckedProblem<'_>, tile: WorkTile, columns: usize, masked: bool) {
        let finite = self.load(problem, tile, masked);
        self.gemm_qk(tile.rows, columns, problem.row_invariant);
        for i in 0..tile.rows {
            let mut row = RowLogits {
                problem,
                simd: self.simd,
                at: tile.row(problem, i),
                runs: &self.runs,
                logits: &mut self.logits[i * BLOCK..][..columns],
                keep: masked.then_some(&mut self.keep[i * BLOCK..][..columns]),
                denominators: &mut self.denominators[..columns],
            };
            row.softmax_step(&mut self.states[i], &mut self.o[i * self.value_width..][..self.value_width]);
        }
        if finite {
            let (weights, values) = (Matrix(&self.logits, BLOCK), Matrix(&self.values, self.value_width));
            let sizes = [tile.rows, columns, self.value_width];
            matmul(self.simd, weights, values, &mut self.o, self.value_width, sizes);
        } else {
            self.gemm_pv_attended(tile.rows, columns);
        }
    }

    /// Loads keys and values of a block. Returns whether all values of a masked block are finite; true for other
    /// blocks.
    fn load(&mut self, problem: &CheckedProblem<'_>, tile: WorkTile, masked: bool) -> bool {
        let head_dim = problem.heads.head_dim as usize;
        let mut finite = true;
        for (column, key) in self.runs.iter().flat_map(KeyRun::keys) {
            let row = column * self.width..column * self.width + head_dim;
            problem.key(tile.request, key, tile.kv_head, &mut self.keys[row]);
            let value = &mut self.values[column * self.value_width..][..problem.value_dim];
            problem.value(tile.request, key, tile.kv_head, value);
            finite &= !masked || value.iter().fold(true, |finite, x| finite & x.is_finite());
        }
        finite
    }

    /// S = Q times K^T, not yet scaled. `invariant`: in the same order of sums for any number of rows.
    fn gemm_qk(&mut self, rows: usize, len: usize, invariant: bool) {
        if rows <= 4 && !invariant {
            // too few rows to pay for transposing the keys
            for (q, logits) in self.q.chunks_exact(self.width).zip(self.logits.chunks_exact_mut(BLOCK)) {
                for (k, logit) in self.keys.chunks_exact(self.width).zip(&mut logits[..len]) {
                    *logit = dot(self.simd, q, k);
                }
            }
            return;
        }
        // four keys at a time, so that consecutive writes share cache lines
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

    /// Adds P times V without touching the values of masked keys: 0 times NaN is NaN.
    fn gemm_pv_attended(&mut self, rows: usize, len: usize) {
        for i in 0..rows {
            for c in (0..len).filter(|c| self.keep[i * BLOCK + c]) {
                let (weight, value) = (&self.logits[i * BLOCK + c..], &self.values[c * self.value_width..]);
                let o = &mut self.o[i * self.value_width..];
                let (weight, value) = (Matrix(weight, 1), Matrix(value, self.value_width));
                matmul(self.simd, weight, value, o, self.value_width, [1, 1, self.value_width]);
            }
        }
    }
}

impl WorkTile {
    /// The coordinates of one of its rows.
    pub(super) fn row(&self, problem: &CheckedProblem<'_>, row: usize) -> RowIndex {
        let (mut request, mut packed) = (self.request, self.first_row + row);
        if self.requests > 1 {
            let (ends, group) = (problem.layout.qo_indptr(), problem.heads.group() as usize);
            let token = ends[request] as usize + packed / group;
            // the last request that begins at or before the token: those in front of it at the same token have no
            // queries
            let of_token = ends.partition_point(|&end| end as usize <= token) - 1;
            packed -= (ends[of_token] - ends[request]) as usize * group;
            request = of_token;
        }
        problem.row_index(request, self.kv_head, packed)
    }
}

/// The tile class of a block, over the rows of all requests.
fn class(problem: &CheckedProblem<'_>, tile: WorkTile, begin: usize, len: usize) -> TileClass {
    let of_request = |first: RowIndex, last: RowIndex| {
        let (key, last_key) = (problem.logit_index(first, begin), problem.logit_index(last, begin + len - 1));
        problem.variant.refined_tile_class(Tile {
            rows: QueryTile::of(first, last, problem.heads.group() as i32),
            kv_pos_min: key.kv_pos,
            kv_pos_max: last_key.kv_pos,
            kv_token_min: key.kv_token,
            kv_token_max: last_key.kv_token,
        })
    };
    let (mut first, mut known) = (tile.row(problem, 0), None);
    let mut last = first;
    for row in (1..tile.rows).map(|row| tile.row(problem, row)) {
        if row.batch != first.batch {
            known = both(known, of_request(first, last));
            first = row;
        }
        last = row;
    }
    both(known, of_request(first, last)).unwrap_or(TileClass::Partial)
}

/// The class that holds for both requests.
fn both(known: Option<TileClass>, class: TileClass) -> Option<TileClass> {
    if known.is_none_or(|known| known == class) { Some(class) } else { Some(TileClass::Partial) }
}
