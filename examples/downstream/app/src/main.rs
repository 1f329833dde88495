//! Runs a variant of another crate by name: on the first CUDA device, with the kernels that the build script embedded
//! or else compiled now; without a device, on the CPU.
#![allow(clippy::print_stdout)]

use attn::prelude::*;
use downstream_variants as _; // its variants register themselves once it is linked

fn main() -> Result<(), Box<dyn std::error::Error>> {
    attn::include_prebuilt!();
    for prebuilt in attn::aot::embedded() {
        println!("embedded: {} ({} bytes)", prebuilt.name, prebuilt.cubin.len());
    }

    let engine = Engine::auto()?;
    let variant = Variant::parse("strided(stride=64)")?;
    let heads = Heads { qo: 8, kv: 2, head_dim: 64 };
    let attention = engine.attention(&variant, heads, Dtypes::bf16())?;

    let (queries, keys) = (3, 500);
    let mut workspace = engine.workspace();
    let plan = attention.plan(&Batch::ragged(&[0, queries], &[0, keys]), &mut workspace)?;

    let (queries, keys) = (queries as usize, keys as usize);
    let q = engine.upload(&vec![bf16::from_f32(0.1); queries * 8 * 64])?;
    let k = engine.upload(&vec![bf16::from_f32(0.1); keys * 2 * 64])?;
    let v = engine.upload(&vec![bf16::from_f32(3.0); keys * 2 * 64])?;
    let mut o = engine.alloc(Dtype::Bf16, queries * 8 * 64)?;
    let stream = engine.stream()?;
    let kv = Kv::ragged(k.tensor(&[keys, 2, 64])?, v.tensor(&[keys, 2, 64])?);
    plan.run(&stream, q.tensor(&[queries, 8, 64])?, kv, Out::new(o.tensor_mut(&[queries, 8, 64])?))?;
    stream.synchronize()?;

    let first = engine.download::<bf16>(&o)?[0];
    println!("{variant} on {engine}: o[0] = {first}, the mean of values that are all 3");
    if first == bf16::from_f32(3.0) { Ok(()) } else { Err(format!("o[0] is {first}, not 3").into()) }
}
