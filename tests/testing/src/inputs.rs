//! The tensors of a case: random where kernels may read, NaN where they may not.

use attn::{Batch, Dtype, Error, HeadDimVo, Variant};
use attn_core::batch::{CascadeLevel, Layout, indptr};
use attn_core::tensor::{Element, Kv, KvScales, KvSides, TensorError, TensorRef};
use attn_core::{cpu::Problem, plan::WorkList};

use super::host::{Host, HostScale, on_host};
use super::host_tensor::{HostTensor, KvDims};
use super::keys::Keys;
use super::kv_format_rows::{encoded_rows, formats_of};
use super::random::{Normal, Random};
use super::{Case, TestError};

/// The number of NaNs behind the last element of k and v.
pub(super) const TAIL: usize = 4096;
/// The scale of values relative to that of keys: different, so that mixing them up fails.
const VALUES_PER_KEYS: f32 = 1.25;
/// The stream of the seed that values are from.
const VALUES: u64 = 3;
/// Elements before periodic data repeats. It is odd, so that pages differ.
const PERIOD: usize = (1 << 23) + 104_729;

/// The inputs of a case in host memory.
#[derive(Debug)]
pub struct Inputs {
    /// `[requests + 1]` prefix sums of query counts.
    pub qo_indptr: Vec<i32>,
    /// The lengths and pages of the keys.
    pub keys: Keys,
    /// (query tokens, query heads, head_dim).
    pub q: Host,
    /// What `q` is rounded from, where the case stores queries as e4m3 with [`Case::q_scale`].
    pub q_stored: Option<Host>,
    /// Keys, with [`kv_shape`](Self::kv_shape) and [`kv_strides`](Self::kv_strides).
    pub k: Host,
    /// Values with [`v_shape`](Self::v_shape) and [`v_strides`](Self::v_strides); the same as `k` if values share the
    /// keys' memory.
    pub v: Host,
    /// The shape of keys: (tokens, kv_heads, head_dim) or (pages, slots, kv_heads, head_dim).
    pub kv_shape: Vec<usize>,
    /// Strides of `k` in elements.
    pub kv_strides: Vec<i64>,
    /// The shape of values.
    pub v_shape: Vec<usize>,
    /// The strides of values.
    pub v_strides: Vec<i64>,
    /// Side data of keys and of values in KV formats that have any; values within keys have none of their own.
    pub sides: [Option<HostTensor>; 2],
    /// The scale of stored queries.
    pub q_scale: HostScale,
    /// The scale of stored keys.
    pub k_scale: HostScale,
    /// The scale of stored values.
    pub v_scale: HostScale,
    /// Slots of pages, or tokens, that nothing may read, and the slots of a page.
    holes: (Vec<usize>, Option<usize>),
    heads: attn::Heads,
    pub(super) head_dim_vo: HeadDimVo,
}

impl Inputs {
    /// Makes the tensors of a case. With `periodic`, values repeat with a long period, which is fast to make and
    /// enough for a benchmark.
    ///
    /// # Errors
    ///
    /// An unknown dtype, or lengths past 31 bits.
    pub fn new(case: &Case, periodic: bool) -> Result<Self, TestError> {
        let dtypes = case.dtypes()?;
        let (heads, dim) = (case.kv_heads as usize, case.head_dim as usize);
        let qo_indptr = indptr(&case.qo_lens.to_vec())?;
        let qo_tokens = qo_indptr.last().copied().unwrap_or(0) as usize;
        let keys = Keys::new(case, &qo_indptr)?;
        let (tokens, holes) = keys.memory(case);
        let (formats, page_size) = (formats_of(case)?, tokens.get(1).copied());
        if case.counting && formats.is_some() {
            let why = "a KV format may not hold the ones of a counting case".to_owned();
            return Err(TestError::Field { field: "kv_dtype", why });
        }
        let dims = KvDims { tokens: &tokens, heads, order: case.page_order };
        let kv = |stream, part: usize, dim: usize| {
            let mut random = Random::new(case.seed, stream);
            let (mut rows, side) = match &formats {
                Some(formats) => encoded_rows(formats.part(part), dim, &dims, &mut random, periodic),
                None => {
                    let (shape, strides) = dims.with_rows_of(dim);
                    let host = self::random(dtypes.kv, shape.iter().product(), 1.0, &mut random, periodic);
                    (HostTensor { host, shape, strides }, None)
                }
            };
            fill_rows(&mut rows, &holes, page_size, 0xff);
            rows.host.pad(TAIL);
            if case.counting && stream == VALUES {
                on_host!(&mut rows.host, data => ones(data), _bytes => {});
            }
            let side = side.map(|mut side| {
                fill_rows(&mut side, &holes, page_size, 0xff);
                side.host.pad(TAIL);
                side
            });
            (rows, side)
        };
        let q_len = qo_tokens * case.qo_heads as usize * dim;
        let q_std = if case.counting { 0.0 } else { case.q_std.unwrap_or(1.0) };
        let of_q = |dtype, std| random(dtype, q_len, std, &mut Random::new(case.seed, 1), periodic);
        let q_stored = dtypes.q.map(|dtype| of_q(dtype, q_std / case.q_scale().times(vec![1.0])[0]));
        let q = match &q_stored {
            None => of_q(dtypes.qo, q_std),
            Some(stored) => {
                let (mut host, read) = (Host::empty(dtypes.qo), case.q_scale().times(stored.to_f32()));
                on_host!(&mut host, data => *data = read.iter().map(|&x| Element::from_f32(x)).collect(), _bytes => {});
                host
            }
        };
        // values in the memory of the keys are keys too
        let (k, k_side) = kv(if case.head_dim_vo.shares_keys() { VALUES } else { 2 }, 0, dim);
        let (v, v_side) = match case.head_dim_vo {
            HeadDimVo::SharedWithKeys(_) => (k.clone(), None),
            values => kv(VALUES, 1, values.dim(case.heads()) as usize),
        };
        let scale = |all, stream| {
            let heads = case.kv_scale_per_head.then_some(case.kv_heads);
            HostScale::new(all, heads, Random::new(case.seed, stream))
        };
        let (k_scale, v_scale) = case.kv_scale.map_or((1.0, 1.0), |scale| (scale, VALUES_PER_KEYS * scale));
        let (k_scale, v_scale) = (scale(k_scale, 4), scale(v_scale, 5));
        let (heads, values) = (case.heads(), case.head_dim_vo);
        Ok(Inputs {
            qo_indptr,
            keys,
            q,
            q_stored,
            k: k.host,
            v: v.host,
            kv_shape: k.shape,
            kv_strides: k.strides,
            v_shape: v.shape,
            v_strides: v.strides,
            sides: [k_side, v_side],
            q_scale: case.q_scale(),
            k_scale,
            v_scale,
            holes: (holes, page_size),
            heads,
            head_dim_vo: values,
        })
    }

    /// Copies queries, keys and values of some requests of other inputs, which have the same lengths but may have
    /// another layout. Not for cascades.
    pub(super) fn take(&mut self, from: &Inputs, requests: &[usize]) -> Result<(), TestError> {
        let (to_layout, layout) = (self.batch(&[]).validate()?, from.batch(&[]).validate()?);
        let row = (self.heads.qo * self.heads.head_dim) as usize;
        for (to, &request) in requests.iter().enumerate() {
            let [to_row, at] = [(&to_layout, to), (&layout, request)].map(|(l, r)| l.qo_indptr()[r] as usize * row);
            self.q.copy_row(to_row, &from.q, at, layout.qo_len(request) * row);
            for key in 0..layout.kv_len(request) {
                for head in 0..self.heads.kv as usize {
                    let offsets = |layout: &Layout, request, strides: &[i64]| {
                        let at = match layout.pages() {
                            None => vec![layout.kv_indptr()[request] as usize + key, head],
                            Some(pages) => {
                                let (page, slot) = pages.locate(request, key);
                                vec![page, slot, head]
                            }
                        };
                        at.iter().zip(strides).map(|(&at, &stride)| at * stride as usize).sum::<usize>()
                    };
                    let [to_k, k] =
                        [offsets(&to_layout, to, &self.kv_strides), offsets(&layout, request, &from.kv_strides)];
                    self.k.copy_row(to_k, &from.k, k, self.kv_shape[self.kv_shape.len() - 1]);
                    let [to_v, v] =
                        [offsets(&to_layout, to, &self.v_strides), offsets(&layout, request, &from.v_strides)];
                    self.v.copy_row(to_v, &from.v, v, self.v_shape[self.v_shape.len() - 1]);
                    for (to_side, side) in self.sides.iter_mut().flatten().zip(from.sides.iter().flatten()) {
                        let [at_to, at] =
                            [offsets(&to_layout, to, &to_side.strides), offsets(&layout, request, &side.strides)];
                        let bytes = side.shape[side.shape.len() - 1];
                        to_side.host.copy_row(at_to, &side.host, at, bytes);
                    }
                }
            }
        }
        self.k_scale.clone_from(&from.k_scale);
        self.v_scale.clone_from(&from.v_scale);
        Ok(())
    }

    /// The attention of a case over these inputs, for the CPU backend.
    pub(super) fn problem<'a>(
        &'a self,
        case: &Case,
        variant: &'a Variant,
        layout: &'a Layout,
        work: &'a WorkList,
    ) -> Result<Problem<'a>, TestError> {
        let heads = case.heads();
        Ok(Problem {
            variant,
            heads,
            head_dim_vo: case.head_dim_vo,
            sm_scale: case.sm_scale.unwrap_or_else(|| heads.default_sm_scale()),
            layout,
            work,
            q: self.q().map_err(Error::from)?,
            kv: self.kv().map_err(Error::from)?,
        })
    }

    /// Replaces NaN with zeros; in KV formats, whatever nothing may read.
    pub(super) fn replace_nan(&mut self) {
        let (holes, page_size) = &self.holes;
        let shapes = [(&mut self.k, &self.kv_shape, &self.kv_strides), (&mut self.v, &self.v_shape, &self.v_strides)];
        for (host, shape, strides) in shapes {
            on_host!(
                host,
                data => data.iter_mut().filter(|x| x.to_f32().is_nan()).for_each(|x| *x = Element::from_f32(0.0)),
                _bytes => fill(host, (shape, strides), holes, *page_size, 0)
            );
        }
        self.sides.iter_mut().flatten().for_each(|side| fill_rows(side, holes, *page_size, 0));
    }

    /// The levels of a cascade, for [`batch`](Self::batch); empty for other layouts.
    #[must_use]
    pub fn levels(&self) -> Vec<CascadeLevel<'_>> {
        self.keys.levels()
    }

    /// The batch; `levels` are those of [`levels`](Self::levels).
    #[must_use]
    pub fn batch<'a>(&'a self, levels: &'a [CascadeLevel<'a>]) -> Batch<'a> {
        self.keys.batch(&self.qo_indptr, levels)
    }

    /// Shape of o: (query tokens, query heads, value_dim).
    #[must_use]
    pub fn o_shape(&self) -> [usize; 3] {
        let [tokens, heads, _] = self.qo_shape();
        [tokens, heads, self.head_dim_vo.dim(self.heads) as usize]
    }

    /// Shape of q: (query tokens, query heads, head_dim).
    #[must_use]
    pub fn qo_shape(&self) -> [usize; 3] {
        let tokens = self.qo_indptr.last().copied().unwrap_or(0) as usize;
        [tokens, self.heads.qo as usize, self.heads.head_dim as usize]
    }

    /// The queries as the case stores them.
    #[must_use]
    pub fn stored_q(&self) -> &Host {
        self.q_stored.as_ref().unwrap_or(&self.q)
    }

    /// The queries, in host memory.
    ///
    /// # Errors
    ///
    /// None for a valid case.
    pub fn q(&self) -> Result<TensorRef<'_>, TensorError> {
        self.q.tensor(&self.qo_shape())
    }

    /// The keys and values, in host memory.
    ///
    /// # Errors
    ///
    /// None for a valid case.
    pub fn kv(&self) -> Result<Kv<'_>, TensorError> {
        let k = self.k.strided(0, &self.kv_shape, &self.kv_strides)?;
        let v = self.v.strided(0, &self.v_shape, &self.v_strides)?;
        let kv = match self.keys.paged() {
            _ if self.head_dim_vo.shares_keys() => Kv::latent(k),
            false => Kv::ragged(k, v),
            true => Kv::paged(k, v),
        };
        let [k_side, v_side] = self.sides.each_ref().map(|side| side.as_ref().map(HostTensor::tensor).transpose());
        let scales = KvScales { k: self.k_scale.scale()?, v: self.v_scale.scale()? };
        Ok(kv.with_scales(scales).with_sides(KvSides::new(k_side?, v_side?)))
    }
}

/// `len` random elements of N(0, std²); 0xff where a type has no numbers.
fn random(dtype: Dtype, len: usize, std: f32, random: &mut Random, periodic: bool) -> Host {
    let mut host = Host::empty(dtype);
    on_host!(&mut host, data => *data = values(len, std, random, periodic), bytes => bytes.resize(len, 0xff));
    host
}

fn values<T: Element>(len: usize, std: f32, random: &mut Random, periodic: bool) -> Vec<T> {
    let fresh = if periodic { len.min(PERIOD) } else { len };
    let mut data = vec![T::from_f32(f32::NAN); len];
    Normal::new(std).fill(&mut data[..fresh], random);
    let mut filled = fresh;
    while filled < len {
        let more = filled.min(len - filled);
        data.copy_within(..more, filled);
        filled += more;
    }
    data
}

/// Replaces all but NaN by 1.
fn ones<T: Element>(data: &mut [T]) {
    data.iter_mut().filter(|x| !x.to_f32().is_nan()).for_each(|x| *x = T::from_f32(1.0));
}

/// [`fill`] of a tensor.
fn fill_rows(tensor: &mut HostTensor, holes: &[usize], page_size: Option<usize>, byte: u8) {
    fill(&mut tensor.host, (&tensor.shape, &tensor.strides), holes, page_size, byte);
}

/// Fills slots of pages, or tokens of ragged keys, with a byte; 0xff is NaN in every type.
fn fill(host: &mut Host, (shape, strides): (&[usize], &[i64]), holes: &[usize], page_size: Option<usize>, byte: u8) {
    let (heads, dim, size) = (shape[shape.len() - 2], shape[shape.len() - 1], host.dtype().size());
    let per_head = strides[strides.len() - 2] as usize;
    for &hole in holes {
        let at = match page_size {
            Some(size) => hole / size * strides[0] as usize + hole % size * strides[1] as usize,
            None => hole * strides[0] as usize,
        };
        for head in 0..heads {
            host.bytes_mut()[(at + head * per_head) * size..][..dim * size].fill(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Inputs;
    use crate::Keys;
    use crate::host::HostScale;
    use crate::{Case, LayoutKind, Lens, Order};

    fn paged(order: Order, page_size: u32) -> Case {
        let mut case = Case::new("full");
        (case.kv_layout, case.page_order, case.page_size) = (LayoutKind::Paged, order, page_size);
        case.kv_lens = Lens::List(vec![7, 0, 5]);
        case.qo_lens = Lens::List(vec![1, 1, 1]);
        case
    }

    #[test]
    fn exactly_the_slots_without_a_key_are_nan() {
        for (order, page_size) in [(Order::Nhd, 5), (Order::Hnd, 5), (Order::Hnd, 1), (Order::Nhd, 16)] {
            let case = paged(order, page_size);
            let inputs = Inputs::new(&case, false).expect("sound");
            let layout = inputs.batch(&[]).validate().expect("sound");
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
    fn unused_fp8_slots_are_nan_and_values_fit_the_type() {
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
