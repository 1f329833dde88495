//! `tests/data/masks.jsonl`: the masks on which derived tile classes are measured, one per line.

use std::collections::BTreeMap;

use attn_core::Variant;
use attn_core::lang::{Dims, LogitIndex, QueryTile, RowIndex, Tile, TileClass};
use serde::Deserialize;

use super::entry::{list, rows};

/// A mask: an expression whose `$names` stand for generated tensors.
#[derive(Clone, Debug, Deserialize)]
pub struct MaskLine {
    /// Row of the catalogue.
    pub row: u32,
    /// The name of the mask.
    pub name: String,
    /// What the classifier reads: `A`, the mask's source; `A+t`, also the minima and maxima of its tensors.
    pub skip: String,
    /// The expression.
    pub expr: String,
    /// Generators by name.
    #[serde(default)]
    pub tensors: BTreeMap<String, Generator>,
    /// Number of queries of the single request.
    #[serde(default = "size")]
    pub qo: i32,
    /// Number of keys of the single request.
    #[serde(default = "size")]
    pub kv: i32,
}

/// Generates the elements of a tensor.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Generator {
    /// The document index of each token, from the document lengths.
    Documents(Vec<i32>),
    /// The first position of each token's document, from the document lengths.
    Starts(Vec<i32>),
    /// `len` bools, true at the positions `at`.
    Marks {
        /// Number of bools.
        len: usize,
        /// Positions that are true.
        at: Vec<usize>,
    },
    /// Runs of `[count, first, step]`. The default step is 0.
    Runs(Vec<Vec<i32>>),
    /// `nodes` rows of bools: the ancestors of each node of a tree, including itself.
    Tree {
        /// Number of nodes.
        nodes: usize,
        /// Seed of the random parents.
        seed: u64,
    },
}

/// The tiles of a mask, and how many of them the derived classes find.
///
/// `*_at_once` counts a single classification, as in kernels; `*_found` counts refined classes, as in plans and on the
/// CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    pub tiles: usize,
    pub empty: usize,
    pub empty_at_once: usize,
    pub empty_found: usize,
    pub full: usize,
    pub full_at_once: usize,
    pub full_found: usize,
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(counts: I) -> Counts {
        counts.fold(Counts::default(), |a, b| Counts {
            tiles: a.tiles + b.tiles,
            empty: a.empty + b.empty,
            empty_at_once: a.empty_at_once + b.empty_at_once,
            empty_found: a.empty_found + b.empty_found,
            full: a.full + b.full,
            full_at_once: a.full_at_once + b.full_at_once,
            full_found: a.full_found + b.full_found,
        })
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counts { empty, empty_at_once, empty_found, full, full_at_once, full_found, .. } = self;
        match (empty_found == empty && full_found == full, empty_at_once == empty && full_at_once == full) {
            (_, true) => write!(f, "exact: {empty} empty, {full} full"),
            (true, _) => write!(f, "exact: {empty} empty, {full} full; at one look {empty_at_once}, {full_at_once}"),
            _ => write!(
                f,
                "{empty_found}/{empty} empty, {full_found}/{full} full; at one look {empty_at_once}, {full_at_once}"
            ),
        }
    }
}

/// Rows of a tile, and keys of a tile.
pub const TILE: i32 = 128;

fn size() -> i32 {
    2048
}

/// Every line of the file.
///
/// # Panics
/// A line is invalid.
pub fn masks() -> Vec<MaskLine> {
    let text = include_str!("../../data/masks.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

impl MaskLine {
    /// The bound variant with its generated tensors.
    ///
    /// # Panics
    /// The expression is invalid. The message names the line.
    pub fn variant(&self) -> Variant {
        let mut expr = self.expr.clone();
        for (name, generator) in &self.tensors {
            expr = expr.replace(&format!("${name}"), &generator.text());
        }
        let dims = Dims {
            qo_heads: Some(1),
            kv_heads: Some(1),
            head_dim: Some(64),
            value_dim: Some(64),
            batch: Some(1),
            qo_tokens: Some(self.qo.into()),
            kv_tokens: Some(self.kv.into()),
        };
        let variant = Variant::parse(&expr).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        variant.bind(&dims).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Compares the class of every tile with all of its elements.
    ///
    /// # Errors
    ///
    /// A description of the first wrong class.
    pub fn count(&self) -> Result<Counts, String> {
        let variant = self.variant();
        let mut counts = Counts::default();
        for first_row in (0..self.qo).step_by(TILE as usize) {
            let rows = first_row..(first_row + TILE).min(self.qo);
            for first_key in (0..self.kv).step_by(TILE as usize) {
                let keys = first_key..(first_key + TILE).min(self.kv);
                let (tile, truth) = (self.tile(&rows, &keys), self.truth(&variant, &rows, &keys));
                let (at_once, refined) = (variant.tile_class(tile), variant.refined_tile_class(tile));
                for class in [at_once, refined] {
                    if class != truth && class != TileClass::Partial {
                        let name = &self.name;
                        return Err(format!("{name}: queries {rows:?}, keys {keys:?} are {truth:?}, not {class:?}"));
                    }
                }
                counts.tiles += 1;
                let found = |class| usize::from(class == truth);
                match truth {
                    TileClass::Skip => {
                        counts.empty += 1;
                        counts.empty_at_once += found(at_once);
                        counts.empty_found += found(refined);
                    }
                    TileClass::Full => {
                        counts.full += 1;
                        counts.full_at_once += found(at_once);
                        counts.full_found += found(refined);
                    }
                    TileClass::Partial => {}
                }
            }
        }
        Ok(counts)
    }

    fn row(&self, row: i32) -> RowIndex {
        let qo_pos = row + self.kv - self.qo;
        RowIndex { qo_row: row, qo_token: row, qo_pos, qo_len: self.qo, kv_len: self.kv, ..RowIndex::default() }
    }

    fn tile(&self, rows: &std::ops::Range<i32>, keys: &std::ops::Range<i32>) -> Tile {
        Tile {
            rows: QueryTile::of(self.row(rows.start), self.row(rows.end - 1), 1),
            kv_pos_min: keys.start,
            kv_pos_max: keys.end - 1,
            kv_token_min: keys.start,
            kv_token_max: keys.end - 1,
        }
    }

    /// The class of a tile, from all of its elements.
    fn truth(&self, variant: &Variant, rows: &std::ops::Range<i32>, keys: &std::ops::Range<i32>) -> TileClass {
        let (mut some, mut all) = (false, true);
        let mut keep = [true; TILE as usize];
        for row in rows.clone() {
            let keep = &mut keep[..keys.len()];
            keep.fill(true);
            variant.mask_tile(
                keep,
                LogitIndex { row: self.row(row), kv_pos: keys.start, kv_token: keys.start, kv_slot: 0 },
            );
            some |= keep.contains(&true);
            all &= !keep.contains(&false);
            if some && !all {
                return TileClass::Partial;
            }
        }
        if all { TileClass::Full } else { TileClass::Skip }
    }
}

impl Generator {
    /// The tensor as an expression writes it.
    fn text(&self) -> String {
        match self {
            Generator::Documents(lens) => {
                list(&(0..).zip(lens).flat_map(|(n, &len)| (0..len).map(move |_| n)).collect::<Vec<i32>>())
            }
            Generator::Starts(lens) => {
                let starts = lens.iter().scan(0, |next, len| Some(std::mem::replace(next, *next + len)));
                list(&starts.zip(lens).flat_map(|(start, &len)| (0..len).map(move |_| start)).collect::<Vec<i32>>())
            }
            Generator::Marks { len, at } => list(&(0..*len).map(|i| at.contains(&i)).collect::<Vec<_>>()),
            Generator::Runs(runs) => {
                let run = |run: &Vec<i32>| {
                    let (first, step) = (run[1], run.get(2).copied().unwrap_or(0));
                    (0..run[0]).map(move |i| first + i * step)
                };
                list(&runs.iter().flat_map(run).collect::<Vec<i32>>())
            }
            Generator::Tree { nodes, seed } => {
                let mut ancestors = vec![false; nodes * nodes];
                let mut state = *seed;
                for node in 0..*nodes {
                    if node > 0 {
                        // a linear congruential generator, so that the tree does not depend on a library
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        let parent = (state >> 33) as usize % node;
                        let (above, own) = ancestors.split_at_mut(node * nodes);
                        own[..*nodes].copy_from_slice(&above[parent * nodes..][..*nodes]);
                    }
                    ancestors[node * nodes + node] = true;
                }
                rows(&ancestors, *nodes)
            }
        }
    }
}
