// The editor of coarser levels: labels are chips that are chosen, grouped, split and dragged; the CSV below is the result.
//
// parents[0] says in which group every value lies, parents[1] in which group of the next level each of these groups
// lies, and so on. A group lies in one group of the next level, so levels stay nested whatever is done.
"use strict";
const CLOSED = /[;\n\r]/g;
const MOST_ROWS = 300; // longer ones are edited as CSV
for (const editor of document.querySelectorAll("[data-editor]")) start(editor);

function start(editor) {
  const text = document.getElementById(`levels-${editor.dataset.editor}`);
  const taken = text.closest("details").querySelector("[name=hierarchy_edited]");
  const box = editor.querySelector(".groups"), tabs = editor.querySelector(".tabs"), told = editor.querySelector("[role=status]");
  const history = [];
  let values = [], parents = [], level = 0, chosen = new Set();

  function read() { // gives false where the CSV is not a hierarchy that can be drawn
    const rows = text.value.split(/\r?\n/).filter(Boolean).map(line => line.split(";").map(cell => cell.trim()));
    const width = Math.max(...rows.map(row => row.length));
    if (!rows.length || rows.length > MOST_ROWS || rows.some(row => row.length !== width)) return false;
    const isClosed = width > 1 && new Set(rows.map(row => row[width - 1])).size === 1;
    const depth = isClosed ? width - 2 : width - 1;
    const found = Array.from({length: depth}, () => new Map());
    for (const row of rows)
      for (let at = 0; at < depth; at++) {
        if (found[at].has(row[at]) && found[at].get(row[at]) !== row[at + 1]) return false;
        found[at].set(row[at], row[at + 1]);
      }
    values = rows.map(row => row[0]);
    parents = found.length ? found : [new Map(values.map(value => [value, value]))];
    level = Math.min(level, parents.length - 1);
    return true;
  }

  function write() {
    const lines = values.map(value => {
      const line = [value];
      for (const up of parents) line.push(up.get(line.at(-1)));
      return [...line, "*"].join(";");
    });
    text.value = lines.join("\n");
    taken.checked = true;
  }

  const members = () => level ? [...new Set(parents[level - 1].values())] : values; // the chips of this level
  const groups = () => [...new Set(members().map(label => parents[level].get(label)))];

  function change(work) {
    history.push([JSON.stringify(parents.map(up => [...up])), level]);
    work();
    for (let at = 1; at < parents.length; at++) { // groups that are gone lie nowhere; new ones with their first member
      const used = new Set(parents[at - 1].values());
      for (const label of parents[at].keys()) if (!used.has(label)) parents[at].delete(label);
      for (const label of used) if (!parents[at].has(label)) parents[at].set(label, label);
    }
    chosen = new Set();
    write();
    draw();
  }

  function move(labels, name) {
    const above = parents[level + 1];
    if (above && !above.has(name)) above.set(name, above.get(parents[level].get(labels[0])));
    for (const label of labels) parents[level].set(label, name);
  }

  function fresh(name) { // a name that no group has yet
    const names = new Set(groups());
    let found = name, at = 2;
    while (names.has(found)) found = `${name} ${at++}`;
    return found;
  }

  function rename(before, typed) {
    const after = typed.replace(CLOSED, " ").trim();
    if (!after || after === before) return;
    const name = fresh(after);
    change(() => {
      if (parents[level + 1]) parents[level + 1].set(name, parents[level + 1].get(before));
      for (const [label, group] of parents[level]) if (group === before) parents[level].set(label, name);
    });
  }

  function draw() {
    tabs.replaceChildren(...parents.map((_, at) => button(editor.dataset.level.replace("{level}", at + 1), "chip", () => { level = at; chosen = new Set(); draw(); }, at === level)),
      ...(parents.length < 5 ? [button(editor.dataset.more, "chip", () => change(() => { parents.push(new Map(groupsOf(parents.length - 1).map(name => [name, name]))); level = parents.length - 1; }))] : []),
      ...(parents.length > 1 ? [button(editor.dataset.less, "chip", () => change(() => { parents.pop(); level = Math.min(level, parents.length - 1); }))] : []));
    box.replaceChildren(...groups().map(frame));
    told.textContent = editor.dataset.told.replace("{before}", members().length).replace("{after}", groups().length);
  }

  const groupsOf = at => [...new Set(parents[at].values())];

  function button(words, kind, work, pressed) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = kind;
    made.textContent = words;
    if (pressed !== undefined) made.setAttribute("aria-pressed", String(pressed));
    made.addEventListener("click", work);
    return made;
  }

  function frame(name) {
    const made = document.createElement("div");
    made.className = "group";
    made.setAttribute("role", "group");
    made.setAttribute("aria-label", name);
    const field = document.createElement("input");
    field.type = "text";
    field.value = name;
    field.setAttribute("aria-label", editor.dataset.new);
    field.addEventListener("change", () => rename(name, field.value));
    made.append(field, ...members().filter(label => parents[level].get(label) === name).map(chip));
    made.addEventListener("dragover", event => { event.preventDefault(); made.classList.add("over"); });
    made.addEventListener("dragleave", () => made.classList.remove("over"));
    made.addEventListener("drop", event => {
      event.preventDefault();
      const label = event.dataTransfer.getData("text/plain");
      if (members().includes(label)) change(() => move(chosen.has(label) ? [...chosen] : [label], name));
    });
    return made;
  }

  function chip(label, at) { // one stop of the Tab key for each group: the arrows go on from there
    const made = button(label, "chip", () => {
      chosen.has(label) ? chosen.delete(label) : chosen.add(label);
      made.setAttribute("aria-pressed", String(chosen.has(label)));
    }, chosen.has(label));
    made.draggable = true;
    made.tabIndex = at ? -1 : 0;
    made.addEventListener("keydown", event => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!step) return;
      const chips = [...made.parentElement.querySelectorAll(".chip")];
      const next = chips[(chips.indexOf(made) + step + chips.length) % chips.length];
      for (const each of chips) each.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
      event.preventDefault();
    });
    made.addEventListener("dragstart", event => event.dataTransfer.setData("text/plain", label));
    return made;
  }

  const actions = {
    group: () => chosen.size && change(() => {
      const labels = members().filter(label => chosen.has(label));
      move(labels, fresh(labels.slice(0, 3).join("・") + (labels.length > 3 ? "…" : "")));
    }),
    split: () => chosen.size && change(() => { for (const label of [...chosen]) move([label], fresh(label)); }),
    undo: () => {
      if (!history.length) return;
      const [kept, at] = history.pop();
      parents = JSON.parse(kept).map(up => new Map(up));
      level = at;
      write();
      draw();
    },
    export: () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob(["\ufeff" + text.value + "\n"], {type: "text/csv"}));
      link.download = `${editor.dataset.name}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
    },
  };
  for (const [name, work] of Object.entries(actions)) editor.querySelector(`[data-do=${name}]`).addEventListener("click", work);
  editor.querySelector("input[type=file]").addEventListener("change", async event => {
    const file = event.target.files[0];
    if (!file) return;
    text.value = (await file.text()).replace(/^\ufeff/, "");
    event.target.value = "";
    follow();
  });
  function follow() { // what was typed or read from a file; what cannot be drawn is left to the check on saving
    taken.checked = true;
    const isDrawn = read();
    box.hidden = tabs.hidden = !isDrawn;
    if (isDrawn) draw();
  }
  text.addEventListener("input", follow);
  if (read()) {
    editor.hidden = false;
    draw();
  }
}
