//! Reads the pictures that `--image` adds to the prompt.

use std::path::{Path, PathBuf};

use base64::Engine as _;

use crate::bounded;
use crate::model::Part;

use crate::run::error::PromptError;

/// Maximum bytes of a picture.
const LARGEST: u64 = 10 << 20;

/// Types that models accept.
const TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"];

/// Reads the pictures that flags name; a model without images gets a line that says what is missing.
pub fn read(files: &[PathBuf], cwd: &Path, taken: bool, warnings: &mut Vec<String>) -> Result<Vec<Part>, PromptError> {
    files
        .iter()
        .map(|file| {
            let shown = file.display();
            let wrong = |problem: String| PromptError::Image { path: shown.to_string(), problem };
            let path = cwd.join(file);
            let bytes = bounded::named(&path, LARGEST).map_err(|error| wrong(error.to_string()))?;
            let found = infer::get(&bytes).map(|kind| kind.mime_type()).unwrap_or_default();
            let mime_type =
                TYPES.iter().find(|known| **known == found).ok_or_else(|| wrong("it is not an image".into()))?;
            let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
            if !taken {
                warnings.push(format!(
                    "--image {shown}: the model does not support images; it gets the file's name and size only"
                ));
                return Ok(Part::Text(format!(
                    "\n[image file: {name}, {} bytes; the model does not take it]",
                    bytes.len()
                )));
            }
            let data = base64::engine::general_purpose::STANDARD.encode(bytes);
            Ok(Part::Media { mime_type: (*mime_type).to_owned(), data, name })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

    #[test]
    fn a_picture_is_a_part_and_anything_else_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.png"), PNG).unwrap();
        std::fs::write(folder.path().join("b.png"), "text").unwrap();
        let read = |name: &str, taken| read(&[name.into()], folder.path(), taken, &mut Vec::new());
        assert!(
            matches!(&read("a.png", true).unwrap()[..], [Part::Media { mime_type, .. }] if mime_type == "image/png")
        );
        assert!(matches!(&read("a.png", false).unwrap()[..], [Part::Text(text)] if text.contains("does not take it")));
        for (name, problem) in [("b.png", "not an image"), ("gone.png", "does not exist"), (".", "a directory")] {
            let error = read(name, true).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
