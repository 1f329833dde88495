//! Copies pages: within a pool (copy on write, beam search), or between two pools (swap out and in). Side data of rows
//! is copied with them.

use super::{Array, ArrayMut, KvMut, KvRef, OpError, check, elements, slot_mapping::check_entry};

/// Checks a copy within one pool, except for the entries of a list in device memory.
///
/// # Errors
///
/// A tensor that has not the shape of a pool, or a page outside of it.
pub fn check_within(pools: &KvMut<'_>, pairs: &Array<'_, [i32; 2]>) -> Result<(), OpError> {
    let side = check::Side { name: "the pool", k: "k pool", v: "v pool", paged: true };
    check::both_sides(side, &pools.as_ref(), side, pools, None)?;
    let pages = pools.as_ref().parts().next().map_or(0, |pool| pool.shape()[0]);
    in_pools(pairs, [pages; 2])
}

/// Checks a copy between two pools, except for the entries of a list in device memory.
///
/// # Errors
///
/// Pools whose pages differ in shape or type, or a page outside of its pool.
pub fn check_between(from: &KvRef<'_>, to: &KvMut<'_>, pairs: &Array<'_, [i32; 2]>) -> Result<(), OpError> {
    let source = check::Side { name: "the source", k: "from.k", v: "from.v", paged: true };
    let target = check::Side { name: "the target", k: "to.k", v: "to.v", paged: true };
    check::both_sides(source, from, target, to, None)?;
    let mut sizes = [0; 2];
    for (names, (x, y)) in
        [["from.k", "to.k"], ["from.v", "to.v"]].into_iter().zip(from.parts().zip(to.as_ref().parts()))
    {
        if x.dtype() != y.dtype() {
            return Err(OpError::Dtype { tensor: names[0], got: x.dtype(), want: y.dtype().to_string() });
        }
        let (got, want) = (x.shape()[1], y.shape()[1]);
        if got != want {
            return Err(OpError::Differs { tensor: names[0], dim: "slots", got, other: names[1], want });
        }
        sizes = [x.shape()[0], y.shape()[0]];
    }
    in_pools(pairs, sizes)
}

/// Checks that the status array, in which a kernel counts skipped pairs, has an entry if given.
///
/// # Errors
///
/// An array without entries.
pub fn check_status(status: Option<&ArrayMut<'_, u32>>) -> Result<(), OpError> {
    check::status(status)
}

fn in_pools(pairs: &Array<'_, [i32; 2]>, pages: [usize; 2]) -> Result<(), OpError> {
    for (index, pair) in pairs.as_host().unwrap_or_default().iter().enumerate() {
        for (array, (&page, pages)) in ["from", "to"].into_iter().zip(pair.iter().zip(pages)) {
            check_entry(array, index, page.into(), 0, pages as i64 - 1)?;
        }
    }
    Ok(())
}

/// Copies pages within a pool, on the CPU, one pair after the other.
///
/// # Errors
///
/// Device memory; the errors of [`check_within`].
pub fn within(pools: &mut KvMut<'_>, pairs: &Array<'_, [i32; 2]>) -> Result<(), OpError> {
    check_within(pools, pairs)?;
    let pairs = pairs.on_host("pairs")?;
    for part in 0..pools.as_ref().parts().count() {
        let (codes, side) = pools.planes(part)?;
        for mut pool in [Some(codes), side].into_iter().flatten() {
            let (shape, strides, size) = (pool.shape().to_vec(), pool.strides().to_vec(), pool.dtype().size());
            let bytes = pool.host_bytes_mut().ok_or_else(|| elements::on_device("the pool"))?;
            // pages of no elements have no memory
            for &[from, to] in pairs.iter().filter(|_| shape[3] > 0) {
                for (slot, head) in rows(&shape) {
                    let [from, to] =
                        [from, to].map(|page| elements::offset(&strides[..3], &[page as usize, slot, head], size));
                    bytes.copy_within(from..from + shape[3] * size, to);
                }
            }
        }
    }
    Ok(())
}

/// Copies pages between pools, on the CPU.
///
/// # Errors
///
/// Device memory; the errors of [`check_between`].
pub fn between(from: &KvRef<'_>, to: &mut KvMut<'_>, pairs: &Array<'_, [i32; 2]>) -> Result<(), OpError> {
    check_between(from, to, pairs)?;
    let pairs = pairs.on_host("pairs")?;
    for (part, source) in from.parts().enumerate() {
        let (codes, side) = to.planes(part)?;
        let planes = [(Some(source), Some(codes)), (from.sides().part(part), side)];
        for (source, mut target) in planes.into_iter().filter_map(|(source, target)| source.zip(target)) {
            let bytes = source.host_bytes().ok_or_else(|| elements::on_device("the source"))?;
            let (strides, size) = (target.strides().to_vec(), target.dtype().size());
            let written = target.host_bytes_mut().ok_or_else(|| elements::on_device("the target"))?;
            let length = source.shape()[3] * size;
            for &[from, to] in pairs.iter().filter(|_| length > 0) {
                for (slot, head) in rows(source.shape()) {
                    let from = elements::offset(&source.strides()[..3], &[from as usize, slot, head], size);
                    let to = elements::offset(&strides[..3], &[to as usize, slot, head], size);
                    written[to..to + length].copy_from_slice(&bytes[from..from + length]);
                }
            }
        }
    }
    Ok(())
}

/// (slot, head) of each row of a page.
fn rows(shape: &[usize]) -> impl Iterator<Item = (usize, usize)> + use<> {
    let heads = shape[2];
    (0..shape[1]).flat_map(move |slot| (0..heads).map(move |head| (slot, head)))
}

#[cfg(test)]
mod tests;
