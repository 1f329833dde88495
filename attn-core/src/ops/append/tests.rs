//! Appends on the CPU: which slots are written, with which scales, and what is refused.

use half::{bf16, f16};
use proptest::prelude::*;

use super::*;
use crate::lang::{F8E4M3, F8E5M2};
use crate::ops::{Array, Gather, KvSidesMut, PageTableRows, gather};
use crate::tensor::{Element, PageOrder, TensorMut, TensorRef};

const PAGES: usize = 5;
const PAGE: usize = 4;
const HEADS: usize = 2;
const DIM: usize = 6;
const POOL: usize = PAGES * PAGE * HEADS * DIM;

fn values(count: usize, seed: u32) -> Vec<f32> {
    (0..count as u32).map(|i| (crate::random::bits(seed, 0, i, 0) >> 8) as f32 / 4_194_304.0 - 2.0).collect()
}

/// Where element (page, slot, head, d) of a pool is.
fn at(order: PageOrder, page: usize, slot: usize, head: usize, d: usize) -> usize {
    match order {
        PageOrder::Nhd => ((page * PAGE + slot) * HEADS + head) * DIM + d,
        PageOrder::Hnd => ((page * HEADS + head) * PAGE + slot) * DIM + d,
    }
}

fn shape(order: PageOrder) -> [usize; 4] {
    match order {
        PageOrder::Nhd => [PAGES, PAGE, HEADS, DIM],
        PageOrder::Hnd => [PAGES, HEADS, PAGE, DIM],
    }
}

proptest! {
    #[test]
    fn rows_are_written_to_their_slots(slots in prop::collection::vec(-2i64..(PAGES * PAGE) as i64, 0..12), hnd: bool) {
        let order = if hnd { PageOrder::Hnd } else { PageOrder::Nhd };
        let tokens = slots.len();
        let (k, v) = (values(tokens * HEADS * DIM, 1), values(tokens * HEADS * DIM, 2));
        let (mut k_pool, mut v_pool) = (vec![f16::NAN; POOL], vec![f16::NAN; POOL]);
        let (mut k_want, mut v_want) = (k_pool.clone(), v_pool.clone());
        for (token, &slot) in slots.iter().enumerate() {
            for (head, d) in (0..HEADS).flat_map(|head| (0..DIM).map(move |d| (head, d))).filter(|_| slot >= 0) {
                let (from, slot) = ((token * HEADS + head) * DIM + d, slot as usize);
                let to = at(order, slot / PAGE, slot % PAGE, head, d);
                k_want[to] = f16::from_f32(k[from]);
                v_want[to] = f16::from_f32(v[from]);
            }
        }
        let pool = |data| TensorMut::host(data, &shape(order));
        let mut pools = KvMut::paged_in(pool(&mut k_pool)?, pool(&mut v_pool)?, order)?;
        let rows = |data| TensorRef::host(data, &[tokens, HEADS, DIM]);
        let slot_mapping = SlotMapping::Slots { slots: Array::host(&slots), positions: None };
        append(&KvRef::new(rows(&k)?, rows(&v)?), &mut pools, &Append::at(slot_mapping), None)?;
        let bits = |x: &[f16]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!((bits(&k_pool), bits(&v_pool)), (bits(&k_want), bits(&v_want)));
    }

    /// Rows that were appended by positions are read back by a gather: compressed and padded page tables, separate and
    /// fused pools.
    #[test]
    fn appended_rows_are_gathered(lens in prop::array::uniform3(0usize..7), hnd: bool, padded: bool) {
        let order = if hnd { PageOrder::Hnd } else { PageOrder::Nhd };
        let tokens: usize = lens.iter().sum();
        let (indptr, table, max_pages) = if padded {
            (vec![], vec![3, 1, 0, 4, 2, -7], 2)
        } else {
            (vec![0, 2, 3, 5], vec![3, 1, 0, 4, 2], 0)
        };
        let capacity = [8, if padded { 8 } else { 4 }, 8];
        let indptr_array = Array::host(&indptr);
        let rows = match padded {
            true => PageTableRows::Padded { pages: Array::host(&table), max_pages },
            false => PageTableRows::Csr { indptr: indptr_array, pages: Array::host(&table) },
        };
        // the padded table has no second page for the last request
        prop_assume!(lens.iter().zip(capacity).all(|(&len, capacity)| len <= capacity) && (!padded || lens[2] <= PAGE));
        let requests: Vec<i32> = (0..3).flat_map(|r| vec![r; lens[r as usize]]).collect();
        let positions: Vec<i32> = lens.iter().flat_map(|&len| 0..len as i32).collect();
        let (k, v) = (values(tokens * HEADS * DIM, 3), values(tokens * HEADS * DIM, 4));
        let of = |data| TensorRef::host(data, &[tokens, HEADS, DIM]);
        let mut pool = vec![f32::NAN; 2 * POOL];
        let fused = match order {
            PageOrder::Nhd => [PAGES, 2, PAGE, HEADS, DIM],
            PageOrder::Hnd => [PAGES, 2, HEADS, PAGE, DIM],
        };
        let (requests, positions) = (Array::host(&requests), Array::host(&positions));
        let slot_mapping = SlotMapping::Positions { requests, positions, rows };
        let mut pools = KvMut::fused(TensorMut::host(&mut pool, &fused)?, order)?;
        append(&KvRef::new(of(&k)?, of(&v)?), &mut pools, &Append::at(slot_mapping), None)?;
        let ends: Vec<i32> = (0..4).map(|n| lens[..n].iter().sum::<usize>() as i32).collect();
        let (mut k_back, mut v_back) = (vec![f32::NAN; k.len() + 9], vec![f32::NAN; v.len()]);
        let mut back = KvMut::new(
            TensorMut::host(&mut k_back, &[tokens, HEADS, DIM])?,
            TensorMut::host(&mut v_back, &[tokens, HEADS, DIM])?,
        );
        let pools = KvRef::fused(TensorRef::host(&pool, &fused)?, order)?;
        gather::gather(&pools, &mut back, &Gather::new(Array::host(&ends), rows))?;
        prop_assert_eq!((&k_back[..k.len()], v_back), (&k[..], v));
    }
}

#[test]
fn quantised_rows_are_divided_by_their_scales() {
    fn check<T: Element + PartialEq + std::fmt::Debug>() {
        let k = values(2 * HEADS * DIM, 5);
        let (mut k_pool, mut v_pool) = (vec![T::from_f32(0.0); POOL], vec![T::from_f32(0.0); POOL]);
        let rows = TensorRef::host(&k, &[2, HEADS, DIM]).expect("fits");
        let pool = |data| TensorMut::host(data, &[PAGES, PAGE, HEADS, DIM]).expect("fits");
        let heads = [0.003f32, 0.5];
        let scales = KvScales { k: Scale::per_head(TensorRef::host(&heads, &[2]).expect("fits")), v: Scale::of(0.001) };
        let slot_mapping = SlotMapping::Slots { slots: Array::host(&[7, 0]), positions: None };
        let mut pools = KvMut::new(pool(&mut k_pool), pool(&mut v_pool));
        let options = Append { scales, ..Append::at(slot_mapping) };
        append(&KvRef::new(rows, rows), &mut pools, &options, None).expect("sound");
        for (token, slot) in [(0, 7), (1, 0)] {
            for (head, scale) in heads.into_iter().enumerate() {
                for d in 0..DIM {
                    let x = k[(token * HEADS + head) * DIM + d];
                    let to = at(PageOrder::Nhd, slot / PAGE, slot % PAGE, head, d);
                    assert_eq!(k_pool[to], T::from_f32(x * (1.0 / scale)));
                    // most of these saturate
                    assert_eq!(v_pool[to], T::from_f32(x * (1.0 / 0.001)));
                }
            }
        }
    }
    check::<F8E4M3>();
    check::<F8E5M2>();
    check::<bf16>();
}

#[test]
fn a_latent_cache_has_no_values() {
    let (rows, mut pool) = (values(2 * DIM, 6), vec![0.0f32; PAGES * PAGE * DIM]);
    let c = TensorRef::host(&rows, &[2, 1, DIM]).expect("fits");
    let mut pools = KvMut::latent(TensorMut::host(&mut pool, &[PAGES, PAGE, 1, DIM]).expect("fits"));
    let slot_mapping = SlotMapping::Slots { slots: Array::host(&[19, -1]), positions: None };
    append(&KvRef::latent(c), &mut pools, &Append::at(slot_mapping), None).expect("sound");
    let error = append(&KvRef::new(c, c), &mut pools, &Append::at(slot_mapping), None).expect_err("no values there");
    assert_eq!(error, OpError::Values { there: "the new rows", missing: "the pool" });
    let mut side = [0; PAGES * PAGE * 4];
    let v_side = TensorMut::bytes(&mut side, &[PAGES, PAGE, 1, 4]).expect("fits");
    let mut pools = pools.with_sides(KvSidesMut::new(None, v_side));
    let error = append(&KvRef::latent(c), &mut pools, &Append::at(slot_mapping), None).expect_err("no values there");
    assert!(error.to_string().contains("v side"), "{error}");
    assert_eq!((&pool[19 * DIM..], pool[..19 * DIM].iter().all(|&x| x == 0.0)), (&rows[..DIM], true));
}

#[test]
fn out_of_bounds_entries_are_refused_and_nothing_is_written() {
    let rows = values(2 * HEADS * DIM, 7);
    let mut pool = vec![0.5f32; POOL];
    let k = TensorRef::host(&rows, &[2, HEADS, DIM]).expect("fits");
    let mut run = |slot_mapping, scales| {
        let mut pools = KvMut::latent(TensorMut::host(&mut pool, &[PAGES, PAGE, HEADS, DIM]).expect("fits"));
        let options = Append { scales, ..Append::at(slot_mapping) };
        append(&KvRef::latent(k), &mut pools, &options, None).expect_err("bad").to_string()
    };
    let slots = |slots| SlotMapping::Slots { slots: Array::host(slots), positions: None };
    let by_position = |requests, positions, pages| SlotMapping::Positions {
        requests: Array::host(requests),
        positions: Array::host(positions),
        rows: PageTableRows::Csr { indptr: Array::host(&[0, 1, 3]), pages: Array::host(pages) },
    };
    let one = KvScales::default();
    for (slot_mapping, scales, says) in [
        (slots(&[0, 20]), one, "`slots[1]` is 20; it must be 0 to 19"),
        (slots(&[0]), one, "`slots` has 1 entries; 2 are needed"),
        (slots(&[0, 1]), KvScales::of(0.0, 1.0), "a scale must be positive"),
        (by_position(&[0, 2], &[0, 0], &[0, 1, 2]), one, "`requests[1]` is 2"),
        (by_position(&[0, 0], &[0, 4], &[0, 1, 2]), one, "request 0 has 1 pages of 4"),
        (by_position(&[0, 1], &[0, 4], &[0, 1, 5]), one, "`pages[2]` is 5; it must be 0 to 4"),
        (by_position(&[0, 1], &[0, 4], &[0, 1]), one, "`page_indptr[2]` is 3"),
    ] {
        let error = run(slot_mapping, scales);
        assert!(error.contains(says), "{error}");
    }
    assert!(pool.iter().all(|&x| x == 0.5));
}

/// A latent cache as engines pass it: head_dim of values is 0.
#[test]
fn values_of_no_elements_are_skipped() {
    let rows = values(3 * DIM, 8);
    let k = TensorRef::host(&rows, &[3, 1, DIM]).expect("fits");
    let nothing = TensorRef::host::<f32>(&[], &[3, 1, 0]).expect("fits");
    for turned in [false, true] {
        let pair = |k, v| if turned { (v, k) } else { (k, v) };
        let (mut pool, mut none) = (vec![0.5f32; PAGES * PAGE * DIM], [9.0f32; 4]);
        let k_pool = TensorMut::host(&mut pool, &[PAGES, PAGE, 1, DIM]).expect("fits");
        let v_pool = TensorMut::host(&mut none, &[PAGES, PAGE, 1, 0]).expect("fits");
        let (first, second) = if turned { (v_pool, k_pool) } else { (k_pool, v_pool) };
        let mut pools = KvMut::new(first, second);
        let new = pair(k, nothing);
        let slot_mapping = SlotMapping::Slots { slots: Array::host(&[19, -1, 6]), positions: None };
        append(&KvRef::new(new.0, new.1), &mut pools, &Append::at(slot_mapping), None).expect("sound");
        let scaled = Append { scales: KvScales::of(0.5, 0.5), ..Append::at(slot_mapping) };
        append(&KvRef::new(new.0, new.1), &mut pools, &scaled, None).expect("sound");
        let slot_mapping = SlotMapping::Slots { slots: Array::host(&[0, 1, 20]), positions: None };
        let error =
            append(&KvRef::new(new.0, new.1), &mut pools, &Append::at(slot_mapping), None).expect_err("outside");
        assert!(matches!(error, OpError::Entry { array: "slots", index: 2, .. }), "{error}");

        let (mut back, mut none_back) = (vec![0.0f32; 2 * DIM], [9.0f32; 4]);
        let k_back = TensorMut::host(&mut back, &[2, 1, DIM]).expect("fits");
        let v_back = TensorMut::host(&mut none_back, &[2, 1, 0]).expect("fits");
        let mut packed = if turned { KvMut::new(v_back, k_back) } else { KvMut::new(k_back, v_back) };
        let table = PageTableRows::Padded { pages: Array::host(&[4, 1]), max_pages: 2 };
        let last = Gather { scales: KvScales::of(0.5, 0.5), ..Gather::new(Array::host(&[0, 2]), table) };
        gather::gather(&pools.as_ref(), &mut packed, &last).expect("sound");
        assert_eq!((back, none_back, none), (vec![0.25; 2 * DIM], [9.0; 4], [9.0; 4]));
        let halved = |token: usize| rows[token * DIM..][..DIM].iter().map(|x| x * 2.0).collect::<Vec<_>>();
        assert_eq!((&pool[19 * DIM..], &pool[6 * DIM..7 * DIM]), (&halved(0)[..], &halved(2)[..]));
    }
}
