//! A test case: sizes, values, layout. Memory that belongs to no request is NaN.

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

/// A case with its values.
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
    pool_shape: Vec<usize>,
    /// `(scale of the tensor, scales of the heads)` of k, then of v.
    scales: [(f32, Option<Vec<f32>>); 2],
    /// Logical (token, kv_head, dim) values, rounded to the dtype, times their scales.
    keys: Vec<f64>,
    values: Vec<f64>,
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
        let (row, value_row) = (self.kv_heads * self.head_dim, self.kv_heads * value_dim);
        let (tokens, kv_tokens) = (qo_indptr[self.lens.len()] as usize, kv_indptr[self.lens.len()] as usize);
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
            _ => fill(kv_tokens * value_row),
        };

        let (layout, pool_shape, k, v) = match self.keys {
            Keys::Ragged => {
                let layout = Batch::ragged(&qo_indptr, &kv_indptr).validate().expect("sound");
                let pad = |x: &[f32], row: usize| [x, &vec![f32::NAN; 3 * row]].concat();
                (layout, vec![kv_tokens + 3, self.kv_heads, self.head_dim], pad(&keys, row), pad(&values, value_row))
            }
            Keys::Paged { page_size, hnd, .. } => {
                let fused = self.is_fused();
                let pages: usize = kv_lens.iter().map(|len| len.div_ceil(page_size) as usize).sum();
                let pool = pages + 3;
                // pages in a scattered order
                let step = (1..).find(|step| step * 7 > pool && gcd(*step, pool) == 1).expect("there is one");
                let mut used = 0;
                let table = PageTableBuf::from_lens(&kv_lens, page_size, pool as u32, || {
                    used += 1;
                    (used * step % pool) as i32
                });
                let batch = Batch { qo_indptr: &qo_indptr, kv: KvLayout::Paged(table.table()) };
                let layout = batch.validate().expect("sound");
                assert_eq!(layout.kv_indptr(), kv_indptr);
                let slots = page_size as usize;
                let page = slots * row;
                let store = |x: &[f32], to: &mut [f32], part: usize, dim: usize| {
                    let row = self.kv_heads * dim;
                    let page = slots * row;
                    let stride = if fused { 2 * page } else { page };
                    for (request, start) in kv_indptr[..self.lens.len()].iter().enumerate() {
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
                let (outer, inner) = if hnd { (self.kv_heads, slots) } else { (slots, self.kv_heads) };
                let mut k = vec![f32::NAN; pool * if fused { 2 * page } else { page }];
                let mut v = vec![f32::NAN; pool * slots * value_row];
                store(&keys, &mut k, 0, self.head_dim);
                if fused {
                    store(&values, &mut k, 1, value_dim);
                } else {
                    store(&values, &mut v, 0, value_dim);
                }
                let mut shape = vec![pool, outer, inner, self.head_dim];
                if fused {
                    shape.insert(1, 2);
                }
                (layout, shape, k, v)
            }
        };
        let variant = variant.bind(&self.head_dim_vo.dims(heads, heads.dims())).expect("bound");
        let rule = PlanRule {
            tile_rows: self.tile_rows,
            kv_align: 16,
            min_span: 32,
            workers: self.workers,
            cost: COST,
            schedule: self.schedule,
        };
        // without lists and unions, a list with other KV splits must give the same result
        let any_cut = !variant.has_kv_list() && !variant.has_union();
        let cut_by = if any_cut && self.seed.is_multiple_of(3) { &Variant::full() } else { &variant };
        let work = WorkList::build_for(cut_by, &layout, heads, &rule.into());
        let kv_dtype = self.kv_dtype.unwrap_or(self.dtype);
        let scales = [0.75, 1.5].map(|all| {
            let heads: Vec<f32> = (0..self.kv_heads).map(|_| 1.0 + 0.5 * next()).collect();
            match self.scales {
                Scales::None => (1.0, None),
                Scales::Tensor => (all, None),
                Scales::Heads => (1.0, Some(heads)),
                Scales::Both => (all, Some(heads)),
            }
        });
        let stands_for = |x: &[f32], dim: usize, (all, heads): &(f32, Option<Vec<f32>>)| -> Vec<f64> {
            let scale = |at: usize| {
                let head = at / dim % self.kv_heads;
                f64::from(*all) * heads.as_ref().map_or(1.0, |heads| f64::from(heads[head]))
            };
            to_f64(&Host::new(kv_dtype, x)).into_iter().enumerate().map(|(at, x)| x * scale(at)).collect()
        };
        Setup {
            case: self.clone(),
            variant,
            formula,
            heads,
            layout,
            work: work.expect("small"),
            q: Host::new(self.dtype, &q),
            k: Host::new(kv_dtype, &k),
            v: Host::new(kv_dtype, &v),
            pool_shape,
            keys: stands_for(&keys, self.head_dim, &scales[0]),
            values: stands_for(&values, value_dim, &scales[1]),
            scales,
        }
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
        let [k, v] = self.scales.each_ref().map(|(all, heads)| Scale {
            all: *all,
            heads: heads.as_ref().map(|heads| TensorRef::host(heads, &[heads.len()]).expect("the right length")),
        });
        Problem {
            variant: &self.variant,
            heads: self.heads,
            head_dim_vo: self.case.head_dim_vo,
            sm_scale: self.heads.default_sm_scale(),
            layout: &self.layout,
            work: &self.work,
            q: tensor(&self.q, &[self.layout.qo_tokens() + 2, self.heads.qo as usize, self.case.head_dim]),
            kv: kv.with_scales(KvScales { k, v }),
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
