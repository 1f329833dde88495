//! Many kernels at once: each is obtained once, and no failure stops the others.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{Attempt, Progress, all};
use crate::cache::{CubinCache, Key, Origin};
use crate::compile::{Arch, CompileError, Compiled};
use crate::splice::Unit;

#[derive(Debug)]
struct Text(&'static str);

impl Unit for Text {
    fn text(&self) -> &str {
        self.0
    }
    fn name(&self) -> &str {
        self.0
    }
    fn arch(&self) -> Arch {
        Arch::new(8, 0)
    }
}

fn cubin() -> Compiled {
    Compiled { cubin: vec![7].into(), log: String::new(), compiler: "test".to_owned(), ms: 1.0 }
}

/// Compiles in memory; texts that begin with `bad` do not compile.
fn attempt(cache: &CubinCache, source: &Text, key: &Key, wait: bool) -> Attempt {
    let compile = || match source.0.starts_with("bad") {
        true => {
            let (name, compiler, reason) = (source.0.to_owned(), "test".to_owned(), "bad".to_owned());
            Err(CompileError::Failed { name, compiler, reason }.into())
        }
        false => Ok(cubin()),
    };
    if wait { Some(cache.get_or_compile(key, compile)) } else { cache.try_get_or_compile(key, compile) }
}

#[test]
fn each_kernel_is_obtained_once_and_a_failure_stops_nothing() {
    let cache = CubinCache::off();
    let texts = ["a", "bad", "b", "a", "a longer one", "bad", "b"].map(Text);
    let reports = Mutex::new(Vec::new());
    let report = |progress: Progress<'_>| {
        let Progress { done, total, index, name, result } = progress;
        let origin = result.ok().map(|(_, origin)| origin);
        reports.lock().expect("no panic").push((done, total, index, name.to_owned(), origin));
    };
    let results = all(texts.into(), Some(3), |source, key, wait| attempt(&cache, source, key, wait), report);
    let names: Vec<_> = results.iter().map(|result| result.as_ref().map(|ready| ready.source.0).ok()).collect();
    assert_eq!(names, [Some("a"), None, Some("b"), Some("a longer one")], "in the order of the sources");
    let error = results[1].as_ref().expect_err("it does not compile").to_string();
    assert!(error.contains("bad"), "{error}");
    assert_eq!(cache.stats().compiled, 4, "each text once");

    let mut reports = reports.into_inner().expect("no panic");
    assert_eq!(reports.iter().map(|report| (report.0, report.1)).collect::<Vec<_>>(), [(1, 4), (2, 4), (3, 4), (4, 4)]);
    reports.sort_by_key(|report| report.2);
    let reports: Vec<_> = reports.iter().map(|(_, _, index, name, origin)| (*index, name.as_str(), *origin)).collect();
    let compiled = Some(Origin::Compiled);
    assert_eq!(reports, [(0, "a", compiled), (1, "bad", None), (2, "b", compiled), (4, "a longer one", compiled)]);
}

#[test]
fn the_longest_text_is_first() {
    let cache = CubinCache::off();
    let order = Mutex::new(Vec::new());
    let record = |progress: Progress<'_>| order.lock().expect("no panic").push(progress.index);
    let texts = ["11", "4444", "1", "333"].map(Text);
    all(texts.into(), Some(1), |source, key, wait| attempt(&cache, source, key, wait), record);
    assert_eq!(order.into_inner().expect("no panic"), [1, 3, 0, 2]);
}

#[test]
fn a_kernel_that_another_compiles_is_left_for_later() {
    let cache = CubinCache::off();
    let attempts = AtomicUsize::new(0);
    let order = Mutex::new(Vec::new());
    let record = |progress: Progress<'_>| order.lock().expect("no panic").push(progress.index);
    // another has the longest one until the second attempt, which waits
    let contended = |source: &Text, key: &Key, wait: bool| {
        if source.0 == "longest" {
            attempts.fetch_add(1, Relaxed);
            return wait.then(|| Ok((cubin().into(), Origin::Disk)));
        }
        attempt(&cache, source, key, wait)
    };
    let results = all(["longest", "a", "b"].map(Text).into(), Some(1), contended, record);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!((order.into_inner().expect("no panic"), attempts.into_inner()), (vec![1, 2, 0], 2));
}

#[test]
fn a_panic_of_the_callback_stops_all_and_reaches_the_caller() {
    let cache = CubinCache::off();
    let calls = AtomicUsize::new(0);
    let report = |progress: Progress<'_>| {
        calls.fetch_add(1, Relaxed);
        assert!(progress.done < 2, "the second report");
    };
    let texts = ["1", "22", "333", "4444", "55555", "666666"].map(Text);
    let attempt = |source: &Text, key: &Key, wait| attempt(&cache, source, key, wait);
    let payload =
        catch_unwind(AssertUnwindSafe(|| all(texts.into(), Some(3), attempt, report))).expect_err("it panicked");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the second report"));
    assert_eq!(calls.into_inner(), 2, "it was called again after its panic");
    // at most the two other threads were still at work
    assert!(cache.stats().compiled <= 4, "{:?}", cache.stats());
}

#[test]
fn no_thread_is_needed_for_nothing() {
    let cache = CubinCache::off();
    let texts: Vec<Text> = Vec::new();
    let results = all(texts, Some(0), |source, key, wait| attempt(&cache, source, key, wait), |_| {});
    assert!(results.is_empty());
    let results = all(vec![Text("a")], Some(0), |source, key, wait| attempt(&cache, source, key, wait), |_| {});
    assert_eq!(results.len(), 1, "at least one thread");
}
