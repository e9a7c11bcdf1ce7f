//! Auth: who is served. With a token, whoever presents it; without, only this machine.
//!
//! A server without a token listens on loopback addresses only, and also refuses what a page of
//! another site makes a browser of this machine send: requests that are addressed to another name,
//! or that come from another origin.
//!
//! Signals are the exception: a waitpoint token or a link is authority enough, for the one thing it
//! names. Routes that take them stand outside the guard, and say themselves who may come in.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ff_wire::HttpCode;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::Server;
use crate::problem::Refused;

/// What callers must present. Only its digest is kept, and it is never printed.
#[derive(Clone)]
pub struct Token([u8; 32]);

/// A token that cannot be sent in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token must be printable ASCII without spaces, and not empty")]
pub struct MalformedToken;

impl Token {
    /// Refuses what cannot be sent in a header.
    pub fn new(token: &str) -> Result<Self, MalformedToken> {
        if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(MalformedToken);
        }
        Ok(Self(digest(token)))
    }

    /// Compares digests in constant time: neither content nor length can be guessed by timing.
    fn is(&self, presented: &str) -> bool {
        self.0.ct_eq(&digest(presented)).into()
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// An address that others could reach, and no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "refusing to listen on {0} without a token: set FF_TOKEN, or listen on a loopback address such \
     as 127.0.0.1"
)]
pub struct Exposed(pub SocketAddr);

/// Refuses an address that others could reach, unless a token keeps them out.
pub fn check_address(address: SocketAddr, token: Option<&Token>) -> Result<(), Exposed> {
    if token.is_some() || address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(Exposed(address))
}

/// Who is let in.
pub enum Door {
    /// Whoever presents the token.
    Token(Token),
    /// Whoever is on this machine.
    Loopback,
}

impl Door {
    /// The door of a server with or without a token.
    pub fn new(token: Option<Token>) -> Self {
        token.map_or(Self::Loopback, Self::Token)
    }

    /// Refuses who is not let in.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Refused> {
        match self {
            Self::Token(token) => {
                let presented = text(headers, &header::AUTHORIZATION).and_then(bearer);
                if presented.is_some_and(|presented| token.is(presented)) {
                    return Ok(());
                }
                let said = "this route needs the token of the server";
                Err(Refused::http(HttpCode::Unauthorized, said))
            }
            Self::Loopback => {
                let host = text(headers, &header::HOST).unwrap_or_default();
                let origin = text(headers, &header::ORIGIN);
                let own = |origin: &str| origin.split_once("://").is_some_and(|(_, at)| at == host);
                if is_loopback(host) && origin.is_none_or(own) {
                    return Ok(());
                }
                let from = origin.map_or_else(String::new, |origin| format!(" from {origin:?}"));
                let said = format!("a request to {host:?}{from} is not served without a token");
                Err(Refused::http(HttpCode::OriginNotAllowed, said))
            }
        }
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start())
}

/// Whether a `Host` header names this machine, with or without a port.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Lets in who may come in.
pub async fn guard(State(server): State<Server>, request: Request, next: Next) -> Response {
    match server.door().check(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

/// Keeps what is answered out of caches.
pub async fn uncached(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_token_stays_on_this_machine() {
        let token = Token::new("s3cret").unwrap();
        for address in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(check_address(address.parse().unwrap(), None), Ok(()));
        }
        for address in ["0.0.0.0:1", "[::]:1", "192.168.0.7:1", "[2001:db8::1]:1"] {
            let address = address.parse().unwrap();
            let refused = check_address(address, None).unwrap_err();
            assert!(refused.to_string().contains("FF_TOKEN"), "{refused}");
            assert_eq!(check_address(address, Some(&token)), Ok(()));
        }
    }

    #[test]
    fn a_token_that_guards_nothing_is_refused() {
        for token in ["", " ", "a b", "tab\t", "é"] {
            assert!(Token::new(token).is_err(), "{token:?}");
        }
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token::new("s3cret").unwrap();
        assert!(token.is("s3cret"));
        for other in ["", "s3cre", "s3crett", "S3CRET"] {
            assert!(!token.is(other), "{other:?}");
        }
    }

    #[test]
    fn this_machine_has_many_names() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:80", "127.1.2.3", "[::1]:80", "[::1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "example.org", "localhost.example.org:80", "10.0.0.1", "[::2]:80", "::1"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
