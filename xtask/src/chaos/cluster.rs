use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk::SmallDisk;
use super::hosts::Hosts;
use super::process::Process;
use crate::command::Outcome;

/// How long a node may take to be there.
const READY_TIME_MAX: Duration = Duration::from_secs(120);

/// What a node says when it can be called.
const READY: &str = "ready";

/// How a node exits of which a part has stopped, as documented for a full disk: it is to be started again.
const STOPPED_EXIT_CODE: i32 = 75;

/// Settings of a node whose disk is small: the log keeps less room free, and grows in smaller steps.
const SMALL: &[&str] = &["log.reserve_bytes=16MiB", "log.segment_bytes=8MiB"];

/// The nodes, in this order dropped: processes first, then what they stood on.
#[derive(Debug)]
pub(super) struct Cluster {
    nodes: Vec<Option<Process>>,
    disks: Vec<NodeDisk>,
    pub(super) hosts: Hosts,
    program: PathBuf,
    folder: PathBuf,
    count: usize,
    /// How often a node was started again because its full disk had stopped it.
    pub(super) restarts: usize,
}

/// The disk of a node, and what was done to it.
#[derive(Debug)]
struct NodeDisk {
    disk: SmallDisk,
    is_full: bool,
    /// True from the first time on: a part of the node may stop a while after that.
    was_full: bool,
}

impl Cluster {
    /// Starts nodes of a program below a folder, one after the other.
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        hosts: Hosts,
        count: usize,
        has_small_disks: bool,
    ) -> Outcome<Self> {
        let mut disks = Vec::new();
        for node in (0..count).filter(|_| has_small_disks) {
            let disk = SmallDisk::mount(&data_folder(folder, node))?;
            disks.push(NodeDisk { disk, is_full: false, was_full: false });
        }
        let (program, folder) = (program.to_owned(), folder.to_owned());
        let mut cluster = Self { nodes: Vec::new(), disks, hosts, program, folder, count, restarts: 0 };
        for node in 0..count {
            cluster.nodes.push(None);
            cluster.start_node(node)?;
        }
        Ok(cluster)
    }

    /// Starts a node that does not run, and waits until it can be called.
    pub(super) fn start_node(&mut self, node: usize) -> Outcome {
        let mut command = self.hosts.command(node, &self.program);
        command.arg("node").arg("--data-dir").arg(data_folder(&self.folder, node).join("node"));
        command.arg("--journals").arg(self.journals()).args(["--gateway", &self.hosts.gateway(node)]);
        if self.count > 1 {
            // The namespaces are ours alone: what is said between them is not protected.
            command.args(["--listen", &self.hosts.listen(node), "--set", "cluster.tls=off"]);
            // The first one founds the cluster, and the others join it by any node that is there.
            let seeds: Vec<_> =
                (0..self.count).filter(|other| *other != node).map(|other| self.hosts.listen(other)).collect();
            if node > 0 {
                command.args(["--seeds", &seeds.join(",")]);
            }
        }
        for setting in SMALL.iter().filter(|_| !self.disks.is_empty()) {
            command.args(["--set", setting]);
        }
        let log = self.folder.join(format!("node-{}.log", node + 1));
        let mut process = Process::start(&format!("node {}", node + 1), &mut command, &log)?;
        process.wait_until_it_says(READY, READY_TIME_MAX)?;
        if let Some(place) = self.nodes.get_mut(node) {
            *place = Some(process);
        }
        Ok(())
    }

    /// A node that runs.
    pub(super) fn node(&mut self, node: usize) -> Outcome<&mut Process> {
        self.nodes.get_mut(node).and_then(Option::as_mut).ok_or_else(|| format!("node {} does not run", node + 1))
    }

    /// Kills a node.
    pub(super) fn kill_node(&mut self, node: usize) -> Outcome {
        self.node(node)?.kill()?;
        if let Some(place) = self.nodes.get_mut(node) {
            *place = None;
        }
        Ok(())
    }

    /// True if a node was killed and not started again.
    pub(super) fn is_down(&self, node: usize) -> bool {
        self.nodes.get(node).is_none_or(Option::is_none)
    }

    /// Leaves no room on the disk of a node.
    pub(super) fn fill_disk(&mut self, node: usize) -> Outcome {
        let disk = self.disk(node)?;
        (disk.is_full, disk.was_full) = (true, true);
        disk.disk.fill()
    }

    /// Makes room on the disk of a node, and starts the node again if it has stopped meanwhile.
    pub(super) fn free_disk(&mut self, node: usize) -> Outcome {
        let disk = self.disk(node)?;
        disk.is_full = false;
        disk.disk.free()?;
        if self.is_down(node) { self.start_node(node) } else { Ok(()) }
    }

    fn disk(&mut self, node: usize) -> Outcome<&mut NodeDisk> {
        self.disks.get_mut(node).ok_or_else(|| format!("node {} has no disk that could be filled", node + 1))
    }

    /// An error if a node has ended by itself. One that a full disk has stopped is started again, when there is room.
    pub(super) fn supervise(&mut self) -> Outcome {
        for node in 0..self.count {
            let Some(process) = self.nodes.get_mut(node).and_then(Option::as_mut) else { continue };
            let Some(status) = process.ended()? else { continue };
            let disk = self.disks.get(node);
            if status.code() != Some(STOPPED_EXIT_CODE) || !disk.is_some_and(|disk| disk.was_full) {
                process.check_alive()?;
            }
            let is_full = disk.is_some_and(|disk| disk.is_full);
            self.nodes[node] = None;
            self.restarts += 1;
            if !is_full {
                self.start_node(node)?;
            }
        }
        Ok(())
    }

    /// The folder of the journals, which all nodes share.
    pub(super) fn journals(&self) -> PathBuf {
        self.folder.join("journals")
    }

    /// The gateways of all nodes.
    pub(super) fn gateways(&self) -> String {
        (0..self.count).map(|node| self.hosts.gateway(node)).collect::<Vec<_>>().join(",")
    }
}

fn data_folder(folder: &Path, node: usize) -> PathBuf {
    folder.join(format!("node-{}", node + 1))
}
