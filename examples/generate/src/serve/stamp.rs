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

impl Stamp {
    /// The stamp of a request for `model`.
    ///
    /// # Errors
    ///
    /// A model that this server does not have.
    pub(crate) fn new(kind: &str, app: &App, model: Option<&str>) -> Result<Self, Failure> {
        let own = &app.options.model;
        if let Some(model) = model.filter(|model| model != own) {
            let message = format!("there is no model `{model}`; this server has `{own}`");
            let failure = Failure::new(StatusCode::NOT_FOUND, message).code("model_not_found");
            return Err(Failure { param: Some("model".into()), ..failure });
        }
        let id = format!("{kind}-{:032x}", rand::rng().random::<u128>());
        Ok(Stamp { id, created: now(), model: own.clone() })
    }

    pub(crate) fn envelope(&self, object: &str, choices: &[Value], usage: Option<Value>) -> Value {
        let mut envelope = json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            envelope["usage"] = usage;
        }
        envelope
    }
}
