//! Tables of embedded kernels, and the logs of compilers in them.

use std::{collections::BTreeSet, sync::Mutex};

use attn_kernels::aot::Prebuilt;
use attn_kernels::compile::{Arch, parse_resources, wgmma_serialised};

use crate::harness::Seen;

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let log = "ptxas info    : Compiling entry function 'attn_decode' for 'sm_90a'\n\
               ptxas info    : Function properties for attn_decode\n\
               \x20   16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n\
               ptxas info    : Used 168 registers, used 16 barriers, 1024 bytes smem, 400 bytes cmem[0]\n";
    let others = "sm_80\0ptxas info    : 0 bytes gmem\n\
                  ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
                  insufficient register resources in function 'attn_prefill'\n";
    [format!("sm_90a\0{log}"), format!("sm_100a\0{log}{log}"), others.to_owned(), format!("sm_120\0{log}")]
        .map(String::into_bytes)
        .to_vec()
}

pub(crate) fn run(data: &[u8]) -> Seen {
    let text = String::from_utf8_lossy(data);
    let (arch, log) = text.split_once('\0').unwrap_or(("", &text));
    for resources in parse_resources(log) {
        let _ = (resources.spill_bytes(), resources.registers);
    }
    let _ = wgmma_serialised(log);
    match arch.parse::<Arch>() {
        Ok(parsed) => {
            assert_eq!(parsed.to_string().parse::<Arch>(), Ok(parsed), "{arch}");
            let _ = parsed.runs_on(9, 0);
            let table = Prebuilt { key: "", name: "", arch: kept(arch), compiler: "", log: "", cubin: &[] };
            assert_eq!(table.arch(), Some(parsed));
            Seen::Accepted
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Seen::Refused
        }
    }
}

/// A text that lives as long as the program, as those of tables do; each once.
fn kept(text: &str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().expect("no panic under the lock");
    if !texts.contains(text) {
        texts.insert(String::from(text).leak());
    }
    texts.get(text).expect("it is there now")
}
