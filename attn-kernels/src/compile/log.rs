//! The log of ptxas (`--ptxas-options=-v`).

/// Resources of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Name of the kernel.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory written because registers ran out.
    pub spill_stores: u32,
    /// Bytes of local memory read for the same reason.
    pub spill_loads: u32,
    /// Bytes of stack of a thread.
    pub stack: u32,
    /// Bytes of static shared memory.
    pub smem: u32,
}

impl Resources {
    /// Spill stores and loads together, in bytes.
    pub fn spill_bytes(&self) -> u32 {
        self.spill_stores.saturating_add(self.spill_loads)
    }
}

/// Parses the resources of every kernel from a compile log, in the order of the log.
pub fn parse_resources(log: &str) -> Vec<Resources> {
    let mut kernels: Vec<Resources> = Vec::new();
    let mut of_kernel = true; // false within the properties of a function that kernels call
    for line in log.lines() {
        if let Some(rest) = line.split_once("Compiling entry function '").map(|(_, rest)| rest) {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            kernels.push(Resources { kernel, ..Resources::default() });
            of_kernel = true;
        } else if let Some((_, function)) = line.split_once("Function properties for ") {
            of_kernel = kernels.last().is_some_and(|last| last.kernel == function.trim());
        } else if let Some(kernel) = kernels.last_mut().filter(|_| of_kernel) {
            for (amount, what) in amounts(line) {
                match what {
                    "bytes stack frame" => kernel.stack = amount,
                    "bytes spill stores" => kernel.spill_stores = amount,
                    "bytes spill loads" => kernel.spill_loads = amount,
                    "registers" => kernel.registers = amount,
                    "bytes smem" => kernel.smem = amount,
                    _ => {}
                }
            }
        }
    }
    kernels
}

/// The lines in which ptxas reports that it serialised WGMMA instructions (messages C7500 to C7599). Such a kernel
/// gives the same results, but it is slow.
pub fn wgmma_serialised(log: &str) -> impl Iterator<Item = &str> {
    let code = |line: &str| {
        line.match_indices("C75")
            .any(|(at, _)| line[at..].chars().skip(3).take(2).filter(char::is_ascii_digit).count() == 2)
    };
    log.lines().filter(move |line| code(line))
}

/// The comma-separated amounts of a line, such as "12 bytes spill stores"; words before the number are skipped.
fn amounts(line: &str) -> impl Iterator<Item = (u32, &str)> {
    line.split(',').filter_map(|part| {
        let mut rest = part.trim();
        loop {
            let (word, after) = rest.split_once(' ')?;
            match word.parse() {
                Ok(number) => return Some((number, after.trim())),
                Err(_) => rest = after.trim_start(),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialised_wgmma_is_reported() {
        let log = "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n\
                   0x00C75 bytes\nptxas info : Used 168 registers";
        assert_eq!(wgmma_serialised(log).collect::<Vec<_>>(), [log.lines().next().unwrap_or_default()]);
    }

    #[test]
    fn reads_every_kernel_of_a_log() {
        let log = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'attn_prefill' for 'sm_90a'\n\
            ptxas info    : Function properties for attn_prefill\n\
            ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n\
            ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem\n\
            ptxas info    : Function properties for _ZN4lang17reduce_huge_angleEf\n\
            ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Compiling entry function 'attn_merge' for 'sm_90a'\n\
            ptxas info    : Used 32 registers, used 0 barriers\n";
        let kernels = parse_resources(log);
        assert_eq!(kernels.len(), 2);
        assert_eq!(
            kernels[0],
            Resources {
                kernel: "attn_prefill".into(),
                registers: 168,
                spill_stores: 8,
                spill_loads: 12,
                stack: 16,
                smem: 1024
            }
        );
        assert_eq!((kernels[1].kernel.as_str(), kernels[1].registers, kernels[1].spill_bytes()), ("attn_merge", 32, 0));
    }
}
