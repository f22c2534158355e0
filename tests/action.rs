//! Tests the GitHub Action without GitHub: a harness runs its steps as a runner does, and reads log and files as one.

mod agreement;
mod comments;
mod hostile;
mod large;
mod reviews;
mod runner;
mod two_jobs;
mod workflows;

use runner::{Event, Job};
