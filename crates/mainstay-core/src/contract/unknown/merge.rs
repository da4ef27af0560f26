use std::collections::BTreeMap;

use super::canonical::{Entry, canonical, elements, entries};
use super::list::matches;
use super::print::Print;
use super::shape::names;
use super::{List, Map, Node, Unknown};
use crate::contract::fault::Fault;
use crate::contract::wire::{Head, Opening, Reader};

/// Writes the encoded value `new` at the end of `out`, with what is unknown put back, and gives what is unknown in the
/// result.
pub(in crate::contract) fn merge(new: &[u8], unknown: &Unknown, out: &mut Vec<u8>) -> Result<Unknown, Fault> {
    let Some(root) = &unknown.0 else {
        out.extend_from_slice(new);
        return Ok(Unknown::default());
    };
    let node = value(new, 0, new.len(), root, out)?;
    Ok(Unknown(node.map(Box::new)))
}

/// Writes the value between `at` and `end` with what is unknown inside it.
fn value(new: &[u8], at: usize, end: usize, node: &Node, out: &mut Vec<u8>) -> Result<Option<Node>, Fault> {
    let mut reader = Reader::new(new, at);
    match (reader.head()?, node) {
        (Head::Map(count), Node::Map(old)) => {
            let entries = entries(&mut reader, count)?;
            if has_same_tag(new, &entries, old)? {
                return map(new, &entries, old, out);
            }
        }
        (Head::Array(count), Node::List(old)) => {
            let starts = elements(&mut reader, count)?;
            return list(new, &starts, end, old, out);
        }
        _ => {}
    }
    out.extend_from_slice(&new[at..end]);
    Ok(None)
}

/// True unless the map is an enum that now has another variant.
fn has_same_tag(new: &[u8], entries: &[Entry], old: &Map) -> Result<bool, Fault> {
    let Some((name, tag)) = &old.tag else { return Ok(true) };
    match entries.iter().find(|entry| entry.name == *name) {
        Some(entry) => Ok(canonical(new, entry.value)? == *tag),
        None => Ok(false),
    }
}

fn map(new: &[u8], entries: &[Entry], old: &Map, out: &mut Vec<u8>) -> Result<Option<Node>, Fault> {
    let shape = old.shape.as_ref().map(|shape| shape.now(new, entries)).transpose()?;
    let is_same_variant = match (&old.shape, &shape) {
        (Some(old), Some(shape)) => old.fits(shape),
        _ => true,
    };
    // A name that the type now writes is known after all.
    let names = names(entries);
    let stays = |name| is_same_variant && !names.contains(name);
    let kept: Vec<_> = old.kept.iter().filter(|kept| stays(&kept.name)).cloned().collect();
    Opening::map(entries.len() + kept.len()).write(out);
    let mut inside = BTreeMap::new();
    for entry in entries {
        out.extend_from_slice(&new[entry.key..entry.value]);
        match old.inside.get(&entry.name) {
            Some(node) => {
                if let Some(node) = value(new, entry.value, entry.end, node, out)? {
                    inside.insert(entry.name.clone(), node);
                }
            }
            None => out.extend_from_slice(&new[entry.value..entry.end]),
        }
    }
    for kept in &kept {
        out.extend_from_slice(&kept.key);
        out.extend_from_slice(&kept.value);
    }
    if kept.is_empty() && inside.is_empty() {
        return Ok(None);
    }
    let shape = shape.filter(|_| !kept.is_empty());
    Ok(Some(Node::Map(Map { tag: old.tag.clone(), shape, kept, inside })))
}

fn list(new: &[u8], starts: &[usize], end: usize, old: &List, out: &mut Vec<u8>) -> Result<Option<Node>, Fault> {
    let known = starts.iter().map(|start| Print::of(new, *start, &[])).collect::<Result<Vec<_>, _>>()?;
    let matches = matches(old, &known);
    Opening::array(starts.len()).write(out);
    let mut inside = BTreeMap::new();
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(end);
        match matches[index].and_then(|before| old.inside.get(&before)) {
            Some(node) => {
                if let Some(node) = value(new, *start, end, node, out)? {
                    inside.insert(index, node);
                }
            }
            None => out.extend_from_slice(&new[*start..end]),
        }
    }
    if inside.is_empty() {
        return Ok(None);
    }
    Ok(Some(Node::List(List { order: old.order, known, inside })))
}
