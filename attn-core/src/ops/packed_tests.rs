//! Ops over keys and values in KV formats.

use half::f16;

use super::append::{Transform, append};
use super::gather::{gather, gather_with};
use super::{Append, Array, Gather, KvMut, KvRef, KvSidesMut, OpError, PageTableRows, SlotMapping, copy, x_packed};
use crate::lang::kv_format::KvFormats;
use crate::lang::kv_format::samples::{Channels, Int8};
use crate::lang::{AttentionVariant, F8E4M3, KvIndex, Row, Tensor2};
use crate::spec::{HeadDimVo, Heads};
use crate::tensor::{KvScales, KvSides, PageOrder, Scale, TensorError, TensorMut, TensorRef};
use crate::{Variant, VariantParams, attention_variant};

const PAGES: usize = 3;
const SLOTS: usize = 4;
const ROWS: usize = PAGES * SLOTS * 2;
const HEADS: Heads = Heads { qo: 2, kv: 2, head_dim: 16 };
/// Codes and side data of keys (int8, 16 elements) and of values (channels, 8 elements).
const BYTES: [[usize; 2]; 2] = [[16, 4], [16, 0]];
/// The slots of the rows that a test appends.
const WRITTEN: [usize; 3] = [2, 9, 7];

/// Keys plus their position.
#[derive(Clone, VariantParams)]
struct Shifted;

#[attention_variant]
impl AttentionVariant for Shifted {
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        k.map(|_, x| x + at.kv_pos as f32);
    }
}

fn values(count: usize, seed: u32) -> Vec<f32> {
    (0..count as u32).map(|i| (crate::random::bits(seed, 0, i, 0) >> 8) as f32 / 4_194_304.0 - 2.0).collect()
}

fn formats() -> KvFormats {
    let steps = (0..16).map(|i| 0.02 + i as f32 * 1e-3).collect();
    KvFormats::new(Int8, Channels { pad: 8, scales: Tensor2::new(steps, [2, 8]).expect("a table") })
}

fn transform(hooks: bool) -> Transform {
    let variant = if hooks { Variant::from(Shifted) } else { Variant::full() };
    Transform::with_values(&variant.with_kv_formats(formats()), HEADS, HeadDimVo::Dim(8)).expect("binds")
}

/// The planes of a cache: codes of keys, codes of values, side data of keys.
struct Pools([Vec<u8>; 3], PageOrder);

impl Pools {
    fn new(order: PageOrder) -> Self {
        Pools([16, 16, 4].map(|bytes| vec![0xff; ROWS * bytes]), order)
    }
    fn shape(&self, bytes: usize) -> [usize; 4] {
        match self.1 {
            PageOrder::Nhd => [PAGES, SLOTS, 2, bytes],
            PageOrder::Hnd => [PAGES, 2, SLOTS, bytes],
        }
    }
    fn get(&self) -> Result<KvRef<'_>, OpError> {
        let [k, v, side] = [(0, 16), (1, 16), (2, 4)]
            .map(|(plane, bytes): (usize, usize)| TensorRef::bytes(&self.0[plane], &self.shape(bytes)));
        Ok(KvRef::paged_in(k?, v?, self.1)?.with_sides(KvSides::paged_in(Some(side?), None, self.1)?))
    }
    fn get_mut(&mut self) -> Result<KvMut<'_>, OpError> {
        let shapes = [self.shape(16), self.shape(4)];
        let order = self.1;
        let [k, v, side] = &mut self.0;
        let (k, v) = (TensorMut::bytes(k, &shapes[0])?, TensorMut::bytes(v, &shapes[0])?);
        let side = KvSidesMut::paged_in(Some(TensorMut::bytes(side, &shapes[1])?), None, order)?;
        Ok(KvMut::paged_in(k, v, order)?.with_sides(side))
    }
    /// Where the row of a slot and a head is.
    fn row(&self, slot: usize, head: usize) -> usize {
        match self.1 {
            PageOrder::Nhd => slot * 2 + head,
            PageOrder::Hnd => (slot / SLOTS * 2 + head) * SLOTS + slot % SLOTS,
        }
    }
}

#[test]
fn appended_rows_are_encoded_and_gathered_ones_decoded() -> Result<(), OpError> {
    let (slots, positions) = ([9i64, -1, 2, 7], [40i32, 0, 1, 6]);
    let (k, v) = (values(4 * 2 * 16, 1), values(4 * 2 * 8, 2));
    let k: Vec<f16> = k.into_iter().map(f16::from_f32).collect();
    let v: Vec<f16> = v.into_iter().map(f16::from_f32).collect();
    let heads = [0.5f32, 0.25];
    let scales = KvScales { k: Scale::of(0.3), v: Scale::per_head(TensorRef::host(&heads, &[2])?) };
    for (order, hooks) in [(PageOrder::Nhd, false), (PageOrder::Hnd, true)] {
        let (mut pools, mut want) = (Pools::new(order), Pools::new(order));
        let rows = KvRef::new(TensorRef::host(&k, &[4, 2, 16])?, TensorRef::host(&v, &[4, 2, 8])?);
        let positions = hooks.then_some(Array::host(&positions));
        let at = SlotMapping::Slots { slots: Array::host(&slots), positions };
        let transform = transform(hooks);
        append(&rows, &mut pools.get_mut()?, &Append { scales, ..Append::at(at) }, Some(&transform))?;
        let formats = transform.formats().expect("formats");
        let mut decoded = [vec![f32::NAN; 3 * 2 * 16], vec![f32::NAN; 3 * 2 * 8]];
        for (token, &slot) in slots.iter().enumerate().filter(|(_, slot)| **slot >= 0) {
            for head in 0..2 {
                for (part, dim) in [16, 8].into_iter().enumerate() {
                    let from = if part == 0 { &k } else { &v };
                    let row = from[(token * 2 + head) * dim..][..dim].iter().map(|x| x.to_f32());
                    let moved = if hooks && part == 0 { [40, 0, 1, 6][token] as f32 } else { 0.0 };
                    let scale = if part == 0 { 0.3 } else { heads[head] };
                    let row: Vec<f32> = row.map(|x| (x + moved) * (1.0 / scale)).collect();
                    let ([codes, side], at) = (BYTES[part], want.row(slot as usize, head));
                    let (mut row_codes, mut row_side) = (vec![0xff; codes], vec![0; side]);
                    formats.part(part).encode_row(&row, &mut row_codes, &mut row_side, head as i32);
                    want.0[part][at * codes..][..codes].copy_from_slice(&row_codes);
                    if part == 0 {
                        want.0[2][at * side..][..side].copy_from_slice(&row_side);
                    }
                    let mut back = vec![0.0; dim];
                    formats.part(part).decode_row(&row_codes, &row_side, head as i32, &mut back);
                    let position = WRITTEN.iter().position(|&s| s == slot as usize).expect("one of them");
                    let to = &mut decoded[part][(position * 2 + head) * dim..][..dim];
                    to.iter_mut().zip(back).for_each(|(to, x)| *to = x * scale);
                }
            }
        }
        assert_eq!(pools.0, want.0, "{order} hooks {hooks}");

        let (mut k_out, mut v_out) = (vec![0f32; 3 * 2 * 16], vec![0f32; 3 * 2 * 8]);
        // every page is gathered, and the rows that were written compared
        let mut whole = [vec![0f32; ROWS * 16], vec![0f32; ROWS * 8]];
        let [k_all, v_all] = &mut whole;
        let mut packed = KvMut::new(
            TensorMut::host(k_all, &[PAGES * SLOTS, 2, 16])?,
            TensorMut::host(v_all, &[PAGES * SLOTS, 2, 8])?,
        );
        let rows = PageTableRows::Padded { pages: Array::host(&[0, 1, 2]), max_pages: 3 };
        let ends = [0, (PAGES * SLOTS) as i32];
        let gather = Gather { scales, ..Gather::new(Array::host(&ends), rows) };
        gather_with(&pools.get()?, &mut packed, &gather, Some(&transform))?;
        for (position, slot) in WRITTEN.into_iter().enumerate() {
            k_out[position * 32..][..32].copy_from_slice(&whole[0][slot * 32..][..32]);
            v_out[position * 16..][..16].copy_from_slice(&whole[1][slot * 16..][..16]);
        }
        assert_eq!([k_out, v_out], decoded, "{order} hooks {hooks}");
    }
    Ok(())
}

#[test]
fn stored_rows_are_copied_with_their_side_data() -> Result<(), OpError> {
    let bytes = |count: usize, from: u8| (0..count).map(|i| from.wrapping_add(i as u8)).collect::<Vec<_>>();
    let (k, v, side) = (bytes(2 * 2 * 16, 1), bytes(2 * 2 * 16, 90), bytes(2 * 2 * 4, 3));
    for order in [PageOrder::Nhd, PageOrder::Hnd] {
        let mut pools = Pools::new(order);
        let rows = KvRef::new(TensorRef::bytes(&k, &[2, 2, 16])?, TensorRef::bytes(&v, &[2, 2, 16])?)
            .with_sides(KvSides::new(TensorRef::bytes(&side, &[2, 2, 4])?, None));
        let at = SlotMapping::Slots { slots: Array::host(&[5, 8]), positions: None };
        append(&rows, &mut pools.get_mut()?, &Append::at(at), None)?;
        // pages 1 and 2 are copied to page 0 and to another pool
        copy::within(&mut pools.get_mut()?, &Array::host(&[[1, 0]]))?;
        let mut other = Pools::new(order);
        copy::between(&pools.get()?, &mut other.get_mut()?, &Array::host(&[[0, 2], [2, 1]]))?;
        let mut planes = [vec![0; 64], vec![0; 64], vec![0; 16]];
        let [k_to, v_to, side_to] = &mut planes;
        let mut packed = KvMut::new(TensorMut::bytes(k_to, &[2, 2, 16])?, TensorMut::bytes(v_to, &[2, 2, 16])?)
            .with_sides(KvSidesMut::new(TensorMut::bytes(side_to, &[2, 2, 4])?, None));
        // slot 5 is slot 1 of page 1, and slot 8 is slot 0 of page 2; both are at those slots of pages 2 and 1
        let rows = PageTableRows::Padded { pages: Array::host(&[1, 2]), max_pages: 1 };
        let mut all = [vec![0; 3 * 32], vec![0; 3 * 32], vec![0; 3 * 8]];
        let [k_all, v_all, side_all] = &mut all;
        let mut three = KvMut::new(TensorMut::bytes(k_all, &[3, 2, 16])?, TensorMut::bytes(v_all, &[3, 2, 16])?)
            .with_sides(KvSidesMut::new(TensorMut::bytes(side_all, &[3, 2, 4])?, None));
        gather(&other.get()?, &mut three, &Gather::new(Array::host(&[0, 1, 3]), rows))?;
        gather(&other.get()?, &mut packed, &Gather::new(Array::host(&[0, 1, 2]), rows))?;
        for (all, (first, row)) in all.iter().zip([(&k, 32), (&v, 32), (&side, 8)]) {
            assert_eq!([&all[..row], &all[2 * row..]], [&first[row..], &first[..row]], "{order}");
        }
        for (plane, all) in planes.iter().zip(&all) {
            assert_eq!(plane[..], all[..plane.len()], "{order}");
        }
    }
    Ok(())
}

#[test]
fn rows_that_do_not_fit_their_formats_are_refused() -> Result<(), OpError> {
    let (k, v) = (values(2 * 16, 1), values(2 * 8, 2));
    let rows = KvRef::new(TensorRef::host(&k, &[1, 2, 16])?, TensorRef::host(&v, &[1, 2, 8])?);
    let slots = [3i64];
    let at = || Append::at(SlotMapping::Slots { slots: Array::host(&slots), positions: None });
    let mut pools = Pools::new(PageOrder::Nhd);
    let refused = |rows: &KvRef<'_>, pools: &mut KvMut<'_>, transform: Option<&Transform>| {
        append(rows, pools, &at(), transform).expect_err("refused").to_string()
    };
    let encode = transform(false);
    let wide = KvRef::new(TensorRef::host(&k, &[1, 2, 16])?, TensorRef::host(&k, &[1, 2, 16])?);
    let error = refused(&wide, &mut pools.get_mut()?, Some(&encode));
    assert!(error.contains("v pool has 16 bytes of codes per head; this run needs 24"), "{error}");
    let error = refused(&rows, &mut pools.get_mut()?.with_sides(KvSidesMut::new(None, None)), Some(&encode));
    assert!(error.contains("there is no k side") && error.contains("with_sides"), "{error}");
    let mut side = vec![0; ROWS * 4];
    let both = |side| TensorMut::bytes(side, &[PAGES, SLOTS, 2, 4]);
    let mut k_side = vec![0; ROWS * 4];
    let sides = KvSidesMut::new(both(&mut k_side)?, both(&mut side)?);
    let error = refused(&rows, &mut pools.get_mut()?.with_sides(sides), Some(&encode));
    assert!(error.contains("v side is given"), "{error}");
    let mut floats = values(ROWS * 16, 3);
    let mut other = values(ROWS * 16, 3);
    let shape = [PAGES, SLOTS, 2, 16];
    let mut numbers = KvMut::new(TensorMut::host(&mut floats, &shape)?, TensorMut::host(&mut other, &shape)?);
    let error = refused(&rows, &mut numbers, Some(&encode));
    assert!(error.contains("k pool is f32; it must be u8"), "{error}");
    let eight = vec![F8E4M3(0); 2 * 16];
    let eight = KvRef::new(TensorRef::host(&eight, &[1, 2, 16])?, TensorRef::host(&eight, &[1, 2, 8])?);
    let error = refused(&eight, &mut pools.get_mut()?, Some(&encode));
    assert!(error.contains("k is e4m3; it must be f16 or bf16 or f32"), "{error}");
    // without formats bytes are no numbers
    let mut packed = vec![0; ROWS * 16];
    let mut latent = KvMut::latent(TensorMut::bytes(&mut packed, &shape)?);
    let error = refused(&KvRef::latent(TensorRef::host(&k, &[1, 2, 16])?), &mut latent, None);
    assert!(error.contains("with_kv_formats"), "{error}");
    let mut k_to = values(2 * 16, 1);
    let mut to = KvMut::latent(TensorMut::host(&mut k_to, &[1, 2, 16])?);
    let rows = PageTableRows::Padded { pages: Array::host(&[1]), max_pages: 1 };
    let ends = [0, 1];
    let error = gather(&latent.as_ref(), &mut to, &Gather::new(Array::host(&ends), rows)).expect_err("bytes");
    assert!(error.to_string().contains("with_kv_formats"), "{error}");
    // packed caches of vLLM's first kernels have no side data
    let x = vec![0; ROWS * 16];
    let (x_k, x_v) = (TensorRef::bytes(&x, &[3, 2, 1, 4, 16])?, TensorRef::bytes(&x, &[3, 2, 16, 4])?);
    let error = x_packed::check(&x_k, &x_v, &pools.get()?).expect_err("side data");
    assert_eq!(error, TensorError::NoSide { tensor: "k side" }.into());
    // heads that the formats are not bound to
    let three = Transform::new(&Variant::full().with_kv_formats(KvFormats::both(Int8)), Heads { kv: 1, ..HEADS })?;
    let row = KvRef::latent(TensorRef::host(&k, &[1, 2, 16])?);
    let mut side = vec![0; ROWS * 4];
    let sides = KvSidesMut::new(TensorMut::bytes(&mut side, &[PAGES, SLOTS, 2, 4])?, None);
    let error = refused(&row, &mut latent.with_sides(sides), Some(&three));
    assert!(error.contains("k has 2 heads; this run needs 1"), "{error}");
    Ok(())
}
