//! The certificate and the key that a node has got when it joined, in its folder.

use std::path::Path;
use std::sync::Arc;

use mainstay_core::{Error, ErrorKind, OrError as _, Result};
use mainstay_replica::Disk;
use mainstay_store::disk::OpenMode;
use mainstay_wire::tls::Credentials;

const FOLDER: &str = "tls";
const CHAIN: &str = "node.crt";
const KEY: &str = "node.key";
const AUTHORITY: &str = "authority.crt";

/// The longest file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// What a node shows and trusts, in PEM.
#[derive(Clone)]
pub(crate) struct NodeCredentials {
    pub(crate) chain_pem: String,
    pub(crate) key_pem: String,
    pub(crate) authority_pem: String,
}

/// Writes them. The chain is last: without it the others count for nothing, and the node asks again.
pub(crate) fn write(disk: &dyn Disk, folder: &Path, credentials: &NodeCredentials) -> Result<()> {
    let folder = folder.join(FOLDER);
    let NodeCredentials { chain_pem, key_pem, authority_pem } = credentials;
    let write_all = || {
        disk.create_dir_all(&folder)?;
        for (name, text) in [(KEY, key_pem), (AUTHORITY, authority_pem), (CHAIN, chain_pem)] {
            let temporary = folder.join(format!("{name}.new"));
            let file = disk.open(&temporary, OpenMode::Either)?;
            file.set_len(0)?;
            file.write_all_at(text.as_bytes(), 0)?;
            file.sync()?;
            disk.rename(&temporary, &folder.join(name))?;
            disk.sync_dir(&folder)?;
        }
        Ok(())
    };
    let written: std::io::Result<()> = write_all();
    written.or_error_with(ErrorKind::Fatal, || {
        format!("the certificate cannot be kept in {}: check the disk", folder.display())
    })
}

/// The credentials in a folder; `None` if there are none.
pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Arc<Credentials>>> {
    let folder = folder.join(FOLDER);
    let Some(chain) = text(disk, &folder.join(CHAIN))? else { return Ok(None) };
    let missing = |name: &str| {
        Error::invalid(format!(
            "{} has a certificate and no {name}: restore a copy of the whole folder",
            folder.display()
        ))
    };
    let key = text(disk, &folder.join(KEY))?.ok_or_else(|| missing(KEY))?;
    let authority = text(disk, &folder.join(AUTHORITY))?.ok_or_else(|| missing(AUTHORITY))?;
    let credentials = Credentials::from_pem(&chain, &key, &authority);
    credentials.map(Some).map_err(|error| error.about(folder.display()))
}

fn text(disk: &dyn Disk, path: &Path) -> Result<Option<String>> {
    let failed = || format!("{} cannot be read: check the disk, and who may read it", path.display());
    let file = match disk.open(path, OpenMode::Existing) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).or_error_with(ErrorKind::Invalid, failed),
    };
    let len = file.len().or_error_with(ErrorKind::Invalid, failed)?.min(BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0).or_error_with(ErrorKind::Invalid, failed)?;
    String::from_utf8(bytes).map(Some).or_error_with(ErrorKind::Corrupt, || format!("{} is no text", path.display()))
}
