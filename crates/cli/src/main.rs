//! ff
fn main() {}
