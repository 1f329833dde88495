//! What the library cannot check is unsafe to call.

use attn::{Dtype, DeviceBuffer, Engine, Error, Graph, Stream, TensorRef, Workspace, batch::I32Slice};

fn device_pointers(engine: &Engine) -> Result<(), Error> {
    TensorRef::device(0x100, Dtype::F16, &[1], &[1])?;
    I32Slice::device(0x100, 1);
    Stream::from_raw(engine, std::ptr::null_mut())?;
    Workspace::from_raw(engine, 0x100, 256)?;
    Ok(())
}

fn replay(graph: &mut Graph, stream: &Stream) -> Result<(), Error> {
    graph.replay(stream, || Ok(()))
}

fn source_of_a_copy(buffer: &mut DeviceBuffer, stream: &Stream, pinned: &[f32]) -> Result<(), Error> {
    buffer.write_async(stream, 0, pinned)
}

fn main() {}
