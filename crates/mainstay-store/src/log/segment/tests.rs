use super::*;
use crate::disk::RealDisk;
use crate::disk::sim::SimDisk;

mod crash;

/// Small segments, so that a test sees many of them.
fn small() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, cache_bytes_max: 4 << 10, ..LogOptions::default() }
}

#[test]
fn segment_log_conforms_on_the_real_disk() {
    super::super::conformance::check_durable(&|| {
        let dir = tempfile::tempdir().unwrap();
        Box::new(move || SegmentLog::open(Arc::new(RealDisk), dir.path(), small()).unwrap())
    });
}

#[test]
fn segment_log_conforms_on_the_simulated_disk() {
    super::super::conformance::check_durable(&|| {
        let disk = SimDisk::new(0);
        Box::new(move || SegmentLog::open(Arc::new(disk.clone()), Path::new("/log"), small()).unwrap())
    });
}
