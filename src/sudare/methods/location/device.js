// Draw reports by a device file of Sudare (mechanism.json) on the device of a person. No dependencies.
//
//   import { Device, Sampler, cellAt } from "./device.js";
//   const device = new Device(deviceFile, JSON.parse(localStorage.getItem("sudare") ?? "null"));
//   const report = device.report(cellAt(deviceFile, 35.68, 139.76));    // {artefact: "...", cell: 123}
//   localStorage.setItem("sudare", JSON.stringify(device.state));     // before the report is sent
//
// The law is P(y|x) = alpha(x) w(y) exp(-beta d(x, y)), drawn exactly: floats decide only where they are further from
// the random word than their error can be, BigInt enclosures and more random bits decide the rest. It is the law that
// sudare.noise.distance draws. Proof and assumptions: proofs/location-sampling.md

const MARGIN = 2 ** -28; // how far a float must be from the random word to decide
const LARGEST_EXPONENT = 2 ** 14; // beyond it the error of a float exponent is not bounded well enough
const LOG_MARGIN = 2 ** -30;
const SLOPE = { up: 70n, down: 99n }; // just below 1/sqrt(2)
const ROUNDS = 64; // proposals before the row of the cell is made
const TOTAL_BITS = 50; // sums of proposing integers stay below 2**53
const IDENTITY_SHOWN = 16;
const FORMAT = 1;

// --- exact fractions ----------------------------------------------------------------------------------------------

function fraction(up, down = 1n) {
  return { up, down };
}

function parse(text) {
  const [up, down] = String(text).split("/");
  return fraction(BigInt(up), BigInt(down ?? 1));
}

const times = (a, b) => fraction(a.up * b.up, a.down * b.down);
const plus = (a, b) => fraction(a.up * b.down + b.up * a.down, a.down * b.down);
const minus = (a, b) => fraction(a.up * b.down - b.up * a.down, a.down * b.down);

// A float within a few units in the last place, for fractions whose parts are too long for floats.
function float(a) {
  const shift = BigInt(Math.max(0, 80 + bitLength(a.down) - bitLength(a.up)));
  const whole = (a.up << shift) / a.down;
  const excess = Math.max(0, bitLength(whole) - 64);
  return Number(whole >> BigInt(excess)) * 2 ** excess * 2 ** -Math.min(Number(shift), 1000) * 2 ** -Math.max(0, Number(shift) - 1000);
}

function bitLength(n) {
  return n === 0n ? 0 : (n < 0n ? -n : n).toString(2).length;
}

// --- enclosures: low <= v * 2**bits <= high -------------------------------------------------------------------------

const ceilShift = (n, by) => -(-n >> by);
const ceilDiv = (a, b) => -floorDiv(-a, b);

function floorDiv(a, b) {
  const quotient = a / b;
  return a % b !== 0n && a < 0n !== b < 0n ? quotient - 1n : quotient;
}

// exp(-x), x >= 0: Taylor series of x / 2**r, then r squarings, rounded outwards.
function expMinus(x, bits) {
  if (x.up === 0n) return { low: 1n << bits, high: 1n << bits };
  if (x.up >= bits * x.down) return { low: 0n, high: 1n }; // exp(-x) < 2**-x
  const squarings = BigInt(bitLength(x.up / x.down) + Math.floor(Math.sqrt(Number(bits)) / 2) + 2);
  const guard = squarings + BigInt(bitLength(bits)) + 6n;
  const work = bits + guard;
  let { low, high } = taylor(fraction(x.up, x.down << squarings), work);
  for (let i = 0n; i < squarings; i++) {
    low = (low * low) >> work;
    high = ceilShift(high * high, work);
  }
  const most = ceilShift(high, guard);
  return { low: low >> guard, high: most < 1n << bits ? most : 1n << bits };
}

function taylor(x, bits) {
  let low = 1n << bits;
  let high = low;
  let termLow = low;
  let termHigh = low;
  for (let degree = 1n; termHigh > 1n; degree++) {
    const below = x.down * degree;
    termLow = (termLow * x.up) / below;
    termHigh = ceilDiv(termHigh * x.up, below);
    if (degree % 2n) {
      low -= termHigh;
      high -= termLow;
    } else {
      low += termLow;
      high += termHigh;
    }
  }
  return { low: low - 1n, high: high + 1n };
}

function isqrt(n) {
  if (n < 2n) return n;
  let root = 1n << BigInt((bitLength(n) + 1) >> 1);
  for (;;) {
    const next = (root + n / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}

// share * exp(-(beta * sqrt(square) - shift)), a number of [0, 1].
function chanceBounds({ share, beta, square, shift }, bits) {
  const work = bits + 8n;
  const fine = work + BigInt(bitLength(beta.up));
  const root = isqrt((square.up << (2n * fine)) / square.down);
  const isSquare = root * root * square.down === square.up << (2n * fine);
  const exponent = (r) => {
    const found = minus(times(beta, fraction(r, 1n << fine)), shift);
    return found.up < 0n ? fraction(0n) : found;
  };
  const least = expMinus(exponent(isSquare ? root : root + 1n), work).low;
  const most = expMinus(exponent(root), work).high;
  return { low: ((least * share.up) / share.down) >> 8n, high: ceilShift(ceilDiv(most * share.up, share.down), 8n) };
}

// --- randomness ---------------------------------------------------------------------------------------------------

// Words of the browser's (or Node's) cryptographic generator, each handed out once.
class Words {
  constructor(fill = (words) => globalThis.crypto.getRandomValues(words)) {
    this.fill = fill;
    this.buffer = new Uint32Array(1024);
    this.next = this.buffer.length;
  }

  word32() {
    if (this.next === this.buffer.length) {
      this.fill(this.buffer);
      this.next = 0;
    }
    const word = this.buffer[this.next];
    this.buffer[this.next++] = 0; // a word that was used is not kept
    return word;
  }

  word64() {
    return { high: this.word32(), low: this.word32() };
  }

  // Uniform below a bound of at most 2**53: words of 53 bits are drawn until one counts.
  below(bound) {
    const top = 2 ** 53 - ((2 ** 53) % bound);
    for (;;) {
      const drawn = (this.word32() >>> 11) * 2 ** 32 + this.word32();
      if (drawn < top) return drawn % bound;
    }
  }
}

const asFloat = (word) => (word.high + word.low * 2 ** -32) * 2 ** -32;

// A uniform number whose bits are drawn when a comparison needs them.
class LazyUniform {
  constructor(words, word) {
    this.words = words;
    this.bits = 64n;
    this.word = (BigInt(word.high) << 32n) | BigInt(word.low);
  }

  isBelow(threshold) {
    for (;;) {
      const { low, high } = threshold(this.bits);
      if (this.word < low) return true;
      if (this.word >= high) return false;
      const more = this.bits;
      for (let drawn = 0n; drawn < more; drawn += 32n) this.word = (this.word << 32n) | BigInt(this.words.word32());
      this.bits *= 2n;
    }
  }
}

// --- the plane ----------------------------------------------------------------------------------------------------

// Steps of a rational rate: P[z] proportional to exp(-rate * |z|), by inversion of exp(-rate * k) = P[|z| >= k].
class Steps {
  constructor(rate, words, isExact) {
    this.rate = rate;
    this.rough = float(rate);
    this.words = words;
    this.margin = isExact ? Infinity : LOG_MARGIN;
  }

  draw() {
    for (;;) {
      const size = this.oneSided();
      const isNegative = this.words.word32() & 1;
      if (!(isNegative && size === 0)) return isNegative ? -size : size;
    }
  }

  oneSided() {
    const word = this.words.word64();
    const depth = -Math.log(asFloat(word));
    const guess = Math.floor(depth / this.rough);
    const margin = this.margin * (1 + depth);
    const isSure = depth < 30 && depth - guess * this.rough > margin && (guess + 1) * this.rough - depth > margin;
    return isSure ? guess : this.exactly(new LazyUniform(this.words, word), Number.isFinite(guess) ? guess : 0);
  }

  exactly(uniform, guess) {
    const reaches = (k) => k === 0 || uniform.isBelow((bits) => expMinus(times(this.rate, fraction(BigInt(k))), bits));
    let size = guess;
    while (!reaches(size)) size--;
    while (reaches(size + 1)) size++;
    return size;
  }
}

class Axis {
  constructor(size, side, beta, words, isExact) {
    const rate = times(times(beta, side), fraction(SLOPE.up, SLOPE.down));
    const isShort = rate.up * BigInt(size) <= rate.down; // shorter than a typical step: propose all cells alike
    this.size = size;
    this.words = words;
    this.rate = isShort ? fraction(0n) : rate;
    this.rough = isShort ? 0 : float(rate);
    this.steps = isShort ? null : new Steps(rate, words, isExact);
  }

  propose(place) {
    return this.steps === null ? this.words.below(this.size) : place + this.steps.draw();
  }
}

/** Draws reports by a device file: `new Sampler(deviceFile).draw(cell)` gives the number of a cell. */
export class Sampler {
  constructor(deviceFile, { fill, margin = MARGIN } = {}) {
    checkDeviceFile(deviceFile);
    this.deviceFile = deviceFile;
    this.words = new Words(fill);
    this.margin = margin; // tests send every draw the exact way
    this.beta = parse(deviceFile.beta_per_metre);
    this.roughBeta = float(this.beta);
    this.weights = deviceFile.weights;
    this.heaviest = this.weights.reduce((most, weight) => Math.max(most, weight), 0);
    this.map = mapOf(deviceFile.grid);
    if (this.map.isPlane) {
      const isExact = margin > 1;
      this.down = new Axis(this.map.rows, this.map.height, this.beta, this.words, isExact);
      this.across = new Axis(this.map.columns, this.map.width, this.beta, this.words, isExact);
    }
  }

  draw(cell) {
    checkCell(this.deviceFile, cell);
    for (let round = 0; this.map.isPlane && round < ROUNDS; round++) {
      const found = this.propose(cell);
      if (found >= 0) return found;
    }
    return this.drawByRow(cell);
  }

  propose(cell) {
    const { rows, columns } = this.map;
    const row = Math.floor(cell / columns);
    const column = cell % columns;
    const toRow = this.down.propose(row);
    const toColumn = this.across.propose(column);
    if (toRow < 0 || toRow >= rows || toColumn < 0 || toColumn >= columns) return -1;
    const proposed = toRow * columns + toColumn;
    if (this.weights[proposed] === 0) return -1;
    const steps = [Math.abs(toRow - row), Math.abs(toColumn - column)];
    const reach = this.roughBeta * this.map.metres(...steps);
    const credit = steps[0] * this.down.rough + steps[1] * this.across.rough;
    const guess = (this.weights[proposed] / this.heaviest) * Math.exp(Math.min(credit - reach, 0));
    const exact = () => ({
      share: fraction(BigInt(this.weights[proposed]), BigInt(this.heaviest)),
      beta: this.beta,
      square: this.map.square(...steps),
      shift: plus(times(this.down.rate, fraction(BigInt(steps[0]))), times(this.across.rate, fraction(BigInt(steps[1])))),
    });
    return this.decide(guess, reach, exact) ? proposed : -1;
  }

  decide(guess, exponent, exact) {
    const word = this.words.word64();
    const gap = guess - asFloat(word);
    if (exponent <= LARGEST_EXPONENT && Math.abs(gap) > this.margin) return gap > 0;
    const chance = exact();
    return new LazyUniform(this.words, word).isBelow((bits) => chanceBounds(chance, bits));
  }

  // Integers just above the terms of the row propose, the quotient accepts.
  drawByRow(cell) {
    if (this.kept?.cell !== cell) {
      const squares = this.map.squares(cell);
      this.kept = { cell, squares, row: this.rowOf(squares) }; // the row of the last cell
    }
    const { squares, row } = this.kept;
    for (;;) {
      const place = firstAbove(row.tops, this.words.below(row.tops[row.tops.length - 1]));
      const guess = (row.terms[place] * 2 ** row.scale) / row.integers[place];
      const exact = () => ({
        share: times(
          fraction(BigInt(this.weights[row.reports[place]]), BigInt(row.integers[place])),
          row.scale >= 0 ? fraction(1n << BigInt(row.scale)) : fraction(1n, 1n << BigInt(-row.scale)),
        ),
        beta: this.beta,
        square: times(fraction(squares(row.reports[place])), times(this.map.unit, this.map.unit)),
        shift: row.shift,
      });
      if (this.decide(guess, 0, exact)) return row.reports[place];
    }
  }

  rowOf(squares) {
    const reports = [];
    this.weights.forEach((weight, cell) => weight > 0 && reports.push(cell));
    const unit = float(this.map.unit);
    const reach = reports.map((cell) => this.roughBeta * unit * Math.sqrt(Number(squares(cell))));
    const nearest = reach.reduce((least, one) => Math.min(least, one), Infinity);
    if (!(nearest < LARGEST_EXPONENT)) throw new Error("no cell that can be reported is near enough");
    const start = Math.max(0, Math.floor(nearest * (1 - 2 ** -30) * 2 ** 20) - 1);
    const terms = reach.map((one, place) => this.weights[reports[place]] * Math.exp(start / 2 ** 20 - one));
    const most = terms.reduce((largest, term) => Math.max(largest, term), 0);
    const scale = TOTAL_BITS - bitLength(BigInt(reports.length)) - Math.ceil(Math.log2(most));
    const integers = terms.map((term) => Math.floor(term * 2 ** scale * (1 + 2 ** -20)) + 1);
    let sum = 0;
    const tops = integers.map((integer) => (sum += integer));
    return { reports, terms, scale, integers, tops, shift: fraction(BigInt(start), 1n << 20n) };
  }
}

function firstAbove(tops, word) {
  let low = 0;
  let high = tops.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tops[middle] > word) high = middle;
    else low = middle + 1;
  }
  return low;
}

// --- maps ---------------------------------------------------------------------------------------------------------

function mapOf(grid) {
  if (grid.kind === "plane") return new PlaneMap(grid);
  if (grid.kind === "points") return new PointMap(grid);
  if (grid.kind === "graph") return new RoadMap(grid);
  if (grid.kind === "elastic") return new ElasticMap(grid);
  throw new Error(`device.js does not know maps of kind ${grid.kind}; use the Python sampler or a newer device.js`);
}

class PlaneMap {
  constructor(grid) {
    this.isPlane = true;
    this.rows = grid.rows;
    this.columns = grid.columns;
    this.height = parse(grid.cell_height_metres);
    this.width = parse(grid.cell_width_metres);
    // the largest unit in which both sides are whole
    const parts = (this.height.down * this.width.down) / gcd(this.height.down, this.width.down);
    this.unit = fraction(1n, parts);
    this.tall = (this.height.up * parts) / this.height.down;
    this.wide = (this.width.up * parts) / this.width.down;
    this.roughHeight = float(this.height);
    this.roughWidth = float(this.width);
  }

  metres(down, across) {
    return Math.hypot(down * this.roughHeight, across * this.roughWidth);
  }

  square(down, across) {
    const units = (BigInt(down) * this.tall) ** 2n + (BigInt(across) * this.wide) ** 2n;
    return times(fraction(units), times(this.unit, this.unit));
  }

  squares(cell) {
    const row = Math.floor(cell / this.columns);
    const column = cell % this.columns;
    return (other) =>
      (BigInt(Math.floor(other / this.columns) - row) * this.tall) ** 2n +
      (BigInt((other % this.columns) - column) * this.wide) ** 2n;
  }
}

class PointMap {
  constructor(grid) {
    this.points = grid.points.map((point) => point.map(BigInt));
    this.unit = parse(grid.unit_metres);
  }

  squares(cell) {
    const here = this.points[cell];
    return (other) => this.points[other].reduce((sum, place, axis) => sum + (place - here[axis]) ** 2n, 0n);
  }
}

// Shortest ways along roads, by Dijkstra; lengths are whole millimetres, far below 2**53.
class RoadMap {
  constructor(grid) {
    this.unit = parse(grid.unit_metres);
    this.roads = grid.names.map(() => []);
    for (const [a, b, length] of grid.edges) {
      this.roads[a].push([b, length]);
      this.roads[b].push([a, length]);
    }
  }

  squares(cell) {
    const ways = this.ways(cell);
    return (other) => BigInt(ways[other]) ** 2n;
  }

  ways(cell) {
    const found = new Array(this.roads.length).fill(Infinity);
    const heap = [[0, cell]];
    found[cell] = 0;
    while (heap.length) {
      const [way, place] = popLeast(heap);
      if (way > found[place]) continue;
      for (const [next, length] of this.roads[place]) {
        if (way + length < found[next]) {
          found[next] = way + length;
          push(heap, [way + length, next]);
        }
      }
    }
    return found;
  }
}

function push(heap, item) {
  heap.push(item);
  for (let at = heap.length - 1; at > 0; ) {
    const above = (at - 1) >> 1;
    if (heap[above][0] <= heap[at][0]) return;
    [heap[above], heap[at]] = [heap[at], heap[above]];
    at = above;
  }
}

function popLeast(heap) {
  const least = heap[0];
  const last = heap.pop();
  if (heap.length) {
    heap[0] = last;
    for (let at = 0; ; ) {
      const below = [2 * at + 1, 2 * at + 2].filter((place) => place < heap.length);
      const next = below.reduce((best, place) => (heap[place][0] < heap[best][0] ? place : best), at);
      if (next === at) break;
      [heap[next], heap[at]] = [heap[at], heap[next]];
      at = next;
    }
  }
  return least;
}

// Levels: distances from a strict cell count less, and the way by a strict cell counts if it is shorter.
class ElasticMap {
  constructor({ grid, levels }) {
    this.plane = new PlaneMap(grid);
    this.levels = levels;
    this.unit = times(this.plane.unit, fraction(1n, 1000n));
    const most = levels.reduce((largest, level) => Math.max(largest, level), 0);
    this.strict = levels.flatMap((level, cell) => (level < most ? [cell] : []));
  }

  squares(cell) {
    let ways = this.steps(cell);
    const first = this.strict.map((_, to) => this.between().reduce((best, row, from) => least(best, ways[this.strict[from]] + row[to]), ways[this.strict[to]]));
    this.strict.forEach((place, index) => {
      const onwards = this.stepsOf(index);
      ways = ways.map((way, other) => least(way, first[index] + onwards[other]));
    });
    return (other) => ways[other] ** 2n;
  }

  steps(cell) {
    const squares = this.plane.squares(cell);
    return this.levels.map((level, other) => rootUp(squares(other) * BigInt(Math.min(level, this.levels[cell])) ** 2n));
  }

  stepsOf(index) {
    this.kept ??= this.strict.map((place) => this.steps(place));
    return this.kept[index];
  }

  between() {
    if (this.shortest) return this.shortest;
    const ways = this.strict.map((_, index) => this.strict.map((place) => this.stepsOf(index)[place]));
    for (let middle = 0; middle < ways.length; middle++)
      for (const row of ways) row.forEach((way, to) => (row[to] = least(way, row[middle] + ways[middle][to])));
    return (this.shortest = ways);
  }
}

const least = (a, b) => (a < b ? a : b);

function rootUp(square) {
  const root = isqrt(square);
  return root * root === square ? root : root + 1n;
}

function gcd(a, b) {
  return b === 0n ? a : gcd(b, a % b);
}

const MESH_UNITS = [640, 80, 8, 4, 2, 1]; // sides of the levels of JIS X 0410 in sides of the smallest cell

/** The number of the cell at a place, for maps on the JIS mesh; null outside the map. */
export function cellAt(deviceFile, latitude, longitude) {
  const mesh = deviceFile.grid.mesh;
  if (!mesh) throw new Error("this map has no latitudes; find the row and column of the place yourself");
  if (!(Math.abs(latitude) <= 90)) throw new Error("the latitude is beyond 90 degrees; are latitude and longitude swapped?");
  const units = MESH_UNITS[mesh.level - 1];
  const row = Math.floor((latitude * 960) / units) - mesh.row;
  const column = Math.floor(((longitude - 100) * 640) / units) - mesh.column;
  const isInside = row >= 0 && row < deviceFile.grid.rows && column >= 0 && column < deviceFile.grid.columns;
  return isInside ? row * deviceFile.grid.columns + column : null;
}

function checkDeviceFile(deviceFile) {
  if (deviceFile?.sudare !== "location mechanism" || deviceFile.format !== FORMAT)
    throw new Error(`this is no device file of format ${FORMAT}; give the content of mechanism.json`);
}

function checkCell(deviceFile, cell) {
  const size = deviceFile.weights.length;
  if (!Number.isInteger(cell) || cell < 0 || cell >= size)
    throw new Error(`the cell is outside the map; its cells are numbered from 0 to ${size - 1}`);
  const { inputs } = deviceFile;
  const canEnter = inputs === "all" || (inputs === "reportable" ? deviceFile.weights[cell] > 0 : inputs.includes(cell));
  if (!canEnter) throw new Error("nobody can be in this cell; take the nearest cell in which people can be");
}

// --- repeat use ---------------------------------------------------------------------------------------------------

/** One person's reports: a budget a day, the same answer for the same cell. Store `state` before a report is sent. */
export class Device {
  constructor(deviceFile, state = null, options = {}) {
    this.deviceFile = deviceFile;
    this.sampler = new Sampler(deviceFile, options);
    const name = deviceFile.id.slice(0, IDENTITY_SHOWN);
    this.state = state ?? { artefact: name, period: "", answers: {} };
    if (typeof this.state.answers !== "object" || typeof this.state.period !== "string")
      throw new Error("the stored state of the device is damaged; report nothing until the next day");
    if (this.state.artefact !== name)
      throw new Error(`the stored state belongs to another device file (${this.state.artefact}); this one is ${name}`);
  }

  /** The report for a cell, or null where the draws of the day are used up and nothing may be sent. */
  report(cell, day = new Date().toISOString().slice(0, 10)) {
    if (!/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(day)) throw new Error("the day must be written like 2026-11-16");
    // a clock that was set back does not bring the budget back
    if (day > this.state.period) this.state = { ...this.state, period: day, answers: {} };
    const { answers } = this.state;
    if (!Object.hasOwn(answers, String(cell))) {
      if (Object.keys(answers).length >= this.deviceFile.repeat.fresh_reports) return null;
      this.state = { ...this.state, answers: { ...answers, [cell]: this.sampler.draw(cell) } };
    }
    return { artefact: this.state.artefact, cell: this.state.answers[cell] };
  }
}
