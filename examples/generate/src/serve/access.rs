//! Who may ask: the name that a client calls the server by, and its key.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{
        HeaderValue, StatusCode,
        header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE},
        uri::Authority,
    },
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{api_key::ApiKey, app::App, failure::Failure};

/// Paths that need no key: whether the server is there, and a page without secrets.
const OPEN: [&str; 2] = ["/health", "/"];

/// Lets a request pass that names this server and, where one is asked for, has the key.
pub(crate) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match check_host(&app, &request).and_then(|()| check_key(&app, &request)) {
        Ok(()) => next.run(request).await,
        Err(failure) => {
            let is_key = failure.status == StatusCode::UNAUTHORIZED;
            let mut response = failure.into_response();
            if is_key {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            response
        }
    }
}

/// A page of another site can have its name resolved to this machine (DNS rebinding), and then reads what a server on
/// loopback says. The browser still sends the name.
fn check_host(app: &App, request: &Request) -> Result<(), Failure> {
    if !app.is_loopback {
        return Ok(());
    }
    let hosts = request.headers().get_all(HOST).iter().map(|host| host.to_str().ok().and_then(named));
    let mut names: Vec<Option<String>> = hosts.collect();
    if names.len() > 1 {
        return Err(Failure::new(StatusCode::BAD_REQUEST, "a request has one header `Host`"));
    }
    names.extend(request.uri().host().map(|host| Some(host.to_owned())));
    match names.iter().find(|name| !name.as_deref().is_some_and(is_local)) {
        None => Ok(()),
        Some(name) => {
            let name = name.as_deref().unwrap_or("something else");
            let message = format!(
                "this server is for this machine alone, and is called `localhost` or by its address, not `{name}`; to \
                 serve others start it with --addr"
            );
            Err(Failure::new(StatusCode::FORBIDDEN, message).code("host_not_allowed"))
        }
    }
}

fn named(host: &str) -> Option<String> {
    host.parse::<Authority>().ok().map(|authority| authority.host().to_owned())
}

fn is_local(name: &str) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let name = name.to_ascii_lowercase();
    let name = name.trim_end_matches('.');
    address.is_ok_and(|address| address.is_loopback()) || name == "localhost" || name.ends_with(".localhost")
}

fn check_key(app: &App, request: &Request) -> Result<(), Failure> {
    let Some(key) = &app.options.api_key else { return Ok(()) };
    if OPEN.contains(&request.uri().path()) {
        return Ok(());
    }
    let unauthorized = |message| Failure::new(StatusCode::UNAUTHORIZED, message).code("invalid_api_key");
    let sent = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent =
        sent.ok_or_else(|| unauthorized("this server asks for a key: send the header `Authorization: Bearer KEY`"))?;
    let sent = sent.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match sent.and_then(|(_, sent)| ApiKey::new(sent.trim())) {
        Some(sent) if sent == *key => Ok(()),
        _ => Err(unauthorized("the key in the header `Authorization: Bearer KEY` is not that of this server")),
    }
}
