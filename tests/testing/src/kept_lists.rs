//! The lists of kept pages of a case; the seed selects the pages.

use attn::{Error, Variant};
use attn_core::lang::ParamValue;

use super::random::Random;
use super::{Case, KeptPages, ListsOf, TestError};

/// The stream of the seed that selects pages.
const STREAM: u64 = 900;

impl KeptPages {
    /// The pages of each request and KV head, in ascending order.
    pub(super) fn lists(&self, case: &Case) -> Vec<Vec<Vec<u32>>> {
        let mut random = Random::new(case.seed, STREAM);
        let mut draw = |keys: u32| {
            let pages = keys.div_ceil(self.page.max(1));
            let kept = ((f64::from(pages) * self.keep).round() as usize).clamp(1.min(pages as usize), pages as usize);
            let mut list: Vec<u32> = random.permutation(pages)[..kept].iter().map(|&page| page as u32).collect();
            list.sort_unstable();
            list
        };
        let of_request = |keys: u32| match self.heads {
            ListsOf::Shared => vec![draw(keys); case.kv_heads as usize],
            ListsOf::Own => (0..case.kv_heads).map(|_| draw(keys)).collect(),
        };
        case.all_kv_lens().into_iter().map(of_request).collect()
    }

    /// Sets the lists of the variant's `page_list`.
    pub(super) fn set_lists(&self, variant: &mut Variant, case: &Case) -> Result<(), TestError> {
        let bad = |why: &str| TestError::Field { field: "sparse", why: why.to_owned() };
        let found = variant.parts().enumerate().find(|(_, part)| part.desc().name == "page_list");
        let (part, values) =
            found.map(|(i, p)| (i, p.to_values())).ok_or_else(|| bad("the variant has no page_list"))?;
        let whole = |name| match values.get(name) {
            Some(&ParamValue::Int(n)) => n,
            _ => 0,
        };
        if whole("page_size") != i64::from(self.page) {
            return Err(bad("the pages of page_list have another size"));
        }
        let (lists, capacity) = (self.lists(case), whole("max_pages").max(0) as usize);
        if lists.iter().flatten().any(|list| list.len() > capacity) {
            return Err(bad("more pages are kept than the capacity of page_list (max_pages)"));
        }
        let number = |n: u32| ParamValue::Int(i64::from(n));
        let padded = |list: &Vec<u32>| {
            ParamValue::List((0..capacity).map(|n| number(list.get(n).copied().unwrap_or(0))).collect())
        };
        let each = |of: &dyn Fn(&Vec<u32>) -> ParamValue| {
            ParamValue::List(lists.iter().map(|heads| ParamValue::List(heads.iter().map(of).collect())).collect())
        };
        variant.set_in(part, "pages", each(&padded)).map_err(Error::from)?;
        variant.set_in(part, "count", each(&|list| number(list.len() as u32))).map_err(Error::from)?;
        Ok(())
    }
}
