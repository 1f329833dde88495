//! The tensors of a case, where its engine wants them.

use crate::tensor::{Kv, KvScales, Out, Scale, TensorRef};
use crate::{Dtype, Error, Plan, Stream, ValueRows};

use super::inputs::{Host, HostScale, Inputs};
use super::place::{Held, Place};
use super::weave::{self, Woven};
use super::{Case, TestError};

/// Elements behind the end of an output that must stay as they are.
const GUARD: usize = 256;
/// What outputs hold before a run: NaN, also in f32.
const POISON: u8 = 0xff;

/// Inputs and outputs of a run.
pub(super) struct Tensors {
    q: HeldWoven,
    kv: HeldWoven,
    k_scale: HeldScale,
    v_scale: HeldScale,
    o: Held,
    lse: Held,
    qo_shape: [usize; 3],
    kv_shape: Vec<usize>,
    o_shape: [usize; 3],
    /// Where values are as wide as keys, they lie as those do.
    v_shape: Vec<usize>,
    v_strides: Option<Vec<i64>>,
    values: ValueRows,
    paged: bool,
}

/// Tensors of the same strides.
struct HeldWoven {
    memory: Vec<Held>,
    begins: Vec<(usize, usize)>,
    strides: Vec<i64>,
}

/// A scale, and its tensor over the KV heads.
struct HeldScale {
    all: f32,
    heads: Option<(Held, usize)>,
}

/// What a run wrote.
pub(super) struct Written {
    /// The output and its log-sum-exp, as bits, guards cut off.
    pub(super) o: Host,
    /// One a (token, head).
    pub(super) lse: Vec<f32>,
    /// Whether the guard behind either was touched.
    pub(super) outside: bool,
}

impl Tensors {
    /// Copies the inputs of a case there, as its pool has them, and makes room for outputs.
    pub(super) fn put(place: &Place, case: &Case, inputs: &Inputs) -> Result<Self, TestError> {
        let (qo_shape, o_shape) = (inputs.qo_shape(), inputs.o_shape());
        let rows = qo_shape[0] * qo_shape[1];
        Ok(Tensors {
            q: HeldWoven::put(place, weave::queries(inputs, case.pool))?,
            kv: HeldWoven::put(place, weave::keys_and_values(inputs, case.page_order, case.pool))?,
            k_scale: HeldScale::put(place, &inputs.k_scale)?,
            v_scale: HeldScale::put(place, &inputs.v_scale)?,
            o: place.put(&Host::nan(case.dtypes()?.qo, rows * o_shape[2] + GUARD))?,
            lse: place.put(&Host::nan(Dtype::F32, rows + GUARD))?,
            qo_shape,
            kv_shape: inputs.kv_shape.clone(),
            o_shape,
            v_shape: inputs.v_shape.clone(),
            v_strides: (case.values != ValueRows::Same).then(|| inputs.v_strides.clone()),
            values: case.values,
            paged: inputs.keys.paged(),
        })
    }

    /// Puts keys and values elsewhere, in a tensor of this shape. Values are as wide as keys.
    pub(super) fn lay(&mut self, place: &Place, woven: Woven, shape: &[usize]) -> Result<(), TestError> {
        self.kv = HeldWoven::put(place, woven)?;
        (self.kv_shape, self.v_shape) = (shape.to_vec(), shape.to_vec());
        Ok(())
    }

    /// Gives one run of a plan to the stream.
    pub(super) fn run(&mut self, plan: &Plan, stream: &Stream) -> Result<(), Error> {
        let qo_shape = self.qo_shape;
        let contiguous = |shape: [usize; 3]| [(shape[1] * shape[2]) as i64, shape[2] as i64, 1];
        let q = self.q.tensor(0, &qo_shape)?;
        let k = self.kv.tensor(0, &self.kv_shape)?;
        let v = || match &self.v_strides {
            None => self.kv.tensor(1, &self.v_shape),
            Some(strides) => self.kv.tensor_with(1, &self.v_shape, strides),
        };
        let kv = match self.paged {
            _ if self.values.are_of_keys() => Kv::latent(k),
            true => Kv::paged(k, v()?),
            false => Kv::ragged(k, v()?),
        };
        let scales = KvScales { k: self.k_scale.scale()?, v: self.v_scale.scale()? };
        let o = self.o.tensor_mut(&self.o_shape, &contiguous(self.o_shape))?;
        let lse = self.lse.tensor_mut(&qo_shape[..2], &[qo_shape[1] as i64, 1])?;
        plan.run(stream, q, kv.with_scales(scales), Out::with_lse(o, lse))
    }

    /// Fills the outputs with NaN.
    pub(super) fn poison(&mut self) -> Result<(), TestError> {
        self.o.fill(POISON)?;
        self.lse.fill(POISON)
    }

    /// What the outputs hold, after everything given to the device has finished.
    pub(super) fn written(&self) -> Result<Written, TestError> {
        let (o, o_outside) = cut(self.o.get()?);
        let (lse, lse_outside) = cut(self.lse.get()?);
        Ok(Written { o, lse: lse.to_f32(), outside: o_outside || lse_outside })
    }
}

impl Written {
    /// Whether both are the same to the bit, and neither run wrote past its outputs.
    pub(super) fn same_bits(&self, other: &Written) -> bool {
        let lse = |run: &Written| run.lse.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        !self.outside && !other.outside && self.o.bytes() == other.o.bytes() && lse(self) == lse(other)
    }
}

impl HeldWoven {
    fn put(place: &Place, woven: Woven) -> Result<Self, TestError> {
        let memory = woven.memory.iter().map(|host| place.put(host)).collect::<Result<_, _>>()?;
        Ok(HeldWoven { memory, begins: woven.begins, strides: woven.strides })
    }

    fn tensor(&self, which: usize, shape: &[usize]) -> Result<TensorRef<'_>, Error> {
        self.tensor_with(which, shape, &self.strides)
    }

    fn tensor_with(&self, which: usize, shape: &[usize], strides: &[i64]) -> Result<TensorRef<'_>, Error> {
        let (memory, begin) = self.begins[which];
        Ok(self.memory[memory].tensor(begin, shape, strides)?)
    }
}

impl HeldScale {
    fn put(place: &Place, scale: &HostScale) -> Result<Self, TestError> {
        let put = |heads: &Vec<f32>| Ok::<_, TestError>((place.put(&Host::F32(heads.clone()))?, heads.len()));
        Ok(HeldScale { all: scale.all, heads: scale.heads.as_ref().map(put).transpose()? })
    }

    fn scale(&self) -> Result<Scale<'_>, Error> {
        let heads = self.heads.as_ref().map(|(held, heads)| held.tensor(0, &[*heads], &[1]));
        Ok(Scale { all: self.all, heads: heads.transpose()? })
    }
}

/// The elements without the guard, and whether the guard was touched.
fn cut(mut host: Host) -> (Host, bool) {
    let keep = host.len() - GUARD;
    let touched = host.bytes()[keep * host.dtype().size()..].iter().any(|&byte| byte != POISON);
    host.truncate(keep);
    (host, touched)
}
