//! The parameters of the main kernel and of the merge kernel.

use std::ops::Range;

use attn_core::{
    plan::{WorkItem, WorkerStart},
    spec::KernelKind,
    tensor::{Kv, Out, Scale, TensorRef},
};

use crate::{
    cuda::{
        CudaError, CudaPlan,
        memory::strided::{pointer, strided},
    },
    launch::{FastDiv, KernelParams, KvSides, Strided},
};

impl CudaPlan {
    /// Whether K/V loads of decode workers use the L2 policy `evict_first`. It needs keys that one CTA alone reads: all
    /// rows of a request are one Q tile, and requests share no keys.
    ///
    /// Decode alone also needs few enough bytes that other data could stay in L2. On an H200 the policy saves 4 to 6 us
    /// of a run that reads 150 MB; a run that reads 1 GB is 4 % slower with it. In a mixed launch the keys of the
    /// prefill part are such data at any size: every tile of a request reads them (up to 3 % of a launch). On CUDA
    /// cores that part loads keys as decode does, so the policy would evict them.
    fn read_once(&self) -> bool {
        let capacity = self.capacity();
        if self.kind() == KernelKind::Mixed {
            let levels = capacity.map_or(self.layout.has_levels(), |capacity| capacity.levels > 1);
            return !levels && !self.kernel().traits().prefill_part().cuda_cores;
        }
        let attention = &*self.attention;
        let queries = capacity.map_or(self.layout.max_qo_len() as u64, |capacity| capacity.qo_len.into());
        let rows = queries * u64::from(attention.heads.group());
        let traits = self.kernel().traits();
        let key_bytes =
            u64::from(traits.key_bytes() + if attention.head_dim_vo.shares_keys() { 0 } else { traits.value_bytes() });
        let keys = capacity.map_or(self.keys_read, |capacity| capacity.kv_tokens.into());
        let bytes = keys.saturating_mul(u64::from(attention.heads.kv) * key_bytes);
        rows <= traits.tile_rows.into() && bytes <= 4 * u64::from(attention.device.l2_bytes())
    }

    /// The parameters of a branch: its part of the work list. Workers count the items of all branches.
    pub(in crate::cuda) fn branch_params(&self, number: usize, of_all: KernelParams) -> KernelParams {
        let part = &self.sections.lists.parts[number];
        if self.branches[number].kernel.traits().has_workers() {
            let workers = of_all.workers + (part.workers.start * size_of::<WorkerStart>()) as u64;
            KernelParams { workers, ..of_all }
        } else {
            KernelParams { items: of_all.items + (part.items.start * size_of::<WorkItem>()) as u64, ..of_all }
        }
    }

    /// Requests of the batch, or those that its capacity has room for.
    pub(in crate::cuda) fn requests(&self) -> u32 {
        self.capacity().map_or(self.layout.batch() as u32, |capacity| capacity.requests)
    }

    /// The address of a section; null if it is empty.
    pub(in crate::cuda) fn address(&self, section: &Range<usize>) -> u64 {
        if section.is_empty() { 0 } else { self.memory.buffer.ptr() + section.start as u64 }
    }

    pub(in crate::cuda) fn params(
        &self,
        q: &TensorRef<'_>,
        kv: &Kv<'_>,
        out: &Out<'_>,
        partial: bool,
    ) -> Result<KernelParams, CudaError> {
        let attention = &*self.attention;
        let heads = attention.heads;
        let at = |section: &Range<usize>| self.address(section);
        let (sections, lists) = (&self.sections, &self.sections.lists);
        let o = out.o.as_ref();
        let (lse, lse_token, lse_head) = match &out.lse {
            None => (0, 0, 0),
            Some(lse) => {
                let strides = lse.strides();
                (pointer("lse", &lse.as_ref())?, strides[0], strides[1])
            }
        };
        let k_pre = {
            let (token, head) = (i64::from(heads.kv) * i64::from(heads.head_dim), i64::from(heads.head_dim));
            Strided { data: at(&sections.k_pre), token, head, page: 0 }
        };
        let v_pre = {
            let (tokens, requests) = (self.preprocess_tokens.into(), self.requests().into());
            self.kernel().traits().preprocessed_values(at(&sections.v_pre), tokens, requests, heads.kv)
        };
        Ok(KernelParams {
            q: strided("q", q)?,
            k: strided("k", &kv.k)?,
            v: strided("v", &kv.v)?,
            o: strided("o", &o)?,
            k_pre,
            v_pre,
            lse,
            lse_token,
            lse_head,
            k_scales: scales_of_heads("k_scales", &kv.scales.k)?,
            v_scales: scales_of_heads("v_scales", &kv.scales.v)?,
            qo_indptr: at(&lists.qo_indptr),
            kv_indptr: at(&lists.kv_indptr),
            page_indptr: at(&lists.page_indptr),
            page_indices: at(&lists.page_indices),
            items: at(&lists.items),
            merges: at(&lists.merges),
            workers: at(&lists.workers),
            split_semaphores: at(&sections.split_semaphores),
            partial_o: at(&sections.partial_o),
            partial_md: at(&sections.partial_md),
            group: FastDiv::new(heads.group()),
            page_size: FastDiv::new(self.layout.pages().map_or(1, |pages| pages.page_size())),
            list_block: FastDiv::new(attention.variant.kv_list_sizes().map_or(1, |(block, _)| block as u32)),
            batch: self.requests() as i32,
            kv_heads: heads.kv as i32,
            read_once: i32::from(self.read_once()),
            sm_scale: attention.sm_scale,
            k_scale: kv.scales.k.all,
            v_scale: kv.scales.v.all,
            partial_output: i32::from(partial),
        })
    }
}

/// The address of the scales of heads; null if there are none.
fn scales_of_heads(name: &'static str, scale: &Scale<'_>) -> Result<u64, CudaError> {
    scale.heads.as_ref().map_or(Ok(0), |heads| pointer(name, heads))
}

/// The side data of keys and of values. Values that are the first elements of keys have that of the keys.
pub(super) fn kv_sides(kv: &Kv<'_>, of_keys: bool) -> Result<KvSides, CudaError> {
    let side = |name, side: Option<&TensorRef<'_>>| side.map_or(Ok(Strided::default()), |side| strided(name, side));
    let (keys, values) = (kv.sides.k.as_ref(), kv.sides.v.as_ref());
    Ok(KvSides { k: side("k side", keys)?, v: side("v side", if of_keys { keys } else { values })? })
}
