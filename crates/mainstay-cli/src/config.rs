use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use mainstay::node::{Settings, recorded_services};
use mainstay::{ErrorKind, Node, OrError as _, Result, governance};

/// Which tool knows what; the end of each help.
const WHO_KNOWS_WHAT: &str = "\
This command does not know the types of an application: it shows what the file says about services and actors, and what \
the data folder has recorded of them. Of sections it knows those of governance. An application shows all of its settings, those of its types and sections included, if it \
calls `Node::builder()...print_config()`.";

const PRINT_EXAMPLES: &str = "\
Examples:
  mainstay config print                               with mainstay.toml of this folder, if there is one
  mainstay config print --config /etc/shop/mainstay.toml
  mainstay config print --data-dir data --json        for programs";

const CHECK_EXAMPLES: &str = "\
Examples:
  mainstay config check                               before a restart: exits with 1 if a node would refuse to start
  mainstay config check --config mainstay.toml --data-dir data";

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints every effective value and where it comes from.
    ///
    /// From the weakest to the strongest: defaults, the attributes of types, the configuration file, environment variables
    /// (MAINSTAY_DATA_DIR for data_dir), the builder of an application.
    #[command(visible_alias = "show", after_long_help = format!("{PRINT_EXAMPLES}\n\n{WHO_KNOWS_WHAT}"))]
    Print {
        #[command(flatten)]
        place: Place,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Says whether a node would start with this configuration.
    #[command(after_long_help = format!("{CHECK_EXAMPLES}\n\n{WHO_KNOWS_WHAT}"))]
    Check {
        #[command(flatten)]
        place: Place,
    },
}

/// Where to look.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The configuration file. Without it the one that MAINSTAY_CONFIG names, or mainstay.toml in this folder if there is
    /// one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data folder, whose records are shown if no node is using it. Without it the one of the configuration. It is
    /// opened as a node would open it, and closed again.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self {
            Self::Print { place, json } => {
                let (settings, note) = place.look()?;
                let text = match json {
                    true => format!("{:#}\n", settings.to_json()),
                    false => settings.to_string(),
                };
                print(&text)?;
                if let Some(note) = note {
                    eprintln!("{note}");
                }
                Ok(ExitCode::SUCCESS)
            }
            Self::Check { place } => {
                let (settings, note) = place.look()?;
                if let Some(note) = note {
                    eprintln!("{note}");
                }
                settings.remarks().iter().for_each(|remark| eprintln!("{remark}"));
                if settings.contradicts_records() {
                    return Ok(ExitCode::FAILURE);
                }
                let file = settings.config_file().map_or("no file".to_owned(), |file| file.display().to_string());
                print(&format!("{file}: all is well, as far as can be said without the types of the application\n"))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

impl Place {
    /// The settings with what is recorded, and why that is missing if it is.
    fn look(self) -> Result<(Settings, Option<String>)> {
        let mut builder = governance::settings::sections(Node::builder());
        if let Some(file) = self.config {
            builder = builder.config_file(file);
        }
        let mut settings = builder.settings_without_types()?;
        if let Some(folder) = self.data_dir {
            settings = settings.with_data_dir(folder);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.or_error(ErrorKind::Fatal, "cannot start threads: allow this user more of them")?;
        let folder = settings.data_dir().display().to_string();
        match runtime.block_on(recorded_services(settings.data_dir(), settings.host_options())) {
            Ok(Some(records)) => Ok((settings.with_records(&records), None)),
            Ok(None) => Ok((settings, Some(format!("{folder} holds no data yet: nothing is recorded")))),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                Ok((settings, Some(format!("a node is using {folder}: what is recorded is not shown"))))
            }
            Err(error) => Err(error),
        }
    }
}

/// Prints; a reader that has gone away, such as `head`, is no error.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).or_error(ErrorKind::Fatal, "cannot print to standard output")
        }
        _ => Ok(()),
    }
}
