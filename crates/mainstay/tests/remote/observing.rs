//! Events and listings of actors on other nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use mainstay::actor::{ActorInfo, ActorReminder, Events};
use mainstay::prelude::*;
use mainstay_runtime::ServiceType;
use serde::{Deserialize, Serialize};

use crate::harness::{FIRST, Fault, TwoNodes};

#[derive(Event, Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Said {
    n: u64,
}

#[interface]
trait Speaker {
    async fn say(&mut self, n: u64) -> Result<()>;
}

#[derive(Actor)]
#[actor(implements(Speaker), partitions = 2)]
struct SpeakerActor {
    ctx: Context,
}

impl Remindable for SpeakerActor {
    async fn remind(&mut self, _: Reminder) -> Result<()> {
        Ok(())
    }
}

impl Speaker for SpeakerActor {
    async fn say(&mut self, n: u64) -> Result<()> {
        if n == 100 {
            self.ctx.remind("daily").every(Duration::from_secs(86_400)).set()?;
        }
        self.ctx.publish(Said { n })
    }
}

async fn cluster() -> TwoNodes {
    TwoNodes::start(vec![(ServiceType::of_actor::<SpeakerActor>().unwrap(), FIRST)]).await
}

/// The next event, in a while.
async fn heard(events: &mut Events<Said>) -> (u64, u64, u64) {
    let next = tokio::time::timeout(Duration::from_secs(60), events.next()).await.expect("an event within a minute");
    let next = next.unwrap();
    (next.event.n, next.missed, next.sequence)
}

/// Says something until the subscriber hears it: a subscription to another node begins a moment after it is made.
async fn heard_first(speaker: &SpeakerRef, events: &mut Events<Said>) -> u64 {
    loop {
        speaker.say(0).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Some(first) = events.try_next() {
            return first.unwrap().sequence;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_heard_on_another_node_in_order_and_once() {
    let cluster = cluster().await;
    let speaker: SpeakerRef = cluster.first().services.actor("alice").unwrap();
    let far: SpeakerRef = cluster.second().services.actor("alice").unwrap();
    let mut events = far.events::<Said>().unwrap();
    let first = heard_first(&speaker, &mut events).await;
    for n in 1..=50 {
        if n % 7 == 0 {
            cluster.net.plan([Fault::LoseReply, Fault::LoseRequest, Fault::Duplicate]);
        }
        speaker.say(n).await.unwrap();
    }
    for n in 1..=50 {
        assert_eq!(heard(&mut events).await, (n, 0, first + n));
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_subscription_follows_the_primary_and_counts_what_it_missed() {
    let cluster = cluster().await;
    let far: SpeakerRef = cluster.second().services.actor("alice").unwrap();
    let client: SpeakerRef = cluster.client().actor("alice").unwrap();
    let (mut events, mut of_client) = (far.events::<Said>().unwrap(), client.events::<Said>().unwrap());
    let mut last = heard_first(&client, &mut events).await;
    let mut last_of_client = loop {
        if let Some(event) = of_client.try_next() {
            break event.unwrap().sequence;
        }
        client.say(0).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        cluster.hand_over(FIRST, from, to).await;
        for n in 1..=20 {
            client.say(n).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        // Whatever was missed while the role moved is counted: the numbers have no gap that is not told of.
        for (events, last) in [(&mut events, &mut last), (&mut of_client, &mut last_of_client)] {
            let mut n = 0;
            while n != 20 {
                let (heard_n, missed, sequence) = heard(events).await;
                assert_eq!(sequence, *last + missed + 1);
                (n, *last) = (heard_n, sequence);
            }
        }
    }
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_actor_is_told_of_on_another_node() {
    let cluster = cluster().await;
    let far: SpeakerRef = cluster.second().services.actor("alice").unwrap();
    let mut events = far.events::<Said>().unwrap();
    heard_first(&far, &mut events).await;
    far.delete_actor().await.unwrap();
    let gone = loop {
        match tokio::time::timeout(Duration::from_secs(60), events.next()).await.unwrap() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
    far.say(5).await.unwrap();
    assert_eq!(heard(&mut events).await, (5, 0, 1));
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn actors_are_listed_wherever_they_are() {
    let cluster = cluster().await;
    let client = cluster.client();
    for id in 0..30 {
        client.actor::<SpeakerRef>(format!("actor {id}")).unwrap().say(100).await.unwrap();
    }
    let expected: BTreeSet<_> = (0..30).map(|id| ActorId::from(format!("actor {id}"))).collect();
    for services in [&cluster.first().services, &cluster.second().services, &client] {
        let actors = services.actors_named("SpeakerActor").unwrap();
        cluster.net.plan([Fault::LoseReply]);
        let listed = actors.all().collect().await.unwrap();
        assert_eq!(listed.len(), 30);
        assert_eq!(listed.into_iter().map(|info| info.id).collect::<BTreeSet<_>>(), expected);
        let mut paged = BTreeSet::new();
        let mut continuation = None;
        loop {
            let page = actors.page::<ActorInfo>(continuation.as_ref(), 7).await.unwrap();
            paged.extend(page.items.into_iter().map(|info| info.id));
            continuation = page.continuation;
            if continuation.is_none() {
                break;
            }
        }
        assert_eq!(paged, expected);
        let reminders: Vec<ActorReminder> = actors.all_reminders().collect().await.unwrap();
        assert_eq!(reminders.len(), 30);
        assert!(reminders.iter().all(|listed| listed.reminder.name == "daily" && expected.contains(&listed.actor)));
    }
    cluster.stop().await;
}
