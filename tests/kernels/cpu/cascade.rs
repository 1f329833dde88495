//! Random cascades with their keys, and the same requests with a copy of their keys each: both give the same output.

use attn_core::batch::{Batch, CascadeLevel, CascadeLevelKv, Layout, PageTableBuf, indptr};
use attn_core::spec::Heads;
use attn_core::tensor::{Kv, TensorRef};
use proptest::prelude::*;

use super::case::numbers;

/// The storage of the keys.
#[derive(Clone, Debug)]
pub(crate) enum Memory {
    Ragged,
    /// Page sizes of levels, each a power of 2 up to 8. With `full`, every level except the last fills its pages.
    Paged {
        sizes: Vec<u32>,
        full: bool,
    },
}

/// Requests in nested groups.
#[derive(Clone, Debug)]
pub(crate) struct Cascade {
    pub(crate) qo_lens: Vec<u32>,
    /// The outermost first.
    pub(crate) levels: Vec<LevelGroups>,
    pub(crate) memory: Memory,
    pub(crate) seed: u64,
}

/// The groups of a level.
#[derive(Clone, Debug)]
pub(crate) struct LevelGroups {
    /// Prefix sums of their queries.
    pub(crate) qo_indptr: Vec<i32>,
    /// The keys of each.
    pub(crate) kv_lens: Vec<u32>,
}

pub(crate) fn cascades() -> impl Strategy<Value = Cascade> {
    let qo_len = prop_oneof![3 => Just(1u32), 1 => Just(0), 2 => 2u32..7, 1 => 7u32..50];
    cascades_of(qo_len.boxed(), 8, 180)
}

/// Cascades of many requests with few keys.
pub(crate) fn crowds() -> impl Strategy<Value = Cascade> {
    let qo_len = prop_oneof![Just(Just(1u32).boxed()), Just((0u32..4).boxed()), Just((1u32..40).boxed())];
    qo_len.prop_flat_map(|qo_len| cascades_of(qo_len, 40, 30))
}

/// Cascades of fewer than `requests` requests; `keys` bounds the keys of a group.
fn cascades_of(qo_len: BoxedStrategy<u32>, requests: usize, keys: u32) -> impl Strategy<Value = Cascade> {
    // for each request: its queries, and the outermost level in which a group begins with it
    let requests = prop::collection::vec((qo_len, 0usize..5), 1..requests);
    let memory = prop_oneof![
        Just(None),
        (prop::collection::vec(prop::sample::select(vec![2u32, 4, 8]), 4), any::<bool>()).prop_map(Some),
    ];
    (requests, 1usize..4, 0..keys, memory, any::<u64>()).prop_map(|(requests, count, most, memory, seed)| {
        let (qo_lens, first): (Vec<u32>, Vec<usize>) = requests.into_iter().unzip();
        let ends = indptr(&qo_lens).expect("short");
        let mut next = numbers(seed);
        let memory = memory.map_or(Memory::Ragged, |(sizes, full)| Memory::Paged { sizes, full });
        let levels = (0..count).map(|level| {
            let begins = (1..qo_lens.len()).filter(|&request| first[request] <= level).map(|request| ends[request]);
            let mut qo_indptr: Vec<i32> = [0].into_iter().chain(begins).collect();
            qo_indptr.push(ends[qo_lens.len()]);
            let mut len = |_| match ((next() + 1.0) * 0.5 * (most + 30) as f32) as u32 {
                short if short < 30 => short / 10,
                long => long - 30,
            };
            let mut kv_lens: Vec<u32> = (1..qo_indptr.len()).map(&mut len).collect();
            if let Memory::Paged { full: true, .. } = memory
                && level + 1 < count
            {
                kv_lens.iter_mut().for_each(|len| *len = len.next_multiple_of(8));
            }
            LevelGroups { qo_indptr, kv_lens }
        });
        Cascade { levels: levels.collect(), qo_lens, memory, seed }
    })
}

/// The tensors of a cascade, and the same keys stored request by request (`flat`).
pub(crate) struct Keys {
    pub(crate) layout: Layout,
    pub(crate) flat: Layout,
    heads: Heads,
    shape: Vec<usize>,
    flat_shape: Vec<usize>,
    k: Vec<f32>,
    v: Vec<f32>,
    flat_k: Vec<f32>,
    flat_v: Vec<f32>,
    pub(crate) q: Vec<f32>,
}

/// Where the keys of a cascade are in memory.
struct Placed {
    tables: Vec<LevelTable>,
    /// The memory index of each key of each group of each level.
    tokens: Vec<Vec<Vec<usize>>>,
    /// Tokens of the memory.
    len: usize,
}

/// The keys of a level as a batch describes them.
enum LevelTable {
    /// Prefix sums of key counts.
    Ragged(Vec<i32>),
    Paged(PageTableBuf),
}

/// Tokens of a block of memory: pages of one group fill whole blocks.
const BLOCK: usize = 8;

impl Cascade {
    /// The group of a request in a level. A request without queries has the group of the next query.
    fn group_of(&self, level: usize, request: usize) -> usize {
        let (ends, groups) = (indptr(&self.qo_lens).expect("short"), &self.levels[level].qo_indptr);
        if *groups == ends {
            return request;
        }
        let last = groups.len() - 2;
        (0..=last).find(|&group| groups[group] <= ends[request] && ends[request] < groups[group + 1]).unwrap_or(last)
    }

    fn locate(&self) -> Placed {
        match &self.memory {
            Memory::Ragged => self.locate_ragged(),
            Memory::Paged { sizes, .. } => self.locate_in_pages(sizes),
        }
    }

    /// Levels one behind the other, with three tokens before each and two at the end that nothing has.
    fn locate_ragged(&self) -> Placed {
        let mut placed = Placed { tables: Vec::new(), tokens: Vec::new(), len: 0 };
        for LevelGroups { kv_lens, .. } in &self.levels {
            let first = placed.len as i32 + 3;
            let ends: Vec<i32> = indptr(kv_lens).expect("short").into_iter().map(|end| end + first).collect();
            placed.tokens.push(ends.windows(2).map(|ends| (ends[0] as usize..ends[1] as usize).collect()).collect());
            placed.len = *ends.last().expect("one") as usize;
            placed.tables.push(LevelTable::Ragged(ends));
        }
        placed.len += 2;
        placed
    }

    /// Groups in blocks that are scattered over the pool, cut into pages of the level's size.
    fn locate_in_pages(&self, sizes: &[u32]) -> Placed {
        let lens = self.levels.iter().flat_map(|level| &level.kv_lens);
        let blocks: usize = lens.map(|len| len.div_ceil(BLOCK as u32) as usize + 1).sum();
        let step = (blocks / 2..).find(|step| *step > 0 && gcd(*step, blocks) == 1).expect("there is one");
        let mut placed = Placed { tables: Vec::new(), tokens: Vec::new(), len: BLOCK * blocks };
        let mut used = 0;
        for (LevelGroups { kv_lens, .. }, &page_size) in self.levels.iter().zip(sizes) {
            let size = page_size as usize;
            let in_block = BLOCK / size;
            let mut page = 0;
            let table = PageTableBuf::from_lens(kv_lens, page_size, (blocks * in_block) as u32, || {
                let at = (used + page / in_block) * step % blocks * in_block + page % in_block;
                page += 1;
                at as i32
            });
            used += page.div_ceil(in_block);
            let of_group = |(group, len): (usize, &u32)| {
                let pages = &table.indices[table.indptr[group] as usize..];
                (0..*len as usize).map(|key| pages[key / size] as usize * size + key % size).collect()
            };
            placed.tokens.push(kv_lens.iter().enumerate().map(of_group).collect());
            placed.tables.push(LevelTable::Paged(table));
        }
        placed
    }

    /// Memory with random keys and values; tokens that no group has are NaN.
    pub(crate) fn keys(&self, heads: Heads) -> Keys {
        let qo_indptr = indptr(&self.qo_lens).expect("short");
        let Placed { tables, tokens, len } = self.locate();
        let levels = self.levels.iter().zip(&tables).map(|(level, table)| CascadeLevel {
            qo_indptr: &level.qo_indptr,
            kv: match table {
                LevelTable::Ragged(ends) => CascadeLevelKv::Ragged(ends),
                LevelTable::Paged(table) => CascadeLevelKv::Paged(table.table()),
            },
        });
        let levels: Vec<_> = levels.collect();
        let layout = Batch::cascade(&qo_indptr, &levels).validate().expect("sound");

        let row = (heads.kv * heads.head_dim) as usize;
        let mut next = numbers(self.seed ^ 1);
        let mut random = |n: usize| (0..n).map(|_| next()).collect::<Vec<f32>>();
        let (mut k, mut v) = (vec![f32::NAN; len * row], vec![f32::NAN; len * row]);
        for &token in tokens.iter().flatten().flatten() {
            k[token * row..][..row].copy_from_slice(&random(row));
            v[token * row..][..row].copy_from_slice(&random(row));
        }

        let of_request = |request: usize| -> Vec<usize> {
            (0..self.levels.len()).flat_map(|level| &tokens[level][self.group_of(level, request)]).copied().collect()
        };
        let all: Vec<Vec<usize>> = (0..self.qo_lens.len()).map(of_request).collect();
        let kv_lens: Vec<u32> = all.iter().map(|tokens| tokens.len() as u32).collect();
        let flat = Batch::ragged(&qo_indptr, &indptr(&kv_lens).expect("short")).validate().expect("sound");
        let rows = |from: &[f32]| -> Vec<f32> {
            all.iter().flatten().flat_map(|token| &from[token * row..][..row]).copied().collect()
        };
        let (flat_k, flat_v) = (rows(&k), rows(&v));
        let (kv, dim) = (heads.kv as usize, heads.head_dim as usize);
        let shape = match layout.pages() {
            None => vec![len, kv, dim],
            Some(pages) => vec![len / pages.page_size() as usize, pages.page_size() as usize, kv, dim],
        };
        let flat_shape = vec![flat.kv_tokens(), kv, dim];
        let q = random(flat.qo_tokens() * (heads.qo * heads.head_dim) as usize).iter().map(|x| 3.0 * x).collect();
        Keys { layout, flat, heads, shape, flat_shape, k, v, flat_k, flat_v, q }
    }
}

impl Keys {
    pub(crate) fn q(&self) -> TensorRef<'_> {
        let shape = [self.layout.qo_tokens(), self.heads.qo as usize, self.heads.head_dim as usize];
        TensorRef::host(&self.q, &shape).expect("the right length")
    }

    pub(crate) fn kv(&self) -> Kv<'_> {
        let tensor = |x| TensorRef::host(x, &self.shape).expect("the right length");
        match self.layout.pages() {
            None => Kv::ragged(tensor(&self.k), tensor(&self.v)),
            Some(_) => Kv::paged(tensor(&self.k), tensor(&self.v)),
        }
    }

    pub(crate) fn flat_kv(&self) -> Kv<'_> {
        let tensor = |x| TensorRef::host(x, &self.flat_shape).expect("the right length");
        Kv::ragged(tensor(&self.flat_k), tensor(&self.flat_v))
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
