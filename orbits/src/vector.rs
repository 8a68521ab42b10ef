//! Vectors in three dimensions.

use std::ops::{Add, Mul, Neg, Sub};

/// A vector in km, in km/s, or a unit vector, depending on its use.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Vector {
    /// Component along the first axis.
    pub x: f64,
    /// Component along the second axis.
    pub y: f64,
    /// Component along the third axis.
    pub z: f64,
}

/// Shorthand constructor of a vector.
pub const fn vector(x: f64, y: f64, z: f64) -> Vector {
    Vector { x, y, z }
}

impl Vector {
    /// Scalar product with another vector.
    pub fn dot(self, other: Vector) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }
    /// Vector product with another vector.
    pub fn cross(self, other: Vector) -> Vector {
        vector(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )
    }
    /// Euclidean length of the vector.
    pub fn length(self) -> f64 {
        self.dot(self).sqrt()
    }
    /// Unit vector of the same direction; the zero vector stays zero.
    pub fn direction(self) -> Vector {
        let length = self.length();
        if length > 0.0 { self * (1.0 / length) } else { self }
    }
    /// Whether all components are finite.
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

/// Three orthonormal axes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Axes {
    /// First axis, from which angles are measured.
    pub x: Vector,
    /// Second axis, 90 degrees ahead of the first.
    pub y: Vector,
    /// Third axis, about which angles are measured.
    pub z: Vector,
}

impl Axes {
    /// The axes of the reference frame itself.
    pub const OWN: Axes = Axes { x: vector(1.0, 0.0, 0.0), y: vector(0.0, 1.0, 0.0), z: vector(0.0, 0.0, 1.0) };

    /// Converts a vector given in these axes to the frame in which the axes themselves are given.
    pub fn outward(&self, place: Vector) -> Vector {
        self.x * place.x + self.y * place.y + self.z * place.z
    }
    /// Converts axes given in these axes to the frame in which these axes are given.
    pub fn carry(&self, axes: &Axes) -> Axes {
        Axes { x: self.outward(axes.x), y: self.outward(axes.y), z: self.outward(axes.z) }
    }
    /// Rotates the axes about the third by an angle in radians.
    pub fn turned(&self, angle: f64) -> Axes {
        let (sine, cosine) = libm::sincos(angle);
        Axes { x: self.x * cosine + self.y * sine, y: self.y * cosine - self.x * sine, z: self.z }
    }
}

/// Position and velocity of an object, in km and km/s.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StateVector {
    /// Position in kilometres.
    pub position: Vector,
    /// Velocity in km/s.
    pub velocity: Vector,
}
impl StateVector {
    /// Adds the state of the origin, to which this state is relative.
    pub fn from(self, origin: StateVector) -> StateVector {
        StateVector { position: self.position + origin.position, velocity: self.velocity + origin.velocity }
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
    fn axes_turn_from_first_to_second() {
        let turned = Axes::OWN.turned(std::f64::consts::FRAC_PI_2);
        assert!((turned.x - Axes::OWN.y).length() < 1e-15 && (turned.y + Axes::OWN.x).length() < 1e-15);
        let carried = turned.carry(&turned);
        assert!((carried.x + Axes::OWN.x).length() < 1e-15, "half a turn");
        assert_eq!(turned.outward(vector(0.0, 0.0, 5.0)), vector(0.0, 0.0, 5.0));
    }
}
