// Opens the session: the token stands behind the # of the address, which no server and no log ever sees.
"use strict";
const opened = document.getElementById("opened");
if (opened) {
  location.replace("/");
} else if (location.hash.length > 1) {
  const token = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", "/open");
  document.getElementById("token").value = token;
  document.getElementById("open").submit();
}
