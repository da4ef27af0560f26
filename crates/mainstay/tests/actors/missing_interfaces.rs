//! Interfaces that nothing on a node implements: the message says what was forgotten.

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Horn {
    async fn blow(&self) -> Result<()>;
}

/// Its `implements(..)` was forgotten.
#[derive(Actor)]
struct HornActor {
    blown: State<u64>,
}

impl Horn for HornActor {
    async fn blow(&self) -> Result<()> {
        let _ = *self.blown;
        Ok(())
    }
}

#[derive(Worker)]
struct HornWorker {}

#[derive(Service)]
#[service(implements(Horn), partitions = singleton)]
struct HornService {}

impl Horn for HornService {
    async fn blow(&self) -> Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_forgotten_list_of_interfaces_is_told_with_the_types_that_are_there() {
    let node = TestNode::start(|node| node.actor::<HornActor>().worker::<HornWorker>()).await.unwrap();
    let error = node.actor::<HornRef>(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let text = error.to_string();
    assert!(text.contains("no actor on this node implements Horn, and the node has HornActor"), "{text}");
    assert!(text.contains("`#[actor(implements(Horn))]`"), "{text}");
    let text = node.worker::<HornRef>().unwrap_err().to_string();
    assert!(text.contains("HornWorker") && text.contains("`#[worker(implements(Horn))]`"), "{text}");
    let text = node.service::<HornRef>(()).unwrap_err().to_string();
    assert!(text.contains("no service at all") && text.contains("`Node::builder().service::<..>()`"), "{text}");
}

#[tokio::test]
async fn one_that_another_kind_implements_is_told_how_to_call_it() {
    let node = TestNode::start(|node| node.service::<HornService>()).await.unwrap();
    let text = node.actor::<HornRef>(1).unwrap_err().to_string();
    assert!(text.contains("HornService, which is a service: call it by `service`"), "{text}");
}
