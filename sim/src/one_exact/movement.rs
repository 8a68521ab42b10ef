//! How hosts move: legs between places, at a speed drawn for a way, with rests between ways. All draw
//! from one generator, so the order of draws is the order of hosts and of time.

use super::java::Random;
use super::map::{Point, distance};
use super::settings::{Group, Model};

/// Longest leg of a random walk, metres.
const LONGEST_LEG: f64 = 50.0;

/// One host that moves.
#[derive(Clone, Debug)]
pub struct Mover {
    model: Model,
    speeds: [f64; 2],
    rests: [f64; 2],
    /// Where it is.
    pub at: Point,
    /// Where it goes; `None` while it rests.
    goal: Option<Point>,
    /// Metres a second, of the present way.
    speed: f64,
    /// Before this it rests, seconds.
    rests_until: f64,
    /// What remains of the present way, the next place last; `None` between ways.
    way: Option<Vec<Point>>,
    /// On a map: where its last way ended.
    place: u32,
    area: Point,
}

impl Mover {
    /// Places a host, at `now`.
    pub fn new(group: &Group, area: Point, random: &mut Random, now: f64) -> Mover {
        let mut place = 0;
        let at = match &group.model {
            Model::Waypoint | Model::Walk => [random.unit() * area[0], random.unit() * area[1]],
            Model::Stationary(at) => *at,
            Model::Map(town) => {
                let along = random.unit();
                place = random.below(town.places.len() as i32) as u32;
                let next = &town.next[place as usize];
                let from = town.places[place as usize];
                // A place by itself: its only line was a point.
                let to = next.get(random.below(next.len() as i32) as usize).map_or(from, |&to| town.places[to as usize]);
                [from[0] + along * (to[0] - from[0]), from[1] + along * (to[1] - from[1])]
            }
        };
        let mut mover = Mover {
            model: group.model.clone(),
            speeds: group.speed,
            rests: group.wait,
            at,
            goal: None,
            speed: 1.0,
            rests_until: now,
            way: None,
            place,
            area,
        };
        mover.rest(random, now);
        mover
    }

    /// Metres a second, at most.
    pub fn fastest(&self) -> f64 {
        if matches!(self.model, Model::Stationary(_)) { 0.0 } else { self.speeds[1] }
    }

    fn rest(&mut self, random: &mut Random, now: f64) {
        self.rests_until = match self.model {
            Model::Stationary(_) => f64::INFINITY,
            _ => now + random.between(self.rests),
        };
    }

    /// Moves for `seconds`; `now` is when that begins.
    #[inline]
    pub fn advance(&mut self, seconds: f64, now: f64, random: &mut Random) {
        if now < self.rests_until {
            return;
        }
        let mut goal = match self.goal {
            Some(goal) => goal,
            None => match self.next_goal(random, now) {
                Some(goal) => goal,
                None => return,
            },
        };
        let mut left = seconds * self.speed;
        let mut far = distance(self.at, goal);
        while left >= far {
            self.at = goal;
            left -= far;
            match self.next_goal(random, now) {
                Some(next) => goal = next,
                None => return,
            }
            far = distance(self.at, goal);
        }
        let part = left / far;
        self.at = [self.at[0] + part * (goal[0] - self.at[0]), self.at[1] + part * (goal[1] - self.at[1])];
    }

    /// The next place of the way, a new one where there is none; `None`: the way ends, and a rest begins.
    fn next_goal(&mut self, random: &mut Random, now: f64) -> Option<Point> {
        if self.way.is_none() {
            self.new_way(random);
        }
        self.goal = self.way.as_mut().and_then(Vec::pop);
        if self.goal.is_none() {
            self.way = None;
            self.rest(random, now);
        }
        self.goal
    }

    fn new_way(&mut self, random: &mut Random) {
        self.speed = random.between(self.speeds);
        let way = match &self.model {
            Model::Stationary(_) => Vec::new(),
            Model::Waypoint => {
                let goal = [random.unit() * self.area[0], random.unit() * self.area[1]];
                vec![goal, self.at]
            }
            Model::Walk => vec![self.walk(random), self.at],
            Model::Map(town) => {
                // One draw picks a group of points of interest, of which there are none.
                random.unit();
                let to = random.below(town.places.len() as i32) as u32;
                let way = town.way(self.place, to);
                self.place = to;
                way.iter().rev().map(|&place| town.places[place as usize]).collect()
            }
        };
        self.way = Some(way);
    }

    fn walk(&self, random: &mut Random) -> Point {
        loop {
            let angle = random.unit() * 2.0 * std::f64::consts::PI;
            let far = random.unit() * LONGEST_LEG;
            let [x, y] = [self.at[0] + far * angle.cos(), self.at[1] + far * angle.sin()];
            if x > 0.0 && y > 0.0 && x < self.area[0] && y < self.area[1] {
                return [x, y];
            }
        }
    }
}
