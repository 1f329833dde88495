//! The JSON of a request: read within a time and a memory, and strictly, so that nothing is ignored in silence.

use std::sync::Arc;

use axum::{
    body::Body as RawBody,
    extract::{FromRequest, Request},
    http::{
        StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE},
    },
};
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::{
    app::App,
    connections::{Answering, Seat},
    failure::Failure,
    fields::{Both, Fields},
    limits::Claim,
    parameters::Parameters,
};

/// Memory that a byte of a body may take while it is read: the byte itself, and what it says.
const MEMORY_OF_BYTE: usize = 4;

/// Bytes by which the memory of a body grows, at least.
const PART: usize = 4096;

/// A request that is there: what all requests share, what is of this kind, and what it holds.
pub(crate) struct Body<T> {
    pub(crate) parameters: Parameters,
    pub(crate) own: T,
    pub(crate) held: Held,
}

/// What a request holds while it is answered.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Its part of the memory.
    pub(crate) claim: Claim,
    /// Its connection is not silent.
    _answering: Option<Answering>,
}

impl<T: Fields + Send + 'static> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        let json = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json);
        if !json {
            let message = "the body must be JSON, with the header `Content-Type: application/json`";
            return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > app.options.max_body as u64) {
            return Err(too_large(app));
        }
        let seat = request.extensions().get::<Seat>().cloned();
        if let Some(seat) = &seat {
            seat.reads();
        }
        let mut claim = Claim::default();
        let reading = timeout(app.options.limits.body_timeout, read(app, request.into_body(), &mut claim));
        let bytes = reading.await.map_err(|_| {
            let seconds = app.options.limits.body_timeout.as_secs_f64();
            let message = format!("the body did not come within {seconds} s");
            Failure::new(StatusCode::REQUEST_TIMEOUT, message).code("body_timeout")
        })??;
        let answering = seat.map(|seat| {
            let message = "as many requests are being answered as there may be connections; try again later";
            let busy = || Failure::new(StatusCode::SERVICE_UNAVAILABLE, message).code("too_many_connections");
            seat.answers().ok_or_else(busy)
        });
        let answering = answering.transpose()?;
        let Both(parameters, own) = app.aside(move |_| parse(&bytes)).await?;
        Ok(Body { parameters, own, held: Held { claim, _answering: answering } })
    }
}

/// Reads a body as it comes, within the memory for requests.
async fn read(app: &App, mut body: RawBody, claim: &mut Claim) -> Result<Vec<u8>, Failure> {
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| Failure::new(StatusCode::BAD_REQUEST, format!("the body could not be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > app.options.max_body {
            return Err(too_large(app));
        }
        if bytes.len() + data.len() > bytes.capacity() {
            let more = data.len().max(PART);
            app.memory.claim(claim, MEMORY_OF_BYTE * more)?;
            bytes.reserve_exact(more);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn too_large(app: &App) -> Failure {
    let message = format!("the body is larger than this server takes, which is {} bytes", app.options.max_body);
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

fn is_json(value: &str) -> bool {
    value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Parses a body. `null` stands for a parameter that is not given, as in OpenAI's API.
pub(crate) fn parse<T: Fields>(bytes: &[u8]) -> Result<Both<Parameters, T>, Failure> {
    let bad = |message| Failure::new(StatusCode::BAD_REQUEST, message);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let both = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let (path, error) = (error.path().to_string(), error.into_inner());
        if !error.is_data() {
            return bad(format!("the body is not valid JSON: {error}"));
        }
        if path == "." {
            return bad(error.to_string());
        }
        let path: String = path.chars().take(100).collect();
        Failure { param: Some(path.clone()), ..bad(format!("`{path}`: {error}")) }
    })?;
    deserializer.end().map_err(|error| bad(format!("the body is not valid JSON: {error}")))?;
    Ok(both)
}
