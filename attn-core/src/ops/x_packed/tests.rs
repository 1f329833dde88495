//! Caches packed by x elements: to pages and back.

use half::f16;

use super::*;
use crate::tensor::PageOrder;

const SIZES: Sizes = Sizes { pages: 3, slots: 5, heads: 2, dim_k: 16, dim_v: 12, x: 8 };

#[test]
fn packing_and_unpacking_round_trip() {
    let Sizes { pages, slots, heads, dim_k, dim_v, x } = SIZES;
    let count = |dim| pages * slots * heads * dim;
    let k: Vec<f16> = (0..count(dim_k)).map(|i| f16::from_bits(i as u16)).collect();
    let v: Vec<f16> = (0..count(dim_v)).map(|i| f16::from_bits(i as u16)).collect();
    for order in [PageOrder::Nhd, PageOrder::Hnd] {
        let shape = |dim| if order == PageOrder::Nhd { [pages, slots, heads, dim] } else { [pages, heads, slots, dim] };
        let (mut k_pool, mut v_pool) = (vec![f16::NAN; count(dim_k)], vec![f16::NAN; count(dim_v)]);
        let packed_k = TensorRef::host(&k, &[pages, heads, dim_k / x, slots, x]).expect("fits");
        let packed_v = TensorRef::host(&v, &[pages, heads, dim_v, slots]).expect("fits");
        let pool = |data, dim| TensorMut::host(data, &shape(dim)).expect("fits");
        let mut pools = KvMut::paged_in(pool(&mut k_pool, dim_k), pool(&mut v_pool, dim_v), order).expect("rank 4");
        to_pages(&packed_k, &packed_v, &mut pools).expect("sound");
        // element (page 2, slot 4, head 1, value 11)
        let at = |dim: usize| match order {
            PageOrder::Nhd => ((2 * slots + 4) * heads + 1) * dim + 11,
            PageOrder::Hnd => ((2 * heads + 1) * slots + 4) * dim + 11,
        };
        assert_eq!(k_pool[at(dim_k)], k[((2 * heads + 1) * (dim_k / x) + 1) * slots * x + 4 * x + 3]);
        assert_eq!(v_pool[at(dim_v)], v[((2 * heads + 1) * dim_v + 11) * slots + 4]);

        let (mut k_back, mut v_back) = (vec![f16::NAN; k.len()], vec![f16::NAN; v.len()]);
        let pool = |data, dim| TensorRef::host(data, &shape(dim)).expect("fits");
        let pools = KvRef::paged_in(pool(&k_pool, dim_k), pool(&v_pool, dim_v), order).expect("rank 4");
        let mut to_k = TensorMut::host(&mut k_back, packed_k.shape()).expect("fits");
        let mut to_v = TensorMut::host(&mut v_back, packed_v.shape()).expect("fits");
        from_pages(&pools, &mut to_k, &mut to_v).expect("sound");
        let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!((bits(&k_back), bits(&v_back)), (bits(&k), bits(&v)));
    }
}

#[test]
fn mismatched_shapes_are_refused() {
    let data = [0f32; 64];
    let k = TensorRef::host(&data, &[1, 2, 2, 4, 4]).expect("fits");
    let v = TensorRef::host(&data, &[1, 2, 8, 4]).expect("fits");
    let pool = |shape: &[usize]| TensorRef::host(&data, shape).expect("fits");
    let good = pool(&[1, 4, 2, 8]);
    assert!(check(&k, &v, &KvRef::new(good, good)).is_ok());
    let error = check(&k, &v, &KvRef::new(good, pool(&[1, 4, 2, 4]))).expect_err("values").to_string();
    assert!(error.contains("v pool has 4 values per head"), "{error}");
    let error = check(&k, &v, &KvRef::latent(good)).expect_err("no values");
    assert!(matches!(error, OpError::Values { missing: "the pool", .. }));
}
