//! Interfaces of other versions: what is renamed, added and not known.

use mainstay::prelude::*;
use mainstay_runtime::ServiceType;

use crate::harness::{FIRST, TwoNodes};

/// The interface as the node has it.
mod new {
    use super::*;

    #[interface(name = "till")]
    pub(super) trait Register {
        #[method(name = "pay")]
        async fn credit(
            &mut self,
            #[argument(name = "amount")] cents: u64,
            #[argument(default)] note: Option<String>,
            #[argument(default = 2)] times: u64,
        ) -> Result<String>;

        async fn strict(&mut self, always: u64) -> Result<u64>;

        /// A method with a body of its own.
        async fn describe(&self, #[argument(default = "till".to_owned())] prefix: String) -> Result<String> {
            let total = self.total().await?;
            Ok(format!("{prefix} {total}"))
        }

        async fn total(&self) -> Result<u64>;
    }

    #[derive(Actor)]
    #[actor(implements(Register), partitions = 1, name = "till")]
    pub(super) struct TillActor {
        total: State<u64>,
    }

    impl Register for TillActor {
        async fn credit(&mut self, cents: u64, note: Option<String>, times: u64) -> Result<String> {
            *self.total += cents * times;
            Ok(format!("{} {note:?}", *self.total))
        }

        async fn strict(&mut self, always: u64) -> Result<u64> {
            *self.total += always;
            Ok(always)
        }

        async fn total(&self) -> Result<u64> {
            Ok(*self.total)
        }
    }
}

/// The interface as an older caller has it.
mod old {
    use super::*;

    #[interface]
    #[allow(dead_code)]
    pub(super) trait Till {
        async fn pay(&mut self, amount: u64) -> Result<String>;
        async fn total(&self) -> Result<u64>;
    }
}

/// The interface as a caller has it that knows more, and some things otherwise.
mod newer {
    use super::*;

    #[interface(name = "till")]
    #[allow(dead_code)]
    pub(super) trait Till {
        async fn pay(&mut self, amount: u64, note: Option<String>, times: u64, color: String) -> Result<String>;
        async fn strict(&mut self) -> Result<u64>;
        async fn describe(&self) -> Result<String>;
        async fn refund(&mut self, amount: u64) -> Result<()>;
        #[method(name = "total")]
        async fn total_of_text(&self) -> Result<String>;
    }
}

/// An interface that nothing implements under this name.
mod foreign {
    use super::*;

    #[interface(name = "till")]
    #[allow(dead_code)]
    pub(super) trait Unknown {
        async fn nothing(&self) -> Result<()>;
    }
}

async fn cluster() -> TwoNodes {
    TwoNodes::start(vec![(ServiceType::of_actor::<new::TillActor>().unwrap(), FIRST)]).await
}

#[tokio::test(start_paused = true)]
async fn old_and_new_callers_are_understood() {
    let cluster = cluster().await;
    let client = cluster.client();
    let newer: newer::TillRef = client.actor("main").unwrap();
    let same: new::RegisterRef = cluster.second().services.actor("main").unwrap();
    // The older caller's interface goes by another name: it is refused when it is looked up.
    let error = client.actor::<old::TillRef>("main").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert_eq!(same.credit(5, None, 1).await.unwrap(), "5 None");
    // An argument that is not known is skipped.
    let paid = newer.pay(5, Some("n".to_owned()), 3, "red".to_owned()).await;
    assert_eq!(paid.unwrap(), "20 Some(\"n\")");
    // A default body, with an argument that was not sent.
    assert_eq!(newer.describe().await.unwrap(), "till 20");
    assert_eq!(same.describe("sum".to_owned()).await.unwrap(), "sum 20");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_not_sent_are_their_defaults() {
    use bytes::Bytes;
    use mainstay_core::contract;
    use mainstay_runtime::{Proxy, WireCall};

    let cluster = cluster().await;
    let local: new::RegisterRef = cluster.first().services.actor("main").unwrap();
    let call = async |name: &str, arguments: Vec<u8>| {
        let method = new::RegisterRef::METHODS.iter().find(|method| method.name() == name).unwrap();
        method.answer(local.caller().clone(), WireCall::new(Bytes::from(arguments))).await
    };
    #[derive(serde::Serialize)]
    struct Old {
        amount: u64,
    }
    let reply = call("pay", contract::encode(&Old { amount: 7 }).unwrap()).await.unwrap();
    assert_eq!(contract::decode::<Result<String>>(&reply).unwrap().unwrap(), "14 None");
    let missing = call("strict", contract::encode(&Old { amount: 7 }).unwrap()).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Invalid);
    assert!(missing.to_string().contains("argument `always` is missing"), "{missing}");
    assert!(call("pay", b"\xc1".to_vec()).await.is_err());
    assert_eq!(local.total().await.unwrap(), 14);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_callee_does_not_know_is_refused_and_nothing_happens() {
    let cluster = cluster().await;
    let client = cluster.client();
    let newer: newer::TillRef = client.actor("main").unwrap();
    let refund = newer.refund(3).await.unwrap_err();
    assert_eq!(refund.kind(), ErrorKind::Unsupported, "{refund}");
    assert!(refund.to_string().contains("has no method \"refund\""), "{refund}");
    let strict = newer.strict().await.unwrap_err();
    assert_eq!(strict.kind(), ErrorKind::Invalid, "{strict}");
    let nothing = client.actor::<foreign::UnknownRef>("main").unwrap().nothing().await.unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::Unsupported);
    // A reply of another type is told, and not taken for one.
    let text = newer.total_of_text().await.unwrap_err();
    assert_eq!(text.kind(), ErrorKind::OutcomeUnknown, "{text}");
    let same: new::RegisterRef = cluster.first().services.actor("main").unwrap();
    assert_eq!(same.total().await.unwrap(), 0);
    cluster.stop().await;
}

mod twice {
    use super::*;

    #[interface(name = "same")]
    pub(super) trait One {
        async fn one(&self) -> Result<()>;
    }

    #[interface(name = "same")]
    pub(super) trait Other {
        async fn other(&self) -> Result<()>;
    }

    #[derive(Actor)]
    #[actor(implements(One, Other))]
    pub(super) struct TwiceActor {}

    impl One for TwiceActor {
        async fn one(&self) -> Result<()> {
            Ok(())
        }
    }

    impl Other for TwiceActor {
        async fn other(&self) -> Result<()> {
            Ok(())
        }
    }
}

#[test]
fn two_interfaces_of_one_name_are_refused_at_registration() {
    let error = ServiceType::of_actor::<twice::TwiceActor>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("two interfaces of the name \"same\""), "{error}");
}
