//! The tests of The ONE's world, in one program: it is linked once.

mod reports;
