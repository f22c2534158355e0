//! What `web_fetch` and `web_search` share: one GET at a time, and pages as text.

pub mod fetch;
pub mod page;
pub mod tags;
