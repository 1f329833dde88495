//! Expand, then look: the whole text of stock variants is in `tests/tests/snapshots`.

use quote::quote;

use super::*;

/// The text of one hook's body, a line each, without head and `#line`.
fn body(hook: &TokenStream) -> String {
    let item = syn::parse2(quote!(impl AttentionVariant for X { #hook })).expect("an impl");
    let hooks = hooks(&item).unwrap_or_else(|report| panic!("{}", report.into_tokens()));
    let lines: Vec<&str> = hooks[0].cuda.lines().filter(|l| !l.starts_with('#')).collect();
    lines[1..lines.len() - 1].join("\n")
}

fn transform(body_tokens: &TokenStream) -> String {
    body(&quote!(fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 { #body_tokens }))
}

fn mask(body_tokens: &TokenStream) -> String {
    body(&quote!(fn logits_mask(&self, at: LogitIndex) -> bool { #body_tokens }))
}

/// What the macros say of an impl, a sentence each.
fn errors(hooks_tokens: &TokenStream) -> Vec<String> {
    let item = syn::parse2(quote!(impl AttentionVariant for X { #hooks_tokens })).expect("an impl");
    match hooks(&item) {
        Ok(_) => Vec::new(),
        Err(report) => {
            let text = report.into_tokens().to_string();
            text.split("compile_error").skip(1).map(str::to_owned).collect()
        }
    }
}

#[test]
fn the_expansion_keeps_the_item_and_adds_the_carrier() {
    let tokens = expand(
        quote!(name = "cap"),
        quote!(impl AttentionVariant for SoftCap { fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 { logit / self.cap } }),
    );
    let text = prettyplease::unparse(&syn::parse2(tokens).expect("items"));
    for part in [
        "impl AttentionVariant for SoftCap {",
        "name: \"cap\"",
        "type_name: \"SoftCap\"",
        "hook: ::attn::lang::Hook::LogitsTransform",
        "return logit / cap_;",
        "<SoftCap as ::attn::lang::VariantParams>::FIELDS",
        "type Normalizer = ::attn::lang::compose::Keeps;",
        "::attn::__private::submit!(SoftCap)",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn without_a_name_it_is_the_type_in_snake_case() {
    let tokens = expand(TokenStream::new(), quote!(impl AttentionVariant for my::QKNorm2D {}));
    assert!(tokens.to_string().contains("name : \"qk_norm2_d\""), "{tokens}");
}

#[test]
fn refused_items_are_kept_too() {
    for item in [
        quote!(impl AttentionVariant for X { fn wrong(&self) {} }),
        quote!(
            struct X;
        ),
        quote!(not rust at all),
    ] {
        let text = expand(TokenStream::new(), item.clone()).to_string();
        assert!(text.starts_with(&item.to_string()), "{text}");
        assert!(text.contains("compile_error"), "{text}");
    }
}

#[test]
fn a_normaliser_of_its_own_is_told_to_compositions() {
    let tokens = expand(
        TokenStream::new(),
        quote!(impl AttentionVariant for X {
            const NORMALIZER: Normalizer = Normalizer::Plain { divide: false };
            fn weight(&self, logit: f32, _m: f32, _at: LogitIndex) -> f32 { logit.max(0.0) }
        }),
    );
    assert!(tokens.to_string().contains("type Normalizer = :: attn :: lang :: compose :: ReplacesPlain"), "{tokens}");
}

#[test]
fn integers_get_plain_operators_only_where_nothing_overflows() {
    assert_eq!(mask(&quote!(at.qo_pos - at.kv_pos < self.window)), "  return at.qo_pos - at.kv_pos < window_;");
    assert_eq!(mask(&quote!(at.kv_pos + self.window > 0)), "  return add(at.kv_pos, window_) > 0;");
    assert_eq!(mask(&quote!(at.kv_pos * 2 > at.qo_pos)), "  return at.kv_pos * 2 > at.qo_pos;");
    assert_eq!(mask(&quote!(at.kv_pos * 3 > at.qo_pos)), "  return mul(at.kv_pos, 3) > at.qo_pos;");
    assert_eq!(mask(&quote!(at.kv_pos / 64 == at.qo_pos / 64)), "  return at.kv_pos / 64 == at.qo_pos / 64;");
    assert_eq!(mask(&quote!(at.kv_pos % self.n == 0)), "  return rem_by(at.kv_pos, n_div_) == 0;");
    assert_eq!(mask(&quote!(self.a + self.b == 1u32)), "  return a_ + b_ == 1u;");
    assert_eq!(mask(&quote!(self.a + self.b == self.c)), "  return add(a_, b_) == c_;");
}

#[test]
fn parentheses_are_where_the_two_languages_differ() {
    assert_eq!(transform(&quote!(logit - (1.0 - self.a) * 2.0)), "  return float(logit) - (1.0f - a_) * 2.0f;");
    assert_eq!(transform(&quote!(-(-logit))), "  return -(-float(logit));");
    assert_eq!(mask(&quote!(at.kv_pos & 3 == 1 || self.a && self.b)), "  return (at.kv_pos & 3) == 1 || (a_ && b_);");
    assert_eq!(mask(&quote!((at.kv_pos == 1) == self.flag)), "  return (at.kv_pos == 1) == flag_;");
}

#[test]
fn a_logit_and_a_distance_meet_factors_before_they_are_floats() {
    assert_eq!(transform(&quote!(self.cap * (logit / self.cap).tanh())), "  return cap_ * tanh(logit / cap_);");
    assert_eq!(transform(&quote!(self.a * logit + logit)), "  return a_ * logit + float(logit);");
    assert_eq!(transform(&quote!(logit * logit)), "  return logit * float(logit);");
    assert_eq!(transform(&quote!(1.0 / logit)), "  return 1.0f / float(logit);");
    let distance = transform(&quote!(logit.max((at.kv_pos - at.qo_pos) as f32)));
    assert_eq!(distance, "  return max(float(logit), float(at.kv_pos_minus(at.qo_pos)));");
    let text = transform(&quote!(logit * self.slopes[at.qo_head] * (at.qo_pos - at.kv_pos) as f32));
    assert_eq!(text, "  return logit * slopes_[at.qo_head] * -at.kv_pos_minus(at.qo_pos);");
    // what may wrap has to
    let text = transform(&quote!(logit * (at.kv_pos - self.n) as f32));
    assert_eq!(text, "  return logit * float(sub(at.kv_pos, n_));");
}

/// What is added to a logit, told apart.
fn bias(body: &TokenStream) -> String {
    let item =
        quote!(impl AttentionVariant for X { fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 { #body } });
    let variant =
        read(&TokenStream::new(), &syn::parse2(item).expect("an impl")).unwrap_or_else(|_| panic!("accepted"));
    variant.bias.lines().skip(2).map(str::trim).filter(|line| *line != "}").collect::<Vec<_>>().join(" ")
}

#[test]
fn a_transform_that_only_adds_is_known_by_what_it_adds() {
    assert_eq!(
        bias(&quote!(logit + self.slopes[at.qo_head] * (at.kv_pos - at.qo_pos) as f32)),
        "return KeyTerm(slopes_[at.qo_head], at.kv_pos_minus(at.qo_pos));"
    );
    assert_eq!(bias(&quote!(self.b[at.kv_pos] + logit)), "return float(b_[at.kv_pos]);");
    assert_eq!(bias(&quote!(let d = self.b[at.kv_pos]; logit - d)), "const float d = b_[at.kv_pos]; return -float(d);");
    for more in [
        quote!(logit),
        quote!(self.a - logit),
        quote!(logit + logit.abs()),
        quote!(let x = logit; logit + x),
        quote!(if at.kv_pos > 3 { return 0.0; } logit + 1.0),
        quote!(self.out.store(at.kv_pos, 1.0); logit + 1.0),
    ] {
        assert_eq!(bias(&more), "", "{more}");
    }
}

/// What a transformed logit is said not to exceed.
fn bound(body: &TokenStream) -> String {
    let item =
        quote!(impl AttentionVariant for X { fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 { #body } });
    let variant =
        read(&TokenStream::new(), &syn::parse2(item).expect("an impl")).unwrap_or_else(|_| panic!("accepted"));
    variant.bound.lines().skip(2).map(str::trim).filter(|line| *line != "}").collect::<Vec<_>>().join(" ")
}

#[test]
fn a_transform_with_a_bound_is_known_by_it() {
    assert_eq!(
        bound(&quote!(let inv = 1.0 / self.cap; self.cap * (logit * inv).tanh())),
        "return bound::magnitude(bound::mul(bound::one(cap_), bound::within(1.0f)));"
    );
    assert_eq!(
        bound(&quote!(let most = 2.0 * self.a; let lost = self.b; let x = logit + lost; x.clamp(-most, most))),
        "const float most = 2.0f * a_; \
         return bound::magnitude(bound::either(bound::one(-most), bound::one(most)));"
    );
    for more in [
        quote!(logit),
        quote!(logit.min(self.a)),
        quote!(self.a[at.qo_head] * logit.tanh()),
        quote!(let mut x = logit.tanh(); x += logit; x),
        quote!(if at.kv_pos > 3 { return logit; } logit.tanh()),
        // NaN gives way to the other operand, which may be of any size
        quote!(logit.tanh().min(logit.max(0.0))),
    ] {
        assert_eq!(bound(&more), "", "{more}");
    }
}

#[test]
fn literals_are_exact() {
    let text = transform(&quote!(logit * 0.1 + 1e-45 + 16777217.0 + f32::MAX + 3 as f32));
    assert_eq!(text, "  return logit * 0.1f + 1e-45f + 16777216.0f + 3.4028235e38f + 3.0f;");
    assert_eq!(transform(&quote!(f32::from_bits(0xdead_beef))), "  return from_bits(3735928559u);");
    assert_eq!(mask(&quote!(at.kv_pos > -2147483648)), "  return at.kv_pos > I32_MIN;");
}

#[test]
fn names_of_c_plus_plus_and_of_the_language_are_evaded() {
    let text = transform(&quote!(
        let int = logit;
        let max = int.max(self.max);
        let cap_ = max;
        cap_
    ));
    assert_eq!(
        text,
        "  const float int_2 = float(logit);\n  const float max_2 = max(int_2, max_);\n  const float cap = max_2;\n  return cap;"
    );
}

#[test]
fn shadowing_renames_and_scopes_free_names() {
    let text = transform(&quote!(
        let x = logit;
        let x = x + 1.0;
        if self.flag {
            let y = x;
            return y;
        }
        let y = x;
        y
    ));
    assert!(text.contains("const float x_2 = x + 1.0f;"), "{text}");
    assert!(text.ends_with("const float y = x_2;\n  return y;"), "{text}");
}

#[test]
fn a_row_index_is_the_logit_index_without_its_key() {
    assert_eq!(mask(&quote!(at.row.qo_pos == (*at).qo_row)), "  return at.qo_pos == at.qo_row;");
}

#[test]
fn every_error_of_an_impl_is_reported() {
    let found = errors(&quote!(
        fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
            let x = &logit;
            println!("{x}");
            logit.tanhh() + unknown
        }
        fn logits_maks(&self, at: LogitIndex) -> bool {
            true
        }
    ));
    assert_eq!(found.len(), 5, "{found:#?}");
    for (text, part) in found.iter().zip(["references", "macros", "`tanh`", "`unknown`", "`logits_mask`"]) {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn rows_are_reduced_where_all_lanes_are() {
    let query =
        |body: &TokenStream| errors(&quote!(fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) { #body }));
    assert!(
        query(&quote!(if self.flag {
            q.map(|_, x| x * 2.0);
        } else {
            q.rotate_half(8, |_| (1.0, 0.0));
        }))
        .is_empty()
    );
    assert!(
        query(&quote!(if at.qo_pos > 1 {
            q.map(|_, x| x * 2.0);
        }))
        .is_empty()
    );
    assert_eq!(
        query(&quote!(if at.qo_pos > 1 {
            q.rotate_half(8, |_| (1.0, 0.0));
        }))
        .len(),
        1
    );
    assert_eq!(query(&quote!(if at.qo_pos > 1 { return; } let s = q.sum(); q.map(|_, x| x - s);)).len(), 1);
    assert_eq!(
        query(&quote!(let c = self.n > 1; let n = if c { q.sum() } else { 1.0 }; q.map(|_, x| x - n);)).len(),
        0
    );
}

#[test]
fn a_return_inside_a_value_is_refused() {
    let found = errors(&quote!(
        fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
            logit
                + if self.flag {
                    return 1.0;
                } else {
                    2.0
                }
        }
    ));
    assert_eq!(found.len(), 1, "{found:#?}");
}

#[test]
fn a_loop_from_anywhere_has_no_bound() {
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
fn the_bound_of_a_loop_is_computed_once_under_a_name_of_its_own() {
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
fn a_variable_is_apart_from_those_inside_its_value() {
    let text = transform(&quote! {
        let x: f32 = if self.flag { let mut x = logit; x += 1.0; x } else { 2.0 };
        x
    });
    assert!(text.starts_with("  float x_2;\n") && text.ends_with("return x_2;"), "{text}");
}

#[test]
fn a_loop_may_end_at_the_largest_value() {
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
fn comments_and_files_stay_on_their_line() {
    use crate::names::{comment, file_literal};
    assert_eq!(comment("/// a \\ \\ "), "/// a");
    assert_eq!(comment("/// a\rint b; \u{b} ??/"), "/// a int b;   ?/");
    assert_eq!(file_literal("a\"\\\n#error é.rs"), "\"a___#error _.rs\"");
}

#[test]
fn division_by_a_parameter_is_prepared() {
    assert_eq!(mask(&quote!(at.kv_pos / self.n > 3)), "  return div_by(at.kv_pos, n_div_) > 3;");
    let text = mask(&quote!(at.qo_pos.rem_euclid(self.n) == (at.kv_pos - 1).div_euclid(self.N)));
    assert_eq!(text, "  return rem_euclid_by(at.qo_pos, n_div_) == div_euclid_by(at.kv_pos - 1, N_p_div_);");
    let text = mask(&quote!(
        let block = self.block;
        let mut i = at.kv_pos;
        i /= block;
        i %= self.n;
        i == at.qo_pos / block
    ));
    for part in ["i = div_by(i, block_div_);", "i = rem_by(i, n_div_);", "i == div_by(at.qo_pos, block_div_)"] {
        assert!(text.contains(part), "{text}");
    }
    // f32 divides as it is; what is not seen is left to C++
    assert_eq!(transform(&quote!(logit / self.cap)), "  return logit / cap_;");
    assert_eq!(transform(&quote!(logit * (self.a / self.b))), "  return logit * (a_ / b_);");
    assert_eq!(mask(&quote!(self.a / self.b > self.c)), "  return div_by(a_, b_div_) > c_;");
    let desc = |body: TokenStream| {
        let item = quote!(impl AttentionVariant for X { fn logits_mask(&self, at: LogitIndex) -> bool { #body } });
        expand(TokenStream::new(), item).to_string()
    };
    let text = desc(quote!(at.kv_pos / self.b == at.qo_pos % self.r#a));
    assert!(text.contains(r#"divisors : & ["a" , "b"] , stores : false"#), "{text}");
}

#[test]
fn captured_tensors_have_up_to_four_indices() {
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
fn outputs_are_stored_to_where_hooks_run_once() {
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
fn random_numbers_count() {
    let text = transform(&quote!(if random::uniform(self.seed, 0, at.qo_token as u32, at.kv_pos as u32) < self.p {
        0.0
    } else {
        logit
    }));
    assert!(text.contains("random_uniform(seed_, 0u, u32(at.qo_token), u32(at.kv_pos)) < p_"), "{text}");
    let told = errors(&quote!(
        fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
            attn::random::normal(1, 2, 3, 4) + random::uniform(1)
        }
    ));
    assert!(told.len() == 2 && told.iter().all(|t| t.contains("random::bits")), "{told:?}");
}

#[test]
fn rows_meet_tables() {
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
fn pairs_of_bounds() {
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

#[test]
fn arrays_have_a_fixed_length_and_indices_that_stay_inside() {
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

#[test]
fn helpers_are_generic_over_constants() {
    let text = crate::device_fn::expand(
        TokenStream::new(),
        quote!(
            fn power<const N: i32, const FAST: bool>(x: f32) -> f32 {
                let mut y = 1.0;
                for _ in 0..N {
                    y *= x;
                }
                if FAST { y } else { y + LIMIT }
            }
        ),
    )
    .to_string();
    for part in [
        "template <int N_, bool FAST_> static ATTN_FN float power_fn(float x)",
        "i < N_",
        "FAST_ ? y : y + power_LIMIT_",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    let text = transform(&quote!(
        helpers::power::<4, true>(logit) + helpers::power::<{ LIMIT }, FAST>(logit) + power2::<-1>(logit)
    ));
    assert_eq!(
        text,
        "  return power_fn<4, true>(float(logit)) + power_fn<LIMIT_, FAST_>(float(logit)) + power2_fn<-1>(float(logit));"
    );
    let told = errors(&quote!(
        fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
            power::<{ 1 + 2 }>(logit)
        }
    ));
    assert!(told.len() == 1 && told[0].contains("helper::<4>"), "{told:?}");
}

#[test]
fn generic_variants_list_their_instances() {
    let item = quote!(
        impl<const N: i32, const E: bool> AttentionVariant for Windowed<N, E> {
            fn logits_mask(&self, at: LogitIndex) -> bool {
                at.kv_pos < N * Self::SCALE && E
            }
        }
    );
    let text = expand(quote!(name = "windowed", instances((4, true), (-8, false))), item.clone()).to_string();
    for part in [
        r#"name : "windowed_4_true""#,
        r#"name : "windowed_m8_false""#,
        "const N : i32 = - 8 ;",
        "const E : bool = false ;",
        "for Windowed < N , E >",
        "HookConst :: value (Windowed :: < N , E > :: SCALE)",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    let told = |attr: TokenStream, item: TokenStream| {
        let text = expand(attr, item).to_string();
        text.split("compile_error").skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(told(TokenStream::new(), item.clone())[0].contains("lists its instances"));
    assert!(told(quote!(instances(4)), item.clone())[0].contains("2 constant(s)"));
    assert!(told(quote!(instances((4, X))), item)[0].contains("numbers and bools"));
    assert!(told(quote!(instances(4)), quote!(impl AttentionVariant for X {}))[0].contains("only a variant"));
    assert!(
        told(
            quote!(instances(4)),
            quote!(
                impl<T> AttentionVariant for X<T> {}
            )
        )[0]
        .contains("constants only")
    );
}

#[test]
fn structs_are_made_field_by_field_in_the_order_that_they_are_written() {
    assert_eq!(
        transform(&quote!(let line = Line { slope: logit, double: self.b }; line.slope * line.double)),
        "  const Line_type line = Line_type{}.with_slope(float(logit)).with_double_(b_);\n  \
         return line.slope * line.double_;"
    );
    assert_eq!(
        transform(&quote!(let a: Line = line(logit); let mut b = Line { bias: 0.0, ..a }; b.slope += 1.0; b.slope)),
        "  const Line_type a = line_fn(float(logit));\n  Line_type b = a.with_bias(0.0f);\n  \
         b = b.with_slope(b.slope + 1.0f);\n  return b.slope;"
    );
    assert_eq!(
        transform(&quote!(let At(x, y) = at_of(logit); x + y + at_of(logit).0 + line(logit).slope)),
        "  const At_type whole = at_of_fn(float(logit));\n  const float x = whole.x;\n  const float y = whole.y;\n  \
         return x + y + at_of_fn(float(logit)).x + line_fn(float(logit)).slope;"
    );
    assert_eq!(
        transform(&quote!(let lines = [Line { slope: 1.0 }; 2]; lines[1].slope)),
        "  const Array<Line_type, 2> lines = repeat<2>(Line_type{}.with_slope(1.0f));\n  return lines[1].slope;"
    );
}

#[test]
fn enums_are_matched_compared_and_cast() {
    assert_eq!(
        transform(&quote!(let m = mode(at.kv_pos); match m { Mode::Near => 1.0, Mode::Far | Mode::OFF => 2.0 })),
        "  const Mode_type m = mode_fn(at.kv_pos);\n  if (m == Mode_type::Near) {\n    return 1.0f;\n  } else {\n    \
         return 2.0f;\n  }"
    );
    assert_eq!(
        transform(
            &quote!(let m: modes::Mode = mode(at.kv_pos); if m == modes::Mode::Near { m as u32 as f32 } else { (m as u8) as f32 })
        ),
        "  const Mode_type m = mode_fn(at.kv_pos);\n  \
         return m == Mode_type::Near ? float(u32(m)) : float(u8(m));"
    );
}

#[test]
fn types_are_linked_by_path_once_under_the_name_that_the_hook_uses() {
    let tokens = expand(
        TokenStream::new(),
        quote!(impl AttentionVariant for X {
            fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
                let line: shapes::Line = line(logit);
                let m = Mode::Near;
                if m == Mode::Far { line.slope } else { logit }
            }
        }),
    );
    let text = tokens.to_string().replace(' ', "");
    for part in [
        "TypeLink{name:\"Line_type\",ty:<shapes::Lineas::attn::lang::DeviceType>::DESC}",
        "name:\"Mode_type\",ty:{::attn::lang::device_type::compared::<Mode>();<Modeas::attn::lang::DeviceType>::DESC}",
    ] {
        assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
    }
    let none = expand(TokenStream::new(), quote!(impl AttentionVariant for X {})).to_string().replace(' ', "");
    assert!(none.contains("types:&[]"), "{none}");
}

#[test]
fn what_types_of_ones_own_cannot_do_is_said() {
    let said = |body: TokenStream, want: &str| {
        let errors = errors(&quote!(fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 { #body }));
        assert!(errors.len() == 1 && errors[0].contains(want), "{body}: {errors:?}");
    };
    said(quote!(let x = a::Line { s: 1.0 }; let y = b::Line { s: 1.0 }; 1.0), "two types are called `Line`");
    said(quote!(let x = std::ops::Range { start: 0i32, end: 1i32 }; x.start as f32), messages::STRUCT);
    said(quote!(let x = Shape::Line { a: 1.0 }; 1.0), messages::STRUCT);
    said(quote!(let x = Some(1.0); 1.0), messages::CALL_TYPE);
    said(quote!(let x = Line { a: 1.0 }; x.length()), messages::METHOD_OF_TYPE);
    said(quote!(Line::new(1.0)), messages::CALL_SELF);
    said(quote!(let m: Mode = mode(3); match m { Near => 1.0, _ => 2.0 }), messages::BARE_VARIANT);
    said(quote!(let m = Near; 1.0), messages::BARE_VARIANT);
    said(quote!(let mut l = line(3); l.slope = 1.0; 1.0), messages::UNSEEN_STRUCT);
    said(quote!(self.line.slope = 1.0; 1.0), messages::SELF_ASSIGN);
    said(quote!(let x: Option<f32> = none(); 1.0), messages::TYPE);
}

#[test]
fn words_of_a_request_that_key_hooks_read_are_told() {
    let words = |hooks: TokenStream| {
        let item = syn::parse2(quote!(impl AttentionVariant for X { #hooks })).expect("an impl");
        read(&TokenStream::new(), &item).map(|variant| variant.kv_words).unwrap_or_else(|_| panic!("refused"))
    };
    let rope = quote!(
        fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
            k.map(|_, x| x * at.kv_pos as f32);
        }
    );
    assert_eq!(words(rope), [""; 0]);
    let inside = quote!(
        fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
            k.map(|_, x| if at.kv_len > 3 { x } else { x * at.batch as f32 });
        }
    );
    assert_eq!(words(inside), ["batch", "kv_len"]);
    let renamed = quote!(
        fn value_transform<R: Row>(&self, v: &mut R, at: KvIndex) {
            let here = at.kv_token;
            v.map(|_, x| x * here as f32);
        }
    );
    assert_eq!(words(renamed), ["kv_token"]);
    let whole = quote!(
        fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
            let scale = helper(at);
            k.map(|_, x| x * scale);
        }
    );
    assert_eq!(words(whole), ["batch", "kv_token", "kv_len"]);
    let mask = quote!(
        fn logits_mask(&self, at: LogitIndex) -> bool {
            at.kv_len > at.batch
        }
    );
    assert_eq!(words(mask), [""; 0]);
    assert_eq!(
        words(quote!(
            fn remap_kv_pos(&self, at: KvIndex) -> i32 {
                at.kv_pos - at.kv_len
            }
        )),
        ["kv_len"]
    );
}
