//! The options of every compilation.

/// Options of every compilation, whatever the compiler (in NVRTC's spelling). They are part of the cache's key.
pub const OPTIONS: [&str; 3] = ["-default-device", "-std=c++17", "--ptxas-options=-v"];
