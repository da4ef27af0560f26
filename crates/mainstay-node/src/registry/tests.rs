use super::*;

fn record() -> ServiceRecord {
    let partitions = vec![PartitionId(16), PartitionId(17)];
    ServiceRecord { level: Level::Persisted, partitioning: Partitioning::uniform(2), partitions }
}

/// As in docs/internals/partitioning.md. It never changes: data is found by it.
const RECORD: &[u8] =
    b"\x01\x83\xa5level\xa9persisted\xacpartitioning\x81\xa7uniform\x83\xa5count\x02\xa3low\xd3\x80\0\0\0\0\0\0\0\
\xa4high\xcf\x7f\xff\xff\xff\xff\xff\xff\xff\xaapartitions\x92\x10\x11";

#[test]
fn a_record_is_read_as_documented() {
    assert_eq!(read::<ServiceRecord>(RECORD, "x").unwrap(), record());
}

#[test]
fn a_record_that_cannot_be_read_is_named() {
    let kinds = [
        (&b""[..], ErrorKind::Corrupt),
        (&b"\x02\x80"[..], ErrorKind::UnknownVersion),
        (&RECORD[..RECORD.len() - 1], ErrorKind::Corrupt),
        (&b"\x01\x05"[..], ErrorKind::Corrupt),
    ];
    for (bytes, kind) in kinds {
        let error = read::<ServiceRecord>(bytes, "service cells").unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("service cells"), "{error}");
    }
}
