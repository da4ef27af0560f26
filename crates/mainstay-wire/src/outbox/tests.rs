//! From an outbox by frames to an assembly: whatever the order of frames, the same messages come out.

use std::collections::BTreeMap;

use bytes::BytesMut;
use mainstay_core::time;
use proptest::prelude::*;

use super::*;
use crate::assembly::{Assembly, Keep};

const DATA: [Class; 4] = [Class::Log, Class::Reply, Class::Call, Class::Event];

fn windows(messages: u32) -> [Window; Class::COUNT] {
    Class::ALL.map(|class| Window { messages, bytes: 2 * class.message_bytes_max() as u64 })
}

fn message(class: Class, id: u64, body: Vec<u8>) -> Outgoing {
    let frame_type = if class == Class::Reply { FrameType::Answer } else { FrameType::Request };
    Outgoing::new(frame_type, class, Kind::call(id as u16), id, body.into())
}

/// What a test does next.
#[derive(Debug, Clone)]
enum Step {
    Push(usize, usize),
    /// Sends so many frames.
    Send(usize),
    /// The receiver lets go of so many messages.
    Release(usize),
    Withdraw(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![Just(0), 1usize..100, 16_000usize..16_800, 0usize..200_000];
    prop_oneof![
        4 => (0usize..4, bytes).prop_map(|(class, bytes)| Step::Push(class, bytes)),
        4 => (1usize..20).prop_map(Step::Send),
        2 => (1usize..6).prop_map(Step::Release),
        1 => (0usize..50).prop_map(Step::Withdraw),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_interleaving_gives_the_same_messages(steps in prop::collection::vec(step(), 1..120), window in 8u32..20) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let _entered = runtime.enter();
        let now = time::now();
        let (mut outbox, mut assembly) = (Outbox::new(Lane::Data), Assembly::new(windows(window)));
        outbox.open(1, windows(window));
        let mut sent: BTreeMap<u64, (Class, Vec<u8>)> = BTreeMap::new();
        let mut withdrawn = Vec::new();
        let mut arrived: Vec<(Class, u64, Vec<u8>)> = Vec::new();
        let mut held: Vec<(Class, u64)> = Vec::new();
        let mut next = 0;
        let mut bytes = BytesMut::new();
        let all_at_the_end = std::iter::repeat_n([Step::Release(1000), Step::Send(1000)], 200).flatten();
        for step in steps.into_iter().chain(all_at_the_end) {
            match step {
                Step::Push(class, length) => {
                    let body: Vec<u8> = (0..length).map(|i| (i as u64 * 31 + next) as u8).collect();
                    sent.insert(next, (DATA[class], body.clone()));
                    outbox.push(message(DATA[class], next, body));
                    next += 1;
                }
                Step::Send(frames) => {
                    for _ in 0..frames {
                        let Some(piece) = outbox.next(now) else { break };
                        bytes.clear();
                        piece.header.encode(&piece.payload, &mut bytes);
                        let frame = Header::decode(&bytes, Lane::Data, 1).unwrap().unwrap();
                        if let Some(whole) = assembly.add(frame.header, frame.payload, || Keep::Whole).unwrap() {
                            let class = whole.header.class;
                            if class != Class::Reply {
                                held.push((class, whole.body.len() as u64));
                            }
                            arrived.push((class, whole.header.id, whole.body.to_vec()));
                        }
                    }
                }
                Step::Release(count) => {
                    for (class, bytes) in held.drain(..count.min(held.len())) {
                        let returned = Window { messages: 1, bytes };
                        assembly.give_back(class, returned);
                        outbox.credit(class, returned);
                    }
                }
                Step::Withdraw(id) => {
                    let id = id as u64;
                    let Some((class, body)) = sent.get(&id).filter(|(class, _)| *class != Class::Reply) else { continue };
                    match outbox.withdraw(*class, id) {
                        Withdrawn::Gone => continue,
                        Withdrawn::Unsent => {}
                        Withdrawn::Partly => {
                            let (class, bytes) = assembly.discard(id).expect("a part of it has arrived");
                            prop_assert_eq!(bytes, body.len() as u64);
                            held.push((class, bytes));
                        }
                    }
                    withdrawn.push(id);
                }
            }
        }
        prop_assert!(outbox.is_empty());
        for id in withdrawn {
            sent.remove(&id);
        }
        for class in [Class::Log, Class::Event] {
            let order: Vec<_> = arrived.iter().filter(|(of, _, _)| *of == class).map(|(_, id, _)| *id).collect();
            prop_assert!(order.is_sorted(), "{:?}", order);
        }
        prop_assert_eq!(arrived.len(), sent.len());
        for (class, id, body) in arrived {
            prop_assert_eq!(Some((class, body)), sent.remove(&id));
        }
    }

    #[test]
    fn no_frames_panic_an_assembly(frames in prop::collection::vec((0u8..12, any::<(bool, bool, bool)>(), 0usize..4, 0u64..4, 0u32..70_000, 0usize..3000), 0..60)) {
        let mut assembly = Assembly::new(windows(8));
        for (code, (is_first, is_last, wants_answer), class, id, message_bytes, payload) in frames {
            let frame_type = match code {
                0 => FrameType::Request,
                1 => FrameType::Notice,
                2 => FrameType::Answer,
                3 => FrameType::Failure,
                _ => FrameType::Unknown(code + 10),
            };
            let header = Header { version: 1, frame_type, is_first, is_last, wants_answer, class: DATA[class], kind: Kind::call(1), id, message_bytes, remaining_ms: None };
            if let Ok(Some(whole)) = assembly.add(header, &vec![0; payload], || Keep::Whole) {
                prop_assert_eq!(whole.body.len(), whole.header.message_bytes as usize);
            }
            let _ = assembly.discard(id + 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_that_was_idle_gets_nothing_for_its_rest() {
    let now = time::now();
    let mut outbox = Outbox::new(Lane::Data);
    outbox.open(1, windows(1000));
    let mut id = 0;
    let mut push = |outbox: &mut Outbox, class| {
        id += 1;
        outbox.push(message(class, id, vec![0; 16 << 10]));
    };
    for _ in 0..100 {
        push(&mut outbox, Class::Log);
        outbox.next(now).unwrap();
    }
    for _ in 0..20 {
        push(&mut outbox, Class::Log);
        push(&mut outbox, Class::Event);
    }
    let events = (0..18).filter(|_| outbox.next(now).unwrap().header.class == Class::Event).count();
    assert_eq!(events, 2, "one in nine");
}

#[tokio::test(start_paused = true)]
async fn answers_go_while_requests_wait_for_credit() {
    let now = time::now();
    let mut outbox = Outbox::new(Lane::Heartbeat);
    outbox.open(1, windows(8));
    for id in 0..20 {
        outbox.push(Outgoing::new(FrameType::Request, Class::Heartbeat, Kind::member(1), id, Bytes::new()));
    }
    while outbox.next(now).is_some() {}
    outbox.push(Outgoing::new(FrameType::Answer, Class::Heartbeat, Kind::member(1), 99, Bytes::new()));
    assert_eq!(outbox.next(now).unwrap().header.id, 99);
    assert!(outbox.next(now).is_none() && !outbox.is_empty());
    outbox.credit(Class::Heartbeat, Window { messages: 1, bytes: 0 });
    assert_eq!(outbox.next(now).unwrap().header.id, 8);
}
