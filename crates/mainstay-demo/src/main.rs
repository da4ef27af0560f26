//! The event pipeline of resource governance, running in a terminal.

fn main() {}
