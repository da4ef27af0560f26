//! Values that are too large: whoever made them is told whose they are, and which limit counts.

use mainstay::prelude::*;
use mainstay::testkit::TestNode;

#[interface]
trait Album {
    async fn set(&mut self, where_to: String, bytes: usize) -> Result<()>;
    async fn read(&self, bytes: usize) -> Result<Vec<u8>>;
    async fn copy(&mut self, bytes: usize) -> Result<Vec<u8>>;
}

#[derive(Actor)]
#[actor(implements(Album))]
struct AlbumActor {
    cover: State<Vec<u8>>,
    pages: Paged<Vec<u8>>,
    ctx: Context,
}

impl Album for AlbumActor {
    async fn set(&mut self, where_to: String, bytes: usize) -> Result<()> {
        let value = vec![1; bytes];
        match where_to.as_str() {
            "cover" => *self.cover = value,
            "pages" => *self.pages.get_mut()? = value,
            "all" => {
                for number in 0..8 {
                    self.ctx.state_mut().set(&format!("part {number}"), vec![1_u8; bytes])?;
                }
            }
            name => self.ctx.state_mut().set(name, value)?,
        }
        Ok(())
    }

    async fn read(&self, bytes: usize) -> Result<Vec<u8>> {
        Ok(vec![1; bytes])
    }

    async fn copy(&mut self, bytes: usize) -> Result<Vec<u8>> {
        Ok(vec![1; bytes])
    }
}

#[tokio::test]
async fn the_actor_the_field_and_the_limit_are_named() {
    let node = TestNode::start(|node| node.actor::<AlbumActor>()).await.unwrap();
    let album: AlbumRef = node.actor("summer").unwrap();
    for megabytes in [5, 9, 20] {
        for name in ["cover", "pages", "by name"] {
            let error = album.set(name.into(), megabytes << 20).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge);
            let text = error.to_string();
            for part in [&format!("{name:?} of AlbumActor(\"summer\")"), "VALUE_BYTES_MAX = 4194304", "split it"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        let error = album.idempotent("copy").copy(megabytes << 20).await.unwrap_err();
        let text = error.to_string();
        for part in ["`Album::copy` of AlbumActor(\"summer\")", "\"copy\"", "without a key"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let error = album.set("all".into(), 3 << 20).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let text = error.to_string();
    assert!(
        text.contains("a turn of AlbumActor(\"summer\")") && text.contains("commit_bytes_max of 16777216"),
        "{text}"
    );
    assert_eq!(album.read(20 << 20).await.unwrap().len(), 20 << 20, "what is not stored has no such limit");
    album.set("cover".into(), 3 << 20).await.unwrap();
}
