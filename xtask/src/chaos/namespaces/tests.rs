//! Two machines and a server that answers what it is sent: cut one way, delayed, healed, removed.
//!
//! The server and the caller are this test binary, started once more inside of the namespaces.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use super::*;
use crate::chaos::time::{now, wait_for};

const ROLE: &str = "MAINSTAY_CHAOS_TEST_ROLE";
const PORT: u16 = 7500;

/// How long the caller waits for its answer. What is cut does not come; the rest comes in far less.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the test binary does when it was started on a machine.
#[test]
fn the_process_on_a_machine() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split_once(' ') {
        Some(("call", address)) => call_as_told(address),
        _ => echo(&role),
    }
}

/// Answers each connection what it sends.
fn echo(address: &str) {
    let listener = TcpListener::bind((address, PORT)).unwrap();
    println!("\nready");
    for mut stream in listener.incoming().flatten() {
        let _ = stream.set_nodelay(true);
        // A connection at a time, each given up soon: a caller that is cut off does not say so.
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
    }
}

/// Calls once for each line of the input, and says how many milliseconds it took, or that there was no answer.
fn call_as_told(address: &str) {
    println!("\nready");
    for line in std::io::stdin().lines() {
        line.unwrap();
        let began = now();
        let call = || -> std::io::Result<()> {
            let address = (address, PORT).to_socket_addrs()?.next().unwrap();
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"x")?;
            stream.read_exact(&mut [0])
        };
        match call() {
            Ok(()) => println!("\nanswer {}", began.elapsed().as_millis()),
            Err(_) => println!("\nanswer none"),
        }
    }
}

struct OnMachine {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl OnMachine {
    fn start(namespaces: &Namespaces, host: usize, role: &str) -> Self {
        let mut command = namespaces.command(host, &std::env::current_exe().unwrap());
        command.args(["--exact", "chaos::namespaces::tests::the_process_on_a_machine", "--nocapture"]);
        let command = command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut process = Self { child, input, output };
        process.hear("ready");
        process
    }

    /// Waits for a line that begins with a word, and returns the rest.
    fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the process has ended before it said {word:?}");
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Has the caller call: for how many milliseconds, or not at all.
    fn call(&mut self) -> Option<u64> {
        self.input.write_all(b"call\n").unwrap();
        self.hear("answer").parse().ok()
    }
}

impl Drop for OnMachine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls until there is an answer: after a cut the machines look for each other first.
fn wait_for_answer(caller: &mut OnMachine) {
    let answered = wait_for(Duration::from_secs(20), || Ok(caller.call()), || "there was no answer".to_owned());
    assert!(answered.is_ok(), "{answered:?}");
}

#[test]
fn machines_are_cut_one_way_slowed_healed_and_removed() {
    if !needs::is_root() {
        println!("NOT SHOWN: that namespaces are cut, delayed and healed: only root may have them");
        return;
    }
    let owner = std::process::id();
    let namespaces = Namespaces::create(owner, 2).unwrap();
    let server = OnMachine::start(&namespaces, 1, &namespaces.address(1));
    let mut caller = OnMachine::start(&namespaces, 0, &format!("call {}", namespaces.address(1)));
    wait_for_answer(&mut caller);

    // Either way is enough to be without an answer, and each is healed by itself.
    for (from, to) in [(0, 1), (1, 0)] {
        namespaces.cut(from, to).unwrap();
        assert_eq!(caller.call(), None, "cut from {from} to {to}");
        namespaces.connect(from, to).unwrap();
        wait_for_answer(&mut caller);
    }
    // The other direction is not touched by it.
    namespaces.cut(0, 1).unwrap();
    assert!(say(&format!("ip -n {} neighbour show", namespaces.name(1))).is_ok_and(|table| !table.contains(NOWHERE)));
    namespaces.heal().unwrap();
    wait_for_answer(&mut caller);

    namespaces.delay(1, 300).unwrap();
    let shown = say(&format!("tc -n {} qdisc show dev {LINK}", namespaces.name(1))).unwrap();
    if namespaces.has_netem {
        assert!(caller.call().is_some_and(|ms| ms >= 300), "{shown}");
    } else {
        println!("NOT SHOWN: that single packets are delayed: this kernel has no netem");
        assert!(shown.contains("tbf"), "{shown}");
    }
    namespaces.heal().unwrap();
    wait_for_answer(&mut caller);

    match namespaces.lose(1, 100) {
        Ok(()) => assert_eq!(caller.call(), None, "all of it is lost"),
        Err(cause) => println!("NOT SHOWN: that packets are lost: {cause}"),
    }
    namespaces.heal().unwrap();
    wait_for_answer(&mut caller);

    drop((server, caller, namespaces));
    let left = say("ip netns list").unwrap();
    assert!(!left.contains(&format!("{PREFIX}{owner}-")), "{left}");
}
