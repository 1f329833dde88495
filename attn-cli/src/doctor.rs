//! `attn doctor`.

use std::process::{Command, ExitCode};

use anyhow::Result;
use attn_kernels::{
    aot,
    cache::CubinCache,
    compile::{nvcc::Nvcc, nvrtc::Nvrtc},
    cuda::{CudaError, Device as CudaDevice, driver},
};
use serde_json::json;

use crate::{global::Global, output::Output};

#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// Exit with 1 unless a GPU can be used: a device, and a compiler or embedded kernels.
    #[arg(long)]
    need_gpu: bool,
}

/// One line of the report.
struct Finding {
    what: &'static str,
    found: Result<String, String>,
    /// The use of this part, and how to install it.
    way_out: &'static str,
}

/// Prints the report. Missing parts are no failure, unless `--need-gpu` is given.
pub(crate) fn run(args: &Doctor, global: &Global) -> Result<ExitCode> {
    let mut findings = Vec::new();
    findings.push(Finding {
        what: "cpu",
        found: Ok(format!("{} threads, {}", rayon::current_num_threads(), std::env::consts::ARCH)),
        way_out: "",
    });
    let devices = devices();
    let has_device = devices.as_ref().is_ok_and(|found| !found.is_empty());
    match devices {
        Err(why) => findings.push(Finding {
            what: "cuda driver",
            found: Err(why),
            way_out: "runs kernels: install the NVIDIA driver (libcuda.so.1); \
                      without it everything runs on the CPU backend",
        }),
        Ok(found) => findings.extend(found.into_iter().map(|found| Finding {
            what: "cuda device",
            found: Ok(found),
            way_out: "",
        })),
    }
    let nvrtc = Nvrtc::find().map(|n| format!("{n} at {}", n.path().display())).map_err(|e| e.tried.join("; "));
    let nvcc = Nvcc::find().map(|n| n.to_string()).map_err(|e| e.tried.join("; "));
    let embedded: Vec<String> = aot::archs().iter().map(ToString::to_string).collect();
    let can_run = has_device && (nvrtc.is_ok() || nvcc.is_ok() || !embedded.is_empty());
    findings.push(Finding {
        what: "nvrtc",
        found: nvrtc,
        way_out: "compiles kernels at run time: `pip install nvidia-cuda-nvrtc`, or set ATTN_NVRTC to a libnvrtc.so",
    });
    findings.push(Finding {
        what: "nvcc",
        found: nvcc,
        way_out: "optional, an alternative to NVRTC: install the CUDA toolkit, or set ATTN_NVCC",
    });
    findings.push(Finding {
        what: "embedded kernels",
        found: match embedded.is_empty() {
            false => Ok(format!("{} for {}", aot::embedded().count(), embedded.join(", "))),
            true => Err("none".to_owned()),
        },
        way_out: "optional, run without a compiler: build with ATTN_CUDA_ARCHS=\"80;90a\"",
    });
    findings.push(cache());
    findings.push(Finding {
        what: "host c++",
        found: host_compiler(),
        way_out: "only for the differential tests of this repository: install g++ or clang++, or set CXX",
    });

    let mut output = Output::new(global, &["part", "", "found", "use, and how to get it"])?.keep_words(&[0, 1]);
    for Finding { what, found, way_out } in findings {
        let (ok, text) = match &found {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        let way_out = if ok { "" } else { way_out };
        let record = json!({ "what": what, "ok": ok, "found": text, "way_out": if ok { None } else { Some(way_out) } });
        let mark = if ok { "ok" } else { "--" };
        output.record(&record, || vec![what.to_owned(), mark.to_owned(), text.clone(), way_out.to_owned()])?;
    }
    output.finish()?;
    Ok(if args.need_gpu && !can_run { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn cache() -> Finding {
    let cache = CubinCache::global();
    let found = match (cache.dir(), cache.limit()) {
        (Some(dir), Some(limit)) => match cache.check_writable() {
            Ok(()) => Ok(format!("{}, up to {} MB", dir.display(), limit >> 20)),
            Err(error) => Err(format!("{} cannot be written: {error}", dir.display())),
        },
        _ => Err("off: kernels are kept in memory alone".to_owned()),
    };
    let way_out = "keeps compiled kernels: set ATTN_CACHE_DIR to a folder that can be written";
    Finding { what: "cache", found, way_out }
}

fn host_compiler() -> Result<String, String> {
    let named = std::env::var("CXX").ok().filter(|c| !c.is_empty());
    let names = named.map_or_else(|| ["c++", "g++", "clang++"].map(str::to_owned).to_vec(), |named| vec![named]);
    for name in &names {
        let Ok(output) = Command::new(name).arg("--version").output() else { continue };
        if output.status.success() {
            let text = String::from_utf8_lossy(&output.stdout);
            return Ok(format!("{name}: {}", text.lines().next().unwrap_or_default()));
        }
    }
    Err(format!("none of {} runs", names.join(", ")))
}

/// One line of text for each device, or why there is no driver or no device.
fn devices() -> Result<Vec<String>, String> {
    let describe_error = |error: CudaError| crate::output::causes(&error.into());
    let count = driver::device_count().map_err(describe_error)?;
    let (major, minor) = driver::version().map_err(describe_error)?;
    if count == 0 {
        return Err(format!("the driver (CUDA {major}.{minor}) sees no device"));
    }
    let describe = |ordinal| match CudaDevice::new(ordinal) {
        Ok(device) => {
            let (memory, sms) = (device.memory() >> 30, device.multiprocessors());
            format!("{device:?}, {sms} multiprocessors, {memory} GiB, driver of CUDA {major}.{minor}")
        }
        Err(error) => format!("device {ordinal}: {}", describe_error(error)),
    };
    Ok((0..count).map(describe).collect())
}
