//! Movement of a group: model, streets, routes, points of interest, active times.

use super::mistake::Mistake;
use super::setup::{Active, Model, Setup, Streets, not_covered, parts};
use super::values::{Value, Values};
use crate::map::{Allowed, Point, Town};
use crate::wkt::{self, ShapeKind};
use std::path::PathBuf;
use std::sync::Arc;

/// Largest coordinate, metres.
const FARTHEST: f64 = 1e9;
/// Largest file of a map, of routes, or of points of interest, bytes.
const LONGEST_MAP: u64 = 256 << 20;

/// Model names that are reproduced, for hints.
const MODELS: &str = "exact are RandomWaypoint, RandomWalk, ClusterMovement, StationaryMovement, MapBasedMovement, \
    ShortestPathMapBasedMovement and MapRouteMovement";

impl Setup {
    // The map is read once and shared by all groups.
    pub(super) fn model(
        &mut self,
        values: &Values,
        spaces: &[&str],
        name: &Value,
        town: &mut Option<Arc<Town>>,
    ) -> Result<Model, Mistake> {
        let get = |key: &str| values.find(spaces, key);
        match name.text.as_str() {
            "RandomWaypoint" => Ok(Model::Waypoint),
            "RandomWalk" => Ok(Model::Walk),
            "StationaryMovement" => Ok(Model::Stationary(place(&values.need(spaces, "nodeLocation")?)?)),
            "ClusterMovement" => {
                let centre = get("clusterCenter").map_or(Ok([100.0; 2]), |value| place(&value))?;
                Ok(Model::Cluster { centre, range: get("clusterRange").map_or(Ok(100.0), |value| value.positive())? })
            }
            "MapBasedMovement" => Ok(Model::Wander(self.streets(values, spaces, town)?)),
            "ShortestPathMapBasedMovement" => {
                let streets = self.streets(values, spaces, town)?;
                let pois = get("pois").map_or(Ok(Vec::new()), |pois| interests(values, &streets, &pois))?;
                Ok(Model::Map { streets, pois: Arc::new(pois) })
            }
            "MapRouteMovement" => {
                let streets = self.streets(values, spaces, town)?;
                let kind = values.need(spaces, "routeType")?;
                let circular = match kind.whole()? {
                    1 => true,
                    2 => false,
                    _ => return Err(kind.wrong("no kind of route", "write 1 (circular) or 2 (to and fro)")),
                };
                let first = get("routeFirstStop").map(|value| Ok((value.whole()?, value))).transpose()?;
                // A negative number is random, too.
                let first = first.filter(|(stop, _)| *stop >= 0);
                let routes = stops(values, &streets, &values.need(spaces, "routeFile")?, first.as_ref())?;
                Ok(Model::Route { streets, routes: Arc::new(routes), circular, first: first.map(|(stop, _)| stop) })
            }
            _ => Err(not_covered(name, MODELS)),
        }
    }

    fn streets(&mut self, values: &Values, spaces: &[&str], town: &mut Option<Arc<Town>>) -> Result<Streets, Mistake> {
        let read = match town.take() {
            Some(read) => read,
            None => Arc::new(self.map(values)?),
        };
        *town = Some(Arc::clone(&read));
        let Some(maps) = values.find(spaces, "okMaps") else {
            return Ok(Streets { town: read, allowed: Allowed::ALL });
        };
        let mut files = Vec::new();
        for number in maps.wholes()? {
            if !(1..=Allowed::LAST.min(self.maps.len() as i32)).contains(&number) {
                let what = format!("there is no map file {number}");
                return Err(maps.wrong(what, format!("write numbers of mapFileK, 1 to {}", self.maps.len())));
            }
            files.push(number as u32);
        }
        let allowed = Allowed::of(files);
        if !(0..read.places.len() as u32).any(|place| read.is_allowed(place, allowed)) {
            return Err(maps.wrong("map files without streets", "name others"));
        }
        Ok(Streets { town: read, allowed })
    }

    fn map(&mut self, values: &Values) -> Result<Town, Mistake> {
        let files = values.need(&["MapBasedMovement"], "nrofMapFiles")?;
        let mut texts = Vec::new();
        for number in 1..=parts(&files)? {
            let (file, text) = text(values, &values.need(&["MapBasedMovement"], &format!("mapFile{number}"))?)?;
            self.maps.push(file.clone());
            texts.push((file, text));
        }
        Town::read(&texts, self.area)
    }
}

/// Times at which a group moves.
pub(super) fn active(values: &Values, spaces: &[&str]) -> Result<Active, Mistake> {
    if let Some(times) = values.find(spaces, "activeTimes") {
        let numbers = times.numbers()?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        if !rest.is_empty() || pairs.iter().any(|[begin, end]| begin > end) {
            return Err(times.wrong("not pairs of begin and end", "write seconds: begin, end, begin, end"));
        }
        return Ok(Active::Times(pairs.to_vec()));
    }
    let Some(periods) = values.find(spaces, "activePeriods") else { return Ok(Active::Always) };
    let [on, off] = periods.wholes()?[..] else {
        return Err(periods.wrong("not two numbers", "write seconds of activity and of pause"));
    };
    if on < 0 || off < 0 || on.checked_add(off).is_none_or(|both| both < 1) {
        return Err(periods.wrong("no time passes", "write seconds of activity and of pause, from 0"));
    }
    let offset = values.find(spaces, "activePeriodsOffset").map_or(Ok(0), |value| value.whole())?;
    Ok(Active::Periods { on, off, offset })
}

fn place(value: &Value) -> Result<Point, Mistake> {
    let at = value.pair()?;
    if at.iter().any(|length| length.abs() > FARTHEST || length.fract() != 0.0) {
        return Err(value.wrong("no place", format!("write two whole numbers of metres, up to {FARTHEST}")));
    }
    Ok(at)
}

fn text(values: &Values, named: &Value) -> Result<(PathBuf, String), Mistake> {
    let (file, bytes) = values.file(named, LONGEST_MAP)?;
    Ok((file, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Groups of points of interest with their probabilities: `pois = file, probability, file, probability`.
fn interests(values: &Values, streets: &Streets, pois: &Value) -> Result<Vec<(f64, Vec<u32>)>, Mistake> {
    let numbers = pois.numbers()?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    let sum: f64 = pairs.iter().map(|[_, probability]| probability).sum();
    if !rest.is_empty() || pairs.iter().any(|[_, probability]| *probability < 0.0) || sum > 1.0 {
        let hint = "write pairs of a number of poiFileK and a probability, together at most 1";
        return Err(pois.wrong("no probabilities", hint));
    }
    let mut groups = Vec::new();
    for (number, [file, probability]) in pairs.iter().enumerate() {
        if pairs[..number].iter().any(|[other, _]| *other as i64 == *file as i64) {
            return Err(pois.wrong("a file a second time", "name each file once"));
        }
        let named = values.need(&["PointsOfInterest"], &format!("poiFile{}", *file as i64))?;
        let (file, text) = text(values, &named)?;
        let mut places = Vec::new();
        for shape in wkt::shapes(&file, &text)?.iter().filter(|shape| shape.kind == ShapeKind::Point) {
            let place = shape.lines.iter().flatten().find_map(|&at| streets.town.place_at(at));
            match place.filter(|&place| streets.town.is_allowed(place, streets.allowed)) {
                Some(place) => places.push(place),
                None => return Err(off_the_map(&file, shape.line)),
            }
        }
        if places.is_empty() {
            return Err(named.wrong("no points of interest", "name a file with POINT (X Y) lines"));
        }
        groups.push((*probability, places));
    }
    Ok(groups)
}

/// Stops of the routes of a file.
fn stops(
    values: &Values,
    streets: &Streets,
    named: &Value,
    first: Option<&(i32, Value)>,
) -> Result<Vec<Vec<u32>>, Mistake> {
    let (file, text) = text(values, named)?;
    let mut routes = Vec::new();
    for shape in wkt::shapes(&file, &text)?.iter().filter(|shape| shape.kind == ShapeKind::Line) {
        let places = shape.lines[0].iter().map(|&at| streets.town.place_at(at));
        let route: Vec<u32> = places.collect::<Option<_>>().ok_or_else(|| off_the_map(&file, shape.line))?;
        match first {
            Some((first, value)) if *first as usize >= route.len() => {
                return Err(value.wrong(format!("a route has {} stops", route.len()), "write a smaller number, from 0"));
            }
            None if route.len() < 2 => {
                return Err(Mistake::at(&file, shape.line, "a route of one stop", "write two or more"));
            }
            _ => routes.push(route),
        }
    }
    if routes.is_empty() { Err(named.wrong("no routes", "name a file with LINESTRING lines")) } else { Ok(routes) }
}

fn off_the_map(file: &std::path::Path, line: usize) -> Mistake {
    Mistake::at(file, line, "a point that is no corner of the group's streets", "write points of the map files")
}
