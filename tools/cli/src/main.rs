//! The `attn` command; see the library.

fn main() -> std::process::ExitCode {
    attn_cli::main()
}
