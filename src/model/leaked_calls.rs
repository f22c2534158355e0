//! Finds calls that a model wrote into its text.
//!
//! Text counts as a call only if it cannot mean anything else: the tool is on offer, its arguments fit, the block is
//! closed, and it is not an example in a fence or a quotation. What looks like a call and cannot be read is reported to
//! the model by [`super::unread_call`], and is never taken for the answer.

use super::Arguments;
use super::blocks::{Block, Candidate, Outcome, blocks, shape_of};
use super::slots::{MOST_CALLS, Unnumbered};
use super::tool_set::ToolSet;

/// Whether calls are looked for in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextTools {
    /// Never.
    Off,
    /// Where the text cannot mean anything else.
    #[default]
    Auto,
    /// The tools are in the prompt: fenced blocks that end the message count too.
    Prompted,
}

/// What the text came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    /// What remains of it.
    pub(super) text: String,
    /// The calls, in order.
    pub(super) calls: Vec<Unnumbered>,
}

/// Tells whether a message without native calls has one in its text that an offered tool takes: then it is to be read
/// again as [`TextTools::Prompted`].
pub(super) fn has_call(text: &str, tools: &ToolSet) -> bool {
    read(text, tools, TextTools::Prompted, false)
        .is_some_and(|found| found.calls.iter().any(|call| fits(&call.name, &call.arguments, tools)))
}

/// Tells whether a tool on offer takes the arguments.
fn fits(name: &str, arguments: &Arguments, tools: &ToolSet) -> bool {
    match arguments {
        Arguments::Object(arguments) => tools.exact(name).is_some() && tools.check(name, arguments.clone()).is_ok(),
        Arguments::Incomplete { .. } | Arguments::Invalid { .. } => false,
    }
}

/// Tells whether a text is nothing but stray tags of the models' own protocols.
pub(super) fn is_only_tags(text: &str) -> bool {
    let mut rest = text.trim();
    const TAGS: [&str; 9] = [
        "</tool_call>",
        "<tool_call>",
        "</function>",
        "</parameter>",
        "</think>",
        "<think>",
        "</tools>",
        "<|im_end|>",
        "<|im_start|>",
    ];
    while let Some(after) = TAGS.iter().find_map(|tag| rest.strip_prefix(tag)) {
        rest = after.trim_start();
    }
    rest.is_empty()
}

/// Spaces that may be before a message that is nothing but a call.
const MAX_BLANKS: usize = 4096;

/// Looks on for the beginning of a call; returns how far the text is certain, and where a call may begin.
pub(super) fn look(text: &str, from: usize, mode: TextTools) -> (usize, Option<usize>) {
    // Spaces before the text are few, or they are no beginning of anything.
    let start = text.bytes().take(MAX_BLANKS).take_while(u8::is_ascii_whitespace).count();
    if from <= start && start < MAX_BLANKS {
        let head = &text[start..];
        if head.is_empty() {
            return (0, None);
        }
        let may_begin = ["```", "functions."].iter().any(|opener| opener.starts_with(head) || head.starts_with(opener));
        if head.starts_with(['{', '[']) || head.starts_with("```") || head.starts_with("functions.") {
            return (start, Some(start));
        }
        if may_begin {
            return (0, None);
        }
    }
    let mut at = from;
    let openers: &[&str] = match mode {
        TextTools::Prompted => {
            &["<tool_call>", "</tool_call>", "<function=", "<function name", "<tools>", "```", "\n{", "\n["]
        }
        TextTools::Off | TextTools::Auto => &["<tool_call>", "</tool_call>", "<function=", "<function name", "<tools>"],
    };
    while let Some(offset) = text[at..].find(['<', '`', '\n']) {
        let place = at + offset;
        let rest = &text[place..];
        if openers.iter().any(|opener| rest.starts_with(opener)) {
            return (place, Some(place));
        }
        if openers.iter().any(|opener| opener.starts_with(rest)) {
            return (place, None);
        }
        at = place + 1;
    }
    (text.len(), None)
}

/// Reads the calls of a message that has no native ones.
pub(super) fn read(text: &str, tools: &ToolSet, mode: TextTools, was_cut: bool) -> Option<Found> {
    if mode == TextTools::Off || tools.specs().is_empty() {
        return None;
    }
    let prompted = mode == TextTools::Prompted;
    let blocks = blocks(text, tools, prompted);
    let trust = Trust::in_message(&blocks, tools, prompted);
    let mut found = Found { text: String::new(), calls: Vec::new() };
    let mut kept = 0;
    for block in blocks {
        let is_last = text[block.end..].trim().is_empty();
        let calls = match block.outcome {
            Outcome::Calls(calls) => {
                let mut taken: Vec<Unnumbered> =
                    calls.into_iter().filter_map(|call| accept(call, tools, trust)).collect();
                let is_closed = !block.is_tagged || ends_closed(&text[block.start..block.end]);
                if was_cut
                    && is_last
                    && !is_closed
                    && let Some(last) = taken.last_mut()
                {
                    // More arguments may have been on their way.
                    last.arguments = Arguments::Incomplete { raw: text[block.start..].to_owned() };
                }
                (!taken.is_empty()).then_some(taken)
            }
            Outcome::Cut { name: Some(name) } if was_cut && is_last => {
                let raw = text[block.start..].to_owned();
                let shape = shape_of(&raw);
                Some(vec![unnumbered(name, Arguments::Incomplete { raw }, shape)])
            }
            broken @ (Outcome::Cut { .. } | Outcome::Bad { .. }) => {
                let is_named = matches!(&broken, Outcome::Cut { name: Some(_) } | Outcome::Bad { name: Some(_), .. });
                let is_told = trust == Trust::Beside || (prompted && is_named);
                is_told
                    .then(|| Candidate::broken(broken, &text[block.start..block.end]))
                    .map(|call| vec![unnumbered(call.name, call.arguments, call.shape)])
            }
        };
        let Some(calls) = calls else { continue };
        push_between(&mut found, &text[kept..block.start]);
        kept = block.end;
        found.calls.extend(calls);
        if found.calls.len() >= MOST_CALLS {
            found.calls.truncate(MOST_CALLS);
            break;
        }
    }
    if found.calls.is_empty() {
        return None;
    }
    if prompted {
        // Small models write the same call twice; the second one would change what the first one made.
        found.calls.dedup_by(|call, before| call.name == before.name && call.arguments == before.arguments);
    }
    push_between(&mut found, &text[kept..]);
    Some(found)
}

/// Tells whether a block in tags has its end.
fn ends_closed(block: &str) -> bool {
    let block = block.trim_end().trim_end_matches('`').trim_end();
    ["</tool_call>", "</function>", "</tools>"].iter().any(|tag| block.ends_with(tag))
}

/// Keeps text around calls, and drops spaces before the first.
fn push_between(found: &mut Found, text: &str) {
    if found.calls.is_empty() || !text.trim().is_empty() {
        found.text.push_str(text);
    }
}

/// Reads the calls of a turn that is nothing but reasoning: only in tags, and only at its end.
pub(super) fn read_reasoning(text: &str, tools: &ToolSet) -> Option<Found> {
    let trimmed = text.trim_end();
    let first = blocks(trimmed, tools, false).first().filter(|block| block.is_tagged).map(|block| block.start)?;
    let found = read(&trimmed[first..], tools, TextTools::Auto, false)?;
    found.text.trim().is_empty().then(|| Found { text: trimmed[..first].to_owned(), calls: found.calls })
}

fn unnumbered(name: String, arguments: Arguments, shape: &'static str) -> Unnumbered {
    Unnumbered { id: None, name, arguments, recovered: Some(shape), notes: Vec::new(), has_arguments: true }
}

/// What is known of the message in which a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Nothing: only what is certain is a call.
    None,
    /// The tools are in the prompt.
    Prompted,
    /// Another call in it is certain.
    Beside,
}

impl Trust {
    fn in_message(blocks: &[Block], tools: &ToolSet, prompted: bool) -> Trust {
        // Next to a call that is certain, what is broken is a call as well, and is answered with what is wrong with it.
        let is_beside =
            blocks.len() > 1 || matches!(blocks, [Block { outcome: Outcome::Calls(calls), .. }] if calls.len() > 1);
        let is_good = |block: &Block| match &block.outcome {
            Outcome::Calls(calls) => calls.iter().any(|call| fits(&call.name, &call.arguments, tools)),
            Outcome::Cut { .. } | Outcome::Bad { .. } => false,
        };
        match (is_beside && blocks.iter().any(is_good), prompted) {
            (true, _) => Trust::Beside,
            (false, true) => Trust::Prompted,
            (false, false) => Trust::None,
        }
    }
}

/// Takes a call that is certain, its arguments as the tool wants them, or one that is answered with what is wrong.
fn accept(call: Candidate, tools: &ToolSet, trust: Trust) -> Option<Unnumbered> {
    let known = tools.exact(&call.name).map(|spec| spec.name.clone());
    let is_told = match (trust, &known) {
        (Trust::None, _) => false,
        (Trust::Beside, _) | (Trust::Prompted, Some(_)) => true,
        // An object that names no tool on offer is an answer.
        (Trust::Prompted, None) => {
            call.is_plain && call.shape != "json" && matches!(call.arguments, Arguments::Object(_))
        }
    };
    let (Some(name), Arguments::Object(arguments)) = (&known, &call.arguments) else {
        return is_told.then(|| unnumbered(known.unwrap_or(call.name), call.arguments, call.shape));
    };
    match tools.check(name, arguments.clone()) {
        Ok(fitted) => Some(Unnumbered {
            notes: fitted.notes,
            ..unnumbered(name.clone(), Arguments::Object(fitted.arguments), call.shape)
        }),
        Err(_) => is_told.then(|| unnumbered(name.clone(), call.arguments, call.shape)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use serde_json::{Value, json};

    use super::super::ToolSpec;
    use super::super::stream_cases::tools;
    use super::super::unread_call::broken_call;
    use super::*;

    const CALL: &str = "```json\n{\"name\":\"read_file\",\"arguments\":{\"file_path\":\"a.rs\"}}\n```";

    #[test]
    fn r26_a_fence_that_ends_a_native_message_is_read_again() {
        let tools = tools();
        assert!(read(&format!("I look.\n{CALL}"), &tools, TextTools::Auto, false).is_none());
        assert!(has_call(&format!("I look.\n{CALL}"), &tools));
        for text in [
            format!("I look.\n{CALL}\nand then more"),
            "I look.".to_owned(),
            "So:\n```json\n{\"name\":\"fly\",\"arguments\":{}}\n```".to_owned(),
            "So:\n```json\n{\"name\":\"read_file\",\"arguments\":{}}\n```".to_owned(),
            "So:\n```python\nprint(1)\n```".to_owned(),
        ] {
            assert!(!has_call(&text, &tools), "{text}");
        }
    }

    #[test]
    fn r27_values_survive_byte_for_byte() {
        let values = [
            "a && b < c > d &amp; e",
            "x </parameter> y",
            "<parameter=x>\n<parameter=file_path>",
            "</function>",
            "// </function> and </tool_call>",
            "a </parameter> <parameter=nope> z",
            "<parameter=nope>\nz",
            "<function=list>\n<parameter=a>\nb\n</parameter>\n<parameter=c>\nd\n</parameter>\n</function>\n</tool_call>\nend",
            "\n\n  two blank lines before and after\n\n",
            "```\nfence\n```",
            "",
        ];
        for value in values {
            let text = format!(
                "<tool_call>\n<function=write_file>\n<parameter=file_path>\na.rs\n</parameter>\n<parameter=content>\n{value}\n</parameter>\n</function>\n</tool_call>"
            );
            let found = read(&text, &tools(), TextTools::Auto, false).unwrap();
            let Arguments::Object(arguments) = &found.calls[0].arguments else { panic!("{value}") };
            assert_eq!(arguments["content"], value);
            assert_eq!(found.calls.len(), 1);
        }
    }

    #[test]
    fn r28_no_part_of_a_tag_goes_out() {
        for (text, out) in [
            ("hello <tool_", 6),
            ("hello <tool_call>", 6),
            ("hello <func", 6),
            ("hello <b>", 9),
            ("{\"name\"", 0),
            ("``", 0),
            ("a ` b", 5),
        ] {
            let (looked, found) = look(text, 0, TextTools::Auto);
            assert_eq!(found.unwrap_or(looked), out, "{text}");
        }
    }

    #[test]
    fn r20_a_leaked_call_without_its_end_is_incomplete_at_the_output_limit() {
        let text = "<tool_call>\n<function=read_file>\n<parameter=file_path>\na.rs\n</parameter>\n";
        let found = read(text, &tools(), TextTools::Auto, true).unwrap();
        assert!(matches!(found.calls[0].arguments, Arguments::Incomplete { .. }));
        let found = read(text, &tools(), TextTools::Auto, false).unwrap();
        assert!(matches!(found.calls[0].arguments, Arguments::Object(_)));
    }

    #[test]
    fn fences_inside_a_fenced_value_do_not_end_it() {
        let write = |path: &str| {
            format!(
                "<tool_call>\n<function=write_file>\n<parameter=file_path>\n{path}\n</parameter>\n<parameter=content>\n# A\n```\ncode\n```\nend\n</parameter>\n</function>\n</tool_call>"
            )
        };
        let text = format!("I write.\n```xml\n{}\n```\n```xml\n{}\n```", write("a.md"), write("b.md"));
        let found = read(&text, &tools(), TextTools::Prompted, false).unwrap();
        assert_eq!((found.text.as_str(), found.calls.len()), ("I write.\n", 2));
        let Arguments::Object(arguments) = &found.calls[1].arguments else { panic!() };
        assert_eq!(arguments["content"], "# A\n```\ncode\n```\nend");
    }

    #[test]
    fn a_call_with_words_after_it_is_asked_for_again() {
        let message = broken_call(&format!("{CALL}\nThis reads it."), &tools(), false).unwrap();
        assert!(message.contains("has to end the message"), "{message}");
    }

    #[test]
    fn r20_a_call_cut_in_its_fence_is_an_error_with_blanks_behind_it_too() {
        for end in ["", "\n", " \n\n"] {
            let text = format!("So:\n```xml\n<tool_call>\n<function=read_file>{end}");
            let found = read(&text, &tools(), TextTools::Prompted, false).unwrap();
            assert!(matches!(found.calls.as_slice(), [call] if matches!(call.arguments, Arguments::Invalid { .. })));
            assert!(broken_call(&text, &tools(), false).is_some());
        }
    }

    #[test]
    fn what_a_prompted_model_calls_twice_in_a_row_is_one_call() {
        let call =
            |name: &str| format!("<function=read_file>\n<parameter=file_path>\n{name}\n</parameter>\n</function>\n");
        let text = [call("a"), call("a"), call("b"), call("a")].concat();
        let count = |mode| super::read(&text, &tools(), mode, false).unwrap().calls.len();
        assert_eq!((count(TextTools::Prompted), count(TextTools::Auto)), (3, 4));
    }

    #[test]
    fn a_second_value_without_a_name_is_where_to_look() {
        let spec = |name: &str, required: Value| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: json!({"type": "object", "required": required, "properties": {
                "pattern": {"type": "string"}, "path": {"type": "string"}, "include": {"type": "string"}
            }}),
        };
        let text = "<function=search>\n<parameter>open</parameter>\n<parameter>a.csv</parameter>\n</function>";
        let read = |required: Value| {
            let tools = ToolSet::new([spec("search", required)].into());
            super::read(text, &tools, TextTools::Prompted, false).unwrap().calls.remove(0).arguments
        };
        let expected = json!({"pattern": "open", "path": "a.csv"});
        assert_eq!(read(json!(["pattern"])), Arguments::Object(expected.as_object().unwrap().clone()));
        // Which of two required values is which, is not guessed.
        assert!(matches!(read(json!(["pattern", "include"])), Arguments::Invalid { .. }));
        // A value may stand where its name should.
        let tools = ToolSet::new([spec("search", json!(["pattern"]))].into());
        for value in ["<parameter=open</parameter>", "<parameter=\"open\"/>"] {
            let text = format!("<function=search>\n{value}\n</function>");
            let call = super::read(&text, &tools, TextTools::Prompted, false).unwrap().calls.remove(0);
            assert_eq!(call.arguments, Arguments::Object(json!({"pattern": "open"}).as_object().unwrap().clone()));
        }
        // Each value may have its name before it, in a tag of its own.
        let text = "<function=search>\n<parameter>include</parameter>\n<parameter>*.csv</parameter>\n\
                    <parameter>pattern</parameter>\n<parameter>open</parameter>\n</function>";
        let behind = "<function=search>\n<parameter>pattern>\nopen\n</parameter>\n<parameter>include</parameter>\n\
                      <value>*.csv</value>\n</function>";
        let bare = "<function=search>\n<parameter=pattern>\nopen\n</parameter>\n<parameter>include</parameter>\n\
                    *.csv\n</function>";
        let lines = "<function=search>\n<parameter>pattern</parameter>\nopen\n<parameter>include</parameter>\n*.csv\n\
                     </function>";
        let tools = ToolSet::new([spec("search", json!(["pattern", "include"]))].into());
        let expected = json!({"pattern": "open", "include": "*.csv"});
        for text in [text, behind, bare, lines] {
            let call = super::read(text, &tools, TextTools::Prompted, false).unwrap().calls.remove(0);
            assert_eq!(call.arguments, Arguments::Object(expected.as_object().unwrap().clone()), "{text}");
        }
    }

    #[test]
    fn an_unclosed_block_of_a_prompted_model_is_an_error() {
        let text =
            "I write.\n```json\n{\"name\":\"write_file\",\"arguments\":{\"file_path\":\"a\",\"content\":\"x}}\n```";
        let found = read(text, &tools(), TextTools::Prompted, false).unwrap();
        assert!(matches!(&found.calls[0].arguments, Arguments::Invalid { .. }));
    }

    #[test]
    fn beside_a_broken_call_the_good_ones_are_taken_and_the_broken_one_is_told() {
        let text = format!(
            "```json\n{{\"name\":\"write_file\",\"arguments\":{{\"file_path\":\"a\",\"content\":\"say \"x\"\"}}}}\n```\n{CALL}"
        );
        let found = read(&text, &tools(), TextTools::Prompted, false).unwrap();
        let kinds = |found: &Found| {
            found.calls.iter().map(|call| matches!(call.arguments, Arguments::Object(_))).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&found), [false, true]);
        let good = "<tool_call>{\"name\":\"list\",\"arguments\":{}}</tool_call>";
        for broken in [
            "<tool_call>{\"name\":\"read_file\",\"arguments\":{\"file_path\":\"say \"x\"\"}}</tool_call>",
            "<tool_call>{\"name\":\"read_file\",\"arguments\":{}}</tool_call>",
            "<tool_call>{\"nam\":\"read_file\"}</tool_call>",
            "<tool_call>{\"name\":\"fly\",\"arguments\":{}}</tool_call>",
            "<tool_call>\n<function=read_file>\nfile_path: a\n</function>\n</tool_call>",
            "<tool_call>\n<function=write_file>\n<parameter=content>\na\n</parameter>\n<parameter=content>\nb\n</parameter>\n</function>\n</tool_call>",
        ] {
            for mode in [TextTools::Auto, TextTools::Prompted] {
                for text in [format!("{good}\n{broken}"), format!("{broken}\n{good}")] {
                    let found = read(&text, &tools(), mode, false).unwrap();
                    assert_eq!((found.calls.len(), found.text.as_str()), (2, ""), "{text}");
                    assert!(found.calls.iter().any(|call| call.name == "list"), "{text}");
                }
            }
            assert!(broken_call(broken, &tools(), true).is_some(), "alone it is told as well: {broken}");
        }
        let cut = format!("{good}\n<tool_call>{{\"name\":\"read_file\",\"arguments\":{{\"file_");
        assert_eq!(kinds(&read(&cut, &tools(), TextTools::Auto, false).unwrap()), [true, false]);
    }

    #[test]
    fn json_that_names_no_tool_on_offer_is_an_answer() {
        let tools = tools();
        let answer = r#"{"name":"resize","parameters":{"width":3}}"#;
        for text in
            [answer.to_owned(), format!("```json\n{answer}\n```"), format!("Here it is:\n```json\n{answer}\n```")]
        {
            for mode in [TextTools::Auto, TextTools::Prompted] {
                assert_eq!(read(&text, &tools, mode, false), None, "{text}");
            }
            assert!(!has_call(&text, &tools), "{text}");
            assert_eq!(broken_call(&text, &tools, false), None, "{text}");
        }
    }

    #[test]
    fn what_a_model_that_calls_natively_writes_in_a_fence_is_its_answer() {
        let text = format!("Such a call reads it:\n{CALL}\nThat is all.");
        assert!(broken_call(&text, &tools(), false).is_some());
        assert_eq!(broken_call(&text, &tools(), true), None);
    }

    #[test]
    fn a_line_that_closes_a_value_closes_it_whatever_follows_is_called() {
        let read = |parameters: &str| {
            let text = format!("<tool_call>\n<function=run_shell_command>\n{parameters}\n</function>\n</tool_call>");
            let mut found = read(&text, &tools(), TextTools::Auto, false).unwrap();
            assert_eq!(found.calls.len(), 1, "{text}");
            let call = found.calls.remove(0);
            let Arguments::Object(arguments) = call.arguments else { panic!("{text}") };
            (serde_json::Value::Object(arguments), call.notes)
        };
        let unknown = "run_shell_command has no parameter 'description': it was left out";
        for parameters in [
            "<parameter=command>\nls\n</parameter>\n<parameter=description>\nList.\n</parameter>",
            "<parameter=description>\nList.\n</parameter>\n<parameter=command>\nls\n</parameter>",
            "<parameter=command>ls</parameter>\n<parameter=description>List.</parameter>",
            "<parameter=command>\nls\n  </parameter>\n\n<parameter=description>\nList.",
        ] {
            assert_eq!(
                read(parameters),
                (serde_json::json!({"command": "ls"}), vec![unknown.to_owned()]),
                "{parameters}"
            );
        }
        let (arguments, notes) = read("<parameter=cmd>\nls\n<parameter=Background>\ntrue\n</parameter>");
        assert_eq!(arguments["command"], "ls");
        assert_eq!(notes[0], "`cmd` was taken as `command`");
        // Inside a line both are text, and a line that opens what is not a parameter is as well.
        for value in [
            "echo '</parameter> <parameter=description>'",
            "echo '<parameter=background>'",
            "cat <<E\n<parameter=description>\nE",
            "cat <<E\n<parameter=background>true</parameter>\nE",
        ] {
            let (arguments, _) = read(&format!("<parameter=command>\n{value}\n</parameter>"));
            assert_eq!(arguments["command"], value);
        }
    }

    #[test]
    fn a_brace_that_was_dropped_before_arguments_is_put_back() {
        let text = "<tool_call>{\"name\":\"read_file\",\"arguments\":\"file_path\":\"a.rs\"}}</tool_call>";
        let found = read(text, &tools(), TextTools::Auto, false).unwrap();
        let Arguments::Object(arguments) = &found.calls[0].arguments else { panic!() };
        assert_eq!((found.calls[0].name.as_str(), &arguments["file_path"]), ("read_file", &"a.rs".into()));
    }

    proptest! {
        #[test]
        fn no_text_panics(parts in prop::collection::vec(prop::sample::select(vec![
            "<tool_call>", "</tool_call>", "<function=list>", "<function=write_file>", "</function>", "<tools>",
            "<parameter=content>", "<parameter=file_path>", "</parameter>", "```", "```json", "\n", "{", "}", "\"", "[", "]",
            "{\"name\":\"list\",\"arguments\":{}}", "é", " ", "`", ">", "functions.list:", "<", "<think>", "</think>",
        ]), 0..24), cut in any::<bool>()) {
            let text: String = parts.concat();
            let tools = tools();
            for mode in [TextTools::Auto, TextTools::Prompted] {
                if let Some(found) = read(&text, &tools, mode, cut) {
                    prop_assert!(!found.calls.is_empty());
                }
            }
            let _ = (broken_call(&text, &tools, false), has_call(&text, &tools), read_reasoning(&text, &tools));
            let (looked, found) = look(&text, 0, TextTools::Prompted);
            prop_assert!(text.is_char_boundary(found.unwrap_or(looked)));
        }
    }
}
