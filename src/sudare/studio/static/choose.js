// Shows what an answer gives as soon as it is given: the same page is asked for, and its advice put in place.
"use strict";
const form = document.getElementById("choose");
let last = 0, waiting = null, asked = null;
async function ask() {
  const mine = ++last;
  if (asked) asked.abort();
  asked = new AbortController();
  const fields = new URLSearchParams(new FormData(form));
  if (!fields.get("need")) return;
  try {
    const answer = await fetch(form.action, {method: "POST", body: fields, signal: asked.signal});
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("advice");
    if (mine !== last || !fresh) return;
    const focused = document.activeElement, name = focused && focused.name, value = focused && focused.value;
    document.getElementById("advice").replaceWith(document.adoptNode(fresh));
    const old = document.getElementById("error"), wrong = page.getElementById("error");
    if (old) old.remove();
    if (wrong) document.getElementById("main").prepend(document.adoptNode(wrong));
    form.querySelector("button[name=go]").disabled = !!wrong;
    if (name && !document.contains(focused)) {
      const again = [...form.querySelectorAll(`[name="${CSS.escape(name)}"]`)].find(each => each.value === value);
      if (again) again.focus();
    }
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
}
form.addEventListener("input", event => {
  clearTimeout(waiting);
  waiting = setTimeout(ask, event.target.type === "text" ? 250 : 150);
});
