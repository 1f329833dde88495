use super::*;

fn request(kind: KernelKind, head_dim: u32) -> CellRequest {
    let arch = Arch::new(8, 0);
    let dtypes = Dtypes::bf16();
    CellRequest {
        kind,
        head_dim,
        values: ValueRows::Same,
        dtypes,
        paged: true,
        group: 4,
        key_hooks: true,
        value_hooks: true,
        arch,
        key_lists: false,
        template: PrefillTemplate::default(),
    }
}

#[test]
fn every_cell_fits_the_smallest_gpu() {
    // sm_80 cubins run on sm_86, which has as little as sm_120
    let archs = [Arch::new(8, 0), Arch::new(8, 6), Arch::new(12, 0)];
    for (kind, kv) in
        [KernelKind::Prefill, KernelKind::Decode].map(|kind| [Dtype::Bf16, Dtype::E4m3].map(|kv| (kind, kv))).concat()
    {
        for ((head_dim, values), arch) in widths().into_iter().flat_map(|dim| archs.map(|arch| (dim, arch))) {
            for (group, hooks) in [(4, true), (16, true), (4, false), (16, false)] {
                let dtypes = Dtypes::bf16().with_kv(kv);
                let of = CellRequest {
                    values,
                    dtypes,
                    arch,
                    group,
                    key_hooks: hooks,
                    value_hooks: hooks,
                    ..request(kind, head_dim)
                };
                let cell = Cell::choose(&of).unwrap_or_else(|error| panic!("{kind} {head_dim} {values}: {error}"));
                assert!(cell.smem_bytes() + 64 <= Arch::new(12, 0).max_smem(), "{}", cell.describe());
                assert_eq!(cell.has_kv_pass(), kind == KernelKind::Prefill && (hooks || kv.is_fp8()));
                assert_eq!(cell.values_of_keys, values.are_of_keys() && !hooks);
            }
        }
    }
}

/// Every width with values of the same, every pair of some, and latent attention's.
fn widths() -> Vec<(u32, ValueRows)> {
    let some = [16, 48, 64, 96, 128, 144, 192, 240, 256, 512];
    let pairs = some.into_iter().flat_map(|keys| some.map(|values| (keys, values)));
    let pairs = pairs.filter(|&(keys, values)| widths_are_known(keys, values));
    let pairs = pairs.map(|(keys, values)| (keys, ValueRows::Dim(values)));
    let same = (16..=256).step_by(16).map(|dim| (dim, ValueRows::Same));
    same.chain(pairs).chain([(576, ValueRows::OfKeys(512)), (256, ValueRows::OfKeys(192))]).collect()
}

#[test]
fn decode_states_fit_a_stage_of_every_width() {
    for arch in [Arch::new(8, 0), Arch::for_device(9, 0), Arch::new(12, 0)] {
        for (head_dim, values) in widths() {
            for (group, kv) in [(4, Dtype::Bf16), (16, Dtype::Bf16), (4, Dtype::E4m3), (16, Dtype::E4m3)] {
                let dtypes = Dtypes::bf16().with_kv(kv);
                let of = CellRequest { values, dtypes, arch, group, ..request(KernelKind::Decode, head_dim) };
                for hooks in [true, false] {
                    let cell = Cell::choose(&CellRequest { key_hooks: hooks, value_hooks: hooks, ..of }).expect("fits");
                    let states = cell.tile_rows * cell.value_dim.next_multiple_of(32) * 4;
                    assert!(states <= cell.stage_bytes(), "{}", cell.describe());
                    assert_eq!(cell.tile_rows, Cell::decode_rows(group, cell.head_dim, cell.value_dim));
                }
            }
        }
    }
}

#[test]
fn a_mixed_cell_has_both_parts_and_leaves_room_for_two_of_it() {
    let on = |head_dim, arch: Arch| Cell::choose(&CellRequest { arch, ..request(KernelKind::Mixed, head_dim) });
    let hopper = Arch::new(9, 0);
    for head_dim in [64, 128] {
        let cell = on(head_dim, hopper).expect("supported");
        let (decode, prefill) = (cell.decode_part(), cell.prefill_part());
        assert_eq!((decode.kind, prefill.kind), (KernelKind::Decode, KernelKind::Prefill));
        assert_eq!((decode.threads(), decode.tile_rows, decode.stages), (prefill.threads(), 8, 3));
        assert_eq!(cell.smem_bytes(), decode.smem_bytes().max(prefill.smem_bytes()));
        assert!(2 * (cell.smem_bytes() + 1024 + 256) <= hopper.max_smem() + 1024 && cell.ctas_per_sm == 2);
        assert!(cell.key_pre_pass && !decode.key_pre_pass, "decode rewrites keys where they arrive");
        assert!(cell.with_shared_rows().describe().contains("rows 8 shared"), "{}", cell.describe());
    }
    let wide = on(256, hopper).expect("one CTA");
    assert_eq!(wide.ctas_per_sm, 1);
    let refused = on(256, Arch::new(8, 6)).expect_err("a ring of 128 KB");
    assert!(matches!(refused, CellError::Mixed { head_dim: 256, .. }), "{refused}");
    assert!(!on(128, Arch::new(8, 6)).expect("fits").with_shared_rows().prefill_part().shared_rows);
}

#[test]
fn what_there_is_no_template_for_is_named() {
    let error = Cell::choose(&request(KernelKind::Prefill, 72)).expect_err("72");
    assert_eq!(error, CellError::HeadDim { kind: KernelKind::Prefill, head_dim: 72, value_dim: 72 });
    assert!(error.to_string().contains("multiples of 16 up to 256, and 512"));
    let values = CellRequest { values: ValueRows::Dim(8), ..request(KernelKind::Decode, 64) };
    assert!(matches!(Cell::choose(&values), Err(CellError::HeadDim { head_dim: 64, value_dim: 8, .. })));
    let f32 = CellRequest { dtypes: Dtypes::f32(), ..request(KernelKind::Decode, 64) };
    assert!(matches!(Cell::choose(&f32), Err(CellError::Dtypes { .. })));
}

#[test]
fn decode_tiles_hold_a_group() {
    for (group, rows) in [(1, 8), (3, 8), (8, 8), (9, 16), (16, 16), (32, 16)] {
        let cell = Cell::choose(&CellRequest { group, ..request(KernelKind::Decode, 128) }).expect("supported");
        assert_eq!(cell.tile_rows, rows);
    }
}

#[test]
fn warpgroups_are_for_prefill_on_hopper() {
    let hopper = Arch::for_device(9, 0);
    let ask = |kind, head_dim, arch, key_lists| {
        let of = |template| CellRequest { arch, key_lists, template, ..request(kind, head_dim) };
        [PrefillTemplate::Mma, PrefillTemplate::Warpgroups].map(|template| Cell::choose(&of(template)).expect("a cell"))
    };
    for (head_dim, threads, tile_rows, tile_keys) in
        [(16, 512, 192, 128), (64, 512, 192, 128), (80, 384, 128, 128), (128, 384, 128, 128), (256, 384, 128, 80)]
    {
        let [other, cell] = ask(KernelKind::Prefill, head_dim, hopper, false);
        let tile = (cell.threads(), cell.ctas_per_sm, cell.tile_rows, cell.tile_keys);
        assert_eq!(tile, (threads, 1, tile_rows, tile_keys));
        assert!(cell.smem_bytes() + STATIC_BYTES <= hopper.max_smem() && cell.describe().contains("warpgroups"));
        assert!(!other.in_warpgroups());
    }
    let others = [
        (KernelKind::Decode, 128, hopper, false),
        (KernelKind::Mixed, 128, hopper, false),
        (KernelKind::Prefill, 512, hopper, false),
        (KernelKind::Prefill, 128, hopper, true),
        (KernelKind::Prefill, 128, hopper.portable(), false),
        (KernelKind::Prefill, 128, Arch::for_device(10, 0), false),
    ];
    for (kind, head_dim, arch, lists) in others {
        let [other, cell] = ask(kind, head_dim, arch, lists);
        assert_eq!(other, cell, "{}", cell.describe());
    }
}
