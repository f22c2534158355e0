//! Errors of servers, put into classes.
