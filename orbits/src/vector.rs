//! Three numbers that are a place, a direction or a speed.

use std::ops::{Add, Mul, Neg, Sub};

/// Kilometres, kilometres a second, or a direction of length 1: whoever holds it knows.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Vector {
    /// Along the first axis.
    pub x: f64,
    /// Along the second.
    pub y: f64,
    /// Along the third.
    pub z: f64,
}

/// A vector in one word.
pub const fn vector(x: f64, y: f64, z: f64) -> Vector {
    Vector { x, y, z }
}

impl Vector {
    /// The inner product.
    pub fn dot(self, other: Vector) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }
    /// The outer product.
    pub fn cross(self, other: Vector) -> Vector {
        vector(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )
    }
    /// How long it is.
    pub fn length(self) -> f64 {
        self.dot(self).sqrt()
    }
    /// Its direction; of what has no length, itself.
    pub fn direction(self) -> Vector {
        let length = self.length();
        if length > 0.0 { self * (1.0 / length) } else { self }
    }
    /// Whether every number of it is one.
    pub fn is_finite(self) -> bool {
        self.x.is_finite() && self.y.is_finite() && self.z.is_finite()
    }
}

impl Add for Vector {
    type Output = Vector;
    fn add(self, other: Vector) -> Vector {
        vector(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}
impl Sub for Vector {
    type Output = Vector;
    fn sub(self, other: Vector) -> Vector {
        vector(self.x - other.x, self.y - other.y, self.z - other.z)
    }
}
impl Mul<f64> for Vector {
    type Output = Vector;
    fn mul(self, factor: f64) -> Vector {
        vector(self.x * factor, self.y * factor, self.z * factor)
    }
}
impl Neg for Vector {
    type Output = Vector;
    fn neg(self) -> Vector {
        self * -1.0
    }
}

/// Three axes at right angles, each of length 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Axes {
    /// The first, from which angles count.
    pub x: Vector,
    /// The second.
    pub y: Vector,
    /// The third, about which they count.
    pub z: Vector,
}

impl Axes {
    /// Those that everything is given along.
    pub const OWN: Axes = Axes { x: vector(1.0, 0.0, 0.0), y: vector(0.0, 1.0, 0.0), z: vector(0.0, 0.0, 1.0) };

    /// What is `place` along these axes, along those they are given in.
    pub fn outward(&self, place: Vector) -> Vector {
        self.x * place.x + self.y * place.y + self.z * place.z
    }
    /// Axes that are given along these, along those that these are given in.
    pub fn carry(&self, axes: &Axes) -> Axes {
        Axes { x: self.outward(axes.x), y: self.outward(axes.y), z: self.outward(axes.z) }
    }
    /// These, turned about the third by an angle in radians.
    pub fn turned(&self, angle: f64) -> Axes {
        let (sine, cosine) = libm::sincos(angle);
        Axes { x: self.x * cosine + self.y * sine, y: self.y * cosine - self.x * sine, z: self.z }
    }
}

/// Where something is and how it moves, in kilometres and kilometres a second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct State {
    /// Where.
    pub position: Vector,
    /// How it moves.
    pub velocity: Vector,
}
impl State {
    /// This, of something whose place is counted from what is there.
    pub fn from(self, origin: State) -> State {
        State { position: self.position + origin.position, velocity: self.velocity + origin.velocity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_lengths_and_directions() {
        let (a, b) = (vector(1.0, 2.0, 2.0), vector(0.0, 3.0, 4.0));
        assert_eq!((a.dot(b), a.length()), (14.0, 3.0));
        assert_eq!(a.cross(b), vector(2.0, -4.0, 3.0));
        assert!((b.direction() - vector(0.0, 0.6, 0.8)).length() < 1e-15);
        assert_eq!(Vector::default().direction(), Vector::default());
        assert!(!vector(0.0, f64::NAN, 0.0).is_finite());
    }

    #[test]
    fn axes_turn_from_the_first_to_the_second() {
        let turned = Axes::OWN.turned(std::f64::consts::FRAC_PI_2);
        assert!((turned.x - Axes::OWN.y).length() < 1e-15 && (turned.y + Axes::OWN.x).length() < 1e-15);
        let carried = turned.carry(&turned);
        assert!((carried.x + Axes::OWN.x).length() < 1e-15, "half a turn");
        assert_eq!(turned.outward(vector(0.0, 0.0, 5.0)), vector(0.0, 0.0, 5.0));
    }
}
