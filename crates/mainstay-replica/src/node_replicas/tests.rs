use std::io;

use mainstay_store::disk::sim::SimDisk;

use super::*;
use crate::{InProcessNetwork, UniformSets, UniformSetsOptions};

fn options() -> UniformSetsOptions {
    let mut options = UniformSetsOptions::new(NodeId(1));
    options.log.driver = mainstay_store::log::Driver::Task { sync_delay: mainstay_store::log::SyncDelay::default() };
    options
}

async fn open(disk: &SimDisk) -> Result<UniformSets> {
    let transport = InProcessNetwork::new().endpoint(NodeId(1));
    UniformSets::open(Arc::new(disk.clone()), Path::new("/data"), options(), transport).await
}

#[tokio::test(start_paused = true)]
async fn a_new_folder_takes_what_it_says_and_a_disk_without_it_is_told_how_much() {
    let (disk, needed) = (SimDisk::new(1), options().first_start_bytes());
    open(&disk).await.unwrap().stop().await;
    let used = disk.used_bytes();
    assert!(used <= needed && needed < 4 * used, "{used} bytes used, {needed} said");

    let disk = SimDisk::new(1);
    disk.set_capacity(Some(needed - 1));
    let error = open(&disk).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    let said = format!("a new data folder takes {} MiB", needed.div_ceil(1 << 20));
    assert!(error.to_string().contains(&said) && error.to_string().contains("make room"), "{error}");
    assert_eq!(disk.list(Path::new("/data")).unwrap().iter().filter(|name| *name == "identity").count(), 0);

    disk.set_capacity(Some(needed));
    open(&disk).await.unwrap().stop().await;
    // One that is there is opened however little is left.
    disk.set_capacity(Some(disk.used_bytes()));
    open(&disk).await.unwrap().stop().await;
}

#[test]
fn what_keeps_a_folder_from_being_used_is_told_with_a_remedy_and_not_twice() {
    for (error, kind, says) in [
        (io::ErrorKind::PermissionDenied, ErrorKind::Invalid, "let the user of this process read and write it"),
        (io::ErrorKind::ReadOnlyFilesystem, ErrorKind::Invalid, "mount it for writing"),
        (io::ErrorKind::NotADirectory, ErrorKind::Invalid, "is a file and no folder"),
        (io::ErrorKind::AlreadyExists, ErrorKind::Invalid, "is a file and no folder"),
        (io::ErrorKind::StorageFull, ErrorKind::StorageFull, "make room"),
        (io::ErrorKind::QuotaExceeded, ErrorKind::StorageFull, "make room"),
        (io::ErrorKind::WouldBlock, ErrorKind::Conflict, "another process uses it"),
        (io::ErrorKind::Other, ErrorKind::Fatal, "check the disk"),
    ] {
        let told = folder_error(Path::new("/data"), io::Error::new(error, "what the system said"));
        assert_eq!(told.kind(), kind, "{told}");
        assert!(told.to_string().starts_with("cannot use /data: ") && told.to_string().contains(says), "{told}");
        assert_eq!(format!("{told:?}").matches("what the system said").count(), 1);
    }
}
