use std::sync::Weak;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::recorder;
use crate::node::Inner;

/// The form that Prometheus reads.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Answers a request. Its body, if it has one, is not read.
pub(super) fn answer<B>(node: &Weak<Inner>, request: &Request<B>) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    if !matches!(path, "/metrics" | "/health") {
        return text(StatusCode::NOT_FOUND, format!("there is no {path:?}: ask for /metrics or /health\n"));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n".to_owned());
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    let Some(node) = node.upgrade() else { return stopped() };
    if path == "/health" {
        let Some(health) = node.health() else { return stopped() };
        return match health.has_stopped() {
            true => text(StatusCode::SERVICE_UNAVAILABLE, format!("failing\n{health}")),
            // Refused commits are told, but the node serves all that it has, and a restart makes no room.
            false => text(StatusCode::OK, format!("running\n{health}")),
        };
    }
    node.publish_metrics();
    match recorder::render() {
        Some(metrics) => {
            let mut page = text(StatusCode::OK, metrics);
            page.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROMETHEUS_TEXT));
            page
        }
        None => text(
            StatusCode::NOT_FOUND,
            "this application has installed a metrics recorder of its own before the node started: all metrics of the node \
             go there, so ask its exporter\n"
                .to_owned(),
        ),
    }
}

fn stopped() -> Response<Full<Bytes>> {
    text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned())
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PLAIN_TEXT));
    response
}
