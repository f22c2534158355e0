//! Writes the directory of a batch as a whole: it has its name when all of it is there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::folder::Folder;
use super::steps::Steps;
use crate::base::private_file;
use crate::batch::plan::files::OF_ITEMS;
use crate::checkouts::refuse_links_out;

/// A directory that is being written beside its name.
#[derive(Debug)]
pub struct NewBatch {
    beside: tempfile::TempDir,
    folder: Folder,
    items: Folder,
    path: PathBuf,
}

impl NewBatch {
    /// Begins a directory for its owner alone. There may be nothing of this name, or an empty directory.
    pub fn make(path: &Path) -> io::Result<NewBatch> {
        refuse_links_out(path)?;
        let is_free = match path.symlink_metadata() {
            Ok(data) => data.is_dir() && std::fs::read_dir(path)?.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error),
        };
        if !is_free {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        private_file::folder(parent)?;
        let owner_alone = std::fs::Permissions::from_mode(0o700);
        let beside = tempfile::Builder::new().prefix(".qwen-batch-").permissions(owner_alone).tempdir_in(parent)?;
        let folder = Folder::root(beside.path())?;
        folder.make(OsStr::new(OF_ITEMS), Some(0o700), &Steps::default())?;
        let items = folder.enter_name(OsStr::new(OF_ITEMS))?;
        Ok(NewBatch { beside, folder, items, path: path.to_path_buf() })
    }

    /// Makes a file that is written piece by piece.
    pub fn create(&self, name: &str) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::with_capacity(1 << 16, self.folder.create_private(OsStr::new(name))?))
    }

    /// Writes a file.
    pub fn write(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        self.folder.create_private(OsStr::new(name))?.write_all(contents)
    }

    /// Writes a file of an item.
    pub fn write_item(&self, name: &str, contents: &[u8]) -> io::Result<()> {
        self.items.create_private(OsStr::new(name))?.write_all(contents)
    }

    /// Gives the directory its name.
    pub fn keep(self) -> io::Result<()> {
        rustix::fs::syncfs(&self.folder)?;
        std::fs::rename(self.beside.path(), &self.path)?;
        let _named = self.beside.keep();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_there_as_a_whole_or_not_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("merged");
        drop(NewBatch::make(&path).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let new = NewBatch::make(&path).unwrap();
        new.write("batch.json", b"{}").unwrap();
        new.write_item("1.patch", b"p").unwrap();
        assert!(new.write("batch.json", b"again").is_err());
        new.keep().unwrap();
        assert_eq!(std::fs::read(path.join("items/1.patch")).unwrap(), b"p");
        let mode = |name: &str| path.join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(["", "items", "batch.json", "items/1.patch"].map(mode), [0o700, 0o700, 0o600, 0o600]);
        assert_eq!(NewBatch::make(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
