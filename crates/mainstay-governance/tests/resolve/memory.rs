//! How much of a resolver's map a process remembers.

use mainstay_governance::resolve::{Policy, Resolver, ResolverSettings};

use super::{start, two_databases};

/// What is remembered is answered without a call, for as long as the lease lasts: also when there is nobody left to be called.
#[tokio::test]
async fn a_resolver_remembers_what_it_was_asked_last_and_no_more_than_its_settings_say() {
    const ENTITIES: i64 = 100;
    const REMEMBERED_MAX: usize = 10;
    let mut node = start().await;
    two_databases(&node, Policy::Refuse).await;
    let settings =
        ResolverSettings { policy: Policy::LeastLoaded, remembered_max: REMEMBERED_MAX, ..ResolverSettings::default() };
    let users = Resolver::open(&*node, "users", settings).await.unwrap();
    for entity in 0..ENTITIES {
        users.resolve(entity).await.unwrap();
    }
    node.kill().await.unwrap();
    let mut remembered = 0;
    for entity in 0..ENTITIES {
        remembered += usize::from(users.resolve(entity).await.is_ok());
    }
    users.resolve(ENTITIES - 1).await.unwrap();
    assert!((REMEMBERED_MAX / 2..=REMEMBERED_MAX).contains(&remembered), "{remembered}");
}
