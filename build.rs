//! Packs the pages of the manual for `qwen help`: one deflate stream in `manual.deflate`.
//!
//! Each page is a record separator (U+001E), its topic, a line feed and its Markdown.

#![expect(clippy::disallowed_methods, reason = "a build script writes what the program includes")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Pages that the program prints by itself (`qwen --help`, `qwen schema result`), and what was measured.
const LEFT_OUT: [&str; 3] = ["cli", "figures", "result"];

fn main() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut pages = vec![package.join("docs/glossary.md")];
    for part in ["explain", "how-to", "reference"] {
        let directory = package.join("docs").join(part);
        println!("cargo::rerun-if-changed={}", directory.display());
        let entries = fs::read_dir(&directory).expect("the manual is part of the package").flatten();
        pages.extend(entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    pages.retain(|page| !LEFT_OUT.contains(&topic(page)));
    pages.sort_by(|a, b| topic(a).cmp(topic(b)));
    let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    for page in &pages {
        println!("cargo::rerun-if-changed={}", page.display());
        let text = fs::read_to_string(page).expect("a page is UTF-8");
        write!(packed, "\u{1e}{}\n{text}", topic(page)).expect("memory can be written to");
    }
    let packed = packed.finish().expect("memory can be written to");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("manual.deflate"), packed).expect("OUT_DIR can be written to");
}

/// Returns the name by which `qwen help` finds a page.
fn topic(page: &Path) -> &str {
    page.file_stem().and_then(|stem| stem.to_str()).expect("a page's name is UTF-8")
}
