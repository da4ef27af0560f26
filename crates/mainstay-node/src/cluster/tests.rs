use crate::Node;

#[tokio::test]
async fn a_node_alone_is_a_cluster_of_one() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let node = Node::builder().isolated().data_dir(folder.path()).start().await.unwrap();
        let cluster = node.cluster().unwrap();
        assert_eq!(cluster.nodes.len(), 1, "{cluster:?}");
        assert_eq!(node.cluster_address(), None);
        node.stop().await;
    }
}
