use proptest::prelude::*;

use super::*;

/// Loads `r.yaml` of a folder of texts.
fn load_all(files: &[(&str, &str)]) -> Result<Recipe, Vec<RecipeError>> {
    let files: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    let folder = Folder { shown: String::new(), read: Box::new(move |name| files.get(name).cloned()) };
    assemble(&folder, "r.yaml")
}

fn errors(text: &str) -> String {
    match load_all(&[("r.yaml", text)]) {
        Ok(recipe) => panic!("it loads: {recipe:?}"),
        Err(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

fn warnings(text: &str) -> String {
    let recipe = load_all(&[("r.yaml", text)]).unwrap();
    recipe.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const HEAD: &str = "recipe: 1\nname: r\ndescription: d\n";

#[test]
fn every_built_in_recipe_loads_without_a_warning() {
    for (name, _) in builtin::BUILTINS {
        let recipe = assemble(&builtin_folder(), &format!("{name}.yaml"));
        let recipe = recipe.unwrap_or_else(|errors| {
            panic!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        });
        let warnings: Vec<String> = recipe.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, [] as [&str; 0], "{name}");
        assert_eq!(recipe.sha256.len(), 64);
    }
}
