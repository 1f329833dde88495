//! Many sources at once: each distinct kernel is compiled once, on all cores.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rayon::prelude::*;

use super::{JitError, Ready, allowed, compile, embedded};
use crate::cache::{CubinCache, Key, Origin};
use crate::compile::Compiled;
use crate::splice::Unit;

/// What [`obtain_all`] reports after each kernel.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Kernels that are done, this one included; ascends by 1.
    pub done: usize,
    /// Distinct kernels in all.
    pub total: usize,
    /// The position of its source among those of the call of [`obtain_all`]; among equal sources the first. Needs have
    /// no position: in the reports of `Engine::prepare` it only tells the kernels of one call apart.
    pub index: usize,
    /// The name of the kernel.
    pub name: &'a str,
    /// Its cubin and where it came from, or why there is none.
    pub result: Result<(&'a Compiled, Origin), &'a JitError>,
}

/// The cubins of many sources, each as [`obtain`](super::obtain) gives it, on `threads` threads; `None` is as many as
/// rayon's pool has. Returns one result for each distinct kernel, in the order of the first source of each. A kernel
/// without a cubin does not stop the others.
///
/// Long texts are compiled first, because they take longest, so that all threads finish at about the same time. A
/// kernel that another thread or process is compiling is left for later while there are others.
///
/// `progress` is called after each kernel by the thread that obtained it, and never by two threads at once. Where it
/// panics, no kernel is begun any more, and the panic goes on in the caller.
pub fn obtain_all<S: Unit + Send>(
    sources: Vec<S>,
    threads: Option<usize>,
    progress: impl FnMut(Progress<'_>) + Send,
) -> Vec<Result<Ready<S>, JitError>> {
    obtain_all_from(CubinCache::global(), sources, threads, progress)
}

/// The cubins of many sources by a cache of the caller; [`obtain_all`] takes the default one.
pub fn obtain_all_from<S: Unit + Send>(
    cache: &CubinCache,
    sources: Vec<S>,
    threads: Option<usize>,
    progress: impl FnMut(Progress<'_>) + Send,
) -> Vec<Result<Ready<S>, JitError>> {
    let may_compile = allowed();
    let obtain = |source: &S, key: &Key, wait: bool| attempt(cache, source, key, may_compile, wait);
    all(sources, threads, obtain, progress)
}

/// The cubins of many sources for build scripts. Unlike [`obtain_all`], it ignores `ATTN_JIT` and embedded cubins, and
/// reports nothing.
pub(crate) fn build_all<S: Unit + Send>(cache: &CubinCache, sources: Vec<S>) -> Vec<Result<Ready<S>, JitError>> {
    let build = |source: &S, key: &Key, wait: bool| from_cache(cache, source, key, true, wait);
    all(sources, None, build, |_| {})
}

/// A cubin and where it came from; `None` if another thread or process is compiling it and this one did not wait.
pub(super) type Attempt = Option<Result<(Arc<Compiled>, Origin), JitError>>;

/// Finds an embedded or cached cubin, or compiles one.
pub(super) fn attempt(cache: &CubinCache, source: &impl Unit, key: &Key, may_compile: bool, wait: bool) -> Attempt {
    match embedded(key) {
        Some(found) => Some(Ok(found)),
        None => from_cache(cache, source, key, may_compile, wait),
    }
}

fn from_cache(cache: &CubinCache, source: &impl Unit, key: &Key, may_compile: bool, wait: bool) -> Attempt {
    let compile = || compile(source, may_compile);
    if wait { Some(cache.get_or_compile(key, compile)) } else { cache.try_get_or_compile(key, compile) }
}

/// A kernel that has no result yet.
struct Job<S> {
    /// The position of its source.
    index: usize,
    key: Key,
    source: S,
    /// Whether to wait for another thread or process: at the second attempt.
    wait: bool,
}

/// What is done so far.
struct Done<S, P> {
    progress: P,
    results: Vec<(usize, Result<Ready<S>, JitError>)>,
    /// What `progress` panicked with. It is not called again.
    panic: Option<Box<dyn Any + Send>>,
}

/// The results of all jobs. A panic of `progress` stops them, and goes on here once every thread has stopped.
pub(super) fn all<S: Unit + Send>(
    sources: Vec<S>,
    threads: Option<usize>,
    attempt: impl Fn(&S, &Key, bool) -> Attempt + Sync,
    progress: impl FnMut(Progress<'_>) + Send,
) -> Vec<Result<Ready<S>, JitError>> {
    let jobs = distinct(sources);
    let (total, threads) = (jobs.len(), threads.unwrap_or_else(rayon::current_num_threads).max(1));
    let jobs = Mutex::new(jobs);
    let queue = || jobs.lock().unwrap_or_else(PoisonError::into_inner);
    let stopped = AtomicBool::new(false);
    let done = Mutex::new(Done { progress, results: Vec::with_capacity(total), panic: None });
    let finish = |job: Job<S>, result: Result<(Arc<Compiled>, Origin), JitError>| {
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        if done.panic.is_some() {
            return;
        }
        let Done { progress, results, panic } = &mut *done;
        let (index, name) = (job.index, job.source.name());
        let of_job = result.as_ref().map(|(compiled, origin)| (&**compiled, *origin));
        let report = Progress { done: results.len() + 1, total, index, name, result: of_job };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| progress(report))) {
            stopped.store(true, Ordering::Relaxed);
            *panic = Some(payload);
        }
        results.push((index, result.map(|(compiled, origin)| Ready { compiled, origin, source: job.source })));
    };
    let work = || {
        while !stopped.load(Ordering::Relaxed) {
            let Some(job) = queue().pop_front() else { break };
            match attempt(&job.source, &job.key, job.wait) {
                Some(result) => finish(job, result),
                None => queue().push_back(Job { wait: true, ..job }),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.min(total) {
            scope.spawn(work);
        }
    });
    let Done { mut results, panic, .. } = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(payload) = panic {
        resume_unwind(payload);
    }
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The first source of each kernel, the longest first.
fn distinct<S: Unit + Send>(sources: Vec<S>) -> VecDeque<Job<S>> {
    let keyed: Vec<(Key, S)> = sources.into_par_iter().map(|source| (source.key(), source)).collect();
    let mut seen = HashSet::new();
    let jobs = keyed.into_iter().enumerate().filter(|(_, (key, _))| seen.insert(*key));
    let mut jobs: Vec<_> = jobs.map(|(index, (key, source))| Job { index, key, source, wait: false }).collect();
    jobs.sort_by_key(|job| Reverse(job.source.text().len()));
    jobs.into()
}

#[cfg(test)]
mod tests;
