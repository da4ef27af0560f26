use proptest::prelude::*;

use super::*;

const ID: ActorId = ActorId::Number(7);

fn owner(kind: Kind) -> Owner<'static> {
    Owner { kind, id: &ID, name: "the name" }
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let cron = prop_oneof![Just("@daily"), Just("30 8 * * MON-FRI"), Just("*/5 * * * * *")];
    prop_oneof![
        Just(Schedule::Once),
        (0..1_000_000_u64, 1..1_000_000_000_u32).prop_map(|(s, nanos)| Schedule::Every(Duration::new(s, nanos))),
        cron.prop_map(|text| Schedule::Cron(CronSchedule::parse(text).unwrap())),
    ]
}

fn reminders() -> impl Strategy<Value = Reminder> {
    let catch_up = prop_oneof![Just(CatchUp::Once), Just(CatchUp::All), Just(CatchUp::Skip)];
    let payload = prop::collection::vec(any::<u8>(), 0..50);
    (payload, schedules(), catch_up, any::<[u64; 3]>(), any::<u32>(), any::<Option<u32>>()).prop_map(
        |(payload, schedule, catch_up, [due, planned, fired], failures, wait)| Reminder {
            name: "the name".into(),
            payload: payload.into(),
            schedule,
            catch_up,
            due: WallTime::from_millis(due),
            planned: WallTime::from_millis(planned),
            failures,
            fired,
            wait: wait.map(|millis| Duration::from_millis(millis.into())),
        },
    )
}

fn answers() -> impl Strategy<Value = Answer> {
    let call = prop::option::of((any::<String>(), any::<[u8; 16]>()));
    (call, any::<String>(), prop::collection::vec(any::<u8>(), 0..50), any::<u64>()).prop_map(
        |(call, method, reply, expires)| {
            let (interface, arguments) = call.map(|(name, bytes)| (name, Fingerprint::from_bytes(bytes))).unzip();
            Answer { interface, method, arguments, reply: reply.into(), expires: WallTime::from_millis(expires) }
        },
    )
}

fn stored_reminder(reminder: &Reminder) -> Vec<u8> {
    [&reminder_head(reminder)[..], &reminder.payload].concat()
}

fn stored_answer(answer: &Answer) -> Vec<u8> {
    [&answer_head(answer)[..], &answer.reply].concat()
}

/// Every error names the actor and the entry.
fn check_error(error: &Error, kind: Kind) {
    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::UnknownVersion), "{error:?}");
    assert!(error.to_string().contains(&format!("{kind} \"the name\" of actor 7")), "{error}");
}

proptest! {
    #[test]
    fn what_is_stored_is_read_again(reminder in reminders(), answer in answers()) {
        let bytes = Bytes::from(stored_reminder(&reminder));
        prop_assert_eq!(owner(Kind::Reminder).time(&bytes).unwrap(), Some(reminder.due));
        prop_assert_eq!(owner(Kind::Reminder).reminder(&bytes).unwrap(), reminder);
        let bytes = Bytes::from(stored_answer(&answer));
        prop_assert_eq!(owner(Kind::Answer).time(&bytes).unwrap(), Some(answer.expires));
        prop_assert_eq!(owner(Kind::Answer).answer(&bytes).unwrap(), answer);
    }

    #[test]
    fn damage_is_an_error_with_a_name_and_never_a_panic(
        reminder in reminders(),
        answer in answers(),
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        for (kind, stored) in [(Kind::Reminder, stored_reminder(&reminder)), (Kind::Answer, stored_answer(&answer))] {
            let mut flipped = stored.clone();
            flipped[at.index(stored.len())] ^= flip;
            for bytes in [flipped, stored[..at.index(stored.len())].to_vec()] {
                let bytes = Bytes::from(bytes);
                let error = match kind {
                    Kind::Reminder => owner(kind).reminder(&bytes).err(),
                    _ => owner(kind).answer(&bytes).err(),
                };
                if let Some(error) = error {
                    check_error(&error, kind);
                }
                if let Err(error) = owner(kind).time(&bytes) {
                    check_error(&error, kind);
                }
            }
        }
    }
}

fn weekly() -> Reminder {
    let schedule = Schedule::Cron(CronSchedule::parse("@weekly").unwrap());
    let at = WallTime::from_millis;
    let (payload, catch_up) = (Bytes::from_static(b"p"), CatchUp::Skip);
    let (name, due, planned) = ("the name".into(), at(1), at(2));
    Reminder { name, payload, schedule, catch_up, due, planned, failures: 3, fired: 4, wait: None }
}

#[test]
fn records_are_as_they_were_written_down() {
    let head = b"\x01\x02\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x03\0\0\0\0\0\0\0\x04";
    assert_eq!(stored_reminder(&weekly()), [&head[..], b"\x01\0\x07@weekly", b"p"].concat());
    let mut reminder = weekly();
    reminder.schedule = Schedule::Every(Duration::new(5, 6));
    reminder.catch_up = CatchUp::All;
    assert_eq!(stored_reminder(&reminder)[..3], [1, 1, 1]);
    assert_eq!(stored_reminder(&reminder)[31..], *b"\0\0\0\0\0\0\0\x05\0\0\0\x06p");
    reminder.schedule = Schedule::Once;
    reminder.catch_up = CatchUp::Once;
    assert_eq!(stored_reminder(&reminder)[..3], [1, 0, 0]);
    assert_eq!(stored_reminder(&reminder)[31..], *b"p");
    reminder.wait = Some(Duration::new(7, 8));
    assert_eq!(stored_reminder(&reminder)[..3], [2, 0, 0]);
    assert_eq!(stored_reminder(&reminder)[31..], *b"\0\0\0\0\0\0\0\x07\0\0\0\x08p");
    let (interface, arguments) = (Some("Till".into()), Some(Fingerprint::from_bytes([7; 16])));
    let (reply, expires) = (Bytes::from_static(b"r"), WallTime::from_millis(9));
    let answer = Answer { interface, method: "m".into(), arguments, reply, expires };
    let stored = [&b"\x02\0\0\0\0\0\0\0\x09"[..], &[7; 16], b"\0\x04Till\0\x01mr"].concat();
    assert_eq!(stored_answer(&answer), stored);
    // One of an earlier build.
    let answer = Answer { interface: None, arguments: None, ..answer };
    assert_eq!(stored_answer(&answer), b"\x01\0\0\0\0\0\0\0\x09\0\x01mr");
    assert_eq!(owner(Kind::Answer).answer(&stored_answer(&answer).into()).unwrap(), answer);
}

#[test]
fn each_damaged_field_is_told() {
    let damaged = |at: usize, byte: u8| {
        let mut bytes = stored_reminder(&weekly());
        bytes[at] = byte;
        let error = owner(Kind::Reminder).reminder(&bytes.into()).unwrap_err();
        check_error(&error, Kind::Reminder);
        error.kind()
    };
    assert_eq!(damaged(0, 3), ErrorKind::UnknownVersion);
    assert_eq!(damaged(1, 3), ErrorKind::Corrupt);
    assert_eq!(damaged(2, 3), ErrorKind::Corrupt);
    // The version and the text of the expression, and a length beyond the end.
    assert_eq!(damaged(31, 2), ErrorKind::UnknownVersion);
    assert_eq!(damaged(32, 1), ErrorKind::Corrupt);
    assert_eq!(damaged(34, b'!'), ErrorKind::Corrupt);
    assert_eq!(damaged(34, 0xff), ErrorKind::Corrupt);

    // A period of nothing, and one with more than a second of nanoseconds.
    let mut reminder = weekly();
    reminder.schedule = Schedule::Every(Duration::ZERO);
    let mut bytes = stored_reminder(&reminder);
    check_error(&owner(Kind::Reminder).reminder(&bytes.clone().into()).unwrap_err(), Kind::Reminder);
    bytes[39] = 0xff;
    check_error(&owner(Kind::Reminder).reminder(&bytes.into()).unwrap_err(), Kind::Reminder);

    for (bytes, kind) in [(vec![], ErrorKind::Corrupt), (vec![9, 1, 2], ErrorKind::UnknownVersion)] {
        let error = owner(Kind::State).state(bytes.clone().into()).unwrap_err();
        check_error(&error, Kind::State);
        assert_eq!(error.kind(), kind);
        assert_eq!(check_known(&ID, &bytes[..bytes.len().min(1)]).unwrap_err().kind(), kind);
    }
    check_known(&ID, &[VERSION]).unwrap();
}

#[test]
fn the_value_of_a_state_shares_its_bytes_with_the_record() {
    let record = Bytes::from(vec![VERSION, 5, 6, 7]);
    let value = owner(Kind::State).state(record.clone()).unwrap();
    assert_eq!(&value[..], [5, 6, 7]);
    assert_eq!(value.as_ptr(), record[1..].as_ptr());
}

#[test]
fn a_count_of_events_is_seventeen_bytes_and_nothing_else() {
    let record = [[VERSION, 0, 0, 0, 0, 0, 0, 0, 7, 0].as_slice(), &[0, 0, 0, 0, 0, 1, 2]].concat();
    assert_eq!(owner(Kind::Event).published(&record).unwrap(), Published { life: 7, count: 258 });
    for length in 0..record.len() {
        check_error(&owner(Kind::Event).published(&record[..length]).unwrap_err(), Kind::Event);
    }
    check_error(&owner(Kind::Event).published(&[&record[..], &[0]].concat()).unwrap_err(), Kind::Event);
    let error = owner(Kind::Event).published(&[2; 17]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownVersion);
}
