//! Compares the shell's judge with the real bash: the same words, the same commands, nothing hidden.

use proptest::prelude::*;

use super::judge::judge;
use super::printer::print;
use super::stand_in::{Disk, StandIn};
use super::tests::{FRAGMENTS, review};
use crate::policy::grant::Start;

/// Words made of what is difficult in words.
const WORD_FRAGMENTS: [&str; 60] = [
    "a",
    "b",
    "c",
    "x",
    " ",
    "{",
    "}",
    "{a,",
    ",b}",
    "{1..3}",
    "{",
    "}",
    ",",
    "..",
    "{01..3}",
    "{c..a}",
    "{3..-1..2}",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "$'",
    "\\x41",
    "\\'",
    "\\n",
    "\\u00e9",
    "*",
    "?",
    "[",
    "]",
    "[a-b]",
    "[!a]",
    "[^x]",
    "[[:alpha:]]",
    "!",
    "^",
    "-",
    "~",
    "~/",
    "/",
    "dir",
    "d*",
    ".",
    ".txt",
    "$HOME",
    "${HOME}",
    "${PWD}",
    "\"$PWD\"",
    "#",
    "=",
    "k=",
    ":",
    "é",
    "%",
    "$((1+1))",
    "\\\n",
    "''",
    "{}",
    "sp ace",
];

fn hard_words() -> impl Strategy<Value = Vec<String>> {
    let word = prop::collection::vec(prop::sample::select(WORD_FRAGMENTS.as_slice()), 1..8).prop_map(|w| w.concat());
    prop::collection::vec(word, 150)
}

/// The real bash, a directory to run in, and a program `p` that prints its arguments.
struct Bash {
    folder: tempfile::TempDir,
}

impl Bash {
    fn new() -> Option<Bash> {
        if !std::path::Path::new("/bin/bash").exists() {
            std::io::Write::write_all(&mut std::io::stderr(), b"SKIPPED: there is no /bin/bash to compare with\n")
                .ok()?;
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        std::fs::create_dir_all(root.join("bin")).expect("bin");
        std::fs::create_dir_all(root.join("ws/dir/sub")).expect("ws");
        for file in
            ["a", "b", "ab", "a.txt", "b.txt", ".hid", "x1", "sp ace", "dir/c", "dir/d.txt", "dir/.e", "é", "a[b]"]
        {
            std::fs::write(root.join("ws").join(file), "x").expect("a file");
        }
        let program = root.join("bin/p");
        std::fs::write(&program, "#!/bin/sh\nfor a; do printf '%s\\0' \"$a\"; done\nprintf '\\1'\n").expect("p");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("executable");
        Some(Bash { folder })
    }

    fn rules(&self) -> StandIn {
        StandIn {
            programs: vec!["p"],
            root: self.folder.path().join("ws"),
            home: "/home/some one".to_owned(),
            tree: Box::new(Disk),
            ..review()
        }
    }

    /// Runs a script and returns the arguments of each `p`.
    fn run(&self, script: &str) -> Vec<Vec<String>> {
        let output = std::process::Command::new("/bin/bash")
            .args(["--noprofile", "--norc", "-c", script])
            .current_dir(self.folder.path().join("ws"))
            .stdin(std::process::Stdio::null())
            .env_clear()
            .env("PATH", self.folder.path().join("bin"))
            .env("HOME", "/home/some one")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("bash runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut calls: Vec<&str> = text.split('\u{1}').collect();
        calls.pop();
        calls
            .into_iter()
            .map(|call| call.split('\0').map(str::to_owned).collect::<Vec<_>>())
            .map(|mut words| {
                words.pop();
                words
            })
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..crate::properties::tried(8) })]

    #[test]
    fn our_words_are_the_words_of_bash(words in hard_words()) {
        let Some(bash) = Bash::new() else { return Ok(()) };
        let rules = bash.rules();
        let mut accepted = Vec::new();
        let (mut ours, mut printed) = (Vec::new(), Vec::new());
        for words in words {
            let command = format!("p {words}");
            let Ok(approved) = judge(&command, None, &rules) else { continue };
            // In a comment, or after a backslash that is itself quoted, the end of a line is one: another command.
            if words.contains('\n') && approved.decided.statements.len() > 1 {
                continue;
            }
            let one = approved.decided.statements.len() == 1 && !words.contains(';');
            prop_assert!(one, "{command:?} is not one command");
            if let Start::Pipeline(pipeline) = &approved.plan.start {
                ours.push(Some(pipeline[0][1..].to_vec()));
            } else {
                ours.push(None);
            }
            printed.push(print(&approved.decided));
            accepted.push(command);
        }
        let theirs = bash.run(&accepted.join("\n"));
        prop_assert_eq!(theirs.len(), accepted.len(), "{:#?}", accepted);
        let again = bash.run(&printed.join("\n"));
        for (at, command) in accepted.iter().enumerate() {
            if let Some(ours) = &ours[at] {
                prop_assert_eq!(ours, &theirs[at], "{:?}", command);
            }
            prop_assert_eq!(&again[at], &theirs[at], "{:?} printed as {:?}", command, &printed[at]);
        }
    }
}

/// Scripts that end, for a comparison with bash.
fn ending_scripts() -> impl Strategy<Value = String> {
    let words = [
        "a",
        "'b c'",
        "\"$f\"",
        "$f",
        "x$f*",
        "{a,b}{1..2}",
        "*.txt",
        "\"${g}\"$g",
        "dir/*",
        "$'\\x41\\n'",
        "''",
        "~/x",
        "$((1+2))",
        "\"q\\\"\\$\"",
        "[ab]*",
        "$PWD",
        "\"$PWD\"/x",
        "k=$f",
        "{$f,y}",
        "'*'",
        "\\*",
        "a\"b\"'c'",
    ];
    let word = prop::sample::select(words.to_vec());
    let tail = prop::sample::select(vec!["", "", "", "", " 2>&1", " 2>/dev/null", " < a.txt", " <<E\n$f\nE\n"]);
    let simple =
        (prop::collection::vec(word, 1..4), tail).prop_map(|(words, tail)| format!("p {}{tail}", words.join(" ")));
    let leaf = prop_oneof![6 => simple, 1 => Just("cd dir".to_owned()), 1 => Just("false".to_owned()), 1 => Just("true".to_owned())];
    leaf.prop_recursive(4, 20, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}\n{b}")),
            (inner.clone(), prop::sample::select(vec!["&&", "||", "|"]), inner.clone())
                .prop_map(|(a, op, b)| format!("{{ {a}\n}} {op} {{ {b}\n}}")),
            inner.clone().prop_map(|a| format!("( {a}\n)")),
            inner.clone().prop_map(|a| format!("! {{ {a}\n}}")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("if {a}\nthen {b}\nelse {c}\nfi")),
            inner.clone().prop_map(|a| format!("for f in x 'y z' *.txt '*' a; do {a}\ndone")),
            inner.clone().prop_map(|a| format!("for g in 1 'd*'; do {a}\ncontinue; done")),
            inner.clone().prop_map(|a| format!("case \"$f\" in a|'y z') {a}\n;; *) p no;; esac")),
            inner.clone().prop_map(|a| format!("[[ -f a.txt && $f == *.txt ]] && {{ {a}\n}}")),
            inner.prop_map(|a| format!("bash -c 'p z; cd dir && p *'; {a}")),
        ]
    })
    .prop_map(|script| format!("for f in a b.txt; do for g in u; do {script}\ndone; done"))
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 20_000, ..crate::properties::tried(60) })]

    #[test]
    fn accepted_scripts_do_the_same_when_printed(script in ending_scripts()) {
        let Some(bash) = Bash::new() else { return Ok(()) };
        let script = script.replace("for f in x", "for h in x").replace("for g in 1", "for i in 1");
        match judge(&script, None, &bash.rules()) {
            Ok(approved) => {
                let printed = print(&approved.decided);
                prop_assert_eq!(bash.run(&printed), bash.run(&script), "{}\n=>\n{}", script, printed);
            }
            Err(denial) => prop_assume!(denial.reason.is_empty()),
        }
    }
}

#[test]
fn known_corner_cases_of_words_are_those_of_bash() {
    let Some(bash) = Bash::new() else { return };
    let rules = bash.rules();
    let cases = [
        r#"p {a,b}{1..3} "a"'b'\c $'\x41\u00e9\'' a{b,"c,d"} ~/x [a-z]* \* '*' "*""#,
        r"p {a,} {,a} x{,} {a}b,c} {a,{b,c} {a..c} {1..10..3} {05..3} {-1..1} {a..3} {1..} {..1} {}",
        r#"p !x a!b '!' "!" "#,
        r"p *.txt dir/* */ */* .* nomatch* a\[b\] a\[*",
        r"p [a-b]/. [a-d]*/. d*/./c [a-d]*/.. d*/../a [a-b]/",
        "p a\\\nb 'c\nd' \"e\\\nf\" $'g\\nh'",
        r#"p "$HOME" $HOME ${HOME}/x "${PWD}" a"$HOME"b"#,
        r#"p "\a\$\`\"\\" \a\$\"\\ '\a'"#,
        r"p $((1+2*3)) $((2**10)) $(( (1<<4) | 3 ))",
        "for f in a '*' 'x y' ''; do p $f; p \"$f\" z$f\"$f\"; done",
        "for f in {1..3} *.txt; do for g in x $f; do p $f-$g; done; done",
        "p a# #b\np c #d\n",
        "if p a; then p b; else p c; fi; while p x; do p y; break; done; until p z; do p w; done",
        "case a.txt in *.md) p md;; *.txt|x) p txt;; *) p other;; esac",
        "[[ a.txt == *.txt && ! b =~ ^(x|y)$ ]] && p yes; [[ 3 -gt 2 ]] && p more; [[ -f a ]] && p file",
        "bash -c 'p *.txt; for f in 1 2; do p $f; done'",
        "{ p a; (p b; p c) } | cat_missing || p d",
        "cd dir && p * && (cd sub && p x) && p *; p end",
        "p 'a' <<'E'\n$x `y`\nE\np b",
    ];
    for command in cases {
        let rules = StandIn { programs: vec!["p", "cat_missing"], ..bash.rules() };
        let approved = judge(command, None, &rules);
        assert!(approved.is_ok(), "{command}: {:?}", approved.err());
        let printed = print(&approved.expect("checked").decided);
        assert_eq!(bash.run(&printed), bash.run(command), "{command}\n{printed}");
    }
    drop(rules);
}

#[test]
fn here_documents_say_the_same_when_printed() {
    let Some(bash) = Bash::new() else { return };
    let text = |script: &str| {
        let folder = bash.folder.path().join("ws");
        let output = std::process::Command::new("/bin/bash")
            .args(["--noprofile", "--norc", "-c", script])
            .current_dir(folder)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/home/some one")
            .output()
            .expect("bash runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for command in [
        "cat <<E\na $HOME \\$x \\\\ \\q \"q\" $(echo \"in\")\nE\n",
        "cat <<'E'\na $HOME \\$x `y`\nEOF\nE\n",
        "cat <<-E\n\ta\n\t\tb\n\tE\n",
        "cat <<A - <<B\n1\nA\n2\nB\n",
        "cat <<A | cat - a; echo z\n1\nA\n",
        "for f in x 'y z'; do cat <<E; done\n[$f]\nE\n",
        "cat <<< \"a  $HOME\"; cat <<< *",
        "echo \"$(cat <<'E'\n)\nE\n)\"",
    ] {
        let rules = StandIn { programs: vec!["cat"], ..bash.rules() };
        let approved = judge(command, None, &rules);
        assert!(approved.is_ok(), "{command}: {:?}", approved.err());
        let printed = print(&approved.expect("checked").decided);
        assert_eq!(text(&printed), text(command), "{command}\n{printed}");
    }
}

/// Text in which a call of `rm` may hide.
fn hiding() -> impl Strategy<Value = String> {
    let mut fragments: Vec<&str> = FRAGMENTS
        .iter()
        .copied()
        .filter(|f| !["while ", "until ", "ls", "\u{200b}", "cd src", "..", "x/y", "~", "/"].contains(f))
        .collect();
    fragments.extend([
        "rm x",
        "rm x",
        ";rm x",
        "\nrm x\n",
        "rm x;",
        "echo ",
        "p ",
        "EOF\n",
        "<<'EOF'\n",
        "<<EOF\n",
        "'E'",
        "))\"",
        ")\"",
        "\"$(",
    ]);
    prop::collection::vec(prop::sample::select(fragments), 1..14)
        .prop_map(|pieces| format!("p {}rm x", pieces.concat()))
}

proptest! {
    #![proptest_config(crate::properties::tried(250))]

    /// What is accepted is run as the model wrote it, in a directory of its own with nothing but false programs.
    #[test]
    fn no_text_hides_a_command_from_the_judge(texts in prop::collection::vec(prop_oneof![hiding(), mutated()], 8)) {
        let Some(bash) = Bash::new() else { return Ok(()) };
        let mark = bash.folder.path().join("rm-was-called");
        let program = |name: &str, text: &str| {
            let file = bash.folder.path().join("bin").join(name);
            std::fs::write(&file, text).expect("a program");
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
        };
        program("rm", &format!("#!/bin/sh\n: > '{}'\n", mark.display()));
        let allowed = ["ls", "git", "cat", "head", "wc", "grep", "rg", "find", "sort", "sed", "npm", "cargo", "tee", "x", "a", "b"];
        for name in allowed {
            program(name, "#!/bin/sh\n");
        }
        for text in texts.iter().filter(|text| is_tame(text)) {
            let rules = StandIn { programs: ["p"].into_iter().chain(allowed).collect(), ..bash.rules() };
            if let Ok(approved) = judge(text, None, &rules) {
                let printed = print(&approved.decided);
                for script in [&printed, text] {
                    bash.run(script);
                    prop_assert!(!mark.exists(), "{:?} calls rm, printed {:?}", text, printed);
                }
            }
        }
    }
}

/// Tells whether text does no harm in the real bash, even if the judge were broken: it ends, it writes into its own
/// directory only, and it signals nobody.
fn is_tame(text: &str) -> bool {
    let bare = text.replace("/dev/null", "");
    let leaves = bare.contains('>') && ["/", "~", "..", "$", "cd"].iter().any(|way| bare.contains(way));
    !leaves
        && ["while", "until", "kill", "suspend", "/dev/tcp", "/dev/udp", "(("].iter().all(|word| !bare.contains(word))
}

/// A command of the tables with a few characters taken out or put in.
fn mutated() -> impl Strategy<Value = String> {
    let tables = [include_str!("testdata/hostile.txt"), include_str!("testdata/harmless.txt")];
    let commands: Vec<&str> = tables.iter().flat_map(|table| table.split("\n%\n")).collect();
    let put = prop::sample::select(vec![
        "", "", "'", "\"", "\\", "`", "$", "(", ")", "{", "}", "#", "\n", " ", ";", "<", "<<E", "&", "|", "rm x",
        ";rm x;", "!", "$(", "\nE\n",
    ]);
    let edit = (any::<prop::sample::Index>(), 0_usize..2, put);
    (prop::sample::select(commands), prop::collection::vec(edit, 0..4)).prop_map(|(command, edits)| {
        let mut text: Vec<char> = command.chars().collect();
        for (at, gone, put) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + gone).min(text.len());
            text.splice(at..end, put.chars());
        }
        text.into_iter().collect()
    })
}
