//! The Sun, the planets and the Moon: size, gravity, rotation and motion.
//!
//! Sizes, poles and rotation: IAU Working Group on Cartographic Coordinates and Rotational Elements (Archinal et al.
//! 2011). Gravitational parameters: JPL DE430. Motion: see [`BODIES`] and `moon.rs`.

/// Kilometres in an astronomical unit (IAU 2012).
pub const UNIT_KM: f64 = 149_597_870.7;

/// Elements in the ecliptic of J2000 and their change per century: semi-major axis (astronomical units), eccentricity,
/// inclination, mean longitude, longitude of the perihelion, longitude of the ascending node (degrees).
pub type PlanetRow = [[f64; 2]; 6];

/// Motion of a body relative to its parent.
pub enum Path {
    /// At rest, at the origin.
    Still,
    /// On an ellipse that drifts.
    Planet(PlanetRow),
    /// On the Moon's orbit, see `moon.rs`.
    Moon,
    /// Around the common centre of body and moon, which moves on this ellipse.
    WithMoon(PlanetRow),
}

/// Rotation: right ascension and declination of the north pole, each with its change per century (degrees of J2000),
/// the angle of the prime meridian at J2000 (degrees), and the rotation in degrees a day.
pub type SpinRow = [f64; 6];

/// One row of the table of bodies.
pub struct BodyRow {
    /// Name as written in files.
    pub name: &'static str,
    /// Name of the parent body.
    pub around: Option<&'static str>,
    /// Equatorial radius in kilometres.
    pub radius_km: f64,
    /// Flattening of the ellipsoid: 1 - polar radius / equatorial radius.
    pub flattening: f64,
    /// Gravitational parameter in km³/s².
    pub gm: f64,
    /// Second zonal harmonic of the gravity field (J2), without a unit.
    pub j2: f64,
    /// Motion relative to the parent.
    pub path: Path,
    /// Rotation; `None` for a body without ground, and for the Earth, which rotates by sidereal time.
    pub spin: Option<SpinRow>,
}

/// All named bodies. Elements of planets: E. M. Standish, "Keplerian Elements for Approximate Positions of the Major
/// Planets" (JPL), table 1, for 1800 to 2050: accurate to 20 seconds of arc for Mercury, Venus and the Earth, 40 for
/// Mars, 400 for Jupiter and 600 for Saturn.
pub const BODIES: [BodyRow; 10] = [
    BodyRow {
        name: "sun",
        around: None,
        radius_km: 696_000.0,
        flattening: 0.0,
        gm: 132_712_440_041.9,
        j2: 0.0,
        path: Path::Still,
        spin: None,
    },
    BodyRow {
        name: "mercury",
        around: Some("sun"),
        radius_km: 2439.7,
        flattening: 0.0,
        gm: 22_031.78,
        j2: 5.03e-5,
        path: Path::Planet([
            [0.387_099_27, 0.000_000_37],
            [0.205_635_93, 0.000_019_06],
            [7.004_979_02, -0.005_947_49],
            [252.250_323_50, 149_472.674_111_75],
            [77.457_796_28, 0.160_476_89],
            [48.330_765_93, -0.125_340_81],
        ]),
        spin: Some([281.0097, -0.0328, 61.4143, -0.0049, 329.5469, 6.138_502_5]),
    },
    BodyRow {
        name: "venus",
        around: Some("sun"),
        radius_km: 6051.8,
        flattening: 0.0,
        gm: 324_858.592,
        j2: 4.46e-6,
        path: Path::Planet([
            [0.723_335_66, 0.000_003_90],
            [0.006_776_72, -0.000_041_07],
            [3.394_676_05, -0.000_788_90],
            [181.979_099_50, 58_517.815_387_29],
            [131.602_467_18, 0.002_683_29],
            [76.679_842_55, -0.277_694_18],
        ]),
        spin: Some([272.76, 0.0, 67.16, 0.0, 160.20, -1.481_368_8]),
    },
    BodyRow {
        name: "earth",
        around: Some("sun"),
        radius_km: 6378.137,
        flattening: 1.0 / 298.257_223_563,
        gm: 398_600.441_8,
        j2: 1.082_626_68e-3,
        path: Path::WithMoon([
            [1.000_002_61, 0.000_005_62],
            [0.016_711_23, -0.000_043_92],
            [-0.000_015_31, -0.012_946_68],
            [100.464_571_66, 35_999.372_449_81],
            [102.937_681_93, 0.323_273_64],
            [0.0, 0.0],
        ]),
        spin: None,
    },
    BodyRow {
        name: "moon",
        around: Some("earth"),
        radius_km: 1737.4,
        flattening: 0.0,
        gm: 4902.8,
        j2: 2.0322e-4,
        path: Path::Moon,
        spin: Some([269.9949, 0.0031, 66.5392, 0.0130, 38.3213, 13.176_358_15]),
    },
    BodyRow {
        name: "mars",
        around: Some("sun"),
        radius_km: 3396.19,
        flattening: 0.005_886,
        gm: 42_828.373_6,
        j2: 1.960_45e-3,
        path: Path::Planet([
            [1.523_710_34, 0.000_018_47],
            [0.093_394_10, 0.000_078_82],
            [1.849_691_42, -0.008_131_31],
            [-4.553_432_05, 19_140.302_684_99],
            [-23.943_629_59, 0.444_410_88],
            [49.559_538_91, -0.292_573_43],
        ]),
        spin: Some([317.681_43, -0.1061, 52.8865, -0.0609, 176.630, 350.891_982_26]),
    },
    BodyRow {
        name: "jupiter",
        around: Some("sun"),
        radius_km: 71_492.0,
        flattening: 0.064_87,
        gm: 126_686_534.0,
        j2: 1.4736e-2,
        path: Path::Planet([
            [5.202_887_00, -0.000_116_07],
            [0.048_386_24, -0.000_132_53],
            [1.304_396_95, -0.001_837_14],
            [34.396_440_51, 3_034.746_127_75],
            [14.728_479_83, 0.212_526_68],
            [100.473_909_09, 0.204_691_06],
        ]),
        spin: Some([268.056_595, -0.006_499, 64.495_303, 0.002_413, 284.95, 870.536]),
    },
    BodyRow {
        name: "saturn",
        around: Some("sun"),
        radius_km: 60_268.0,
        flattening: 0.097_96,
        gm: 37_931_207.7,
        j2: 1.6298e-2,
        path: Path::Planet([
            [9.536_675_94, -0.001_250_60],
            [0.053_861_79, -0.000_509_91],
            [2.485_991_87, 0.001_936_09],
            [49.954_244_23, 1_222.493_622_01],
            [92.598_878_31, -0.418_972_16],
            [113.662_424_48, -0.288_677_94],
        ]),
        spin: Some([40.589, -0.036, 83.537, -0.004, 38.90, 810.793_902_4]),
    },
    BodyRow {
        name: "uranus",
        around: Some("sun"),
        radius_km: 25_559.0,
        flattening: 0.022_93,
        gm: 5_793_951.3,
        j2: 3.343e-3,
        path: Path::Planet([
            [19.189_164_64, -0.001_961_76],
            [0.047_257_44, -0.000_043_97],
            [0.772_637_83, -0.002_429_39],
            [313.238_104_51, 428.482_027_85],
            [170.954_276_30, 0.408_052_81],
            [74.016_925_03, 0.042_405_89],
        ]),
        spin: Some([257.311, 0.0, -15.175, 0.0, 203.81, -501.160_092_8]),
    },
    BodyRow {
        name: "neptune",
        around: Some("sun"),
        radius_km: 24_764.0,
        flattening: 0.017_08,
        gm: 6_835_099.5,
        j2: 3.411e-3,
        path: Path::Planet([
            [30.069_922_76, 0.000_262_91],
            [0.008_590_48, 0.000_051_05],
            [1.770_043_47, 0.000_353_72],
            [-55.120_029_69, 218.459_453_25],
            [44.964_762_27, -0.322_414_64],
            [131.784_225_74, -0.005_086_64],
        ]),
        spin: Some([299.36, 0.0, 43.46, 0.0, 253.18, 536.312_849_2]),
    },
];

/// Mass of the Moon as a fraction of the mass of Earth and Moon together.
pub const MOON_SHARE: f64 = 0.012_150_58;
