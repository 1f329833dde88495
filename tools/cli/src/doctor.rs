//! `attn doctor`: which compilers, devices, caches and costs were found.

use std::process::{Command, ExitCode};

use anyhow::Result;
use attn_kernels::aot;
use attn_kernels::cache::CubinCache;
use attn_kernels::compile::Arch;
use attn_kernels::compile::nvcc::Nvcc;
use attn_kernels::compile::nvrtc::Nvrtc;
use attn_kernels::cuda::{CudaError, Device as CudaDevice, driver};
use serde_json::json;

use crate::{environment, global::Global, output::Output};

#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// Exit with 1 unless a GPU can be used: a device, and a compiler or embedded kernels.
    #[arg(long)]
    need_gpu: bool,
}

/// Prints the report. Missing parts are no failure, unless `--need-gpu` is given.
pub(crate) fn run(args: &Doctor, global: &Global) -> Result<ExitCode> {
    let mut output = Output::new(global, &["part", "", "found", "use, and how to get it"])?.keep_words(&[0, 1]);
    // the way out is the use of a part, and how to install it
    let mut report = |what: &str, found: Result<String, String>, way_out: &str| {
        let ok = found.is_ok();
        let (way_out, mark) = ((!ok).then_some(way_out), if ok { "ok" } else { "--" });
        let (Ok(text) | Err(text)) = found;
        let record = json!({ "what": what, "ok": ok, "found": text, "way_out": way_out });
        output.record(&record, || vec![what.to_owned(), mark.to_owned(), text, way_out.unwrap_or_default().to_owned()])
    };
    report("cpu", Ok(format!("{} threads, {}", rayon::current_num_threads(), std::env::consts::ARCH)), "")?;
    let devices = devices();
    let has_device = devices.as_ref().is_ok_and(|found| !found.is_empty());
    match devices {
        Err(why) => report(
            "cuda driver",
            Err(why),
            "runs kernels: install the NVIDIA driver (libcuda.so.1); without it everything runs on the CPU backend",
        )?,
        Ok(found) => found.into_iter().try_for_each(|found| report("cuda device", Ok(found), ""))?,
    }
    let nvrtc = Nvrtc::find().map(|n| format!("{n} at {}", n.path().display())).map_err(|e| e.tried.join("; "));
    let nvcc = Nvcc::find().map(|n| n.to_string()).map_err(|e| e.tried.join("; "));
    let archs: Vec<String> = aot::archs().iter().map(ToString::to_string).collect();
    let can_run = has_device && (nvrtc.is_ok() || nvcc.is_ok() || !archs.is_empty());
    let embedded = match archs.is_empty() {
        false => Ok(format!("{} for {}", aot::embedded().count(), archs.join(", "))),
        true => Err("none".to_owned()),
    };
    for (what, found, way_out) in [
        (
            "nvrtc",
            nvrtc,
            "compiles kernels at run time: `pip install nvidia-cuda-nvrtc`, or set ATTN_NVRTC to a libnvrtc.so",
        ),
        ("nvcc", nvcc, "optional, an alternative to NVRTC: install the CUDA toolkit, or set ATTN_NVCC"),
        ("embedded kernels", embedded, "optional, run without a compiler: build with ATTN_CUDA_ARCHS=\"80;90a\""),
        (
            "costs",
            costs(global),
            "chooses kernels by costs of this GPU: set ATTN_COSTS to a file that `attn calibrate --out FILE` wrote",
        ),
        ("cache", cache(), "keeps compiled kernels: set ATTN_CACHE_DIR to a folder that can be written"),
        (
            "environment",
            environment::report(),
            "variables that are not understood are ignored: book/src/reference/environment.md lists them",
        ),
        (
            "host c++",
            host_compiler(),
            "only for the differential tests of this repository: install g++ or clang++, or set CXX",
        ),
    ] {
        report(what, found, way_out)?;
    }
    output.finish()?;
    Ok(if args.need_gpu && !can_run { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn costs(global: &Global) -> Result<String, String> {
    let costs = global.costs().map_err(|error| error.to_string())?;
    Ok(match costs.loaded_rows() {
        0 => "built in".to_owned(),
        rows => format!("{rows} rows of a file, and the built-in ones"),
    })
}

fn cache() -> Result<String, String> {
    let cache = CubinCache::global();
    match (cache.dir(), cache.limit()) {
        (Some(dir), Some(limit)) => match cache.check_writable() {
            Ok(()) => Ok(format!("{}, up to {} MB", dir.display(), limit >> 20)),
            Err(error) if cache.refused().is_some() => Err(format!("not used: {error}")),
            Err(error) => Err(format!("{} cannot be written: {error}", dir.display())),
        },
        _ => Err("off: kernels are kept in memory alone".to_owned()),
    }
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
            let (sm_major, sm_minor) = device.capability();
            let cores = match Arch::for_device(sm_major, sm_minor).has_mma() {
                true => "tensor cores and CUDA cores",
                false => "CUDA cores",
            };
            format!(
                "{device:?}, {sms} multiprocessors, {memory} GiB, driver of CUDA {major}.{minor}, kernels on {cores}"
            )
        }
        Err(error) => format!("device {ordinal}: {}", describe_error(error)),
    };
    Ok((0..count).map(describe).collect())
}
