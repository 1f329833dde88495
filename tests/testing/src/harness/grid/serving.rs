//! The serving grid: every stock variant, and compositions that occur in models, in every kernel and every layout of
//! keys.
//!
//! Each expression has *units*. A unit is a compiled kernel: prefill, decode or mixed, ragged or paged, with or without
//! a cascade. Its element types and head dim are chosen so that as many pairs of values as possible meet. Each unit has
//! several cases. Their group, heads, order, pool, page size, compressed or padded rows, lengths and graph are chosen
//! in the same way. So there are many more cases than kernels. The grid ends with the sizes that other libraries test
//! ([`known`]), and with masks over real tables ([`tables`]).

mod known;
mod latent;
mod layout;
mod lengths;
mod lists;
mod variants;

use std::{cmp::Reverse, collections::HashSet};

use super::cells::{all_pairs, named, set_lens};
use super::tables;
use crate::{Case, LayoutKind, Lens, LevelCase, Order, Pool, random::Random};
pub use latent::latent;
pub(super) use layout::layout_name;
use lengths::{CASCADES, DECODE, Lengths, MIXED, PREFILL, SEVERAL, WHOLE};
use variants::{Needs, ROWS, Row};

/// Types of queries, and of keys and values if they differ; most caches have 16 bits.
const TYPES: [(&str, Option<&str>); 6] =
    [("f16", None), ("bf16", None), ("f16", None), ("bf16", None), ("bf16", Some("e4m3")), ("f16", Some("e5m2"))];
const HEAD_DIMS: [u32; 3] = [64, 128, 256];
const GROUPS: [u32; 7] = [1, 3, 4, 5, 6, 7, 8];
const PAGE_SIZES: [u32; 5] = [1, 5, 8, 16, 64];
const ORDERS: [Order; 2] = [Order::Nhd, Order::Hnd];
const POOLS: [Pool; 4] = [Pool::Split, Pool::Fused, Pool::Padded, Pool::Packed];
/// The scale of the tensor, and whether heads have scales; the first is none.
const SCALES: [(Option<f32>, bool); 4] = [(None, false), (Some(0.375), false), (None, true), (Some(1.75), true)];

/// The most operations of the reference of a case.
const MOST_COST: u64 = 400_000_000;
/// Cases of a unit.
const CASES: usize = 3;
/// Random picks for a case, of which the one with most new pairs is used.
const TRIES: usize = 40;
/// The rows of the smaller decode tile; more rows use another kernel.
const FEW_ROWS: u32 = 8;

/// A kernel and a layout that an expression runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    kernel: &'static str,
    paged: bool,
    shared: bool,
}

const SLOTS: [Slot; 8] = [
    Slot { kernel: "prefill", paged: false, shared: false },
    Slot { kernel: "prefill", paged: true, shared: false },
    Slot { kernel: "decode", paged: false, shared: false },
    Slot { kernel: "decode", paged: true, shared: false },
    Slot { kernel: "mixed", paged: false, shared: false },
    Slot { kernel: "mixed", paged: true, shared: false },
    Slot { kernel: "mixed", paged: true, shared: true },
    Slot { kernel: "mixed", paged: false, shared: true },
];

impl Slot {
    /// Whether the expression with index `at` runs in this slot.
    fn is_for(self, row: &Row, at: usize) -> bool {
        // ragged cascades are rare: every other expression
        let fits = !self.shared || self.paged || at.is_multiple_of(2);
        match row.needs {
            Needs::Any | Needs::Short => fits,
            Needs::Flat => !self.shared || self.paged,
            Needs::Branches => self.kernel != "mixed" || (self.shared && self.paged),
            Needs::Lists => self.kernel != "mixed",
        }
    }

    /// The number of lists of lengths.
    fn lengths(self) -> usize {
        if self.shared { CASCADES.len() } else { self.flat().len() }
    }

    fn flat(self) -> &'static [Lengths] {
        match self.kernel {
            "prefill" => &PREFILL,
            "decode" => &DECODE,
            _ => &MIXED,
        }
    }
}

/// The grid.
#[must_use]
pub fn serving() -> Vec<Case> {
    let mut cases = covering(CASES, |_, _| true);
    cases.extend(known::cases());
    cases.extend(tables::cases());
    numbered(cases, "serving")
}

/// Short cases, with some expressions for each slot. They are for tools that slow a kernel down a hundredfold.
pub(super) fn small() -> Vec<Case> {
    let short = |case: &Case| case.all_kv_lens().iter().sum::<u32>() <= 1800 && case.check_cost() <= 20_000_000;
    covering(1, |at, slot| (at + 3 * slot).is_multiple_of(9)).into_iter().filter(short).collect()
}

/// Sets names and seeds.
fn numbered(cases: Vec<Case>, grid: &str) -> Vec<Case> {
    let number = |(number, case): (usize, Case)| {
        let what = case.name.clone();
        let case = named(Case { seed: number as u64, ..case }, grid, number);
        let name = case.name.map(|name| what.map_or(name.clone(), |what| format!("{name}, {what}")));
        // expressions with key lists are long
        Case { name: name.map(|name| name.chars().take(150).collect()), ..case }
    };
    cases.into_iter().enumerate().map(number).collect()
}

/// Cases for every unit of the `wanted` expressions and slots, given by number.
fn covering(cases_of_unit: usize, wanted: impl Fn(usize, usize) -> bool) -> Vec<Case> {
    let (mut cases, mut seen, mut random) = (Vec::new(), HashSet::new(), Random::new(5, 5));
    for (at, row) in ROWS.iter().enumerate() {
        for (number, &slot) in SLOTS.iter().enumerate() {
            if !slot.is_for(row, at) || !wanted(at, number) {
                continue;
            }
            let unit = best(&seen, (0..TRIES).map(|_| Unit::random(at, number, &mut random)), |unit| unit.pairs());
            let Some(unit) = unit else { continue };
            for _ in 0..cases_of_unit {
                let picks = (0..TRIES).filter_map(|_| {
                    let pick = Pick::random(slot, &mut random);
                    let case = pick.case(&unit, row, slot, cases.len() + TRIES * at)?;
                    Some((pick, case))
                });
                let found = best(&seen, picks, |(pick, _)| pick.pairs(&unit));
                if let Some((pick, case)) = found {
                    seen.extend(unit.pairs());
                    seen.extend(pick.pairs(&unit));
                    cases.push(case);
                }
            }
        }
    }
    cases
}

/// The try with the most new pairs; among equals the first.
fn best<T>(
    seen: &HashSet<(u32, u32)>,
    tries: impl Iterator<Item = T>,
    pairs: impl Fn(&T) -> Vec<(u32, u32)>,
) -> Option<T> {
    let fresh = |one: &T| pairs(one).iter().filter(|pair| !seen.contains(*pair)).count();
    tries.min_by_key(|one| Reverse(fresh(one)))
}

/// A number that is unique to value `n` of a kind of factor.
fn value(kind: u32, n: usize) -> u32 {
    1000 * kind + n as u32
}

/// A compiled kernel.
struct Unit {
    row: usize,
    slot: usize,
    types: usize,
    dim: usize,
}

impl Unit {
    fn random(row: usize, slot: usize, random: &mut Random) -> Self {
        let [types, dim] = [TYPES.len(), HEAD_DIMS.len()].map(|n| random.below(n as u64) as usize);
        Unit { row, slot, types, dim }
    }

    fn values(&self) -> Vec<u32> {
        let kernel = self.slot / 2;
        // element types occur twice in `TYPES`
        let types = TYPES.iter().position(|types| *types == TYPES[self.types]).unwrap_or(0);
        vec![
            value(0, self.row),
            value(1, self.slot),
            value(2, types),
            value(3, self.dim),
            value(4, 3 * types + self.dim),
            value(5, 100 * kernel + self.row),
        ]
    }

    fn pairs(&self) -> Vec<(u32, u32)> {
        all_pairs(&self.values())
    }
}

/// The chosen factors of a case: indices into the tables above.
struct Pick {
    group: usize,
    kv_heads: usize,
    table: bool,
    order: usize,
    pool: usize,
    page_size: usize,
    lens: usize,
    scale: usize,
    graph: bool,
    /// Pages of shared levels in pool pages, as a power of two: 1, 2 or 4.
    coarser: usize,
}

impl Pick {
    fn random(slot: Slot, random: &mut Random) -> Self {
        let mut one = |n: usize| random.below(n as u64) as usize;
        Pick {
            group: one(GROUPS.len()),
            kv_heads: 1 + one(3),
            table: one(2) == 1,
            order: one(ORDERS.len()),
            pool: one(if slot.paged { 3 } else { 4 }),
            page_size: one(PAGE_SIZES.len()),
            lens: one(slot.lengths()),
            scale: one(SCALES.len()),
            graph: one(2) == 1,
            coarser: one(3),
        }
    }

    fn pairs(&self, unit: &Unit) -> Vec<(u32, u32)> {
        let slot = SLOTS[unit.slot];
        let mut values = unit.values();
        values.extend([
            value(10, self.group),
            value(11, self.kv_heads),
            value(12, 10 * self.order + self.pool),
            value(13, 100 * unit.slot + self.lens),
            value(14, usize::from(self.graph)),
        ]);
        if slot.paged {
            let table = usize::from(self.table && !slot.shared);
            values.extend([value(15, self.page_size), value(16, 100 * table + 10 * self.order + self.pool)]);
        }
        if TYPES[unit.types].1.is_some() {
            values.push(value(17, self.scale));
        }
        if slot.shared && slot.paged {
            values.push(value(18, self.coarser));
        }
        all_pairs(&values)
    }

    /// The case; `None` if it does not fit.
    fn case(&self, unit: &Unit, row: &Row, slot: Slot, seed: usize) -> Option<Case> {
        let mut case = Case::new(row.expr);
        slot.kernel.clone_into(&mut case.kernel);
        let (dtype, kv_dtype) = TYPES[unit.types];
        dtype.clone_into(&mut case.dtype);
        case.kv_dtype = kv_dtype.map(str::to_owned);
        case.head_dim = HEAD_DIMS[unit.dim];
        (case.page_order, case.pool) = (ORDERS[self.order], POOLS[self.pool]);
        if case.pool == Pool::Packed {
            // packed q, k and v are one tensor: they have one type, and tokens are outermost
            case.page_order = Order::Nhd;
            case.pool = if kv_dtype.is_some() { Pool::Fused } else { Pool::Packed };
        }
        case.kv_layout = match (slot.paged, slot.shared) {
            (false, false) => LayoutKind::Ragged,
            (true, false) if self.table => LayoutKind::BlockTable,
            (true, false) => LayoutKind::Paged,
            (false, true) => LayoutKind::RaggedCascade,
            (true, true) => LayoutKind::Cascade,
        };
        if slot.paged {
            case.page_size = PAGE_SIZES[self.page_size];
        }
        if slot.shared {
            self.share(&mut case, row)?;
        } else {
            set_lens(&mut case, &slot.flat()[self.lens]);
        }
        let group = GROUPS[self.group];
        case.kv_heads = self.kv_heads as u32;
        let queries = case.qo_lens.to_vec().into_iter().max().unwrap_or(0);
        let several = slot.kernel == "decode" && self.lens >= SEVERAL && queries * group > FEW_ROWS;
        if several && !unit.row.is_multiple_of(4) {
            return None;
        }
        case.qo_heads = case.kv_heads * group;
        if case.check_cost() > MOST_COST {
            (case.kv_heads, case.qo_heads) = (1, group);
        }
        case.graph = self.graph;
        if kv_dtype.is_some() {
            (case.kv_scale, case.kv_scale_per_head) = SCALES[self.scale];
        }
        // logits that reach a cap; not after a rotation, whose rows are rounded to f16, which shows at logits of that
        // size
        let capped = row.expr.contains("soft_cap") && !row.expr.contains("rope");
        case.q_std = (capped && self.graph).then_some(12.0);
        let most = |lens: Vec<u32>| lens.into_iter().max().unwrap_or(0);
        let fits = match row.needs {
            Needs::Short => most(case.qo_lens.to_vec()) <= 80 && most(case.all_kv_lens()) <= 600,
            Needs::Lists => case.qo_lens.to_vec().iter().sum::<u32>() <= 100,
            Needs::Any | Needs::Flat | Needs::Branches => true,
        };
        if !fits || case.check_cost() > MOST_COST {
            return None;
        }
        case.variant = lists::written(&case.variant, &case, &mut Random::new(seed as u64, 9));
        case.name = Some(layout_name(&case));
        Some(case)
    }

    /// Sets the levels of a case.
    fn share(&self, case: &mut Case, row: &Row) -> Option<()> {
        let cascade = &CASCADES[self.lens];
        let flat = matches!(row.needs, Needs::Flat | Needs::Branches);
        if flat && self.lens >= WHOLE {
            return None;
        }
        if flat {
            // each request's own keys run in the kernel that is selected for them
            "auto".clone_into(&mut case.kernel);
        }
        set_lens(case, &cascade.own);
        let coarser = if flat || !case.kv_layout.paged() { 0 } else { self.coarser };
        let levels = cascade.shared.iter().map(|(groups, kv_lens)| LevelCase {
            groups: groups.to_vec(),
            kv_lens: Lens::List(kv_lens.to_vec()),
            page_size: (coarser > 0).then_some(case.page_size << coarser),
        });
        case.levels = levels.collect();
        Some(())
    }
}

#[cfg(test)]
mod tests;
