//! Queries beside appends.

use attn_kernels::launch::RotateAppendParams;
use attn_kernels::splice::ROTATE_APPEND_KERNELS;

use super::*;

/// Query heads, two of each KV head.
const QO: usize = 2 * HEADS;
/// Elements of a query that are only converted.
const REST: usize = 48;

#[test]
fn queries_are_transformed_beside_appends() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let cases = [
        ("rope", [Dtype::Bf16, Dtype::E4m3, Dtype::E4m3]),
        ("qk_norm + rope(interleaved=true)", [Dtype::F16, Dtype::F16, Dtype::F16]),
        ("rope(rotary_dim=32) + value_norm", [Dtype::F32, Dtype::F16, Dtype::Bf16]),
        ("per_head(heads=[0, 0, 1, 1, 0, 0], rope, full)", [Dtype::F32, Dtype::F32, Dtype::F32]),
    ];
    for (variant, types) in cases {
        let of = Variant::parse(variant).expect("stock");
        let folder = tempfile::tempdir().expect("a folder");
        let op = HostOp::rotate_append(&of, types, folder.path());
        for (dim, rest, in_place) in [(128usize, 0, false), (128, REST, false), (34, REST, false), (64, 0, true)] {
            if !in_place || types[0] == types[2] {
                agrees(&op, &of, types, (dim, rest, in_place));
            }
        }
    }
}

/// Compares the kernel with the CPU.
fn agrees(op: &HostOp, of: &Variant, [from, to, queries]: [Dtype; 3], (dim, rest, in_place): (usize, usize, bool)) {
    let name = format!("{of}: {from} to {to}, queries to {queries}, {dim} and {rest}, in place: {in_place}");
    let through = Transform::new(of, Heads { qo: QO as u32, kv: HEADS as u32, head_dim: dim as u32 }).expect("known");
    let [k, v] = [1, 2].map(|seed| Data::of(from, &values(TOKENS * HEADS * dim, seed)));
    let dims = [dim, rest];
    let q = [0, 1].map(|part| Data::of(from, &values(TOKENS * QO * dims[part], 3 + part as u32)));
    let shape = |part: usize| [TOKENS, QO, dims[part]];
    let new_out = || [0, 1].map(|part| Data::poisoned(queries, TOKENS * QO * dims[part]));
    let [mut want_q, got_q] = [(); 2].map(|()| if in_place { q.clone() } else { new_out() });
    let (packed, paged) = ([PACKED[0], PACKED[1], dim], [POOL[0], POOL[1], POOL[2], dim]);
    let pool = || Data::poisoned(to, PAGES * PAGE_SIZE * HEADS * dim);
    let (mut want, got) = ([pool(), pool()], [pool(), pool()]);
    let positions: Vec<i32> = (0..TOKENS as i32).map(|i| i * 311).collect();
    let heads: [f32; QO] = [0.5, 0.3, 1.0, 2.0, 0.7, 1.3];
    {
        let slots = SlotMapping::Slots { slots: Array::host(&SLOTS), positions: Some(Array::host(&positions)) };
        let new = KvRef::new(k.tensor(&packed), v.tensor(&packed));
        let [k_pool, v_pool] = &mut want;
        let mut pools = KvMut::new(k_pool.tensor_mut(&paged), v_pool.tensor_mut(&paged));
        let from = match rest {
            0 => KvRef::latent(q[0].tensor(&shape(0))),
            _ => KvRef::new(q[0].tensor(&shape(0)), q[1].tensor(&shape(1))),
        };
        let [first, second] = &mut want_q;
        let mut out = match rest {
            0 => KvMut::latent(first.tensor_mut(&shape(0))),
            _ => KvMut::new(first.tensor_mut(&shape(0)), second.tensor_mut(&shape(1))),
        };
        let q_scale = Scale { all: 0.25, heads: Some(TensorRef::host(&heads, &[QO]).expect("six")) };
        let how = Append { q_scale, ..Append::at(slots) };
        let from = (!in_place).then_some(&from);
        append::append_with_queries(from, &mut out, &new, &mut pools, &how, &through).expect("sound");
    }
    let (mut params, _) = rows([&k, &v], [&got[0], &got[1]], dim, [(1.0, 0); 2]);
    let chunk = |to: Dtype| 16 / from.size().min(to.size());
    let wide = [dim, rest].iter().all(|dim| dim.is_multiple_of(chunk(queries))) && dim.is_multiple_of(chunk(to));
    for part in 0..2 {
        params.part[part].share = tiling(HEADS, if wide { dim / chunk(to) } else { dim });
        params.part[part].raw &= i32::from(!through.applies_to(part));
    }
    (params.slots, params.positions) = (SLOTS.as_ptr() as u64, positions.as_ptr() as u64);
    let of_queries = |part: usize| {
        let dim = dims[part];
        let (token, head) = ((QO * dim) as i64, dim as i64);
        let source = if in_place { &got_q[part] } else { &q[part] };
        RowsPart {
            packed: Strided { data: source.address(), token, head, page: 0 },
            pool: Strided { data: got_q[part].address(), token, head, page: 0 },
            scales: heads.as_ptr() as u64,
            share: tiling(QO, if wide { dim / chunk(queries) } else { dim }),
            dim: dim as i32,
            scale: 0.25,
            ..RowsPart::default()
        }
    };
    let params = RotateAppendParams {
        base: attn_kernels::launch::PackedRowsParams { base: params, ..Default::default() },
        queries: [0, 1].map(of_queries),
        kv_parts: 2,
        pad: 0,
    };
    let kernel = ROTATE_APPEND_KERNELS[usize::from(!wide)];
    let ctas = (TOKENS * QO).div_ceil(params.base.base.part[0].share.rows.min(32) as usize) as u32;
    let bytes = OP_THREADS / 32 * dim.max(rest) as u32 * 4;
    // SAFETY: the arrays have the extents of the parameters.
    unsafe { op.run(kernel, &params, Some(through.variant()), [ctas, if rest > 0 { 4 } else { 3 }], bytes) };
    got.iter().zip(&want).for_each(|(got, want)| agree(&name, got, want, 1.01 * ulp(to)));
    got_q.iter().zip(&want_q).for_each(|(got, want)| agree(&name, got, want, 1.01 * ulp(queries)));
}
