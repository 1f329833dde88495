//! A candle device, and the order of its work.

#[cfg(feature = "cuda")]
mod cuda;

use std::sync::Arc;

use candle_core::{Device, Result, Storage};

use crate::error::{IntoCandle, refuse};
use crate::tensors::{CudaStream, View};

/// A device of candle that attention runs on: the CPU, or a CUDA device through candle's context, in the order of
/// candle's stream. Cheap to clone. Make one a device.
///
/// Runs of a `Device::new_cuda_with_stream` are launched on its stream. A `Device::new_cuda` uses the default stream of
/// each thread; runs are then launched on a stream of the engine, which waits for candle's stream and which candle's
/// stream waits for, by events: four calls of the driver more a run.
#[derive(Clone, Debug)]
pub struct Engine {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    device: Device,
    engine: attn::Engine,
    order: Order,
}

/// Where runs are launched.
#[derive(Debug)]
enum Order {
    Cpu(attn::Stream),
    #[cfg(feature = "cuda")]
    Cuda(cuda::Order),
}

impl Engine {
    /// The engine of a device.
    ///
    /// # Errors
    ///
    /// A device of Metal; a GPU of compute capability below 8.0; a failure of the driver.
    pub fn new(device: &Device) -> Result<Self> {
        let (engine, order) = match device {
            Device::Cpu => {
                let engine = attn::Engine::cpu();
                let stream = engine.stream().candle()?;
                (engine, Order::Cpu(stream))
            }
            #[cfg(feature = "cuda")]
            Device::Cuda(of) => {
                let (engine, order) = cuda::Order::new(of)?;
                (engine, Order::Cuda(order))
            }
            other => {
                let way_out = "turn on the feature `cuda` of attn-candle for CUDA, or use `Device::Cpu`";
                return refuse(format!("attention does not run on {:?} in this build; {way_out}", other.location()));
            }
        };
        Ok(Engine { state: Arc::new(State { device: device.clone(), engine, order }) })
    }

    /// The device of candle.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.state.device
    }

    /// The engine of attn-rs, for what has no tensors: preparing kernels, ops, graphs.
    #[must_use]
    pub fn inner(&self) -> &attn::Engine {
        &self.state.engine
    }

    /// Calls `work` with the stream that attention is launched on, between candle's earlier and later work on the
    /// device: for ops of [`attn`] on memory of candle's tensors. On the CPU the stream does nothing.
    ///
    /// # Errors
    ///
    /// Those of `work`; a failure of the driver.
    pub fn launch<T>(&self, work: impl FnOnce(&attn::Stream) -> Result<T>) -> Result<T> {
        match &self.state.order {
            Order::Cpu(stream) => work(stream),
            #[cfg(feature = "cuda")]
            Order::Cuda(order) => order.launch(work),
        }
    }

    /// The stream that runs are launched on, for work that touches no tensor of candle.
    pub(crate) fn stream(&self) -> &attn::Stream {
        match &self.state.order {
            Order::Cpu(stream) => stream,
            #[cfg(feature = "cuda")]
            Order::Cuda(order) => order.stream(),
        }
    }

    /// candle's stream; `None` on the CPU.
    pub(crate) fn cuda_stream(&self) -> Option<&CudaStream> {
        match &self.state.order {
            Order::Cpu(_) => None,
            #[cfg(feature = "cuda")]
            Order::Cuda(order) => Some(order.theirs()),
        }
    }

    /// A storage on this device.
    pub(crate) fn view<'a>(&'a self, storage: &'a Storage, name: &str) -> Result<View<'a>> {
        match (storage, &self.state.order) {
            (Storage::Cpu(storage), Order::Cpu(_)) => Ok(View::Cpu(storage)),
            #[cfg(feature = "cuda")]
            (Storage::Cuda(storage), Order::Cuda(order)) => {
                self.check_cuda(&storage.device, name)?;
                Ok(View::Cuda(storage, order.theirs()))
            }
            (other, _) => refuse(self.elsewhere(&other.device(), name)),
        }
    }

    /// Refuses a tensor of another device.
    pub(crate) fn check(&self, device: &Device, name: &str) -> Result<()> {
        if self.device().same_device(device) { Ok(()) } else { refuse(self.elsewhere(device, name)) }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn check_cuda(&self, device: &candle_core::CudaDevice, name: &str) -> Result<()> {
        match self.device() {
            Device::Cuda(own) if own.id() == device.id() => Ok(()),
            _ => refuse(self.elsewhere(&Device::Cuda(device.clone()), name)),
        }
    }

    fn elsewhere(&self, device: &Device, name: &str) -> String {
        let (got, want) = (device.location(), self.device().location());
        let same = if got == want { " (another `Device` of it)" } else { "" };
        format!("`{name}` is on {got:?}{same}, and this engine is on {want:?}; move it there (`to_device`)")
    }
}
