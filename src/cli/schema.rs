//! Defines `qwen schema`: JSON Schemas of the formats that this program writes and reads.

use clap::{Args, ValueEnum};
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::emit::Report;
use crate::event::Event;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen schema result > result.schema.json";

/// The flags of `schema`.
#[derive(Debug, Clone, Args)]
pub struct SchemaArgs {
    /// What to describe
    #[arg(value_name = "KIND")]
    pub kind: SchemaKind,
}

/// What has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// The result object
    Result,
    /// A line of --events-file
    Events,
    /// A policy file
    Policy,
    /// A recipe file
    Recipe,
    /// The findings of a result
    Findings,
    /// A line of a batch's journal, its batch.json and its summary.json
    Batch,
    /// What a CI job with the model hands to the one that delivers
    Proposal,
    /// The eval.json of `recipe eval`
    Eval,
}

/// What the files of a batch hold: a line of the journal, or the whole of `batch.json` or `summary.json`.
#[derive(serde::Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum BatchFile {
    /// A line of `journal.jsonl`.
    Journal(crate::batch::journal::Line),
    /// A line of `items.jsonl`.
    Item(crate::batch::item::Item),
    /// `summary.json`.
    Summary(Box<crate::batch::result::BatchResult>),
    /// A line of `provider.jsonl`.
    Provider(crate::batch::provider::Line),
    /// `batch.json`.
    Batch(Box<crate::batch::plan::Batch>),
}

/// Returns a schema; that of the policy file comes from the caller, which knows its type.
pub fn schema(kind: SchemaKind, policy: impl FnOnce() -> Value) -> Value {
    match kind {
        SchemaKind::Result => of::<Report>(),
        SchemaKind::Events => of::<Event>(),
        SchemaKind::Policy => policy(),
        SchemaKind::Recipe => {
            let mut schema = of_input::<crate::recipe::file::RecipeFile>();
            crate::recipe::editor::complete(&mut schema);
            schema
        }
        SchemaKind::Proposal => of::<crate::emit::proposal::ProposalFile>(),
        SchemaKind::Findings => of::<Vec<crate::verify::findings::Finding>>(),
        SchemaKind::Batch => of::<BatchFile>(),
        SchemaKind::Eval => of::<crate::batch::evaluation::Evaluation>(),
    }
}

/// Returns the schema of a type, as it is written.
pub fn of<T: schemars::JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>().to_value()
}

/// Returns the schema of a type, as it is read.
pub fn of_input<T: schemars::JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{RunError, RunFinished};
    use crate::exit::Exit;

    #[test]
    fn what_we_write_fits_its_schema() {
        let end = Event::RunFinished(Box::new(RunFinished::failed(Exit::Auth, RunError::default())));
        let result = serde_json::to_value(crate::emit::report(std::slice::from_ref(&end))).unwrap();
        for (kind, value) in [(SchemaKind::Result, result), (SchemaKind::Events, serde_json::to_value(end).unwrap())] {
            let schema = schema(kind, || json!(true));
            let validator = jsonschema::validator_for(&schema).unwrap();
            assert_eq!(validator.iter_errors(&value).map(|e| e.to_string()).collect::<Vec<_>>(), [] as [&str; 0]);
            assert!(!validator.is_valid(&json!({})), "{kind:?}");
        }
    }

    #[test]
    fn every_built_in_recipe_fits_the_schema_of_recipes() {
        let schema = schema(SchemaKind::Recipe, || json!(true));
        let validator = jsonschema::validator_for(&schema).unwrap();
        for (name, text) in crate::recipe::builtin::BUILTINS {
            let recipe: Value = crate::base::document::yaml::parse(name, text).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(&recipe).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert_eq!(errors, [] as [&str; 0], "{name}");
        }
        assert!(!validator.is_valid(&json!({"recipe": 1, "name": "a", "description": "d", "promt": "x"})));
    }

    /// Wrong recipes that no schema tells from right ones, and why.
    const BEYOND_A_SCHEMA: [(&str, &str); 4] = [
        ("r005-closes", "it cannot compare a name with the type of a parameter"),
        ("r005-test-fixture", "it does not know which files there are"),
        ("r005-test-twice", "it cannot compare the names of items"),
        ("r011-param", "it cannot compare a name with the keys of another object"),
    ];

    #[test]
    fn the_schema_of_recipes_refuses_what_the_loader_refuses() {
        let schema = schema(SchemaKind::Recipe, || json!(true));
        let validator = jsonschema::validator_for(&schema).unwrap();
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/recipe-errors");
        let (mut refused, mut taken) = (0, Vec::new());
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().trim_end_matches(".yaml").to_owned();
            if !["r003", "r004", "r005", "r011"].iter().any(|code| name.starts_with(code)) {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let recipe: Value = crate::base::document::yaml::parse(&name, &text).unwrap();
            if validator.is_valid(&recipe) { taken.push(name) } else { refused += 1 }
        }
        taken.sort();
        assert_eq!(taken, BEYOND_A_SCHEMA.map(|(name, _)| name));
        assert!(refused >= 30, "{refused}");
    }

    #[test]
    fn the_schema_beside_the_manual_is_that_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/recipe-v1.schema.json");
        let schema = crate::emit::to_pretty(&schema(SchemaKind::Recipe, || json!(true))) + "\n";
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(committed == schema, "write it anew: qwen schema recipe > docs/recipe-v1.schema.json");
    }

    #[test]
    fn every_field_of_the_result_is_required_and_explained() {
        let schema = schema(SchemaKind::Result, || json!(true));
        let properties = schema["properties"].as_object().unwrap();
        assert_eq!(schema["required"].as_array().unwrap().len(), properties.len());
        assert!(properties.values().all(|property| property.get("description").is_some()));
    }
}
