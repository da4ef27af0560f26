use std::time::Duration;

use mainstay_core::{random, task, time};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::address::Address;
use crate::stream::{Connection, Dial as _, Listen as _};

async fn pair(network: &SimNetwork) -> (Connection, Connection) {
    let address: Address = "b:1".parse().unwrap();
    let mut listen = network.listen(&address).unwrap();
    let dialed = network.dial_from("a").dial(&address).await.unwrap();
    (dialed, listen.accept().await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_in_order_after_the_delay_and_at_the_rate() {
    random::seed_thread(1);
    let network = SimNetwork::new();
    let link = SimLink { delay: Duration::from_millis(10), bytes_per_second: Some(1 << 20) };
    network.set_link("a", "b", link);
    let (mut one, mut two) = pair(&network).await;
    let begun = time::now();
    let sent: Vec<u8> = (0..1 << 20).map(|i: u32| (i / 7) as u8).collect();
    let expected = sent.clone();
    task::spawn(async move {
        one.stream.write_all(&sent).await.unwrap();
        one.stream.shutdown().await.unwrap();
    });
    let mut received = Vec::new();
    two.stream.read_to_end(&mut received).await.unwrap();
    assert!(received == expected);
    let took = begun.elapsed();
    assert!((1005..1030).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cut_holds_bytes_back_and_a_reset_ends_the_connection() {
    let network = SimNetwork::new();
    let (mut one, mut two) = pair(&network).await;
    network.cut_one_way("a", "b");
    one.stream.write_all(b"x").await.unwrap();
    let minute = Duration::from_secs(60);
    let mut byte = [0];
    assert!(time::timeout(minute, two.stream.read_exact(&mut byte)).await.is_err());
    two.stream.write_all(b"y").await.unwrap();
    one.stream.read_exact(&mut byte).await.unwrap();
    network.heal("a", "b");
    two.stream.read_exact(&mut byte).await.unwrap();
    assert_eq!(&byte, b"x");
    assert_eq!(network.connections("b", "a"), 1);
    network.reset("a", "b");
    assert!(two.stream.read_exact(&mut byte).await.is_err());
    assert!(one.stream.write_all(b"x").await.is_err());
    drop((one, two));
    assert_eq!(network.connections("a", "b"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_resolved_at_each_dial() {
    let network = SimNetwork::new();
    let (one, two): (Address, Address) = ("h1:1".parse().unwrap(), "h2:1".parse().unwrap());
    let (mut first, mut second) = (network.listen(&one).unwrap(), network.listen(&two).unwrap());
    let (dial, name) = (network.dial_from("a"), "name:1".parse().unwrap());
    assert!(dial.dial(&name).await.is_err());
    network.resolve("name", "h1");
    let _kept = dial.dial(&name).await.unwrap();
    first.accept().await.unwrap();
    network.resolve("name", "h2");
    let _kept = dial.dial(&name).await.unwrap();
    second.accept().await.unwrap();
}
