use std::collections::BTreeSet;

use bytes::Bytes;
use mainstay_core::{Error, RESTORE, Result};
use mainstay_replica::Snapshot;
use parking_lot::RwLock;

use crate::formats::GATE;
use crate::layout;
use crate::lock::LockMode;
use crate::manager::StateManager;
use crate::registry::check_name;
use crate::transaction::Ending;

/// Named switches for upgrades in two phases: recorded durably in the partition, off until switched on.
///
/// A new version of a service is rolled out with its new form of data behind a gate: it reads both forms and writes the
/// old one, which the versions that still run understand. When the old version is gone, the gate is switched on.
///
/// ```
/// # use mainstay_state::StateManager;
/// # async fn run(state: StateManager) -> mainstay_core::Result<()> {
/// let gates = state.gates();
/// assert!(!gates.is_on("orders.v2"));
/// gates.switch_on("orders.v2").await?;
/// assert!(gates.is_on("orders.v2"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Gates {
    state: StateManager,
}

/// The gates of a partition that are on.
#[derive(Debug, Default)]
pub(crate) struct GateSet {
    on: RwLock<BTreeSet<String>>,
}

/// What is stored of a gate: the version of the record. That it is there says that the gate is on.
pub(crate) const RECORD: &[u8] = &[GATE.written()];

impl GateSet {
    pub(crate) fn load(snapshot: &Snapshot) -> Result<Self> {
        let mut on = BTreeSet::new();
        for entry in layout::scan(snapshot, layout::GATES_PREFIX)? {
            let (key, record) = entry?;
            let name = std::str::from_utf8(&key[layout::GATES_PREFIX.len()..])
                .map_err(|_| Error::corrupt(format!("the name of a gate is not text: {RESTORE}")))?;
            // What a later program says of it beside is skipped: in every version, a gate that is there is on.
            if record.is_empty() {
                return Err(Error::corrupt(format!("the record of gate {name:?} is empty: {RESTORE}")));
            }
            on.insert(name.to_owned());
        }
        Ok(Self { on: RwLock::new(on) })
    }
}

/// A gate is on when that is durable, whether or not somebody still waits for it.
struct SwitchedOn {
    state: StateManager,
    name: String,
}

impl Ending for SwitchedOn {
    fn committed(self: Box<Self>) {
        self.state.shared.gates.on.write().insert(self.name);
    }

    fn undone(self: Box<Self>) {}
}

impl Gates {
    pub(crate) fn new(state: StateManager) -> Self {
        Self { state }
    }

    /// Whether a gate is on. One that nobody has switched on is off.
    pub fn is_on(&self, name: &str) -> bool {
        self.state.shared.gates.on.read().contains(name)
    }

    /// The gates that are on, in order.
    pub fn list(&self) -> Vec<String> {
        self.state.shared.gates.on.read().iter().cloned().collect()
    }

    /// Switches a gate on, durably and for good: what was written behind it cannot be unwritten.
    ///
    /// # Errors
    /// `Invalid` for a name that cannot be one; otherwise as a commit.
    pub async fn switch_on(&self, name: &str) -> Result<()> {
        check_name("gate", name)?;
        self.state
            .transact(async |mut tx| {
                let key = layout::gate(name);
                tx.lock(&key, LockMode::Exclusive, || format!("gate {name:?}")).await?;
                if tx.record(&key)?.is_none() {
                    tx.put_record(key, Some(Bytes::from_static(RECORD)))?;
                    tx.endings.push(Box::new(SwitchedOn { state: self.state.clone(), name: name.to_owned() }));
                }
                Ok(())
            })
            .await
    }
}
