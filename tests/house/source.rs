//! Reads the source as a tree of modules and resolves each name in it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::{Item, UseTree};

/// A path of names, from the crate's root.
pub(crate) type Names = Vec<String>;

/// The text of files by their paths below the package: `src/lib.rs`.
pub(crate) type Texts = BTreeMap<String, String>;

/// A module outside tests.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) file: String,
    children: BTreeSet<String>,
    items: BTreeSet<String>,
    uses: Vec<Use>,
}

/// One name of a `use`, or all names of a module.
struct Use {
    /// `None` for a glob.
    name: Option<String>,
    path: Names,
}

/// A parsed file outside tests.
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) module: Names,
    pub(crate) syntax: syn::File,
    /// Lines with code that is not a test, a comment or empty.
    pub(crate) code: BTreeSet<usize>,
}

/// A crate's modules, its files, and which of them were reached.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) modules: BTreeMap<Names, Module>,
    pub(crate) sources: Vec<Source>,
    pub(crate) reached: BTreeSet<String>,
}

impl Tree {
    /// Reads the modules below a root file. Modules of tests are reached, and not looked at.
    pub(crate) fn read(texts: &Texts, root: &str) -> Tree {
        let mut tree = Tree::default();
        tree.file(texts, root.to_owned(), Vec::new(), root.starts_with("tests/"));
        tree
    }

    fn file(&mut self, texts: &Texts, file: String, module: Names, mut test: bool) {
        let tokens = tokens(&texts[&file]);
        let syntax: syn::File = syn::parse2(tokens.clone()).unwrap_or_else(|error| panic!("{file}: {error}"));
        self.reached.insert(file.clone());
        test |= is_test(&syntax.attrs);
        let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned();
        let stem = file.rsplit_once('/').map_or(file.as_str(), |(_, name)| name).trim_end_matches(".rs");
        // The root's modules, and those of `mod.rs`, are files of the same directory.
        let below = if stem == "mod" || module.is_empty() { directory } else { format!("{directory}/{stem}") };
        self.items(texts, &syntax.items, (&file, &below, &module, test));
        if !test {
            let mut code = BTreeSet::new();
            code_lines(tokens, &texts[&file].lines().collect::<Vec<_>>(), &mut code);
            tests(&syntax.items, &mut |first, last| code.retain(|line| *line < first || *line > last));
            self.sources.push(Source { file, module, syntax, code });
        }
    }

    fn items(&mut self, texts: &Texts, items: &[Item], at: (&str, &str, &Names, bool)) {
        let (file, below, module, test) = at;
        let mut found = Module { file: file.to_owned(), ..Module::default() };
        for item in items {
            let test = test || is_test(attributes(item));
            if let Item::Mod(declared) = item {
                let name = declared.ident.to_string();
                let child = [module.as_slice(), std::slice::from_ref(&name)].concat();
                if let Some((_, inner)) = &declared.content {
                    self.items(texts, inner, (file, &format!("{below}/{name}"), &child, test));
                } else {
                    let here = file.rsplit_once('/').map_or("", |(directory, _)| directory);
                    let given = given_path(&declared.attrs).map(|path| format!("{here}/{path}"));
                    let paths = [format!("{below}/{name}.rs"), format!("{below}/{name}/mod.rs")];
                    let path = given.into_iter().chain(paths).find(|path| texts.contains_key(path));
                    self.file(texts, path.unwrap_or_else(|| panic!("{file}: no file of `mod {name}`")), child, test);
                }
                if !test {
                    found.children.insert(name);
                }
            } else if !test {
                match item {
                    Item::Use(item) => leaves(&item.tree, &mut Vec::new(), &mut found.uses),
                    Item::Macro(item) => found.items.extend(item.ident.as_ref().map(ToString::to_string)),
                    _ => found.items.extend(name(item)),
                }
            }
        }
        if !test {
            self.modules.insert(module.clone(), found);
        }
    }

    /// Returns the module in which the thing is defined that a path means in a module; `None` for other crates' things.
    pub(crate) fn home(&self, module: &[String], path: &[String]) -> Option<Names> {
        let path = self.absolute(module, path)?;
        self.locate(&path, 0).map(|(home, _)| home)
    }

    /// Tells whether a path means a module as a whole.
    pub(crate) fn is_module(&self, module: &[String], path: &[String]) -> bool {
        self.absolute(module, path).and_then(|path| self.locate(&path, 0)).is_some_and(|(_, is_module)| is_module)
    }

    /// Returns the full name of what another crate gives: `std::process::Command` where it is `Command` here.
    pub(crate) fn foreign(&self, module: &[String], path: &[String]) -> Names {
        let given = self.modules.get(module).and_then(|module| {
            module.uses.iter().find(|given| given.name.as_ref() == path.first()).map(|given| given.path.clone())
        });
        given.map_or_else(
            || path.to_vec(),
            |mut given| {
                given.extend_from_slice(&path[1..]);
                given
            },
        )
    }

    fn absolute(&self, module: &[String], path: &[String]) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" | "$crate" | "qwen_run" => Some(rest.to_vec()),
            "self" => Some([module, rest].concat()),
            "super" => {
                let ups = path.iter().take_while(|name| *name == "super").count();
                Some([module.get(..module.len().checked_sub(ups)?)?, &path[ups..]].concat())
            }
            _ => {
                let here = self.modules.get(module)?;
                let known = here.children.contains(first)
                    || here.items.contains(first)
                    || here
                        .uses
                        .iter()
                        .any(|given| given.name.as_ref() == Some(first) && given.path.first() != Some(first));
                let full = [module, path].concat();
                (known || here.uses.iter().any(|given| self.through(given, module, path, 0).is_some())).then_some(full)
            }
        }
    }

    /// Returns where a name leads that a glob brings.
    fn through(&self, given: &Use, module: &[String], path: &[String], depth: u32) -> Option<(Names, bool)> {
        if given.name.is_some() || depth > 8 || !matches!(given.path.first()?.as_str(), "crate" | "self" | "super") {
            return None;
        }
        let target = self.locate(&self.absolute(module, &given.path)?, depth + 1)?.0;
        let there = self.modules.get(&target)?;
        let has = |name: &String| {
            there.items.contains(name)
                || there.children.contains(name)
                || there.uses.iter().any(|given| given.name.as_ref() == Some(name))
        };
        if has(path.first()?) { self.locate(&[&target, path].concat(), depth + 1) } else { None }
    }

    fn locate(&self, path: &[String], depth: u32) -> Option<(Names, bool)> {
        let mut home = Vec::new();
        for (at, name) in path.iter().enumerate() {
            let module = self.modules.get(&home)?;
            if module.children.contains(name) {
                home.push(name.clone());
                continue;
            }
            if module.items.contains(name) || depth > 8 {
                return Some((home, false));
            }
            if let Some(given) = module.uses.iter().find(|given| given.name.as_ref() == Some(name)) {
                let mut target = self.absolute(&home, &given.path)?;
                target.extend_from_slice(&path[at + 1..]);
                return self.locate(&target, depth + 1);
            }
            return Some(
                module
                    .uses
                    .iter()
                    .find_map(|given| self.through(given, &home, &path[at..], depth))
                    .unwrap_or((home, false)),
            );
        }
        Some((home, true))
    }
}

/// Returns what `#[path = "…"]` says.
fn given_path(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            path,
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }),
            ..
        }) if path.is_ident("path") => Some(text.value()),
        _ => None,
    })
}

/// Collects the names of a `use`.
pub(crate) fn leaf_paths(tree: &UseTree) -> Vec<Names> {
    let mut uses = Vec::new();
    leaves(tree, &mut Vec::new(), &mut uses);
    uses.into_iter().map(|given| given.path).collect()
}

fn leaves(tree: &UseTree, before: &mut Names, uses: &mut Vec<Use>) {
    let mut leaf = |name: Option<String>, last: Option<String>| {
        let mut path = before.clone();
        path.extend(last.filter(|last| last != "self"));
        uses.push(Use {
            name: name.map(|name| if name == "self" { path.last().cloned().unwrap_or_default() } else { name }),
            path,
        });
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            leaves(&path.tree, before, uses);
            before.pop();
        }
        UseTree::Name(name) => leaf(Some(name.ident.to_string()), Some(name.ident.to_string())),
        UseTree::Rename(name) => leaf(Some(name.rename.to_string()), Some(name.ident.to_string())),
        UseTree::Glob(_) => leaf(None, None),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, before, uses)),
    }
}

/// Tells whether something is compiled for tests alone.
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
        let text = list.tokens.to_string();
        list.path.is_ident("cfg")
            && (text == "test" || (text.starts_with("all") && text.contains("test") && !text.contains("not")))
    })
}

pub(crate) fn attributes(item: &Item) -> &[syn::Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Names the first and last lines of what is compiled for tests alone.
fn tests(items: &[Item], found: &mut impl FnMut(usize, usize)) {
    for item in items {
        if is_test(attributes(item)) {
            found(item.span().start().line, item.span().end().line);
        } else if let Item::Mod(syn::ItemMod { content: Some((_, items)), .. }) = item {
            tests(items, found);
        } else if let Item::Impl(item) = item {
            for member in &item.items {
                if let syn::ImplItem::Fn(function) = member
                    && is_test(&function.attrs)
                {
                    found(member.span().start().line, member.span().end().line);
                }
            }
        }
    }
}

fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap_or_else(|error| panic!("{error}: {}", text.chars().take(200).collect::<String>()))
}

/// Collects the lines that hold a token which is not a comment.
fn code_lines(tokens: TokenStream, text: &[&str], lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let (start, end) = (token.span().start(), token.span().end());
        match token {
            TokenTree::Group(group) => {
                lines.extend([start.line, end.line]);
                code_lines(group.stream(), text, lines);
            }
            // A comment of documentation is `#[doc = …]`, or `#![doc = …]`, to the parser.
            TokenTree::Punct(_) if is_comment(text, start) => {
                while tokens
                    .next_if(|next| next.span().start() == start || is_comment(text, next.span().start()))
                    .is_some()
                {}
            }
            _ => lines.extend(start.line..=end.line),
        }
    }
}

fn is_comment(text: &[&str], at: proc_macro2::LineColumn) -> bool {
    let rest: String = text.get(at.line - 1).map_or("", |line| line).chars().skip(at.column).take(2).collect();
    rest == "//" || rest == "/*"
}

/// Returns the comments of a text, line by line.
pub(crate) fn comments(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let mut literals = Vec::new();
    collect_literals(tokens(text), &lines, &mut literals);
    let inside = |line: usize, column: usize| {
        let before = literals.partition_point(|(start, _)| *start < (line, column));
        before > 0 && (line, column) < literals[before - 1].1
    };
    let found = lines.iter().enumerate().filter_map(|(at, line)| {
        let starts = line.match_indices("//").map(|(byte, _)| (byte, line[..byte].chars().count()));
        let start = starts.into_iter().find(|(_, column)| !inside(at + 1, *column))?;
        Some(&line[start.0..])
    });
    found.collect()
}

type Position = (usize, usize);

fn collect_literals(tokens: TokenStream, text: &[&str], literals: &mut Vec<(Position, Position)>) {
    for token in tokens {
        let (start, end) = (token.span().start(), token.span().end());
        match token {
            TokenTree::Group(group) => collect_literals(group.stream(), text, literals),
            TokenTree::Literal(_) if !is_comment(text, start) => {
                literals.push(((start.line, start.column), (end.line, end.column)));
            }
            _ => {}
        }
    }
}
