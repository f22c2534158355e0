//! Decides what a batch does next: items and their keys, journal, plan and result, pace, budget, shards and counts. Bytes and times go in;
//! nothing here reads a file or a clock.

pub mod budget;
pub mod evaluation;
pub mod gates;
pub mod item;
pub mod journal;
pub mod keys;
pub mod pace;
pub mod plan;
pub mod provider;
pub mod repository;
pub mod result;
pub mod shard;
pub mod statistics;
pub mod sums;
pub mod tally;
