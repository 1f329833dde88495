//! The kernels of a case, as text for a host compiler.

use std::{path::Path, sync::Arc};

use attn_core::{
    expr::Variant,
    spec::{KernelKind, PrefillBackend},
};
use attn_kernels::{
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::{
        KernelSource,
        variant::{outline, variant_source},
    },
};
use attn_testing::{Case, case_variant};
use libloading::Library;

use super::{host_text::HostText, kernel::HostKernel};
use crate::host::library;

/// A case with the kernels that it needs: one for each branch of a union, else one.
#[derive(Debug)]
pub(super) struct HostCase {
    pub(super) case: Case,
    pub(super) variant: Variant,
    units: Vec<(Variant, KernelTraits)>,
    /// What the texts of the kernels follow from: a text takes long to make.
    pub(super) keys: Vec<String>,
}

impl HostCase {
    pub(super) fn new(case: Case) -> HostCase {
        let variant = case_variant(&case).expect("stock variants").bind(&case.dims()).expect("a case has all lengths");
        let unit = |branch: Variant| {
            let traits = traits(&case, &variant, &branch);
            (branch, traits)
        };
        let units: Vec<_> = variant.branches().into_iter().map(unit).collect();
        let key = |(branch, traits): &(Variant, KernelTraits)| {
            format!("{traits:?}: {}\n{}", outline(branch), variant_source(branch).expect("the parts go together"))
        };
        let keys = units.iter().map(key).collect();
        HostCase { case, variant, units, keys }
    }

    /// The texts of the kernels.
    pub(super) fn texts(&self) -> Vec<String> {
        let text = |(branch, traits): &(Variant, KernelTraits)| {
            let source = KernelSource::build(branch, traits).expect("supported").text;
            HostText::of(&source).with_launches(&launches(traits))
        };
        self.units.iter().map(text).collect()
    }

    /// The kernels, from the libraries of the texts.
    pub(super) fn kernels(&self, libraries: &[Arc<Library>]) -> Vec<HostKernel> {
        let kernel = |((variant, traits), library): (&(Variant, KernelTraits), &Arc<Library>)| HostKernel {
            variant: variant.clone(),
            traits: *traits,
            library: library.clone(),
        };
        self.units.iter().zip(libraries).map(kernel).collect()
    }
}

/// Whether the kernels of a case have sm_90 prefill.
///
/// # Panics
/// The case has a variant that does not exist.
#[must_use]
pub fn has_sm90_prefill(case: &Case) -> bool {
    let variant = case_variant(case).expect("stock variants").bind(&case.dims()).expect("a case has all lengths");
    variant.branches().iter().all(|branch| traits(case, &variant, branch).is_sm90_prefill())
}

/// Compiles the texts of kernels in folders of `folder`.
pub(super) fn libraries(texts: &[String], folder: &Path) -> Vec<Arc<Library>> {
    let compiled = texts.iter().enumerate().map(|(number, text)| {
        let folder = folder.join(number.to_string());
        std::fs::create_dir(&folder).expect("a folder for the test");
        Arc::new(library(&folder, text))
    });
    compiled.collect()
}

/// Functions that launch the kernels of a unit.
fn launches(traits: &KernelTraits) -> String {
    // kernels over rows of KV formats have parameters of their own
    let params = match (traits.kind() == KernelKind::Mixed, traits.common.packed.is_some()) {
        (false, false) => "KernelParams",
        (false, true) => "PackedParams",
        (true, false) => "MixedParams",
        (true, true) => "PackedMixedParams",
    };
    let (main, part) = match traits.kind() {
        KernelKind::Prefill => ("attn_prefill", ""),
        KernelKind::Decode => ("attn_decode", ""),
        KernelKind::Mixed => ("attn_mixed", "prefill::"),
    };
    let mut text = if traits.is_sm90_prefill() {
        let ctas = traits.facts().cluster_ctas;
        format!("LAUNCH_SM90(launch_main, {main}, {params}, {part}CTA_THREADS, SMEM_BYTES, {ctas})\n")
    } else {
        format!("LAUNCH(launch_main, {main}, {params}, {part}THREADS, SMEM_BYTES)\n")
    };
    if traits.has_kv_preprocess() {
        let threads = format!("{part}KV_PREPROCESS_THREADS");
        text += &format!("LAUNCH(launch_kv_preprocess, {part}attn_kv_preprocess, {params}, {threads}, 0)\n");
    }
    if !traits.facts().has_workers {
        text += &format!("LAUNCH(launch_merge, {part}attn_merge, {params}, {part}MERGE_THREADS, 0)\n");
    }
    text
}

fn traits(case: &Case, variant: &Variant, branch: &Variant) -> KernelTraits {
    let kind = match case.kernel.as_str() {
        "prefill" => KernelKind::Prefill,
        "mixed" => KernelKind::Mixed,
        _ => KernelKind::Decode,
    };
    let queries = case.qo_lens.to_vec().into_iter().max().unwrap_or(1).max(1);
    let dtypes = case.dtypes().expect("known types");
    let arch = match case.prefill {
        PrefillBackend::CudaCores => "75",
        // there are more mixed kernels for it
        PrefillBackend::Sm80 if kind == KernelKind::Mixed => "90a",
        PrefillBackend::Sm80 => "80",
        PrefillBackend::Sm90 | PrefillBackend::Sm90Resident => "90a",
    };
    let request = KernelTraitsRequest {
        head_dim_vo: case.head_dim_vo,
        paged: case.kv_layout.paged(),
        group: if kind == KernelKind::Decode { queries * case.heads().group() } else { case.heads().group() },
        prefill: case.prefill,
        decode: case.decode,
        compute_type: case.compute_type,
        row_invariant: case.fixed_split_size.is_some(),
        skip_softmax: case.skip_softmax.is_some(),
        ..KernelTraitsRequest::new(kind, case.head_dim, dtypes, arch.parse().expect("an architecture"))
            .with_hooks([branch])
    };
    let (key_lists, shared_rows) = (variant.has_kv_list(), case.kv_layout.levels());
    let request = KernelTraitsRequest { key_lists, shared_rows, ..request };
    let traits = KernelTraits::choose(&request).expect("supported");
    let resident = traits.facts().special == Some(PrefillBackend::Sm90Resident);
    assert_eq!(resident, case.prefill == PrefillBackend::Sm90Resident, "{}", traits.describe());
    let cores = case.prefill == PrefillBackend::CudaCores;
    assert!(
        traits.facts().on_cuda_cores == cores && traits.decode_part().facts().on_cuda_cores == cores,
        "{}",
        traits.describe()
    );
    traits
}
