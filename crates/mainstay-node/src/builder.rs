use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use mainstay_cluster::control::ControlState;
use mainstay_cluster::control::record::{self, ServiceRecord};
use mainstay_cluster::message::ServiceRegistration;
use mainstay_core::task::Home;
use mainstay_core::time::{self, Duration};
use mainstay_core::{Error, ErrorKind, Result};
use mainstay_replica::{NodeReplicasOptions, Partition, Role};
use mainstay_runtime::{
    Actor, ActorOptions, ActorSettings, Directory, Inbound, PoolOptions, Provisions, Service, ServiceKind, ServiceType,
    Services, Worker, WorkerType,
};
use mainstay_store::disk::{Disk, RealDisk};
use mainstay_wire::TcpListen;

use crate::admin;
use crate::cluster::{ClusterOptions, Member, check_recorded};
use crate::driver::refuse_without_clock;
use crate::node::Node;
use crate::settings::{Declared, Knowledge, Names, NodeDraft, Origin, Section, Sections, Settings, Step, Surroundings};
use crate::shutdown_hooks::ShutdownHooks;

/// How long the start may wait for the registry to have a primary. A node that is alone elects itself at once.
const PRIMARY_TIMEOUT: Duration = Duration::from_secs(60);

/// A node to be set up and started.
///
/// What is set here goes over everything else, because whoever wrote it meant this very node. Then come variables of the
/// environment, then the configuration file, then what the attribute of a type says, then defaults;
/// [`settings`](NodeBuilder::settings) shows the outcome. The guide lists what can be set.
#[derive(Debug)]
#[must_use = "a node does nothing before `start`"]
pub struct NodeBuilder {
    disk: Arc<dyn Disk>,
    /// In the order in which they were given; one that cannot be is reported by `start`.
    services: Vec<Result<Offer>>,
    workers: Vec<Result<WorkerType>>,
    provisions: Provisions,
    /// What was wrong with a provision, for `start` to report.
    provision_refused: Option<Error>,
    shutdown_hooks: ShutdownHooks,
    sections: Sections,
    steps: Vec<Step>,
    config_file: Option<PathBuf>,
    isolated: bool,
    /// The program takes part in clusters.
    is_clustered: bool,
    /// How often metrics are handed to the recorder without being asked for.
    publish_interval: Option<Duration>,
}

/// A type to be served.
#[derive(Debug)]
struct Offer {
    service: ServiceType,
    /// For an actor type: what its attribute changes in the defaults.
    actor: Option<fn(&mut ActorSettings)>,
}

impl NodeBuilder {
    pub(crate) fn new() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            services: Vec::new(),
            workers: Vec::new(),
            provisions: Provisions::default(),
            provision_refused: None,
            shutdown_hooks: ShutdownHooks::default(),
            sections: Sections::default(),
            steps: Vec::new(),
            config_file: None,
            isolated: false,
            is_clustered: false,
            publish_interval: Some(admin::PUBLISH_INTERVAL),
        }
    }

    /// Keeps the data in this folder, which is created if need be; `data` in the current folder unless told otherwise. One
    /// process at a time can use it.
    pub fn data_dir(self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.change(&["data_dir"], move |node| node.data_dir = folder)
    }

    /// Serves operators on this address: `GET /metrics` for Prometheus, `GET /health`. Nothing listens unless an address is
    /// set. There is no encryption and no password, so it should be open to this machine alone (`127.0.0.1:9090`) or to a
    /// network of operators. With port 0 the operating system chooses; [`Node::admin_address`] has the outcome.
    ///
    /// Metrics go to the one recorder of the process. If the application has installed its own before the node starts, all
    /// metrics are there, and `/metrics` is answered with 404 and this reason.
    pub fn admin_address(self, address: SocketAddr) -> Self {
        self.change(&["admin.address"], move |node| node.admin_address = Some(address))
    }

    /// Takes part in a cluster: the node listens for other nodes and for clients, and joins the nodes that are named as seeds.
    /// Without this call it is a node alone.
    pub fn cluster(mut self, options: ClusterOptions) -> Self {
        self.is_clustered = true;
        let assignments = options.into_assignments();
        self.steps.extend(assignments.map(|(key, value)| Step::Set { key: key.to_owned(), value }));
        self
    }

    /// Serves a type of service.
    pub fn service<T: Service>(mut self) -> Self {
        self.services.push(ServiceType::of::<T>().map(|service| Offer { service, actor: None }));
        self
    }

    /// Serves a type of actor.
    pub fn actor<T: Actor>(mut self) -> Self {
        self.services.push(ServiceType::of_actor::<T>().map(|service| Offer { service, actor: Some(|_| {}) }));
        self
    }

    /// Changes how actors are run in what is not a setting, of all types that were given so far.
    pub fn actor_options(mut self, mut change: impl FnMut(&mut ActorOptions)) -> Self {
        self.services.iter_mut().flatten().for_each(|offer| change(offer.service.actor_options_mut()));
        self
    }

    /// Offers a type of worker, with a pool of the size that its attribute says.
    pub fn worker<T: Worker>(self) -> Self {
        self.worker_with::<T>(T::options())
    }

    /// Offers a type of worker with a pool of another size.
    pub fn worker_with<T: Worker>(mut self, options: PoolOptions) -> Self {
        self.workers.push(WorkerType::of::<T>(options));
        self
    }

    /// Gives the node a thing that its actors, services and workers use: a client, a factory, a configuration. Each is found by
    /// its type: as a field `Provided<T>` of an actor or service, or by `provided` of a context.
    pub fn provide<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        if let Err(error) = self.provisions.add(value) {
            self.provision_refused.get_or_insert(error);
        }
        self
    }

    /// Has something done when the node is [stopped in order](Node::stop), before that: all services can still be called. For
    /// what is to be given back, such as leases, so that others need not wait until they run out. What was added last is done
    /// first, because it may rely on what was there before it. All of it together may take
    /// [`SHUTDOWN_HOOK_TIMEOUT`](crate::SHUTDOWN_HOOK_TIMEOUT). If the stop is given up before, the next one goes on with it. A node
    /// that is dropped or killed does none of it.
    pub fn before_stop<F>(mut self, hook: impl FnOnce(Services) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.shutdown_hooks.add(hook);
        self
    }

    /// Keeps the data on another disk than that of the operating system, such as one that a test can crash.
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    /// Changes how the log, the stores and the replicas behave.
    pub fn host_options(self, change: impl FnOnce(&mut NodeReplicasOptions) + Send + 'static) -> Self {
        self.change(&[], move |node| change(&mut node.replicas))
    }

    /// Changes the defaults of all actor types. What the attribute of a type says, and what is set for it by name, goes over
    /// them.
    pub fn actor_defaults(mut self, change: impl FnOnce(&mut ActorSettings) + Send + 'static) -> Self {
        self.steps.push(Step::Actors(Box::new(change)));
        self
    }

    /// Sets one key, as the configuration file would: `.set("services.CounterActor.mailbox", "16")`.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.steps.push(Step::Set { key: key.into(), value: value.into() });
        self
    }

    /// Lets operators set what a library or the application describes, in a [section](Section) of its own. `code` is what they
    /// set it over: it goes over the defaults, as the attribute of a type does, and file, environment and
    /// [`set`](NodeBuilder::set) go over it. [`Settings::section`] has the outcome.
    pub fn section<T: Default + Clone + Send + 'static>(mut self, section: Section<T>, code: T) -> Self {
        self.sections.add(section, Names::None, code);
        self
    }

    /// The same for a section with a name: `[shop.shelves.NAME]`. A name in the file that was not given here is a mistake.
    pub fn section_named<T: Default + Clone + Send + 'static>(
        mut self,
        section: Section<T>,
        name: impl Into<String>,
        code: T,
    ) -> Self {
        self.sections.add(section, Names::One(name.into()), code);
        self
    }

    /// The same for sections whose names, and what the code says of each, are known only as the program runs. Keys and values are
    /// checked at the start, and what contradicts the code by [`Settings::section_named`]. A section of a name that is never
    /// used has no effect.
    pub fn sections<T: Default + Clone + Send + 'static>(mut self, section: Section<T>) -> Self {
        self.sections.add(section, Names::Any, T::default());
        self
    }

    /// Reads this configuration file, which must exist. Without this, the variable `MAINSTAY_CONFIG` names it, and without
    /// that, `mainstay.toml` in the current folder is read if there is one.
    pub fn config_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.config_file = Some(path.into());
        self
    }

    /// Takes nothing from its surroundings: no variable of the environment, and no file in the current folder. For tests.
    pub fn isolated(mut self) -> Self {
        self.isolated = true;
        self
    }

    /// Hands metrics to the recorder only when told to: nothing wakes up for it.
    #[cfg(feature = "testkit")]
    pub(crate) fn publish_on_demand(mut self) -> Self {
        self.publish_interval = None;
        self
    }

    /// The effective settings, each with where it comes from; nothing is started.
    ///
    /// # Errors
    /// `Invalid` with everything that is wrong and its place; `NotFound` if a configuration file was named and is not there.
    pub fn settings(self) -> Result<Settings> {
        let services = self.services.into_iter().collect::<Result<Vec<_>>>()?;
        refuse_namesakes(&services)?;
        let surroundings = Surroundings::look(self.config_file, self.isolated)?;
        surroundings.resolve(declared(&services), self.sections, self.steps)
    }

    /// The settings that a node would find here, as far as they can be known without its types: those of services are shown
    /// as the file has them, and sections of an application that were not given to this builder are remarked. For tools
    /// beside an application.
    ///
    /// # Errors
    /// As [`settings`](NodeBuilder::settings).
    pub fn settings_without_types(self) -> Result<Settings> {
        let surroundings = Surroundings::look(self.config_file, self.isolated)?;
        surroundings.resolve(Knowledge::Nothing, self.sections, self.steps)
    }

    /// Prints every effective setting and where it comes from, in the form of the configuration file. For the
    /// `config print` of an application: it alone knows its types, which the command `mainstay` does not.
    ///
    /// # Errors
    /// As [`settings`](NodeBuilder::settings), and `Fatal` if nothing can be printed.
    pub fn print_config(self) -> Result<()> {
        let settings = self.settings()?;
        let mut out = std::io::stdout().lock();
        write!(out, "{settings}")
            .and_then(|()| out.flush())
            .map_err(|error| Error::fatal("cannot print the settings to standard output").with_source(error))
    }

    /// Starts the node. When this returns, its services can be called: a call waits until its partition is open.
    ///
    /// The work of the node runs on the tokio runtime in which it is started, from wherever it is called: proxies can be used
    /// on other runtimes, on other executors and without one. So that runtime has to run for as long as the node is
    /// used, which one of a single thread does only while somebody blocks on it.
    ///
    /// # Errors
    /// `Invalid` where there is no runtime or one without its drivers, if a setting cannot be, or a service (two of one name, a partitioning or level other than that of its data,
    /// a folder of another node), `Conflict` if another process uses the folder, `Corrupt` or `UnknownVersion` if it cannot
    /// be read.
    pub async fn start(self) -> Result<Node> {
        if !Home::current().is_in_runtime() {
            return Err(Error::invalid(
                "a node is started within a tokio runtime, on which all of its work runs from then on: start it in \
                 `#[tokio::main]` or by `Runtime::block_on`",
            ));
        }
        refuse_without_clock().await?;
        if let Some(error) = self.provision_refused {
            return Err(error);
        }
        let services = self.services.into_iter().collect::<Result<Vec<_>>>()?;
        let workers = self.workers.into_iter().collect::<Result<Vec<_>>>()?;
        refuse_namesakes(&services)?;
        let surroundings = Surroundings::look(self.config_file, self.isolated)?;
        let settings = surroundings.resolve(declared(&services), self.sections, self.steps)?;
        let mut provisions = self.provisions;
        provisions.add(settings.clone())?;
        settings.remarks().iter().for_each(|remark| tracing::warn!("{remark}"));
        // First what can be refused without touching data. The recorder is there before anything is counted.
        let listener = match settings.admin_address() {
            Some(address) => {
                let listener = admin::bind(address).await?;
                admin::install();
                Some(listener)
            }
            None => None,
        };
        let registrations: Vec<_> = services.iter().filter_map(|offer| offer.registration(&settings)).collect();
        let listen = match self.is_clustered {
            true => Some(TcpListen::bind(&settings.cluster().listen.to_string().parse()?).await?),
            false => refuse_cluster_settings(&settings).map(|()| None)?,
        };
        let member = Member::start(self.disk, &settings, &registrations, listen).await?;
        let guard = KillOnDrop(Some(member.clone()));
        match assemble(&member, services, &registrations, &workers, provisions, &settings).await {
            Ok(directory) => {
                guard.disarm();
                let node = member.cluster.node();
                let started = Node::new(member, directory, settings, self.shutdown_hooks, self.publish_interval);
                listener.map_or(Ok(()), |listener| started.serve_admin(listener))?;
                let (data_dir, admin) = (started.settings().data_dir().display(), started.admin_address());
                tracing::info!(%node, %data_dir, admin = admin.map(tracing::field::display), "the node has started");
                Ok(started)
            }
            Err(error) => {
                member.stop().await;
                Err(error)
            }
        }
    }

    fn change(mut self, keys: &'static [&'static str], change: impl FnOnce(&mut NodeDraft) + Send + 'static) -> Self {
        self.steps.push(Step::Node { keys, change: Box::new(change) });
        self
    }
}

/// Refuses settings of a cluster in a program that does not take part in any: it would run alone in silence.
fn refuse_cluster_settings(settings: &Settings) -> Result<()> {
    let set =
        settings.entries().iter().find(|entry| entry.key.starts_with("cluster.") && entry.origin != Origin::Default);
    match set {
        None => Ok(()),
        Some(set) => Err(Error::invalid(format!(
            "{} is set ({}), and this program takes part in no cluster: call `NodeBuilder::cluster`, or remove the setting",
            set.key, set.origin
        ))),
    }
}

impl Offer {
    /// What the cluster is told of the type, with its effective settings.
    fn registration(&self, settings: &Settings) -> Option<ServiceRegistration> {
        let effective = settings.service(self.service.name())?;
        let known = self.service.known(Vec::new());
        let timeout = effective.actor.as_ref().map_or(known.call_timeout, |actor| actor.call_timeout);
        Some(ServiceRegistration {
            name: known.name,
            kind: match known.kind {
                ServiceKind::Stateful => record::ServiceKind::Service,
                ServiceKind::Actors => record::ServiceKind::Actors,
            },
            level: effective.level.value,
            partitioning: effective.partitioning.value.clone(),
            interfaces: known.interfaces.into_iter().collect(),
            call_timeout_ms: u64::try_from(timeout.as_millis()).ok(),
            partitions: None,
        })
    }
}

fn declared(services: &[Offer]) -> Knowledge {
    let types = services.iter().map(|Offer { service, actor }| Declared {
        name: service.name().to_owned(),
        level: service.level(),
        partitioning: service.partitioning().clone(),
        actor: *actor,
    });
    Knowledge::Types(types.collect())
}

async fn assemble(
    member: &Member,
    offers: Vec<Offer>,
    registrations: &[ServiceRegistration],
    workers: &[WorkerType],
    provisions: Provisions,
    settings: &Settings,
) -> Result<Arc<Directory>> {
    let check =
        |record: &ServiceRecord| settings.service(&record.name).map_or(Ok(()), |set| check_recorded(record, set));
    let records = member.register(registrations, check).await?;
    let state = member.cluster.control().get();
    warn_of_strays(&state, registrations);
    let directory = Directory::empty().with_provisions(provisions);
    let directory = Arc::new(match member.remote_calls() {
        None => directory,
        Some(calls) => directory.with_remote(calls),
    });
    for (offer, record) in offers.into_iter().zip(&records) {
        let mut service = offer.service.placed(record.level, record.partitioning.clone())?;
        if let Some(wanted) = settings.service(&record.name) {
            if let Some(settings) = &wanted.actor {
                *service.actor_settings_mut() = settings.clone();
            }
            if let Some(options) = &wanted.state {
                *service.state_options_mut() = options.clone();
            }
        }
        directory.add(service, record.partitions.iter().map(|placed| placed.id).collect())?;
    }
    directory.start_workers(workers, directory.clone())?;
    directory.start(member.cluster.node(), directory.clone());
    member.sets.serve(directory.clone(), records);
    member.calls.attach(Inbound::new(directory.clone()));
    Ok(directory)
}

/// Warns of services that have data here and no type, once for each: one that was renamed would start empty in silence.
fn warn_of_strays(state: &ControlState, registrations: &[ServiceRegistration]) {
    for stray in state.services.values() {
        let name = &stray.name;
        if registrations.iter().any(|wanted| wanted.name == *name) {
            continue;
        }
        tracing::warn!(
            service = name,
            persistence = %stray.level,
            "service {name:?} is recorded here, and this program has no type of that name: what it has stored is kept, and nobody \
             reads it. If the type was renamed, write `#[actor(name = {name:?})]` or `#[service(name = {name:?})]` on it"
        );
    }
}

pub(crate) async fn primary(partition: &Partition) -> Result<()> {
    let mut role_state = partition.watch();
    let is_primary = role_state.wait_for(|role_state| role_state.role == Role::Primary);
    match time::timeout(PRIMARY_TIMEOUT, is_primary).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(Error::fatal("the replica of the registry has stopped: see the log for its reason")),
        Err(time::Elapsed) => Err(Error::new(
            ErrorKind::Timeout,
            format!("the registry has had no primary for {} s: retry", PRIMARY_TIMEOUT.as_secs()),
        )),
    }
}

fn refuse_namesakes(services: &[Offer]) -> Result<()> {
    let mut names = BTreeSet::new();
    match services.iter().map(|offer| &offer.service).find(|service| !names.insert(service.name())) {
        None => Ok(()),
        Some(second) => Err(Error::invalid(format!(
            "two services have the name {:?}: give one another by `name = \"..\"` in its attribute",
            second.name()
        ))),
    }
}

/// Ends what was started if the start is given up half way.
struct KillOnDrop(Option<Member>);

impl KillOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(member) = &self.0 {
            member.kill();
        }
    }
}
