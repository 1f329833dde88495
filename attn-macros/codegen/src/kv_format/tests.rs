//! Tests of the text of KV formats; the whole text of the stock formats is in `tests/variants/cuda`.

use quote::quote;

use super::*;

fn read(functions_tokens: &TokenStream) -> Result<Functions, Report> {
    functions(&syn::parse2(quote!(impl KvFormat for X { #functions_tokens })).expect("an impl"))
}

/// The lines of `decode`, without the head and `#line`.
fn decode(body: &TokenStream) -> String {
    let decode = quote! {
        fn decode(&self, codes: Packed<'_>, side: Packed<'_>, kv_head: i32, d: i32) -> [f32; 8] { #body }
    };
    let functions = read(&decode).unwrap_or_else(|report| panic!("{}", report.into_tokens()));
    without_head(&functions.decode)
}

fn without_head(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#') && !l.starts_with("///")).collect();
    lines[1..lines.len() - 1].join("\n")
}

fn errors(functions_tokens: &TokenStream) -> Vec<String> {
    let Err(report) = read(functions_tokens) else { return Vec::new() };
    let text = report.into_tokens().to_string();
    text.split("compile_error").skip(1).map(str::to_owned).collect()
}

fn encode_errors(body: &TokenStream) -> Vec<String> {
    errors(&quote! {
        fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, kv_head: i32) {
            #body
        }
    })
}

#[test]
fn both_functions_have_the_heads_that_kernels_call() {
    let functions = read(&quote! {
        fn code_bytes(&self, dim: i32) -> i32 { vec![0; 2].len() as i32 * dim }
        fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, _kv_head: i32) {
            let scale = x.max_abs(0, x.dim()) / 127.0;
            side.set_f32(0, scale);
            codes.pack8(0, x, 0, x.dim(), |_, v| {
                if scale == 0.0 { 0 } else { (v / scale).round_ties_even() as i32 as u32 }
            });
        }
        /// Reads.
        fn decode(&self, codes: Packed<'_>, side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
            let (words, scale) = (codes.words2(d), side.f32(0));
            let mut out = [0.0; 8];
            for i in 0..8 {
                out[i as usize] = ((words[(i / 4) as usize] << (24 - 8 * (i % 4)) as u32) as i32 >> 24) as f32 * scale;
            }
            out
        }
    });
    let functions = functions.unwrap_or_else(|report| panic!("{}", report.into_tokens()));
    let head = |text: &str| text.lines().find(|line| line.starts_with("template")).expect("a head").to_owned();
    assert_eq!(
        head(&functions.encode),
        "template <class R, class C, class S> ATTN_FN void encode(const R& x, C& codes, S& side, int _kv_head) const {"
    );
    assert_eq!(
        head(&functions.decode),
        "template <class Eight = Array<float, 8>, class C, class S> \
         ATTN_FN Eight decode(C codes, S side, int _kv_head, int d) const {"
    );
    assert!(functions.decode.starts_with("/// Reads.\n"));
    assert_eq!(
        without_head(&functions.encode),
        "  const float scale = div_rn(x.max_abs(0, x.dim()), 127.0f);\n  side.set_f32(0, scale);\n  codes.pack8(0, x, \
         0, x.dim(), [&](int, float v) -> u32 {\n    return scale == 0.0f ? 0u : \
         u32(cast_i32(round_ties_even(div_rn(v, scale))));\n  });"
    );
    assert_eq!(
        without_head(&functions.decode),
        [
            "  const Array<u32, 2> words = codes.words2(d);",
            "  const float scale = side.f32_at(0);",
            "  Array<float, 8> out = repeat<8>(0.0f);",
            "  ATTN_UNROLL",
            "  for (int i = 0; i < 8; ++i) {",
            "    out.set(i, mul_rn(float(int(shl(words[i / 4], u32(24 - 8 * (i % 4)))) >> 24), scale));",
            "  }",
            "  return out;",
        ]
        .join("\n")
    );
}

#[test]
fn products_and_quotients_of_floats_are_calls() {
    let text = decode(&quote! {
        let a = side.f32(0);
        let mut b = a * a + self.scales[[kv_head, d]] * a;
        b *= a;
        b /= self.cap;
        let n = d * 2 + d / self.group;
        [b * bits::f16_round(a), b.mul_add(a, 1.0), a / b, n as f32, 0.0, 0.0, 0.0, 0.0]
    });
    assert!(!text.contains(" * a") && !text.contains("b /= "), "{text}");
    for part in [
        "mul_rn(a, a) + mul_rn(scales_(kv_head, d), a)",
        "b = mul_rn(b, a);",
        "b = div_rn(b, cap_);",
        "d * 2",
        "div_by(d, group_div_)",
        "mul_rn(b, bits::f16_round(a)), mul_add(b, a, 1.0f), div_rn(a, b)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_would_differ_between_devices_is_refused() {
    for (body, name) in [
        (quote!(side.set_f32(0, x.max(0, 8).exp());), "exp"),
        (quote!(side.set_f32(0, approx::exp(1.0));), "approx::exp"),
        (quote!(codes.pack4(0, x, 0, 8, |_, v| v.log2() as u32);), "log2"),
        (quote!(side.set_f32(0, x.min(0, 8).powf(0.5));), "powf"),
        (quote!(side.set_f32(0, x.min(0, 8).recip());), "recip"),
    ] {
        let found = encode_errors(&body);
        assert!(found.len() == 1 && found[0].contains(&format!("`{name}` has other last bits")), "{found:?}");
    }
    assert!(encode_errors(&quote!(side.set_f32(0, x.sum_sq(0, 8).sqrt());)).is_empty());
}

#[test]
fn misuses_of_rows_say_what_to_write() {
    for (body, part) in [
        (quote!(codes.pack8(0, codes, 0, 8, |_, _| 0);), "the row that `encode` is given"),
        (quote!(codes.pack8(0, x, 0, 8, 0);), "write a closure here"),
        (quote!(codes.pack8(0, x, 0, 8, |v| 0);), "this closure takes 2 argument(s)"),
        (quote!(let y = x;), "a stored row has one name"),
        (quote!(side.set_f32(0, x.at(3));), "its closures read the elements"),
        (quote!(side.set_f23(0, 1.0);), "did you mean `set_f32`?"),
        (quote!(codes.pack8(0, x, 0, 8, |_, v| (v / x.max_abs(0, 8)) as u32);), "reduce the row in front of it"),
        (quote!(let n = at.kv_pos;), "`at` is not known here"),
        (quote!(x.map(|_, v| v);), "the row that is stored has no `map`"),
    ] {
        let found = encode_errors(&body);
        assert!(found.iter().any(|error| error.contains(part)), "{part}: {found:?}");
    }
}

#[test]
fn decode_gives_eight_elements_within_its_arrays() {
    let with = |ret: TokenStream, body: TokenStream| {
        errors(&quote!(fn decode(&self, codes: Packed, side: Packed, kv_head: i32, d: i32) -> #ret { #body }))
    };
    assert!(with(quote!([f32; 4]), quote!([0.0; 4]))[0].contains("`decode` gives eight elements"));
    assert!(with(quote!([f32; 8]), quote!(let w = codes.words2(d); [w[2] as f32; 8]))[0].contains("no element 2"));
    let out = quote!(let mut out = [0.0; 8]; for i in 0..9 { out[i as usize] = 1.0; } out);
    assert!(with(quote!([f32; 8]), out)[0].contains("may leave the array"));
}

#[test]
fn the_messages_of_the_attribute_speak_of_formats() {
    let expanded = |attr: TokenStream, item: TokenStream| expand(attr, item).to_string();
    let text = expanded(quote!(name = "Int4"), quote!(impl KvFormat for X {}));
    assert!(text.contains("a name is snake_case"), "{text}");
    let text = expanded(quote!(nme = "int4"), quote!(impl KvFormat for X {}));
    assert!(text.contains("#[kv_format(name = ") && !text.contains("variant"), "{text}");
    assert!(expanded(quote!(), quote!(impl AttentionVariant for X {})).contains("impl of `KvFormat`"));
    let item = "struct X;".parse().expect("tokens");
    assert!(expanded(quote!(), item).contains("impl KvFormat for X"));
}
