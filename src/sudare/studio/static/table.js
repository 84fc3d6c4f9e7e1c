// A file that is dropped or chosen goes to the studio on this computer as it is.
"use strict";
const drop = document.getElementById("drop"), file = document.getElementById("file");
const wrong = document.getElementById("fileerr"), said = document.getElementById("filesay");
drop.hidden = false;
for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, () => drop.classList.add("over"));
for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
file.addEventListener("change", async () => {
  const chosen = file.files[0];
  if (!chosen) return;
  wrong.hidden = true;
  said.hidden = false;
  try {
    const answer = await fetch("/table/upload", {
      method: "POST", body: chosen,
      headers: {"content-type": "application/octet-stream", "x-file-name": encodeURIComponent(chosen.name)},
    });
    const told = await answer.json();
    if (told.go) { location.assign(told.go); return; }
    wrong.textContent = told.error;
  } catch (error) {
    wrong.textContent = String(error.message || error);
  }
  said.hidden = true;
  wrong.hidden = false;
  file.value = "";
});
