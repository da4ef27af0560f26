//! What is recorded of services, and refused when their code does not fit it.

use mainstay::node::NodeBuilder;
use mainstay::partition::SimDisk;
use mainstay::prelude::*;

use crate::harness::on;

#[interface]
trait Cell {
    async fn put(&self, value: u64) -> Result<()>;
    async fn get(&self) -> Result<Option<u64>>;
    async fn partition(&self) -> Result<u64>;
}

macro_rules! cell_service {
    ($name:ident, $($attribute:tt)*) => {
        #[derive(Service)]
        #[service(implements(Cell), $($attribute)*)]
        struct $name {
            #[service(name = "cells")]
            values: Dictionary<String, u64>,
            state: StateManager,
            context: ServiceContext,
        }

        impl Cell for $name {
            async fn put(&self, value: u64) -> Result<()> {
                let mut tx = self.state.begin();
                self.values.set(&mut tx, "the".into(), value).await?;
                tx.commit().await.map(drop)
            }

            async fn get(&self) -> Result<Option<u64>> {
                let mut tx = self.state.begin();
                Ok(self.values.get(&mut tx, "the").await?.map(|value| *value))
            }

            async fn partition(&self) -> Result<u64> {
                Ok(self.context.partition_id().0)
            }
        }
    };
}

cell_service!(Ten, name = "cells", partitions = uniform(10));
cell_service!(Twenty, name = "cells", partitions = uniform(20));
cell_service!(Names, name = "cells", partitions = named("a", "b"));
cell_service!(Volatile, name = "cells", persistence = "volatile");
cell_service!(Others, name = "others", partitions = singleton);
cell_service!(Fleeting, name = "fleeting", partitions = singleton, persistence = "volatile");

async fn refusal(builder: NodeBuilder) -> String {
    let error = builder.start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_service_is_found_as_it_was_and_refused_as_another() {
    let disk = SimDisk::new(1);
    let node = on(&disk).service::<Ten>().start().await.unwrap();
    let cell: CellRef = node.service_named("cells", 5).unwrap();
    cell.put(7).await.unwrap();
    let partition = cell.partition().await.unwrap();
    node.stop().await;

    let more = refusal(on(&disk).service::<Twenty>()).await;
    assert_eq!(
        more,
        "service cells has data in partitions uniform(10) and its code says uniform(20), by which that data would not be \
         found: set `partitions = uniform(10)` in its attribute again, or give it another `name` in its attribute to start \
         without the data"
    );
    let named = refusal(on(&disk).service::<Names>()).await;
    assert!(named.contains("uniform(10)") && named.contains("named(\"a\", \"b\")"), "{named}");
    let level = refusal(on(&disk).service::<Volatile>()).await;
    assert!(
        level.contains("\"persisted\"") && level.contains("\"volatile\"") && level.contains("another `name`"),
        "{level}"
    );

    // A refused start leaves the folder free and the records as they were, whatever else starts beside it.
    let node = on(&disk).service::<Others>().service::<Ten>().start().await.unwrap();
    let cell: CellRef = node.service_named("cells", 5).unwrap();
    assert_eq!((cell.get().await.unwrap(), cell.partition().await.unwrap()), (Some(7), partition));
    let other: CellRef = node.service_named("others", ()).unwrap();
    assert_eq!(other.get().await.unwrap(), None);
    let taken = other.partition().await.unwrap();
    assert!(taken >= 26, "the ten partitions of the first service are its own: {taken}");
}

#[tokio::test(start_paused = true)]
async fn what_is_set_outside_of_the_code_is_recorded_too_and_refused_by_its_place() {
    let disk = SimDisk::new(1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cells.toml");
    let with = |text: &str| {
        std::fs::write(&file, text).unwrap();
        on(&disk).config_file(&file).service::<Ten>()
    };
    let node = with("[services.cells]\npartitions = 20\n").start().await.unwrap();
    let cell: CellRef = node.service_named("cells", 5).unwrap();
    cell.put(7).await.unwrap();
    let settings = node.settings().service("cells").unwrap();
    assert_eq!(settings.partitioning.value.to_string(), "uniform(20)");
    assert_eq!((settings.replicas.min, settings.replicas.target), (2, 3));
    node.stop().await;

    let name = file.display();
    let more = refusal(with("\n[services.cells]\npartitions = 30\n")).await;
    assert_eq!(
        more,
        format!(
            "service cells has data in partitions uniform(20) and {name}:3 says uniform(30), by which that data would not be \
             found: set `partitions = 20` in {name} again, or give it another `name` in its attribute to start without the \
             data"
        )
    );
    let level = refusal(with("[services.cells]\npartitions = 20\npersistence = \"volatile\"\n")).await;
    assert_eq!(
        level,
        format!(
            "service cells is recorded with persistence \"persisted\" and {name}:3 says \"volatile\", where its state is not: \
             set `persistence = \"persisted\"` in {name} again, or give it another `name` in its attribute to start without \
             the state"
        )
    );
    let code = refusal(on(&disk).service::<Ten>()).await;
    assert!(code.contains("its code says uniform(10)") && code.contains("`partitions = uniform(20)`"), "{code}");
    let builder = refusal(on(&disk).service::<Ten>().set("services.cells.partitions", "30")).await;
    assert!(builder.contains("the program says by its `NodeBuilder` uniform(30)"), "{builder}");
    assert!(builder.contains("set `partitions = 20` at the `NodeBuilder` again"), "{builder}");

    let node = on(&disk).service::<Ten>().set("services.cells.partitions", "20").start().await.unwrap();
    let cell: CellRef = node.service_named("cells", 5).unwrap();
    assert_eq!(cell.get().await.unwrap(), Some(7));
}

#[tokio::test(start_paused = true)]
async fn records_survive_a_crash() {
    let disk = SimDisk::new(1);
    let mut partitions = Vec::new();
    for round in 0..3_u64 {
        let node = on(&disk).service::<Ten>().service::<Fleeting>().start().await.unwrap();
        let (kept, lost): (CellRef, CellRef) =
            (node.service_named("cells", 1).unwrap(), node.service_named("fleeting", ()).unwrap());
        assert_eq!(kept.get().await.unwrap(), round.checked_sub(1));
        assert_eq!(lost.get().await.unwrap(), None, "level volatile with one node");
        kept.put(round).await.unwrap();
        lost.put(round).await.unwrap();
        partitions.push((kept.partition().await.unwrap(), lost.partition().await.unwrap()));
        drop(node);
        disk.crash();
        let error = kept.get().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fatal, "a proxy does not keep its node: {error}");
    }
    partitions.dedup();
    assert_eq!(partitions.len(), 1, "{partitions:?}");
}

#[tokio::test(start_paused = true)]
async fn two_services_of_one_name_are_refused() {
    let error = refusal(on(&SimDisk::new(1)).service::<Ten>().service::<Twenty>()).await;
    assert!(error.contains("two services have the name \"cells\""), "{error}");
}

#[derive(Service)]
#[service(implements(Cell), name = "others", partitions = singleton)]
struct Retyped {
    cells: Dictionary<u64, String>,
}

impl Cell for Retyped {
    async fn put(&self, _: u64) -> Result<()> {
        let _ = &self.cells;
        Ok(())
    }

    async fn get(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    async fn partition(&self) -> Result<u64> {
        Ok(0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_collections_cannot_be_opened_says_so_to_its_callers() {
    let disk = SimDisk::new(1);
    let node = on(&disk).service::<Others>().start().await.unwrap();
    node.service::<CellRef>(()).unwrap().put(1).await.unwrap();
    node.stop().await;
    let node = on(&disk).service::<Retyped>().start().await.unwrap();
    let error = node.service::<CellRef>(()).unwrap().get().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("service others") && error.to_string().contains("cannot be opened"), "{error}");
    assert!(error.to_string().contains("cells"), "{error}");
}
