// The editor of coarser levels: values are chips that are chosen, grouped, split and dragged; the CSV below is the result.
"use strict";
const CLOSED = /[;\n\r]/g;
for (const editor of document.querySelectorAll("[data-editor]")) {
  const number = editor.dataset.editor;
  const text = document.getElementById(`levels-${number}`);
  const taken = text.closest("details").querySelector("[name=hierarchy_edited]");
  const read = () => text.value.split("\n").filter(Boolean).map(line => line.split(";"));
  const history = [];
  const rows = read();
  if (rows.length > 300 || rows.some(row => row.length > 4)) continue; // deep or long ones are edited as CSV
  editor.hidden = false;
  const box = editor.querySelector(".groups");
  let groups = group(rows);
  let chosen = new Set();

  function group(lines) { // the groups of the first level, by name, in order
    const found = new Map();
    for (const [value, name] of lines) {
      const key = name === undefined ? value : name;
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(value);
    }
    return [...found].map(([name, values]) => ({name, values}));
  }

  function write() {
    const order = new Map(rows.map(([value], at) => [value, at]));
    const lines = groups.flatMap(each => each.values.map(value => [value, each.name]));
    lines.sort((a, b) => order.get(a[0]) - order.get(b[0]));
    text.value = lines.map(([value, name]) => groups.length > 1 ? `${value};${name};*` : `${value};*`).join("\n");
    taken.checked = true;
  }

  function change(work) {
    history.push(JSON.stringify(groups));
    work();
    groups = groups.filter(each => each.values.length);
    chosen = new Set();
    write();
    draw();
  }

  function move(values, target) {
    for (const each of groups) each.values = each.values.filter(value => !values.includes(value));
    target.values.push(...values);
  }

  function draw() {
    box.replaceChildren(...groups.map(each => {
      const frame = document.createElement("div");
      frame.className = "group";
      frame.setAttribute("role", "group");
      frame.setAttribute("aria-label", each.name);
      const name = document.createElement("input");
      name.type = "text";
      name.value = each.name;
      name.setAttribute("aria-label", editor.dataset.new);
      name.addEventListener("change", () => change(() => { each.name = name.value.replace(CLOSED, " ").trim() || each.name; }));
      frame.append(name, ...each.values.map((value, at) => chip(value, at)));
      frame.addEventListener("dragover", event => { event.preventDefault(); frame.classList.add("over"); });
      frame.addEventListener("dragleave", () => frame.classList.remove("over"));
      frame.addEventListener("drop", event => {
        event.preventDefault();
        const value = event.dataTransfer.getData("text/plain");
        if (rows.some(row => row[0] === value)) change(() => move(chosen.has(value) ? [...chosen] : [value], each));
      });
      return frame;
    }));
  }

  function chip(value, at) { // one stop of the Tab key for each group: the arrows go on from there
    const button = document.createElement("button");
    button.type = "button";
    button.className = "chip";
    button.textContent = value;
    button.draggable = true;
    button.tabIndex = at ? -1 : 0;
    button.setAttribute("aria-pressed", String(chosen.has(value)));
    button.addEventListener("click", () => {
      chosen.has(value) ? chosen.delete(value) : chosen.add(value);
      button.setAttribute("aria-pressed", String(chosen.has(value)));
    });
    button.addEventListener("keydown", event => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!step) return;
      const chips = [...button.parentElement.querySelectorAll(".chip")];
      const next = chips[(chips.indexOf(button) + step + chips.length) % chips.length];
      for (const each of chips) each.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
      event.preventDefault();
    });
    button.addEventListener("dragstart", event => event.dataTransfer.setData("text/plain", value));
    return button;
  }

  editor.querySelector("[data-do=group]").addEventListener("click", () => {
    if (!chosen.size) return;
    change(() => {
      const names = new Set(groups.map(each => each.name));
      let name = [...chosen].slice(0, 3).join("・") + (chosen.size > 3 ? "…" : ""), at = 2;
      const base = name;
      while (names.has(name)) name = `${base} ${at++}`;
      const fresh = {name, values: []};
      move([...chosen], fresh);
      groups.push(fresh);
    });
  });
  editor.querySelector("[data-do=split]").addEventListener("click", () => {
    if (!chosen.size) return;
    change(() => {
      for (const value of [...chosen]) {
        const alone = {name: value, values: []};
        move([value], alone);
        groups.push(alone);
      }
    });
  });
  editor.querySelector("[data-do=undo]").addEventListener("click", () => {
    if (!history.length) return;
    groups = JSON.parse(history.pop());
    write();
    draw();
  });
  text.addEventListener("input", () => { taken.checked = true; groups = group(read()); draw(); });
  draw();
}
