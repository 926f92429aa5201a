//! The Python package splay.
