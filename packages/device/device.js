// Draw reports by a device file of Sudare (mechanism.json) on the device of a person. No dependencies.
//
//   import { openDevice, browserStore } from "@sudare/device";
//   const caps = { epsilonPerMetre: "0.01", reportsPerDay: 1, reportsPerMonth: 10 };
//   const device = openDevice(await (await fetch("mechanism.json")).json(), { store: browserStore("sudare"), caps });
//   const report = await device.report({ latitude: 35.68, longitude: 139.76 });   // null: nothing is to be sent
//
// The file is trusted in nothing: its id, its vectors and its promise are recomputed when it is opened (proveFile), and
// the app sets caps of its own. The law is drawn exactly: floats decide only where they are further from the random
// word than their error can be, BigInt enclosures and more random bits decide the rest. It is the law that Python draws
// (sudare.noise.distance). Proofs: proofs/location.md, location-sampling.md, location-months.md

const MARGIN = 2 ** -28; // how far a float must be from the random word to decide
const LARGEST_EXPONENT = 2 ** 14; // beyond it the error of a float exponent is not bounded well enough
const LOG_MARGIN = 2 ** -30;
const SLOPE = { up: 70n, down: 99n }; // just below 1/sqrt(2)
const ROUNDS = 64; // proposals before the row of the cell is made
const TOTAL_BITS = 50; // sums of proposing integers stay below 2**53
const IDENTITY_SHOWN = 16;
const SAME = 1e-9; // relative difference of two computations of one epsilon
const PROVEN_CELLS = 20000; // up to here a promise is recomputed even where the theorem proves it

// --- exact fractions ----------------------------------------------------------------------------------------------

function fraction(up, down = 1n) {
  return { up, down };
}

// A fraction ("1/2") or a decimal ("0.01"), never below 0: of a length below 0 no slope could be found.
function parse(text) {
  const [, whole, part = "", down = 1] = /^(?=\.?\d)(\d*)(?:\.(\d+)|\/([1-9]\d*))?$/.exec(text) ?? refuse("its map is none");
  return fraction(BigInt(whole + part), 10n ** BigInt(part.length) * BigInt(down));
}

const times = (a, b) => fraction(a.up * b.up, a.down * b.down);
const plus = (a, b) => fraction(a.up * b.down + b.up * a.down, a.down * b.down);
const minus = (a, b) => fraction(a.up * b.down - b.up * a.down, a.down * b.down);

// A float within a few units in the last place, for fractions whose parts are too long for floats.
function float(a) {
  const shift = Math.max(0, 80 + bitLength(a.down) - bitLength(a.up));
  return Number((a.up << BigInt(shift)) / a.down) * 2 ** -Math.min(shift, 1000) * 2 ** -Math.max(0, shift - 1000);
}

function bitLength(n) {
  return n === 0n ? 0 : n.toString(2).length; // never below 0
}

// --- enclosures: low <= v * 2**bits <= high -------------------------------------------------------------------------

const ceilShift = (n, by) => -(-n >> by);
const ceilDiv = (a, b) => (a + b - 1n) / b; // of numbers that are not below 0

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
  return { low: low >> guard, high: least(ceilShift(high, guard), 1n << bits) };
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
    this.pool = new Uint32Array(1024);
    this.next = this.pool.length;
  }

  word32() {
    if (this.next === this.pool.length) {
      this.fill(this.pool);
      this.next = 0;
    }
    const word = this.pool[this.next];
    this.pool[this.next++] = 0; // a word that was used is not kept
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

/** Draws reports by a device file: `new Sampler(deviceFile).draw(cell)` gives the number of a report. */
export class Sampler {
  constructor(deviceFile, { fill, margin = MARGIN } = {}) {
    Object.assign(this, proveFile(deviceFile));
    this.words = new Words(fill);
    this.margin = margin; // tests send every draw the exact way
    if (this.map.isPlane && !this.columns) {
      this.down = new Axis(this.map.rows, this.map.height, this.beta, this.words, margin > 1);
      this.across = new Axis(this.map.columns, this.map.width, this.beta, this.words, margin > 1);
    }
  }

  draw(cell) {
    checkCell(this, cell);
    for (let round = 0; this.down && round < ROUNDS; round++) {
      const drawn = this.propose(cell);
      if (drawn >= 0) return drawn;
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
    const exact = () => [{
      share: fraction(BigInt(this.weights[proposed]), BigInt(this.heaviest)),
      beta: this.beta,
      square: this.map.square(...steps),
      shift: plus(times(this.down.rate, fraction(BigInt(steps[0]))), times(this.across.rate, fraction(BigInt(steps[1])))),
    }];
    return this.decide(guess, reach, exact) ? proposed : -1;
  }

  // The chance is the largest of those that `exact` lists.
  decide(guess, exponent, exact) {
    const word = this.words.word64();
    const gap = guess - asFloat(word);
    if (exponent <= LARGEST_EXPONENT && Math.abs(gap) > this.margin) return gap > 0;
    const chances = exact();
    return new LazyUniform(this.words, word).isBelow((bits) =>
      chances.map((chance) => chanceBounds(chance, bits)).reduce((a, b) => ({ low: most(a.low, b.low), high: most(a.high, b.high) })),
    );
  }

  // Integers just above the terms of the row propose, the quotient accepts.
  drawByRow(cell) {
    if (this.kept?.cell !== cell) this.kept = { cell, row: this.rowOf(cell) }; // the row of the last cell
    const { row } = this.kept;
    for (;;) {
      const word = this.words.below(row.tops[row.tops.length - 1]);
      const place = row.tops.findIndex((top) => top > word);
      const guess = (row.terms[place] * 2 ** row.scale) / row.integers[place];
      const share = times(
        fraction(BigInt(row.weights[place]), BigInt(row.integers[place])),
        row.scale >= 0 ? fraction(1n << BigInt(row.scale)) : fraction(1n, 1n << BigInt(-row.scale)),
      );
      const exact = () => row.chances(row.reports[place]).map((chance) => ({ ...chance, share, shift: plus(row.shift, chance.shift) }));
      if (this.decide(guess, 0, exact)) return row.reports[place];
    }
  }

  rowOf(cell) {
    const { reach, chances, weightOf, size } = this.columns ? this.columnsFrom(cell) : this.cellsFrom(cell);
    const reports = [];
    for (let report = 0; report < size; report++) if (weightOf(report) > 0) reports.push(report);
    const weights = reports.map(weightOf);
    const exponents = reports.map(reach);
    const nearest = exponents.reduce((least, exponent) => Math.min(least, exponent), Infinity);
    if (!(nearest < LARGEST_EXPONENT)) throw new Error("no cell that can be reported is near enough");
    const start = Math.max(0, Math.floor(nearest * (1 - 2 ** -30) * 2 ** 20) - 1);
    const terms = exponents.map((exponent, place) => weights[place] * Math.exp(start / 2 ** 20 - exponent));
    const scale = TOTAL_BITS - bitLength(BigInt(reports.length)) - Math.ceil(Math.log2(largest(terms)));
    const integers = terms.map((term) => Math.floor(term * 2 ** scale * (1 + 2 ** -20)) + 1);
    let sum = 0;
    const tops = integers.map((integer) => (sum += integer));
    return { reports, weights, terms, scale, integers, tops, chances, shift: fraction(BigInt(start), 1n << 20n) };
  }

  cellsFrom(cell) {
    const metres = this.map.metresFrom(cell);
    return {
      size: this.size,
      weightOf: (report) => this.weights[report],
      reach: (report) => this.roughBeta * metres(report),
      chances: (report) => [{ beta: this.beta, square: this.map.exactSquare(this.map.squares(cell)(report)), shift: fraction(0n) }],
    };
  }

  // Hidden reports: the largest of some cones, each with a lag and a slope.
  columnsFrom(cell) {
    const { map } = this;
    const metres = map.metresTo(cell);
    return {
      size: this.columns.length,
      weightOf: (report) => this.columns[report].weight,
      reach: (report) => {
        const { points, slope } = this.columns[report];
        let nearest = points.length ? Infinity : 0;
        for (const [a, b, lag] of points) nearest = Math.min(nearest, metres(a, b) + map.roughUnit * lag);
        return (slope / 100) * this.roughBeta * nearest;
      },
      chances: (report) => {
        const column = this.columns[report];
        const beta = times(this.beta, fraction(BigInt(column.slope), 100n));
        if (!column.points.length) return [{ beta, square: fraction(0n), shift: fraction(0n) }];
        return column.points.map(([a, b, lag]) => ({
          beta,
          square: map.exactSquare(map.squaresTo(cell)(a, b)),
          shift: times(times(beta, map.unit), fraction(-BigInt(lag))),
        }));
      },
    };
  }
}

const most = (a, b) => (a > b ? a : b);
const largest = (values) => values.reduce((best, value) => Math.max(best, value), 0);

// --- maps ---------------------------------------------------------------------------------------------------------

function mapOf(grid) {
  const Kind = new Map([["plane", PlaneMap], ["points", PointMap], ["graph", RoadMap], ["elastic", ElasticMap]]).get(grid.kind);
  if (!Kind) throw new Error(`maps of kind ${grid.kind} need a newer device.js`);
  return new Kind(grid);
}

const MILLIMETRE = fraction(1n, 1000n);
const isCount = (count) => Number.isInteger(count) && count >= 1;

class Metric {
  constructor(unit = MILLIMETRE) {
    this.unit = unit;
    this.roughUnit = float(unit);
  }

  exactSquare(square) {
    return times(fraction(square), times(this.unit, this.unit));
  }

  // Of a plane "to" takes a row and a column, on the map or beside it.
  squaresTo(cell) {
    return this.squares(cell);
  }

  metresTo(cell) {
    return this.metresFrom(cell);
  }

  // Floats within some units in the last place.
  metresFrom(cell) {
    const squares = this.squares(cell);
    return (other) => this.roughUnit * Math.sqrt(Number(squares(other)));
  }
}

class PlaneMap extends Metric {
  constructor(grid) {
    const [height, width] = [grid.cell_height_metres, grid.cell_width_metres].map(parse);
    const parts = (height.down * width.down) / gcd(height.down, width.down); // of a metre: both sides are whole then
    super(fraction(1n, parts));
    Object.assign(this, { height, width });
    this.isPlane = true;
    this.rows = grid.rows;
    this.columns = grid.columns;
    if (![grid.rows, grid.columns].every(isCount)) refuse("its map is none");
    this.tall = (this.height.up * parts) / this.height.down;
    this.wide = (this.width.up * parts) / this.width.down;
    this.roughHeight = float(this.height);
    this.roughWidth = float(this.width);
  }

  metres(down, across) {
    return Math.sqrt((down * this.roughHeight) ** 2 + (across * this.roughWidth) ** 2);
  }

  square(down, across) {
    const units = (BigInt(down) * this.tall) ** 2n + (BigInt(across) * this.wide) ** 2n;
    return times(fraction(units), times(this.unit, this.unit));
  }

  squares(cell) {
    const to = this.squaresTo(cell);
    return (other) => to(Math.floor(other / this.columns), other % this.columns);
  }

  metresTo(cell) {
    return (row, column) => this.metres(row - Math.floor(cell / this.columns), column - (cell % this.columns));
  }

  squaresTo(cell) {
    const row = Math.floor(cell / this.columns);
    const column = cell % this.columns;
    return (toRow, toColumn) => (BigInt(toRow - row) * this.tall) ** 2n + (BigInt(toColumn - column) * this.wide) ** 2n;
  }
}

class PointMap extends Metric {
  constructor(grid) {
    super();
    const points = (this.points = grid.points);
    if (!points.every((point) => point.length === points[0].length && point.every(Number.isInteger))) refuse("its map is none");
  }

  metresFrom(cell) {
    const here = this.points[cell];
    return (other) => {
      let sum = 0;
      for (let axis = 0; axis < here.length; axis++) sum += (this.points[other][axis] - here[axis]) ** 2;
      return Math.sqrt(sum) / 1000;
    };
  }

  squares(cell) {
    const here = this.points[cell];
    return (other) => this.points[other].reduce((sum, place, axis) => sum + BigInt(place - here[axis]) ** 2n, 0n);
  }
}

// Shortest ways along roads, by Dijkstra; lengths are whole millimetres, far below 2**53.
class RoadMap extends Metric {
  constructor({ names, edges }) {
    super();
    this.edges = edges;
    if (!edges.every((road) => road.every(Number.isInteger) && road[0] in names && road[1] in names && road[2] > 0)) refuse("its map is none");
    const starts = (this.starts = new Uint32Array(names.length + 2)); // where the roads of a place begin
    for (const [a, b] of edges) starts[a + 2]++, starts[b + 2]++;
    for (let i = 2; i < starts.length; i++) starts[i] += starts[i - 1];
    this.ends = new Uint32Array(2 * edges.length);
    this.lengths = new Float64Array(2 * edges.length);
    for (const [a, b, length] of edges)
      for (const [from, to] of [[a, b], [b, a]]) {
        this.ends[starts[from + 1]] = to;
        this.lengths[starts[from + 1]++] = length;
      }
    this.found = new Float64Array(names.length).fill(Infinity);
    this.reached = [];
    this.mean = this.lengths.reduce((sum, length) => sum + length, 1) / this.lengths.length;
  }

  squares(cell) {
    const ways = this.ways(cell).slice();
    return (other) => BigInt(ways[other]) ** 2n;
  }

  metresFrom(cell) {
    const ways = this.ways(cell).slice();
    return (other) => ways[other] / 1000;
  }

  // Ways up to a limit; `reached` lists the places that have one. Places wait in buckets as wide as a mean road.
  ways(cell, limit = Infinity) {
    const { starts, ends, lengths, found, reached } = this;
    for (const place of reached) found[place] = Infinity;
    reached.length = 0;
    const buckets = [];
    const reach = (way, place) => {
      if (!(way < found[place]) || way > limit) return;
      if (found[place] === Infinity) reached.push(place);
      found[place] = way;
      (buckets[Math.floor(way / this.mean)] ??= []).push(place);
    };
    reach(0, cell);
    for (let at = 0; at < buckets.length; at++)
      for (const place of buckets[at] ?? []) // grows while it is read
        for (let road = starts[place]; road < starts[place + 1]; road++) reach(found[place] + lengths[road], ends[road]);
    return found;
  }
}

// Levels: distances from a strict cell count less, and the way by a strict cell counts if it is shorter.
class ElasticMap extends Metric {
  constructor({ grid, levels }) {
    if (grid.kind !== "plane") refuse("its map is none"); // its ground would not be looked at
    const plane = new PlaneMap(grid);
    super(times(plane.unit, MILLIMETRE));
    Object.assign(this, { plane, levels });
    if (!levels.every((level) => isCount(level) && level <= 1000)) refuse("its map is none");
    const most = largest(levels);
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

// The least integer whose square reaches this one; a float finds it to within one below 2**84.
function rootUp(square) {
  let root = square < 1n << 84n ? BigInt(Math.floor(Math.sqrt(Number(square)))) : isqrt(square);
  while (root > 0n && (root - 1n) * (root - 1n) >= square) root--;
  while (root * root < square) root++;
  return root;
}

function gcd(a, b) {
  return b === 0n ? a : gcd(b, a % b);
}

// --- places in degrees ----------------------------------------------------------------------------------------------

const MESH_UNITS = [640, 80, 8, 4, 2, 1]; // sides of the levels of JIS X 0410 in sides of the smallest cell
const AXIS = 6378137; // of WGS 84, in metres
const ECCENTRICITY = 0.00669437999014132; // squared

/** The number of the cell at a place in degrees; null outside the map. On points and roads: the nearest. */
export function cellAt(deviceFile, latitude, longitude) {
  const { grid } = deviceFile;
  if (![latitude, longitude].every(Number.isFinite)) throw new Error("latitude and longitude must be numbers of degrees");
  if (Math.abs(latitude) > 90) throw new Error("the latitude is beyond 90 degrees; swapped with the longitude?");
  const plane = grid.kind === "elastic" ? grid.grid : grid;
  if (plane.mesh) {
    const { level, row, column } = plane.mesh;
    const units = MESH_UNITS[level - 1];
    return cellOf(plane, Math.floor((latitude * 960) / units) - row, Math.floor(((longitude - 100) * 640) / units) - column);
  }
  if (plane.degrees) {
    const [south, west, tall, wide] = degreesOf(plane);
    return cellOf(plane, Math.floor((latitude - south) / tall), Math.floor((longitude - west) / wide));
  }
  const points = grid.kind === "points" ? grid.points : positionsOf(grid);
  // points above or below the ground would be further apart than people there are
  const isGround = ([x, y, z]) => Math.abs((x * x + y * y + (z * z) / (1 - ECCENTRICITY)) / (AXIS * 1000) ** 2 - 1) < 1e-6;
  if (!points?.every(isGround)) throw new Error("this map has no latitudes; give the number of a cell");
  return nearest(points, earthCentred(latitude, longitude));
}

function degreesOf({ degrees, mesh }) {
  if (!mesh) return ["south", "west", "tall", "wide"].map((name) => Number(degrees[name]));
  const [tall, wide] = [960, 640].map((parts) => MESH_UNITS[mesh.level - 1] / parts);
  return [mesh.row * tall, 100 + mesh.column * wide, tall, wide];
}

// A cell must be as large on the ground as on the plane: otherwise less is promised per metre of ground.
function checkGround({ kind, grid, ...map }) {
  if (kind === "elastic") return checkGround(grid);
  if (!map.degrees && !map.mesh) return;
  const [south, west, tall, wide] = degreesOf(map);
  const [height, width] = [map.cell_height_metres, map.cell_width_metres].map((text) => float(parse(text)));
  if (!Object.values(map.mesh ?? {}).every((number) => Number.isInteger(number) && number >= 0)) refuse("its map is none");
  const isSound = [south, south + tall * (map.rows - 1)].every((latitude) => {
    const corner = earthCentred(latitude, west);
    const far = (...place) => Math.hypot(...earthCentred(...place).map((value, axis) => value - corner[axis])) * 0.00100001 + 0.005;
    return tall > 0 && wide > 0 && Math.abs(latitude + tall) < 90 && far(latitude + tall, west) >= height && far(latitude, west + wide) >= width;
  });
  if (!isSound) refuse("its cells are smaller on the ground");
}

// Crossings of roads that were read from lines are named by latitude,longitude.
function positionsOf({ names = [""] }) {
  const degrees = names.map((name) => /^(-?[0-9]+\.[0-9]+),(-?[0-9]+\.[0-9]+)$/.exec(name));
  return degrees.every(Boolean) ? degrees.map(([, latitude, longitude]) => earthCentred(Number(latitude), Number(longitude))) : null;
}

function cellOf(plane, row, column) {
  return row >= 0 && row < plane.rows && column >= 0 && column < plane.columns ? row * plane.columns + column : null;
}

function earthCentred(latitude, longitude) {
  const [up, along] = [latitude, longitude].map((degrees) => (degrees * Math.PI) / 180);
  const normal = AXIS / Math.sqrt(1 - ECCENTRICITY * Math.sin(up) ** 2);
  const flat = normal * Math.cos(up);
  return [flat * Math.cos(along), flat * Math.sin(along), normal * (1 - ECCENTRICITY) * Math.sin(up)].map((metres) => Math.round(metres * 1000));
}

const MAX_METRES_OFF = 20000; // a place further than that from every point is outside the map

function nearest(points, place) {
  const far = (point) => Math.hypot(...point.map((value, axis) => value - place[axis]));
  let best = 0;
  points.forEach((point, number) => far(point) < far(points[best]) && (best = number));
  return far(points[best]) <= MAX_METRES_OFF * 1000 ? best : null;
}

// --- trust in nothing -----------------------------------------------------------------------------------------------

/** Read the law of a device file without a proof. */
function readLaw(file) {
  const map = mapOf(file.grid);
  const size = map.isPlane ? map.rows * map.columns : (file.grid.names ?? file.grid.levels).length;
  const weights = readWeights(file.weights, size);
  const heaviest = largest(weights);
  if (!(heaviest > 0)) refuse("all weights are 0");
  const beta = parse(file.beta_per_metre);
  if (!beta.up) refuse("beta is 0");
  const inputs = Array.isArray(file.inputs) ? new Set(file.inputs) : file.inputs;
  const canEnter = (cell) => inputs === "all" || (inputs === "reportable" ? weights[cell] > 0 : inputs.has(cell));
  return { file, map, size, weights, heaviest, beta, roughBeta: float(beta), canEnter, columns: readColumns(file, map) };
}

function readWeights(facts, size) {
  if (size > 2 ** 26) refuse("its map is none");
  const weights = new Float64Array(size);
  const { runs } = facts;
  let at = 0;
  const step = runs ? 2 : 1;
  const list = runs ?? facts;
  for (let place = 0; place < list.length; place += step) {
    const [count, weight] = [runs ? list[place] : 1, list[place + step - 1]];
    if (!isCount(count) || at + count > size) refuse("the weights do not fit the map");
    if (!Number.isInteger(weight) || weight < 0 || weight > 2 ** 40) refuse("a weight is not a count");
    weights.fill(weight, at, (at += count));
  }
  return at === size ? weights : refuse("the weights do not fit the map");
}

function readColumns(file, map) {
  if (!file.columns) return null;
  const columns = [];
  for (let at = 0; at < file.columns.length; at += 4) {
    const [shape, row, column, weight] = file.columns.slice(at, at + 4);
    const [slope, ...points] = file.shapes[shape];
    const moved = points.map(([a, b, lag]) => [a + row, b + column, lag]);
    const isSound = isCount(slope + 1) && slope <= 100 && isCount(weight) && moved.every((point) => point[2] >= 0 && point.every(Number.isInteger));
    if (!isSound) refuse("a hidden report is none");
    columns.push({ shape, row, column, weight, slope, points: moved });
  }
  return columns;
}

/** Recompute everything a device file claims, and refuse it otherwise; gives its law. */
export function proveFile(file) {
  if (file?.sudare !== "location mechanism" || file.format !== 2)
    throw new Error("this is no device file of format 2; give the content of a mechanism.json");
  if (file.id !== identityOf(file)) refuse("its id does not fit its content");
  if (file.weight_bits !== 40) refuse("its weights are of another size");
  const law = readLaw(file);
  checkRepeat(file);
  checkGround(file.grid);
  checkVectors(law);
  const epsilon = parse(file.epsilon_per_metre);
  const isTheorem = 2n * law.beta.up * epsilon.down <= epsilon.up * law.beta.down && !law.columns;
  const claimed = Number(file.tight_epsilon_per_metre);
  if (!(claimed <= float(epsilon) * (1 + SAME))) refuse("its certified epsilon is above its promise");
  if (isTheorem && claimed > 0 && law.size > (law.map.isPlane ? PROVEN_CELLS : 1000)) return law;
  const { needed, isExact } = neededEpsilon(law, float(epsilon));
  if (!isTheorem && !(needed <= float(epsilon) * (1 + SAME))) refuse(`it promises epsilon ${float(epsilon)} and needs ${needed}`);
  if ((isExact || !(claimed > 0)) && !(needed <= claimed * (1 + SAME))) refuse(`it claims epsilon ${claimed} and needs ${needed}`);
  return law;
}

function refuse(reason) {
  throw new Error(`the device file is not as Sudare wrote it (${reason}); report nothing with it, get it again`);
}

function identityOf({ id, ...facts }) {
  return sha256(canonical(facts));
}

function canonical(value) {
  if (Array.isArray(value)) return typeof value[0] === "object" ? `[${value.map(canonical).join()}]` : JSON.stringify(value);
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join()}}`;
}

function checkRepeat({ repeat: { day, month, life, dwell, answers, within_metres } }) {
  parse(within_metres);
  const areCounts = isCount(day) && day <= 10000 && isCount(dwell) && [month, life].every((count) => count === null || isCount(count));
  if (!areCounts || !["daily", "lasting"].includes(answers)) refuse("its rule of repeat use is unknown");
}

function checkVectors(law) {
  const { map, beta, file } = law;
  const sampler = Object.assign(Object.create(Sampler.prototype), law);
  const check = (weight, cones, chance) => {
    const share = fraction(BigInt(weight), 1n << 40n);
    const off = cones.map((cone) => chanceBounds({ ...cone, share }, 64n).low).reduce(most) - BigInt(chance);
    if (off > 3n || off < -3n) refuse("its test vectors differ");
  };
  for (const [cell, other, square, chance] of file.vectors ?? []) {
    const exact = map.squares(cell)(other);
    if (exact !== BigInt(square)) refuse("its test vectors differ");
    check(law.weights[other], [{ beta, square: map.exactSquare(exact), shift: fraction(0n) }], chance);
  }
  for (const [cell, report, chance] of file.column_vectors ?? []) check(law.columns[report].weight, sampler.columnsFrom(cell).chances(report), chance);
}

// --- the epsilon that a law needs: its largest slope plus the slope of the logarithm of its row sums ------------------

function neededEpsilon(law, epsilon) {
  let count = 0;
  const listed = new Uint32Array(law.size);
  for (let cell = 0; cell < law.size; cell++) if (law.canEnter(cell)) listed[count++] = cell;
  const inputs = listed.subarray(0, count);
  if (inputs.length < 2) return { needed: 0, isExact: false };
  const areReportable = !law.columns && inputs.every((cell) => law.weights[cell] > 0);
  const isRoad = law.map.edges && !law.columns;
  const sums = law.map.isPlane ? sumsByTransform(law) : isRoad ? sumsAlong(law) : Array.from({ length: law.size }, (_, cell) => sumFrom(law, cell));
  const levels = sums.map(Math.log);
  const slope = law.columns ? largest(law.columns.map((column) => column.slope)) / 100 : 1;
  const allowed = epsilon - slope * law.roughBeta;
  if (!areReportable && !law.columns && law.size <= 300) return { needed: searchPairs(law, inputs), isExact: true };
  const steepest = law.map.isPlane ? slopeOnGrid(law.map, levels, inputs, allowed) : isRoad && count === law.size ? slopeAlong(law, levels) : slopeByRows(law, levels, inputs);
  return { needed: slope * law.roughBeta + steepest.slope, isExact: areReportable && steepest.isExact };
}

function sumFrom(law, cell) {
  const sampler = Object.assign(Object.create(Sampler.prototype), law);
  const { reach, weightOf, size } = law.columns ? sampler.columnsFrom(cell) : sampler.cellsFrom(cell);
  let sum = 0;
  for (let report = 0; report < size; report++) if (weightOf(report)) sum += weightOf(report) * Math.exp(-reach(report));
  return sum;
}

// Beyond 36 times 1/beta lies too little to matter, unless the weights there are far above those here.
function sumsAlong(law) {
  const { map, size, weights, roughBeta } = law;
  const all = weights.reduce((sum, weight) => sum + weight);
  return Array.from({ length: size }, (_, cell) => {
    const ways = map.ways(cell, 36000 / roughBeta);
    let sum = 0;
    for (const place of map.reached) sum += weights[place] * Math.exp((-roughBeta * ways[place]) / 1000);
    return all > 4e6 * sum ? sumFrom(law, cell) : sum;
  });
}

// A path is made of roads: if people can be everywhere, no slope is steeper than along one of them.
function slopeAlong({ map }, levels) {
  return { slope: largest(map.edges.map(([a, b, length]) => (1000 * Math.abs(levels[a] - levels[b])) / length)), isExact: true };
}

function searchPairs(law, inputs) {
  const reports = [...law.weights.keys()].filter((cell) => law.weights[cell]);
  const rows = Array.from(inputs, (cell) => {
    const metres = law.map.metresFrom(cell);
    const logs = reports.map((report) => Math.log(law.weights[report]) - law.roughBeta * metres(report));
    const top = Math.max(...logs);
    const norm = top + Math.log(logs.reduce((sum, log) => sum + Math.exp(log - top), 0));
    return { metres, logs: logs.map((log) => log - norm) };
  });
  let worst = 0;
  rows.forEach((row) => rows.forEach((other, at) => {
    const apart = row.metres(inputs[at]);
    if (apart > 0) worst = Math.max(worst, largest(row.logs.map((log, report) => log - other.logs[report])) / apart);
  }));
  return worst;
}

// Roads are searched up to 36 times 1/beta, and longer ways count as that: a bound.
function slopeByRows(law, levels, inputs) {
  let slope = 0;
  const limit = 36000 / law.roughBeta;
  for (const cell of inputs) {
    const ways = law.map.ways?.(cell, limit);
    const metres = ways ? (other) => Math.min(ways[other], limit) / 1000 : law.map.metresFrom(cell);
    for (const other of inputs) {
      const apart = other > cell ? metres(other) : 0;
      if (apart > 0) slope = Math.max(slope, Math.abs(levels[cell] - levels[other]) / apart);
    }
  }
  return { slope, isExact: true };
}

const MAX_PAIRS = 4e8; // of cells that are compared; what is left is bounded by the range of the levels

// Offsets from the shortest; when the range of the levels over the length is below the best slope, none can win.
function slopeOnGrid(map, levels, inputs, allowed) {
  const { rows, columns, roughHeight, roughWidth } = map;
  const [low, high] = [-1, 1].map((sign) => inputs.reduce((best, cell) => Math.max(best, sign * levels[cell]), -Infinity));
  const range = high + low;
  const shortest = Math.min(roughHeight, roughWidth);
  if (range / shortest < 1e-6 * allowed) return { slope: range / shortest, isExact: false };
  const isInput = new Uint8Array(levels.length);
  for (const cell of inputs) isInput[cell] = 1;
  let [slope, pairs, from] = [0, 0, 0];
  for (let to = 4 * Math.max(roughHeight, roughWidth); !(range <= slope * from); from = to, to *= 1.5) {
    const ring = [];
    for (let down = 0; down < rows && down * roughHeight <= to; down++)
      for (let right = down ? 1 - columns : 1; right < columns; right++) {
        const metres = map.metres(down, right);
        if (metres > from && metres <= to) ring.push([metres, down, right]);
      }
    if (!ring.length && from > map.metres(rows, columns)) break;
    ring.sort((a, b) => a[0] - b[0]);
    for (const [metres, down, right] of ring) {
      if (range <= slope * metres) return { slope, isExact: true };
      if ((pairs += levels.length) > MAX_PAIRS) return { slope: Math.max(slope, range / metres), isExact: false };
      for (let row = 0; row + down < rows; row++)
        for (let column = Math.max(0, -right); column + Math.max(0, right) < columns; column++) {
          const cell = row * columns + column;
          const other = cell + down * columns + right;
          if (isInput[cell] && isInput[other]) slope = Math.max(slope, Math.abs(levels[cell] - levels[other]) / metres);
        }
    }
  }
  return { slope, isExact: true };
}

// Row sums on a plane: one convolution for each shape of report.
function sumsByTransform(law) {
  const { map } = law;
  const groups = new Map();
  let apron = 0;
  const far = []; // reports so far outside that a transform would be mostly empty
  for (const { shape, row, column, weight, slope } of law.columns ?? []) {
    const off = Math.max(-row, -column, row - map.rows + 1, column - map.columns + 1);
    const points = law.file.shapes[shape].slice(1);
    if (off > 32 + (map.rows + map.columns) / 4) far.push([slope, points, row, column, weight]);
    else {
      if (!groups.has(shape)) groups.set(shape, { slope, points, placed: [] });
      groups.get(shape).placed.push([row, column, weight]);
      apron = Math.max(apron, off);
    }
  }
  if (!law.columns) groups.set(0, { slope: 100, points: [[0, 0, 0]] });
  // kernels end where exp(-49) of a cone is left: opposite edges of the map may be so near to each other
  const sides = [map.rows + apron, map.columns + apron];
  const ends = (axis) => [...groups.values()].flatMap(({ slope, points }) => points.map((point) => 4900 / slope / law.roughBeta / map.metres(1 - axis, axis) + Math.abs(point[axis])));
  const reach = sides.map((side, axis) => Math.min(side, Math.ceil(Math.max(apron + 1, ...ends(axis)))));
  const size = sides.map((side, axis) => 2 ** Math.ceil(Math.log2(side + reach[axis] - 1)));
  const at = (row, column) => (row + apron) * size[1] + column + apron;
  let constant = 0;
  const total = [0, 0].map(() => new Float64Array((size[1] / 2 + 1) * size[0]));
  for (const { slope, points, placed } of groups.values()) {
    if (!points.length) constant += placed.reduce((sum, [, , weight]) => sum + weight, 0);
    else
      addProduct(total, law, size, reach, slope, points, (values) => {
        if (placed) placed.forEach(([row, column, weight]) => (values[at(row, column)] += weight));
        else law.weights.forEach((weight, cell) => (values[at(Math.floor(cell / map.columns), cell % map.columns)] = weight));
      });
  }
  transformRows(total, size[0], -1);
  const [sums] = transformRows([turn(total[0], size[1], size[0], sides[0], 1), turn(total[1], size[1], size[0], sides[0], -1)], size[1], -1);
  const found = new Float64Array(law.size);
  for (let row = 0, cell = 0; row < map.rows; row++)
    for (let column = 0; column < map.columns; column++, cell++) {
      found[cell] = sums[at(row, column)] / (size[0] * size[1]) + constant;
      for (const [slope, points, down, right, weight] of far) found[cell] += weight * decay(law, slope, points, down - row, right - column);
    }
  const least = 1e-9 * largest(found);
  return found.map((sum, cell) => (sum > least ? sum : sumFrom(law, cell))); // a transform errs by 1e-15 of the largest
}

function decay({ map, roughBeta }, slope, points, down, right) {
  let least = points.length ? Infinity : 0;
  for (const [a, b, lag] of points) least = Math.min(least, map.metres(down + a, right + b) + map.roughUnit * lag);
  return Math.exp((-slope / 100) * roughBeta * least);
}

// Add the spectrum of values times kernel, both of them as one complex transform: the kernel as large as the values.
function addProduct([real, imaginary], law, [rows, columns], [tall, wide], slope, points, fill) {
  const { map, roughBeta } = law;
  const scale = 2 ** 40 * Math.sqrt(law.size) * Math.min(1, roughBeta * map.roughHeight);
  const [values, kernel] = [0, 0].map(() => new Float64Array(rows * columns));
  fill(values);
  for (let down = 1 - tall; down < tall; down++)
    for (let right = 1 - wide; right < wide; right++)
      kernel[((rows + down) % rows) * columns + ((columns + right) % columns)] = scale * decay(law, slope, points, -down, -right);
  transformRows([values, kernel], columns, 1);
  const [re, im] = transformRows([turn(values, rows, columns, columns, 1), turn(kernel, rows, columns, columns, 1)], rows, 1);
  for (let i = 0; 2 * i <= columns; i++) // the rest is its conjugate
    for (let j = 0; j < rows; j++) {
      const k = i * rows + j;
      const l = ((columns - i) % columns) * rows + ((rows - j) % rows);
      real[k] += (re[k] * im[k] + re[l] * im[l]) / (2 * scale);
      imaginary[k] += (im[k] * im[k] - re[k] * re[k] + re[l] * re[l] - im[l] * im[l]) / (4 * scale);
    }
}

// Make columns rows, `kept` of them; rows that are not there are those counted from the end, times the sign.
function turn(part, width, columns, kept, sign) {
  const turned = new Float64Array(kept * width);
  const given = part.length / columns;
  for (let left = 0; left < kept; left += 32)
    for (let i = 0; i < width; i++) {
      const isGiven = i < given;
      const from = (isGiven ? i : width - i) * columns;
      const end = Math.min(kept, left + 32);
      for (let j = left; j < end; j++) turned[j * width + i] = isGiven ? part[from + j] : sign * part[from + j];
    }
  return turned;
}

// Fast Fourier transforms of rows whose size is a power of two; sign -1: back, without the division by the size.
function transformRows([re, im], size, sign) {
  const turns = new Uint32Array(size);
  for (let i = 1; i < size; i++) turns[i] = (turns[i >> 1] >> 1) | (i & 1 ? size >> 1 : 0);
  const cosines = Float64Array.from(turns, (_, i) => Math.cos((2 * Math.PI * i) / size));
  const sines = Float64Array.from(turns, (_, i) => -sign * Math.sin((2 * Math.PI * i) / size));
  const swap = (part, here, there) => {
    const kept = part[here];
    part[here] = part[there];
    part[there] = kept;
  };
  for (let start = 0; start < re.length; start += size) {
    const end = start + size;
    let used = start;
    while (used < end && !re[used] && !im[used]) used++;
    if (used === end) continue; // a row of zeros
    for (let i = 0; i < size; i++)
      if (i < turns[i]) {
        swap(re, start + i, start + turns[i]);
        swap(im, start + i, start + turns[i]);
      }
    let half = 1;
    if (Math.log2(size) % 2)
      for (let k = start; k < end; k += half = 2) {
        const x = re[k + 1];
        const y = im[k + 1];
        re[k + 1] = re[k] - x;
        im[k + 1] = im[k] - y;
        re[k] += x;
        im[k] += y;
      }
    for (; half < size; half *= 4) // two stages at once
      for (let at = 0; at < half; at++) {
        const step = ((at * size) / (4 * half)) | 0;
        const c = cosines[2 * step];
        const s = sines[2 * step];
        const u = cosines[step];
        const v = sines[step];
        for (let k = start + at; k < end; k += 4 * half) {
          const l = k + half;
          const m = l + half;
          const n = m + half;
          const a = re[l] * c - im[l] * s;
          const b = re[l] * s + im[l] * c;
          const d = re[n] * c - im[n] * s;
          const e = re[n] * s + im[n] * c;
          const p = re[m] + d;
          const q = im[m] + e;
          const f = re[m] - d;
          const g = im[m] - e;
          const x = p * u - q * v;
          const y = p * v + q * u;
          const z = sign * (f * v + g * u);
          const t = sign * (g * v - f * u);
          const i = re[k];
          const j = im[k];
          re[k] = i + a + x;
          im[k] = j + b + y;
          re[m] = i + a - x;
          im[m] = j + b - y;
          re[l] = i - a + z;
          im[l] = j - b + t;
          re[n] = i - a - z;
          im[n] = j - b - t;
        }
      }
  }
  return [re, im];
}

// --- SHA-256 of a text (FIPS 180-4) -----------------------------------------------------------------------------------

const PRIMES = [];
for (let n = 2; PRIMES.length < 64; n++) if (PRIMES.every((p) => n % p)) PRIMES.push(n);
const bitsOf = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;

function sha256(text) {
  const bytes = new TextEncoder().encode(text);
  const length = ((bytes.length + 72) >> 6) << 6;
  const padded = new Uint8Array(length);
  padded.set(bytes);
  padded[bytes.length] = 128;
  const view = new DataView(padded.buffer);
  view.setBigUint64(length - 8, BigInt(8 * bytes.length));
  const hash = Int32Array.from(PRIMES.slice(0, 8), (p) => bitsOf(Math.sqrt(p)));
  const constants = Int32Array.from(PRIMES, (p) => bitsOf(Math.cbrt(p)));
  const words = new Int32Array(64);
  const turn = (x, by) => (x >>> by) | (x << (32 - by));
  for (let block = 0; block < length; block += 64) {
    for (let i = 0; i < 64; i++) {
      if (i < 16) words[i] = view.getInt32(block + 4 * i);
      else {
        const [u, v] = [words[i - 15], words[i - 2]];
        words[i] = (words[i - 16] + words[i - 7] + (turn(u, 7) ^ turn(u, 18) ^ (u >>> 3)) + (turn(v, 17) ^ turn(v, 19) ^ (v >>> 10))) | 0;
      }
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i++) {
      const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + words[i]) | 0;
      const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (hash[i] = (hash[i] + word) | 0));
  }
  return Array.from(hash, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

function checkCell(law, cell) {
  if (!Number.isInteger(cell) || cell < 0 || cell >= law.size)
    throw new Error(`the cell is outside the map; its cells are 0 to ${law.size - 1}`);
  if (!law.canEnter(cell)) throw new Error("nobody can be in this cell; take the nearest cell in which people can be");
}

// --- repeat use: the rule of device.py, with the same state -----------------------------------------------------------

/** One person's reports by the rule of the file. Store `state` before a report is sent; `openDevice` does it for you. */
export class Device {
  constructor(deviceFile, state = null, { caps = {}, ...options } = {}) {
    this.sampler = options.sampler ?? new Sampler(deviceFile, options);
    this.file = deviceFile;
    this.limits = capped(deviceFile, caps);
    this.name = deviceFile.id.slice(0, IDENTITY_SHOWN);
    this.rule = deviceFile.repeat;
    this.within = parse(this.rule.within_metres);
    this.facts = state === null ? freshState(this.name) : readState(state, this.name);
  }

  get state() {
    const facts = { ...this.facts };
    return { ...facts, seal: sha256(canonical(facts)) };
  }

  /** Declare a zone around a cell: all of it is one place, or gives no report if it is silent. */
  addZone(cell, { metres, silent = false }) {
    checkCell(this.sampler, cell);
    if (!(Number.isInteger(metres) && metres >= 0 && metres <= 100000)) throw new Error("metres must be a whole number between 0 and 100000");
    this.facts.zones = [...this.facts.zones, [cell, metres, silent ? 1 : 0]];
  }

  /** The report for a cell; null where nothing is to be sent: budgets used up, a silent zone, a stay too short. */
  report(cell, day = today()) {
    this.beginDay(day);
    checkCell(this.sampler, cell);
    const zone = this.facts.zones.find(([middle, metres]) => this.isWithin(cell, middle, fraction(BigInt(metres))));
    if (zone?.[2]) return null;
    let place = zone ? zone[0] : cell;
    const known = this.findAnswer(place);
    if (known !== null) {
      this.facts.waiting = [];
      return this.say(known);
    }
    if (!zone) place = this.wait(cell);
    if (place === null) return null;
    for (const period of ["day", "month", "life"]) if (this.facts.drawn[period] >= this.limits[period]) return null;
    const drawn = this.sampler.draw(place);
    this.facts.drawn = { ...this.facts.drawn };
    for (const period in this.facts.drawn) this.facts.drawn[period]++;
    Object.assign(this.facts, { answers: [...this.facts.answers, [place, drawn]], waiting: [] });
    return this.say(drawn);
  }

  say(report) {
    return { artefact: this.name, cell: report }; // of mode near: the number of a hidden report
  }

  reaches(square, metres) {
    const { unit } = this.sampler.map;
    return square * unit.up ** 2n * metres.down ** 2n <= metres.up ** 2n * unit.down ** 2n;
  }

  isWithin(cell, other, metres) {
    return cell === other || this.reaches(this.sampler.map.squares(cell)(other), metres);
  }

  findAnswer(cell) {
    if (!this.facts.answers.length) return null;
    const squares = this.sampler.map.squares(cell);
    const near = this.facts.answers.map(([place, report]) => [squares(place), report]).filter(([square]) => this.reaches(square, this.within));
    return near.length ? near.reduce((best, answer) => (answer[0] < best[0] ? answer : best))[1] : null;
  }

  wait(cell) {
    const { waiting } = this.facts;
    const kept = waiting.length && !this.isWithin(cell, waiting[0], this.within) ? [] : waiting;
    const cells = (this.facts.waiting = [...kept, cell].slice(-this.rule.dwell));
    if (cells.length < this.rule.dwell) return null;
    const farthest = cells.map((from) => cells.map(this.sampler.map.squares(from)).reduce(most));
    return cells[farthest.indexOf(farthest.reduce(least))];
  }

  beginDay(day) {
    if (!isDay(day)) throw new Error("the day must be a day such as 2026-11-16");
    const { facts } = this;
    if (day <= facts.day) return; // a clock that was set back does not bring a budget back
    facts.drawn = { ...facts.drawn, day: 0, ...(day.slice(0, 7) > facts.day.slice(0, 7) ? { month: 0 } : {}) };
    facts.day = day;
    if (this.rule.answers === "daily") facts.answers = [];
  }
}

// A cap that is misspelt or no number would be none.
function capped({ epsilon_per_metre: promised, repeat }, { epsilonPerMetre = promised, reportsPerDay, reportsPerMonth, reportsPerLife, ...other }) {
  if (minus(parse(promised), parse(epsilonPerMetre)).up > 0)
    throw new Error(`the device file promises epsilon ${promised} and this app allows at most ${epsilonPerMetre}; report nothing with it`);
  const least = (limit, cap = Infinity) => Math.min(limit ?? Infinity, cap);
  const limits = { day: least(repeat.day, reportsPerDay), month: least(repeat.month, reportsPerMonth), life: least(repeat.life, reportsPerLife), ...other };
  for (const name in limits) if (name in other || isNaN(limits[name])) throw new Error(`the cap ${name} is none`);
  return limits;
}

function freshState(name) {
  return { artefact: name, state: 2, day: "", drawn: { day: 0, month: 0, life: 0 }, answers: [], waiting: [], zones: [] };
}

// Text that is no JSON becomes a state without a seal, which is damaged.
function parseState(text) {
  try {
    return JSON.parse(text ?? null) ?? (text ? {} : null);
  } catch {
    return {};
  }
}

function readState(state, name) {
  const { seal, ...facts } = state ?? {};
  if (seal !== sha256(canonical(facts))) throw new Error("the stored state of the device is damaged; report nothing until the next day");
  if (facts.artefact !== name) throw new Error("the stored state belongs to another device file");
  return facts;
}

// Of the local clock.
function today() {
  const now = new Date();
  return new Date(now - now.getTimezoneOffset() * 60000).toISOString().slice(0, 10);
}

// A day that is none becomes another one, or no text at all.
function isDay(day) {
  return day > "0001" && new Date(day).toJSON()?.slice(0, 10) === day;
}

/** A device that keeps its state in a store, one report at a time: two tabs never draw twice. */
export function openDevice(deviceFile, { store, caps = {}, ...options } = {}) {
  if (!(store?.read && store.write && store.lock)) throw new Error("openDevice has no store; give browserStore(name) or a store of your own");
  const sampler = new Sampler(deviceFile, options); // the proof, once
  const cellOf = (place) => (typeof place === "number" ? place : cellAt(deviceFile, place?.latitude, place?.longitude));
  const change = (act) =>
    store.lock(async () => {
      const kept = await store.read();
      const device = new Device(deviceFile, parseState(kept), { caps, sampler });
      const result = act(device);
      await store.write(JSON.stringify(device.state)); // before the report is sent
      return result;
    });
  capped(deviceFile, caps);
  return {
    report: async (place, day) => {
      const cell = cellOf(place);
      return cell === null ? null : change((device) => device.report(cell, day));
    },
    addZone: (place, zone) => change((device) => device.addZone(cellOf(place), zone)),
    law: (cell) => lawOf(sampler, cell),
    tell: (report) => told(deviceFile, report),
  };
}

/** The cell that stands for a report: the nearest to where people may be who sent it. */
export function told(deviceFile, { cell }) {
  return deviceFile.told ? deviceFile.told[cell] : cell;
}

/** The chance of every cell to be told from one cell, in floats: to show a person where their report may fall. */
export function lawOf(sampler, cell) {
  checkCell(sampler, cell);
  const row = sampler.rowOf(cell);
  const total = row.terms.reduce((sum, term) => sum + term, 0);
  const law = new Float64Array(sampler.size);
  row.reports.forEach((report, place) => (law[told(sampler.file, { cell: report })] += row.terms[place] / total));
  return law;
}

/** A store in localStorage; the Web Locks of the browser keep other tabs out. */
export function browserStore(name, { storage = globalThis.localStorage, locks = globalThis.navigator?.locks } = {}) {
  if (!storage || !locks) throw new Error("this browser has no localStorage or Web Locks; give a store of your own");
  return {
    read: () => storage.getItem(name),
    write: (text) => storage.setItem(name, text),
    lock: (act) => locks.request(`sudare ${name}`, act),
  };
}
