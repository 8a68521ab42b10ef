//! Results are pushed, never collected by polling: the caller of `handle` passes a sink.

use crate::event::EventClass;
use alloc::vec::Vec;

/// Where a machine pushes what it decided, in order.
pub trait Sink<T> {
    /// Takes one result.
    fn push(&mut self, value: T);
    /// Whether events of this class are wanted; a machine need not build those that are not.
    fn wants(&self, class: EventClass) -> bool {
        let _ = class;
        true
    }
}

impl<T> Sink<T> for Vec<T> {
    fn push(&mut self, value: T) {
        Vec::push(self, value);
    }
}
impl<T> Sink<T> for alloc::collections::VecDeque<T> {
    fn push(&mut self, value: T) {
        self.push_back(value);
    }
}

/// A sink made of a closure.
pub struct FnSink<F>(pub F);
impl<T, F: FnMut(T)> Sink<T> for FnSink<F> {
    fn push(&mut self, value: T) {
        (self.0)(value);
    }
}
