//! The CUDA that a variant becomes, for reading and for snapshot tests.

use attn_kernels::splice;

use crate::{Error, Variant};

/// The CUDA of a variant alone: the structs of its parts with their constants, helpers, types and hooks. For several
/// parts, and for combinators, also the `struct Variant` that composes them.
///
/// The text is stable: it depends on the source of the hooks and on the generator, not on parameters, comments inside
/// hooks, line numbers or paths. `attn source` prints the whole translation unit with
/// the kernel around it.
///
/// ```
/// use attn::{Variant, cuda_source};
///
/// let text = cuda_source(&Variant::parse("soft_cap(cap=30)")?)?;
/// assert!(text.contains("struct SoftCap {\n  float cap_;\n") && text.contains("float logits_transform("));
/// # Ok::<(), attn::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Source`]: constants, helpers or types of one name from different places, and helpers that call themselves.
pub fn cuda_source(variant: &Variant) -> Result<String, Error> {
    let text = splice::variant_source(variant)?;
    let text = text.split_once("namespace lang {\n").map_or(&*text, |(_, inside)| inside);
    let text = text.split_once("\n}  // namespace lang").map_or(text, |(inside, _)| inside);
    let is_one_part = matches!(variant.nodes(), [node] if node.as_part().is_some());
    let text = if is_one_part { text.split("struct Variant {").next().unwrap_or(text) } else { text };
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("#line"));
    Ok(lines.collect::<Vec<_>>().join("\n").trim().to_owned() + "\n")
}

/// [`cuda_source`] as a method: `variant.cuda()`.
pub trait VariantCuda {
    /// The CUDA of this variant alone, as [`cuda_source`] says.
    ///
    /// # Errors
    ///
    /// The errors of [`cuda_source`].
    fn cuda(&self) -> Result<String, Error>;
}

impl VariantCuda for Variant {
    fn cuda(&self) -> Result<String, Error> {
        cuda_source(self)
    }
}
