//! A build script of a user knows the stock variants and KV formats, and says what it does not know.

use attn::aot::{AotError, AotOptions, AotReport, build};
use attn::lang::{AttentionVariant, LogitIndex};
use attn::{VariantParams, attention_variant};

#[derive(Clone, VariantParams)]
struct Mine;

#[attention_variant(name = "mine_ahead_of_time")]
impl AttentionVariant for Mine {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos % 2 == 0
    }
}

/// Reads the expressions; without architectures nothing is compiled.
fn read(options: &AotOptions<'_>) -> Result<AotReport, AotError> {
    let dir = tempfile::tempdir().expect("a folder");
    build(&AotOptions { archs: Some(&[]), ..*options }, dir.path())
}

#[test]
fn stock_variants_and_formats_are_known() {
    let own = attn::variants![Mine];
    for expr in attn::stock::variants().iter().map(|desc| desc.name) {
        let known = read(&AotOptions { variants: own, expressions: &[expr], ..AotOptions::default() });
        let unknown = matches!(&known, Err(error) if error.to_string().contains("no variant"));
        assert!(!unknown, "{expr}: {known:?}");
    }
    let options = AotOptions {
        variants: own,
        expressions: &["causal + mine_ahead_of_time", "causal + rope"],
        kv_formats: &["int8 / int4(group=32)"],
        ..AotOptions::default()
    };
    assert_eq!(read(&options).expect("all are known").cubins, 0);
    // a user who adds the stock table himself
    let all = [attn::stock::variants(), own].concat();
    read(&AotOptions { variants: &all, ..options }).expect("a variant may be named twice");
}

#[test]
fn what_is_unknown_is_named() {
    let error = read(&AotOptions { expressions: &["causl"], ..AotOptions::default() }).expect_err("no such variant");
    let text = error.to_string();
    assert!(matches!(error, AotError::Expr { .. }) && text.contains("causl") && text.contains("`causal`"), "{text}");
    let error = read(&AotOptions { kv_formats: &["int9"], ..AotOptions::default() }).expect_err("no such format");
    assert!(error.to_string().contains("int9"), "{error}");
}
