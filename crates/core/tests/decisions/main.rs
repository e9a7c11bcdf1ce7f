//! The rules of each decision, one sentence each.

#![allow(clippy::unwrap_used)]

#[path = "../support/columns.rs"]
mod columns;
#[path = "../support/commands.rs"]
mod commands;
#[path = "../support/members.rs"]
mod members;
#[path = "../support/samples.rs"]
mod samples;
#[path = "../support/suspensions.rs"]
mod suspensions;
#[path = "../support/world.rs"]
mod world;

mod cancelling;
mod creation;
mod endings;
mod events;
mod fences;
mod forgeries;
mod graphs;
mod handing_back;
mod leases;
mod operators;
mod replays;
mod retries;
mod rows;
mod signals;
mod suspending;
mod suspension_timeouts;
