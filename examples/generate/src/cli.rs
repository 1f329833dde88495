//! The command line.

mod prompt;
mod serve;

use clap::Parser;
use generate::ModelArgs;
use tracing_subscriber::EnvFilter;

/// A language model over paged attention: streams a text, serves completions.
///
/// Without --model it is SmolLM2-135M-Instruct, which is fetched once. GENERATE_LOG sets what is logged, as in
/// `GENERATE_LOG=debug`.
#[derive(Debug, Parser)]
#[command(name = "generate", version)]
pub(crate) struct Cli {
    /// The text to continue; `-` reads it from the standard input.
    #[arg(required_unless_present = "serve", conflicts_with = "serve")]
    prompt: Option<String>,
    /// Serve OpenAI's completions over HTTP, with a chat page.
    #[arg(long)]
    serve: bool,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten, next_help_heading = "Texts")]
    text: prompt::TextArgs,
    #[command(flatten, next_help_heading = "Server")]
    server: serve::ServeArgs,
}

/// Does what the command line says.
pub(crate) fn run(cli: &Cli) -> anyhow::Result<()> {
    // a model that is fetched takes minutes
    let default = if cli.serve { "warn,generate=info" } else { "warn,generate::model::fetch=info" };
    let filter = EnvFilter::try_from_env("GENERATE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match &cli.prompt {
        _ if cli.serve => serve::run(&cli.model, &cli.server, cli.text.endless),
        prompt => prompt::run(&cli.model, &cli.text, prompt.as_deref().unwrap_or("-")),
    }
}
