//! A block manager as NVIDIA Dynamo's kvbm-logical offers it.

use std::thread;

use attn_cache::Namespace;

use crate::{Engine, text};

#[test]
fn allocation_counts() {
    let engine = Engine::new(10, 16);
    assert_eq!(engine.pages.alloc(0).expect("nothing").len(), 0);
    let all = engine.pages.alloc(10).expect("all");
    assert!(engine.pages.alloc(1).is_err());
    drop(all);
    let sizes = [3, 2, 5].map(|n| engine.pages.alloc(n).expect("free"));
    let mut ids: Vec<_> = sizes.iter().flatten().map(|page| page.id()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..10).collect::<Vec<_>>());
}

#[test]
fn pages_without_whole_tokens_are_free_and_others_stay_cached() {
    let engine = Engine::new(10, 16);
    drop(engine.run(&text(0, 0, &[1; 15])));
    assert_eq!((engine.pages.stats().free, engine.prefix.stats().tokens), (10, 0));
    drop(engine.run(&text(0, 2, &[1; 15])));
    assert_eq!((engine.pages.stats().free, engine.pages.stats().evictable), (8, 2));
}

#[test]
fn equal_prompts_end_with_one_copy() {
    let engine = Engine::new(10, 16);
    let prompt = text(0, 2, &[5]);
    // both are computed before either is cached
    let start = |prompt: &[u32]| {
        let mut sequence = attn_cache::Sequence::new(&engine.pages);
        sequence.append(prompt.len()).expect("free");
        sequence.commit();
        sequence
    };
    let (mut one, mut two) = (start(&prompt), start(&prompt));
    assert_eq!(engine.pages.stats().used, 6);
    assert_eq!(one.cache(&engine.prefix, &Namespace::default(), &prompt).expect("written"), 0);
    assert_eq!(two.cache(&engine.prefix, &Namespace::default(), &prompt).expect("written"), 32);
    assert_eq!(one.page_ids()[..2], two.page_ids()[..2]);
    assert_ne!(one.page_ids()[2], two.page_ids()[2]);
    assert_eq!(engine.pages.stats().used, 4);
}

#[test]
fn a_match_stops_at_the_first_page_that_differs() {
    let engine = Engine::new(10, 16);
    drop(engine.run(&text(0, 4, &[])));
    let other = [text(0, 2, &[]), text(9, 1, &[]), text(3, 1, &[0])].concat();
    assert_eq!(engine.hit(&other), 32);
    assert_eq!(engine.hit(&text(1, 3, &[0])), 0, "a page is found behind its own prefix alone");
    assert_eq!(engine.hit(&[]), 0);
}

#[test]
fn a_prefix_matches_whether_its_pages_are_in_use_or_not() {
    let engine = Engine::new(10, 16);
    let held = engine.run(&text(0, 2, &[]));
    drop(engine.run(&text(0, 4, &[])));
    assert_eq!(engine.prefix.stats().protected, 32);
    assert_eq!(engine.hit(&text(0, 4, &[0])), 64);
    drop(held);
    assert_eq!(engine.hit(&text(0, 4, &[0])), 64);
}

#[test]
fn a_full_pool_cycles() {
    let engine = Engine::new(10, 16);
    for round in 0..20 {
        let request = engine.run(&text(round * 10, 10, &[]));
        assert_eq!((request.hit, engine.pages.stats().used), (0, 10));
    }
    assert_eq!(engine.pages.stats().evictable, 10);
}

#[test]
fn concurrent_requests_never_take_more_than_there_is() {
    let engine = Engine::new(40, 16);
    thread::scope(|scope| {
        for worker in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                for round in 0..200 {
                    let prompt = text((worker * 7 + round) % 13, 3, &[1; 5]);
                    let hit = engine.prefix.lookup(&Namespace::default(), &prompt);
                    let mut sequence = attn_cache::Sequence::with_prefix(&engine.pages, hit);
                    let n = prompt.len() - sequence.len();
                    // another thread may take what was reserved
                    let _ = engine.prefix.reserve(sequence.pages_needed(n));
                    if sequence.append(n).is_ok() {
                        sequence.commit();
                        sequence.cache(&engine.prefix, &Namespace::default(), &prompt).expect("written");
                    }
                }
            });
        }
    });
    engine.prefix.check().expect("sound");
    let stats = engine.pages.stats();
    assert_eq!((stats.used, stats.used * 16), (stats.evictable, engine.prefix.stats().tokens));
}
