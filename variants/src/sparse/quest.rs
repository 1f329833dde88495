//! Page selection of Quest for decoding queries (arXiv 2406.10774).
//!
//! [`PageBounds`] keeps, for each page and KV head, the elementwise minimum and maximum of the keys. No key of the page
//! has a larger product with a query than `sum_d max(q_d min_d, q_d max_d)` ([`PageBounds::scores`]). A KV head attends
//! to the pages with the largest bounds ([`top_pages`]), as a [`PageList`](crate::PageList).
//!
//! On a device, kernels of the engine compute the same. They write the selection in stream order, into the tensors
//! `pages` and `count` of a `page_list` (`Attention::tensor_ptr`) or into memory that is copied there
//! (`Attention::set_tensor`). An attention of [`PageList::with_capacity`](crate::PageList::with_capacity) is planned
//! for the longest lists, so no selection needs a new plan.

/// Elementwise minimum and maximum of the keys of each page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageBounds {
    page_size: usize,
    kv_heads: usize,
    head_dim: usize,
    tokens: usize,
    /// Both are (pages, KV heads, head_dim).
    min: Vec<f32>,
    max: Vec<f32>,
}

/// A key or query of the wrong length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {len} values; there are {want}")]
pub struct WrongLen {
    /// Whether it is a key or a query.
    pub what: &'static str,
    /// Values given.
    pub len: usize,
    /// Values expected.
    pub want: usize,
}

impl PageBounds {
    /// Bounds of a request without keys. `page_size` counts keys; a page has at least one.
    #[must_use]
    pub fn new(page_size: usize, kv_heads: usize, head_dim: usize) -> Self {
        PageBounds { page_size: page_size.max(1), kv_heads, head_dim, tokens: 0, min: Vec::new(), max: Vec::new() }
    }

    /// Adds the next key: (KV heads, head_dim), after its rotation, if keys are rotated.
    ///
    /// # Errors
    ///
    /// The wrong number of values.
    pub fn push(&mut self, key: &[f32]) -> Result<(), WrongLen> {
        let row = self.kv_heads * self.head_dim;
        if key.len() != row {
            return Err(WrongLen { what: "a key", len: key.len(), want: row });
        }
        if self.tokens.is_multiple_of(self.page_size) {
            self.min.extend(std::iter::repeat_n(f32::INFINITY, row));
            self.max.extend(std::iter::repeat_n(f32::NEG_INFINITY, row));
        }
        let page = self.tokens / self.page_size * row;
        let bounds = self.min[page..].iter_mut().zip(&mut self.max[page..]);
        bounds.zip(key).for_each(|((min, max), x)| (*min, *max) = (min.min(*x), max.max(*x)));
        self.tokens += 1;
        Ok(())
    }

    /// Keys added so far.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Pages with keys.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.tokens.div_ceil(self.page_size)
    }

    /// Upper bounds of the products of queries with the keys of each page: (KV heads, pages), the maximum over the
    /// query heads of a KV head. `q` is (query heads, head_dim); the number of query heads is a multiple of that of KV
    /// heads.
    ///
    /// # Errors
    ///
    /// A number of values that is not a whole number of query heads per KV head.
    pub fn scores(&self, q: &[f32]) -> Result<Vec<f32>, WrongLen> {
        let (row, pages) = (self.kv_heads * self.head_dim, self.pages());
        if row == 0 || q.is_empty() || !q.len().is_multiple_of(row) {
            let want = q.len().next_multiple_of(row.max(1)).max(row);
            return Err(WrongLen { what: "a query", len: q.len(), want });
        }
        let group = q.len() / row * self.head_dim;
        let mut scores = vec![f32::NEG_INFINITY; self.kv_heads * pages];
        for (index, score) in scores.iter_mut().enumerate() {
            let (head, page) = (index / pages, index % pages);
            let at = page * row + head * self.head_dim;
            let (min, max) = (&self.min[at..][..self.head_dim], &self.max[at..][..self.head_dim]);
            for q in q[head * group..][..group].chunks_exact(self.head_dim) {
                let bound = q.iter().zip(min.iter().zip(max)).map(|(q, (min, max))| (q * min).max(q * max)).sum();
                *score = score.max(bound);
            }
        }
        Ok(scores)
    }
}

/// The `most` pages with the largest scores, in order of positions. The last page, which may still grow, is always one
/// of them. Of equal scores, earlier pages win.
#[must_use]
pub fn top_pages(scores: &[f32], most: usize) -> Vec<i32> {
    let Some(last) = scores.len().checked_sub(1) else { return Vec::new() };
    let mut others: Vec<usize> = (0..last).collect();
    others.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    others.truncate(most.saturating_sub(1));
    others.push(last);
    others.sort_unstable();
    others.truncate(most);
    others.into_iter().map(|page| page as i32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(i: usize) -> f32 {
        ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0
    }

    #[test]
    fn no_product_is_above_its_bound() {
        let (heads, dim, tokens) = (2, 8, 11);
        let mut bounds = PageBounds::new(4, heads, dim);
        let keys: Vec<f32> = (0..tokens * heads * dim).map(noise).collect();
        keys.chunks_exact(heads * dim).for_each(|key| bounds.push(key).expect("whole keys"));
        let q: Vec<f32> = (0..2 * heads * dim).map(|i| noise(i + 500)).collect();
        let scores = bounds.scores(&q).expect("two query heads each");
        assert_eq!((bounds.pages(), scores.len()), (3, 6));
        for head in 0..heads {
            for page in 0..3 {
                let products = (page * 4..(page * 4 + 4).min(tokens)).flat_map(|token| {
                    let key = &keys[(token * heads + head) * dim..][..dim];
                    q[head * 2 * dim..][..2 * dim]
                        .chunks_exact(dim)
                        .map(move |q| q.iter().zip(key).map(|(q, k)| q * k).sum::<f32>())
                });
                let most = products.fold(f32::NEG_INFINITY, f32::max);
                assert!(most <= scores[head * 3 + page] + 1e-5);
            }
        }
        assert!(bounds.push(&keys[1..9]).is_err() && bounds.scores(&q[..24]).is_err());
        assert_eq!(bounds.scores(&q[..5]).expect_err("not whole").want, 16);
    }

    #[test]
    fn a_page_of_one_key_has_its_product() {
        let mut bounds = PageBounds::new(1, 1, 2);
        bounds.push(&[1.0, -2.0]).expect("a key");
        assert_eq!(bounds.scores(&[3.0, 0.5]), Ok(vec![2.0]));
    }

    #[test]
    fn the_last_page_is_always_selected() {
        assert_eq!(top_pages(&[0.5, 3.0, 2.0, 3.0, -9.0], 3), [1, 3, 4]);
        assert_eq!(top_pages(&[0.5, 3.0], 9), [0, 1]);
        assert_eq!(top_pages(&[1.0, 1.0, 1.0], 2), [0, 2]);
        assert_eq!((top_pages(&[], 3), top_pages(&[1.0, 2.0], 0)), (vec![], vec![]));
        assert_eq!(top_pages(&[1.0, 2.0], 1), [1]);
    }
}
