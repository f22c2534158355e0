//! Defines why a run or another command cannot begin, and how it then ends: one enum for each thing that it needs.

mod answer;
mod context;
mod delivery;
mod failure;
mod model;
mod place;
mod policy;
mod prompt;
mod recipe;
mod server;
mod session;
mod setup;
#[cfg(test)]
mod tests;
mod trust;

pub use answer::{AnswerError, VerifyError};
pub use context::{ContextError, InputProblem};
pub use delivery::DeliveryError;
pub use failure::Failure;
pub use model::ConnectError;
pub use place::PlaceError;
pub use policy::PolicyError;
pub use prompt::PromptError;
pub use recipe::RecipeError;
pub use server::ServerError;
pub use session::{ModeError, SessionError};
pub use setup::SetupError;
pub use trust::TrustError;
