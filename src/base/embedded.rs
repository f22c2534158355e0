//! Carries JSON in an HTML page, so that a review page is itself a proposal.

/// What the element begins with; nothing that others wrote stands before it.
pub const START: &str = "<script type=\"application/json\" id=\"qwen-result\">";

/// What it ends with.
pub const END: &str = "</script>";

/// Writes JSON so that nothing in it can end the element or begin another one.
pub fn escape(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + json.len() / 16);
    let mut rest = json;
    while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        let (before, from) = rest.split_at(at);
        let c = from.chars().next().unwrap_or_default();
        text.push_str(before);
        // In JSON these characters stand in strings alone.
        text.push_str(&format!("\\u{:04x}", u32::from(c)));
        rest = &from[c.len_utf8()..];
    }
    text.push_str(rest);
    text
}

/// Tells whether a text is an HTML page.
pub fn is_page(text: &[u8]) -> bool {
    const DOCTYPE: &[u8] = b"<!doctype html";
    text.trim_ascii_start().get(..DOCTYPE.len()).is_some_and(|start| start.eq_ignore_ascii_case(DOCTYPE))
}

/// Returns the JSON in a page: what the first such element before `<title>` contains.
pub fn json_of(page: &[u8]) -> Option<&[u8]> {
    let head = &page[..find(page, b"<title")?];
    let start = find(head, START.as_bytes())? + START.len();
    let length = find(&head[start..], END.as_bytes())?;
    Some(&head[start..start + length])
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, what)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(json: &str, more: &str) -> Vec<u8> {
        format!("<!DOCTYPE html><html><head>{START}{}{END}<title>{more}</title>{more}", escape(json)).into_bytes()
    }

    proptest! {
        #[test]
        fn what_is_carried_is_what_is_read(value in "(<|>|&|\"|\u{2028}|</script>|<!--|<title>|[a-z ])*") {
            let json = serde_json::json!({ "patch": value }).to_string();
            let page = page(&json, "");
            let read: serde_json::Value = serde_json::from_slice(json_of(&page).unwrap()).unwrap();
            prop_assert_eq!(&read["patch"], &serde_json::Value::from(value));
            prop_assert!(is_page(&page));
        }
    }

    #[test]
    fn an_element_after_the_title_is_not_read() {
        let late = format!("{START}{{\"a\":2}}{END}");
        assert_eq!(json_of(&page("{\"a\":1}", &late)), Some(&b"{\"a\":1}"[..]));
        assert_eq!(json_of(format!("<!doctype html><title>x</title>{late}").as_bytes()), None);
        assert_eq!(json_of(b"<!doctype html>"), None);
        assert!(!is_page(b"diff --git a/x b/x"));
    }
}
