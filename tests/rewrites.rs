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
    ]);
    let outcome = project.run(&["-p", "Say hi instead of hello in README.md", "--approval-mode", "auto-edit"]);
    assert_eq!((outcome.code, outcome.stdout.trim()), (0, "It says hi now."), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("lines that a rewrite had lost were put back in README.md"), "{}", outcome.stderr);
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
