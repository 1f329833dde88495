//! Prefix caching as vLLM's scheduler uses it.

use attn_cache::{CacheError, Namespace};

use crate::{Engine, text};

#[test]
fn a_prompt_is_found_while_it_runs_and_after_it_has_ended() {
    let engine = Engine::new(10, 16);
    let first = engine.run(&text(0, 3, &[3; 7]));
    assert_eq!((first.hit, first.sequence.page_ids()), (0, &[0, 1, 2, 3][..]));
    let second = engine.run(&text(0, 3, &[3; 5]));
    assert_eq!((second.hit, second.sequence.page_ids()), (48, &[0, 1, 2, 4][..]));
    assert!((0..3).all(|page| engine.pages.refs(page) == 3), "the tree and both requests");
    assert_eq!(engine.pages.stats().free, 5);
    drop((first, second));
    // pages that are not full are free at once, the others stay cached
    assert_eq!((engine.pages.stats().free, engine.pages.stats().evictable), (7, 3));
    let third = engine.run(&text(0, 3, &[3; 6]));
    assert_eq!((third.hit, third.sequence.page_ids().len()), (48, 4));
    drop(third);
    // a stranger that needs all pages evicts the cache
    let stranger = engine.run(&text(99, 10, &[]));
    assert_eq!((stranger.hit, engine.pages.stats().free), (0, 0));
    assert_eq!(engine.hit(&text(0, 3, &[3; 6])), 0);
}

#[test]
fn generated_tokens_fill_pages_that_later_prompts_find() {
    let engine = Engine::new(10, 16);
    let mut request = engine.run(&text(0, 3, &[3; 7]));
    // four tokens stay within the last page, nineteen more begin another two
    for (n, pages) in [(4, 4), (19, 5)] {
        request.sequence.append(n).expect("pages");
        request.sequence.commit();
        assert_eq!(request.sequence.page_ids().len(), pages);
    }
    let all = text(0, 3, &[3; 30]);
    request.sequence.cache(&engine.prefix, &Namespace::default(), &all).expect("written");
    assert_eq!(engine.hit(&[&all[..], &[1]].concat()), 64);
}

#[test]
fn a_fully_cached_prompt_computes_its_last_page_again() {
    let engine = Engine::new(10, 16);
    let prompt = text(0, 3, &[]);
    drop(engine.run(&prompt));
    let again = engine.run(&prompt);
    // a model needs one query at least, and pages are shared whole
    assert_eq!(again.hit, 32);
    // its copy of the third page has given way to the cached one
    assert_eq!((again.sequence.page_ids(), engine.pages.stats().used), (&[0, 1, 2][..], 3));
}

#[test]
fn tails_go_before_heads_and_the_least_recently_used_first() {
    let engine = Engine::new(10, 16);
    drop(engine.run(&text(0, 5, &[0; 3])));
    drop(engine.run(&text(100, 3, &[])));
    assert_eq!(engine.pages.stats().free, 2);
    // four pages: two are free, two come from the end of the older text
    let third = engine.run(&text(200, 4, &[]));
    assert_eq!((third.hit, engine.hit(&text(0, 5, &[0]))), (0, 48));
    assert_eq!(engine.hit(&text(100, 3, &[0])), 48);
}

#[test]
fn an_evicted_page_is_not_found_under_its_old_tokens() {
    let engine = Engine::new(1, 16);
    drop(engine.run(&text(0, 1, &[])));
    drop(engine.run(&text(1, 1, &[])));
    assert_eq!((engine.hit(&text(0, 1, &[5])), engine.hit(&text(1, 1, &[5]))), (0, 16));
}

#[test]
fn what_a_request_has_found_is_not_evicted_for_it() {
    let engine = Engine::new(4, 16);
    drop(engine.run(&text(0, 2, &[])));
    drop(engine.run(&text(50, 2, &[])));
    // it finds two pages and needs two more: those of the other text, not its own
    let request = engine.run(&text(0, 4, &[]));
    assert_eq!((request.hit, engine.hit(&text(50, 2, &[0]))), (32, 0));
}

#[test]
fn a_request_that_does_not_fit_changes_nothing() {
    let engine = Engine::new(10, 16);
    let running = engine.run(&text(0, 3, &[]));
    drop(engine.run(&text(0, 6, &[0; 3])));
    let (pages, prefix) = (engine.pages.stats(), engine.prefix.stats());
    assert_eq!((pages.free, pages.evictable), (4, 3));
    let refused = engine.admit(&Namespace::default(), &text(0, 11, &[])).err().expect("eight pages more");
    match refused {
        CacheError::OutOfPages(error) => assert_eq!((error.need, error.free, error.evictable), (5, 4, 0)),
        other => panic!("{other}"),
    }
    assert_eq!((engine.pages.stats(), engine.prefix.stats().tokens), (pages, prefix.tokens));
    assert_eq!(running.sequence.page_ids(), [0, 1, 2]);
    engine.prefix.check().expect("sound");
}

#[test]
fn salts_and_adapters_do_not_share() {
    let engine = Engine::new(20, 16);
    let prompt = text(0, 3, &[3; 11]);
    let (one, two) = (Namespace::default().with_salt("salt1"), Namespace::default().with_salt("salt2"));
    let hits = [&one, &one, &two, &one.clone().with_adapter(1)].map(|namespace| {
        let request = engine.admit(namespace, &prompt).expect("pages");
        request.hit
    });
    assert_eq!(hits, [0, 48, 0, 0]);
}

#[test]
fn a_reset_waits_for_requests_and_counts_hits() {
    let engine = Engine::new(10, 16);
    let running = engine.run(&text(0, 3, &[]));
    assert_eq!(engine.prefix.clear().tokens, 0, "a running request keeps its pages");
    drop(running);
    assert_eq!((engine.prefix.clear().tokens, engine.pages.stats().free), (48, 10));
    assert_eq!(engine.hit(&text(0, 3, &[1])), 0);
    let stats = engine.prefix.stats();
    assert_eq!((stats.asked, stats.found), (48 + 49, 0));
}

#[test]
fn a_window_gives_pages_back_while_the_request_runs() {
    let engine = Engine::new(8, 16);
    let mut sequence = attn_cache::Sequence::new(&engine.pages);
    for _ in 0..100 {
        sequence.append(16).expect("a window of three pages needs no more than five");
        sequence.commit();
        sequence.window(48, 0);
        assert!(engine.pages.stats().used <= 4);
    }
    drop(sequence);
    assert_eq!(engine.pages.stats().free, 8);
    engine.pages.check().expect("sound");
}
