use mainstay::prelude::*;

#[derive(Actor)]
#[actor(partitions = 0)]
struct Empty;

#[derive(Actor)]
#[actor(partitions = uniform(10))]
struct Uniform;

#[derive(Actor)]
#[actor(persistence = "disk")]
struct Disk;

#[derive(Actor)]
#[actor(name = "")]
struct Nameless;

#[derive(Actor)]
#[actor(partitions = 10, partitions = 5)]
struct Twice;

#[derive(Actor)]
#[actor(implement(Counter))]
struct Misspelt;

fn main() {}
