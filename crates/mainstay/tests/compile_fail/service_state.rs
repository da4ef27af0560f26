use mainstay::prelude::*;

#[derive(Service)]
struct Shop {
    count: State<u64>,
    orders: Paged<Vec<u64>>,
}

/// One of the application's own.
#[derive(Default)]
struct Own {
    state: mine::State<u64>,
}

mod mine {
    #[derive(Default)]
    pub struct State<T>(pub T);
}

#[derive(Service)]
struct Told {
    #[service(default)]
    state: mine::State<u64>,
}

#[derive(Worker)]
struct Press {
    count: State<u64>,
}

fn main() {
    let _ = Own::default().state.0;
}
