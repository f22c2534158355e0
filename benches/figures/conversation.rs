//! Defines the conversations that the benchmarks play, using the names of each program's own tools.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::server::Turn;

/// How a program calls what the conversation does.
pub(crate) struct Words {
    pub(crate) list: fn(&str) -> (String, Value),
    pub(crate) search: fn(&str, &str) -> (String, Value),
    pub(crate) read: fn(&str, &str) -> (String, Value),
    pub(crate) edit: fn(&str, &str, &str, &str) -> (String, Value),
    pub(crate) command: fn(&str, &str) -> (String, Value),
}

/// This program's words.
pub(crate) const OWN: Words = Words {
    list: |_| ("list_directory".into(), json!({"path": "."})),
    search: |_, pattern| ("search_file_content".into(), json!({"pattern": pattern})),
    read: |_, path| ("read_file".into(), json!({"file_path": path})),
    edit: |_, path, old, new| ("edit".into(), json!({"file_path": path, "old_string": old, "new_string": new})),
    command: |_, command| ("run_shell_command".into(), json!({"command": command})),
};

/// How many files the edit touches.
const FILES: usize = 8;

fn file(number: usize) -> String {
    format!("src/part_{number}.py")
}

/// Makes the project that the edit works on, a git repository of one commit.
pub(crate) fn project(root: &Path) -> std::io::Result<()> {
    fs::create_dir_all(root.join("src"))?;
    for number in 0..FILES {
        let mut text = format!("\"\"\"Part {number}.\"\"\"\n\n");
        for function in 0..20 {
            text.push_str(&format!("def helper_{function}(value):\n    return value + {function}\n\n\n"));
        }
        text.push_str(&format!("def old_name_{number}(value):\n    return helper_1(value)\n"));
        fs::write(root.join(file(number)), text)?;
    }
    for arguments in [
        &["init", "-q", "-b", "main"][..],
        &["add", "."],
        &["-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-qm", "begin"],
    ] {
        let done = std::process::Command::new("git").args(arguments).current_dir(root).status()?;
        assert!(done.success(), "git {arguments:?}");
    }
    Ok(())
}

/// One answer without a tool.
pub(crate) fn one_answer() -> Vec<Turn> {
    vec![Turn { text: "Hello.".into(), calls: Vec::new() }]
}

/// List and search in one turn, read and edit eight files, run one command, answer: 19 requests.
pub(crate) fn edit(words: &Words, root: &str) -> Vec<Turn> {
    let turn = |calls| Turn { text: String::new(), calls };
    let mut turns = vec![turn(vec![(words.list)(root), (words.search)(root, "old_name_")])];
    for number in 0..FILES {
        turns.push(turn(vec![(words.read)(root, &file(number))]));
    }
    for number in 0..FILES {
        let (old, new) = (format!("def old_name_{number}("), format!("def new_name_{number}("));
        turns.push(turn(vec![(words.edit)(root, &file(number), &old, &new)]));
    }
    turns.push(turn(vec![(words.command)(root, "ls src")]));
    turns.push(Turn { text: "Renamed in eight files.".into(), calls: Vec::new() });
    turns
}

/// 200 turns that each read 5 KB of another part of one file: 1 MB of results.
pub(crate) fn long() -> Vec<Turn> {
    let read = |number: usize| {
        let arguments = json!({"file_path": "long.txt", "offset": number * 50, "limit": 50});
        Turn { text: String::new(), calls: vec![("read_file".into(), arguments)] }
    };
    let mut turns: Vec<Turn> = (0..199).map(read).collect();
    turns.push(Turn { text: "Read.".into(), calls: Vec::new() });
    turns
}
