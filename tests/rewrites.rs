//! Checks what the model is asked once more: about files that it writes anew, and for an answer of its own.

use serde_json::json;

use crate::support::{Project, call, say};

const README: &str = "# Greeting\n\nSays hello.\n\n## Licence\n\nMIT\n";

fn rewritten(content: &str) -> crate::support::Reply {
    call("write_file", json!({"file_path": "README.md", "content": content}))
}

#[test]
fn a_heading_that_the_task_does_not_name_is_asked_for_once_and_can_be_put_back() {
    let project = Project::new().file("README.md", README).git().model([
        rewritten("# Greeting\n\nSays hi."),
        say("Done."),
        rewritten(&README.replace("hello", "hi")),
        say("Put back."),
    ]);
    let outcome = project.run(&["-p", "Say hi instead of hello in README.md", "--approval-mode", "auto-edit"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("Put back."), "{}", outcome.stdout);
    assert_eq!(project.read("README.md"), README.replace("hello", "hi"));
    let asked = project.server().requests().last().unwrap().to_string();
    assert_eq!(asked.matches("gone:\\nREADME.md: ## Licence\\nREADME.md: MIT\\nDoes the task").count(), 1, "{asked}");
}

#[test]
fn an_answer_that_stands_by_the_loss_is_not_asked_again_and_the_first_one_counts() {
    let project = Project::new().file("README.md", README).git().model([
        rewritten("# Greeting\n\nSays hi.\n"),
        say("It says hi now."),
        say("remove"),
    ]);
    let outcome = project.run(&["-p", "Say hi instead of hello in README.md", "--approval-mode", "auto-edit"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("It says hi now."), "{}", outcome.stdout);
    assert_eq!(project.server().requests().len(), 3);
}

#[test]
fn lost_lines_are_put_back_by_one_word() {
    let project = Project::new().file("README.md", README).git().model([
        rewritten("# Greeting\n\nSays hi."),
        say("It says hi now."),
        say("restore"),
        say("It says hi, and nothing is lost."),
    ]);
    let outcome = project.run(&["-p", "Say hi instead of hello in README.md", "--approval-mode", "auto-edit"]);
    assert_eq!((outcome.code, outcome.stdout.trim()), (0, "It says hi, and nothing is lost."), "{}", outcome.stderr);
    assert_eq!(project.read("README.md"), README.replace("hello", "hi"));
    // Where other lines are now, the model has to do it.
    let project = Project::new().file("a.rs", "pub fn one() {}\npub fn two() {}\n").git().model([
        call("write_file", json!({"file_path": "a.rs", "content": "// Nothing.\n"})),
        say("Done."),
        say("restore"),
        call("write_file", json!({"file_path": "a.rs", "content": "// Nothing.\npub fn one() {}\npub fn two() {}\n"})),
        say("They are back."),
    ]);
    let outcome = project.run(&["-p", "Add a comment to a.rs", "--approval-mode", "auto-edit"]);
    assert_eq!((outcome.code, outcome.stdout.trim()), (0, "They are back."), "{}", outcome.stderr);
    assert!(project.read("a.rs").ends_with("pub fn two() {}\n"));
}

#[test]
fn a_model_that_writes_calls_as_text_does_not_see_those_that_changed_nothing() {
    let text = |path: &str, content: &str| {
        say(&format!(
            "<tool_call>\n<function=write_file>\n<parameter=file_path>\n{path}\n</parameter>\n<parameter=content>\n\
             {content}</parameter>\n</function>\n</tool_call>"
        ))
    };
    let whole = README.replace("hello", "hi");
    let project = Project::new().file("README.md", README).git().model([
        text("README.md", "Says hi."),
        text("README.md", README),
        say("It says hi now."),
        text("README.md", &whole),
        say("Now it does."),
    ]);
    let task = ["-p", "Say hi instead of hello in README.md", "--approval-mode", "auto-edit", "--text-tools", "force"];
    let outcome = project.run(&task);
    assert_eq!((outcome.code, outcome.stdout.trim()), (0, "Now it does."), "{}", outcome.stderr);
    assert_eq!(project.read("README.md"), whole);
    let second = project.server().messages(1);
    assert!(
        second.contains("alone is not the whole new content of") && !second.contains("Says hi.\\n</parameter>"),
        "{second}"
    );
    assert!(project.server().messages(2).contains("you wrote README.md as it already was"));
    assert!(project.server().messages(3).contains("No file has changed"));
}

#[test]
fn nothing_is_asked_of_the_last_turn() {
    let project = Project::new()
        .file("README.md", README)
        .git()
        .model([rewritten("# Greeting\n\nSays hi.\n"), say("It says hi now.")]);
    let task = ["-p", "Say hi instead of hello in README.md", "--approval-mode", "auto-edit"];
    let outcome = project.run(&[&task[..], &["--max-session-turns", "2"]].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
}

#[test]
fn an_answer_that_repeats_the_instructions_is_asked_for_once_more_and_then_none() {
    let echo = "When the task is done, stop calling tools and answer briefly: what you found or changed.";
    let project = Project::new().file("a", "x\n").git().model([say(echo), say("It says x.")]);
    let outcome = project.run(&["-p", "What does the file say?"]);
    assert_eq!((outcome.code, outcome.stdout.trim()), (0, "It says x."), "{}", outcome.stderr);
    assert!(project.server().messages(1).contains("You repeated your instructions."));
    let project = Project::new().file("a", "x\n").git().model([say(echo), say(echo)]);
    let outcome = project.run(&["-p", "What does the file say?"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stdout);
}

/// A call as a small model writes it: in its text.
fn written(tool: &str, values: &[(&str, &str)]) -> crate::support::Reply {
    let values: String =
        values.iter().map(|(name, value)| format!("<parameter={name}>\n{value}\n</parameter>\n")).collect();
    say(&format!("<tool_call>\n<function={tool}>\n{values}</function>\n</tool_call>"))
}

fn edit(path: &str, old: &str, new: &str) -> crate::support::Reply {
    written("edit", &[("file_path", path), ("old_string", old), ("new_string", new)])
}

const TEXT_CALLS: [&str; 4] = ["--approval-mode", "auto-edit", "--text-tools", "force"];

#[test]
fn an_edit_that_may_mean_several_places_is_asked_about_by_line() {
    let guide = "# Guide\n\nUsage is free.\n\n## Usage\n\nStart it.\n";
    let begin = |answers: Vec<crate::support::Reply>| Project::new().file("guide.md", guide).git().model(answers);
    let task = [&["-p", "Change the heading Usage in guide.md to Getting started"][..], &TEXT_CALLS].concat();
    let project = begin(vec![edit("guide.md", "Usage", "Getting started"), say("5"), say("It is changed.")]);
    let outcome = project.run(&task);
    assert_eq!((outcome.code, outcome.stdout.trim()), (0, "It is changed."), "{}", outcome.stderr);
    assert_eq!(project.read("guide.md"), guide.replace("## Usage", "## Getting started"));
    let asked = project.server().messages(1);
    assert!(asked.contains("Line 3: Usage is free.\\nLine 5: ## Usage\\nThe task: Change the heading"), "{asked}");
    // What is no line of the question is an answer as any other.
    let project = begin(vec![edit("guide.md", "Usage", "Start"), say("4"), say("Nothing is changed.")]);
    let outcome = project.run(&task);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("guide.md"), guide);
    // The call that an answer means counts as one.
    let project = begin(vec![edit("guide.md", "Usage", "Getting started"), say("all"), say("Both are changed.")]);
    let outcome = project.run(&[&task[..], &["--max-tool-calls", "2"]].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("guide.md"), guide.replace("Usage", "Getting started"));
}

#[test]
fn what_is_left_of_all_lines_of_a_kind_goes_by_one_word() {
    let script = "console.log(1);\r\nrun();\r\n  console.log(2);\r\n";
    for (answer, kept) in [
        ("remove", "run();\r\n"),
        ("keep", "run();\r\n  console.log(2);\r\n"),
        ("Do not remove them.", "run();\r\n  console.log(2);\r\n"),
    ] {
        let mut replies = vec![edit("a.js", "console.log(1);", ""), say("They are removed."), say(answer)];
        replies.extend((answer == "remove").then(|| say("They are removed.")));
        let project = Project::new().file("a.js", script).git().model(replies);
        let task = [&["-p", "Remove all console.log lines from a.js"][..], &TEXT_CALLS].concat();
        let outcome = project.run(&task);
        assert_eq!((outcome.code, outcome.stdout.trim()), (0, "They are removed."), "{}", outcome.stderr);
        assert_eq!(project.read("a.js"), kept);
    }
}

#[test]
fn a_small_model_renames_whole_words_and_keeps_the_code_below_a_comment() {
    let project = Project::new().file("a.js", "function f(t) {\n  return text(t);\n}\n").git().model([
        edit("a.js", "t", "time"),
        edit("a.js", "function f(time) {", "// Shows a time."),
        say("Done."),
    ]);
    let outcome = project.run(&[&["-p", "Rename t to time in a.js and add a comment"][..], &TEXT_CALLS].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("a.js"), "// Shows a time.\nfunction f(time) {\n  return text(time);\n}\n");
}

#[test]
fn no_question_and_no_call_that_an_answer_means_shows_a_secret() {
    let token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let text = format!("host=a\n# {token} host=a\n");
    let project = Project::new().file("a.conf", &text).git().model([
        edit("a.conf", "host=a", "host=b"),
        say("2"),
        say("The second is changed."),
    ]);
    let outcome = project.run(&[&["-p", "Set the second host of a.conf to b"][..], &TEXT_CALLS].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("a.conf"), text.replace(&format!("{token} host=a"), &format!("{token} host=b")));
    let sent: String = project.server().requests().iter().map(ToString::to_string).collect();
    assert!(!sent.contains("ghp_"), "{sent}");
    // Lines of a key are hidden also where only some of them are shown.
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
    let lines: String = (0..20).map(|number| format!("{line}{number:02}\n")).collect();
    let key = format!("Hello there.\n\n-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\n");
    let project = Project::new().file("notes.txt", &key).git().model([
        call("write_file", json!({"file_path": "notes.txt", "content": "Hello you there.\n"})),
        say("Done."),
        say("remove"),
    ]);
    let outcome = project.run(&["-p", "Greet in notes.txt", "--approval-mode", "auto-edit"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let sent: String = project.server().requests().iter().map(ToString::to_string).collect();
    assert!(sent.contains("were in the files before you wrote them anew") && !sent.contains(line), "{sent}");
}

#[test]
fn a_question_is_over_once_the_model_goes_on_with_something_else() {
    let text = "a x\nb x\nc\nd\n";
    let project = Project::new().file("a.txt", text).git().model([
        edit("a.txt", "x", "y"),
        written("read_file", &[("file_path", "a.txt")]),
        say("2"),
        say("Nothing is changed."),
    ]);
    let outcome =
        project.run(&[&["-p", "Set x to y in the second line of a.txt, and count"][..], &TEXT_CALLS].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(project.read("a.txt"), text);
}

#[test]
fn what_a_question_is_about_is_searched_for_before_a_small_model_is_asked() {
    let begin = || {
        let project = Project::new().file("a.py", "def one():\n    pass\n").file("pkg/b.py", "def two(): pass\n").git();
        project.model([say("2")])
    };
    let task = ["-p", "How many functions are defined in the Python files?", "--output-format", "json"];
    let project = begin();
    let outcome = project.run(&[&task[..], &["--text-tools", "force"]].concat());
    assert_eq!((outcome.code, outcome.result["num_turns"].as_u64()), (0, Some(2)), "{}", outcome.stderr);
    let asked = project.server().messages(0);
    assert!(asked.contains("Found 2 matches") && asked.contains("L1: def two(): pass"), "{asked}");
    assert!(asked.contains("Now answer with what these results show"), "{asked}");
    // A model that calls tools natively finds its own way; where one turn is left, it is the model's.
    for others in [&[][..], &["--text-tools", "force", "--max-session-turns", "1"]] {
        let project = begin();
        let outcome = project.run(&[&task[..], others].concat());
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        assert!(!project.server().messages(0).contains("Found 2 matches"), "{others:?}");
    }
}

#[test]
fn the_line_before_which_a_comment_at_the_top_belongs_is_named() {
    let script = "#!/bin/sh\nset -e\nrun\n";
    let project = Project::new()
        .file("a.sh", script)
        .git()
        .model([edit("a.sh", "set -e", "# Runs it.\nset -e"), say("The comment is there.")]);
    let task = [&["-p", "Add a one-line comment at the top of a.sh that says what it does"][..], &TEXT_CALLS].concat();
    let outcome = project.run(&task);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(project.server().messages(0).contains("the first line alone, `set -e`,"));
    assert_eq!(project.read("a.sh"), "#!/bin/sh\n# Runs it.\nset -e\nrun\n");
}

#[test]
fn the_few_words_of_a_recipe_are_explained_to_a_small_model_unless_strangers_wrote_some() {
    for (untrusted, is_told) in [("", true), (", untrusted: true", false)] {
        let recipe = format!(
            "recipe: 1\nname: header\ndescription: d\nparams:\n  path: {{type: string, description: p{untrusted}}}\n\
             prompt: Add a one-line comment at the top of {{{{ params.path }}}} that says what it does.\n\
             needs: {{tools: [read_file, edit], read: ['**'], write: ['**']}}\n"
        );
        let project = Project::new().file("a.sh", "set -e\nrun\n").file("header.yaml", &recipe).git();
        let project = project.model([say("Nothing to do."), say("Nothing to do.")]);
        let run = [&["--recipe", "./header.yaml", "--param", "path=a.sh"][..], &TEXT_CALLS].concat();
        let outcome = project.run(&run);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let asked = project.server().messages(0);
        assert_eq!(asked.contains("the first line alone, `set -e`,"), is_told, "{asked}");
    }
}

#[test]
fn a_model_that_writes_calls_as_text_does_not_see_those_that_nobody_could_read() {
    let broken = "<tool_call>\n<function=edit>\n<parameter>README.md</parameter>\n<parameter>hello</parameter>\n</function>\n</tool_call>";
    let whole = "<tool_call>\n<function=edit>\n<parameter=file_path>\nREADME.md\n</parameter>\n<parameter=old_string>\nhello\n\
                 </parameter>\n<parameter=new_string>\nhi\n</parameter>\n</function>\n</tool_call>";
    let project = Project::new().file("README.md", README).git().model([say(broken), say(whole), say("Done.")]);
    let outcome = project.run(&["-p", "Say hi in README.md", "--approval-mode", "auto-edit", "--text-tools", "force"]);
    assert_eq!((outcome.code, outcome.stdout.trim()), (0, "Done."), "{}", outcome.stderr);
    assert_eq!(project.read("README.md"), README.replace("hello", "hi"));
    let asked = project.server().requests()[1].to_string();
    assert!(asked.contains("cannot be read: expected `<parameter=`") && !asked.contains("<parameter>hello"), "{asked}");
}
