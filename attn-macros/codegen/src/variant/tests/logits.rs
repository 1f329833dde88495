//! The functions derived from logits transforms: deferred factors, bias, slope, bound.

use super::*;

#[test]
fn logit_and_key_distance_stay_unscaled_until_multiplied() {
    assert_eq!(transform(&quote!(self.cap * (logit / self.cap).tanh())), "  return cap_ * tanh(logit / cap_);");
    assert_eq!(transform(&quote!(self.a * logit + logit)), "  return a_ * logit + float(logit);");
    assert_eq!(transform(&quote!(logit * logit)), "  return logit * float(logit);");
    assert_eq!(transform(&quote!(1.0 / logit)), "  return 1.0f / float(logit);");
    let distance = transform(&quote!(logit.max((at.kv_pos - at.qo_pos) as f32)));
    assert_eq!(distance, "  return max(float(logit), float(at.kv_pos_minus(at.qo_pos)));");
    let text = transform(&quote!(logit * self.slopes[at.qo_head] * (at.qo_pos - at.kv_pos) as f32));
    assert_eq!(text, "  return logit * slopes_[at.qo_head] * -at.kv_pos_minus(at.qo_pos);");
    // a difference that may wrap must wrap as in Rust
    let text = transform(&quote!(logit * (at.kv_pos - self.n) as f32));
    assert_eq!(text, "  return logit * float(sub(at.kv_pos, n_));");
}

/// A variant whose transform has this body.
fn of_transform(body: &TokenStream) -> VariantModel {
    let item =
        quote!(impl AttentionVariant for X { fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 { #body } });
    read(&TokenStream::new(), &syn::parse2(item).expect("an impl")).unwrap_or_else(|_| panic!("accepted"))
}

/// The body of a derived function.
fn one_line(text: &str) -> String {
    text.lines().skip(2).map(str::trim).filter(|line| *line != "}").collect::<Vec<_>>().join(" ")
}

/// The bias of a transform with this body.
fn bias(body: &TokenStream) -> String {
    one_line(&of_transform(body).bias)
}

#[test]
fn additive_transform_has_a_logits_bias() {
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

/// The slope of a transform with this body.
fn slope(body: &TokenStream) -> String {
    one_line(&of_transform(body).slope)
}

#[test]
fn affine_bias_has_a_logits_slope() {
    assert_eq!(slope(&quote!(logit + (at.kv_pos - at.qo_pos) as f32)), "return 1.0f;");
    assert_eq!(slope(&quote!(logit + (at.qo_pos - at.kv_pos) as f32)), "return (-1.0f);");
    assert_eq!(slope(&quote!(logit - self.a * (at.qo_pos - at.kv_pos) as f32)), "return -(float(a_) * (-1.0f));");
    let two = quote!(logit + (at.kv_token as f32 * self.a - at.kv_pos as f32 / self.b));
    assert_eq!(slope(&two), "return (float(a_) + (-(1.0f / float(b_))));");
    for more in [
        quote!(logit + (at.kv_pos * at.kv_pos) as f32),
        quote!(logit + (at.kv_pos / 2) as f32),
        quote!(logit + self.table[at.kv_pos]),
    ] {
        assert_eq!(slope(&more), "", "{more}");
    }
}

/// The bound of a transform with this body.
fn bound(body: &TokenStream) -> String {
    one_line(&of_transform(body).bound)
}

#[test]
fn bounded_transform_has_a_logits_bound() {
    assert_eq!(
        bound(&quote!(let inv = 1.0 / self.cap; self.cap * (logit * inv).tanh())),
        "return bound::magnitude(bound::mul(bound::exactly(cap_), bound::within(1.0f)));"
    );
    assert_eq!(
        bound(&quote!(let most = 2.0 * self.a; let lost = self.b; let x = logit + lost; x.clamp(-most, most))),
        "const float most = 2.0f * a_; \
         return bound::magnitude(bound::join(bound::exactly(-most), bound::exactly(most)));"
    );
    for more in [
        quote!(logit),
        quote!(logit.min(self.a)),
        quote!(self.a[at.qo_head] * logit.tanh()),
        quote!(let mut x = logit.tanh(); x += logit; x),
        quote!(if at.kv_pos > 3 { return logit; } logit.tanh()),
        // `min` and `max` return the other operand for NaN, and it may have any size
        quote!(logit.tanh().min(logit.max(0.0))),
    ] {
        assert_eq!(bound(&more), "", "{more}");
    }
}
