//! Which service and which partition a caller gets.

use mainstay::partition::SimDisk;
use mainstay::prelude::*;
use mainstay::service::Share;

use crate::harness::on;

#[interface]
trait Where {
    async fn share(&self) -> Result<String>;
}

macro_rules! where_service {
    ($name:ident, $($attribute:tt)*) => {
        #[derive(Service)]
        #[service(implements(Where), persistence = "none", $($attribute)*)]
        struct $name {
            context: ServiceContext,
        }

        impl Where for $name {
            async fn share(&self) -> Result<String> {
                assert_eq!(self.context.level(), Level::None);
                Ok(format!("{} {}", self.context.service_name(), self.context.share()))
            }
        }
    };
}

where_service!(Wide, partitions = "uniform(4)");
where_service!(Narrow, partitions = uniform(2, -10..=9));
where_service!(Regions, partitions = named("eu", "us"), name = "regions");
where_service!(Quoted, partitions = "named(eu, us)");
where_service!(Single, partitions = "singleton");
where_service!(Usual, name = "usual");

async fn share(node: &Node, name: &str, key: impl Into<PartitionKey>) -> Result<String> {
    node.service_named::<WhereRef>(name, key)?.share().await
}

#[tokio::test(start_paused = true)]
async fn every_key_leads_to_the_partition_that_has_it() {
    let builder = on(&SimDisk::new(1)).service::<Wide>().service::<Narrow>().service::<Regions>();
    let node = builder.service::<Quoted>().service::<Single>().service::<Usual>().start().await.unwrap();
    assert_eq!(share(&node, "Wide", 0).await.unwrap(), format!("Wide keys 0 to {}", i64::MAX / 2));
    assert_eq!(
        share(&node, "Wide", i64::MIN).await.unwrap(),
        format!("Wide keys {} to {}", i64::MIN, i64::MIN / 2 - 1)
    );
    let all = Share::Range { low: i64::MIN, high: i64::MAX };
    for key in [PartitionKey::from("alice"), "alice".to_owned().into(), uuid::Uuid::from_u128(7).into()] {
        let found = share(&node, "Wide", key).await.unwrap();
        assert!(found.starts_with("Wide keys") && found != format!("Wide {all}"), "{found}");
    }
    // `alice` is 8332761332120969289, see docs/internals/partitioning.md.
    assert_eq!(
        share(&node, "Wide", "alice").await.unwrap(),
        share(&node, "Wide", 8_332_761_332_120_969_289_i64).await.unwrap()
    );
    assert_eq!(share(&node, "Narrow", -1).await.unwrap(), "Narrow keys -10 to -1");
    assert_eq!(share(&node, "regions", PartitionKey::named("us")).await.unwrap(), "regions \"us\"");
    assert_eq!(share(&node, "Quoted", PartitionKey::named("eu")).await.unwrap(), "Quoted \"eu\"");
    assert_eq!(share(&node, "Single", ()).await.unwrap(), "Single everything");
    // Ten partitions unless told otherwise.
    assert_eq!(
        share(&node, "usual", i64::MAX).await.unwrap(),
        format!("usual keys 7378697629483820647 to {}", i64::MAX)
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_or_a_name_that_does_not_fit_is_told_what_to_give() {
    let builder = on(&SimDisk::new(1)).service::<Wide>().service::<Narrow>().service::<Regions>();
    let node = builder.service::<Single>().start().await.unwrap();
    let wrong: [(&str, PartitionKey, &str); 6] = [
        ("Wide", ().into(), "service Wide: singleton is no key for uniform(4): give an i64, a text or a uuid"),
        (
            "Narrow",
            "x".into(),
            "service Narrow: text \"x\" is no key for uniform(2, -10..=9): give an i64 from -10 to 9",
        ),
        ("Narrow", 10.into(), "service Narrow: key 10 is outside of uniform(2, -10..=9): give a number from -10 to 9"),
        ("regions", "eu".into(), "PartitionKey::named(..) with one of \"eu\", \"us\""),
        ("regions", PartitionKey::named("asia"), "the names are \"eu\", \"us\""),
        ("Single", 1.into(), "number 1 is no key for singleton: give () or PartitionKey::singleton()"),
    ];
    for (name, key, message) in wrong {
        let error = node.service_named::<WhereRef>(name, key).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let several = node.service::<WhereRef>(()).unwrap_err();
    assert_eq!(several.kind(), ErrorKind::Invalid);
    assert!(several.to_string().contains("Where is implemented by Narrow and by Single, Wide, regions"), "{several}");
    let nobody = node.service_named::<WhereRef>("nobody", ()).unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::NotFound);
    assert!(nobody.to_string().contains("which has Narrow, Single, Wide, regions"), "{nobody}");
}

#[interface]
trait Other {
    async fn nothing(&self) -> Result<()>;
}

#[tokio::test(start_paused = true)]
async fn an_interface_that_nobody_implements_is_not_found() {
    let node = on(&SimDisk::new(1)).service::<Single>().start().await.unwrap();
    let error = node.service::<OtherRef>(()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("no service on this node implements Other"), "{error}");
    let error = node.service_named::<OtherRef>("Single", ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("service Single does not implement Other: add it to `implements(..)`"),
        "{error}"
    );
    assert_eq!(node.service::<WhereRef>(()).unwrap().share().await.unwrap(), "Single everything");
}
