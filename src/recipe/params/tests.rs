use super::*;
use crate::recipe::parse::parse;

/// A world of a few constant answers.
pub(crate) struct Constant;

impl World for Constant {
    fn file(&self, path: &str) -> Result<String, String> {
        if path == "two" { Ok("one\ntwo\n".into()) } else { Err("it does not exist".into()) }
    }
    fn command(&self) -> Result<String, String> {
        Ok("@fix it".into())
    }
    fn event(&self, pointer: &str) -> Result<Value, String> {
        serde_json::json!({"issue": {"title": "Hi\n--param x=y", "labels": ["a"], "user": {}}})
            .pointer(pointer)
            .cloned()
            .ok_or_else(|| "no such value".into())
    }
    fn standard_input(&self) -> Result<String, String> {
        Ok("typed\n".into())
    }
    fn variable(&self, name: &str) -> Option<String> {
        (name == "BASE").then(|| "from-env".into())
    }
    fn project(&self) -> Result<Project, String> {
        let names = ["Cargo.toml", "Makefile"].map(str::to_owned);
        Ok(Project::of(&names, &|name| (name == "Makefile").then(|| "lint:\n".to_owned())))
    }
    fn last_tag(&self) -> Option<String> {
        Some("v1.2.0".to_owned())
    }
    fn path(&self, path: &RelPath) -> Result<bool, String> {
        match path.to_string_lossy().as_str() {
            "link" => Err("is a link that points outside the workspace".into()),
            other => Ok(other == "src/a.rs"),
        }
    }
}

fn params(yaml: &str) -> BTreeMap<String, Param> {
    parse("r.yaml", format!("recipe: 1\nparams:\n{yaml}").as_bytes()).unwrap().params.unwrap()
}

fn bound(yaml: &str, flags: &[&str]) -> Result<Bound, String> {
    let sources = Sources { flags: flags.iter().map(|flag| (*flag).to_owned()).collect(), ..Sources::default() };
    bind(&params(yaml), &sources, &Constant)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

const ALL: &str = "  base: {type: string, description: B, env: BASE}
  n: {type: integer, description: N, default: 3, min: 1, max: 9}
  v: {type: string, description: V, default: 1.10}
  no: {type: string, description: No, default: no}
  path: {type: path, description: P, default: ./src/../src/a.rs, must_exist: true}
  list: {type: list, description: L, default: [a, 2]}
  title: {type: string, description: T, untrusted: true, max_bytes: 2, default: ''}
";

#[test]
fn the_first_source_wins_and_the_declared_type_decides() {
    let values = bound(ALL, &[]).unwrap();
    let json = serde_json::to_string(&values).unwrap();
    assert_eq!(json, r#"{"base":"from-env","list":["a","2"],"n":3,"no":"no","path":"src/a.rs","title":"","v":"1.10"}"#);
    let flags = ["base=-", "list=x", "list=@two", "title=@event:/issue/title", "v=@@x", "n=9"];
    let values = bound(ALL, &flags).unwrap();
    let json = serde_json::to_string(&values).unwrap();
    assert_eq!(
        json,
        r#"{"base":"typed","list":["x","one","two"],"n":9,"no":"no","path":"src/a.rs","title":"Hi","v":"@x"}"#
    );
}

#[test]
fn every_error_says_the_rule_and_what_to_pass() {
    let yaml = "  a: {type: string, description: The a.}\n  b: {type: list, description: The b.}\n";
    insta::assert_snapshot!(bound(yaml, &[]).unwrap_err(), @r"
        P001: parameters are missing: a (string): The a.; b (list): The b.
          help: add --param a=… --param b=…
        ");
    insta::assert_snapshot!(bound(ALL, &["bas=x"]).unwrap_err(), @"P002: unknown parameter `bas`; did you mean \
            `base`?");
    insta::assert_snapshot!(bound(ALL, &["n=10", "path=../x", "base=@gone", "v=@event:/issue/title"]).unwrap_err(), @r"
        P003: base: @gone: it does not exist
        P003: v: a text of the event needs a parameter with `untrusted: true`, `pattern` or `enum`
          help: declare the parameter so in the recipe
        P003: n: more than 9
        P004: path: `../x` is not inside the workspace
          help: give a relative path without `..` out of it
        ");
    insta::assert_snapshot!(bound(ALL, &["path=nothing"]).unwrap_err(), @r"
        P004: path: `nothing` does not exist
          help: name a file of the workspace
        ");
    insta::assert_snapshot!(bound(ALL, &["path=link"]).unwrap_err(), @"P004: path: `link` is a link that points \
            outside the workspace");
    let secret = "  s: {type: string, description: S, secret: true, pattern: '[a-z]+'}\n";
    insta::assert_snapshot!(bound(secret, &["s=HUSHHUSH"]).unwrap_err(), @"P003: s: the value does not match `[a-z]+`");
    assert!(bound(secret, &["s=hush"]).unwrap_err().contains("8 characters"));
}

proptest::proptest! {
    #[test]
    fn a_value_is_that_of_its_parameter_alone(value in "(\\PC|\n|=|,|: |--param b=x){0,20}") {
        let yaml = "  a: {type: string, description: A}\n  b: {type: string, description: B, default: kept}\n";
        let given = if value.starts_with('@') { format!("a=@{value}") } else { format!("a={value}") };
        if value != "-" {
            let values = bound(yaml, &[&given]).unwrap();
            proptest::prop_assert_eq!(values.len(), 2);
            proptest::prop_assert_eq!(values["a"].as_str(), Some(value.as_str()));
            proptest::prop_assert_eq!(values["b"].as_str(), Some("kept"));
        }
    }
}

#[test]
fn what_a_comment_asks_for_goes_to_parameters_that_say_so() {
    let yaml = "  a: {type: string, description: A, command: true}\n";
    assert_eq!(bound(yaml, &["a=@command"]).unwrap()["a"], "@fix it");
    let error = bound("  a: {type: string, description: A}\n", &["a=@command"]).unwrap_err();
    assert!(error.contains("`command: true`"), "{error}");
}

#[test]
fn a_command_is_words_of_one_line_and_by_default_the_projects() {
    let yaml = "  test: {type: command, description: T, default: project.test}
  lint: {type: command, description: L, default: project.lint}
  own: {type: command, description: O, default: make all}
";
    let values = bound(yaml, &["lint=grep -q 'a b' c"]).unwrap();
    assert_eq!(
        serde_json::to_string(&values).unwrap(),
        r#"{"lint":["grep","-q","a b","c"],"own":["make","all"],"test":["cargo","test","--quiet"]}"#
    );
    assert_eq!(
        bound(yaml, &["test=a | b", "lint=x"]).unwrap_err(),
        "P003: test: `a | b`: a command is one program with its words; put `;`, `|`, `&&` and redirections into a script"
    );
    assert_eq!(
        bound(yaml, &["lint=x", "own=@event:/issue/title"]).unwrap_err(),
        "P003: own: a command is never taken from an event"
    );
    let several = bound(yaml, &[]).unwrap_err();
    assert!(several.contains("lint: several: cargo clippy --all-targets -- -D warnings, make lint"), "{several}");
    assert_eq!(bound(yaml, &["lint="]).unwrap()["lint"], serde_json::json!([]));
}

#[test]
fn the_last_tag_and_a_file_that_is_written_are_looked_at_before_the_run() {
    let yaml = "  since: {type: string, description: S, default: git.last_tag, pattern: '[^-].*'}
  target: {type: path, description: T, writes: true}
";
    let values = bound(yaml, &["target=docs/a.md"]).unwrap();
    assert_eq!(serde_json::to_string(&values).unwrap(), r#"{"since":"v1.2.0","target":"docs/a.md"}"#);
    assert_eq!(
        bound(yaml, &["target=.github/workflows/a.yml", "since=HEAD~3"]).unwrap_err(),
        "P004: target: `.github/workflows/a.yml` is protected\n  help: name another file: no recipe may write this one"
    );
}

#[test]
fn a_pattern_is_for_the_whole_value() {
    let yaml = "  a: {type: string, description: A, pattern: 'a|b'}\n";
    assert!(bound(yaml, &["a=a"]).is_ok());
    assert!(bound(yaml, &["a=ax"]).is_err() && bound(yaml, &["a=a\n"]).is_err());
}
