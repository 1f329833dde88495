//! Runs of a plan as ops of candle.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex, PoisonError},
};

use attn::{KvScales, Out, TensorMut, TensorRef};
use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, Layout, Result, Shape, Storage, Tensor,
    backend::BackendStorage, op::BackpropOp,
};
#[cfg(feature = "cuda")]
use candle_core::{CudaStorage, backend::BackendDevice};

use crate::{
    Engine, Kv, Output, RunOptions,
    error::{IntoCandle, refuse},
    in_place::{Write, write_to},
    kv::Tensors,
    plan::State,
    tensors::{self, Dims, Locked, View, ViewMut, address, candle_dtype},
};

/// A run of a plan. As an op of candle it allocates its output; log-sum-exps are left in it.
#[derive(Clone)]
pub(crate) struct Run {
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

/// A run of a plan, as launches have it.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    state: &'a State,
    layer: Option<&'a attn::Attention>,
    partial: bool,
    form: Form,
}

/// [`Kv`] without its tensors.
#[derive(Clone, Copy)]
struct Form {
    kind: Kind,
    order: attn::PageOrder,
    scales: [f32; 2],
}

#[derive(Clone, Copy)]
enum Kind {
    Separate,
    Fused,
    Latent,
}

/// The name of the op, which candle's errors have.
const NAME: &str = "attn";

impl Form {
    fn of(kv: &Kv<'_>) -> Self {
        let kind = match kv.tensors {
            Tensors::Separate(..) => Kind::Separate,
            Tensors::Fused(_) => Kind::Fused,
            Tensors::Latent(_) => Kind::Latent,
        };
        Form { kind, order: kv.order, scales: kv.scales }
    }

    /// The tensors as attention reads them.
    fn kv<'a>(&self, k: TensorRef<'a>, v: Option<TensorRef<'a>>) -> Result<attn::Kv<'a>> {
        let paged = k.shape().len() == 4;
        let kv = match (self.kind, v) {
            (Kind::Separate, Some(v)) if paged || self.order != attn::PageOrder::Nhd => {
                attn::Kv::paged_in(k, v, self.order).candle()?
            }
            (Kind::Separate, Some(v)) => attn::Kv::ragged(k, v),
            (Kind::Fused, _) => attn::Kv::paged_fused(k, self.order).candle()?,
            (_, _) if paged => attn::Kv::latent_pages(k, self.order).candle()?,
            (_, _) => attn::Kv::latent(k),
        };
        let [k, v] = self.scales;
        Ok(kv.with_scales(KvScales::of(k, v)))
    }

    fn names(&self) -> [&'static str; 2] {
        match self.kind {
            Kind::Fused => ["the pool of keys and values", ""],
            Kind::Separate | Kind::Latent => ["k", "v"],
        }
    }
}

impl Run {
    pub(crate) fn new(state: &Arc<State>, kv: &Kv<'_>, options: RunOptions<'_>) -> Self {
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
    pub(crate) fn apply(self, q: &Tensor, kv: &Kv<'_>) -> Result<Output> {
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

impl<'a> Call<'a> {
    pub(crate) fn new(state: &'a State, kv: &Kv<'_>, options: RunOptions<'a>) -> Self {
        let RunOptions { layer, partial, .. } = options;
        Call { state, layer: layer.map(|layer| &layer.inner), partial, form: Form::of(kv) }
    }

    /// The shapes of o and lse for queries.
    fn shapes(&self, q: &Layout) -> Result<([usize; 3], [usize; 2])> {
        let &[tokens, heads, _] = q.dims() else {
            return refuse(format!(
                "`q` has the shape {:?}; a run takes (queries, query heads, head dim), and `Attention::dense` takes \
                 (batch, queries, query heads, head dim)",
                q.dims()
            ));
        };
        Ok(([tokens, heads, self.state.attention.value_dim], [tokens, heads]))
    }

    /// Launches into the outputs.
    fn launch(
        &self,
        q: (View<'_>, &Layout),
        k: (View<'_>, &Layout),
        v: Option<(View<'_>, &Layout)>,
        o: TensorMut<'_>,
        lse: Option<TensorMut<'_>>,
    ) -> Result<()> {
        let read =
            |(view, layout): (_, &Layout), name, beside: &[&_]| tensors::read(view, &Dims::of(layout), name, beside);
        let [k_name, v_name] = self.form.names();
        let q = read(q, "q", &[])?;
        let k = read(k, k_name, &[&q])?;
        let v = v.map(|v| read(v, v_name, &[&q, &k])).transpose()?;
        let kv = self.form.kv(k.tensor, v.as_ref().map(|v| v.tensor))?;
        let options = attn::RunOptions { layer: self.layer, partial: self.partial };
        let plan = self.state.plan();
        let out = Out { o, lse };
        // what candle knows of the inputs is dropped after the launch, so that its other streams wait for it
        self.state.attention.engine.launch(|stream| plan.run_with(stream, q.tensor, kv, out, options).candle())
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

/// Runs into tensors of the caller.
pub(crate) fn into(run: Call<'_>, q: &Tensor, kv: &Kv<'_>, o: &Tensor, lse: Option<&Tensor>) -> Result<()> {
    let inputs = [Some(q), Some(kv.first()), kv.second()];
    let engine = &run.state.attention.engine;
    let addresses = inputs.map(|input| input.map(address));
    let outputs = [(Some(o), "o"), (lse, "lse")].map(|(of, name)| of.map(|of| (of, address(of), name)));
    for &(output, at, name) in outputs.iter().flatten() {
        engine.check(output.device(), name)?;
        if addresses.contains(&Some(at)) {
            return refuse(format!("`{name}` shares memory with an input; give it memory of its own"));
        }
    }
    if let [Some((_, o, _)), Some((_, lse, _))] = outputs
        && o == lse
    {
        return refuse("`o` and `lse` share memory; give each memory of its own");
    }
    run.shapes(q.layout())?;
    let locked = Locked::new(inputs, addresses);
    let view = |index: usize, name: &str| match (locked.get(index), inputs[index]) {
        (Some(storage), Some(tensor)) => engine.view(storage, name).map(|view| Some((view, tensor.layout()))),
        _ => Ok(None),
    };
    let [k_name, v_name] = run.form.names();
    let (Some(q), Some(k)) = (view(0, "q")?, view(1, k_name)?) else { return refuse("a run takes queries and keys") };
    let launch = Launch { run, q, k, v: view(2, v_name)?, o: RefCell::new(None) };
    match lse {
        None => write_to(o, &launch),
        Some(lse) => write_to(o, &WithLse { launch, lse }),
    }
}

/// The run, once all memory is locked.
struct Launch<'a> {
    run: Call<'a>,
    q: (View<'a>, &'a Layout),
    k: (View<'a>, &'a Layout),
    v: Option<(View<'a>, &'a Layout)>,
    /// Where the last memory to be locked is that of lse: o.
    o: RefCell<Option<TensorMut<'a>>>,
}

/// Locks o, and then lse.
struct WithLse<'a> {
    launch: Launch<'a>,
    lse: &'a Tensor,
}

impl Write for Launch<'_> {
    fn engine(&self) -> &Engine {
        &self.run.state.attention.engine
    }

    fn write(&self, view: ViewMut<'_>, layout: &Layout) -> Result<()> {
        let &Launch { run, q, k, v, ref o } = self;
        let dims = Dims::of(layout);
        match o.take() {
            None => {
                let o = tensors::write(view, &dims, "o")?;
                run.launch(q, k, v, o.tensor, None)
            }
            Some(mut o) => {
                let lse = tensors::write(view, &dims, "lse")?;
                run.launch(q, k, v, o.reborrow(), Some(lse.tensor))
            }
        }
    }
}

impl Write for WithLse<'_> {
    fn engine(&self) -> &Engine {
        self.launch.engine()
    }

    fn write(&self, view: ViewMut<'_>, layout: &Layout) -> Result<()> {
        let Launch { run, q, k, v, .. } = self.launch;
        let o = tensors::write(view, &Dims::of(layout), "o")?;
        write_to(self.lse, &Launch { run, q, k, v, o: RefCell::new(Some(o.tensor)) })
    }
}
