//! Converts a server's answer to what the model sees.

use serde_json::Value;

use crate::model::Part;

/// The most base64 of one picture or sound.
const MEDIA: usize = 16 << 20;

/// An answer of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What the model sees: one text, then media.
    pub parts: Vec<Part>,
    /// Whether the server says that the call failed.
    pub is_error: bool,
}

/// Reads the result of a call. `media` tells whether the model takes pictures and sounds.
///
/// It is read from the plain JSON, so that one block of an unknown kind costs a line and not the answer.
pub fn answer(result: &Value, media: bool) -> Answer {
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let mut texts: Vec<String> = Vec::new();
    let mut more: Vec<Part> = Vec::new();
    for block in result.get("content").and_then(Value::as_array).into_iter().flatten() {
        block_of(block, media, &mut texts, &mut more);
    }
    if let Some(structured) = result.get("structuredContent").filter(|value| !value.is_null()) {
        let said = texts.iter().any(|text| serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structured));
        if !said {
            texts.push(structured.to_string());
        }
    }
    if texts.is_empty() && more.is_empty() {
        texts.push(match result.get("content") {
            Some(_) => "(the tool gave an empty answer)".to_owned(),
            None if result.get("structuredContent").is_some() => "null".to_owned(),
            None => format!("(the tool's answer has no content: {})", super::shown(&result.to_string(), 500)),
        });
    }
    let mut parts = Vec::new();
    if !texts.is_empty() {
        parts.push(Part::Text(texts.join("\n")));
    }
    parts.extend(more);
    Answer { parts, is_error }
}

/// Reads the contents of a resource.
pub fn resource(result: &Value, media: bool) -> Vec<Part> {
    let mut texts = Vec::new();
    let mut more = Vec::new();
    for contents in result.get("contents").and_then(Value::as_array).into_iter().flatten() {
        embedded(contents, media, &mut texts, &mut more);
    }
    if texts.is_empty() && more.is_empty() {
        texts.push("(the resource is empty)".to_owned());
    }
    let mut parts = Vec::new();
    if !texts.is_empty() {
        parts.push(Part::Text(texts.join("\n")));
    }
    parts.extend(more);
    parts
}

/// Reads one block of content, as in results and in prompts.
pub(crate) fn block_of(block: &Value, media: bool, texts: &mut Vec<String>, more: &mut Vec<Part>) {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    match text("type") {
        Some("text") => texts.push(text("text").unwrap_or_default().to_owned()),
        Some(kind @ ("image" | "audio")) => {
            let mime_type = text("mimeType").unwrap_or(if kind == "image" { "image/png" } else { "audio/wav" });
            data(mime_type, text("data").unwrap_or_default(), kind, media, texts, more);
        }
        Some("resource") => match block.get("resource") {
            Some(contents) => embedded(contents, media, texts, more),
            None => texts.push("(a resource without contents)".to_owned()),
        },
        Some("resource_link") => {
            let uri = super::shown(text("uri").unwrap_or("?"), 1_000);
            let title = text("title").or(text("name")).unwrap_or("untitled");
            texts.push(format!("Resource Link: {} at {uri}", super::shown(title, 200)));
        }
        Some(other) => texts.push(format!("(content of the unknown kind {:?})", super::shown(other, 60))),
        None => texts.push("(content of no kind)".to_owned()),
    }
}

fn embedded(contents: &Value, media: bool, texts: &mut Vec<String>, more: &mut Vec<Part>) {
    let text = |key: &str| contents.get(key).and_then(Value::as_str);
    if let Some(own) = text("text") {
        texts.push(own.to_owned());
        return;
    }
    let uri = text("uri").unwrap_or("resource");
    match text("blob") {
        Some(blob) => {
            data(text("mimeType").unwrap_or("application/octet-stream"), blob, uri, media, texts, more);
        }
        None => texts.push(format!("(the resource {} has neither text nor data)", super::shown(uri, 200))),
    }
}

fn data(mime_type: &str, base64: &str, name: &str, media: bool, texts: &mut Vec<String>, more: &mut Vec<Part>) {
    let mime_type = super::shown(mime_type, 80);
    let name = super::shown(name, 200);
    let bytes = base64.len() / 4 * 3;
    let known = mime_type.starts_with("image/") || mime_type.starts_with("audio/") || mime_type == "application/pdf";
    let plain = base64.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=\r\n".contains(&b));
    let why = match (base64.is_empty(), plain, known, base64.len() > MEDIA) {
        (true, _, _, _) => Some("it is empty"),
        (_, false, _, _) => Some("its data is not base64"),
        (_, _, false, _) => Some("it cannot be shown"),
        (_, _, _, true) => Some("it is too large"),
        (false, true, true, false) if !media => Some("this model takes no media"),
        (false, true, true, false) => None,
    };
    match why {
        Some(why) => texts.push(format!("[{name}: {mime_type}, about {bytes} bytes; {why}]")),
        None => more.push(Part::Media { mime_type, data: base64.replace(['\r', '\n'], ""), name }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(result: Value) -> String {
        Part::text_of(&answer(&result, false).parts)
    }

    #[test]
    fn texts_are_joined_and_every_kind_has_its_words() {
        let result = json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}},
            {"type": "resource_link", "uri": "file:///x", "name": "x", "title": "The X"},
            {"type": "resource", "resource": {"uri": "a://c", "blob": "AAAA", "mimeType": "application/zip"}},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "video"},
            {"text": "no kind"}
        ]});
        insta::assert_snapshot!(text(result), @r#"
        one
        inside
        Resource Link: The X at file:///x
        [a://c: application/zip, about 3 bytes; it cannot be shown]
        [image: image/png, about 3 bytes; this model takes no media]
        (content of the unknown kind "video")
        (content of no kind)
        "#);
    }

    #[test]
    fn pictures_and_sounds_are_parts_where_the_model_takes_them() {
        let result = json!({"content": [{"type": "audio", "data": "AA\nAA", "mimeType": "audio/wav"}, {"type": "text", "text": "t"}]});
        let parts = answer(&result, true).parts;
        assert_eq!(
            parts,
            [
                Part::Text("t".into()),
                Part::Media { mime_type: "audio/wav".into(), data: "AAAA".into(), name: "audio".into() }
            ]
        );
        let broken = json!({"content": [{"type": "image", "data": "<script>", "mimeType": "image/png"}]});
        assert!(Part::text_of(&answer(&broken, true).parts).contains("not base64"));
    }

    #[test]
    fn structured_content_is_said_once() {
        let said = json!({"content": [{"type": "text", "text": "{ \"a\": 1 }"}], "structuredContent": {"a": 1}});
        assert_eq!(text(said), "{ \"a\": 1 }");
        let other = json!({"content": [{"type": "text", "text": "done"}], "structuredContent": {"a": 1}});
        assert_eq!(text(other), "done\n{\"a\":1}");
        assert_eq!(text(json!({"structuredContent": {"a": 1}})), "{\"a\":1}");
    }

    #[test]
    fn an_answer_of_nothing_says_so() {
        assert_eq!(text(json!({"content": []})), "(the tool gave an empty answer)");
        assert_eq!(text(json!({"content": "x"})), "(the tool gave an empty answer)");
        assert!(text(json!({"odd": 1})).contains("{\"odd\":1}"));
        assert!(text(json!(null)).contains("no content"));
    }
}
