//! `generate "prompt"`.

use std::{
    io::{Read as _, Write as _},
    time::Instant,
};

use anyhow::Context as _;
use generate::{
    ModelArgs, Started,
    engine::{Event, FinishReason, Request},
    model::Endless,
    sampling::SamplingParams,
    tokenizer::ChatMessage,
};

/// How a text is drawn.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TextArgs {
    /// Tokens to generate, at most; by default 256, and no end with --endless.
    #[arg(long, value_name = "TOKENS")]
    max_tokens: Option<usize>,
    #[command(flatten)]
    sampling: SamplingParams,
    /// Texts to draw.
    #[arg(short = 'n', long, value_name = "TEXTS", default_value_t = 1)]
    choices: usize,
    /// Answer the prompt as the message of a person.
    #[arg(long)]
    chat: bool,
    /// The instructions of a chat.
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Write beyond the context of the model, with the keys of the first and of the last tokens (StreamingLLM).
    /// With --serve, requests may ask for it.
    #[arg(long)]
    pub(crate) endless: bool,
    /// First tokens that an endless text keeps seeing.
    #[arg(long, value_name = "TOKENS", default_value_t = Endless::default().sinks, requires = "endless")]
    sinks: usize,
    /// Last tokens that an endless text sees.
    #[arg(long, value_name = "TOKENS", default_value_t = Endless::default().window, requires = "endless")]
    window: usize,
}

/// Tokens of a text that ends, where no number is given.
const DEFAULT_TOKENS: usize = 256;

impl TextArgs {
    fn request(&self, prompt: Vec<u32>, speculate: usize) -> Request {
        let max_tokens = self.max_tokens.unwrap_or(if self.endless { usize::MAX } else { DEFAULT_TOKENS });
        Request {
            sampling: self.sampling.clone(),
            choices: self.choices,
            speculate,
            endless: self.endless.then_some(Endless { sinks: self.sinks, window: self.window }),
            ..Request::new(prompt, max_tokens)
        }
    }
}

/// Streams a text to the standard output. Of several texts the first is streamed, and the others follow it.
pub(crate) fn run(model: &ModelArgs, args: &TextArgs, prompt: &str) -> anyhow::Result<()> {
    let mut input = String::new();
    if prompt == "-" {
        std::io::stdin().read_to_string(&mut input).context("the standard input is not a text in UTF-8")?;
    } else {
        prompt.clone_into(&mut input);
    }
    let Started { engine, tokenizer, device } = model.start(args.endless, false)?;
    let tokens = if args.chat {
        let message = |role: &str, content: &str| ChatMessage { role: role.into(), content: content.into() };
        let system = args.system.iter().map(|system| message("system", system));
        let messages: Vec<_> = system.chain([message("user", input.trim_end())]).collect();
        tokenizer.encode_chat(&messages, usize::MAX)?
    } else {
        tokenizer.encode_text(&input, usize::MAX)?
    };
    let prompt_tokens = tokens.len();
    let begin = Instant::now();
    let mut stream = engine.submit(args.request(tokens, model.speculate)).map_err(generate::Error::from)?;

    let mut out = std::io::stdout().lock();
    if !args.chat && args.choices == 1 {
        write!(out, "{input}")?;
    }
    let mut decoders: Vec<_> = (0..args.choices).map(|_| Some(tokenizer.stream())).collect();
    let mut texts = vec![String::new(); args.choices];
    let (mut first, mut generated, mut cut_off) = (None, 0usize, false);
    while let Some(event) = stream.blocking_recv() {
        let (choice, chunk) = match event {
            Event::Started { .. } | Event::Prompt { .. } => continue,
            Event::Token { choice, sampled } => {
                first.get_or_insert_with(|| begin.elapsed());
                generated += 1;
                let decoder = decoders[choice].as_mut();
                (choice, decoder.map_or(String::new(), |decoder| decoder.push(sampled.token)))
            }
            Event::Finished { choice, reason } => {
                cut_off |= reason == FinishReason::Length;
                (choice, decoders[choice].take().map_or(String::new(), |decoder| decoder.finish().to_owned()))
            }
            Event::Failed { message } => anyhow::bail!("{message}"),
        };
        if choice == 0 {
            write!(out, "{chunk}")?;
            out.flush()?;
        } else {
            texts[choice] += &chunk;
        }
    }
    writeln!(out)?;
    for (choice, text) in texts.iter().enumerate().skip(1) {
        writeln!(out, "\n--- {} of {}\n{text}", choice + 1, args.choices)?;
    }
    let (first, all) = (first.unwrap_or_default().as_secs_f64(), begin.elapsed().as_secs_f64());
    let rate = generated.saturating_sub(args.choices) as f64 / (all - first).max(1e-9);
    let end = if cut_off { "; cut off at the limit, see --max-tokens" } else { "" };
    let first = first * 1e3;
    eprintln!("[{device}: {prompt_tokens} tokens of prompt, first token after {first:.0} ms,");
    eprintln!(" {generated} tokens, {rate:.1}/s{end}]");
    Ok(())
}
