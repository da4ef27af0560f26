use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use mainstay::prelude::*;
use mainstay_sim::linearizability::Moment;

use super::{Event, Header, History, Operation, Outcome, Phase, VERSION};

/// How many lines are read: a load of hours has fewer, and more would not fit into memory.
const LINES_MAX: usize = 20_000_000;

/// Reads histories and merges them by their clocks.
///
/// # Errors
/// What cannot be read, by file and line.
pub fn read(files: &[impl AsRef<Path>]) -> Result<History> {
    let mut lines = Vec::new();
    for (number, file) in files.iter().enumerate() {
        read_file(file.as_ref(), number, &mut lines)?;
    }
    // Within a file the lines are in order, also those of the same time.
    lines.sort_by_key(|line| (line.at, line.file));
    assemble(lines)
}

struct Line {
    /// The time of day in nanoseconds.
    at: u64,
    file: usize,
    event: Event,
}

fn read_file(path: &Path, file: usize, lines: &mut Vec<Line>) -> Result<()> {
    let unreadable = || format!("the history {} cannot be read", path.display());
    let mut reader = BufReader::new(File::open(path).or_error_with(ErrorKind::Invalid, unreadable)?);
    let mut header: Option<Header> = None;
    let mut text = String::new();
    for number in 1.. {
        let wrong = |what: &str| Error::corrupt(format!("{}, line {number}: {what}", path.display()));
        text.clear();
        reader.read_line(&mut text).or_error_with(ErrorKind::Invalid, unreadable)?;
        // A process that is killed leaves its last line in part: it was told to nobody.
        let Some(line) = text.strip_suffix('\n') else { break };
        match &header {
            None => {
                let found: Header = serde_json::from_str(line).map_err(|_| wrong("this is no header of a history"))?;
                if found.history != VERSION {
                    return Err(Error::new(
                        ErrorKind::UnknownVersion,
                        format!("{} is of version {}: this build reads {VERSION}", path.display(), found.history),
                    ));
                }
                header = Some(found);
            }
            Some(Header { began_ns, .. }) => {
                let event: Event = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
                lines.push(Line { at: began_ns.saturating_add(event.at), file, event });
            }
        }
        if lines.len() > LINES_MAX {
            return Err(wrong(&format!("more than {LINES_MAX} lines in all: check fewer histories at a time")));
        }
    }
    match header {
        Some(_) => Ok(()),
        None => Err(Error::corrupt(format!("{} has no header: it is no history", path.display()))),
    }
}

fn assemble(lines: Vec<Line>) -> Result<History> {
    let mut operations: Vec<Operation> = Vec::new();
    let mut by_number: BTreeMap<u64, usize> = BTreeMap::new();
    for (moment, Line { event: Event { op, phase, .. }, .. }) in (1..).zip(lines) {
        if let Phase::Invoke(action) = phase {
            if by_number.insert(op, operations.len()).is_some() {
                return Err(Error::corrupt(format!(
                    "operation {op} is invoked twice: give each load a run of its own"
                )));
            }
            let outcome = Outcome::Unknown(None);
            operations.push(Operation { op, action, called: moment, ended: Moment::MAX, outcome });
            continue;
        }
        let known = by_number.get(&op).and_then(|at| operations.get_mut(*at));
        let Some(operation) = known else {
            return Err(Error::corrupt(format!("operation {op} ends and was not invoked")));
        };
        if operation.outcome != Outcome::Unknown(None) {
            return Err(Error::corrupt(format!("operation {op} ends twice")));
        }
        match phase {
            Phase::Ok(answer) => (operation.outcome, operation.ended) = (Outcome::Ok(answer), moment),
            Phase::Fail(failure) => (operation.outcome, operation.ended) = (Outcome::Fail(failure), moment),
            // It may go on after the caller has given up.
            Phase::Unknown(failure) => operation.outcome = Outcome::Unknown(Some(failure)),
            Phase::Invoke(_) => {}
        }
    }
    Ok(History { operations })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Action, Answer};

    fn golden() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/history.v1.jsonl"))
    }

    #[test]
    fn a_history_of_this_version_stays_readable() {
        let history = read(&[golden()]).unwrap();
        let [write, read, swap, append] = &history.operations[..] else { panic!("{history:?}") };
        assert_eq!(write.action, Action::Write { register: 1, value: 4294967297 });
        assert_eq!((write.called, write.ended), (1, 3));
        assert_eq!(read.answer(), Some(&Answer::Value(4294967297)));
        assert!(matches!(&swap.outcome, Outcome::Fail(failure) if failure.kind == "NotPrimary"));
        // Its last line is torn.
        assert_eq!((&append.outcome, append.ended), (&Outcome::Unknown(None), Moment::MAX));
    }

    #[test]
    fn what_is_no_history_is_refused_by_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("h");
        let refuse = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read(&[&file]).unwrap_err().to_string()
        };
        let header = "{\"history\":1,\"run\":1,\"began_ns\":5}\n";
        assert!(refuse("").contains("has no header"));
        assert!(refuse("{}\n").contains("line 1"));
        assert!(refuse("{\"history\":9,\"run\":1,\"began_ns\":5}\n").contains("version 9"));
        assert!(refuse(&format!("{header}nonsense\n")).contains("line 2"));
        assert!(refuse(&format!("{header}{{\"at\":1,\"op\":7,\"ok\":\"done\"}}\n")).contains("operation 7 ends"));
        let invoke = "{\"at\":1,\"op\":7,\"invoke\":{\"do\":\"add\",\"counter\":1}}\n";
        assert!(refuse(&format!("{header}{invoke}{invoke}")).contains("invoked twice"));
        let ok = "{\"at\":2,\"op\":7,\"ok\":{\"total\":1}}\n";
        assert!(refuse(&format!("{header}{invoke}{ok}{ok}")).contains("ends twice"));
    }

    #[test]
    fn histories_are_merged_by_the_time_of_day() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, began: u64, op: u64| {
            let file = folder.path().join(name);
            let header = format!("{{\"history\":1,\"run\":1,\"began_ns\":{began}}}\n");
            let invoke = format!("{{\"at\":10,\"op\":{op},\"invoke\":{{\"do\":\"add\",\"counter\":1}}}}\n");
            let ok = format!("{{\"at\":20,\"op\":{op},\"ok\":{{\"total\":1}}}}\n");
            std::fs::write(&file, format!("{header}{invoke}{ok}")).unwrap();
            file
        };
        let files = [write("one", 105, 1), write("two", 100, 2)];
        let history = read(&files).unwrap();
        let moments: Vec<_> = history.operations.iter().map(|o| (o.op, o.called, o.ended)).collect();
        assert_eq!(moments, [(2, 1, 3), (1, 2, 4)]);
    }
}
