//! Random cases for a given time.

use std::time::{Duration, Instant};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, TestRunner},
};

use crate::properties::{Run, case};

fn soak(time: Duration) {
    let end = Instant::now() + time;
    let mut runner = TestRunner::new(Config::default());
    while Instant::now() < end {
        let case = case().new_tree(&mut runner).expect("a case").current();
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case.run())) {
            // what proptest would shrink
            panic!("{case:?}: {:?}", panic.downcast_ref::<String>());
        }
    }
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
