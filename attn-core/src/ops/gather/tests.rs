//! Gathers on the CPU: scales, and what is refused. `append` has tests of both together.

use half::bf16;

use super::*;
use crate::lang::F8E4M3;
use crate::tensor::{Scale, TensorMut, TensorRef};

#[test]
fn stored_elements_are_multiplied_by_their_scales() {
    let pool: Vec<F8E4M3> = (0..3 * 2 * 4).map(|i| F8E4M3::from_f32(i as f32)).collect();
    let pools = KvRef::latent(TensorRef::host(&pool, &[3, 2, 1, 4]).expect("fits"));
    let rows = PageTableRows::Csr { indptr: Array::host(&[0, 2, 2]), pages: Array::host(&[2, 0]) };
    let scales = KvScales { k: Scale::of(0.5), v: Scale::default() };
    let options = Gather { scales, ..Gather::new(Array::host(&[0, 3, 3]), rows) };
    let mut out = [bf16::NAN; 16];
    gather(&pools, &mut KvMut::latent(TensorMut::host(&mut out, &[4, 1, 4]).expect("fits")), &options).expect("sound");
    // keys 0 and 1 in page 2, key 2 in page 0
    let want = (16..24).chain(0..4).map(|i| F8E4M3::from_f32(i as f32).to_f32() * 0.5);
    assert!(out.iter().zip(want).all(|(got, want)| got.to_f32() == want), "{out:?}");
    assert!(out[12..].iter().all(|x| x.is_nan()), "rows past the last are left alone");
}

#[test]
fn out_of_bounds_entries_are_refused() {
    let pool = [0f32; 8];
    let pools = KvRef::latent(TensorRef::host(&pool, &[2, 2, 1, 2]).expect("fits"));
    let mut out = [1f32; 8];
    let mut run = |ends: &[i32], pages: &[i32]| {
        let rows = PageTableRows::Csr { indptr: Array::host(&[0, 2]), pages: Array::host(pages) };
        let mut packed = KvMut::latent(TensorMut::host(&mut out, &[4, 1, 2]).expect("fits"));
        gather(&pools, &mut packed, &Gather::new(Array::host(ends), rows)).map_err(|error| error.to_string())
    };
    for (ends, pages, says) in [
        (&[0, 5][..], &[0, 1][..], "`kv_indptr[1]` is 5"),
        (&[1, 2], &[0, 1], "`kv_indptr[0]` is 1"),
        (&[0, 3], &[0, 2], "`pages[1]` is 2"),
        (&[0, 3], &[0], "`page_indptr[1]` is 2"),
        (&[0], &[0, 1], "`kv_indptr` has 1 entries"),
    ] {
        let error = run(ends, pages).expect_err("outside");
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(run(&[0, 2], &[0, 2]), Ok(()), "a page that holds no key that is asked for is not looked at");
    assert_eq!(out, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
}
