use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::super::resolution::Ticket;
use super::super::sight::{Sight, Verdict};
use super::*;
use crate::lease::HeldLease;

fn chart() -> Chart {
    let mut chart = Chart::default();
    for (name, region) in [("eu1", "eu"), ("eu2", "eu"), ("us1", "us")] {
        chart.add_resource(PhysicalResource::new(name).in_region(region).with_partitions(4)).unwrap();
    }
    chart
}

fn partitions_of(chart: &Chart, name: &str) -> usize {
    chart.partitions.iter().filter(|placement| placement.resource == name).count()
}

#[test]
fn what_is_drained_goes_to_its_region_evenly_and_elsewhere_only_if_there_is_no_other() {
    let mut chart = chart();
    chart.add_resource(PhysicalResource::new("eu3").in_region("eu").with_partitions(2)).unwrap();
    assert!(chart.drain("eu1").unwrap());
    assert_eq!(["eu1", "eu2", "eu3", "us1"].map(|name| partitions_of(&chart, name)), [0, 5, 5, 4]);
    chart.drain("eu3").unwrap();
    chart.drain("eu2").unwrap();
    assert_eq!(partitions_of(&chart, "us1"), 14);
    let error = chart.drain("us1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(partitions_of(&chart, "us1"), 14);
    let version = chart.version;
    assert!(!chart.drain("eu1").unwrap());
    assert_eq!(chart.version, version);
}

#[test]
fn what_was_drained_can_be_removed_or_come_back_and_take_its_partitions() {
    let mut chart = chart();
    assert_eq!(chart.remove_resource("eu1").unwrap_err().kind(), ErrorKind::Conflict);
    chart.drain("eu1").unwrap();
    assert_eq!(chart.move_partition(0, "eu1").unwrap_err().kind(), ErrorKind::Invalid);
    let (mut back, version) = (chart.clone(), chart.version);
    assert!(back.add_resource(PhysicalResource::new("eu1").in_region("eu").with_partitions(4)).unwrap());
    assert_eq!((partitions_of(&back, "eu1"), back.partitions.len()), (4, 12));
    for placement in &back.partitions[..4] {
        assert_eq!((placement.resource.as_str(), placement.since > version), ("eu1", true), "a move like any other");
    }
    chart.remove_resource("eu1").unwrap();
    assert_eq!(chart.remove_resource("eu1").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_was_drained_stays_so_for_a_source_until_it_is_added() {
    let eu1 = || PhysicalResource::new("eu1").in_region("eu").with_partitions(4);
    let mut chart = chart();
    chart.drain("eu1").unwrap();
    let drained = chart.clone();
    assert!(!chart.adopt_resource(eu1()).unwrap());
    assert_eq!(chart, drained);
    assert!(chart.adopt_resource(eu1().at("elsewhere").with_partitions(8)).unwrap());
    assert!(chart.is_draining("eu1"));
    assert_eq!((partitions_of(&chart, "eu1"), chart.partitions.len()), (0, 12));
    assert!(chart.add_resource(eu1()).unwrap());
    assert_eq!((partitions_of(&chart, "eu1"), chart.partitions.len()), (4, 12));
    assert!(!chart.adopt_resource(eu1()).unwrap());
    assert!(chart.adopt_resource(PhysicalResource::new("new").with_partitions(1)).unwrap());
}

#[test]
fn draining_and_adding_again_does_not_use_a_resolver_up() {
    let mut chart = chart();
    let before: Vec<String> = chart.partitions.iter().map(|placement| placement.resource.clone()).collect();
    for cycle in 0..1000 {
        let name = ["eu1", "us1", "eu2"][cycle % 3];
        let resource = chart.resources[name].resource.clone();
        chart.drain(name).unwrap();
        assert_eq!(partitions_of(&chart, name), 0);
        chart.add_resource(resource).unwrap();
    }
    let after: Vec<String> = chart.partitions.iter().map(|placement| placement.resource.clone()).collect();
    assert_eq!(after, before, "each has its own back");
}

#[test]
fn whoever_comes_back_takes_from_its_region_first_and_nobody_is_left_with_less_than_it_came_with() {
    let mut chart = chart();
    chart.add_resource(PhysicalResource::new("us2").in_region("us").with_partitions(4)).unwrap();
    // What came last is in the other region.
    chart.drain("us1").unwrap();
    chart.drain("eu1").unwrap();
    chart.add_resource(PhysicalResource::new("us1").in_region("us").with_partitions(6)).unwrap();
    let counts = ["eu1", "eu2", "us1", "us2"].map(|name| partitions_of(&chart, name));
    assert_eq!((counts, chart.partitions.len()), ([0, 6, 6, 4], 16));
    chart.add_resource(PhysicalResource::new("eu1").in_region("eu").with_partitions(4)).unwrap();
    let counts = ["eu1", "eu2", "us1", "us2"].map(|name| partitions_of(&chart, name));
    assert_eq!((counts, chart.partitions.len()), ([4, 4, 6, 4], 18));
}

#[test]
fn where_there_is_no_room_a_new_resource_takes_over_what_others_have_left_behind() {
    let mut chart = chart();
    for number in 0..1000 {
        let (old, new) = (format!("db{number}"), format!("db{}", number + 1));
        chart.add_resource(PhysicalResource::new(&new).with_partitions(16)).unwrap();
        assert_eq!(partitions_of(&chart, &new), 16);
        if number > 0 {
            chart.drain(&old).unwrap();
            chart.remove_resource(&old).unwrap();
        }
    }
    assert_eq!(chart.partitions.len(), PARTITIONS_MAX);
    let all = PhysicalResource::new("all").with_partitions(PARTITIONS_MAX as u32);
    assert_eq!(chart.add_resource(all).unwrap_err().kind(), ErrorKind::Overloaded);
}

#[test]
fn partitions_that_were_moved_away_are_not_made_up_for() {
    let mut chart = chart();
    chart.move_partition(0, "us1").unwrap();
    let eu1 = PhysicalResource::new("eu1").in_region("eu").at("a new address");
    assert!(chart.adopt_resource(eu1.clone().with_partitions(4)).unwrap());
    assert_eq!((partitions_of(&chart, "eu1"), chart.partitions.len()), (3, 12));
    assert!(!chart.add_resource(eu1.clone().with_partitions(1)).unwrap(), "none ever goes away");
    assert!(chart.add_resource(eu1.with_partitions(6)).unwrap());
    assert_eq!((partitions_of(&chart, "eu1"), chart.partitions.len()), (5, 14));
}

#[test]
fn adding_what_is_there_changes_nothing_and_bounds_hold() {
    let mut chart = chart();
    let version = chart.version;
    assert!(!chart.add_resource(PhysicalResource::new("us1").in_region("us").with_partitions(4)).unwrap());
    assert!(!chart.move_partition(0, "eu1").unwrap());
    assert_eq!(chart.version, version);
    let large = PhysicalResource::new("large").with_partitions(u32::MAX);
    assert_eq!(chart.add_resource(large).unwrap_err().kind(), ErrorKind::Overloaded);
    for number in chart.resources.len()..RESOURCES_MAX {
        chart.add_resource(PhysicalResource::new(number.to_string()).with_partitions(1)).unwrap();
    }
    assert_eq!(chart.add_resource(PhysicalResource::new("x")).unwrap_err().kind(), ErrorKind::Overloaded);
    assert_eq!(chart.move_partition(u32::MAX, "eu1").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(chart.move_partition(0, "nowhere").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn moves_that_are_forgotten_raise_the_floor() {
    let mut chart = chart();
    let before = chart.version;
    chart.announce((0..ENTITY_MOVES_KEPT as i64).map(Entity::from).collect());
    assert_eq!(chart.floor, 0);
    chart.announce(vec![(-1).into()]);
    assert_eq!((chart.moved.len(), chart.floor), (ENTITY_MOVES_KEPT, before + 1));
    assert_eq!(chart.since(before + 1).moved, [((-1).into(), before + 2)]);
}

/// What can happen to a map, and somebody who keeps a copy.
#[derive(Debug, Clone)]
enum Step {
    MovePartition { partition: u32, to_first: bool },
    MoveEntities { count: usize, first: i64, partition: u32 },
    Copy,
    Hold { entity: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_u32, any::<bool>()).prop_map(|(partition, to_first)| Step::MovePartition { partition, to_first }),
        (prop_oneof![1..4_usize, 1000..1100_usize], 0..8_i64, 0..4_u32)
            .prop_map(|(count, first, partition)| Step::MoveEntities { count, first, partition }),
        Just(Step::Copy),
        (0..8_i64).prop_map(|entity| Step::Hold { entity }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whoever has a copy lets a call begin only if the entity was on the resource all the time since the ticket was
    /// made, up to the version of the copy; and always if nothing has moved at all.
    #[test]
    fn a_copy_never_lets_a_call_begin_where_the_entity_is_not(steps in prop::collection::vec(step(), 1..60)) {
        let mut chart = Chart::default();
        chart.add_resource(PhysicalResource::new("a").with_partitions(2)).unwrap();
        chart.add_resource(PhysicalResource::new("b").with_partitions(2)).unwrap();
        let now = Instant::now();
        let mut entities: BTreeMap<i64, u32> = (0..1200).map(|entity| (entity, 0)).collect();
        let mut sight = Sight::new(chart.clone(), HeldLease::begun(now, Duration::from_secs(1)), Arc::default());
        // What is true as of the version of the copy: entity to partition and resource.
        let mut copied = (chart.clone(), entities.clone());
        let mut tickets: Vec<Ticket> = Vec::new();
        for step in steps {
            match step {
                Step::MovePartition { partition, to_first } => {
                    chart.move_partition(partition, if to_first { "a" } else { "b" }).unwrap();
                }
                Step::MoveEntities { count, first, partition } => {
                    let moved: Vec<i64> = (first..first + count as i64).collect();
                    entities.extend(moved.iter().map(|entity| (*entity, partition)));
                    chart.announce(moved.into_iter().map(Entity::from).collect());
                }
                Step::Copy => {
                    sight.apply(chart.since(sight.version()));
                    copied = (chart.clone(), entities.clone());
                }
                Step::Hold { entity } => {
                    let partition = copied.1[&entity];
                    let resource = copied.0.resource_of(partition).unwrap().name.clone();
                    tickets.push(Ticket { entity: entity.into(), partition, resource, version: copied.0.version });
                }
            }
            for ticket in &tickets {
                let entity = ticket.entity.as_number().unwrap();
                let partition = copied.1[&entity];
                let resource = &copied.0.resource_of(partition).unwrap().name;
                let begun = matches!(sight.begin(ticket, &ticket.resource, now), Verdict::Begun(_));
                if begun {
                    prop_assert_eq!((partition, resource), (ticket.partition, &ticket.resource));
                } else {
                    prop_assert!(ticket.version < copied.0.version, "nothing has moved");
                }
            }
        }
    }
}
