//! Chat templates. What a message says stays text: control tokens come from the template alone.

use hashbrown::HashSet;
use minijinja::{
    Environment, ErrorKind, UndefinedBehavior, Value, context,
    syntax::SyntaxConfig,
    value::{Serde, ValueKind},
};
use serde::{Deserialize, Serialize};

use crate::Error;

/// A message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

/// The template of a model file, with the texts of its tokens.
#[derive(Debug)]
pub(super) struct Template {
    environment: Environment<'static>,
}

const NAME: &str = "chat";
/// Instructions of a rendering: a message takes some tens.
const FUEL: u64 = 1 << 22;

/// A conversation as the template has it.
#[derive(Debug)]
pub(super) struct Rendered {
    /// The text, with a mark on both sides of each character that came from a message, spaces aside.
    pub(super) text: String,
    /// The mark; it is in no message.
    pub(super) mark: char,
}

impl Template {
    /// Reads a template. `tokens` are its names for tokens, such as `bos_token`, with their texts.
    pub(super) fn new(template: &str, tokens: &[(&'static str, &str)]) -> Result<Self, Error> {
        let mut environment = Environment::new();
        // as Hugging Face's transformers and llama.cpp have it
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        // a name that is unknown would be an empty text
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_fuel(Some(FUEL));
        // texts are sequences in Python
        environment.add_test("sequence", |value: &Value| {
            matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String)
        });
        environment.add_function("raise_exception", |why: String| -> Result<Value, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, why))
        });
        for &(name, text) in tokens {
            environment.add_global(name, text.to_owned());
        }
        // as Jinja has them
        let lines = template.replace("\r\n", "\n").replace('\r', "\n");
        environment.add_template_owned(NAME, lines)?;
        Ok(Template { environment })
    }

    /// The text of a conversation.
    pub(super) fn render(&self, messages: &[ChatMessage]) -> Result<String, Error> {
        // what there is none of is `none` in Hugging Face's transformers, not undefined
        let none = Value::from(());
        let context = context! {
            messages => Serde(messages), tools => none.clone(), documents => none, add_generation_prompt => true,
        };
        Ok(self.environment.get_template(NAME)?.render(context)?)
    }

    /// The text of a conversation, with marks. A template may trim messages, or join them with other text: the marks do
    /// not change what it makes of them. `controls` gives the control tokens that a text spells.
    pub(super) fn render_marked(
        &self,
        messages: &[ChatMessage],
        controls: impl Fn(&str) -> Vec<u32>,
    ) -> Result<Rendered, Error> {
        let refuse = |why: &str| Error::Chat(format!("this conversation cannot be told from control tokens: {why}"));
        let plain = self.render(messages)?;
        let said = messages.iter().flat_map(|message| message.content.chars());
        let known: HashSet<char> = plain.chars().chain(said).collect();
        let mark = ('\u{e000}'..='\u{f8ff}').find(|mark| !known.contains(mark));
        let mark = mark.ok_or_else(|| refuse("it has every character for private use"))?;
        let marked =
            |message: &ChatMessage| ChatMessage { content: mark_all(&message.content, mark), ..message.clone() };
        let marked = self.render(&messages.iter().map(marked).collect::<Vec<_>>()).unwrap_or_default();
        if unmarked(&marked, mark) == plain {
            return Ok(Rendered { text: marked, mark });
        }
        // the template reads what messages say, and marks change that: its text is taken if no message has a part in
        // its control tokens
        let spelled = messages.iter().any(|message| !controls(&message.content).is_empty());
        if spelled || controls(&marked) != controls(&plain) {
            return Err(refuse("a message spells one, and the chat template of the model reads what messages say"));
        }
        Ok(Rendered { text: plain, mark })
    }
}

/// A text with a mark on both sides of each character. Spaces have none, so that a text can be trimmed.
fn mark_all(text: &str, mark: char) -> String {
    let mut marked = String::with_capacity(text.len() * 7);
    for character in text.chars() {
        match character.is_whitespace() {
            true => marked.push(character),
            false => marked.extend([mark, character, mark]),
        }
    }
    marked
}

pub(super) fn unmarked(text: &str, mark: char) -> String {
    text.replace(mark, "")
}
