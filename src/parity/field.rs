//! Arithmetic of the field with 65,536 elements that PAR2 uses, and systems of equations in it.

use std::sync::OnceLock;

/// The polynomial that products are reduced by.
const POLYNOMIAL: u32 = 0x1_100b;

/// Number of elements but 0.
const ORDER: u32 = 65_535;

struct Tables {
    /// Powers of 2, twice over.
    power: Vec<u16>,
    log: Vec<u32>,
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let (mut power, mut log) = (vec![0; 2 * ORDER as usize], vec![0; ORDER as usize + 1]);
        let mut element = 1_u32;
        for exponent in 0..ORDER {
            power[exponent as usize] = element as u16;
            power[(exponent + ORDER) as usize] = element as u16;
            log[element as usize] = exponent;
            element = (element << 1) ^ if element & 0x8000 == 0 { 0 } else { POLYNOMIAL };
        }
        Tables { power, log }
    })
}

/// The product of two elements.
pub fn product(a: u16, b: u16) -> u16 {
    if a == 0 || b == 0 {
        return 0;
    }
    let Tables { power, log } = tables();
    power[(log[usize::from(a)] + log[usize::from(b)]) as usize]
}

/// The element by which the product is 1; 0 for 0, which has none.
pub fn inverse(a: u16) -> u16 {
    let Tables { power, log } = tables();
    if a == 0 { 0 } else { power[(ORDER - log[usize::from(a)]) as usize] }
}

/// `base` to the power of `exponent`.
pub fn power(base: u16, exponent: u32) -> u16 {
    let Tables { power, log } = tables();
    let log = u64::from(log[usize::from(base)]) * u64::from(exponent) % u64::from(ORDER);
    power[log as usize]
}

/// The constants of the first slices, in order: powers of 2 whose exponents have no factor of 65,535, so that all their
/// own powers differ.
pub fn constants(slices: usize) -> Vec<u16> {
    let has_no_factor = |n: &u32| [3, 5, 17, 257].iter().all(|factor| !n.is_multiple_of(*factor));
    (1..ORDER).filter(has_no_factor).map(|n| power(2, n)).take(slices).collect()
}

// Systems of equations.

/// How the unknowns follow from equations.
pub struct Solution {
    /// The equations that they follow from, as many as there are unknowns.
    pub equations: Vec<usize>,
    /// For each unknown, what the right sides of these are multiplied by to be added up to it.
    pub factors: Vec<Vec<u16>>,
}

/// An equation that others were subtracted from.
struct Reduced {
    /// The unknown whose factor is 1 here, and 0 in those that came before.
    unknown: usize,
    row: Vec<u16>,
    /// What the right sides are multiplied by in it.
    made_of: Vec<u16>,
}

impl Reduced {
    /// Subtracts another so often that this one has no more of that one's unknown.
    fn subtract(&mut self, other: &Self) {
        let by = self.row[other.unknown];
        if by != 0 {
            let each = |to: &mut Vec<u16>, from: &[u16]| {
                to.iter_mut().zip(from).for_each(|(to, from)| *to ^= product(by, *from));
            };
            each(&mut self.row, &other.row);
            each(&mut self.made_of, &other.made_of);
        }
    }
}

/// Solves equations, each with the factors of all unknowns; `None` if they do not tell all.
pub fn solve(equations: impl Iterator<Item = Vec<u16>>, unknowns: usize) -> Option<Solution> {
    let (mut reduced, mut taken): (Vec<Reduced>, Vec<usize>) = (Vec::new(), Vec::new());
    for (number, row) in equations.enumerate() {
        if taken.len() == unknowns {
            break;
        }
        let mut made_of = vec![0; unknowns];
        made_of[taken.len()] = 1;
        let mut equation = Reduced { unknown: 0, row, made_of };
        reduced.iter().for_each(|other| equation.subtract(other));
        let Some(unknown) = equation.row.iter().position(|it| *it != 0) else { continue };
        let by = inverse(equation.row[unknown]);
        let Reduced { row, made_of, .. } = &mut equation;
        row.iter_mut().chain(made_of).for_each(|it| *it = product(*it, by));
        taken.push(number);
        reduced.push(Reduced { unknown, ..equation });
    }
    let mut factors = vec![Vec::new(); unknowns];
    while let Some(last) = reduced.pop() {
        reduced.iter_mut().for_each(|other| other.subtract(&last));
        factors[last.unknown] = last.made_of;
    }
    (taken.len() == unknowns).then_some(Solution { equations: taken, factors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_field() {
        // Multiplied bit by bit.
        let slow = |a: u16, b: u16| {
            let all = (0..16)
                .filter(|bit| b >> bit & 1 == 1)
                .fold(0, |sum, bit| sum ^ (u32::from(a) << bit));
            (16..32).rev().fold(all, |sum, bit| {
                if sum >> bit & 1 == 1 { sum ^ (POLYNOMIAL << (bit - 16)) } else { sum }
            })
        };
        for a in (1..u16::MAX).step_by(977) {
            for b in (0..u16::MAX).step_by(1009) {
                assert_eq!(u32::from(product(a, b)), slow(a, b));
            }
            assert_eq!(product(a, inverse(a)), 1);
            assert_eq!((power(a, 0), power(a, 3)), (1, product(a, product(a, a))));
        }
        // As the specification has them.
        assert_eq!(constants(6), [2, 4, 16, 128, 256, 2048]);
        assert_eq!(constants(40_000).len(), 32_768);
    }

    #[test]
    fn equations_are_solved_by_those_that_tell_most() {
        let unknowns = [5_u16, 77, 60_000];
        let bases = constants(9);
        let rows: Vec<Vec<u16>> = [1, 1, 4, 9]
            .iter()
            .map(|exponent| bases[3..6].iter().map(|base| power(*base, *exponent)).collect())
            .collect();
        let right =
            |row: &Vec<u16>| row.iter().zip(unknowns).fold(0, |sum, (a, b)| sum ^ product(*a, b));
        let Solution { equations, factors } = solve(rows.iter().cloned(), 3).unwrap();
        assert_eq!(equations, [0, 2, 3]);
        for (factors, unknown) in factors.iter().zip(unknowns) {
            let sum = factors
                .iter()
                .zip(&equations)
                .fold(0, |sum, (factor, number)| sum ^ product(*factor, right(&rows[*number])));
            assert_eq!(sum, unknown);
        }
        assert!(solve(rows.into_iter().take(3), 3).is_none());
    }
}
