// Land and sea are painted on a small map; the signs in the field below it are what is sent.
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const paint = document.getElementById("paint"), land = document.getElementById("land"), form = document.getElementById("places");
const MOST_PAINTED = 2500; // larger maps are written as text or come as a file
let here = 0, brush = null;

const sizes = () => [Number(form.elements.rows.value), Number(form.elements.columns.value)];

function read() {
  const [rows, columns] = sizes();
  const lines = land.value.split("\n");
  return Array.from({length: rows}, (_, row) => Array.from({length: columns}, (_, column) => (lines[row] || "")[column] === "." ? "." : "#"));
}

function write(signs) {
  const isAllLand = signs.every(line => line.every(sign => sign === "#"));
  land.value = isAllLand ? "" : signs.map(line => line.join("")).join("\n");
}

function turn(at, sign) {
  const [, columns] = sizes(), signs = read();
  const row = Math.floor(at / columns), column = at % columns;
  signs[row][column] = sign ?? (signs[row][column] === "." ? "#" : ".");
  write(signs);
  draw();
  return signs[row][column];
}

function draw() {
  const [rows, columns] = sizes();
  const isSmall = rows >= 2 && columns >= 2 && rows * columns <= MOST_PAINTED;
  paint.classList.toggle("off", !isSmall);
  if (!isSmall) { paint.replaceChildren(); return; }
  const tall = Number(form.elements.height.value), wide = Number(form.elements.width.value);
  const side = 600 / columns, high = side * (tall > 0 && wide > 0 ? Math.min(Math.max(tall / wide, .2), 5) : 1);
  const signs = read();
  here = Math.min(here, rows * columns - 1);
  paint.setAttribute("viewBox", `0 0 600 ${rows * high}`);
  paint.replaceChildren(...Array.from({length: rows * columns}, (_, at) => {
    const cell = document.createElementNS(SVG, "rect"), row = Math.floor(at / columns), column = at % columns;
    const look = {x: column * side, y: row * high, width: Math.max(side - 1, 1), height: Math.max(high - 1, 1)};
    for (const [name, value] of Object.entries(look)) cell.setAttribute(name, value);
    cell.setAttribute("class", `${signs[row][column] === "." ? "water" : "cell"}${at === here ? " here" : ""}`);
    cell.addEventListener("pointerdown", event => { event.preventDefault(); paint.focus(); here = at; brush = turn(at); });
    cell.addEventListener("pointerenter", event => { if (brush && event.buttons) turn(at, brush); });
    return cell;
  }));
}

addEventListener("pointerup", () => { brush = null; });
paint.addEventListener("keydown", event => {
  const [rows, columns] = sizes();
  const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns}[event.key];
  if (event.key === " " || event.key === "Enter") turn(here);
  else if (step && here + step >= 0 && here + step < rows * columns) { here += step; draw(); }
  else if (!step) return;
  event.preventDefault();
});
for (const name of ["rows", "columns", "height", "width"]) form.elements[name].addEventListener("input", draw);
land.addEventListener("input", draw);
draw();
