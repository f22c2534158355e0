//! Keeps the items of a batch in a file: in memory each is an offset.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;

use sha2::{Digest as _, Sha256};

use super::batch_folder::{BatchFolder, FolderError};
use crate::base::digest::hex;
use crate::batch::item::Item;
use crate::batch::plan::files;

/// A list of items that was read to its end.
#[derive(Debug)]
pub struct ItemList {
    file: File,
    /// Where each line ends.
    ends: Vec<u64>,
    sha256: String,
}

/// A list that is being written.
pub struct ListWriter {
    out: BufWriter<tempfile::NamedTempFile>,
    ends: Vec<u64>,
    hasher: Sha256,
}

impl ListWriter {
    /// Begins the list of a batch: in its directory, or nowhere to be seen.
    pub fn begin(folder: Option<&BatchFolder>) -> Result<ListWriter, FolderError> {
        let file = match folder {
            Some(folder) => folder.temporary()?,
            None => tempfile::NamedTempFile::new().map_err(of_temporary)?,
        };
        Ok(ListWriter { out: BufWriter::new(file), ends: Vec::new(), hasher: Sha256::new() })
    }

    /// Adds an item; its number is its place.
    pub fn add(&mut self, item: &Item) -> io::Result<()> {
        let line = serde_json::to_string(item)? + "\n";
        self.hasher.update(line.as_bytes());
        self.out.write_all(line.as_bytes())?;
        let end = self.ends.last().copied().unwrap_or_default();
        self.ends.push(end + line.len() as u64);
        Ok(())
    }

    /// Ends the list, which becomes the directory's `items.jsonl`.
    pub fn end(self, folder: Option<&BatchFolder>) -> Result<ItemList, FolderError> {
        let file = self.out.into_inner().map_err(|error| of_temporary(error.into_error()))?;
        let file = match folder {
            Some(folder) => folder.place(file, files::ITEMS)?,
            None => file.into_file(),
        };
        Ok(ItemList { file, ends: self.ends, sha256: hex(&self.hasher.finalize()) })
    }
}

impl ItemList {
    /// Returns the number of items.
    pub fn len(&self) -> u32 {
        u32::try_from(self.ends.len()).unwrap_or(u32::MAX)
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the digest of the list.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Reads item `n`, from 1.
    pub fn item(&self, n: u32) -> io::Result<Item> {
        let at = n as usize;
        let missing = || io::Error::other(format!("the list has no item {n}"));
        let end = *at.checked_sub(1).and_then(|at| self.ends.get(at)).ok_or_else(missing)?;
        let start = at.checked_sub(2).and_then(|at| self.ends.get(at)).copied().unwrap_or_default();
        let mut bytes = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

fn of_temporary(cause: io::Error) -> FolderError {
    FolderError::Io { path: "the temporary directory".to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_read_back_by_its_number() {
        let items: Vec<Item> = (1..=3).map(|n| Item::new(n, format!("k{n}"), serde_json::Map::new(), "")).collect();
        let mut writer = ListWriter::begin(None).unwrap();
        items.iter().for_each(|item| writer.add(item).unwrap());
        let list = writer.end(None).unwrap();
        assert_eq!((list.len(), list.is_empty()), (3, false));
        for n in [3, 1, 2] {
            assert_eq!(list.item(n).unwrap(), items[n as usize - 1]);
        }
        assert!(list.item(0).is_err() && list.item(4).is_err());
    }
}
