use mainstay::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The longest line: a statement of a bank after hours of transfers is far shorter.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Reads a line as a value; `None` at the end of the stream.
///
/// # Errors
/// What keeps it from being read, or a line that is no such value, or too long.
pub(crate) async fn read<T: DeserializeOwned>(stream: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<T>> {
    let mut line = Vec::new();
    let read = stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
    read.or_error(ErrorKind::Retry, "the connection was lost")?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => {
            let value = serde_json::from_slice(&line);
            value.map(Some).or_error(ErrorKind::Corrupt, "a line of the gateway is not what it should be")
        }
        Some(_) if line.len() as u64 == LINE_BYTES_MAX => {
            Err(Error::new(ErrorKind::TooLarge, format!("a line of the gateway has more than {LINE_BYTES_MAX} bytes")))
        }
        Some(_) => Err(Error::new(ErrorKind::Retry, "the connection was lost in the middle of a line")),
    }
}

/// Writes a value as a line.
///
/// # Errors
/// What keeps it from being written.
pub(crate) async fn write<T: Serialize>(stream: &mut (impl AsyncWrite + Unpin), value: &T) -> Result<()> {
    let mut line = serde_json::to_vec(value).or_error(ErrorKind::Invalid, "a value cannot be written as text")?;
    line.push(b'\n');
    stream.write_all(&line).await.or_error(ErrorKind::Retry, "the connection was lost")?;
    stream.flush().await.or_error(ErrorKind::Retry, "the connection was lost")
}
