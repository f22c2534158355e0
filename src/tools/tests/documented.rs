//! Tests the documented messages byte for byte, as scripts and models rely on them.

use serde_json::json;

use super::*;

/// A call and what it says, with the workspace as `/p`.
type Row = (&'static str, Value, &'static str);

#[test]
fn each_documented_message_is_said_byte_for_byte() {
    let lines: String = (1..=500).map(|n| format!("{n}\n")).collect();
    let project = Project::new(&[
        ("dir/sub/x", b""),
        ("dir/file1.txt", b""),
        ("dir/a.o", b""),
        ("dir/b.o", b""),
        ("dir/q.secret", b""),
        (".gitignore", b"*.o\n"),
        (".qwenignore", b"*.secret\n"),
        ("empty/", b""),
        ("lines", lines.as_bytes()),
        ("bin", b"\0\x01"),
        ("twice", b"x = 1\ny = 2\nx = 1\n"),
        ("src/utils.ts", b"function f() {}\nfunction g() {}\n"),
        ("src/z.ts", b"function h() {}\n"),
    ]);
    let hundred = lines.lines().take(100).map(|line| format!("{line}\n")).collect::<String>();
    let partial = format!(
        "[File content truncated: showing lines 1-100 of 500 total lines... To read on, use offset: 100.]\n{hundred}"
    );
    assert_eq!(project.says("read_file", json!({"file_path": "lines", "limit": 100})), partial);
    let rows: Vec<Row> = vec![
        (
            "list_directory",
            json!({"path": "dir"}),
            "Directory listing for /p/dir:\n[DIR] sub\nfile1.txt\n\n(2 git-ignored, 1 qwen-ignored)",
        ),
        ("list_directory", json!({"path": "empty"}), "Directory /p/empty is empty."),
        ("read_file", json!({"file_path": "none"}), "File not found: /p/none"),
        ("read_file", json!({"file_path": "dir"}), "Path is a directory, not a file: /p/dir"),
        (
            "read_file",
            json!({"file_path": "dir/q.secret"}),
            "File path '/p/dir/q.secret' is ignored by .qwenignore pattern(s).",
        ),
        ("read_file", json!({"file_path": "bin"}), "Cannot display content of binary file: /p/bin"),
        (
            "read_file",
            json!({"file_path": "lines", "offset": 500}),
            "offset 500 is past the end: the file has 500 lines",
        ),
        (
            "write_file",
            json!({"file_path": "new/a", "content": "x\n"}),
            "Successfully created and wrote to new file: /p/new/a",
        ),
        ("write_file", json!({"file_path": "new/a", "content": "y\nx\n"}), "Successfully overwrote file: /p/new/a"),
        (
            "edit",
            json!({"file_path": "made", "old_string": "", "new_string": "x\n"}),
            "Created new file: /p/made with provided content.",
        ),
        (
            "edit",
            json!({"file_path": "made", "old_string": "", "new_string": "x"}),
            "File already exists, cannot create: /p/made. Give the text to replace as old_string, or use write_file to \
             replace the whole file.",
        ),
        (
            "edit",
            json!({"file_path": "none", "old_string": "a", "new_string": "b"}),
            "File not found: /p/none. Cannot apply edit. Use an empty old_string to create a new file.",
        ),
        (
            "edit",
            json!({"file_path": "twice", "old_string": "x", "new_string": "x"}),
            "No changes to apply. The old_string and new_string are identical in file: /p/twice",
        ),
        (
            "edit",
            json!({"file_path": "twice", "old_string": "x = 1", "new_string": "x = 3"}),
            "Failed to edit, expected 1 occurrences but found 2 (lines 1, 3) for old_string in file: /p/twice. No edits \
             made. Include more of the lines around it in old_string, or set expected_replacements or replace_all.",
        ),
        (
            "edit",
            json!({"file_path": "twice", "old_string": "zzz", "new_string": "x"}),
            "Failed to edit, 0 occurrences found for old_string in /p/twice. No edits made. Nothing in the file is like \
             it. This is the whole file, copy old_string from it:\nx = 1\ny = 2\nx = 1\n",
        ),
        (
            "edit",
            json!({"file_path": "twice", "old_string": "y = 2", "new_string": "y = 3"}),
            "Successfully modified file: /p/twice (1 replacements).\nLines 1-3 are now:\nx = 1\ny = 3\nx = 1",
        ),
        ("glob", json!({"pattern": "*.X"}), "No files found matching pattern \"*.X\" within ."),
        (
            "glob",
            json!({"pattern": "z.*", "path": "src"}),
            "Found 1 file(s) matching \"z.*\" within src, sorted by modification time (newest first):\n/p/src/z.ts",
        ),
        (
            "search_file_content",
            json!({"pattern": "function [fgh]", "include": "*.ts"}),
            "Found 3 matches for pattern \"function [fgh]\" in path \".\" (filter: \"*.ts\"):\n---\nFile: src/utils.ts\n\
             L1: function f() {}\nL2: function g() {}\n---\nFile: src/z.ts\nL1: function h() {}\n---",
        ),
        (
            "search_file_content",
            json!({"pattern": "function", "maxResults": 1}),
            "Found 1 match for pattern \"function\" in path \".\":\n---\nFile: src/utils.ts\nL1: function f() {}\n---\n\
             WARNING: Results truncated to prevent context overflow. To see more results:\n- Use a more specific pattern \
             to reduce matches\n- Add file filters with the 'include' parameter (e.g., \"*.js\", \"src/**\")\n- Specify \
             a narrower 'path' to search in a subdirectory\n- Increase 'maxResults' parameter if you need more matches \
             (current: 1)",
        ),
        (
            "read_many_files",
            json!({"paths": ["src/z.ts"]}),
            "--- /p/src/z.ts ---\n\nfunction h() {}\n\n\n--- End of content ---",
        ),
        (
            "save_memory",
            json!({"fact": "We use tabs."}),
            "Okay, I've remembered that in project memory: \"We use tabs.\"",
        ),
        (
            "todo_write",
            json!({"todos": []}),
            "Todos have been modified successfully. Go on with the next one, and keep the list up to date.",
        ),
        ("write_file", json!({"file_path": "a"}), "params must have required property 'content'"),
    ];
    let mut wrong = Vec::new();
    for (tool, arguments, expected) in rows {
        let said = project.says(tool, arguments.clone());
        // What helps with wrong arguments is on further lines.
        let said =
            if expected.starts_with("params ") { said.lines().next().unwrap_or_default().to_owned() } else { said };
        if said != expected {
            wrong.push(format!("{tool} {arguments}\n  says  {said:?}\n  wants {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(project.staged("QWEN.md").unwrap(), b"## Qwen Added Memories\n- We use tabs.\n");
}

#[test]
fn a_tool_that_is_none_is_answered_with_the_nearest() {
    let project = Project::new(&[]);
    assert_eq!(
        project.says("read_fil", json!({})),
        "Tool \"read_fil\" not found in registry. Tools must use the exact names that are registered. Did you mean one \
         of: \"read_file\", \"edit\", \"write_file\"?"
    );
}

#[test]
fn each_tool_takes_the_names_that_models_know_its_parameters_by() {
    let project = Project::new(&[("a b", b"one\n")]);
    for (tool, arguments, expected) in [
        ("ReadFile", json!({"absolute_path": project.workspace.root().join("a b")}), "one\n"),
        ("read-file", json!({"path": "a b"}), "one\n"),
        ("cat", json!({"filename": "./a b"}), "one\n"),
        ("LS", json!({"dir_path": "."}), "Directory listing for /p:\na b"),
        ("grep_search", json!({"query": "ONE", "directory": "."}), "File: a b"),
        ("Grep", json!({"regex": "one", "file": "a b", "limit": "1"}), "L1: one"),
        ("find_files", json!({"pattern": "*", "dir": "."}), "/p/a b"),
        ("replace", json!({"path": "a b", "oldString": "one", "newString": "two"}), "(1 replacements)"),
        ("WriteFile", json!({"path": "a b", "text": "three\n"}), "Successfully overwrote file: /p/a b"),
        ("ReadManyFiles", json!({"path": "a b"}), "three"),
    ] {
        let said = project.says(tool, arguments.clone());
        assert!(said.contains(expected), "{tool} {arguments}: {said}");
    }
}
