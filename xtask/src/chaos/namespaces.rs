//! Network namespaces as machines: one for each process, joined by a bridge in one more.
//!
//! A cut is an entry in the sender's table of neighbours that leads nowhere: what it sends is lost without a word, in this direction
//! only, as in a real cut. Delay and loss are done by `netem` where the kernel has it. Elsewhere `tbf` makes the link slow, so that
//! what is sent waits its turn, and `nft` drops packets by chance.

use std::process::Command;

use super::needs;
use super::shell::say;
use crate::command::Outcome;

/// What the names of our namespaces begin with; then comes the process that made them.
pub(super) const PREFIX: &str = "mainstay-chaos-";

/// The name of the interface of each machine.
const LINK: &str = "eth0";

/// An address of a link on which nobody is.
const NOWHERE: &str = "02:00:00:00:00:fe";

/// The lowest rate of a link that is slowed because packets cannot be delayed, in kilobits a second.
const SLOW_KBIT_MIN: u128 = 64;

/// Machines that are namespaces, removed when dropped.
#[derive(Debug)]
pub(super) struct Namespaces {
    owner: u32,
    hosts: usize,
    has_netem: bool,
}

impl Namespaces {
    /// Makes machines for a process, all connected with each other.
    pub(super) fn create(owner: u32, hosts: usize) -> Outcome<Self> {
        needs::need_iproute()?;
        // Dropped, and with it what was made, if something fails.
        let mut namespaces = Self { owner, hosts, has_netem: false };
        let switch = namespaces.switch();
        say(&format!("ip netns add {switch}"))?;
        say(&format!("ip -n {switch} link set lo up"))?;
        say(&format!("ip -n {switch} link add bridge0 type bridge"))?;
        say(&format!("ip -n {switch} link set bridge0 up"))?;
        for host in 0..hosts {
            let (name, port) = (namespaces.name(host), format!("port{host}"));
            say(&format!("ip netns add {name}"))?;
            say(&format!("ip link add {LINK} netns {name} type veth peer name {port} netns {switch}"))?;
            say(&format!("ip -n {switch} link set {port} master bridge0"))?;
            say(&format!("ip -n {switch} link set {port} up"))?;
            say(&format!("ip -n {name} address add {}/24 dev {LINK}", namespaces.address(host)))?;
            say(&format!("ip -n {name} link set lo up"))?;
            say(&format!("ip -n {name} link set {LINK} up"))?;
        }
        namespaces.has_netem = say(&format!("tc -n {switch} qdisc add dev lo root netem delay 1ms")).is_ok();
        Ok(namespaces)
    }

    /// The address of a machine, which no other machine of ours and nothing outside has.
    pub(super) fn address(&self, host: usize) -> String {
        format!("10.77.0.{}", host + 1)
    }

    /// A program that will run on a machine.
    pub(super) fn command(&self, host: usize, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host)]).arg(program);
        command
    }

    /// Has what a machine sends to another get lost.
    pub(super) fn cut(&self, from: usize, to: usize) -> Outcome {
        let (name, to) = (self.name(from), self.address(to));
        say(&format!("ip -n {name} neighbour replace {to} lladdr {NOWHERE} dev {LINK} nud permanent")).map(drop)
    }

    /// Has it arrive again.
    pub(super) fn connect(&self, from: usize, to: usize) -> Outcome {
        let (name, to) = (self.name(from), self.address(to));
        // What was not cut has no entry, or one that was learned and is learned again.
        let table = say(&format!("ip -n {name} neighbour show to {to} dev {LINK}"))?;
        if table.contains(NOWHERE) {
            say(&format!("ip -n {name} neighbour del {to} dev {LINK}"))?;
        }
        Ok(())
    }

    /// Has what a machine sends arrive late.
    pub(super) fn delay(&self, host: usize, ms: u128) -> Outcome {
        let name = self.name(host);
        let kind = if self.has_netem {
            format!("netem delay {ms}ms {}ms", ms / 4)
        } else {
            // A few packets at once take about as long as the delay; what would wait for twice as long is dropped.
            let rate = (20_000 / ms.max(1)).max(SLOW_KBIT_MIN);
            format!("tbf rate {rate}kbit burst 3kb latency {}ms", 2 * ms)
        };
        say(&format!("tc -n {name} qdisc replace dev {LINK} root {kind}")).map(drop)
    }

    /// Has a part of what a machine sends get lost.
    pub(super) fn lose(&self, host: usize, percent: u64) -> Outcome {
        let name = self.name(host);
        if self.has_netem {
            return say(&format!("tc -n {name} qdisc replace dev {LINK} root netem loss {percent}%")).map(drop);
        }
        needs::need_nft()?;
        let nft = |rest: &str| say(&format!("ip netns exec {name} nft {rest}")).map(drop);
        nft("add table ip chaos")?;
        nft("add chain ip chaos out { type filter hook output priority 0 ; }")?;
        nft(&format!("add rule ip chaos out oifname {LINK} numgen random mod 100 < {percent} drop"))
    }

    /// Ends delay and loss of a machine.
    pub(super) fn calm(&self, host: usize) -> Outcome {
        let name = self.name(host);
        if !say(&format!("tc -n {name} qdisc show dev {LINK}"))?.contains("noqueue") {
            say(&format!("tc -n {name} qdisc del dev {LINK} root"))?;
        }
        if !self.has_netem && say(&format!("ip netns exec {name} nft list tables")).is_ok_and(|t| t.contains("chaos")) {
            say(&format!("ip netns exec {name} nft delete table ip chaos"))?;
        }
        Ok(())
    }

    /// Heals everything.
    pub(super) fn heal(&self) -> Outcome {
        for host in 0..self.hosts {
            self.calm(host)?;
            for other in (0..self.hosts).filter(|other| *other != host) {
                self.connect(host, other)?;
            }
        }
        Ok(())
    }

    /// What is done otherwise than its name says, for the report.
    pub(super) fn substitutes(&self) -> Vec<String> {
        if self.has_netem {
            return Vec::new();
        }
        vec!["delay of single packets: this kernel has no netem; the link was slowed in its place".to_owned()]
    }

    fn name(&self, host: usize) -> String {
        format!("{PREFIX}{}-{}", self.owner, host + 1)
    }

    fn switch(&self) -> String {
        format!("{PREFIX}{}-switch", self.owner)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in (0..self.hosts).map(|host| self.name(host)).chain([self.switch()]) {
            // Not there if making it has failed; interfaces go with it.
            let _ = say(&format!("ip netns del {name}"));
        }
    }
}

#[cfg(test)]
mod tests;
