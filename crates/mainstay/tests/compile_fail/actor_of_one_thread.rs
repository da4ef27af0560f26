use std::cell::RefCell;
use std::rc::Rc;

use mainstay::prelude::*;

#[derive(Actor)]
struct Counter {
    count: State<u64>,
    shared: Rc<u64>,
    list: RefCell<Vec<u64>>,
}

fn main() {}
