//! Ways in and out over the network.
