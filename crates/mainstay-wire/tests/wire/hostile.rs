//! Peers that are no friends: each is dropped with one clear line, and costs others nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, BytesMut};
use mainstay_core::{Result, time};
use mainstay_wire::frame::{FrameType, Header};
use mainstay_wire::hello::{Hello, HelloAnswer, PREFIX_BYTES, body_bytes};
use mainstay_wire::sim::SimNetwork;
use mainstay_wire::{Class, Connection, Dial as _, Kind, Lane, Sender, Stream, TcpDial, TcpListen};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::roles::hello;
use crate::support::*;

/// Collects what is logged on this thread.
pub(crate) fn log_lines() -> (Arc<Mutex<Vec<String>>>, tracing::subscriber::DefaultGuard) {
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Lines {
        fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            struct Text(String);
            impl tracing::field::Visit for Text {
                fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                    self.0 += &format!("{field}={value:?} ");
                }
            }
            let mut text = Text(String::new());
            event.record(&mut text);
            self.0.lock().push(text.0);
        }
    }

    let lines = Arc::<Mutex<Vec<String>>>::default();
    let subscriber = tracing_subscriber::registry().with(Lines(lines.clone()));
    (lines, tracing::subscriber::set_default(subscriber))
}

/// Says a hello to node 1, and hears the answer.
pub(crate) async fn exchange(network: &SimNetwork, hello: Hello) -> Result<HelloAnswer> {
    let mut connection = network.dial_from("evil").dial(&address(1)).await?;
    connection.stream.write_all(&hello.encode()).await.unwrap();
    Ok(hear(&mut connection.stream).await)
}

async fn hear(stream: &mut Box<dyn Stream>) -> HelloAnswer {
    let mut prefix = [0; PREFIX_BYTES];
    stream.read_exact(&mut prefix).await.unwrap();
    let mut body = vec![0; body_bytes(&prefix).unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    HelloAnswer::decode(&prefix, &body).unwrap()
}

/// What one does, and what is said of it. Frames come after a hello.
struct Attack {
    name: &'static str,
    bytes: Vec<u8>,
    line: &'static str,
}

fn frame(change: impl FnOnce(&mut Header), payload: &[u8]) -> Vec<u8> {
    let mut header = Header {
        version: 1,
        frame_type: FrameType::Request,
        is_first: true,
        is_last: true,
        wants_answer: true,
        class: Class::Call,
        kind: NOTE,
        id: 1,
        message_bytes: payload.len() as u32,
        remaining_ms: None,
    };
    change(&mut header);
    let mut out = BytesMut::new();
    header.encode(payload, &mut out);
    out.to_vec()
}

fn attacks() -> Vec<Attack> {
    let hello = hello().encode().to_vec();
    let after_hello = |bytes: &[u8]| [&hello[..], bytes].concat();
    let attack = |name, bytes: Vec<u8>, line| Attack { name, bytes, line };
    let held = |id: u64| frame(|h| (h.kind, h.id) = (HOLD, id), &[]);
    let mut huge_hello = hello.clone();
    huge_hello[6..8].copy_from_slice(&[0xff, 0xff]);
    let mut damaged = frame(|_| (), b"x");
    damaged[20] ^= 1;
    vec![
        attack("nothing", vec![], "not said hello"),
        attack("half a hello", hello[..20].to_vec(), "not said hello"),
        attack("a web browser", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "does not speak"),
        attack("TLS", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0], "TLS"),
        attack("a huge hello", huge_hello, "65535"),
        attack("garbage", after_hello(&[0xa5; 300]), "length of 2779096485"),
        attack("a huge length", after_hello(&u32::MAX.to_le_bytes()), "length of 4294967295"),
        attack("half a frame", after_hello(&frame(|_| (), &[7; 1000])[..500]), "no frame has come"),
        attack("a damaged frame", after_hello(&damaged), "checksum"),
        attack("another version", after_hello(&frame(|h| h.version = 9, b"")), "version 9"),
        attack("a class of another lane", after_hello(&frame(|h| h.class = Class::Bulk, b"")), "class"),
        attack(
            "a message that is too large",
            after_hello(&frame(|h| (h.message_bytes, h.is_last) = (1 << 30, false), b"x")),
            "too large",
        ),
        attack("more than it says", after_hello(&frame(|h| h.message_bytes = 1, b"xyz")), "has 3 bytes, and says 1"),
        attack("a message that has not begun", after_hello(&frame(|h| h.is_first = false, b"x")), "has not begun"),
        attack("one request twice", after_hello(&[held(7), held(7)].concat()), "twice"),
        attack("more than was granted", after_hello(&(0..4097).flat_map(held).collect::<Vec<_>>()), "than was granted"),
        attack(
            "many beginnings",
            after_hello(
                &(0..9)
                    .flat_map(|id| frame(|h| (h.id, h.is_last, h.message_bytes) = (id, false, 9), b"x"))
                    .collect::<Vec<_>>(),
            ),
            "sent at once",
        ),
        attack("an empty fragment", after_hello(&frame(|h| (h.is_last, h.message_bytes) = (false, 9), b"")), "empty"),
        attack(
            "half a credit",
            after_hello(&frame(|h| h.frame_type = FrameType::Credit, &[3, 1, 1])),
            "a credit ends too early",
        ),
    ]
}

/// Carries out an attack, and waits until the connection is closed.
async fn carry_out(attack: &Attack, mut connection: Connection) {
    let written = connection.stream.write_all(&attack.bytes).await;
    // It may be dropped before it has said everything.
    let mut rest = Vec::new();
    let _ = connection.stream.read_to_end(&mut rest).await;
    drop(written);
}

#[tokio::test(start_paused = true)]
async fn each_is_dropped_with_one_line_and_others_go_on() {
    for place in 0..attacks().len() {
        // Made anew, because a hello has the time of day in it.
        let attack = attacks().swap_remove(place);
        let (lines, _guard) = log_lines();
        let network = SimNetwork::new();
        let (one, two) = pair(&network).await;
        let begun = time::now();
        carry_out(&attack, network.dial_from("evil").dial(&address(1)).await.unwrap()).await;
        assert!(begun.elapsed() < 10 * SECOND, "{}: {:?}", attack.name, begun.elapsed());
        until(|| !lines.lock().is_empty()).await;
        let logged = lines.lock().clone();
        let [line] = &logged[..] else { panic!("{}: {logged:?}", attack.name) };
        assert!(line.contains(attack.line) && line.contains("remote=\"evil\""), "{}: {line}", attack.name);
        assert_eq!(two.call(1, ECHO, "x").await.unwrap(), "x", "{}", attack.name);
        assert!(one.desk.disconnected.lock().iter().all(|(from, _, _)| *from == peer(9)), "{}", attack.name);
        assert!(one.desk.notes.lock().is_empty(), "{}", attack.name);
        // What it held is free again, and the next peer with its name can come.
        until(|| one.desk.held.lock().iter().all(|held| held.is_cancelled())).await;
        assert!(!one.endpoint.is_connected(peer(9), Lane::Data));
    }
}

#[tokio::test]
async fn each_is_dropped_on_real_sockets() {
    let mut options = mainstay_wire::EndpointOptions::new(Sender::Node(mainstay_core::NodeId(1)), Some(CLUSTER));
    options.timing.handshake_max = Duration::from_millis(200);
    options.timing.data.ping_after = Duration::from_millis(100);
    options.timing.data.silence_max = Duration::from_millis(300);
    let one = start(options);
    let address = one.endpoint.listen(TcpListen::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap()).unwrap();
    let web = start(mainstay_wire::EndpointOptions::new(Sender::client("web").unwrap(), None));
    web.endpoint.connect(&address).await.unwrap();
    for place in 0..attacks().len() {
        // Made anew, because a hello has the time of day in it.
        let attack = attacks().swap_remove(place);
        let connection = TcpDial.dial(&address).await.unwrap();
        carry_out(&attack, connection).await;
        assert_eq!(web.call(1, ECHO, "x").await.unwrap(), "x", "{}", attack.name);
    }
    assert_eq!(one.desk.connected.lock().iter().filter(|(from, _)| *from != peer(9)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_that_say_nothing_cost_one_line_and_no_friend_a_place() {
    let (lines, _guard) = log_lines();
    let network = SimNetwork::new();
    let (one, web) = (node(&network, 1), client(&network, "web"));
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(network.dial_from("evil").dial(&address(1)).await.unwrap());
    }
    web.endpoint.connect(&address(1)).await.unwrap();
    time::sleep(5 * SECOND).await;
    let logged = lines.lock().clone();
    assert!(logged.len() == 1 && logged[0].contains("too many"), "{logged:?}");
    drop(silent);
    assert_eq!(one.endpoint.connections().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_type_of_a_later_version_is_an_error_and_never_a_stop() {
    let network = SimNetwork::new();
    let one = node(&network, 1);
    let mut connection = network.dial_from("later").dial(&address(1)).await.unwrap();
    let stream = &mut connection.stream;
    stream.write_all(&hello().encode()).await.unwrap();
    hear(stream).await;
    let later = FrameType::Unknown(77);
    let mut bytes = frame(|h| (h.frame_type, h.id) = (later, 5), b"what is this");
    bytes.extend(frame(|h| (h.frame_type, h.id, h.wants_answer) = (later, 6, false), b"or this"));
    bytes.extend(frame(|h| (h.kind, h.id) = (ECHO, 7), b"known"));
    bytes.extend(frame(|h| (h.kind, h.id) = (Kind::call(99), 8), b"not known"));
    // A credit for a class that is not known is none of ours.
    let mut credit = BytesMut::new();
    credit.put_u8(200);
    credit.put_bytes(0, 12);
    bytes.extend(frame(|h| (h.frame_type, h.id) = (FrameType::Credit, 0), &credit));
    bytes.extend(frame(|h| (h.kind, h.id) = (ECHO, 9), b"still here"));
    stream.write_all(&bytes).await.unwrap();
    let (mut buffer, mut answers) = (BytesMut::new(), Vec::new());
    while answers.len() < 4 {
        stream.read_buf(&mut buffer).await.unwrap();
        while let Some(decoded) = Header::decode(&buffer, Lane::Data, 1).unwrap() {
            if matches!(decoded.header.frame_type, FrameType::Answer | FrameType::Failure) {
                answers.push((
                    decoded.header.id,
                    decoded.header.frame_type,
                    String::from_utf8_lossy(decoded.payload).into_owned(),
                ));
            }
            let length = decoded.length;
            bytes::Buf::advance(&mut buffer, length);
        }
    }
    answers.sort_by_key(|answer| answer.0);
    assert!(answers[0].0 == 5 && answers[0].1 == FrameType::Failure && answers[0].2.contains("type 77"), "{answers:?}");
    assert_eq!(answers[1], (7, FrameType::Answer, "known".to_owned()));
    assert!(answers[2].1 == FrameType::Failure && answers[2].2.contains("not known"), "{answers:?}");
    assert_eq!(answers[3], (9, FrameType::Answer, "still here".to_owned()));
    assert!(one.desk.disconnected.lock().is_empty());
}
