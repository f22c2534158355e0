//! Remembers between runs what servers showed of themselves, in `servers.json` of the cache directory.

use std::path::{Path, PathBuf};

use crate::base::private_file;
use crate::bounded;
use crate::model::client::Client;
use crate::model::config::ClientConfig;
use crate::model::endpoint::Endpoint;
use crate::model::learned::{Learned, Servers};

/// Bytes of the file that are read.
const LARGEST: u64 = 1 << 20;

/// The file, and which entry of it is this run's.
pub struct ServerMemory {
    file: PathBuf,
    endpoint: String,
    model: String,
}

/// Reads the file of a cache directory; without a readable one nothing is known.
pub fn read(cache: &Path) -> Servers {
    let text = bounded::regular(&cache.join("servers.json"), LARGEST).unwrap_or_default();
    Servers::parse(&String::from_utf8_lossy(&text))
}

impl ServerMemory {
    /// Finds the entry of a server and its model, and returns what an earlier run found out.
    pub fn of(cache: &Path, config: &ClientConfig) -> Option<(ServerMemory, Learned)> {
        let endpoint = Endpoint::parse(&config.base_url).ok()?.to_string();
        let servers = read(cache);
        let known = servers.known(&endpoint, &config.model, now()).map(|entry| entry.learned.clone());
        let file = cache.join("servers.json");
        Some((ServerMemory { file, endpoint, model: config.model.clone() }, known.unwrap_or_default()))
    }

    /// Keeps what this run found out. If it cannot be written, the next run finds it out again.
    pub fn keep(&self, client: &Client) {
        let (Some(learned), Some(cache)) = (client.learned(), self.file.parent()) else { return };
        let mut servers = read(cache);
        if servers.learn((&self.endpoint, &self.model), learned, now()) {
            let _kept = private_file::replace(&self.file, servers.text().as_bytes(), Some(private_file::SECRET));
        }
    }
}

/// Returns the seconds since 1970.
pub fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}
