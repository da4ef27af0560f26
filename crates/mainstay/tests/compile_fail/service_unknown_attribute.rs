use mainstay::prelude::*;

#[derive(Service)]
#[service(partition = "uniform(10)")]
struct Misspelt {}

#[derive(Service)]
#[service(partitions = "ranged(10)")]
struct Ranged {}

#[derive(Service)]
#[service(partitions = uniform(0))]
struct Empty {}

#[derive(Service)]
#[service(persistence = "disk")]
struct Disk {}

#[derive(Service)]
struct Field {
    #[service(rename = "x")]
    field: u8,
}

#[derive(Service)]
#[service(run, run)]
struct Twice {}

fn main() {}
