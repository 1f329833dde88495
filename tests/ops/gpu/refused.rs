//! Entries that are skipped and counted, and memory that is refused.

use attn::ops::*;
use attn::{Dtype, Error, Out, TensorMut, TensorRef};

use crate::gpu::pool::{page_rows, pools};
use crate::gpu::scenario::{Mode, Scenario, gpu};

/// Entries of device arrays outside of the pool write nothing and are counted.
#[test]
fn entries_outside_of_the_pool_are_skipped_and_counted() {
    let Some(gpu) = gpu() else { return };
    let at = Scenario::new(&gpu, Mode::Launched);
    let pool = &pools(64)[0];
    let shape = [4, pool.heads, pool.dim];
    let rows = at.upload(Dtype::F16, &vec![1.0; shape.iter().product()]);
    let (slots, requests, positions) =
        (at.numbers(&[45i64, i64::MAX, -1, 44]), at.numbers(&[0, 3, 1, 0]), at.numbers(&[15, 0, 0, 4]));
    let (indptr, pages) = (at.numbers(&[0, 3, 4, 4]), at.numbers(&[8, 2, 5, 9]));
    for by_slot in [true, false] {
        let mut cache = at.poisoned(Dtype::F16, pool.count());
        let mut status = at.numbers(&[0u32]);
        let slot_mapping = if by_slot {
            SlotMapping::Slots { slots: slots.array(), positions: None }
        } else {
            let rows = page_rows(false, &indptr, &pages);
            SlotMapping::Positions { requests: requests.array(), positions: positions.array(), rows }
        };
        at.run(|stream| {
            let new = KvRef::new(rows.tensor(&shape)?, rows.tensor(&shape)?);
            let append = Append { status: Some(status.array_mut()), ..Append::at(slot_mapping) };
            append_paged(stream, &new, &mut pool.write(&mut cache)?, &append, None)
        });
        let written = at.read(&cache).iter().filter(|x| !x.is_nan()).count();
        assert_eq!(written, 2 * pool.heads * pool.dim, "one token");
        assert_eq!(status.to_vec().expect("read"), [if by_slot { 2 } else { 3 }]);
    }
    // slots are checked even if rows have no values
    for (k_dim, v_dim) in [(0, 64), (64, 0), (0, 0)] {
        let mut status = at.numbers(&[0u32]);
        let [mut k, mut v] = [k_dim, v_dim].map(|dim| at.poisoned(Dtype::F16, 45 * 3 * dim));
        at.run(|stream| {
            let new = KvRef::new(rows.tensor(&[4, 3, k_dim])?, rows.tensor(&[4, 3, v_dim])?);
            let mut pools = KvMut::new(k.tensor_mut(&[9, 5, 3, k_dim])?, v.tensor_mut(&[9, 5, 3, v_dim])?);
            let slot_mapping = SlotMapping::Slots { slots: slots.array(), positions: None };
            let append = Append { status: Some(status.array_mut()), ..Append::at(slot_mapping) };
            append_paged(stream, &new, &mut pools, &append, None)
        });
        assert_eq!(status.to_vec().expect("read"), [2], "{k_dim} and {v_dim}");
    }
    // keys past the capacity of a gather
    for capacity in [4usize, 0] {
        let cache = at.upload(Dtype::F16, &vec![3.0; pool.count()]);
        let [mut k, mut v] = [capacity * 3 * 64; 2].map(|count| at.poisoned(Dtype::F16, count));
        let (ends, indptr, pages) = (at.numbers(&[0, 6, 9]), at.numbers(&[0, 1, 2]), at.numbers(&[8, 0]));
        let mut status = at.numbers(&[0u32]);
        at.run(|stream| {
            let mut packed = KvMut::new(k.tensor_mut(&[capacity, 3, 64])?, v.tensor_mut(&[capacity, 3, 64])?);
            let table = PageTableRows::Csr { indptr: indptr.array(), pages: pages.array() };
            let some = Gather { status: Some(status.array_mut()), ..Gather::new(ends.array(), table) };
            gather(stream, &pool.read(&cache)?, &mut packed, &some)
        });
        assert_eq!(status.to_vec().expect("read"), [9 - capacity as u32]);
        assert!(at.read(&k).iter().chain(&at.read(&v)).all(|&x| x == 3.0), "rows within the capacity are written");
    }
    let mut status = at.numbers(&[0u32]);
    let mut cache = at.upload(Dtype::F16, &vec![3.0; pool.count()]);
    let pairs = at.numbers(&[[0, 9], [-1, 2], [1, 1]]);
    at.run(|stream| copy_pages(stream, &mut pool.write(&mut cache)?, &pairs.array(), Some(&status.array_mut())));
    assert_eq!(status.to_vec().expect("read"), [2]);
    assert!(at.read(&cache).iter().all(|&x| x == 3.0));
}

#[test]
fn host_memory_and_misaligned_elements_are_refused() {
    let Some(gpu) = gpu() else { return };
    let stream = gpu.stream().expect("a stream");
    let data = [0f32; 8];
    let mut out = [0f32; 8];
    let state = StateRef {
        o: TensorRef::host(&data, &[1, 1, 8]).expect("fits"),
        lse: TensorRef::host(&data, &[1, 1]).expect("fits"),
    };
    let o = Out::new(TensorMut::host(&mut out, &[1, 1, 8]).expect("fits"));
    let error = merge_state(&stream, &state, &state, o).expect_err("host memory").to_string();
    assert!(error.contains("is in host memory"), "{error}");
    let buffer = gpu.upload(&[0f32; 16]).expect("memory");
    let ptr = buffer.tensor(&[16]).expect("fits").device_ptr().expect("on the device") + 2;
    // SAFETY: nothing is launched with it.
    let lse = unsafe { TensorMut::device(ptr, Dtype::F32, &[3], &[1]) }.expect("a shape");
    let error = lse_to_base_2(&stream, lse).expect_err("between elements").to_string();
    assert!(error.contains("`lse` is at") && error.contains("multiple of 4"), "{error}");
    let error = packbits(&stream, &Array::host(&[1u8]), BitOrder::Little, &mut ArrayMut::host(&mut [0u8]));
    assert!(matches!(error, Err(Error::Op(OpError::Memory { array: "bools", got: "host", .. }))), "{error:?}");
    prepare(&gpu, &[Op::Copy, Op::Merge(Dtype::Bf16)]).expect("compiles");
}
