//! Results of other libraries over the same tensors: ours are written to files, a peer reads them, runs, and writes its
//! output, which is compared with ours.

use std::fs;
use std::path::Path;

use attn::{Dtype, Engine};

use crate::host::Host;
use crate::inputs::Inputs;
use crate::setup::Setup;
use crate::{Case, Distance, LayoutKind, Order, Pool, TestError, Tolerance, case_variant};

/// A peer's output may be as far from ours as both may be from the reference.
const BOTH: f64 = 2.0;

/// Our result of a case over tensors that peers read.
#[derive(Debug)]
pub struct SharedResult {
    o: Vec<f32>,
    dtype: Dtype,
    value_dim: usize,
    /// The kernel and the device.
    pub ran: String,
}

impl SharedResult {
    /// Runs a case, and writes its tensors to `folder`, without gaps: `q.bin` (tokens, query heads, head_dim), `k.bin`
    /// (tokens, KV heads, head_dim), `v.bin` and our output `o.bin`, in the order of requests and positions, in the
    /// types of the case.
    ///
    /// # Errors
    ///
    /// A cascade, whose requests have no keys of their own; chosen pages or scales, which peers do not get; a case that
    /// cannot be run; a folder that cannot be written.
    pub fn new(case: &Case, engine: &Engine, folder: &Path) -> Result<Self, TestError> {
        let no = |field, why: &str| TestError::Field { field, why: why.to_owned() };
        if case.kv_layout.levels() {
            return Err(no("kv_layout", "requests of a cascade share keys, and peers get each request's own"));
        }
        if case.sparse.is_some() {
            return Err(no("sparse", "a peer chooses other pages"));
        }
        if case.kv_scale.is_some() || case.kv_scale_per_head {
            return Err(no("kv_scale", "peers get no scales"));
        }
        let flat = Case { kv_layout: LayoutKind::Ragged, page_order: Order::Nhd, pool: Pool::Split, ..case.clone() };
        let (from, mut inputs) = (Inputs::new(&flat, true)?, Inputs::new(case, true)?);
        inputs.take(&from, &(0..case.qo_lens.requests()).collect::<Vec<_>>())?;
        let mut setup = Setup::new(case, &case_variant(case)?, &inputs, engine, 0)?;
        let o = setup.run_once()?.o;
        for (name, host, shape) in [
            ("q.bin", &from.q, &from.qo_shape()[..]),
            ("k.bin", &from.k, &from.kv_shape),
            ("v.bin", &from.v, &from.v_shape),
            ("o.bin", &o, &from.o_shape()),
        ] {
            let bytes = shape.iter().product::<usize>() * host.dtype().size();
            let path = folder.join(name);
            fs::write(&path, &host.bytes()[..bytes])
                .map_err(|error| no("folder", &format!("cannot write {}: {error}", path.display())))?;
        }
        Ok(SharedResult { o: o.to_f32(), dtype: case.dtypes()?.qo, value_dim: from.o_shape()[2], ran: setup.ran() })
    }

    /// The distance of a peer's output, raw elements in the type and shape of `o.bin`, and whether it is within the
    /// tolerances of both results.
    ///
    /// # Errors
    ///
    /// Another number of bytes.
    pub fn compare(&self, bytes: &[u8]) -> Result<(Distance, bool), TestError> {
        let want = self.o.len() * self.dtype.size();
        if bytes.len() != want {
            let why = format!("a peer's output has {} bytes, and ours {want}", bytes.len());
            return Err(TestError::Field { field: "o", why });
        }
        let got = Host::of_bytes(self.dtype, bytes).to_f32();
        let ours: Vec<f64> = self.o.iter().copied().map(f64::from).collect();
        let Tolerance { rel, row, lse } = Tolerance::of(self.dtype);
        let distance = Distance::between(&got, &ours, self.value_dim, None);
        Ok((distance, distance.within(&Tolerance { rel: BOTH * rel, row: BOTH * row, lse })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lens;

    fn case() -> Case {
        let lens = |lens: &[u32]| Lens::List(lens.to_vec());
        let (qo_lens, kv_lens) = (lens(&[3, 1]), lens(&[40, 7]));
        let (kv_layout, page_order) = (LayoutKind::Paged, Order::Hnd);
        Case { qo_lens, kv_lens, kv_layout, page_order, page_size: 5, ..Case::new("causal") }
    }

    #[test]
    fn a_peer_over_the_written_tensors_gives_our_output() {
        let folder = tempfile::tempdir().expect("a folder");
        let ours = SharedResult::new(&case(), &Engine::cpu(), folder.path()).expect("it runs");
        let read = |name: &str| fs::read(folder.path().join(name)).expect(name);
        assert_eq!((read("q.bin").len(), read("k.bin").len()), (4 * 4 * 64 * 2, 47 * 2 * 64 * 2));
        // the peer: attention by its definition over what was written
        let floats = |name: &str| Host::of_bytes(Dtype::Bf16, &read(name)).to_f32();
        let (q, k, v) = (floats("q.bin"), floats("k.bin"), floats("v.bin"));
        let mut o = Vec::new();
        for (row, keys) in [0..38, 0..39, 0..40, 40..47].into_iter().enumerate() {
            for head in 0..4 {
                let at = |key: usize| (key * 2 + head / 2) * 64;
                let q = &q[(row * 4 + head) * 64..][..64];
                let weight = |key| (q.iter().zip(&k[at(key)..]).map(|(q, k)| q * k).sum::<f32>() / 8.0).exp();
                let sum: f32 = keys.clone().map(weight).sum();
                o.extend((0..64).map(|dim| keys.clone().map(|key| weight(key) * v[at(key) + dim]).sum::<f32>() / sum));
            }
        }
        let bytes = |o: &[f32]| o.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect::<Vec<u8>>();
        let (distance, passed) = ours.compare(&bytes(&o)).expect("as many");
        assert!(passed, "{distance:?}");
        let (_, passed) = ours.compare(&read("o.bin")).expect("as many");
        assert!(passed);
        // a row of another head
        o.copy_within(64..128, 0);
        assert!(!ours.compare(&bytes(&o)).expect("as many").1);
        o[77] = f32::NAN;
        assert!(!ours.compare(&bytes(&o)).expect("as many").1);
        assert!(ours.compare(&bytes(&o[1..])).expect_err("fewer").to_string().contains("bytes"));
    }

    #[test]
    fn what_peers_cannot_get_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let share =
            |case: &Case| SharedResult::new(case, &Engine::cpu(), folder.path()).expect_err("refused").to_string();
        assert!(share(&Case { kv_scale: Some(2.0), ..case() }).contains("scales"));
        assert!(share(&Case { kv_layout: LayoutKind::Cascade, ..case() }).contains("cascade"));
        let error = SharedResult::new(&case(), &Engine::cpu(), &folder.path().join("none")).expect_err("no folder");
        assert!(error.to_string().contains("cannot write"), "{error}");
    }
}
