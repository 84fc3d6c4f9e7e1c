// A file that is dropped or chosen goes to the studio on this computer as it is.
"use strict";
const drop = document.getElementById("drop"), file = document.getElementById("file");
const wrong = document.getElementById("fileerr"), said = document.getElementById("filesay");
for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, () => drop.classList.add("over"));
for (const name of ["dragleave", "drop"]) drop.addEventListener(name, () => drop.classList.remove("over"));
file.addEventListener("change", async () => {
  const chosen = file.files[0];
  if (!chosen) return;
  wrong.hidden = true;
  if (chosen.size > Number(file.dataset.most)) { tell(file.dataset.large); return; }
  said.hidden = false;
  try {
    const answer = await fetch("/table/upload", {
      method: "POST", body: chosen,
      headers: {"content-type": "application/octet-stream", "x-file-name": encodeURIComponent(chosen.name)},
    });
    if (answer.status === 413) { tell(file.dataset.large); return; }
    const told = await answer.json();
    if (told.go) { location.assign(told.go); return; }
    tell(told.error);
  } catch {
    tell(file.dataset.broken);
  }
});
function tell(words) { // beside the field; another file can be chosen at once
  wrong.textContent = words;
  wrong.hidden = false;
  said.hidden = true;
  file.value = "";
}
