//! What every backend must do, as tests: one behavioural suite, the in-memory model that defines
//! the right answers, and random histories that must end the same everywhere.
//!
//! A backend adopts the suite with one line, [`suite!`], and a function that opens an empty
//! store on a [`Dial`].

pub mod audit;
pub mod cases;
pub mod dial;
pub mod faults;
pub mod history;
pub mod model;
pub mod world;

pub use dial::{Dial, Dice};
pub use model::Model;
pub use world::{Store, World};
