//! Tests of the server over a real socket, before an in-memory store on a clock that they turn.
//!
//! Every answer that any of them gets is also checked against the document of the API.
#![allow(clippy::unwrap_used, missing_docs)]

mod auth;
mod claims;
mod contract;
mod drain;
mod events;
mod flow_building;
mod flow_cancelling;
mod flow_pages;
mod flow_refusals;
mod flows;
mod gate;
mod invited;
mod life;
mod limits;
mod links;
mod openapi;
mod operations;
mod pages;
mod refusals;
mod reports;
mod signals;
mod signing_keys;
mod site;
mod steering;
mod suspension_refusals;
mod suspensions;
mod transcript;
mod waitpoints;
