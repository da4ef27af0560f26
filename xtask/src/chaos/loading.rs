//! The process of the load, and what it says of how it goes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::Chaos;
use super::cluster::Cluster;
use super::process::Process;
use super::time::wait_for;
use crate::command::Outcome;

/// Longer than any run: the load ends when it is told to.
const SECONDS: &str = "86400";

/// How it goes, by the last line that the load has said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) at: u64,
    pub(super) ok: u64,
    pub(super) fail: u64,
    pub(super) unknown: u64,
    /// Every object has answered a call that was made then or later.
    pub(super) whole_since: Option<u64>,
    /// The object that has not answered for longest.
    pub(super) last_object: String,
    /// The longest time without an answer since the line before.
    pub(super) pause_ms: u64,
}

impl Status {
    fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let number = |name: &str| value.get(name).and_then(Value::as_u64);
        Some(Self {
            at: number("at")?,
            ok: number("ok")?,
            fail: number("fail")?,
            unknown: number("unknown")?,
            whole_since: number("whole_since"),
            last_object: value.get("last_object")?.as_str()?.to_owned(),
            pause_ms: number("pause_ms")?,
        })
    }
}

/// The load.
#[derive(Debug)]
pub(super) struct Loading {
    process: Process,
    history: PathBuf,
}

impl Loading {
    /// Starts it, on the host after the last node.
    pub(super) fn start(program: &Path, folder: &Path, cluster: &Cluster, options: &Chaos) -> Outcome<Self> {
        let history = folder.join("history.jsonl");
        let mut command = cluster.hosts.command(options.nodes, program);
        command.args(["load", "--gateways", &cluster.gateways(), "--seconds", SECONDS]);
        command.args(["--seed", &options.seed.to_string(), "--callers", &options.callers.to_string()]);
        command.args(["--rate", &options.rate.to_string()]);
        command.args(["--closing-seconds", &options.converge_seconds.to_string()]).arg("--history").arg(&history);
        let process = Process::start("the load", &mut command, &folder.join("load.log"))?;
        Ok(Self { process, history })
    }

    /// How it goes, and the longest time without an answer since a moment of its own clock.
    pub(super) fn status(&mut self, since: u64) -> Outcome<Option<(Status, u64)>> {
        self.process.check_alive()?;
        let said = self.process.said()?;
        // A line that is being written has no end yet.
        let complete = said.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let all: Vec<Status> = complete.lines().filter_map(Status::parse).collect();
        let pause = all.iter().filter(|status| status.at > since).map(|status| status.pause_ms).max();
        Ok(all.last().map(|last| (last.clone(), pause.unwrap_or_default())))
    }

    /// Waits until every object has answered a call that was made from now on; returns the status then.
    pub(super) fn wait_until_whole(
        &mut self,
        limit: Duration,
        mut look: impl FnMut(&Status) -> Outcome,
    ) -> Outcome<Status> {
        let mut from = None;
        let mut behind = String::new();
        let seen = wait_for(
            limit,
            || {
                let Some((status, _)) = self.status(0)? else { return Ok(None) };
                look(&status)?;
                behind.clone_from(&status.last_object);
                // The clock is that of the load: its next line says what time it is.
                let from = *from.get_or_insert(status.at);
                Ok((status.at > from && status.whole_since.is_some_and(|since| since > from)).then_some(status))
            },
            || "the system is not whole again".to_owned(),
        );
        seen.map_err(|cause| format!("{cause}; furthest behind is {behind}"))
    }

    /// Has it look at everything once more and end.
    pub(super) fn finish(&mut self, limit: Duration) -> Outcome {
        self.process.signal("TERM")?;
        let status = self.process.wait(limit)?;
        if status.success() {
            return Ok(());
        }
        Err(format!("the load has ended with {status}: {}", self.process.tail()))
    }

    /// Where the history is.
    pub(super) fn history(&self) -> &Path {
        &self.history
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_load_is_read_and_others_are_not() {
        let line = r#"{"at":5,"ok":4,"fail":3,"unknown":2,"whole_since":null,"last_object":"bank 1","pause_ms":7}"#;
        let status = Status::parse(line).unwrap();
        assert_eq!((status.at, status.ok, status.whole_since, status.pause_ms), (5, 4, None, 7));
        assert_eq!(Status::parse(&line.replace("null", "9")).unwrap().whole_since, Some(9));
        assert_eq!(Status::parse("error: something"), None);
        assert_eq!(Status::parse("{}"), None);
    }
}
