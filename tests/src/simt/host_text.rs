//! The text of kernels for a host compiler: functions of inline assembly give way to emulated ones.

use super::kernel::FIBERS;

/// What emulates the functions with inline assembly of a header.
const EMULATED: [(&str, &[&str]); 13] = [
    ("cuda/arch/element.cuh", &[include_str!("arch/element.cpp")]),
    ("cuda/arch/f16x2.cuh", &[include_str!("arch/f16x2.cpp")]),
    (
        "cuda/arch/ptx.cuh",
        &[include_str!("arch/ptx.cpp"), include_str!("arch/cp_async.cpp"), include_str!("arch/matrix.cpp")],
    ),
    ("cuda/arch/cluster.cuh", &[include_str!("arch/cluster.cpp")]),
    ("cuda/arch/cluster_async.cuh", &[include_str!("arch/cluster_async.cpp")]),
    ("cuda/arch/mbarrier.cuh", &[include_str!("arch/mbarrier.cpp")]),
    ("cuda/arch/mbarrier_test.cuh", &[include_str!("arch/mbarrier_test.cpp")]),
    // arch/wgmma.cpp defines them
    ("wgmma", &[]),
    ("cuda/arch/wgmma.cuh", &[include_str!("arch/wgmma.cpp")]),
    ("cuda/prefill/sm90/e4m3/products.cuh", &[include_str!("arch/e4m3.cpp")]),
    ("cuda/prefill/sm90/tma_load.cuh", &[include_str!("arch/tma_load.cpp")]),
    ("cuda/prefill/sm90/store.cuh", &[include_str!("arch/tma_store.cpp")]),
    ("cuda/schedule/tile_scheduler.cuh", &[include_str!("arch/ticket.cpp")]),
];

/// Headers whose code for kernels runs on the host, too, where hooks alone take other code.
const OF_KERNELS: [&str; 4] =
    ["cuda/lang/coordinates.cuh", "cuda/lang/factors.cuh", "cuda/lang/hadamard.cuh", "cuda/ops/fp8.cuh"];

/// The text of a kernel for a host compiler.
#[derive(Debug)]
pub(super) struct HostText {
    /// The text, without what emulates CUDA.
    pub(super) kernel: String,
    /// The functions that were replaced, with their header, in the order of the text.
    pub(super) replaced: Vec<(String, String)>,
}

impl HostText {
    /// Replaces the functions with inline assembly in a translation unit.
    ///
    /// # Panics
    /// A header has such functions, and nothing emulates them.
    pub(super) fn of(source: &str) -> HostText {
        let mut text = HostText { kernel: String::new(), replaced: Vec::new() };
        let mut header = String::new();
        let mut lines = source.lines().peekable();
        while let Some(line) = lines.next() {
            if line.starts_with("#line") {
                header = line.split('"').nth(1).unwrap_or_default().to_owned();
            }
            let mut item = vec![line];
            if begins_item(line) && !ends_item(line) {
                for line in lines.by_ref() {
                    item.push(line);
                    if ends_item(line) {
                        break;
                    }
                }
            }
            text.push(&header, &item);
        }
        text
    }

    /// The whole text: the emulated CUDA, the kernel, and functions that launch it.
    pub(super) fn with_launches(&self, launches: &str) -> String {
        [FIBERS, include_str!("cuda.cpp"), &self.kernel, include_str!("launch.cpp"), launches, "\n"].concat()
    }

    /// Appends the lines of an item, or what emulates it.
    fn push(&mut self, header: &str, item: &[&str]) {
        if !is_assembly(header, item) {
            for line in item {
                let of_kernels = line.ends_with("def ATTN_HOST") && OF_KERNELS.contains(&header);
                let line = if of_kernels { &format!("{line}_HOOKS") } else { *line };
                self.kernel.push_str(&dynamic_memory(line).unwrap_or_else(|| line.to_owned()));
                self.kernel.push('\n');
            }
            return;
        }
        if !self.replaced.iter().any(|(other, _)| other == header) {
            let emulated = EMULATED.iter().find(|(of, _)| *of == header);
            let (_, parts) = emulated.unwrap_or_else(|| panic!("nothing emulates {header}: {}", item.join("\n")));
            self.kernel.push_str(&format!("#line 1 \"emulated {header}\"\n"));
            parts.iter().for_each(|part| self.kernel.push_str(part));
        }
        self.replaced.push((header.to_owned(), function_name(item)));
    }
}

/// The functions of a translation unit that emulated ones replace, each as `header: name`. They run on a GPU alone.
///
/// # Panics
/// Nothing emulates a function with inline assembly.
#[must_use]
pub fn replaced(source: &str) -> Vec<String> {
    let replaced = HostText::of(source).replaced.into_iter();
    replaced.map(|(header, name)| format!("{}: {name}", header.trim_start_matches("cuda/"))).collect()
}

/// Whether a function has inline assembly, without other code for the host or for older GPUs beside it.
fn is_assembly(header: &str, item: &[&str]) -> bool {
    let assembly = |line: &&str| line.contains("asm volatile(") || line.contains("asm(");
    let others = header.starts_with("cuda/lang/") || header == "cuda/ops/fp8.cuh";
    !others && item.iter().any(assembly)
}

/// The declaration of dynamic shared memory, in another form.
fn dynamic_memory(line: &str) -> Option<String> {
    let declared = line.trim().strip_prefix("extern __shared__ ")?.strip_suffix("[];")?;
    let declared = declared.split_once(") ").map_or(declared, |(_alignment, rest)| rest);
    match declared.rsplit_once(' ')? {
        (_, "shared_memory") => Some(String::new()), // cuda.cpp declares it
        (of, name) => Some(format!("auto* {name} = reinterpret_cast<{of}*>(shared_memory);")),
    }
}

/// Whether a line begins a definition that may go on. Templates are formatted: what is at column 0 begins an item.
fn begins_item(line: &str) -> bool {
    let outside = ["//", "#", "}", " ", "namespace ", "extern \"C\" {"];
    !line.is_empty() && !outside.iter().any(|prefix| line.starts_with(prefix))
}

/// Whether a line ends an item.
fn ends_item(line: &str) -> bool {
    line.starts_with('}') || !line.starts_with([' ', '#']) && (line.ends_with(';') || line.ends_with('}'))
}

/// The name of a function, with the arguments of a specialisation.
fn function_name(item: &[&str]) -> String {
    let head = item.iter().find(|line| !line.starts_with("template") && !line.starts_with('#')).expect("a definition");
    let before = head.split('(').next().unwrap_or(head);
    before.rsplit(' ').next().unwrap_or(before).trim_start_matches(['*', '&']).to_owned()
}
