//! Branches, loops and returns.

use super::*;

#[test]
fn loop_from_an_unknown_start_has_no_index_interval() {
    let text = transform(&quote!(
        let mut x = logit;
        for i in self.low..5 {
            x += (i + 7) as f32;
        }
        for i in 0..5 {
            x += (i + 7) as f32;
        }
        x
    ));
    assert!(text.contains("x += float(add(i, 7));"), "{text}");
    assert!(text.contains("x += float(i + 7);"), "{text}");
}

#[test]
fn loop_bound_is_evaluated_once() {
    let text = transform(&quote!(
        let mut n: i32 = 0;
        for _ in 0..n + 3 {
            n += 1;
        }
        for _ in 0..n + 3 {
            n += 1;
        }
        logit
    ));
    assert!(text.contains("const int end = add(n, 3);"), "{text}");
    assert!(text.contains("const int end_2 = add(n, 3);"), "{text}");
}

#[test]
fn inclusive_loop_may_end_at_the_largest_value() {
    let text = transform(&quote! {
        let mut s: u32 = 0;
        for i in 250..=255u8 { s += i as u32; }
        for i in 0..=9 { s += i as u32; }
        s as f32
    });
    assert!(text.contains("step.x != end ? void(++step.x) : void(step.y = false)"), "{text}");
    assert!(text.contains("for (int i = 0; i <= 9; ++i) {"), "{text}");
}

#[test]
fn kv_range_returns_a_pair() {
    let item = quote!(impl AttentionVariant for X {
        fn logits_mask(&self, at: LogitIndex) -> bool { at.kv_pos < self.n }
        fn kv_range(&self, tile: QueryTile) -> (i32, i32) { (0, self.n.min(tile.kv_len)) }
    });
    let made = hooks(&syn::parse2(item).expect("an impl")).expect("no errors");
    assert!(made[1].cuda.contains("Tuple2<int, int> kv_range(QueryTile tile) const {"), "{}", made[1].cuda);
    assert!(made[1].cuda.contains("return tuple(0, min(n_, tile.kv_len));"), "{}", made[1].cuda);
    let told = errors(&quote!(
        fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
            (0, tile.qo_row_max)
        }
    ));
    assert!(told.len() == 1 && told[0].contains("promises"), "{told:?}");
}
