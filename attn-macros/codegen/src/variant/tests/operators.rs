//! Operators, literals, division and random numbers as C++.

use super::*;

#[test]
fn plain_integer_operators_only_without_overflow() {
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
fn parentheses_follow_the_precedence_of_cpp() {
    assert_eq!(transform(&quote!(logit - (1.0 - self.a) * 2.0)), "  return float(logit) - (1.0f - a_) * 2.0f;");
    assert_eq!(transform(&quote!(-(-logit))), "  return -(-float(logit));");
    assert_eq!(mask(&quote!(at.kv_pos & 3 == 1 || self.a && self.b)), "  return (at.kv_pos & 3) == 1 || (a_ && b_);");
    assert_eq!(mask(&quote!((at.kv_pos == 1) == self.flag)), "  return (at.kv_pos == 1) == flag_;");
    assert_eq!(transform(&quote!(logit - (self.a - self.b))), "  return float(logit) - (a_ - b_);");
    assert_eq!(transform(&quote!(logit / (self.a * self.b))), "  return logit / (a_ * b_);");
    let guards = quote!(match at.kv_pos {
        1 if self.a || self.b => true,
        2 | 3 if self.c => false,
        _ => self.a,
    });
    let text = mask(&guards);
    assert!(text.contains("if (at.kv_pos == 1 && (a_ || b_))"), "{text}");
    assert!(text.contains("if ((at.kv_pos == 2 || at.kv_pos == 3) && c_)"), "{text}");
}

#[test]
fn literals_are_exact() {
    let text = transform(&quote!(logit * 0.1 + 1e-45 + 16777217.0 + f32::MAX + 3 as f32));
    assert_eq!(text, "  return logit * 0.1f + 1e-45f + 16777216.0f + 3.4028235e38f + 3.0f;");
    assert_eq!(transform(&quote!(f32::from_bits(0xdead_beef))), "  return from_bits(3735928559u);");
    assert_eq!(mask(&quote!(at.kv_pos > -2147483648)), "  return at.kv_pos > I32_MIN;");
}

#[test]
fn division_by_a_parameter_uses_a_prepared_divisor() {
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
    // f32 is divided directly; an operand of unknown type is left to C++ overloads
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
fn random_calls_take_four_integers() {
    let text = transform(&quote!(if random::uniform(self.seed, 0, at.qo_token as u32, at.kv_pos as u32) < self.p {
        0.0
    } else {
        logit
    }));
    assert!(text.contains("random::uniform(seed_, 0u, u32(at.qo_token), u32(at.kv_pos)) < p_"), "{text}");
    let told = errors(&quote!(
        fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
            attn::random::normal(1, 2, 3, 4) + random::uniform(1)
        }
    ));
    assert!(told.len() == 2 && told.iter().all(|t| t.contains("random::bits")), "{told:?}");
}
