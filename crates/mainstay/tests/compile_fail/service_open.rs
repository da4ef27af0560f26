use mainstay::prelude::*;

#[derive(Service)]
struct Given {
    #[open(Ok(1))]
    stock: Dictionary<u64, u64>,
    #[open(Ok(1))]
    #[service(default)]
    number: u64,
}

#[derive(Worker)]
struct OfOneThread {
    #[open(Ok(std::rc::Rc::new(1)))]
    number: std::rc::Rc<u64>,
}

fn main() {}
