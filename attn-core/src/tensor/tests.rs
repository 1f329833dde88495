//! Tensors: extents, strides, views and owners.

use super::*;
use crate::batch::{Batch, Layout, PageTable};
use crate::dtype::{Dtype, Dtypes, DtypesError};
use crate::spec::{HeadDimVo, Heads, HeadsError};
use half::f16;

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 8 };

fn ragged() -> Layout {
    Batch::ragged(&[0, 2, 3], &[0, 5, 6]).validate().expect("sound")
}

#[test]
fn host_extents_are_checked() {
    let data = [0f32; 24];
    assert!(TensorRef::host(&data, &[2, 3, 4]).is_ok());
    assert_eq!(TensorRef::host(&data, &[25]).expect_err("short"), TensorError::Extent { extent: 25, len: 24 });
    let t = TensorRef::host(&data, &[2, 3]).expect("fits");
    assert!(t.with_strides(&[20, 1]).is_ok());
    assert_eq!(t.with_strides(&[22, 1]).expect_err("short"), TensorError::Extent { extent: 25, len: 24 });
    assert!(matches!(t.with_strides(&[-1, 1]), Err(TensorError::Stride { stride: -1, .. })));
    assert!(matches!(t.with_strides(&[1]), Err(TensorError::StrideRank { strides: 1, rank: 2 })));
    assert!(matches!(t.with_strides(&[i64::MAX, i64::MAX]), Err(TensorError::TooLarge { .. })));
    assert!(matches!(TensorRef::host(&data, &[usize::MAX, usize::MAX, 2]), Err(TensorError::TooLarge { .. })));
    assert!(matches!(TensorRef::host(&data, &[]), Err(TensorError::Rank { rank: 0, .. })));
    assert!(matches!(TensorRef::host(&data, &[1; 6]), Err(TensorError::Rank { rank: 6, .. })));
}

#[test]
fn tensors_without_elements_need_no_memory() {
    let t = TensorRef::host::<f32>(&[], &[0, 4, 8]).expect("empty");
    assert_eq!(t.strides(), [32, 8, 1]);
    assert!(t.with_strides(&[1 << 40, 8, 1]).is_ok());
    assert!(t.select(1, 3).is_ok());
}

#[test]
fn a_narrowed_tensor_has_some_indices_of_a_dimension() {
    let data: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let t = TensorRef::host(&data, &[3, 4]).expect("fits");
    let columns = t.narrow(1, 1..3).expect("there");
    assert_eq!((columns.shape(), columns.strides()), (&[3, 2][..], &[4, 1][..]));
    assert_eq!(columns.select(0, 2).expect("a row").as_host::<f32>().map(|row| row[0]), Some(9.0));
    assert_eq!(t.narrow(0, 3..3).expect("empty").shape(), [0, 4]);
    for (dim, range) in [(0, 1..4), (1, 4..5), (2, 0..1)] {
        assert!(matches!(t.narrow(dim, range), Err(TensorError::Narrow { .. })));
    }
    // SAFETY: the pointer is never dereferenced.
    let device = unsafe { TensorRef::device(0x100, Dtype::F16, &[2, 3], &[4, 1]) }.expect("fits");
    assert_eq!(device.narrow(1, 2..3).expect("there").device_ptr(), Some(0x104));
    assert!(device.narrow(1, 2..3).and_then(|column| column.with_strides(&[5, 1])).is_err(), "past the extent");
}

#[test]
fn device_tensors_carry_their_pointer_and_stay_within_their_extent() {
    // SAFETY: the pointer is never dereferenced.
    let t = unsafe { TensorRef::device(0x100, Dtype::F16, &[2, 3], &[4, 1]) }.expect("fits");
    assert_eq!((t.device_ptr(), t.dtype()), (Some(0x100), Dtype::F16));
    assert_eq!(t.select(0, 1).expect("there").device_ptr(), Some(0x108));
    assert_eq!(t.with_strides(&[5, 1]).expect_err("past"), TensorError::Extent { extent: 8, len: 7 });
    assert_eq!(t.as_host::<f16>(), None);
}

/// A buffer of a device.
#[derive(Debug)]
struct BufferOf(u32);

impl DeviceMemory for BufferOf {
    fn device(&self) -> u32 {
        self.0
    }
}

#[test]
fn views_of_a_tensor_keep_its_owner() {
    let owner = BufferOf(3);
    // SAFETY: the pointer is never dereferenced.
    let tensor = unsafe { TensorRef::device(0x100, Dtype::F16, &[2, 3], &[3, 1]) }.expect("a shape");
    assert!(tensor.owner().is_none());
    let tensor = tensor.owned_by(&owner);
    let views = [tensor.with_strides(&[0, 1]), tensor.permuted(&[1, 0]), tensor.select(0, 1)];
    for view in views {
        assert_eq!(view.expect("a view").owner().map(DeviceMemory::device), Some(3));
    }
    assert!(format!("{tensor:?}").contains("device 3 at 0x100"), "{tensor:?}");
    // SAFETY: as above.
    let written = unsafe { TensorMut::device(0x100, Dtype::F16, &[2, 3], &[3, 1]) }.expect("a shape");
    let mut written = written.owned_by(&owner);
    assert_eq!(written.as_ref().owner().map(DeviceMemory::device), Some(3));
    assert_eq!(written.reborrow().select(0, 1).expect("a row").owner().map(DeviceMemory::device), Some(3));
    let data = [0f32; 6];
    assert!(TensorRef::host(&data, &[6]).expect("fits").owned_by(&owner).owner().is_none(), "on the host");
}

#[test]
fn the_first_owner_stays() {
    let (first, second) = (BufferOf(3), BufferOf(4));
    let device = |owner: Option<&dyn DeviceMemory>| owner.map(DeviceMemory::device);
    // SAFETY: the pointers are never dereferenced.
    let (read, written, array) = unsafe {
        let read = TensorRef::device(0x100, Dtype::F16, &[2], &[1]).expect("a shape");
        let written = TensorMut::device(0x100, Dtype::F16, &[2], &[1]).expect("a shape");
        (read, written, crate::ops::Array::<i32>::device(0x100, 2))
    };
    assert_eq!(device(read.owned_by(&first).owned_by(&second).owner()), Some(3));
    assert_eq!(device(written.owned_by(&first).owned_by(&second).owner()), Some(3));
    assert_eq!(device(array.owned_by(&first).owned_by(&second).owner()), Some(3));
}

#[test]
fn a_device_slice_holds_its_shape() {
    // SAFETY: it is never read.
    let slice = |len, shape: &[usize]| unsafe { TensorRef::device_slice(0x100, Dtype::F32, len, shape) };
    assert_eq!(slice(24, &[2, 3, 4]).expect("fits").strides(), [12, 4, 1]);
    assert_eq!(slice(0, &[0, 3]).expect("an empty shape fits anywhere").strides(), [3, 1]);
    assert!(matches!(slice(23, &[2, 3, 4]), Err(TensorError::Extent { extent: 24, len: 23 })));
    assert!(matches!(slice(4, &[usize::MAX, 2]), Err(TensorError::TooLarge { .. })));
}

#[test]
fn strides_of_device_tensors_reach_promised_elements_only() {
    let device = |shape: &[usize], strides: &[i64]| {
        // SAFETY: the pointer is never dereferenced.
        unsafe { TensorRef::device(0x100, Dtype::F16, shape, strides) }.expect("a shape")
    };
    let gaps = device(&[2, 3], &[10, 1]);
    let error = gaps.with_strides(&[5, 1]).expect_err("offsets 5 to 7 are in a gap");
    assert_eq!(error, TensorError::Gaps { shape: vec![2, 3], strides: vec![5, 1], own: vec![10, 1] });
    assert!(error.to_string().contains("TensorRef::device"), "{error}");
    assert!(gaps.with_strides(&[10, 0]).is_ok() && gaps.with_strides(&[0, 1]).is_ok(), "rows and columns repeat");
    let broadcast = gaps.with_strides(&[0, 1]).expect("its own row");
    assert!(matches!(broadcast.with_strides(&[1, 1]), Err(TensorError::Extent { extent: 4, len: 3 })));
    assert!(gaps.select(0, 1).and_then(|row| row.with_strides(&[1])).is_ok());
    assert!(matches!(gaps.select(1, 0).and_then(|column| column.with_strides(&[3])), Err(TensorError::Gaps { .. })));
    let dense = device(&[2, 3], &[3, 1]);
    assert!(dense.with_strides(&[1, 2]).is_ok() && dense.with_strides(&[2, 1]).is_ok(), "no gaps");
    assert!(device(&[0, 3], &[9, 1]).with_strides(&[4, 2]).is_ok(), "no elements");
    assert!(device(&[1, 3], &[9, 1]).with_strides(&[4, 1]).is_ok(), "the stride of one row is not used");
    // SAFETY: as above.
    let written = unsafe { TensorMut::device(0x100, Dtype::F16, &[2, 3], &[10, 1]) }.expect("a shape");
    assert!(matches!(written.with_strides(&[5, 1]), Err(TensorError::Gaps { .. })));
}

/// Every stride pair within the extents of small tensors: what is accepted reaches no other element.
#[test]
fn accepted_strides_are_subsets() {
    let offsets = |rows: usize, cols: usize, [row, col]: [i64; 2]| {
        (0..rows as i64).flat_map(move |i| (0..cols as i64).map(move |j| i * row + j * col))
    };
    let mut accepted = 0;
    for (rows, cols) in [(1, 3), (2, 3), (3, 2), (2, 2)] {
        for own in (0..49).map(|code| [code / 7, code % 7]) {
            // SAFETY: the pointer is never dereferenced.
            let tensor = unsafe { TensorRef::device(0x100, Dtype::F16, &[rows, cols], &own) }.expect("a shape");
            for other in (0..49).map(|code| [code / 7, code % 7]) {
                let promised: Vec<i64> = offsets(rows, cols, own).collect();
                if tensor.with_strides(&other).is_ok() {
                    accepted += 1;
                    assert!(offsets(rows, cols, other).all(|at| promised.contains(&at)), "{own:?} as {other:?}");
                }
            }
        }
    }
    assert!(accepted > 4 * 49, "{accepted}");
}

#[test]
fn a_fused_pool_is_two_pools() {
    let data: Vec<f32> = (0..3 * 2 * 2 * 4 * 8).map(|i| i as f32).collect(); // (pages, 2, heads, slots, dim)
    let pool = TensorRef::host(&data, &[3, 2, 2, 4, 8]).expect("fits");
    let kv = Kv::paged_fused(pool, PageOrder::Hnd).expect("fused");
    for t in [&kv.k, &kv.v] {
        assert_eq!((t.shape(), t.strides()), (&[3, 4, 2, 8][..], &[128, 8, 32, 1][..]));
    }
    assert_eq!(kv.k.as_host::<f32>().expect("host")[0], 0.0);
    assert_eq!(kv.v.as_host::<f32>().expect("host")[0], 64.0);
    assert!(matches!(
        Kv::paged_fused(TensorRef::host(&data, &[2, 3, 2, 4, 8]).expect("fits"), PageOrder::Nhd),
        Err(TensorError::Shape { got: 3, want: 2, .. })
    ));
    assert!(matches!(Kv::paged_fused(kv.k, PageOrder::Nhd), Err(TensorError::Rank { rank: 4, .. })));
    assert_eq!("HND".parse(), Ok(PageOrder::Hnd));
    assert!("XYZ".parse::<PageOrder>().is_err());
}

#[test]
fn orders_must_be_permutations() {
    let t = TensorRef::host(&[0f32; 6], &[1, 2, 3]).expect("fits");
    assert_eq!(t.permuted(&[2, 0, 1]).expect("order").shape(), [3, 1, 2]);
    for order in [&[0, 0, 1][..], &[0, 1], &[0, 1, 3]] {
        assert!(matches!(t.permuted(order), Err(TensorError::Order { .. })));
    }
}

/// A valid run with one change.
fn run_with(change: impl FnOnce(&mut Shapes)) -> Result<(), TensorError> {
    let mut s = Shapes::default();
    change(&mut s);
    let data = vec![0f32; 4096];
    let (mut o, mut lse) = (data.clone(), data.clone());
    let read = |shape: &[usize]| TensorRef::host(&data, shape).expect("fits");
    let mut kv = Kv::ragged(read(&s.k), read(&s.v));
    if let Some(strides) = &s.k_strides {
        kv.k = kv.k.with_strides(strides)?;
    }
    let mut o = TensorMut::host(&mut o, &s.o)?;
    if let Some(strides) = &s.o_strides {
        o = o.with_strides(strides)?;
    }
    let out = Out::with_lse(o, TensorMut::host(&mut lse, &s.lse)?);
    check_run(&s.layout, s.tokens, s.heads, s.head_dim_vo, s.dtypes, &read(&s.q), &kv, &out)
}

struct Shapes {
    layout: Layout,
    tokens: Tokens,
    heads: Heads,
    head_dim_vo: HeadDimVo,
    dtypes: Dtypes,
    q: Vec<usize>,
    k: Vec<usize>,
    v: Vec<usize>,
    o: Vec<usize>,
    lse: Vec<usize>,
    k_strides: Option<Vec<i64>>,
    o_strides: Option<Vec<i64>>,
}

impl Default for Shapes {
    fn default() -> Self {
        Shapes {
            layout: ragged(),
            tokens: Tokens::Exactly,
            heads: HEADS,
            head_dim_vo: HeadDimVo::Same,
            dtypes: Dtypes::f32(),
            q: vec![3, 4, 8],
            k: vec![6, 2, 8],
            v: vec![6, 2, 8],
            o: vec![3, 4, 8],
            lse: vec![3, 4],
            k_strides: None,
            o_strides: None,
        }
    }
}

#[test]
fn a_run_that_fits_passes() {
    assert_eq!(run_with(|_| ()), Ok(()));
    let more = |s: &mut Shapes| (s.q[0], s.k[0], s.v[0], s.o[0], s.lse[0]) = (5, 7, 8, 4, 9);
    let under_a_capacity = |s: &mut Shapes| {
        more(s);
        s.tokens = Tokens::AtLeast;
    };
    assert_eq!(run_with(under_a_capacity), Ok(()), "more tokens than the batch uses");
    assert_eq!(run_with(|s| s.k_strides = Some(vec![0, 8, 1])), Ok(()), "reads may overlap");
    assert_eq!(run_with(|s| s.o_strides = Some(vec![8, 24, 1])), Ok(()), "heads outermost");
}

/// Without a capacity a tensor of other tokens is one of another batch: rows past the batch would be left as they are.
#[test]
fn without_a_capacity_tensors_have_the_tokens_of_the_batch() {
    let too_many = |tensor, got, want| Err(TensorError::Tokens { tensor, got, want });
    assert_eq!(run_with(|s| s.q[0] = 5), too_many("q", 5, 3));
    assert_eq!(run_with(|s| s.k[0] = 7), too_many("k", 7, 6));
    assert_eq!(run_with(|s| s.v[0] = 9), too_many("v", 9, 6));
    assert_eq!(run_with(|s| s.o[0] = 4), too_many("o", 4, 3));
    assert_eq!(run_with(|s| s.lse[0] = 5), too_many("lse", 5, 3));
    assert_eq!(run_with(|s| s.q[0] = 2), too_many("q", 2, 3));
    assert_eq!(run_with(|s| s.k[0] = 5), too_many("k", 5, 6));
}

/// Tensors in one piece of memory, as callers of other languages pass them.
#[test]
fn outputs_share_no_memory_with_other_tensors() {
    let (layout, mut memory) = (ragged(), vec![0f32; 4096]);
    let at = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: 4096 elements, none of which is read or written.
    let tensor_at = |first: usize, shape: &[usize]| unsafe {
        let strides: Vec<i64> = (0..shape.len()).map(|i| shape[i + 1..].iter().product::<usize>() as i64).collect();
        TensorMut::host_raw(at.add(4 * first), Dtype::F32, shape, &strides).expect("it fits")
    };
    // q of 96 elements, k and v of 96, o of 96, lse of 12
    let run = |q: usize, k: usize, v: usize, o: usize, lse: usize| {
        let [q, k, v] = [(q, [3, 4, 8]), (k, [6, 2, 8]), (v, [6, 2, 8])].map(|(first, shape)| tensor_at(first, &shape));
        let out = Out::with_lse(tensor_at(o, &[3, 4, 8]), tensor_at(lse, &[3, 4]));
        let kv = Kv::ragged(k.as_ref(), v.as_ref());
        check_run(&layout, Tokens::Exactly, HEADS, HeadDimVo::Same, Dtypes::f32(), &q.as_ref(), &kv, &out)
    };
    let shared = |tensor, other| Err(TensorError::Shared { tensor, other });
    assert_eq!(run(0, 96, 192, 288, 384), Ok(()));
    assert_eq!(run(0, 0, 0, 288, 384), Ok(()), "inputs may share memory");
    assert_eq!(run(0, 96, 192, 0, 384), shared("o", "q"));
    assert_eq!(run(0, 96, 192, 96, 384), shared("o", "k"));
    assert_eq!(run(0, 96, 192, 287, 384), shared("o", "v"), "one element");
    assert_eq!(run(0, 96, 192, 288, 383), shared("o", "lse"));
    assert_eq!(run(0, 96, 192, 288, 90), shared("lse", "q"));
}

#[test]
fn values_may_have_another_head_dim() {
    let wider = |s: &mut Shapes| (s.head_dim_vo, s.v[2], s.o[2]) = (HeadDimVo::Dim(12), 12, 12);
    assert_eq!(run_with(wider), Ok(()));
    let dim = |tensor, got, want| Err(TensorError::Shape { tensor, dim: "values per head", got, want, exact: true });
    assert_eq!(run_with(|s| (s.head_dim_vo, s.o[2]) = (HeadDimVo::Dim(12), 12)), dim("v", 8, 12));
    assert_eq!(run_with(|s| (s.head_dim_vo, s.v[2]) = (HeadDimVo::Dim(12), 12)), dim("o", 8, 12));
    let none = run_with(|s| s.head_dim_vo = HeadDimVo::Dim(0));
    assert_eq!(none, Err(HeadsError::Count { what: "value_dim", value: 0 }.into()));
}

#[test]
fn values_shared_with_keys_are_in_the_tensor_of_keys() {
    // `run_with` reads k and v from the same memory
    assert_eq!(run_with(|s| (s.head_dim_vo, s.o[2]) = (HeadDimVo::SharedWithKeys(4), 4)), Ok(()));
    let other =
        |s: &mut Shapes| (s.head_dim_vo, s.o[2], s.k_strides) = (HeadDimVo::SharedWithKeys(4), 4, Some(vec![32, 8, 1]));
    assert_eq!(run_with(other), Err(TensorError::NotTheKeys));
    let long = run_with(|s| (s.head_dim_vo, s.o[2]) = (HeadDimVo::SharedWithKeys(9), 9));
    assert_eq!(long, Err(HeadsError::ValuesExceedKeys { values: 9, head_dim: 8 }.into()));
    for (text, values) in
        [("same", HeadDimVo::Same), ("128", HeadDimVo::Dim(128)), ("keys:512", HeadDimVo::SharedWithKeys(512))]
    {
        assert_eq!((text.parse(), values.to_string()), (Ok(values), text.to_owned()));
    }
    assert!("keys:".parse::<HeadDimVo>().is_err());
}

#[test]
fn each_mismatch_is_named() {
    let shape = |tensor, dim, got, want, exact| Err(TensorError::Shape { tensor, dim, got, want, exact });
    assert_eq!(run_with(|s| (s.tokens, s.q[0]) = (Tokens::AtLeast, 2)), shape("q", "tokens", 2, 3, false));
    assert_eq!(run_with(|s| (s.tokens, s.k[0]) = (Tokens::AtLeast, 5)), shape("k", "tokens", 5, 6, false));
    assert_eq!(run_with(|s| s.o[1] = 2), shape("o", "heads", 2, 4, true));
    assert_eq!(run_with(|s| s.v[1] = 4), shape("v", "heads", 4, 2, true));
    assert_eq!(run_with(|s| s.v[2] = 16), shape("v", "values per head", 16, 8, true));
    assert_eq!(run_with(|s| s.lse[1] = 2), shape("lse", "heads", 2, 4, true));
    assert!(matches!(run_with(|s| s.lse.push(1)), Err(TensorError::Rank { tensor: "lse", rank: 3, .. })));
    assert!(matches!(run_with(|s| s.q.push(1)), Err(TensorError::Rank { tensor: "q", rank: 4, .. })));
    let bf16 = run_with(|s| s.dtypes = Dtypes::bf16());
    assert_eq!(bf16, Err(TensorError::Dtype { tensor: "q", got: Dtype::F32, want: Dtype::Bf16 }));
    let gap = run_with(|s| s.k_strides = Some(vec![64, 32, 2]));
    assert_eq!(gap, Err(TensorError::Stride { tensor: "k", dim: 2, stride: 2, want: "1" }));
    for strides in [[0, 8, 1], [32, 7, 1], [31, 8, 1]] {
        let overlap = run_with(|s| s.o_strides = Some(strides.to_vec()));
        assert!(matches!(overlap, Err(TensorError::Overlap { tensor: "o", .. })), "{strides:?}");
    }
    let heads = run_with(|s| s.heads.kv = 3);
    assert_eq!(heads, Err(HeadsError::Group { qo: 4, kv: 3 }.into()));
    assert!(matches!(run_with(|s| s.heads.kv = 0), Err(TensorError::Heads(HeadsError::Count { value: 0, .. }))));
    let long = run_with(|s| {
        s.layout = Batch::ragged(&[0, 1 << 29], &[0, 0]).validate().expect("sound");
        s.heads.kv = 1;
    });
    assert_eq!(long, Err(TensorError::TooManyRows { qo_len: 1 << 29, group: 4 }));
}

#[test]
fn queries_of_eight_bits_are_refused() {
    let error = run_with(|s| s.dtypes = Dtypes::new(Dtype::E4m3, Dtype::F32));
    assert_eq!(error, Err(DtypesError::Qo { qo: Dtype::E4m3 }.into()));
}

#[test]
fn scales_are_checked() {
    let (layout, data) = (ragged(), vec![0f32; 4096]);
    let run = |scales| {
        let mut o = vec![0f32; 96];
        let kv = TensorRef::host(&data, &[6, 2, 8]).expect("fits");
        let out = Out::new(TensorMut::host(&mut o, &[3, 4, 8]).expect("fits"));
        let q = TensorRef::host(&data, &[3, 4, 8]).expect("fits");
        check_run(
            &layout,
            Tokens::Exactly,
            HEADS,
            HeadDimVo::Same,
            Dtypes::f32(),
            &q,
            &Kv::ragged(kv, kv).with_scales(scales),
            &out,
        )
    };
    let heads = [0.5f32, 2.0, 0.0, f32::NAN];
    let of = |n| TensorRef::host(&heads, &[n]).expect("fits");
    assert_eq!(run(KvScales { k: Scale::per_head(of(2)), v: Scale { all: 0.1, heads: Some(of(2)) } }), Ok(()));
    for value in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let error = run(KvScales::of(value, 1.0)).expect_err("no scale");
        assert!(matches!(error, TensorError::Scale { tensor: "k_scale", .. }), "{error}");
        assert!(error.to_string().contains(&format!("{value}; a scale must be positive and finite")), "{error}");
        let error = run(KvScales::of(1.0, value)).expect_err("no scale");
        assert!(matches!(error, TensorError::Scale { tensor: "v_scale", .. }), "{error}");
    }
    let keys = |t| run(KvScales { k: Scale::per_head(t), v: Scale::default() });
    let values = |t| run(KvScales { k: Scale::default(), v: Scale::per_head(t) });
    let shape = |tensor, got| Err(TensorError::Shape { tensor, dim: "heads", got, want: 2, exact: true });
    assert_eq!(keys(of(3)), shape("k_scales", 3));
    assert_eq!(values(of(1)), shape("v_scales", 1));
    let tail = TensorRef::host(&heads[1..], &[2]).expect("fits");
    assert_eq!(keys(tail), Err(TensorError::Scale { tensor: "k_scales", value: 0.0 }));
    assert!(matches!(values(TensorRef::host(&heads, &[1, 2]).expect("fits")), Err(TensorError::Rank { rank: 2, .. })));
    let apart = of(2).with_strides(&[2]).expect("fits");
    assert_eq!(keys(apart), Err(TensorError::Stride { tensor: "k_scales", dim: 0, stride: 2, want: "1" }));
    let half = [f16::ONE; 2];
    let half = TensorRef::host(&half, &[2]).expect("fits");
    assert_eq!(values(half), Err(TensorError::Dtype { tensor: "v_scales", got: Dtype::F16, want: Dtype::F32 }));
    // SAFETY: the pointer is never dereferenced.
    let device = unsafe { TensorRef::device(0x100, Dtype::F32, &[2], &[1]) }.expect("a shape");
    assert_eq!(keys(device), Ok(()), "values on a device are not seen");
    let one = TensorRef::host(&heads, &[1]).expect("fits").with_strides(&[9]).expect("one element");
    assert!(matches!(keys(one), Err(TensorError::Shape { .. })));
}

#[test]
fn pools_must_hold_every_page_and_slot() {
    let table = PageTable { indptr: &[0, 1], indices: &[3], last_page_len: &[2], page_size: 4, num_pages: 9 };
    let layout = Batch::paged(&[0, 1], &table).validate().expect("sound");
    let data = [0f32; 4096];
    let run = |shape: &[usize]| {
        let (mut o, pool) = ([0f32; 32], TensorRef::host(&data, shape).expect("fits"));
        let q = TensorRef::host(&data, &[1, 4, 8]).expect("fits");
        let out = Out::new(TensorMut::host(&mut o, &[1, 4, 8]).expect("fits"));
        check_run(&layout, Tokens::Exactly, HEADS, HeadDimVo::Same, Dtypes::f32(), &q, &Kv::paged(pool, pool), &out)
    };
    assert_eq!(run(&[4, 4, 2, 8]), Ok(()));
    let shape = |dim, got, want, exact| Err(TensorError::Shape { tensor: "k", dim, got, want, exact });
    assert_eq!(run(&[3, 4, 2, 8]), shape("pages", 3, 4, false));
    assert_eq!(run(&[4, 5, 2, 8]), shape("slots", 5, 4, true));
    assert!(matches!(run(&[16, 2, 8]), Err(TensorError::Rank { tensor: "k", rank: 3, .. })));
}
