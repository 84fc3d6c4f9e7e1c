// Asks how far the work is, and loads the page again when it has ended or the spend is made.
"use strict";
const box = document.getElementById("job"), bar = document.getElementById("bar");
let spent = null;
async function look() {
  try {
    const told = await (await fetch(box.dataset.state)).json();
    if (told.share !== null) bar.setAttribute("width", String(Math.max(2, 100 * told.share)));
    if (told.state !== "running" || (spent === false && told.spent)) { location.reload(); return; }
    spent = told.spent;
  } catch { /* the studio may be starting again */ }
  setTimeout(look, 400);
}
look();
