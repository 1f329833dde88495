//! The tensors of a case in memory of its engine.

use attn::{Dtype, Engine, Error, HeadDimVo, Plan, RunOptions, Stream};
use attn_core::tensor::{Kv, KvScales, KvSides, Out, Scale, TensorRef};

use super::engine_memory::{PlacedTensor, put};
use super::host::{Host, HostScale};
use super::host_tensor::HostTensor;
use super::inputs::Inputs;
use super::interleave::{self, Interleaved};
use super::{Case, Pool, TestError};

/// Guard elements behind the end of an output.
const GUARD: usize = 256;
/// The byte that fills outputs before a run: NaN in every type.
const POISON: u8 = 0xff;

/// Inputs and outputs of a run.
pub(super) struct Tensors {
    q: Interleaved<PlacedTensor>,
    kv: Interleaved<PlacedTensor>,
    /// Side data of keys and of values in KV formats.
    sides: [Option<PlacedSide>; 2],
    k_scale: PlacedScale,
    v_scale: PlacedScale,
    o: PlacedTensor,
    o_scale: PlacedScale,
    q_scale: PlacedScale,
    lse: PlacedTensor,
    qo_shape: [usize; 3],
    kv_shape: Vec<usize>,
    o_shape: [usize; 3],
    v_shape: Vec<usize>,
    /// They differ from those of keys if the head dims differ.
    v_strides: Vec<i64>,
    head_dim_vo: HeadDimVo,
    paged: bool,
    /// Whether runs are partial.
    partial: bool,
}

/// Side data, its shape and its strides.
struct PlacedSide(PlacedTensor, Vec<usize>, Vec<i64>);

/// A scale, and its tensor over the KV heads.
struct PlacedScale {
    all: f32,
    heads: Option<(PlacedTensor, usize)>,
}

/// The outputs of a run.
pub(super) struct Written {
    /// The output without guard.
    pub(super) o: Host,
    /// The log-sum-exp, one a (token, head).
    pub(super) lse: Vec<f32>,
    /// Whether a guard was overwritten.
    pub(super) outside: bool,
}

impl Tensors {
    /// Uploads the inputs of a case in the layout of its pool, and allocates outputs.
    pub(super) fn put(engine: &Engine, case: &Case, inputs: &Inputs) -> Result<Self, TestError> {
        let (qo_shape, o_shape) = (inputs.qo_shape(), inputs.o_shape());
        let rows = qo_shape[0] * qo_shape[1];
        if case.pool != Pool::Split && inputs.kv_shape != inputs.v_shape {
            let why = "keys and values whose rows have different bytes are in pools of their own".to_owned();
            return Err(TestError::Field { field: "pool", why });
        }
        let kv = interleave::keys_and_values(inputs, case.page_order, case.pool);
        let strides = if case.pool == Pool::Split { &inputs.v_strides } else { &kv.strides };
        let [k_side, v_side] = inputs.sides.each_ref().map(|side| PlacedSide::put(engine, side.as_ref()));
        Ok(Tensors {
            v_strides: strides.clone(),
            q: Interleaved::put(engine, interleave::queries(inputs, case.pool))?,
            kv: Interleaved::put(engine, kv)?,
            sides: [k_side?, v_side?],
            k_scale: PlacedScale::put(engine, &inputs.k_scale)?,
            v_scale: PlacedScale::put(engine, &inputs.v_scale)?,
            o: put(engine, &Host::nan(case.dtypes()?.output(), rows * o_shape[2] + GUARD))?,
            o_scale: PlacedScale::put(engine, &case.o_scale())?,
            q_scale: PlacedScale::put(engine, &case.q_scale())?,
            lse: put(engine, &Host::nan(Dtype::F32, rows + GUARD))?,
            qo_shape,
            kv_shape: inputs.kv_shape.clone(),
            o_shape,
            v_shape: inputs.v_shape.clone(),
            head_dim_vo: case.head_dim_vo,
            paged: inputs.keys.paged(),
            partial: case.partial,
        })
    }

    /// Replaces keys and values by a tensor of another shape. Their head dims must be equal.
    pub(super) fn lay(&mut self, engine: &Engine, kv: Interleaved, shape: &[usize]) -> Result<(), TestError> {
        self.v_strides.clone_from(&kv.strides);
        self.kv = Interleaved::put(engine, kv)?;
        (self.kv_shape, self.v_shape) = (shape.to_vec(), shape.to_vec());
        Ok(())
    }

    /// Further runs are of the first `tokens` queries, at most as many as were uploaded.
    pub(super) fn set_tokens(&mut self, tokens: usize) {
        (self.qo_shape[0], self.o_shape[0]) = (tokens, tokens);
    }

    /// Launches one run of a plan.
    pub(super) fn run(&mut self, plan: &Plan, stream: &Stream) -> Result<(), Error> {
        let qo_shape = self.qo_shape;
        let contiguous = |shape: [usize; 3]| [(shape[1] * shape[2]) as i64, shape[2] as i64, 1];
        let q = self.q.tensor(0, &qo_shape, &self.q.strides)?;
        let k = self.kv.tensor(0, &self.kv_shape, &self.kv.strides)?;
        let v = || self.kv.tensor(1, &self.v_shape, &self.v_strides);
        let kv = match self.paged {
            _ if self.head_dim_vo.shares_keys() => Kv::latent(k),
            true => Kv::paged(k, v()?),
            false => Kv::ragged(k, v()?),
        };
        let scales = KvScales { k: self.k_scale.scale()?, v: self.v_scale.scale()? };
        let o = self.o.tensor_mut(&self.o_shape, &contiguous(self.o_shape))?;
        let lse = self.lse.tensor_mut(&qo_shape[..2], &[qo_shape[1] as i64, 1])?;
        let [k_side, v_side] = self.sides.each_ref().map(PlacedSide::tensor);
        let kv = kv.with_scales(scales).with_sides(KvSides::new(k_side?, v_side?));
        let kv = kv.with_query_scale(self.q_scale.scale()?);
        let options = RunOptions { partial: self.partial, ..RunOptions::default() };
        plan.run_with(stream, q, kv, Out::with_lse(o, lse).with_scale(self.o_scale.scale()?), options)
    }

    /// Fills the outputs with NaN.
    pub(super) fn poison(&mut self) -> Result<(), TestError> {
        self.o.fill(POISON)?;
        self.lse.fill(POISON)
    }

    /// Reads the outputs, after everything launched on the device has finished.
    pub(super) fn written(&self) -> Result<Written, TestError> {
        let (o, o_outside) = split_guard(self.o.get()?);
        let (lse, lse_outside) = split_guard(self.lse.get()?);
        Ok(Written { o, lse: lse.to_f32(), outside: o_outside || lse_outside })
    }
}

impl Written {
    /// Whether both have the same bits.
    pub(super) fn same_bits(&self, other: &Written) -> bool {
        self.o.bytes() == other.o.bytes() && equal_bits(&self.lse, &other.lse)
    }

    /// Whether both have the same bits, and neither run overwrote a guard.
    pub(super) fn same_and_inside(&self, other: &Written) -> bool {
        !self.outside && !other.outside && self.same_bits(other)
    }
}

impl Interleaved<PlacedTensor> {
    fn put(engine: &Engine, Interleaved { memory, begins, strides }: Interleaved) -> Result<Self, TestError> {
        let memory = memory.iter().map(|host| put(engine, host)).collect::<Result<_, _>>()?;
        Ok(Interleaved { memory, begins, strides })
    }

    fn tensor(&self, which: usize, shape: &[usize], strides: &[i64]) -> Result<TensorRef<'_>, Error> {
        let (memory, begin) = self.begins[which];
        Ok(self.memory[memory].tensor(begin, shape, strides)?)
    }
}

impl PlacedSide {
    fn put(engine: &Engine, side: Option<&HostTensor>) -> Result<Option<Self>, TestError> {
        let put =
            |side: &HostTensor| Ok(PlacedSide(put(engine, &side.host)?, side.shape.clone(), side.strides.clone()));
        side.map(put).transpose()
    }

    fn tensor(side: &Option<Self>) -> Result<Option<TensorRef<'_>>, Error> {
        Ok(side.as_ref().map(|PlacedSide(held, shape, strides)| held.tensor(0, shape, strides)).transpose()?)
    }
}

impl PlacedScale {
    fn put(engine: &Engine, scale: &HostScale) -> Result<Self, TestError> {
        let put = |heads: &Vec<f32>| Ok::<_, TestError>((put(engine, &Host::F32(heads.clone()))?, heads.len()));
        Ok(PlacedScale { all: scale.all, heads: scale.heads.as_ref().map(put).transpose()? })
    }

    fn scale(&self) -> Result<Scale<'_>, Error> {
        let heads = self.heads.as_ref().map(|(held, heads)| held.tensor(0, &[*heads], &[1]));
        Ok(Scale { all: self.all, heads: heads.transpose()? })
    }
}

/// Whether two slices have the same bits, those of NaN too.
pub(super) fn equal_bits(a: &[f32], b: &[f32]) -> bool {
    bytemuck::cast_slice::<_, u8>(a) == bytemuck::cast_slice::<_, u8>(b)
}

/// The elements without the guard, and whether the guard was overwritten.
fn split_guard(mut host: Host) -> (Host, bool) {
    let keep = host.len() - GUARD;
    let touched = host.bytes()[keep * host.dtype().size()..].iter().any(|&byte| byte != POISON);
    host.truncate(keep);
    (host, touched)
}
