//! Prefill context parallelism.

use std::ops::Range;

use attn_core::batch::PageTableBuf;
use attn_core::lang::{QueryTile, Tile, TileClass};
use attn_core::parallel::{Collective, ParallelError, ZigzagShard, coordinates};

use super::Communicator;
use crate::ops::{Append, DeviceArray, KvMut, KvRef, SlotMapping, append_paged};
use crate::{
    Attention, Batch, DeviceBuffer, Dtypes, Engine, Error, Heads, Kv, Out, PageOrder, Plan, RunOptions, Stream,
    TensorRef, Workspace,
};

/// Tokens of a page of gathered keys.
const PAGE: usize = 128;

/// Self-attention of whole prompts whose tokens are on several ranks (context parallelism). Each rank holds two chunks
/// of each request ([`PrefillContextParallel::shard`]), with their queries, keys and values. Keys and values of all
/// ranks are gathered into pages, and one plan runs both chunks, each over the keys up to its end.
///
/// So masks of positions that let no query see a later key are exact: causal, windows; other masks are refused. Hooks
/// see the positions of the whole request. Variants that read its lengths or its number, or tokens of keys, are
/// refused, as these are of the chunk (`relu` of the mean, `tree`). Parameters of query tokens are those of the rank.
/// The bits of a row are those of a plan of one device over the same keys, if that splits keys alike
/// ([`AttentionOptions::fixed_split_size`](crate::AttentionOptions::fixed_split_size)).
#[derive(Debug)]
pub struct PrefillContextParallel {
    plan: Plan,
    /// The plan needs it.
    _workspace: Workspace,
    /// Pages of keys and of values of this rank.
    own: [DeviceBuffer; 2],
    /// Those of all ranks.
    all: [DeviceBuffer; 2],
    /// The slot of each token of this rank.
    slots: DeviceArray<i64>,
    /// Pages of a rank.
    pages: usize,
    ranks: usize,
    heads: Heads,
    dims: [usize; 2],
}

impl PrefillContextParallel {
    /// Which tokens of a request a rank of a communicator holds.
    #[must_use]
    pub fn shard(communicator: &Communicator) -> ZigzagShard {
        ZigzagShard { ranks: communicator.ranks(), rank: communicator.rank(), page: PAGE }
    }

    /// Plans requests of `lens` tokens on all ranks, and allocates memory for the keys and values of all of them.
    ///
    /// # Errors
    ///
    /// A mask under which a query sees a later key; a variant that reads a coordinate of a chunk; keys and values in
    /// one tensor, or in a KV format; the errors of [`Attention::plan`]; out of memory.
    pub fn new(
        engine: &Engine,
        attention: &Attention,
        communicator: &Communicator,
        lens: &[usize],
    ) -> Result<Self, Error> {
        let (heads, ranks, own) = (attention.heads(), communicator.ranks(), Self::shard(communicator));
        let (Dtypes { kv, format, .. }, dim) = (attention.dtypes(), attention.output().1);
        if format.is_some() || attention.values_in_keys() {
            let what = "prefill over keys and values of a KV format, or in one tensor,";
            return Err(ParallelError::Unsupported { what, way: "gather them as elements, each in a tensor" }.into());
        }
        coordinates::CHUNKS.check(attention.variant())?;
        let chunks = lens.iter().flat_map(|&len| own.chunks(len).map(|chunk| (chunk, len)));
        if chunks.into_iter().any(|(chunk, len)| sees_later_keys(attention, &chunk, len)) {
            let what = "prefill of a mask under which queries see later keys";
            return Err(ParallelError::Unsupported { what, way: "add `causal`, or shard the heads" }.into());
        }
        let Shard { pages, slots, qo_indptr, table } = Shard::new(own, lens);
        let mut workspace = engine.workspace();
        let plan = attention.plan(&Batch::paged(&qo_indptr, &table.table()), &mut workspace)?;
        let dims = [heads.head_dim as usize, dim];
        let rows = pages * PAGE * heads.kv as usize;
        let memory = |ranks: usize| -> Result<[DeviceBuffer; 2], Error> {
            Ok([engine.alloc(kv, ranks * rows * dims[0])?, engine.alloc(kv, ranks * rows * dims[1])?])
        };
        let (own, all, slots) = (memory(1)?, memory(ranks)?, DeviceArray::upload(engine, &slots)?);
        Ok(PrefillContextParallel { plan, _workspace: workspace, own, all, slots, pages, ranks, heads, dims })
    }

    /// Gathers the keys and values of all ranks, and computes the outputs of the tokens of this rank: `q`, `k` and `v`
    /// of (tokens, heads, dim), request by request, each in the order of [`ZigzagShard::chunks`]. Keys and values of
    /// another type are converted to that of the attention. `layer` is as in [`RunOptions::layer`].
    ///
    /// # Errors
    ///
    /// The errors of [`append_paged`], [`Communicator::all_gather`] and [`Plan::run`]. Where this rank fails before the
    /// exchange, it breaks the group, since the others wait.
    #[allow(clippy::too_many_arguments)] // those of a run, with its ranks
    pub fn run(
        &mut self,
        communicator: &Communicator,
        stream: &Stream,
        q: TensorRef<'_>,
        k: TensorRef<'_>,
        v: TensorRef<'_>,
        out: Out<'_>,
        layer: Option<&Attention>,
    ) -> Result<(), Error> {
        self.append(communicator, stream, k, v).inspect_err(|error| communicator.abort(error.to_string()))?;
        let pool = |pages: usize, dim: usize| [pages, PAGE, self.heads.kv as usize, dim];
        let (pages, dims) = (self.pages, self.dims);
        let gathered = [0, 1].map(|of| [&[self.ranks][..], &pool(pages, dims[of])].concat());
        let [all_k, all_v] = &mut self.all;
        let k = (self.own[0].tensor(&pool(pages, dims[0]))?, all_k.tensor_mut(&gathered[0])?);
        let v = (self.own[1].tensor(&pool(pages, dims[1]))?, all_v.tensor_mut(&gathered[1])?);
        communicator.run(stream, Collective::AllGather, &mut [k, v])?;
        let [k, v] = [0, 1].map(|of| self.all[of].tensor(&pool(self.ranks * pages, dims[of])));
        let kv = Kv::paged_in(k?, v?, PageOrder::Nhd)?;
        self.plan.run_with(stream, q, kv, out, RunOptions { layer, partial: false })
    }

    /// Writes the keys and values of this rank to its pages.
    fn append(
        &mut self,
        communicator: &Communicator,
        stream: &Stream,
        k: TensorRef<'_>,
        v: TensorRef<'_>,
    ) -> Result<(), Error> {
        communicator.check(stream)?;
        let shape = |dim: usize| [self.pages, PAGE, self.heads.kv as usize, dim];
        let [own_k, own_v] = &mut self.own;
        let (own_k, own_v) = (own_k.tensor_mut(&shape(self.dims[0]))?, own_v.tensor_mut(&shape(self.dims[1]))?);
        let mut pages = KvMut::paged_in(own_k, own_v, PageOrder::Nhd)?;
        let slots = SlotMapping::Slots { slots: self.slots.array(), positions: None };
        append_paged(stream, &KvRef::new(k, v), &mut pages, &Append::at(slots), None)
    }
}

/// The pages of gathered keys, and the chunks of a rank as requests over them.
struct Shard {
    /// Pages of each rank.
    pages: usize,
    /// The slot of each token of the rank in its own pages.
    slots: Vec<i64>,
    qo_indptr: Vec<i32>,
    /// The pages of each chunk, from the first key of its request on.
    table: PageTableBuf,
}

impl Shard {
    fn new(own: ZigzagShard, lens: &[usize]) -> Self {
        let shards = (0..own.ranks).map(|rank| ZigzagShard { rank, ..own });
        let pages_of = |chunk: Range<usize>| chunk.start.div_ceil(PAGE)..chunk.end.div_ceil(PAGE);
        let count = |shard: ZigzagShard| -> usize {
            lens.iter().flat_map(|&len| shard.chunks(len)).map(|chunk| pages_of(chunk).len()).sum()
        };
        let pages = shards.clone().map(count).max().unwrap_or(0).max(1);

        // the pages of each request in the order of keys; those of a rank are one after the other
        let mut requests: Vec<Vec<i32>> = lens.iter().map(|len| vec![0; len.div_ceil(PAGE)]).collect();
        for shard in shards {
            let mut next = (shard.rank * pages) as i32..;
            for (request, &len) in requests.iter_mut().zip(lens) {
                for chunk in shard.chunks(len) {
                    request[pages_of(chunk)].iter_mut().zip(&mut next).for_each(|(page, next)| *page = next);
                }
            }
        }

        let (page_size, num_pages) = (PAGE as u32, (own.ranks * pages) as u32);
        let mut table = PageTableBuf { indptr: vec![0], page_size, num_pages, ..PageTableBuf::default() };
        let (mut slots, mut qo_indptr) = (Vec::new(), vec![0]);
        let first = (own.rank * pages) as i64;
        for (request, &len) in requests.iter().zip(lens) {
            // two requests for each, also where a chunk is empty, so that no tensor of requests fits by chance
            for chunk in own.chunks(len) {
                let slot =
                    |token: usize| (i64::from(request[token / PAGE]) - first) * PAGE as i64 + (token % PAGE) as i64;
                slots.extend(chunk.clone().map(slot));
                qo_indptr.push(slots.len() as i32);
                table.indices.extend_from_slice(&request[..chunk.end.div_ceil(PAGE)]);
                table.indptr.push(table.indices.len() as i32);
                table.last_page_len.push((chunk.end.saturating_sub(1) % PAGE + 1) as i32);
            }
        }
        Shard { pages, slots, qo_indptr, table }
    }
}

/// Whether queries of a chunk of a request may see keys after it.
fn sees_later_keys(attention: &Attention, chunk: &Range<usize>, len: usize) -> bool {
    let heads = attention.heads();
    let last = |count: usize| count.saturating_sub(1) as i32;
    let rows = QueryTile {
        qo_row_max: last(chunk.len() * heads.group() as usize),
        qo_pos_min: chunk.start as i32,
        qo_pos_max: last(chunk.end),
        qo_token_min: chunk.start as i32,
        qo_token_max: last(chunk.end),
        qo_head_max: last(heads.qo as usize),
        kv_head_max: last(heads.kv as usize),
        qo_len: len as i32,
        kv_len: len as i32,
        ..QueryTile::default()
    };
    let (first, last) = (chunk.end as i32, last(len));
    let tile = Tile { rows, kv_pos_min: first, kv_pos_max: last, kv_token_min: first, kv_token_max: last };
    !chunk.is_empty() && chunk.end < len && attention.variant().refined_tile_class(tile) != TileClass::Skip
}
