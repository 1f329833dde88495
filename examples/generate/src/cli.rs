//! The command line.

mod bench;
mod model;
mod prompt;
mod serve;

use clap::Parser;
use tracing_subscriber::EnvFilter;

/// A language model over paged attention: streams a text, serves completions, measures.
///
/// Without --model it is SmolLM2-135M-Instruct, which is fetched once. GENERATE_LOG sets what is logged, as in
/// `GENERATE_LOG=debug`.
#[derive(Debug, Parser)]
#[command(name = "generate", version)]
pub(crate) struct Cli {
    /// The text to continue; `-` reads it from the standard input.
    #[arg(required_unless_present_any = ["serve", "bench"], conflicts_with_all = ["serve", "bench"])]
    prompt: Option<String>,
    /// Serve OpenAI's completions over HTTP, with a chat page.
    #[arg(long, conflicts_with = "bench")]
    serve: bool,
    /// Replay a trace of requests, and print latencies and throughput.
    #[arg(long)]
    bench: bool,
    #[command(flatten)]
    model: model::ModelArgs,
    #[command(flatten, next_help_heading = "Texts")]
    text: prompt::TextArgs,
    #[command(flatten, next_help_heading = "Server")]
    server: serve::ServeArgs,
    #[command(flatten, next_help_heading = "Benchmark")]
    trace: bench::BenchArgs,
}

/// Does what the command line says.
pub(crate) fn run(cli: &Cli) -> anyhow::Result<()> {
    // a model that is fetched takes minutes
    let default = if cli.serve { "warn,generate=info" } else { "warn,generate::model::fetch=info" };
    let filter = EnvFilter::try_from_env("GENERATE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match &cli.prompt {
        _ if cli.serve => serve::run(&cli.model, &cli.server, cli.text.endless),
        _ if cli.bench => bench::run(&cli.model, &cli.trace, cli.text.choices),
        prompt => prompt::run(&cli.model, &cli.text, prompt.as_deref().unwrap_or("-")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn one_thing_is_done_at_a_time() {
        let parse = |words: &[&str]| Cli::try_parse_from([&["generate"], words].concat());
        assert!(parse(&["hello"]).is_ok() && parse(&["--serve"]).is_ok() && parse(&["--bench"]).is_ok());
        for words in [&[][..], &["--serve", "--bench"], &["hello", "--serve"], &["hello", "--device", "tpu"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
