//! The exact version of a compiler, which NVRTC tells only through what it compiles.

/// The version that a cubin names, such as `13.0.88`: that of the assembler, which has the version of its toolkit.
/// `None` where the cubin names none.
#[cfg(any(feature = "jit", test))] // nvcc tells its version
pub(super) fn of_cubin(cubin: &[u8]) -> Option<&str> {
    const BEFORE: &[u8] = b"Cuda compilation tools, release ";
    let at = cubin.windows(BEFORE.len()).position(|bytes| bytes == BEFORE)? + BEFORE.len();
    let text = cubin[at..].split(|&byte| byte == 0).next()?;
    of_release(std::str::from_utf8(text).ok()?)
}

/// The version in words such as `13.0, V13.0.88`, which may go on.
pub(super) fn of_release(text: &str) -> Option<&str> {
    let (_, version) = text.split_once(", V")?;
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    Some(&version[..end]).filter(|version| !version.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_cubin_is_found() {
        let cubin = b"\x7fELF\0ptxas\0Cuda compilation tools, release 13.0, V13.0.88\0Build cuda_13\0";
        assert_eq!(of_cubin(cubin), Some("13.0.88"));
        assert_eq!(of_cubin(b"\x7fELF"), None);
        assert_eq!(of_cubin(b"Cuda compilation tools, release "), None);
        assert_eq!(of_cubin(b"Cuda compilation tools, release \xff, V13\0"), None);
    }

    #[test]
    fn the_version_of_a_command_is_found() {
        assert_eq!(of_release("12.4, V12.4.131\nBuild cuda_12.4.r12.4"), Some("12.4.131"));
        assert_eq!(of_release("12.4, V"), None);
    }
}
