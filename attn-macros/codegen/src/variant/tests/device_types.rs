//! Structs and enums with `#[device_type]`.

use super::*;

#[test]
fn struct_literals_set_fields_in_source_order() {
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
        transform(&quote!(
            let m: modes::Mode = mode(at.kv_pos);
            if m == modes::Mode::Near { m as u32 as f32 } else { (m as u8) as f32 }
        )),
        "  const Mode_type m = mode_fn(at.kv_pos);\n  \
         return m == Mode_type::Near ? float(u32(m)) : float(u8(m));"
    );
}

#[test]
fn types_are_linked_once_by_path() {
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
        "TypeLink{name:\"Line_type\",ty:<shapes::Lineas::attn::__private::lang::DeviceType>::DESC}",
        "name:\"Mode_type\",ty:{::attn::__private::lang::device_type::compared::<Mode>();\
         <Modeas::attn::__private::lang::DeviceType>::DESC}",
    ] {
        assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
    }
    let none = expand(TokenStream::new(), quote!(impl AttentionVariant for X {})).to_string().replace(' ', "");
    assert!(none.contains("types:&[]"), "{none}");
}

#[test]
fn unsupported_uses_of_device_types_are_refused() {
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
