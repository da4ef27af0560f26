use bytes::Bytes;
use mainstay_core::contract::{Fingerprint, Fingerprinter, RecordReader, RecordWriter};
use mainstay_core::{Error, Result};

use crate::call::contract::Contract;

/// The arguments of a call as one value. Implemented by `#[interface]`.
pub trait Arguments: Sized + Send + 'static {
    /// The number of arguments.
    const COUNT: usize;

    /// Adds the arguments to a sink, in their order.
    ///
    /// # Errors
    /// If one cannot be encoded.
    fn add_to(&self, sink: &mut ArgumentSink) -> Result<()>;

    /// Takes the arguments out of a record, by their names.
    ///
    /// # Errors
    /// If one is missing or cannot be decoded.
    fn read(reader: &mut ArgumentReader<'_>) -> Result<Self>;
}

/// What arguments are added to.
#[derive(Debug)]
pub struct ArgumentSink(Sink);

#[derive(Debug)]
enum Sink {
    /// By which a repeated call is recognized.
    Fingerprint(Fingerprinter),
    /// In which they travel.
    Record(RecordWriter),
}

/// Arguments that have travelled.
#[derive(Debug)]
pub struct ArgumentReader<'b>(RecordReader<'b>);

/// Adds an argument.
///
/// # Errors
/// If it cannot be encoded.
pub fn add_argument<T: Contract>(sink: &mut ArgumentSink, name: &str, argument: &T) -> Result<()> {
    match &mut sink.0 {
        Sink::Fingerprint(fingerprinter) => fingerprinter.add(argument),
        Sink::Record(writer) => writer.field(name, argument),
    }
    .map_err(|error| error.about(format_args!("argument `{name}`")))
}

/// Takes an argument.
///
/// # Errors
/// `Invalid` if it is missing; those of decoding it.
pub fn take_argument<T: Contract>(reader: &mut ArgumentReader<'_>, name: &str) -> Result<T> {
    reader.0.take(name)?.ok_or_else(|| {
        Error::invalid(format!(
            "argument `{name}` is missing: nothing happened; if callers of another version do not send it, give it \
             `#[argument(default)]`"
        ))
    })
}

/// Takes an argument that has a default.
///
/// # Errors
/// Those of decoding it.
pub fn take_argument_or<T: Contract>(
    reader: &mut ArgumentReader<'_>,
    name: &str,
    default: impl FnOnce() -> T,
) -> Result<T> {
    Ok(reader.0.take(name)?.unwrap_or_else(default))
}

/// The arguments as they travel: a record with their names.
pub(crate) fn encode<A: Arguments>(arguments: &A) -> Result<Bytes> {
    let mut sink = ArgumentSink(Sink::Record(RecordWriter::new(A::COUNT)));
    arguments.add_to(&mut sink)?;
    match sink.0 {
        Sink::Record(writer) => Ok(writer.finish().into()),
        Sink::Fingerprint(_) => Err(Error::fatal("arguments were added to another sink: this is a defect")),
    }
}

/// Arguments that have travelled.
pub(crate) fn decode<A: Arguments>(bytes: &[u8]) -> Result<A> {
    A::read(&mut ArgumentReader(RecordReader::new(bytes)?))
}

/// What tells calls with other arguments apart.
pub(crate) fn fingerprint<A: Arguments>(arguments: &A) -> Result<Fingerprint> {
    let mut sink = ArgumentSink(Sink::Fingerprint(Fingerprinter::default()));
    arguments.add_to(&mut sink)?;
    match sink.0 {
        Sink::Fingerprint(fingerprinter) => Ok(fingerprinter.finish()),
        Sink::Record(_) => Err(Error::fatal("arguments were added to another sink: this is a defect")),
    }
}
