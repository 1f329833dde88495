//! A variant bound to heads, element types and an engine.

mod cpu;

use attn_core::ops::tensor_rows::set_rows;

use crate::backend::{Backend, CudaAttention, map_backend, on_backend};
use crate::batch::Layout;
use crate::expr::TensorContent;
use crate::ops::TensorRows;
use crate::{AttentionOptions, Dtype, Dtypes, Engine, Error, HeadDimVo, Heads, KernelKind, Stream, Variant, Workspace};

pub(crate) use cpu::CpuAttention;

/// A variant bound to heads, element types and an engine. It makes plans. Cheap to clone. `Send` and `Sync`: several
/// threads may plan at once, each into a workspace of its own.
#[derive(Clone, Debug)]
pub struct Attention {
    pub(crate) backend: Backend<CpuAttention, CudaAttention>,
}

impl Engine {
    /// An empty workspace. Planning grows it.
    #[must_use]
    pub fn workspace(&self) -> Workspace {
        Workspace::empty(self)
    }

    /// Binds a variant to heads and element types.
    ///
    /// # Errors
    ///
    /// Parameters, heads or types that are not allowed (q and o cannot be fp8). On CUDA also heads, types or hooks that
    /// no kernel supports, and a file of `ATTN_COSTS` without costs where [`Engine::with_costs`] has given no others.
    pub fn attention(&self, variant: &Variant, heads: Heads, dtypes: Dtypes) -> Result<Attention, Error> {
        self.attention_with(variant, heads, dtypes, AttentionOptions::default())
    }

    /// Binds a variant with options.
    ///
    /// # Errors
    ///
    /// The errors of [`Engine::attention`].
    pub fn attention_with(
        &self,
        variant: &Variant,
        heads: Heads,
        dtypes: Dtypes,
        options: AttentionOptions,
    ) -> Result<Attention, Error> {
        let backend = map_backend!(&self.backend, {
            Cpu(()) => CpuAttention::new(variant, heads, dtypes, options)?,
            Cuda(device) => CudaAttention::new(device, variant, heads, dtypes, options)?,
        });
        Ok(Attention { backend })
    }
}

impl Attention {
    /// The bound variant.
    #[must_use]
    pub fn variant(&self) -> &Variant {
        on_backend!(&self.backend, {
            Cpu(attention) => &attention.variant,
            Cuda(attention) => attention.variant(),
        })
    }

    /// The same attention with the parameters of another layer (caps, slopes, sinks, windows, tables): those of
    /// `variant`, which has the same parts in the same places. It shares the kernels, so nothing is compiled, and a
    /// plan of this attention also runs it ([`RunOptions::layer`](crate::RunOptions::layer)). The scale of logits and
    /// [`KvStored`](crate::KvStored) stay.
    ///
    /// ```
    /// use attn::{Error, Out, prelude::*};
    ///
    /// let engine = Engine::cpu();
    /// let heads = Heads { qo: 4, kv: 2, head_dim: 8 };
    /// let near = Variant::parse("causal + sliding_window(window=2)");
    /// let far = Variant::parse("causal + sliding_window(window=64)");
    /// let near = engine.attention(&near?, heads, Dtypes::f32())?;
    /// let far = near.with_parameters(&far?)?.with_sm_scale(0.25)?;
    ///
    /// // one plan for all layers: it has the keys that any of them sees
    /// let options = PlanOptions { layers: &[&far], ..Default::default() };
    /// let plan = near.plan_with(&Batch::ragged(&[0, 1], &[0, 9]), &mut engine.workspace(), options)?;
    /// let (stream, q, keys) = (engine.stream()?, engine.upload(&[1f32; 32])?, engine.upload(&[1f32; 9 * 16])?);
    /// let mut o = engine.alloc(Dtype::F32, 32)?;
    /// for layer in [&near, &far] {
    ///     let keys = keys.tensor(&[9, 2, 8])?;
    ///     let out = Out::new(o.tensor_mut(&[1, 4, 8])?);
    ///     let options = RunOptions { layer: Some(layer), ..Default::default() };
    ///     plan.run_with(&stream, q.tensor(&[1, 4, 8])?, Kv::ragged(keys, keys), out, options)?;
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`LayerError::Structure`](crate::expr::LayerError::Structure) where more than parameters differs; a parameter
    /// that does not fit the heads; on CUDA, out of memory for tensors.
    pub fn with_parameters(&self, variant: &Variant) -> Result<Self, Error> {
        Ok(Attention { backend: map_backend!(&self.backend, attention => attention.with_parameters(variant)?) })
    }

    /// The same attention with another scale of logits. It shares kernels and plans with this one, as
    /// [`Attention::with_parameters`] says.
    ///
    /// # Errors
    ///
    /// A scale that is not positive and finite.
    pub fn with_sm_scale(&self, sm_scale: f32) -> Result<Self, Error> {
        Ok(Attention { backend: map_backend!(&self.backend, attention => attention.with_sm_scale(sm_scale)?) })
    }

    /// The heads.
    #[must_use]
    pub fn heads(&self) -> Heads {
        on_backend!(&self.backend, {
            Cpu(attention) => attention.heads,
            Cuda(attention) => attention.heads(),
        })
    }

    pub(crate) fn dtypes(&self) -> Dtypes {
        on_backend!(&self.backend, { Cpu(attention) => attention.dtypes, Cuda(attention) => attention.dtypes() })
    }

    fn head_dim_vo(&self) -> HeadDimVo {
        on_backend!(&self.backend, {
            Cpu(attention) => attention.head_dim_vo,
            Cuda(attention) => attention.head_dim_vo(),
        })
    }

    /// Whether values are in the tensor of keys.
    pub(crate) fn values_in_keys(&self) -> bool {
        matches!(self.head_dim_vo(), HeadDimVo::SharedWithKeys(_))
    }

    /// The type of outputs, and the elements of an output of a head.
    pub(crate) fn output(&self) -> (Dtype, usize) {
        let dtypes = self.dtypes();
        (dtypes.o.unwrap_or(dtypes.qo), self.head_dim_vo().dim(self.heads()) as usize)
    }

    /// The kernel that runs a batch; `None` on the CPU, which has one for all.
    #[must_use]
    pub fn kernel_kind(&self, layout: &Layout) -> Option<KernelKind> {
        on_backend!(&self.backend, { Cpu(_) => None, Cuda(attention) => Some(attention.choose(layout)) })
    }

    /// Copies what runs stored for this attention into its `OutTensor` handles, as
    /// [`Plan::fetch_outputs`](crate::Plan::fetch_outputs) does for the attention of the plan.
    ///
    /// # Errors
    ///
    /// A stream of another backend, or a fault of a kernel that ran before.
    pub fn fetch_outputs(&self, stream: &Stream) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(_) => stream.cpu(),
            Cuda(attention) => stream.cuda().and_then(|_| Ok(attention.read_outputs()?)),
        })
    }

    pub(crate) fn cpu(&self) -> Result<&CpuAttention, Error> {
        self.backend.cpu("attention")
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&self) -> Result<&CudaAttention, Error> {
        self.backend.cuda("attention")
    }

    /// Replaces the content of a parameter tensor that was given when the attention was made: `pages` of a `page_list`,
    /// or `page_list.pages` where several parts have a tensor of that name. Its shape stays, and nothing is planned or
    /// compiled. Later launches on any stream read the new values, in every plan of this attention and in replays of
    /// captured runs. So a decode loop under one CUDA graph can select other pages at each step and layer. Values in
    /// host memory may be changed on return.
    ///
    /// Plans of a variant with key lists reserve the list lengths that the attention was made with, and kernels read
    /// the lengths again when they run. So make the attention with the longest lists:
    ///
    /// ```
    /// use attn::{expr::TensorContent, Out, prelude::*, stock::PageList};
    ///
    /// // two requests of one query, one KV head, up to 4 pages of 2 keys each
    /// let engine = Engine::cpu();
    /// let heads = Heads { qo: 1, kv: 1, head_dim: 8 };
    /// let attention = engine.attention(&PageList::with_capacity(2, 4, 2, 1)?.into(), heads, Dtypes::f32())?;
    /// let (stream, mut workspace) = (engine.stream()?, engine.workspace());
    /// let plan = attention.plan(&Batch::ragged(&[0, 1, 2], &[0, 8, 16]), &mut workspace)?;
    ///
    /// // on a CUDA device: capture both copies together with the run, from memory that kernels of the engine write
    /// // (`TensorContent::device`)
    /// attention.set_tensor(&stream, "pages", &TensorContent::host(&[3i32, 0, 0, 0, 1, 2, 0, 0]))?;
    /// attention.set_tensor(&stream, "count", &TensorContent::host(&[1i32, 2]))?;
    ///
    /// let (q, k) = (vec![0f32; 2 * 8], vec![0f32; 16 * 8]);
    /// let v: Vec<f32> = (0..16).flat_map(|key| [key as f32; 8]).collect();
    /// let mut o = vec![0f32; q.len()];
    /// let tensor = |data| TensorRef::host(data, &[16, 1, 8]);
    /// let out = Out::new(TensorMut::host(&mut o, &[2, 1, 8])?);
    /// plan.run(&stream, TensorRef::host(&q, &[2, 1, 8])?, Kv::ragged(tensor(&k)?, tensor(&v)?), out)?;
    /// assert_eq!((o[0], o[8]), (6.5, 11.5)); // keys 6 and 7; keys 2 to 5 of the second
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContentError`](crate::expr::ContentError) for a tensor that the host reads too (tile classes, `kv_range`), for
    /// one that was not given, for values of another type, number or memory, and for values that violate a condition of
    /// the parameter (checked on the CPU only). On CUDA also values in host memory while the stream is being captured.
    pub fn set_tensor(&self, stream: &Stream, name: &str, content: &TensorContent<'_>) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(this) => stream.cpu().and_then(|()| this.replace(name, |of, slot| Ok(of.set_content(slot, content)?))),
            Cuda(attention) => Ok(attention.set_tensor(stream.cuda()?, name, content)?),
        })
    }

    /// Writes rows of a parameter tensor in place: the new tokens of a table that grows. As [`Attention::set_tensor`]
    /// otherwise. On CUDA one launch reads rows and indices from device memory; a capture needs a call before.
    ///
    /// # Errors
    ///
    /// Rows of another length than those of the tensor; an index past its end, which a kernel skips and counts instead
    /// ([`TensorRows`]); the errors of [`Attention::set_tensor`].
    pub fn set_tensor_rows(&self, stream: &Stream, name: &str, rows: &TensorRows<'_>) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(this) => stream.cpu().and_then(|()| this.replace(name, |of, slot| Ok(set_rows(of, slot, rows)?))),
            Cuda(attention) => Ok(attention.set_tensor_rows(stream.cuda()?, name, rows)?),
        })
    }

    /// The device address of a parameter tensor, row-major. Kernels of the engine may write it there themselves, in the
    /// order of a stream, where [`Attention::set_tensor`] would copy. The address is valid while this attention or a
    /// plan of it lives.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] on the CPU; the errors of [`Attention::set_tensor`].
    #[cfg(feature = "cuda")]
    pub fn tensor_ptr(&self, name: &str) -> Result<u64, Error> {
        Ok(self.backend.cuda_for("tensor")?.tensor_ptr(name)?)
    }
}
