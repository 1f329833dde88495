//! A radix cache as SGLang uses it.

use attn_cache::{Hit, Namespace, PageRef, Token};

use crate::Engine;

fn insert(engine: &Engine, tokens: &[Token]) -> Vec<i32> {
    let pages = engine.pages.alloc(tokens.len() / engine.pages.page_size()).expect("free");
    let inserted = engine.prefix.insert(&Namespace::default(), tokens, &pages).expect("sound");
    assert!(inserted.lock.tokens() <= tokens.len());
    pages.iter().map(PageRef::id).collect()
}

/// Looks all tokens up, which need one more behind them.
fn find(engine: &Engine, tokens: &[Token]) -> Hit {
    engine.prefix.lookup(&Namespace::default(), &[tokens, &[Token::MAX]].concat())
}

fn ids(hit: &Hit) -> Vec<i32> {
    hit.pages.ids().to_vec()
}

#[test]
fn inserted_prefixes_match_whole_and_in_part() {
    let engine = Engine::new(8, 1);
    let pages = insert(&engine, &[1, 2, 3]);
    assert_eq!(ids(&find(&engine, &[1, 2, 3])), pages);
    assert_eq!(ids(&find(&engine, &[1, 2])), pages[..2]);
    let stats = engine.prefix.stats();
    assert_eq!((stats.tokens, stats.evictable, stats.protected), (3, 3, 0));
    insert(&engine, &[4, 5]);
    assert_eq!(engine.prefix.stats().tokens, 5);
    let _ = engine.prefix.clear();
    assert_eq!((engine.prefix.stats().tokens, engine.pages.stats().used), (0, 0));
}

#[test]
fn matches_end_at_pages() {
    for (page_size, len) in [(1, 5), (2, 5), (4, 6), (3, 2)] {
        let engine = Engine::new(8, page_size);
        let tokens: Vec<Token> = (0..len).collect();
        insert(&engine, &tokens);
        let whole = len as usize / page_size * page_size;
        assert_eq!((find(&engine, &tokens).tokens, engine.prefix.stats().tokens), (whole, whole));
    }
}

#[test]
fn branches_split_nodes_and_lose_nothing() {
    for page_size in [1, 2] {
        let engine = Engine::new(16, page_size);
        let long = [1, 2, 3, 4, 5, 6, 7, 8];
        let pages = insert(&engine, &long);
        insert(&engine, &[1, 2, 9, 10]);
        assert_eq!(engine.prefix.stats().tokens, 10);
        // splits within nodes change no counts and no pages
        for cut in [4, 6, 2, 8] {
            let hit = find(&engine, &[&long[..cut], &[77, 78]].concat());
            assert_eq!((hit.tokens, ids(&hit)), (cut, pages[..cut / page_size].to_vec()));
            assert_eq!((engine.prefix.stats().tokens, engine.prefix.stats().protected), (10, cut));
            engine.prefix.check().expect("sound");
        }
        assert_eq!(find(&engine, &[1, 2, 9, 10]).tokens, 4);
    }
}

#[test]
fn locks_move_tokens_between_evictable_and_protected() {
    let engine = Engine::new(8, 1);
    insert(&engine, &[1, 2, 3]);
    let (first, second) = (find(&engine, &[1, 2, 3]), find(&engine, &[1]));
    let stats = || (engine.prefix.stats().evictable, engine.prefix.stats().protected);
    assert_eq!(stats(), (0, 3));
    drop(first);
    assert_eq!(stats(), (2, 1));
    drop(second);
    assert_eq!(stats(), (3, 0));
}

#[test]
fn eviction_frees_leaves_and_never_what_is_locked() {
    let engine = Engine::new(8, 1);
    insert(&engine, &[1, 2]);
    insert(&engine, &[3, 4]);
    assert_eq!(engine.prefix.evict(2).freed, 2);
    assert_eq!((find(&engine, &[1, 2]).tokens, find(&engine, &[3, 4]).tokens), (0, 2));
    let locked = find(&engine, &[3]);
    assert_eq!(engine.prefix.evict(100).freed, 1);
    assert_eq!((engine.prefix.stats().tokens, find(&engine, &[3]).tokens), (1, 1));
    drop(locked);
    assert_eq!(engine.prefix.evict(100).freed, 1);
}

#[test]
fn an_unfinished_request_is_cached_chunk_by_chunk() {
    let engine = Engine::new(16, 2);
    let prompt: Vec<Token> = (0..12).collect();
    let mut sequence = attn_cache::Sequence::new(&engine.pages);
    for chunk in [5, 4, 3] {
        sequence.append(chunk).expect("free");
        sequence.commit();
        let done = sequence.len();
        sequence.cache(&engine.prefix, &Namespace::default(), &prompt[..done]).expect("written");
        assert_eq!(engine.prefix.stats().protected, done / 2 * 2, "one lock, on all that is cached");
        engine.prefix.check().expect("sound");
    }
    assert_eq!(find(&engine, &prompt).tokens, 12);
}

#[test]
fn repeated_tokens_are_different_pages() {
    let engine = Engine::new(8, 2);
    let pages = insert(&engine, &[1, 2, 1, 2, 1, 2]);
    assert_eq!(ids(&find(&engine, &[1, 2, 1, 2, 1, 2])), pages);
    assert_eq!(ids(&find(&engine, &[1, 2, 1, 2, 3, 3])), pages[..2]);
}

#[test]
fn memory_of_many_texts_with_one_prefix_is_that_of_one() {
    let engine = Engine::new(2000, 16);
    let shared: Vec<Token> = (0..1600).collect();
    for tail in 0..100 {
        drop(engine.run(&[&shared[..], &[tail; 33]].concat()));
    }
    assert_eq!(engine.pages.stats().used, 100 + 100 * 2);
}
