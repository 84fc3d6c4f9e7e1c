// Run with `npm test`: the source and the short form behave alike; maps.json holds device files that Python wrote.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fs from "node:fs";
import test from "node:test";
import { gzipSync } from "node:zlib";

const here = new URL("./", import.meta.url);
const maps = JSON.parse(fs.readFileSync(new URL("maps.json", here), "utf8"));
const forms = { source: await import("../device.js"), short: await import("../device.min.js") };

function memoryStore() {
  let kept = null;
  let last = Promise.resolve();
  return {
    read: async () => kept,
    write: async (text) => void (kept = text),
    lock: (act) => (last = last.then(act, act)),
  };
}

test("the short form is under 10 kB gzipped", () => {
  assert.ok(gzipSync(fs.readFileSync(new URL("../device.min.js", here)), { level: 9 }).length < 10000);
});

for (const [form, sudare] of Object.entries(forms)) {
  for (const [name, file] of Object.entries(maps)) {
    test(`${form}: ${name} is proven, and a changed entry is refused`, () => {
      sudare.proveFile(file);
      for (const change of [{ beta_per_metre: "10" }, { epsilon_per_metre: "1/100000" }, { repeat: { ...file.repeat, day: 99 } }])
        assert.throws(() => sudare.proveFile({ ...file, ...change }), /not as Sudare wrote it/);
    });

    test(`${form}: the law of ${name} adds up to 1 and reports have it`, () => {
      const sampler = new sudare.Sampler(file);
      const law = sudare.lawOf(sampler, 3);
      const draws = 20000;
      const counts = new Float64Array(law.length);
      for (let i = 0; i < draws; i++) counts[sudare.told(file, { cell: sampler.draw(3) })]++;
      // each count within 6 standard deviations: a wrong law (weights or epsilon a tenth off) fails on these maps
      law.forEach((chance, cell) => assert.ok(Math.abs(counts[cell] - draws * chance) <= 6 * Math.sqrt(draws * chance) + 1));
      assert.ok(Math.abs(law.reduce((sum, chance) => sum + chance, 0) - 1) < 1e-9);
    });
  }

  test(`${form}: a cell that is none has no law`, () => {
    const device = sudare.openDevice(maps.plane, { store: memoryStore() });
    for (const cell of [-1, 2.5, 1e6, undefined]) assert.throws(() => device.law(cell), /^Error: the cell is outside the map/);
  });

  test(`${form}: many calls at once draw one place once`, async () => {
    const device = sudare.openDevice(maps.plane, { store: memoryStore() });
    const reports = await Promise.all(Array.from({ length: 20 }, () => device.report(3, "2026-11-16")));
    assert.equal(new Set(reports.map((report) => report.cell)).size, 1);
    assert.equal(await device.report(19, "2026-11-16"), null);
  });

  test(`${form}: caps of the app hold`, () => {
    assert.throws(() => sudare.openDevice(maps.plane, { store: memoryStore(), caps: { epsilonPerMetre: "0.0001" } }), /this app allows/);
  });

  test(`${form}: a device without a whole store is refused at once`, () => {
    for (const options of [undefined, {}, { store: null }, { store: { read() {}, write() {} } }, { store: memoryStore }]) {
      assert.throws(() => sudare.openDevice(maps.plane, options), /^Error: openDevice has no store; give browserStore/);
    }
  });

  test(`${form}: a cap that is misspelt or no number is refused, not left out`, () => {
    for (const caps of [{ epsilon: "0.01" }, { reportsPerDay: "many" }, { reportsPerMonth: NaN }, { reportsADay: 1 }, { epsilonPerMetre: "0,01" }])
      assert.throws(() => sudare.openDevice(maps.plane, { store: memoryStore(), caps }), Error, JSON.stringify(caps));
    const state = new sudare.Device(maps.plane, null, { caps: { reportsPerDay: 0 } }).report(3, "2026-11-16");
    assert.equal(state, null);
  });

  test(`${form}: a place in other words and a stored state that is no JSON are told as such`, async () => {
    const device = sudare.openDevice(maps.plane, { store: memoryStore() });
    for (const place of [{ lat: 35.68, lng: 139.76 }, { latitude: "35.68", longitude: 139.76 }, { latitude: 35.68 }, null, undefined])
      await assert.rejects(device.report(place), /^Error: latitude and longitude must be numbers of degrees$/);
    await assert.rejects(device.report({ latitude: 139.76, longitude: 35.68 }), /beyond 90 degrees/);
    for (const text of ["{", "", "null", "7", "[object Object]"]) {
      const store = memoryStore();
      await store.write(text);
      await assert.rejects(sudare.openDevice(maps.plane, { store }).report(3), /stored state of the device is damaged/);
      assert.equal(await store.read(), text);
    }
    assert.throws(() => new sudare.Sampler({ ...maps.plane, id: "" }, { isProven: true }), /not as Sudare wrote it/);
  });

  test(`${form}: the id is SHA-256 of everything else`, () => {
    const { id, ...facts } = maps.plane;
    const sorted = (value) =>
      Array.isArray(value) ? value.map(sorted) : value && typeof value === "object" ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])])) : value;
    assert.equal(createHash("sha256").update(JSON.stringify(sorted(facts))).digest("hex"), id);
  });
}
