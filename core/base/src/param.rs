//! One definition of a parameter feeds configuration, `--help`, documentation and forms.

/// A numeric parameter of a router, a congestion control or a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param {
    /// Key in configuration files, e.g. `copies`.
    pub name: &'static str,
    /// One sentence: what it does and why the default is what it is.
    pub help: &'static str,
    /// Unit of the value ("s", "B", "" for a plain number).
    pub unit: &'static str,
    /// Value when not given.
    pub default: f64,
    /// Smallest value accepted.
    pub min: f64,
    /// Largest value accepted.
    pub max: f64,
}
