// Shows where the report of a device may fall: the code and the file are those that devices use.
import {lawOf, Sampler, told} from "/code/device.js";

const SVG = "http://www.w3.org/2000/svg";
const map = document.getElementById("map"), said = document.getElementById("said"), button = document.getElementById("draw");
const file = await (await fetch(map.dataset.file)).json();
const {rows, columns, kind} = file.grid;
const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

if (kind !== "plane") {
  said.textContent = said.dataset.none;
  button.hidden = true;
} else {
  const sampler = new Sampler(file);
  const size = [Number(file.grid.cell_width_metres), Number(file.grid.cell_height_metres)];
  const scale = 600 / (columns * size[0]), wide = size[0] * scale, high = size[1] * scale;
  map.setAttribute("viewBox", `0 0 600 ${rows * high}`);
  const cells = Array.from({length: rows * columns}, (_, at) => {
    const cell = document.createElementNS(SVG, "rect");
    cell.setAttribute("x", (at % columns) * wide);
    cell.setAttribute("y", Math.floor(at / columns) * high);
    cell.setAttribute("width", Math.max(wide - 1, 1));
    cell.setAttribute("height", Math.max(high - 1, 1));
    cell.addEventListener("click", () => { here = at; drawn = null; show(); });
    map.append(cell);
    return cell;
  });
  const person = document.createElementNS(SVG, "circle"), report = document.createElementNS(SVG, "circle");
  person.setAttribute("class", "person");
  report.setAttribute("class", "report");
  map.append(person, report);
  let here = Math.floor(rows / 2) * columns + Math.floor(columns / 2), drawn = null;
  const place = (mark, at, radius) => {
    mark.setAttribute("cx", (at % columns + .5) * wide);
    mark.setAttribute("cy", (Math.floor(at / columns) + .5) * high);
    mark.setAttribute("r", radius);
  };
  const name = at => ({row: Math.floor(at / columns) + 1, column: at % columns + 1});

  const what = document.getElementById("what"), MOST_KNOWN = 2500;
  let columnsOfLaw = null; // how likely each report is from each cell, made when it is first asked for

  function behind(report) { // where people may be who sent a report, if they are spread evenly
    columnsOfLaw ??= cells.map((_, at) => sampler.canEnter(at) ? lawOf(sampler, at) : null);
    const chances = columnsOfLaw.map(law => law === null ? 0 : law[report]);
    const total = chances.reduce((sum, each) => sum + each, 0);
    return chances.map(each => total > 0 ? each / total : 0);
  }

  function shade(values) {
    const most = Math.max(...values) || 1;
    cells.forEach((cell, at) => {
      cell.setAttribute("class", values[at] > 0 ? "reach-cell" : "sea");
      cell.setAttribute("fill-opacity", (.08 + .92 * values[at] / most).toFixed(3));
    });
    return most;
  }

  function show() {
    place(person, here, Math.min(wide, high) / 3);
    place(report, drawn ?? here, drawn === null ? 0 : Math.min(wide, high) / 2.6);
    const tell = (text, share) => { said.textContent = fill(text, {...name(here), chance: (100 * share).toFixed(1)}); };
    if (what.value === "weights") {
      shade(sampler.weights);
      tell(said.dataset.weight, sampler.weights[here] / sampler.heaviest);
    } else if (what.value === "posterior") {
      if (cells.length > MOST_KNOWN) said.textContent = said.dataset.many;
      else tell(said.dataset.behind, shade(behind(here)));
    } else if (!sampler.canEnter(here)) {
      shade(sampler.weights);
      tell(said.dataset.nobody, 0);
    } else {
      const law = lawOf(sampler, here);
      shade(law);
      tell(said.dataset.here, law[here]);
    }
    if (drawn !== null) {
      const metres = Math.hypot((drawn % columns - here % columns) * size[0], (Math.floor(drawn / columns) - Math.floor(here / columns)) * size[1]);
      said.textContent = fill(said.dataset.drawn, {...name(drawn), metres: Math.round(metres)});
    }
  }

  function draw() {
    if (!sampler.canEnter(here)) { show(); return; }
    drawn = told(file, {cell: sampler.draw(here)});
    show();
  }

  what.addEventListener("change", () => { drawn = null; show(); });
  button.addEventListener("click", draw);
  map.addEventListener("keydown", event => {
    const row = Math.floor(here / columns), column = here % columns;
    const step = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0]}[event.key];
    if (event.key === "Enter") draw();
    if (!step) return;
    event.preventDefault();
    here = Math.min(Math.max(row + step[0], 0), rows - 1) * columns + Math.min(Math.max(column + step[1], 0), columns - 1);
    drawn = null;
    show();
  });
  show();
}
