//! A spatial index: positions in square cells at least as wide as anybody is heard, so that only
//! the nine cells around a position have to be searched.

use std::collections::BTreeMap;

use super::Site;

/// Most cells along an axis that wraps around.
const CELLS: f64 = 1e4;

/// Indices of sites by the cell that they are in.
#[derive(Clone, Debug, Default)]
pub(super) struct Near {
    cell_m: [f64; 2],
    /// Number of cells along each axis, if the area wraps around.
    around: Option<[i32; 2]>,
    cells: BTreeMap<[i32; 2], Vec<u32>>,
}

impl Near {
    /// Indexes `sites`, none of which is heard farther than `reach_m`.
    pub(super) fn build(sites: &[Site], reach_m: f64, wrap_m: Option<[f64; 2]>) -> Self {
        let reach_m = reach_m.max(1e-3);
        let count = |size: f64| (size / reach_m).floor().clamp(1.0, CELLS);
        let mut near = Self {
            cell_m: wrap_m.map_or([reach_m; 2], |size| size.map(|size| size / count(size))),
            around: wrap_m.map(|size| size.map(|size| count(size) as i32)),
            cells: BTreeMap::new(),
        };
        for (index, site) in sites.iter().enumerate() {
            near.cells.entry(near.cell(site.at_m)).or_default().push(index as u32);
        }
        near
    }

    fn cell(&self, at_m: [f64; 3]) -> [i32; 2] {
        let raw = [0, 1].map(|axis| (at_m[axis] / self.cell_m[axis]).floor() as i32);
        self.wrapped(raw)
    }

    fn wrapped(&self, cell: [i32; 2]) -> [i32; 2] {
        match self.around {
            Some(count) => [0, 1].map(|axis| cell[axis].rem_euclid(count[axis])),
            None => cell,
        }
    }

    /// Adds the indices of all sites that may be within reach of a position, in rising order.
    pub(super) fn around(&self, at_m: [f64; 3], found: &mut Vec<u32>) {
        let before = found.len();
        let [x, y] = self.cell(at_m);
        let mut cells = [[0; 2]; 9];
        for (place, cell) in cells.iter_mut().enumerate() {
            let step = |part: usize| part as i32 - 1;
            let next = [x.saturating_add(step(place / 3)), y.saturating_add(step(place % 3))];
            *cell = self.wrapped(next);
        }
        // With fewer than three cells along an axis, the same cell appears twice.
        cells.sort_unstable();
        for (place, cell) in cells.iter().enumerate() {
            if place == 0 || cells[place - 1] != *cell {
                found.extend(self.cells.get(cell).into_iter().flatten());
            }
        }
        found[before..].sort_unstable();
    }

    /// Moves a site to another position.
    pub(super) fn move_to(&mut self, index: u32, from: [f64; 3], to: [f64; 3]) {
        let (from, to) = (self.cell(from), self.cell(to));
        if from == to {
            return;
        }
        if let Some(cell) = self.cells.get_mut(&from) {
            cell.retain(|other| *other != index);
            if cell.is_empty() {
                self.cells.remove(&from);
            }
        }
        self.cells.entry(to).or_default().push(index);
    }
}
