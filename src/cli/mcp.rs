//! Defines `qwen mcp`: add, list, remove and sign in to servers.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use super::workspace::WorkspaceArgs;

/// What stands below the flags.
pub const EXAMPLE: &str = "\
Example:
  qwen mcp add -s user files npx -y @modelcontextprotocol/server-filesystem /data
  qwen mcp add -H 'Authorization: Bearer $TOKEN' docs https://mcp.example.com/
  qwen mcp list -v";

/// What to do with servers.
#[derive(Debug, Clone, Subcommand)]
pub enum McpVerb {
    /// Add a server to the settings or replace it (options: `qwen mcp add --help`)
    #[command(disable_help_flag = true)]
    Add {
        /// Options, name, command or URL, arguments
        #[arg(value_name = "[OPTIONS] NAME COMMAND_OR_URL [ARGS]", trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
        words: Vec<String>,
    },
    /// Connect to each server and show its state
    List(ListArgs),
    /// Remove a server from the settings
    Remove {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: String,
        /// Settings file to change
        #[arg(short, long, value_name = "SCOPE", default_value = "project")]
        scope: Scope,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
    /// Sign in to a server with a browser; without a name, list servers that need it
    Auth {
        /// Name of the server
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// OAuth scopes to request [default: those of settings and server]
        #[arg(long, value_name = "SCOPES", value_delimiter = ' ', requires = "name")]
        scope: Vec<String>,
        /// Where to work.
        #[command(flatten)]
        workspace: WorkspaceArgs,
    },
}

/// The flags of `list`.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Also show directory, timeout, tools, prompts and the last error
    #[arg(short, long)]
    pub verbose: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "pins")]
    pub json: bool,
    /// Print the current pins of all tools, for `mcp.servers.NAME.pins` in a policy
    #[arg(long, conflicts_with = "verbose")]
    pub pins: bool,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
}

/// Whose settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// ~/.qwen/settings.json
    User,
    /// .qwen/settings.json of the project
    Project,
}

impl Scope {
    /// Returns the word for messages.
    pub fn name(self) -> &'static str {
        match self {
            Scope::User => "user",
            Scope::Project => "project",
        }
    }
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// A local program
    Stdio,
    /// Server-sent events
    Sse,
    /// Streamable HTTP
    Http,
}

/// Add a server to the settings or replace it
#[derive(Debug, Clone, Parser)]
#[command(name = "qwen mcp add", bin_name = "qwen mcp add", after_help = EXAMPLE, max_term_width = 110)]
pub struct AddArgs {
    /// Settings file to change
    #[arg(short, long, value_name = "SCOPE", default_value = "project")]
    pub scope: Scope,
    /// Transport [default: http for a URL, else stdio]
    #[arg(short, long, value_name = "KIND")]
    pub transport: Option<Transport>,
    /// Environment variable for the program (repeatable)
    #[arg(short, long, value_name = "K=V")]
    pub env: Vec<String>,
    /// HTTP header for every request (repeatable)
    #[arg(short = 'H', long, value_name = "K: V")]
    pub header: Vec<String>,
    /// Time out a call that sends nothing for this many milliseconds [default: 600000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// Allow all of its tools; only honoured in the user's settings
    #[arg(long)]
    pub trust: bool,
    /// Description
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Use only these tools
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub include_tools: Vec<String>,
    /// Do not use these tools
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub exclude_tools: Vec<String>,
    /// Where to work.
    #[command(flatten)]
    pub workspace: WorkspaceArgs,
    /// Name of the server
    pub name: String,
    /// Command or URL
    pub command_or_url: String,
    /// Arguments passed to the command
    #[arg(value_name = "ARGS", allow_hyphen_values = true)]
    pub args: Vec<String>,
}

/// Options of `add` that stand alone.
const ALONE: [&str; 3] = ["--trust", "--help", "-h"];

/// Puts options before the name and the address or program, whose own options follow `--`.
fn in_order(words: &[String]) -> Vec<&str> {
    let mut options: Vec<&str> = Vec::new();
    let mut plain: Vec<&str> = Vec::new();
    let mut transport = None;
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let is_program = match transport {
            Some(kind) => kind == "stdio",
            None => plain.get(1).is_some_and(|target| !is_address(target)),
        };
        if word == "--" || (plain.len() >= 2 && is_program) {
            plain.extend((word != "--").then_some(word));
            plain.extend(words.by_ref());
            break;
        }
        if !word.starts_with('-') || word == "-" {
            plain.push(word);
            continue;
        }
        options.push(word);
        let value = match word.split_once('=') {
            Some((_, value)) => Some(value),
            // A short option with its value attached.
            None if !word.starts_with("--") && word.len() > 2 => Some(&word[2..]),
            None if ALONE.contains(&word) => None,
            None => {
                let next = words.next();
                options.extend(next);
                next
            }
        };
        if word.starts_with("-t") || word.starts_with("--transport") {
            transport = value;
        }
    }
    ["qwen mcp add"].into_iter().chain(options).chain(["--"]).chain(plain).collect()
}

impl AddArgs {
    /// Reads the words behind `qwen mcp add`.
    ///
    /// Options may stand before and behind the name and behind an address. What stands behind a command is the
    /// command's own, whatever it looks like.
    pub fn read(words: &[String]) -> Result<AddArgs, clap::Error> {
        let read = AddArgs::try_parse_from(in_order(words))?;
        let wrong =
            |message: &str| Err(clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{message}\n")));
        if read.name.trim().is_empty() || read.name.contains(char::is_control) {
            return wrong("the name must be one line of text");
        }
        let is_address = is_address(&read.command_or_url);
        match (read.transport(), is_address) {
            (Transport::Stdio, true) => return wrong("a URL needs --transport http or sse, or no --transport"),
            (Transport::Http | Transport::Sse, false) => {
                return wrong("--transport http and sse need a URL, for example https://example.com/mcp");
            }
            (Transport::Stdio, false) | (Transport::Http | Transport::Sse, true) => {}
        }
        if is_address && !read.args.is_empty() {
            return wrong("a URL takes no arguments");
        }
        if let Some(variable) = read.env.iter().find(|pair| !pair.contains('=')) {
            return wrong(&format!("--env {variable}: write NAME=value"));
        }
        if let Some(header) = read.header.iter().find(|pair| !pair.contains(':')) {
            return wrong(&format!("--header {header:?}: write 'Name: value'"));
        }
        Ok(read)
    }

    /// Returns how it is reached.
    pub fn transport(&self) -> Transport {
        let by_target = || if is_address(&self.command_or_url) { Transport::Http } else { Transport::Stdio };
        self.transport.unwrap_or_else(by_target)
    }

    /// Returns the server as settings describe it.
    pub fn server(&self) -> Value {
        let mut server = Map::new();
        let pairs = |list: &[String], by: char| -> Value {
            let pair = |text: &String| {
                let (name, value) = text.split_once(by)?;
                Some((name.trim().to_owned(), Value::from(if by == ':' { value.trim() } else { value })))
            };
            Value::Object(list.iter().filter_map(pair).collect())
        };
        match self.transport() {
            Transport::Stdio => {
                server.insert("command".into(), json!(self.command_or_url));
                if !self.args.is_empty() {
                    server.insert("args".into(), json!(self.args));
                }
                if !self.env.is_empty() {
                    server.insert("env".into(), pairs(&self.env, '='));
                }
            }
            Transport::Sse | Transport::Http => {
                let key = if self.transport() == Transport::Sse { "url" } else { "httpUrl" };
                server.insert(key.into(), json!(self.command_or_url));
                if !self.header.is_empty() {
                    server.insert("headers".into(), pairs(&self.header, ':'));
                }
            }
        }
        let mut more = |key: &str, value: Option<Value>| value.and_then(|value| server.insert(key.into(), value));
        more("timeout", self.timeout.map(Value::from));
        more("trust", self.trust.then_some(Value::Bool(true)));
        more("description", self.description.clone().map(Value::from));
        more("includeTools", (!self.include_tools.is_empty()).then(|| json!(self.include_tools)));
        more("excludeTools", (!self.exclude_tools.is_empty()).then(|| json!(self.exclude_tools)));
        Value::Object(server)
    }
}

fn is_address(target: &str) -> bool {
    target.starts_with("http://") || target.starts_with("https://")
}

/// Writes a time for people.
pub fn time(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<AddArgs, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        AddArgs::read(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn what_stands_behind_a_command_is_its_own() {
        let add = read("-s user -e A=b=c s --timeout 5 npx -y pkg -e X --trust -- z").unwrap();
        assert_eq!((add.scope, add.trust, add.name.as_str()), (Scope::User, false, "s"));
        assert_eq!(
            add.server(),
            json!({"command": "npx", "args": ["-y", "pkg", "-e", "X", "--trust", "--", "z"], "env": {"A": "b=c"}, "timeout": 5})
        );
    }

    #[test]
    fn options_may_stand_behind_an_address() {
        let add = read("s -t http https://h.example/mcp -HX:y --trust --include-tools=a,b").unwrap();
        assert_eq!(
            add.server(),
            json!({"httpUrl": "https://h.example/mcp", "headers": {"X": "y"}, "trust": true, "includeTools": ["a", "b"]})
        );
        assert_eq!(read("-t sse s https://h.example/sse").unwrap().server(), json!({"url": "https://h.example/sse"}));
        let add = read("s https://h.example/mcp -H X:y").unwrap();
        assert_eq!(add.server(), json!({"httpUrl": "https://h.example/mcp", "headers": {"X": "y"}}));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, problem) in [
            ("-t stdio s https://h.example/mcp", "needs --transport"),
            ("-t http s npx", "need a URL"),
            ("-e A s npx", "write NAME=value"),
            ("s", "required"),
            (" npx", "the name must be"),
            ("a\nb npx", "the name must be"),
            ("--wrong s npx", "--wrong"),
        ] {
            let said = read(line).unwrap_err();
            assert!(said.contains(problem), "{line}: {said}");
        }
    }
}
