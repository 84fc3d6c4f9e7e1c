// A person on a drawn map: where a report may fall, what it protects, and that a second report tells no more.
import { browserStore, openDevice } from "../device.min.js";

const WORDS = {
  en: {
    title: "Where may my report fall?",
    lead: "This app never learns for sure where you are. Your device reports a place around you, drawn at random. Click on the map (or use the arrow keys) to say where you are; nothing leaves this page.",
    fall: "Where the report may fall",
    fallen: (f) => `Half of the reports fall within ${f.half} m of you and nine of ten within ${f.nine} m. The true cell of ${f.side} m is reported with chance ${f.own}\u00a0%.`,
    sea: "Nobody is at sea on this map. Choose a place on land.",
    send: "Send a report",
    forget: "Forget all (demo)",
    sent: (f) => `Reported: the red point, ${f.metres} m from you.`,
    again: (f) => `The same answer again, ${f.metres} m from you: the place is known, and nothing new is told.`,
    none: "Nothing is sent: the budget of new places is used up for today.",
    protects: "What it protects",
    away: "If you were elsewhere, so far away:",
    factor: (f) => `From every place ${f.away} m away (dotted circle) the same report is at least 1/${f.factor} as likely. So nobody can exclude that you are there.`,
    months: "After months",
    found: (f) => `Home is drawn once and keeps its answer. An attacker who keeps every report and knows the map finds the home cell with chance ${f["1"]}\u00a0% after a day, ${f["30"]}\u00a0% after 30 days and ${f["365"]}\u00a0% after a year.`,
    hidden: "Not hidden: how many places you have, and when you are at the same one again.",
    legend: { person: "you", chance: "where the report may fall; darker is likelier", half: "half of the reports", nine: "nine of ten", also: "could also be you" },
    map: "Map of a made-up town: arrow keys move the person, Enter sends a report",
    places: { station: "Station", harbour: "Harbour", park: "Park" },
  },
  ja: {
    title: "報告はどこに出るか",
    lead: "このアプリがあなたの居場所を確かに知ることはありません。端末は、周りから無作為に選んだ場所を報告します。地図をクリックするか矢印キーで、今いる場所を選んでください。このページの外には何も送られません。",
    fall: "報告が出る範囲",
    fallen: (f) => `報告の半分は今いる場所から ${f.half} m 以内、10 回に 9 回は ${f.nine} m 以内に出ます。実際のセル（${f.side} m 四方）が報告される確率は ${f.own}\u00a0% です。`,
    sea: "この地図では、海の上に人はいません。陸の上を選んでください。",
    send: "報告を送る",
    forget: "すべて忘れる（デモ用）",
    sent: (f) => `赤い点を報告しました。今いる場所から ${f.metres} m 離れています。`,
    again: (f) => `前と同じ答えです（${f.metres} m 離れています）。すでに答えた場所なので、新しい情報は出ません。`,
    none: "何も送りません。新しい場所に答えられる回数を、今日はもう使い切りました。",
    protects: "何が守られるか",
    away: "もし別の場所にいたとしたら（離れている距離）：",
    factor: (f) => `${f.away} m 離れたどの場所（点線の円）からでも、同じ報告が少なくとも 1/${f.factor} の確からしさで出ます。そこにいる可能性は、だれにも否定できません。`,
    months: "何か月も使うと",
    found: (f) => `自宅の答えは一度だけ選ばれ、その後は変わりません。すべての報告を集め、地図も知っている攻撃者が自宅のセルを言い当てる確率は、1 日後 ${f["1"]}\u00a0%、30 日後 ${f["30"]}\u00a0%、1 年後 ${f["365"]}\u00a0% です。`,
    hidden: "隠されないこと：場所がいくつあるか、いつ同じ場所に戻ったか。",
    legend: { person: "今いる場所", chance: "報告が出る場所（濃いほど出やすい）", half: "報告の半分", nine: "10 回に 9 回", also: "いるかもしれない場所" },
    map: "架空の町の地図。矢印キーで人を動かし、Enter で報告を送ります",
    places: { station: "駅", harbour: "港", park: "公園" },
  },
};

const asked = new URLSearchParams(location.search);
const load = async (name) => (await fetch(new URL(name, import.meta.url))).json();
const [file, { home_found: found }] = await Promise.all([load("town.json"), load("figures.json")]);
const { rows, columns } = file.grid;
const side = Number(file.grid.cell_width_metres);
const store = browserStore("sudare example");
const device = openDevice(file, { store, caps: { epsilonPerMetre: "0.005", reportsPerDay: 3 } });
const [up, down] = String(file.epsilon_per_metre).split("/").map(Number);
const epsilon = up / (down || 1);
const runs = file.weights.runs; // how many cells, and their weight, alternately
const weights = runs ? runs.flatMap((count, at) => (at % 2 ? [] : Array(count).fill(runs[at + 1]))) : file.weights;

const state = { language: asked.get("lang") ?? (navigator.language.startsWith("ja") ? "ja" : "en"), cell: Number(asked.get("cell") ?? 12 * columns + 13), report: null, seen: false };
const find = (id) => document.getElementById(id);
const middle = (cell) => [((cell % columns) + 0.5) * side, (rows - Math.floor(cell / columns) - 0.5) * side]; // north is up
const metres = (a, b) => Math.hypot(middle(a)[0] - middle(b)[0], middle(a)[1] - middle(b)[1]);

function draw(kind, attributes, parent = find("map")) {
  const shape = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
  parent.append(shape);
  return shape;
}

function drawTown(words) {
  const coast = Array.from({ length: 65 }, (_, at) => [at * 50, 2400 - 250 - 1150 * Math.max(0, (at * 50 - 1500) / 1700) ** 1.5]);
  draw("rect", { class: "sea", width: 3200, height: 2400 });
  draw("path", { class: "land", d: `M0 0 L0 ${coast[0][1]} ${coast.map((point) => `L${point.join(" ")}`).join(" ")} L3200 0 Z` });
  draw("path", { class: "park", d: "M560 420 q180 -90 380 10 q90 190 -40 330 q-240 80 -390 -60 q-60 -160 50 -280 Z" });
  draw("path", { class: "river", d: "M2050 0 C1900 500 2150 800 1900 1150 S1500 1750 1560 2160" });
  for (let at = 250; at < 1900; at += 180) draw("path", { class: "street", d: `M${at} 900 L${at + 60} 2050` });
  for (let at = 950; at < 2050; at += 180) draw("path", { class: "street", d: `M120 ${at} L1700 ${at - 30}` });
  for (const d of ["M0 1250 C700 1180 1200 1260 1700 1120 S2700 700 3200 640", "M1080 0 C1120 600 1180 1300 1060 2120", "M2350 0 C2300 420 2500 760 2420 1280"]) {
    draw("path", { class: "casing", d });
    draw("path", { class: "road", d });
  }
  draw("path", { class: "rail", d: "M0 1560 C600 1500 1300 1520 1750 1350 S2650 900 3200 860" });
  draw("rect", { x: 1290, y: 1440, width: 150, height: 62, rx: 12, fill: "#8b8f94" });
  for (const [name, x, y] of [["station", 1365, 1415], ["harbour", 2120, 2020], ["park", 740, 610]]) draw("text", { class: "label", x, y }).textContent = words.places[name];
}

function drawReports(words) {
  const isLand = weights[state.cell] > 0;
  find("fall").textContent = isLand ? "" : words.sea;
  if (!isLand) return;
  const law = device.law(state.cell);
  const most = law.reduce((best, chance) => Math.max(best, chance), 0);
  law.forEach((chance, cell) => {
    const [x, y] = middle(cell);
    if (chance > most / 200) draw("rect", { class: "chance", x: x - side / 2, y: y - side / 2, width: side, height: side, "fill-opacity": (0.62 * (chance / most) ** 0.7).toFixed(3) });
  });
  const order = Array.from(law.keys()).sort((a, b) => metres(a, state.cell) - metres(b, state.cell));
  const within = (share) => { let sum = 0; return metres(order.find((cell) => (sum += law[cell]) >= share), state.cell); };
  const [half, nine] = [within(0.5), within(0.9)];
  const [cx, cy] = middle(state.cell);
  draw("circle", { class: "ring", cx, cy, r: half });
  draw("circle", { class: "ring nine", cx, cy, r: nine });
  draw("circle", { class: "also", cx, cy, r: find("away").value });
  find("fall").textContent = words.fallen({ half: Math.round(half), nine: Math.round(nine), side, own: (100 * law[state.cell]).toFixed(1) });
}

function drawPeople(words) {
  const [cx, cy] = middle(state.cell);
  find("sent").textContent = "";
  if (state.report !== null) {
    const [x, y] = middle(state.report);
    draw("line", { class: "way", x1: cx, y1: cy, x2: x, y2: y });
    draw("circle", { class: "report", cx: x, cy: y, r: 44 });
    find("sent").textContent = (state.seen ? words.again : words.sent)({ metres: Math.round(metres(state.cell, state.report)) });
  } else if (state.report === null && state.seen) find("sent").textContent = words.none;
  draw("circle", { class: "person", cx, cy, r: 44 });
}

function drawLegend({ legend }) {
  const marks = { person: "background: var(--person); border-radius: 50%", chance: "background: var(--report); opacity: .6", half: "border: 2px solid var(--report); border-radius: 50%", nine: "border: 2px dashed var(--report); border-radius: 50%", also: "border: 2px dotted var(--person); border-radius: 50%" };
  find("legend").replaceChildren(...Object.entries(marks).map(([name, look]) => {
    const entry = document.createElement("span");
    const mark = document.createElement("i");
    mark.style.cssText = look;
    entry.append(mark, legend[name]);
    return entry;
  }));
}

function show() {
  const words = WORDS[state.language];
  document.documentElement.lang = state.language;
  document.title = words.title;
  for (const part of document.querySelectorAll("[data-text]")) part.textContent = words[part.dataset.text];
  for (const button of document.querySelectorAll("[data-language]")) button.setAttribute("aria-pressed", button.dataset.language === state.language);
  find("map").replaceChildren();
  find("map").setAttribute("aria-label", words.map);
  drawTown(words);
  drawReports(words);
  drawPeople(words);
  drawLegend(words);
  const away = Number(find("away").value);
  find("protects").textContent = words.factor({ away, factor: Math.exp(epsilon * away).toFixed(1) });
  find("months").textContent = words.found(Object.fromEntries(Object.entries(found).map(([days, chance]) => [days, (100 * chance).toFixed(0)])));
}

const keptText = () => store.lock(async () => store.read());

async function send() {
  if (!(weights[state.cell] > 0)) return;
  const before = await keptText();
  const report = await device.report(state.cell);
  const drawn = (text) => (text ? JSON.parse(text).answers.length : 0);
  state.seen = report === null || drawn(before) === drawn(await keptText());
  state.report = report === null ? null : device.tell(report);
  show();
}

function move(cell) {
  if (cell < 0 || cell >= rows * columns) return;
  Object.assign(state, { cell, report: null, seen: false });
  show();
}

for (const button of document.querySelectorAll("[data-language]")) button.addEventListener("click", () => { state.language = button.dataset.language; show(); });
find("map").addEventListener("click", (event) => {
  const box = find("map").getBoundingClientRect();
  const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  move(Math.min(rows - 1, Math.floor((1 - y) * rows)) * columns + Math.min(columns - 1, Math.floor(x * columns)));
});
find("map").addEventListener("keydown", (event) => {
  const step = { ArrowUp: columns, ArrowDown: -columns, ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const isEdge = (event.key === "ArrowLeft" && state.cell % columns === 0) || (event.key === "ArrowRight" && state.cell % columns === columns - 1);
  if (step && !isEdge) move(state.cell + step);
  if (step || event.key === "Enter") event.preventDefault();
  if (event.key === "Enter") send();
});
find("send").addEventListener("click", send);
find("forget").addEventListener("click", () => { localStorage.clear(); move(state.cell); });
find("away").addEventListener("input", show);
show();
if (asked.has("send")) await send();
document.body.dataset.ready = "yes";
