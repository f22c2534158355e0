//! Defines the filters of templates that need nothing but the value.

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};

/// Adds them.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter("json", |value: &Value| {
        let json =
            serde_json::to_value(value).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
        Ok::<String, Error>(json.to_string())
    });
    environment.add_filter("join", |value: &Value, by: Option<String>| {
        let items = value.try_iter()?.map(|item| one(&item)).collect::<Result<Vec<_>, Error>>()?;
        Ok::<String, Error>(items.join(&by.unwrap_or_default()))
    });
    environment.add_filter("indent", |value: &Value, width: usize| {
        let space = " ".repeat(width.min(64));
        Ok::<String, Error>(one(value)?.replace('\n', &format!("\n{space}")))
    });
    environment.add_filter("trim", |value: &Value| Ok::<String, Error>(one(value)?.trim().to_owned()));
    environment.add_filter("lower", |value: &Value| Ok::<String, Error>(one(value)?.to_lowercase()));
    environment.add_filter("upper", |value: &Value| Ok::<String, Error>(one(value)?.to_uppercase()));
    environment.add_filter("split", |value: &Value, by: String| {
        if by.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOperation, "`split` needs a text to split at"));
        }
        Ok::<Vec<String>, Error>(one(value)?.split(&by).map(str::to_owned).collect())
    });
    environment.add_filter("lines", |value: &Value| {
        Ok::<Vec<String>, Error>(one(value)?.lines().map(str::to_owned).collect())
    });
    environment.add_filter("basename", |value: &Value| Ok::<String, Error>(basename(&one(value)?).to_owned()));
    environment.add_filter("dirname", |value: &Value| Ok::<String, Error>(dirname(&one(value)?).to_owned()));
}

/// Returns a value as a text; there must be one.
pub(super) fn one(value: &Value) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "no such value"));
    }
    Ok(match value.kind() {
        // As YAML and JSON spell it; the engine would write `True`.
        ValueKind::Bool => value.is_true().to_string(),
        _ => value.to_string(),
    })
}

fn basename(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

fn dirname(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
        None => ".",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(template: &str, value: impl Into<Value>) -> Result<String, Error> {
        let mut environment = Environment::empty();
        add(&mut environment);
        environment.render_str(template, minijinja::context! { a => value.into() })
    }

    #[test]
    fn texts_and_paths_are_taken_apart() {
        for (filter, text, result) in [
            ("split(', ') | join('|')", "a, b,c", "a|b,c"),
            ("lines | join('|')", "a\r\nb\n", "a|b"),
            ("basename", "src/a.rs", "a.rs"),
            ("basename", "src/a/", "a"),
            ("basename", "a", "a"),
            ("dirname", "src/x/a.rs", "src/x"),
            ("dirname", "a.rs", "."),
            ("dirname", "/a", "/"),
        ] {
            assert_eq!(render(&format!("{{{{ a | {filter} }}}}"), text).unwrap(), result, "{filter} {text}");
        }
        assert!(render("{{ a | split('') }}", "x").is_err());
    }
}
