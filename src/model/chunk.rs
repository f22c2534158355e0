//! One chunk of a stream, read from whatever JSON came.
