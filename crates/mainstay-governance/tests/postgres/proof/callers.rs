//! The callers as the test sees them: what each was told, over all lives of the node.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use tokio::sync::mpsc;

use super::{acknowledged_file, node};
use crate::shared::TIME_MAX;

/// How many events each caller writes.
pub(super) const EVENTS_EACH: u32 = 20;

/// How many lines of the node may wait to be read.
const LINES_MAX: usize = 50_000;

/// How many events each caller knows to be written.
pub(super) struct Callers {
    acknowledged: Vec<u32>,
    total: u64,
}

/// The process of the node.
pub(super) struct Running {
    child: Child,
    commands: ChildStdin,
    lines: mpsc::Receiver<String>,
    resized: Vec<u32>,
    is_done: bool,
}

impl Callers {
    pub(super) fn new(callers: u32) -> Self {
        Self { acknowledged: vec![0; callers as usize], total: 0 }
    }

    /// Starts the node, with callers that go on where they were.
    pub(super) fn start(&self, folder: &Path, connection_string: &str) -> Running {
        let lines: Vec<String> = self.acknowledged.iter().map(u32::to_string).collect();
        std::fs::write(acknowledged_file(folder), lines.join("\n")).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "proof::node::the_node_that_is_killed", "--nocapture"])
            .env(node::FOLDER_VARIABLE, folder)
            .env(node::DATABASE_VARIABLE, connection_string)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = mpsc::channel(LINES_MAX);
        let read = move || {
            for line in output.lines().map_while(Result::ok) {
                if told.blocking_send(line).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("lines of the node".to_owned()).spawn(read).unwrap();
        Running { child, commands, lines, resized: Vec::new(), is_done: false }
    }

    /// Returns when this share of all events is acknowledged.
    pub(super) async fn until_acknowledged(&mut self, node: &mut Running, share: f64) {
        let wanted = (f64::from(EVENTS_EACH) * self.acknowledged.len() as f64 * share) as u64;
        while self.total < wanted {
            let line = node.line().await.expect("the node has ended by itself");
            self.hear(node, &line);
        }
    }

    /// Kills the process of the node. What it acknowledged until it was gone counts.
    pub(super) async fn kill(&mut self, mut node: Running) {
        node.child.kill().unwrap();
        while let Some(line) = node.line().await {
            self.hear(&mut node, &line);
        }
        assert!(!node.wait().success(), "it was killed");
        assert!(!node.is_done, "it was killed in the middle");
    }

    fn hear(&mut self, node: &mut Running, line: &str) {
        if let Some((caller, number)) = line.strip_prefix(node::ACKNOWLEDGED).and_then(|rest| rest.split_once(' ')) {
            // A line that the kill has cut has no number that fits.
            let (Ok(caller), Ok(number)) = (caller.parse::<usize>(), number.parse::<u32>()) else { return };
            if self.acknowledged.get(caller) == Some(&number) {
                self.acknowledged[caller] += 1;
                self.total += 1;
            }
        } else {
            node.hear(line);
        }
    }
}

impl Running {
    /// The next line that the node prints, until it has ended. A node that is silent for too long is stuck.
    async fn line(&mut self) -> Option<String> {
        tokio::time::timeout(TIME_MAX, self.lines.recv()).await.expect("the node is stuck")
    }

    /// Has the pool resized, and returns when that is done. Acknowledgements are kept for later.
    pub(super) async fn resize(&mut self, callers: &mut Callers, size: u32) {
        writeln!(self.commands, "{size}").unwrap();
        while !self.resized.contains(&size) {
            let line = self.line().await.expect("the node has ended by itself");
            callers.hear(self, &line);
        }
    }

    /// Returns when the node has stopped by itself.
    pub(super) async fn end(mut self) {
        while let Some(line) = self.line().await {
            self.hear(&line);
        }
        assert!(self.wait().success());
        assert!(self.is_done);
    }

    fn hear(&mut self, line: &str) {
        if let Some(size) = line.strip_prefix(node::RESIZED).and_then(|size| size.parse().ok()) {
            self.resized.push(size);
        }
        self.is_done |= line == node::DONE;
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that has failed leaves no process behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
