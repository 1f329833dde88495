//! Converts between pools in pages and the packed cache of vLLM's first kernels: keys as (blocks, kv_heads, head_dim /
//! x, slots, x), values as (blocks, kv_heads, head_dim, slots).
//!
//! `x` elements have 16 bytes. Block `i` is page `i`.

use super::{KvMut, KvRef, OpError, check, elements};
use crate::tensor::{TensorMut, TensorRef, sides};

/// Sizes of a packed cache and of its pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Number of blocks, and of pages.
    pub pages: usize,
    /// Slots per page.
    pub slots: usize,
    /// KV heads.
    pub heads: usize,
    /// Values per head of keys.
    pub dim_k: usize,
    /// Values per head of values.
    pub dim_v: usize,
    /// Contiguous elements of a key.
    pub x: usize,
}

/// Checks that packed tensors and pools agree.
///
/// # Errors
///
/// Tensors of another rank, shape or type; a pool without values.
pub fn check(k: &TensorRef<'_>, v: &TensorRef<'_>, pools: &KvRef<'_>) -> Result<Sizes, OpError> {
    check::rank("packed k", k, 5, "5: (blocks, kv_heads, head_dim / x, slots, x)")?;
    check::rank("packed v", v, 4, "4: (blocks, kv_heads, head_dim, slots)")?;
    if let Some(part) = [0, 1].into_iter().find(|&part| pools.sides().part(part).is_some()) {
        return Err(sides::superfluous(part).into());
    }
    let mut parts = pools.parts();
    let (Some(k_pool), Some(v_pool)) = (parts.next(), parts.next()) else {
        return Err(OpError::Values { there: "the packed cache", missing: "the pool" });
    };
    let [pages, heads, chunks, slots, x] = [0, 1, 2, 3, 4].map(|dim| k.shape()[dim]);
    let sizes = Sizes { pages, slots, heads, dim_k: chunks * x, dim_v: v.shape()[2], x };
    for (dim, what, want) in [(0, "blocks", pages), (1, "heads", heads), (3, "slots", slots)] {
        check::extent("packed v", v, dim, what, want)?;
    }
    for (name, pool, dim) in [("k pool", &k_pool, sizes.dim_k), ("v pool", &v_pool, sizes.dim_v)] {
        check::rank(name, pool, 4, "4: (pages, slots, kv_heads, head_dim)")?;
        check::innermost(name, pool)?;
        for (at, what, want) in
            [(0, "pages", pages), (1, "slots", slots), (2, "heads", heads), (3, "values per head", dim)]
        {
            check::extent(name, pool, at, what, want)?;
        }
        check::dtype(name, pool.dtype(), &[k.dtype()])?;
    }
    check::dtype("packed v", v.dtype(), &[k.dtype()])?;
    check::innermost("packed k", k)?;
    check::innermost("packed v", v)?;
    Ok(sizes)
}

/// Copies packed tensors into pools, on the CPU.
///
/// # Errors
///
/// A pool whose elements overlap, and device memory; the errors of [`check()`].
pub fn to_pages(k: &TensorRef<'_>, v: &TensorRef<'_>, pools: &mut KvMut<'_>) -> Result<(), OpError> {
    let sizes = check(k, v, &pools.as_ref())?;
    for (part, packed) in [k, v].into_iter().enumerate() {
        let mut pool = pools.part(part)?;
        check::disjoint(["k pool", "v pool"][part], &pool)?;
        let (strides, size) = (pool.strides().to_vec(), pool.dtype().size());
        let to = pool.host_bytes_mut().ok_or_else(|| elements::on_device("the pool"))?;
        let from = packed.host_bytes().ok_or_else(|| elements::on_device("the packed cache"))?;
        for_each_element(sizes, part, packed.strides(), &strides, size, |packed, paged| {
            to[paged..paged + size].copy_from_slice(&from[packed..packed + size]);
        });
    }
    Ok(())
}

/// Copies pools into packed tensors, on the CPU.
///
/// # Errors
///
/// A packed tensor whose elements overlap, and device memory; the errors of [`check()`].
pub fn from_pages(pools: &KvRef<'_>, k: &mut TensorMut<'_>, v: &mut TensorMut<'_>) -> Result<(), OpError> {
    let sizes = check(&k.as_ref(), &v.as_ref(), pools)?;
    for (part, (mut packed, pool)) in [k.reborrow(), v.reborrow()].into_iter().zip(pools.parts()).enumerate() {
        check::disjoint(["packed k", "packed v"][part], &packed)?;
        let (strides, size) = (packed.strides().to_vec(), packed.dtype().size());
        let to = packed.host_bytes_mut().ok_or_else(|| elements::on_device("the packed cache"))?;
        let from = pool.host_bytes().ok_or_else(|| elements::on_device("the pool"))?;
        for_each_element(sizes, part, &strides, pool.strides(), size, |packed, paged| {
            to[packed..packed + size].copy_from_slice(&from[paged..paged + size]);
        });
    }
    Ok(())
}

/// Calls `f` with the byte offsets of every element: packed, and in pages.
fn for_each_element(
    sizes: Sizes,
    part: usize,
    packed: &[i64],
    paged: &[i64],
    size: usize,
    mut f: impl FnMut(usize, usize),
) {
    let Sizes { pages, slots, heads, dim_k, dim_v, x } = sizes;
    for page in 0..pages {
        for head in 0..heads {
            for slot in 0..slots {
                for d in 0..if part == 0 { dim_k } else { dim_v } {
                    let from = match part {
                        0 => elements::offset(packed, &[page, head, d / x, slot, d % x], size),
                        _ => elements::offset(packed, &[page, head, d, slot], size),
                    };
                    f(from, elements::offset(paged, &[page, slot, head, d], size));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
