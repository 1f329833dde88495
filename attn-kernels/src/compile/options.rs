//! The options of each compiler. The cache's key has both lists, since it is made before a compiler is looked for.

/// Options of NVRTC; the architecture follows.
pub(crate) const NVRTC_OPTIONS: [&str; 3] = [
    // functions without a marker are for the device; nvcc has no such option, so `nvcc::annotate` marks them
    "-default-device",
    // for `if constexpr`
    "-std=c++17",
    // registers and spills, in the log
    "--ptxas-options=-v",
];

/// Options of nvcc; architecture and output follow.
pub(crate) const NVCC_OPTIONS: [&str; 5] = [
    // the kernels alone, without a host program around them
    "-cubin",
    "-std=c++17",
    // constants call `constexpr` functions, which are marked for the device
    "--expt-relaxed-constexpr",
    // as in NVRTC's `--ptxas-options`
    "-Xptxas",
    "-v",
];
