//! A cassette: exchanges with a server, recorded and played.
