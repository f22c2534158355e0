//! Tests how recipes are found and read.

use proptest::prelude::*;

use super::*;

/// Loads `r.yaml` of a directory of texts.
fn load_all(files: &[(&str, &str)]) -> Result<Recipe, Vec<Diagnostic>> {
    let files: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    let folder = Folder { shown: String::new(), read: Box::new(move |name| Ok(files.get(name).cloned())) };
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

#[test]
fn r001_bytes_that_cannot_be_read_are_named_by_their_place() {
    insta::assert_snapshot!(errors("recipe: 1\nname: r\ndescription: a\u{e0041}b\n"), @r"
    r.yaml:3:15: R001: hidden character U+E0041
      |
    3 | description: a�b
      |               ^
      help: remove it
    ");
    let folder = |bytes: Vec<u8>| Folder { shown: String::new(), read: Box::new(move |_| Ok(Some(bytes.clone()))) };
    let error = assemble(&folder(b"recipe: 1\nname: \xff".to_vec()), "r.yaml").unwrap_err();
    insta::assert_snapshot!(error[0].to_string(), @r"
    r.yaml:2:7: R001: not UTF-8
      |
    2 | name: �
      |       ^
      help: save the file as UTF-8
    ");
    let error = assemble(&folder(vec![b' '; crate::base::document::yaml::MAX_BYTES + 1]), "r.yaml").unwrap_err();
    assert_eq!(error[0].code, Some(Code::R001));
}

#[test]
fn r002_what_is_no_yaml_of_ours_is_refused() {
    for text in [
        "recipe: 1\nname: [",
        "recipe: 1\n\tname: r\n",
        "recipe: 1\nname: r\nname: s\n",
        "recipe: 1\n---\nrecipe: 1\n",
        "recipe: 1\nname: &a r\ndescription: *a\n",
    ] {
        let found = load_all(&[("r.yaml", text)]).unwrap_err();
        assert_eq!(found[0].code, Some(Code::R002), "{text:?} {}", found[0]);
    }
    insta::assert_snapshot!(errors("recipe: 1\nname: r\nname: s\n"), @r"
    r.yaml:3:1: R002: duplicate key `name`; the first one is at r.yaml:2:1
      |
    3 | name: s
      | ^
      help: keep one of them
    ");
}

#[test]
fn r003_an_unknown_key_has_a_neighbour() {
    insta::assert_snapshot!(errors("recipe: 1\npromt: x\n"), @r"
    r.yaml:2:1: R003: unknown key `promt`; did you mean `prompt`?
      |
    2 | promt: x
      | ^
      help: run `qwen schema recipe` for the known keys; start your own with `x-`
    ");
    insta::assert_snapshot!(errors("recipe: 1\nsteps: []\n"), @r"
    r.yaml:2:1: R003: `steps` is reserved for a later format
      |
    2 | steps: []
      | ^
      help: compose recipes with `extends`, and runs with the shell
    ");
    assert!(
        errors("recipe: 1\nverify: {atempts: 2}\n").contains("R003: unknown key `atempts`; did you mean `attempts`?")
    );
    assert!(load_all(&[("r.yaml", &format!("{HEAD}prompt: p\nx-own: {{a: 1}}\n"))]).is_ok());
}

#[test]
fn r004_another_format_is_not_judged_by_this_ones_keys() {
    insta::assert_snapshot!(errors("recipe: 2\nstages: []\n"), @r"
    r.yaml:1:1: R004: this file is format 2, this qwen reads 1
      |
    1 | recipe: 2
      | ^
      help: use a newer qwen
    ");
    assert!(errors("name: r\n").contains("R004: the key `recipe:` is missing"));
    assert!(load_all(&[("r.yaml", "recipe: \"1\"\nname: r\ndescription: d\nprompt: p\n")]).is_ok());
}

#[test]
fn r005_a_wrong_value_says_what_to_write() {
    let found = errors(&format!("{HEAD}prompt: p\nlimits: {{wall_time: 90}}\n"));
    assert!(found.contains("R005") && found.contains("`90` has no unit; write for example `90s`"), "{found}");
    for (text, part) in [
        ("prompt: null\n", "R005"),
        ("", "`prompt` is missing"),
        ("prompt: p\nverify: {attempts: 0}\n", "at least 1"),
        ("prompt: p\nneeds: {run: ['git * x']}\n", "literal"),
        ("prompt: p\nneeds: {tools: [read_fil]}\n", "did you mean `read_file`?"),
        ("prompt: p\nneeds: {write: [../x]}\n", "not a glob relative to the workspace"),
        ("prompt: p\ncontext: [{name: a}]\n", "exactly one of"),
        ("prompt: p\nparams: {a: {type: string, description: A, pattern: '('}}\n", "not a regular expression"),
        (
            "prompt: p\nparams: {a: {type: integer, description: A, default: x}}\n",
            "`params.a.default`: a: `x` is not a whole number",
        ),
        ("prompt: p\noutput: {kind: findings}\n", "needs `rules`"),
        ("prompt: p\ndefault: no\n", "R003"),
    ] {
        let found = errors(&format!("{HEAD}{text}"));
        assert!(found.contains(part), "{text:?} gave {found}");
    }
}

#[test]
fn r006_and_r007_a_template_is_checked_before_it_is_used() {
    insta::assert_snapshot!(errors(&format!("{HEAD}prompt: '{{{{ params.nam }}}}'\nparams: {{name: {{type: string, description: N}}}}\n")), @r"
    r.yaml:4:13: R007: `prompt`: `params.nam` is not declared; did you mean `params.name`?
      |
    4 | prompt: '{{ params.nam }}'
      |             ^
      help: declare it below `params` or `context`, or correct the name
    ");
    insta::assert_snapshot!(errors(&format!("{HEAD}prompt: 'a ${{{{ github.x }}}}'\n")), @r"
    r.yaml:4:10: R006: `prompt`: GitHub expressions are not supported in recipes; pass a parameter
      |
    4 | prompt: 'a ${{ github.x }}'
      |          ^
      help: declare a parameter, and give it in the workflow: `title=@event:/issue/title`
    ");
    for (template, part) in [
        ("{{ x }}", "unknown name `x` in a template"),
        ("{{ params.a | shout }}", "use one of the filters fence, join"),
        ("{{ run.clock }}", "R007: `prompt`: `run.clock` is not declared"),
        ("{% set a = 1 %}", "use `if` or `for`"),
        ("{{ params.a", "R006"),
    ] {
        let found = errors(&format!("{HEAD}prompt: \"{template}\"\nparams: {{a: {{type: string, description: A}}}}\n"));
        assert!(found.contains(part), "{template} gave {found}");
    }
    let found =
        errors(&format!("{HEAD}prompt: p\ninstructions: '{{{{ context.a }}}}'\ncontext: [{{name: a, file: a}}]\n"));
    assert!(found.contains("`context` is available only in `prompt`"), "{found}");
}

#[test]
fn r008_a_chain_is_shown() {
    let child = |name: &str, parent: &str| format!("recipe: 1\nname: {name}\ndescription: d\nextends: {parent}\n");
    let texts = [child("r", "a.yaml"), child("a", "b.yaml"), child("b", "a.yaml")];
    let found = load_all(&[("r.yaml", &texts[0]), ("a.yaml", &texts[1]), ("b.yaml", &texts[2])]).unwrap_err();
    insta::assert_snapshot!(found[0].to_string(), @r"
    b.yaml:4:10: R008: `extends` is circular: r.yaml → a.yaml → b.yaml → a.yaml
      |
    4 | extends: a.yaml
      |          ^
      help: name another parent, or none
    ");
    assert!(errors(&child("r", "gone.yaml")).contains("R008: `extends`: gone.yaml does not exist"));
    assert!(errors(&child("r", "../x.yaml")).contains("is outside the directory of recipes"));
    assert!(errors(&child("r", "/etc/x.yaml")).contains("is outside the directory of recipes"));
    let deep: Vec<(String, String)> = (0..7)
        .map(|n| (if n == 0 { "r.yaml".into() } else { format!("p{n}.yaml") }, child("r", &format!("p{}.yaml", n + 1))))
        .collect();
    let deep: Vec<(&str, &str)> = deep.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert!(load_all(&deep).unwrap_err()[0].to_string().contains("more than 4 deep"));
}

#[test]
fn r009_untrusted_and_secret_values_stay_where_they_may_be() {
    let params = "params: {t: {type: string, description: T, untrusted: true}, s: {type: string, description: S, secret: true}}\n";
    insta::assert_snapshot!(errors(&format!("{HEAD}{params}prompt: p\ngit: {{subject: 'fix {{{{ params.t }}}}'}}\n")), @r"
    r.yaml:6:24: R009: `git.subject`: `params.t` is untrusted and allowed only in `prompt`
      |
    6 | git: {subject: 'fix {{ params.t }}'}
      |                        ^
      help: declare a `pattern` or `enum` instead of `untrusted`, or remove it here
    ");
    assert!(
        errors(&format!("{HEAD}{params}prompt: '{{{{ params.s }}}}'\n"))
            .contains("R009: `prompt`: `params.s` is secret")
    );
    let argv = "context: [{name: x, run: [git, log, '{{ params.t }}']}]\n";
    assert!(errors(&format!("{HEAD}{params}{argv}prompt: p\n")).contains("R009: `context.x.run[2]`"));
}

#[test]
fn r010_permissions_cannot_depend_on_input() {
    let params = "params: {p: {type: string, description: P}}\nprompt: '{{ params.p }}'\n";
    insta::assert_snapshot!(errors(&format!("{HEAD}{params}needs: {{write: ['{{{{ params.p }}}}']}}\n")).lines().take(4).collect::<Vec<_>>().join("\n"), @r"
    r.yaml:6:17: R010: `needs.write[0]`: a template; permissions cannot depend on input
      |
    6 | needs: {write: ['{{ params.p }}']}
      |                 ^
    ");
    assert!(errors(&format!("{HEAD}{params}guards: {{never_paths: ['{{{{ params.p }}}}']}}\n")).contains("R010"));
}

#[test]
fn r011_and_r012_schema_and_name() {
    for (schema, part) in [
        ("{type: array}", "write `type: object`"),
        ("{type: object, properties: {a: {$ref: 'https://x/y'}}}", "points outside the schema"),
        ("{type: object, properties: {a: {type: nothing}}}", "R011: `output.schema`: at "),
        ("{type: object, requird: [a]}", "`requird` is not a keyword of JSON Schema; did you mean `required`?"),
        ("{type: object, properties: {a: {anyOf: [{minLenght: 1}]}}}", "did you mean `minLength`?"),
    ] {
        let found = errors(&format!("{HEAD}prompt: p\noutput: {{kind: json, schema: {schema}}}\n"));
        assert!(found.contains("R011") && found.contains(part), "{found}");
    }
    let names = "{type: object, properties: {requird: {type: string, nullable: true}}, required: [requird], x-of: a, note: b, time: c}";
    warnings(&format!("{HEAD}prompt: p\noutput: {{kind: json, schema: {names}}}\n"));
    insta::assert_snapshot!(errors("recipe: 1\nname: other\ndescription: d\nprompt: p\n"), @r"
    r.yaml:2:7: R012: the name is `other` and the file is `r`
      |
    2 | name: other
      |       ^
      help: write `name: r`, or rename the file
    ");
}

#[test]
fn warnings_say_what_will_surprise() {
    let text = format!(
        "{HEAD}params: {{a: {{type: string, description: A}}, b: {{type: string, description: B, untrusted: true}}}}\ncontext: [{{name: c, file: c}}]\nprompt: '{{{{ params.b | fence }}}} {{{{ run.id }}}}'\nneeds: {{run: ['**']}}\noutput: {{kind: changes}}\n"
    );
    let found = warnings(&text);
    for code in ["W101", "W103", "W104", "W105", "W106", "W107"] {
        assert!(found.contains(code), "{code} is missing in {found}");
    }
    let cached = warnings(&format!("{HEAD}prompt: '{{{{ run.id }}}}'\ncache: {{key: context}}\n"));
    assert!(cached.contains("W102"), "{cached}");
    for (needs, expected) in [
        ("{tools: [read_file]}", true),
        ("{read: ['**']}", true),
        ("{tools: []}", false),
        ("{tools: [todo_write]}", false),
    ] {
        let found = warnings(&format!("{HEAD}prompt: p\nneeds: {needs}\ncache: {{key: context}}\n"));
        assert_eq!(found.contains("W110"), expected, "{found}");
    }
    for (rest, expected) in [
        ("needs: {write: ['**']}\ngit: {changes: dry-run}", false),
        ("needs: {write: ['**']}\ngit: {changes: apply}", true),
        ("needs: {write: ['**'], net: [example.com]}\ngit: {changes: dry-run}", true),
    ] {
        let params = "params: {b: {type: string, description: B, untrusted: true}}";
        let found =
            warnings(&format!("{HEAD}{params}\nprompt: '{{{{ params.b }}}}'\noutput: {{kind: changes}}\n{rest}\n"));
        assert_eq!(found.contains("W107"), expected, "{found}");
    }
    let cut = warnings(&format!(
        "{HEAD}context: [{{name: c, diff: staged, truncate: head}}]\nprompt: '{{{{ context.c }}}}'\n"
    ));
    assert!(cut.contains("W108") && cut.contains("on_large"), "{cut}");
}

#[test]
fn a_number_keeps_its_spelling() {
    let params = "params: {v: {type: string, description: V, default: 1.10}, h: {type: string, description: H, default: 0x1F}, n: {type: integer, description: N, default: 12}}\n";
    let text = format!("{HEAD}{params}prompt: '{{{{ params.v }}}}{{{{ params.h }}}}{{{{ params.n }}}}'\n");
    let recipe = load_all(&[("r.yaml", &text)]).unwrap();
    let default = |name: &str| serde_json::to_value(&recipe.params()[name].default).unwrap();
    assert_eq!((default("v"), default("h"), default("n")), ("1.10".into(), "0x1F".into(), "12".into()));
}

#[test]
fn words_of_commands_are_spelled_as_the_file_spells_them() {
    let checks = "verify: {checks: [{name: t, run: [echo, True, false, 0x1F, 1.10, text]}]}\n";
    let file = format!("recipe: 1\nname: a\ndescription: A\nprompt: p\n{checks}");
    let file = parse("a.yaml", file.as_bytes()).unwrap();
    let words: Vec<String> =
        file.verify.unwrap().checks.unwrap()[0].run.iter().map(crate::recipe::scalar::Argument::shown).collect();
    assert_eq!(words, ["echo", "True", "false", "0x1F", "1.10", "text"]);
}

#[test]
fn both_endings_at_once_and_files_that_cannot_be_read_are_errors_and_no_name_is_guessed() {
    let text = format!("{HEAD}prompt: p\n");
    let project = |name: &str| match name {
        "pipe.yaml" | "fix-lint.yaml" => Err("it is a pipe".to_owned()),
        _ => Ok(["r.yaml", "r.yml"].contains(&name).then(|| text.clone().into_bytes())),
    };
    let names = || vec!["r.yaml".to_owned()];
    let library = Library {
        cwd: Path::new("/"),
        home: None,
        project: &project,
        project_names: &names,
        project_first: true,
        named: &|_| Ok(None),
    };
    assert!(library.load("r").unwrap_err()[0].to_string().contains("r.yml exists, too"));
    for name in ["pipe", "fix-lint"] {
        let said = library.load(name).unwrap_err()[0].to_string();
        assert!(said.contains(&format!(".qwen/recipes/{name}.yaml")) && said.contains("it is a pipe"), "{said}");
    }
    // What does not come first replaces nothing, and keeps nothing from being found.
    let last = Library { project_first: false, ..library };
    assert_eq!(last.load("fix-lint").unwrap().name(), "fix-lint");
    assert!(last.load("pipe").unwrap_err()[0].to_string().contains("it is a pipe"));
    assert!(library.load("fix-lnt").unwrap_err()[0].to_string().contains("did you mean `fix-lint`?"));
    assert_eq!(library.load("builtin:fix-lint").unwrap().name(), "fix-lint");
}

proptest! {
    #![proptest_config(crate::properties::tried(200))]

    #[test]
    fn no_text_panics_the_loader(text in "(recipe: 1\n)?(name|prompt|needs|params|verify|context|output|x)?:? ?[\\PC\n\t{}\\[\\]|>&*!%'\"-]{0,80}") {
        let _result = load_all(&[("r.yaml", &text)]);
    }

    #[test]
    fn no_damage_panics_the_loader(cut in 0..4000_usize, at in 0..4000_usize, byte: u8) {
        for (name, text) in builtin::BUILTINS {
            let mut bytes = text.as_bytes().to_vec();
            bytes.truncate(cut);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let _result = parse(name, &bytes);
        }
    }

    #[test]
    fn no_mixture_of_recipes_panics_the_loader(
        pieces in proptest::collection::vec((0..builtin::BUILTINS.len(), 0..200_usize, 1..12_usize), 1..6),
        put in proptest::collection::vec((0..2_000_usize, "[\\PC\n {}\\[\\]|>&*!%'\"#:,.$-]{1,6}"), 0..6),
    ) {
        let mut text = "recipe: 1\nname: r\ndescription: d\n".to_owned();
        for (recipe, line, count) in pieces {
            let lines: Vec<&str> = builtin::BUILTINS[recipe].1.lines().collect();
            for line in lines.iter().cycle().skip(line).take(count) {
                text.push_str(line);
                text.push('\n');
            }
        }
        for (at, more) in put {
            let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.insert_str(at, &more);
        }
        match load_all(&[("r.yaml", &text)]) {
            Ok(recipe) => prop_assert_eq!(recipe.name(), "r"),
            Err(errors) => prop_assert!(errors.iter().all(|error| !error.to_string().is_empty())),
        }
    }
}
