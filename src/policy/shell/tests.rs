//! Tests the laws of the shell's judge against tables, random text and the real bash.

use std::path::PathBuf;

use proptest::prelude::*;

use super::ast::Script;
use super::judge::{Approved, judge, judge_in_steps};
use super::parser::parse;
use super::printer::print_at;
use super::stand_in::{Memory, StandIn};
use crate::policy::decision::Denial;
use crate::policy::grant::{Start, TreeAccess};

fn files() -> Memory {
    Memory::new(&[
        "README.md",
        ".env",
        ".git/config",
        "src/main.rs",
        "src/lib.rs",
        "src/utils/helpers.rs",
        "docs/guide.md",
        "docs/with space.md",
        "docs/a*b.md",
        "build/",
        "link_src -> src",
        "link_out -> /out",
        "link_env -> .env",
        "-r",
    ])
}

/// Prints for the workspace of [`review`].
fn print(script: &Script) -> String {
    print_at(script, "/ws")
}

/// A reviewer's rules.
pub(super) fn review() -> StandIn {
    StandIn {
        programs: vec![
            "git", "ls", "cat", "head", "wc", "grep", "rg", "find", "sort", "sed", "npm", "diff", "cargo", "tee",
        ],
        denied: None,
        root: PathBuf::from("/ws"),
        home: "/home/me".to_owned(),
        tree: Box::new(files()),
    }
}

/// Everything but a few programs.
fn open() -> StandIn {
    StandIn { denied: Some(vec![vec!["git", "push"], vec!["rm", "-r"], vec!["curl"], vec!["kill"]]), ..review() }
}

fn allowed(command: &str) -> Result<Approved, Denial> {
    judge(command, None, &review())
}

/// What would run, for snapshots.
fn runs(command: &str) -> String {
    match allowed(command) {
        Ok(approved) => match approved.plan.start {
            Start::Pipeline(words) => format!("{words:?}"),
            Start::Script(script) => script,
            Start::AsWritten(_) => unreachable!("the judge never runs the model's text"),
        },
        Err(denial) => format!("denied: {}", denial.reason),
    }
}

#[test]
fn no_hostile_command_is_allowed() {
    let mut wrong = Vec::new();
    for command in include_str!("testdata/hostile.txt").split("\n%\n").map(unescape) {
        if allowed(&command).is_ok() {
            wrong.push(command);
        }
    }
    assert!(wrong.is_empty(), "allowed: {wrong:#?}");
}

#[test]
fn no_denied_program_runs_where_the_rest_is_allowed() {
    let mut wrong = Vec::new();
    for command in include_str!("testdata/hostile-open.txt").split("\n%\n").map(unescape) {
        if judge(&command, None, &open()).is_ok() {
            wrong.push(command);
        }
    }
    assert!(wrong.is_empty(), "allowed: {wrong:#?}");
}

#[test]
fn harmless_commands_are_allowed_and_their_printing_is_a_fixpoint() {
    let mut wrong = Vec::new();
    for command in include_str!("testdata/harmless.txt").split("\n%\n").map(unescape) {
        match allowed(&command) {
            Err(denial) => wrong.push((command, denial.reason)),
            Ok(approved) => {
                let printed = print(&approved.decided);
                let again = allowed(&printed).map(|again| print(&again.decided));
                if again.as_deref() != Ok(printed.as_str()) {
                    wrong.push((command, format!("prints {printed:?}, then {again:?}")));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// In the tables an invisible character is written as `<U+200B>`.
fn unescape(text: &str) -> String {
    let mut pieces = text.trim_end_matches('\n').split("<U+");
    let mut command = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (code, rest) = piece.split_once('>').expect("a code ends in >");
        command.push(u32::from_str_radix(code, 16).ok().and_then(char::from_u32).expect("a code"));
        command.push_str(rest);
    }
    command
}

#[test]
fn literal_pipelines_need_no_shell() {
    assert_eq!(
        runs(r#"git log --format='%h %s' | grep -c "a b""#),
        r#"[["git", "log", "--format=%h %s"], ["grep", "-c", "a b"]]"#
    );
    assert_eq!(runs("cat src/*.rs"), r#"[["cat", "src/lib.rs", "src/main.rs"]]"#);
    assert_eq!(runs("timeout 5 git {status,-s}"), r#"[["timeout", "5", "git", "status", "-s"]]"#);
    assert_eq!(runs("command git status"), r#"[["git", "status"]]"#);
}

#[test]
fn what_runs_is_printed_from_the_decided_form() {
    insta::assert_snapshot!(runs("cd src && cat *.rs 2>/dev/null"), @"cd -P -- src && cat lib.rs main.rs 2> /dev/null");
    insta::assert_snapshot!(runs("for f in src/*.rs; do wc -l \"$f\"; done"), @r#"
    for f in src/lib.rs src/main.rs
    do wc -l "${f}"
    done
    "#);
    insta::assert_snapshot!(runs("for d in src docs; do ls $d/*.md; done"), @r#"
    for d in src docs
    do case "${d}" in
    ('src')
    ls "${d}"'/*.md'
    ;;
    ('docs')
    ls 'docs/a*b.md' docs/guide.md 'docs/with space.md'
    ;;
    esac
    done
    "#);
    insta::assert_snapshot!(runs("sh -c 'ls; pwd'"), @r#"[["bash", "--noprofile", "--norc", "-c", "ls\npwd"]]"#);
    insta::assert_snapshot!(runs("cat <<EOF\n$HOME \\$x\nEOF"), @r"
    cat <<'EOF'
    /home/me $x
    EOF
    ");
    insta::assert_snapshot!(runs("echo \"n: $(ls src | wc -l)\" ~/x"), @r#"echo 'n: '"$(ls src | wc -l)" /home/me/x"#);
    insta::assert_snapshot!(runs("sed -n '1p' README.md && ls"), @"sed --sandbox -n 1p README.md && ls");
    insta::assert_snapshot!(runs("'if' x"), @"denied: if is not allowed");
}

#[test]
fn folders_after_cd_are_followed() {
    for command in [
        "cd src && cat main.rs",
        "cd src && cd .. && cat README.md",
        "(cd src && ls); cat README.md",
        "cd src || exit 1; cat ../README.md",
        "cd src && pwd | cat ../README.md",
        "for d in src docs; do (cd $d && cat ../README.md); done; cat README.md",
        "if cd src; then cat ../README.md; fi",
    ] {
        assert!(allowed(command).is_ok(), "{command}: {:?}", allowed(command).err());
    }
    for command in [
        "cd src; cat ../../x",
        "cd src; cat ../README.md",
        "cd .. && ls",
        "cd src | cat ../x",
        "(cd src); cat ../x",
        "cd src/utils && cd ../../.. && ls",
        "cd .git && cat config",
        "cd src || cat ../x",
        "cd link_out && ls",
        "! cd src && cat ../README.md",
        "for d in src docs; do cd $d; cat ../README.md; done",
        "while cd src; do cat ../../README.md; done",
        "cd /; ls",
        "cd src && break; cat ../README.md",
        "cd src && (exit 1); cat ../../README.md",
        "cd src && exit 1 > /x; cat ../README.md",
        "exit; ls",
        "cd",
        "cd -",
        "cd -- -",
        "cd ''",
        "cd a b",
    ] {
        assert!(allowed(command).is_err(), "{command}");
    }
}

#[test]
fn the_directory_argument_is_a_cd_before_the_command() {
    let rules = review();
    assert!(judge("cat main.rs", Some("src"), &rules).is_ok());
    assert!(judge("cat config", Some(".git"), &rules).is_err());
    assert!(judge("ls", Some(".."), &rules).is_err());
    assert!(judge("cat ../.env", Some("src"), &rules).is_err());
    assert_eq!(judge("ls", Some("src"), &rules).expect("allowed").plan.directory.to_string(), "src");
}

#[test]
fn what_was_resolved_as_a_path_of_the_workspace_is_printed_for_the_tree_and_nothing_else_is() {
    let at = |command: &str, rules: &StandIn| {
        let plan = judge(command, None, rules).unwrap_or_else(|denial| panic!("{command}: {}", denial.reason)).plan;
        let show = |start: Start| match start {
            Start::Pipeline(words) => words.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join(" | "),
            Start::Script(script) => script,
            Start::AsWritten(_) => unreachable!("the judge never runs the model's text"),
        };
        assert_eq!(show(plan.start_at(std::path::Path::new("/ws"))), show(plan.start.clone()), "{command}");
        show(plan.start_at(std::path::Path::new("/t r")))
    };
    let rules = review();
    for (command, runs) in [
        ("cat /ws/README.md", "cat /t r/README.md"),
        ("cat -n /ws/README.md /ws/src/main.rs", "cat -n /t r/README.md /t r/src/main.rs"),
        ("echo /ws/README.md", "echo /ws/README.md"),
        ("cat docs/ws/x; true", "cat docs/ws/x\ntrue"),
        ("cat /ws/src/lib.rs | wc", "cat /t r/src/lib.rs | wc"),
        ("cd /ws/src && ls", "cd -P -- '/t r/src' && ls"),
        ("cat < /ws/README.md > /ws/build/x", "cat < '/t r/README.md' > '/t r/build/x'"),
        ("[[ -f /ws/README.md ]]", "[[ -f '/t r/README.md' ]]"),
        ("[ -f /ws/README.md ]", "'[' -f '/t r/README.md' ']'"),
        ("cat \"$PWD/README.md\"; true", "cat \"${PWD}\"/README.md\ntrue"),
        ("bash -c 'cat /ws/README.md; echo /ws'", "bash --noprofile --norc -c cat '/t r/README.md'\necho /ws"),
        (
            "for f in /ws/src/lib.rs README.md; do cat \"$f\"; done",
            "for f in /ws/src/lib.rs README.md\ndo case \"${f}\" in\n('/ws/src/lib.rs')\ncat '/t r/src/lib.rs'\n;;\n('README.md')\ncat \"${f}\"\n;;\nesac\ndone",
        ),
    ] {
        assert_eq!(at(command, &rules), runs, "{command}");
    }
}

#[test]
fn what_would_happen_is_told() {
    let approved = allowed("cat README.md > build/x").expect("allowed");
    assert_eq!(approved.effects, ["write build/x", "run cat README.md", "read README.md"]);
    assert_eq!(approved.plan.profile.tree, TreeAccess::Writable);
    assert_eq!(allowed("cat README.md").expect("allowed").plan.profile.tree, TreeAccess::ReadOnly);
    let (steps, result) = judge_in_steps("ls; rm x", None, &review());
    assert!(result.is_err());
    assert_eq!(steps.iter().map(|step| step.outcome.is_ok()).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn commands_inside_commands_are_judged_and_printed_anew() {
    let rules = open();
    let printed = |command: &str| judge(command, None, &rules).map(|approved| print(&approved.decided));
    assert!(printed("xargs git push").is_err());
    assert!(printed("xargs sh -c 'git push'").is_err());
    assert!(printed("find . -exec git push ';'").is_err());
    assert_eq!(
        printed("find . -exec sh -c 'ls  ;pwd' ';'").as_deref(),
        Ok("find . -exec bash --noprofile --norc -c $'ls\\npwd' ';'")
    );
    assert_eq!(printed("find . -exec sed -n 1p x ';'").as_deref(), Ok("find . -exec sed --sandbox -n 1p x ';'"));
}

#[test]
fn deep_and_long_text_is_refused_without_harm() {
    for (open, close) in
        [("(", ")"), ("{ ", ";}"), ("if ", ";then a;fi"), ("$(", ")"), ("[[ ! ", " ]]"), ("\"$(", ")\"")]
    {
        for count in [10, 1_000, 20_000] {
            let command = format!("echo {}a{}", open.repeat(count), close.repeat(count));
            let _ = parse(&command);
            let _ = parse(&format!("{}a{}", open.repeat(count), close.repeat(count)));
        }
    }
    for piece in
        ["{", "{a,b}", "`", "\\`", "[", "*", "[[:", "\\\n", "<<a ", "! ", "x=", "&& a ", "'\"'", "${a", "$((1+"]
    {
        let started = format!("echo {}", piece.repeat(20_000));
        let _ = allowed(&started);
    }
    assert!(allowed(&format!("ls {}", "a".repeat(300_000))).is_err());
    assert!(allowed("ls {1..100000}").is_err());
    assert!(allowed(&format!("ls {}", "{a,b}".repeat(40))).is_err());
}

/// Fragments that mean something to a shell, to be put together at random.
pub(super) const FRAGMENTS: [&str; 92] = [
    "a",
    "b",
    "ls",
    "p",
    "echo",
    " ",
    " ",
    " ",
    "\n",
    "\t",
    ";",
    "&&",
    "||",
    "|",
    "|&",
    "&",
    "(",
    ")",
    "{",
    "}",
    "{ ",
    "; }",
    "!",
    "if ",
    "then ",
    "else ",
    "elif ",
    "fi",
    "for f in ",
    "do ",
    "done",
    "while ",
    "until ",
    "case ",
    " in ",
    "esac",
    ";;",
    "[[ ",
    " ]]",
    "-f ",
    "==",
    "=~",
    "'",
    "\"",
    "\\",
    "$",
    "$'",
    "${",
    "$(",
    "`",
    "$((",
    "))",
    "<(",
    "<",
    ">",
    ">>",
    "<<",
    "<<-",
    "<<<",
    "EOF",
    "\nEOF\n",
    ">&",
    "2>&1",
    "&>",
    ">|",
    "<>",
    "#",
    "~",
    "*",
    "?",
    "[",
    "]",
    "^",
    "-",
    ",",
    "..",
    "1",
    "09",
    "=",
    "A=",
    "é",
    "\u{200b}",
    "$HOME",
    "${f}",
    "$f",
    "$?",
    "x/y",
    "%",
    "\\n",
    "\\x41",
    "cd src",
    "time ",
];

fn fragments(most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(FRAGMENTS.as_slice()), 0..most).prop_map(|pieces| pieces.concat())
}

/// Scripts that mostly parse.
fn scripts() -> impl Strategy<Value = String> {
    let word = prop::sample::select(
        [
            "a",
            "'b c'",
            "\"$f\"",
            "${HOME}x",
            "{a,b}{1..3}",
            "*.rs",
            "\\*",
            "$'\\x41\\n'",
            "\"q\\\"\\$\"",
            "''",
            "~/x",
            "\"$(ls a)\"",
            "`ls`",
            "$((1+2))",
            "<(ls)",
            "a=b",
            "[a-z]*",
            "\"a\nb\"",
            "é",
            "$?",
            "if",
            "x\\\ny",
        ]
        .as_slice(),
    );
    let redirection = prop::sample::select(
        [
            "",
            "",
            "",
            " > x",
            " 2>&1",
            " < 'a b'",
            " &> y",
            " <<< \"$f\"",
            " 2>/dev/null",
            " >&-",
            " 3<> z",
            " <<E\n$f \\$ x\nE\n",
        ]
        .as_slice(),
    );
    let simple = (prop::collection::vec(word, 1..4), redirection)
        .prop_map(|(words, redirection)| format!("p {}{redirection}", words.join(" ")));
    simple.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}\n{b}")),
            (inner.clone(), prop::sample::select(["&&", "||", "|", "|&"].as_slice()), inner.clone())
                .prop_map(|(a, op, b)| format!("{{ {a}\n}} {op} {{ {b}\n}}")),
            inner.clone().prop_map(|a| format!("( {a}\n) 2>&1")),
            inner.clone().prop_map(|a| format!("! {{ {a}\n}}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("if {a}\nthen {b}\nelif x; then y\nelse z; fi")),
            inner.clone().prop_map(|a| format!("for f in x 'y z' *.rs; do {a}\ndone")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("while {a}\ndo {b}\ndone")),
            inner.clone().prop_map(|a| format!("case \"$f\" in a|'b c') {a}\n;; *) ;; esac")),
            inner.clone().prop_map(|a| format!("[[ -f x && ( $f == *.rs || ! a =~ ^(a|b)+$ ) ]] && {{ {a}\n}}")),
            inner.clone().prop_map(|a| format!("p \"$( {a}\n)\"")),
            inner.prop_map(|a| format!("time {{ {a}\n}}")),
        ]
    })
}

fn is_fixpoint(script: &Script) -> Result<(), TestCaseError> {
    let printed = print(script);
    let again = parse(&printed);
    prop_assert_eq!(again.as_ref(), Ok(script), "printed: {}", printed);
    Ok(())
}

proptest! {
    #![proptest_config(crate::properties::tried(400))]

    #[test]
    fn printing_then_parsing_gives_the_same_form(text in scripts()) {
        let script = parse(&text);
        prop_assert!(script.is_ok(), "{:?}: {}", script, text);
        is_fixpoint(&script.expect("checked"))?;
    }

    #[test]
    fn no_text_makes_the_judge_panic(text in prop_oneof![fragments(24), any::<String>(), "\\PC{0,40}"]) {
        if let Ok(script) = parse(&text) {
            is_fixpoint(&script)?;
        }
        let _ = judge(&text, None, &review());
        let _ = judge(&text, None, &open());
    }

    #[test]
    fn what_is_allowed_is_decided_the_same_when_printed(text in prop_oneof![fragments(16), scripts()]) {
        let rules = StandIn { programs: vec!["p", "ls", "a", "b", "y", "z", "x"], ..review() };
        if let Ok(approved) = judge(&text, None, &rules) {
            is_fixpoint(&approved.decided)?;
            let printed = print(&approved.decided);
            let again = judge(&printed, None, &rules);
            prop_assert!(again.is_ok(), "{:?}\n{}\n{}", again.err(), text, printed);
            prop_assert_eq!(print(&again.expect("checked").decided), printed);
        }
    }
}
