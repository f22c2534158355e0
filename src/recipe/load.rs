//! Finds and reads recipes. No other file of this module reads from disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::bounded;

use super::check::{Texts, with_line};
use super::extends::{DEPTH, merge};
use super::file::{RecipeFile, Text};
use super::parse::parse;
use super::{Recipe, builtin, params};
use crate::base::document::yaml;
use crate::base::{Code, Diagnostic, Location, Span};
use crate::hidden::is_foreign;
use crate::policy::own_files;

/// Where recipes are looked for.
pub struct Library<'a> {
    /// The directory in which a path on the command line is meant.
    pub cwd: &'a Path,
    /// The user's home.
    pub home: Option<&'a Path>,
    /// Reads a file below `.qwen/recipes/` of the repository, from the trusted ref or the trusted checkout; `None`
    /// where it is not there or not trusted, or why it cannot be read.
    pub project: &'a ReadBelow<'a>,
    /// The names of the files there.
    pub project_names: &'a dyn Fn() -> Vec<String>,
    /// Whether the repository's recipes come before the user's and the built-in ones of the same name: not where the
    /// checkout is nobody's, which must not replace the review that was asked for.
    pub project_first: bool,
    /// Reads a file that the command line names by its path, or that such a recipe names; the error says why it does
    /// not count.
    pub named: &'a ReadNamed<'a>,
}

/// Reads a file by its path: its content, `None` if there is none, or why it does not count.
pub type ReadNamed<'a> = dyn Fn(&Path) -> Result<Option<Vec<u8>>, String> + 'a;

/// Reads a file by its relative path, in the same way.
pub type ReadBelow<'a> = dyn Fn(&str) -> Result<Option<Vec<u8>>, String> + 'a;

/// A recipe that can be called by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: String,
    /// Its description, or what is wrong with it.
    pub description: Result<String, String>,
}

/// Tells whether a word on the command line is a path and not a name.
pub fn is_path(word: &str) -> bool {
    word.contains('/') || word.ends_with(".yaml") || word.ends_with(".yml")
}

/// A directory of recipes: how messages call it, and how its files are read by their relative path.
struct Folder<'a> {
    shown: String,
    read: Box<ReadBelow<'a>>,
}

impl Library<'_> {
    /// Finds and checks the recipe that a word on the command line means.
    pub fn load(&self, word: &str) -> Result<Recipe, Vec<Diagnostic>> {
        let (folder, file) = self.find(word).map_err(|error| vec![error])?;
        assemble(&folder, &file)
    }

    /// Lists the recipes that can be called by name: the repository's, the user's, the built-in ones; the first of a
    /// name counts.
    pub fn list(&self) -> Vec<Listed> {
        let mut names: BTreeMap<String, ()> =
            builtin::BUILTINS.iter().map(|(name, _)| ((*name).to_owned(), ())).collect();
        let mut own = (self.project_names)();
        own.extend(self.user_folder().into_iter().flat_map(|folder| files(&folder)));
        for file in own {
            if let Some(stem) = file.strip_suffix(".yaml").or_else(|| file.strip_suffix(".yml")) {
                names.insert(stem.to_owned(), ());
            }
        }
        let one = |name: String| match self.load(&name) {
            Ok(recipe) => Listed {
                source: recipe.source.clone(),
                description: Ok(recipe.file.description.map(|text| text.value).unwrap_or_default()),
                name,
            },
            Err(errors) => {
                let first = errors.first().map(ToString::to_string).unwrap_or_default();
                Listed { source: String::new(), description: Err(first), name }
            }
        };
        names.into_keys().map(one).collect()
    }

    fn user_folder(&self) -> Option<PathBuf> {
        self.home.map(|home| home.join(".qwen/recipes"))
    }

    /// Returns the recipe's directory and file that a path names.
    fn at_path(&self, word: &str) -> Result<(Folder<'_>, String), Diagnostic> {
        let path = self.cwd.join(word);
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let parent = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let shown = word.strip_suffix(&file).unwrap_or_default().to_owned();
        let failed = |message: String, help: &str| {
            let place = Location { file: word.into(), ..Location::default() };
            Err(Diagnostic::new(Code::R008, place, message).help(help))
        };
        match (self.named)(&path) {
            Ok(Some(_)) => {
                let read = move |name: &str| (self.named)(&parent.join(name));
                Ok((Folder { shown, read: Box::new(read) }, file))
            }
            Ok(None) => failed("the recipe cannot be read".to_owned(), "name a file that exists"),
            Err(why) => failed(
                format!("the recipe cannot be read: {why}"),
                "name a trusted recipe, or trust the checkout's files with --trust-checkout",
            ),
        }
    }

    fn find(&self, word: &str) -> Result<(Folder<'_>, String), Diagnostic> {
        if let Some(name) = word.strip_prefix("builtin:") {
            return match builtin::text(name) {
                Some(_) => Ok((builtin_folder(), format!("{name}.yaml"))),
                None => Err(self.unknown(name)),
            };
        }
        if is_path(word) {
            return self.at_path(word);
        }
        let project = Folder { shown: ".qwen/recipes/".to_owned(), read: Box::new(|name| (self.project)(name)) };
        let of_project = one_of(&project, word);
        if self.project_first
            && let Some(file) = of_project.clone()?
        {
            return Ok((project, file));
        }
        if let Some(user) = self.user_folder() {
            let folder = Folder {
                shown: "~/.qwen/recipes/".to_owned(),
                read: Box::new(move |name| {
                    bounded::optional(bounded::regular(&user.join(name), bounded::CONFIG))
                        .map_err(|error| error.to_string())
                }),
            };
            if let Some(file) = one_of(&folder, word)? {
                return Ok((folder, file));
            }
        }
        if builtin::text(word).is_some() {
            return Ok((builtin_folder(), format!("{word}.yaml")));
        }
        of_project?.map_or_else(|| Err(self.unknown(word)), |file| Ok((project, file)))
    }

    fn unknown(&self, word: &str) -> Diagnostic {
        let mut names: Vec<String> = builtin::BUILTINS.iter().map(|(name, _)| (*name).to_owned()).collect();
        names.extend((self.project_names)().iter().map(|name| name.trim_end_matches(".yaml").to_owned()));
        let message = match yaml::nearest(word, names.iter().map(String::as_str)) {
            Some(near) => format!("recipe `{word}` not found; did you mean `{near}`?"),
            None => format!("recipe `{word}` not found"),
        };
        Diagnostic::new(Code::R008, Location::default(), message).help("run `qwen recipe list` for the recipes")
    }
}

/// Reads and checks a recipe from texts at hand, such as one that is being edited.
pub fn from_text(shown: &str, text: &str) -> Result<Recipe, Vec<Diagnostic>> {
    let name = shown.to_owned();
    let bytes = text.as_bytes().to_vec();
    let folder =
        Folder { shown: String::new(), read: Box::new(move |asked| Ok((asked == name).then(|| bytes.clone()))) };
    assemble(&folder, shown)
}

fn builtin_folder() -> Folder<'static> {
    let read = |name: &str| {
        let text = name.strip_suffix(".yaml").and_then(builtin::text);
        Ok(text.map(|text| text.as_bytes().to_vec()))
    };
    Folder { shown: "builtin:".to_owned(), read: Box::new(read) }
}

/// Reads a file that another one names; the error says why there is nothing to read.
fn read(folder: &Folder<'_>, name: &str) -> Result<Vec<u8>, String> {
    match (folder.read)(name) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err("does not exist".to_owned()),
        Err(why) => Err(format!("cannot be read: {why}")),
    }
}

/// Finds `NAME.yaml` or `NAME.yml`; both at once is an error, and so is one that cannot be read.
fn one_of(folder: &Folder<'_>, name: &str) -> Result<Option<String>, Diagnostic> {
    let (long, short) = (format!("{name}.yaml"), format!("{name}.yml"));
    let place = |file: &String| Location { file: format!("{}{file}", folder.shown).into(), ..Location::default() };
    let is_there = |file: &String| match (folder.read)(file) {
        Ok(found) => Ok(found.is_some()),
        Err(why) => {
            let message = format!("the recipe cannot be read: {why}");
            Err(Diagnostic::new(Code::R008, place(file), message).help("make it readable, or remove it"))
        }
    };
    match (is_there(&long)?, is_there(&short)?) {
        (true, true) => {
            let message = format!("{short} exists, too");
            Err(Diagnostic::new(Code::R008, place(&long), message).help("remove one of them"))
        }
        (true, false) => Ok(Some(long)),
        (false, true) => Ok(Some(short)),
        (false, false) => Ok(None),
    }
}

fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Reads a file with what it builds on, and checks the whole.
fn assemble(folder: &Folder<'_>, file: &str) -> Result<Recipe, Vec<Diagnostic>> {
    let builtins = builtin_folder();
    let (first, mut folder) = (folder, folder);
    let mut texts = Texts::new();
    let mut chain: Vec<String> = Vec::new();
    let mut layers: Vec<RecipeFile> = Vec::new();
    let mut next = Some((file.to_owned(), None::<Text>));
    while let Some((name, asked)) = next.take() {
        let shown = format!("{}{name}", folder.shown);
        let is_other = !std::ptr::eq(folder, first);
        let label = if is_other { shown.clone() } else { name.clone() };
        let itself = || Location { file: shown.clone().into(), ..Location::default() };
        let place = asked.map_or_else(itself, |text| text.place);
        let failed = |message: String, help: &str, texts: &Texts| {
            let error = Diagnostic::new(Code::R008, place.clone(), message).help(help);
            vec![with_line(error, texts)]
        };
        if chain.contains(&label) {
            return Err(failed(
                format!("`extends` is circular: {} → {label}", chain.join(" → ")),
                "name another parent, or none",
                &texts,
            ));
        }
        chain.push(label);
        if chain.len() > DEPTH + 1 {
            return Err(failed(
                format!("`extends` is more than {DEPTH} deep: {}", chain.join(" → ")),
                "use fewer levels",
                &texts,
            ));
        }
        let bytes = read(folder, &name).map_err(|why| {
            failed(
                format!("`extends`: {shown} {why} ({})", chain.join(" → ")),
                if is_other {
                    "`qwen recipe list` names the built-in recipes"
                } else {
                    "name a file in the recipe's directory"
                },
                &texts,
            )
        })?;
        let mut recipe = parse(&shown, &bytes).map_err(|error| vec![error])?;
        texts.insert(shown, String::from_utf8_lossy(&bytes).into_owned());
        inline(&mut recipe, folder, &name, &mut texts).map_err(|error| vec![with_line(error, &texts)])?;
        if let Some(extends) = recipe.extends.clone() {
            let parent = match extends.value.strip_prefix("builtin:") {
                Some(parent) => {
                    folder = &builtins;
                    format!("{parent}.yaml")
                }
                None => beside(&name, &extends).map_err(|error| vec![with_line(error, &texts)])?,
            };
            next = Some((parent, Some(extends)));
        }
        layers.push(recipe);
    }
    checked(layers, file, &format!("{}{file}", first.shown), &texts)
}

/// Merges a file, which comes first, with what it builds on, and checks the whole.
fn checked(mut layers: Vec<RecipeFile>, file: &str, shown: &str, texts: &Texts) -> Result<Recipe, Vec<Diagnostic>> {
    let mut merged = layers.pop().expect("at least one file was read");
    while let Some(child) = layers.pop() {
        merged = merge(child, merged);
    }
    let stem = file.rsplit('/').next().unwrap_or(file);
    let stem = stem.strip_suffix(".yaml").or_else(|| stem.strip_suffix(".yml")).unwrap_or(stem).to_owned();
    Recipe::check(merged, &stem, shown, texts)
}

/// Returns the path of a file that another one names, inside the directory of recipes.
fn beside(file: &str, named: &Text) -> Result<String, Diagnostic> {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let joined = if folder.is_empty() { named.value.clone() } else { format!("{folder}/{}", named.value) };
    let outside = || {
        Diagnostic::new(
            Code::R008,
            named.place.clone(),
            format!("`{}` is outside the directory of recipes", named.value),
        )
        .help("name a file in the recipe's directory, by a relative path")
    };
    if named.value.starts_with('/') {
        return Err(outside());
    }
    let path = params::normalised(&joined).map(|path| path.to_string_lossy()).ok_or_else(outside)?;
    match own_files::never_read(&path) {
        None => Ok(path),
        Some(why) => Err(Diagnostic::new(Code::R008, named.place.clone(), format!("`{}`: {why}", named.value))
            .help("name a file without secrets in the recipe's directory")),
    }
}

/// Reads what is in files of its own: the prompt, the instructions, the schema.
fn inline(recipe: &mut RecipeFile, folder: &Folder<'_>, file: &str, texts: &mut Texts) -> Result<(), Diagnostic> {
    let mut read = |named: &Text| -> Result<Text, Diagnostic> {
        let path = beside(file, named)?;
        let shown = format!("{}{path}", folder.shown);
        let bytes = self::read(folder, &path).map_err(|why| {
            Diagnostic::new(Code::R008, named.place.clone(), format!("{shown} {why}"))
                .help("name a file in the recipe's directory")
        })?;
        let value =
            String::from_utf8(bytes).ok().filter(|text| text.len() <= yaml::MAX_BYTES && !text.chars().any(is_foreign));
        let value = value.ok_or_else(|| {
            Diagnostic::new(
                Code::R001,
                named.place.clone(),
                format!("{shown} is not UTF-8, too long, or has a hidden character"),
            )
        })?;
        texts.insert(shown.clone(), value.clone());
        Ok(Text { value, place: Location { file: shown.into(), span: Span::START } })
    };
    if let Some(named) = recipe.prompt_file.take() {
        if recipe.prompt.is_some() {
            return Err(
                Diagnostic::new(Code::R005, named.place, "`prompt` and `prompt_file` are both given").help("keep one")
            );
        }
        recipe.prompt = Some(read(&named)?);
    }
    for named in recipe.instructions_files.take().into_iter().flatten() {
        let more = read(&named)?;
        match &mut recipe.instructions {
            None => recipe.instructions = Some(more),
            Some(text) => text.value = format!("{}\n\n{}", text.value.trim_end(), more.value),
        }
    }
    if let Some(output) = &mut recipe.output
        && let Some(named) = output.schema_file.take()
    {
        let text = read(&named)?;
        let schema = serde_json::from_str(&text.value)
            .map_err(|error| Diagnostic::new(Code::R011, named.place.clone(), format!("{}: {error}", named.value)))?;
        output.schema = Some(schema);
    }
    Ok(())
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
