//! Says what is wrong with a call in a message from which none was read.

use super::Arguments;
use super::blocks::{Candidate, Outcome, blocks, fenced, fences};
use super::tool_set::ToolSet;
use crate::tool_name;

/// Says what is wrong with a call in a message that came to no calls, for the model; `None` if there is nothing like
/// a call in it. A model that `calls_natively` is asked about tags alone: a fence or an object is part of its answer.
pub fn broken_call(text: &str, tools: &ToolSet, calls_natively: bool) -> Option<String> {
    let blocks = blocks(text, tools, !calls_natively);
    let is_answer = |call: &Candidate| call.shape == "json" && tools.exact(&call.name).is_none();
    let problem = blocks.into_iter().find_map(|block| match block.outcome {
        Outcome::Calls(calls) => calls.into_iter().filter(|call| !is_answer(call)).find_map(|call| {
            let problem = match &call.arguments {
                Arguments::Object(arguments) => tools.check(&call.name, arguments.clone()).err()?,
                Arguments::Incomplete { .. } => "its arguments are cut off".to_owned(),
                Arguments::Invalid { problem, .. } => problem.clone(),
            };
            Some(format!("the call of `{}` was not run: {problem}", call.name))
        }),
        Outcome::Cut { name } => Some(format!("{} is not closed, so nothing was run", named(name.as_deref()))),
        Outcome::Bad { name, problem } => Some(format!("{} was not run: {problem}", named(name.as_deref()))),
    });
    let misplaced = || {
        fences(text).iter().find_map(|fence| match fenced(text, fence, tools, true)?.outcome {
            Outcome::Calls(calls) => {
                let call = calls.into_iter().find(|call| call.is_plain && tools.exact(&call.name).is_some())?;
                (!text[fence.end..].trim().is_empty())
                    .then(|| format!("the call of `{}` was not run: it has to end the message", call.name))
            }
            Outcome::Cut { .. } | Outcome::Bad { .. } => None,
        })
    };
    let as_code = || {
        let text = text.trim();
        let (name, rest) = text.split_once('(')?;
        (rest.ends_with(')') && tools.exact(name).is_some())
            .then(|| format!("the call of `{name}` was not run: this is not how a call is written"))
    };
    problem
        .or_else(|| if calls_natively { None } else { misplaced().or_else(as_code) })
        .map(|problem| format!("{problem}\nWrite the whole call again, and nothing after it."))
}

/// Says of a message what is wrong with calls in tags that belong to no format which is read, such as `<invoke name="NAME">`,
/// `<function>NAME</function>` or `<NAME>…</NAME>`: they begin a line outside of fences, and the message ends in a tag. It may
/// be an answer all the same.
pub fn call_in_other_tags(text: &str, tools: &ToolSet) -> Option<String> {
    let name = other_tags(text, tools)?;
    Some(format!(
        "the call of `{name}` was not run: this is not how a call is written\nWrite the whole call again, and nothing after \
         it. If this is your answer, repeat it."
    ))
}

fn other_tags(text: &str, tools: &ToolSet) -> Option<String> {
    const TAGS: [&str; 6] = ["function", "function_call", "invoke", "tool", "tool_name", "tool_use"];
    if !text.trim_end().ends_with('>') {
        return None;
    }
    let names = || tools.specs().iter().map(|tool| tool.name.as_str());
    let fences = fences(text);
    let mut at = 0;
    text.split_inclusive('\n').find_map(|line| {
        let start = at;
        at += line.len();
        let (tag, inside) = line.trim_start().strip_prefix('<')?.split_once('>')?;
        if fences.iter().any(|fence| (fence.start..fence.end).contains(&start)) {
            return None;
        }
        let (tag, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if names().any(|name| name == tag) {
            return Some(tag.to_owned());
        }
        let attribute = attributes.strip_prefix("name=").map(|name| name.trim_matches(['"', '\'']));
        let name = attribute.unwrap_or_else(|| inside.split('<').next().unwrap_or_default().trim());
        TAGS.contains(&tag).then(|| tool_name::resolve(name, names()))?.map(str::to_owned)
    })
}

fn named(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("the call of `{name}`"),
        None => "the tool call in your message".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream_cases::tools;
    use super::*;

    #[test]
    fn a_broken_call_is_told_with_its_place() {
        let tools = tools();
        let broken = "I write.\n```json\n{\"name\":\"write_file\",\"arguments\":{\"file_path\":\"a\",\"content\":\"print(\"hi\")\"}}\n```";
        let message = broken_call(broken, &tools, false).unwrap();
        assert!(
            message.starts_with("the call of `write_file` was not run: not valid JSON: expected `,` or `}`"),
            "{message}"
        );
        assert!(
            broken_call("<tool_call>\n<function=write_file>\n<parameter=content>\nfn", &tools, false)
                .unwrap()
                .contains("not closed")
        );
        let missing =
            broken_call("<tool_call>{\"name\":\"read_file\",\"arguments\":{}}</tool_call>", &tools, false).unwrap();
        assert!(missing.contains("params must have required property 'file_path'"), "{missing}");
        for other in [
            "I look.\n<invoke name=\"read_file\">\n<parameter name=\"file_path\">a</parameter>\n</invoke>",
            "<function>read_file</function>\n<parameter>a</parameter>",
            "<tool_use>\n  <tool_name>read_file</tool_name>\n</tool_use>",
            "<read_file>\n<path>a</path>\n</read_file>",
        ] {
            let message = call_in_other_tags(other, &tools).unwrap();
            assert!(message.starts_with("the call of `read_file` was not run"), "{other}: {message}");
            assert_eq!(broken_call(other, &tools, false), None, "it may be an answer");
        }
        for fine in [
            "The answer is 42.",
            "```json\n{\"a\":1}\n```",
            "`<tool_call>` is a tag",
            "",
            "The page is:\n<html>\n<function>sum</function>\n</html>",
            "It is written so:\n```xml\n<invoke name=\"read_file\">\n</invoke>\n```\nas <b>here</b>",
        ] {
            assert_eq!((broken_call(fine, &tools, false), call_in_other_tags(fine, &tools)), (None, None), "{fine}");
        }
    }
}
