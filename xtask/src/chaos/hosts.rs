use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use super::fault::Fault;
use super::namespaces::Namespaces;
use super::needs;
use crate::command::Outcome;

/// Where calls come in, on a machine of its own.
const GATEWAY_PORT: u16 = 7500;

/// Where other nodes come in.
const LISTEN_PORT: u16 = 7400;

/// Where the processes run.
#[derive(Debug)]
pub(super) enum Hosts {
    /// Each on a machine of its own.
    Namespaces(Namespaces),
    /// All on this one: the ports of the gateway and of the node, by host.
    Loopback(Vec<(u16, u16)>),
}

impl Hosts {
    /// Machines for so many nodes and a load: namespaces where we may have them.
    pub(super) fn create(owner: u32, nodes: usize, loopback: bool) -> Outcome<Self> {
        if !loopback && cfg!(target_os = "linux") && needs::is_root() {
            return Namespaces::create(owner, nodes + 1).map(Self::Namespaces);
        }
        (0..nodes).map(|_| Ok((free_port()?, free_port()?))).collect::<Outcome<_>>().map(Self::Loopback)
    }

    /// How it is called in the report.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Namespaces(_) => "network namespaces",
            Self::Loopback(_) => "loopback",
        }
    }

    /// Why a fault cannot be done here, if it cannot.
    pub(super) fn lacks(&self, fault: Fault) -> Option<&'static str> {
        match (self, fault) {
            (Self::Namespaces(_), _) | (_, Fault::Kill | Fault::Pause) => None,
            (Self::Loopback(_), Fault::DiskFull) => Some("a small file system of its own needs root"),
            (Self::Loopback(_), _) => Some("a network of its own for each process needs root, on Linux"),
        }
    }

    /// The gateway of a node.
    pub(super) fn gateway(&self, node: usize) -> String {
        match self {
            Self::Namespaces(namespaces) => format!("{}:{GATEWAY_PORT}", namespaces.address(node)),
            Self::Loopback(ports) => format!("127.0.0.1:{}", ports.get(node).map_or(0, |(gateway, _)| *gateway)),
        }
    }

    /// Where a node listens for others.
    pub(super) fn listen(&self, node: usize) -> String {
        match self {
            Self::Namespaces(namespaces) => format!("{}:{LISTEN_PORT}", namespaces.address(node)),
            Self::Loopback(ports) => format!("127.0.0.1:{}", ports.get(node).map_or(0, |(_, listen)| *listen)),
        }
    }

    /// A program that will run on a host.
    pub(super) fn command(&self, host: usize, program: &Path) -> Command {
        match self {
            Self::Namespaces(namespaces) => namespaces.command(host, program),
            Self::Loopback(_) => Command::new(program),
        }
    }

    /// The network, if there is one whose faults can be made.
    pub(super) fn network(&self) -> Option<&Namespaces> {
        match self {
            Self::Namespaces(namespaces) => Some(namespaces),
            Self::Loopback(_) => None,
        }
    }
}

/// A port that nobody has now.
fn free_port() -> Outcome<u16> {
    let bound = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| format!("there is no free port on loopback: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_says_what_it_cannot_do() {
        let hosts = Hosts::create(1, 3, true).unwrap();
        let possible: Vec<_> = Fault::ALL.into_iter().filter(|fault| hosts.lacks(*fault).is_none()).collect();
        assert_eq!(possible, [Fault::Kill, Fault::Pause]);
        assert!(hosts.lacks(Fault::DiskFull).unwrap().contains("root"));
        assert_ne!(hosts.gateway(0), hosts.listen(0));
        assert_ne!(hosts.gateway(0), hosts.gateway(1));
    }
}
