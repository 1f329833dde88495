//! The kernels of cases, compiled on all cores before the cases run one after the other.

use std::time::Instant;

use attn::{Engine, Preparation, PrepareOptions, Progress};
use attn_kernels::cache::Origin;
use attn_testing::{Case, RunMode};
use rayon::prelude::*;

use crate::output::{message, progress};

/// Compiles the kernels that planning selects for cases in their run modes, unless they are embedded or cached. On the
/// CPU there are none.
///
/// A case that cannot be planned, or whose kernel does not compile, says so when it runs. `device_plans`: also the
/// kernels that plan on the device.
pub(crate) fn compile(cases: &[(&Case, RunMode)], engine: &Engine, device_plans: bool) {
    if engine.is_cpu() {
        return;
    }
    let started = Instant::now();
    let preparation = Preparation::without_loading(engine);
    cases.par_iter().for_each(|&(case, mode)| {
        if let Err(error) = attn_testing::add_kernels(case, mode, engine, &preparation, device_plans) {
            tracing::debug!(case = case.title(), %error, "its kernels are not listed");
        }
    });
    let (kernels, mut compiled) = (preparation.kernels(), 0usize);
    let bar = progress(kernels);
    let mut each = |done: Progress<'_>| {
        compiled += usize::from(matches!(done.result, Ok((_, Origin::Compiled))));
        bar.set_message(done.name.to_owned());
        bar.inc(1);
    };
    let prepared = preparation.run(PrepareOptions { progress: Some(&mut each), ..Default::default() });
    bar.finish_and_clear();
    if let Err(error) = prepared {
        tracing::debug!(%error, "some kernels are missing");
    }
    message!("{kernels} kernels, {compiled} of them compiled now ({:.1} s)", started.elapsed().as_secs_f64());
}
