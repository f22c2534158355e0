//! Runs MCP servers: starts them in parallel before the first request, and offers their tools next to the built-in
//! ones.
//!
//! Servers are not trusted: every wait ends, every size is bounded, an invalid definition is left out and named, and
//! whatever goes wrong with a server is one message about that server. [`Servers::start`] returns when each server is
//! ready or has failed; [`Servers::close`] ends all of them in parallel.
//!
//! A [`Launcher`] starts the processes: in a run the sandbox, in tests a function in the same process.

mod callback;
mod client_credentials;
mod client_key;
pub mod command_line;
pub mod config;
mod connection;
pub mod content;
mod definition;
mod handler;
mod http;
pub mod launch;
mod lines;
pub mod names;
pub mod oauth;
pub mod pins;
pub mod prompts;
mod resources;
pub mod schema;
mod server;
mod servers;
mod sse;
mod tail;
mod token_store;
mod tool;

pub use config::{Config, Connect, OAuth, Program};
pub use launch::{Launched, Launcher};
pub use server::{Failed, Listing, Server, with_path};
pub use servers::{Options, Servers, State};

#[cfg(test)]
mod http_tests;
#[cfg(test)]
mod tests;

/// Shows a server's text in a message: one line, at most `most` characters, nothing in it that acts on a terminal.
pub(crate) fn shown(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (count, c) in text.trim().chars().enumerate() {
        if count == most {
            line.push('…');
            break;
        }
        if c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}
