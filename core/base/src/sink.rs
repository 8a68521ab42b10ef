//! Sinks for results: state machines push their results into a sink that the caller of `handle` passes; they are never
//! polled.

use crate::event::EventClass;
use alloc::vec::Vec;

/// Receiver of a state machine's results, in order.
pub trait Sink<T> {
    /// Accepts one result.
    fn push(&mut self, value: T);
    /// Whether events of this class are wanted; others need not be made.
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

/// Sink that calls a closure for each result.
pub struct FnSink<F>(pub F);
impl<T, F: FnMut(T)> Sink<T> for FnSink<F> {
    fn push(&mut self, value: T) {
        (self.0)(value);
    }
}
