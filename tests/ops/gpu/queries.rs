//! Queries beside appends on a GPU, against the CPU.

use attn::ops::*;
use attn::{Dtype, Heads, KvScales, Scale, Variant};
use attn_tests::{synthetic::values, tolerance::ulp};

use crate::gpu::pool::{SLOTS, pools};
use crate::gpu::scenario::{agree, gpu};

#[test]
fn queries_are_transformed_beside_appends() {
    let Some(gpu) = gpu() else { return };
    let cases = [
        ("rope", [Dtype::Bf16, Dtype::E4m3, Dtype::E4m3]),
        ("causal + qk_norm + rope(interleaved=true)", [Dtype::F16, Dtype::F16, Dtype::F16]),
        ("rope(rotary_dim=32) + value_norm", [Dtype::F32, Dtype::E4m3, Dtype::Bf16]),
    ];
    for (variant, types) in cases {
        for (pool, rest) in [128, 96, 34].into_iter().flat_map(pools).flat_map(|pool| [(pool.clone(), 0), (pool, 48)]) {
            for in_place in [false, true].into_iter().take(if types[0] == types[2] { 2 } else { 1 }) {
                let [from, to, queries] = types;
                let heads = Heads { qo: 6, kv: 3, head_dim: pool.dim as u32 };
                let name = format!("{variant}: {types:?}, {} of {}, {rest}, {in_place}", pool.order, pool.dim);
                agree(&gpu, &name, 1.01 * ulp(to).max(ulp(queries)), |at| {
                    let (tokens, variant) = (SLOTS.len(), Variant::parse(variant).expect("stock"));
                    let (rows, shapes) = ([tokens, 3, pool.dim], [pool.dim, rest].map(|dim| [tokens, 6, dim]));
                    let [k, v] = [1, 2].map(|seed| at.upload(from, &values(rows.iter().product(), seed)));
                    let q = [0, 1].map(|part| values(shapes[part].iter().product(), 3 + part as u32));
                    let [first, second] = q.each_ref().map(|values| at.upload(from, values));
                    let [mut first_out, mut second_out] = match in_place {
                        true => q.each_ref().map(|values| at.upload(from, values)),
                        false => shapes.map(|shape| at.poisoned(queries, shape.iter().product())),
                    };
                    let mut cache = at.poisoned(to, pool.count());
                    let through = KvTransform::new(&at.engine, &variant, heads).expect("known");
                    through.prepare_with_queries(from, to, queries).expect("compiles");
                    let positions = at.numbers(&(0..tokens as i32).map(|i| i * 311).collect::<Vec<_>>());
                    let (slots, scales) = (at.numbers(&SLOTS), at.upload(Dtype::F32, &[0.5, 0.3, 1.0, 2.0, 0.7, 1.3]));
                    at.run(|stream| {
                        let from = match rest {
                            0 => KvRef::latent(first.tensor(&shapes[0])?),
                            _ => KvRef::new(first.tensor(&shapes[0])?, second.tensor(&shapes[1])?),
                        };
                        let mut out = match rest {
                            0 => KvMut::latent(first_out.tensor_mut(&shapes[0])?),
                            _ => KvMut::new(first_out.tensor_mut(&shapes[0])?, second_out.tensor_mut(&shapes[1])?),
                        };
                        let kv = KvRef::new(k.tensor(&rows)?, v.tensor(&rows)?);
                        let append = Append {
                            scales: KvScales::of(0.5, 0.25),
                            q_scale: Scale { all: 0.5, heads: Some(scales.tensor(&[6])?) },
                            ..Append::at(SlotMapping::Slots {
                                slots: slots.array(),
                                positions: Some(positions.array()),
                            })
                        };
                        let from = (!in_place).then_some(&from);
                        let mut pools = pool.write(&mut cache)?;
                        through.append_with_queries(stream, from, &mut out, &kv, &mut pools, &append)
                    });
                    [&cache, &first_out, &second_out].map(|buffer| at.read(buffer)).concat()
                });
            }
        }
    }
}
