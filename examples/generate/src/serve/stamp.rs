//! What every answer begins with: an id, the time, and the model.

use axum::http::StatusCode;
use rand::Rng;
use serde_json::{Value, json};

use super::{
    app::{App, now},
    failure::Failure,
};

/// The id, time and model of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    id: String,
    created: u64,
    model: String,
}

/// The failure for a model that this server does not have.
pub(crate) fn no_such_model(model: &str, own: &str) -> Failure {
    let model: String = model.chars().take(100).collect();
    let message = format!("there is no model `{model}`; this server has `{own}`");
    let failure = Failure::new(StatusCode::NOT_FOUND, message).code("model_not_found");
    Failure { param: Some("model".into()), ..failure }
}

impl Stamp {
    /// The stamp of a request for `model`.
    pub(crate) fn new(kind: &str, app: &App, model: Option<&str>) -> Result<Self, Failure> {
        let own = &app.options.model;
        if let Some(model) = model.filter(|model| model != own) {
            return Err(no_such_model(model, own));
        }
        let id = format!("{kind}-{:032x}", rand::rng().random::<u128>());
        Ok(Stamp { id, created: now(), model: own.clone() })
    }

    /// The object around choices, which are JSON already: a tree of values takes much more memory than its text.
    pub(crate) fn envelope(&self, object: &str, choices: &[String], usage: Option<Value>) -> String {
        let mut envelope = json!({ "id": self.id, "object": object, "created": self.created, "model": self.model });
        if let Some(usage) = usage {
            envelope["usage"] = usage;
        }
        let mut text = envelope.to_string();
        // before the last brace
        text.pop();
        format!("{text},\"choices\":[{}]}}", choices.join(","))
    }
}
