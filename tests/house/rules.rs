//! Defines the rules for the source, and finds what breaks them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use proc_macro2::{TokenStream, TokenTree};
use regex::Regex;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::source::{Names, Source, Texts, Tree, attributes, comments, is_test, leaf_paths};

/// What is broken: rule → `file` or `file item` → how much.
pub(crate) type Breaches = BTreeMap<String, BTreeMap<String, u32>>;

/// Module → the layer that it is part of; the longest matching prefix counts.
pub(crate) const LAYER_OF: &[(&str, &str)] = &[
    ("base", "base"),
    ("batch", "batch"),
    ("bounded", "base"),
    ("checkouts", "base"),
    ("event", "base"),
    ("exit", "base"),
    ("hidden", "base"),
    ("marked", "base"),
    ("path", "base"),
    ("properties", "base"),
    ("secret", "base"),
    ("threads", "base"),
    ("tool_name", "base"),
    ("change", "change"),
    ("policy", "policy"),
    ("git", "git"),
    ("workspace", "workspace"),
    ("sandbox", "sandbox"),
    ("model", "model"),
    ("prompt", "config"),
    ("recipe", "config"),
    ("settings", "config"),
    ("tools", "tools"),
    ("agent", "agent"),
    ("deliver", "deliver"),
    ("verify", "deliver"),
    ("emit", "emit"),
    ("telemetry", "telemetry"),
    ("cli", "root"),
    ("commands", "root"),
    ("github", "root"),
    ("run", "root"),
    ("", "root"),
];

/// Layer → the layers that it may use next to itself; the root may use all.
pub(crate) const MAY_USE: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("batch", &["base"]),
    ("change", &["base"]),
    ("policy", &["base", "change"]),
    ("git", &["base", "change", "policy"]),
    ("workspace", &["base", "batch", "change", "policy", "git"]),
    ("sandbox", &["base", "policy", "git"]),
    ("model", &["base", "batch"]),
    ("config", &["base", "policy", "git", "model"]),
    ("tools", &["base", "change", "policy", "workspace", "model", "config"]),
    ("agent", &["base", "batch", "change", "policy", "tools", "model"]),
    ("deliver", &["base", "change", "policy", "git", "workspace", "sandbox", "config"]),
    ("emit", &["base", "change", "batch"]),
    ("telemetry", &["base", "model"]),
];

/// Files that read without `crate::bounded`, and why they may.
pub(crate) const READERS: &[(&str, &str)] = &[
    ("bounded.rs", "it is the reader"),
    ("change/binary.rs", "inflates at most as much as the patch says"),
    ("commands/batch/source.rs", "a list is read record by record, each of them bounded"),
    ("deliver/journal.rs", "opens a directory, to bring it to the disk"),
    ("git/trusted", "hashes a regular file piece by piece"),
    ("sandbox/descendants", "/proc"),
    ("sandbox/own_command.rs", "keeps the beginning of a program's output"),
    ("sandbox/remembered.rs", "/proc and /sys"),
    ("tools/common/pdf", "what is in memory already"),
    ("tools/search_file_content.rs", "searches piece by piece what the walk found to be a regular file"),
    ("workspace/batch_folder.rs", "files of its own, each line of them bounded"),
    ("workspace/folder.rs", "as much as the descriptor says, of a regular file"),
    ("workspace/session_file.rs", "a locked file of its own, of a size that was looked at"),
];

/// Names of built-in tools; `glob` is also the name of a parameter.
const TOOL_NAMES: &[&str] = &[
    "edit",
    "list_directory",
    "read_file",
    "read_many_files",
    "run_shell_command",
    "save_memory",
    "search_file_content",
    "skill",
    "structured_output",
    "task",
    "todo_write",
    "web_fetch",
    "web_search",
    "write_file",
];

/// Words that are the name of a tool and mean something else: the word, where, and what.
const OTHER_WORDS: &[(&str, &str, &str)] = &[
    ("edit", "policy/builtin.rs", "the policy of this name"),
    ("task", "policy/programs/", "`deno task`"),
    ("structured_output", "recipe/expected.rs", "the key of the result"),
];

const LONGEST_FUNCTION: u32 = 60;
const LONGEST_FILE: u32 = 600;
const MOST_FIELDS: u32 = 12;
const MOST_FIELDS_OF_A_FORMAT: u32 = 20;

/// A page that no reader of the repository has: by its name without `docs/`, by a section, or by a number.
static CITATION: LazyLock<Regex> = LazyLock::new(|| {
    let pages = "batch|cli|dependencies|house2?|performance|policy|recipes|release|review|see|tools|wire";
    Regex::new(&format!(r"(?:^|[^/\w.-])(?:(?:{pages})\.md\b|\.\./shared|(?:issue|session|seed) #?\d|design/)"))
        .expect("a valid pattern")
});

/// Lengths of functions, fields of structs and counts that are no breaches by themselves.
#[derive(Default)]
pub(crate) struct Measures {
    /// `file name` → lines of code.
    pub(crate) functions: BTreeMap<String, u32>,
    /// `file name` → fields.
    pub(crate) structs: BTreeMap<String, u32>,
    pub(crate) code: BTreeMap<String, u32>,
    /// Rule → groups of files, or modules, that all lead to each other.
    pub(crate) circles: BTreeMap<&'static str, usize>,
    pub(crate) failures: u32,
    pub(crate) string_errors: u32,
}

/// Returns what of a crate breaks a rule, and its measures.
pub(crate) fn check(texts: &Texts) -> (Breaches, Measures) {
    let mut found = Found::default();
    let library = Tree::read(texts, "src/lib.rs");
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in &library.sources {
        found.look(&library, source, &mut files, &mut modules);
    }
    for root in ["src/main.rs", "tests/main.rs"].into_iter().filter(|root| texts.contains_key(*root)) {
        let tree = Tree::read(texts, root);
        if root == "src/main.rs" {
            tree.sources
                .iter()
                .for_each(|source| found.look(&tree, source, &mut BTreeMap::new(), &mut BTreeMap::new()));
        }
        found.reached.extend(tree.reached);
    }
    found.reached.extend(library.reached);
    for (rule, edges) in [("circle of files", &files), ("circle of modules", &modules)] {
        let circles = circles(edges);
        found.measures.circles.insert(rule, circles.len());
        for circle in circles {
            for member in &circle {
                found.add(rule, member.clone(), u32::try_from(circle.len()).unwrap_or(u32::MAX));
            }
        }
    }
    for (file, text) in texts {
        let short = file.trim_start_matches("src/").to_owned();
        let tree = file.starts_with("src/") || file.starts_with("tests/");
        if tree && !found.reached.contains(file) {
            found.add("forgotten file", short.clone(), 1);
        }
        let lines = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
        if lines > LONGEST_FILE {
            found.add("lines of a file", short.clone(), lines);
        }
        // Finding comments takes longest: first look whether there is anything to find.
        if text.lines().any(|line| CITATION.is_match(line)) {
            for _ in comments(text).iter().filter(|comment| CITATION.is_match(comment)) {
                found.add("citation", short.clone(), 1);
            }
        }
    }
    (found.breaches, found.measures)
}

#[derive(Default)]
struct Found {
    breaches: Breaches,
    measures: Measures,
    reached: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, rule: &str, key: String, number: u32) {
        *self.breaches.entry(rule.to_owned()).or_default().entry(key).or_default() += number;
    }

    fn look(&mut self, tree: &Tree, source: &Source, files: &mut Edges, modules: &mut Edges) {
        let short = source.file.trim_start_matches("src/").to_owned();
        self.measures.code.insert(short.clone(), u32::try_from(source.code.len()).unwrap_or(u32::MAX));
        let mut look = Look {
            tree,
            source,
            short: &short,
            module: source.module.clone(),
            owner: None,
            found: self,
            edges: BTreeSet::new(),
        };
        look.visit_file(&source.syntax);
        let edges = look.edges;
        let from = layer(&source.module);
        for (home, is_use) in &edges {
            let (Some(target), to) = (tree.modules.get(home), layer(home)) else { continue };
            let allowed =
                from == "root" || from == to || MAY_USE.iter().any(|(layer, may)| *layer == from && may.contains(&to));
            if !allowed {
                self.add("direction", format!("{short} uses {}", home.join("::")), 1);
            }
            let top = |module: &Names| module.first().cloned().unwrap_or_default();
            if top(&source.module) != top(home) {
                modules.entry(top(&source.module)).or_default().insert(top(home));
            } else if target.file != source.file && *is_use == Whole::No {
                files.entry(short.clone()).or_default().insert(target.file.trim_start_matches("src/").to_owned());
            }
        }
    }
}

type Edges = BTreeMap<String, BTreeSet<String>>;

fn layer(module: &[String]) -> &'static str {
    let module = module.join("::");
    let of = |prefix: &str| module == prefix || module.starts_with(&format!("{prefix}::"));
    let found = LAYER_OF.iter().filter(|(prefix, _)| of(prefix)).max_by_key(|(prefix, _)| prefix.len());
    found.map_or_else(|| panic!("the module {module} is in no layer: add it to LAYER_OF"), |(_, layer)| layer)
}

/// Whether a module is only named as a whole, or passed on: no file needs another for that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Whole {
    No,
    Yes,
}

struct Look<'a> {
    tree: &'a Tree,
    source: &'a Source,
    short: &'a str,
    module: Names,
    /// The type or trait whose members are looked at.
    owner: Option<String>,
    found: &'a mut Found,
    edges: BTreeSet<(Names, Whole)>,
}

impl Look<'_> {
    fn path(&mut self, path: &[String], passed_on: bool) {
        if let Some(home) = self.tree.home(&self.module, path) {
            let whole = passed_on || self.tree.is_module(&self.module, path);
            self.edges.insert((home, if whole { Whole::Yes } else { Whole::No }));
            return;
        }
        let full = self.tree.foreign(&self.module, path);
        let ends = |end: &[&str]| full.len() >= end.len() && full[full.len() - end.len()..].iter().eq(end);
        if ends(&["Command", "new"])
            && full[0] != "clap"
            && !["git/", "sandbox/"].iter().any(|may| self.short.starts_with(may))
        {
            self.found.add("Command::new", self.short.to_owned(), 1);
        }
        if [["fs", "read"], ["fs", "read_to_string"], ["File", "open"], ["io", "read_to_string"]]
            .iter()
            .any(|end| ends(end))
        {
            self.reads();
        }
    }

    fn reads(&mut self) {
        if !READERS.iter().any(|(may, _)| self.short.starts_with(may)) {
            self.found.add("unbounded read", self.short.to_owned(), 1);
        }
    }

    fn text(&mut self, text: &str) {
        let may = self.short.starts_with("tools/") || self.short == "tool_name.rs";
        let is_other = OTHER_WORDS.iter().any(|(word, place, _)| *word == text && self.short.starts_with(place));
        if !may && !is_other && TOOL_NAMES.contains(&text) {
            self.found.add("tool name", self.short.to_owned(), 1);
        }
    }

    fn function(&mut self, name: &syn::Ident, whole: (usize, usize)) {
        let lines = u32::try_from(self.source.code.range(whole.0..=whole.1).count()).unwrap_or(u32::MAX);
        let owner = self.owner.as_ref().map(|owner| format!("{owner}::")).unwrap_or_default();
        let key = format!("{} {owner}{name}", self.short);
        if lines > LONGEST_FUNCTION {
            self.found.add("lines of a function", key.clone(), lines);
        }
        *self.found.measures.functions.entry(key).or_default() += lines;
    }

    fn signature(&mut self, signature: &syn::Signature) {
        if let syn::ReturnType::Type(_, kind) = &signature.output {
            let text = quoted(kind);
            if text.starts_with("Result<") && (text.ends_with(",String>") || text.ends_with(",&'staticstr>")) {
                self.found.measures.string_errors += 1;
            }
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Names = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if path.is_empty() || colons == 2 => {
                    path.push(name.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Punct(colon) if colon.as_char() == ':' && !path.is_empty() && colons < 2 => {
                    colons += 1;
                    continue;
                }
                _ => {}
            }
            self.token_path(&mut path);
            colons = 0;
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(name) => path.push(name.to_string()),
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        self.text(&text.value());
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
        self.token_path(&mut path);
    }

    fn token_path(&mut self, path: &mut Names) {
        if path.len() > 1 {
            self.path(path, false);
            self.count_failure(path);
        }
        path.clear();
    }

    fn count_failure(&mut self, path: &[String]) {
        if path.ends_with(&["Failure".to_owned(), "new".to_owned()]) {
            self.found.measures.failures += 1;
        }
    }
}

fn quoted(kind: &syn::Type) -> String {
    let text = kind.span().source_text().unwrap_or_default();
    text.split_whitespace().collect()
}

impl<'ast> Visit<'ast> for Look<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let passed_on = !matches!(item.vis, syn::Visibility::Inherited);
        for path in leaf_paths(&item.tree) {
            self.path(&path, passed_on);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let owner = self.owner.replace(quoted(&item.self_ty));
        visit::visit_item_impl(self, item);
        self.owner = owner;
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let owner = self.owner.replace(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.owner = owner;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig.ident, (item.sig.span().start().line, item.block.span().end().line));
        self.signature(&item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_test(&item.attrs) {
            return;
        }
        self.function(&item.sig.ident, (item.sig.span().start().line, item.block.span().end().line));
        self.signature(&item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if item.default.is_some() {
            self.function(&item.sig.ident, (item.sig.span().start().line, item.span().end().line));
        }
        self.signature(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let fields = u32::try_from(item.fields.len()).unwrap_or(u32::MAX);
        let derives: String = item.attrs.iter().filter_map(|attribute| attribute.span().source_text()).collect();
        let of_a_format = ["Args", "Parser", "Deserialize", "Serialize"].iter().any(|name| derives.contains(name));
        let key = format!("{} {}", self.short, item.ident);
        if fields > if of_a_format { MOST_FIELDS_OF_A_FORMAT } else { MOST_FIELDS } {
            self.found.add("fields of a struct", key.clone(), fields);
        }
        self.found.measures.structs.insert(key, fields);
        visit::visit_item_struct(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.path(&names, false);
        self.count_failure(&names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.text(&text.value());
    }

    // What is written there is neither a use nor a name of ours.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "read_to_end" || call.method == "read_to_string" {
            self.reads();
        }
        visit::visit_expr_method_call(self, call);
    }
}

/// Returns the groups of which each member leads to each other one.
pub(crate) fn circles(edges: &Edges) -> Vec<BTreeSet<String>> {
    let reach = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut todo: Vec<&String> = edges.get(from).into_iter().flatten().collect();
        while let Some(next) = todo.pop() {
            if seen.insert(next.clone()) {
                todo.extend(edges.get(next).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = edges.keys().map(|from| (from, reach(from))).collect();
    let mut circles = BTreeSet::new();
    for (from, to) in &reached {
        if to.contains(*from) {
            circles.insert(
                to.iter()
                    .filter(|there| reached.get(there).is_some_and(|back| back.contains(*from)))
                    .cloned()
                    .collect(),
            );
        }
    }
    circles.into_iter().collect()
}
