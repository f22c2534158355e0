//! Gives the checks of a run a home in which the model's commands have left nothing.

use std::io;
use std::path::{Path, PathBuf};

use super::doctor::{HOME_AND_TMP, make_private_folders};

/// A home and a temporary directory that were empty at first. Those of the other commands come back when it is dropped.
#[derive(Debug)]
pub struct EmptyHome(PathBuf);

impl EmptyHome {
    /// Puts the directories of the other commands aside. What still runs in the background keeps them.
    pub(super) fn make(private: &Path) -> io::Result<EmptyHome> {
        let lent = EmptyHome(private.to_path_buf());
        for name in HOME_AND_TMP {
            std::fs::rename(private.join(name), private.join(format!("{name}.aside")))?;
        }
        make_private_folders(private)?;
        Ok(lent)
    }
}

impl Drop for EmptyHome {
    fn drop(&mut self) {
        for name in HOME_AND_TMP {
            let (at, aside) = (self.0.join(name), self.0.join(format!("{name}.aside")));
            if aside.symlink_metadata().is_ok() {
                // What checks have left may be hard to remove; it goes with everything else at the end of the run.
                let used = (1..).map(|number: u32| self.0.join(format!("{name}.{number}")));
                let free = used.into_iter().find(|path| path.symlink_metadata().is_err());
                let _lost = free.map(|free| std::fs::rename(&at, free));
                let _lost = std::fs::rename(aside, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::temporary::Temporary;

    #[test]
    fn each_time_it_is_empty_and_what_was_there_comes_back() {
        let private = Temporary::new("test-").unwrap();
        make_private_folders(private.path()).unwrap();
        let file = |folder: &str| private.path().join(folder).join("file");
        std::fs::write(file("home"), "of the model").unwrap();
        std::fs::write(file("tmp"), "of the model").unwrap();
        for _ in 0..3 {
            let empty = EmptyHome::make(private.path()).unwrap();
            assert!(!file("home").exists() && !file("tmp").exists());
            std::fs::write(file("home"), "of a check").unwrap();
            drop(empty);
            assert_eq!(std::fs::read_to_string(file("home")).unwrap(), "of the model");
            assert!(file("tmp").exists());
        }
    }
}
