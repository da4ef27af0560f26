//! The process of a node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mainstay::prelude::*;

use crate::gateway::Gateway;
use crate::joining::{self, Membership};
use crate::workload;

/// What a node says on its output when it can be called. A line of its own, followed by the address of the gateway.
pub const READY: &str = "ready";

/// How the process exits when a part of the node has stopped and must be reopened, such as after its disk was full: whatever
/// watches over it starts it again.
pub const STOPPED_EXIT_CODE: u8 = 75;

/// How often the node is asked whether all of it runs.
const HEALTH_INTERVAL: Duration = Duration::from_millis(250);

/// How a node is started.
#[derive(Debug, Clone, clap::Args)]
pub struct NodeOptions {
    /// The folder of the node's data
    #[arg(long)]
    pub data_dir: PathBuf,
    /// The folder of the journals, which all nodes share
    #[arg(long)]
    pub journals: PathBuf,
    /// Where calls from other processes come in; port 0 for any
    #[arg(long)]
    pub gateway: SocketAddr,
    /// Where other nodes come in; without it the node is alone
    #[arg(long)]
    pub listen: Option<SocketAddr>,
    /// Nodes to join, as HOST:PORT; without any the node founds a cluster
    #[arg(long, value_delimiter = ',')]
    pub seeds: Vec<String>,
    /// Where metrics and health can be asked for
    #[arg(long)]
    pub admin: Option<SocketAddr>,
    /// Settings of the node, as KEY=VALUE
    #[arg(long = "set", value_parser = setting)]
    pub settings: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or_else(|| format!("{text:?} is no setting: use KEY=VALUE"))?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// Starts the node of this application.
///
/// # Errors
/// What keeps it from starting.
pub async fn start(options: &NodeOptions) -> Result<Node> {
    let journals = &options.journals;
    std::fs::create_dir_all(journals).or_error_with(ErrorKind::Invalid, || {
        format!("the folder {} cannot be made: give --journals another one", journals.display())
    })?;
    let mut node = workload::serve(Node::builder().isolated().data_dir(&options.data_dir), journals);
    if let Some(admin) = options.admin {
        node = node.admin_address(admin);
    }
    for (key, value) in &options.settings {
        node = node.set(key, value);
    }
    let membership = Membership { listen: options.listen, seeds: options.seeds.clone() };
    joining::join(node, &membership)?.start().await
}

/// Runs a node until the process is told to end, or a part of it has stopped: then false.
///
/// # Errors
/// What keeps it from starting.
pub async fn run(options: &NodeOptions) -> Result<bool> {
    let gateway = Gateway::bind(options.gateway).await?;
    let address = gateway.address()?;
    let node = start(options).await?;
    let serving = tokio::spawn(gateway.serve(node.clone()));
    println!("{READY} {address}");
    let ended = tokio::select! {
        ended = node.run_until_signal() => ended.map(|()| true),
        cause = has_stopped(&node) => {
            eprintln!("a part of the node has stopped: {cause}");
            Ok(false)
        }
    };
    serving.abort();
    ended
}

/// Returns when a part of the node has stopped, with what the node says of its health.
async fn has_stopped(node: &Node) -> String {
    loop {
        tokio::time::sleep(HEALTH_INTERVAL).await;
        if let Some(health) = node.health().filter(mainstay::node::Health::has_stopped) {
            return health.to_string();
        }
    }
}
