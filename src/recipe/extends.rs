//! Merges a recipe with the recipe that it extends.

use super::file::{CheckFile, Context, Finish, Guards, Limits, ModelWishes, Needs, RecipeFile, Requires, Verify};

/// The longest chain of recipes that build on one another.
pub const DEPTH: usize = 4;

/// Merges a child into its parent. Scalars and lists replace, maps merge by key, inputs and checks by name;
/// prohibitions of guards add up, so a child can only be stricter. Name and tests are never inherited.
pub fn merge(child: RecipeFile, parent: RecipeFile) -> RecipeFile {
    // `prompt` and `prompt_file` are one thing in two spellings.
    let own_prompt = child.prompt.is_some() || child.prompt_file.is_some();
    let (prompt, prompt_file) =
        if own_prompt { (child.prompt, child.prompt_file) } else { (parent.prompt, parent.prompt_file) };
    RecipeFile {
        recipe: child.recipe,
        name: child.name,
        description: child.description.or(parent.description),
        version: child.version.or(parent.version),
        extends: None,
        requires: both(child.requires, parent.requires, requires),
        params: both(child.params, parent.params, |child, mut parent| {
            parent.extend(child);
            parent
        }),
        context: both(child.context, parent.context, |child, parent| {
            by_name(child, parent, |context: &Context| context.name.as_str().to_owned())
        }),
        instructions: child.instructions.or(parent.instructions),
        instructions_files: child.instructions_files.or(parent.instructions_files),
        prompt,
        prompt_file,
        needs: match (child.needs, parent.needs) {
            // `needs: null` clears.
            (Some(None), _) => Some(None),
            (Some(Some(child)), Some(Some(parent))) => Some(Some(needs(child, parent))),
            (child, parent) => child.or(parent),
        },
        limits: both(child.limits, parent.limits, limits),
        model: both(child.model, parent.model, model),
        guards: both(child.guards, parent.guards, guards),
        finish: both(child.finish, parent.finish, |child, parent| {
            by_name(child, parent, |finish: &Finish| finish.name.as_str().to_owned())
        }),
        verify: both(child.verify, parent.verify, verify),
        output: child.output.or(parent.output),
        git: child.git.or(parent.git),
        deliver: child.deliver.or(parent.deliver),
        cache: child.cache.or(parent.cache),
        offline: child.offline.or(parent.offline),
        tests: child.tests,
        places: child.places.over(parent.places),
    }
}

fn requires(child: Requires, parent: Requires) -> Requires {
    Requires {
        qwen: child.qwen.or(parent.qwen),
        programs: child.programs.or(parent.programs),
        git: child.git.or(parent.git),
    }
}

fn needs(child: Needs, parent: Needs) -> Needs {
    Needs {
        read: child.read.or(parent.read),
        write: child.write.or(parent.write),
        create: child.create.or(parent.create),
        delete: child.delete.or(parent.delete),
        run: child.run.or(parent.run),
        net: child.net.or(parent.net),
        tools: child.tools.or(parent.tools),
        commands: Vec::new(),
        finished: Vec::new(),
    }
}

fn limits(child: Limits, parent: Limits) -> Limits {
    Limits {
        turns: child.turns.or(parent.turns),
        tool_calls: child.tool_calls.or(parent.tool_calls),
        wall_time: child.wall_time.or(parent.wall_time),
        total_tokens: child.total_tokens.or(parent.total_tokens),
        output_tokens: child.output_tokens.or(parent.output_tokens),
        cost_usd: child.cost_usd.or(parent.cost_usd),
        context_bytes: child.context_bytes.or(parent.context_bytes),
    }
}

fn model(child: ModelWishes, parent: ModelWishes) -> ModelWishes {
    ModelWishes {
        name: child.name.or(parent.name),
        temperature: child.temperature.or(parent.temperature),
        top_p: child.top_p.or(parent.top_p),
        seed: child.seed.or(parent.seed),
        thinking: child.thinking.or(parent.thinking),
    }
}

fn verify(child: Verify, parent: Verify) -> Verify {
    Verify {
        before: child.before.or(parent.before),
        attempts: child.attempts.or(parent.attempts),
        on_exhausted: child.on_exhausted.or(parent.on_exhausted),
        stop_if_same: child.stop_if_same.or(parent.stop_if_same),
        checks: both(child.checks, parent.checks, |child, parent| {
            by_name(child, parent, |check: &CheckFile| check.name.as_str().to_owned())
        }),
    }
}

fn guards(child: Guards, parent: Guards) -> Guards {
    let add = |parent: Option<Vec<_>>, child: Option<Vec<_>>| both(parent, child, |a, b| [a, b].concat());
    Guards {
        only_paths: child.only_paths.or(parent.only_paths),
        never_paths: both(parent.never_paths, child.never_paths, |a, b| [a, b].concat()),
        max_files: both(child.max_files, parent.max_files, usize::min),
        max_lines: both(child.max_lines, parent.max_lines, usize::min),
        no_delete: both(child.no_delete, parent.no_delete, |a, b| a || b),
        comments_only: both(child.comments_only, parent.comments_only, |a, b| a || b),
        forbid_added: add(parent.forbid_added, child.forbid_added),
        forbid_removed: add(parent.forbid_removed, child.forbid_removed),
        presets: both(parent.presets, child.presets, |a, b| [a, b].concat()),
    }
}

fn both<T>(child: Option<T>, parent: Option<T>, merge: impl FnOnce(T, T) -> T) -> Option<T> {
    match (child, parent) {
        (Some(child), Some(parent)) => Some(merge(child, parent)),
        (child, parent) => child.or(parent),
    }
}

fn by_name<T>(child: Vec<T>, parent: Vec<T>, name: impl Fn(&T) -> String) -> Vec<T> {
    let mut merged = parent;
    for item in child {
        match merged.iter_mut().find(|known| name(known) == name(&item)) {
            Some(known) => *known = item,
            None => merged.push(item),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::parse::parse;

    fn merged(child: &str, parent: &str) -> serde_json::Value {
        let child = parse("child", child.as_bytes()).unwrap();
        let parent = parse("parent", parent.as_bytes()).unwrap();
        serde_json::to_value(merge(child, parent)).unwrap()
    }

    #[test]
    fn a_child_replaces_by_name_and_can_only_forbid_more() {
        let parent = "recipe: 1\nname: p\ndescription: d\nprompt: p\nneeds: {read: ['**'], write: [a]}\nguards: {never_paths: [x], no_delete: true, max_files: 3}\nverify: {attempts: 2, checks: [{name: a, run: [a]}, {name: b, run: [b]}]}\n";
        let child = "recipe: 1\nname: c\nprompt: c\nneeds: {write: [b]}\nguards: {never_paths: [y], no_delete: false, max_files: 9}\nverify: {checks: [{name: b, run: [bb]}, {name: z, run: [z]}]}\n";
        let merged = merged(child, parent);
        assert_eq!(merged["needs"]["read"], serde_json::json!(["**"]));
        assert_eq!(merged["needs"]["write"], serde_json::json!(["b"]));
        assert_eq!(merged["guards"]["never_paths"], serde_json::json!(["x", "y"]));
        assert_eq!((&merged["guards"]["no_delete"], &merged["guards"]["max_files"]), (&true.into(), &3.into()));
        let checks = merged["verify"]["checks"].as_array().unwrap();
        assert_eq!(checks.iter().map(|c| c["run"][0].as_str().unwrap()).collect::<Vec<_>>(), ["a", "bb", "z"]);
        assert_eq!(
            (&merged["name"], &merged["prompt"], &merged["description"]),
            (&"c".into(), &"c".into(), &"d".into())
        );
    }

    #[test]
    fn null_clears_what_would_be_inherited() {
        let parent = "recipe: 1\nneeds: {read: ['**']}\n";
        assert_eq!(merged("recipe: 1\nneeds: null\n", parent).get("needs"), Some(&serde_json::Value::Null));
        assert!(merged("recipe: 1\n", parent)["needs"]["read"].is_array());
    }
}
