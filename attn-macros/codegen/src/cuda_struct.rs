//! `#[derive(CudaStruct)]`: the CUDA definition of a struct that the host passes to kernels. So it is written once.
//!
//! A field of a number, an array or another such struct has the same type in CUDA. An address is a `u64` whose pointer
//! type stands in `#[cuda("const int*")]`. The first field may be a base, `#[cuda(base)]`. Doc comments are kept.

use proc_macro2::TokenStream;
use quote::quote;

use crate::{messages, names, parse, report::Report};

/// Expands the derive.
pub fn derive(input: TokenStream) -> TokenStream {
    let item = match syn::parse2::<syn::ItemStruct>(input) {
        Ok(item) => item,
        Err(error) => return error.into_compile_error(),
    };
    let mut report = Report::default();
    let text = text(&item, &mut report);
    let errors = report.into_tokens();
    let (ident, name) = (&item.ident, item.ident.to_string());
    let fields = item.fields.iter().filter_map(|field| {
        let (ident, spelled) = (field.ident.as_ref()?, in_cuda(field.ident.as_ref()?));
        (of(field) != Some(Of::Base)).then(|| quote!((#spelled, ::core::mem::offset_of!(Self, #ident))))
    });
    quote! {
        #errors
        #[automatically_derived]
        impl ::attn::headers::CudaStruct for #ident {
            const NAME: &'static str = #name;
            const TEXT: &'static str = #text;
            const FIELDS: &'static [(&'static str, usize)] = &[#(#fields),*];
        }
    }
}

/// What `#[cuda(..)]` says of a field.
#[derive(PartialEq, Eq)]
enum Of {
    Base,
    Pointer(String),
    Unknown,
}

fn of(field: &syn::Field) -> Option<Of> {
    let attr = field.attrs.iter().find(|attr| attr.path().is_ident("cuda"))?;
    let base = attr.parse_args::<syn::Ident>().is_ok_and(|word| word == "base");
    let pointer = attr.parse_args::<syn::LitStr>().map(|text| text.value());
    Some(match pointer {
        Ok(pointer) => Of::Pointer(pointer),
        Err(_) if base => Of::Base,
        Err(_) => Of::Unknown,
    })
}

/// The name of a field in CUDA; padding has none of Rust's underscores.
fn in_cuda(ident: &syn::Ident) -> String {
    names::within_type(ident.to_string().trim_start_matches('_'))
}

fn text(item: &syn::ItemStruct, report: &mut Report) -> String {
    let mut out = names::comments("//", &parse::plain_doc_lines(&item.attrs));
    let align = item.attrs.iter().filter(|attr| attr.path().is_ident("repr")).find_map(alignment);
    let align = align.map_or_else(String::new, |n| format!("alignas({n}) "));
    let (mut base, mut members) = (String::new(), String::new());
    for field in &item.fields {
        let Some(ident) = &field.ident else {
            report.on(field, messages::CUDA_STRUCT_FIELD);
            continue;
        };
        let (mut ty, mut name) = (&field.ty, in_cuda(ident));
        while let syn::Type::Array(array) = ty {
            let len = &array.len;
            name.push_str(&format!("[{}]", quote!(#len)));
            ty = &array.elem;
        }
        let spelled = match (of(field), number(ty)) {
            (Some(Of::Unknown), _) | (None, None) => {
                report.on(&field.ty, messages::CUDA_STRUCT_FIELD);
                continue;
            }
            (Some(Of::Base), spelled) => {
                base = spelled.map(|spelled| format!(" : {spelled}")).unwrap_or_default();
                continue;
            }
            (Some(Of::Pointer(pointer)), _) => pointer,
            (None, Some(spelled)) => spelled,
        };
        let (lines, member) = (parse::plain_doc_lines(&field.attrs), format!("  {spelled} {name};"));
        let comments = names::comments("  //", &lines);
        members.push_str(&match lines[..] {
            [_] if member.len() + comments.trim_end().len() <= 120 => member + &comments,
            _ => format!("{comments}{member}\n"),
        });
    }
    out.push_str(&format!("struct {align}{}{base} {{\n{members}}};\n", item.ident));
    out
}

/// The `64` of `repr(C, align(64))`.
fn alignment(attr: &syn::Attribute) -> Option<u64> {
    let mut found = None;
    let _ = attr.parse_nested_meta(|meta| {
        if meta.path.is_ident("align") {
            let inner;
            syn::parenthesized!(inner in meta.input);
            found = inner.parse::<syn::LitInt>()?.base10_parse().ok();
        }
        Ok(())
    });
    found
}

/// The CUDA type of a number or of another struct.
fn number(ty: &syn::Type) -> Option<String> {
    let syn::Type::Path(path) = ty else { return None };
    let name = path.path.segments.last()?.ident.to_string();
    Some(match name.as_str() {
        "i32" => "int".into(),
        "u32" => "unsigned".into(),
        "i64" => "long long".into(),
        "u64" => "unsigned long long".into(),
        "f32" => "float".into(),
        name if name.starts_with(char::is_uppercase) => name.into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_pointers_bases_arrays_and_comments() {
        let text = derive(quote!(
            /// A launch.
            #[repr(C, align(64))]
            pub struct Launch {
                #[cuda(base)]
                pub base: KernelParams,
                /// Sums, of `n` + 1 entries.
                #[cuda("const int*")]
                pub sums: u64,
                /// Two
                /// lines.
                pub map: [u64; 16],
                pub part: [Part; 2],
                pub _pad: i32,
            }
        ))
        .to_string();
        let lines = [
            "// A launch.",
            "struct alignas(64) Launch : KernelParams {",
            "  const int* sums;  // Sums, of n + 1 entries.",
            "  // Two",
            "  // lines.",
            "  unsigned long long map[16];",
            "  Part part[2];",
            "  int pad;",
            "};",
            "",
        ];
        let want = lines.join("\n");
        assert!(text.contains(&format!("{want:?}")), "{text}");
        assert!(text.contains("(\"pad\" , :: core :: mem :: offset_of ! (Self , _pad))"), "{text}");
        assert!(!text.contains("\"base\""), "{text}");
    }

    #[test]
    fn other_fields_are_refused() {
        for field in [quote!(f64), quote!(&'static str), quote!((i32, i32))] {
            let text = derive(quote!(struct X { a: #field })).to_string();
            assert!(text.contains("CudaStruct"), "{text}");
            assert!(text.contains(&format!("{:?}", messages::CUDA_STRUCT_FIELD)), "{text}");
        }
        let text = derive(quote!(
            struct X {
                #[cuda(pointer)]
                a: u64,
            }
        ));
        assert!(text.to_string().contains("compile_error"));
    }
}
