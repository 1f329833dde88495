//! Rows, parameter tensors, stores and arrays.

use super::*;

#[test]
fn row_reductions_in_divergent_code_are_refused() {
    for (body, refused) in [
        ("if self.flag { q.map(|_, x| x * 2.0); } else { q.rotate_half(8, |_| (1.0, 0.0)); }", 0),
        ("if at.qo_pos > 1 { q.map(|_, x| x * 2.0); }", 0),
        ("if at.qo_pos > 1 { q.rotate_half(8, |_| (1.0, 0.0)); }", 1),
        ("if at.qo_pos > 1 { return; } let s = q.sum(); q.map(|_, x| x - s);", 1),
        ("let c = self.n > 1; let n = if c { q.sum() } else { 1.0 }; q.map(|_, x| x - n);", 0),
    ] {
        let body: TokenStream = body.parse().expect("tokens");
        let found = errors(&quote!(fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) { #body }));
        assert_eq!(found.len(), refused, "{body}");
    }
}

#[test]
fn rows_combine_with_parameter_tensors() {
    let text = body(&quote!(
        fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
            let s = q.dot(|d| self.w[d]);
            q.zip(|d| self.t[[at.qo_head, d]], |d, x, t| x * t + s);
        }
    ));
    assert!(text.contains("const float s = q.dot([&](int d) -> float { return w_[d]; });"), "{text}");
    let zip = "q.zip([&](int d_2) -> float { return t_(at.qo_head, d_2); }, \
               [&](int d_2, float x, float t) -> float { return x * t + s; });";
    assert!(text.contains(zip), "{text}");
}

#[test]
fn parameter_tensors_have_up_to_four_indices() {
    let text = transform(&quote!(
        logit * self.scale.get()
            + self.a[at.kv_pos]
            + self.b[[at.qo_head, at.kv_pos]]
            + self.d[[at.batch, at.qo_head, at.qo_row, at.kv_pos - 1]]
    ));
    let want = "logit * scale_() + a_[at.kv_pos] + b_(at.qo_head, at.kv_pos) + \
                d_(at.batch, at.qo_head, at.qo_row, at.kv_pos - 1)";
    assert_eq!(text, format!("  return {want};"));
    let told = errors(&quote!(
        fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
            self.t[[1]] + self.t[[1, 2, 3, 4, 5]] + self.t.get(3)
        }
    ));
    assert_eq!(told.len(), 3);
    assert!(told[1].contains("rank 0 to 4") && told[2].contains("Tensor0"), "{told:?}");
}

#[test]
fn stores_are_allowed_in_hooks_that_run_once() {
    let text = transform(&quote!(
        if at.batch == 0 {
            self.dump.store([at.qo_head, at.qo_row, at.kv_pos], logit);
        }
        self.most.atomic_max(at.qo_head, logit);
        logit
    ));
    assert!(text.contains("    dump_.store(float(logit), at.qo_head, at.qo_row, at.kv_pos);\n"), "{text}");
    assert!(text.contains("  most_.atomic_max(float(logit), at.qo_head);\n"), "{text}");
    let told = errors(&quote!(
        fn logits_mask(&self, at: LogitIndex) -> bool {
            self.dump.store(at.kv_pos, 1.0);
            self.dump.store(1.0);
            true
        }
    ));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().any(|t| t.contains("any number of times")), "{told:?}");
    let item = quote!(impl AttentionVariant for X {
        fn sink_logit(&self, at: RowIndex) -> f32 { self.dump.store([at.qo_row, at.qo_head], 1.0); 0.0 }
    });
    assert!(expand(TokenStream::new(), item).to_string().contains("stores : true"));
}

#[test]
fn array_indices_must_be_provably_in_range() {
    let text = transform(&quote!(
        let table = [1.0, 0.5, 0.25, self.x];
        let mut sums = [0; 4];
        for i in 0..4 {
            sums[i] += at.kv_pos >> i as i32;
            sums[3 - i] ^= 1;
        }
        table[(at.qo_head & 3) as usize] * logit + table[at.kv_pos.rem_euclid(4) as usize] + sums[1] as f32
    ));
    for part in [
        "const Array<float, 4> table = array_of<float>(1.0f, 0.5f, 0.25f, x_);",
        "Array<int, 4> sums = repeat<4>(0);",
        "for (int i = 0; i < 4; ++i) {",
        "sums.set(i, add(sums[i], shr(at.kv_pos, i)));",
        "sums.set(3 - i, sums[3 - i] ^ 1);",
        "table[at.qo_head & 3] * logit + table[rem_euclid(at.kv_pos, 4)] + float(sums[1])",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    let told = errors(&quote!(
        fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
            let table = [1.0, 2.0];
            let mut k = 0;
            k += 1;
            table[at.qo_head as usize]
                + table[(at.kv_pos % 2) as usize]
                + table[2]
                + table[k]
                + table[self.n as usize]
                + table[at.qo_head.clamp(0, 1) as usize]
                + table[(self.n.min(5) & 1) as usize]
        }
    ));
    assert_eq!(told.len(), 6, "{told:?}");
    assert!(told.iter().any(|t| t.contains("there is no element 2")), "{told:?}");
}
