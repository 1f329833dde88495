//! Random operations on pages, prefixes, sequences and steps, against a naive model that keeps every token.
//!
//! The model simulates the memory of a device: a slot holds a hash of everything that its key depends on. So a page
//! that is freed too early, shared by mistake, copied too late, or found under a wrong hash shows as a wrong slot.

mod events;
mod naive;
mod ops;
mod world;

use proptest::{collection::vec, prelude::*, test_runner::Config};

use ops::Op;
use world::World;

fn run(cases: u32) {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let shape = (1usize..5, 4usize..80, 2usize..20);
    let ops = vec(any::<[u8; 4]>().prop_map(Op::new), 1..200);
    proptest!(config, |((page_size, device, host) in shape, ops in ops)| {
        let mut world = World::new(page_size, device, host);
        for op in ops {
            world.apply(op);
            world.check();
        }
        world.close();
    });
}

#[test]
fn operations_agree_with_a_naive_model() {
    run(10_000);
    let reached = events::counts();
    assert!(reached.iter().all(|&times| times >= 20), "some events are too rare: {reached:?}");
}

#[test]
#[ignore = "takes minutes"]
fn a_million_sequences_of_operations_agree() {
    run(1_000_000);
}
