//! Runs as ops of candle, which allocate their output.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::backend::BackendStorage;
use candle_core::op::BackpropOp;
use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, Layout, Result, Shape, Storage, Tensor};
#[cfg(feature = "cuda")]
use candle_core::{CudaStorage, backend::BackendDevice};

use super::call::{Call, Form};
use crate::error::refuse;
use crate::plan::State;
use crate::tensors::{self, Dims, View, ViewMut, candle_dtype};
use crate::{Kv, Output, RunOptions};

/// A run of a plan, in which log-sum-exps are left.
#[derive(Clone)]
pub(super) struct Run {
    state: Arc<State>,
    layer: Option<attn::Attention>,
    partial: bool,
    /// How the tensors hold keys and values; the tensors are passed.
    form: Form,
    /// Where log-sum-exps are left, if they are wanted.
    lse: Option<Arc<Mutex<Option<Lse>>>>,
}

/// Log-sum-exps of (queries, query heads).
type Lse = (Storage, [usize; 2]);

/// The name of the op, which candle's errors have.
const NAME: &str = "attn";

impl Run {
    pub(super) fn new(state: &Arc<State>, kv: &Kv<'_>, options: RunOptions<'_>) -> Self {
        let RunOptions { layer, partial, lse } = options;
        Run {
            state: state.clone(),
            layer: layer.map(|layer| layer.inner.clone()),
            partial,
            form: Form::of(kv),
            lse: lse.then(Arc::default),
        }
    }

    /// Runs, and returns new tensors.
    pub(super) fn apply(self, q: &Tensor, kv: &Kv<'_>) -> Result<Output> {
        let (first, second) = (kv.first(), kv.second());
        self.state.attention.engine.check(q.device(), "q")?;
        let tracked = q.track_op() || first.track_op() || second.is_some_and(Tensor::track_op);
        let o = match (second, tracked) {
            (Some(second), false) => q.apply_op3_no_bwd(first, second, &self)?,
            (None, false) => q.apply_op2_no_bwd(first, &self)?,
            // so that `backward` says that there is none
            (Some(second), true) => q.apply_op3(first, second, self.clone())?,
            (None, true) => q.apply_op2(first, self.clone())?,
        };
        let lse = self.lse.and_then(|lse| lse.lock().unwrap_or_else(PoisonError::into_inner).take());
        let lse = lse.map(|(storage, shape)| {
            let shape = Shape::from_dims(&shape);
            match tracked {
                true => o.apply_op1(LseOf(Mutex::new(Some((storage, shape))))),
                false => Ok(Tensor::from_storage(storage, shape, BackpropOp::none(), false)),
            }
        });
        let lse = lse.transpose()?;
        Ok(Output { o, lse })
    }

    fn call(&self) -> Call<'_> {
        Call { state: &self.state, layer: self.layer.as_ref(), partial: self.partial, form: self.form }
    }

    fn on_cpu(
        &self,
        q: (&CpuStorage, &Layout),
        k: (&CpuStorage, &Layout),
        v: Option<(&CpuStorage, &Layout)>,
    ) -> Result<(CpuStorage, Shape)> {
        let (shape, rows) = self.call().shapes(q.1)?;
        let elements = shape.iter().product();
        let mut o = match q.0.dtype() {
            DType::F16 => CpuStorage::F16(vec![half::f16::ZERO; elements]),
            DType::BF16 => CpuStorage::BF16(vec![half::bf16::ZERO; elements]),
            DType::F32 => CpuStorage::F32(vec![0.0; elements]),
            other => return self.refuse_queries(other),
        };
        let mut lse = self.lse.as_ref().map(|_| CpuStorage::F32(vec![0.0; rows.iter().product()]));
        let view = |(storage, layout)| (View::Cpu(storage), layout);
        {
            let out = sink(ViewMut::Cpu(&mut o), &shape, "o")?;
            let mut lse = lse.as_mut().map(|lse| sink(ViewMut::Cpu(lse), &rows, "lse")).transpose()?;
            let lse = lse.as_mut().map(|lse| lse.tensor.reborrow());
            self.call().launch(view(q), view(k), v.map(view), out.tensor, lse)?;
        }
        self.leave(lse.map(Storage::Cpu), rows);
        Ok((o, Shape::from_dims(&shape)))
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(
        &self,
        q: (&CudaStorage, &Layout),
        k: (&CudaStorage, &Layout),
        v: Option<(&CudaStorage, &Layout)>,
    ) -> Result<(CudaStorage, Shape)> {
        let (shape, rows) = self.call().shapes(q.1)?;
        let engine = &self.state.attention.engine;
        let (device, stream) = (&q.0.device, engine.cuda_stream());
        let Some(stream) = stream else { return refuse("`q` is on a CUDA device, and this engine is the CPU") };
        for (storage, name) in [(q.0, "q"), (k.0, "k")].into_iter().chain(v.map(|v| (v.0, "v"))) {
            engine.check_cuda(&storage.device, name)?;
        }
        if !matches!(q.0.dtype(), DType::F16 | DType::BF16 | DType::F32) {
            return self.refuse_queries(q.0.dtype());
        }
        // under a capacity a run, or a replay of it, may have fewer queries than the tensors
        let has_capacity = self.state.plan().capacity().is_some();
        let alloc = |shape: &[usize], dtype| match has_capacity {
            true => device.zeros_impl(&Shape::from_dims(shape), dtype),
            // SAFETY: the run writes every element before anything reads it: those of the batch, and there are no more.
            false => unsafe { device.alloc_uninit(&Shape::from_dims(shape), dtype) },
        };
        let mut o = alloc(&shape, q.0.dtype())?;
        let mut lse = self.lse.as_ref().map(|_| alloc(&rows, DType::F32)).transpose()?;
        let view = |(storage, layout)| (View::Cuda(storage, stream), layout);
        {
            let out = sink(ViewMut::Cuda(&mut o, stream), &shape, "o")?;
            // what a sink orders ends with it, after the launch
            let mut lse = lse.as_mut().map(|lse| sink(ViewMut::Cuda(lse, stream), &rows, "lse")).transpose()?;
            let lse = lse.as_mut().map(|lse| lse.tensor.reborrow());
            self.call().launch(view(q), view(k), v.map(view), out.tensor, lse)?;
        }
        self.leave(lse.map(Storage::Cuda), rows);
        Ok((o, Shape::from_dims(&shape)))
    }

    fn refuse_queries<T>(&self, got: DType) -> Result<T> {
        let want = candle_dtype(self.state.attention.dtypes.qo)?;
        refuse(format!("`q` is of {}; this attention is of {} (`to_dtype`)", got.as_str(), want.as_str()))
    }

    fn leave(&self, lse: Option<Storage>, shape: [usize; 2]) {
        if let Some(left) = &self.lse {
            *left.lock().unwrap_or_else(PoisonError::into_inner) = lse.map(|lse| (lse, shape));
        }
    }
}

/// A contiguous output over a whole storage.
fn sink<'a>(view: ViewMut<'a>, shape: &[usize], name: &str) -> Result<tensors::Sink<'a>> {
    tensors::write(view, &Dims::of(&Layout::contiguous(shape)), name)
}

impl CustomOp3 for Run {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.on_cpu((q, q_layout), (k, k_layout), Some((v, v_layout)))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        q: &CudaStorage,
        q_layout: &Layout,
        k: &CudaStorage,
        k_layout: &Layout,
        v: &CudaStorage,
        v_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.on_cuda((q, q_layout), (k, k_layout), Some((v, v_layout)))
    }
}

impl CustomOp2 for Run {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        kv: &CpuStorage,
        kv_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.on_cpu((q, q_layout), (kv, kv_layout), None)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        q: &CudaStorage,
        q_layout: &Layout,
        kv: &CudaStorage,
        kv_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.on_cuda((q, q_layout), (kv, kv_layout), None)
    }
}

/// Log-sum-exps that a run has left, as an op over its output: `backward` through them says as well that there is none.
struct LseOf(Mutex<Option<(Storage, Shape)>>);

impl LseOf {
    fn take(&self) -> Result<(Storage, Shape)> {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        left.ok_or_else(|| candle_core::Error::msg("the log-sum-exps of a run are taken once"))
    }
}

impl CustomOp1 for LseOf {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        match self.take()? {
            (Storage::Cpu(storage), shape) => Ok((storage, shape)),
            (other, _) => refuse(format!("log-sum-exps are on {:?}", other.device().location())),
        }
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        match self.take()? {
            (Storage::Cuda(storage), shape) => Ok((storage, shape)),
            (other, _) => refuse(format!("log-sum-exps are on {:?}", other.device().location())),
        }
    }
}
