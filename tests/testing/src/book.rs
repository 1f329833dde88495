//! The Rust blocks of README and the book, as doctests.

macro_rules! pages {
    ($($name:ident: $path:literal;)*) => {
        $(#[doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $path))] mod $name {})*
    };
}

pages! {
    readme: "README.md";
    introduction: "book/src/introduction.md";
    write_a_variant: "book/src/guide/write-a-variant.md";
    composition: "book/src/guide/composition.md";
    rust_text: "book/src/guide/rust-text.md";
    run: "book/src/guide/run.md";
    kv_caches: "book/src/guide/kv-caches.md";
    plan_and_run: "book/src/guide/plan-and-run.md";
    cascade: "book/src/guide/cascade.md";
    pages_and_prefixes: "book/src/guide/pages-and-prefixes.md";
    sampling: "book/src/guide/sampling.md";
    indexers: "book/src/guide/indexers.md";
    cuda_graphs: "book/src/guide/cuda-graphs.md";
    serving: "book/src/guide/serving.md";
    engine: "book/src/guide/engine.md";
    raw: "book/src/guide/raw.md";
    c: "book/src/guide/c.md";
    snapshots: "book/src/guide/snapshots.md";
    ahead_of_time: "book/src/guide/ahead-of-time.md";
    errors: "book/src/guide/errors.md";
    safety: "book/src/guide/safety.md";
    language: "book/src/reference/language.md";
}
