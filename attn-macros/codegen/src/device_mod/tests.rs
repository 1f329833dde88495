//! The text of modules.

use quote::quote;

use super::*;

/// The header of a module without `#line` directives, and what the macro reports.
fn header(items: &TokenStream) -> (String, String) {
    let module = quote!(
        /// About `it`.
        mod device {
            #items
        }
    );
    let header: Header = syn::parse_quote!(namespace = "lang::it", include = "lang/types.cuh");
    let module: syn::ItemMod = syn::parse2(module).expect("a module");
    let mut report = Report::default();
    let text = text(&header, &module, &mut report);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("#line")).collect();
    (lines.join("\n"), report.into_tokens().to_string())
}

/// The text of items, between the braces of the namespace.
fn inside(items: &TokenStream) -> String {
    let (text, errors) = header(items);
    assert_eq!(errors, "");
    let (_, text) = text.split_once("namespace lang::it {\n").expect("a namespace");
    text.split_once("\n}  // namespace").expect("its end").0.trim().to_owned()
}

#[test]
fn a_header_names_its_includes_and_its_namespace() {
    let (text, errors) = header(&quote!(
        const FEW: i64 = 1 << 4;
    ));
    assert_eq!(errors, "");
    assert_eq!(
        text,
        "// About it.\n#include \"lang/types.cuh\"\n\nnamespace lang::it {\n\n\
         constexpr i64 FEW = lang::shl(1ll, 4);\n\n}  // namespace lang::it"
    );
}

#[test]
fn every_type_is_spelled_and_structs_are_aggregates() {
    let text = inside(&quote!(
        /// From `lo` to `hi`.
        #[derive(Clone, Copy)]
        pub struct Span {
            /// Least.
            pub lo: i64,
            pub hi: i64,
        }
        #[inline]
        pub fn wider(a: Span, by: i32) -> Span {
            let next = shifted(a, by);
            Span { hi: next.hi.max(0), ..next }
        }
        #[call]
        fn shifted(a: Span, by: i32) -> Span {
            Span { hi: a.hi.wrapping_add(i64::from(by)), lo: a.lo }
        }
    ));
    assert_eq!(
        text,
        "// From lo to hi.\nstruct Span {\n  // Least.\n  i64 lo;\n  i64 hi;\n};\n\n\
         ATTN_FN Span wider(Span a, int by) {\n  const Span next = shifted(a, by);\n  \
         return Span{next.lo, lang::max(next.hi, 0ll)};\n}\n\n\
         ATTN_CALL Span shifted(Span a, int by) {\n  return Span{a.lo, lang::wrapping_add(a.hi, i64(by))};\n}"
    );
}

#[test]
fn generic_functions_are_templates_and_traits_are_of_cuda() {
    let text = inside(&quote!(
        use super::Tristate;
        pub trait Int {
            const LEAST: i64;
            fn to_i64(self) -> i64;
            fn from_i64(x: i64) -> Self;
        }
        pub struct Interval<T> {
            pub lo: T,
            pub hi: T,
        }
        pub fn wrapped<T: Int>(lo: i64, hi: i64) -> Interval<T> {
            Interval { lo: T::from_i64(lo.max(T::LEAST)), hi: T::from_i64(hi) }
        }
        fn lt<T: Int>(a: &Interval<T>, b: Interval<T>) -> Tristate {
            if a.hi < b.lo { Tristate::True } else { Tristate::Unknown }
        }
        fn least<T: Int>(a: Interval<T>) -> i64 {
            let one = wrapped::<u32>(1, 2);
            a.lo.to_i64() + one.lo as i64
        }
    ));
    for part in [
        "template <class T>\nstruct Interval {\n  T lo;\n  T hi;\n};",
        "template <class T>\nATTN_FN Interval<T> wrapped(i64 lo, i64 hi) {\n  \
         return Interval<T>{from_i64<T>(lang::max(lo, LEAST<T>)), from_i64<T>(hi)};\n}",
        "template <class T>\nATTN_FN Tristate lt(const Interval<T>& a, Interval<T> b) {\n  \
         return a.hi < b.lo ? Tristate::True : Tristate::Unknown;\n}",
        "  const Interval<u32> one = wrapped<u32>(1ll, 2ll);\n",
        "return lang::add(to_i64(a.lo), i64(one.lo));",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

#[test]
fn items_for_rust_alone_are_left_out() {
    let text = inside(&quote!(
        impl Span {
            fn new() -> String {
                String::new()
            }
        }
        #[cfg(test)]
        fn only_in_tests() -> Vec<u32> {
            vec![]
        }
        fn one() -> u32 {
            1
        }
    ));
    assert_eq!(text, "ATTN_FN u32 one() {\n  return 1u;\n}");
}

#[test]
fn misuse_is_reported() {
    let (_, errors) = header(&quote!(
        struct Two {
            a: u32,
            b: u32,
        }
        fn of(x: u32) -> Two {
            Two { a: 1, ..of(x) }
        }
    ));
    assert!(errors.contains(messages::BASE_IS_A_NAME), "{errors}");
    let told = |attr: TokenStream, item: &str| expand(attr, item.parse().expect("tokens")).to_string();
    assert!(told(quote!(), "mod a;").contains("inline module"));
    assert!(told(quote!(namespace = 3), "mod a {}").contains("arguments are strings"));
    assert!(told(quote!(names = "x"), "mod a {}").contains("arguments are strings"));
}

#[test]
fn attributes_of_the_text_are_not_in_the_kept_module() {
    let item = quote!(
        mod a {
            #[call]
            fn f(n: u32) -> u32 {
                let mut sum = 0u32;
                #[unroll(2)]
                for i in 0..n {
                    sum ^= i;
                }
                sum
            }
        }
    );
    let text = expand(quote!(namespace = "lang::a"), item).to_string();
    let (kept, text) = text.split_once("pub const CUDA").expect("the text");
    assert!(!kept.contains("unroll") && !kept.contains("call"), "{kept}");
    assert!(text.contains("#pragma unroll 2") && text.contains("ATTN_CALL"), "{text}");
}
