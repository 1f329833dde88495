//! A run: a pass over keys and values, the main kernel, a merge, and nothing that a capture would not allow. Of a union, the first
//! two for each arm.

use std::{ffi::c_void, ops::Range};

use attn_core::{
    plan::{MixedOffsets, PlanOffsets, WorkItem, WorkerStart},
    spec::KernelKind,
    tensor::{Kv, Out, Scale, TensorError, TensorRef, check_run},
};
use cudarc::driver::{result, sys::CUfunction};

use super::{
    Attention, CudaError, Plan, Stream,
    boxes::{self, Extents, PackedRows},
    plan::Arm,
    work::{Lists, MixedCounts, pass_tokens},
};
use crate::{
    cell::{Cell, KV_PASS_THREADS, MERGE_THREADS},
    launch::{FastDiv, KernelParams, MixedParams, Strided, TensorMap, WarpgroupParams, Waves},
};

/// What a run makes of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// Outputs: a sink and `output_transform` have been applied.
    Finished,
    /// States that merge with others.
    Unfinished,
}

pub(super) fn check_lse(out: &Out<'_>) -> Result<(), CudaError> {
    let why = "an unfinished row is of no use without it";
    out.lse.as_ref().map(|_| ()).ok_or_else(|| TensorError::Absent { tensor: "lse", why }.into())
}

impl Plan {
    /// Launches the attention: `q` (qo tokens, qo heads, head_dim), `kv` as the batch says, into `out`.
    ///
    /// Only launches: no allocation, no synchronisation, no copy, so it can be captured into a graph. Results are there when
    /// the stream gets there. Under a capture, and after an update on the device, the tensors of a plan with a capacity have to fit the largest batch within it, which the
    /// plan may have been given when the capture is replayed.
    ///
    /// # Errors
    ///
    /// A tensor that does not fit, that is in host memory, or that is not aligned to 16 bytes; a stale plan; a stream of
    /// another device, or not the one that the plan was made on. Nothing is launched then.
    ///
    /// Kernels touch exactly the tokens of the batch's indptr, and the slots of its pages below each request's length; that
    /// these are there is the promise of whoever made the tensors ([`TensorRef::device`]). Two runs of one plan that overlap
    /// in time, on two streams, mix their partial states, and take each other's work: use a workspace for each.
    pub fn run(&self, stream: &Stream, q: TensorRef<'_>, kv: Kv<'_>, out: Out<'_>) -> Result<(), CudaError> {
        self.give(None, stream, Rows::Finished, q, kv, out)
    }

    /// As [`Plan::run`], of rows that are left unfinished: neither sink nor `output_transform`. What is written is the state of each row over the
    /// keys of this batch, o divided by its own denominator and its log-sum-exp, which merges with states over other keys
    /// ([`attn_core::state`] says how, and how rows are finished afterwards).
    ///
    /// # Errors
    ///
    /// As [`Plan::run`]; and an output without lse.
    pub fn run_unfinished(&self, stream: &Stream, q: TensorRef<'_>, kv: Kv<'_>, out: Out<'_>) -> Result<(), CudaError> {
        check_lse(&out)?;
        self.give(None, stream, Rows::Unfinished, q, kv, out)
    }

    #[allow(clippy::needless_pass_by_value)] // as on the CPU: the output is borrowed mutably for the call
    pub(super) fn give(
        &self,
        layer: Option<&Attention>,
        stream: &Stream,
        rows: Rows,
        q: TensorRef<'_>,
        kv: Kv<'_>,
        out: Out<'_>,
    ) -> Result<(), CudaError> {
        let attention = &*self.attention.inner;
        let device = &attention.device;
        device.check_same("stream", stream.device())?;
        if self.stream.is_some_and(|made_on| made_on != stream.as_raw() as usize) {
            return Err(CudaError::OtherStream);
        }
        // all launches are given in one turn: those of another thread would find the partial states of these
        let mut turn = self.memory.turn_of(self.generation)?;
        // what is captured may be replayed with any batch that there is room for
        let largest = match self.room.as_deref() {
            Some(room) if room.batch_is_on_device || stream.is_capturing()? => &room.largest,
            _ => &self.layout,
        };
        check_run(largest, attention.heads, attention.values, attention.dtypes, &q, &kv, &out)?;
        let sm_scale = layer.unwrap_or(&self.attention).inner.sm_scale;
        let params = KernelParams { sm_scale, ..self.params(&q, &kv, &out, rows)? };
        let _current = device.make_current()?;
        let qo_tokens = [q.shape()[0], out.o.shape()[0]];
        turn.used_on(stream);

        let kv_heads = attention.heads.kv;
        if let (Some(counts), Lists::Mixed(lists)) = (self.mixed, &self.sections.lists) {
            let args = self.args_of(0, layer).bytes();
            return self.run_mixed(stream, &self.mixed_params(params, counts, lists), counts, args);
        }
        let launch = |number: usize, function, grid, threads, smem| {
            let params = self.params_of(&self.arms[number], params);
            let args = self.args_of(number, layer).bytes();
            // SAFETY: whoever made the tensors promised their extents, which `check_run` compared with the batch; the lists were made by the planner for this batch and
            // uploaded before (in this stream's order); the sections of the workspace are as large as they say.
            unsafe { launch(function, grid, threads, smem, stream, &params, args) }
        };
        // arms one after the other: each rewrites keys and values into the same place
        for (number, arm) in self.arms.iter().enumerate() {
            let cell = arm.kernel.cell();
            if let Some(kv_pass) = arm.kernel.kv_pass {
                let tokens = self.capacity().map_or(self.layout.kv_tokens() as u32, |capacity| capacity.kv_tokens);
                let ctas = tokens.div_ceil(cell.kv_pass_keys());
                launch(number, kv_pass, (ctas, kv_heads.div_ceil(cell.kv_pass_heads())), KV_PASS_THREADS, 0)?;
            }
            if cell.in_warpgroups() {
                self.run_in_warpgroups(stream, &params, number, layer, &kv, qo_tokens)?;
                continue;
            }
            let grid = match cell.kind {
                KernelKind::Prefill | KernelKind::Mixed => (arm.items.len() as u32, kv_heads),
                // heads of a worker side by side
                KernelKind::Decode => (arm.workers.len() as u32 * kv_heads, 1),
            };
            launch(number, arm.kernel.main, grid, cell.threads(), cell.smem_bytes())?;
        }
        // what happens after the merge is the same for all arms
        self.arms[0].kernel.merge.map_or(Ok(()), |merge| launch(0, merge, (self.merges, kv_heads), MERGE_THREADS, 0))
    }

    /// The main kernel of an arm, on as many CTAs as the device holds: each takes work until there is none.
    fn run_in_warpgroups(
        &self,
        stream: &Stream,
        of_all: &KernelParams,
        number: usize,
        layer: Option<&Attention>,
        kv: &Kv<'_>,
        qo_tokens: [usize; 2],
    ) -> Result<(), CudaError> {
        let (arm, attention) = (&self.arms[number], &*self.attention.inner);
        let (cell, kv_heads) = (arm.kernel.cell(), attention.heads.kv);
        let params = self.params_of(arm, *of_all);
        let page_size = self.layout.pages().map_or(0, |pages| pages.page_size());
        let paged_rows = if cell.paged { boxes::rows_of_pages(cell, page_size, [&params.k, &params.v]) } else { 0 };
        let tokens = self.capacity().map_or(pass_tokens(&self.layout), |capacity| capacity.kv_tokens);
        let map = |stored: &TensorRef<'_>, at: Strided, rewritten: Option<Strided>, dim: u32| {
            let rewritten_extents = Extents { dim, tokens: tokens.into(), heads: kv_heads, pages: 1 };
            match rewritten {
                Some(rewritten) => boxes::tensor_map(&rewritten, rewritten_extents, cell.tile_keys),
                None if cell.paged && paged_rows == 0 => Ok(TensorMap::default()),
                None => {
                    let rows = if cell.paged { paged_rows } else { cell.tile_keys };
                    boxes::tensor_map(&at, Extents::of(stored, dim, kv_heads), rows)
                }
            }
        };
        let group = attention.heads.qo / kv_heads;
        let packed = |dim: u32, tokens: usize| PackedRows {
            group,
            extents: Extents { dim, tokens: tokens as u64, heads: attention.heads.qo, pages: 1 },
        };
        let q = packed(cell.head_dim, qo_tokens[0]).queries(cell, &params.q)?;
        let o = packed(cell.value_dim, qo_tokens[1]).outputs(&params.o)?;
        let more = WarpgroupParams {
            k: map(&kv.k, params.k, cell.key_pre_pass.then_some(params.k_pre), cell.head_dim)?,
            v: map(&kv.v, params.v, cell.value_pre_pass.then_some(params.v_pre), cell.value_dim)?,
            q: q.unwrap_or_default(),
            o: o.unwrap_or_default(),
            box_rows: paged_rows as i32,
            items: arm.items.len() as i32,
            heads: heads_at_once(cell, tokens, self.even).min(kv_heads) as i32,
            query_boxes: q.is_some().into(),
            output_boxes: o.is_some().into(),
            ..WarpgroupParams::default()
        };
        let ctas = (arm.items.len() as u32 * kv_heads).min(arm.kernel.resident_ctas());
        let args = self.args_of(number, layer).bytes();
        let (grid, threads, smem) = ((ctas, 1), cell.threads(), cell.smem_bytes());
        let mut arguments = [argument(&params), args.as_ptr().cast_mut().cast(), argument(&more)];
        // SAFETY: as of any other launch of `run`; the third argument is what such a kernel takes.
        unsafe { launch_with(arm.kernel.main, grid, threads, smem, stream, &mut arguments) }
    }

    /// A mixed launch, after a pass over keys and values if there is one. There are no unions in it.
    fn run_mixed(
        &self,
        stream: &Stream,
        params: &MixedParams,
        counts: MixedCounts,
        args: &[u8],
    ) -> Result<(), CudaError> {
        let (kernel, kv_heads) = (&self.arms[0].kernel, self.attention.inner.heads.kv);
        let cell = kernel.cell();
        let launch = |function, grid, threads, smem| {
            // SAFETY: as of any other launch of `run`.
            unsafe { launch(function, grid, threads, smem, stream, params, args) }
        };
        if let Some(kv_pass) = kernel.kv_pass
            && counts.prefill > 0
        {
            let ctas = counts.pass_tokens.div_ceil(cell.kv_pass_keys());
            launch(kv_pass, (ctas, kv_heads.div_ceil(cell.kv_pass_heads())), KV_PASS_THREADS, 0)?;
        }
        launch(kernel.main, (counts.ctas(kv_heads), 1), cell.threads(), cell.smem_bytes())?;
        kernel.merge.map_or(Ok(()), |merge| launch(merge, (self.merges, kv_heads), MERGE_THREADS, 0))
    }

    fn mixed_params(&self, base: KernelParams, counts: MixedCounts, lists: &MixedOffsets) -> MixedParams {
        let at = |section: &Range<usize>| {
            if section.is_empty() { 0 } else { self.memory.buffer.ptr() + section.start as u64 }
        };
        let wave = self.arms[0].kernel.resident_ctas();
        let (decodes, ctas) = (counts.workers * base.kv_heads as u32, counts.ctas(base.kv_heads as u32));
        let multiprocessors = self.attention.inner.device.multiprocessors();
        let waves = Waves { decodes, ctas, wave, multiprocessors };
        MixedParams {
            base,
            workers: at(&lists.workers),
            decode: at(&lists.decode),
            prefill: at(&lists.prefill),
            merges: at(&lists.merges),
            merge_parts: at(&lists.merge_parts),
            request_of_query: at(&lists.request_of_query),
            segment_ends: at(&lists.segment_ends),
            segments: at(&lists.segments),
            decode_ctas: decodes as i32,
            prefill_items: counts.prefill as i32,
            segment_count: counts.segments as i32,
            wave: wave as i32,
            wave_decodes: waves.decodes_of_each() as i32,
            pad: 0,
        }
    }

    /// Whether keys are read by one CTA alone (each request's rows are one tile), and are so few that it matters what they drive out of
    /// the second-level cache: on an H200, 4 to 6 us of a run that reads 150 MB, while one that reads 1 GB is 4 % slower under the policy.
    fn read_once(&self) -> bool {
        let attention = &*self.attention.inner;
        let queries = self.capacity().map_or(self.layout.max_qo_len() as u64, |capacity| capacity.qo_len.into());
        let rows = queries * u64::from(attention.heads.group());
        let of_values = if attention.values.are_of_keys() { 0 } else { self.attention.value_dim() };
        let key_bytes = u64::from(attention.heads.head_dim + of_values) * attention.dtypes.kv.size() as u64;
        let keys = self.capacity().map_or(self.keys_read, |capacity| capacity.kv_tokens.into());
        let bytes = keys.saturating_mul(u64::from(attention.heads.kv) * key_bytes);
        // what a decode part reads is of one tile too, but where requests share it
        let alone = if self.mixed.is_some() {
            !self.capacity().map_or(self.layout.has_levels(), |capacity| capacity.levels > 1)
        } else {
            rows <= self.kernel().cell().tile_rows.into()
        };
        alone && bytes <= 4 * u64::from(attention.device.l2_bytes())
    }

    /// The parameters of an arm: its part of the list. Workers count the items of all arms.
    fn params_of(&self, arm: &Arm, of_all: KernelParams) -> KernelParams {
        match arm.kernel.cell().kind {
            KernelKind::Prefill | KernelKind::Mixed => {
                KernelParams { items: of_all.items + (arm.items.start * size_of::<WorkItem>()) as u64, ..of_all }
            }
            KernelKind::Decode => KernelParams {
                workers: of_all.workers + (arm.workers.start * size_of::<WorkerStart>()) as u64,
                ..of_all
            },
        }
    }

    fn params(&self, q: &TensorRef<'_>, kv: &Kv<'_>, out: &Out<'_>, rows: Rows) -> Result<KernelParams, CudaError> {
        let attention = &*self.attention.inner;
        let heads = attention.heads;
        let at = |section: &Range<usize>| {
            if section.is_empty() { 0 } else { self.memory.buffer.ptr() + section.start as u64 }
        };
        let sections = &self.sections;
        let o = out.o.as_ref();
        let (lse, lse_token, lse_head) = match &out.lse {
            None => (0, 0, 0),
            Some(lse) => {
                let strides = lse.strides();
                (pointer("lse", &lse.as_ref())?, strides[0], strides[1])
            }
        };
        let lists = match &sections.lists {
            Lists::Flat(lists) => lists.clone(),
            // the others are of a mixed launch's own
            Lists::Mixed(lists) => PlanOffsets {
                qo_indptr: lists.qo_indptr.clone(),
                kv_indptr: lists.kv_indptr.clone(),
                page_indices: lists.page_indices.clone(),
                ..PlanOffsets::default()
            },
        };
        let rewritten = |section, dim: u32| {
            let (token, head) = (i64::from(heads.kv) * i64::from(dim), i64::from(dim));
            Strided { data: at(section), token, head, page: 0 }
        };
        Ok(KernelParams {
            q: strided("q", q)?,
            k: strided("k", &kv.k)?,
            v: strided("v", &kv.v)?,
            o: strided("o", &o)?,
            k_pre: rewritten(&sections.k_pre, heads.head_dim),
            v_pre: rewritten(&sections.v_pre, self.attention.value_dim()),
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
            arrivals: at(&sections.arrivals),
            partial_o: at(&sections.partial_o),
            partial_md: at(&sections.partial_md),
            group: FastDiv::new(heads.group()),
            page_size: FastDiv::new(self.layout.pages().map_or(1, |pages| pages.page_size())),
            list_block: FastDiv::new(attention.variant.kv_list_sizes().map_or(1, |(block, _)| block as u32)),
            batch: self.capacity().map_or(self.layout.batch(), |capacity| capacity.requests as usize) as i32,
            kv_heads: heads.kv as i32,
            read_once: i32::from(self.read_once()),
            sm_scale: attention.sm_scale,
            k_scale: kv.scales.k.all,
            v_scale: kv.scales.v.all,
            unfinished: i32::from(rows == Rows::Unfinished),
        })
    }
}

fn pointer(name: &'static str, tensor: &TensorRef<'_>) -> Result<u64, CudaError> {
    let host = TensorError::Memory { tensor: name, got: "host", want: "device" };
    Ok(tensor.device_ptr().ok_or(host)?)
}

/// The tensor of a scale, null where it has none.
fn scales_of_heads(name: &'static str, scale: &Scale<'_>) -> Result<u64, CudaError> {
    scale.heads.as_ref().map_or(Ok(0), |heads| pointer(name, heads))
}

/// A tensor of (tokens, heads, dim) or (pages, slots, heads, dim), fit for loads of 16 bytes.
fn strided(name: &'static str, tensor: &TensorRef<'_>) -> Result<Strided, CudaError> {
    let data = pointer(name, tensor)?;
    let aligned = |what, value: u64| {
        if value.is_multiple_of(16) { Ok(()) } else { Err(CudaError::Alignment { tensor: name, what, value }) }
    };
    aligned("its address", data)?;
    let rank = tensor.shape().len();
    // the stride of an extent of 1 is never taken
    let stride = |dim: usize, what| -> Result<i64, CudaError> {
        let stride = if tensor.shape()[dim] > 1 { tensor.strides()[dim] } else { 0 };
        aligned(what, stride as u64 * tensor.dtype().size() as u64)?;
        // kernels step from token to token in 32 bits; where a tensor begins, and a page, is in 64
        let bytes = stride.unsigned_abs() * tensor.dtype().size() as u64;
        if rank == 3 && dim == 0 && i32::try_from(bytes).is_err() {
            return Err(CudaError::Stride { tensor: name, what, value: bytes });
        }
        Ok(stride)
    };
    let page = if rank == 4 { stride(0, "its stride from page to page")? } else { 0 };
    let token = stride(rank - 3, "its stride from token to token")?;
    let head = stride(rank - 2, "its stride from head to head")?;
    Ok(Strided { data, token, head, page })
}

/// One launch of `kernel(const __grid_constant__ P, const __grid_constant__ Variant)`; none for an empty grid.
///
/// # Safety
///
/// The function has this signature, `variant` holds at least as many bytes as its second parameter, and everything that
/// `params` points to is there.
pub(super) unsafe fn launch<P>(
    function: CUfunction,
    grid: (u32, u32),
    threads: u32,
    smem: u32,
    stream: &Stream,
    params: &P,
    variant: &[u8],
) -> Result<(), CudaError> {
    let mut arguments = [argument(params), variant.as_ptr().cast_mut().cast()];
    // SAFETY: the caller's promise.
    unsafe { launch_with(function, grid, threads, smem, stream, &mut arguments) }
}

/// KV heads that work is done for at a time. Tiles that are all as long: as many heads as leave their keys and values, of so many tokens, in the second-level cache.
/// Others are begun with the longest, of several heads, so that the last ones to end are short.
fn heads_at_once(cell: &Cell, tokens: u32, even: bool) -> u32 {
    const OF_CACHE: u64 = 8 << 20;
    const UNEVEN: u32 = 4;
    let each = u64::from(tokens) * u64::from(cell.head_dim + cell.value_dim) * 2;
    let fit = u32::try_from(OF_CACHE / each.max(1)).unwrap_or(u32::MAX).max(1);
    if even { fit } else { fit.max(UNEVEN) }
}

fn argument<P>(params: &P) -> *mut c_void {
    std::ptr::from_ref(params).cast_mut().cast()
}

/// The same with any arguments, which the driver copies before it returns.
///
/// # Safety
///
/// The function takes arguments of these types, and everything that they point to is there.
unsafe fn launch_with(
    function: CUfunction,
    grid: (u32, u32),
    threads: u32,
    smem: u32,
    stream: &Stream,
    arguments: &mut [*mut c_void],
) -> Result<(), CudaError> {
    if grid.0 == 0 || grid.1 == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { result::launch_kernel(function, (grid.0, grid.1, 1), (threads, 1, 1), smem, stream.raw(), arguments) }
        .map_err(|e| CudaError::driver("launch a kernel", e))
}
