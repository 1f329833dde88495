//! Random cases for a given time.

use std::time::{Duration, Instant};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, TestRunner},
};

use crate::properties::{Happened, Run, case};

fn soak(time: Duration) {
    let end = Instant::now() + time;
    let mut runner = TestRunner::new(Config::default());
    let mut all = Happened::default();
    while Instant::now() < end {
        let case = case().new_tree(&mut runner).expect("a case").current();
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.run())) {
            Ok(happened) => all.add(happened),
            // what proptest would shrink
            Err(panic) => panic!("{case:?}: {:?}", panic.downcast_ref::<String>()),
        }
    }
    let Happened { preemptions, hit_tokens, right_guesses, wrong_guesses, failures, page_copies, cancelled } = all;
    let counts = [preemptions, hit_tokens, right_guesses, wrong_guesses, failures, page_copies, cancelled];
    assert!(counts.iter().all(|&count| count > 20), "the cases are too tame: {all:?}");
}

#[test]
fn ten_seconds_of_random_cases() {
    soak(Duration::from_secs(10));
}

#[test]
#[ignore = "it takes eight minutes"]
fn eight_minutes_of_random_cases() {
    soak(Duration::from_secs(480));
}
