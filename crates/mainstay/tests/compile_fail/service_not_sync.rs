use std::cell::Cell;

use mainstay::prelude::*;

#[derive(Service)]
struct Shop {
    open: Cell<bool>,
}

fn main() {}
