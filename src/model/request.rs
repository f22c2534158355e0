//! The body of a request.
