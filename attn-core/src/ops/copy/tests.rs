//! Copies of pages on the CPU, within a pool and between pools.

use super::*;
use crate::tensor::{PageOrder, TensorMut, TensorRef};

/// Elements that encode their index, in pages of (2 slots, 3 heads, 2 values).
fn pool(pages: usize) -> Vec<f32> {
    (0..pages * 12).map(|i| i as f32).collect()
}

#[test]
fn pages_are_copied_in_order_within_a_pool() {
    let (mut k, mut v) = (pool(4), pool(4));
    let (k_pool, v_pool) = (TensorMut::host(&mut k, &[4, 2, 3, 2]), TensorMut::host(&mut v, &[4, 2, 3, 2]));
    let mut pools = KvMut::new(k_pool.expect("fits"), v_pool.expect("fits"));
    within(&mut pools, &Array::host(&[[0, 3], [3, 1]])).expect("sound");
    let first = pool(1);
    assert_eq!((&k[12..24], &k[36..]), (&first[..], &first[..]));
    assert_eq!((&k[..12], &k[24..36], &k), (&first[..], &pool(3)[24..], &v));
}

#[test]
fn layouts_may_differ_between_pools() {
    let (from, mut to) = (pool(2), vec![-1f32; 3 * 12]);
    let source = KvRef::latent(TensorRef::host(&from, &[2, 2, 3, 2]).expect("fits"));
    let target = TensorMut::host(&mut to, &[3, 3, 2, 2]).and_then(|pool| pool.permuted(&[0, 2, 1, 3]));
    between(&source, &mut KvMut::latent(target.expect("fits")), &Array::host(&[[1, 2]])).expect("sound");
    for (slot, head, d) in (0..2).flat_map(|s| (0..3).flat_map(move |h| (0..2).map(move |d| (s, h, d)))) {
        assert_eq!(to[24 + head * 4 + slot * 2 + d], from[12 + slot * 6 + head * 2 + d]);
    }
    assert!(to[..24].iter().all(|&x| x == -1.0));
}

#[test]
fn mismatched_tensors_are_refused() {
    let (from, mut to) = (pool(2), pool(3));
    let source = KvRef::latent(TensorRef::host(&from, &[2, 2, 3, 2]).expect("fits"));
    let mut run = |shape: &[usize], pairs: &[[i32; 2]]| {
        let mut target = KvMut::latent(TensorMut::host(&mut to, shape).expect("fits"));
        between(&source, &mut target, &Array::host(pairs)).expect_err("does not fit").to_string()
    };
    for (shape, pair, says) in [
        (&[3, 2, 3, 2], [2, 0], "`from[0]` is 2; it must be 0 to 1"),
        (&[3, 2, 3, 2], [1, -1], "`to[0]` is -1; it must be 0 to 2"),
        (&[2, 3, 3, 2], [0, 0], "from.k has 2 slots; to.k has 3"),
        (&[3, 3, 2, 2], [0, 0], "3 heads; to.k has 2"),
    ] {
        let error = run(shape, &[pair]);
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(to, pool(3));
    let fused = TensorMut::host(&mut to, &[1, 2, 2, 3, 2]).expect("fits");
    let mut pools = KvMut::fused(fused, PageOrder::Nhd).expect("a fused pool");
    assert!(matches!(within(&mut pools, &Array::host(&[[0, 1]])), Err(OpError::Entry { array: "to", .. })));
}

#[test]
fn pages_of_no_elements_are_skipped() {
    let (mut k, mut v) = (pool(3), [7f32; 2]);
    let k_pool = TensorMut::host(&mut k, &[3, 2, 3, 2]).expect("fits");
    let mut pools = KvMut::new(k_pool, TensorMut::host(&mut v, &[3, 2, 3, 0]).expect("fits"));
    within(&mut pools, &Array::host(&[[0, 2]])).expect("sound");
    let (mut k_to, mut v_to) = (vec![0f32; 36], [7f32; 2]);
    let k_pool = TensorMut::host(&mut k_to, &[3, 2, 3, 2]).expect("fits");
    let mut target = KvMut::new(k_pool, TensorMut::host(&mut v_to, &[3, 2, 3, 0]).expect("fits"));
    between(&pools.as_ref(), &mut target, &Array::host(&[[2, 1]])).expect("sound");
    assert_eq!((&k_to[12..24], &k[24..], v, v_to), (&pool(1)[..], &pool(1)[..], [7.0; 2], [7.0; 2]));
}

#[test]
fn a_status_has_an_entry() {
    let error = check_status(Some(&ArrayMut::host(&mut []))).expect_err("none");
    assert_eq!(error, OpError::Len { array: "status", len: 0, want: 1, exact: false });
    assert_eq!((check_status(None), check_status(Some(&ArrayMut::host(&mut [0, 0])))), (Ok(()), Ok(())));
}
