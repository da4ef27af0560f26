use openraft::AsyncRuntime as _;
use openraft::testing::runtime::Suite;

use crate::runtime::ReplicaRuntime;

#[test]
fn openrafts_own_suite_passes() {
    Suite::test_all_on(&mut ReplicaRuntime::new(1));
}
