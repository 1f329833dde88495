//! The guide's variant on two requests. The text after the next line is the book's.
#![allow(clippy::print_stdout)]
extern crate downstream_variants as my_variants;

use attn::prelude::*;
use my_variants::NearBias;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // two requests with 3 and 2 new tokens, and 5 and 4 keys
    let (qo_indptr, kv_indptr) = ([0, 3, 5], [0, 5, 9]);
    let near = NearBias {
        reach: 4,
        start: Tensor1::from([0, 3, 3, 0, 1]), // for each of the 5 new tokens
        bias: Tensor2::from_values(vec![0.5; 8 * 4], [8, 4])?,
    };
    let variant = compose!(near, attn::stock::SoftCap { cap: 30.0 }); // checked by the compiler
    // by name, with the default bias
    let named = Variant::parse("near_bias(reach=4, start=[0, 3, 3, 0, 1]) + soft_cap(cap=30)")?;
    println!("{named}");

    let engine = Engine::auto()?; // the first CUDA device, else the CPU
    let attention = engine.attention(&variant, Heads { qo: 8, kv: 2, head_dim: 64 }, Dtypes::f16())?;
    let mut workspace = engine.workspace();
    let plan = attention.plan(&Batch::ragged(&qo_indptr, &kv_indptr), &mut workspace)?;

    let q = engine.upload(&vec![f16::from_f32(0.5); 5 * 8 * 64])?;
    let k = engine.upload(&vec![f16::from_f32(0.1); 9 * 2 * 64])?;
    let v = engine.upload(&vec![f16::from_f32(0.25); 9 * 2 * 64])?;
    let mut o = engine.alloc(Dtype::F16, 5 * 8 * 64)?;
    let stream = engine.stream()?;
    let kv = Kv::ragged(k.tensor(&[9, 2, 64])?, v.tensor(&[9, 2, 64])?);
    plan.run(&stream, q.tensor(&[5, 8, 64])?, kv, Out::new(o.tensor_mut(&[5, 8, 64])?))?;
    stream.synchronize()?;
    println!("o[0] = {} on {engine}", engine.download::<f16>(&o)?[0]);
    Ok(())
}
