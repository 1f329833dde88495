//! The parameters of the main kernel and of the merge kernel.

use std::ops::Range;

use attn_core::dtype::Dtype;
use attn_core::plan::{WorkItem, WorkerStart};
use attn_core::tensor::{Kv, Scale, TensorRef};

use super::tensors::RunTensors;
use crate::cuda::CudaError;
use crate::cuda::attention::bound::BoundAttention;
use crate::cuda::memory::strided::{pointer, strided};
use crate::cuda::plan::launches::Launches;
use crate::cuda::plan::plan_workspace::PlanWorkspace;
use crate::launch::{FastDiv, KernelParams, KvSides, Strided};

/// The parameters of all branches. `page_size`: 1 for keys that are not in pages.
pub(super) fn kernel_params(
    attention: &BoundAttention,
    launches: &Launches,
    workspace: &PlanWorkspace,
    page_size: u32,
    tensors: &RunTensors<'_>,
    partial: bool,
) -> Result<KernelParams, CudaError> {
    let heads = attention.heads;
    let at = |section: &Range<usize>| workspace.address(section);
    let (sections, lists) = (&workspace.sections, &workspace.sections.lists);
    let (o, kv) = (tensors.out.o.as_ref(), &tensors.kv);
    let (lse, lse_token, lse_head) = match &tensors.out.lse {
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
        let (tokens, requests) = (launches.preprocess_tokens.into(), launches.requests.into());
        launches.kernel().traits().preprocessed_values(at(&sections.v_pre), tokens, requests, heads.kv)
    };
    // tensors without pages: kernels find scales of e4m3 there, as bits and as an address
    let scale = |name, dtype, scale: &Scale<'_>| match dtype {
        Dtype::E4m3 => Ok::<_, CudaError>((scale.all.to_bits(), scales_of_heads(name, scale)?)),
        _ => Ok((0, 0)),
    };
    let (q_scale, q_scales) = scale("q_scales", tensors.q.dtype(), &kv.q_scale)?;
    let (o_scale, o_scales) = scale("o_scales", o.dtype(), &tensors.out.scale)?;
    let scales = i64::from(q_scale) << 32 | i64::from(o_scale);
    Ok(KernelParams {
        q: Strided { page: scales, ..strided("q", &tensors.q)? },
        k: strided("k", &kv.k)?,
        v: strided("v", &kv.v)?,
        o: Strided { page: o_scales as i64, ..strided("o", &o)? },
        k_pre: Strided { page: q_scales as i64, ..k_pre },
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
        page_size: FastDiv::new(page_size),
        list_block: attention.variant.kv_list_sizes().map(|(block, _)| FastDiv::new(block as u32)).unwrap_or_default(),
        batch: launches.requests as i32,
        kv_heads: heads.kv as i32,
        read_once: i32::from(launches.read_once),
        sm_scale: attention.sm_scale,
        k_scale: kv.scales.k.all,
        v_scale: kv.scales.v.all,
        partial_output: i32::from(partial),
    })
}

/// The parameters of a branch: its part of the work list. Workers count the items of all branches.
pub(super) fn branch_params(
    launches: &Launches,
    workspace: &PlanWorkspace,
    number: usize,
    of_all: KernelParams,
) -> KernelParams {
    let part = &workspace.sections.lists.parts[number];
    if launches.branches[number].kernel.traits().facts().has_workers {
        let workers = of_all.workers + (part.workers.start * size_of::<WorkerStart>()) as u64;
        KernelParams { workers, ..of_all }
    } else {
        KernelParams { items: of_all.items + (part.items.start * size_of::<WorkItem>()) as u64, ..of_all }
    }
}

/// The address of the scales of heads, or of one of all; null if there are none.
fn scales_of_heads(name: &'static str, scale: &Scale<'_>) -> Result<u64, CudaError> {
    scale.heads.as_ref().map_or(Ok(0), |heads| pointer(name, heads))
}

/// The side data of keys and of values. Values that are the first elements of keys have that of the keys.
pub(super) fn kv_sides(kv: &Kv<'_>, of_keys: bool) -> Result<KvSides, CudaError> {
    let side = |name, side: Option<&TensorRef<'_>>| side.map_or(Ok(Strided::default()), |side| strided(name, side));
    let (keys, values) = (kv.sides.k.as_ref(), kv.sides.v.as_ref());
    Ok(KvSides { k: side("k side", keys)?, v: side("v side", if of_keys { keys } else { values })? })
}
