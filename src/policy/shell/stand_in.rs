//! Provides rules for tests: a list of programs, and files on disk or in memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::path::{Node, RelPath, Tree};
use crate::policy::decision::{Denial, RuleRef};
use crate::policy::effect::Effect;
use crate::policy::grant::{Isolation, Network};
use crate::policy::programs::{CommandRules, Judged, Judgement, Stdin, Word};

/// Files in memory, by absolute path.
#[derive(Default)]
pub(in crate::policy) struct Memory(BTreeMap<PathBuf, Node>);

impl Memory {
    /// Makes files, directories (`dir/`) and links (`name -> target`) below `/ws`.
    pub(in crate::policy) fn new(entries: &[&str]) -> Memory {
        let mut memory = Memory::default();
        for entry in entries {
            let (path, node) = match entry.split_once(" -> ") {
                Some((path, target)) => (path, Node::Link(PathBuf::from(target))),
                None if entry.ends_with('/') => (*entry, Node::Dir),
                None => (*entry, Node::File { links: 1, id: (0, 0), executable: false, size: 1 }),
            };
            let path = Path::new("/ws").join(path.trim_end_matches('/'));
            for parent in path.ancestors().skip(1) {
                memory.0.entry(parent.to_path_buf()).or_insert(Node::Dir);
            }
            memory.0.insert(path, node);
        }
        memory
    }
}

impl Tree for Memory {
    fn look(&self, path: &Path) -> std::io::Result<Option<Node>> {
        Ok(self.0.get(path).cloned())
    }

    fn names(&self, path: &Path) -> std::io::Result<Vec<OsString>> {
        let inside = self.0.keys().filter(|entry| entry.parent() == Some(path));
        Ok(inside.filter_map(|entry| entry.file_name()).map(OsString::from).collect())
    }
}

/// Files on disk.
pub(super) struct Disk;

impl Tree for Disk {
    fn look(&self, path: &Path) -> std::io::Result<Option<Node>> {
        let Ok(data) = std::fs::symlink_metadata(path) else { return Ok(None) };
        Ok(Some(if data.is_symlink() {
            Node::Link(std::fs::read_link(path)?)
        } else if data.is_dir() {
            Node::Dir
        } else {
            Node::File { links: 1, id: (0, 0), executable: false, size: data.len() }
        }))
    }

    fn names(&self, path: &Path) -> std::io::Result<Vec<OsString>> {
        let mut names: Vec<OsString> =
            std::fs::read_dir(path)?.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
        names.sort();
        Ok(names)
    }
}

/// Programs that are allowed by name, and path rules: nothing outside, no `.env`, no `.git`, writes below `build/`.
pub(super) struct StandIn {
    pub(super) programs: Vec<&'static str>,
    /// `shell.default: allow`, with these deny rules.
    pub(super) denied: Option<Vec<Vec<&'static str>>>,
    pub(super) root: PathBuf,
    pub(super) home: String,
    pub(super) tree: Box<dyn Tree>,
}

impl StandIn {
    pub(super) fn resolve(&self, folder: &RelPath, path: &str) -> Option<RelPath> {
        let path = Path::new(path);
        let mut at = match path.strip_prefix(&self.root) {
            Ok(below) => RelPath::new(below)?,
            Err(_) => {
                if path.is_absolute() {
                    return None;
                }
                let mut at = folder.clone();
                for part in path.components() {
                    at = at.join(part.as_os_str())?;
                    if let Ok(Some(Node::Link(target))) = self.tree.look(&at.under(&self.root)) {
                        at = self.resolve(&at.parent()?, target.to_str()?)?;
                    }
                }
                at
            }
        };
        if at.is_root() {
            at = RelPath::root();
        }
        Some(at)
    }
}

impl CommandRules for StandIn {
    fn judge(&self, words: &[Word], stdin: Stdin, _folders: &[RelPath]) -> Judgement {
        let name = words[0].text.as_str();
        if let Some(denial) = self.denied(words) {
            return Err(denial);
        }
        if self.denied.is_none() && !self.programs.contains(&name) {
            return Err(Denial::new(format!("{name} is not allowed")));
        }
        if ["sh", "python3", "bash"].contains(&name) && (stdin != Stdin::Empty || words.len() < 2) {
            return Err(Denial::unanalysable("a program on standard input"));
        }
        let mut judged = Judged {
            rule: RuleRef { rule: format!("allow {name}"), source: "stand-in".to_owned() },
            effects: Vec::new(),
            starts: Vec::new(),
            unchanged: Vec::new(),
            formatted: Vec::new(),
            writes_nothing: true,
            writes_git: false,
            open_ended: false,
            isolation: Isolation::None,
            directories: Vec::new(),
            printed: None,
        };
        match name {
            "cat" | "head" | "wc" | "python3" | "diff" => {
                for word in words[1..].iter().filter(|word| !word.text.starts_with('-')) {
                    match (word.literal, word.is_process()) {
                        (true, _) => judged.effects.push(Effect::Read(word.text.clone())),
                        (false, true) if name != "python3" => {}
                        (false, _) => return Err(Denial::new("an operand that is not known")),
                    }
                }
            }
            "sed" if words[1..].iter().all(|word| word.text != "--sandbox") => {
                let mut printed = words.to_vec();
                printed.insert(1, Word::literal("--sandbox"));
                judged.printed = Some(printed);
            }
            "xargs" => {
                let mut started = words[1..].to_vec();
                started.push(Word { text: String::new(), literal: false });
                judged.starts.push(started);
            }
            "find" => {
                if let Some(at) = words.iter().position(|word| word.text == "-exec") {
                    let end = words.iter().position(|word| word.text == ";").unwrap_or(words.len());
                    judged.starts.push(words[at + 1..end].to_vec());
                }
            }
            _ => {}
        }
        Ok(judged)
    }

    fn check(&self, effect: &Effect, folders: &[RelPath]) -> Result<(), Denial> {
        let (path, names, writes) = match effect {
            Effect::Read(path) | Effect::ReadTree { path, .. } => (path, false, false),
            Effect::List(path) => (path, true, false),
            Effect::Enter(path) => (path, false, false),
            Effect::Write(path) | Effect::WriteTree(path) | Effect::Delete(path) | Effect::DeleteTree(path) => {
                (path, false, true)
            }
        };
        for folder in folders {
            let Some(resolved) = self.resolve(folder, path) else {
                return Err(Denial::new(format!("{path} is outside")));
            };
            let hidden = resolved.components().any(|part| part == b".env" || part == b".git");
            if (hidden && !names) || (writes && !resolved.is_under(&RelPath::new("build").expect("a path"))) {
                return Err(Denial::new(format!("{path} is denied")));
            }
        }
        Ok(())
    }

    fn denied(&self, words: &[Word]) -> Option<Denial> {
        let base = words[0].text.rsplit('/').next()?;
        let rules = self.denied.as_ref()?;
        let hit = rules.iter().any(|rule| {
            rule[0] == base && rule[1..].iter().all(|wanted| words[1..].iter().any(|word| word.text == *wanted))
        });
        hit.then(|| Denial::new(format!("{base} is denied")))
    }

    fn may_set(&self, variable: &str, _value: &str) -> bool {
        ["CI", "LANG", "NODE_ENV", "RUST_LOG", "IFS", "PATH"].contains(&variable)
    }

    fn network(&self) -> Network {
        Network::Any
    }

    fn default_allows(&self) -> bool {
        self.denied.is_some()
    }

    fn enter(&self, folder: &RelPath, path: &str) -> Result<RelPath, Denial> {
        self.resolve(folder, path).ok_or_else(|| Denial::new(format!("{path} is outside")))
    }

    fn home(&self) -> &str {
        &self.home
    }

    fn root(&self) -> &Path {
        &self.root
    }

    fn tree(&self) -> &dyn Tree {
        self.tree.as_ref()
    }
}
