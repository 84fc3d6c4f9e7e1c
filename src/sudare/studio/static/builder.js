// Asks for the verdict while a request is put together; older answers are dropped.
"use strict";
const form = document.getElementById("builder"), words = document.getElementById("words"), box = document.getElementById("verdict");
const near = document.getElementById("near"), list = near.querySelector("ul"), left = document.getElementById("left");
let last = 0, waiting = null, asked = null;
async function judge() {
  const mine = ++last;
  if (asked) asked.abort();
  asked = new AbortController();
  const fields = new URLSearchParams([...new FormData(form)].filter(([name]) => /^(level|own)-/.test(name)));
  if (![...fields].some(([name, value]) => name.startsWith("level-") && value)) return;
  try {
    const answer = await fetch(form.dataset.verdict, {method: "POST", body: fields, signal: asked.signal});
    const told = await answer.json();
    if (mine !== last) return;
    words.textContent = told.error || told.words;
    box.className = `card verdict ${told.verdict || ""}`;
    list.replaceChildren(...(told.alternatives || []).map(each => {
      const item = document.createElement("li");
      item.textContent = each;
      return item;
    }));
    near.hidden = !list.children.length;
    if (told.left !== undefined) left.dataset.left = told.left;
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
}
form.addEventListener("input", event => {
  clearTimeout(waiting);
  waiting = setTimeout(judge, event.target.tagName === "TEXTAREA" ? 250 : 150);
});
