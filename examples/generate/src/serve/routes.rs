//! Which path is served by what.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{MatchedPath, Path, Request, State},
    http::{
        HeaderName, StatusCode,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE},
    },
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use super::{access, app::App, chat::chat, completions::completions, failure::Failure, stamp::no_such_model};

pub(crate) fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/v1/models", get(models))
        // names of models have slashes, as in `owner/model`
        .route("/v1/models/{*id}", get(model))
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(Arc::clone(&app), access::check))
        .layer(from_fn_with_state(Arc::clone(&app), count))
        .with_state(app)
}

/// The chat page. It loads nothing from elsewhere, and the policy holds it to that.
async fn page() -> impl IntoResponse {
    const POLICY: &str = "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; \
                          script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let headers: [(HeaderName, &str); 3] =
        [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, POLICY), (CACHE_CONTROL, "no-cache")];
    (headers, include_str!("page.html"))
}

async fn health(State(app): State<Arc<App>>) -> Result<Json<Value>, Failure> {
    app.engine.health()?;
    Ok(Json(json!({ "status": "ok" })))
}

async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], app.metrics.encode())
}

async fn models(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({ "object": "list", "data": [shown(&app)] }))
}

async fn model(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    let own = &app.options.model;
    if id == *own { Ok(Json(shown(&app))) } else { Err(no_such_model(&id, own)) }
}

/// The model, as the API shows it.
fn shown(app: &App) -> Value {
    let context = app.engine.model_limits().context;
    json!({
        "id": app.options.model,
        "object": "model",
        "created": app.created,
        "owned_by": "attn-rs",
        "max_model_len": context,
    })
}

async fn no_such_path(request: Request) -> Failure {
    let message =
        format!("there is no {}; see /v1/models, /v1/completions, /v1/chat/completions", request.uri().path());
    Failure::new(StatusCode::NOT_FOUND, message).code("unknown_url")
}

async fn no_such_method(request: Request) -> Failure {
    let message = format!("{} is not a method of {}", request.method(), request.uri().path());
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, message).code("method_not_allowed")
}

/// Counts answers. Paths that do not exist have one name, so that clients cannot fill the memory.
async fn count(State(app): State<Arc<App>>, path: Option<MatchedPath>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    app.metrics.answered(path.as_ref().map_or("other", MatchedPath::as_str), response.status().as_u16());
    response
}
