//! Appends and gathers: rows of keys and values are copied between packed tensors and pools.

use std::sync::Arc;

use attn_core::dtype::Dtype;
use attn_core::ops::append::{check, check_queries};
use attn_core::ops::{Append, ArrayMut, Gather, KvMut, KvRef, OpError, PageTableRows, SlotMapping, gather};
use attn_core::tensor::{Scale, TensorRef};

use super::launch::{NOTHING, OpLaunch, Ordered};
use super::merge::share;
use super::query_parts::QueryParts;
use super::{CudaKvTransform, Op, TRANSFORM_ROWS, ctas, in_sixteens, module};
use crate::cuda::driver::order::sides;
use crate::cuda::driver::uses::Access::{Read, Write};
use crate::cuda::memory::strided::strided as stored_rows;
use crate::cuda::{CudaError, CudaStream};
use crate::kernel_traits::KernelTraitsError;
use crate::launch::{
    FastDiv, KvSides, OP_THREADS, PackedRowsParams, RotateAppendParams, RowsParams, RowsPart, Strided,
};

/// Launches the kernel of [`attn_core::ops::append::append`], which defines the result.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn append(
    stream: &CudaStream,
    kv: &KvRef<'_>,
    pools: &KvMut<'_>,
    append: &Append<'_>,
    transform: Option<&Arc<CudaKvTransform>>,
) -> Result<(), CudaError> {
    check(kv, pools, append, transform.map(|transform| transform.transform()))?;
    let pools = pools.as_ref();
    append_rows(stream, [kv, &pools], append, transform, append.status.as_ref(), None)?;
    // rows of a KV format that are copied as they are have side data beside them; the first launch has counted what is
    // skipped
    let encodes = transform.is_some_and(|transform| transform.has_formats());
    let sides = kv.side_planes().zip(pools.side_planes()).filter(|_| !encodes);
    sides.map_or(Ok(()), |(from, to)| append_rows(stream, [&from, &to], append, None, None, None))
}

/// Launches the kernel of [`append_with_queries`](attn_core::ops::append::append_with_queries), which defines the
/// result.
///
/// # Errors
///
/// The errors of [`append`].
pub fn append_with_queries(
    stream: &CudaStream,
    q: Option<&KvRef<'_>>,
    q_out: &KvMut<'_>,
    kv: &KvRef<'_>,
    pools: &KvMut<'_>,
    append: &Append<'_>,
    transform: &Arc<CudaKvTransform>,
) -> Result<(), CudaError> {
    check_queries(q, q_out, kv, pools, append, transform.transform())?;
    let (pools, out) = (pools.as_ref(), q_out.as_ref());
    let queries = Queries { from: q.copied().unwrap_or(out), out };
    append_rows(stream, [kv, &pools], append, Some(transform), append.status.as_ref(), Some(&queries))
}

/// Queries, and where they go.
struct Queries<'a> {
    from: KvRef<'a>,
    out: KvRef<'a>,
}

fn append_rows(
    stream: &CudaStream,
    [kv, pools]: [&KvRef<'_>; 2],
    append: &Append<'_>,
    transform: Option<&Arc<CudaKvTransform>>,
    status: Option<&ArrayMut<'_, u32>>,
    queries: Option<&Queries<'_>>,
) -> Result<(), CudaError> {
    let scales = [&append.scales.k, &append.scales.v];
    let encodes = transform.is_some_and(|transform| transform.has_formats());
    let moves = |part| encodes || transform.is_some_and(|transform| transform.transform().applies_to(part));
    let mut launch = OpLaunch::default();
    let beside = queries.map(|queries| QueryParts::new(&mut launch, &queries.from, &queries.out, &append.q_scale));
    let beside = beside.transpose()?;
    let narrow = beside.as_ref().is_some_and(|beside| !beside.wide);
    let (mut rows, sides) = RowMove::new(&mut launch, kv, pools, scales, (true, encodes), narrow, moves)?;
    let params = &mut rows.params;
    match &append.slot_mapping {
        SlotMapping::Slots { slots, positions } => {
            params.slots = launch.read("slots", slots)?;
            params.positions = launch.read_if("positions", positions.as_ref())?;
        }
        SlotMapping::Positions { requests, positions, rows } => {
            params.requests = launch.read("requests", requests)?;
            params.positions = launch.read("positions", positions)?;
            page_rows(&mut launch, params, rows)?;
        }
    }
    params.status = launch.write_if("status", status)?;
    let Sides { from, to, parts } = sides;
    let transform = transform.filter(|_| moves(0) || moves(1) || beside.is_some());
    let number = usize::from(!rows.wide);
    let function = match transform {
        Some(transform) => transform.kernel(stream, (from, to, beside.as_ref().map(|beside| beside.to)), number)?,
        None => module::kernel(stream, Op::Append { from: as_number(from), to: as_number(to) }, number)?,
    };
    let kernel = launch.ordered_of(stream, function)?;
    let _content = transform.map(|transform| transform.args().keep_content());
    transform.map_or(Ok(()), |transform| transform.args().order(stream))?;
    // the kernel takes a parameter even if the variant has none
    let args = transform.map_or(&[][..], |transform| transform.args().bytes());
    let args = if args.is_empty() { &NOTHING } else { args };
    rows.launch(&kernel, [from, to], parts, beside.as_ref(), (transform.is_some(), args))
}

/// Launches the kernel of [`attn_core::ops::gather::gather_with`], which defines the result.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn gather(
    stream: &CudaStream,
    pools: &KvRef<'_>,
    kv: &KvMut<'_>,
    gather: &Gather<'_>,
    transform: Option<&Arc<CudaKvTransform>>,
) -> Result<(), CudaError> {
    gather::check(pools, kv, gather, transform.map(|transform| transform.transform()))?;
    let (kv, transform) = (kv.as_ref(), transform.filter(|transform| transform.has_formats()));
    gather_rows(stream, [pools, &kv], gather, transform, gather.status.as_ref())?;
    let sides = pools.side_planes().zip(kv.side_planes()).filter(|_| transform.is_none());
    sides.map_or(Ok(()), |(from, to)| gather_rows(stream, [&from, &to], gather, None, None))
}

fn gather_rows(
    stream: &CudaStream,
    [pools, kv]: [&KvRef<'_>; 2],
    gather: &Gather<'_>,
    transform: Option<&Arc<CudaKvTransform>>,
    status: Option<&ArrayMut<'_, u32>>,
) -> Result<(), CudaError> {
    let scales = [&gather.scales.k, &gather.scales.v];
    let mut launch = OpLaunch::default();
    let (mut rows, Sides { from, to, parts }) =
        RowMove::new(&mut launch, kv, pools, scales, (false, transform.is_some()), false, |_| false)?;
    rows.params.indptr = launch.read("kv_indptr", &gather.kv_indptr)?;
    page_rows(&mut launch, &mut rows.params, &gather.rows)?;
    rows.params.status = launch.write_if("status", status)?;
    let number = usize::from(!rows.wide);
    let function = match transform {
        Some(transform) => transform.kernel(stream, (from, to, None), number)?,
        None => module::kernel(stream, Op::Gather { from: as_number(from), to: as_number(to) }, number)?,
    };
    let kernel = launch.ordered_of(stream, function)?;
    let _content = transform.map(|transform| transform.args().keep_content());
    transform.map_or(Ok(()), |transform| transform.args().order(stream))?;
    let args = transform.map_or(&NOTHING[..], |transform| transform.args().bytes());
    rows.launch(&kernel, [from, to], parts, None, (false, args))
}

/// Rows of a KV format that are copied as they are, are bytes of any type.
fn as_number(dtype: Dtype) -> Dtype {
    if dtype == Dtype::U8 { Dtype::E4m3 } else { dtype }
}

/// Binds a page table.
pub(super) fn page_rows<'a>(
    launch: &mut OpLaunch<'a>,
    params: &mut RowsParams,
    rows: &PageTableRows<'a>,
) -> Result<(), CudaError> {
    params.num_requests = i32::try_from(rows.requests()?).unwrap_or(i32::MAX);
    match rows {
        PageTableRows::Csr { indptr, pages } => {
            params.page_indptr = launch.read("page_indptr", indptr)?;
            params.pages = launch.read("pages", pages)?;
            params.entries = pages.len() as i64;
        }
        PageTableRows::Padded { pages, max_pages } => {
            params.pages = launch.read("pages", pages)?;
            params.max_pages = i32::try_from(*max_pages).unwrap_or(i32::MAX);
            params.entries = pages.len() as i64;
        }
    }
    Ok(())
}

/// The element types of source and target, and the number of tensors: 1 for keys alone, 2 for keys and values.
struct Sides {
    from: Dtype,
    to: Dtype,
    parts: u32,
}

struct RowMove {
    params: RowsParams,
    /// Whether rows of the pool are in KV formats.
    formats: bool,
    /// Their side data.
    sides: KvSides,
    wide: bool,
    moved: [bool; 2],
}

/// Most elements of a row that a warp encodes: `MOST` of each lane in `ops/encode_row.cuh`.
const MOST_ENCODED: usize = 1024;

/// Refuses rows of a KV format that kernels do not copy, as attention does, and rows that are too long to be encoded.
fn check_stored(
    part: usize,
    encoded: usize,
    pool: &TensorRef<'_>,
    side: Option<&TensorRef<'_>>,
) -> Result<(), CudaError> {
    let bytes = |tensor: &TensorRef<'_>| tensor.shape()[3] as u32;
    let (codes, side) = (bytes(pool), side.map_or(0, bytes));
    if !codes.is_multiple_of(8) || !side.is_multiple_of(4) {
        return Err(KernelTraitsError::Row { of: ["keys", "values"][part], codes, side }.into());
    }
    if encoded > MOST_ENCODED {
        let want = "at most 1024; append on the CPU";
        return Err(OpError::Parameter { name: "elements of a row in a KV format", got: encoded as f32, want }.into());
    }
    Ok(())
}

impl RowMove {
    /// The parameters without the addresses of row indices. The tensors have been checked. `formats`: whether rows of
    /// the pool are encoded or decoded. `narrow`: whether rows beside them are not moved in 16 bytes.
    fn new<'a>(
        launch: &mut OpLaunch<'a>,
        packed: &KvRef<'a>,
        pools: &KvRef<'a>,
        scales: [&Scale<'a>; 2],
        (to_pool, formats): (bool, bool),
        narrow: bool,
        moves: impl Fn(usize) -> bool,
    ) -> Result<(Self, Sides), CudaError> {
        let both: Vec<_> = packed.parts().zip(pools.parts()).collect();
        let missing = OpError::Values { there: "the pool", missing: "the rows" };
        let (first, pool) = both.first().ok_or(missing)?;
        let (from, to) = if to_pool { (first.dtype(), pool.dtype()) } else { (pool.dtype(), first.dtype()) };
        let chunk = match (formats, to_pool) {
            (false, _) => 16 / from.size().min(to.size()),
            (true, true) => 16 / from.size(),
            (true, false) => 8,
        };
        let mut params = RowsParams {
            tokens: first.shape()[0] as i64,
            num_pages: pool.shape()[0] as i64,
            page_size: FastDiv::new(pool.shape()[1] as u32),
            ..RowsParams::default()
        };
        if pool.shape()[1] == 0 {
            params.num_pages = 0; // pages without slots are no pages
        }
        let names = [["k", "k pool", "k_scales"], ["v", "v pool", "v_scales"]];
        let (of_packed, of_pool) = if to_pool { (Read, Write) } else { (Write, Read) };
        if formats {
            launch.uses(of_pool, sides(&pools.sides()));
        }
        let heads = first.shape()[1];
        let mut wide = !narrow;
        for (part, (packed, pool)) in both.iter().enumerate() {
            let names = names[part];
            let rows = launch.strided(of_packed, names[0], packed)?;
            let paged = launch.strided(of_pool, names[1], pool)?;
            let paged = if formats { stored_rows(names[1], pool)? } else { paged };
            let dim = if heads == 0 { 0 } else { packed.shape()[2] };
            if formats {
                check_stored(part, if to_pool { dim } else { 0 }, pool, pools.sides().part(part).as_ref())?;
            }
            let copied = [(&rows, packed.dtype()), (&paged, pool.dtype())];
            for (strided, dtype) in copied.into_iter().take(if formats { 1 } else { 2 }) {
                let aligned = in_sixteens(strided.data, dtype.size(), &[strided.token, strided.head, strided.page]);
                wide &= dim == 0 || (aligned && dim.is_multiple_of(chunk));
            }
            params.part[part] = RowsPart {
                packed: rows,
                pool: paged,
                scales: launch.read_scales(names[2], scales[part])?,
                dim: dim as i32,
                scale: scales[part].all,
                raw: i32::from(from == to && scales[part].is_one() && !moves(part)),
                ..RowsPart::default()
            };
        }
        for part in &mut params.part[..both.len()] {
            let dim = part.dim as usize;
            part.share = share(heads, if wide || formats && !to_pool { dim / chunk } else { dim });
        }
        let moved = [moves(0), moves(1)];
        // keys with head dimension 0 still count as a tensor; values with head dimension 0 do not
        let last = params.part.iter().rposition(|part| part.dim > 0);
        let parts = last.map_or(1, |last| last as u32 + 1);
        let side = |name, side: Option<TensorRef<'_>>| match side.filter(|_| formats) {
            Some(side) => stored_rows(name, &side),
            None => Ok(Strided::default()),
        };
        let sides = KvSides { k: side("k side", pools.sides().k)?, v: side("v side", pools.sides().v)? };
        Ok((RowMove { params, formats, sides, wide, moved }, Sides { from, to, parts }))
    }

    fn launch(
        &self,
        kernel: &Ordered<'_>,
        [from, to]: [Dtype; 2],
        parts: u32,
        beside: Option<&QueryParts>,
        (transforms, args): (bool, &[u8]),
    ) -> Result<(), CudaError> {
        let (mut grid, mut smem) = self.size(from, to, parts, transforms)?;
        if let Some(beside) = beside {
            let (of_queries, bytes) = beside.size(self.params.tokens as u64)?;
            (grid, smem) = (grid.max(of_queries), smem.max(bytes));
        }
        if smem > 48 * 1024 {
            let what = if self.formats { "an append to a KV format" } else { "an append through hooks" };
            return Err(CudaError::SharedMemory { kernel: what.to_owned(), need: smem, have: 48 * 1024 });
        }
        // kernels without queries, and those over numbers, take the first part of it
        let params = PackedRowsParams { base: self.params, sides: self.sides };
        let (params, parts) = match beside {
            None => (RotateAppendParams { base: params, ..RotateAppendParams::default() }, parts),
            Some(beside) => {
                let (count, queries) = beside.parts(self.wide);
                (RotateAppendParams { base: params, queries, kv_parts: parts as i32, pad: 0 }, parts + count)
            }
        };
        // SAFETY: the caller promised the memory of the tensors and arrays when it made them, and their extents are
        // checked; the kernel checks what arrays say.
        unsafe { kernel.launch_with((grid, parts), OP_THREADS, smem, &params, args) }
    }

    /// CTAs per tensor, and bytes of shared memory.
    fn size(&self, from: Dtype, to: Dtype, parts: u32, transforms: bool) -> Result<(u32, u32), CudaError> {
        let words = if self.wide { 16 / from.size().min(to.size()) * from.size() / 4 } else { 1 };
        let rounds = match words {
            ..=4 => 4,
            5..=8 => 2,
            _ => 1, // of `RowCopier`
        };
        let RowsParams { part, status, indptr, .. } = &self.params;
        let parts = &part[..parts as usize];
        if *status == 0 && parts.iter().all(|part| part.dim == 0) {
            return Ok((0, 0)); // no row is copied, and no status is written
        }
        // a gather counts the keys that exceed its output, even if the output is empty
        let (mut grid, mut smem) = (u32::from(*status != 0 && *indptr != 0), 0);
        for (number, part) in parts.iter().enumerate() {
            let rows = self.params.tokens as u64 * u64::from(part.share.heads.divisor);
            let of_a_cta = if transforms && self.moved[number] {
                smem = smem.max(OP_THREADS / 32 * part.dim as u32 * 4);
                TRANSFORM_ROWS
            } else {
                rounds * part.share.rows as u64
            };
            grid = grid.max(ctas("rows", rows, of_a_cta)?);
        }
        Ok((grid, smem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40 tokens of one head, and pools of 9 pages of 4 slots; tensors with head dimension 0 have no address.
    fn rows(dims: [usize; 2], status: u64) -> (bool, u32, u32) {
        let one = Scale::default();
        let tensor = |shape: &[usize], dim: usize| {
            let (ptr, width) = if dim == 0 { (0, 1) } else { (0x1000, dim as i64) };
            let strides = [4 * width, width, width, 1];
            // SAFETY: it is never read.
            unsafe { TensorRef::device(ptr, Dtype::Bf16, shape, &strides[4 - shape.len()..]) }.expect("a shape")
        };
        let [packed, pools] = [true, false].map(|packed| {
            let [k, v] = dims.map(|dim| if packed { tensor(&[40, 1, dim], dim) } else { tensor(&[9, 4, 1, dim], dim) });
            KvRef::new(k, v)
        });
        let (mut rows, sides) =
            RowMove::new(&mut OpLaunch::default(), &packed, &pools, [&one, &one], (true, false), false, |_| false)
                .expect("on the device");
        rows.params.status = status;
        let (grid, _) = rows.size(sides.from, sides.to, sides.parts, false).expect("few");
        (rows.wide, sides.parts, grid)
    }

    #[test]
    fn values_of_head_dim_zero_are_skipped() {
        // 72 chunks of a row, 3 rows of a CTA, in 4 rounds
        assert_eq!(rows([576, 512], 0), (true, 2, 4));
        assert_eq!(rows([576, 0], 0), (true, 1, 4));
        assert_eq!(rows([7, 0], 0), (false, 1, 1));
        assert_eq!(rows([0, 576], 0), (true, 2, 4), "keys of head_dim 0 still count");
        assert_eq!((rows([0, 0], 0), rows([0, 0], 0x100)), ((true, 1, 0), (true, 1, 1)));
    }

    #[test]
    fn a_gather_into_an_empty_output_counts_skipped_keys() {
        let part = RowsPart { dim: 64, share: share(1, 8), ..RowsPart::default() };
        let params = RowsParams { part: [part; 2], status: 0x100, indptr: 0x200, ..RowsParams::default() };
        let size = |params| {
            RowMove { params, formats: false, sides: KvSides::default(), wide: true, moved: [false; 2] }.size(
                Dtype::Bf16,
                Dtype::Bf16,
                2,
                false,
            )
        };
        assert!(matches!(size(params), Ok((1, 0))));
        assert!(matches!(size(RowsParams { status: 0, ..params }), Ok((0, 0))));
        assert!(matches!(size(RowsParams { indptr: 0, ..params }), Ok((0, 0))));
    }
}
