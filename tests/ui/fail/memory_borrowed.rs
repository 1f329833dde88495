//! A descriptor borrows its buffer.

use attn::{DeviceBuffer, Dtype, Engine, Error, Kv, Out, Plan, Stream, TensorRef};

fn write_while_described(buffer: &mut DeviceBuffer, stream: &Stream) -> Result<(), Error> {
    let tensor = buffer.tensor(&[8])?;
    buffer.write(stream, 0, &[1.0f32; 8])?;
    drop(tensor);
    Ok(())
}

fn outlives(engine: &Engine) -> Result<TensorRef<'static>, Error> {
    let buffer = engine.alloc(Dtype::F32, 8)?;
    buffer.tensor(&[8])
}

fn input_is_output(plan: &Plan, stream: &Stream, buffer: &mut DeviceBuffer) -> Result<(), Error> {
    let q = buffer.tensor(&[1, 1, 8])?;
    let out = Out::new(buffer.tensor_mut(&[1, 1, 8])?);
    plan.run(stream, q, Kv::ragged(q, q), out)
}

fn main() {}
