//! Movement of hosts: legs between places at one speed per way, with pauses between ways. All draws come from one
//! generator, so their order follows the order of hosts and time.

use super::java::Random;
use super::map::{Point, distance};
use super::settings::{Group, Model};

/// Longest leg of a random walk, metres; The ONE's default.
const LONGEST_LEG: f64 = 50.0;

/// Movement of all hosts: positions and mobility models.
pub struct Movers {
    bodies: Vec<Body>,
    minds: Vec<Mind>,
    random: Random,
    area: Point,
}

/// State of a host that every step reads.
#[derive(Clone, Copy, Debug)]
struct Body {
    at: Point,
    /// Present destination, while `going`.
    goal: Point,
    /// Speed on the present way, metres a second.
    speed: f64,
    /// End of the present pause, seconds.
    rests_until: f64,
    going: bool,
}

/// State of a host that is read when it reaches a goal.
#[derive(Clone, Debug)]
struct Mind {
    model: Model,
    speeds: [f64; 2],
    rests: [f64; 2],
    /// Rest of the present way, the next place last; `None` between ways.
    way: Option<Vec<Point>>,
    /// On a map: the place where the last way ended.
    place: u32,
}

impl Movers {
    /// Makes an empty world of `area` metres.
    pub fn new(seed: i64, area: Point) -> Movers {
        Movers { bodies: Vec::new(), minds: Vec::new(), random: Random::new(seed), area }
    }
    /// Number of hosts.
    pub fn len(&self) -> usize {
        self.bodies.len()
    }
    /// Position of a host.
    pub fn at(&self, host: u32) -> Point {
        self.bodies[host as usize].at
    }
    /// Upper bound of all speeds, metres a second.
    pub fn fastest(&self) -> f64 {
        let moving = self.minds.iter().filter(|mind| !matches!(mind.model, Model::Stationary(_)));
        moving.map(|mind| mind.speeds[1]).fold(0.0, f64::max)
    }

    /// Adds a host of this group at its starting position; its first pause begins at `now`.
    pub fn add(&mut self, group: &Group, now: f64) {
        let (area, random) = (self.area, &mut self.random);
        let mut place = 0;
        let at = match &group.model {
            Model::Waypoint | Model::Walk => [random.unit() * area[0], random.unit() * area[1]],
            Model::Stationary(at) => *at,
            Model::Map(town) => {
                // The order of these draws is The ONE's and must not change.
                let along = random.unit();
                place = random.below(town.places.len() as i32) as u32;
                let next = &town.next[place as usize];
                let from = town.places[place as usize];
                // A place has no neighbours if its line in the map file is a single point.
                let to =
                    next.get(random.below(next.len() as i32) as usize).map_or(from, |&to| town.places[to as usize]);
                [from[0] + along * (to[0] - from[0]), from[1] + along * (to[1] - from[1])]
            }
        };
        let body = Body { at, goal: at, speed: 1.0, rests_until: now, going: false };
        self.bodies.push(body);
        let (model, speeds, rests) = (group.model.clone(), group.speed, group.wait);
        self.minds.push(Mind { model, speeds, rests, way: None, place });
        self.rest(self.bodies.len() - 1, now);
    }

    fn rest(&mut self, host: usize, now: f64) {
        let mind = &self.minds[host];
        self.bodies[host].rests_until = match mind.model {
            Model::Stationary(_) => f64::INFINITY,
            _ => now + self.random.between(mind.rests),
        };
    }

    /// Moves all hosts, in order, for `seconds` from time `now`.
    pub fn advance(&mut self, seconds: f64, now: f64) {
        for host in 0..self.bodies.len() {
            let body = &mut self.bodies[host];
            if now < body.rests_until {
                continue;
            }
            let (left, far) = (seconds * body.speed, distance(body.at, body.goal));
            if body.going && left < far {
                body.go(left / far);
            } else {
                self.turn(host, seconds, now);
            }
        }
    }

    fn turn(&mut self, host: usize, seconds: f64, now: f64) {
        // The host reaches its goal in this step, or has none.
        if !self.bodies[host].going && !self.next_goal(host, now) {
            return;
        }
        let mut left = seconds * self.bodies[host].speed;
        loop {
            let body = &mut self.bodies[host];
            let far = distance(body.at, body.goal);
            if left < far {
                body.go(left / far);
                return;
            }
            body.at = body.goal;
            // The distance left over carries on along the next leg, as in The ONE.
            left -= far;
            if !self.next_goal(host, now) {
                return;
            }
        }
    }

    fn next_goal(&mut self, host: usize, now: f64) -> bool {
        // Returns false at the end of a way, when the pause begins.
        if self.minds[host].way.is_none() {
            self.new_way(host);
        }
        let goal = self.minds[host].way.as_mut().and_then(Vec::pop);
        self.bodies[host].going = goal.is_some();
        match goal {
            Some(goal) => self.bodies[host].goal = goal,
            None => {
                self.minds[host].way = None;
                self.rest(host, now);
            }
        }
        goal.is_some()
    }

    fn new_way(&mut self, host: usize) {
        let (mind, body, random, area) = (&mut self.minds[host], &mut self.bodies[host], &mut self.random, self.area);
        body.speed = random.between(mind.speeds);
        let way = match &mind.model {
            Model::Stationary(_) => Vec::new(),
            Model::Waypoint => {
                let goal = [random.unit() * area[0], random.unit() * area[1]];
                // Ways of The ONE begin with the present position: a first leg of length zero.
                vec![goal, body.at]
            }
            Model::Walk => vec![walk(body.at, area, random), body.at],
            Model::Map(town) => {
                // One draw selects a group of points of interest; none are supported, but the draw must happen.
                random.unit();
                let to = random.below(town.places.len() as i32) as u32;
                let way = town.way(mind.place, to);
                mind.place = to;
                way.iter().rev().map(|&place| town.places[place as usize]).collect()
            }
        };
        mind.way = Some(way);
    }
}

impl Body {
    fn go(&mut self, part: f64) {
        let [x, y] = self.at;
        self.at = [x + part * (self.goal[0] - x), y + part * (self.goal[1] - y)];
    }
}

fn walk(from: Point, area: Point, random: &mut Random) -> Point {
    // Each redraw consumes random numbers, as in The ONE: clipping the leg would change all later draws.
    loop {
        let angle = random.unit() * 2.0 * std::f64::consts::PI;
        let far = random.unit() * LONGEST_LEG;
        let [x, y] = [from[0] + far * angle.cos(), from[1] + far * angle.sin()];
        if x > 0.0 && y > 0.0 && x < area[0] && y < area[1] {
            return [x, y];
        }
    }
}
