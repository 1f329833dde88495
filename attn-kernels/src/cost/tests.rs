use attn_core::{
    dtype::{Dtype, Dtypes},
    spec::ValueRows,
};

use super::*;
use crate::{cell::CellRequest, compile::Arch};

fn cell(kind: KernelKind, head_dim: u32, kv: Dtype, arch: Arch) -> Cell {
    let dtypes = Dtypes::bf16().with_kv(kv);
    let request = CellRequest {
        kind,
        head_dim,
        values: ValueRows::Same,
        dtypes,
        paged: true,
        group: 4,
        key_hooks: false,
        value_hooks: false,
        arch,
        key_lists: false,
        template: attn_core::spec::PrefillTemplate::default(),
    };
    Cell::choose(&request).expect("supported")
}

fn measured(major: u32, head_dim: u32, fp8: bool, hooks: HookClass, block: u32) -> Measured {
    row(major, KernelKind::Decode, 8, fp8, head_dim, hooks, 2, [8000, 1000, block, 0, 1500, 100])
}

#[test]
fn every_row_is_found_by_its_own_cell_and_no_two_are_the_same() {
    for (i, row) in table::TABLE.iter().enumerate() {
        let kv = if row.fp8 { Dtype::E4m3 } else { Dtype::Bf16 };
        let arch = if row.warpgroups { Arch::for_device(row.major, 0) } else { Arch::new(row.major, 0) };
        let cell = Cell { tile_rows: row.rows, ..cell(row.kind, row.head_dim, kv, arch) };
        assert_eq!(row.distance(&cell, row.hooks), 0, "{row:?}");
        assert_eq!(Costs::of(&cell, row.hooks), row.costs, "{row:?}");
        let same = table::TABLE.iter().position(|other| other.distance(&cell, row.hooks) == 0);
        assert_eq!(same, Some(i), "{row:?}");
    }
}

#[test]
fn every_cell_of_every_architecture_has_costs_of_its_own_kernel() {
    for arch in [Arch::new(8, 0), Arch::new(8, 9), Arch::new(9, 0), Arch::new(10, 0), Arch::new(12, 0)] {
        for kind in [KernelKind::Decode, KernelKind::Prefill] {
            assert!(table::TABLE.iter().any(|row| row.kind == kind));
            for (head_dim, kv) in [64, 128, 256].into_iter().flat_map(|dim| [(dim, Dtype::Bf16), (dim, Dtype::E5m2)]) {
                for hooks in [HookClass::None, HookClass::Logits, HookClass::Rewrites] {
                    let costs = Costs::of(&cell(kind, head_dim, kv, arch), hooks);
                    // nothing takes less than 50 ns, or more than 50 us
                    assert!((50..50_000).contains(&(costs.block + costs.first)), "{arch} {kind} {head_dim} {costs:?}");
                    assert!(costs.rule(kind, 64).block >= 1);
                }
            }
        }
    }
}

#[test]
fn the_nearest_is_of_the_architecture_then_of_the_hooks_then_of_the_types() {
    let cell = cell(KernelKind::Decode, 128, Dtype::E4m3, Arch::for_device(9, 0));
    let by_distance = [
        measured(9, 128, true, HookClass::None, 1),
        measured(9, 256, true, HookClass::None, 1),
        measured(9, 128, false, HookClass::None, 1),
        measured(9, 128, true, HookClass::Logits, 1),
        measured(8, 128, true, HookClass::None, 1),
    ];
    let distances = by_distance.map(|row| row.distance(&cell, HookClass::None));
    assert!(distances.is_sorted() && distances[0] == 0, "{distances:?}");
}

#[test]
fn keys_of_another_cell_cost_as_much_more_as_there_is_to_read() {
    let of = |head_dim, kv| cell(KernelKind::Decode, head_dim, kv, Arch::for_device(9, 0));
    let row = measured(9, 128, false, HookClass::None, 2000);
    let block = |cell: Cell| row.scaled_to(&Cell { ctas_per_sm: 2, ..cell }).block;
    assert_eq!(block(of(128, Dtype::Bf16)), 2000);
    assert_eq!(block(of(256, Dtype::Bf16)), 4000);
    assert_eq!(block(of(64, Dtype::E4m3)), 500);
    let shared = Cell { ctas_per_sm: 3, ..of(128, Dtype::Bf16) };
    assert_eq!(row.scaled_to(&shared).block, 3000);
}

#[test]
fn blocks_of_a_rule_have_as_many_keys_as_it_says() {
    let costs = Costs { block: 2000, first: 100, ..Costs::default() };
    assert_eq!(costs.rule(KernelKind::Decode, 64).block, 2100);
    assert_eq!(costs.rule(KernelKind::Decode, 128).block, 4200);
    assert_eq!(costs.rule(KernelKind::Prefill, 96).block, 3000);
    assert_eq!(Costs::default().rule(KernelKind::Decode, 64).block, 1, "never free");
}
