use std::net::SocketAddr;
use std::path::Path;

use crate::settings::{Profile, TlsMode};

/// How a program takes part in a cluster, as far as its code says so. The section `[cluster]` of the settings says the rest; what is
/// said here goes over it, as all calls of the builder do.
///
/// ```
/// use mainstay_node::{ClusterOptions, Node};
///
/// let settings = Node::builder()
///     .isolated()
///     .cluster(ClusterOptions::from_settings().seeds(["10.0.0.5:7400", "10.0.0.6:7400"]))
///     .settings()?;
/// assert_eq!(settings.cluster().seeds.len(), 2);
/// assert!(settings.cluster().listen.ip().is_loopback(), "nothing is open to other machines unless it is asked for");
/// # Ok::<(), mainstay_core::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing before they are given to `NodeBuilder::cluster`"]
pub struct ClusterOptions {
    /// The keys that are set, with their values as the file would have them.
    assignments: Vec<(&'static str, String)>,
}

impl ClusterOptions {
    /// Takes everything from the settings.
    pub fn from_settings() -> Self {
        Self::default()
    }

    /// Listens here for other nodes and clients: `cluster.listen`.
    pub fn listen(self, address: SocketAddr) -> Self {
        self.set("cluster.listen", address.to_string())
    }

    /// The host and port that others dial, if they differ from where the node listens: `cluster.advertise`.
    pub fn advertise(self, address: impl Into<String>) -> Self {
        self.set("cluster.advertise", address)
    }

    /// The hosts with ports of nodes to join, for the first start of an empty data folder: `cluster.seeds`. Without any, an empty
    /// folder becomes a new cluster.
    pub fn seeds<S: Into<String>>(self, seeds: impl IntoIterator<Item = S>) -> Self {
        let seeds: Vec<String> = seeds.into_iter().map(Into::into).collect();
        self.set("cluster.seeds", seeds.join(","))
    }

    /// The part of the infrastructure that fails together with this node, such as `eu/zone-1/rack-7`: `cluster.fault_domain`.
    pub fn fault_domain(self, domain: impl Into<String>) -> Self {
        self.set("cluster.fault_domain", domain)
    }

    /// The rhythm of heartbeats and elections of a new cluster: `cluster.profile`.
    pub fn profile(self, profile: Profile) -> Self {
        self.set("cluster.profile", profile.name())
    }

    /// Whether connections are encrypted: `cluster.tls`.
    pub fn tls(self, mode: TlsMode) -> Self {
        self.set("cluster.tls", mode.name())
    }

    /// The certificate chain, its key and the trusted authorities, as PEM files: `cluster.certificate`, `cluster.key` and
    /// `cluster.authorities`.
    pub fn pem_files(
        self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
        authorities: impl AsRef<Path>,
    ) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        self.set("cluster.certificate", text(certificate.as_ref()))
            .set("cluster.key", text(key.as_ref()))
            .set("cluster.authorities", text(authorities.as_ref()))
    }

    /// The token by which the node is admitted and gets its certificate: `cluster.token`.
    pub fn token(self, token: impl Into<String>) -> Self {
        self.set("cluster.token", token)
    }

    fn set(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.assignments.push((key, value.into()));
        self
    }

    pub(crate) fn into_assignments(self) -> impl Iterator<Item = (&'static str, String)> {
        self.assignments.into_iter()
    }
}
