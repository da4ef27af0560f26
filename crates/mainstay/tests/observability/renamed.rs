//! Types and fields that were renamed: what was stored under the old name is reported, with what keeps the name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mainstay::prelude::*;
use mainstay::testkit::TestNode;
use tracing::Level;

use crate::capture::Captured;

#[interface]
trait Purse {
    async fn pay(&mut self, cents: u64) -> Result<u64>;
    async fn note(&mut self, text: String) -> Result<()>;
}

/// One type of one name after another, as a program has them from version to version.
macro_rules! version {
    ($version:ident, $($name:literal,)? $field:ident $(, $stored:literal)?) => {
        mod $version {
            use super::*;

            #[derive(Actor)]
            #[actor(implements(Purse) $(, name = $name)?)]
            pub(super) struct Wallet {
                $(#[actor(name = $stored)])?
                $field: State<u64>,
                ctx: Context,
            }

            impl Purse for Wallet {
                async fn pay(&mut self, cents: u64) -> Result<u64> {
                    *self.$field += cents;
                    Ok(*self.$field)
                }

                async fn note(&mut self, text: String) -> Result<()> {
                    self.ctx.state_mut().set("by name", text)
                }
            }
        }
    };
}

version!(first, cents);
version!(field_renamed, amount);
version!(type_renamed, "Pocket", cents);
version!(name_kept, amount, "cents");

#[tokio::test]
async fn what_was_stored_under_an_old_name_is_reported_once_with_what_keeps_the_name() {
    let version = Arc::new(AtomicU32::new(0));
    let (captured, _guard) = Captured::start(Level::WARN);
    let now = version.clone();
    let mut node = TestNode::start(move |node| match now.load(Ordering::Relaxed) {
        0 => node.actor::<first::Wallet>(),
        1 => node.actor::<field_renamed::Wallet>(),
        2 => node.actor::<type_renamed::Wallet>(),
        _ => node.actor::<name_kept::Wallet>(),
    })
    .await
    .unwrap();
    for id in 0..20 {
        let purse: PurseRef = node.actor(id).unwrap();
        purse.note("no field".into()).await.unwrap();
        assert_eq!(purse.pay(5).await.unwrap(), 5);
    }
    node.restart().await.unwrap();
    assert_eq!(node.actor::<PurseRef>(1).unwrap().pay(5).await.unwrap(), 10);
    assert_eq!(captured.saying("of that name").len(), 0, "nothing was renamed");

    version.store(1, Ordering::Relaxed);
    node.restart().await.unwrap();
    for id in 0..20 {
        assert_eq!(node.actor::<PurseRef>(id).unwrap().pay(1).await.unwrap(), 1, "it starts empty");
    }
    let said = captured.saying("of that name");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!((said[0].level, said[0].field("field")), (Level::WARN, "cents"));
    assert!(said[0].message().contains("Wallet has state stored as \"cents\""), "{said:?}");
    assert!(said[0].message().contains("`#[actor(name = \"cents\")]`"), "{said:?}");

    version.store(2, Ordering::Relaxed);
    node.restart().await.unwrap();
    let said = captured.saying("no type of that name");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!((said[0].level, said[0].field("service")), (Level::WARN, "Wallet"));
    assert!(said[0].message().contains("`#[actor(name = \"Wallet\")]` or `#[service(name = \"Wallet\")]`"), "{said:?}");

    version.store(3, Ordering::Relaxed);
    let before = captured.saying("of that name").len();
    node.restart().await.unwrap();
    assert_eq!(node.actor::<PurseRef>(2).unwrap().pay(5).await.unwrap(), 10, "as it was before it was renamed");
    let said = captured.saying("of that name");
    let of_field: Vec<_> = said[before..].iter().map(|seen| (seen.field("field"), seen.field("service"))).collect();
    assert_eq!(of_field, [("", "Pocket"), ("amount", "Wallet")], "what the versions between have stored");
}

#[interface]
trait Shelf {
    async fn put(&self, number: u64) -> Result<()>;
}

macro_rules! shelf {
    ($version:ident, $field:ident) => {
        mod $version {
            use super::*;

            #[derive(Service)]
            #[service(implements(Shelf), partitions = uniform(4), name = "Shelf")]
            pub(super) struct ShelfService {
                $field: Dictionary<u64, u64>,
                state: StateManager,
            }

            impl Shelf for ShelfService {
                async fn put(&self, number: u64) -> Result<()> {
                    self.state.transact(async |mut tx| self.$field.set(&mut tx, number, number).await).await
                }
            }
        }
    };
}

shelf!(first_shelf, books);
shelf!(renamed_shelf, volumes);
shelf!(twice_renamed_shelf, tomes);

#[tokio::test]
async fn so_is_a_collection_when_another_takes_its_place() {
    let version = Arc::new(AtomicU32::new(0));
    let (captured, _guard) = Captured::start(Level::WARN);
    let now = version.clone();
    let mut node = TestNode::start(move |node| match now.load(Ordering::Relaxed) {
        0 => node.service::<first_shelf::ShelfService>(),
        1 => node.service::<renamed_shelf::ShelfService>(),
        _ => node.service::<twice_renamed_shelf::ShelfService>(),
    })
    .await
    .unwrap();
    for expected in [0, 1, 3] {
        for key in 0..20 {
            node.service::<ShelfRef>(key).unwrap().put(1).await.unwrap();
        }
        let said = captured.saying("no field of that name");
        assert_eq!(said.len(), expected, "{said:?}");
        version.fetch_add(1, Ordering::Relaxed);
        node.restart().await.unwrap();
    }
    let said = captured.saying("no field of that name");
    assert_eq!((said[0].field("service"), said[0].field("collection")), ("Shelf", "books"));
    assert!(said[0].message().contains("`#[service(name = \"books\")]`"), "{said:?}");
}
