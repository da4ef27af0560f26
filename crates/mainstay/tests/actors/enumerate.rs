//! The actors of a type, page by page, in memory or not.

use std::collections::BTreeSet;
use std::future::ready;

use futures_util::{StreamExt, TryStreamExt};
use mainstay::actor::{ActorInfo, PAGE_MAX, PageToken};
use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Item {
    async fn touch(&mut self) -> Result<()>;
    async fn others(&self) -> Result<u64>;
}

#[derive(Actor)]
#[actor(implements(Item), persistence = "none", partitions = 3)]
struct ItemActor {
    touched: State<bool>,
    ctx: Context,
}

impl Item for ItemActor {
    async fn touch(&mut self) -> Result<()> {
        *self.touched = true;
        Ok(())
    }

    async fn others(&self) -> Result<u64> {
        let all = self.ctx.actors::<ItemActor>()?.all().collect().await?;
        Ok(all.iter().filter(|item| item.id != *self.ctx.id()).count() as u64)
    }
}

async fn start(items: i64) -> TestNode {
    let node = TestNode::start(|node| node.actor::<ItemActor>()).await.unwrap();
    for item in 0..items {
        touch(&node, format!("item {item}")).await;
    }
    node
}

async fn touch(node: &TestNode, id: impl Into<ActorId>) {
    node.actor::<ItemRef>(id).unwrap().touch().await.unwrap();
}

#[tokio::test]
async fn every_actor_is_listed_once_whatever_the_pages() {
    let node = start(50).await;
    touch(&node, 7).await;
    let actors = node.actors::<ItemActor>().unwrap();
    for limit in [1, 7, 51, 1000] {
        let (mut seen, mut continuation) = (Vec::new(), None);
        loop {
            let page = actors.page::<ActorInfo>(continuation.as_ref(), limit).await.unwrap();
            assert!(page.items.len() <= limit && seen.len() <= 51, "pages that never end");
            seen.extend(page.items.into_iter().map(|item| item.id));
            // As it would be kept by somebody else.
            continuation = page.continuation.map(|next| next.to_string().parse::<PageToken>().unwrap());
            if continuation.is_none() {
                break;
            }
        }
        assert_eq!(seen.len(), 51, "pages of {limit}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 51, "pages of {limit}");
    }
    let mut by_partition = 0;
    for partition in 0..actors.partitions() {
        let found = actors.all_of_partition(partition).unwrap().collect().await.unwrap().len();
        assert!(found > 0);
        by_partition += found;
    }
    assert_eq!(by_partition, 51);
    assert_eq!(node.actor::<ItemRef>(7).unwrap().others().await.unwrap(), 50, "from within an actor too");
}

#[tokio::test]
async fn it_is_told_who_is_in_memory() {
    let node = start(4).await;
    node.deactivate_actor::<ItemActor>("item 2").await.unwrap();
    assert_eq!(node.actors::<ItemActor>().unwrap().active(), 3);
    let mut all = node.actors_named("ItemActor").unwrap().all().collect().await.unwrap();
    all.sort_by(|one, other| one.id.cmp(&other.id));
    let active: Vec<_> = all.iter().map(|item| (item.id.as_text().unwrap(), item.is_active)).collect();
    assert_eq!(active, [("item 0", true), ("item 1", true), ("item 2", false), ("item 3", true)]);
}

#[tokio::test]
async fn those_that_exist_throughout_are_listed_once_while_others_come_and_go() {
    let node = start(60).await;
    let actors = node.actors::<ItemActor>().unwrap();
    let (mut seen, mut continuation, mut round) = (Vec::new(), None, 0);
    loop {
        let page = actors.page::<ActorInfo>(continuation.as_ref(), 7).await.unwrap();
        // The last of the page, after which the next one begins, goes too.
        if let Some(last) = page.items.last().filter(|last| last.id.as_text().is_some_and(|id| id.ends_with('0'))) {
            actors.delete(&last.id).await.unwrap();
        }
        seen.extend(page.items.into_iter().map(|item| item.id));
        touch(&node, format!("new {round}")).await;
        actors.delete(format!("item {}0", round % 6)).await.unwrap();
        round += 1;
        continuation = page.continuation;
        if continuation.is_none() {
            break;
        }
    }
    let stay = |id: &&ActorId| id.as_text().is_some_and(|id| id.starts_with("item") && !id.ends_with('0'));
    let stayed: Vec<_> = seen.iter().filter(stay).collect();
    assert_eq!(stayed.len(), 54, "each that stayed, once");
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
}

#[tokio::test]
async fn what_cannot_be_listed_is_refused() {
    let node = start(3).await;
    let actors = node.actors::<ItemActor>().unwrap();
    for limit in [0, PAGE_MAX + 1] {
        let error = actors.page::<ActorInfo>(None, limit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(actors.partition_page::<ActorInfo>(3, None, 1).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(actors.all_reminders().collect().await.unwrap(), []);
    let first = actors.page::<ActorInfo>(None, 1).await.unwrap().continuation.unwrap();
    let error = actors.page::<mainstay::actor::ActorReminder>(Some(&first), 1).await.unwrap_err();
    assert!(error.to_string().contains("of another listing"), "{error}");
    assert_eq!("nonsense".parse::<PageToken>().unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_listing_is_a_stream_that_ends_after_an_error() {
    let node = start(20).await;
    let actors = node.actors::<ItemActor>().unwrap();
    let active: Vec<_> = actors.all().try_filter(|item| ready(item.is_active)).try_collect().await.unwrap();
    assert_eq!(active.len(), 20);

    let mut listing = actors.all();
    let first = StreamExt::next(&mut listing).await.unwrap().unwrap();
    let second = listing.next().await.unwrap().unwrap();
    assert_ne!(first.id, second.id);
    // The page of the first ones is in memory, and is the last.
    assert_eq!(listing.collect().await.unwrap().len(), 18);

    let mut unread = actors.all();
    node.stop().await;
    let seen: Vec<_> = StreamExt::collect(unread.by_ref()).await;
    assert!(matches!(&seen[..], [Err(_)]), "{seen:?}");
    unread.next().await.unwrap_err();
}
