//! Represents what is added to the lists of a policy.

/// What is added to the lists of a policy, by key, in the flow style of YAML.
#[derive(Debug, Clone, Default)]
pub struct Additions {
    /// Tools.
    pub tools: Vec<String>,
    /// Globs of files to read.
    pub read: Vec<String>,
    /// Globs of files to write.
    pub write: Vec<String>,
    /// Rules for commands.
    pub run: Vec<String>,
    /// Rules for hosts.
    pub net: Vec<String>,
    /// MCP servers with the tools that they allow.
    pub servers: Vec<String>,
}

impl Additions {
    /// Returns the lines of a policy, each key once.
    pub fn lines(&self) -> Vec<String> {
        let list = |items: &Vec<String>| (!items.is_empty()).then(|| format!("{{allow: [{}]}}", items.join(", ")));
        let paths: Vec<String> = [("read", &self.read), ("write", &self.write)]
            .into_iter()
            .filter_map(|(key, items)| Some(format!("{key}: {}", list(items)?)))
            .collect();
        let paths = (!paths.is_empty()).then(|| format!("{{{}}}", paths.join(", ")));
        let servers = (!self.servers.is_empty()).then(|| format!("{{servers: {{{}}}}}", self.servers.join(", ")));
        [
            ("tools", list(&self.tools)),
            ("paths", paths),
            ("shell", list(&self.run)),
            ("network", list(&self.net)),
            ("mcp", servers),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some(format!("{key}: {}", value?)))
        .collect()
    }

    fn lists(&mut self) -> [&mut Vec<String>; 6] {
        [&mut self.tools, &mut self.read, &mut self.write, &mut self.run, &mut self.net, &mut self.servers]
    }

    /// Removes each item without which the rest is enough.
    pub(super) fn keep_what_is_needed(&mut self, is_enough: impl Fn(&Additions) -> bool) {
        for list in 0..self.lists().len() {
            for item in (0..self.lists()[list].len()).rev() {
                let mut fewer = self.clone();
                fewer.lists()[list].remove(item);
                if is_enough(&fewer) {
                    *self = fewer;
                }
            }
        }
    }
}

/// Writes a word of a command so that YAML reads that word.
pub fn yaml_word(word: &str) -> String {
    let is_plain = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '-')
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./=+".contains(&byte))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n", "-"]
            .contains(&word.to_ascii_lowercase().as_str());
    if is_plain { word.to_owned() } else { serde_json::Value::from(word).to_string() }
}
