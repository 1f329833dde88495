//! Rust text under the macros: they expand to code or to errors, whatever stands there.

use proc_macro2::TokenStream;

use crate::harness::Seen;

/// The items of stock variants and of tests of the language.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut items = Vec::new();
    let files = ["masks/sliding_window", "scale/soft_cap", "rotary/rope", "bias/alibi", "masks/image_spans"];
    let texts = files.map(|file| std::fs::read_to_string(format!("{root}/variants/src/{file}.rs")).expect(file));
    for text in texts {
        let file = syn::parse_file(&text).expect("Rust");
        for item in file.items {
            if matches!(item, syn::Item::Impl(_) | syn::Item::Struct(_) | syn::Item::Fn(_)) {
                items.push(quote::ToTokens::to_token_stream(&item).to_string().into_bytes());
            }
        }
    }
    items.push(b"Causal, SoftCap { cap: 30.0 }".to_vec());
    items.push(b"fn helper(x: f32, n: i32) -> f32 { if n > 3 { x * 2.0 } else { x.tanh() } }".to_vec());
    items
}

pub(crate) fn run(data: &[u8]) -> Seen {
    // on a stack as large as rustc's
    let data = data.to_vec();
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(move || expand(&data)).expect("a thread");
    thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

fn expand(data: &[u8]) -> Seen {
    let text = String::from_utf8_lossy(data);
    let Ok(tokens) = text.parse::<TokenStream>() else { return Seen::Refused };
    let none = TokenStream::new;
    let expansions = [
        attn_codegen::variant::expand(none(), tokens.clone()),
        attn_codegen::params::derive(tokens.clone()),
        attn_codegen::device_fn::expand(none(), tokens.clone()),
        attn_codegen::device_type::expand(none(), tokens.clone()),
        attn_codegen::compose::expand(tokens.clone()),
        // attributes from elsewhere too
        attn_codegen::variant::expand(tokens, none()),
    ];
    // an expansion that is no error is Rust
    let sound = expansions.iter().filter(|expansion| {
        let text = expansion.to_string();
        !text.contains("compile_error") && syn::parse2::<syn::File>((*expansion).clone()).is_ok()
    });
    if sound.count() > 0 { Seen::Accepted } else { Seen::Refused }
}
