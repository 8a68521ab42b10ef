//! Movement of hosts: legs between places at one speed per way, with pauses between ways. All draws come from one
//! generator, so their order follows the order of hosts and time.

use super::java::{Random, round};
use super::map::{Point, distance};
use super::settings::{Active, Group, Model, Streets};

/// Longest leg of a random walk, metres; The ONE's default.
const LONGEST_LEG: f64 = 50.0;

/// Movement of all hosts: positions and mobility models.
pub struct Movers {
    bodies: Vec<Body>,
    minds: Vec<Mind>,
    /// Active times of the groups that have some; the hosts of a group share one state, as in The ONE.
    hours: Vec<Hours>,
    random: Random,
    area: Point,
}

/// Active times of a group, and how many of them are over.
struct Hours {
    active: Active,
    over: usize,
}

impl Hours {
    fn is_active(&mut self, now: f64) -> bool {
        match &self.active {
            Active::Always => true,
            Active::Periods { on, off, offset } => {
                (round(now) as i32).wrapping_add(*offset) % on.wrapping_add(*off) <= *on
            }
            Active::Times(times) => {
                // Each question passes over one time at most, even if several are over.
                if times.get(self.over).is_some_and(|[_, end]| now > *end) {
                    self.over += 1;
                }
                times.get(self.over).is_some_and(|[begin, end]| (*begin..=*end).contains(&now))
            }
        }
    }
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
    stops: Stops,
    /// Index in [`Movers::hours`].
    hours: Option<usize>,
}

/// Position of a host on its route.
#[derive(Clone, Copy, Debug, Default)]
struct Stops {
    route: usize,
    next: i32,
    back: bool,
}

impl Stops {
    /// The next stop of a route. A host that goes to and fro stops twice at the last one, as in The ONE.
    fn next(&mut self, routes: &[Vec<u32>], circular: bool) -> u32 {
        let stops = &routes[self.route];
        let stop = stops[self.next as usize];
        self.next += if self.back { -1 } else { 1 };
        if self.next < 0 {
            (self.back, self.next) = (false, 1);
        }
        let last = stops.len() as i32 - 1;
        if self.next > last {
            (self.back, self.next) = if circular { (self.back, 0) } else { (true, last) };
        }
        stop
    }
}

impl Movers {
    /// Makes an empty world of `area` metres.
    pub fn new(seed: i64, area: Point) -> Movers {
        Movers { bodies: Vec::new(), minds: Vec::new(), hours: Vec::new(), random: Random::new(seed), area }
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

    /// Adds the hosts of a group at their starting positions; their first pauses begin at `now`.
    pub fn add(&mut self, group: &Group, now: f64) {
        let hours = (group.active != Active::Always).then_some(self.hours.len());
        if hours.is_some() {
            self.hours.push(Hours { active: group.active.clone(), over: 0 });
        }
        for number in 0..group.hosts as usize {
            self.add_host(group, number, hours, now);
        }
    }

    fn add_host(&mut self, group: &Group, number: usize, hours: Option<usize>, now: f64) {
        let (area, random) = (self.area, &mut self.random);
        let (mut place, mut stops) = (0, Stops::default());
        // The order of these draws is The ONE's and must not change.
        let at = match &group.model {
            Model::Stationary(at) => *at,
            Model::Waypoint | Model::Walk | Model::Cluster { .. } => anywhere(&group.model, area, random),
            Model::Map { streets, .. } | Model::Wander(streets) => {
                let along = random.unit();
                place = streets.draw(random);
                let next = &streets.town.next[place as usize];
                let from = streets.town.places[place as usize];
                // A place has no neighbours if its line in the map file is a single point.
                let to = next
                    .get(random.below(next.len() as i32) as usize)
                    .map_or(from, |&to| streets.town.places[to as usize]);
                [from[0] + along * (to[0] - from[0]), from[1] + along * (to[1] - from[1])]
            }
            Model::Route { streets, routes, circular, first } => {
                stops.route = number % routes.len();
                stops.next = first.unwrap_or_else(|| random.below(routes[stops.route].len() as i32 - 1));
                place = stops.next(routes, *circular);
                streets.town.places[place as usize]
            }
        };
        let body = Body { at, goal: at, speed: 1.0, rests_until: now, going: false };
        self.bodies.push(body);
        let (model, speeds, rests) = (group.model.clone(), group.speed, group.wait);
        self.minds.push(Mind { model, speeds, rests, way: None, place, stops, hours });
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
            if !self.hours.is_empty() && !self.is_active(host, now) {
                continue;
            }
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

    fn is_active(&mut self, host: usize, now: f64) -> bool {
        self.minds[host].hours.is_none_or(|hours| self.hours[hours].is_active(now))
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
            // Ways of The ONE begin with the present position: a first leg of length zero.
            Model::Waypoint | Model::Cluster { .. } => vec![anywhere(&mind.model, area, random), body.at],
            Model::Walk => vec![walk(body.at, area, random), body.at],
            Model::Wander(streets) => {
                let way = wander(streets, mind.place, random);
                mind.place = way[0];
                way.iter().map(|&place| streets.town.places[place as usize]).collect()
            }
            Model::Map { streets, pois } => {
                let to = destination(streets, pois, random);
                streets.way(std::mem::replace(&mut mind.place, to), to)
            }
            Model::Route { streets, routes, circular, .. } => {
                let to = mind.stops.next(routes, *circular);
                streets.way(std::mem::replace(&mut mind.place, to), to)
            }
        };
        mind.way = Some(way);
    }
}

impl Streets {
    fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let place = random.below(self.town.places.len() as i32) as u32;
            if self.town.is_allowed(place, self.allowed) {
                return place;
            }
        }
    }
    /// Positions on the shortest way, the last one first.
    fn way(&self, from: u32, to: u32) -> Vec<Point> {
        let way = self.town.way(from, to, self.allowed);
        way.iter().rev().map(|&place| self.town.places[place as usize]).collect()
    }
}

/// Destination on a map: a point of interest, each group of them with its probability, or any place.
fn destination(streets: &Streets, pois: &[(f64, Vec<u32>)], random: &mut Random) -> u32 {
    let drawn = random.unit();
    let mut sum = 0.0;
    for (probability, places) in pois {
        sum += probability;
        if sum > drawn {
            return places[random.below(places.len() as i32) as usize];
        }
    }
    streets.draw(random)
}

/// Way of 10 to 99 legs that turns back only where nothing else is allowed, the last place first.
fn wander(streets: &Streets, from: u32, random: &mut Random) -> Vec<u32> {
    let (mut before, mut here) = (from, from);
    let mut way = vec![from];
    for _ in 0..10 + random.below(90) {
        let next = streets.town.next[here as usize].iter().copied();
        let ahead: Vec<u32> =
            next.filter(|&next| next != before && streets.town.is_allowed(next, streets.allowed)).collect();
        let next = if ahead.is_empty() { before } else { ahead[random.below(ahead.len() as i32) as usize] };
        (before, here) = (here, next);
        way.push(next);
    }
    way.reverse();
    way
}

/// Random point of the world, or of a cluster.
fn anywhere(model: &Model, area: Point, random: &mut Random) -> Point {
    let &Model::Cluster { centre, range } = model else {
        return [random.unit() * area[0], random.unit() * area[1]];
    };
    loop {
        let [x, y] = [(random.unit() * 2.0 - 1.0) * range, (random.unit() * 2.0 - 1.0) * range];
        if x * x + y * y <= range * range {
            return [x + centre[0], y + centre[1]];
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_repeats_its_last_stop() {
        let stops = |circular: bool| {
            let mut stops = Stops::default();
            (0..8).map(|_| stops.next(&[vec![5, 6, 7]], circular)).collect::<Vec<_>>()
        };
        assert_eq!(stops(true), [5, 6, 7, 5, 6, 7, 5, 6]);
        assert_eq!(stops(false), [5, 6, 7, 7, 6, 5, 6, 7]);
    }

    #[test]
    fn hosts_of_a_group_share_active_times() {
        // Two short times are over at once: the first host that asks passes over one of them, the second over the next.
        let mut hours = Hours { active: Active::Times(vec![[0.0, 1.0], [1.2, 1.3], [1.5, 4.0]]), over: 0 };
        assert!(hours.is_active(0.5));
        assert_eq!([hours.is_active(2.0), hours.is_active(2.0)], [false, true]);
        assert!(!hours.is_active(5.0));
        let mut hours = Hours { active: Active::Periods { on: 3, off: 2, offset: 1 }, over: 0 };
        let told: Vec<bool> = (0..6).map(|second| hours.is_active(f64::from(second))).collect();
        assert_eq!(told, [true, true, true, false, true, true]);
    }

    #[test]
    fn cluster_points_stay_in_range() {
        let model = Model::Cluster { centre: [300.0, 200.0], range: 40.0 };
        let mut random = Random::new(3);
        for _ in 0..200 {
            let point = anywhere(&model, [1.0, 1.0], &mut random);
            assert!(distance(point, [300.0, 200.0]) <= 40.0, "{point:?}");
        }
    }
}
