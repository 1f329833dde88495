//! A test case of the CPU backend: its sizes ([`Case`]), and the tensors that it has ([`Setup`]), which the backend and
//! the f64 reference compute. Memory that belongs to no request is NaN, so that reading it shows.

use attn_core::Variant;
use attn_core::batch::{Batch, KvLayout, Layout, PageTableBuf, indptr};
use attn_core::cpu::{self, CpuError, Problem};
use attn_core::dtype::Dtype;
use attn_core::plan::{Cost, PlanRule, Schedule, WorkList};
use attn_core::spec::{HeadDimVo, Heads};
use attn_core::tensor::{Kv, KvScales, Out, PageOrder, Scale, TensorMut, TensorRef};
use attn_testing::Host;
use attn_tests::reference::{Attended, Formula, Packed, Shape, attend};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::variants;

/// Low item costs, so that small batches are split and merged too.
pub(crate) const COST: Cost = Cost { item: 1, block: 2, merge: 0 };

#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys {
    Ragged,
    Paged { page_size: u32, hnd: bool, fused: bool },
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// (queries, keys) of each request.
    pub(crate) lens: Vec<(usize, usize)>,
    pub(crate) group: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) head_dim_vo: HeadDimVo,
    pub(crate) keys: Keys,
    /// Element type of queries and outputs; also of keys and values, unless these have their own.
    pub(crate) dtype: Dtype,
    pub(crate) kv_dtype: Option<Dtype>,
    pub(crate) scales: Scales,
    pub(crate) variant: usize,
    pub(crate) tile_rows: u32,
    /// Number of workers. With 1, only a schedule with fixed splits splits tiles.
    pub(crate) workers: u32,
    pub(crate) schedule: Schedule,
    pub(crate) seed: u64,
}

/// Which scales the cache has: one per tensor, one per head, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scales {
    None,
    Tensor,
    Heads,
    Both,
}

/// The scale of a tensor, and the scales of its heads.
struct CacheScale {
    tensor: f32,
    heads: Option<Vec<f32>>,
}

/// A case with its tensors.
pub(crate) struct Setup {
    pub(crate) case: Case,
    pub(crate) variant: Variant,
    formula: Formula,
    pub(crate) heads: Heads,
    pub(crate) layout: Layout,
    pub(crate) work: WorkList,
    q: Host,
    /// Keys in memory order, or one fused pool of keys and values.
    k: Host,
    v: Host,
    /// The shape of `k`.
    pool_shape: Vec<usize>,
    k_scale: CacheScale,
    v_scale: CacheScale,
    /// What the backend reads, for the reference: (token, KV head, dim), rounded to the dtype, times the scales.
    keys: Vec<f64>,
    values: Vec<f64>,
}

/// Keys and values in memory order.
struct Memory {
    layout: Layout,
    pool_shape: Vec<usize>,
    k: Vec<f32>,
    v: Vec<f32>,
}

/// Random numbers in -1 .. 1.
pub(crate) fn numbers(seed: u64) -> impl FnMut() -> f32 {
    let mut rng = SmallRng::seed_from_u64(seed);
    move || rng.random_range(-1.0..1.0)
}

impl Case {
    pub(crate) fn tolerance(&self) -> f64 {
        match self.dtype {
            Dtype::F32 => 2e-5,
            Dtype::F16 => 6e-4,
            _ => 4.5e-3,
        }
    }

    /// Whether keys and values are in one fused pool, which needs equal head dimensions.
    fn is_fused(&self) -> bool {
        self.head_dim_vo == HeadDimVo::Same && matches!(self.keys, Keys::Paged { fused: true, .. })
    }

    pub(crate) fn setup(&self) -> Setup {
        self.setup_with(variants::get(self.variant))
    }

    pub(crate) fn setup_with(&self, (variant, formula): (Variant, Formula)) -> Setup {
        let heads =
            Heads { qo: (self.group * self.kv_heads) as u32, kv: self.kv_heads as u32, head_dim: self.head_dim as u32 };
        let (qo_lens, kv_lens): (Vec<u32>, Vec<u32>) = self.lens.iter().map(|&(q, k)| (q as u32, k as u32)).unzip();
        let (qo_indptr, kv_indptr) = (indptr(&qo_lens).expect("short"), indptr(&kv_lens).expect("short"));
        let value_dim = self.head_dim_vo.dim(heads) as usize;
        let (tokens, kv_tokens) = (qo_indptr[self.lens.len()] as usize, kv_indptr[self.lens.len()] as usize);
        let row = self.kv_heads * self.head_dim;

        let mut next = numbers(self.seed);
        let mut fill = |n: usize| (0..n).map(|_| next()).collect::<Vec<f32>>();
        // two tokens of poison behind the last one
        let poison = vec![f32::NAN; 2 * self.group * row];
        let q = [fill(tokens * self.group * row).iter().map(|x| 3.0 * x).collect(), poison].concat();
        let keys = fill(kv_tokens * row);
        let values = match self.head_dim_vo {
            HeadDimVo::SharedWithKeys(dim) => {
                keys.chunks(self.head_dim).flat_map(|key| &key[..dim as usize]).copied().collect()
            }
            _ => fill(kv_tokens * self.kv_heads * value_dim),
        };
        let mut scale = |tensor| {
            let heads: Vec<f32> = (0..self.kv_heads).map(|_| 1.0 + 0.5 * next()).collect();
            match self.scales {
                Scales::None => CacheScale { tensor: 1.0, heads: None },
                Scales::Tensor => CacheScale { tensor, heads: None },
                Scales::Heads => CacheScale { tensor: 1.0, heads: Some(heads) },
                Scales::Both => CacheScale { tensor, heads: Some(heads) },
            }
        };
        let (k_scale, v_scale) = (scale(0.75), scale(1.5));

        let memory = match self.keys {
            Keys::Ragged => self.ragged(&qo_indptr, &kv_indptr, [&keys, &values], value_dim),
            Keys::Paged { page_size, hnd, .. } => {
                let table = self.page_table(&kv_lens, page_size);
                self.paged(&qo_indptr, &table, hnd, [&keys, &values], value_dim)
            }
        };
        assert_eq!(memory.layout.kv_indptr(), kv_indptr);
        let variant = variant.bind(&self.head_dim_vo.dims(heads, heads.dims())).expect("bound");
        let work = self.work_list(&variant, &memory.layout, heads);
        let kv_dtype = self.kv_dtype.unwrap_or(self.dtype);
        Setup {
            case: self.clone(),
            variant,
            formula,
            heads,
            layout: memory.layout,
            work,
            q: Host::new(self.dtype, &q),
            k: Host::new(kv_dtype, &memory.k),
            v: Host::new(kv_dtype, &memory.v),
            pool_shape: memory.pool_shape,
            keys: k_scale.of(&Host::new(kv_dtype, &keys), self.kv_heads, self.head_dim),
            values: v_scale.of(&Host::new(kv_dtype, &values), self.kv_heads, value_dim),
            k_scale,
            v_scale,
        }
    }

    /// Ragged keys and values, with three tokens of poison behind the last one.
    fn ragged(&self, qo: &[i32], kv: &[i32], [keys, values]: [&[f32]; 2], value_dim: usize) -> Memory {
        let padded = |x: &[f32], dim: usize| [x, &vec![f32::NAN; 3 * self.kv_heads * dim]].concat();
        Memory {
            layout: Batch::ragged(qo, kv).validate().expect("sound"),
            pool_shape: vec![kv[kv.len() - 1] as usize + 3, self.kv_heads, self.head_dim],
            k: padded(keys, self.head_dim),
            v: padded(values, value_dim),
        }
    }

    /// Pages in a scattered order, in a pool of three pages more than are used.
    fn page_table(&self, kv_lens: &[u32], page_size: u32) -> PageTableBuf {
        let pages: usize = kv_lens.iter().map(|len| len.div_ceil(page_size) as usize).sum();
        let pool = pages + 3;
        let step = (1..).find(|step| step * 7 > pool && gcd(*step, pool) == 1).expect("there is one");
        let mut used = 0;
        PageTableBuf::from_lens(kv_lens, page_size, pool as u32, || {
            used += 1;
            (used * step % pool) as i32
        })
    }

    /// Keys and values in pages; slots without a key are poison.
    fn paged(
        &self,
        qo: &[i32],
        table: &PageTableBuf,
        hnd: bool,
        [keys, values]: [&[f32]; 2],
        value_dim: usize,
    ) -> Memory {
        let layout = Batch { qo_indptr: qo, kv: KvLayout::Paged(table.table()) }.validate().expect("sound");
        let (pool, slots) = (table.num_pages as usize, table.page_size as usize);
        let fused = self.is_fused();
        // copies rows of `dim` elements to part 0 or 1 (of a fused pool: keys or values) of their pages
        let store = |x: &[f32], to: &mut [f32], part: usize, dim: usize| {
            let row = self.kv_heads * dim;
            let page = slots * row;
            let stride = if fused { 2 * page } else { page };
            for (request, start) in layout.kv_indptr()[..self.lens.len()].iter().enumerate() {
                for key in 0..layout.kv_len(request) {
                    let (at, slot) = layout.pages().expect("paged").locate(request, key);
                    for head in 0..self.kv_heads {
                        let within = if hnd { head * slots + slot } else { slot * self.kv_heads + head } * dim;
                        let from = (*start as usize + key) * row + head * dim;
                        to[at * stride + part * page + within..][..dim].copy_from_slice(&x[from..from + dim]);
                    }
                }
            }
        };
        let mut pool_shape = match hnd {
            true => vec![pool, self.kv_heads, slots, self.head_dim],
            false => vec![pool, slots, self.kv_heads, self.head_dim],
        };
        if fused {
            pool_shape.insert(1, 2);
        }
        let mut k = vec![f32::NAN; pool_shape.iter().product()];
        let mut v = vec![f32::NAN; pool * slots * self.kv_heads * value_dim];
        store(keys, &mut k, 0, self.head_dim);
        if fused {
            store(values, &mut k, 1, value_dim);
        } else {
            store(values, &mut v, 0, value_dim);
        }
        Memory { layout, pool_shape, k, v }
    }

    fn work_list(&self, variant: &Variant, layout: &Layout, heads: Heads) -> WorkList {
        let rule = PlanRule {
            tile_rows: self.tile_rows,
            kv_align: 16,
            min_span: 32,
            workers: self.workers,
            cost: COST,
            schedule: self.schedule,
        };
        // without lists and unions, a list with other KV splits must give the same result
        let any_splits = !variant.has_kv_list() && !variant.has_union();
        let split_by = if any_splits && self.seed.is_multiple_of(3) { &Variant::full() } else { variant };
        WorkList::build_for(split_by, layout, heads, &rule.into()).expect("small")
    }
}

impl CacheScale {
    /// The numbers that stored elements stand for, (token, KV head, dim).
    fn of(&self, stored: &Host, kv_heads: usize, dim: usize) -> Vec<f64> {
        let head = |at: usize| at / dim % kv_heads;
        let scale = |at: usize| self.heads.as_ref().map_or(1.0, |heads| f64::from(heads[head(at)]));
        to_f64(stored).into_iter().enumerate().map(|(at, x)| x * (f64::from(self.tensor) * scale(at))).collect()
    }

    fn tensors(&self) -> Scale<'_> {
        let heads = self.heads.as_ref();
        let heads = heads.map(|heads| TensorRef::host(heads, &[heads.len()]).expect("the right length"));
        Scale { all: self.tensor, heads }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Setup {
    /// The shape of the values, or of their pool.
    fn value_shape(&self) -> Vec<usize> {
        let outer = self.pool_shape[..self.pool_shape.len() - 1].to_vec();
        [outer, vec![self.value_dim()]].concat()
    }

    pub(crate) fn value_dim(&self) -> usize {
        self.case.head_dim_vo.dim(self.heads) as usize
    }

    pub(crate) fn problem(&self) -> Problem<'_> {
        let k = tensor(&self.k, &self.pool_shape);
        let v = || tensor(&self.v, &self.value_shape());
        let kv = match self.case.keys {
            Keys::Ragged if self.case.head_dim_vo.shares_keys() => Kv::latent(k),
            Keys::Ragged => Kv::ragged(k, v()),
            Keys::Paged { hnd, .. } => {
                let order = if hnd { PageOrder::Hnd } else { PageOrder::Nhd };
                match self.case.head_dim_vo {
                    HeadDimVo::SharedWithKeys(_) => Kv::latent_pages(k, order),
                    _ if self.case.is_fused() => Kv::paged_fused(k, order),
                    _ => Kv::paged_in(k, v(), order),
                }
                .expect("the right rank")
            }
        };
        Problem {
            variant: &self.variant,
            heads: self.heads,
            head_dim_vo: self.case.head_dim_vo,
            sm_scale: self.heads.default_sm_scale(),
            layout: &self.layout,
            work: &self.work,
            q: tensor(&self.q, &[self.layout.qo_tokens() + 2, self.heads.qo as usize, self.case.head_dim]),
            kv: kv.with_scales(KvScales { k: self.k_scale.tensors(), v: self.v_scale.tensors() }),
        }
    }

    pub(crate) fn run(&self) -> Result<Attended, CpuError> {
        let (tokens, heads) = (self.layout.qo_tokens(), self.heads.qo as usize);
        let mut o = Host::new(self.case.dtype, &vec![f32::NAN; tokens * heads * self.value_dim()]);
        let mut lse = vec![f32::NAN; tokens * heads];
        let out = Out::with_lse(
            o.tensor_mut(&[tokens, heads, self.value_dim()]).expect("the right length"),
            TensorMut::host(&mut lse, &[tokens, heads]).expect("the right length"),
        );
        cpu::run(&self.problem(), out)?;
        Ok(Attended { o: to_f64(&o), lse: lse.into_iter().map(f64::from).collect() })
    }

    /// The expected result.
    pub(crate) fn reference(&self) -> Attended {
        let shape = Shape {
            lens: self.case.lens.iter().map(|&(qo, kv)| (qo as i64, kv as i64)).collect(),
            qo_heads: self.heads.qo.into(),
            kv_heads: self.heads.kv.into(),
            head_dim: self.heads.head_dim.into(),
            value_dim: self.value_dim() as i64,
        };
        let tensors = Packed { q: to_f64(&self.q), k: self.keys.clone(), v: self.values.clone() };
        attend(&self.formula, &shape, &tensors, f64::from(self.heads.default_sm_scale()))
    }
}

fn tensor<'a>(of: &'a Host, shape: &[usize]) -> TensorRef<'a> {
    of.tensor(shape).expect("the right length")
}

fn to_f64(of: &Host) -> Vec<f64> {
    of.to_f32().into_iter().map(f64::from).collect()
}
