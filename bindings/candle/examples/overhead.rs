//! What a run through candle's tensors costs the host over the call of attn-rs below it: medians of 10,000 asynchronous
//! launches of a decode step, on a GPU. It fails where a run into tensors of the caller costs more than 5 us on top.
#![allow(clippy::print_stdout)] // it is a report

use std::time::Instant;

use attn_candle::attn::{Dtype, Out, TensorMut, TensorRef};
use attn_candle::{Batch, BatchCapacity, Dtypes, Engine, Heads, Kv, PageTable, Plan, RunOptions};
use candle_core::{DType, Device, Result, Storage, Tensor, cuda_backend::cudarc::driver::DevicePtr};

const LAUNCHES: usize = 10_000;
/// Launches between waits: fewer than the driver queues before it blocks.
const QUEUED: usize = 200;
/// Microseconds on top of the call below that are allowed.
const ALLOWED: f64 = 5.0;

fn main() -> Result<()> {
    let heads = Heads { qo: 32, kv: 8, head_dim: 128 };
    let table = PageTable { indptr: &[0, 64], indices: &pages(), last_page_len: &[16], page_size: 16, num_pages: 64 };
    let mut direct = None;
    let mut worst = 0f64;
    for (name, device) in [
        ("Device::new_cuda_with_stream", Device::new_cuda_with_stream(0)?),
        ("Device::new_cuda_with_stream, without event tracking", untracked()?),
        ("Device::new_cuda (default stream of each thread)", Device::new_cuda(0)?),
    ] {
        let engine = Engine::new(&device)?;
        let capacity = BatchCapacity::decode(1, 1024).in_pages(16, 64);
        let plan =
            engine.attention("causal", heads, Dtypes::bf16())?.plan_within(&Batch::paged(&[0, 1], &table), capacity)?;
        let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::BF16, &device);
        let (q, o) = (zeros(&[1, 32, 128])?, zeros(&[1, 32, 128])?);
        let (k, v) = (zeros(&[64, 16, 8, 128])?, zeros(&[64, 16, 8, 128])?);
        let kv = Kv::paged(&k, &v);
        if direct.is_none() {
            direct = Some(below(&engine, &plan, [&q, &k, &v, &o])?);
        }
        let direct = direct.unwrap_or_default();
        let into = median(&device, || plan.run_into(&q, &kv, &o, None, RunOptions::default()))?;
        let new = median(&device, || plan.run(&q, &kv).map(drop))?;
        let empty = median(&device, || zeros(&[1, 32, 128]).map(drop))?;
        println!("{name}");
        println!("  attn::Plan::run             {direct:7.2} us");
        println!("  Plan::run_into              {into:7.2} us, {:+.2}", into - direct);
        println!("  Plan::run, a new output     {new:7.2} us, {:+.2}", new - direct);
        println!("  Tensor::zeros of an output  {empty:7.2} us");
        worst = worst.max(into - direct);
    }
    if worst > ALLOWED {
        return Err(candle_core::Error::msg(format!("{worst:.2} us on top, and {ALLOWED} are allowed")));
    }
    Ok(())
}

/// A device whose tensors have no events: work on them is ordered by its one stream alone.
fn untracked() -> Result<Device> {
    let device = Device::new_cuda_with_stream(0)?;
    if let Device::Cuda(device) = &device {
        // SAFETY: nothing here uses another stream.
        unsafe { device.disable_event_tracking() };
    }
    Ok(device)
}

fn pages() -> Vec<i32> {
    (0..64).rev().collect()
}

/// Runs of attn-rs alone, on the addresses of candle's tensors.
fn below(engine: &Engine, plan: &Plan, tensors: [&Tensor; 4]) -> Result<f64> {
    let [q, k, v, o] = tensors.map(address);
    let (q, k, v, o) = (q?, k?, v?, o?);
    let wrap = |error: attn_candle::attn::Error| candle_core::Error::wrap(error);
    let run = || {
        // SAFETY: the tensors live until the device has finished, and have these shapes.
        let tensor = |ptr, shape: &[usize]| unsafe {
            TensorRef::device_slice(ptr, Dtype::Bf16, shape.iter().product(), shape).map_err(|e| wrap(e.into()))
        };
        let (q, k, v) = (tensor(q, &[1, 32, 128])?, tensor(k, &[64, 16, 8, 128])?, tensor(v, &[64, 16, 8, 128])?);
        // SAFETY: as above; nothing else uses o.
        let o = unsafe { TensorMut::device_slice(o, Dtype::Bf16, 32 * 128, &[1, 32, 128]) };
        let out = Out::new(o.map_err(|e| wrap(e.into()))?);
        let kv = attn_candle::attn::Kv::paged(k, v);
        engine.launch(|stream| plan.inspect(|plan| plan.run(stream, q, kv, out).map_err(wrap)))
    };
    median(engine.device(), run)
}

fn address(tensor: &Tensor) -> Result<u64> {
    let (storage, _) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cuda(storage) => {
            let stream = storage.device.cuda_stream();
            Ok(storage.as_cuda_slice::<half::bf16>()?.device_ptr(&stream).0)
        }
        _ => Err(candle_core::Error::msg("the tensor is not on a GPU")),
    }
}

/// The median of the host's time of a call, in microseconds.
fn median(device: &Device, call: impl Fn() -> Result<()>) -> Result<f64> {
    let mut times = Vec::with_capacity(LAUNCHES);
    for round in 0..LAUNCHES / QUEUED + 1 {
        for _ in 0..QUEUED {
            let start = Instant::now();
            call()?;
            // the first round warms up
            if round > 0 {
                times.push(start.elapsed().as_nanos());
            }
        }
        device.synchronize()?;
    }
    times.sort_unstable();
    Ok(times[times.len() / 2] as f64 / 1e3)
}
