//! The tensors of a case: random where a kernel may read, NaN where it may not.

use half::{bf16, f16};

use crate::batch::{PageTableBuf, indptr};
use crate::lang::{F8E4M3, F8E5M2};
use crate::tensor::{Element as _, Kv, KvScales, Scale, TensorError, TensorRef};
use crate::{Batch, Dtype, ValueRows};

use super::random::{Normal, Random, Value};
use super::{Case, LayoutKind, Order, TestError};

/// Pages of a pool that no request uses, all NaN.
const SPARE_PAGES: u32 = 5;
/// NaNs behind the last element of k and v.
pub(super) const TAIL: usize = 4096;
/// The scale of values over that of keys: another, so that a kernel that mixes them up shows.
const VALUES_PER_KEYS: f32 = 1.25;
/// Elements of random data, tiled over tensors that are only timed.
const PERIOD: usize = (1 << 23) + 104_729;

/// What a case runs on, in host memory.
#[derive(Debug)]
pub struct Inputs {
    /// `[requests + 1]` prefix sums of query counts.
    pub qo_indptr: Vec<i32>,
    /// Where the keys are.
    pub keys: Keys,
    /// (query tokens, query heads, head_dim).
    pub q: Host,
    /// As [`kv_shape`](Self::kv_shape), laid out as [`kv_strides`](Self::kv_strides).
    pub k: Host,
    /// As [`v_shape`](Self::v_shape) and [`v_strides`](Self::v_strides) say; the same as `k` where values are of the keys.
    pub v: Host,
    /// Of keys: (tokens, kv_heads, head_dim) or (pages, slots, kv_heads, head_dim).
    pub kv_shape: Vec<usize>,
    /// Strides of `k` in elements.
    pub kv_strides: Vec<i64>,
    /// As `kv_shape`, of values.
    pub v_shape: Vec<usize>,
    /// As `kv_strides`, of values.
    pub v_strides: Vec<i64>,
    /// What stored keys are multiplied by.
    pub k_scale: HostScale,
    /// What stored values are multiplied by.
    pub v_scale: HostScale,
    heads: crate::Heads,
    pub(super) values: ValueRows,
}

/// Where the keys of a case are.
#[derive(Debug)]
pub enum Keys {
    /// `[requests + 1]` prefix sums of key counts.
    Ragged(Vec<i32>),
    /// The page table.
    Paged(PageTableBuf),
}

/// A tensor's elements in host memory.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Host {
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    F32(Vec<f32>),
    E4m3(Vec<F8E4M3>),
    E5m2(Vec<F8E5M2>),
}

/// A scale of keys or of values, in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct HostScale {
    /// Of all elements.
    pub all: f32,
    /// Of each KV head, if the case has such.
    pub heads: Option<Vec<f32>>,
}

impl HostScale {
    /// Of `all` elements, and of each of `heads`: random, from 0.5 to 1.5.
    fn new(all: f32, heads: Option<u32>, mut random: Random) -> Self {
        let mut head = || 0.5 + random.below(1025) as f32 / 1024.0;
        HostScale { all, heads: heads.map(|heads| (0..heads).map(|_| head()).collect()) }
    }

    /// The scale, in host memory.
    fn scale(&self) -> Result<Scale<'_>, TensorError> {
        let heads = self.heads.as_ref().map(|heads| TensorRef::host(heads, &[heads.len()]));
        Ok(Scale { all: self.all, heads: heads.transpose()? })
    }
}

/// Runs an expression on the vector inside a [`Host`], whatever its type.
macro_rules! on_host {
    ($host:expr, $data:ident => $run:expr) => {
        match $host {
            $crate::testing::inputs::Host::F16($data) => $run,
            $crate::testing::inputs::Host::Bf16($data) => $run,
            $crate::testing::inputs::Host::F32($data) => $run,
            $crate::testing::inputs::Host::E4m3($data) => $run,
            $crate::testing::inputs::Host::E5m2($data) => $run,
        }
    };
}
pub(super) use on_host;

impl Host {
    /// `len` NaNs.
    #[must_use]
    pub fn nan(dtype: Dtype, len: usize) -> Self {
        match dtype {
            Dtype::F16 => Host::F16(vec![f16::NAN; len]),
            Dtype::Bf16 => Host::Bf16(vec![bf16::NAN; len]),
            Dtype::F32 => Host::F32(vec![f32::NAN; len]),
            Dtype::E4m3 => Host::E4m3(vec![Value::NAN; len]),
            Dtype::E5m2 => Host::E5m2(vec![Value::NAN; len]),
        }
    }

    /// The elements as a contiguous tensor.
    ///
    /// # Errors
    ///
    /// Fewer elements than the shape has.
    pub fn tensor(&self, shape: &[usize]) -> Result<TensorRef<'_>, TensorError> {
        on_host!(self, data => TensorRef::host(data, shape))
    }

    /// The elements, widened.
    #[must_use]
    pub fn to_f32(&self) -> Vec<f32> {
        on_host!(self, data => data.iter().map(|x| x.to_f32()).collect())
    }

    /// The elements as bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        on_host!(self, data => bytemuck::cast_slice(data))
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        on_host!(self, data => data.len())
    }

    /// Appends NaNs.
    fn pad(&mut self, more: usize) {
        on_host!(self, data => data.resize(data.len() + more, Value::NAN));
    }

    /// Copies elements of the same type.
    pub(super) fn copy_row(&mut self, to: usize, from: &Host, at: usize, len: usize) {
        match (self, from) {
            (Host::F16(out), Host::F16(from)) => out[to..][..len].copy_from_slice(&from[at..][..len]),
            (Host::Bf16(out), Host::Bf16(from)) => out[to..][..len].copy_from_slice(&from[at..][..len]),
            (Host::F32(out), Host::F32(from)) => out[to..][..len].copy_from_slice(&from[at..][..len]),
            (Host::E4m3(out), Host::E4m3(from)) => out[to..][..len].copy_from_slice(&from[at..][..len]),
            (Host::E5m2(out), Host::E5m2(from)) => out[to..][..len].copy_from_slice(&from[at..][..len]),
            (out, from) => debug_assert_eq!(out.dtype(), from.dtype()),
        }
    }

    /// The elements from `begin` on, as a tensor with strides.
    pub(super) fn strided(&self, begin: usize, shape: &[usize], strides: &[i64]) -> Result<TensorRef<'_>, TensorError> {
        on_host!(self, data => TensorRef::host(&data[begin.min(data.len())..], shape))?.with_strides(strides)
    }

    /// Keeps the first elements.
    pub(super) fn truncate(&mut self, len: usize) {
        on_host!(self, data => data.truncate(len));
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Type of the elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        match self {
            Host::F16(_) => Dtype::F16,
            Host::Bf16(_) => Dtype::Bf16,
            Host::F32(_) => Dtype::F32,
            Host::E4m3(_) => Dtype::E4m3,
            Host::E5m2(_) => Dtype::E5m2,
        }
    }
}

impl Inputs {
    /// Makes the tensors of a case. With `tiled`, values repeat with a long period, which is enough to time a kernel.
    ///
    /// # Errors
    ///
    /// A dtype that is not known, lengths past 31 bits.
    pub fn new(case: &Case, tiled: bool) -> Result<Self, TestError> {
        let dtypes = case.dtypes()?;
        let (qo_lens, kv_lens) = (case.qo_lens.to_vec(), case.kv_lens.to_vec());
        let (heads, dim) = (case.kv_heads as usize, case.head_dim as usize);
        let qo_indptr = indptr(&qo_lens)?;
        let kv_indptr = indptr(&kv_lens)?;
        let qo_tokens = qo_indptr.last().copied().unwrap_or(0) as usize;
        let kv_tokens = kv_indptr.last().copied().unwrap_or(0) as usize;
        let slots = case.page_size.max(1) as usize;

        let (keys, kv_shape, kv_strides) = match case.kv_layout {
            LayoutKind::Ragged | LayoutKind::RaggedCascade => {
                let shape = vec![kv_tokens, heads, dim];
                let strides = strides(&[kv_tokens, heads, dim], case.page_order, 0);
                (Keys::Ragged(kv_indptr), shape, strides)
            }
            LayoutKind::Paged | LayoutKind::BlockTable | LayoutKind::Cascade => {
                let used: u32 = kv_lens.iter().map(|len| len.div_ceil(slots as u32)).sum();
                let pool = used + SPARE_PAGES;
                let mut order = Random::new(case.seed, 0).permutation(pool).into_iter();
                let table = PageTableBuf::from_lens(&kv_lens, slots as u32, pool, || order.next().unwrap_or(0));
                let shape = vec![pool as usize, slots, heads, dim];
                let strides = strides(&shape, case.page_order, 1);
                (Keys::Paged(table), shape, strides)
            }
        };
        let holes = match &keys {
            Keys::Ragged(_) => Vec::new(),
            Keys::Paged(table) => holes(table, &kv_lens),
        };
        let kv = |stream, shape: &[usize], strides: &[i64]| {
            let (len, dim) = (shape.iter().product::<usize>(), shape[shape.len() - 1]);
            let mut host = random(dtypes.kv, len, 1.0, &mut Random::new(case.seed, stream), tiled);
            on_host!(&mut host, data => poison(data, &holes, strides, heads, dim));
            host.pad(TAIL);
            host
        };
        let q_len = qo_tokens * case.qo_heads as usize * dim;
        let q = random(dtypes.qo, q_len, case.q_std.unwrap_or(1.0), &mut Random::new(case.seed, 1), tiled);
        let k = kv(2, &kv_shape, &kv_strides);
        let (v, v_shape, v_strides) = match case.values {
            ValueRows::OfKeys(_) => (k.clone(), kv_shape.clone(), kv_strides.clone()),
            values => {
                let mut shape = kv_shape.clone();
                shape[kv_shape.len() - 1] = values.dim(case.heads()) as usize;
                let strides = strides(&shape, case.page_order, kv_shape.len() - 3);
                (kv(3, &shape, &strides), shape, strides)
            }
        };
        let scale = |all, stream| {
            let heads = case.kv_scale_per_head.then_some(case.kv_heads);
            HostScale::new(all, heads, Random::new(case.seed, stream))
        };
        let (k_scale, v_scale) = case.kv_scale.map_or((1.0, 1.0), |scale| (scale, VALUES_PER_KEYS * scale));
        let (k_scale, v_scale) = (scale(k_scale, 4), scale(v_scale, 5));
        let (heads, values) = (case.heads(), case.values);
        Ok(Inputs {
            qo_indptr,
            keys,
            q,
            k,
            v,
            kv_shape,
            kv_strides,
            v_shape,
            v_strides,
            k_scale,
            v_scale,
            heads,
            values,
        })
    }

    /// Zeros in place of what is poisoned.
    pub(super) fn replace_nan(&mut self) {
        for host in [&mut self.k, &mut self.v] {
            on_host!(host, data => data.iter_mut().filter(|x| x.to_f32().is_nan()).for_each(|x| *x = Value::of(0.0)));
        }
    }

    /// The batch.
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        self.keys.batch(&self.qo_indptr)
    }

    /// Shape of o: (query tokens, query heads, value_dim).
    #[must_use]
    pub fn o_shape(&self) -> [usize; 3] {
        let [tokens, heads, _] = self.qo_shape();
        [tokens, heads, self.values.dim(self.heads) as usize]
    }

    /// Shape of q: (query tokens, query heads, head_dim).
    #[must_use]
    pub fn qo_shape(&self) -> [usize; 3] {
        let tokens = self.qo_indptr.last().copied().unwrap_or(0) as usize;
        [tokens, self.heads.qo as usize, self.heads.head_dim as usize]
    }

    /// The queries, in host memory.
    ///
    /// # Errors
    ///
    /// None that a case can cause.
    pub fn q(&self) -> Result<TensorRef<'_>, TensorError> {
        self.q.tensor(&self.qo_shape())
    }

    /// The keys and values, in host memory.
    ///
    /// # Errors
    ///
    /// None that a case can cause.
    pub fn kv(&self) -> Result<Kv<'_>, TensorError> {
        let k = self.k.strided(0, &self.kv_shape, &self.kv_strides)?;
        let v = self.v.strided(0, &self.v_shape, &self.v_strides)?;
        let kv = match self.keys.paged() {
            _ if self.values.are_of_keys() => Kv::latent(k),
            false => Kv::ragged(k, v),
            true => Kv::paged(k, v),
        };
        Ok(kv.with_scales(KvScales { k: self.k_scale.scale()?, v: self.v_scale.scale()? }))
    }
}

/// Another batch over the same tensors, no larger than that of the case.
pub(super) struct Other {
    qo_indptr: Vec<i32>,
    keys: Keys,
}

impl Other {
    /// Half of the requests, with half of their queries and keys.
    pub(super) fn half(inputs: &Inputs) -> Result<Self, TestError> {
        let requests = (inputs.qo_indptr.len() - 1).div_ceil(2);
        Self::of(inputs, &(0..requests).collect::<Vec<_>>(), |len| len.div_ceil(2))
    }

    /// The requests in reverse: tensors over the lengths of a batch fit it as they fit the case's.
    pub(super) fn reversed(inputs: &Inputs) -> Result<Self, TestError> {
        Self::of(inputs, &(0..inputs.qo_indptr.len() - 1).rev().collect::<Vec<_>>(), |len| len)
    }

    /// These requests, with so many of their queries and keys.
    fn of(inputs: &Inputs, requests: &[usize], keep: fn(u32) -> u32) -> Result<Self, TestError> {
        let len = |indptr: &[i32], request: usize| (indptr[request + 1] - indptr[request]) as u32;
        let kept = |sums: &[i32]| requests.iter().map(|&request| keep(len(sums, request))).collect::<Vec<_>>();
        let keys = match &inputs.keys {
            Keys::Ragged(kv_indptr) => Keys::Ragged(indptr(&kept(kv_indptr))?),
            Keys::Paged(table) => {
                let size = table.page_size;
                let lens = requests.iter().map(|&request| match len(&table.indptr, request) {
                    0 => 0,
                    pages => keep((pages - 1) * size + table.last_page_len[request] as u32),
                });
                let lens: Vec<u32> = lens.collect();
                let mut pages = requests.iter().zip(&lens).flat_map(|(&request, len)| {
                    &table.indices[table.indptr[request] as usize..][..len.div_ceil(size) as usize]
                });
                let next = || pages.next().copied().unwrap_or(0);
                Keys::Paged(PageTableBuf::from_lens(&lens, size, table.num_pages, next))
            }
        };
        Ok(Other { qo_indptr: indptr(&kept(&inputs.qo_indptr))?, keys })
    }

    pub(super) fn batch(&self) -> Batch<'_> {
        self.keys.batch(&self.qo_indptr)
    }
}

impl Keys {
    /// Whether they are in pages.
    pub(super) fn paged(&self) -> bool {
        !matches!(self, Keys::Ragged(_))
    }

    fn batch<'a>(&'a self, qo_indptr: &'a [i32]) -> Batch<'a> {
        match self {
            Keys::Ragged(kv_indptr) => Batch::ragged(qo_indptr, kv_indptr),
            Keys::Paged(table) => Batch::paged(qo_indptr, &table.table()),
        }
    }
}

/// Strides of a tensor whose dimensions `at` (slots or tokens) and `at + 1` (heads) lie in the given order.
fn strides(shape: &[usize], order: Order, at: usize) -> Vec<i64> {
    let mut place: Vec<usize> = (0..shape.len()).collect();
    if order == Order::Hnd {
        place.swap(at, at + 1);
    }
    let mut strides = vec![1i64; shape.len()];
    let mut step = 1i64;
    for &dim in place.iter().rev() {
        strides[dim] = step;
        step *= shape[dim] as i64;
    }
    strides
}

fn random(dtype: Dtype, len: usize, std: f32, random: &mut Random, tiled: bool) -> Host {
    match dtype {
        Dtype::F16 => Host::F16(values(len, std, random, tiled)),
        Dtype::Bf16 => Host::Bf16(values(len, std, random, tiled)),
        Dtype::F32 => Host::F32(values(len, std, random, tiled)),
        Dtype::E4m3 => Host::E4m3(values(len, std, random, tiled)),
        Dtype::E5m2 => Host::E5m2(values(len, std, random, tiled)),
    }
}

fn values<T: Value>(len: usize, std: f32, random: &mut Random, tiled: bool) -> Vec<T> {
    let fresh = if tiled { len.min(PERIOD) } else { len };
    let mut data = vec![T::NAN; len];
    Normal::new(std).fill(&mut data[..fresh], random);
    let mut filled = fresh;
    while filled < len {
        let more = filled.min(len - filled);
        data.copy_within(..more, filled);
        filled += more;
    }
    data
}

/// (page, first slot that holds no key) of every page that is not full; unused pages from slot 0.
fn holes(table: &PageTableBuf, kv_lens: &[u32]) -> Vec<(usize, std::ops::Range<usize>)> {
    let slots = table.page_size as usize;
    let mut first_free = vec![0; table.num_pages as usize];
    for (request, &len) in kv_lens.iter().enumerate() {
        let pages = table.indptr[request] as usize..table.indptr[request + 1] as usize;
        for (at, &page) in table.indices[pages].iter().enumerate() {
            first_free[page as usize] = slots.min(len as usize - at * slots);
        }
    }
    first_free
        .into_iter()
        .enumerate()
        .filter(|(_, free)| *free < slots)
        .map(|(page, free)| (page, free..slots))
        .collect()
}

/// Writes NaN into slots of pages.
fn poison<T: Value>(
    data: &mut [T],
    holes: &[(usize, std::ops::Range<usize>)],
    strides: &[i64],
    heads: usize,
    dim: usize,
) {
    for (page, slots) in holes {
        for slot in slots.clone() {
            for head in 0..heads {
                let at = page * strides[0] as usize + slot * strides[1] as usize + head * strides[2] as usize;
                data[at..at + dim].fill(T::NAN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HostScale, Inputs, Keys};
    use crate::testing::{Case, LayoutKind, Lens, Order};

    fn paged(order: Order, page_size: u32) -> Case {
        let mut case = Case::new("full");
        (case.kv_layout, case.page_order, case.page_size) = (LayoutKind::Paged, order, page_size);
        case.kv_lens = Lens::List(vec![7, 0, 5]);
        case.qo_lens = Lens::List(vec![1, 1, 1]);
        case
    }

    #[test]
    fn every_slot_without_a_key_is_nan_and_no_other() {
        for (order, page_size) in [(Order::Nhd, 5), (Order::Hnd, 5), (Order::Hnd, 1), (Order::Nhd, 16)] {
            let case = paged(order, page_size);
            let inputs = Inputs::new(&case, false).expect("sound");
            let layout = inputs.batch().validate().expect("sound");
            let pages = layout.pages().expect("paged");
            let k = inputs.k.to_f32();
            let keys = 12 * 2 * 64; // tokens x heads x dim
            assert!(k[k.len() - super::TAIL..].iter().all(|x| x.is_nan()));
            assert_eq!(k.iter().filter(|x| !x.is_nan()).count(), keys, "{order:?} {page_size}");
            let (page, slot) = pages.locate(2, 4);
            let at = page as i64 * inputs.kv_strides[0] + slot as i64 * inputs.kv_strides[1] + inputs.kv_strides[2];
            assert!(k[at as usize..at as usize + 64].iter().all(|x| x.is_finite()));
            assert!(matches!(&inputs.keys, Keys::Paged(t) if t.last_page_len.len() == 3));
        }
    }

    #[test]
    fn slots_of_eight_bits_are_nan_too_and_values_fit_the_type() {
        for (dtype, most) in [("e4m3", 8.0f32), ("e5m2", 8.0)] {
            let mut case = paged(Order::Nhd, 5);
            case.kv_dtype = Some(dtype.to_owned());
            let inputs = Inputs::new(&case, false).expect("sound");
            assert_eq!(inputs.v.dtype().to_string(), dtype);
            let v = inputs.v.to_f32();
            let keys: Vec<f32> = v.iter().copied().filter(|x| !x.is_nan()).collect();
            assert_eq!((keys.len(), inputs.v.bytes().len()), (12 * 2 * 64, v.len()));
            assert!(keys.iter().all(|x| x.abs() < most) && keys.iter().any(|x| x.abs() > 2.5), "{dtype}");
        }
    }

    #[test]
    fn keys_and_values_have_scales_of_their_own() {
        let mut case = paged(Order::Nhd, 5);
        let scales = |case: &Case| {
            let inputs = Inputs::new(case, false).expect("sound");
            (inputs.k_scale, inputs.v_scale)
        };
        let none = HostScale { all: 1.0, heads: None };
        assert_eq!(scales(&case), (none.clone(), none));
        case.kv_scale = Some(0.5);
        assert_eq!((scales(&case).0.all, scales(&case).1.all, scales(&case).0.heads), (0.5, 0.625, None));
        case.kv_scale_per_head = true;
        let (k, v) = scales(&case);
        let (k, v) = (k.heads.expect("of heads"), v.heads.expect("of heads"));
        assert!(k.len() == 2 && k != v && k.iter().chain(&v).all(|x| (0.5..=1.5).contains(x)), "{k:?} {v:?}");
        assert!(Inputs::new(&case, false).expect("sound").kv().expect("fits").scales.v.heads.is_some());
    }

    #[test]
    fn the_same_seed_gives_the_same_bits_in_every_layout_of_memory() {
        let (a, b) = (Inputs::new(&paged(Order::Nhd, 5), false), Inputs::new(&paged(Order::Nhd, 5), false));
        let (a, b) = (a.expect("sound"), b.expect("sound"));
        assert_eq!(a.k.bytes(), b.k.bytes());
        assert_ne!(a.k.bytes(), a.v.bytes());
    }
}
