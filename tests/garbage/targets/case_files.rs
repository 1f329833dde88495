//! Target: lines of case files (`attn check --cases`), as the harness reads them.

use attn_testing::{Case, case_variant};

use crate::harness::Seen;

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/cases");
    let entries = std::fs::read_dir(folder).expect("the case files");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).expect("text"));
    // a few lines of each file
    let few = |text: String| text.lines().step_by(9).take(3).collect::<Vec<_>>().join("\n").into_bytes();
    texts.map(few).filter(|text| text.len() < 4000).collect()
}

pub(crate) fn run(data: &[u8]) -> Seen {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let Ok(cases) = Case::parse_lines(&String::from_utf8_lossy(data)) else { return Seen::Refused };
    for case in &cases {
        let _ = (case.title(), case.dtypes(), case.check_cost(), case.kv_memory_tokens());
        let dims = case.dims();
        let small = [dims.qo_heads, dims.kv_heads, dims.head_dim, dims.value_dim, dims.batch];
        let tokens = [dims.qo_tokens, dims.kv_tokens];
        let fits = |sizes: &[Option<i64>], most| sizes.iter().flatten().all(|&size| size <= most);
        // what a check would allocate is the user's choice
        if fits(&small, 64) && fits(&tokens, 1 << 12) && case.sparse.is_none() {
            let _ = case_variant(case);
        }
        let text = serde_json::to_string(case).expect("plain data");
        let again = Case::parse_lines(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(serde_json::to_string(&again[0]).expect("plain data"), text);
    }
    if cases.is_empty() { Seen::Refused } else { Seen::Accepted }
}
